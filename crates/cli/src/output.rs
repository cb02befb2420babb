//! Printing reports.

use std::io::Write;

/// Prints to stdout; whoever reads may close the pipe early, as `head` does, and that is no error.
pub(crate) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
