//! Printing reports.

use std::io::{IsTerminal, Write};

/// Prints to stdout; whoever reads may close the pipe early, as `head` does, and that is no error.
pub(crate) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Whether stdout wants colours: a terminal that can show them, and no NO_COLOR (no-color.org: set and not empty).
pub(crate) fn colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    std::io::stdout().is_terminal() && !refused && !dumb
}
