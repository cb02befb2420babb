//! A recording reverse proxy: what a user does at its address is passed to a server, and kept.

mod kept;
mod passing;
mod proxy;

pub use kept::Options;
pub use proxy::{Counts, Recorder, StartError};
