//! What upstreams need of the process that they are asked in.

use super::address::Resolver;
use crate::telemetry::notices::Notices;
use std::io;
use std::sync::Arc;

/// What upstreams need of the process; all loops share it.
#[derive(Debug)]
pub(crate) struct UpstreamContext {
    /// Lines for the operator.
    pub(crate) notices: Arc<Notices>,
    /// Looks names up; none if no upstream had a name when the server started.
    pub(super) resolver: Option<Resolver>,
}

impl UpstreamContext {
    /// # Errors
    ///
    /// The thread that looks names up cannot be started.
    pub(crate) fn new(has_names: bool, notice: fn(&str)) -> io::Result<Arc<Self>> {
        let resolver = has_names.then(|| Resolver::start(notice)).transpose()?;
        Ok(Arc::new(Self { notices: Arc::default(), resolver }))
    }
}
