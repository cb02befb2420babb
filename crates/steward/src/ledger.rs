//! What one event loop has seen of governed requests since it was last asked: a book of its own for each loop, which
//! only that loop and, once a tick, the controller open.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_server::Link;

/// Paths in one loop's book; requests for others are counted by their pattern alone.
pub(crate) const PATHS_MAX: usize = 16_384;
/// Connections of one loop with responses under way whose sessions the rules know.
const LIVE_MAX: usize = 65_536;
/// Clients and networks of one tick that are told; of requests of others only their number.
const SEEN_MAX: usize = 16_384;
/// Clients that are known to be told already: one for each place of a table, a power of two of them.
const NOTED: usize = 4096;
/// Kinds of sessions of one tick that are counted in place of being told; others are told.
const PASSED_MAX: usize = 8192;
/// The place of requests that are not in the book.
const NOWHERE: u32 = u32::MAX;

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
    seen: Vec<Seen>,
    noted: Noted,
    fileless: u64,
    clientless: u64,
    passed: PassedSessions,
    /// Sessions that are over, and of which the rules could not be told at once.
    ended: Vec<u64>,
    dropped: Dropped,
}

/// What there was no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Dropped {
    /// Requests for paths beyond those that are followed one by one.
    pub paths: u64,
    /// Sessions beyond those that are followed.
    pub connections: u64,
    /// Requests whose client was not looked at.
    pub clients: u64,
    /// Requests that found the book open, or the rules at work, and were answered without advice, or of whose waiting
    /// nothing was noted.
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
    /// For what only they have waited for.
    pub(crate) waited_ns: u64,
}

/// Who asked, as numbers that are the same for the same ones, and how often; one may be told in several pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) client: u64,
    pub(crate) network: u64,
    pub(crate) requests: u64,
}

/// Which clients were seen since the last look, each with its place among them, as far as there is room: a client that is
/// not here may be seen again.
#[derive(Debug)]
struct Noted(Box<[(u64, usize)]>);

/// The client of no request: it would be one of a network of all ones, of which none is.
const NOBODY: u64 = u64::MAX;

/// Sessions that are alike: of one place, with links of which the rules were told the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    place: u32,
    /// The bits of what is known, and of not-a-number for what is not.
    bandwidth: u64,
    rtt: u64,
}

/// Sessions of which nothing was to be decided: the path of their atom, and how many they were.
pub(crate) type PassedSessions = FxHashMap<Alike, (Arc<str>, u32)>;

/// What a response is the end of, as its beginning noted it: whoever answers keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Ticket {
    /// Of a request that no book knows.
    pub(crate) const NONE: Self = Self(0);
    /// So that no place is that of a request which no book knows.
    const KNOWN: u64 = 1 << 32;
    const REFUSED: u64 = 1 << 33;
    const SESSION: u64 = 1 << 34;

    fn of(place: u32, is_refused: bool) -> Self {
        Self(u64::from(place) | Self::KNOWN | if is_refused { Self::REFUSED } else { 0 })
    }

    /// As it was told to whoever answers.
    pub(crate) fn told(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    fn has(self, what: u64) -> bool {
        self.0 & what != 0
    }

    /// The place of its path.
    pub(crate) fn place(self) -> u32 {
        (self.0 & u64::from(u32::MAX)) as u32
    }
}

/// A connection with responses under way whose sessions the rules know.
#[derive(Debug, Default)]
struct Live {
    /// Responses under way that began as its sessions.
    responses: u32,
    /// Whether the rules know it as a session still.
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
    /// Requests for paths that are not in the book, and those of clients that are not among the seen.
    pub(crate) fileless: u64,
    pub(crate) clientless: u64,
    /// Sessions with what was measured of their links last.
    pub(crate) links: Vec<(u64, Link)>,
    /// Sessions that are over.
    pub(crate) ended: Vec<u64>,
}

