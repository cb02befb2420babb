//! What can fail.

use crate::message::Problem;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Why no certificate was obtained.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AcmeError {
    /// A URL is not one that the client asks.
    #[error("{url} is no URL for ACME; give one that begins with https://")]
    Url {
        /// The URL.
        url: String,
    },
    /// The authority cannot be reached.
    #[error("cannot reach {url}: {why}; check its name, the network and the firewall")]
    Unreachable {
        /// The URL.
        url: String,
        /// The reason.
        why: String,
    },
    /// The authority answered with something that is not ACME.
    #[error("{url} answers, but not in ACME: {why}; check the directory's URL")]
    NotAcme {
        /// The URL.
        url: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The authority refused a request.
    #[error("the authority refuses {what}: {problem}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Its words.
        problem: Problem,
        /// How long it wants the client to wait.
        retry_after: Option<Duration>,
    },
    /// The authority did not find the answer to a challenge.
    #[error("the authority could not check {name} by {kind}: {problem}")]
    Unproved {
        /// The name.
        name: String,
        /// The challenge.
        kind: &'static str,
        /// Its words.
        problem: Problem,
    },
    /// The authority offers no challenge that may be used.
    #[error("the authority offers {offered} for {name}, and none of them may be used; set `challenge` to one of these")]
    NoChallenge {
        /// The name.
        name: String,
        /// The types that it offers.
        offered: String,
    },
    /// An order or an authorization did not come to an end.
    #[error("the authority did not finish {what} within {} s; it is tried again later", patience.as_secs())]
    TimedOut {
        /// What did not end.
        what: &'static str,
        /// How long the client waited.
        patience: Duration,
    },
    /// The chain cannot be used.
    #[error("the authority issued a certificate for {name} that cannot be used: {why}")]
    Certificate {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key or a certificate request could not be made.
    #[error("cannot make {what}: {why}")]
    Crypto {
        /// What was to be made.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// A file of the caller cannot be used.
    #[error("cannot use {path}: {why}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason, and the remedy.
        why: String,
    },
    /// The storage cannot be used.
    #[error("cannot keep certificates in {path}: {source}; make it a directory that the server's user may write",
        path = path.display())]
    Storage {
        /// The file or directory.
        path: PathBuf,
        /// The system's refusal.
        source: io::Error,
    },
    /// Another process keeps certificates in the same directory.
    #[error("another process keeps the certificates in {path}; this one takes over when it ends", path = path.display())]
    Kept {
        /// The directory.
        path: PathBuf,
    },
    /// The server did not take the answer to a challenge.
    #[error("the server does not answer the challenge: {0}")]
    NotAnswered(#[source] io::Error),
}

impl AcmeError {
    /// How long the authority wants the client to wait, if it says so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same would happen to any other name at the moment.
    pub(crate) fn is_of_all_names(&self) -> bool {
        match self {
            Self::Url { .. }
            | Self::Unreachable { .. }
            | Self::NotAcme { .. }
            | Self::File { .. }
            | Self::Storage { .. }
            | Self::Kept { .. } => true,
            Self::Refused { what, problem, .. } => *what == "an account" || problem.status >= 500,
            _ => false,
        }
    }
}
