//! Segments, run directories and what is written to them.

mod golden;
mod merge;
mod places;
mod pump;
mod runs;
mod segments;
#[path = "../support/mod.rs"]
mod support;
