//! What one event loop has seen of governed requests since the last tick. Each loop has statistics of its own; only that
//! loop and, once a tick, the controller lock them.

mod dropped;
mod taken;

pub use dropped::Dropped;
pub(crate) use taken::{Seen, Taken, Tally};

use crate::leases::{Leases, Tenant};
use crate::noted::Noted;
use crate::passed::PassedSessions;
use crate::ticket::Ticket;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_adapt::Sketch;
use weir_server::{Lease, Link};

/// Paths in one loop's statistics. Without room, requests for further paths count for their pattern and in the sketch of the
/// busiest paths.
pub(crate) const PATHS_MAX: usize = 16_384;
/// After so many ticks without a request a path may lose its place to another one. Its leases and tickets have ended by
/// then.
const QUIET_TICKS: u64 = 4;
/// At most so many places a tick looks at to find quiet ones, and so many it frees: the statistics are locked meanwhile.
const SOUGHT_MAX: usize = 2048;
const FREED_MAX: usize = 256;
/// Paths without a place whose requests are counted, the most asked of them.
const PLACELESS: usize = 256;
/// Connections of one loop with responses under way whose sessions the rules know.
const LIVE_MAX: usize = 65_536;
/// Sessions that stay until the next tick without a response under way, as the next request may go on with them.
const IDLE_MAX: usize = 1024;
/// From one look at a session's rules to the next, in milliseconds: a little less than from one reading of its link to
/// the next, as responses of one connection may each ask.
const LOOK_MS_MIN: u64 = 90;
/// Clients of one tick that are handed out; the requests of further clients are only counted.
const SEEN_MAX: usize = 16_384;
/// The place of requests that are not in the statistics.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The statistics of a loop.
#[derive(Debug)]
pub(crate) struct LoopStats {
    places: FxHashMap<Arc<str>, u32>,
    atoms: Vec<Atom>,
    /// As many paths as there is room for.
    paths_max: usize,
    /// Places whose paths were not handed out yet.
    fresh: Vec<u32>,
    /// Free places of former quiet paths, and where the search for the next one begins.
    free: Vec<u32>,
    search_from: usize,
    /// Times that this was handed out at a tick.
    ticks: u64,
    /// Requests for paths without a place.
    placeless: Sketch,
    /// Places of the atoms that were asked for since the last look.
    touched: Vec<u32>,
    live: FxHashMap<u64, Live>,
    /// Those that have had no response under way, at some time since the last look.
    idle: Vec<u64>,
    /// Whether a session may stay without a response under way. Not during a tick, whose rules look at the present
    /// sessions.
    may_idle: bool,
    seen: Vec<Seen>,
    noted: Noted,
    /// Counts the times that this was handed out. A note of a client in `noted` holds for one period.
    period: u64,
    fileless: u64,
    clientless: u64,
    passed: PassedSessions,
    /// What is answered without asking, and not counted here yet.
    leases: Leases,
    /// Sessions that are over, and of which the rules could not be told at once.
    ended: Vec<u64>,
    dropped: Dropped,
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
    /// Counts the paths that have had this place.
    generation: u32,
    /// The last tick at which it was touched.
    seen_at: u64,
}

/// A session of which nothing was decided as it began.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Beginning {
    /// Since which tick the rules knew what they knew, by the policy of which number.
    pub(crate) now: (u64, u64),
    /// The place of its path.
    pub(crate) place: u32,
    /// What was known of its link.
    pub(crate) link: Link,
}

/// A connection with responses under way whose sessions the rules know.
#[derive(Debug, Default)]
struct Live {
    /// Responses under way that began as its sessions.
    responses: u32,
    /// Whether the rules know it as a session still.
    is_session: bool,
    is_listed_as_idle: bool,
    /// How it began, and in which period, where another request like the first one goes on with it.
    began: Option<(Beginning, u64)>,
    link: Option<Link>,
    /// The variant to go on with.
    wanted: Option<Arc<str>>,
    /// The pattern of its rules, where some of them are looked at when its link is read.
    looks: Option<usize>,
    /// When they were last, in milliseconds.
    looked_ms: u64,
    /// The number of the last decision that has been obeyed: what was decided before is not obeyed after it.
    decided: u64,
}

