//! Which published contents this node keeps: the placement that all nodes compute alike, and what this node is asked for
//! itself so often that it keeps that too, while there is room.

use crate::cluster::directory_place::DirectoryPlace;
use crate::cluster::members::MembersFile;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use weir_cluster::placement::{
    Catalogue, Placement, PlacementInputs, PlacementNode, PlacementSettings, Published as PublishedFile, Wishes, place,
};
use weir_cluster::{Asked, Directing, Gossip, HeardMember, Keeping as Stand, NodeNumber, RemoteDirector};
use weir_directory::atoms::ContentStore;
use weir_directory::{Digest, Manifest};

/// A node that was silent for so long is gone, and others take what it has kept.
const GONE: Duration = Duration::from_secs(10);
/// Requests in a second to this node from which on it keeps content as a guest.
const GUEST_RATE: f64 = 0.2;

/// A version of a site whose content is kept.
#[derive(Debug, Clone)]
pub(super) struct KeptVersion {
    pub(super) site: String,
    pub(super) version: u64,
    pub(super) is_current: bool,
    pub(super) manifest: Arc<Manifest>,
    /// The digest of the manifest.
    pub(super) digest: Digest,
}

/// What tells one set of versions from another.
type VersionsKey = Vec<(String, u64, bool, Digest)>;

/// Which contents this node keeps.
pub(super) struct Keeping {
    own: NodeNumber,
    /// All nodes, by name.
    numbers: HashMap<String, NodeNumber>,
    budgets: BTreeMap<NodeNumber, u64>,
    settings: PlacementSettings,
    begun: Instant,
    gone_after: Duration,
    heard: OnceLock<(Arc<Gossip>, Arc<RemoteDirector>)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    versions: VersionsKey,
    catalogue: Catalogue,
    placement: Placement,
    /// The nodes that it was made for, and the levels of all contents.
    made_for: (Vec<PlacementNode>, Vec<u8>),
    living: BTreeSet<NodeNumber>,
    /// What is kept here; none until the first placement was made: then all is kept that is there.
    wanted: Option<HashSet<Digest>>,
    /// What is about to be given up: it is not vouched for.
    leaving: HashSet<Digest>,
    wishes: Wishes,
}

/// A content, for those who look.
#[derive(Debug, Clone)]
pub(super) struct KeptContent {
    pub(super) path: String,
    pub(super) digest: Digest,
    pub(super) bytes: u64,
    pub(super) requests_per_s: f64,
    pub(super) nodes: Vec<NodeNumber>,
}

