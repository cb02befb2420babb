//! The active director tells the other one its table: each flow that is steered at once, all others by comparing.

use super::director_seen::SeenAnswers;
use super::members::FILE;
use super::pair::{Pair, lock};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use weir_cluster::{Answering, ENTRIES_MAX, Entries, LinkClient, Member, Message, NodeNumber, Role, TableReplica};
use weir_keeper::Flow;

/// Steered flows that wait to be told; those that do not fit are told by the next comparison.
pub(super) const STEERED_MAX: usize = 65_536;
/// How often the whole table is compared with what was told.
const COMPARE: Duration = Duration::from_secs(1);
/// How soon one that did not take it is told again.
const AGAIN: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(500);

type Weights = BTreeMap<NodeNumber, u16>;

/// Starts the thread that tells the other director.
pub(super) fn start(pair: &Arc<Pair>, link: LinkClient, steered: Receiver<(Flow, NodeNumber)>) -> io::Result<()> {
    let pair = Arc::clone(pair);
    let run = move || run(&pair, &link, &steered);
    std::thread::Builder::new().name("weir-director-replica".to_owned()).spawn(run).map(drop)
}

/// Tells the other director until the process ends; while this one stands by, it only listens.
fn run(pair: &Pair, link: &LinkClient, steered: &Receiver<(Flow, NodeNumber)>) {
    let mut replica = TableReplica::default();
    let (mut of, mut compare_at) = (None, Instant::now());
    let mut weighed = BTreeMap::new();
    loop {
        let ahead = wait(steered, compare_at.saturating_duration_since(Instant::now()).min(AGAIN));
        let Some(active) = pair.active() else {
            of = None;
            continue;
        };
        if of != Some(active) {
            replica.lose();
            (of, compare_at) = (Some(active), Instant::now());
        }
        let draining: Vec<NodeNumber> = pair.director.with(|control, _| control.draining().iter().copied().collect());
        let mut parts = replica.ahead(active, &ahead, &draining);
        if Instant::now() >= compare_at {
            parts.extend(replica.difference(active, &(pair.differing)(), &draining));
            compare_at = Instant::now() + COMPARE;
            // Also where nothing has changed: the other one may have been started anew.
            weighed.clear();
        }
        // First: which connections go where their hash says depends on the weights.
        let is_weighed = tell_weights(link, active, lock(&pair.weights).clone(), &mut weighed);
        if !is_weighed || !tell(link, parts) {
            // Also one that is not there: it is told the whole table when it comes.
            replica.lose();
            weighed.clear();
            compare_at = Instant::now() + AGAIN;
        }
    }
}

/// The next steered flows; none if there are none for so long.
fn wait(steered: &Receiver<(Flow, NodeNumber)>, patience: Duration) -> Vec<(Flow, NodeNumber)> {
    match steered.recv_timeout(patience.max(Duration::from_millis(1))) {
        Ok(first) => std::iter::once(first).chain(steered.try_iter()).take(ENTRIES_MAX).collect(),
        Err(RecvTimeoutError::Timeout) => Vec::new(),
        Err(RecvTimeoutError::Disconnected) => {
            std::thread::sleep(patience);
            Vec::new()
        }
    }
}

fn tell(link: &LinkClient, parts: Vec<Entries>) -> bool {
    parts.into_iter().all(|part| matches!(link.ask(&Message::Entries(part), PATIENCE), Ok(Message::Noted)))
}

/// Tells the weights of nodes, if they are others than those that were told.
fn tell_weights(link: &LinkClient, epoch: u64, now: Weights, told: &mut Weights) -> bool {
    if now == *told {
        return true;
    }
    let message = Message::Weights { epoch, weights: now.iter().map(|(node, weight)| (*node, *weight)).collect() };
    *told = now;
    matches!(link.ask(&message, PATIENCE), Ok(Message::Noted))
}

/// Takes the weights of the active director over.
fn take_weights(pair: &Pair, epoch: u64, weights: &[(NodeNumber, u16)]) -> Message {
    let failed = |why: &str| Message::Failed { why: why.to_owned() };
    if pair.active().is_some() {
        return failed("this director is active; see which epoch is the newest");
    }
    if pair.newest().is_some_and(|(newest, _)| newest > epoch) {
        return failed("a newer epoch has begun");
    }
    *lock(&pair.weights) = weights.iter().copied().collect();
    Message::Noted
}

/// Takes a part of the other director's table into this one's.
fn take(pair: &Pair, entries: &Entries) -> Message {
    let failed = |why: &str| Message::Failed { why: why.to_owned() };
    if pair.active().is_some() {
        return failed("this director is active; see which epoch is the newest");
    }
    if pair.newest().is_some_and(|(newest, _)| newest > entries.epoch) {
        return failed("a newer epoch has begun");
    }
    let mut replicated = lock(&pair.replicated);
    let was_whole = replicated.is_whole();
    pair.director.with(|control, table| {
        replicated.take(entries, table);
        for node in control.draining().clone() {
            control.drain(node, entries.draining.contains(&node));
        }
        entries.draining.iter().for_each(|node| control.drain(*node, true));
    });
    if replicated.is_whole() && !was_whole {
        eprintln!(
            "weir cluster director: {} stands by, with the table of {} ({} connections that moved)",
            pair.name,
            pair.other.member.name,
            replicated.flows()
        );
    }
    Message::Noted
}

/// What a director of a pair answers: nodes only while it is active, the other director always.
pub(super) struct PairAnswers {
    pub(super) pair: Arc<Pair>,
    pub(super) nodes: SeenAnswers,
}

impl Answering for PairAnswers {
    fn answer(&self, peer: &Member, request: Message) -> Message {
        let failed = |why: String| Message::Failed { why };
        let pair = &self.pair;
        if peer.role == Role::Director {
            return match request {
                _ if *peer != pair.other.member => failed(format!("{} is no director of {FILE}", peer.name)),
                Message::Entries(entries) => take(pair, &entries),
                Message::Weights { epoch, weights } => take_weights(pair, epoch, &weights),
                Message::Resigned { epoch } => {
                    pair.resigned.fetch_max(epoch, Ordering::AcqRel);
                    Message::Noted
                }
                _ => failed("a director takes no such message of another".to_owned()),
            };
        }
        if pair.active().is_none() {
            return failed(format!("{} stands by; ask {}", pair.name, pair.other.member.name));
        }
        self.nodes.answer(peer, request)
    }

    /// It looks into tables only.
    fn is_quick(&self, _: &Message) -> bool {
        true
    }
}
