//! What happened at each socket: arrivals, pick-ups and sends with their positions in the byte streams.

use crate::served::Arrival;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use weir_wire::socket::{SocketOpen, same_host};

/// Marks of each sort that a socket keeps while no request asks for them: some responses of megabytes, sent in pieces.
const MOST_MARKS: usize = 4096;
/// Sockets that are kept although nothing of our client's is known to go over them.
const MOST_STRANGERS: usize = 1 << 17;
/// Client's connections whose socket is awaited.
const MOST_AWAITED: usize = 1 << 16;

/// An event at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) at_ns: u64,
    /// Bytes of this direction's stream up to and with this event.
    pub(crate) position: u64,
    /// The task, 0 where unknown or in an interrupt.
    pub(crate) pid: u32,
    /// For an arrival: no task had accepted the connection.
    pub(crate) not_accepted: bool,
    /// For a send: Nagle's algorithm kept it until the receiver would acknowledge what was sent before.
    pub(crate) held_back: bool,
}

/// A mark that is kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    mark: Mark,
    /// The position that the mark before had reached, whether or not that one is still kept.
    from: u64,
    /// The turn of the connection that it belongs to: the server takes, then it gives; then the next turn begins.
    turn: u32,
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

/// The marks of one sort, in the order of their positions.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: VecDeque<Kept>,
    reached: u64,
}

impl Marks {
    fn push(&mut self, turn: u32, mark: Mark) {
        // What reaches no further is never the first to reach anything.
        if mark.position <= self.reached {
            return;
        }
        self.marks.push_back(Kept { mark, from: self.reached, turn });
        self.reached = mark.position;
        if self.marks.len() > MOST_MARKS {
            self.thin();
        }
    }

    /// Makes room. A message begins with the first mark of a turn and ends with the last one: of a long transfer, what lies
    /// between is not asked for, unless messages are pipelined. Positions whose mark is dropped are not found any more.
    #[cold]
    fn thin(&mut self) {
        let marks = self.marks.make_contiguous();
        let mut kept = 1;
        for index in 1..marks.len() {
            let next = marks.get(index + 1).map(|next| next.turn);
            if marks[index].turn != marks[kept - 1].turn || next != Some(marks[index].turn) {
                marks[kept] = marks[index];
                kept += 1;
            }
        }
        self.marks.truncate(kept);
        // Nothing lies between, so these are messages that no request has asked for: the oldest go, but the first.
        if kept > MOST_MARKS / 2 {
            self.marks.drain(1..=kept - MOST_MARKS / 2);
        }
    }

    /// The first mark that reaches past a position, unless that is one that was dropped.
    pub(crate) fn first_past(&self, position: u64) -> Option<Mark> {
        let index = self.marks.partition_point(|kept| kept.mark.position <= position);
        self.marks.get(index).filter(|kept| kept.from <= position).map(|kept| kept.mark)
    }

    fn forget_through(&mut self, position: u64) {
        while self.marks.front().is_some_and(|kept| kept.mark.position <= position) {
            self.marks.pop_front();
        }
    }

    fn forget_before(&mut self, time_ns: u64) {
        while self.marks.front().is_some_and(|kept| kept.mark.at_ns < time_ns) {
            self.marks.pop_front();
        }
    }
}

/// What our client has told of a socket's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OurClient {
    /// Nothing.
    Untold,
    /// It told of a connection with these addresses.
    Expected,
    /// A connection that it told of was found to be this one.
    Claimed,
}

/// A TCP socket of the server.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) open: SocketOpen,
    pub(crate) opened_ns: u64,
    pub(crate) closed_ns: Option<u64>,
    /// The last event at it.
    touched_ns: u64,
    /// A task took from it or gave to it.
    dealt_with: bool,
    /// It is a client's connection: data arrived here that the probes told of.
    pub(crate) server_side: bool,
    pub(crate) client: OurClient,
    receive: Direction,
    send: Direction,
    pub(crate) ready: Marks,
    pub(crate) received: Marks,
    pub(crate) sent: Marks,
    /// How often the server began to take from it after it had given.
    turn: u32,
    /// The last that was done with it was to give.
    gave: bool,
    /// When the response before was finished.
    pub(crate) answered_ns: u64,
    /// Its first bytes were the preface of HTTP/2.
    pub(crate) http2: bool,
    /// What was taken since frames of HTTP/2 were last found in it.
    fresh: Fresh,
    /// The other end of its connection, on another recorded host.
    far: Option<u32>,
}

