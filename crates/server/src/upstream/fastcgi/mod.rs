//! FastCGI 1.0, one request at a time over a kept connection.

#![cfg_attr(not(test), expect(dead_code, reason = "wired by the handler"))]

pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod response;

#[cfg(test)]
mod tests;
