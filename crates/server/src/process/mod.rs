//! The server as a process: confinement, reload of its configuration, responses that another process goes on with.

pub(crate) mod confine;
pub(crate) mod reload;
pub(crate) mod resume;
