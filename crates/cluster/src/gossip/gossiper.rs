//! The thread that gossips: chitchat on a runtime of its own, behind an interface that does not wait.

use super::exchange::{Exchange, GossipCounts, Inlet, Parts, Prepared, SharedSecret, Tally, newest};
use super::heard::{Heard, INTRODUCTION, Introduction, Known, READING, RULES, RULES_BYTES_MAX, SITES};
use super::popular::{Asked, Slots};
use super::reading::{Reading, Sites};
use crate::heartbeat::Heartbeats;
use crate::identity::{ClusterSecret, KeyError};
use crate::name::{NodeName, NodeNumber};
use crate::sealed::Purpose;
use chitchat::{ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, spawn_chitchat};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// All clusters have the same name: their secrets keep them apart.
const CLUSTER: &str = "weir";
/// Deviations beyond which a member counts as silent (phi): one false alarm in 10^8 looks.
const PHI: f64 = 8.0;
const SAMPLES: usize = 100;
/// Longer silences say nothing of how often a member is heard.
const INTERVALS_MAX: u32 = 60;
/// A start that was silent for so long is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// After a fault.
const PAUSE: Duration = Duration::from_secs(1);

/// Bounds of gossip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GossipSettings {
    /// How often peers are asked.
    pub interval: Duration,
    /// Bytes a second from which on a member begins with no peer; answers are not bounded by it.
    pub bytes_per_s: u32,
}

impl Default for GossipSettings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), bytes_per_s: 800 }
    }
}

/// A member that gossips too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GossipPeer {
    /// Its name.
    pub name: NodeName,
    /// That of its heartbeats.
    pub address: SocketAddr,
}

/// Gossip cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum GossipError {
    /// A key cannot be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The socket or the thread fails.
    #[error("members cannot gossip: {0}; see to the address of this member")]
    System(#[from] io::Error),
    /// This member is none of those that gossip.
    #[error("member {0} is not among those that gossip; name it with them")]
    Unknown(NodeNumber),
}

/// Gossips until it is dropped.
pub struct Gossip {
    shared: Arc<Shared>,
    inlet: Inlet,
    secret: SharedSecret,
    slots: Mutex<Slots>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Gossip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gossip").field(&self.counts()).finish()
    }
}

/// What the thread and its callers have together.
#[derive(Default)]
struct Shared {
    /// What this member says of itself, by key.
    own: Mutex<BTreeMap<String, String>>,
    known: Mutex<Known>,
    news: Notify,
    stops: AtomicBool,
    tally: Tally,
}

