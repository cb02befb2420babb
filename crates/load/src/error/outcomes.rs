//! How failed calls count.

use crate::error::tls_words::tls_error;
use std::io;
use weir_wire::client::Outcome;

/// How a connect call that failed counts.
pub(crate) fn outcome_of_connect(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => Outcome::Refused,
        // It was made, and reset before anybody here had looked: a host that does not accept refuses.
        Some(libc::ECONNRESET) => Outcome::Reset,
        Some(libc::ETIMEDOUT) => Outcome::ConnectTimedOut,
        Some(libc::EMFILE | libc::ENFILE) => Outcome::NoDescriptors,
        Some(libc::EADDRNOTAVAIL) => Outcome::NoPorts,
        None if error.kind() == io::ErrorKind::TimedOut => Outcome::ConnectTimedOut,
        _ => Outcome::ConnectFailed,
    }
}

/// How a failed call on a connection counts.
pub(crate) fn outcome_of(error: &io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Outcome::Reset,
        io::ErrorKind::UnexpectedEof => Outcome::Closed,
        io::ErrorKind::TimedOut => Outcome::TimedOut,
        _ if tls_error(error).is_some() => Outcome::Tls,
        _ => Outcome::Other,
    }
}
