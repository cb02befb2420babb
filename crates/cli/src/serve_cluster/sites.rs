//! The published sites of a node: it follows the directory, fetches what it lacks, and switches what its server serves.

use super::fetching::{FetchError, Peer, Source, fetch_all};
use super::keeping::{Keeping, KeptContent, KeptVersion};
use super::seen::Seen;
use crate::cluster::control_socket::{AtomNow, AtomsNow, Followed, FollowedSite};
use crate::cluster::published::Published;
use anyhow::{Context, bail};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_cluster::{Identity, Keeping as Stand, NodeNumber};
use weir_directory::atoms::{AtomError, Elsewhere, File, Mark};
use weir_directory::{Digest, DirectoryError, Known, Manifest, Node, Watch, keys};
use weir_terminal::units;

/// How often it is looked where nothing is told.
const PAUSE: Duration = Duration::from_secs(2);
/// How soon content is fetched again for which there was no room: it would come over the network for nothing.
const ROOM_PAUSE: Duration = Duration::from_secs(60);
/// How soon it is tried again after a fault.
const RETRY: Duration = Duration::from_millis(500);
/// How often it is looked whether `weir cluster publish` asks, and whether a watch has news.
const TICK: Duration = Duration::from_millis(25);
/// How long the directory takes the node for present.
const PRESENCE: Duration = Duration::from_secs(15);
/// A look at all files on the disk takes at most one part in so many of the time.
const LOOK_SHARE: u32 = 20;
/// The longest time between two such looks.
const LOOK_MAX: Duration = Duration::from_secs(600);
/// How long a publisher waits for its own node.
const FOLLOW_PATIENCE: Duration = Duration::from_secs(25);
/// What stands before the name of a site in the facts of a node.
pub(crate) const FACT: &str = "site:";

/// Follows what is published.
pub(super) struct Sites {
    pub(super) published: Arc<Published>,
    pub(super) peers: Vec<Peer>,
    pub(super) keeping: Arc<Keeping>,
    pub(super) seen: Arc<Seen>,
    node: Node,
    pub(super) tell: Box<dyn Fn(&str) + Send + Sync>,
    switched: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    news: Condvar,
}

/// What a node says of its sites, and to whom.
pub(super) struct Telling {
    pub(super) seen: Arc<Seen>,
    /// To the operator.
    pub(super) tell: Box<dyn Fn(&str) + Send + Sync>,
    /// To the server: another version is to be served.
    pub(super) switched: Box<dyn Fn() + Send + Sync>,
}

/// Whether the disk, or the bound on content, has no room for what was to be kept.
fn is_full(error: &anyhow::Error) -> bool {
    let of_store = |error: &AtomError| match error {
        AtomError::Full { .. } => true,
        AtomError::File { error, .. } => {
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        }
        _ => false,
    };
    match error.downcast_ref::<FetchError>() {
        Some(FetchError::Kept(error)) => of_store(error),
        _ => error.downcast_ref::<AtomError>().is_some_and(of_store),
    }
}

#[derive(Default)]
struct State {
    sites: BTreeMap<String, Site>,
    /// Since when the directory has not answered.
    stale_since: Option<Instant>,
    /// Whether a publisher waits.
    is_asked: bool,
}

/// What a node has of a site.
#[derive(Debug, Clone, Default)]
struct Site {
    /// 0 for none.
    version: u64,
    manifest: Option<Digest>,
    files: u64,
    bytes: u64,
    fault: Option<String>,
}

/// What the thread that follows keeps between two looks.
#[derive(Default)]
pub(super) struct Followings {
    watch: Option<Watch>,
    /// Content that was verified, as it was then.
    verified: HashMap<Digest, Mark>,
    /// The manifest of the served version of each site.
    pub(super) manifests: HashMap<String, Arc<Manifest>>,
    /// Those of all versions that are kept.
    kept: Vec<KeptVersion>,
    /// What lies on other nodes, as far as it was asked after.
    pub(super) elsewhere: Elsewhere,
    /// When the served version of each site was switched, until the trees before it are removed.
    pub(super) switched: HashMap<String, Instant>,
    /// Sites of which some content had no room here, until it is tried again.
    full: HashMap<String, Instant>,
    /// When the files on the disk are looked at again.
    look_at: Option<Instant>,
    /// What the directory says of this node, and when it was told so.
    entered: Option<(Node, Instant)>,
}

/// What came of it, and why content is missing here, if it is.
type Short<T> = (T, Option<String>);

