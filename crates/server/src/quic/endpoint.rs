//! One UDP socket of a loop with its connections: datagrams in, turns, datagrams out, timers.

use super::handed::Handed;
use super::handover::{Former, HandedOn};
use super::ids::LoopIds;
use super::socket::{QuicSocket, RECEPTION_BYTES, RECEPTIONS};
use crate::counters::census::Census;
use crate::http3;
use crate::io::epoll::Interest;
use crate::io::open::{Entry, Open};
use crate::loop_state::{LoopState, Watching};
use crate::telemetry::admin::connected::{ConnectionNow, Ended, Stop};
use bytes::BytesMut;
use quinn_proto::{ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig, Incoming, ServerConfig, Transmit};
use quinn_udp::RecvMeta;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;
use weir_wire::static_probe;

/// Calls for datagrams before other sockets have their turn.
const CALLS_MAX: usize = 4;
/// Datagrams that one call sends: as many as fit into what the kernel takes at once.
const SEGMENTS_MAX: usize = 40;
/// Calls that send for one connection before the others have their turn.
const SENDS_MAX: usize = 16;

/// What a loop does with one socket of QUIC.
pub(crate) struct Endpoint {
    socket: QuicSocket,
    quic: quinn_proto::Endpoint,
    /// By the number that QUIC gives them.
    connections: Vec<Option<Box<Slot>>>,
    count: usize,
    /// Connections whose handshake is under way.
    handshakes: usize,
    /// When QUIC wants to be asked about which connection.
    timers: BTreeSet<(Instant, usize)>,
    /// Connections that have something to do.
    due: Vec<usize>,
    /// Connections with streams that wait for others to be over, by the numbers that the loop has for them.
    waiting: HashMap<u64, usize>,
    input: Box<[u8]>,
    output: Vec<u8>,
    /// Datagrams in `output` that the socket had no room for. Until it has, nothing else is sent.
    blocked: Option<Transmit>,
    /// The event queue tells of room.
    waits_for_room: bool,
    /// The servers that had these sockets before.
    former: Option<Arc<Former>>,
    /// Another server reads from the socket, and hands on what is for this one.
    is_succeeded: bool,
}

/// A connection with what the loop knows of it.
struct Slot {
    connection: http3::Connection,
    timer: Option<Instant>,
    is_due: bool,
    is_shaking_hands: bool,
    /// It counts among those that are open.
    is_open: bool,
}

