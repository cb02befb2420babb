//! The last requests, kept in memory: each loop notes them in blocks, which it hands to a ring that the admin address reads.
//!
//! A request is noted where its line of the log is, so that a server without either has not one instruction more.

mod entry;
mod kept;
mod notes;
mod past;

pub(crate) use entry::Noted;
pub(crate) use kept::Recent;
pub(crate) use notes::RecentNotes;
pub(crate) use past::{Past, asked_of};
