//! A connection of HTTP/2: what it received and sends, and what it waits for.
//!
//! Its life: *head* (waiting for the preface, or within a frame) → *idle* (no streams) → *stall* (responses under way,
//! until the client takes nothing for too long) → *idle* → …; *queue* while all its requests wait behind a bound, which
//! has its own limit of time; *linger* after an error, while the client may still send. In every phase a request whose
//! body does not come in time ends the connection.

mod moving;
mod now;
mod phase;

use super::stream::{Step, Stream, WINDOW_BYTES};
use crate::counters::census::State;
use crate::exchange::eviction::Yields;
use crate::exchange::goaway::{Goaway, Word};
use crate::exchange::life::Exchange;
use crate::exchange::send::Sent;
use crate::http::frames::allowance::{Allowance, Dribble};
use crate::http::frames::frame::{self, Code};
use crate::http::frames::hpack::Decoder;
use crate::http::limits::Timeouts;
use crate::http::preface::PREFACE;
use crate::http1::connection::Turn;
use crate::io::epoll::{self, Readiness};
use crate::loop_state::LoopState;
use crate::policy::client_peer::ClientPeer;
use crate::process::session::ABANDONED_MAX;
use crate::telemetry::arm_requests::Received;
use crate::transport::Transport;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use weir_wire::static_probe;

/// Rounds of receiving and answering before other connections have their turn.
const ROUNDS_MAX: usize = 16;
/// Bytes of frames that are made before they are sent.
const GATHERED_BYTES_MAX: usize = 64 << 10;
/// Bytes given to one connection before the others have their turn.
const TURN_BYTES_MAX: usize = 512 << 10;
/// Bytes of answers to control frames that may wait; beyond them nothing is received.
const CONTROL_BYTES_MAX: usize = 16 << 10;
/// Bytes that are read for nothing from a client that does not notice the close.
const LINGER_BYTES_MAX: usize = 1 << 20;
/// Bytes that the kernel takes beyond those that are on their way, of a connection that may move: of frames nothing is known
/// there but the bytes, which are carried along while the connection stands still.
const UNSENT_BYTES: i32 = 64 << 10;
/// The size of the table of header fields without a setting (section 6.5.2).
const TABLE_BYTES: u32 = 4096;
/// The last stream of a connection whose end is announced but not said (section 6.8).
const ANY_STREAM: u32 = (1 << 31) - 1;
/// The content of the ping behind that announcement: a client that acknowledges it has received the announcement.
pub(super) const GOAWAY_PING: &[u8; 8] = b"farewell";

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    transport: Transport,
    pub(super) peer: SocketAddr,
    /// Its number in questions to the adviser and in queues.
    pub(super) number: u64,
    pub(super) decoder: Decoder,
    /// A frame that is not complete yet.
    saved: Vec<u8>,
    pub(super) has_preface: bool,
    pub(super) has_settings: bool,
    /// A block of fields that goes on in the next frame.
    pub(super) continued: Option<crate::http2::continued::Continued>,
    pub(super) streams: Vec<Stream>,
    /// Where the next turn of streams begins.
    next: usize,
    pub(super) spare: Vec<Exchange>,
    /// The last stream that the client has begun.
    pub(super) last: u32,
    /// Streams that we ended before the client did, as far as we remember.
    pub(super) abandoned: VecDeque<u32>,
    /// Frames about the connection, which go out before all others.
    pub(super) control: Vec<u8>,
    /// Frames that the socket had no room for.
    unsent: Vec<u8>,
    /// Some of the frames that go out are of streams: only these are what a client takes of its responses.
    carries_streams: bool,
    /// Bytes that the client lets us send.
    pub(super) window: i64,
    /// What it lets us send on a new stream.
    pub(super) stream_window: i64,
    /// The bound that the client sets on the table of header fields, in bytes.
    pub(super) table_bytes: u32,
    /// The next head begins with the size of our table.
    pub(super) table_is_due: bool,
    /// Bytes that we let the client send.
    pub(super) receive_window: i64,
    pub(super) allowance: Allowance,
    dribble: Dribble,
    /// When the input that is being handled was received, for requests that are reported by ARM.
    pub(super) received: Received,
    /// How far the client was told that the connection ends.
    pub(super) goaway: Goaway,
    /// It has acknowledged the ping behind the announcement.
    pub(super) has_heard: bool,
    /// The connection ends with what is in `control`.
    is_failed: bool,
    /// Everything was sent that will ever be.
    is_done: bool,
    /// Something was found out about passwords since the parked streams were looked at.
    is_resumed: bool,
    phase: Phase,
    phase_deadline_ms: u64,
    deadline_ms: u64,
    /// A response was begun or finished since the phase was looked at.
    pub(super) is_new: bool,
    /// What is known of the socket without asking it.
    socket: Readiness,
    lingered_bytes: Option<usize>,
    /// The client is to be told of HTTP/3 with its next response.
    pub(super) owes_alt_svc: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Idle,
    Queue,
    Stall,
    Linger,
}

