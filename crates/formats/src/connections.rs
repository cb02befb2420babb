//! Connections of servers, from the system calls of a trace: what is accepted, and what is taken from it and given to it.
//!
//! Calls tell no arrivals; the tracepoint of TCP does (`tcp:tcp_probe`), and `tcp:tcp_rcv_space_adjust` tells which
//! connection a task takes from (`arrivals.rs`). Without them, data that a task takes first after it slept had arrived
//! when it was woken, at the latest; what it takes else had arrived when the call returned that told it what is ready,
//! or, without one, when it was taken.

use crate::arrivals::{Arrivals, Come, Segment};
use crate::calls::{self, Purpose};
use crate::lanes::Lanes;
use crate::{Call, Ends, Event};
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::{BuildHasher, RandomState};
use weir_wire::socket::{
    END_OF_STREAM, HASHED_CLIENT, NOT_ACCEPTED, OLDER, SocketOpen, socket_address, unknown_address,
};
use weir_wire::{Kind, Record};

/// Tasks that are within a call, or have been woken and took nothing yet.
const TASKS_MAX: usize = 1 << 20;
/// Connections that are open at a time.
const CONNECTIONS_MAX: usize = 1 << 17;
/// Results of calls below 0 are errors; this one says that there was nothing to do yet.
const TRY_AGAIN: i64 = -11;
/// TCP's states, by the kernel's numbers (net/tcp_states.h): established, closed.
const ESTABLISHED_TO_CLOSED: u64 = 1 | 7 << 8;

/// A call that a task is in.
#[derive(Debug, Clone, Copy)]
struct InCall {
    number: u16,
    first: Option<u64>,
    begun_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Connection {
    socket: u32,
    taken: u32,
    sent: u32,
    /// When it was dealt with last, nanoseconds.
    touched_ns: u64,
    accepted_ns: u64,
    /// When and on which CPU it was seen first: when it was accepted, or when data came before.
    opened_ns: u64,
    lane: u32,
    opening: Opening,
    /// Its ends, where the trace tells whose bytes a task takes.
    ends: Option<Ends>,
}

/// Whether the run has been told of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Told,
    /// Its ends may still turn out.
    Waits,
}

/// Calls under way, and connections that were accepted.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    under_way: FxHashMap<u32, InCall>,
    /// When tasks were woken that have taken nothing since.
    woken: FxHashMap<u32, u64>,
    /// When tasks were told last which descriptors are ready.
    selected: FxHashMap<u32, u64>,
    open: FxHashMap<(u32, u64), Connection>,
    /// Descriptors by which a process asked for a connection itself.
    asked: FxHashSet<(u32, u64)>,
    sockets: u32,
    arrivals: Arrivals,
    /// Ends whose addresses are this host's, and what hashes those that are not.
    own: FxHashSet<u128>,
    key: RandomState,
    /// Whose connections are looked at: the name of its tasks; of all where there is none.
    server: Option<String>,
}

impl Connections {
    pub(crate) fn new(server: Option<String>) -> Self {
        Self { server, ..Self::default() }
    }

    /// Connections so far.
    pub(crate) fn count(&self) -> u32 {
        self.sockets
    }

    /// A number for a connection that was not accepted by a call.
    pub(crate) fn number(&mut self) -> u32 {
        self.sockets += 1;
        self.sockets
    }

    /// The call that a task is in, and its first argument, as a switch tells them.
    pub(crate) fn blocked_in(&self, task: u32) -> Option<(u16, u16)> {
        let call = self.under_way.get(&task)?;
        Some((call.number, call.first.map_or(0, |first| first as u16)))
    }

    /// Whether a task is in a call that gives bytes.
    pub(crate) fn is_sending(&self, task: u32) -> bool {
        self.under_way.get(&task).is_some_and(|call| calls::purpose(call.number) == Purpose::Send)
    }

    pub(crate) fn woken(&mut self, task: u32, at_ns: u64) {
        if self.woken.len() < TASKS_MAX {
            self.woken.insert(task, at_ns);
        }
    }

    pub(crate) fn ended(&mut self, task: u32) {
        self.under_way.remove(&task);
        self.woken.remove(&task);
        self.selected.remove(&task);
        self.arrivals.ended(task);
    }

