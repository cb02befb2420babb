//! A root directory with its cache.

use super::kept_listings::Listings;
use super::warming::Warming;
use crate::certificates::challenges::Challenges;
use crate::counters::host_counts::HostLedger;
use crate::exchange::elsewhere::ElsewhereHandle;
use crate::files::cache::{Cache, Uses};
use crate::files::root::Root;
use crate::files::settings::Compression;
use crate::files::shared_content::SharedContent;
use crate::files::watcher::Watcher;
use crate::files::watches::{Change, Watches};
use crate::http::coding::LastAccepted;
use crate::http::media_type;
use crate::http::pattern::Pattern;
use crate::policy::policy_client::PolicyClient;
use crate::site::kept_pages::KeptPages;
use crate::site::settings::{SiteBounds, SiteKind};
use crate::site::{absent, listing};
use std::hash::RandomState;
use std::rc::Rc;
use std::sync::Arc;

/// A root directory with its cache, as one loop serves it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(super) root: Root,
    /// The same, for responses that open further files.
    pub(super) shared_root: Option<Rc<Root>>,
    /// The way to the adviser.
    pub(super) policy_client: Option<Rc<PolicyClient>>,
    /// The edition of the rules that all of the cache was asked about.
    pub(super) edition: u64,
    pub(super) cache: Cache,
    /// Where it is told next what was asked for.
    told_from: usize,
    pub(super) absent: absent::Absent,
    pub(super) watches: Watches,
    pub(super) changes: Vec<Change>,
    pub(super) listings: Listings,
    /// Pages as they were assembled last, where answers may be stale.
    pub(super) kept: KeptPages,
    pub(super) shared_content: Arc<SharedContent>,
    pub(super) accepted: LastAccepted,
    pub(super) compression: Compression,
    pub(super) includes: bool,
    pub(super) media_types: media_type::Overrides,
    pub(super) memory_bytes_max: u64,
    pub(super) warming: Warming,
    /// How long looks at files took for the request that is answered, in nanoseconds; only with an adviser.
    pub(super) looked_ns: u64,
    /// Whether that is counted at all.
    pub(super) times_looks: bool,
    pub(super) listing: Option<listing::Shown>,
    pub(super) dot_files: bool,
    /// Names of files that stand for their directory.
    pub(super) index: Vec<Vec<u8>>,
    pub(super) ranges_max: usize,
    /// What brings content that lies on other machines.
    pub(super) elsewhere: Option<ElsewhereHandle>,
    pub(super) decoded: Vec<u8>,
    /// Makes boundaries that the author of a file cannot guess.
    pub(super) boundaries: RandomState,
    pub(super) boundary_count: u64,
}

/// What a site has together with others.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    /// The bytes of files that all loops have read.
    pub(crate) shared_content: Arc<SharedContent>,
    /// The loop's.
    pub(crate) watcher: Rc<Watcher>,
    /// What the loop counts of each host.
    pub(crate) hosts: HostLedger,
    /// Answers to the challenges of an authority.
    pub(crate) challenges: Challenges,
    /// Descriptors of files that are kept open.
    pub(crate) files_max: usize,
    /// The loop's; none without an adviser.
    pub(crate) policy_client: Option<Rc<PolicyClient>>,
}

impl Site {
    pub(crate) fn new(root: Root, how: &SiteKind, bounds: &SiteBounds, share: &Share) -> Self {
        let bytes_max = bounds.cache_bytes_max;
        let entries_max = bounds.listing_entries_max;
        Self {
            root: root.following(how.symlinks, &how.root),
            shared_root: None,
            policy_client: share.policy_client.clone(),
            edition: share.policy_client.as_ref().map_or(0, |policy_client| policy_client.edition()),
            cache: Cache::new(bytes_max, share.files_max),
            told_from: 0,
            absent: absent::Absent::default(),
            watches: Watches::new(Rc::clone(&share.watcher), bounds.watches_max),
            changes: Vec::new(),
            listings: Listings::new(bytes_max),
            kept: KeptPages::default(),
            shared_content: Arc::clone(&share.shared_content),
            accepted: LastAccepted::default(),
            compression: how.compression.clone(),
            includes: how.includes,
            media_types: how.media_types.clone(),
            memory_bytes_max: bounds.cached_file_bytes_max,
            warming: Warming::default(),
            times_looks: bounds.times_looks,
            looked_ns: 0,
            listing: how.listing.then_some(listing::Shown { dot_files: how.dot_files, entries_max }),
            dot_files: how.dot_files,
            index: how.index.iter().map(|name| name.clone().into_bytes()).collect(),
            ranges_max: bounds.ranges_max,
            elsewhere: bounds.elsewhere.clone(),
            decoded: Vec::new(),
            boundaries: RandomState::new(),
            boundary_count: 0,
        }
    }

    /// The pages that it keeps as they were assembled last.
    pub(crate) fn kept(&mut self) -> &mut KeptPages {
        &mut self.kept
    }

    /// Whether it is of the same directory.
    pub(crate) fn is_same_root(&self, root: &Root) -> bool {
        self.root.is_same(root)
    }

    /// Bytes in memory, and entries of the cache.
    pub(crate) fn fill(&self) -> (u64, u64) {
        self.cache.fill()
    }

    /// What was asked for since it was told last, of so many entries of the cache; the next call goes on behind them.
    pub(crate) fn uses(&mut self, most: usize, now_ms: u64) -> Vec<Uses> {
        let (told, next) = self.cache.uses(self.told_from, most, now_ms);
        self.told_from = next;
        told
    }

    /// Pins what these globs match: it is never evicted.
    pub(crate) fn pin(&mut self, patterns: &[Pattern]) {
        self.cache.pin(patterns);
    }

    /// Bytes in memory, and entries, that are kept so.
    pub(crate) fn pinned(&self) -> (u64, u64) {
        self.cache.pinned()
    }

    /// Another bound on the directories that are watched.
    pub(crate) fn limit_watches(&mut self, directories_max: usize) {
        self.watches.limit(directories_max);
    }
}
