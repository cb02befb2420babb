//! Requests over HTTP/3 at weir's own server, by its marks: datagrams of all clients come and go over one socket, sealed.
//!
//! A request arrived with the first datagram of its connection among those that were received together with it: the kernel
//! tells when each reached the socket, and they are taken in their order. It was picked up where that datagram was
//! received, and was not begun before the server had sent what it made for others of the same lot. Its response was sent
//! by the last datagrams with content that QUIC made before it had nothing more to send.
//! A connection counts as a socket of its own, with a number that no socket has.

use crate::served::{Arrival, Carrier, End, Exchange, Sent};
use crate::tasks::Verb;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_wire::quic::{Quic, QuicEvent};

/// Datagrams that wait at a socket; the kernel holds fewer.
const MOST_WAITING: usize = 1 << 14;
/// Receptions of a task that are remembered: a server takes at most so many at once.
const MOST_RECEIVED: usize = 64;
/// Sockets, tasks and connections that are remembered.
const MOST_SOCKETS: usize = 1 << 10;
const MOST_TASKS: usize = 1 << 12;
const MOST_CONNECTIONS: usize = 1 << 16;
/// Streams under way on one connection; a client that opens more is damage.
const MOST_OPEN: usize = 1 << 12;
/// On two CPUs a task may take a datagram before its arrival has told of itself; so much later that is no more, nanoseconds.
const LATE_NS: u64 = 5_000_000;
/// Numbers of connections begin here and descend: cookies of sockets ascend from 1.
const FIRST_NUMBER: u32 = u32::MAX;

/// A UDP socket of the server's.
#[derive(Debug, Default)]
struct Socket {
    /// When the datagrams arrived that no task has taken.
    waiting: VecDeque<u64>,
    /// When datagrams were taken whose arrival has not told of itself.
    early: VecDeque<u64>,
    /// It was found empty once: from there on no datagram is older than the recording.
    is_known: bool,
}

/// A task that serves.
#[derive(Debug, Default)]
struct Task {
    /// When it received, and when that datagram had arrived.
    received: VecDeque<(u64, Option<u64>)>,
    /// Its last send.
    sent_ns: u64,
    /// The connection that it deals with.
    turn: Option<u32>,
    /// What the next datagrams are, that it sends.
    next: Next,
}

/// What the next datagrams of a task carry.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Nothing,
    Content,
    /// All that the connection has.
    All,
}

#[derive(Debug)]
struct Stream {
    exchange: Exchange,
    way: Way,
}

/// How far the server's side of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// No response is there.
    Asked,
    /// QUIC has the response's first bytes.
    Begun,
    /// QUIC has the last one.
    Ended,
}

#[derive(Debug)]
struct Connection {
    /// As a socket.
    number: u32,
    streams: FxHashMap<u32, Stream>,
    /// The last datagrams with content.
    carried_ns: u64,
}

/// All requests over HTTP/3.
#[derive(Debug, Default)]
pub(crate) struct QuicStreams {
    sockets: FxHashMap<u32, Socket>,
    tasks: FxHashMap<u32, Task>,
    /// By the task and its own number.
    connections: FxHashMap<(u32, u32), Connection>,
    numbers: u32,
    over: VecDeque<Exchange>,
    /// Streams that were given up, or whose connection ended before they did.
    given_up: u64,
    /// Requests that there was no room for.
    forgotten: u64,
}

impl QuicStreams {
    /// Whether a socket takes datagrams of the server's clients.
    pub(crate) fn knows(&self, socket: u32) -> bool {
        self.sockets.contains_key(&socket)
    }

    /// A task took a datagram from a socket, or gave some to it; the number of the connection or socket that it dealt with.
    pub(crate) fn dealt(&mut self, pid: u32, socket: u32, verb: Verb, at_ns: u64) -> u32 {
        if self.tasks.len() >= MOST_TASKS && !self.tasks.contains_key(&pid) {
            return socket;
        }
        let arrived_ns = match (verb, self.sockets.get_mut(&socket)) {
            (Verb::Receive, Some(known)) => known.take(at_ns),
            _ => None,
        };
        let task = self.tasks.entry(pid).or_default();
        match verb {
            Verb::Receive => {
                task.received.push_back((at_ns, arrived_ns));
                if task.received.len() > MOST_RECEIVED {
                    task.received.pop_front();
                }
                (task.turn, task.next) = (None, Next::Nothing);
                socket
            }
            Verb::Send => {
                task.sent_ns = at_ns;
                let (turn, next) = (task.turn, std::mem::take(&mut task.next));
                turn.map_or(socket, |connection| self.sent((pid, connection), next, at_ns).unwrap_or(socket))
            }
        }
    }