impl Ledger {
    /// The place of a path and the pattern of its rules, which `pattern` finds for the policy of this number. Where the
    /// path has been asked about before, `known` is what [`Self::known`] has made of its place.
    pub(crate) fn place(
        &mut self,
        path: &str,
        known: u64,
        policy: u64,
        pattern: impl FnOnce() -> Option<usize>,
    ) -> (u32, Option<usize>) {
        if let Some(atom) = self.atoms.get((known as usize).wrapping_sub(1))
            && atom.pattern.0 == policy
        {
            return ((known - 1) as u32, atom.pattern.1.map(|pattern| pattern as usize));
        }
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

    /// A place as a number for [`Self::place`]; 0 = none.
    pub(crate) fn known(place: u32) -> u64 {
        if place == NOWHERE { 0 } else { u64::from(place) + 1 }
    }

    /// A request came.
    pub(crate) fn begin(&mut self, place: u32, client: u64, network: u64, is_refused: bool) -> Ticket {
        let noted = self.noted.of(client);
        if noted.0 == client
            && let Some(seen) = self.seen.get_mut(noted.1)
        {
            seen.requests += 1;
        } else if self.seen.len() < SEEN_MAX {
            *noted = (client, self.seen.len());
            self.seen.push(Seen { client, network, requests: 1 });
        } else {
            self.clientless += 1;
            self.dropped.clients += 1;
        }
        self.fileless += u64::from(place == NOWHERE);
        if let Some(atom) = self.atoms.get_mut(place as usize) {
            atom.tally.requests += 1;
            atom.tally.refused += u64::from(is_refused);
            atom.under_way += u32::from(!is_refused);
            if !std::mem::replace(&mut atom.is_touched, true) {
                self.touched.push(place);
            }
        }
        Ticket::of(place, is_refused)
    }

    /// A response had to wait so long before it could be made.
    pub(crate) fn waited(&mut self, ticket: Ticket, waited_ns: u64) {
        if ticket.has(Ticket::KNOWN)
            && let Some(atom) = self.atoms.get_mut(ticket.place() as usize)
        {
            atom.tally.waited_ns = atom.tally.waited_ns.saturating_add(waited_ns);
            if !std::mem::replace(&mut atom.is_touched, true) {
                self.touched.push(ticket.place());
            }
        }
    }

    /// Whether there is room to follow a session to its end; where there is none it is counted.
    pub(crate) fn has_room(&mut self, connection: u64) -> bool {
        let has_room = self.live.len() < LIVE_MAX || self.live.contains_key(&connection);
        self.dropped.connections += u64::from(!has_room);
        has_room
    }

    /// A session began of which nothing is to be decided, and which is none to the rules. `false`: there is no room to
    /// count it.
    pub(crate) fn passed(&mut self, place: u32, link: Link) -> bool {
        let alike = Alike::new(place, link);
        if let Some((_, count)) = self.passed.get_mut(&alike) {
            *count = count.saturating_add(1);
            return true;
        }
        let atom = self.atoms.get(place as usize).filter(|_| self.passed.len() < PASSED_MAX);
        let Some(atom) = atom else { return false };
        self.passed.insert(alike, (Arc::clone(&atom.path), 1));
        true
    }

    /// Hands out those sessions, for an empty table in their place.
    pub(crate) fn take_passed(&mut self, empty: &mut PassedSessions) {
        std::mem::swap(&mut self.passed, empty);
    }

    /// The connection is a session that the rules know, until this response and all others like it are over.
    pub(crate) fn is_session(&mut self, connection: u64, ticket: Ticket) -> Ticket {
        let live = self.live.entry(connection).or_default();
        live.responses += 1;
        live.is_session = true;
        Ticket(ticket.0 | Ticket::SESSION)
    }

    /// What was measured of a connection; the variant to go on with, said once.
    pub(crate) fn during(&mut self, connection: u64, link: Link) -> Option<Arc<str>> {
        let live = self.live.get_mut(&connection)?;
        live.link = Some(link);
        live.wanted.take()
    }

    /// A response is over. `true`: it was the last one of a session.
    pub(crate) fn end(&mut self, connection: u64, ticket: Ticket, has_failed: bool) -> bool {
        if ticket.has(Ticket::KNOWN)
            && !ticket.has(Ticket::REFUSED)
            && let Some(atom) = self.atoms.get_mut(ticket.place() as usize)
        {
            atom.under_way = atom.under_way.saturating_sub(1);
            atom.tally.failed += u64::from(has_failed);
            if !std::mem::replace(&mut atom.is_touched, true) {
                self.touched.push(ticket.place());
            }
        }
        if !ticket.has(Ticket::SESSION) {
            return false;
        }
        let Some(live) = self.live.get_mut(&connection) else { return false };
        live.responses -= 1;
        live.responses == 0 && self.live.remove(&connection).is_some_and(|live| live.is_session)
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
        self.noted.clear();
        taken.fileless = std::mem::take(&mut self.fileless);
        taken.clientless = std::mem::take(&mut self.clientless);
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

impl Alike {
    fn new(place: u32, link: Link) -> Self {
        let bits = |value: Option<f64>| value.unwrap_or(f64::NAN).to_bits();
        Self { place, bandwidth: bits(link.bandwidth_bps), rtt: bits(link.rtt_s) }
    }

    /// What the rules were told of their links.
    pub(crate) fn link(self) -> Link {
        let known = |bits| Some(f64::from_bits(bits)).filter(|value| !value.is_nan());
        Link { bandwidth_bps: known(self.bandwidth), rtt_s: known(self.rtt) }
    }
}

impl Default for Noted {
    fn default() -> Self {
        Self(vec![(NOBODY, 0); NOTED].into_boxed_slice())
    }
}

impl Noted {
    /// The place of a client.
    fn of(&mut self, client: u64) -> &mut (u64, usize) {
        // The upper bits of the product depend on all bits of the number.
        let hash = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - NOTED.ilog2());
        &mut self.0[hash as usize % NOTED]
    }

    fn clear(&mut self) {
        self.0.fill((NOBODY, 0));
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

    fn begin(ledger: &mut Ledger, path: &str, is_refused: bool) -> Ticket {
        let (place, _) = ledger.place(path, 0, 1, || Some(0));
        ledger.begin(place, 1, 1, is_refused)
    }

    #[test]
    fn a_client_is_told_once_and_a_place_that_is_known_is_that_of_its_path() {
        let mut ledger = Ledger::default();
        let mut taken = Taken::default();
        for _ in 0..2 {
            for number in 0..1000 {
                ledger.begin(0, number % 10, number % 5, false);
            }
            ledger.take(&mut taken);
            let mut clients: Vec<_> =
                taken.seen.iter().map(|seen| (seen.client, seen.network, seen.requests)).collect();
            clients.sort_unstable();
            assert_eq!(clients, (0..10).map(|client| (client, client % 5, 100)).collect::<Vec<_>>());
        }
        let never = || -> Option<usize> { panic!("it is known") };
        let (one, other) = (ledger.place("/a", 0, 1, || Some(3)).0, ledger.place("/b", 0, 1, || None).0);
        assert_eq!(ledger.place("/a", Ledger::known(one), 1, never), (one, Some(3)));
        assert_eq!(ledger.place("/b", Ledger::known(other), 1, never), (other, None));
        assert_eq!(ledger.place("/a", Ledger::known(one), 2, || Some(4)), (one, Some(4)), "of another policy");
        assert_eq!(Ledger::known(NOWHERE), 0);
    }

    #[test]
    fn sessions_that_pass_are_counted_by_kind_within_a_bound() {
        let mut ledger = Ledger::default();
        let (place, _) = ledger.place("/a", 0, 1, || Some(0));
        let link = |bandwidth_bps| Link { bandwidth_bps, rtt_s: None };
        let known = |number: usize| link(Some(number as f64));
        (0..PASSED_MAX - 1).for_each(|number| assert!(ledger.passed(place, known(number))));
        (0..3).for_each(|_| assert!(ledger.passed(place, link(None))));
        assert!(!ledger.passed(place, known(PASSED_MAX)) && ledger.passed(place, known(7)));
        let mut taken = PassedSessions::default();
        ledger.take_passed(&mut taken);
        assert_eq!((taken.len(), ledger.passed.len()), (PASSED_MAX, 0));
        let count = |of: Link| {
            let one = taken.iter().find(|(alike, _)| alike.link().bandwidth_bps == of.bandwidth_bps);
            one.filter(|(_, (path, _))| **path == *"/a").map(|(_, (_, count))| *count)
        };
        assert_eq!((count(link(None)), count(known(7)), count(known(8))), (Some(3), Some(2), Some(1)));
        assert!(!ledger.passed(NOWHERE, link(None)), "it would have no path");
    }

    #[test]
    fn what_is_under_way_comes_back_to_zero_whatever_the_order() {
        let mut ledger = Ledger::default();
        let (first, refused) = (begin(&mut ledger, "/a", false), begin(&mut ledger, "/b", true));
        let first = ledger.is_session(1, first);
        let second = begin(&mut ledger, "/b", false);
        let second = ledger.is_session(1, second);
        let under_way = |ledger: &Ledger| ledger.atoms.iter().map(|atom| atom.under_way).collect::<Vec<_>>();
        assert_eq!(under_way(&ledger), [1, 1]);
        assert!(!ledger.end(1, refused, true), "what was refused has not failed, and is no session");
        assert!(!ledger.end(1, second, true) && ledger.end(1, first, false), "the last one ends the session");
        assert!(!ledger.end(1, first, false), "one end too many is nobody's");
        assert_eq!(under_way(&ledger), [0, 0]);
        let mut taken = Taken::default();
        ledger.take(&mut taken);
        let tally = |requests, refused, failed| Tally { requests, refused, failed, waited_ns: 0 };
        assert_eq!(taken.tallies, [(0, tally(1, 0, 0), 0), (1, tally(2, 1, 1), 0)]);
        ledger.take(&mut taken);
        assert!(taken.tallies.is_empty() && ledger.live.is_empty());
    }

    #[test]
    fn everything_has_a_bound_and_counts_what_it_drops() {
        let mut ledger = Ledger::default();
        let mut tickets = Vec::new();
        for number in 0..70_000_u64 {
            let (place, _) = ledger.place(&format!("/{number}"), 0, 1, || Some(0));
            let ticket = ledger.begin(place, number, number, false);
            tickets.push(if ledger.has_room(number) { ledger.is_session(number, ticket) } else { ticket });
        }
        let dropped = ledger.dropped();
        assert_eq!((ledger.atoms.len(), ledger.live.len(), ledger.seen.len()), (PATHS_MAX, LIVE_MAX, SEEN_MAX));
        assert_eq!((dropped.paths, dropped.connections), (70_000 - PATHS_MAX as u64, 70_000 - LIVE_MAX as u64));
        assert_eq!(dropped.clients, 70_000 - SEEN_MAX as u64);
        let sessions =
            tickets.iter().enumerate().filter(|(number, ticket)| ledger.end(*number as u64, **ticket, false));
        assert_eq!(sessions.count(), LIVE_MAX);
        assert!(ledger.live.is_empty() && ledger.atoms.iter().all(|atom| atom.under_way == 0));
    }
}
