//! What a node process tells of itself: events in the cluster's directory, and figures for its server.

use super::contents_seen::ContentsSeen;
use super::figures::{self, Own};
use crate::cluster::control_socket::{Relayed, Replicated};
use crate::cluster::members::MembersFile;
use crate::cluster::overview::MemberNow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_cluster::{
    Carrier, Change, ClockSample, Event, EventEntry, EventHeader, EventLog, Health, Heartbeats, LinkCounts, Mover,
    NodeNumber, Outcome, RelayCountsNow, RemoteDirector, What,
};
use weir_keeper::Flow;
use weir_terminal::units;
use weir_trace::Host;

/// How often figures are told.
const FIGURES_PAUSE: Duration = Duration::from_secs(1);
/// How often clocks are compared.
const CLOCK_PAUSE: Duration = Duration::from_secs(10);
/// Questions of which the one with the shortest round trip counts.
const CLOCK_QUESTIONS: u32 = 5;

/// What the node process tells.
#[derive(Debug)]
pub(super) struct Seen {
    log: EventLog,
    names: BTreeMap<NodeNumber, String>,
    own: String,
    director: String,
    is_director_up: AtomicBool,
    clock: Mutex<Option<ClockSample>>,
    links: Arc<LinkCounts>,
    pub(super) contents: ContentsSeen,
}

/// What its figures are of.
pub(super) struct Told {
    pub(super) mover: Arc<Mover>,
    pub(super) director: Arc<RemoteDirector>,
    pub(super) heartbeats: Arc<Heartbeats>,
    /// What was counted of replicas and takeovers.
    pub(super) replicas: Box<dyn Fn() -> Replicated + Send>,
    /// Whether this node wants no new connections.
    pub(super) drains: Arc<AtomicBool>,
    pub(super) relays: Arc<Carrier>,
    /// How this node stands, as it gossips it.
    pub(super) reading: Box<dyn Fn() -> Option<MemberNow> + Send>,
    /// Says how many connections of HTTP/3 have requests under way.
    pub(super) http3: Box<dyn Fn() -> u64 + Send>,
    /// Has the server show them.
    pub(super) show: Box<dyn Fn(&str) + Send>,
}

/// Responses that one node makes and another one sends.
pub(super) fn relayed(relays: &Carrier) -> Relayed {
    let (makes, sends) = relays.under_way();
    let RelayCountsNow { begun, ended, broken, shortened, .. } = relays.counts();
    Relayed { makes: makes as u64, sends: sends as u64, begun, ended, broken, shortened }
}

impl Seen {
    /// Begins to write events of the node of this number; `tell` says to the operator what is wrong with that.
    pub(super) fn start(
        folder: &Path,
        number: NodeNumber,
        members: &MembersFile,
        links: &Arc<LinkCounts>,
        tell: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let names: BTreeMap<NodeNumber, String> =
            members.nodes.iter().map(|(number, (reached, _))| (*number, reached.member.name.to_string())).collect();
        let own = names.get(&number).cloned().unwrap_or_default();
        let header = EventHeader::new(&own, &Host::this().boot_id);
        let log = EventLog::start(folder, header, move |fault| tell(&fault.to_string()))?;
        let director = members.director.member.name.to_string();
        let (is_director_up, clock) = (AtomicBool::new(false), Mutex::new(None));
        Ok(Self {
            log,
            names,
            own,
            director,
            is_director_up,
            clock,
            links: Arc::clone(links),
            contents: ContentsSeen::default(),
        })
    }

    /// A move has ended for this node.
    pub(super) fn moved(&self, event: &Event) {
        let what = match event.outcome {
            Outcome::Given => What::Given,
            Outcome::Taken => What::Taken,
            Outcome::NotBegun => What::NotBegun,
            Outcome::CameBack => What::CameBack,
            Outcome::Refused => What::Refused,
            Outcome::Lost => What::Lost,
            Outcome::Undecided => What::Undecided,
        };
        let mut entry = EventEntry::at(what, event.at);
        (entry.client, entry.service) = (Some(event.flow.client), Some(event.flow.service));
        entry.move_id = Some(format!("{}.{}", event.id.giver, event.id.number));
        (entry.from, entry.to) = (self.name(event.from), self.name(event.to));
        (entry.freeze_us, entry.total_us, entry.under_way) = (us(event.freeze), us(event.total), event.is_under_way);
        entry.relayed = Some(event.relays).filter(|relays| *relays > 0);
        self.log.note(if event.why.is_empty() { entry } else { entry.because(&event.why) });
    }

    /// Another node keeps the replicas of this one from now on; so many came to it first.
    pub(super) fn replicated(&self, to: NodeNumber, count: usize) {
        let mut entry = EventEntry::now(What::Replicated).because(&units::counted(count as u64, "session"));
        (entry.from, entry.to) = (Some(self.own.clone()), self.name(to));
        self.log.note(entry);
    }

