//! Requests and answers, over connections of every kind, against servers of our own and those that people run.
// scripts/test: loads, long

mod directed;
mod ends;
mod failures;
mod file_sets;
mod grpc;
mod http2_faults;
mod http2_frames;
mod http2_once;
mod http2_servers;
mod http2_sessions;
mod many;
mod observer;
mod parser;
mod pipelining;
mod proxies;
mod real_servers;
mod responses;
#[path = "../server/mod.rs"]
mod server;
mod sessions;
mod sockets;
mod statuses;
mod streams;
mod tls;
mod tls_options;
mod traces;
mod tunnels;
mod websockets;
mod workloads;
