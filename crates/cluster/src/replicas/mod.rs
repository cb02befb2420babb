//! Sessions that outlive their node.
//!
//! A node gives a replica of each session whose response takes long to one other node (`replica.rs`), which keeps it
//! (`store.rs`), and holds what it has given (`given.rs`), for the next node that keeps them. When the director says that the node is down, the other one asks it for the flow and goes on where the
//! client has acknowledged (`position.rs`; `successor.rs` of the crate does it). The director grants that once, and only while the node is
//! down; a node that lives all the same hears which flows it has lost, and discards them.
//!
//! `LIFECYCLE.md` of `moving/` tells the whole.

mod births;
mod given;
mod position;
mod replica;
mod store;
mod words;

pub use births::Births;
pub use given::GivenReplicas;
pub use position::{Place, Position, Unfit};
pub use replica::{Batch, REPLICA_BYTES_MAX, Replica, SocketOptions};
pub use store::{Kept, ReplicaStore, StoreCounts};
pub use words::Word;
