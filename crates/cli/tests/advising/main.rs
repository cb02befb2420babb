//! `weir advise` on servers that people run.

mod advice;
mod advice_behind;
mod advice_connections;
mod predicted;
#[path = "../support/mod.rs"]
mod support;