impl Endpoint {
    /// Begins with a socket of the loop.
    pub(crate) fn new(socket: QuicSocket, config: &Arc<ServerConfig>, former: &Arc<Former>) -> Self {
        // A key of this loop's own for resets without state: a datagram that was led astray must end no connection.
        let mut own = EndpointConfig::default();
        let place = socket.place;
        own.cid_generator(move || Box::new(LoopIds::new(place)));
        let quic = quinn_proto::Endpoint::new(Arc::new(own), Some(Arc::clone(config)), socket.finds_size(), None);
        Self {
            socket,
            quic,
            connections: Vec::new(),
            count: 0,
            handshakes: 0,
            timers: BTreeSet::new(),
            due: Vec::new(),
            waiting: HashMap::new(),
            input: vec![0; RECEPTIONS * RECEPTION_BYTES].into(),
            output: Vec::new(),
            blocked: None,
            waits_for_room: false,
            former: Some(Arc::clone(former)).filter(|former| !former.is_empty()),
            is_succeeded: false,
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Where comes what a successor hands on.
    pub(crate) fn handover_fd(&self) -> RawFd {
        self.socket.handover.fd()
    }

    /// Whether there are no connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What the event queue is to tell of the socket, if that has changed.
    pub(crate) fn new_interest(&mut self) -> Option<Interest> {
        let waits = self.blocked.is_some();
        let has_changed = std::mem::replace(&mut self.waits_for_room, waits) != waits;
        has_changed.then(|| self.interest())
    }

    /// What the event queue is to tell of the socket.
    pub(crate) fn interest(&self) -> Interest {
        match (self.is_succeeded, self.waits_for_room) {
            (false, false) => Interest::Level,
            (false, true) => Interest::LevelAndRoom,
            (true, false) => Interest::Paused,
            (true, true) => Interest::Room,
        }
    }

    /// When there is something to do without a datagram; none = never.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        if !self.due.is_empty() && self.blocked.is_none() {
            return Some(Instant::now());
        }
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes in what has come, and lets the connections that it is for do what they can.
    pub(crate) fn receive(&mut self, state: &mut LoopState, open: &Open) {
        for _ in 0..CALLS_MAX {
            if self.is_succeeded {
                return;
            }
            let mut what = [RecvMeta::default(); RECEPTIONS];
            let mut input = std::mem::take(&mut self.input);
            let mut buffers = input.chunks_exact_mut(RECEPTION_BYTES).map(IoSliceMut::new);
            let mut buffers: [IoSliceMut<'_>; RECEPTIONS] =
                std::array::from_fn(|_| buffers.next().unwrap_or(IoSliceMut::new(&mut [])));
            let received = self.socket.receive(&mut buffers, &mut what);
            if let Ok(count) = received {
                // The client may have sent a request after this round's events, and have just changed a file it asks
                // for.
                state.apply_changes();
                let now = Instant::now();
                let all = what[..count].iter().zip(input.chunks_exact(RECEPTION_BYTES));
                for (index, (what, buffer)) in all.enumerate() {
                    self.take_in(what, &buffer[..what.len], Some((index, count)), now, state, open);
                }
            }
            self.input = input;
            self.work(state, open);
            // Those that had no turn yet are told apart from those that are received next.
            for index in &self.due {
                self.connections[*index].iter_mut().for_each(|slot| slot.connection.falls_behind());
            }
            match received {
                Ok(count) if count == RECEPTIONS => {}
                // What an earlier datagram's way has told us of it concerns that datagram alone: QUIC has timers.
                _ => return,
            }
        }
    }

    /// Takes in what a successor hands on; whether it is the first that is heard of it.
    pub(crate) fn receive_handed(&mut self, state: &mut LoopState, open: &Open) -> bool {
        let mut input = std::mem::take(&mut self.input);
        let now = Instant::now();
        let mut is_first = false;
        for _ in 0..CALLS_MAX * RECEPTIONS {
            let Some(handed) = self.socket.handover.receive(&mut input) else { break };
            is_first |= !std::mem::replace(&mut self.is_succeeded, true);
            match handed {
                Handed::Hello => {}
                Handed::Datagram(what, datagram) => {
                    state.apply_changes();
                    self.take_in(&what, datagram, None, now, state, open);
                }
            }
        }
        self.input = input;
        self.work(state, open);
        is_first
    }

    /// Takes datagrams of one client in; `place` is where they stood among those that one call received.
    fn take_in(
        &mut self,
        what: &RecvMeta,
        datagrams: &[u8],
        place: Option<(usize, usize)>,
        now: Instant,
        state: &mut LoopState,
        open: &Open,
    ) {
        let ecn = what.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        let mut rest = BytesMut::from(datagrams);
        while !rest.is_empty() {
            let datagram = rest.split_to(what.stride.clamp(1, rest.len()));
            if let Some(former) = &self.former {
                match former.hand_on(what, &datagram) {
                    HandedOn::Yes => {
                        state.counts().quic_handed_on.add(1);
                        continue;
                    }
                    HandedOn::Dropped => {
                        state.counts().quic_unsent.add(1);
                        continue;
                    }
                    HandedOn::No => {}
                }
            }
            let mut answer = Vec::new();
            match self.quic.handle(now, what.addr, what.dst_ip, ecn, datagram, &mut answer) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(slot) = self.connections.get_mut(handle.0).and_then(Option::as_mut) {
                        slot.connection.quic.handle_event(event);
                        place.iter().for_each(|(index, of)| slot.connection.takes_in(*index, *of));
                        self.wake(handle.0);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming, place, now, state, open),
                Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, &answer, state),
                None => {}
            }
        }
    }

