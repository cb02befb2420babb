//! Tells another agent: connects, sends, hears what was taken, connects again.

use super::frames::{Key, PATIENCE, SIGN_OF_LIFE, Session, greet, read_exactly, send, wrong};
use super::queue::Queue;
use crate::export::error::ExportError;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Frames that were sent and not yet acknowledged.
const MOST_UNDER_WAY: u64 = 256;
/// Pauses between attempts to connect, doubled from the first.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Counts of the transactions for one agent.
#[derive(Debug, Default)]
pub(crate) struct PeerCounts {
    /// Transactions that it has acknowledged.
    pub(crate) sent: AtomicU64,
    /// Transactions that found no room in the queue, or are too large.
    pub(crate) dropped: AtomicU64,
    /// Transactions in flight when a connection broke: the peer may or may not have received them.
    pub(crate) lost: AtomicU64,
    /// Whether it is connected.
    pub(crate) connected: AtomicBool,
    error: Mutex<Option<String>>,
}

impl PeerCounts {
    /// Why there is no connection.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, error: Option<String>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

/// Another agent that is told.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its name and port, as they were given.
    pub(crate) address: String,
    pub(crate) counts: Arc<PeerCounts>,
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Peer {
    /// Begins to tell an agent.
    ///
    /// # Errors
    /// [`ExportError::Peer`] for what is no `HOST:PORT`, [`ExportError::Thread`].
    pub(crate) fn start(address: &str, key: Key) -> Result<Self, ExportError> {
        let has_port =
            address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !has_port {
            return Err(ExportError::Peer { address: address.to_owned() });
        }
        let (queue, counts) = (Arc::new(Queue::default()), Arc::new(PeerCounts::default()));
        let teller =
            Teller { address: address.to_owned(), key, queue: Arc::clone(&queue), counts: Arc::clone(&counts) };
        let thread = std::thread::Builder::new()
            .name("weir-peer".to_owned())
            .spawn(move || teller.run())
            .map_err(|source| ExportError::Thread { source })?;
        Ok(Self { address: address.to_owned(), counts, queue, thread: Mutex::new(Some(thread)) })
    }

    /// Takes a transaction as [`frame`] wrote it, or counts it as dropped; never waits.
    pub(crate) fn push(&self, frame: Option<&Arc<[u8]>>) {
        if !frame.is_some_and(|frame| self.queue.push(Arc::clone(frame))) {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends it: what waits is still sent where there is a connection.
    pub(crate) fn finish(&self) {
        self.queue.end();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Teller {
    address: String,
    key: Key,
    queue: Arc<Queue>,
    counts: Arc<PeerCounts>,
}

impl Teller {
    fn run(&self) {
        let mut pause = FIRST_PAUSE;
        while !self.queue.is_ending() {
            let outcome = self.connect().and_then(|(stream, session)| {
                self.counts.tell(None);
                self.counts.connected.store(true, Ordering::Relaxed);
                pause = FIRST_PAUSE;
                self.tell(&stream, &session)
            });
            self.counts.connected.store(false, Ordering::Relaxed);
            if let Err(error) = outcome {
                self.counts.tell(Some(format!("{}: {}", self.address, words(&error))));
                self.queue.pause(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        self.counts.dropped.fetch_add(self.queue.clear(), Ordering::Relaxed);
    }

    fn connect(&self) -> io::Result<(TcpStream, Session)> {
        let mut last = wrong("the name has no address");
        for address in self.address.to_socket_addrs()?.take(8) {
            match TcpStream::connect_timeout(&address, PATIENCE).and_then(|stream| {
                let session = greet(&stream, &self.key)?;
                Ok((stream, session))
            }) {
                Ok(connected) => return Ok(connected),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Sends what comes, until the end or until the connection breaks.
    fn tell(&self, stream: &TcpStream, session: &Session) -> io::Result<()> {
        let (mut sent, mut acknowledged, mut lives) = (0u64, 0u64, 0u64);
        let outcome = loop {
            let under_way = sent - acknowledged;
            // While answers are due, they are looked for as often as there is nothing to send.
            let next = match under_way {
                0 => self.queue.next(SIGN_OF_LIFE),
                MOST_UNDER_WAY.. => None,
                _ => self.queue.next(Duration::ZERO),
            };
            let step = match (next, under_way) {
                (Some(frame), _) => {
                    sent += 1;
                    send(stream, session, sent - 1, &frame)
                }
                (None, 0) if self.queue.is_ending() => break Ok(()),
                (None, 0) => {
                    sent += 1;
                    lives += 1;
                    send(stream, session, sent - 1, &[])
                }
                (None, _) => read_exactly::<8>(stream).and_then(|bytes| {
                    let taken = u64::from_be_bytes(bytes);
                    if taken <= acknowledged || taken > sent {
                        return Err(wrong("it acknowledges what was not sent"));
                    }
                    // Signs of life are sent alone, so that one is under way at most.
                    let signs = std::mem::take(&mut lives);
                    self.counts
                        .sent
                        .fetch_add(taken - acknowledged - signs.min(taken - acknowledged), Ordering::Relaxed);
                    acknowledged = taken;
                    Ok(())
                }),
            };
            if let Err(error) = step {
                break Err(error);
            }
        };
        self.counts.lost.fetch_add(sent - acknowledged - lives.min(sent - acknowledged), Ordering::Relaxed);
        outcome
    }
}

/// An error of a connection, for who reads it.
fn words(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "no agent listens there (weir agent --accept)".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it did not answer in time".to_owned(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            "it closed the connection; have both hosts the same key?".to_owned()
        }
        _ => error.to_string(),
    }
}