    /// Bytes have come.
    pub(crate) fn arrives(
        &mut self,
        event: &Event<'_>,
        ends: Ends,
        (bytes, socket): (u32, Option<u64>),
        lanes: &mut Lanes<'_>,
    ) {
        let at = (event.at_ns, event.cpu.unwrap_or(0));
        let told = self.arrivals.arrives(ends, (bytes, socket), at, lanes);
        told.iter().for_each(|(socket, segment)| lanes.push(ready(*socket, *segment, 0), &[], None));
    }

    /// The owner of a socket is told that data is there.
    pub(crate) fn ready(&mut self, event: &Event<'_>, socket: u64, lanes: &mut Lanes<'_>) {
        let told = self.arrivals.ready(socket, (event.at_ns, event.cpu.unwrap_or(0)));
        told.iter().for_each(|(socket, segment)| lanes.push(ready(*socket, *segment, 0), &[], None));
    }

    /// The running task takes from this connection.
    pub(crate) fn takes(&mut self, task: u32, ends: Ends) {
        self.arrivals.takes(task, ends);
    }

    /// A connection of TCP is in another state.
    pub(crate) fn tcp(&mut self, ends: Ends, is_over: bool) {
        self.arrivals.is_told = true;
        if is_over {
            self.arrivals.forget(&ends);
        }
    }

    /// Requests whose arrival the trace told, and those whose arrival it did not tell.
    pub(crate) fn told(&self) -> (u64, u64) {
        (self.arrivals.found, self.arrivals.missed)
    }

    /// Tells of connections that nothing was taken from and nothing given to.
    pub(crate) fn finish(&mut self, lanes: &mut Lanes<'_>) {
        let mut waiting: Vec<_> =
            self.open.iter().filter(|(_, one)| one.opening == Opening::Waits).map(|(key, _)| *key).collect();
        waiting.sort_unstable();
        waiting.iter().for_each(|key| self.tell_of(key, lanes));
    }

    pub(crate) fn begins(&mut self, event: &Event<'_>, task: u32, call: Call<'_>, lanes: &mut Lanes<'_>) {
        let Some(number) = call.number else { return };
        if self.under_way.len() < TASKS_MAX || self.under_way.contains_key(&task) {
            self.under_way.insert(task, InCall { number, first: call.first, begun_ns: event.at_ns });
        } else {
            lanes.skip("system calls of tasks beyond the bound");
        }
    }

