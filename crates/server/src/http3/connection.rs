//! A connection of HTTP/3: its streams, what it sends, and what it waits for.
//!
//! Its life: *handshake* → *idle* (no streams) → *answering* (until the client takes nothing for too long) → *idle* →
//! …; *queue* while all its requests wait behind a bound, which has its own limit of time; then *closed*, in which only
//! QUIC goes on for a moment. In every phase a request whose head or body does not come in time ends the connection.

use super::frame::{self, Code, kind};
use super::inbound::{Inbound, Opened};
use super::marks::{self, Held, TakenIn};
use super::stream::{Input, Output, Step, Stream, number_of};
use crate::certificates::presented::PresentedEntry;
use crate::counters::census::State;
use crate::exchange::goaway::{Goaway, Word};
use crate::exchange::life::Exchange;
use crate::http::fields::Fields;
use crate::http::frames::allowance::Allowance;
use crate::http::request::Request;
use crate::loop_state::{LoopState, applications};
use crate::policy::client_peer::ClientPeer;
use crate::telemetry::arm_requests::Received;
use bytes::Bytes;
use quinn_proto::{Dir, StreamId, Transmit, VarInt};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use weir_wire::static_probe;

/// Bytes given to one connection before the others have their turn.
const TURN_BYTES_MAX: usize = 512 << 10;
/// How often a client whose requests wait for others is asked whether it is still there.
const PING_MS: u64 = 5000;
/// The first request that is not answered any more, where the end is announced but not said (RFC 9114 section 5.2).
const ANY_REQUEST: u64 = (1 << 62) - 4;
/// A reserved type of stream, which every client ignores (RFC 9114 section 6.2.3).
const RESERVED_PURPOSE: u8 = 0x21;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) quic: quinn_proto::Connection,
    /// The address that the client has shown to be its own in the handshake; an address that it moves to later is not
    /// verified.
    pub(super) peer: SocketAddr,
    /// Its number in questions to the adviser and in queues.
    pub(super) number: u64,
    pub(super) streams: Vec<Stream>,
    /// Where the next turn of streams begins.
    next: usize,
    pub(super) spare: Vec<Exchange>,
    /// The client's streams in one direction.
    pub(super) inbound: Vec<(StreamId, Inbound)>,
    pub(super) opened: Opened,
    /// Our control stream.
    control: Option<StreamId>,
    /// What it had no room for yet: settings, and two frames about the end.
    control_unsent: Vec<u8>,
    /// The next request that the client may begin.
    pub(super) next_request: u64,
    pub(super) allowance: Allowance,
    /// When the input that is being handled was received, for requests that are reported by ARM.
    pub(super) received: Received,
    pub(super) is_established: bool,
    /// How far the client was told that the connection ends.
    pub(super) goaway: Goaway,
    /// What came with the announcement, and whether it has arrived.
    pub(super) farewell_stream: Option<StreamId>,
    pub(super) has_heard: bool,
    /// Nothing is served over it any more.
    pub(super) is_closed: bool,
    /// Something was found out about passwords since the parked streams were looked at.
    is_resumed: bool,
    phase: Phase,
    phase_deadline_ms: u64,
    deadline_ms: u64,
    next_ping_ms: u64,
    /// When it came, by the loop's clock.
    pub(super) began_ms: u64,
    /// A response was begun or finished, or some of one taken, since the phase was looked at.
    pub(super) is_new: bool,
    /// What the client has shown, where hosts ask for certificates.
    pub(super) entry: Option<PresentedEntry>,
    /// Where among the datagrams received together its first one stood; for a tracer.
    pub(super) taken_in: TakenIn,
    /// Whether QUIC holds the end of a response; for a tracer.
    pub(super) held: Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Handshake,
    Idle,
    Queue,
    Answering,
}

