//! What a run is to do, and what shows and ends it while it goes on.

mod check;
pub(crate) mod control;
pub(crate) mod means;
pub(crate) mod settings;

pub use control::Control;
pub use settings::{Io, Options};
