//! What the connections of a loop share.

pub(crate) mod applications;
mod refusal;
mod state;
mod watching;

pub(crate) use state::{BATCH_MAX, LoopState};
pub(crate) use watching::{AskedAside, StreamOf, Watching, respond_aside};