/// Bytes that were taken, and may hold the next frame of HTTP/2.
#[derive(Debug, Clone, Copy, Default)]
struct Fresh {
    /// The position of the first of them.
    from: u64,
    /// A frame was found in them: what is taken next is fresh anew.
    is_used: bool,
}

impl Socket {
    fn new(open: SocketOpen, opened_ns: u64) -> Self {
        Self {
            open,
            opened_ns,
            closed_ns: None,
            touched_ns: opened_ns,
            dealt_with: false,
            server_side: false,
            client: OurClient::Untold,
            receive: Direction { base: open.receive_base, last: 0 },
            send: Direction { base: open.send_base, last: 0 },
            ready: Marks::default(),
            received: Marks::default(),
            sent: Marks::default(),
            turn: 0,
            gave: false,
            answered_ns: 0,
            http2: false,
            fresh: Fresh::default(),
            far: None,
        }
    }

    /// The position of a frame's first byte: by TCP's number, or, over TLS, that of the first byte that was taken since the
    /// frame before.
    pub(crate) fn frame_begin(&mut self, sequence: Option<u32>) -> u64 {
        self.fresh.is_used = true;
        match sequence {
            Some(sequence) => {
                let behind = (self.receive.last as u32).wrapping_sub(sequence.wrapping_sub(self.receive.base));
                self.receive.last.saturating_sub(u64::from(behind))
            }
            None => self.fresh.from,
        }
    }

    /// Data arrived up to a sequence number.
    fn arrival(&mut self, at_ns: u64, sequence: u32, not_accepted: bool) -> u64 {
        self.touched_ns = at_ns;
        let position = self.receive.position(sequence);
        self.ready.push(self.turn, Mark { at_ns, position, pid: 0, not_accepted, held_back: false });
        position
    }

    /// Data that is taken has arrived, whether or not that was told: by then, or, where it is the connection's first, when
    /// that was established (a server may have asked for connections only with their data: TCP_DEFER_ACCEPT).
    pub(crate) fn arrived_by(&mut self, at_ns: u64, sequence: u32) -> Option<Arrival> {
        let position = self.receive.position(sequence);
        if position <= self.ready.reached {
            return None;
        }
        let first = self.ready.reached == 0;
        let at_ns = if first { self.opened_ns } else { at_ns };
        self.ready.push(self.turn, Mark { at_ns, position, pid: 0, not_accepted: first, held_back: false });
        Some(Arrival { at_ns, position, not_accepted: first })
    }

    /// A task took data up to a sequence number; the position in the stream.
    pub(crate) fn pick_up(&mut self, at_ns: u64, sequence: u32, pid: u32) -> u64 {
        let position = self.receive.position(sequence);
        self.turn = self.turn.wrapping_add(u32::from(self.gave));
        self.gave = false;
        if self.fresh.is_used {
            self.fresh = Fresh { from: self.received.reached, is_used: false };
        }
        self.received.push(self.turn, Mark { at_ns, position, pid, not_accepted: false, held_back: false });
        position
    }

    /// A task gave data up to a sequence number; the position in the stream.
    pub(crate) fn send(&mut self, at_ns: u64, sequence: u32, pid: u32, held_back: bool) -> u64 {
        let position = self.send.position(sequence);
        self.gave = true;
        self.sent.push(self.turn, Mark { at_ns, position, pid, not_accepted: false, held_back });
        position
    }

