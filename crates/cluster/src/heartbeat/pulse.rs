//! Sends a member's heartbeats and takes those of its peers: one thread over a UDP socket.

use super::detector::{BeatIntake, Change, Detector, DetectorSettings};
use super::sealed::{Beat, BeatRefusal, DATAGRAM_BYTES, Opened, StartId};
use crate::identity::{ClusterSecret, KeyError};
use crate::name::NodeNumber;
use crate::sealed::{Purpose, Seals, sender_of};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Datagrams that are taken in between two looks at the clock.
const BURST: usize = 1_024;
/// Bytes of any datagram that is taken, and one more, by which larger ones are known.
const TAKEN_BYTES: usize = 1_501;

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BeatCounts {
    /// Heartbeats that were sent.
    pub sent: u64,
    /// Heartbeats that could not be sent.
    pub send_failed: u64,
    /// Signs of life.
    pub alive: u64,
    /// Good ones of peers that did not know this start yet.
    pub greetings: u64,
    /// Forged ones.
    pub forged: u64,
    /// Replayed ones, and those that came too late.
    pub replayed: u64,
    /// Datagrams of another form, or of members that are not known.
    pub other: u64,
    /// How often this side itself stood still.
    pub pauses: u64,
}

/// Sends and takes heartbeats until it is dropped.
pub struct Heartbeats {
    stops: Arc<AtomicBool>,
    counts: Arc<Mutex<BeatCounts>>,
    epoch: Arc<AtomicU64>,
    asked: Arc<Mutex<Option<Peers>>>,
    turned: Arc<Mutex<Option<ClusterSecret>>>,
    passed_on: Arc<PassedOn>,
    socket: UdpSocket,
    thread: Option<JoinHandle<()>>,
}

/// Takes the datagrams of another purpose that come to the same address.
type Sink = Box<dyn Fn(&[u8]) + Send>;
type PassedOn = Mutex<Option<(u8, Sink)>>;

/// The members that send heartbeats to this one, and where they are.
type Peers = BTreeMap<NodeNumber, SocketAddr>;

impl fmt::Debug for Heartbeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heartbeats").field(&self.counts()).finish()
    }
}

/// Heartbeats cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum HeartbeatError {
    /// A key cannot be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The socket or the thread fails.
    #[error("heartbeats cannot be sent: {0}; see to the address of this member")]
    Socket(#[from] io::Error),
}

impl Heartbeats {
    /// Begins. `changed` is called by the thread, and must not take long.
    ///
    /// # Errors
    /// [`HeartbeatError`], if the socket or the system's random bytes fail.
    pub fn start(
        socket: UdpSocket,
        own: NodeNumber,
        secret: &ClusterSecret,
        peers: Peers,
        settings: DetectorSettings,
        changed: impl FnMut(Change) + Send + 'static,
    ) -> Result<Self, HeartbeatError> {
        let start = StartId::draw()?;
        let mut this = Self {
            stops: Arc::default(),
            counts: Arc::default(),
            epoch: Arc::default(),
            asked: Arc::new(Mutex::new(Some(peers))),
            turned: Arc::default(),
            passed_on: Arc::default(),
            socket: socket.try_clone()?,
            thread: None,
        };
        let pulse = Pulse {
            socket,
            own,
            start,
            secret: secret.clone(),
            asked: Arc::clone(&this.asked),
            turned: Arc::clone(&this.turned),
            passed_on: Arc::clone(&this.passed_on),
            peers: BTreeMap::new(),
            detector: Detector::new(settings),
            interval: settings.interval.max(Duration::from_millis(1)),
            intake: settings.intake,
            begun: Instant::now(),
            stops: Arc::clone(&this.stops),
            shown: Arc::clone(&this.counts),
            counts: BeatCounts::default(),
            epoch: Arc::clone(&this.epoch),
            changed: Box::new(changed),
        };
        let thread = std::thread::Builder::new().name("weir-heartbeat".to_owned()).spawn(move || pulse.run())?;
        this.thread = Some(thread);
        Ok(this)
    }

    /// What was counted until now.
    pub fn counts(&self) -> BeatCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The largest epoch that this member was told, by [`Heartbeats::set_epoch`] or a peer.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Sets the peers from the next interval on; a new one is down until it is heard.
    pub fn set_peers(&self, peers: Peers) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(peers);
    }

    /// Takes a new secret from the next interval on. For a bounded time heartbeats under the one before are still taken,
    /// so that members may get the new one after each other.
    pub fn turn(&self, secret: &ClusterSecret) {
        *self.turned.lock().unwrap_or_else(PoisonError::into_inner) = Some(secret.clone());
    }

    /// The socket, for datagrams of another purpose.
    pub(crate) fn socket(&self) -> io::Result<UdpSocket> {
        self.socket.try_clone()
    }

    /// Passes datagrams on that begin with this byte, unopened. The thread calls the sink, which must not take long.
    pub(crate) fn pass_on(&self, first: u8, sink: impl Fn(&[u8]) + Send + 'static) {
        *self.passed_on.lock().unwrap_or_else(PoisonError::into_inner) = Some((first, Box::new(sink)));
    }

    /// Tells peers an epoch from now on.
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Peer {
    /// Without, it is a peer no more. Its seals stay: others would use the same numbers under the same key.
    address: Option<SocketAddr>,
    seals: Seals,
}

