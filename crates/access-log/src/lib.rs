//! Access logs of web servers as neutral logged requests: Common and Combined Log Format, objects of JSON, and the records
//! of the World Cup of 1998.
//!
//! [`Lines`] reads a log of lines in bounded memory, [`Entry::parse`] one of them; [`world_cup`] has the records.
//! This crate does not know what is done with the requests.

pub mod calendar;
mod entry;
mod json;
mod lines;
mod time;
pub mod world_cup;

pub use entry::Entry;
pub use lines::{LINE_BYTES_MAX, Lines};