    /// When it was a task's turn up to a time: from an arrival to the last send before the next one, and the task of that.
    pub(crate) fn turns_at(&self, until_ns: u64) -> Vec<(u64, u64, u32)> {
        let within = |marks: &Marks| -> Vec<Mark> {
            marks.marks.iter().map(|kept| kept.mark).take_while(|mark| mark.at_ns <= until_ns).collect()
        };
        let (arrived, sent) = (within(&self.ready), within(&self.sent));
        let mut turns: Vec<(u64, u64, u32)> = Vec::new();
        for answer in sent.iter().filter(|answer| answer.pid != 0) {
            let before = arrived.partition_point(|arrival| arrival.at_ns <= answer.at_ns);
            let after = turns.last().map_or(0, |(_, end_ns, _)| *end_ns);
            // What has come since the answer before; without any, the answer goes on.
            match arrived[..before].iter().find(|arrival| arrival.at_ns >= after) {
                Some(arrival) => turns.push((arrival.at_ns, answer.at_ns, answer.pid)),
                None => turns.last_mut().into_iter().for_each(|turn| turn.1 = answer.at_ns),
            }
        }
        turns
    }

    /// A task dealt with it.
    pub(crate) fn touch(&mut self, at_ns: u64) {
        (self.touched_ns, self.dealt_with) = (at_ns, true);
    }

    /// Forgets marks that belong to bytes before these positions.
    pub(crate) fn forget(&mut self, received: u64, sent: u64) {
        self.ready.forget_through(received);
        self.received.forget_through(received);
        self.sent.forget_through(sent);
    }

    /// The time of the oldest mark that a request may still ask for.
    fn oldest_ns(&self) -> Option<u64> {
        let oldest = |marks: &Marks| marks.marks.front().map(|kept| kept.mark.at_ns);
        [&self.ready, &self.received, &self.sent].into_iter().filter_map(oldest).min()
    }

    /// Whether a connection of our client was found to be this one.
    pub(crate) fn is_claimed(&self) -> bool {
        self.client == OurClient::Claimed
    }

    /// Whether one of our client's requests may still come that was served here.
    fn is_wanted(&self) -> bool {
        self.client != OurClient::Untold
    }
}

/// All sockets, by their short id and by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    by_id: FxHashMap<u32, Socket>,
    by_address: FxHashMap<(SocketAddr, SocketAddr), Vec<u32>>,
    /// Addresses of the recorded hosts, with a network namespace of the host.
    own_addresses: Vec<(u32, IpAddr)>,
    /// Local ports at which data of clients has arrived.
    served: FxHashSet<u16>,
    /// Connections that our client told of before the server did: the server's address, the client's.
    awaited: FxHashSet<(SocketAddr, SocketAddr)>,
}

impl Sockets {
    /// Takes note of a socket; gives the other end of its connection, if that is on this host and known.
    pub(crate) fn open(&mut self, open: SocketOpen, at_ns: u64) -> Option<u32> {
        if let Some(known) = self.by_id.get(&open.socket)
            && known.open == open
        {
            return None; // The census tells again of a socket that was seen to open.
        }
        self.remove(open.socket);
        if !self.is_own(open.local.ip(), open.netns) && self.own_addresses.len() < 64 {
            self.own_addresses.push((open.netns, open.local.ip()));
        }
        self.by_address.entry((open.local, open.remote)).or_default().push(open.socket);
        let mut socket = Socket::new(open, at_ns);
        // A client may close without having sent anything: its connection is a client's nevertheless.
        socket.server_side = self.served.contains(&open.local.port());
        if !self.awaited.is_empty() && self.awaited.remove(&(open.local, open.remote)) {
            socket.client = OurClient::Expected;
        }
        self.by_id.insert(open.socket, socket);
        let peers = self.by_address.get(&(open.remote, open.local))?;
        // Each network namespace has a loopback of its own, with the same addresses; and hosts may have the same inner ones.
        let same_host = |other: &SocketOpen| {
            same_host(other.netns, open.netns) && (!open.local.ip().is_loopback() || other.netns == open.netns)
        };
        let lives =
            |id: &&u32| self.by_id.get(id).is_some_and(|socket| socket.closed_ns.is_none() && same_host(&socket.open));
        peers.iter().rev().find(lives).copied()
    }

