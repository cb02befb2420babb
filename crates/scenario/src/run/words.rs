//! Why there is no answer, in words.

use weir_load::Outcome;

/// What kept a request from a whole answer.
pub(crate) fn words_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::ConnectFailed => "no connection could be made",
        Outcome::Refused => "the server refused the connection",
        Outcome::ConnectTimedOut => "the connection was not made in time",
        Outcome::Closed => "the server closed the connection without a whole answer",
        Outcome::Reset => "the server reset the connection",
        Outcome::TimedOut => "no whole answer came in time",
        Outcome::Malformed => "what came is no answer of HTTP/1.1",
        Outcome::Tls => "the TLS handshake failed",
        Outcome::ShortBody => "the connection ended before all of the body came",
        Outcome::Proxy => "the proxy refused",
        Outcome::NoDescriptors => "this host has no more connections to give: raise the limit on open files",
        Outcome::NoPorts => "this host has no free ports",
        other => other.name(),
    }
}
