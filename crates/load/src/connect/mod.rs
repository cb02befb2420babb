//! Connections: sockets, what a proxy and TLS add, and the way of one connection from the call to its end.

pub(crate) mod connection;
pub(crate) mod connector;
mod datagram_socket;
pub(crate) mod datagrams;
pub(crate) mod endpoint;
pub(crate) mod endpoints;
pub(crate) mod kernel;
pub(crate) mod names;
pub(crate) mod read_ahead;
pub(crate) mod route;
pub(crate) mod session_store;
pub(crate) mod spread;
pub(crate) mod stream;
pub(crate) mod trust;
pub(crate) mod witness;
