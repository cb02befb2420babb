//! Drives both sides of relayed responses: threads of a node.

use super::bounds::RelaySettings;
use super::counts::{RelayCounts, RelayCountsNow};
use super::incoming::Incoming;
use super::outgoing::{Credited, Outgoing};
use super::passing::Step;
use super::ready::{self, Bell, Ready, Wanted};
use super::word::{COUNT_MAX, Credit, RelayId, RelayWord, Turning};
use crate::message::Message;
use crate::moving::{Relaying, TakenRelay, TransportError};
use crate::name::NodeNumber;
use crate::record::MoveId;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What was not taken in is sent again after this.
const AGAIN: Duration = Duration::from_millis(20);
/// One that has nothing to do is called when it has.
const IDLE: Duration = Duration::from_secs(10);
/// A thread looks at least so often.
const LOOK: Duration = Duration::from_millis(100);

/// The way to other nodes.
pub trait Carrying: Send + Sync {
    /// Says something to a node, and waits for its answer for a short time.
    ///
    /// # Errors
    /// [`TransportError`]; it may have arrived.
    fn carry(&self, to: NodeNumber, word: RelayWord) -> Result<Message, TransportError>;
}

struct Shared {
    nodes: Arc<dyn Carrying>,
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
    /// Rings for the thread of each.
    gives: Bell,
    takes: Bell,
    passes: Bell,
    counts: RelayCounts,
    settings: RelaySettings,
    stops: AtomicBool,
}

/// Carries relayed responses of a node, to it and from it, until it is dropped.
pub struct Carrier(Arc<Shared>);

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Carrier {
    /// Starts its threads.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(nodes: Arc<dyn Carrying>, settings: RelaySettings) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            nodes,
            outgoing: Mutex::new(Outgoing::new(settings)),
            incoming: Mutex::default(),
            gives: Bell::new()?,
            takes: Bell::new()?,
            passes: Bell::new()?,
            counts: RelayCounts::default(),
            settings,
            stops: AtomicBool::new(false),
        });
        let carrier = Self(Arc::clone(&shared));
        let (giving, passing) = (Arc::clone(&shared), Arc::clone(&shared));
        std::thread::Builder::new().name("weir-relay-give".to_owned()).spawn(move || giving.give_all())?;
        std::thread::Builder::new().name("weir-relay-pass".to_owned()).spawn(move || passing.pass_all())?;
        std::thread::Builder::new().name("weir-relay-take".to_owned()).spawn(move || shared.take_all())?;
        Ok(carrier)
    }

    /// What it has counted.
    pub fn counts(&self) -> RelayCountsNow {
        self.0.counts.now()
    }

    /// Responses that are made here for other nodes, and those that other nodes make for this one.
    pub fn under_way(&self) -> (usize, usize) {
        (lock(&self.0.outgoing).len(), lock(&self.0.incoming).len())
    }

    /// Takes in what a node says, and answers it.
    pub fn answer(&self, node: NodeNumber, word: &RelayWord) -> Message {
        self.0.answer(node, word)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.stops.store(true, Ordering::Relaxed);
        self.0.gives.ring();
        self.0.takes.ring();
        self.0.passes.ring();
    }
}

impl Relaying for Carrier {
    fn give(&self, id: MoveId, to: NodeNumber, relays: Vec<TakenRelay>) {
        self.0.counts.begun.fetch_add(relays.len() as u64, Ordering::Relaxed);
        for (place, TakenRelay { socket, before }) in (0..).zip(relays) {
            let of = RelayId { id, place };
            // While nothing is put into the socket.
            let first = {
                let incoming = lock(&self.0.incoming);
                let unread = ready::unread(socket.as_raw_fd());
                incoming.passed_on(ready::number(socket.as_raw_fd()), (before.len(), unread))
            };
            lock(&self.0.outgoing).insert((of, to), (before, socket.into()), first, Instant::now());
        }
        self.0.gives.ring();
        self.0.passes.ring();
    }

    fn take_in(&self, id: MoveId, count: u16) -> io::Result<Vec<OwnedFd>> {
        let mut sockets = Vec::new();
        for place in 0..count {
            let (own, other) = UnixStream::pair()?;
            own.set_nonblocking(true)?;
            other.set_nonblocking(true)?;
            let own = (own, ready::number(other.as_raw_fd()));
            lock(&self.0.incoming).insert(RelayId { id, place }, own, Instant::now());
            sockets.push(other.into());
        }
        self.0.takes.ring();
        Ok(sockets)
    }
}

impl Shared {
    fn answer(&self, node: NodeNumber, word: &RelayWord) -> Message {
        let now = Instant::now();
        match word {
            RelayWord::Pieces(pieces) => {
                let credits = lock(&self.incoming).take_in(node, pieces, now);
                // Something may wait for room now.
                self.takes.ring();
                Message::relay(RelayWord::Credits(credits))
            }
            RelayWord::Credits(credits) => {
                lock(&self.outgoing).credit((node, Credited::Told), credits, now, &self.counts);
                self.gives.ring();
                Message::Noted
            }
            RelayWord::Same(same) => {
                if lock(&self.incoming).same(node, *same) {
                    // Where it is passed on already, the first node is asked by this name.
                    self.passes.ring();
                    return Message::Noted;
                }
                Message::Failed { why: "the response does not come to this node from that one".to_owned() }
            }
            RelayWord::Turn { of, to, by } => {
                let now = lock(&self.outgoing).turn(*of, (node, *by), *to, now);
                self.gives.ring();
                Message::relay(RelayWord::Turning { of: *of, now })
            }
            RelayWord::Turning { .. } => Message::Failed { why: "nothing was asked".to_owned() },
        }
    }

