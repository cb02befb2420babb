//! What a caller chooses about an access log.

use super::format::{Format, FormatError};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// An access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// Where the lines go.
    pub target: LogTarget,
    /// Which fields a line has.
    pub format: LogFormat,
    /// Write query strings, also those in referrers, instead of `?-`. Default: no.
    pub queries: bool,
    /// Write whole client addresses instead of their network (IPv4 /24, IPv6 /48). Default: no.
    pub addresses: bool,
    /// When a new file is begun, and how many are kept. Default: never; others may do it.
    pub rotation: Option<Rotation>,
}

impl AccessLog {
    /// A log in the Combined Log Format with queries and addresses redacted.
    pub fn new(target: LogTarget) -> Self {
        Self { target, format: LogFormat::Combined, queries: false, addresses: false, rotation: None }
    }
}

/// When a log begins a new file: `access.log` becomes `access.log.1`, which becomes `access.log.2`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes of a file; what would exceed them goes into a new one.
    pub bytes_max: Option<u64>,
    /// Age of a file, with a resolution of a second; an empty file does not age.
    pub age_max: Option<Duration>,
    /// Files kept beside the one that is written; the oldest is removed. With 0 what was written is.
    pub keep: u32,
}

/// Where access log lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// A file that is appended to, and opened again when asked by [`crate::Server::reopen_log_flag`].
    File(PathBuf),
}

/// The fields of an access log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// `host ident user [time] "request" status bytes`.
    Common,
    /// The same, then `"referrer" "user agent"`.
    Combined,
    /// An object: `time`, `client`, `user`, `host`, `method`, `target`, `protocol`, `status`, `bytes` (of the body),
    /// `duration_us`, `referrer`, `user_agent`.
    Json,
    /// Fields by Apache's letters.
    Own(OwnFormat),
}

/// A format with the letters of Apache's `LogFormat`, made by parsing it: `%h %u %t "%r" %>s %O %D`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFormat(pub(crate) Format);

impl FromStr for OwnFormat {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        Format::read(text).map(Self)
    }
}
