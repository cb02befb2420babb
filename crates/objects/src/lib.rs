//! Objects and their interactions, by Horikawa, "A Framework for Performance Evaluation Based on Event Tracing"
//! (2000).
//!
//! An object is any entity that takes part in the work: a CPU, a disk, a task, a function, a lock, a client outside.
//! Objects interact by a request, an acceptance, a finish and perhaps a wait; `ours.toml` says which actual event is
//! which (`table.rs` reads it, and what users add), `events.rs` makes abstract events by it, and `fold.rs` gives these
//! to the ten steps of section 3.3.1: what each object did for each class of transactions, for the parts of these, and
//! for none.
//! For whom a task works is in `task.rs` and `conversation.rs`, the sums are in `usage.rs` and `accounts.rs`, and
//! `report.rs` hands them out; `occurrence.rs` has each interaction by itself, for tables and charts.
//! This crate knows no files and nothing of presentation.

mod abstraction;
mod accounts;
mod clients;
mod condition;
mod conversation;
mod ends;
mod events;
mod field;
mod fold;
mod learn;
mod names;
mod occurrence;
mod paths;
mod pattern;
mod report;
mod table;
mod task;
mod texts;
mod usage;

pub use abstraction::{AbstractEvent, Abstraction};
pub use events::ObjectId;
pub use fold::{Counts, Framework};
pub use occurrence::Occurrence;
pub use pattern::Pattern;
pub use report::{ClassReport, InteractionReport, ObjectReport, PairReport, PartReport, Report, TeamReport, UseReport};
pub use table::{Interaction, OURS, Table, Verb};
pub use usage::Usage;
