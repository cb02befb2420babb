//! A run on its way from the host that records it to the one that asked for it: what is said over the connection.
//!
//! Each frame is a line of words; behind one of a file follow the file's bytes. What the login shell of the other host
//! prints before the greeting is passed over.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

/// The first line that counts: the version of what follows.
pub const GREETING: &str = "weir-run 1";
/// No line is longer, bytes.
const MOST_LINE: u64 = 512;
/// A login shell says no more than so much before the greeting, bytes.
const MOST_BEFORE: usize = 1 << 16;
/// Parts of a file's path below the run directory.
const MOST_PARTS: usize = 3;

/// One thing that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The probes are loaded; the recording begins when it is told to.
    Ready,
    /// The recording has begun.
    Recording,
    /// A file of the run, whose bytes follow.
    File {
        /// Where it is, below the run directory.
        path: PathBuf,
        /// How long it is, bytes.
        bytes: u64,
    },
    /// The run is complete.
    Done {
        /// Events that were recorded.
        events: u64,
        /// Events that were lost.
        lost: u64,
    },
}

/// Why what another host says is no recording's.
#[derive(Debug)]
pub enum FrameError {
    /// It ended before the run was complete.
    Ended,
    /// The greeting did not come.
    NoGreeting,
    /// A line that no recording says; its first characters.
    Unknown(String),
    /// It could not be read.
    Io(io::Error),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended => f.write_str("it ended before its run was complete"),
            Self::NoGreeting => f.write_str(
                "its weir says nothing that this one knows; both need the same version (--remote-weir names another one)",
            ),
            Self::Unknown(line) => write!(f, "it said {line:?}, which no recording says; nothing of it is kept"),
            Self::Io(error) => write!(f, "what it said cannot be read: {error}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl Frame {
    /// Writes the frame's line.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Ready => writeln!(to, "ready"),
            Self::Recording => writeln!(to, "recording"),
            Self::File { path, bytes } => writeln!(to, "file {bytes} {}", path.display()),
            Self::Done { events, lost } => writeln!(to, "done {events} {lost}"),
        }?;
        to.flush()
    }

    /// Reads a line; `None` if it is no frame's.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let frame = match words.next()? {
            "ready" => Self::Ready,
            "recording" => Self::Recording,
            "file" => {
                let bytes = words.next()?.parse().ok()?;
                Self::File { path: below(words.next()?)?, bytes }
            }
            "done" => Self::Done { events: words.next()?.parse().ok()?, lost: words.next()?.parse().ok()? },
            _ => return None,
        };
        words.next().is_none().then_some(frame)
    }
}

/// A path that leads nowhere but below the directory that it is joined to; `None` for any other text.
#[must_use]
pub fn below(text: &str) -> Option<PathBuf> {
    let is_name = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
    };
    let parts: Vec<&str> = text.split('/').collect();
    (parts.len() <= MOST_PARTS && parts.iter().all(|part| is_name(part))).then(|| parts.iter().collect())
}

/// Passes over what comes before the greeting.
///
/// # Errors
/// [`FrameError::NoGreeting`] if it does not come, [`FrameError::Io`].
pub fn greet(from: &mut impl BufRead) -> Result<(), FrameError> {
    let mut before = 0;
    while before < MOST_BEFORE {
        let line = line(from)?;
        match line.as_deref() {
            None => return Err(FrameError::NoGreeting),
            Some(GREETING) => return Ok(()),
            Some(other) => before += other.len() + 1,
        }
    }
    Err(FrameError::NoGreeting)
}

/// The next frame. The bytes of a file are left to be read.
///
/// # Errors
/// [`FrameError`]: the other side has ended, or says what is no frame.
pub fn next(from: &mut impl BufRead) -> Result<Frame, FrameError> {
    let line = line(from)?.ok_or(FrameError::Ended)?;
    Frame::parse(&line).ok_or_else(|| FrameError::Unknown(line.chars().take(60).collect()))
}

/// A line without its end, or so much of it as is read at a time; `None` at the end, and for a line that is cut off there.
fn line(from: &mut impl BufRead) -> Result<Option<String>, FrameError> {
    let mut bytes = Vec::new();
    io::Read::take(from, MOST_LINE).read_until(b'\n', &mut bytes).map_err(FrameError::Io)?;
    match bytes.last() {
        Some(b'\n') => drop(bytes.pop()),
        Some(_) if bytes.len() as u64 >= MOST_LINE => {}
        _ => return Ok(None),
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_login_shell_prints_is_passed_over() {
        let mut said: &[u8] = b"Welcome to web\n\nweir-run 1\nready\ndone 7 0\n";
        greet(&mut said).expect("the greeting comes");
        assert_eq!(next(&mut said).expect("a frame"), Frame::Ready);
        assert_eq!(next(&mut said).expect("a frame"), Frame::Done { events: 7, lost: 0 });
        assert!(matches!(next(&mut said), Err(FrameError::Ended)));
        let endless = vec![b'x'; 4 * MOST_BEFORE];
        assert!(matches!(greet(&mut endless.as_slice()), Err(FrameError::NoGreeting)));
    }

    #[test]
    fn no_file_lies_elsewhere() {
        let paths = ["../x", "/etc/passwd", "segments/../../x", "a//b", "", ".ssh", "a/b/c/d", "a\\b", "segments/"];
        for path in paths {
            assert_eq!(Frame::parse(&format!("file 3 {path}")), None, "{path}");
        }
        assert!(Frame::parse("file 3 segments/kernel-0.1.seg").is_some());
        for line in ["file 3", "file -1 a", "file 3 a b", "done 1", "ready now", "end", ""] {
            assert_eq!(Frame::parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written(bytes: u64, events: u64, lost: u64, name in "[a-z0-9][a-z0-9._-]{0,30}") {
            let path = PathBuf::from("segments").join(name);
            let frames = [Frame::Ready, Frame::Recording, Frame::File { path, bytes }, Frame::Done { events, lost }];
            let mut written = Vec::new();
            for frame in &frames {
                frame.write(&mut written).expect("into memory");
            }
            let mut said = written.as_slice();
            for frame in &frames {
                prop_assert_eq!(&next(&mut said).expect("a frame"), frame);
            }
        }

        /// Bytes of any kind are a frame, refused, or the end, and each look takes some of them.
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            let mut said = bytes.as_slice();
            for _ in 0..=bytes.len() {
                if let Ok(Frame::File { path, .. }) = next(&mut said) {
                    prop_assert!(path.components().all(|one| matches!(one, std::path::Component::Normal(_))));
                }
            }
            prop_assert!(said.is_empty());
        }
    }
}