/// What is to be fetched, and what may stay elsewhere.
type Lacking<'m> = (BTreeMap<Digest, &'m File>, BTreeMap<Digest, &'m File>);

impl Sites {
    /// The name of another node.
    pub(super) fn name(&self, number: NodeNumber) -> Option<&str> {
        self.peers.iter().find(|peer| peer.number == number).map(|peer| peer.name.as_str())
    }
}

impl Followings {
    /// All versions that are kept, as they were read last.
    pub(super) fn kept(&self) -> &[KeptVersion] {
        &self.kept
    }
}

/// What a node calls itself in the directory.
pub(super) fn node_of(identity: &Identity, address: std::net::SocketAddr) -> Node {
    let name = identity.member.name.to_string();
    // A cluster of another authority that shares an etcd by mistake is refused.
    let authority = Digest::of(&identity.authority);
    Node { identity: format!("{name} {authority}"), name, address: address.to_string(), facts: BTreeMap::new() }
}

impl Sites {
    /// Begins to follow, by a thread of its own.
    pub(super) fn start(
        published: Arc<Published>,
        (peers, keeping): (Vec<Peer>, Arc<Keeping>),
        node: Node,
        Telling { seen, tell, switched }: Telling,
    ) -> io::Result<Arc<Self>> {
        let (state, news) = (Mutex::default(), Condvar::new());
        let sites = Arc::new(Self { published, peers, keeping, seen, node, tell, switched, state, news });
        let followed = Arc::clone(&sites);
        std::thread::Builder::new().name("weir-node-sites".to_owned()).spawn(move || {
            let mut followings = Followings::default();
            loop {
                let is_done = followed.look(&mut followings);
                followed.wait(&mut followings, if is_done { PAUSE } else { RETRY });
            }
        })?;
        Ok(sites)
    }

