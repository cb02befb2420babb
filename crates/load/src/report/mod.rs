//! What a run found.

mod generator;
pub(crate) mod health;
mod load;
mod workers;

pub use generator::Generator;
pub use load::LoadReport;
pub use workers::{Clock, Fate, WorkerReport, WorkerShare};