/// What a session's connection is to know of its rules.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ruled {
    /// The pattern of its rules, where some of them are looked at when its link is read.
    pub(crate) looks: Option<usize>,
    /// The number of the last decision when it began.
    pub(crate) decided: u64,
}

impl LoopStats {
    /// Changes each time something is handed out: notes of an earlier period are invalid. Never 0.
    #[inline]
    pub(crate) fn period(&self) -> u64 {
        self.period + 1
    }

    /// The place of a path and the pattern of its rules, which `pattern` finds for the policy of this number. Where the
    /// path has been asked about before, `known` is what [`Self::known`] has made of its place.
    #[inline]
    pub(crate) fn place(
        &mut self,
        path: &str,
        known: u64,
        policy: u64,
        pattern: impl FnOnce() -> Option<usize>,
    ) -> (u32, Option<usize>) {
        let place = Self::place_of(known);
        if let Some(atom) = self.atoms.get(place as usize)
            && atom.pattern.0 == policy
            && atom.generation == (known >> 32) as u32
        {
            return (place, atom.pattern.1.map(|pattern| pattern as usize));
        }
        self.search(path, policy, pattern)
    }

    #[inline(never)]
    fn search(&mut self, path: &str, policy: u64, pattern: impl FnOnce() -> Option<usize>) -> (u32, Option<usize>) {
        let place = match self.places.get(path) {
            Some(place) => *place,
            None if self.atoms.len() < self.paths_max || !self.free.is_empty() => self.take_place(path.into()),
            None => {
                self.dropped.paths += 1;
                self.placeless.push(path, 1);
                return (NOWHERE, pattern());
            }
        };
        let known = &mut self.atoms[place as usize].pattern;
        if known.0 != policy {
            *known = (policy, pattern().map(|pattern| pattern as u32));
        }
        (place, known.1.map(|pattern| pattern as usize))
    }

    /// Gives a path a place: one that was given up, or another one.
    fn take_place(&mut self, path: Arc<str>) -> u32 {
        let (tally, pattern, seen_at) = (Tally::default(), (u64::MAX, None), self.ticks);
        let mut atom =
            Atom { path: Arc::clone(&path), pattern, tally, under_way: 0, is_touched: false, generation: 0, seen_at };
        let place = match self.free.pop() {
            Some(place) => {
                let before = &mut self.atoms[place as usize];
                atom.generation = before.generation.wrapping_add(1);
                *before = atom;
                place
            }
            None => {
                self.atoms.push(atom);
                self.atoms.len() as u32 - 1
            }
        };
        self.places.insert(path, place);
        self.fresh.push(place);
        place
    }

    /// The path of a request that is under way, if it is in the statistics.
    pub(crate) fn path_of(&self, ticket: Ticket) -> Option<Arc<str>> {
        self.atoms.get(ticket.place() as usize).map(|atom| Arc::clone(&atom.path))
    }

    /// Frees places of quiet paths if few are left, or if `others` need some. A tick does at most so much.
    fn make_room(&mut self, others: bool) {
        let left = self.paths_max - self.atoms.len() + self.free.len();
        if self.atoms.is_empty() || (left >= FREED_MAX && !others) {
            return;
        }
        let mut freed = 0;
        for _ in 0..SOUGHT_MAX.min(self.atoms.len()) {
            self.search_from = (self.search_from + 1) % self.atoms.len();
            let atom = &self.atoms[self.search_from];
            let is_quiet = atom.under_way == 0 && !atom.is_touched && self.ticks - atom.seen_at > QUIET_TICKS;
            // A place that is free already has no path any more.
            if is_quiet && self.places.remove(&atom.path).is_some() {
                self.free.push(self.search_from as u32);
                freed += 1;
                if freed == FREED_MAX {
                    break;
                }
            }
        }
    }

