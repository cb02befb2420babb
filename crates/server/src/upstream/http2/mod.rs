//! HTTP/2 towards upstreams (RFC 9113): one connection carries many requests; no socket.
//!
//! `request.rs` makes a block of fields of a head, `response.rs` reads blocks, `settings.rs` what the other side allows,
//! `stream.rs` holds one request and its response, and `connection.rs` has all of them with the frames between both
//! sides. `upstream/shared.rs` has the socket.

pub(crate) mod connection;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod settings;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
