//! Runs that were made up or recorded, joined and divided into parts.
// scripts/test: serves

mod client_word;
mod far;
mod fork;
mod garbage;
mod golden;
mod goroutines;
mod held;
mod older;
mod online;
mod quic;
mod served;
mod streams;
mod threads;
mod truth;
mod wakeups;
#[path = "../world/mod.rs"]
mod world;