    /// A place as a number for [`Self::place`], until another path has it; 0 = none.
    #[inline]
    pub(crate) fn known(&self, place: u32) -> u64 {
        self.atoms.get(place as usize).map_or(0, |atom| u64::from(atom.generation) << 32 | (u64::from(place) + 1))
    }

    /// The place that such a number is of.
    #[inline]
    pub(crate) fn place_of(known: u64) -> u32 {
        known.wrapping_sub(1) as u32
    }

    /// Counts a request like an earlier one of this period: for the path of this number, by the client in this place of
    /// `seen`; and its session, if that is counted by kind. `false`: there is no such earlier request, and nothing is
    /// counted.
    #[inline]
    pub(crate) fn again(&mut self, known: u64, (period, seen): (u64, u32), kind: Option<u32>) -> bool {
        if period != self.period() {
            return false;
        }
        // A path that had a request in this period is marked as touched.
        let Some(atom) = self.atoms.get_mut(Self::place_of(known) as usize).filter(|atom| atom.is_touched) else {
            return false;
        };
        let Some(seen) = self.seen.get_mut(seen as usize) else { return false };
        if kind.is_some_and(|kind| !self.passed.count_again(kind, 1)) {
            return false;
        }
        seen.requests += 1;
        atom.tally.requests += 1;
        atom.under_way += 1;
        true
    }

    /// Lets the answer to such a request be given again until something changes. `false`: there is no room.
    pub(crate) fn lend(&mut self, lease: &Arc<Lease>, known: u64, seen: u32, kind: Option<u32>) -> bool {
        let Some(Seen { client, network, .. }) = self.seen.get(seen as usize).copied() else { return false };
        self.leases.add(lease, Tenant { place: Self::place_of(known), client, network, kind })
    }

    /// Counts what was answered by leases; `at_last`: after the change with which they have ended.
    fn count_leased(&mut self, at_last: bool) {
        let mut leases = std::mem::take(&mut self.leases);
        leases.tell(at_last, |tenant, more| {
            let Some(atom) = self.atoms.get_mut(tenant.place as usize) else { return };
            atom.tally.requests += u64::from(more.begun);
            atom.tally.failed += u64::from(more.failed);
            atom.under_way = (atom.under_way + more.begun).saturating_sub(more.over);
            if !std::mem::replace(&mut atom.is_touched, true) {
                self.touched.push(tenant.place);
            }
            if more.begun > 0 {
                self.came(tenant.client, tenant.network, more.begun);
                // The number of the kind is valid until `take_passed`, and so is the lease.
                let is_counted = tenant.kind.is_none_or(|kind| self.passed.count_again(kind, more.begun));
                debug_assert!(is_counted, "a kind of {tenant:?}");
            }
        });
        self.leases = leases;
    }

    /// Counts `times` requests of a client; returns its place among the clients of this period. `None`: there is no
    /// room, so the requests count as those of no client.
    pub(crate) fn came(&mut self, client: u64, network: u64, times: u32) -> Option<u32> {
        let noted = self.noted.of(client);
        if noted.0 == client
            && let Some(seen) = self.seen.get_mut(noted.1 as usize)
        {
            seen.requests += u64::from(times);
            return Some(noted.1);
        }
        if self.seen.len() >= SEEN_MAX {
            self.clientless += u64::from(times);
            self.dropped.clients += u64::from(times);
            return None;
        }
        *noted = (client, self.seen.len() as u32);
        self.seen.push(Seen { client, network, requests: u64::from(times) });
        Some(noted.1)
    }

