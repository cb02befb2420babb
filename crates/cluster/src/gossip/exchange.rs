//! chitchat's transport: its messages in sealed pieces, to and from the members of the cluster alone.
//!
//! What a member begins of itself is paced: within its bytes a second it asks the peer that it has asked the longest
//! ago. Answers are not put off, so that one that comes anew learns everything at once.

use super::pieces::{BODY_BYTES_MAX, Pieces, Whole, cut};
use crate::identity::{ClusterSecret, KeyError};
use crate::name::NodeNumber;
use crate::sealed::{BeatRefusal, OVERHEAD_BYTES, Purpose, Seals, StartId, sender_of};
use async_trait::async_trait;
use chitchat::transport::{Socket, Transport};
use chitchat::{ChitchatMessage, Deserializable, Serializable};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Bytes of a datagram.
const DATAGRAM_BYTES_MAX: usize = OVERHEAD_BYTES + BODY_BYTES_MAX;
/// Heads of IPv4 and UDP.
const NETWORK_BYTES: usize = 28;
/// Datagrams that wait to be opened: some messages of the largest size.
const INBOX_MAX: usize = 256;
/// A member may begin with the bytes of so many seconds at once.
const BURST_S: f64 = 1.0;
/// What answers have taken beyond it is saved later, for so many seconds at most: they may be large.
const DEBT_S: f64 = 5.0;
/// The answer to an answer where there is nothing to tell: none waits for it.
const NOTHING_BYTES: usize = 1;
/// A peer that does not know this start is told it at most so often.
const HELLO_PAUSE: Duration = Duration::from_millis(100);

/// What gossip has counted. Bytes have the heads of UDP and IPv4 with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GossipCounts {
    /// Datagrams sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Datagrams that could not be sent.
    pub send_failed: u64,
    /// Good datagrams.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Good ones of peers that did not know this start yet.
    pub greetings: u64,
    /// Forged ones.
    pub forged: u64,
    /// Replayed ones, and those that came too late.
    pub replayed: u64,
    /// Datagrams that are larger than any that a member sends.
    pub oversized: u64,
    /// Datagrams of another form, or of members that are not known.
    pub other: u64,
    /// Messages of which a piece is missing, or that cannot be read.
    pub broken: u64,
    /// Datagrams that came faster than they could be opened.
    pub dropped: u64,
    /// Peers that were not asked in their turn, to stay within the bytes a second.
    pub put_off: u64,
}

/// Counts that several threads add to.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<Mutex<GossipCounts>>);

impl Tally {
    pub(super) fn counts(&self) -> MutexGuard<'_, GossipCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where datagrams come in.
#[derive(Debug, Clone)]
pub(super) struct Inlet {
    sender: mpsc::Sender<Box<[u8]>>,
    tally: Tally,
}

/// Where they wait.
pub(super) type Inbox = Arc<tokio::sync::Mutex<mpsc::Receiver<Box<[u8]>>>>;

impl Inlet {
    pub(super) fn new(tally: Tally) -> (Self, Inbox) {
        let (sender, receiver) = mpsc::channel(INBOX_MAX);
        (Self { sender, tally }, Arc::new(tokio::sync::Mutex::new(receiver)))
    }

    /// Takes a datagram in; never waits.
    pub(super) fn take(&self, datagram: &[u8]) {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            self.tally.counts().oversized += 1;
        } else if self.sender.try_send(datagram.into()).is_err() {
            self.tally.counts().dropped += 1;
        }
    }
}

/// The newest secret, which may be changed while members gossip.
pub(super) type SharedSecret = Arc<Mutex<ClusterSecret>>;

pub(super) fn newest(secret: &SharedSecret) -> MutexGuard<'_, ClusterSecret> {
    secret.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a datagram to an address.
pub(super) type Carrier = Arc<dyn Fn(SocketAddr, &[u8]) -> io::Result<()> + Send + Sync>;

struct Peer {
    seals: Seals,
    pieces: Pieces,
    /// When it was asked last.
    asked: Option<Instant>,
    /// When it was told this start last.
    greeted: Option<Instant>,
}

