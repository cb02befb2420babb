//! The language of rules, and what an engine decides by them.

mod contests;
mod engine;
mod language;
mod properties;
mod steady;
#[path = "../support/mod.rs"]
mod support;
mod waves;
