//! What a run found.

pub(crate) mod health;
mod load;

pub use load::{Generator, LoadReport};
