//! The side of links that answers.

use super::channel::{Channel, Closed, Numbered};
use super::counts::{LinkCounts, add};
use super::settings::LinkSettings;
use super::trust::{HandshakeError, Trust};
use crate::message::Message;
use crate::name::Member;
use socket2::SockRef;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A pause after an error of accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Answers requests of other members.
pub trait Answering: Send + Sync {
    /// The answer to a request; threads call it for several requests at the same time.
    fn answer(&self, peer: &Member, request: Message) -> Message;

    /// Whether the answer takes microseconds only. The reading thread of the link gives it then, which saves a thread.
    fn is_quick(&self, request: &Message) -> bool {
        let _ = request;
        false
    }
}

struct Shared {
    trust: Trust,
    settings: LinkSettings,
    counts: Arc<LinkCounts>,
    answering: Arc<dyn Answering>,
    stops: AtomicBool,
    links: Mutex<HashMap<u64, Arc<Channel>>>,
    open: AtomicUsize,
    requests: AtomicUsize,
}

/// Takes links of other members until it is dropped.
pub struct LinkServer {
    shared: Arc<Shared>,
    listener: TcpListener,
    accepting: Option<JoinHandle<()>>,
}

impl fmt::Debug for LinkServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkServer").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl LinkServer {
    /// Begins to accept.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(
        listener: TcpListener,
        trust: Trust,
        settings: LinkSettings,
        counts: Arc<LinkCounts>,
        answering: Arc<dyn Answering>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            trust,
            settings,
            counts,
            answering,
            stops: AtomicBool::new(false),
            links: Mutex::default(),
            open: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
        });
        let (accepting, own) = (listener.try_clone()?, Arc::clone(&shared));
        let accepting =
            std::thread::Builder::new().name("weir-link".to_owned()).spawn(move || accept(&own, &accepting))?;
        Ok(Self { shared, listener, accepting: Some(accepting) })
    }

    /// Its address.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Drop for LinkServer {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        // On Linux it wakes the thread that accepts.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for channel in self.shared.links.lock().unwrap_or_else(PoisonError::into_inner).values() {
            channel.close(Closed::Here);
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut number = 0;
    loop {
        let accepted = listener.accept();
        if shared.stops.load(Ordering::Relaxed) {
            return;
        }
        let Ok((socket, _)) = accepted else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let Some(place) = Place::take(shared, |shared| (&shared.open, shared.settings.links_max)) else {
            add(&shared.counts.refused_too_many);
            continue;
        };
        number += 1;
        let serve = move || serve(&place.shared, number, socket);
        if std::thread::Builder::new().name("weir-link-read".to_owned()).spawn(serve).is_err() {
            add(&shared.counts.refused_too_many);
        }
    }
}

fn serve(shared: &Arc<Shared>, link: u64, mut socket: TcpStream) {
    let Shared { trust, settings, counts, .. } = &**shared;
    // Without it, small messages would wait for acknowledgements; the link works all the same.
    let _ = socket.set_nodelay(true);
    let (tls, peer) = match trust.accept(&mut socket, settings.handshake()) {
        Ok(accepted) => accepted,
        Err(error) => {
            tracing::debug!(%error, "a link is refused");
            add(match error {
                HandshakeError::NoCertificate => &counts.refused_no_certificate,
                HandshakeError::Untrusted(_) => &counts.refused_untrusted,
                HandshakeError::Removed(_) => &counts.refused_removed,
                _ => &counts.handshake_failed,
            });
            return;
        }
    };
    let Ok(channel) = Channel::start(tls, socket, settings, Arc::clone(counts)) else {
        add(&counts.handshake_failed);
        return;
    };
    add(&counts.accepted);
    let links = || shared.links.lock().unwrap_or_else(PoisonError::into_inner);
    links().insert(link, Arc::clone(&channel));
    // The server may have stopped since the handshake.
    if shared.stops.load(Ordering::Relaxed) {
        channel.close(Closed::Here);
    }
    let peer = Arc::new(peer);
    channel.read(|Numbered { number, is_answer, message }| {
        if trust.members().is_removed(&peer.name) {
            add(&counts.refused_removed);
            return Err(Closed::Removed);
        }
        // This side asks nothing.
        if !is_answer {
            answer(shared, &channel, &peer, number, message);
        }
        Ok(())
    });
    links().remove(&link);
}

/// Answers a request, by a thread of its own where it may wait for others.
fn answer(shared: &Arc<Shared>, channel: &Arc<Channel>, peer: &Arc<Member>, number: u64, request: Message) {
    let busy = |channel: &Channel| {
        add(&shared.counts.requests_busy);
        let why = "too many requests are being answered; ask again later".to_owned();
        // Where it cannot be queued, the peer's own time ends its waiting.
        let _ = channel.send(number, true, &Message::Failed { why });
    };
    let Some(place) = Place::take(shared, |shared| (&shared.requests, shared.settings.requests_max)) else {
        return busy(channel);
    };
    add(&shared.counts.requests);
    if shared.answering.is_quick(&request) {
        let answer = shared.answering.answer(peer, request);
        // A link that ended meanwhile needs no answer.
        let _ = channel.send(number, true, &answer);
        return;
    }
    let (answered, peer) = (Arc::clone(channel), Arc::clone(peer));
    let run = move || {
        let answer = place.shared.answering.answer(&peer, request);
        drop(place);
        // A link that ended meanwhile needs no answer.
        let _ = answered.send(number, true, &answer);
    };
    if std::thread::Builder::new().name("weir-link-answer".to_owned()).spawn(run).is_err() {
        busy(channel);
    }
}

/// One of a bounded number, given back when it is dropped, also by a panic.
struct Place {
    shared: Arc<Shared>,
    of: fn(&Shared) -> (&AtomicUsize, usize),
}

impl Place {
    fn take(shared: &Arc<Shared>, of: fn(&Shared) -> (&AtomicUsize, usize)) -> Option<Self> {
        let (taken, max) = of(shared);
        let place = Self { shared: Arc::clone(shared), of };
        (taken.fetch_add(1, Ordering::Relaxed) < max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.of)(&self.shared).0.fetch_sub(1, Ordering::Relaxed);
    }
}
