//! What the event loops ask: a lookup in the loop's own statistics, a share to refuse, and for sessions the rules themselves.
//! No call blocks: a caller that finds the statistics locked tries again for some microseconds, and then goes without.

use crate::active_actions::ActiveActions;
use crate::advice_cache::{AdviceCache, Answer, AtRestNow};
use crate::clients::{self, identity};
use crate::decided::{InForce, Sought};
use crate::loop_stats::{Beginning, LoopStats, NOWHERE, Ruled};
use crate::rulebook::{Begun, Looked, Rulebook};
use crate::shed::Shed;
use crate::stale::Stale;
use crate::started::Started;
use crate::stats_lock::StatsLock;
use crate::ticket::Ticket;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use weir_adapt::log::ClockPair;
use weir_adapt::{AtRest, Policy};
use weir_server::{Advice, Adviser, DecidedBy, DecidedQuestion, Lease, LeaseClock, Link, Names, Question};

/// Tries to lock the rules while another thread has them, some 20 us in all.
const TRIES: u32 = 400;
/// Ends of responses that wait for the statistics; they are locked for a fraction of a millisecond once a tick.
const LATE_MAX: usize = 4096;
/// A refused client is asked to come back after as many seconds as this and up to seven more, not all at once.
const RETRY_AFTER_S: u32 = 2;

/// What loops and the controller share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Of no other one in this process.
    id: u64,
    glance: Glance,
    published: Mutex<Arc<Published>>,
    pub(crate) rules: Mutex<Rulebook>,
    pub(crate) all_stats: Mutex<Vec<Arc<StatsLock<LoopStats>>>>,
    pub(crate) undecided: AtomicU64,
    /// Whether all input of the rules is recorded, so that all of it must be told to them.
    is_recorded: bool,
    started: Started,
}

/// What each loop reads with each request; apart from what loops write, so that it stays in the caches of all CPUs.
#[derive(Debug)]
#[repr(align(128))]
struct Glance {
    /// Grows with each publication, so that a loop sees with one load whether there is something new.
    edition: AtomicU64,
    /// The number of the policy that was published last.
    policy: AtomicU64,
    /// Whether some answers may be stale, by what was published last.
    may_be_stale: AtomicBool,
    /// The clock of leases: it moves on with each change that an answer depends on, and with each tick.
    leases: Arc<LeaseClock>,
    /// Counts ticks in steps of two. While it stays at one even number, the readings of nodes and atoms that the rules
    /// know do not change. It is odd while the rules are told of new ones, if there is a recording.
    ticks: AtomicU64,
}

/// What holds until the next edition.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) policy: Arc<Policy>,
    sessions: Arc<[Sessions]>,
    /// Whether rules ask for the bandwidth of sessions, and for their round trips.
    asks: (bool, bool),
    /// The number of the policy.
    pub(crate) number: u64,
    pub(crate) atom_sheds: FxHashMap<String, Arc<Shed>>,
    /// The shares that single clients lose of a pattern, by both numbers.
    client_sheds: FxHashMap<(u64, usize), Arc<Shed>>,
    /// The share that each pattern loses, by its number.
    pub(crate) by_pattern: Vec<Option<Arc<Shed>>>,
    /// How old answers may be.
    pub(crate) stale: Stale,
    /// The rules that have ordered all this.
    by_rules: InForce,
}

/// What the rules of a pattern decide for sessions.
#[derive(Debug)]
struct Sessions {
    is_decided: bool,
    links: LinkRules,
    foreseen: Foreseen,
    /// Its variants, each with those that stand in for it.
    names: Vec<Names>,
}

/// When the rules of a pattern read the link of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkRules {
    /// They do not.
    Never,
    /// As it begins only.
    AtStart,
    /// Whenever another reading of it comes.
    Always,
}

/// What is known of the decisions for a session before the rules are asked.
#[derive(Debug)]
enum Foreseen {
    /// Nothing.
    Nothing,
    /// For these links nothing is decided, at its start or later.
    AtRest(AtRest),
    /// Its start depends on its link alone; later the rules look at it.
    Start,
}

impl Foreseen {
    #[inline]
    fn at_rest(&self) -> Option<&AtRest> {
        if let Self::AtRest(at_rest) = self { Some(at_rest) } else { None }
    }
}

