//! HTTP/2 (RFC 9113), by prior knowledge in the clear and by ALPN over TLS.
//!
//! `connection.rs` receives and sends, `incoming.rs` takes frames up, `message.rs` makes a request of fields, and
//! `stream.rs` puts responses into frames; `farewell.rs` says when a client is told what of the end; `frame.rs`, `hpack.rs`, `huffman.rs` and `encode.rs` know bytes only.
//! All frames of one reception are taken up before anything is sent, so that their responses go out together.
//! HTTP/3 has the rules of `message.rs`, the code of `huffman.rs`, the bounds of `allowance.rs` and the order of
//! `farewell.rs` from here.
//! Priorities are read and ignored, as the standard allows; streams take turns, one frame each.

pub(crate) mod allowance;
mod connection;
pub(crate) mod encode;
mod frame;
pub(crate) mod hpack;
mod huffman;
mod incoming;
pub(crate) mod message;
pub(crate) mod parked;
mod stream;

pub(crate) use connection::Connection;
pub(crate) use stream::append;