impl Connection {
    /// Takes over a connection of which something was received already.
    pub(crate) fn new(transport: Transport, peer: SocketAddr, received: Vec<u8>, state: &LoopState) -> Self {
        state.counts().http2_connections.add(1);
        let limits = &state.limits;
        let clamped = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let mut control = Vec::new();
        // SETTINGS_MAX_CONCURRENT_STREAMS, SETTINGS_MAX_HEADER_LIST_SIZE, and SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441
        // section 3).
        let settings = [(3, clamped(limits.streams_max)), (6, clamped(limits.head_bytes_max)), (8, 1)];
        frame::settings(&mut control, &settings);
        let mut connection = Self::bare(transport, peer, state);
        (connection.saved, connection.control) = (received, control);
        connection.update_phase(false, state);
        if let Some(clients) = state.router.presented() {
            connection.transport.enter(connection.number, clients);
        }
        connection
    }

    /// One of which nothing was received or sent.
    fn bare(transport: Transport, peer: SocketAddr, state: &LoopState) -> Self {
        if state.moves_sessions {
            // Without it more is carried along where the connection moves.
            let _ = epoll::bound_unsent(transport.fd(), UNSENT_BYTES);
        }
        Self {
            owes_alt_svc: transport.is_secure() && !state.alt_svc.is_empty(),
            transport,
            peer,
            number: state.next_connection(),
            decoder: Decoder::default(),
            saved: Vec::new(),
            has_preface: false,
            has_settings: false,
            continued: None,
            streams: Vec::new(),
            next: 0,
            spare: Vec::new(),
            last: 0,
            abandoned: VecDeque::new(),
            control: Vec::new(),
            unsent: Vec::new(),
            carries_streams: false,
            window: WINDOW_BYTES,
            stream_window: WINDOW_BYTES,
            table_bytes: TABLE_BYTES,
            table_is_due: false,
            receive_window: WINDOW_BYTES,
            allowance: Allowance::new(state.clock.now_ms),
            dribble: Dribble::default(),
            received: Received::default(),
            goaway: Goaway::default(),
            has_heard: false,
            is_failed: false,
            is_done: false,
            is_resumed: false,
            phase: Phase::Linger,
            phase_deadline_ms: 0,
            deadline_ms: 0,
            is_new: true,
            socket: Readiness::INPUT.with(Readiness::ROOM, true),
            lingered_bytes: None,
        }
    }

    /// The client, for code that treats clients differently.
    pub(super) fn client_peer(&self) -> ClientPeer<'static> {
        let (socket, is_secure) = (Some(self.transport.fd()), self.transport.is_secure());
        ClientPeer { client: self.peer.ip(), connection: self.number, socket, is_secure, leased: None }
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn transport_mut(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Whether output waits for room.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty() || self.transport.holds_output()
    }

    /// What it is about, and how many requests are under way.
    pub(crate) fn state(&self) -> (State, usize) {
        let state = match () {
            () if self.streams.iter().any(|stream| stream.parked.is_some()) => State::Password,
            () if self.is_sending() => State::Sending,
            () => State::Idle,
        };
        (state, self.streams.len())
    }

    /// Its streams that are tunnels.
    pub(crate) fn tunnels(&self) -> usize {
        self.streams.iter().filter(|stream| stream.exchange.is_awaited() && stream.exchange.is_tunnel()).count()
    }

    /// Whether a response is being sent, or would be if the client did its part.
    pub(crate) fn is_sending(&self) -> bool {
        !self.streams.iter().all(Stream::waits) || self.is_blocked()
    }

