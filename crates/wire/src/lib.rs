//! The fixed event record, its kinds, and the bounded ring that carries them.
//!
//! This crate lives inside other people's processes, so it has no dependencies, allocates only for rings and
//! texts, and makes no system call.
//! It knows nothing of where events come from or what becomes of them.
//!
//! # Example
//!
//! ```
//! use weir_wire::{Kind, Record, ring};
//!
//! let (mut producer, mut consumer) = ring(64);
//! let record = Record { time_ns: 17, kind: Kind::SocketRecv as u16, a: 5, ..Record::default() };
//! assert!(producer.push(record, &[]));
//! let mut times = Vec::new();
//! assert_eq!(consumer.drain(100, |record, _slots| times.push(record.time_ns)), 1);
//! assert_eq!((times, consumer.dropped()), (vec![17], 0));
//! ```

pub mod arm;
pub mod asked;
pub mod client;
pub mod header_tables;
mod kinds;
pub mod probe;
pub mod quic;
mod record;
mod ring;
pub mod schema;
pub mod socket;
pub mod stack;
mod static_probe;
pub mod stream;
pub mod task;
pub mod trace_context;
pub mod watched;

pub use kinds::{KINDS, Kind, KindSpec};
pub use record::{MAX_SLOTS, Record, SLOT_BYTES, Slot, text_from_slots, text_slots};
pub use ring::{Consumer, Producer, RING_HEADER_WORDS, ring};
