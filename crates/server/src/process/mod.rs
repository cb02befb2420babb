//! The server as a process: confinement, reload of its configuration, responses and sessions that another process goes
//! on with.

mod caches;
pub(crate) mod confine;
pub(crate) mod reload;
pub(crate) mod resume;
pub(crate) mod session;
pub(crate) mod succession;
