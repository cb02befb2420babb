//! `ab`, `httperf` and `http_load` as people call them.
// scripts/test: waits

mod dropin_ab;
mod dropin_command_lines;
mod dropin_http_load;
mod dropin_httperf;
#[path = "../support/mod.rs"]
mod support;
