//! The hosts of a configuration.

use crate::exchange::application::{Application, ApplicationHandle};
use crate::http::pattern::Pattern;
use crate::routing::rules::{PATHS_MAX, Rules};
use crate::routing::settings::{Action, Said};
use crate::upstream::php_pool::PhpPool;
use crate::upstream::script_pool::ScriptPool;
use crate::upstream::settings::{Place, UpstreamRules};
use std::path::Path;
use std::sync::Arc;

/// The hosts of a configuration, ready to be served.
#[derive(Debug, Clone)]
pub struct HostRules(pub(crate) Arc<Rules>);

impl HostRules {
    /// The names of the hosts, each by its first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.hosts.iter().map(|host| &*host.name)
    }

    /// The pools of PHP that they want, each once.
    pub(crate) fn php_pools(&self) -> Vec<PhpPool> {
        let mut pools: Vec<PhpPool> = Vec::new();
        for pool in self.0.upstreams.iter().filter_map(|upstream| upstream.rules.php.as_ref()) {
            if !pools.contains(pool) {
                pools.push(pool.clone());
            }
        }
        pools
    }

    /// Says where the sockets of these pools are.
    pub(crate) fn place_php(&mut self, folder: &Path) {
        // Rules that were just read are in no other hands.
        let Some(rules) = Arc::get_mut(&mut self.0) else { return };
        for common in rules.upstreams.iter_mut().filter_map(Arc::get_mut) {
            let UpstreamRules { php: Some(pool), servers, .. } = &mut common.rules else { continue };
            servers.iter_mut().for_each(|server| server.place = Place::Unix(pool.socket(folder)));
        }
    }

    /// The pools of scripts of other kinds that they want, each once.
    pub(crate) fn script_pools(&self) -> Vec<ScriptPool> {
        let mut pools: Vec<ScriptPool> = Vec::new();
        for pool in self.0.upstreams.iter().filter_map(|upstream| upstream.rules.scripts.as_ref()) {
            if !pools.contains(pool) {
                pools.push(pool.clone());
            }
        }
        pools
    }

    /// Says where the sockets of these pools are.
    pub(crate) fn place_scripts(&mut self, folder: &Path) {
        // Rules that were just read are in no other hands.
        let Some(rules) = Arc::get_mut(&mut self.0) else { return };
        for common in rules.upstreams.iter_mut().filter_map(Arc::get_mut) {
            let UpstreamRules { scripts: Some(pool), servers, .. } = &mut common.rules else { continue };
            servers.iter_mut().for_each(|server| server.place = Place::Unix(pool.socket(folder)));
        }
    }

    /// Takes over the state of upstreams that are as before: requests under way, queues, health and counts.
    pub(crate) fn go_on_with(&mut self, before: &Self) {
        // Rules that were just read are in no other hands.
        let Some(rules) = Arc::get_mut(&mut self.0) else { return };
        for upstream in &mut rules.upstreams {
            if let Some(same) = before.0.upstreams.iter().find(|known| known.rules == upstream.rules) {
                *upstream = Arc::clone(same);
            } else if let Some(new) = Arc::get_mut(upstream) {
                new.join(&before.0.upstreams);
            }
        }
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
