//! What a node does for sessions to outlive their node: it gives replicas of its own to another node, keeps those of
//! others, goes on with them where the director says that their node is down, and discards what others go on with.

use super::copying::CopiedSession;
use super::gate::{Copied, Copies};
use super::guarding::Guarding;
use super::seen::Seen;
use super::signal::Signal;
use crate::cluster::control_socket::Replicated;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_cluster::{
    Batch, Births, Directing, GivenReplicas, Keeper, Kept, Looked, MoveId, Mover, NodeNumber, Position, RemoteDirector,
    RemoteNodes, Replica, ReplicaStore, SessionError, Sessions, SocketOptions, Succession, Successor, TakeOverError,
    Watched,
};
use weir_keeper::{Flow, KeeperClient};
use zeroize::Zeroizing;

/// How often the server is asked for copies at most, and the director for nodes that are down while it matters to replicas.
const PAUSE: Duration = Duration::from_millis(10);
/// How often the director is asked where it does not matter, and another node that does not take replicas.
const CALM: Duration = Duration::from_millis(100);
/// How often the server is asked for copies without a signal: for what comes of time alone.
const UNSIGNALLED: Duration = Duration::from_secs(1);
/// Bytes of the sessions of one batch.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Ended responses of one batch.
const ENDED_MAX: usize = 8_192;
/// Sessions that are taken over at a time.
const AT_A_TIME: usize = 16;
/// Sessions that are looked at, at a time; those beyond go on without a look.
const UNSETTLED_MAX: usize = 1 << 14;
/// A flow whose server does not give it up is asked for so often.
const DISCARDS_MAX: u32 = 200;

/// What the server is to its replicas.
pub(super) trait Server: Send + Sync {
    /// What has changed of the sessions whose response takes long, with the sessions that were copied, also those over TLS
    /// or not; nothing from a server that is about to end.
    /// `all` has it copy those that were copied before as well.
    fn copies(&self, with_tls: bool, all: bool) -> Option<(Copies, Vec<CopiedSession>)>;

    /// Has the server say something to its operator.
    fn say(&self, what: &str);
}

/// The parts that this needs.
pub(super) struct Parts {
    pub(super) number: NodeNumber,
    pub(super) members: Vec<NodeNumber>,
    pub(super) services: Vec<SocketAddr>,
    /// Whether sessions over TLS are replicated, with their keys.
    pub(super) with_tls: bool,
    pub(super) server: Arc<dyn Server>,
    pub(super) sessions: Arc<dyn Sessions>,
    pub(super) keeper: Arc<KeeperClient>,
    pub(super) guarding: Guarding,
    pub(super) mover: Arc<Mover>,
    pub(super) director: Arc<RemoteDirector>,
    pub(super) nodes: Arc<RemoteNodes>,
    pub(super) store: Arc<ReplicaStore>,
    pub(super) seen: Arc<Seen>,
    /// The server gives it when there is something to be asked for.
    pub(super) signal: Signal,
    /// Names this start of the node: it grows from start to start.
    pub(super) start: u64,
}

/// A session that goes on here, and that is looked at yet.
struct Unsettled {
    /// The node that is down.
    node: NodeNumber,
    kept: Kept,
    succession: Succession,
}

/// Replicas of a node, its own and those of others.
pub(super) struct Replicating {
    parts: Parts,
    births: Arc<Births>,
    successor: Successor,
    counts: Mutex<Replicated>,
    down: Mutex<BTreeSet<NodeNumber>>,
    unsettled: Mutex<Vec<Unsettled>>,
    /// With the lock before: there are some.
    taken_over: Condvar,
    given: Mutex<GivenReplicas>,
    number: AtomicU64,
}

impl Replicating {
    /// Begins, by threads of its own.
    pub(super) fn start(parts: Parts) -> std::io::Result<Arc<Self>> {
        let births = Arc::clone(parts.mover.births());
        let successor = Successor::new(
            Arc::<KeeperClient>::clone(&parts.keeper),
            Arc::clone(&parts.sessions),
            Arc::<RemoteDirector>::clone(&parts.director),
            Arc::clone(&births),
        );
        let (counts, down, number) = (Mutex::default(), Mutex::default(), AtomicU64::new(1));
        let (unsettled, taken_over, given) = (Mutex::default(), Condvar::new(), Mutex::default());
        let this = Arc::new(Self { parts, births, successor, counts, down, unsettled, taken_over, given, number });
        let [giving, watching, preparing, looking, guarding] = [(); 5].map(|()| Arc::clone(&this));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        thread("weir-node-copies").spawn(move || giving.give())?;
        thread("weir-node-watch").spawn(move || watching.watch())?;
        thread("weir-node-ready").spawn(move || preparing.prepare())?;
        thread("weir-node-look").spawn(move || looking.look())?;
        thread("weir-node-guard").spawn(move || guarding.parts.guarding.follow())?;
        Ok(this)
    }

