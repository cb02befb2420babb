//! What happened at each socket: arrivals, pick-ups and sends with their positions in the byte streams.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use weir_wire::socket::SocketOpen;

/// Marks of each sort that a socket keeps while nobody asks for them.
const MOST_MARKS: usize = 4096;

/// An event at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) at_ns: u64,
    /// Bytes of this direction's stream up to and with this event.
    pub(crate) position: u64,
    /// The task, 0 where unknown or in an interrupt.
    pub(crate) pid: u32,
    /// For an arrival: nobody had accepted the connection.
    pub(crate) not_accepted: bool,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    base: u32,
    last: u64,
}

impl Direction {
    /// The position in the stream of a TCP sequence number, which wraps every 4 GiB.
    fn position(&mut self, sequence: u32) -> u64 {
        let low = sequence.wrapping_sub(self.base);
        let step = low.wrapping_sub(self.last as u32).cast_signed();
        let position = self.last.saturating_add_signed(i64::from(step));
        self.last = self.last.max(position);
        position
    }
}

/// A TCP socket of the server.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) open: SocketOpen,
    pub(crate) opened_ns: u64,
    pub(crate) closed_ns: Option<u64>,
    /// Data arrived here that the probes told of: a client's connection.
    pub(crate) server_side: bool,
    /// A client's connection was found to be this one.
    pub(crate) claimed: bool,
    receive: Direction,
    send: Direction,
    pub(crate) ready: VecDeque<Mark>,
    pub(crate) received: VecDeque<Mark>,
    pub(crate) sent: VecDeque<Mark>,
    /// When the response before was finished.
    pub(crate) answered_ns: u64,
    /// Marks that were dropped because nobody asked for them.
    pub(crate) evicted: u64,
}

impl Socket {
    fn new(open: SocketOpen, opened_ns: u64) -> Self {
        Self {
            open,
            opened_ns,
            closed_ns: None,
            server_side: false,
            claimed: false,
            receive: Direction { base: open.receive_base, last: 0 },
            send: Direction { base: open.send_base, last: 0 },
            ready: VecDeque::new(),
            received: VecDeque::new(),
            sent: VecDeque::new(),
            answered_ns: 0,
            evicted: 0,
        }
    }

    /// Data arrived up to a sequence number.
    fn arrival(&mut self, at_ns: u64, sequence: u32, not_accepted: bool) {
        let position = self.receive.position(sequence);
        self.evicted += keep(&mut self.ready, Mark { at_ns, position, pid: 0, not_accepted });
    }

    /// A task took data up to a sequence number.
    pub(crate) fn pick_up(&mut self, at_ns: u64, sequence: u32, pid: u32) {
        let position = self.receive.position(sequence);
        self.evicted += keep(&mut self.received, Mark { at_ns, position, pid, not_accepted: false });
    }

    /// A task gave data up to a sequence number.
    pub(crate) fn send(&mut self, at_ns: u64, sequence: u32, pid: u32) {
        let position = self.send.position(sequence);
        self.evicted += keep(&mut self.sent, Mark { at_ns, position, pid, not_accepted: false });
    }

    /// Forgets marks that belong to bytes before these positions.
    pub(crate) fn forget(&mut self, received: u64, sent: u64) {
        drop_through(&mut self.ready, received);
        drop_through(&mut self.received, received);
        drop_through(&mut self.sent, sent);
    }

    /// The time of the oldest mark that somebody may still ask for.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        [&self.ready, &self.received, &self.sent]
            .into_iter()
            .filter_map(|marks| marks.front())
            .map(|mark| mark.at_ns)
            .min()
    }
}

fn keep(marks: &mut VecDeque<Mark>, mark: Mark) -> u64 {
    marks.push_back(mark);
    if marks.len() <= MOST_MARKS {
        return 0;
    }
    marks.pop_front();
    1
}

fn drop_through(marks: &mut VecDeque<Mark>, position: u64) {
    while marks.front().is_some_and(|mark| mark.position <= position) {
        marks.pop_front();
    }
}

/// All sockets, by their short id and by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    by_id: FxHashMap<u32, Socket>,
    by_address: FxHashMap<(SocketAddr, SocketAddr), Vec<u32>>,
    own_addresses: Vec<IpAddr>,
    /// Local ports at which data of clients has arrived.
    served: FxHashSet<u16>,
}

impl Sockets {
    pub(crate) fn open(&mut self, open: SocketOpen, at_ns: u64) {
        if let Some(known) = self.by_id.get(&open.socket)
            && known.open == open
        {
            return; // The census tells again of a socket that was seen to open.
        }
        self.remove(open.socket);
        if !self.own_addresses.contains(&open.local.ip()) && self.own_addresses.len() < 64 {
            self.own_addresses.push(open.local.ip());
        }
        self.by_address.entry((open.local, open.remote)).or_default().push(open.socket);
        let mut socket = Socket::new(open, at_ns);
        // A client may close without having sent anything: its connection is a client's nevertheless.
        socket.server_side = self.served.contains(&open.local.port());
        self.by_id.insert(open.socket, socket);
    }

    /// Data arrived at a socket that the probes told of.
    pub(crate) fn arrival(&mut self, id: u32, at_ns: u64, sequence: u32, not_accepted: bool) {
        let Some(socket) = self.by_id.get_mut(&id) else { return };
        if !socket.server_side {
            socket.server_side = true;
            self.served.insert(socket.open.local.port());
        }
        socket.arrival(at_ns, sequence, not_accepted);
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Socket> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Socket> {
        self.by_id.get_mut(&id)
    }

    /// The unclaimed socket of an address pair that opened within a window.
    pub(crate) fn find(&self, local: SocketAddr, remote: SocketAddr, from_ns: u64, to_ns: u64) -> Option<u32> {
        let ids = self.by_address.get(&(local, remote))?;
        ids.iter()
            .filter_map(|id| self.by_id.get(id).map(|socket| (*id, socket)))
            .filter(|(_, socket)| !socket.claimed && (from_ns..=to_ns).contains(&socket.opened_ns))
            .min_by_key(|(_, socket)| socket.opened_ns)
            .map(|(id, _)| id)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let Some(socket) = self.by_id.remove(&id) else { return };
        let key = (socket.open.local, socket.open.remote);
        if let Some(ids) = self.by_address.get_mut(&key) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_address.remove(&key);
            }
        }
    }

    /// Removes sockets that closed before a time; returns the oldest time that the others may still be asked for.
    pub(crate) fn sweep(&mut self, closed_before_ns: u64) -> Option<u64> {
        let gone: Vec<u32> = self
            .by_id
            .iter()
            .filter(|(_, socket)| socket.closed_ns.is_some_and(|at| at < closed_before_ns))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.remove(id);
        }
        self.by_id.values().filter_map(Socket::oldest_ns).min()
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        let marks = |socket: &Socket| socket.ready.len() + socket.received.len() + socket.sent.len();
        self.by_id.values().map(|socket| 1 + marks(socket)).sum::<usize>() + self.by_address.len()
    }

    /// Whether an address is one of the recorded host.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.own_addresses.contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_the_wrap_of_sequence_numbers() {
        let mut direction = Direction { base: u32::MAX - 10, last: 0 };
        let mut expected = 0u64;
        for step in [5u64, 100, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 7] {
            expected += step;
            let sequence = (u64::from(u32::MAX - 10) + expected) as u32;
            assert_eq!(direction.position(sequence), expected);
        }
    }
}