    /// Whether it may be closed for another one, and how readily: not while it has something to do that goes on.
    pub(crate) fn yields(&self, now_ms: u64, timeouts: &Timeouts) -> Option<Yields> {
        let since_ms = |timeout: Duration| {
            self.phase_deadline_ms.saturating_sub(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
        };
        let held_ms = self.streams.iter().filter(|stream| stream.is_held).map(|stream| stream.since_ms).min();
        match self.phase {
            _ if self.streams.iter().any(|stream| stream.parked.is_some()) => None,
            Phase::Stall => Yields::stalled(since_ms(timeouts.stall), now_ms),
            Phase::Head => Yields::slow(since_ms(timeouts.head)),
            Phase::Idle => match held_ms {
                Some(held_ms) => Yields::stalled(held_ms, now_ms),
                None => Yields::idle(since_ms(timeouts.idle), now_ms),
            },
            Phase::Queue | Phase::Linger => None,
        }
    }

    /// Whether a stream waits for a password to be checked.
    pub(crate) fn is_parked(&self) -> bool {
        self.streams.iter().any(|stream| stream.parked.is_some() && !stream.waits())
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The number under which a stream waits for others to be over, if any does.
    pub(crate) fn waits_as(&self) -> Option<u64> {
        self.streams.iter().any(Stream::waits).then_some(self.number)
    }

    /// Looks at the requests that wait for passwords again at its next turn.
    pub(crate) fn resume(&mut self) {
        self.is_resumed = true;
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.deadline_ms <= now_ms
    }

    /// Whether an application has kept the client waiting for too long.
    pub(crate) fn is_kept_waiting(&self, now_ms: u64) -> bool {
        self.streams.iter().any(|stream| stream.exchange.is_late(now_ms))
    }

    /// Whether it is time for the next step of the farewell, without input from the client.
    pub(crate) fn is_leaving(&self, now_ms: u64) -> bool {
        self.goaway.is_due(now_ms)
    }

    /// Does what can be done now.
    pub(crate) fn turn(&mut self, state: &mut LoopState, readiness: Readiness) -> Turn {
        self.socket.add(readiness);
        let turn = self.work(state).unwrap_or_else(|_| {
            state.counts().connections_broken.add(1);
            state.remove_gone(self.number, None);
            Turn::Close
        });
        static_probe!("done");
        turn
    }

    /// Tells a client whose deadline has passed that this is the end.
    pub(crate) fn expire(&mut self, state: &mut LoopState) {
        if self.phase == Phase::Linger {
            return;
        }
        state.counts().timeouts.add(1);
        if !self.is_blocked() {
            let mut end = Vec::new();
            frame::go_away(&mut end, self.last, Code::NoError);
            // Best effort: what does not fit into the socket at once is not worth waiting for.
            let _ = self.transport.write(&end, &mut state.copied);
        }
    }

    /// Logs what was sent of unfinished responses.
    pub(crate) fn abort(&mut self, state: &mut LoopState) {
        for stream in &mut self.streams {
            state.finish_one(&mut stream.exchange);
        }
        self.streams.clear();
        state.remove_waiting(self.number, None);
        self.transport.say_goodbye();
    }

    /// Ends the connection with an error of the client's; what was asked for is not answered any more.
    pub(super) fn fail(&mut self, code: Code, state: &mut LoopState) {
        let counts = state.counts();
        let counter = if code == Code::EnhanceYourCalm { &counts.http2_abuses } else { &counts.http2_errors };
        counter.add(1);
        self.is_failed = true;
        frame::go_away(&mut self.control, self.last, code);
        for stream in &mut self.streams {
            state.finish_one(&mut stream.exchange);
        }
        self.streams.clear();
        state.remove_waiting(self.number, None);
    }

    fn work(&mut self, state: &mut LoopState) -> io::Result<Turn> {
        let mut sent_bytes = 0;
        let mut has_moved = false;
        if std::mem::take(&mut self.is_resumed) {
            self.answer_parked(state);
        }
        for _ in 0..ROUNDS_MAX {
            let sent = self.send(state, &mut sent_bytes, &mut has_moved)?;
            self.update_phase(std::mem::take(&mut has_moved), state);
            match sent {
                Sent::Yielded => return Ok(Turn::Again),
                Sent::Blocked if self.is_failed || self.control.len() > CONTROL_BYTES_MAX => return Ok(Turn::Wait),
                Sent::Blocked | Sent::All | Sent::Starved => {}
            }
            if self.is_failed || self.is_done {
                return self.linger(state);
            }
            if self.goaway.concerns(state.stopping) && self.take_leave(state) {
                continue;
            }
            let is_idle = self.streams.is_empty() && !self.is_blocked();
            if self.goaway.is_said() && is_idle {
                // What the client says about windows meanwhile must not make the kernel take back what was sent.
                self.is_done = true;
                continue;
            }
            match self.receive(state)? {
                Input::Bytes(filled) => self.take_up(filled, state),
                Input::Nothing => return Ok(Turn::Wait),
                Input::End => {
                    if self.is_sending() {
                        state.counts().connections_broken.add(1);
                    }
                    state.remove_gone(self.number, None);
                    return Ok(Turn::Close);
                }
            }
        }
        Ok(Turn::Again)
    }

    /// Tells the client of the end what it is to know now; whether that is anything.
    fn take_leave(&mut self, state: &LoopState) -> bool {
        match self.goaway.next(state.stopping, self.last > 0, self.has_heard, state.clock.now_ms) {
            Some(Word::Announcement) => {
                frame::go_away(&mut self.control, ANY_STREAM, Code::NoError);
                frame::head(&mut self.control, GOAWAY_PING.len(), frame::kind::PING, 0, 0);
                self.control.extend_from_slice(GOAWAY_PING);
                true
            }
            Some(Word::End) => {
                frame::go_away(&mut self.control, self.last, Code::NoError);
                true
            }
            None => false,
        }
    }

    /// Receives once, behind what was left of the last time.
    fn receive(&mut self, state: &mut LoopState) -> io::Result<Input> {
        self.received = Received::default();
        if !self.has_preface && self.saved.len() >= PREFACE.len() {
            // What the connection was recognised by is taken up before more is received.
            let filled = self.saved.len();
            state.input[..filled].copy_from_slice(&self.saved);
            self.saved.clear();
            return Ok(Input::Bytes(filled));
        }
        if !self.socket.has(Readiness::INPUT) {
            return Ok(Input::Nothing);
        }
        let saved = self.saved.len();
        let received = match self.transport.receive(&mut state.input[saved..], &mut state.ring) {
            Ok(0) => return Ok(Input::End),
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.socket.remove(Readiness::INPUT);
                return Ok(Input::Nothing);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            // A client that resets the connection between requests breaks nothing.
            Err(_) if self.streams.iter().all(Stream::waits) => return Ok(Input::End),
            Err(error) => return Err(error),
        };
        let filled = saved + received;
        self.socket.set(
            Readiness::INPUT,
            filled == state.input.len() || self.socket.has(Readiness::END) || self.transport.is_read_out(),
        );
        state.input[..saved].copy_from_slice(&self.saved);
        self.saved.clear();
        Ok(Input::Bytes(filled))
    }

    /// Takes all complete frames up, and keeps what is left.
    fn take_up(&mut self, filled: usize, state: &mut LoopState) {
        let input = std::mem::take(&mut state.input);
        let taken = self.frames(&input[..filled], state);
        if !self.is_failed {
            self.saved.extend_from_slice(&input[taken..filled]);
        }
        state.input = input;
    }

    /// Sends what there is to send: control frames, then what the streams have, in turns. Says whether the socket took
    /// anything with frames of streams in it.
    fn send(&mut self, state: &mut LoopState, sent_bytes: &mut usize, has_moved: &mut bool) -> io::Result<Sent> {
        loop {
            if !self.socket.has(Readiness::ROOM) {
                return Ok(Sent::Blocked);
            }
            match self.transport.push() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.remove(Readiness::ROOM);
                    return Ok(Sent::Blocked);
                }
                pushed => pushed?,
            }
            let mut out = std::mem::take(&mut state.out);
            out.clear();
            std::mem::swap(&mut out, &mut self.unsent);
            if out.is_empty() {
                out.append(&mut self.control);
                let control_bytes = out.len();
                self.gather(&mut out, state);
                self.carries_streams = out.len() > control_bytes;
            }
            if out.is_empty() {
                state.out = out;
                return Ok(Sent::All);
            }
            static_probe!("send");
            let taken = self.transport.write(&out, &mut state.copied);
            let sent = *taken.as_ref().unwrap_or(&0);
            // A socket in the clear that takes less is full, and says when it is not.
            self.socket.set(Readiness::ROOM, sent == out.len() || self.transport.is_secure());
            // Idle connections keep no memory for output: what is left is put into theirs.
            self.unsent.clear();
            self.unsent.extend_from_slice(&out[sent..]);
            if self.unsent.is_empty() {
                self.unsent = Vec::new();
            }
            state.out = out;
            match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.remove(Readiness::ROOM);
                    return Ok(Sent::Blocked);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.socket.add(Readiness::ROOM),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            state.counts().bytes_sent.add(sent as u64);
            *sent_bytes += sent;
            *has_moved |= sent > 0 && self.carries_streams;
            if *sent_bytes >= TURN_BYTES_MAX {
                *sent_bytes = 0;
                return Ok(Sent::Yielded);
            }
        }
    }

