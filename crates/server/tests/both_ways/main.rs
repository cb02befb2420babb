//! Tests that must pass with io_uring as well as with epoll.
// scripts/test: serves, also by epoll, 4 threads

mod changes;
mod conformance;
mod connections;
#[path = "../harness/mod.rs"]
mod harness;
mod pages;
mod sessions;
mod sessions_copied;
mod sessions_http2;
mod sessions_refused;
mod sessions_relayed;
mod sessions_resealed;
mod sessions_secure;
mod sessions_swapped;
mod slow_clients;
mod smuggling;
mod stop_under_load;
