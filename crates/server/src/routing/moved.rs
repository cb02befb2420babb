//! Sessions that move: the place of a file's site among all, and the counts of a host, which both servers name alike.

use super::router::Router;
use crate::counters::Counters;
use crate::counters::host_counts::HostCounts;
use crate::files::held::Opened;
use crate::files::resource::Resource;
use crate::policy::codec_swap::{Stream, StreamPlace};
use crate::policy::policy_client::PolicyClient;
use crate::site::Site;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

impl Router {
    /// The place of the first site that has the file of a response.
    pub(crate) fn place_of(&self, resource: &Resource) -> Option<u32> {
        let place = match self {
            Self::Plain(site) => site.holds(resource).then_some(0),
            Self::Hosts(hosts) => hosts.sites.iter().position(|(_, site)| site.holds(resource)),
        };
        place.and_then(|place| u32::try_from(place).ok())
    }

    /// Opens a file of the site at this place.
    ///
    /// # Errors
    ///
    /// As for [`Site::open_moved`], and `NotFound` without such a site.
    pub(crate) fn open_moved(&self, place: u32, path: &[u8]) -> io::Result<Opened> {
        self.site_at(place)?.open_moved(path)
    }

    fn site_at(&self, place: u32) -> io::Result<&Site> {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let site: Option<&Site> = match self {
            Self::Plain(site) => Some(site).filter(|_| place == 0),
            Self::Hosts(hosts) => hosts.sites.get(place).map(|(_, site)| site),
        };
        Ok(site.ok_or(io::ErrorKind::NotFound)?)
    }

    /// As [`Site::stream_moved`], of the site at this place.
    ///
    /// # Errors
    ///
    /// The same, and `NotFound` without such a site.
    pub(crate) fn stream_moved(
        &self,
        (site, place): (u32, StreamPlace),
        resource: &Rc<Resource>,
        counters: (&Counters, usize),
    ) -> io::Result<(Rc<PolicyClient>, Option<Stream>)> {
        self.site_at(site)?.stream_moved(place, resource, counters)
    }

    /// What the host of this name has answered.
    pub(crate) fn host_counts(&self, name: &str) -> Option<Arc<HostCounts>> {
        match self {
            Self::Plain(_) => None,
            Self::Hosts(hosts) => hosts.counts.iter().find(|counts| *counts.name == *name).map(Arc::clone),
        }
    }
}
