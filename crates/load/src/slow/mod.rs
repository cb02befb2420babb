//! Users on slow lines: how much their connections bring in a second, how far away they are, and when they click stop.
//!
//! The loop keeps the limits (`http1/slow.rs`, `http2/slow.rs`, `http3/slow.rs`) by a schedule of tokens for each
//! connection; a load that is not slow never uses them.

mod alarms;
mod client;
pub(crate) mod datagrams;
pub(crate) mod lines;
mod links;
pub(crate) mod patience;
pub(crate) mod tokens;

pub use client::SlowClient;
pub use links::Link;
