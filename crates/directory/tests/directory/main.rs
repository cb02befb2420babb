//! The directory over SQLite and over real etcd servers, with their faults, and content by digest.
// scripts/test: waits, 6 threads

mod atoms;
mod cases;
mod engines;
mod faults;
mod history;
mod lost;
mod supervised;
mod support;
