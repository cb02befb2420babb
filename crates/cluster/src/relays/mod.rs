//! Responses that the old node of a session goes on making, and the new one sends: an upstream was asked by the old node,
//! and its answer cannot be asked for again.
//!
//! The old node's server gives a socket for each, and its node process reads it (`outgoing.rs`); pieces go to the new
//! node in batches, and what that one has taken in comes back as credits (`word.rs`); the new node writes them to a socket
//! of its own server (`incoming.rs`). `carrier.rs` drives both sides. What the bytes mean only the servers know.
//!
//! A node holds at most [`WINDOW_BYTES`] of each at either side: a client that does not read holds the upstream back.
//! A piece says where it begins, so that one that was sent twice is taken in once. Where the old node says nothing for
//! [`RelaySettings::silence`], or the new one takes nothing for as long, the response is broken off, and its client can tell.
//!
//! Where the session moves again, the node in between passes the bytes on at first, and has the first node give them to the
//! third one itself (`passing.rs`): then it is out of the way.

mod bounds;
mod carrier;
mod counts;
mod incoming;
mod outgoing;
mod passing;
mod ready;
mod word;

pub use bounds::{RelaySettings, STAYS_MAX, WINDOW_BYTES};
pub use carrier::{Carrier, Carrying};
pub use counts::RelayCountsNow;
pub use word::{Credit, PieceOf, RelayId, RelayState, RelayWord, SameRelay, Turning};
