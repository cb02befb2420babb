//! One link after its handshake: a thread reads, another writes, and any thread sends.
//!
//! What is sent is sealed under a lock and queued in that order. Sockets are used outside of the lock, so that a peer
//! which does not read cannot keep this side from reading; only what the kernel takes at once is sent within it.

use super::counts::{LinkCounts, add};
use super::settings::LinkSettings;
use crate::fields::FieldError;
use crate::message::{MESSAGE_BYTES_MAX, Message};
use rustls::Connection;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::{Zeroize, Zeroizing};

/// Bytes in front of a message: its length, its number, and whether it is an answer.
const HEAD_BYTES: usize = 13;
const READ_BYTES: usize = 64 << 10;
/// As many as a message about keys may have.
const KEYS_BYTES: usize = 80 << 10;

/// Why a link has ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Closed {
    /// This side ended it.
    #[error("this side has ended the link")]
    Here,
    /// The peer ended it.
    #[error("the peer has ended the link")]
    There,
    /// The network broke it, or the peer takes nothing.
    #[error("the link broke ({0})")]
    Broken(io::ErrorKind),
    /// TLS says so, such as an alert of the peer.
    #[error("the link broke: {0}")]
    Tls(#[from] rustls::Error),
    /// The peer says what cannot be understood.
    #[error("the peer's message is refused: {0}")]
    Message(#[from] FieldError),
    /// The peer was removed from the cluster.
    #[error("the peer was removed from the cluster")]
    Removed,
}

/// A message with its number.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) is_answer: bool,
    pub(super) message: Message,
}

/// A message was not queued.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum NotQueued {
    #[error("too much waits to be sent")]
    Full,
    #[error("the message has {0} bytes")]
    TooLarge(usize),
    #[error(transparent)]
    Closed(#[from] Closed),
}

/// A link that any thread may send on.
#[derive(Debug)]
pub(super) struct Channel {
    tls: Mutex<Connection>,
    /// Sealed bytes; `None` once the link has ended.
    queue: Mutex<Option<Sender<Vec<u8>>>>,
    queued_bytes: AtomicUsize,
    queue_bytes_max: usize,
    socket: TcpStream,
    closed: Mutex<Option<Closed>>,
    counts: Arc<LinkCounts>,
}

impl Channel {
    /// Starts the writing thread; the caller reads by [`Channel::read`].
    pub(super) fn start(
        mut tls: Connection,
        socket: TcpStream,
        settings: &LinkSettings,
        counts: Arc<LinkCounts>,
    ) -> io::Result<Arc<Self>> {
        // The queue has a bound of its own.
        tls.set_buffer_limit(None);
        socket.set_write_timeout(Some(settings.write()))?;
        let (sender, receiver) = channel();
        let written = socket.try_clone()?;
        let this = Arc::new(Self {
            tls: Mutex::new(tls),
            queue: Mutex::new(Some(sender)),
            queued_bytes: AtomicUsize::new(0),
            queue_bytes_max: settings.queue_bytes_max,
            socket,
            closed: Mutex::new(None),
            counts,
        });
        let writer = Arc::clone(&this);
        std::thread::Builder::new()
            .name("weir-link-write".to_owned())
            .spawn(move || writer.write(written, &receiver))?;
        Ok(this)
    }

    /// Seals a message and queues it.
    pub(super) fn send(&self, number: u64, is_answer: bool, message: &Message) -> Result<(), NotQueued> {
        let bytes = match message {
            Message::Record(record) => record.encoded_bytes(),
            // A buffer that grows leaves copies behind, and a list of revoked certificates may follow on secrets.
            Message::Keys(_) => KEYS_BYTES,
            _ => 2_048,
        };
        let mut plain = Zeroizing::new(Vec::with_capacity(HEAD_BYTES + bytes));
        plain.extend([0; 4]);
        plain.extend(number.to_be_bytes());
        plain.push(u8::from(is_answer));
        message.encode(&mut plain);
        let length = plain.len() - HEAD_BYTES;
        if length > MESSAGE_BYTES_MAX {
            add(&self.counts.bad_messages);
            return Err(NotQueued::TooLarge(length));
        }
        plain[..4].copy_from_slice(&(length as u32).to_be_bytes());
        if self.queued_bytes.load(Ordering::Relaxed) + plain.len() > self.queue_bytes_max {
            add(&self.counts.queue_full);
            return Err(NotQueued::Full);
        }
        let mut tls = lock(&self.tls);
        let written = tls.writer().write_all(&plain);
        let queued = written.is_ok() && self.queue_sealed(&mut tls);
        drop(tls);
        if queued { Ok(()) } else { Err(self.why_closed().into()) }
    }

