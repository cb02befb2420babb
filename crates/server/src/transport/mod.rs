//! The transport of a connection: its socket, and TLS above it where the listener speaks TLS.

mod channel;
mod lane;
pub(crate) mod ring;
mod staging;

pub(crate) use channel::Transport;
pub(crate) use lane::Lane;
pub(crate) use staging::Staging;
