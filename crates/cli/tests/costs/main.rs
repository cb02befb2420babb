//! What a request takes, counted.
// scripts/test: counts, long

mod load_cost;
mod proxy_cost;
mod serve_cluster_cost;
mod serve_cost;
mod serve_extras_cost;
mod serve_policy_cost;
#[path = "../support/mod.rs"]
mod support;
mod walk;