    /// Sends or queues what TLS has sealed. The caller holds the lock on `tls`, so that records keep their order.
    fn queue_sealed(&self, tls: &mut Connection) -> bool {
        let mut sealed = Vec::new();
        while tls.wants_write() {
            // Writing to memory does not fail.
            if tls.write_tls(&mut sealed).is_err() {
                return false;
            }
        }
        // Nothing waits in front of it: it goes out at once, as far as the kernel takes it without waiting. A message would
        // arrive later by way of the writing thread.
        if !sealed.is_empty() && self.queued_bytes.load(Ordering::Acquire) == 0 {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // An error comes again to the writing thread, which ends the link.
            let sent = SockRef::from(&self.socket).send_with_flags(&sealed, flags).unwrap_or(0);
            sealed.drain(..sent);
        }
        if sealed.is_empty() {
            return true;
        }
        // Before the writing thread takes them off again.
        self.queued_bytes.fetch_add(sealed.len(), Ordering::Relaxed);
        lock(&self.queue).as_ref().is_some_and(|queue| queue.send(sealed).is_ok())
    }

    fn write(&self, mut socket: TcpStream, queue: &Receiver<Vec<u8>>) {
        for sealed in queue {
            if let Err(error) = socket.write_all(&sealed) {
                return self.close(Closed::Broken(error.kind()));
            }
            self.queued_bytes.fetch_sub(sealed.len(), Ordering::Release);
        }
    }

    /// Reads messages until the link ends, or `take` says so.
    pub(super) fn read(&self, mut take: impl FnMut(Numbered) -> Result<(), Closed>) -> Closed {
        let mut buffer = vec![0; READ_BYTES];
        let mut plain = Zeroizing::new(Vec::with_capacity(2 * READ_BYTES));
        // The first messages may have come with the end of the handshake.
        let mut bytes = 0;
        let closed = loop {
            if let Err(closed) = self.open(&buffer[..bytes], &mut plain).and_then(|()| split(&mut plain, &mut take)) {
                break closed;
            }
            bytes = match (&self.socket).read(&mut buffer) {
                Ok(0) => break Closed::There,
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => break Closed::Broken(error.kind()),
            };
        };
        if matches!(closed, Closed::Message(_)) {
            add(&self.counts.bad_messages);
        }
        self.close(closed);
        self.why_closed()
    }

    fn open(&self, mut sealed: &[u8], plain: &mut Vec<u8>) -> Result<(), Closed> {
        let mut tls = lock(&self.tls);
        loop {
            // Of nothing it would take the end of the connection.
            if !sealed.is_empty() {
                tls.read_tls(&mut sealed).map_err(|error| Closed::Broken(error.kind()))?;
            }
            let processed = tls.process_new_packets();
            // Alerts and updated keys go out as well.
            self.queue_sealed(&mut tls);
            match tls.reader().read_to_end(plain) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(Closed::Broken(error.kind())),
                _ => {}
            }
            if processed?.peer_has_closed() {
                return Err(Closed::There);
            }
            if sealed.is_empty() {
                return Ok(());
            }
        }
    }

    /// Ends the link; the first reason stays.
    pub(super) fn close(&self, closed: Closed) {
        lock(&self.closed).get_or_insert(closed);
        lock(&self.queue).take();
        // It may be shut down already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.closed).is_some()
    }

    pub(super) fn why_closed(&self) -> Closed {
        lock(&self.closed).clone().unwrap_or(Closed::Here)
    }
}

/// Takes whole messages from the front.
fn split(plain: &mut Vec<u8>, take: &mut impl FnMut(Numbered) -> Result<(), Closed>) -> Result<(), Closed> {
    let mut at = 0;
    while let Some(head) = plain[at..].first_chunk::<HEAD_BYTES>() {
        let [a, b, c, d, number @ .., is_answer] = *head;
        let bytes = u32::from_be_bytes([a, b, c, d]) as usize;
        if bytes > MESSAGE_BYTES_MAX {
            return Err(FieldError::Bound { what: "message", bytes, max: MESSAGE_BYTES_MAX }.into());
        }
        let Some(message) = plain.get(at + HEAD_BYTES..at + HEAD_BYTES + bytes) else { break };
        let message = Message::decode(message)?;
        at += HEAD_BYTES + bytes;
        take(Numbered { number: u64::from_be_bytes(number), is_answer: is_answer == 1, message })?;
    }
    if at == plain.len() {
        // A large message leaves no large buffer behind.
        plain.zeroize();
        plain.shrink_to(READ_BYTES);
    } else {
        plain.drain(..at);
        make_room(plain);
    }
    Ok(())
}

/// Makes room for the whole of a message that has begun: a buffer that grows by itself leaves copies behind, and a
/// session's bytes may hold keys.
fn make_room(plain: &mut Vec<u8>) {
    // The length of a whole head was compared with the bound.
    let Some([a, b, c, d, ..]) = plain.first_chunk::<HEAD_BYTES>() else { return };
    let bytes = HEAD_BYTES + u32::from_be_bytes([*a, *b, *c, *d]) as usize + READ_BYTES;
    if plain.capacity() < bytes {
        let mut larger = Vec::with_capacity(bytes);
        larger.extend_from_slice(plain);
        std::mem::replace(plain, larger).zeroize();
    }
}

/// What the locks guard is whole after each statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
