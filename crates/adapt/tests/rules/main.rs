//! The language of rules, and what an engine decides by them.

mod contests;
mod engine;
mod generated;
mod language;
mod properties;
mod rest;
mod steady;
#[path = "../support/mod.rs"]
mod support;
mod waves;
