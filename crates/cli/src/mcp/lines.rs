//! Lines of standard input, each within its bound.

use std::io::{BufRead, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weir_mcp::LINE_BYTES_MAX;

/// Lines that wait at most; a client that sends more waits.
const WAITING: usize = 16;

/// Reads standard input in a thread of its own, to its end; `None` for a line that is too long.
pub(super) fn of_stdin() -> Receiver<Option<Vec<u8>>> {
    let (to, lines) = sync_channel(WAITING);
    std::thread::spawn(move || read(std::io::stdin().lock(), &to));
    lines
}

fn read(mut from: impl BufRead, to: &SyncSender<Option<Vec<u8>>>) {
    loop {
        let mut line = Vec::new();
        let most = LINE_BYTES_MAX as u64 + 1;
        match from.by_ref().take(most).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let is_whole = line.last() == Some(&b'\n');
        if is_whole {
            line.pop();
        }
        let is_long = !is_whole && line.len() > LINE_BYTES_MAX;
        if is_long && !skipped(&mut from) {
            let _gone = to.send(None);
            return;
        }
        if !is_long && line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if to.send((!is_long).then_some(line)).is_err() {
            return;
        }
    }
}

/// Passes over the rest of a line; false at the end.
fn skipped(from: &mut impl BufRead) -> bool {
    loop {
        let Ok(piece) = from.fill_buf() else { return false };
        if piece.is_empty() {
            return false;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(piece.len(), |at| at + 1);
        from.consume(used);
        if end.is_some() {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_told_and_the_next_is_read() {
        let text = [vec![b'x'; LINE_BYTES_MAX + 5], b"\n\n{}\nlast".to_vec()].concat();
        let (to, lines) = sync_channel(8);
        read(&text[..], &to);
        drop(to);
        assert_eq!(lines.iter().collect::<Vec<_>>(), [None, Some(b"{}".to_vec()), Some(b"last".to_vec())]);
    }
}
