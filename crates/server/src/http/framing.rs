//! How the end of a body is found (RFC 9112 section 6).

/// What follows the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
}
