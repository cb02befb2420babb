//! HTTP/3 (RFC 9114), over the connections of `quic/`.
//!
//! `connection.rs` says what a connection waits for, `incoming.rs` handles what a client sends, `stream.rs` puts
//! responses into frames, `inbound.rs` reads the streams that are about the connection itself; `frame.rs`, `qpack.rs`
//! and `encode.rs` only code and decode bytes, and `marks.rs` tells tracers of requests. Requests are read as in HTTP/2. No dynamic table is allowed or used, so
//! that a request depends on no other stream. The server pushes nothing, and reads and ignores priorities as the
//! standards allow; streams take turns.

mod connection;
mod encode;
mod frame;
mod inbound;
mod incoming;
mod marks;
mod now;
mod qpack;
mod stream;

pub(crate) use connection::Connection;
pub(crate) use frame::Code;