    /// Two sockets are the ends of one connection between recorded hosts.
    pub(crate) fn connect_far(&mut self, ends: [u32; 2]) {
        let [one, other] = ends;
        for (own, peer) in [(one, other), (other, one)] {
            if let Some(socket) = self.by_id.get_mut(&own) {
                socket.far = Some(peer);
            }
        }
    }

    /// Our client told of a connection between these addresses.
    pub(crate) fn expect(&mut self, local: SocketAddr, remote: SocketAddr) {
        match self.by_address.get(&(local, remote)).and_then(|ids| ids.last()).and_then(|id| self.by_id.get_mut(id)) {
            Some(socket) if socket.client == OurClient::Untold => socket.client = OurClient::Expected,
            Some(_) => {}
            None if self.awaited.len() < MOST_AWAITED => drop(self.awaited.insert((local, remote))),
            None => {}
        }
    }

    /// Data arrived at a socket that the probes told of; the position in its stream, if it is known.
    pub(crate) fn arrival(&mut self, id: u32, at_ns: u64, sequence: u32, not_accepted: bool) -> Option<u64> {
        let socket = self.by_id.get_mut(&id)?;
        if !socket.server_side {
            socket.server_side = true;
            self.served.insert(socket.open.local.port());
        }
        Some(socket.arrival(at_ns, sequence, not_accepted))
    }

    /// Whether the other end of a connection is a socket of a traced process: its request is part of another one's.
    pub(crate) fn is_asked_by_traced(&self, open: &SocketOpen) -> bool {
        let far = self.by_id.get(&open.socket).and_then(|own| own.far).and_then(|peer| self.by_id.get(&peer));
        if far.is_some_and(|other| !other.server_side && other.dealt_with) {
            return true;
        }
        let others = self.by_address.get(&(open.remote, open.local)).into_iter().flatten();
        let mut others = others.filter_map(|id| self.by_id.get(id));
        // Of a socket that is not the server's side, only traced tasks' events are told.
        others.any(|other| other.open.netns == open.netns && !other.server_side && other.dealt_with)
    }

