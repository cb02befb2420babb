//! What upstreams need of the process that they are asked in.

use super::address::{Resolved, Resolver};
use super::common::Common;
use super::settings::{Place, UpstreamRules};
use crate::counters::php_watch::PhpWatch;
use crate::telemetry::notices::Notices;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a server that starts waits for the addresses of its upstreams' names; those that are found later are used
/// from then on.
const FIRST_LOOK_UP: Duration = Duration::from_secs(2);

/// What upstreams need of the process; all loops share it.
#[derive(Debug)]
pub(crate) struct UpstreamContext {
    /// Lines for the operator.
    pub(crate) notices: Arc<Notices>,
    /// Looks names up; none if no upstream had a name when the server started.
    pub(super) resolver: Option<Resolver>,
    /// Names that upstreams had at the start, so that their addresses are known before the first request.
    _names: Vec<Arc<Resolved>>,
    /// Requests of our own PHP.
    pub(crate) php: PhpWatch,
    /// Requests of our own scripts of other kinds.
    pub(crate) scripts: PhpWatch,
}

impl UpstreamContext {
    /// # Errors
    ///
    /// The thread that looks names up cannot be started.
    pub(crate) fn new(
        upstreams: &[Arc<Common>],
        notice: fn(&str),
        [php, scripts]: [PhpWatch; 2],
    ) -> io::Result<Arc<Self>> {
        let has_names = upstreams.iter().any(|upstream| upstream.has_names());
        let resolver = has_names.then(|| Resolver::start(notice)).transpose()?;
        let mut names = Vec::new();
        if let Some(resolver) = &resolver {
            for upstream in upstreams {
                let every = upstream.rules.resolve_every;
                for server in &upstream.rules.servers {
                    if let Place::Name(name, port) = &server.place {
                        names.extend(resolver.name(name, *port, every));
                    }
                }
            }
            resolver.wait_first(FIRST_LOOK_UP);
        }
        Ok(Arc::new(Self { notices: Arc::default(), resolver, _names: names, php, scripts }))
    }

    /// Where requests for an upstream are noted; nowhere if others run what it asks.
    pub(super) fn watch(&self, rules: &UpstreamRules) -> Option<&PhpWatch> {
        if rules.php.is_some() { Some(&self.php) } else { rules.scripts.as_ref().map(|_| &self.scripts) }
    }
}