/// Bytes that may be sent.
#[derive(Debug)]
struct Budget {
    bytes: f64,
    bytes_per_s: f64,
    at: Instant,
}

impl Budget {
    fn new(bytes_per_s: u32) -> Self {
        let bytes_per_s = f64::from(bytes_per_s);
        Self { bytes: bytes_per_s * BURST_S, bytes_per_s, at: Instant::now() }
    }

    /// Whether there are any left.
    fn has_some(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.bytes = (self.bytes + elapsed * self.bytes_per_s).min(self.bytes_per_s * BURST_S);
        self.bytes > 0.0
    }

    fn spend(&mut self, bytes: usize) {
        self.bytes = (self.bytes - bytes as f64).max(-self.bytes_per_s * DEBT_S);
    }
}

/// The sealed datagrams of one start.
pub(super) struct Exchange {
    own: SocketAddr,
    peers: HashMap<SocketAddr, Peer>,
    addresses: HashMap<NodeNumber, SocketAddr>,
    secret: SharedSecret,
    turn: u64,
    carrier: Carrier,
    inbox: Inbox,
    tally: Tally,
    budget: Budget,
    /// What this side begins in this round.
    begun: Vec<(SocketAddr, Vec<u8>)>,
    messages: u32,
}

/// What an exchange is made of.
pub(super) struct Parts {
    pub(super) own: (NodeNumber, SocketAddr),
    pub(super) peers: BTreeMap<NodeNumber, SocketAddr>,
    pub(super) secret: SharedSecret,
    pub(super) carrier: Carrier,
    pub(super) inbox: Inbox,
    pub(super) tally: Tally,
    pub(super) bytes_per_s: u32,
}

impl Exchange {
    /// Begins with a start of its own.
    pub(super) fn new(parts: &Parts) -> Result<Self, KeyError> {
        let start = StartId::draw()?;
        let secret = newest(&parts.secret).clone();
        let (own, own_address) = parts.own;
        let peer = |(&number, &address): (&NodeNumber, &SocketAddr)| {
            let seals = Seals::new(Purpose::Gossip, &secret, (own, number), start)?;
            Ok((address, Peer { seals, pieces: Pieces::default(), asked: None, greeted: None }))
        };
        Ok(Self {
            own: own_address,
            peers: parts.peers.iter().map(peer).collect::<Result<_, KeyError>>()?,
            addresses: parts.peers.iter().map(|(number, address)| (*number, *address)).collect(),
            secret: Arc::clone(&parts.secret),
            turn: secret.turn(),
            carrier: Arc::clone(&parts.carrier),
            inbox: Arc::clone(&parts.inbox),
            tally: parts.tally.clone(),
            budget: Budget::new(parts.bytes_per_s),
            begun: Vec::new(),
            messages: 0,
        })
    }

    /// Takes a new secret, if there is one.
    fn follow_secret(&mut self) {
        let secret = newest(&self.secret);
        if secret.turn() == self.turn {
            return;
        }
        let (secret, now) = (secret.clone(), Instant::now());
        self.turn = secret.turn();
        for peer in self.peers.values_mut() {
            if let Err(error) = peer.seals.turn(&secret, now) {
                tracing::error!(%error, "the gossip to a member keeps its secret");
            }
        }
    }

    /// Sends what was begun in this round: to those first that were asked the longest ago.
    fn ask(&mut self) {
        let mut begun = std::mem::take(&mut self.begun);
        begun.sort_by_key(|(to, _)| self.peers.get(to).and_then(|peer| peer.asked));
        for (to, message) in begun {
            let now = Instant::now();
            if !self.budget.has_some(now) {
                self.tally.counts().put_off += 1;
                continue;
            }
            if let Some(peer) = self.peers.get_mut(&to) {
                peer.asked = Some(now);
            }
            self.send_message(to, &message);
        }
    }

    fn send_message(&mut self, to: SocketAddr, message: &[u8]) {
        self.messages = self.messages.wrapping_add(1);
        match cut(self.messages, message) {
            Some(pieces) => pieces.iter().for_each(|piece| self.send_sealed(to, piece)),
            None => self.tally.counts().send_failed += 1,
        }
    }