    /// Takes a connection up, or has the client show first that its address is its own.
    fn accept(
        &mut self,
        incoming: Incoming,
        place: Option<(usize, usize)>,
        now: Instant,
        state: &mut LoopState,
        open: &Open,
    ) {
        let peer = incoming.remote_address();
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let mut answer = Vec::new();
        // A client that answers a Retry of this server can only come here: no other server accepts the token.
        let has_come_back = self.is_succeeded && incoming.remote_address_validated();
        if state.stopping && !has_come_back {
            if self.is_succeeded {
                // It asks again, and the successor hears it then.
                return self.quic.ignore(incoming);
            }
            let transmit = self.quic.refuse(incoming, &mut answer);
            return self.answer(&transmit, &answer, state);
        }
        // Where addresses have shares, no client may use up the share of an address that is not its own.
        let must_show = self.handshakes >= state.limits.handshakes_max || open.per_address.must_show(peer.ip());
        if must_show && !incoming.remote_address_validated() && incoming.may_retry() {
            state.counts().quic_retries.add(1);
            if let Ok(transmit) = self.quic.retry(incoming, &mut answer) {
                self.answer(&transmit, &answer, state);
            }
            return;
        }
        state.counts().connections.add(1);
        if open.enter(peer.ip()) != Entry::Counted {
            state.counts().connections_refused.add(1);
            let transmit = self.quic.refuse(incoming, &mut answer);
            return self.answer(&transmit, &answer, state);
        }
        match self.quic.accept(incoming, now, &mut answer, None) {
            Ok((handle, connection)) => {
                let mut connection = http3::Connection::new(connection, peer, state);
                place.iter().for_each(|(index, of)| connection.takes_in(*index, *of));
                let slot = Slot { connection, timer: None, is_due: false, is_shaking_hands: true, is_open: true };
                if self.connections.len() <= handle.0 {
                    self.connections.resize_with(handle.0 + 1, || None);
                }
                self.connections[handle.0] = Some(Box::new(slot));
                self.count += 1;
                self.handshakes += 1;
                self.wake(handle.0);
            }
            Err(error) => {
                open.leave(peer.ip());
                state.counts().tls_failed.add(1);
                tracing::debug!(error = %error.cause, %peer, "QUIC connection not accepted");
                if let Some(transmit) = error.response {
                    self.answer(&transmit, &answer, state);
                }
            }
        }
    }

    /// Sends a datagram that belongs to no connection. If the socket has no room it is dropped: the client asks again.
    fn answer(&mut self, transmit: &Transmit, contents: &[u8], state: &LoopState) {
        if self.blocked.is_none() && self.socket.send(transmit, contents).is_ok() {
            state.counts().bytes_sent.add(transmit.size as u64);
        } else {
            state.counts().quic_unsent.add(1);
        }
    }

    fn wake(&mut self, index: usize) {
        if let Some(slot) = self.connections.get_mut(index).and_then(Option::as_mut)
            && !std::mem::replace(&mut slot.is_due, true)
        {
            self.due.push(index);
        }
    }

    /// The socket has room again.
    pub(crate) fn resume_output(&mut self, state: &mut LoopState, open: &Open) {
        if let Some(transmit) = self.blocked.take() {
            self.send(transmit, state);
        }
        self.work(state, open);
    }

