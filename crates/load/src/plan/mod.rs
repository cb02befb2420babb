//! What the loops of a run share, built once from the options.

pub(crate) mod chooser;
pub(crate) mod followed;
pub(crate) mod host;
pub(crate) mod run_plan;
pub(crate) mod table;
