//! The hosts of a configuration as one loop serves them.

use super::auth::Credentials;
use super::rules::Rules;
use super::settings::Settings;
use super::tables::Tables;
use crate::counters::host_counts::HostCounts;
use crate::files::root::Root;
use crate::io::epoll::Waker;
use crate::site::settings::{SiteBounds, SiteKind, SiteWord};
use crate::site::{Share, Site};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The hosts of a configuration as one loop serves them.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(super) rules: Arc<Rules>,
    /// How often others were taken up.
    pub(super) reloads: u64,
    /// What each host has answered, in the order of the rules.
    pub(super) counts: Vec<Arc<HostCounts>>,
    /// In the order of the rules.
    pub(super) sites: Vec<(SiteKind, Site)>,
    pub(super) share: Share,
    /// What holds, by the host and its tables.
    pub(super) known: HashMap<(u16, Tables), Rc<Settings>>,
    /// The host of the last request, by the name that it gave.
    last_name: Vec<u8>,
    last_host: Option<u16>,
    pub(super) credentials: Credentials,
    pub(super) decoded: Vec<u8>,
    pub(super) text: Vec<u8>,
}

impl Hosts {
    pub(crate) fn new(
        rules: Arc<Rules>,
        waker: Arc<Waker>,
        shared: &SiteBounds,
        word: &SiteWord,
        share: Share,
    ) -> io::Result<Self> {
        let mut hosts = Self {
            rules: Arc::default(),
            reloads: 0,
            counts: Vec::new(),
            credentials: Credentials::new(waker).ok_or(io::ErrorKind::Other)?,
            sites: Vec::new(),
            share,
            known: HashMap::new(),
            last_name: Vec::new(),
            last_host: None,
            decoded: Vec::new(),
            text: Vec::new(),
        };
        hosts.reload(rules, shared, word)?;
        Ok(hosts)
    }

    /// Takes up these rules; what was open already stays, with all that it has in memory.
    pub(super) fn reload(&mut self, rules: Arc<Rules>, shared: &SiteBounds, word: &SiteWord) -> io::Result<()> {
        // All that can fail comes first, so that after a failure everything is as it was.
        let roots = rules.sites.iter().map(|site| Ok(Root::of(site.place.directory().try_clone()?)));
        let roots = roots.collect::<io::Result<Vec<Root>>>()?;
        let mut before = std::mem::take(&mut self.sites);
        // Each has an equal part of the memory, the descriptors and the watches.
        let parts = rules.sites.len().max(1);
        let share = Share { files_max: (self.share.files_max / parts).max(1), ..self.share.clone() };
        let bounds = shared.shared_by(parts);
        for (wanted, root) in rules.sites.iter().zip(roots) {
            // The same path may be another directory by now.
            if let Some(at) = before.iter().position(|(kind, site)| *kind == wanted.how && site.is_same_root(&root)) {
                let mut kept = before.swap_remove(at);
                kept.1.limit_watches(bounds.watches_max);
                self.sites.push(kept);
                continue;
            }
            let site = Site::new(root, &wanted.how.clone().under(word), &bounds, &share);
            self.sites.push((wanted.how.clone(), site));
        }
        self.counts =
            self.share.hosts.enter(&rules.hosts.iter().map(|host| Arc::clone(&host.name)).collect::<Vec<_>>());
        self.rules = rules;
        self.reloads += 1;
        self.known.clear();
        self.last_name.clear();
        self.last_host = self.rules.names.find(b"");
        Ok(())
    }

    pub(super) fn host(&mut self, name: &[u8]) -> Option<u16> {
        if *name != *self.last_name {
            self.text.clear();
            self.text.extend(name.iter().map(u8::to_ascii_lowercase));
            self.last_host = self.rules.names.find(&self.text);
            self.last_name.clear();
            self.last_name.extend_from_slice(name);
        }
        self.last_host
    }
}