    /// What was counted.
    pub(super) fn counts(&self) -> Replicated {
        let store = self.parts.store.counts();
        let counts = self.counted().clone();
        let (guarded, not_guarded) = (self.parts.guarding.guarded(), self.parts.guarding.not_guarded());
        Replicated { kept: store.kept, dropped: counts.dropped + store.dropped, guarded, not_guarded, ..counts }
    }

    /// The server has ended: others are to go on with its sessions.
    pub(super) fn end(&self) {
        self.parts.guarding.end();
    }

    fn counted(&self) -> MutexGuard<'_, Replicated> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given(&self) -> MutexGuard<'_, GivenReplicas> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that keeps this one's replicas: the next one that lives.
    fn keeper_of_replicas(&self) -> Option<NodeNumber> {
        let down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        let Parts { number, members, .. } = &self.parts;
        let others = || members.iter().copied().filter(|node| node != number && !down.contains(node));
        others().find(|node| node > number).or_else(|| others().next())
    }

    /// Gives replicas of the server's sessions to another node, again and again.
    fn give(&self) {
        let (mut to, mut anew) = (None, true);
        loop {
            std::thread::sleep(PAUSE);
            // What did not arrive is given again sooner.
            let has_to_ask = anew || self.parts.guarding.has_to_ask();
            self.parts.signal.wait(if has_to_ask { CALM } else { UNSIGNALLED });
            let next = self.keeper_of_replicas();
            anew |= next != to;
            to = next;
            let Some(node) = next.filter(|_| self.parts.guarding.is_settled()) else { continue };
            let all = self.parts.guarding.take_lost();
            let Some((copies, sessions)) = self.parts.server.copies(self.parts.with_tls, all) else {
                if all {
                    self.parts.guarding.lose();
                }
                continue;
            };
            {
                let mut counts = self.counted();
                counts.left_out = copies.left_out;
                counts.dropped += copies.too_large;
            }
            let is_of_service = |service: &SocketAddr| self.parts.services.contains(&canonical(*service));
            let ended = copies.ended.iter().filter(|(_, service)| is_of_service(service));
            let ended = ended.map(|&(client, service)| Flow { client, service }.canonical());
            // One that is not told does no harm: no flow is given for a response that is over.
            let mut ended: Vec<Flow> = ended.take(ENDED_MAX).collect();
            self.parts.guarding.let_go(&ended);
            let (mut copied, mut sockets) = (Vec::new(), Vec::new());
            for one in sessions.into_iter().filter(|one| is_of_service(&one.copied.service)) {
                copied.push(self.replica(&one.copied, one.session));
                sockets.push(one.socket);
            }
            let replicas = self.to_give(anew, &mut ended, copied);
            if ended.is_empty() && replicas.is_empty() && !anew {
                continue;
            }
            let (was_anew, count) = (anew, replicas.len());
            anew = !self.send(node, anew, ended, replicas);
            // Only what another node can go on with outlives its server.
            sockets.iter().for_each(|socket| self.parts.guarding.keep(socket.as_ref()));
            if was_anew && !anew {
                self.parts.seen.replicated(node, count);
            }
        }
    }

    /// Which replicas another node is to have now, and which sessions besides these have `ended`.
    fn to_give(&self, anew: bool, ended: &mut Vec<Flow>, mut copied: Vec<Replica>) -> Vec<Replica> {
        let mut given = self.given();
        given.forget(ended);
        ended.extend(given.take_over_and_old());
        let beyond = given.hold(&copied);
        let adopted = given.take_adopted();
        // Those that are not held were never given as well: what is dropped is counted.
        let replicas = if anew {
            copied.retain(|replica| !given.holds(replica));
            [given.all(), copied].concat()
        } else {
            [adopted, copied].concat()
        };
        drop(given);
        self.counted().not_held += beyond;
        replicas
    }

