//! The side of a link that asks: it connects when it is needed, and again with growing pauses.

use super::channel::{Channel, Closed, NotQueued, Numbered};
use super::counts::{LinkCounts, add};
use super::settings::LinkSettings;
use super::trust::{HandshakeError, Trust};
use crate::message::{MESSAGE_BYTES_MAX, Message};
use crate::name::Member;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LinkError {
    /// The member cannot be reached.
    #[error("{address} cannot be reached ({kind}); see that weir runs there")]
    Unreachable {
        /// Its address.
        address: SocketAddr,
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// One of the two does not believe the other.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The last try failed a moment ago.
    #[error("the last try to connect failed: {0}; the next one follows after a pause")]
    Pausing(Box<LinkError>),
    /// Too much waits to be sent.
    #[error("too much waits to be sent on the link; ask again later")]
    QueueFull,
    /// The message is too large.
    #[error("the message has {0} bytes, and {MESSAGE_BYTES_MAX} are allowed; send less at a time")]
    TooLarge(usize),
    /// There is no answer in time.
    #[error("there is no answer within {} ms; see to the load of the other machine", .0.as_millis())]
    Late(Duration),
    /// The link ended before the answer came.
    #[error("{0}; ask again")]
    Closed(#[from] Closed),
}

impl LinkError {
    /// Whether the request cannot have arrived.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Handshake(_) | Self::Pausing(_) | Self::QueueFull | Self::TooLarge(_) => {
                true
            }
            Self::Late(_) | Self::Closed(_) => false,
        }
    }
}

type Waiting = Mutex<HashMap<u64, SyncSender<Result<Message, Closed>>>>;

#[derive(Debug)]
struct Open {
    channel: Arc<Channel>,
    waiting: Arc<Waiting>,
}

#[derive(Debug)]
enum State {
    Open(Open),
    /// Not connected; not before this time again.
    Pausing {
        until: Instant,
        pause: Duration,
        why: Box<LinkError>,
    },
    Idle,
}

/// A link to one member.
#[derive(Debug)]
pub struct LinkClient {
    peer: Member,
    address: SocketAddr,
    trust: Trust,
    settings: LinkSettings,
    counts: Arc<LinkCounts>,
    state: Mutex<State>,
    next: AtomicU64,
}

impl LinkClient {
    /// A link to a member at an address; it is opened by the first request.
    pub fn new(
        peer: Member,
        address: SocketAddr,
        trust: Trust,
        settings: LinkSettings,
        counts: Arc<LinkCounts>,
    ) -> Self {
        Self { peer, address, trust, settings, counts, state: Mutex::new(State::Idle), next: AtomicU64::new(1) }
    }

    /// Sends a request and waits for its answer; other threads may ask at the same time.
    ///
    /// # Errors
    /// [`LinkError`]; [`LinkError::is_unsent`] tells whether the peer may have seen it.
    pub fn ask(&self, request: &Message, patience: Duration) -> Result<Message, LinkError> {
        let (channel, waiting) = self.open()?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = sync_channel(1);
        lock(&waiting).insert(number, sender);
        let sent = channel.send(number, false, request).map_err(|error| match error {
            NotQueued::Full => LinkError::QueueFull,
            NotQueued::TooLarge(bytes) => LinkError::TooLarge(bytes),
            NotQueued::Closed(closed) => closed.into(),
        });
        let answer = sent.and_then(|()| {
            // The reading thread may have ended before this request began to wait; later it ends the waiting itself.
            if channel.is_closed() && lock(&waiting).remove(&number).is_some() {
                return Err(channel.why_closed().into());
            }
            match receiver.recv_timeout(patience) {
                Ok(answer) => Ok(answer?),
                Err(RecvTimeoutError::Timeout) => {
                    add(&self.counts.timed_out);
                    Err(LinkError::Late(patience))
                }
                Err(RecvTimeoutError::Disconnected) => Err(channel.why_closed().into()),
            }
        });
        lock(&waiting).remove(&number);
        if matches!(answer, Err(LinkError::Late(_))) && lock(&waiting).is_empty() {
            // The peer or the way to it may be gone without a word; the next request finds out by a new connection.
            channel.close(Closed::Here);
        }
        answer
    }

