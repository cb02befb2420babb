//! Streams of HTTP/2 and the names of requests that go over TLS, from the bytes that pass a server's sockets and its TLS
//! library.
//!
//! The programs in the kernel (`bpf/http2.h`) tell the heads of frames, and the bytes of requests' and responses' heads;
//! here those are read, with the table that each direction of a connection has. What they say beside method, path and
//! status is forgotten at once, and no run keeps it.

mod heads;
mod hpack;
mod huffman;
mod source;

pub use heads::Heads;
pub use hpack::{Decoder, Unreadable};
pub use source::{HeadTraces, Streams};
