//! Connections move between nodes in network namespaces, by real keeper processes and a director's filter.
// scripts/test: waits, 2 threads

mod address;
mod datagrams;
mod downloads;
mod encoding;
mod guarding;
mod holding;
mod network;
mod refusals;
mod session;
mod steering;

/// A child of the other tests: with the variable it is a keeper, without it does nothing.
#[test]
fn as_a_keeper() {
    if let Ok(options) = std::env::var(network::KEEPER_VARIABLE) {
        network::be_a_keeper(&options);
    }
}