    /// Gives each stream its turn, a frame each, until there is enough or none can go on.
    fn gather(&mut self, out: &mut Vec<u8>, state: &mut LoopState) {
        let mut moved = true;
        while moved && !self.streams.is_empty() && out.len() < GATHERED_BYTES_MAX {
            moved = false;
            let count = self.streams.len();
            let first = self.next % count;
            for turn in 0..count {
                let place = (first + turn) % count;
                let before = out.len();
                let Self { streams, window, table_is_due, owes_alt_svc, .. } = self;
                let stepped = streams[place].step(out, window, table_is_due, owes_alt_svc, state);
                match stepped {
                    step @ (Step::Moved | Step::Dribbled) => {
                        moved = true;
                        let bytes = (out.len() - before) as u64;
                        if !self.dribble.bear(bytes, step == Step::Dribbled) {
                            return self.fail(Code::EnhanceYourCalm, state);
                        }
                    }
                    Step::Waits => {}
                    Step::Broken => {
                        moved = true;
                        self.break_off(place, out, state);
                    }
                }
                let stream = &mut self.streams[place];
                let back = stream.window_back(state.clock.now_ms);
                if back > 0 {
                    frame::number(out, frame::kind::WINDOW_UPDATE, stream.id, back);
                }
                if stream.is_finished() && !stream.is_received {
                    // The rest of the body is not wanted (section 8.1).
                    frame::number(out, frame::kind::RST_STREAM, stream.id, Code::NoError as u32);
                }
                self.next = place + 1;
                if out.len() >= GATHERED_BYTES_MAX {
                    break;
                }
            }
            if moved {
                self.take_off_finished(state);
            }
        }
    }

