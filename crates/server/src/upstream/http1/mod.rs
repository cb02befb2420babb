//! HTTP/1.1 towards upstreams (RFC 9110, RFC 9112): requests are written, responses are read; no socket.

pub(crate) mod chunks;
pub(crate) mod digits;
mod forwarding;
pub(crate) mod names;
#[cfg(test)]
mod oracle;
pub(crate) mod request;
pub(crate) mod response;
#[cfg(test)]
mod tests;
pub(crate) mod upgrade;