    fn send_sealed(&mut self, to: SocketAddr, body: &[u8]) {
        self.follow_secret();
        let Some(peer) = self.peers.get_mut(&to) else {
            self.tally.counts().other += 1;
            return;
        };
        let datagram = peer.seals.seal(body, Instant::now());
        let bytes = datagram.len() + NETWORK_BYTES;
        self.budget.spend(bytes);
        let sent = (self.carrier)(to, &datagram);
        let mut counts = self.tally.counts();
        match sent {
            Ok(()) => (counts.sent, counts.sent_bytes) = (counts.sent + 1, counts.sent_bytes + bytes as u64),
            Err(_) => counts.send_failed += 1,
        }
    }

    /// Opens a datagram; the message that is whole with it.
    fn open(&mut self, datagram: &[u8]) -> Option<(SocketAddr, ChitchatMessage)> {
        self.follow_secret();
        let known = self.addresses.get(&sender_of(datagram)).copied();
        let Some((from, peer)) = known.and_then(|from| Some((from, self.peers.get_mut(&from)?))) else {
            self.tally.counts().other += 1;
            return None;
        };
        let opened = peer.seals.open(datagram, Instant::now());
        let mut counts = self.tally.counts();
        let body = match opened {
            Ok((true, body)) => body,
            Ok((false, _)) => {
                counts.greetings += 1;
                drop(counts);
                self.greet(from);
                return None;
            }
            Err(refusal) => {
                match refusal {
                    BeatRefusal::Forged => counts.forged += 1,
                    BeatRefusal::Replayed => counts.replayed += 1,
                    BeatRefusal::OtherForm | BeatRefusal::OtherMember => counts.other += 1,
                }
                return None;
            }
        };
        counts.received += 1;
        counts.received_bytes += (datagram.len() + NETWORK_BYTES) as u64;
        if body.is_empty() {
            return None;
        }
        let message = match peer.pieces.take(&body) {
            Whole::NotYet => return None,
            Whole::Message(bytes) => ChitchatMessage::deserialize(&mut bytes.as_slice()).ok(),
            Whole::Refused => None,
        };
        counts.broken += u64::from(message.is_none());
        message.map(|message| (from, message))
    }

    /// Tells a peer this side's start, without which it can say nothing that counts.
    fn greet(&mut self, to: SocketAddr) {
        let Some(peer) = self.peers.get_mut(&to) else { return };
        if peer.greeted.is_none_or(|at| at.elapsed() >= HELLO_PAUSE) {
            peer.greeted = Some(Instant::now());
            self.send_sealed(to, &[]);
        }
    }
}

#[async_trait]
impl Socket for Exchange {
    async fn send(&mut self, to: SocketAddr, message: ChitchatMessage) -> anyhow::Result<()> {
        if let ChitchatMessage::Ack { delta } = &message
            && delta.serialized_len() <= NOTHING_BYTES
        {
            return Ok(());
        }
        let bytes = message.serialize_to_vec();
        if matches!(message, ChitchatMessage::Syn { .. }) {
            // chitchat waits for a message once it has begun with all peers of the round.
            self.begun.push((to, bytes));
        } else {
            self.send_message(to, &bytes);
        }
        Ok(())
    }

    async fn recv(&mut self) -> anyhow::Result<(SocketAddr, ChitchatMessage)> {
        self.ask();
        let inbox = Arc::clone(&self.inbox);
        let mut inbox = inbox.lock().await;
        loop {
            let Some(datagram) = inbox.recv().await else { std::future::pending().await };
            if let Some(found) = self.open(&datagram) {
                return Ok(found);
            }
        }
    }
}

/// Gives chitchat the exchange that it is to use, once.
pub(super) struct Prepared(Mutex<Option<Exchange>>);

impl Prepared {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self(Mutex::new(Some(exchange)))
    }
}

#[async_trait]
impl Transport for Prepared {
    async fn open(&self, own: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let exchange = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let exchange = exchange.filter(|exchange| exchange.own == own);
        Ok(Box::new(exchange.ok_or_else(|| io::Error::from(io::ErrorKind::AddrInUse))?))
    }
}
