//! What one event loop has seen of governed requests since it was last asked: a book of its own for each loop, which
//! only that loop and, once a tick, the controller open.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_server::Link;

/// Paths in one loop's book; requests for others are counted by their pattern alone.
pub(crate) const PATHS_MAX: usize = 16_384;
/// Connections with a governed response under way in one loop.
const LIVE_MAX: usize = 65_536;
/// Requests of one tick whose client, network and file are told; of others only their number.
const SEEN_MAX: usize = 16_384;
/// Responses under way that one connection is remembered with.
const UNDER_WAY_MAX: usize = 256;
/// The place of requests that are not in the book.
const NOWHERE: u32 = u32::MAX;
/// The mark of a request that was refused, in the order of its connection.
const REFUSED: u32 = 1 << 31;

/// The book of a loop.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    places: FxHashMap<Arc<str>, u32>,
    /// Atoms whose paths were handed out already.
    told: usize,
    atoms: Vec<Atom>,
    /// Places of the atoms that were asked for since the last look.
    touched: Vec<u32>,
    live: FxHashMap<u64, Live>,
    /// Orders of connections that have ended, to be used again.
    spare: Vec<VecDeque<u32>>,
    seen: Vec<Seen>,
    passed_over: u64,
    /// Sessions that are over, and of which the rules could not be told at once.
    ended: Vec<u64>,
    dropped: Dropped,
}

/// What there was no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Dropped {
    /// Requests for paths beyond those that are followed one by one.
    pub paths: u64,
    /// Connections beyond those that are followed.
    pub connections: u64,
    /// Requests of which neither client nor file was looked at.
    pub clients: u64,
    /// Requests that found the book open, or the rules at work, and were answered without advice.
    pub undecided: u64,
}

/// An atom as one loop has seen it.
#[derive(Debug)]
struct Atom {
    path: Arc<str>,
    /// The pattern of its rules, of the policy with this number.
    pattern: (u64, Option<u32>),
    tally: Tally,
    /// Responses under way at the moment.
    under_way: u32,
    is_touched: bool,
}

/// What became of requests since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
}

/// Who asked for what, as numbers that are the same for the same ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) client: u64,
    pub(crate) network: u64,
    pub(crate) place: u32,
}

/// A connection with responses under way.
#[derive(Debug, Default)]
struct Live {
    /// Places of the atoms of its responses, in the order in which they end.
    order: VecDeque<u32>,
    /// Whether the rules know it as a session.
    is_session: bool,
    link: Option<Link>,
    /// The variant to go on with.
    wanted: Option<Arc<str>>,
}

/// What the controller takes out of a book.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Paths of the places that are new, in their order.
    pub(crate) paths: Vec<Arc<str>>,
    /// Places with what became of their requests, and responses under way now.
    pub(crate) tallies: Vec<(u32, Tally, u32)>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) passed_over: u64,
    /// Sessions with what was measured of their links last.
    pub(crate) links: Vec<(u64, Link)>,
    /// Sessions that are over.
    pub(crate) ended: Vec<u64>,
}

impl Ledger {
    /// The place of a path and the pattern of its rules, which `pattern` finds for the policy of this number.
    pub(crate) fn place(
        &mut self,
        path: &str,
        policy: u64,
        pattern: impl FnOnce() -> Option<usize>,
    ) -> (u32, Option<usize>) {
        let place = match self.places.get(path) {
            Some(place) => *place,
            None if self.atoms.len() < PATHS_MAX => {
                let (place, path) = (self.atoms.len() as u32, Arc::<str>::from(path));
                self.places.insert(Arc::clone(&path), place);
                let (tally, pattern) = (Tally::default(), (u64::MAX, None));
                self.atoms.push(Atom { path, pattern, tally, under_way: 0, is_touched: false });
                place
            }
            None => {
                self.dropped.paths += 1;
                return (NOWHERE, pattern());
            }
        };
        let known = &mut self.atoms[place as usize].pattern;
        if known.0 != policy {
            *known = (policy, pattern().map(|pattern| pattern as u32));
        }
        (place, known.1.map(|pattern| pattern as usize))
    }

    /// A request came; whether there is room to follow it to its end.
    pub(crate) fn begin(&mut self, place: u32, connection: u64, client: u64, network: u64, is_refused: bool) -> bool {
        if self.seen.len() < SEEN_MAX && place != NOWHERE {
            self.seen.push(Seen { client, network, place });
        } else {
            self.passed_over += 1;
            self.dropped.clients += 1;
        }
        let has_room = self.live.len() < LIVE_MAX || self.live.contains_key(&connection);
        let spare = &mut self.spare;
        let fresh = || Live { order: spare.pop().unwrap_or_default(), ..Live::default() };
        let live = has_room.then(|| self.live.entry(connection).or_insert_with(fresh));
        let live = live.filter(|live| live.order.len() < UNDER_WAY_MAX);
        if live.is_none() {
            self.dropped.connections += 1;
        }
        let is_followed = live.is_some();
        if let Some(live) = live {
            live.order.push_back(if is_refused { place | REFUSED } else { place });
        }
        let Some(atom) = self.atoms.get_mut(place as usize) else { return is_followed };
        atom.tally.requests += 1;
        atom.tally.refused += u64::from(is_refused);
        atom.under_way += u32::from(!is_refused && is_followed);
        if !std::mem::replace(&mut atom.is_touched, true) {
            self.touched.push(place);
        }
        is_followed
    }

    /// The connection is a session that the rules know.
    pub(crate) fn is_session(&mut self, connection: u64) {
        if let Some(live) = self.live.get_mut(&connection) {
            live.is_session = true;
        }
    }

