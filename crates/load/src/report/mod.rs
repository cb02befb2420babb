//! What a run found.

pub(crate) mod health;
mod load;
mod workers;

pub use load::{Generator, LoadReport};
pub use workers::{Clock, Fate, WorkerReport, WorkerShare};