    /// Nothing is known of any socket from here on.
    pub(crate) fn clear(&mut self) {
        let served = std::mem::take(&mut self.served);
        *self = Self { served, ..Self::default() };
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
            .filter(|(_, socket)| !socket.is_claimed() && (from_ns..=to_ns).contains(&socket.opened_ns))
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

    /// Removes sockets that closed before a time, and what strangers did before it; returns the oldest time that our
    /// client's may still be asked for.
    pub(crate) fn sweep(&mut self, before_ns: u64) -> Option<u64> {
        let crowded = self.by_id.len() > MOST_STRANGERS;
        let (mut gone, mut oldest_ns) = (Vec::new(), None);
        for (id, socket) in &mut self.by_id {
            let stranger = !socket.is_wanted();
            if socket.closed_ns.is_some_and(|at| at < before_ns) || crowded && stranger && socket.touched_ns < before_ns
            {
                gone.push(*id);
            } else if stranger {
                // No request of ours will ask for it, and an idle connection of another client must not hold all
                // history.
                socket.ready.forget_before(before_ns);
                socket.received.forget_before(before_ns);
                socket.sent.forget_before(before_ns);
            } else {
                oldest_ns = [oldest_ns, socket.oldest_ns()].into_iter().flatten().min();
            }
        }
        for id in gone {
            self.remove(id);
        }
        oldest_ns
    }

    /// How many things are held.
    pub(crate) fn held(&self) -> usize {
        let marks = |one: &Socket| one.ready.marks.len() + one.received.marks.len() + one.sent.marks.len();
        self.by_id.values().map(|one| 1 + marks(one)).sum::<usize>() + self.by_address.len() + self.awaited.len()
    }

    /// Whether an address is one of the recorded host that a network namespace is of.
    pub(crate) fn is_own(&self, address: IpAddr, netns: u32) -> bool {
        let of_host = |(own, known): &(u32, IpAddr)| *known == address && same_host(*own, netns);
        address.is_loopback() || self.own_addresses.iter().any(of_host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at_ns: u64, position: u64) -> Mark {
        Mark { at_ns, position, pid: 0, not_accepted: false, held_back: false }
    }

    /// Responses of megabytes, of which the joiner asks some milliseconds later only.
    #[test]
    fn long_responses_keep_their_first_and_their_last_mark() {
        let mut marks = Marks::default();
        let (responses, pieces) = (60_u64, 257_u64);
        for step in 0..responses * pieces {
            marks.push((step / pieces) as u32, mark(1 + step, 100 * (1 + step)));
        }
        assert!(marks.marks.len() <= MOST_MARKS);
        for response in 0..responses {
            let (first, last) = (response * pieces, (response + 1) * pieces - 1);
            assert_eq!(marks.first_past(100 * first).map(|mark| mark.at_ns), Some(1 + first));
            assert_eq!(marks.first_past(100 * last + 99).map(|mark| mark.at_ns), Some(1 + last));
        }
        assert_eq!(marks.first_past(100 * responses * pieces), None);
        // What was dropped is missing; the mark after it is not given in its place.
        assert_eq!(marks.first_past(5_000), None);
        assert_eq!(marks.first_past(100), None);
        marks.forget_through(100 * (responses * pieces - 1));
        assert_eq!(marks.marks.len(), 1);
    }

    #[test]
    fn messages_without_a_request_go_from_the_oldest() {
        let mut marks = Marks::default();
        let last = 3 * MOST_MARKS as u64;
        (1..=last).for_each(|step| marks.push(step as u32, mark(step, 100 * step)));
        assert!((MOST_MARKS / 2..=MOST_MARKS).contains(&marks.marks.len()));
        assert_eq!(marks.first_past(0).map(|mark| mark.at_ns), Some(1));
        assert_eq!(marks.first_past(100 * last - 1).map(|mark| mark.at_ns), Some(last));
        assert_eq!(marks.first_past(5_000), None);
        marks.forget_through(100 * last - 50);
        marks.push(0, mark(last + 1, 100 * last + 7));
        assert_eq!(marks.first_past(100 * last).map(|mark| mark.at_ns), Some(last + 1));
    }

    #[test]
    fn two_namespaces_loopbacks_are_not_one() {
        let mut sockets = Sockets::default();
        let address = |ip: [u8; 4], port| SocketAddr::from((ip, port));
        let mut open = |socket, netns, ip, ports: [u16; 2]| {
            let [local, remote] = ports.map(|port| address(ip, port));
            let open =
                SocketOpen { socket, receive_base: 0, send_base: 0, cookie: u64::from(socket), netns, local, remote };
            sockets.open(open, 10)
        };
        let (own, loopback) = ([10, 0, 0, 7], [127, 0, 0, 1]);
        assert_eq!(open(1, 100, loopback, [80, 40_000]), None);
        assert_eq!(open(2, 200, loopback, [40_000, 80]), None);
        assert_eq!(open(3, 100, loopback, [40_000, 80]), Some(1));
        // Between namespaces an address is one host's.
        assert_eq!(open(4, 100, own, [80, 40_000]), None);
        assert_eq!(open(5, 200, own, [40_000, 80]), Some(4));
    }

    #[test]
    fn a_stranger_does_not_hold_history() {
        let mut sockets = Sockets::default();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let open = |socket: u32| SocketOpen {
            socket,
            receive_base: 0,
            send_base: 0,
            cookie: u64::from(socket),
            netns: 0,
            local: address(80),
            remote: address(40_000 + socket as u16),
        };
        for socket in [1, 2] {
            sockets.open(open(socket), 10);
            sockets.arrival(socket, 20, 100, false);
        }
        sockets.expect(address(80), address(40_002));
        sockets.expect(address(80), address(40_003));
        sockets.open(open(3), 30);
        sockets.arrival(3, 40, 100, false);
        assert_eq!(sockets.sweep(50), Some(20));
        let marks = |socket: u32| sockets.get(socket).map(|known| known.ready.marks.len());
        assert_eq!([marks(1), marks(2), marks(3)], [Some(0), Some(1), Some(1)]);
    }

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