    /// A call is over; `process` has its descriptors, `name` is the task's.
    pub(crate) fn ends(
        &mut self,
        event: &Event<'_>,
        (task, process, name): (u32, u32, &str),
        (call, result): (Call<'_>, i64),
        lanes: &mut Lanes<'_>,
    ) {
        // A call whose begin is older than the trace has no first argument.
        let begun = self.under_way.remove(&task).filter(|begun| call.number.is_none_or(|one| one == begun.number));
        let Some(number) = call.number.or(begun.map(|begun| begun.number)) else { return };
        let descriptor = begun.and_then(|begun| begun.first);
        if calls::waits_for_any(number) && self.selected.len() < TASKS_MAX {
            self.selected.insert(task, event.at_ns);
        }
        if let (true, Some(descriptor)) = (calls::connects(number), descriptor)
            && self.asked.len() < CONNECTIONS_MAX
        {
            self.asked.insert((process, descriptor));
        }
        if let Some(descriptor) = descriptor.filter(|_| result > 0 && calls::takes_from_a_socket(number)) {
            self.find_older(event, (process, descriptor & u64::from(u32::MAX)), name, lanes);
        }
        match (calls::purpose(number), descriptor) {
            (Purpose::Accept, _) if result >= 0 && self.server.as_ref().is_none_or(|server| server == name) => {
                self.accept(event, (process, result.cast_unsigned()), lanes);
            }
            (Purpose::Close, Some(descriptor)) => self.close(event, (process, descriptor), lanes),
            // All that had come before the call began is taken.
            (Purpose::Receive, Some(descriptor)) if result == TRY_AGAIN => {
                let connection = self.open.get(&(process, descriptor & u64::from(u32::MAX)));
                if let Some((connection, begun)) = connection.zip(begun) {
                    self.arrivals.all_is_taken(connection.ends, connection.taken, begun.begun_ns);
                }
            }
            (purpose @ (Purpose::Receive | Purpose::Send), Some(descriptor)) if result != TRY_AGAIN => {
                let key = (process, descriptor & u64::from(u32::MAX));
                self.moves(event, task, key, (purpose, result), lanes);
            }
            _ => {}
        }
    }

    fn accept(&mut self, event: &Event<'_>, key: (u32, u64), lanes: &mut Lanes<'_>) {
        // Its close was not seen: a process that ends closes all without a call.
        self.close(event, key, lanes);
        if self.open.len() >= CONNECTIONS_MAX {
            return lanes.skip("connections beyond the bound");
        }
        let socket = self.number();
        let accepted = Connection::new(socket, event);
        self.open.insert(key, accepted);
        // Where nothing tells the ends of connections there is nothing to wait for.
        if !self.arrivals.is_told {
            self.tell_of(&key, lanes);
        }
    }

    /// Tells the run of a connection, when it was accepted, with its ends if they are known.
    fn tell_of(&mut self, key: &(u32, u64), lanes: &mut Lanes<'_>) {
        let Some(connection) = self.open.get_mut(key).filter(|one| one.opening == Opening::Waits) else { return };
        connection.opening = Opening::Told;
        let (mut open, (at_ns, lane)) = (unknown(connection.socket), (connection.opened_ns, connection.lane));
        if let Some(Ends { local, remote }) = connection.ends {
            if self.own.len() < CONNECTIONS_MAX {
                self.own.insert(local.address);
            }
            open.local = socket_address(local.address, local.port);
            open.remote = socket_address(remote.address, remote.port);
            // Addresses of clients are people's: a run has a hash in their place, of a key that is forgotten with it.
            if !open.remote.ip().is_loopback() && !self.own.contains(&remote.address) {
                let hash = self.key.hash_one(remote.address);
                let stands_for = u128::from(HASHED_CLIENT) << 64 | u128::from(hash);
                open.remote = socket_address(stands_for, remote.port);
            }
        }
        let (record, payload) = open.write(at_ns, lane);
        lanes.push(record, &payload, None);
    }

    /// A connection that was accepted before the trace began: of the server that the user names, a socket that it takes
    /// bytes from and did not connect.
    fn find_older(&mut self, event: &Event<'_>, key: (u32, u64), name: &str, lanes: &mut Lanes<'_>) {
        let is_served = self.server.as_ref().is_some_and(|server| server == name);
        let is_full = self.open.len() >= CONNECTIONS_MAX;
        if !is_served || is_full || self.open.contains_key(&key) || self.asked.contains(&key) {
            return;
        }
        let socket = self.number();
        open_socket((socket, OLDER), event, lanes);
        let older =
            Connection { touched_ns: 0, accepted_ns: 0, opening: Opening::Told, ..Connection::new(socket, event) };
        self.open.insert(key, older);
    }

    fn close(&mut self, event: &Event<'_>, key: (u32, u64), lanes: &mut Lanes<'_>) {
        self.asked.remove(&key);
        self.tell_of(&key, lanes);
        if let Some(connection) = self.open.remove(&key) {
            connection.ends.iter().for_each(|ends| self.arrivals.forget(ends));
            lanes.push(closed(connection.socket, event), &[], None);
        }
    }

    fn moves(
        &mut self,
        event: &Event<'_>,
        task: u32,
        key: (u32, u64),
        (purpose, result): (Purpose, i64),
        lanes: &mut Lanes<'_>,
    ) {
        if purpose == Purpose::Receive {
            let taken_from = self.arrivals.taken_from(task);
            self.join(&key, taken_from, result, lanes);
        }
        self.tell_of(&key, lanes);
        let Some(connection) = self.open.get_mut(&key) else { return };
        // A call that failed, or the other side's end, moves nothing.
        if result <= 0 {
            if purpose == Purpose::Receive && result == 0 {
                let end = Record { flags: END_OF_STREAM, ..at(Kind::SocketRecv, connection.socket, 0, event) };
                lanes.push(end, &[], None);
            }
            return;
        }
        let bytes = result.min(i64::from(u32::MAX)) as u32;
        if purpose == Purpose::Receive {
            connection.taken = connection.taken.wrapping_add(bytes);
            let woken_ns = self.woken.remove(&task);
            let come = self.arrivals.has_come(connection.ends, connection.taken);
            if let Come::Untold(segment) = come {
                lanes.push(ready(connection.socket, segment, 0), &[], None);
            } else if come == Come::NotSeen {
                let selected_ns = self.selected.get(&task).filter(|at_ns| **at_ns >= connection.touched_ns);
                let by_ns = woken_ns.or(selected_ns.copied()).unwrap_or(event.at_ns);
                let arrived_ns = by_ns.clamp(connection.touched_ns.min(event.at_ns), event.at_ns);
                let arrived = at(Kind::SocketReady, connection.socket, connection.taken, event);
                lanes.push(Record { time_ns: arrived_ns, ..arrived }, &[], None);
            }
            lanes.push(at(Kind::SocketRecv, connection.socket, connection.taken, event), &[], None);
        } else {
            connection.sent = connection.sent.wrapping_add(bytes);
            lanes.push(at(Kind::SocketSend, connection.socket, connection.sent, event), &[], None);
        }
        connection.touched_ns = event.at_ns;
    }

    /// Joins a connection with the ends that a task has taken from, and tells what had come before that was known.
    fn join(&mut self, key: &(u32, u64), taken_from: Option<Ends>, result: i64, lanes: &mut Lanes<'_>) {
        let Some(connection) = self.open.get_mut(key) else { return };
        let (None, Some(ends)) = (connection.ends, taken_from) else { return };
        connection.ends = Some(ends);
        let (socket, accepted_ns) = (connection.socket, connection.accepted_ns);
        let taken = connection.taken.wrapping_add(result.clamp(0, i64::from(u32::MAX)) as u32);
        let early = self.arrivals.join(ends, socket, taken);
        // What comes at a connection is of one that is known: it is told of with what came before it was accepted.
        if let Some(first) = early.first().filter(|first| first.at_ns < accepted_ns) {
            (connection.opened_ns, connection.lane) = (first.at_ns, first.lane);
        }
        self.tell_of(key, lanes);
        for segment in early {
            let flags = if segment.at_ns < accepted_ns { NOT_ACCEPTED } else { 0 };
            lanes.push(ready(socket, segment, flags), &[], None);
        }
    }
}

/// The record of data that has come.
fn ready(socket: u32, Segment { at_ns, lane, position }: Segment, flags: u8) -> Record {
    let a = u64::from(socket) | u64::from(position) << 32;
    Record { time_ns: at_ns, kind: Kind::SocketReady as u16, flags, lane, a, ..Record::default() }
}

impl Connection {
    fn new(socket: u32, event: &Event<'_>) -> Self {
        Self {
            socket,
            taken: 0,
            sent: 0,
            touched_ns: event.at_ns,
            accepted_ns: event.at_ns,
            opened_ns: event.at_ns,
            lane: event.cpu.unwrap_or(0),
            opening: Opening::Waits,
            ends: None,
        }
    }
}

/// A record of a socket, with a position in a stream that begins at 0.
pub(crate) fn at(kind: Kind, socket: u32, position: u32, event: &Event<'_>) -> Record {
    Record {
        time_ns: event.at_ns,
        kind: kind as u16,
        lane: event.cpu.unwrap_or(0),
        a: u64::from(socket) | u64::from(position) << 32,
        ..Record::default()
    }
}

/// A connection whose addresses are not recorded: the other end is one of those that lead nowhere (RFC 6666), with the
/// connection's number, so that no two look like the ends of one.
fn unknown(socket: u32) -> SocketOpen {
    const DISCARD: u128 = 0x100 << 112;
    SocketOpen {
        socket,
        receive_base: 0,
        send_base: 0,
        cookie: u64::from(socket),
        netns: 0,
        local: unknown_address(),
        remote: socket_address(DISCARD | u128::from(socket), 1),
    }
}

/// Tells of a connection whose addresses are not recorded.
pub(crate) fn open_socket((socket, flags): (u32, u8), event: &Event<'_>, lanes: &mut Lanes<'_>) {
    let (record, payload) = unknown(socket).write(event.at_ns, event.cpu.unwrap_or(0));
    lanes.push(Record { flags, ..record }, &payload, None);
}

/// The record of a connection's end.
pub(crate) fn closed(socket: u32, event: &Event<'_>) -> Record {
    Record { b: ESTABLISHED_TO_CLOSED, ..at(Kind::SocketState, socket, 0, event) }
}
