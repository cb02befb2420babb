//! The engine for one machine: an SQLite file, which several processes may use.

mod clock;
mod engine;
mod faults;
mod schema;
mod tables;
mod watching;

pub(crate) use engine::Sqlite;
