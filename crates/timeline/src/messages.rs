//! Responses that stay open and carry messages: WebSockets, server-sent events, calls of gRPC that stream.
//!
//! How long such a one takes says nothing of the server, so it is no response among the others: it is told with its
//! messages, the time between them, and how long an answer took where it is certain what it answers: the message that the
//! same task took from the same connection, if it took nothing from another one in between.

use rustc_hash::FxHashMap;
use std::sync::Arc;
use weir_wire::stream::{Flow, StreamFrame};

/// Connections that are followed.
const MOST_CONNECTIONS: usize = 1 << 16;
/// Names that are told apart; what comes after is one.
const MOST_NAMES: usize = 256;
const OTHER: &str = "(other)";
/// Of a WebSocket's frame its first byte: whether it is the last one of its message, and what it is (RFC 6455 5.2).
const FIN: u8 = 0x80;
const OPCODE: u8 = 0x0f;
/// From this opcode on a frame is no message's: close, ping, pong.
const FIRST_CONTROL: u8 = 8;

/// What stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LongKind {
    /// A WebSocket, of HTTP/1.1 (RFC 6455) or of HTTP/2 (RFC 8441).
    WebSocket,
    /// Server-sent events: a response whose content is `text/event-stream`.
    Events,
    /// A call of gRPC with more than one message in a direction.
    Grpc,
}

/// Messages in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Messages {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The times between one and the next of a connection, their sum and the longest, nanoseconds.
    pub between_ns: u64,
    /// The longest of these.
    pub between_ns_max: u64,
    /// How many such times there are.
    pub betweens: u64,
    last_ns: u64,
}

impl Messages {
    pub(crate) fn note(&mut self, at_ns: u64) {
        if self.count > 0 {
            let between_ns = at_ns.saturating_sub(self.last_ns);
            self.betweens += 1;
            self.between_ns = self.between_ns.saturating_add(between_ns);
            self.between_ns_max = self.between_ns_max.max(between_ns);
        }
        (self.count, self.last_ns) = (self.count + 1, at_ns);
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.between_ns = self.between_ns.saturating_add(other.between_ns);
        self.between_ns_max = self.between_ns_max.max(other.between_ns_max);
        self.betweens += other.betweens;
    }
}

/// All of one kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongLived {
    /// What they are.
    pub kind: LongKind,
    /// Method and path, or the port.
    pub name: Arc<str>,
    /// How many there were.
    pub count: u64,
    /// Those of them that were still open when the recording, or a window of it, ended.
    pub open: u64,
    /// How long they were seen, their sum, nanoseconds.
    pub lasted_ns: u64,
    /// What the server took.
    pub received: Messages,
    /// What it gave.
    pub sent: Messages,
    /// Messages of the server's that are known to answer one of the client's.
    pub answered: u64,
    /// From the arrival of that one to the send of the answer, their sum, nanoseconds.
    pub answer_ns: u64,
}

/// One that is under way, or was.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life {
    pub(crate) begun_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) received: Messages,
    pub(crate) sent: Messages,
    pub(crate) answered: u64,
    pub(crate) answer_ns: u64,
}

/// A message that a task took and has not answered yet.
#[derive(Debug, Clone, Copy)]
struct Asked {
    arrived_ns: u64,
    taken_ns: u64,
    pid: u32,
}

#[derive(Debug, Default)]
struct WebSocket {
    life: Life,
    asked: Option<Asked>,
    /// Messages that were given and that no send has carried yet.
    unsent: u64,
}

/// An event of HTTP/1.1 that a task has given.
#[derive(Debug, Clone, Copy)]
struct Event {
    /// The socket; `None` where a TLS library's connection has it, and the task's next send tells.
    socket: Option<u32>,
    bytes: u64,
}

/// All that stay open, and what is known of those that are over.
#[derive(Debug, Default)]
pub(crate) struct LongLives {
    sockets: FxHashMap<u32, WebSocket>,
    /// The last request's name of connections that may be upgraded: it is told before the first frame is.
    names: FxHashMap<u32, Arc<str>>,
    /// Events of HTTP/1.1 that tasks have given and that no send has carried yet.
    events: FxHashMap<u32, Event>,
    told: FxHashMap<(LongKind, Arc<str>), LongLived>,
}

