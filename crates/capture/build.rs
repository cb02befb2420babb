//! Compiles the BPF program and generates its skeleton.
fn main() {}
