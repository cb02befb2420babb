//! What a command prints, read as it comes so that it never waits for us, the end of it kept.
use std::collections::VecDeque;
use std::io::{self, PipeReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread that reads a pipe up to its end and keeps the last bytes.
pub(crate) struct OutputTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: JoinHandle<()>,
}

impl OutputTail {
    /// Reads `pipe` and keeps at most `bytes_max`.
    pub(crate) fn read(mut pipe: PipeReader, bytes_max: usize) -> io::Result<Self> {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let shared = Arc::clone(&kept);
        let reader = thread::Builder::new().name("weir-output".to_owned()).spawn(move || {
            let mut buffer = [0; 8192];
            loop {
                match pipe.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => keep(&shared, &buffer[..count], bytes_max),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        })?;
        Ok(Self { kept, reader })
    }

    /// What was kept. Waits for the pipe's end, but no longer than `patience`: a process that
    /// outlives the command may hold the pipe open.
    pub(crate) fn text(&self, patience: Duration) -> String {
        let deadline = Instant::now() + patience;
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept.iter().copied().collect::<Vec<u8>>()).into_owned()
    }
}

fn keep(kept: &Mutex<VecDeque<u8>>, bytes: &[u8], bytes_max: usize) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.extend(bytes);
    let excess = kept.len().saturating_sub(bytes_max);
    kept.drain(..excess);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_end_is_kept_and_an_open_pipe_does_not_hold_us() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let tail = OutputTail::read(reader, 4).expect("a thread");
        writer.write_all(b"0123456789").expect("the tail reads");
        // Still open: only the time limit ends the wait.
        assert!(tail.text(Duration::from_millis(50)).len() <= 4);
        drop(writer);
        assert_eq!(tail.text(Duration::from_secs(10)), "6789");
    }
}