struct Pulse {
    socket: UdpSocket,
    own: NodeNumber,
    start: StartId,
    secret: ClusterSecret,
    asked: Arc<Mutex<Option<Peers>>>,
    turned: Arc<Mutex<Option<ClusterSecret>>>,
    passed_on: Arc<PassedOn>,
    peers: BTreeMap<NodeNumber, Peer>,
    detector: Detector,
    interval: Duration,
    intake: BeatIntake,
    begun: Instant,
    stops: Arc<AtomicBool>,
    shown: Arc<Mutex<BeatCounts>>,
    counts: BeatCounts,
    epoch: Arc<AtomicU64>,
    changed: Box<dyn FnMut(Change) + Send>,
}

impl Pulse {
    fn run(mut self) {
        let mut next = Instant::now();
        while !self.stops.load(Ordering::Relaxed) {
            let wait = next.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                // What has come is taken in before a member is judged.
                self.take_all();
                let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(peers) = asked {
                    self.set_peers(&peers);
                }
                let turned = self.turned.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(secret) = turned {
                    self.turn(secret);
                }
                self.beat();
                next = (next + self.interval).max(Instant::now());
                continue;
            }
            if self.intake == BeatIntake::WithOwn {
                std::thread::sleep(wait);
                continue;
            }
            let mut datagram = [0; TAKEN_BYTES];
            // A wait of zero would be one without an end; it was excluded above.
            if self.socket.set_read_timeout(Some(wait)).is_err() {
                std::thread::sleep(wait);
            } else if let Ok((bytes, _)) = self.socket.recv_from(&mut datagram) {
                self.take(&datagram[..bytes]);
            }
        }
    }

    fn set_peers(&mut self, peers: &Peers) {
        for (node, peer) in &mut self.peers {
            peer.address = peers.get(node).copied();
        }
        for (&node, &address) in peers {
            if self.peers.contains_key(&node) {
                continue;
            }
            match Seals::new(Purpose::Heartbeat, &self.secret, (self.own, node), self.start) {
                Ok(seals) => drop(self.peers.insert(node, Peer { address: Some(address), seals })),
                Err(error) => tracing::error!(node, %error, "no heartbeats go to a member"),
            }
        }
        self.detector.set_nodes(&peers.keys().copied().collect::<Vec<_>>());
    }

    fn turn(&mut self, secret: ClusterSecret) {
        let now = Instant::now();
        for (node, peer) in &mut self.peers {
            if let Err(error) = peer.seals.turn(&secret, now) {
                tracing::error!(node, %error, "the heartbeats to a member keep their secret");
            }
        }
        self.secret = secret;
    }

    fn take_all(&mut self) {
        if self.socket.set_nonblocking(true).is_err() {
            return;
        }
        let mut datagram = [0; TAKEN_BYTES];
        for _ in 0..BURST {
            let Ok((bytes, _)) = self.socket.recv_from(&mut datagram) else { break };
            self.take(&datagram[..bytes]);
        }
        // Where it fails, the next waits end at once, and heartbeats still go out in time.
        let _ = self.socket.set_nonblocking(false);
    }

    fn take(&mut self, datagram: &[u8]) {
        if datagram.len() != DATAGRAM_BYTES || datagram[0] != Purpose::Heartbeat.version() {
            let passed_on = self.passed_on.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, sink)) = passed_on.as_ref().filter(|(first, _)| datagram.first() == Some(first)) {
                return sink(datagram);
            }
        }
        let from = sender_of(datagram);
        let Some(peer) = self.peers.get_mut(&from).filter(|peer| peer.address.is_some()) else {
            self.counts.other += 1;
            return;
        };
        let opened = if datagram.len() == DATAGRAM_BYTES {
            peer.seals.open(datagram, Instant::now()).map(Opened::of)
        } else {
            Err(BeatRefusal::OtherForm)
        };
        match opened {
            Ok(Opened::Alive(beat)) => {
                self.counts.alive += 1;
                self.epoch.fetch_max(beat.epoch, Ordering::AcqRel);
                if let Some(change) = self.detector.heard(from, self.begun.elapsed()) {
                    (self.changed)(change);
                }
            }
            Ok(Opened::Greeting) => self.counts.greetings += 1,
            Err(BeatRefusal::Forged) => self.counts.forged += 1,
            Err(BeatRefusal::Replayed) => self.counts.replayed += 1,
            Err(BeatRefusal::OtherForm | BeatRefusal::OtherMember) => self.counts.other += 1,
        }
    }

    fn beat(&mut self) {
        let (beat, now) = (Beat { epoch: self.epoch.load(Ordering::Acquire) }, Instant::now());
        for peer in self.peers.values_mut() {
            let Some(address) = peer.address else { continue };
            let datagram = peer.seals.seal(&beat.body(), now);
            match self.socket.send_to(&datagram, address) {
                Ok(_) => self.counts.sent += 1,
                Err(_) => self.counts.send_failed += 1,
            }
        }
        for change in self.detector.check(self.begun.elapsed()) {
            (self.changed)(change);
        }
        self.counts.pauses = self.detector.pauses();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = self.counts;
    }
}