    /// A request came, of a client that has been told of.
    #[inline]
    pub(crate) fn begin(&mut self, place: u32, is_refused: bool) -> Ticket {
        match self.atoms.get_mut(place as usize) {
            Some(atom) => {
                atom.tally.requests += 1;
                atom.tally.refused += u64::from(is_refused);
                atom.under_way += u32::from(!is_refused);
                if !std::mem::replace(&mut atom.is_touched, true) {
                    self.touched.push(place);
                }
            }
            None => self.fileless += 1,
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
        if self.live.len() >= LIVE_MAX {
            self.end_idle();
        }
        let has_room = self.live.len() < LIVE_MAX || self.live.contains_key(&connection);
        self.dropped.connections += u64::from(!has_room);
        has_room
    }

    /// Counts a session for which nothing is decided and of which the rules are not told. Returns the number of its
    /// kind in this period. `None`: there is no room to count it.
    pub(crate) fn passed(&mut self, place: u32, link: Link) -> Option<u32> {
        self.passed.count(place, link, || self.atoms.get(place as usize).map(|atom| Arc::clone(&atom.path)))
    }

    /// Swaps the counts of these sessions for an empty table.
    pub(crate) fn take_passed(&mut self, empty: &mut PassedSessions) {
        self.count_leased(true);
        self.period += 1;
        std::mem::swap(&mut self.passed, empty);
    }

    /// The connection is a session that the rules know, until this response and all others like it are over.
    pub(crate) fn is_session(&mut self, connection: u64, ticket: Ticket, ruled: Ruled) -> Ticket {
        let live = self.live.entry(connection).or_default();
        live.responses += 1;
        live.is_session = true;
        live.began = None;
        // An earlier wish for a variant was for the session before this one.
        (live.wanted, live.looks, live.decided) = (None, ruled.looks, ruled.decided);
        ticket.of_session()
    }

    /// Until the next tick, requests like the first one of the session go on with it.
    pub(crate) fn may_go_on(&mut self, connection: u64, beginning: Beginning) {
        let period = self.period;
        self.live.get_mut(&connection).into_iter().for_each(|live| live.began = Some((beginning, period)));
    }

    /// Goes on with the session of a connection; with `counted`, also counts a session that the rules are not told of.
    /// `None`: the session began in another way, or there is no room to count it.
    pub(crate) fn go_on(
        &mut self,
        connection: u64,
        beginning: Beginning,
        ticket: Ticket,
        counted: Option<Link>,
    ) -> Option<Ticket> {
        let live = self.live.get_mut(&connection).filter(|live| live.is_session)?;
        live.began.filter(|(began, _)| *began == beginning)?;
        if let Some(link) = counted {
            let path = || self.atoms.get(beginning.place as usize).map(|atom| Arc::clone(&atom.path));
            self.passed.count(beginning.place, link, path)?;
        }
        live.responses += 1;
        Some(ticket.of_session())
    }

    /// Notes what was measured of a link. Returns the variant to go on with, once for each decision.
    pub(crate) fn during(&mut self, connection: u64, link: Link) -> Option<Arc<str>> {
        let live = self.live.get_mut(&connection)?;
        live.link = Some(link);
        live.wanted.take()
    }

    /// The pattern whose rules look at the session now that its link was read. `None`: no rule does, or the last look
    /// was too recent.
    pub(crate) fn looks(&mut self, connection: u64, now_ms: u64) -> Option<usize> {
        let live = self.live.get_mut(&connection).filter(|live| live.is_session)?;
        live.looks.filter(|_| now_ms.saturating_sub(live.looked_ms) >= LOOK_MS_MIN)
    }

    /// The rules have seen the session's link, and have chosen a variant or none. Returns the variant to go on with,
    /// once for each decision.
    pub(crate) fn looked(&mut self, connection: u64, now_ms: u64, chosen: Option<(Arc<str>, u64)>) -> Option<Arc<str>> {
        let live = self.live.get_mut(&connection)?;
        (live.link, live.looked_ms) = (None, now_ms);
        let before = live.wanted.take();
        let Some((variant, decided)) = chosen else { return before };
        live.decided = decided;
        Some(variant)
    }

    /// A response is over. `true`: it was the last one of a session.
    #[inline]
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
        ticket.has(Ticket::SESSION) && self.end_session(connection)
    }

