//! WebSockets over HTTP/2 (RFC 8441): many of them on streams of each connection, each message answered before the next.
//!
//! `opening` asks for a stream that is a tunnel, and reads the answer; `exchange` is the way of a message; `carrier` is what
//! the server says of the connection, and `sending` what goes out over it; `closing` ends streams and connections, in good
//! order or not; `protocol` is what the loop asks of a protocol. The frames are those of `websocket` within those of
//! `http2`.

mod carrier;
mod closing;
mod drive;
mod exchange;
mod opening;
mod protocol;
mod sending;
mod state;

pub(crate) use drive::drive;
pub(crate) use opening::Opening;
pub(crate) use state::engine;
