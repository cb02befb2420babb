//! The fixed event record, its kinds, and the bounded ring that carries them.
//!
//! This crate lives inside other people's processes, so it has no dependencies, allocates only for rings and
//! texts, and makes no system call.
//! It knows nothing of where events come from or what becomes of them.

pub mod arm;
pub mod client;
mod kinds;
pub mod probe;
mod record;
mod ring;
pub mod schema;
pub mod socket;
pub mod stack;
pub mod task;
pub mod watched;

pub use kinds::{KINDS, Kind, KindSpec};
pub use record::{MAX_SLOTS, Record, SLOT_BYTES, Slot, text_from_slots, text_slots};
pub use ring::{Consumer, Producer, RING_HEADER_WORDS, ring};
