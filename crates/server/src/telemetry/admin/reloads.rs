//! What the admin page asks of the part that reloads the configuration.

use super::response_cache::{Purge, ResponseCaches};
use crate::counters::upstream_counts::UpstreamReading;
use crate::policy::throttle::Throttle;
use std::net::IpAddr;

/// The part of the server that reloads its configuration.
pub(crate) trait Reloading: std::fmt::Debug + Send + Sync {
    /// What became of reloads.
    fn history(&self) -> ReloadHistory;
    /// How a request would be routed, as JSON; else a status, and why it cannot be said.
    fn explain(&self, asked: &Asked) -> Result<String, (u16, String)>;
    /// The bounds that hold.
    fn throttles(&self) -> Vec<Throttle>;
    /// The upstreams, as they are asked now.
    fn upstreams(&self) -> Vec<UpstreamReading>;
    /// What caches of upstreams' responses have done, and have.
    fn response_caches(&self) -> ResponseCaches;
    /// Has these caches forget responses; how many they were.
    fn purge(&self, what: &Purge) -> usize;
}

/// A request that is to be explained.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) url: String,
    /// Without one GET.
    pub(crate) method: Option<String>,
    /// The client's address, without one this machine's.
    pub(crate) from: Option<IpAddr>,
}

/// What became of reloads.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ReloadHistory {
    /// Configurations that were taken up, and those that were not.
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// When the last of them came, in seconds since 1970.
    pub(crate) last_unix_s: Option<u64>,
    /// Why the last one was not taken up; none if it was.
    pub(crate) last_error: Option<String>,
    /// How often a root led elsewhere, and where the last one leads.
    pub(crate) roots_moved: u64,
    pub(crate) last_root: Option<String>,
    /// Why changed certificates are not used; none if they are.
    pub(crate) certificates_error: Option<String>,
}