    fn replica(&self, copied: &Copied, session: Zeroizing<Vec<u8>>) -> Replica {
        let [written, acknowledged, received] = copied.counts;
        let [options, send_scale, receive_scale] = copied.options;
        let [mss, timestamp, round_trip_us] = copied.numbers;
        let (offset, response_bytes) = (copied.offset, copied.response_bytes);
        let birth = self.births.of(copied.cookie);
        Replica {
            id: self.parts.mover.next_id(),
            flow: Flow { client: copied.client, service: copied.service }.canonical(),
            position: Position { birth, written, acknowledged, received, offset, response_bytes },
            options: SocketOptions { options, send_scale, receive_scale, mss, timestamp, round_trip_us },
            session,
        }
    }

    /// Sends batches; whether all arrived.
    fn send(&self, node: NodeNumber, is_anew: bool, ended: Vec<Flow>, replicas: Vec<Replica>) -> bool {
        let mut batches = vec![self.batch(is_anew, ended)];
        let mut bytes = 0;
        for replica in replicas {
            bytes += replica.encoded_bytes();
            if bytes > BATCH_BYTES_MAX {
                batches.push(self.batch(false, Vec::new()));
                bytes = replica.encoded_bytes();
            }
            if let Some(batch) = batches.last_mut() {
                batch.replicas.push(replica);
            }
        }
        for batch in batches {
            let count = batch.replicas.len() as u64;
            if let Err(error) = self.parts.nodes.replicate(node, batch) {
                tracing::debug!(%error, "replicas did not arrive");
                self.counted().dropped += count;
                return false;
            }
            self.counted().sent += count;
        }
        true
    }

    fn batch(&self, is_anew: bool, ended: Vec<Flow>) -> Batch {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        Batch { start: self.parts.start, number, is_anew, ended, replicas: Vec::new() }
    }

    /// Asks the director which nodes are down, goes on with their sessions, and discards what others go on with.
    fn watch(&self) {
        let mut discarded = Vec::new();
        let mut tries = BTreeMap::new();
        loop {
            std::thread::sleep(PAUSE);
            // A node that has no replica, of others or at others, and has lost no session, has nothing to do at once.
            if discarded.is_empty() && tries.is_empty() && self.given().is_empty() {
                self.parts.store.wait_for_replicas(CALM);
            }
            let Ok(Watched { down, taken, orphans }) = self.parts.director.watch(&discarded) else { continue };
            discarded = self.discard_all(&taken, &mut tries);
            let down: BTreeSet<NodeNumber> = down.into_iter().collect();
            for node in self.parts.store.nodes_kept().into_iter().filter(|node| down.contains(node)) {
                let all = self.parts.store.take_of(node);
                self.take_over_all((node, "is down"), &all);
            }
            self.take_over_orphans(&orphans);
            let before =
                std::mem::replace(&mut *self.down.lock().unwrap_or_else(PoisonError::into_inner), down.clone());
            if before != down {
                // Another node may have to have this one's replicas.
                self.parts.signal.give();
            }
        }
    }

