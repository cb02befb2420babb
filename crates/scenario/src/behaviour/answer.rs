//! What came of a request.

use crate::behaviour::fields::Fields;
use weir_load::{Outcome, Url};

/// What came of a request, redirects included.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What answered, or why nothing did.
    pub by: AnsweredBy,
    /// Where the last request went.
    pub url: Url,
    /// The method of the last request.
    pub method: String,
    /// The header lines of the last answer, in their order, names as they came.
    pub headers: Fields,
    /// Its body, decoded (gzip, deflate, br, zstd), if it was to be kept.
    pub body: Vec<u8>,
    /// Whether the body is longer than what is kept of one, or could not be decoded.
    pub is_cut: bool,
    /// Times of the last request.
    pub timings: Timings,
    /// From the time at which it was intended to the end of the last answer, in nanoseconds, without time in scripts.
    pub latency_ns: u64,
    /// Bytes of requests and answers, all together, heads included.
    pub sent_bytes: u64,
    /// Bytes that were received.
    pub received_bytes: u64,
    /// The redirects that were followed, the first first, each with its status and times.
    pub redirects: Vec<Redirected>,
    /// Whether the status is an expected one.
    pub is_expected: bool,
}

/// A redirect that was followed.
#[derive(Debug, Clone)]
pub struct Redirected {
    /// The address that redirected.
    pub url: Url,
    /// Its status.
    pub status: u16,
    /// Its times.
    pub timings: Timings,
}

/// What answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnsweredBy {
    /// A whole answer with this status.
    Status(u16),
    /// None.
    Nothing(Failing),
}

/// Why there is no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// Which kind of failure.
    pub outcome: Outcome,
    /// In words.
    pub words: String,
}

/// Times of one request, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// From when it was asked until its connection was begun or its bytes went out: looking up names, waiting for a
    /// connection.
    pub blocked_ns: u64,
    /// Making the connection; 0 on one that was there.
    pub connecting_ns: u64,
    /// The TLS handshake, a proxy's consent included.
    pub handshaking_ns: u64,
    /// Giving the bytes to the kernel. The engine does not tell it apart from waiting: 0.
    pub sending_ns: u64,
    /// Until the first byte of the answer.
    pub waiting_ns: u64,
    /// Until its last.
    pub receiving_ns: u64,
}

impl Timings {
    /// Sending, waiting and receiving together.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.sending_ns + self.waiting_ns + self.receiving_ns
    }
}

impl Answer {
    /// Its status, 0 without an answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.by {
            AnsweredBy::Status(status) => status,
            AnsweredBy::Nothing(_) => 0,
        }
    }

    /// Whether it failed: no answer, or an unexpected status.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        !self.is_expected
    }

    /// The first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.values(name).next()
    }
}