/// What a loop has at hand.
struct Scratch {
    id: u64,
    edition: u64,
    published: Arc<Published>,
    loop_stats: Arc<StatsLock<LoopStats>>,
    /// Ends of responses that came while the statistics were locked: connections, tickets, and whether they failed.
    late: Vec<(u64, Ticket, bool)>,
    known: Known,
}

/// What a loop knows without asking.
#[derive(Debug, Default)]
struct Known {
    at_rest: AtRestNow,
    advice_cache: AdviceCache,
}

thread_local! {
    static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

impl Published {
    /// What holds with a new policy: nothing is refused.
    pub(crate) fn new(policy: Arc<Policy>, number: u64) -> Self {
        let patterns = policy.patterns().count();
        let sessions = (0..patterns).map(|pattern| {
            let variants = policy.variants(pattern);
            let names = variants.iter().map(|variant| Names::from(&*with_better(variants, variant))).collect();
            let is_decided = policy.decides_for_sessions(pattern);
            let foreseen = match policy.at_rest(pattern) {
                Some(at_rest) => Foreseen::AtRest(at_rest),
                None if policy.starts_at_rest(pattern).is_some() => Foreseen::Start,
                None => Foreseen::Nothing,
            };
            let links = match (policy.looks_at_links(pattern), policy.reads_links(pattern)) {
                (true, _) => LinkRules::Always,
                (false, true) => LinkRules::AtStart,
                (false, false) => LinkRules::Never,
            };
            Sessions { is_decided, links, foreseen, names }
        });
        let (sessions, asks) = (sessions.collect(), policy.asks_of_links());
        let (atom_sheds, client_sheds, stale) = (FxHashMap::default(), FxHashMap::default(), Stale::default());
        let (by_pattern, by_rules) = (vec![None; patterns], InForce::default());
        Self { policy, sessions, asks, number, atom_sheds, client_sheds, by_pattern, stale, by_rules }
    }

    /// The number of a request that is refused; `None`: it is not.
    fn refused(&self, path: &str, pattern: usize, client: u64) -> Option<u64> {
        let next = |shed: &Arc<Shed>| Some(shed.next()).filter(|(is_refused, _)| *is_refused).map(|(_, number)| number);
        // A look-up for each request only while some client, or some atom, has a share of its own.
        let of_atom = || if self.atom_sheds.is_empty() { None } else { self.atom_sheds.get(path).and_then(next) };
        let of_client = || {
            if self.client_sheds.is_empty() { None } else { self.client_sheds.get(&(client, pattern)).and_then(next) }
        };
        self.by_pattern[pattern].as_ref().and_then(next).or_else(of_atom).or_else(of_client)
    }

    /// Whether a share is refused of a client's requests for a path.
    fn has_share(&self, path: &str, pattern: usize, client: u64) -> bool {
        let of_client = || !self.client_sheds.is_empty() && self.client_sheds.contains_key(&(client, pattern));
        self.by_pattern[pattern].is_some() || self.atom_sheds.contains_key(path) || of_client()
    }

    /// What rules ask of a link.
    fn asked(&self, link: Link) -> Link {
        let (bandwidth, rtt) = self.asks;
        Link { bandwidth_bps: link.bandwidth_bps.filter(|_| bandwidth), rtt_s: link.rtt_s.filter(|_| rtt) }
    }

    /// The same with other shares to refuse and other ages of answers: of patterns, and of single atoms.
    pub(crate) fn with(&self, active_actions: &ActiveActions) -> Self {
        let by_pattern = self.policy.patterns().map(|glob| active_actions.sheds.get(glob).cloned()).collect();
        let (policy, sessions) = (Arc::clone(&self.policy), Arc::clone(&self.sessions));
        let stale = Stale::of(&self.policy, &active_actions.stale_ms, &active_actions.atom_stale_ms);
        let numbers: FxHashMap<&str, usize> =
            self.policy.patterns().enumerate().map(|(number, glob)| (glob, number)).collect();
        let client_sheds = active_actions.client_sheds.iter().filter_map(|((client, glob), shed)| {
            Some(((clients::number(client)?, *numbers.get(&**glob)?), Arc::clone(shed)))
        });
        let (client_sheds, asks, atom_sheds) = (client_sheds.collect(), self.asks, active_actions.atom_sheds.clone());
        let (number, by_rules) = (self.number, active_actions.by_rules.clone());
        Self { policy, sessions, asks, number, atom_sheds, client_sheds, by_pattern, stale, by_rules }
    }
}

/// Opens what another thread has open for moments only; `None`: it did not close it.
fn open<T>(stats: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..TRIES {
        match stats.try_lock() {
            Ok(open) => return Some(open),
            Err(TryLockError::Poisoned(open)) => return Some(open.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    None
}

/// Opens it however long that takes: for the controller.
pub(crate) fn wait_for<T>(stats: &Mutex<T>) -> MutexGuard<'_, T> {
    stats.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(rules: Rulebook, started: Started) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let published = Published::new(Arc::new(rules.engine.policy().clone()), rules.number);
        let is_recorded = rules.is_recorded();
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            glance: Glance {
                edition: AtomicU64::new(0),
                policy: AtomicU64::new(published.number),
                may_be_stale: AtomicBool::new(false),
                leases: Arc::default(),
                ticks: AtomicU64::new(0),
            },
            published: Mutex::new(Arc::new(published)),
            rules: Mutex::new(rules),
            all_stats: Mutex::default(),
            undecided: AtomicU64::new(0),
            is_recorded,
            started,
        }
    }

    /// The present in milliseconds since 1970 by the clock of the start, which does not go back.
    pub(crate) fn now_ms(&self) -> u64 {
        let since_ms = u64::try_from(self.started.at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.started.unix_ms.saturating_add(since_ms)
    }

    /// How these milliseconds stand to the clock of the host's events, where the kernel has told which start of it this is.
    pub(crate) fn clock_pair(&self) -> Option<ClockPair> {
        self.started.clock_pair.clone()
    }

    pub(crate) fn published(&self) -> Arc<Published> {
        Arc::clone(&wait_for(&self.published))
    }

    pub(crate) fn publish(&self, published: Published) {
        let (number, may_be_stale) = (published.number, published.stale.is_any());
        *wait_for(&self.published) = Arc::new(published);
        self.glance.policy.store(number, Ordering::Release);
        self.glance.may_be_stale.store(may_be_stale, Ordering::Release);
        self.glance.edition.fetch_add(1, Ordering::Release);
        self.glance.leases.move_on();
    }

    /// The rules are about to be told of more. With a recording, the rules are told of every session until
    /// [`Self::ticked`]. Statistics that the controller takes after this call hold all sessions that passed before it.
    pub(crate) fn telling(&self) {
        if self.is_recorded {
            self.glance.ticks.fetch_or(1, Ordering::AcqRel);
            // Before a loop counts for the last time what was answered by leases.
            self.glance.leases.move_on();
        }
    }

    /// The rules have been told of another tick. Only the one controller counts, so a load and a store are enough.
    pub(crate) fn ticked(&self) {
        let now = self.glance.ticks.load(Ordering::Acquire);
        self.glance.ticks.store((now | 1) + 1, Ordering::Release);
        self.glance.leases.move_on();
    }

    /// Has a loop look at what holds now, with its statistics locked; `None`: another thread has the lock.
    #[inline]
    fn with_scratch<R>(&self, with: impl FnOnce(&Published, &mut LoopStats, &mut Known) -> R) -> Option<R> {
        let looked = SCRATCH.try_with(|scratch| {
            let mut scratch = scratch.try_borrow_mut().ok()?;
            let edition = self.glance.edition.load(Ordering::Acquire);
            if scratch.as_ref().is_none_or(|scratch| scratch.id != self.id || scratch.edition != edition) {
                self.sit_down(&mut scratch);
            }
            let scratch = scratch.as_mut()?;
            let mut loop_stats = scratch.loop_stats.lock()?;
            if !scratch.late.is_empty() {
                end_late(&mut scratch.late, &mut loop_stats);
            }
            Some(with(&scratch.published, &mut loop_stats, &mut scratch.known))
        });
        // A thread that ends drops what it has under way when its thread-local storage is gone already.
        looked.ok().flatten()
    }

    /// Gives a loop what it has at hand, or has it go by what was published since.
    #[cold]
    fn sit_down(&self, scratch: &mut Option<Scratch>) {
        let edition = self.glance.edition.load(Ordering::Acquire);
        if let Some(scratch) = scratch.as_mut().filter(|scratch| scratch.id == self.id) {
            if let Ok(published) = self.published.try_lock() {
                (scratch.edition, scratch.published) = (edition, Arc::clone(&published));
                scratch.known.advice_cache.forget();
            }
            return;
        }
        let loop_stats = Arc::new(StatsLock::<LoopStats>::default());
        // Once in a loop's life.
        wait_for(&self.all_stats).push(Arc::clone(&loop_stats));
        let (published, known) = (self.published(), Known::default());
        *scratch = Some(Scratch { id: self.id, edition, published, loop_stats, late: Vec::new(), known });
    }

    /// What was answered to a question like this one, where nothing has changed since, and a lease of it; the request is
    /// counted.
    #[inline]
    fn answer_again(&self, question: &Question<'_>) -> Option<(Answer, Option<Arc<Lease>>)> {
        // Before anything is looked at: with what changes meanwhile the lease has ended as it is let.
        let holds_at = self.glance.leases.now();
        let answered = SCRATCH.try_with(|scratch| {
            let mut scratch = scratch.try_borrow_mut().ok()?;
            let scratch = scratch.as_mut()?;
            let edition = self.glance.edition.load(Ordering::Acquire);
            if scratch.id != self.id || scratch.edition != edition || !scratch.late.is_empty() {
                return None;
            }
            let mut loop_stats = scratch.loop_stats.try_lock()?;
            let cached = scratch.known.advice_cache.of(question.connection, question.remembered);
            if !cached.holds(question, self.glance.ticks.load(Ordering::Acquire)) {
                return None;
            }
            let answer = cached.answer?;
            let (remembered, seen) = (question.remembered, cached.seen);
            if !loop_stats.again(remembered, (cached.period, seen), answer.kind) {
                return None;
            }
            // How old an answer may be is said anew for each.
            if !question.takes_lease || answer.stale_ms_max.is_some() {
                return Some((answer, None));
            }
            let lease = Arc::new(Lease::new(&self.glance.leases, holds_at, self.is_recorded));
            let is_let = loop_stats.lend(&lease, remembered, seen, answer.kind);
            Some((answer, is_let.then_some(lease)))
        });
        answered.ok().flatten()
    }

    /// Notes the end of a response for when the statistics are free.
    fn end_later(&self, connection: u64, ticket: Ticket, has_failed: bool) {
        let noted = SCRATCH.try_with(|scratch| {
            let mut scratch = scratch.try_borrow_mut().ok()?;
            let scratch = scratch.as_mut().filter(|scratch| scratch.late.len() < LATE_MAX)?;
            scratch.late.push((connection, ticket, has_failed));
            Some(())
        });
        if !matches!(noted, Ok(Some(()))) {
            self.undecided.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn end_session(&self, connection: u64, loop_stats: &mut LoopStats) {
        match open(&self.rules) {
            Some(mut rules) => rules.end(self.now_ms(), connection),
            None => loop_stats.ended(connection),
        }
    }

    /// The rules whose standing orders have decided about a request; `None`: that cannot be told without a wait.
    #[cold]
    fn in_force_for(&self, question: &DecidedQuestion, ticket: Ticket) -> Option<Vec<DecidedBy>> {
        self.with_scratch(|published, loop_stats, _| {
            let path = loop_stats.path_of(ticket)?;
            let pattern = published.policy.pattern_of(&path)?;
            let glob = published.policy.patterns().nth(pattern)?;
            let client = clients::name(identity(question.client).0);
            let is_refused = ticket.has(Ticket::REFUSED);
            Some(published.by_rules.of(&Sought { path: &path, glob, client: &client, is_refused }))
        })
        .flatten()
    }

    #[inline(never)]
    fn begin_anew(&self, question: &Question<'_>) -> Advice {
        let mut advice = Advice::default();
        // Into its place: to move it out of the scratch would copy it again and again.
        let asked = self.with_scratch(|published, loop_stats, known| {
            self.advise(question, published, loop_stats, known, &mut advice);
        });
        if asked.is_none() {
            self.undecided.fetch_add(1, Ordering::Relaxed);
        }
        advice
    }

    /// What to do with a request.
    fn advise(
        &self,
        question: &Question<'_>,
        published: &Published,
        loop_stats: &mut LoopStats,
        known: &mut Known,
        advice: &mut Advice,
    ) {
        let Question { path, client, connection, remembered, link, .. } = *question;
        let find = || published.policy.pattern_of(path);
        let (place, pattern) = loop_stats.place(path, remembered, published.number, find);
        advice.remember = loop_stats.known(place);
        let Some(pattern) = pattern else { return };
        let (client, network) = identity(client);
        let refused = published.refused(path, pattern, client);
        let seen = loop_stats.came(client, network, 1).map(|place| (loop_stats.period(), place));
        known.advice_cache.of(connection, advice.remember).becomes(question, advice.remember, seen);
        let ticket = loop_stats.begin(place, refused.is_some());
        advice.ticket = ticket.number();
        if let Some(number) = refused {
            advice.refuse_retry_after_s = Some(RETRY_AFTER_S + (number % 8) as u32);
            return;
        }
        advice.stale_ms_max = published.stale.ms_max(pattern, path);
        // Before the rules are asked: what they say may be of the next tick already.
        let now = (self.glance.ticks.load(Ordering::Acquire), published.number);
        let mut counted = Some(None);
        if published.sessions[pattern].is_decided {
            let session = self.session((question, pattern, ticket), now, published, loop_stats, known);
            (advice.ticket, advice.variant, counted) = (session.0.number(), session.1, session.2);
        }
        // Of a share that is refused each request has its own answer.
        if let Some(kind) = counted
            && place != NOWHERE
            && !published.has_share(path, pattern, client)
        {
            let (is_chosen, stale_ms_max) = (advice.variant.is_some(), advice.stale_ms_max);
            let cached = known.advice_cache.of(connection, advice.remember);
            cached.hold(now.0, link, Answer { is_chosen, stale_ms_max, kind });
        }
    }

    /// Asks the rules for the variant of a session that begins. Returns the ticket of its response, what to do, and, if
    /// the answer holds for later sessions of the connection, the kind as which these are counted, if they are. A loop
    /// remembers for which links the rules decide nothing, and does not ask for these again. So the rules never see
    /// most sessions of fast clients; with a recording, these are counted by kind.
    #[inline(never)]
    fn session(
        &self,
        (question, pattern, ticket): (&Question<'_>, usize, Ticket),
        now: (u64, u64),
        published: &Published,
        loop_stats: &mut LoopStats,
        known: &mut Known,
    ) -> (Ticket, Option<Names>, Option<Option<u32>>) {
        let Question { path, client, connection, link, .. } = *question;
        let sessions = &published.sessions[pattern];
        // Where rules choose a variant, the best one is a choice too, and is returned as one rather than as `None`.
        let best = || sessions.names.first().cloned();
        let is_telling = now.0 % 2 == 1;
        let piece = sessions.foreseen.at_rest().filter(|_| !is_telling);
        let piece = piece.map(|at_rest| (pattern, at_rest.of(link.bandwidth_bps, link.rtt_s)));
        if piece.is_some_and(|piece| known.at_rest.knows(now, piece)) {
            let passed = self.is_recorded.then(|| loop_stats.passed(ticket.place(), published.asked(link)));
            if passed != Some(None) {
                return (ticket, best(), Some(passed.flatten()));
            }
        }
        // What is looked at later is told once between two ticks: the next of its requests has the same answer.
        let beginning = Beginning { now, place: ticket.place(), link };
        let goes_on = matches!(sessions.foreseen, Foreseen::Start) && !is_telling;
        if goes_on {
            let counted = self.is_recorded.then(|| published.asked(link));
            if let Some(ticket) = loop_stats.go_on(connection, beginning, ticket, counted) {
                return (ticket, best(), None);
            }
        }
        // Without room the statistics could not follow the session, so the rules would never hear of its end.
        if !loop_stats.has_room(connection) {
            return (ticket, None, None);
        }
        let Some(mut rules) = open(&self.rules).filter(|rules| rules.number == published.number) else {
            loop_stats.undecided();
            return (ticket, None, None);
        };
        let begun = rules.begin(self.now_ms(), connection, path, (identity(client).0, link));
        drop(rules);
        let Some(Begun { variant, is_at_rest, decided }) = begun else { return (ticket, None, None) };
        let looks = (sessions.links == LinkRules::Always).then_some(pattern);
        if let Some(piece) = piece.filter(|_| is_at_rest) {
            known.at_rest.learn(now, piece);
        }
        let ticket = loop_stats.is_session(connection, ticket, Ruled { looks, decided });
        if goes_on && is_at_rest {
            loop_stats.may_go_on(connection, beginning);
        }
        let variants = published.policy.variants(pattern);
        let place = variant.and_then(|variant| variants.iter().position(|known| *known == variant));
        (ticket, place.map_or_else(best, |place| sessions.names.get(place).cloned()), None)
    }
}

/// Notes ends of responses that found the statistics locked.
#[cold]
fn end_late(late: &mut Vec<(u64, Ticket, bool)>, loop_stats: &mut LoopStats) {
    for (connection, ticket, has_failed) in late.drain(..) {
        if loop_stats.end(connection, ticket, has_failed) {
            loop_stats.ended(connection);
        }
    }
}

impl Adviser for Shared {
    fn governs(&self, path: &str) -> bool {
        self.published().policy.pattern_of(path).is_some()
    }

    fn asks_hints(&self, path: &str) -> bool {
        let published = self.published();
        published.policy.pattern_of(path).is_some_and(|pattern| published.sessions[pattern].links != LinkRules::Never)
    }

    fn edition(&self) -> u64 {
        self.glance.policy.load(Ordering::Acquire)
    }

    fn may_be_stale(&self) -> bool {
        self.glance.may_be_stale.load(Ordering::Acquire)
    }

    fn begin(&self, question: &Question<'_>) -> Advice {
        let Some((Answer { is_chosen, stale_ms_max, .. }, lease)) = self.answer_again(question) else {
            return self.begin_anew(question);
        };
        let (variant, remember) = (is_chosen.then_some(Names::Full), question.remembered);
        let ticket = Ticket::of(LoopStats::place_of(remember), false).number();
        Advice { variant, refuse_retry_after_s: None, stale_ms_max, ticket, remember, lease }
    }

    fn waited(&self, ticket: u64, waited_ns: u64) {
        let ticket = Ticket::told(ticket);
        if ticket != Ticket::NONE
            && self.with_scratch(|_, loop_stats, _| loop_stats.waited(ticket, waited_ns)).is_none()
        {
            self.undecided.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn during(&self, connection: u64, link: Link) -> Option<Arc<str>> {
        self.with_scratch(|published, loop_stats, _| {
            let now_ms = self.now_ms();
            let pattern = loop_stats.looks(connection, now_ms).filter(|_| published.asked(link) != Link::default());
            let Some(pattern) = pattern else { return loop_stats.during(connection, link) };
            // Where the rules are not free, or others than those of the session, the next reading or tick tells them.
            let Some(mut rules) = open(&self.rules).filter(|rules| rules.number == published.number) else {
                return loop_stats.during(connection, link);
            };
            // The clock is read under the lock of the rules, so that they are told in the order of time.
            let Looked { variant, decided } = rules.link_came(self.now_ms(), connection, link);
            drop(rules);
            let names = variant.map(|variant| with_better(published.policy.variants(pattern), &variant));
            loop_stats.looked(connection, now_ms, names.map(|names| (names, decided)))
        })
        .flatten()
    }

    fn decisions(&self) -> Option<u64> {
        open(&self.rules).map(|rules| rules.state.decided())
    }

    fn decided_by(&self, question: &DecidedQuestion) -> Option<Vec<DecidedBy>> {
        let ticket = Ticket::told(question.ticket);
        if ticket == Ticket::NONE {
            return Some(Vec::new());
        }
        let mut decided = self.in_force_for(question, ticket)?;
        if ticket.has(Ticket::SESSION) {
            let before = question.decisions_before?;
            decided.extend(open(&self.rules)?.decided_for(question.connection, before)?);
        }
        Some(decided)
    }

    fn decided_last(&self, connection: u64) -> Option<DecidedBy> {
        open(&self.rules)?.decided_last(connection)
    }

    fn end(&self, connection: u64, ticket: u64, _bytes: u64, failed: bool) {
        let ticket = Ticket::told(ticket);
        if ticket == Ticket::NONE {
            return;
        }
        let ended = self.with_scratch(|_, loop_stats, _| {
            if loop_stats.end(connection, ticket, failed) {
                self.end_session(connection, loop_stats);
            }
        });
        if ended.is_none() {
            self.end_later(connection, ticket, failed);
        }
    }
}

/// A variant and those that stand in for it where its file is missing: the next better ones. The best one is the file
/// itself, which the server calls `full`.
pub(crate) fn with_better(variants: &[String], chosen: &str) -> Arc<str> {
    let at = variants.iter().position(|variant| variant == chosen).unwrap_or(0);
    let mut names: Vec<&str> = variants.iter().take(at + 1).skip(1).rev().map(String::as_str).collect();
    names.push("full");
    Arc::from(names.join(" "))
}
