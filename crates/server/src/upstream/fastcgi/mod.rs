//! FastCGI 1.0, one request at a time over a kept connection.

pub(crate) mod record;
pub(crate) mod request;
pub(crate) mod response;

#[cfg(test)]
mod tests;
