//! What has to hold whichever way connections go, io_uring or epoll.

mod changes;
mod conformance;
mod connections;
#[path = "../harness/mod.rs"]
mod harness;
mod pages;
mod slow_clients;
mod smuggling;
mod stop_under_load;
