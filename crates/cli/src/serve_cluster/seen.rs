//! What a node process tells of itself: events in the cluster's directory, and figures for its server.

use super::figures::{self, Own};
use crate::cluster::control_socket::Relayed;
use crate::cluster::members::MembersFile;
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
}

/// What its figures are of.
pub(super) struct Told {
    pub(super) mover: Arc<Mover>,
    pub(super) director: Arc<RemoteDirector>,
    pub(super) heartbeats: Arc<Heartbeats>,
    /// Whether this node wants no new connections.
    pub(super) drains: Arc<AtomicBool>,
    pub(super) relays: Arc<Carrier>,
    /// Has the server show them.
    pub(super) show: Box<dyn Fn(&str) + Send>,
}

/// Responses that one node makes and another one sends.
pub(super) fn relayed(relays: &Carrier) -> Relayed {
    let (makes, sends) = relays.under_way();
    let RelayCountsNow { begun, ended, broken, .. } = relays.counts();
    Relayed { makes: makes as u64, sends: sends as u64, begun, ended, broken }
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
        Ok(Self { log, names, own, director, is_director_up, clock, links: Arc::clone(links) })
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
        let us = |time: Duration| Some(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)).filter(|us| *us > 0);
        let mut entry = EventEntry::at(what, event.at);
        (entry.client, entry.service) = (Some(event.flow.client), Some(event.flow.service));
        entry.move_id = Some(format!("{}.{}", event.id.giver, event.id.number));
        (entry.from, entry.to) = (self.name(event.from), self.name(event.to));
        (entry.freeze_us, entry.total_us, entry.under_way) = (us(event.freeze), us(event.total), event.is_under_way);
        entry.relayed = Some(event.relays).filter(|relays| *relays > 0);
        self.log.note(if event.why.is_empty() { entry } else { entry.because(&event.why) });
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

    /// Tells figures to the server, and compares clocks, until the process ends.
    pub(super) fn run(&self, told: &Told) {
        let mut compared: Option<Instant> = None;
        loop {
            if compared.is_none_or(|at| at.elapsed() >= CLOCK_PAUSE) && self.compare_clocks(&told.director) {
                compared = Some(Instant::now());
            }
            let own = Own {
                director: (&self.director, self.is_director_up.load(Ordering::Relaxed)),
                is_draining: told.drains.load(Ordering::Relaxed),
                clock: *self.clock.lock().unwrap_or_else(PoisonError::into_inner),
                links: self.links.now(),
                heartbeats: told.heartbeats.counts(),
                events: self.log.counts(),
                relays: relayed(&told.relays),
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