    /// What the server, or one of its sockets, tells; `pid` is the running task. A request's number as a socket, where it
    /// was taken up.
    pub(crate) fn push(&mut self, at_ns: u64, pid: u32, told: Quic, name: Option<&Arc<str>>) -> Option<u32> {
        let key = (pid, told.connection);
        match told.event {
            QuicEvent::Arrival => {
                if self.sockets.len() < MOST_SOCKETS || self.knows(told.connection) {
                    self.sockets.entry(told.connection).or_default().arrive(at_ns);
                }
                return None;
            }
            QuicEvent::Empty => {
                if let Some(socket) = self.sockets.get_mut(&told.connection) {
                    socket.waiting.clear();
                    socket.is_known = true;
                }
                return None;
            }
            _ if self.tasks.len() >= MOST_TASKS && !self.tasks.contains_key(&pid) => return None,
            _ => self.tasks.entry(pid).or_default().turn = Some(told.connection),
        }
        match told.event {
            QuicEvent::Request => return self.begin(at_ns, pid, told, name),
            QuicEvent::Begun | QuicEvent::Ended => {
                let stream = self.connections.get_mut(&key)?.streams.get_mut(&told.stream)?;
                stream.exchange.status = told.status();
                stream.way = if told.event == QuicEvent::Ended { Way::Ended } else { Way::Begun };
                if told.event == QuicEvent::Ended {
                    stream.exchange.response_bytes = told.bytes();
                }
            }
            QuicEvent::GivenUp => {
                let gone = self.connections.get_mut(&key)?.streams.remove(&told.stream);
                self.given_up += u64::from(gone.is_some());
            }
            QuicEvent::Carried => self.tasks.entry(pid).or_default().next = Next::Content,
            QuicEvent::Emptied => self.tasks.entry(pid).or_default().next = Next::All,
            QuicEvent::Acknowledged => {
                let connection = self.connections.get_mut(&key)?;
                let is_sent = connection.streams.get(&told.stream).is_some_and(|one| one.exchange.sent.is_some());
                // What was acknowledged had been carried, by the last datagrams with content at the latest.
                let stream = connection.streams.remove(&told.stream).filter(|_| is_sent);
                self.over.extend(stream.map(|stream| stream.exchange.with_last_send(connection.carried_ns, pid)));
            }
            QuicEvent::Closed => {
                let gone = self.connections.remove(&key)?;
                self.close(gone, pid);
            }
            QuicEvent::Arrival | QuicEvent::Empty => {}
        }
        None
    }

    fn begin(&mut self, at_ns: u64, pid: u32, told: Quic, name: Option<&Arc<str>>) -> Option<u32> {
        let task = self.tasks.get(&pid)?;
        let back = told.datagrams_back();
        let taken =
            back.and_then(|back| task.received.len().checked_sub(back + 1)).and_then(|at| task.received.get(at));
        let (picked_ns, arrived_ns) = taken.map_or((at_ns, None), |(picked_ns, arrived_ns)| (*picked_ns, *arrived_ns));
        let key = (pid, told.connection);
        if self.connections.len() >= MOST_CONNECTIONS && !self.connections.contains_key(&key) {
            self.forgotten += 1;
            return None;
        }
        let next = FIRST_NUMBER - self.numbers % (1 << 28);
        let connection = self.connections.entry(key).or_insert_with(|| {
            self.numbers = self.numbers.wrapping_add(1);
            Connection { number: next, streams: FxHashMap::default(), carried_ns: 0 }
        });
        if connection.streams.len() >= MOST_OPEN {
            self.forgotten += 1;
            return None;
        }
        let arrival = arrived_ns.map(|at_ns| Arrival { at_ns, position: 0, not_accepted: false });
        let exchange = Exchange {
            arrival,
            encrypted: true,
            carrier: Carrier::Quic,
            stream: told.stream,
            // Until then it was at what it had received before, or together with this.
            answered_ns: if task.sent_ns > picked_ns { task.sent_ns.min(at_ns) } else { 0 },
            name: name.cloned(),
            ..Exchange::picked(connection.number, picked_ns, pid)
        };
        connection.streams.insert(told.stream, Stream { exchange, way: Way::Asked });
        Some(connection.number)
    }

