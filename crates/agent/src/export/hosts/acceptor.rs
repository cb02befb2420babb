//! Takes what other agents tell.

use super::frames::{
    Key, MAGIC, MOST_FRAME, PATIENCE, PROOF_BYTES, RANDOM_BYTES, SIGN_OF_LIFE, Session, drawn, patient, read_exactly,
    wrong,
};
use crate::export::error::ExportError;
use crate::transaction::Transaction;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Transactions that came and were not yet asked for.
const MOST_RECEIVED: usize = 8192;
const MOST_SENDERS: usize = 64;
/// How often it is looked whether the end has come.
const LOOK: Duration = Duration::from_millis(100);

/// What came from other agents.
#[derive(Debug, Default)]
pub(crate) struct AcceptCounts {
    /// Transactions that came.
    pub(crate) received: AtomicU64,
    /// Transactions that the agent did not take in time.
    pub(crate) dropped: AtomicU64,
    /// Connections that were closed, as their peer sent something invalid or nothing in time.
    pub(crate) refused: AtomicU64,
    /// Agents that are connected.
    pub(crate) connected: AtomicUsize,
}

/// Takes what other agents tell.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    pub(crate) counts: Arc<AcceptCounts>,
    received: Mutex<Receiver<Transaction>>,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`ExportError::Listen`], [`ExportError::Thread`].
    pub(crate) fn start(address: SocketAddr, key: Key) -> Result<Self, ExportError> {
        let refused = |source| ExportError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (told, received) = sync_channel(MOST_RECEIVED);
        let (counts, ending) = (Arc::new(AcceptCounts::default()), Arc::new(AtomicBool::new(false)));
        let listening = Listening { key, told, counts: Arc::clone(&counts), ending: Arc::clone(&ending) };
        let thread = std::thread::Builder::new()
            .name("weir-accept".to_owned())
            .spawn(move || listening.run(&listener))
            .map_err(|source| ExportError::Thread { source })?;
        Ok(Self { address, counts, received: Mutex::new(received), ending, thread: Some(thread) })
    }

    /// The next transaction that came, if there is one.
    pub(crate) fn next(&self) -> Option<Transaction> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the threads that listen have in common.
#[derive(Clone)]
struct Listening {
    key: Key,
    told: SyncSender<Transaction>,
    counts: Arc<AcceptCounts>,
    ending: Arc<AtomicBool>,
}

impl Listening {
    fn run(&self, listener: &TcpListener) {
        while !self.ending.load(Ordering::Acquire) {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(LOOK);
                continue;
            };
            if self.counts.connected.fetch_add(1, Ordering::AcqRel) >= MOST_SENDERS {
                self.counts.connected.fetch_sub(1, Ordering::AcqRel);
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let own = self.clone();
            let hear = move || {
                // A connection that ends between two frames is no error.
                if own.hear(&stream).is_err() && !own.ending.load(Ordering::Acquire) {
                    own.counts.refused.fetch_add(1, Ordering::Relaxed);
                }
                own.counts.connected.fetch_sub(1, Ordering::AcqRel);
            };
            if std::thread::Builder::new().name("weir-sender".to_owned()).spawn(hear).is_err() {
                self.counts.connected.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    fn hear(&self, mut stream: &TcpStream) -> io::Result<()> {
        patient(stream, PATIENCE)?;
        let ours = drawn()?;
        stream.write_all(&[&MAGIC[..], &ours].concat())?;
        let mut random = [0; 2 * RANDOM_BYTES];
        random[..RANDOM_BYTES].copy_from_slice(&ours);
        random[RANDOM_BYTES..].copy_from_slice(&read_exactly::<RANDOM_BYTES>(stream)?);
        let session = Session { key: self.key.clone(), random };
        if !session.is_proven("sender", 0, &[], &read_exactly::<PROOF_BYTES>(stream)?) {
            return Err(wrong("it has another key"));
        }
        stream.write_all(&session.proof("receiver", 0, &[]))?;
        let mut content = Vec::new();
        for number in 0.. {
            if !self.next_begins(stream)? {
                return Ok(());
            }
            stream.set_read_timeout(Some(PATIENCE))?;
            let length = u32::from_be_bytes(read_exactly::<4>(stream)?) as usize;
            let proof = read_exactly::<PROOF_BYTES>(stream)?;
            if length > MOST_FRAME {
                return Err(wrong("a frame is too large"));
            }
            content.resize(length, 0);
            stream.read_exact(&mut content)?;
            if !session.is_proven("frame", number, &content, &proof) {
                return Err(wrong("a frame was changed, left out or sent again"));
            }
            if !content.is_empty() {
                self.take(&content)?;
            }
            stream.write_all(&(number + 1).to_be_bytes())?;
        }
        Ok(())
    }

    /// Whether another frame begins; at the end, and when the other side has closed, it does not.
    fn next_begins(&self, stream: &TcpStream) -> io::Result<bool> {
        stream.set_read_timeout(Some(LOOK))?;
        let until = Instant::now() + 4 * SIGN_OF_LIFE;
        while !self.ending.load(Ordering::Acquire) {
            match stream.peek(&mut [0]) {
                Ok(length) => return Ok(length > 0),
                Err(error)
                    if [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&error.kind()) =>
                {
                    if Instant::now() >= until {
                        return Err(wrong("no sign of life"));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn take(&self, content: &[u8]) -> io::Result<()> {
        let transaction: Transaction =
            serde_json::from_slice(content).map_err(|_| wrong("a frame holds no transaction of this version"))?;
        self.counts.received.fetch_add(1, Ordering::Relaxed);
        if self.told.try_send(transaction).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