    fn end_session(&mut self, connection: u64) -> bool {
        let Some(live) = self.live.get_mut(&connection) else { return false };
        live.responses -= 1;
        if live.responses > 0 {
            return false;
        }
        let is_of_now = live.began.is_some_and(|(_, period)| period == self.period);
        let has_room = live.is_listed_as_idle || self.idle.len() < IDLE_MAX;
        if self.may_idle && live.is_session && is_of_now && has_room {
            if !std::mem::replace(&mut live.is_listed_as_idle, true) {
                self.idle.push(connection);
            }
            return false;
        }
        self.live.remove(&connection).is_some_and(|live| live.is_session)
    }

    /// Ends all sessions that have no response under way.
    fn end_idle(&mut self) {
        for connection in std::mem::take(&mut self.idle) {
            let Some(live) = self.live.get_mut(&connection) else { continue };
            live.is_listed_as_idle = false;
            if live.responses == 0 && self.live.remove(&connection).is_some_and(|live| live.is_session) {
                self.ended(connection);
            }
        }
    }

    /// The rules have been told of a tick.
    pub(crate) fn ticked(&mut self) {
        self.may_idle = true;
    }

    /// Has a connection go on with another variant, unless it has obeyed a later decision than the one of this number.
    /// `false`: it is not here.
    pub(crate) fn want(&mut self, connection: u64, variant: &Arc<str>, decided: u64) -> bool {
        let Some(live) = self.live.get_mut(&connection) else { return false };
        if decided > live.decided {
            (live.wanted, live.decided) = (Some(Arc::clone(variant)), decided);
        }
        true
    }

    /// A session is over, and the rules do not know it yet.
    pub(crate) fn ended(&mut self, session: u64) {
        // The bound is that of `live`, as a connection ends once between two looks; further ends are counted.
        if self.ended.len() < LIVE_MAX {
            self.ended.push(session);
        } else {
            self.dropped.connections += 1;
        }
    }

    /// No session is one of the rules any more: these have been changed.
    pub(crate) fn forget_sessions(&mut self) {
        self.end_idle();
        self.ended.clear();
        self.live.values_mut().for_each(|live| (live.is_session, live.wanted) = (false, None));
    }

    /// Counts a session that was not decided: the rules were locked, or had just been replaced.
    pub(crate) fn undecided(&mut self) {
        self.dropped.undecided += 1;
    }

    /// Hands out what has come since the last time, into room that was used before. `is_full`: the caller has no room
    /// for other paths.
    pub(crate) fn take(&mut self, taken: &mut Taken, is_full: bool) {
        self.count_leased(false);
        self.period += 1;
        self.may_idle = false;
        self.end_idle();
        taken.paths.clear();
        taken.paths.extend(self.fresh.drain(..).map(|place| (place, Arc::clone(&self.atoms[place as usize].path))));
        self.ticks += 1;
        taken.tallies.clear();
        for place in self.touched.drain(..) {
            let atom = &mut self.atoms[place as usize];
            (atom.is_touched, atom.seen_at) = (false, self.ticks);
            taken.tallies.push((place, std::mem::take(&mut atom.tally), atom.under_way));
        }
        taken.placeless.clear();
        if self.placeless.count() > 0 {
            let placeless = std::mem::replace(&mut self.placeless, Sketch::new(PLACELESS));
            // At least so often: what it took over with the place of another is not its own.
            let all = placeless.most(PLACELESS).into_iter().map(|one| (one.text, one.count - one.error));
            taken.placeless.extend(all);
        }
        self.make_room(is_full);
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

impl Default for LoopStats {
    fn default() -> Self {
        Self {
            places: FxHashMap::default(),
            atoms: Vec::new(),
            paths_max: PATHS_MAX,
            fresh: Vec::new(),
            free: Vec::new(),
            search_from: 0,
            ticks: 0,
            placeless: Sketch::new(PLACELESS),
            touched: Vec::new(),
            live: FxHashMap::default(),
            idle: Vec::new(),
            may_idle: true,
            seen: Vec::new(),
            noted: Noted::default(),
            period: 0,
            fileless: 0,
            clientless: 0,
            passed: PassedSessions::default(),
            leases: Leases::default(),
            ended: Vec::new(),
            dropped: Dropped::default(),
        }
    }
}

#[cfg(test)]
mod tests;