    /// A connection is over. A client that leaves without acknowledging what was sent to it has it, as the server's log
    /// has it; what was not sent was given up.
    fn close(&mut self, gone: Connection, pid: u32) {
        let carried_ns = gone.carried_ns;
        let mut streams: Vec<(u32, Stream)> = gone.streams.into_iter().collect();
        streams.sort_by_key(|(number, _)| *number);
        for (_, Stream { exchange, way }) in streams {
            if way == Way::Ended && exchange.sent.is_some() {
                self.over.push_back(exchange.with_last_send(carried_ns, pid));
            } else {
                self.given_up += 1;
            }
        }
    }

    /// Datagrams of a connection went out; its number as a socket.
    fn sent(&mut self, key: (u32, u32), next: Next, at_ns: u64) -> Option<u32> {
        let connection = self.connections.get_mut(&key)?;
        if next == Next::Nothing {
            return Some(connection.number);
        }
        connection.carried_ns = at_ns;
        for stream in connection.streams.values_mut().filter(|stream| stream.way != Way::Asked) {
            stream.exchange.sent.get_or_insert(Sent { first_ns: at_ns, last_ns: at_ns, pid: key.0, from: 0, to: 0 });
        }
        if next == Next::All {
            let mut ended: Vec<u32> =
                connection.streams.iter().filter(|(_, one)| one.way == Way::Ended).map(|(number, _)| *number).collect();
            ended.sort_unstable();
            let streams = ended.into_iter().filter_map(|number| connection.streams.remove(&number));
            self.over.extend(streams.map(|stream| stream.exchange.with_last_send(at_ns, key.0)));
        }
        Some(connection.number)
    }

    /// The next request that is over.
    pub(crate) fn next_over(&mut self) -> Option<Exchange> {
        self.over.pop_front()
    }

    /// The recording, or a window of it, ends: gives the requests that are over, then those under way, which it cuts.
    pub(crate) fn edge(&mut self) -> Vec<(Exchange, End)> {
        let over = std::mem::take(&mut self.over).into_iter().map(|exchange| (exchange, End::Told));
        let mut open: Vec<Exchange> = std::mem::take(&mut self.connections)
            .into_values()
            .flat_map(|connection| connection.streams.into_values().map(|stream| stream.exchange))
            .collect();
        open.sort_by_key(|exchange| (exchange.picked_ns, exchange.socket, exchange.stream));
        self.sockets.clear();
        self.tasks.clear();
        over.chain(open.into_iter().map(|exchange| (exchange, End::Cut))).collect()
    }

    /// Requests that were given up, and those that there was no room for.
    pub(crate) fn lost(&self) -> (u64, u64) {
        (self.given_up, self.forgotten)
    }

    /// The oldest time that may still be asked for.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        let open = self.connections.values().flat_map(|one| one.streams.values()).map(|stream| &stream.exchange);
        open.chain(&self.over).map(Exchange::begun_ns).min()
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        let waiting: usize = self.sockets.values().map(|one| 1 + one.waiting.len() + one.early.len()).sum();
        let received: usize = self.tasks.values().map(|one| 1 + one.received.len()).sum();
        let open: usize = self.connections.values().map(|one| 1 + one.streams.len()).sum();
        waiting + received + open + self.over.len()
    }
}

impl Socket {
    fn arrive(&mut self, at_ns: u64) {
        while self.early.front().is_some_and(|taken_ns| taken_ns.saturating_add(LATE_NS) < at_ns) {
            self.early.pop_front();
        }
        if self.early.pop_front().is_some() {
            return;
        }
        self.waiting.push_back(at_ns);
        if self.waiting.len() > MOST_WAITING {
            // Events were lost: nothing is known until it is empty again.
            self.waiting.clear();
            self.is_known = false;
        }
    }

    /// A datagram was taken; when it had arrived, if that is known.
    fn take(&mut self, at_ns: u64) -> Option<u64> {
        if !self.is_known {
            return None;
        }
        let arrived_ns = self.waiting.pop_front();
        if arrived_ns.is_none() && self.early.len() < MOST_WAITING {
            self.early.push_back(at_ns);
        }
        arrived_ns.or(Some(at_ns))
    }
}
