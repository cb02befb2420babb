//! One line on the terminal that says how far we are; nothing where stderr is none.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The line. It is erased when dropped.
#[derive(Debug)]
pub struct Line {
    terminal: bool,
    next: Instant,
    shown: bool,
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Line {
    /// A line that first shows after a moment: short work needs none.
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            next: Instant::now() + Duration::from_millis(500),
            shown: false,
        }
    }

    /// Shows a text, at most four times a second.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if !self.terminal || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + Duration::from_millis(250);
        self.shown = true;
        eprint!("\r\x1b[2K{}", text());
        let _ = std::io::stderr().flush();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[2K");
        }
    }
}