impl Shared {
    fn own(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gossip {
    /// Begins, by the socket of a member's heartbeats.
    ///
    /// # Errors
    /// [`GossipError`]; nothing is sent then.
    pub fn beside(
        heartbeats: &Heartbeats,
        (own, members): (NodeNumber, BTreeMap<NodeNumber, GossipPeer>),
        secret: &ClusterSecret,
        introduction: &Introduction,
        settings: GossipSettings,
    ) -> Result<Self, GossipError> {
        let socket = heartbeats.socket()?;
        let send = move |to: SocketAddr, datagram: &[u8]| socket.send_to(datagram, to).map(drop);
        let this = Self::start((own, members), secret, introduction, settings, send)?;
        let inlet = this.inlet.clone();
        heartbeats.pass_on(Purpose::Gossip.version(), move |datagram| inlet.take(datagram));
        Ok(this)
    }

    /// Begins. Datagrams leave by `send`, which must not wait, and come in by [`Gossip::take`]. `members` has this one
    /// too.
    ///
    /// # Errors
    /// [`GossipError`]; nothing is sent then.
    pub fn start(
        (own, mut members): (NodeNumber, BTreeMap<NodeNumber, GossipPeer>),
        secret: &ClusterSecret,
        introduction: &Introduction,
        settings: GossipSettings,
        send: impl Fn(SocketAddr, &[u8]) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Self, GossipError> {
        let member = members.remove(&own).ok_or(GossipError::Unknown(own))?;
        let shared = Arc::<Shared>::default();
        shared.own().insert(INTRODUCTION.to_owned(), introduction.to_text());
        let (inlet, inbox) = Inlet::new(shared.tally.clone());
        let parts = Parts {
            own: (own, member.address),
            peers: members.iter().map(|(number, peer)| (*number, peer.address)).collect(),
            secret: Arc::new(Mutex::new(secret.clone())),
            carrier: Arc::new(send),
            inbox,
            tally: shared.tally.clone(),
            bytes_per_s: settings.bytes_per_s,
        };
        // A key that cannot be made is known now.
        let exchange = Exchange::new(&parts)?;
        let secret = Arc::clone(&parts.secret);
        let names = members.into_values().chain([member.clone()]).map(|peer| peer.name).collect();
        let gossiper = Gossiper { member, names, parts, settings, shared: Arc::clone(&shared) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let body = move || gossiper.run(&runtime, exchange);
        let thread = std::thread::Builder::new().name("weir-gossip".to_owned()).spawn(body)?;
        Ok(Self { shared, inlet, secret, slots: Mutex::default(), thread: Some(thread) })
    }

    /// Takes a new secret from the next datagram on. For a bounded time those under the one before are still taken.
    pub fn turn(&self, secret: &ClusterSecret) {
        *newest(&self.secret) = secret.clone();
    }

    /// Takes a datagram in that has come to this member's address; never waits.
    pub fn take(&self, datagram: &[u8]) {
        self.inlet.take(datagram);
    }

    /// Says how this node stands.
    pub fn set_reading(&self, reading: &Reading) {
        self.say(READING, reading.to_text());
    }

    /// Says which versions of sites this node has.
    pub fn set_sites(&self, sites: &Sites) {
        self.say(SITES, sites.to_text());
    }

    /// Says what this member wishes, or does, by the rules over nodes; a text of more than [`RULES_BYTES_MAX`] is not said.
    pub fn set_rules(&self, text: &str) -> bool {
        let fits = text.len() <= RULES_BYTES_MAX;
        if fits {
            self.say(RULES, text.to_owned());
        }
        fits
    }

    /// Says what this node is asked for most: the first [`super::POPULAR_MAX`] by their rates.
    pub fn set_popular(&self, asked: &[Asked]) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = slots.set(asked);
        let mut own = self.shared.own();
        own.extend(changed.iter().map(|(place, slot)| (format!("{place:02}"), slot.to_text())));
        drop(own);
        self.shared.news.notify_one();
    }

    fn say(&self, key: &str, text: String) {
        self.shared.own().insert(key.to_owned(), text);
        self.shared.news.notify_one();
    }

    /// What was heard of the members of this cluster, this one included.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.known().all(Instant::now())
    }

    /// What was counted until now.
    pub fn counts(&self) -> GossipCounts {
        *self.shared.tally.counts()
    }
}

impl Drop for Gossip {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        self.shared.news.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Gossiper {
    member: GossipPeer,
    /// Those of all members.
    names: Vec<NodeName>,
    parts: Parts,
    settings: GossipSettings,
    shared: Arc<Shared>,
}

impl Gossiper {
    fn run(&self, runtime: &tokio::runtime::Runtime, exchange: Exchange) {
        let mut exchange = Some(exchange);
        while !self.stops() {
            let next = exchange.take().map_or_else(|| Exchange::new(&self.parts), Ok);
            let lived = next.map_err(anyhow::Error::new).and_then(|next| runtime.block_on(self.live(next)));
            if let Err(error) = lived {
                // A member that sends what chitchat cannot digest ends this start, and nothing else.
                tracing::warn!(%error, "gossip begins anew");
                runtime.block_on(async { tokio::time::sleep(PAUSE).await });
            }
        }
    }

    fn stops(&self) -> bool {
        self.shared.stops.load(Ordering::Relaxed)
    }

    /// One start: until it is to end, or chitchat ends.
    async fn live(&self, exchange: Exchange) -> anyhow::Result<()> {
        let own = self.shared.own().clone();
        let handle = spawn_chitchat(self.config(), own.into_iter().collect(), &Prepared::new(exchange)).await?;
        let ended = handle.termination_watcher();
        tokio::pin!(ended);
        let mut look = tokio::time::interval(self.settings.interval / 2);
        while !self.stops() {
            tokio::select! {
                result = &mut ended => return result.and_then(|()| anyhow::bail!("gossip has ended")),
                () = self.shared.news.notified() => self.tell(&handle).await,
                _ = look.tick() => self.listen(&handle).await,
            }
        }
        handle.shutdown().await
    }

    fn config(&self) -> ChitchatConfig {
        let interval = self.settings.interval;
        // Restarts of one member are kept apart by their times.
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let id = ChitchatId::new(
            self.member.name.as_str().to_owned(),
            u64::try_from(start).unwrap_or(u64::MAX),
            self.member.address,
        );
        ChitchatConfig {
            chitchat_id: id,
            cluster_id: CLUSTER.to_owned(),
            gossip_interval: interval,
            listen_addr: self.member.address,
            seed_nodes: self.parts.peers.values().map(SocketAddr::to_string).collect(),
            failure_detector_config: FailureDetectorConfig {
                phi_threshold: PHI,
                sampling_window_size: SAMPLES,
                max_interval: interval * INTERVALS_MAX,
                initial_interval: interval,
                dead_node_grace_period: FORGOTTEN,
            },
            marked_for_deletion_grace_period: FORGOTTEN,
            catchup_callback: None,
            extra_liveness_predicate: None,
        }
    }

    /// Says what is new of this member.
    async fn tell(&self, handle: &ChitchatHandle) {
        let own = self.shared.own().clone();
        handle
            .with_chitchat(|chitchat| {
                let state = chitchat.self_node_state();
                own.iter().for_each(|(key, text)| state.set(key, text));
            })
            .await;
    }

    /// Takes over what was heard.
    async fn listen(&self, handle: &ChitchatHandle) {
        let now = Instant::now();
        handle
            .with_chitchat(|chitchat| {
                let alive: Vec<ChitchatId> = chitchat.live_nodes().cloned().collect();
                let mut known = self.shared.known();
                for (id, state) in chitchat.node_states() {
                    let name = self.names.iter().find(|name| name.as_str() == &*id.node_id);
                    if let Some(name) = name {
                        known.take(name, alive.contains(id), state, now);
                    }
                }
            })
            .await;
    }
}