    /// Ends a stream whose content is not what its head said. It is taken off as if it were finished, and what was sent
    /// of it is logged.
    #[cold]
    fn break_off(&mut self, place: usize, out: &mut Vec<u8>, state: &LoopState) {
        state.counts().http2_streams_broken.add(1);
        let stream = &mut self.streams[place];
        let id = stream.id;
        stream.exchange.cut_off();
        stream.head_is_sent = true;
        frame::number(out, frame::kind::RST_STREAM, id, Code::Internal as u32);
        if !std::mem::replace(&mut stream.is_received, true) {
            self.abandon(id);
        }
    }

    fn take_off_finished(&mut self, state: &mut LoopState) {
        let mut place = 0;
        while let Some(stream) = self.streams.get(place) {
            if stream.is_finished() {
                self.take_off(place, state);
            } else {
                place += 1;
            }
        }
    }

    /// Removes a stream, finished or not.
    pub(super) fn take_off(&mut self, place: usize, state: &mut LoopState) {
        let mut stream = self.streams.remove(place);
        if place < self.next {
            self.next -= 1;
        }
        if !stream.is_received {
            self.abandon(stream.id);
        }
        state.finish_one(&mut stream.exchange);
        self.spare.push(stream.exchange);
        if self.streams.is_empty() {
            // What many streams needed once is not kept for one.
            self.spare.truncate(4);
        }
        self.is_new = true;
    }

    /// Remembers a stream that the client may still be sending on.
    pub(super) fn abandon(&mut self, id: u32) {
        if self.abandoned.len() >= ABANDONED_MAX {
            self.abandoned.pop_front();
        }
        self.abandoned.push_back(id);
    }

    /// Ends our side, then reads until the client ends its own.
    fn linger(&mut self, state: &mut LoopState) -> io::Result<Turn> {
        if self.lingered_bytes.is_none() {
            self.transport.end_output();
            self.socket.add(Readiness::INPUT);
        }
        let mut lingered = self.lingered_bytes.unwrap_or(0);
        while self.socket.has(Readiness::INPUT) && lingered < LINGER_BYTES_MAX {
            match self.transport.receive(&mut state.input, &mut state.ring) {
                Ok(0) => return Ok(Turn::Close),
                Ok(received) => lingered += received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.remove(Readiness::INPUT),
                Err(_) => return Ok(Turn::Close),
            }
        }
        self.lingered_bytes = Some(lingered);
        Ok(if lingered < LINGER_BYTES_MAX { Turn::Wait } else { Turn::Close })
    }
}

/// What there is to be taken up.
enum Input {
    Bytes(usize),
    Nothing,
    End,
}