impl LongLives {
    /// A frame of a WebSocket was taken (`arrived_ns`: when it had arrived) or given; whether its connection is a new one.
    pub(crate) fn frame(&mut self, at_ns: u64, pid: u32, socket: u32, frame: &StreamFrame, arrived_ns: u64) -> bool {
        let is_new = !self.sockets.contains_key(&socket);
        if is_new && self.sockets.len() >= MOST_CONNECTIONS {
            return false;
        }
        let known = self.sockets.entry(socket).or_default();
        if is_new {
            known.life.begun_ns = at_ns;
        }
        known.life.last_ns = at_ns;
        let opcode = frame.frame_flags & OPCODE;
        if opcode >= FIRST_CONTROL {
            return is_new;
        }
        let is_whole = frame.frame_flags & FIN != 0;
        let way = if frame.sent { &mut known.life.sent } else { &mut known.life.received };
        way.bytes = way.bytes.saturating_add(u64::from(frame.length));
        match (is_whole, frame.sent) {
            (false, _) => {}
            (true, true) => known.unsent += 1,
            (true, false) => {
                way.note(at_ns);
                known.asked = Some(Asked { arrived_ns, taken_ns: at_ns, pid });
            }
        }
        is_new
    }

    /// A task gave bytes of a connection to the kernel: the messages before are in them. `took_elsewhere` tells whether
    /// the task took anything from another connection since a time.
    pub(crate) fn sent(&mut self, socket: u32, at_ns: u64, pid: u32, took_elsewhere: impl Fn(u64) -> bool) {
        let Some(known) = self.sockets.get_mut(&socket) else { return };
        for _ in 0..std::mem::take(&mut known.unsent) {
            known.life.sent.note(at_ns);
            known.life.last_ns = at_ns;
            // A second message of the same send may have another cause.
            if let Some(asked) = known.asked.take().filter(|asked| asked.pid == pid && !took_elsewhere(asked.taken_ns))
            {
                known.life.answered += 1;
                known.life.answer_ns += at_ns.saturating_sub(asked.arrived_ns);
            }
        }
    }

    /// A task gives what begins like an event of HTTP/1.1.
    pub(crate) fn event(&mut self, pid: u32, frame: &StreamFrame) {
        let socket = match frame.flow {
            Flow::Socket(socket) => Some(socket),
            Flow::Tls(_) => None,
        };
        if self.events.len() < MOST_CONNECTIONS || self.events.contains_key(&pid) {
            self.events.insert(pid, Event { socket, bytes: u64::from(frame.length) });
        }
    }

    /// A task's send on a socket: the bytes of the event that is in it, if one is.
    pub(crate) fn sent_event(&mut self, pid: u32, socket: u32) -> Option<u64> {
        let event = self.events.remove(&pid)?;
        (event.socket.is_none_or(|of| of == socket)).then_some(event.bytes)
    }

    /// A request of a connection has a name: it may be the one by which a WebSocket is begun.
    pub(crate) fn name(&mut self, socket: u32, name: &Arc<str>) {
        if self.names.len() < MOST_CONNECTIONS || self.names.contains_key(&socket) {
            self.names.insert(socket, Arc::clone(name));
        }
    }

    /// A connection has closed; `port` names it where nothing else does.
    pub(crate) fn close(&mut self, socket: u32, is_open: bool, port: impl FnOnce() -> Arc<str>) {
        let name = self.names.remove(&socket);
        if let Some(WebSocket { life, .. }) = self.sockets.remove(&socket) {
            self.tell(LongKind::WebSocket, &name.unwrap_or_else(port), &life, is_open);
        }
    }

    /// The connections that are followed, by their numbers.
    pub(crate) fn under_way(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.sockets.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Nothing is known of any connection from here on.
    pub(crate) fn forget(&mut self) {
        self.names.clear();
        self.events.clear();
    }

    /// Adds one that is over, or that the recording's end has cut.
    pub(crate) fn tell(&mut self, kind: LongKind, name: &Arc<str>, life: &Life, is_open: bool) {
        let key = (kind, Arc::clone(name));
        let key = if self.told.len() < MOST_NAMES || self.told.contains_key(&key) { key } else { (kind, OTHER.into()) };
        let name = Arc::clone(&key.1);
        let all = self.told.entry(key).or_insert_with(|| LongLived {
            kind,
            name,
            count: 0,
            open: 0,
            lasted_ns: 0,
            received: Messages::default(),
            sent: Messages::default(),
            answered: 0,
            answer_ns: 0,
        });
        all.count += 1;
        all.open += u64::from(is_open);
        all.lasted_ns = all.lasted_ns.saturating_add(life.last_ns.saturating_sub(life.begun_ns));
        all.received.add(&life.received);
        all.sent.add(&life.sent);
        all.answered += life.answered;
        all.answer_ns = all.answer_ns.saturating_add(life.answer_ns);
    }

    /// What is known of those that are over, by kind and name.
    pub(crate) fn told(&self) -> Vec<LongLived> {
        let mut all: Vec<LongLived> = self.told.values().cloned().collect();
        all.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        all
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        self.sockets.len() + self.names.len() + self.events.len() + self.told.len()
    }
}
