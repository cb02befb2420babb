//! The loop of one thread: when the next request begins, how connections are made and end, and what is counted.
//!
//! It is one loop for all versions of HTTP. What a version does of its own, how a request goes out and how a response
//! is read, it does by [`protocol::ProtocolLoop`]; the compiler makes a loop of its own for each version.
//!
//! `state` is what a loop has, `driving` its turns, `connecting` a connection's way from the call to its end.

mod connecting;
mod driving;
pub(crate) mod events;
pub(crate) mod following;
pub(crate) mod protocol;
pub(crate) mod sessions;
pub(crate) mod slowest;
pub(crate) mod stage;
pub(crate) mod state;
pub(crate) mod streaming;
mod unread;
pub(crate) mod wanted;