    /// Waits until a version of a site is served here, or the one that came after it meanwhile.
    pub(super) fn follow(&self, site: &str, version: u64) -> anyhow::Result<()> {
        let deadline = Instant::now() + FOLLOW_PATIENCE;
        let current = self.published.directory.current(site)?.into_value();
        let version = current.map_or(version, |current| current.version);
        let mut state = self.lock();
        loop {
            let found = state.sites.get(site).cloned().unwrap_or_default();
            if found.version == version && found.fault.is_none() {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = found.fault.unwrap_or_else(|| "it takes longer than 25 s".to_owned());
                bail!("this node does not have version {version} of {site} yet: {why}");
            }
            state.is_asked = true;
            (state, _) = self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What is served, and how the directory stands.
    pub(super) fn status(&self) -> Followed {
        let (sites, stale_since) = {
            let state = self.lock();
            (state.sites.clone(), state.stale_since)
        };
        let site =
            |(site, Site { version, files, bytes, fault, .. })| FollowedSite { site, version, files, bytes, fault };
        Followed {
            directory: self.published.engine.clone(),
            stale_s: stale_since.map(|since| since.elapsed().as_secs()),
            sites: sites.into_iter().map(site).collect(),
        }
    }

    /// Which nodes have what is asked for most.
    pub(super) fn atoms(&self, own: &str, most: usize) -> anyhow::Result<AtomsNow> {
        if !self.keeping.is_used() {
            bail!("each node keeps everything, as members.toml names no keeps_bytes; see weir cluster nodes");
        }
        let (shown, placed_bytes) = self.keeping.shown(most);
        let digests: Vec<Digest> = shown.iter().map(|content| content.digest).collect();
        let plain: Vec<[u8; 32]> = digests.iter().map(|digest| digest.0).collect();
        let mut stands = vec![(own.to_owned(), self.keeping.vouch(&self.published.store, &plain))];
        for peer in self.peers.iter().filter(|peer| self.keeping.is_living(peer.number)) {
            stands.extend(peer.inquire(&digests).map(|stand| (peer.name.clone(), stand)));
        }
        let name = |number: &NodeNumber| self.name(*number).map_or_else(|| own.to_owned(), str::to_owned);
        let file = |(at, content): (usize, &KeptContent)| {
            let has = stands.iter().filter(|(_, stands)| stands.get(at).is_some_and(|stand| *stand != Stand::Absent));
            AtomNow {
                path: content.path.clone(),
                bytes: content.bytes,
                requests_per_s: content.requests_per_s,
                placed: content.nodes.iter().map(name).collect(),
                has: has.map(|(name, _)| name.clone()).collect(),
            }
        };
        let contents = self.published.store.contents()?;
        Ok(AtomsNow {
            told_by: own.to_owned(),
            keeps_bytes: self.keeping.budget(),
            placed_bytes,
            contents: contents.len() as u64,
            content_bytes: contents.iter().map(|(_, bytes)| bytes).sum(),
            short_of_copies: self.keeping.short() as u64,
            files: shown.iter().enumerate().map(file).collect(),
        })
    }

    fn wait(&self, followings: &mut Followings, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            let is_told = followings.watch.as_ref().and_then(|watch| watch.next(TICK)).is_some();
            if followings.watch.is_none() {
                std::thread::sleep(TICK);
            }
            if std::mem::take(&mut self.lock().is_asked) || is_told {
                return;
            }
        }
    }

    /// Looks at the directory once; whether all is as it says.
    fn look(&self, followings: &mut Followings) -> bool {
        if followings.watch.is_none() {
            followings.watch = self.published.directory.watch(keys::SITES).ok();
        }
        let sites = match self.published.directory.sites() {
            Ok(sites) => {
                self.note(&sites);
                sites.into_value()
            }
            Err(error) => {
                self.note_away(&error);
                return false;
            }
        };
        let is_placed_anew = self.plan(&sites, followings);
        let looks_at_disk = is_placed_anew || followings.look_at.is_none_or(|at| at <= Instant::now());
        let begun = Instant::now();
        let (mut is_done, mut is_changed) = (true, false);
        for site in &sites {
            let (changed, fault, then) = match self.follow_one(site, followings, looks_at_disk) {
                Ok((changed, short)) => (changed, short, "the other nodes send what is missing here"),
                Err(error) => (true, Some(format!("{error:#}")), "the version of before is served"),
            };
            is_changed |= changed;
            is_done &= fault.is_none();
            self.note_fault(site, fault, then);
        }
        if looks_at_disk {
            // What was fetched took time that the next look will not take.
            let took = if is_changed { Duration::ZERO } else { begun.elapsed() };
            followings.look_at = Some(Instant::now() + (took * LOOK_SHARE).clamp(PAUSE, LOOK_MAX));
        }
        if let Err(error) = self.keep_within_budget(followings) {
            tracing::debug!(%error, "no content is given up");
            is_done = false;
        }
        if let Err(error) = self.stay(followings) {
            tracing::debug!(%error, "the directory does not take this node");
            is_done = false;
        }
        self.news.notify_all();
        is_done
    }

    /// Brings one site to its current version; whether that changed anything, and why content is missing here.
    fn follow_one(&self, site: &str, followings: &mut Followings, looks_at_disk: bool) -> anyhow::Result<Short<bool>> {
        let directory = &self.published.directory;
        let Some(publication) = directory.current(site)?.into_value() else { return Ok((false, None)) };
        let version = publication.version;
        let before = self.lock().sites.get(site).cloned().unwrap_or_default();
        let is_new = (before.version, before.manifest) != (version, Some(publication.manifest));
        if !is_new && followings.full.get(site).is_some_and(|until| *until > Instant::now()) {
            return Ok((false, before.fault));
        }
        if !is_new && !looks_at_disk && before.fault.is_none() {
            return Ok((false, None));
        }
        if is_new {
            let known = followings.kept.iter().find(|kept| kept.digest == publication.manifest);
            let manifest = match known {
                Some(kept) => Arc::clone(&kept.manifest),
                None => Arc::new(directory.manifest(site, version)?.into_value()),
            };
            followings.manifests.insert(site.to_owned(), manifest);
        }
        let Some(manifest) = followings.manifests.get(site).cloned() else { return Ok((false, None)) };
        let begun = Instant::now();
        let ((contents, bytes), short) = self.complete(&manifest, followings)?;
        match &short {
            Some(_) => drop(followings.full.insert(site.to_owned(), Instant::now() + ROOM_PAUSE)),
            None => drop(followings.full.remove(site)),
        }
        let elsewhere = self.elsewhere(&manifest, followings);
        self.published.switch(site, (&manifest, &elsewhere), version).context("the tree of files")?;
        if is_new {
            followings.switched.insert(site.to_owned(), Instant::now());
            (self.switched)();
        }
        let files = manifest.entries().len() as u64;
        let served =
            Site { version, manifest: Some(publication.manifest), files, bytes: manifest.bytes(), fault: before.fault };
        self.lock().sites.insert(site.to_owned(), served);
        let is_changed = is_new || contents > 0;
        if is_changed {
            let (files, contents) = (units::counted(files, "file"), units::counted(contents, "content"));
            let took = begun.elapsed();
            let afar = match elsewhere.len() as u64 {
                0 => String::new(),
                afar => format!("; {} on other nodes", units::counted(afar, "content")),
            };
            (self.tell)(&format!(
                "site {site}: version {version} is served, {files}; {contents} of {bytes} bytes fetched in {took:.1?}{afar}"
            ));
        }
        Ok((is_changed, short))
    }

    /// Fetches what is missing or damaged and is kept here; how many contents and how many bytes. What the disk has no
    /// room for stays on other nodes; why, is said beside.
    fn complete(&self, manifest: &Manifest, followings: &mut Followings) -> anyhow::Result<Short<(u64, u64)>> {
        let store = &self.published.store;
        let (mut wanted, mut absent) = self.lacking(manifest, &mut followings.verified)?;
        let mut short = None;
        match if wanted.is_empty() { Ok(()) } else { self.fetch(&wanted, followings) } {
            Err(error) if is_full(&error) => {
                let left_out: BTreeMap<Digest, &File> =
                    wanted.iter().filter(|(it, _)| !store.has(it)).map(|(digest, file)| (*digest, *file)).collect();
                wanted.retain(|digest, _| !left_out.contains_key(digest));
                let count = units::counted(left_out.len() as u64, "content");
                short = Some(format!("there is no room for {count}: {error:#}; make room on the disk of this node"));
                absent.extend(left_out);
            }
            fetched => fetched?,
        }
        self.find_elsewhere(&absent, followings)?;
        for digest in wanted.keys() {
            // It was verified as it came.
            followings.verified.extend(store.mark(digest).map(|mark| (*digest, mark)));
        }
        Ok(((wanted.len() as u64, wanted.values().map(|file| file.bytes).sum()), short))
    }

    /// What this node lacks: what it is to keep, and what may stay elsewhere.
    fn lacking<'m>(&self, manifest: &'m Manifest, verified: &mut HashMap<Digest, Mark>) -> anyhow::Result<Lacking<'m>> {
        let store = &self.published.store;
        let mut wanted: BTreeMap<Digest, &File> = BTreeMap::new();
        let mut absent: BTreeMap<Digest, &File> = BTreeMap::new();
        for file in manifest.entries() {
            let mark = store.mark(&file.digest);
            let is_known = mark.is_some() && verified.get(&file.digest) == mark.as_ref();
            if is_known || wanted.contains_key(&file.digest) || absent.contains_key(&file.digest) {
                continue;
            }
            match mark {
                Some(mark) if store.verify(&file.digest)? => {
                    verified.insert(file.digest, mark);
                    continue;
                }
                Some(_) => {
                    (self.tell)(&format!("the content of {} is damaged on the disk; it is fetched again", file.path));
                }
                None => {}
            }
            verified.remove(&file.digest);
            let to = if self.keeping.wants(&file.digest) { &mut wanted } else { &mut absent };
            to.insert(file.digest, file);
        }
        Ok((wanted, absent))
    }

    /// Fetches contents from the nodes that have them.
    fn fetch(&self, wanted: &BTreeMap<Digest, &File>, followings: &mut Followings) -> anyhow::Result<()> {
        let store = &self.published.store;
        let bytes = wanted.values().map(|file| file.bytes).sum();
        {
            let _lock = self.published.lock()?;
            self.published.make_room(bytes)?;
        }
        let sources: Vec<&dyn Source> = self.peers.iter().map(|peer| peer as &dyn Source).collect();
        let place = |number: &NodeNumber| self.peers.iter().position(|peer| peer.number == *number);
        let likely = |digest: &Digest| self.keeping.keepers(digest).iter().filter_map(place).collect();
        let fetched = fetch_all(store, &wanted.values().copied().collect::<Vec<_>>(), &sources, &likely);
        let came: Vec<&&File> = wanted.values().filter(|file| store.has(&file.digest)).collect();
        for file in &came {
            followings.elsewhere.remove(&file.digest);
        }
        self.seen.fetched(came.len() as u64, came.iter().map(|file| file.bytes).sum());
        if let Err(error) = &fetched {
            self.seen.away(&error.to_string());
        }
        Ok(fetched?)
    }

    /// Finds out which nodes have what lies elsewhere, and of when it is.
    fn find_elsewhere(&self, absent: &BTreeMap<Digest, &File>, followings: &mut Followings) -> anyhow::Result<()> {
        let unknown: Vec<Digest> =
            absent.keys().filter(|digest| !followings.elsewhere.contains_key(digest)).copied().collect();
        let mut missing = unknown;
        for peer in self.peers.iter().filter(|peer| self.keeping.is_living(peer.number)) {
            if missing.is_empty() {
                break;
            }
            let Some(stands) = peer.inquire(&missing) else { continue };
            for (digest, stand) in missing.iter().zip(&stands) {
                if let Stand::Has { modified_unix_s } | Stand::Keeps { modified_unix_s } = stand {
                    followings.elsewhere.insert(*digest, *modified_unix_s);
                }
            }
            missing.retain(|digest| !followings.elsewhere.contains_key(digest));
        }
        let Some(file) = missing.first().and_then(|digest| absent.get(digest)) else { return Ok(()) };
        let why = format!("no node that answers has the content of {}, nor of {} others", file.path, missing.len() - 1);
        self.seen.away(&why);
        bail!("{why}; see that a node with this version runs")
    }

    /// Which contents of a manifest lie elsewhere, with when they were modified.
    fn elsewhere(&self, manifest: &Manifest, followings: &Followings) -> Elsewhere {
        let absent = manifest.entries().iter().filter(|file| !self.published.store.has(&file.digest));
        absent.filter_map(|file| Some((file.digest, *followings.elsewhere.get(&file.digest)?))).collect()
    }

    /// Makes the placement anew, where some node keeps less than everything; whether it has changed.
    fn plan(&self, sites: &[String], followings: &mut Followings) -> bool {
        if !self.keeping.is_used() {
            return false;
        }
        match self.versions(sites, &followings.kept) {
            Ok(kept) => {
                followings.kept = kept;
                self.keeping.plan(&followings.kept, &|what| {
                    (self.tell)(what);
                    self.seen.copies(what);
                })
            }
            // The placement of before holds.
            Err(error) => {
                tracing::debug!(%error, "the versions that are kept are not known");
                false
            }
        }
    }

    /// All versions that are kept; the manifests that are known are not read again.
    pub(super) fn versions(&self, sites: &[String], known: &[KeptVersion]) -> anyhow::Result<Vec<KeptVersion>> {
        let mut kept = Vec::new();
        for site in sites {
            for (publication, is_current) in self.published.versions_kept(site)? {
                let (version, digest) = (publication.version, publication.manifest);
                let manifest = match known.iter().find(|known| known.digest == digest) {
                    Some(known) => Arc::clone(&known.manifest),
                    None => Arc::new(self.published.directory.manifest(site, version)?.into_value()),
                };
                kept.push(KeptVersion { site: site.clone(), version, is_current, manifest, digest });
            }
        }
        Ok(kept)
    }

    /// Says in the directory that this node is there, and what it has.
    fn stay(&self, followings: &mut Followings) -> Result<(), DirectoryError> {
        let mut node = self.node.clone();
        let state = self.lock();
        node.facts = state.sites.iter().map(|(site, has)| (format!("{FACT}{site}"), has.version.to_string())).collect();
        drop(state);
        let directory = &self.published.directory;
        match &followings.entered {
            Some((entered, at)) if *entered == node => {
                if at.elapsed() < PRESENCE / 4 {
                    return Ok(());
                }
                followings.entered = None;
                directory.stay(&node.name, PRESENCE)?;
            }
            _ => {
                directory.join(&node, PRESENCE)?;
            }
        }
        followings.entered = Some((node, Instant::now()));
        Ok(())
    }

    fn note<T>(&self, known: &Known<T>) {
        let since = match known {
            Known::Fresh(_) => None,
            Known::Stale { since, .. } => Some(*since),
        };
        let before = std::mem::replace(&mut self.lock().stale_since, since);
        match (before, since) {
            (None, Some(_)) => (self.tell)("the directory does not answer; this node serves what it has"),
            (Some(since), None) => {
                (self.tell)(&format!("the directory answers again, after {:.0?}", since.elapsed()));
            }
            _ => {}
        }
    }

    fn note_away(&self, error: &DirectoryError) {
        let mut state = self.lock();
        if state.stale_since.is_none() {
            state.stale_since = Some(Instant::now());
            drop(state);
            (self.tell)(&format!("{error}; this node serves what it has"));
        }
    }

    fn note_fault(&self, site: &str, fault: Option<String>, then: &str) {
        let mut state = self.lock();
        let is_news = {
            let has = state.sites.entry(site.to_owned()).or_default();
            let is_news = has.fault != fault;
            has.fault.clone_from(&fault);
            is_news
        };
        drop(state);
        if let Some(fault) = fault.filter(|_| is_news) {
            (self.tell)(&format!("site {site}: {fault}; {then}"));
        }
    }

    /// What the lock guards is whole after each statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
