//! Drives both sides of relayed responses: two threads of a node.

use super::bounds::RelaySettings;
use super::counts::{RelayCounts, RelayCountsNow};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::ready::{self, Bell, Ready, Wanted};
use super::word::{COUNT_MAX, Credit, RelayId, RelayWord};
use crate::message::Message;
use crate::moving::{Relaying, TransportError};
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
            counts: RelayCounts::default(),
            settings,
            stops: AtomicBool::new(false),
        });
        let carrier = Self(Arc::clone(&shared));
        let giving = Arc::clone(&shared);
        std::thread::Builder::new().name("weir-relay-give".to_owned()).spawn(move || giving.give_all())?;
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
        match word {
            RelayWord::Pieces(pieces) => {
                let credits = lock(&self.0.incoming).take_in(node, pieces, Instant::now());
                // Something may wait for room now.
                self.0.takes.ring();
                Message::relay(RelayWord::Credits(credits))
            }
            RelayWord::Credits(credits) => {
                lock(&self.0.outgoing).credit(node, credits, Instant::now(), &self.0.counts);
                self.0.gives.ring();
                Message::Noted
            }
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.stops.store(true, Ordering::Relaxed);
        self.0.gives.ring();
        self.0.takes.ring();
    }
}

impl Relaying for Carrier {
    fn give(&self, id: MoveId, to: NodeNumber, sockets: Vec<OwnedFd>) {
        self.0.counts.begun.fetch_add(sockets.len() as u64, Ordering::Relaxed);
        let mut outgoing = lock(&self.0.outgoing);
        for (place, socket) in (0..).zip(sockets) {
            outgoing.insert(RelayId { id, place }, to, socket.into(), Instant::now());
        }
        drop(outgoing);
        self.0.gives.ring();
    }

    fn take_in(&self, id: MoveId, count: u16) -> io::Result<Vec<OwnedFd>> {
        let mut sockets = Vec::new();
        for place in 0..count {
            let (own, other) = UnixStream::pair()?;
            own.set_nonblocking(true)?;
            other.set_nonblocking(true)?;
            lock(&self.0.incoming).insert(RelayId { id, place }, own, Instant::now());
            sockets.push(other.into());
        }
        self.0.takes.ring();
        Ok(sockets)
    }
}

impl Shared {
    fn give_all(&self) {
        while !self.stops.load(Ordering::Relaxed) {
            let (names, sockets, most) = {
                let outgoing = lock(&self.outgoing);
                let (names, sockets) = outgoing.wanted();
                (names, sockets, if outgoing.has_due() { AGAIN } else { LOOK })
            };
            let ready = wait(&self.gives, names, sockets, most);
            let mut outgoing = lock(&self.outgoing);
            outgoing.fill(&ready);
            let batches = outgoing.batches(Instant::now());
            drop(outgoing);
            for (node, pieces) in batches {
                let answer = self.nodes.carry(node, RelayWord::Pieces(pieces));
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
            let mut incoming = lock(&self.incoming);
            incoming.push(&ready);
            let silent = incoming.forget_silent(Instant::now(), self.settings.silence);
            let untold = incoming.take_untold();
            drop(incoming);
            self.counts.broken.fetch_add(silent as u64, Ordering::Relaxed);
            for (node, credits) in untold {
                credits.chunks(COUNT_MAX).for_each(|credits| self.tell(node, credits));
            }
        }
    }

    fn tell(&self, node: NodeNumber, credits: &[Credit]) {
        if self.nodes.carry(node, RelayWord::Credits(credits.to_vec())).is_err() {
            lock(&self.incoming).tell_again(credits.to_vec());
            std::thread::sleep(AGAIN);
        }
    }
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
