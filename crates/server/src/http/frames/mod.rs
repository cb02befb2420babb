//! What servers and clients of HTTP/2 have in common: frames (RFC 9113 section 4), the compression of fields (RFC 7541),
//! and how many frames that bring nothing a peer may send.

pub(crate) mod allowance;
pub(crate) mod frame;
pub(crate) mod hpack;
pub(crate) mod huffman;
