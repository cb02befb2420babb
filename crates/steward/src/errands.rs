//! What is to be kept or told elsewhere goes over a pipe to a process of its own, the clerk: a server that has given up
//! files, connections and programs can do none of it, and must not wait for who can.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::process::ChildStdin;
use std::time::{Duration, Instant};

/// Bytes that wait for the pipe; lines beyond them are dropped and counted.
const WAITING_MAX: usize = 8 << 20;

/// What a line of the pipe is about: its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errand {
    /// A recording begins with this header.
    Header = b'H' as isize,
    /// A line of the recording.
    Line = b'L' as isize,
    /// A look at everything, to be kept.
    Look = b'E' as isize,
    /// A decision, to be kept.
    Decision = b'D' as isize,
    /// Somebody is to be told.
    Alert = b'A' as isize,
    /// All of a tick was sent.
    Flush = b'F' as isize,
}

impl Errand {
    pub(crate) const ALL: [Self; 6] = [Self::Header, Self::Line, Self::Look, Self::Decision, Self::Alert, Self::Flush];

    pub(crate) fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|errand| *errand as u8 == byte)
    }
}

/// The way to the clerk.
#[derive(Debug)]
pub(crate) struct Errands {
    pipe: Option<ChildStdin>,
    waiting: VecDeque<u8>,
    /// Lines of the recording, and others, that were dropped.
    pub(crate) lines_dropped: u64,
    pub(crate) others_dropped: u64,
    /// The clerk has ended, and nothing is kept or told elsewhere any more.
    pub(crate) is_gone: bool,
}

impl Errands {
    /// Over a pipe that does not wait; without one nothing is sent, and nothing counts as dropped.
    pub(crate) fn new(pipe: Option<ChildStdin>) -> Self {
        Self { pipe, waiting: VecDeque::new(), lines_dropped: 0, others_dropped: 0, is_gone: false }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Puts a line into the queue. `false`: there was no room for it.
    pub(crate) fn put(&mut self, errand: Errand, line: &str) -> bool {
        if self.pipe.is_none() {
            return true;
        }
        if self.waiting.len() + line.len() + 2 > WAITING_MAX {
            let count = if errand == Errand::Line { &mut self.lines_dropped } else { &mut self.others_dropped };
            *count += 1;
            return false;
        }
        self.waiting.push_back(errand as u8);
        self.waiting.extend(line.as_bytes());
        self.waiting.push_back(b'\n');
        true
    }

    /// Writes what the pipe takes.
    pub(crate) fn send(&mut self) {
        while let (Some(pipe), false) = (&mut self.pipe, self.waiting.is_empty()) {
            match pipe.write(self.waiting.as_slices().0) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The clerk has gone; what it would have done is not done any more.
                Err(_) => {
                    (self.pipe, self.is_gone) = (None, true);
                    self.waiting.clear();
                }
            }
        }
    }

    /// Writes what is left for so long, and closes the pipe.
    pub(crate) fn finish(&mut self, most: Duration) {
        let until = Instant::now() + most;
        self.send();
        while !self.waiting.is_empty() && self.is_open() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            self.send();
        }
        self.pipe = None;
    }
}
