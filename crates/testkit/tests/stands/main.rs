//! What tests stand on.
// scripts/test: loads

mod backends;
mod faults;
mod launchers;
