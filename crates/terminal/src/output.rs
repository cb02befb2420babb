//! Printing reports.

use std::io::{self, ErrorKind, IsTerminal, Write};

/// Standard output that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("standard output cannot be written")]
pub struct PrintError(#[source] io::Error);

/// Prints to stdout; the reader may close the pipe early, as `head` does, and that is no error. A full disk is one:
/// half a report must not look like a whole one.
///
/// # Errors
/// [`PrintError`].
pub fn print(text: &str) -> Result<(), PrintError> {
    print_while_read(text).map(drop)
}

/// The same for output that goes on: `false` = the reader has closed the pipe.
///
/// # Errors
/// [`PrintError`].
pub fn print_while_read(text: &str) -> Result<bool, PrintError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(PrintError(error)),
    }
}

/// Columns of the terminal, within what reads well.
pub fn columns() -> usize {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes a winsize, which is what the pointer is to.
    let answered = unsafe { libc::ioctl(1, libc::TIOCGWINSZ, &raw mut size) } == 0;
    if answered && size.ws_col > 0 { usize::from(size.ws_col).clamp(64, 140) } else { 100 }
}

/// Columns of a table: the terminal's; where a program reads, as many as the table takes, for two rows whose names were
/// cut may look the same.
pub fn table_columns() -> usize {
    /// More than any table has.
    const UNBOUNDED: usize = 1 << 20;
    if io::stdout().is_terminal() { columns() } else { UNBOUNDED }
}

/// An error with its causes, each said once: many an error names its cause in its own sentence.
pub fn causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match said.as_str() {
        "" => cause,
        said if said.contains(&cause) => said.to_owned(),
        said => format!("{said}: {cause}"),
    })
}

/// Whether stdout wants colours.
pub fn colours() -> bool {
    shows_colours(&io::stdout())
}

/// Whether a stream wants colours: a terminal that can show them, and no NO_COLOR (no-color.org: set and not empty).
pub fn shows_colours(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    stream.is_terminal() && !refused && !dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        let own = weir_trace::WriteError::Io { path: "runs/a".into(), source: full() };
        let said = causes(&anyhow::Error::from(own).context("recording"));
        assert_eq!(said.matches(&full().to_string()).count(), 1, "{said}");
        assert!(said.starts_with("recording: runs/a: "), "{said}");
    }
}