    /// Lets the connections do what they can whose time has come, and all others that have something to do.
    pub(crate) fn work(&mut self, state: &mut LoopState, open: &Open) {
        let now = Instant::now();
        while let Some(&(at, index)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, index));
            if let Some(slot) = self.connections[index].as_mut() {
                slot.timer = None;
                slot.connection.quic.handle_timeout(now);
            }
            self.wake(index);
        }
        if self.blocked.is_some() {
            return;
        }
        for index in std::mem::take(&mut self.due) {
            if self.blocked.is_some() {
                // It keeps its mark, and has its turn when there is room.
                self.due.push(index);
                continue;
            }
            self.turn(index, now, state, open);
        }
    }

    /// Lets a connection do what it can, and finds out what it waits for.
    fn turn(&mut self, index: usize, now: Instant, state: &mut LoopState, open: &Open) {
        let Some(mut slot) = self.connections[index].take() else { return };
        slot.is_due = false;
        self.exchange(index, &mut slot);
        let mut again = slot.connection.turn(now, state);
        again |= self.transmit(&mut slot, now, state);
        // What was answered is put into datagrams and sent by now.
        static_probe!("done");
        self.exchange(index, &mut slot);
        if slot.is_shaking_hands && (slot.connection.is_established() || slot.connection.is_closed()) {
            slot.is_shaking_hands = false;
            self.handshakes -= 1;
        }
        if slot.is_open && slot.connection.is_closed() {
            slot.is_open = false;
            open.leave(slot.connection.peer().ip());
            self.waiting.remove(&slot.connection.number());
        }
        if state.throttles.is_some() && slot.connection.waits_as().is_some() || slot.connection.has_application() {
            self.waiting.insert(slot.connection.number(), index);
        }
        let timer = slot.connection.quic.poll_timeout();
        if (slot.connection.quic.is_drained() || timer != slot.timer)
            && let Some(at) = slot.timer.take()
        {
            self.timers.remove(&(at, index));
        }
        if slot.connection.quic.is_drained() {
            self.count -= 1;
            return;
        }
        if slot.timer.is_none()
            && let Some(at) = timer
        {
            self.timers.insert((at, index));
            slot.timer = timer;
        }
        self.connections[index] = Some(slot);
        if again {
            self.wake(index);
        }
    }

    /// Has the connection and what knows all connections tell each other their news: ids, and the end.
    fn exchange(&mut self, index: usize, slot: &mut Slot) {
        let quic = &mut slot.connection.quic;
        while let Some(event) = quic.poll_endpoint_events() {
            if let Some(event) = self.quic.handle_event(ConnectionHandle(index), event) {
                quic.handle_event(event);
            }
        }
    }

    /// Sends what a connection has to send; whether it has more.
    fn transmit(&mut self, slot: &mut Slot, now: Instant, state: &mut LoopState) -> bool {
        let segments = self.socket.segments_max().min(SEGMENTS_MAX);
        for _ in 0..SENDS_MAX {
            self.output.clear();
            let Some(transmit) = slot.connection.next_datagrams(now, segments, &mut self.output) else {
                return false;
            };
            self.send(transmit, state);
            if self.blocked.is_some() {
                return true;
            }
        }
        true
    }

    /// Sends the datagrams in the output, or keeps them until there is room.
    fn send(&mut self, transmit: Transmit, state: &LoopState) {
        match self.socket.send(&transmit, &self.output) {
            Ok(()) => state.counts().bytes_sent.add(transmit.size as u64),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = Some(transmit),
            // As if they were lost on their way: QUIC sends again what was in them.
            Err(_) => state.counts().quic_unsent.add(1),
        }
    }

    /// Has every connection that waits for a password look again.
    pub(crate) fn resume_parked(&mut self, state: &mut LoopState, open: &Open) {
        for index in 0..self.connections.len() {
            if let Some(slot) = self.connections[index].as_mut().filter(|slot| slot.connection.is_parked()) {
                slot.connection.resume();
                self.wake(index);
            }
        }
        self.work(state, open);
    }

    /// Has a stream look again that has waited for others to be over; its connection has its turn with those that have
    /// something to do.
    pub(crate) fn resume_waiting(&mut self, number: u64, stream: u64, state: &mut LoopState) {
        let Some(&index) = self.waiting.get(&number) else { return };
        if let Some(slot) = self.connections[index].as_mut() {
            slot.connection.answer_waiting(stream, state);
            self.wake(index);
        }
    }

    /// Has a connection have its turn whose application has asked for it.
    pub(crate) fn resume_application(&mut self, number: u64) {
        if let Some(&index) = self.waiting.get(&number) {
            self.wake(index);
        }
    }

    /// Ends the connections whose deadline has passed.
    pub(crate) fn sweep(&mut self, state: &mut LoopState, open: &Open) {
        let (now, now_ms) = (Instant::now(), state.clock.now_ms);
        let connections = &self.connections;
        self.waiting.retain(|_, index| {
            let is_waiting = |slot: &Slot| slot.connection.waits_as().is_some() || slot.connection.has_application();
            connections[*index].as_ref().is_some_and(|slot| is_waiting(slot))
        });
        for index in self.waiting.values().copied().collect::<Vec<_>>() {
            if self.connections[index].as_mut().is_some_and(|slot| slot.connection.ping(state)) {
                self.wake(index);
            }
        }
        for index in 0..self.connections.len() {
            if self.connections[index]
                .as_ref()
                .is_some_and(|slot| slot.connection.is_leaving(now_ms) || slot.connection.is_kept_waiting(now_ms))
            {
                self.wake(index);
            }
            if let Some(slot) = self.connections[index].as_mut().filter(|slot| slot.connection.is_due(now_ms)) {
                slot.connection.expire(now, state);
                self.wake(index);
            }
        }
        self.work(state, open);
    }

    /// Counts the connections by what they wait for.
    pub(crate) fn count(&self, census: &mut Census) {
        for slot in self.connections.iter().flatten() {
            let (state, streams) = slot.connection.state();
            census.count_http3(state, streams);
            let tunnels = slot.connection.tunnels();
            census.count_under_way(tunnels, streams - tunnels);
        }
    }

    /// The connections, as they are told.
    pub(crate) fn connected(&self, now_ms: u64) -> impl Iterator<Item = ConnectionNow> {
        self.connections.iter().flatten().map(move |slot| slot.connection.now(now_ms))
    }

    /// Has requests under way watched that began before a watcher came.
    #[cold]
    pub(crate) fn watch_under_way(&mut self, watching: &mut Watching) {
        self.connections.iter_mut().flatten().for_each(|slot| slot.connection.watch_under_way(watching));
    }

    /// Ends what is meant by order.
    pub(crate) fn stop(&mut self, what: Stop, state: &mut LoopState, open: &Open) -> Ended {
        let (mut stopped, now) = (Ended::default(), Instant::now());
        for index in 0..self.connections.len() {
            let Some(slot) = self.connections[index].as_mut() else { continue };
            let connection = &mut slot.connection;
            let is_meant = match what {
                Stop::Connection(id) | Stop::Request(id, _) => connection.number() == id.0,
                Stop::Client(address) => connection.peer().ip().to_canonical() == address.to_canonical(),
            };
            if !is_meant || connection.is_closed() {
                continue;
            }
            if let Stop::Request(_, stream) = what {
                stopped.requests += usize::from(connection.stop_request(stream, state));
            } else {
                connection.close(http3::Code::NoError, now, state);
                stopped.connections += 1;
            }
            self.wake(index);
        }
        self.work(state, open);
        stopped
    }

    /// Connections that have requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.connections.iter().flatten().filter(|slot| slot.connection.state().1 > 0).count()
    }

    /// Tells all clients that no more requests are taken up.
    pub(crate) fn begin_stop(&mut self, state: &mut LoopState, open: &Open) {
        (0..self.connections.len()).for_each(|index| self.wake(index));
        self.work(state, open);
    }

    /// Ends connections without tunnels, even with responses under way.
    pub(crate) fn abort_responses(&mut self, state: &mut LoopState, open: &Open) {
        let now = Instant::now();
        for slot in self.connections.iter_mut().flatten().filter(|slot| slot.connection.tunnels() == 0) {
            if slot.connection.is_closed() {
                continue;
            }
            if slot.connection.is_sending() {
                state.counts().stop_aborted.add(1);
            }
            slot.connection.close(http3::Code::NoError, now, state);
        }
        self.begin_stop(state, open);
    }

    /// Ends all connections at once, even with responses under way.
    pub(crate) fn abort(&mut self, state: &mut LoopState, open: &Open) {
        let now = Instant::now();
        for slot in self.connections.iter_mut().flatten() {
            if slot.connection.is_sending() {
                state.counts().stop_aborted.add(1);
            }
            slot.connection.close(http3::Code::NoError, now, state);
        }
        self.begin_stop(state, open);
        // The server does not wait for what clients may still send.
        for slot in self.connections.drain(..).flatten() {
            if slot.is_open {
                open.leave(slot.connection.peer().ip());
            }
        }
        (self.count, self.blocked) = (0, None);
        self.timers.clear();
        self.due.clear();
        self.waiting.clear();
    }
}
