//! `weir load`, and what it says of servers that fail.
// scripts/test: loads, long

mod faults;
mod http2;
mod interrupted;
mod load_failures;
mod load_full_disk;
mod load_gates;
mod load_grpc;
mod load_http2;
mod load_judged;
mod load_many;
mod load_outputs;
mod load_peers;
mod load_reach;
mod load_streams;
mod load_workers;
mod load_workloads;
#[path = "../support/mod.rs"]
mod support;
