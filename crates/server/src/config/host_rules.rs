//! The hosts of a configuration.

use crate::exchange::application::{Application, ApplicationHandle};
use crate::http::pattern::Pattern;
use crate::routing::rules::{PATHS_MAX, Rules};
use crate::routing::settings::{Action, Said};
use std::sync::Arc;

/// The hosts of a configuration, ready to be served.
#[derive(Debug, Clone)]
pub struct HostRules(pub(crate) Arc<Rules>);

impl HostRules {
    /// The names of the hosts, each by its first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.hosts.iter().map(|host| &*host.name)
    }

    /// Has an application answer the paths of all hosts that a glob matches (`*` within a segment, `**` anything, `?`
    /// one character), behind all tables that the hosts have: access, passwords, rates and fields of other tables hold
    /// for it as well. None if the glob is too large, a host has 128 tables already, or the rules are in use.
    pub fn with_application(self, glob: &str, application: Arc<dyn Application>) -> Option<Self> {
        let mut rules = Arc::try_unwrap(self.0).ok()?;
        let pattern = Pattern::glob(glob)?;
        let action = Some(Action::Application(ApplicationHandle(application)));
        for host in &mut rules.hosts {
            if host.paths.len() == PATHS_MAX {
                return None;
            }
            host.paths.push((pattern.clone(), Said { action: action.clone(), ..Said::default() }));
        }
        Some(Self(Arc::new(rules)))
    }
}
