//! `ab`, `httperf`, `http_load` and `wrk` as people call them.
// scripts/test: waits

mod dropin_ab;
mod dropin_command_lines;
mod dropin_http_load;
mod dropin_httperf;
mod dropin_wrk;
#[path = "../support/mod.rs"]
mod support;
