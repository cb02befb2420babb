//! Faults that were planted are named first.

mod planted_accept_mutex;
mod planted_children;
mod planted_client;
mod planted_database;
mod planted_herd;
mod planted_holder;
mod planted_hosts;
mod planted_locks;
mod planted_namespace;
mod planted_neighbour;
mod planted_network;
mod planted_parents;
mod planted_questions;
mod planted_quota;
mod planted_reads;
mod planted_rings;
mod planted_ssh;
mod planted_storage;
mod planted_threads;
mod planted_traces;
mod planted_workers;
#[path = "../support/mod.rs"]
mod support;