impl Connection {
    /// Takes over a connection of QUIC whose handshake has begun.
    pub(crate) fn new(quic: quinn_proto::Connection, peer: SocketAddr, state: &LoopState) -> Self {
        let mut connection = Self {
            quic,
            peer,
            number: state.next_connection(),
            streams: Vec::new(),
            next: 0,
            spare: Vec::new(),
            inbound: Vec::new(),
            opened: Opened::default(),
            control: None,
            control_unsent: Vec::new(),
            next_request: 0,
            allowance: Allowance::new(state.clock.now_ms),
            received: Received::default(),
            is_established: false,
            goaway: Goaway::default(),
            farewell_stream: None,
            has_heard: false,
            is_closed: false,
            is_resumed: false,
            phase: Phase::Idle,
            phase_deadline_ms: 0,
            deadline_ms: 0,
            next_ping_ms: 0,
            began_ms: state.clock.now_ms,
            is_new: true,
            entry: None,
            taken_in: TakenIn::Nothing,
            held: Held::Nothing,
        };
        connection.update_phase(state);
        connection
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Whether nothing is served over it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// What it is about, and its streams.
    pub(crate) fn state(&self) -> (State, usize) {
        let state = match () {
            () if self.is_closed => State::Closing,
            () if !self.is_established => State::Reading,
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

    /// Whether a response is being sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.streams.iter().all(Stream::waits)
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

    /// Has the client show that it is there, where nothing is said while its requests wait for others: QUIC would take
    /// either side's silence for its end. Whether there is something to send.
    pub(crate) fn ping(&mut self, state: &LoopState) -> bool {
        let now_ms = state.clock.now_ms;
        if self.next_ping_ms > now_ms || (self.waits_as().is_none() && !self.has_application()) {
            return false;
        }
        let silence = state.timeouts.idle.max(state.timeouts.stall);
        let silence_ms = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX);
        self.next_ping_ms = now_ms + PING_MS.min(silence_ms / 3);
        self.quic.ping();
        true
    }

    /// Whether an application answers some of its requests.
    pub(crate) fn has_application(&self) -> bool {
        self.streams.iter().any(|stream| stream.exchange.is_awaited())
    }

    /// Whether an application has kept the client waiting for too long.
    pub(crate) fn is_kept_waiting(&self, now_ms: u64) -> bool {
        self.streams.iter().any(|stream| stream.exchange.is_late(now_ms))
    }

    /// Looks at the requests that wait for passwords again at its next turn.
    pub(crate) fn resume(&mut self) {
        self.is_resumed = true;
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        !self.is_closed && self.deadline_ms <= now_ms
    }

    /// Whether it is time for the next step of the farewell, without input from the client.
    pub(crate) fn is_leaving(&self, now_ms: u64) -> bool {
        !self.is_closed && self.goaway.is_due(now_ms)
    }

    /// The first datagram for it since its last turn stood at a place among those that were received together.
    pub(crate) fn takes_in(&mut self, index: usize, of: usize) {
        if self.taken_in == TakenIn::Nothing {
            let [index, of] = [index, of].map(|number| u16::try_from(number).unwrap_or(u16::MAX));
            self.taken_in = TakenIn::At { index, of };
        }
    }

    /// What was received for it is no longer what was received last.
    pub(crate) fn falls_behind(&mut self) {
        if self.taken_in != TakenIn::Nothing {
            self.taken_in = TakenIn::Earlier;
        }
    }

    /// Makes the next datagrams.
    pub(crate) fn next_datagrams(&mut self, now: Instant, most: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.held == Held::Nothing {
            return self.quic.poll_transmit(now, most, out);
        }
        let content = self.quic.stats().frame_tx.stream;
        let transmit = self.quic.poll_transmit(now, most, out)?;
        self.held = marks::made(&self.quic, self.number, content, &transmit);
        Some(transmit)
    }

    /// Does what can be done now; whether there is more to do without waiting.
    pub(crate) fn turn(&mut self, now: Instant, state: &mut LoopState) -> bool {
        self.received = Received::default();
        while let Some(event) = self.quic.poll() {
            if let Err(code) = self.handle_event(event, state) {
                self.fail(code, now, state);
            }
        }
        if self.is_closed {
            return false;
        }
        if std::mem::take(&mut self.is_resumed) {
            self.answer_parked(state);
        }
        let was_said = self.goaway.is_said();
        if self.goaway.concerns(state.stopping || state.leaves_http3) {
            self.take_leave(state);
        }
        self.send_control();
        if !self.streams.is_empty() {
            static_probe!("send");
        }
        let mut again = self.send(state);
        match self.read_unread(state) {
            Ok(has_read) => again |= has_read,
            Err(code) => {
                self.fail(code, now, state);
                return false;
            }
        }
        // What was said goes out first, as nothing is sent of a connection that is closed.
        again |= self.goaway.is_said() && !was_said;
        if was_said && self.streams.is_empty() {
            self.close(Code::NoError, now, state);
        }
        self.update_phase(state);
        self.taken_in = TakenIn::Nothing;
        again
    }

    /// Tells a client whose deadline has passed that this is the end.
    pub(crate) fn expire(&mut self, now: Instant, state: &mut LoopState) {
        state.counts().timeouts.add(1);
        self.close(Code::NoError, now, state);
    }

    /// Ends the connection; what was sent of unfinished responses is logged.
    pub(crate) fn close(&mut self, code: Code, now: Instant, state: &mut LoopState) {
        if !self.is_closed {
            self.quic.close(now, VarInt::from_u32(code as u32), Bytes::new());
            self.abort(state);
        }
    }

    /// Logs what was sent of unfinished responses, and serves nothing more.
    pub(super) fn abort(&mut self, state: &mut LoopState) {
        self.is_closed = true;
        marks::closed(self.number);
        for stream in &mut self.streams {
            stream.forget_unsent();
            state.finish_one(&mut stream.exchange);
        }
        state.remove_waiting(self.number, None);
        self.streams = Vec::new();
        self.spare = Vec::new();
        self.inbound = Vec::new();
    }

    /// Ends the connection with an error of the client's; what was asked for is not answered any more.
    fn fail(&mut self, code: Code, now: Instant, state: &mut LoopState) {
        let counts = state.counts();
        let counter = if code == Code::ExcessiveLoad { &counts.http3_abuses } else { &counts.http3_errors };
        counter.add(1);
        self.close(code, now, state);
    }

    /// Opens our control stream with its settings.
    pub(super) fn begin(&mut self, state: &LoopState) {
        self.control = self.quic.streams().open(Dir::Uni);
        let head_bytes_max = state.limits.head_bytes_max as u64;
        // The stream's purpose, then SETTINGS_MAX_FIELD_SECTION_SIZE and SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 9220 section
        // 3); that there are no tables needs no word.
        let settings = [(6, head_bytes_max), (8, 1)];
        let bytes = settings.iter().map(|&(id, value)| integer_bytes(id) + integer_bytes(value)).sum();
        self.control_unsent.push(0);
        frame::put_head(&mut self.control_unsent, kind::SETTINGS, bytes);
        for (id, value) in settings {
            frame::put_integer(&mut self.control_unsent, id);
            frame::put_integer(&mut self.control_unsent, value);
        }
    }

    /// Tells the client of the end what it is to know now.
    fn take_leave(&mut self, state: &LoopState) {
        let (has_asked, now_ms) = (self.next_request > 0, state.clock.now_ms);
        let leaves = state.stopping || state.leaves_http3;
        let first_unanswered = match self.goaway.next(leaves, has_asked, self.has_heard, now_ms) {
            Some(Word::Announcement) => {
                self.ask_whether_it_has_heard();
                ANY_REQUEST
            }
            Some(Word::End) => self.next_request,
            None => return,
        };
        // Before the handshake is over the client reads no frames; QUIC tells it of the end.
        if self.is_established {
            frame::put_head(&mut self.control_unsent, kind::GOAWAY, integer_bytes(first_unanswered));
            frame::put_integer(&mut self.control_unsent, first_unanswered);
        }
    }

    /// Sends the client something that means nothing, with the announcement of the end: that it has come says that the
    /// client has heard, as nothing tells of the control stream how far that was received. A client that lets us open
    /// no stream has its time.
    fn ask_whether_it_has_heard(&mut self) {
        self.farewell_stream = self.quic.streams().open(Dir::Uni);
        if let Some(id) = self.farewell_stream {
            let mut stream = self.quic.send_stream(id);
            // Where there is no room for one byte, its end comes all the same.
            let _ = stream.write(&[RESERVED_PURPOSE]);
            let _ = stream.finish();
        }
    }

    fn send_control(&mut self) {
        if let Some(id) = self.control
            && !self.control_unsent.is_empty()
            && let Ok(taken) = self.quic.send_stream(id).write(&self.control_unsent)
        {
            self.control_unsent.drain(..taken);
        }
    }

    /// Gives each stream its turn until none can go on, or it is the turn of other connections.
    fn send(&mut self, state: &mut LoopState) -> bool {
        let mut moved_bytes = 0;
        let mut moved = true;
        while moved {
            moved = false;
            let count = self.streams.len();
            for turn in 0..count {
                let place = (self.next + turn) % count;
                let stream = &mut self.streams[place];
                let (before, was_begun) = (stream.exchange.response.offset, stream.output != Output::Head);
                let step = stream.step(&mut self.quic, &state.clock);
                self.mark(place, step, was_begun);
                let stream = &mut self.streams[place];
                match step {
                    Step::Waits => continue,
                    Step::Moved => {
                        moved = true;
                        moved_bytes += stream.exchange.response.offset.saturating_sub(before) as usize;
                    }
                    Step::Finished => self.finished(place, state),
                    Step::Broken => {
                        state.counts().http3_streams_broken.add(1);
                        self.reset(place, Code::Internal, state);
                    }
                }
                self.is_new = true;
            }
            self.next = self.next.wrapping_add(1) % count.max(1);
            self.take_off(state);
            if moved && moved_bytes >= TURN_BYTES_MAX {
                return true;
            }
        }
        false
    }

    /// Tells a tracer of a stream's step.
    fn mark(&mut self, place: usize, step: Step, was_begun: bool) {
        let Stream { id, exchange, output, .. } = &self.streams[place];
        match step {
            Step::Finished => marks::ended(self.number, *id, exchange.status, exchange.response.offset),
            Step::Moved if !was_begun && *output != Output::Head => marks::begun(self.number, *id, exchange.status),
            Step::Moved | Step::Waits | Step::Broken => return,
        }
        self.held = Held::Some;
    }

    /// All of a response was taken: it is logged, and what the client may still send is not wanted.
    fn finished(&mut self, place: usize, state: &mut LoopState) {
        let stream = &mut self.streams[place];
        state.finish_one(&mut stream.exchange);
        if !stream.is_received {
            stream.is_received = true;
            let _ = self.quic.recv_stream(stream.id).stop(VarInt::from_u32(Code::NoError as u32));
        }
    }

    /// Ends a stream with an error, on both sides.
    pub(super) fn reset(&mut self, place: usize, code: Code, state: &mut LoopState) {
        let stream = &mut self.streams[place];
        marks::given_up(self.number, stream.id);
        let number = VarInt::from_u32(code as u32);
        if !std::mem::replace(&mut stream.is_received, true) {
            let _ = self.quic.recv_stream(stream.id).stop(number);
        }
        if std::mem::replace(&mut stream.output, Output::Over) != Output::Over {
            let _ = self.quic.send_stream(stream.id).reset(number);
        }
        stream.forget_unsent();
        if stream.parked.take().is_some() {
            state.remove_gone(self.number, Some(number_of(stream.id)));
        }
        state.finish_one(&mut stream.exchange);
        self.is_new = true;
    }

    /// Takes the streams off the way that are over.
    pub(super) fn take_off(&mut self, state: &mut LoopState) {
        let mut place = 0;
        while let Some(stream) = self.streams.get(place) {
            if !stream.is_over() {
                place += 1;
                continue;
            }
            let mut stream = self.streams.swap_remove(place);
            state.finish_one(&mut stream.exchange);
            self.spare.push(stream.exchange);
            self.is_new = true;
        }
        if self.streams.is_empty() {
            // What many streams needed once is not kept for one.
            self.spare.truncate(4);
        }
    }

    /// The client, for code that treats clients differently.
    pub(super) fn client_peer(&self) -> ClientPeer<'static> {
        ClientPeer { client: self.peer.ip(), connection: self.number, socket: None, is_secure: true, leased: None }
    }

    /// Answers the parked requests whose passwords have been checked.
    fn answer_parked(&mut self, state: &mut LoopState) {
        for place in 0..self.streams.len() {
            if !self.streams[place].waits() {
                self.look_again(place, state);
            }
        }
    }

    /// Answers a request whose turn it may be among those that wait for others.
    pub(crate) fn answer_waiting(&mut self, id: u64, state: &mut LoopState) {
        if let Some(place) = self.streams.iter().position(|stream| number_of(stream.id) == id) {
            self.look_again(place, state);
        }
    }

    fn look_again(&mut self, place: usize, state: &mut LoopState) {
        let whose = (self.peer, &self.client_peer(), number_of(self.streams[place].id));
        let stream = &mut self.streams[place];
        if let Some(parked) = stream.parked.take() {
            let (is_received, peer) = (stream.is_received, *whose.1);
            let (mut expects, mut early) = (false, stream.early.take());
            let begin = |request: &Request<'_>, exchange: &mut Exchange, state: &LoopState| {
                expects = request.expects_continue;
                applications::begin(request, exchange, &peer, None, (is_received, early.take()), state);
            };
            stream.parked = parked.answer(3, whose, state, &mut stream.exchange, begin);
            stream.early = early.filter(|_| stream.parked.is_some());
            if stream.exchange.is_awaited() {
                stream.begun_application(expects, state.clock.now_ms);
            }
        }
    }