    /// Opens the link ahead of the first request, which would wait for the handshake otherwise.
    ///
    /// # Errors
    /// [`LinkError`], if the peer cannot be reached or one does not believe the other.
    pub fn connect_ahead(&self) -> Result<(), LinkError> {
        self.open().map(|_| ())
    }

    /// Ends the link; the next request opens it again.
    pub fn close(&self) {
        if let State::Open(open) = &*lock(&self.state) {
            open.channel.close(Closed::Here);
        }
    }

    /// The same without waiting: one that is being opened just now stays.
    pub fn interrupt(&self) {
        if let Ok(state) = self.state.try_lock()
            && let State::Open(open) = &*state
        {
            open.channel.close(Closed::Here);
        }
    }

    fn open(&self) -> Result<(Arc<Channel>, Arc<Waiting>), LinkError> {
        let mut state = lock(&self.state);
        let pause = match &*state {
            State::Open(open) if !open.channel.is_closed() => {
                return Ok((Arc::clone(&open.channel), Arc::clone(&open.waiting)));
            }
            State::Pausing { until, why, .. } if Instant::now() < *until => {
                return Err(LinkError::Pausing(why.clone()));
            }
            State::Pausing { pause, .. } => *pause,
            State::Open(_) | State::Idle => Duration::ZERO,
        };
        match self.connect() {
            Ok(open) => {
                let found = (Arc::clone(&open.channel), Arc::clone(&open.waiting));
                *state = State::Open(open);
                Ok(found)
            }
            Err(error) => {
                add(&self.counts.connect_failed);
                let first = Duration::from_millis(self.settings.retry_first_ms);
                let pause = (pause * 2).max(first).min(Duration::from_millis(self.settings.retry_max_ms));
                let why = Box::new(error.clone());
                *state = State::Pausing { until: Instant::now() + pause, pause, why };
                Err(error)
            }
        }
    }

    fn connect(&self) -> Result<Open, LinkError> {
        let unreachable = |error: io::Error| LinkError::Unreachable { address: self.address, kind: error.kind() };
        let mut socket = TcpStream::connect_timeout(&self.address, self.settings.connect()).map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        let tls = self.trust.connect(&mut socket, &self.peer, self.settings.handshake()).inspect_err(|error| {
            let counter = match error {
                HandshakeError::Untrusted(_) => &self.counts.refused_untrusted,
                HandshakeError::Removed(_) => &self.counts.refused_removed,
                HandshakeError::OtherMember(_) => &self.counts.refused_other_member,
                _ => &self.counts.handshake_failed,
            };
            add(counter);
        })?;
        let channel = Channel::start(tls, socket, &self.settings, Arc::clone(&self.counts)).map_err(unreachable)?;
        let waiting: Arc<Waiting> = Arc::default();
        let (reader, answers) = (Arc::clone(&channel), Arc::clone(&waiting));
        let read = move || {
            let closed = reader.read(|Numbered { number, is_answer, message }| {
                let waiting = lock(&answers).remove(&number).filter(|_| is_answer);
                // Its request may have given up; a full slot would be an answer that came twice.
                if let Some(waiting) = waiting {
                    let _ = waiting.try_send(Ok(message));
                }
                Ok(())
            });
            for (_, waiting) in lock(&answers).drain() {
                let _ = waiting.try_send(Err(closed.clone()));
            }
        };
        std::thread::Builder::new().name("weir-link-read".to_owned()).spawn(read).map_err(unreachable)?;
        add(&self.counts.connected);
        Ok(Open { channel, waiting })
    }
}

impl Drop for LinkClient {
    fn drop(&mut self) {
        self.close();
    }
}

/// What the locks guard is whole after each statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
