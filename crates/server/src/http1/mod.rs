//! HTTP/1.0 and HTTP/1.1 over one connection (RFC 9112).

pub(crate) mod connection;
