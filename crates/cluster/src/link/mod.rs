//! Links between members: messages over mutual TLS 1.3, with threads and blocking sockets.
//!
//! A link is opened by the member that asks (`client.rs`); the other one answers (`server.rs`). `channel.rs` seals, opens
//! and bounds what passes, and `trust.rs` says whom a member believes.

mod channel;
mod client;
mod counts;
mod members;
mod server;
mod settings;
mod trust;

pub use channel::Closed;
pub use client::{LinkClient, LinkError};
pub use counts::{LinkCounts, LinkCountsNow};
pub use members::Members;
pub use server::{Answering, LinkServer};
pub use settings::LinkSettings;
pub use trust::{HandshakeError, Trust, TrustError};
