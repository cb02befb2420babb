//! The language of rules, and what an engine decides by them.
// scripts/test: serves

mod contests;
mod engine;
mod generated;
mod language;
mod nodes;
mod properties;
mod rest;
mod simulated;
mod steady;
#[path = "../support/mod.rs"]
mod support;
mod waves;