    /// A session of a node that was down goes on here: how long its packets were held, and how long after this node had
    /// heard that the other one was down.
    pub(super) fn taken_over(&self, of: NodeNumber, flow: &Flow, (held, after): (Duration, Duration)) {
        let mut entry = self.of_flow(What::TakenOver, of, flow);
        (entry.freeze_us, entry.total_us) = (us(held), us(after));
        self.log.note(entry);
    }

    /// A session of a node that was down does not go on.
    pub(super) fn not_taken_over(&self, of: NodeNumber, flow: &Flow, why: &str) {
        self.log.note(self.of_flow(What::NotTakenOver, of, flow).because(why));
    }

    /// A session was discarded here, as another node goes on with it.
    pub(super) fn discarded(&self, flow: &Flow) {
        let mut entry = EventEntry::now(What::Discarded).of(&self.own);
        (entry.client, entry.service) = (Some(flow.client), Some(flow.service));
        self.log.note(entry);
    }

    fn of_flow(&self, what: What, of: NodeNumber, flow: &Flow) -> EventEntry {
        let mut entry = EventEntry::now(what);
        (entry.client, entry.service) = (Some(flow.client), Some(flow.service));
        (entry.from, entry.to) = (self.name(of), Some(self.own.clone()));
        entry
    }

    fn name(&self, number: NodeNumber) -> Option<String> {
        Some(self.names.get(&number).cloned().unwrap_or_else(|| number.to_string()))
    }

    /// The director is heard, or is heard no more.
    pub(super) fn changed(&self, change: Change) {
        let is_up = change.health == Health::Up;
        self.is_director_up.store(is_up, Ordering::Relaxed);
        self.log.note(EventEntry::now(if is_up { What::Up } else { What::Down }).of(&self.director));
    }

    /// This node wants no new connections, or wants some again.
    pub(super) fn drained(&self, is_draining: bool) {
        let what = if is_draining { What::Draining } else { What::Undrained };
        self.log.note(EventEntry::now(what).of(&self.own));
    }

    /// A rule over nodes has decided for a session, or this node does something else from now on.
    pub(super) fn ruled(&self, rule: Option<String>, epoch: u64, done: &str, why: &str) {
        let mut entry = EventEntry::now(What::Decided).of(&self.own);
        (entry.rule, entry.epoch, entry.done) = (rule, Some(epoch), Some(done.to_owned()));
        self.log.note(if why.is_empty() { entry } else { entry.because(why) });
    }

    /// Contents have come, to stay.
    pub(super) fn fetched(&self, count: u64, bytes: u64) {
        self.contents.fetched(count, bytes, &self.log);
    }

    /// Contents were given up.
    pub(super) fn evicted(&self, count: u64, bytes: u64) {
        self.contents.evicted(count, bytes, &self.log);
    }

    /// A response is made of what another node has.
    pub(super) fn proxied(&self, path: &str, from: Option<&str>) {
        self.contents.proxied(path, from, &self.log);
    }

    /// No node sends some content.
    pub(super) fn away(&self, why: &str) {
        self.contents.away(why, &self.log);
    }

    /// There are too few copies of contents, or enough again.
    pub(super) fn copies(&self, what: &str) {
        self.log.note(EventEntry::now(What::Copies).because(what));
    }

    /// Tells figures to the server, and compares clocks, until the process ends.
    pub(super) fn run(&self, told: &Told) {
        let mut compared: Option<Instant> = None;
        loop {
            if compared.is_none_or(|at| at.elapsed() >= CLOCK_PAUSE) && self.compare_clocks(&told.director) {
                compared = Some(Instant::now());
            }
            let is_draining = told.drains.load(Ordering::Relaxed);
            let own = Own {
                director: (&self.director, self.is_director_up.load(Ordering::Relaxed)),
                is_draining,
                http3: is_draining.then(|| (told.http3)()),
                clock: *self.clock.lock().unwrap_or_else(PoisonError::into_inner),
                links: self.links.now(),
                heartbeats: told.heartbeats.counts(),
                events: self.log.counts(),
                replicas: (told.replicas)(),
                contents: &self.contents,
                relays: relayed(&told.relays),
                reading: (told.reading)(),
            };
            (told.show)(&figures::text(told.mover.registry(), &own));
            std::thread::sleep(FIGURES_PAUSE);
        }
    }

    /// Asks the director what time it is; whether it said so.
    fn compare_clocks(&self, director: &RemoteDirector) -> bool {
        if !self.is_director_up.load(Ordering::Relaxed) {
            return false;
        }
        let samples = (0..CLOCK_QUESTIONS).map_while(|_| director.clock().ok());
        let best = samples.reduce(ClockSample::better);
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = best;
        let Some(ClockSample { offset_us, error_us }) = best else { return false };
        let mut entry = EventEntry::now(What::Clock).of(&self.director);
        (entry.offset_us, entry.error_us) = (Some(offset_us), Some(error_us));
        self.log.note(entry);
        true
    }
}

/// Microseconds; none for no time.
fn us(time: Duration) -> Option<u64> {
    Some(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)).filter(|us| *us > 0)
}
