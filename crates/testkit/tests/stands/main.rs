//! What tests stand on.

mod backends;
mod faults;
mod launchers;