    /// Says something to a node; also to this one, whose session may have come back.
    fn carry(&self, own: NodeNumber, to: NodeNumber, word: RelayWord) -> Result<Message, TransportError> {
        if to == own { Ok(self.answer(own, &word)) } else { self.nodes.carry(to, word) }
    }

    /// Gets out of the way of other nodes, response by response.
    fn pass_all(&self) {
        while !self.stops.load(Ordering::Relaxed) {
            let most = if lock(&self.outgoing).has_steps() { AGAIN } else { IDLE };
            wait(&self.passes, Vec::new(), Vec::new(), most);
            let names = lock(&self.outgoing).first_names();
            let names = lock(&self.incoming).nearest(names);
            let asking = {
                let mut outgoing = lock(&self.outgoing);
                outgoing.rename(&names, Instant::now());
                outgoing.asking()
            };
            let superseded = lock(&self.incoming).superseded(asking);
            let steps = {
                let mut outgoing = lock(&self.outgoing);
                outgoing.stay(&superseded);
                outgoing.steps(Instant::now())
            };
            for Step { of, came, node, word } in steps {
                let answer = self.carry(of.id.giver, node, word);
                let turned = turned_by(&answer);
                let come = turned.and_then(|by| lock(&self.incoming).leave(came, by));
                let mut outgoing = lock(&self.outgoing);
                outgoing.hear_step(of, answer, come);
                outgoing.leave_passed(&self.counts);
            }
        }
    }

    fn give_all(&self) {
        while !self.stops.load(Ordering::Relaxed) {
            let (names, sockets, most) = {
                let outgoing = lock(&self.outgoing);
                let (names, sockets) = outgoing.wanted();
                (names, sockets, if outgoing.has_due(Instant::now()) { AGAIN } else { LOOK })
            };
            let ready = wait(&self.gives, names, sockets, most);
            let mut outgoing = lock(&self.outgoing);
            outgoing.fill(&ready);
            let batches = outgoing.batches(Instant::now());
            drop(outgoing);
            for (node, pieces) in batches {
                // All that is made here has this node's number in its name.
                let own = pieces.first().map(|piece| piece.of.id.giver).or(lock(&self.outgoing).own());
                let answer = self.carry(own.unwrap_or(node), node, RelayWord::Pieces(pieces));
                let mut outgoing = lock(&self.outgoing);
                match credits_of(answer) {
                    Some(credits) => outgoing.hear(node, &credits, Instant::now(), &self.counts),
                    None => outgoing.miss(node, Instant::now(), &self.counts),
                }
            }
        }
    }

    fn take_all(&self) {
        while !self.stops.load(Ordering::Relaxed) {
            let (names, sockets) = lock(&self.incoming).wanted();
            let ready = wait(&self.takes, names, sockets, LOOK);
            let turned = lock(&self.outgoing).turned();
            let mut incoming = lock(&self.incoming);
            incoming.push(&ready);
            let silent = incoming.forget_silent(Instant::now(), self.settings.silence, &turned);
            let untold = incoming.take_untold();
            drop(incoming);
            self.counts.broken.fetch_add(silent as u64, Ordering::Relaxed);
            for (node, credits) in untold {
                credits.chunks(COUNT_MAX).for_each(|credits| self.tell(node, credits));
            }
        }
    }

    fn tell(&self, node: NodeNumber, credits: &[Credit]) {
        let own = lock(&self.outgoing).own();
        let word = RelayWord::Credits(credits.to_vec());
        let told = if own == Some(node) { Ok(self.answer(node, &word)) } else { self.nodes.carry(node, word) };
        if told.is_err() {
            lock(&self.incoming).tell_again(credits.to_vec());
            std::thread::sleep(AGAIN);
        }
    }
}

/// The name of a response that its node has turned elsewhere.
fn turned_by(answer: &Result<Message, TransportError>) -> Option<RelayId> {
    let Ok(Message::Relay(word)) = answer else { return None };
    if let RelayWord::Turning { of, now: Turning::Turned(_) } = **word { Some(of) } else { None }
}

/// The credits that a node has answered with.
fn credits_of(answer: Result<Message, TransportError>) -> Option<Vec<Credit>> {
    let Ok(Message::Relay(word)) = answer else { return None };
    if let RelayWord::Credits(credits) = Arc::unwrap_or_clone(word) { Some(credits) } else { None }
}

/// Waits for the sockets and the bell, at most so long; what is ready. A socket that is closed meanwhile may have its
/// number used again: then its response is gone as well, and nothing is done for it.
fn wait(bell: &Bell, names: Vec<RelayId>, mut sockets: Vec<(RawFd, Wanted)>, most: Duration) -> Vec<(RelayId, Ready)> {
    sockets.push((bell.heard().as_raw_fd(), Wanted::Input));
    let ready = ready::wait(&sockets, most);
    bell.reset();
    names.into_iter().zip(ready).filter(|(_, ready)| *ready != Ready::No).collect()
}

/// What the locks guard is whole after each statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
