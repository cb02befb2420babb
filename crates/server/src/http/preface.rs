//! How connections of HTTP/2 begin, for who has to tell them from others (RFC 9113 section 3.4).

/// How every connection begins (RFC 9113 section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether a connection may begin with its preface, as far as it was received.
pub(crate) fn begins(input: &[u8]) -> bool {
    let len = input.len().min(PREFACE.len());
    input[..len] == PREFACE[..len]
}
