//! What loops have to tell the operator, such as why a request to an upstream failed: a queue with a bound, as a loop must
//! never wait for a terminal or a pipe.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Different lines that wait to be told; further ones are counted.
const LINES_MAX: usize = 64;

/// Lines that wait to be told.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// With how often each was said.
    lines: VecDeque<(String, u64)>,
    dropped: u64,
}

impl Notices {
    /// Has a line told within a second. One that waits already is counted.
    #[cold]
    pub(crate) fn tell(&self, line: String) {
        // A thread that panicked with the lock held left whole entries.
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, times)) = waiting.lines.iter_mut().find(|(known, _)| *known == line) {
            *times += 1;
        } else if waiting.lines.len() < LINES_MAX {
            waiting.lines.push_back((line, 1));
        } else {
            waiting.dropped += 1;
        }
    }

    /// Takes the lines that wait, as they are to be written.
    pub(crate) fn take(&self) -> Vec<String> {
        let Waiting { lines, dropped } = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let line = |(line, times): (String, u64)| if times == 1 { line } else { format!("{line} ({times} times)") };
        let more = (dropped > 0).then(|| format!("{dropped} more lines of other kinds were left out"));
        lines.into_iter().map(line).chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_counted_and_no_more_wait_than_the_bound() {
        let notices = Notices::default();
        (0..3).for_each(|_| notices.tell("same".to_owned()));
        (0..100).for_each(|number| notices.tell(format!("line {number}")));
        let taken = notices.take();
        assert_eq!((taken[0].as_str(), taken.len()), ("same (3 times)", LINES_MAX + 1));
        assert_eq!(taken[LINES_MAX], "37 more lines of other kinds were left out");
        assert_eq!(notices.take(), Vec::<String>::new());
    }
}