    /// What was measured of a connection; the variant to go on with, said once.
    pub(crate) fn during(&mut self, connection: u64, link: Link) -> Option<Arc<str>> {
        let live = self.live.get_mut(&connection)?;
        live.link = Some(link);
        live.wanted.take()
    }

    /// A response is over. `true`: it was the last one of a session.
    pub(crate) fn end(&mut self, connection: u64, has_failed: bool) -> bool {
        let Some(live) = self.live.get_mut(&connection) else { return false };
        let place = live.order.pop_front().unwrap_or(NOWHERE);
        let is_last = live.order.is_empty();
        let was_refused = place != NOWHERE && place & REFUSED != 0;
        if let Some(atom) = self.atoms.get_mut((place & !REFUSED) as usize).filter(|_| !was_refused) {
            atom.under_way = atom.under_way.saturating_sub(1);
            atom.tally.failed += u64::from(has_failed);
            if !std::mem::replace(&mut atom.is_touched, true) {
                self.touched.push(place);
            }
        }
        if !is_last {
            return false;
        }
        let Some(live) = self.live.remove(&connection) else { return false };
        if self.spare.len() < 64 {
            self.spare.push(live.order);
        }
        live.is_session
    }

    /// Has a connection go on with another variant. `false`: it is not here.
    pub(crate) fn want(&mut self, connection: u64, variant: &Arc<str>) -> bool {
        let live = self.live.get_mut(&connection);
        live.map(|live| live.wanted = Some(Arc::clone(variant))).is_some()
    }

    /// A session is over, and the rules do not know it yet.
    pub(crate) fn ended(&mut self, session: u64) {
        // As many as there can be connections: each ends once between two looks, or is counted.
        if self.ended.len() < LIVE_MAX {
            self.ended.push(session);
        } else {
            self.dropped.connections += 1;
        }
    }

    /// No session is one of the rules any more: these have been changed.
    pub(crate) fn forget_sessions(&mut self) {
        self.ended.clear();
        self.live.values_mut().for_each(|live| (live.is_session, live.wanted) = (false, None));
    }

    /// Somebody found the book open.
    pub(crate) fn undecided(&mut self) {
        self.dropped.undecided += 1;
    }

    /// Hands out what has come since the last time, into room that was used before.
    pub(crate) fn take(&mut self, taken: &mut Taken) {
        taken.paths.clear();
        taken.paths.extend(self.atoms[self.told..].iter().map(|atom| Arc::clone(&atom.path)));
        self.told = self.atoms.len();
        taken.tallies.clear();
        for place in self.touched.drain(..) {
            let atom = &mut self.atoms[place as usize];
            atom.is_touched = false;
            taken.tallies.push((place, std::mem::take(&mut atom.tally), atom.under_way));
        }
        taken.seen.clear();
        std::mem::swap(&mut self.seen, &mut taken.seen);
        taken.passed_over = std::mem::take(&mut self.passed_over);
        taken.ended.clear();
        // One of the same connection may have begun since.
        taken.ended.extend(self.ended.drain(..).filter(|session| !self.live.contains_key(session)));
        taken.links.clear();
        let sessions = self.live.iter_mut().filter(|(_, live)| live.is_session);
        taken.links.extend(sessions.filter_map(|(number, live)| Some((*number, live.link.take()?))));
    }

    /// What there was no room for so far.
    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }
}

impl Dropped {
    pub(crate) fn add(&mut self, other: Self) {
        self.paths += other.paths;
        self.connections += other.connections;
        self.clients += other.clients;
        self.undecided += other.undecided;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(ledger: &mut Ledger, path: &str, connection: u64, is_refused: bool) -> u32 {
        let (place, _) = ledger.place(path, 1, || Some(0));
        ledger.begin(place, connection, 1, 1, is_refused);
        place
    }

    #[test]
    fn what_is_under_way_comes_back_to_zero_whatever_the_order() {
        let mut ledger = Ledger::default();
        let (a, b) = (begin(&mut ledger, "/a", 1, false), begin(&mut ledger, "/b", 1, true));
        begin(&mut ledger, "/b", 1, false);
        ledger.is_session(1);
        assert_eq!((ledger.atoms[a as usize].under_way, ledger.atoms[b as usize].under_way), (1, 1));
        assert!(!ledger.end(1, false) && !ledger.end(1, true), "the second one was refused: no failure");
        assert!(ledger.end(1, true) && !ledger.end(1, true), "one end too many is nobody's");
        assert_eq!((ledger.atoms[a as usize].under_way, ledger.atoms[b as usize].under_way), (0, 0));
        let mut taken = Taken::default();
        ledger.take(&mut taken);
        let tally = |requests, refused, failed| Tally { requests, refused, failed };
        assert_eq!(taken.tallies, [(a, tally(1, 0, 0), 0), (b, tally(2, 1, 1), 0)]);
        ledger.take(&mut taken);
        assert!(taken.tallies.is_empty() && ledger.live.is_empty());
    }

    #[test]
    fn everything_has_a_bound_and_counts_what_it_drops() {
        let mut ledger = Ledger::default();
        for number in 0..70_000_u64 {
            begin(&mut ledger, &format!("/{number}"), number, false);
        }
        let dropped = ledger.dropped();
        assert_eq!((ledger.atoms.len(), ledger.live.len(), ledger.seen.len()), (PATHS_MAX, LIVE_MAX, SEEN_MAX));
        assert_eq!((dropped.paths, dropped.connections), (70_000 - PATHS_MAX as u64, 70_000 - LIVE_MAX as u64));
        assert_eq!(dropped.clients, 70_000 - SEEN_MAX as u64);
        for number in 0..70_000 {
            ledger.end(number, false);
        }
        assert!(ledger.live.is_empty() && ledger.atoms.iter().all(|atom| atom.under_way == 0));
    }
}
