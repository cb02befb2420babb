//! Extensions in C, compiled by the tests, in a process that the tests drive as the runner of scripts does.
// scripts/test: waits

mod failures;
mod requests;
mod support;

/// In the child that a test starts, this is the whole program.
#[test]
fn the_child_is_a_host() {
    support::become_host();
}