impl Keeping {
    /// Of a node, by the budgets of members.toml.
    pub(super) fn new(members: &MembersFile, own: NodeNumber) -> Self {
        let copies_min = members.directory.as_ref().map_or(1, DirectoryPlace::copies);
        let names = members.nodes.iter().map(|(number, (reached, _))| (reached.member.name.to_string(), *number));
        Self {
            own,
            numbers: names.collect(),
            budgets: members.keeps_bytes.clone(),
            settings: PlacementSettings { copies_min, ..PlacementSettings::default() },
            begun: Instant::now(),
            gone_after: members.pace.stretched(GONE),
            heard: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Says by what it is known which nodes live and what they are asked for.
    pub(super) fn hear(&self, gossip: Arc<Gossip>, director: Arc<RemoteDirector>) {
        // It is said once, at the start.
        let _ = self.heard.set((gossip, director));
    }

    /// Takes what policies want, in place of what they wanted before.
    pub(super) fn set_wishes(&self, wishes: Wishes) {
        let mut state = self.lock();
        if state.wishes != wishes {
            state.wishes = wishes;
            state.made_for.0.clear();
        }
    }

    /// Bytes that this node keeps; none = everything.
    pub(super) fn budget(&self) -> Option<u64> {
        self.budgets.get(&self.own).copied()
    }

    /// Whether any node keeps less than everything.
    pub(super) fn is_used(&self) -> bool {
        !self.budgets.is_empty()
    }

    /// Copies that each content has in any case.
    pub(super) fn copies_min(&self) -> usize {
        self.settings.copies_min as usize
    }

    /// Makes the placement anew where its inputs have changed; whether it did. What is short of copies is told.
    pub(super) fn plan(&self, versions: &[KeptVersion], tell: &dyn Fn(&str)) -> bool {
        let heard = self.heard.get().map(|(gossip, _)| gossip.heard()).unwrap_or_default();
        let epoch = self.heard.get().map_or(0, |(_, director)| director.epoch());
        let nodes = self.living(&heard);
        let mut state = self.lock();
        let key: VersionsKey =
            versions.iter().map(|it| (it.site.clone(), it.version, it.is_current, it.digest)).collect();
        let mut is_new = state.versions != key || state.wanted.is_none();
        if is_new {
            state.catalogue = catalogue_of(versions);
            state.versions = key;
        }
        let tables: Vec<&[Asked]> = heard.iter().map(|heard| heard.popular.as_slice()).collect();
        state.catalogue.set_popular(&tables);
        if is_new || state.made_for.0 != nodes {
            let wishes = state.wishes.clone();
            state.catalogue.set_wishes(&wishes, &weir_adapt::fits_glob);
        }
        let levels: Vec<u8> = state.catalogue.contents().iter().map(|content| content.level).collect();
        if is_new || state.made_for != (nodes.clone(), levels.clone()) {
            let contents = state.catalogue.contents();
            let inputs = PlacementInputs { epoch, contents, nodes: &nodes, settings: self.settings };
            let placement = place(&inputs);
            tell_shortage(&state.placement, &placement, tell);
            state.placement = placement;
            state.living = nodes.iter().map(|node| node.number).collect();
            state.made_for = (nodes, levels);
            is_new = true;
        }
        let own_name = |heard: &&HeardMember| self.numbers.get(heard.name.as_str()) == Some(&self.own);
        let own_table = heard.iter().find(own_name).map_or(&[][..], |heard| &heard.popular);
        let wanted = self.wanted(&state, own_table);
        is_new |= state.wanted.as_ref() != Some(&wanted);
        state.wanted = Some(wanted);
        is_new
    }

    /// What is placed here, and what this node is asked for itself.
    fn wanted(&self, state: &State, own_table: &[Asked]) -> HashSet<Digest> {
        let contents = state.catalogue.contents();
        let placed = (0..contents.len()).filter(|at| state.placement.has(*at, self.own));
        let mut wanted: HashSet<Digest> = placed.map(|at| Digest(contents[at].digest)).collect();
        let Some(budget) = self.budget() else { return wanted };
        let mut room = budget.saturating_sub(state.placement.bytes_of(self.own));
        // The table has the most asked first.
        for asked in own_table.iter().take_while(|asked| asked.requests_per_s >= GUEST_RATE) {
            let Some(at) = state.catalogue.leads_to(&asked.path) else { continue };
            let (digest, bytes) = (Digest(contents[at].digest), contents[at].bytes);
            if wanted.contains(&digest) {
                continue;
            }
            if bytes > room {
                break;
            }
            room -= bytes;
            wanted.insert(digest);
        }
        wanted
    }

    /// The nodes that live, this one included. One that was not heard yet lives until it had the time to be heard.
    fn living(&self, heard: &[HeardMember]) -> Vec<PlacementNode> {
        let is_young = self.begun.elapsed() < self.gone_after;
        let lives = |name: &str| match heard.iter().find(|heard| heard.name.as_str() == name) {
            Some(heard) => heard.is_alive || heard.silence < self.gone_after,
            None => is_young,
        };
        let living = self.numbers.iter().filter(|(name, number)| **number == self.own || lives(name));
        let node = |(_, number): (&String, &NodeNumber)| PlacementNode {
            number: *number,
            keeps_bytes: self.budgets.get(number).copied(),
        };
        let mut nodes: Vec<PlacementNode> = living.map(node).collect();
        nodes.sort_unstable_by_key(|node| node.number);
        nodes
    }

    /// Whether this node keeps some content.
    pub(super) fn wants(&self, digest: &Digest) -> bool {
        let state = self.lock();
        self.budget().is_none() || state.wanted.as_ref().is_none_or(|wanted| wanted.contains(digest))
    }

    /// Whether no kept version has it.
    pub(super) fn is_garbage(&self, digest: &Digest) -> bool {
        self.lock().catalogue.position(&digest.0).is_none()
    }

    /// Whether the placement was made for these versions.
    pub(super) fn knows(&self, versions: &[KeptVersion]) -> bool {
        let state = self.lock();
        let is_same = |(known, it): (&(String, u64, bool, Digest), &KeptVersion)| {
            (&known.0, known.1, known.2, known.3) == (&it.site, it.version, it.is_current, it.digest)
        };
        state.versions.len() == versions.len() && state.versions.iter().zip(versions).all(is_same)
    }

    /// Requests of all nodes in a second for some content.
    pub(super) fn rate(&self, digest: &Digest) -> f64 {
        let state = self.lock();
        state.catalogue.position(&digest.0).map_or(0.0, |at| state.catalogue.rate(at))
    }

    /// The nodes that keep some content, as far as the placement goes, without this one.
    pub(super) fn keepers(&self, digest: &Digest) -> Vec<NodeNumber> {
        let state = self.lock();
        let nodes = state.catalogue.position(&digest.0).map_or(&[][..], |at| state.placement.nodes_of(at));
        nodes.iter().copied().filter(|node| *node != self.own).collect()
    }

    /// Whether a node lives.
    pub(super) fn is_living(&self, node: NodeNumber) -> bool {
        let state = self.lock();
        state.living.is_empty() || state.living.contains(&node)
    }

    /// How many other nodes live.
    pub(super) fn others(&self) -> usize {
        self.lock().living.iter().filter(|node| **node != self.own).count()
    }

    /// How this node stands to contents. What it says that it keeps it gives up only once another node has said the same.
    pub(super) fn vouch(&self, store: &ContentStore, digests: &[[u8; 32]]) -> Vec<Stand> {
        let state = self.lock();
        let stand = |digest: &[u8; 32]| {
            let digest = Digest(*digest);
            let Some(mark) = store.mark(&digest) else { return Stand::Absent };
            let modified_unix_s = mark.modified_unix_s();
            let keeps = match (&state.wanted, self.budget()) {
                (_, None) => true,
                (Some(wanted), _) => wanted.contains(&digest),
                (None, _) => false,
            };
            if keeps && !state.leaving.contains(&digest) {
                Stand::Keeps { modified_unix_s }
            } else {
                Stand::Has { modified_unix_s }
            }
        };
        // Under the lock, so that nothing begins to leave while it is vouched for.
        digests.iter().map(stand).collect()
    }

    /// Vouches for contents no more; those of them that this node does not keep.
    pub(super) fn begin_to_leave(&self, digests: Vec<Digest>) -> Vec<Digest> {
        let mut state = self.lock();
        let wanted = state.wanted.clone().unwrap_or_default();
        let leaving: Vec<Digest> = digests.into_iter().filter(|digest| !wanted.contains(digest)).collect();
        state.leaving.extend(leaving.iter().copied());
        leaving
    }

    /// They have left, or stay.
    pub(super) fn end_leaving(&self) {
        self.lock().leaving.clear();
    }

    /// The contents that are asked for most, and by how many bytes this node's placement fills its budget.
    pub(super) fn shown(&self, most: usize) -> (Vec<KeptContent>, u64) {
        let state = self.lock();
        let contents = state.catalogue.contents();
        let mut paths: Vec<(&str, usize)> = state.catalogue.paths().collect();
        let rate = |at: usize| state.catalogue.rate(at);
        paths.sort_by(|one, other| rate(other.1).total_cmp(&rate(one.1)).then(one.0.cmp(other.0)));
        let content = |(path, at): &(&str, usize)| KeptContent {
            path: (*path).to_owned(),
            digest: Digest(contents[*at].digest),
            bytes: contents[*at].bytes,
            requests_per_s: rate(*at),
            nodes: state.placement.nodes_of(*at).to_vec(),
        };
        (paths.iter().take(most).map(content).collect(), state.placement.bytes_of(self.own))
    }

    /// How many contents have fewer copies than they should have.
    pub(super) fn short(&self) -> usize {
        self.lock().placement.short.len()
    }

    /// What the lock guards is whole after each statement.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn catalogue_of(versions: &[KeptVersion]) -> Catalogue {
    let files = versions.iter().flat_map(|kept| {
        kept.manifest.entries().iter().map(|file| PublishedFile {
            path: &file.path,
            digest: file.digest.0,
            bytes: file.bytes,
            is_current: kept.is_current,
        })
    });
    Catalogue::of(&files.collect::<Vec<_>>())
}

/// Says where budgets are too small, when that changes.
fn tell_shortage(before: &Placement, now: &Placement, tell: &dyn Fn(&str)) {
    let none = now.short.iter().filter(|short| short.copies == 0).count();
    match (before.short.len(), now.short.len()) {
        (had, has) if had == has => {}
        (_, 0) => tell("all published contents have their copies again"),
        (_, has) => tell(&format!(
            "{has} published contents have fewer copies than they should have, {none} of them none: the budgets of the \
             nodes that live are too small; raise keeps_bytes, or lower copies"
        )),
    }
}
