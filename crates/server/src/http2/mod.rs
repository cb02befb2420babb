//! HTTP/2 (RFC 9113), by prior knowledge in the clear and by ALPN over TLS.
//!
//! `connection.rs` receives and sends, `incoming.rs` handles frames, `message.rs` makes a request of fields, and
//! `stream.rs` puts responses into frames; `goaway.rs` decides when the connection sends which GOAWAY; `encode.rs`
//! and `http/frames/` only code and decode bytes. All frames of one reception are handled before anything is sent, so that their responses go out together. HTTP/3 uses `message.rs`, `huffman.rs`, `allowance.rs`
//! and `goaway.rs` too. Priorities are read and ignored, as the standard allows; streams take turns, one frame each.

mod connection;
mod continued;
pub(crate) mod encode;
mod incoming;
pub(crate) mod message;
pub(crate) mod parked;
mod stream;

pub(crate) use connection::Connection;
pub(crate) use stream::append;
