//! The move of a session between nodes.
//!
//! The two sides are state machines without clock or socket: `giving.rs` at the old node, `taking.rs` at the new one.
//! `mover.rs` drives both over the traits of `parts.rs`, and `registry.rs` counts and tells what happened.
//!
//! Only the director decides who has a flow. The new node asks it twice: to be sent the packets (`Steer`), and, once its
//! socket is restored, to go on (`Confirm`). An old node that hears nothing asks it to have the flow back (`Reclaim`).
//! Of `Confirm` and `Reclaim` the first wins, and the other side is refused for good. So no two nodes go on with one
//! flow, and none is lost while the old node lives, unless the new one dies behind its `Confirm`.

mod giving;
mod mover;
mod own_keeper;
mod parts;
mod reasons;
mod registry;
mod taking;

pub use giving::{Giving, GivingStep, Heard};
pub use mover::{MoveError, Mover, MoverSettings};
pub use parts::{
    Directing, DirectingError, Keeper, KeeperFault, Relaying, SessionError, Sessions, Taken, TakenRelay, Transport,
    TransportError,
};
pub use registry::{Counts, Event, Outcome, Registry};
pub use taking::{Answer, Taking, TakingInput, TakingStep};
