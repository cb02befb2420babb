//! What the connections of a loop share.

pub(crate) mod applications;
mod state;

pub(crate) use state::{BATCH_MAX, LoopState, refuse_full};
