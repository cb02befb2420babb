//! The interface between the server, which carries decisions out, and the adviser, which makes them by its rules.

use crate::files::variants::FULL;
use crate::policy::lease::Lease;
use std::ops::Deref;
use std::sync::Arc;

/// What the adviser is told about a request.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The path from the root of its site, decoded, without a query.
    pub path: &'a str,
    /// The client's address; that of a Unix socket is unspecified.
    pub client: std::net::IpAddr,
    /// The connection, a number that is never given to another one. Several of its requests may be under way.
    pub connection: u64,
    /// What is known of the client's connection.
    pub link: Link,
    /// `remember` of the last advice for this path in this loop; 0 where there was none.
    pub remembered: u64,
    /// The caller would take a lease.
    pub takes_lease: bool,
}

/// What is known of a client's connection; `None` is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Link {
    /// Bits a second that the client takes while there is something for it.
    pub bandwidth_bps: Option<f64>,
    /// The round trip, in seconds.
    pub rtt_s: Option<f64>,
}

/// A request that was advised about, of which it is asked which rules have decided.
#[derive(Debug, Clone, Copy)]
pub struct DecidedQuestion {
    /// The number that its advice gave for the report of its end.
    pub ticket: u64,
    /// The client's address.
    pub client: std::net::IpAddr,
    /// The connection.
    pub connection: u64,
    /// How many decisions there were before its advice; none where that is not known.
    pub decisions_before: Option<u64>,
}

/// A rule that has decided about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedBy {
    /// Its name.
    pub rule: String,
    /// The file that it stands in.
    pub file: String,
    /// Its line there, from 1.
    pub line: usize,
    /// What it orders, in words.
    pub orders: String,
}

/// What is to be done with a request or a response under way.
#[derive(Debug, Clone, Default)]
pub struct Advice {
    /// The variant to answer with. None = nothing is chosen.
    pub variant: Option<Names>,
    /// Refuse it with 503; the client may come again after so many seconds.
    pub refuse_retry_after_s: Option<u32>,
    /// The server may send cached content without a look at the file, and a page as it was assembled before, if that
    /// was up to date at most so many milliseconds ago. None = answers may be no older than without rules.
    pub stale_ms_max: Option<u64>,
    /// A number that the report of the response's end returns to the adviser.
    pub ticket: u64,
    /// A number that the next question for this path from the same loop returns to the adviser.
    pub remember: u64,
    /// With a lease the loop may repeat this advice for the connection and path without asking; this request does not
    /// count in it. Only for advice that chooses nothing, or the file itself, while no new look at the link is due.
    pub lease: Option<Arc<Lease>>,
}

/// Variants to answer with, by name: the first that is there. `full` is the file itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// The file itself: nearly every answer, so that it is said without a text.
    Full,
    /// A list with spaces between: behind the first one those that stand in for it where it is missing, in this order.
    Listed(Arc<str>),
}

impl Deref for Names {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Full => FULL,
            Self::Listed(names) => names,
        }
    }
}

impl From<&str> for Names {
    fn from(names: &str) -> Self {
        if names == FULL { Self::Full } else { Self::Listed(names.into()) }
    }
}

impl From<Names> for Arc<str> {
    fn from(names: Names) -> Self {
        match names {
            Names::Full => FULL.into(),
            Names::Listed(names) => names,
        }
    }
}

/// Says nothing: for responses that came from a server with rules to one without.
#[derive(Debug)]
pub(crate) struct NoRules;

impl Adviser for NoRules {
    fn governs(&self, _path: &str) -> bool {
        false
    }

    fn begin(&self, _question: &Question<'_>) -> Advice {
        Advice::default()
    }

    fn during(&self, _connection: u64, _link: Link) -> Option<Arc<str>> {
        None
    }

    fn end(&self, _connection: u64, _ticket: u64, _bytes: u64, _failed: bool) {}
}

/// Asked by the event loops, from several threads; must not block.
pub trait Adviser: Send + Sync + std::fmt::Debug {
    /// Whether any rule is for this path: asked once for each path that is loaded, the answer is kept with it until
    /// there is another edition.
    fn governs(&self, path: &str) -> bool;
    /// Whether advice for such a path may depend on the client's link, so that clients are asked to say what they know
    /// of it (`Accept-CH`, RFC 8942 section 3.1). Asked and kept as `governs` is.
    fn asks_hints(&self, _path: &str) -> bool {
        true
    }
    /// Another number where these two may answer otherwise than before. Loops compare it twice a second while they have
    /// something to do, and at once where they are given an order ([`crate::Control`]).
    fn edition(&self) -> u64 {
        0
    }
    /// Whether any advice may allow stale answers at the moment: then what has changed is kept until it is asked for.
    fn may_be_stale(&self) -> bool {
        false
    }
    /// A request for a governed path is about to be answered.
    fn begin(&self, question: &Question<'_>) -> Advice;
    /// What the advice of this ticket was for had to wait for so many nanoseconds before its response could be made:
    /// for a place among as many as may be under way, and for its file to be found and read. Said only where it had to.
    fn waited(&self, _ticket: u64, _waited_ns: u64) {}
    /// A response of a governed path is under way, at most every 100 ms: another variant to go on with?
    fn during(&self, connection: u64, link: Link) -> Option<Arc<str>>;
    /// How many decisions were made so far; none where that cannot be told without a wait. Asked for watched requests
    /// only.
    fn decisions(&self) -> Option<u64> {
        Some(0)
    }
    /// The rules that have decided about a request; none where that cannot be told any more, or not without a wait.
    /// Asked for watched requests only.
    fn decided_by(&self, _question: &DecidedQuestion) -> Option<Vec<DecidedBy>> {
        Some(Vec::new())
    }
    /// The rule that has decided last for the session of a connection; none where that cannot be told any more, or not
    /// without a wait. Asked when a response is to go on in another variant.
    fn decided_last(&self, _connection: u64) -> Option<DecidedBy> {
        None
    }
    /// It is over; the ticket is that of the advice.
    fn end(&self, connection: u64, ticket: u64, bytes: u64, failed: bool);
}
