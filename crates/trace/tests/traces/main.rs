//! Segments, run directories and what is written to them.
// scripts/test: serves

mod golden;
mod merge;
mod places;
mod pump;
mod runs;
mod segments;
#[path = "../support/mod.rs"]
mod support;