    /// Keeps the fields' memory with the loop while they are looked at.
    pub(super) fn with_fields<T>(
        &mut self,
        state: &mut LoopState,
        look: impl FnOnce(&mut Self, &mut Fields, &mut LoopState) -> T,
    ) -> T {
        let mut fields = std::mem::take(&mut state.fields);
        let outcome = look(self, &mut fields, state);
        state.fields = fields;
        outcome
    }

    /// Finds out what the connection waits for now, and until when.
    fn update_phase(&mut self, state: &LoopState) {
        let timeouts = &state.timeouts;
        let is_answering =
            |stream: &Stream| stream.input != Input::Head && !stream.is_held && !stream.waits() && !stream.is_starved();
        let (phase, timeout) = if !self.is_established {
            (Phase::Handshake, timeouts.head)
        } else if self.streams.iter().any(is_answering) {
            (Phase::Answering, timeouts.stall)
        } else if self.streams.iter().any(Stream::waits) {
            (Phase::Queue, Duration::MAX)
        } else if self.has_application() {
            // Each has its own time: see below, and the exchange's for its application.
            (Phase::Queue, Duration::MAX)
        } else {
            (Phase::Idle, timeouts.idle)
        };
        let after = |start_ms: u64, timeout: Duration| {
            start_ms.saturating_add(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
        };
        let is_new = std::mem::take(&mut self.is_new);
        if phase != self.phase || (is_new && phase != Phase::Handshake) {
            self.phase = phase;
            self.phase_deadline_ms = after(state.clock.now_ms, timeout);
        }
        // Where QUIC holds bodies that applications do not take the client may not be able to send others.
        let is_held_up = self.streams.iter().any(|stream| stream.is_unread && stream.room() == 0);
        let of_streams = self.streams.iter().filter_map(|stream| match stream.input {
            Input::Head => Some(after(stream.since_ms, timeouts.head)),
            _ if stream.is_held || (stream.owes_body() && !is_held_up) => Some(after(stream.since_ms, timeouts.body)),
            _ => None,
        });
        self.deadline_ms = of_streams.min().unwrap_or(u64::MAX).min(self.phase_deadline_ms);
    }
}

/// Bytes of an integer in its shortest form.
fn integer_bytes(value: u64) -> u64 {
    let mut out = Vec::with_capacity(8);
    frame::put_integer(&mut out, value);
    out.len() as u64
}
