//! Gossip of what may be a second old: who is there, how each node stands, which versions it has, what it is asked for.
//!
//! The crate chitchat reconciles what members say of themselves (Scuttlebutt) and tells which of them are silent (a phi
//! accrual detector). Its transport is ours: sealed datagrams in pieces, at the address of a member's heartbeats.
//! Nothing here needs the directory or the director.
//!
//! - `reading.rs` and `popular.rs` are what is said, as short texts within bounds.
//! - `pieces.rs` cuts messages into datagrams; `exchange.rs` seals, opens and paces them.
//! - `gossiper.rs` is the thread that gossips; `heard.rs` is what it has heard.

mod exchange;
mod gossiper;
mod heard;
mod pieces;
mod popular;
mod reading;

pub use exchange::GossipCounts;
pub use gossiper::{Gossip, GossipError, GossipPeer, GossipSettings};
pub use heard::{Heard, Introduction, RULES_BYTES_MAX};
pub use popular::{Asked, PATH_BYTES_MAX, POPULAR_MAX};
pub use reading::{GossipTextError, Reading, Sites, Strain};

/// Entries for the fuzz targets.
pub(crate) mod fuzzing {
    pub use crate::gossip::heard::{introduction_text, sites_text};
    pub use crate::gossip::pieces::{Pieces, Whole};
    pub use crate::gossip::popular::Slot;
}