    /// Finds the content of replicas before it is needed: its digests may take long.
    fn prepare(&self) {
        loop {
            let Replica { flow, session, .. } = self.parts.store.wait_for_fresh();
            if let Err(error) = self.successor.prepare(&session) {
                tracing::debug!(%flow, %error, "a replica is of no use here");
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Goes on with sessions whose server has ended while their node lives.
    fn take_over_orphans(&self, orphans: &[(NodeNumber, Flow)]) {
        let mut by_node = BTreeMap::<NodeNumber, Vec<Kept>>::new();
        for (node, flow) in orphans {
            // Of others another node has the replica, or none has.
            let kept = self.parts.store.take_one(*node, flow);
            kept.into_iter().for_each(|kept| by_node.entry(*node).or_default().push(kept));
        }
        for (node, all) in by_node {
            self.take_over_all((node, "has lost its server"), &all);
        }
    }

    fn take_over_all(&self, (node, why): (NodeNumber, &str), all: &[Kept]) {
        let begun = Instant::now();
        let taken = at_once(all, |kept| self.take_over(node, kept, begun).map(|succession| (kept, succession)));
        if !taken.is_empty() {
            let (count, of, took) = (taken.len(), all.len(), begun.elapsed());
            self.parts.server.say(&format!("node {node} {why}: {count} of {of} sessions go on here after {took:.1?}"));
        }
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        let room = UNSETTLED_MAX.saturating_sub(unsettled.len());
        let beyond = taken.len().saturating_sub(room) as u64;
        let taken = taken.into_iter().take(room);
        unsettled.extend(taken.map(|(kept, succession)| Unsettled { node, kept: kept.clone(), succession }));
        drop(unsettled);
        self.taken_over.notify_one();
        self.counted().not_looked_at += beyond;
    }

    /// Looks at sessions that go on here until nothing of their dead nodes is on its way to clients any more.
    fn look(&self) {
        loop {
            std::thread::sleep(PAUSE);
            let unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
            let some = self.taken_over.wait_while(unsettled, |unsettled| unsettled.is_empty());
            let all = std::mem::take(&mut *some.unwrap_or_else(PoisonError::into_inner));
            let mut left: Vec<Unsettled> = all.into_iter().filter_map(|one| self.look_at(one)).collect();
            self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).append(&mut left);
        }
    }

    /// Looks at a session; it is given back if it is to be looked at again.
    fn look_at(&self, mut one: Unsettled) -> Option<Unsettled> {
        match self.successor.look(&one.kept, &mut one.succession) {
            Ok(Looked::Unsettled) => Some(one),
            Ok(Looked::Anew) => {
                self.counted().begun_anew += 1;
                self.hold(&one.kept, &one.succession);
                Some(one)
            }
            // Until its server copies it, this is what tells of its end.
            Ok(Looked::Settled) => self.given().is_adopted(&one.kept.replica.flow).then_some(one),
            Ok(Looked::Quiet) => {
                self.given().end_adopted(&one.kept.replica.flow);
                self.parts.signal.give();
                None
            }
            Err(error) => {
                if !error.is_over() {
                    self.count_loss(&error, one.node, &one.kept.replica.flow);
                }
                None
            }
        }
    }

    /// Has another node keep a session that goes on here.
    fn hold(&self, kept: &Kept, succession: &Succession) {
        let replica = succession.replica(kept, self.parts.mover.next_id());
        self.given().adopt(replica);
        self.parts.signal.give();
    }

    fn count_loss(&self, error: &TakeOverError, node: NodeNumber, flow: &Flow) {
        self.parts.seen.not_taken_over(node, flow, &error.to_string());
        let mut counts = self.counted();
        counts.lost += 1;
        *counts.reasons.entry(error.to_string()).or_default() += 1;
    }

    /// Goes on with a session of a node that has been known to be down since `begun`.
    fn take_over(&self, node: NodeNumber, kept: &Kept, begun: Instant) -> Option<Succession> {
        match self.successor.take_over(kept) {
            Ok(succession) => {
                let mut counts = self.counted();
                counts.taken_over += 1;
                let us = u64::try_from(succession.held.as_micros()).unwrap_or(u64::MAX);
                counts.longest_us = counts.longest_us.max(us);
                drop(counts);
                self.parts.seen.taken_over(node, &kept.replica.flow, (succession.held, begun.elapsed()));
                self.hold(kept, &succession);
                Some(succession)
            }
            Err(error) if error.is_alive() => {
                self.parts.store.put_back(node, kept.clone());
                None
            }
            Err(error) if error.is_over() => None,
            Err(error) => {
                self.count_loss(&error, node, &kept.replica.flow);
                None
            }
        }
    }

    /// Discards flows that others go on with; those of which nothing is left here.
    fn discard_all(&self, taken: &[(MoveId, Flow)], tries: &mut BTreeMap<(MoveId, Flow), u32>) -> Vec<(MoveId, Flow)> {
        tries.retain(|one, _| taken.contains(one));
        let mut gone = Vec::new();
        for one in taken {
            let times = tries.entry(*one).or_default();
            *times += 1;
            if self.discard(&one.1) || *times >= DISCARDS_MAX {
                gone.push(*one);
            }
        }
        gone
    }

    /// Takes a session out of the server and ends its socket without a word to the client; whether none is left.
    fn discard(&self, flow: &Flow) -> bool {
        self.parts.guarding.adopted(flow);
        let session = match self.parts.sessions.take(flow) {
            Ok(session) => session,
            Err(SessionError::NoSession) => return true,
            Err(_) => return false,
        };
        let keeper: &dyn Keeper = &*self.parts.keeper;
        let epoch = self.parts.director.epoch();
        let discarded = keeper.freeze(session.fd.as_fd(), epoch).and_then(|_| keeper.discard(session.fd.as_fd()));
        self.counted().discarded += 1;
        self.parts.seen.discarded(flow);
        if let Err(error) = discarded {
            // Closed it would tell the client of its end, which goes on elsewhere. The kernel gives it up by itself.
            tracing::warn!(%flow, %error, "a socket of a session that goes on elsewhere stays open");
            std::mem::forget(session.fd);
        }
        true
    }
}

/// Does something with each, some of them at a time; what came of it.
fn at_once<'a, T: Sync, R: Send>(all: &'a [T], act: impl Fn(&'a T) -> Option<R> + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(all.len()) {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(result) = act(one) {
                        done.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
