//! One connection: receives, splits the input into requests, and sends the responses in their order.
//!
//! Its life: *head* (waiting for a first request, or within a head) → *idle* (between requests) → *head* → …;
//! *body* while a request body is discarded, *stall* while the client takes no more of a response, *parked* while a
//! password is checked, *application* while one is to give something, and *linger* after the last response while the
//! client may still send. Each state has a deadline, and bytes that trickle in never extend it.

mod copying;
mod ends;
pub(crate) mod moving;
mod now;
mod streaming;

use crate::counters::census::State;
use crate::exchange::drain::Drain;
use crate::exchange::goaway::GRACE_MS;
use crate::exchange::life::Exchange;
use crate::exchange::send::Sent;
use crate::files::head::Persistence;
use crate::http::framing::Framing;
use crate::http::limits::Limits;
use crate::http::request::{self, Parsed, Request};
use crate::http::{parse, preface};
use crate::io::ends::Ends;
use crate::io::epoll::Readiness;
use crate::loop_state::{AskedAside, BATCH_MAX, LoopState, respond_aside};
use crate::policy::client_peer::{ClientPeer, Leased};
use crate::policy::throttle::{Asker, Gate, Throttles};
use crate::telemetry::arm_requests::Received;
use crate::transport::{Lane, Staging, Transport};
use std::cell::OnceCell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use weir_wire::static_probe;

/// Rounds of receiving and answering before other connections have their turn.
const ROUNDS_MAX: usize = 16;

/// What the loop does with a connection after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Wait for readiness.
    Wait,
    /// Give it another turn without waiting.
    Again,
    /// The client speaks HTTP/2.
    Upgrade,
    /// Close it.
    Close,
}

/// What a connection does once its responses are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Continue,
    Close,
    /// Close, but let the client read the last response although it may still be sending.
    Linger,
    /// Give the connection to HTTP/2.
    Upgrade,
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Idle,
    Body,
    Stall,
    Linger,
    /// Until a password has been checked.
    Parked,
    /// Until an application gives something; the exchange knows for how long.
    Application,
}

/// What the saved input waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SavedFor {
    /// The rest of a head; or there is none.
    Rest,
    /// Its turn: it was left over by blocked output, or what its request waited for is over.
    Turn,
    /// The password of its first request to be checked.
    Password,
    /// Other requests to be over.
    Bound,
}

impl SavedFor {
    /// Whether a request is there that may not be answered yet.
    #[inline]
    const fn is_parked(self) -> bool {
        matches!(self, Self::Password | Self::Bound)
    }
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    transport: Transport,
    peer: SocketAddr,
    /// Its number in questions to the adviser and in queues.
    number: u64,
    /// Input that is not used up yet.
    saved: Vec<u8>,
    /// When it began to be saved, for requests that are reported by ARM; 0 = unknown.
    saved_since_ns: u64,
    saved_for: SavedFor,
    /// Responses that the socket had no room for.
    queue: Vec<Exchange>,
    drain: Drain,
    after: After,
    phase: Phase,
    deadline_ms: u64,
    /// What is known of the socket without asking it.
    socket: Readiness,
    lingered_bytes: Option<usize>,
    /// The client is to be told of HTTP/3 with its next response.
    owes_alt_svc: bool,
    /// What the adviser said about its last request.
    leased: Leased,
    /// Bytes of a body for an application since its time began anew.
    body_bytes: usize,
    /// Both addresses of the socket, once an application was told them.
    ends: OnceCell<Box<Ends>>,
    /// Requests so far, where they are told.
    told: u64,
}

impl Connection {
    pub(crate) fn new(transport: Transport, peer: SocketAddr, state: &LoopState) -> Self {
        let owes_alt_svc = transport.is_secure() && !state.alt_svc.is_empty();
        let mut connection = Self {
            owes_alt_svc,
            transport,
            peer,
            number: state.next_connection(),
            saved: Vec::new(),
            saved_since_ns: 0,
            saved_for: SavedFor::Rest,
            queue: Vec::new(),
            drain: Drain::Done,
            after: After::Continue,
            phase: Phase::Head,
            deadline_ms: 0,
            socket: Readiness::ROOM,
            lingered_bytes: None,
            leased: Leased::default(),
            body_bytes: 0,
            ends: OnceCell::new(),
            told: 0,
        };
        connection.enter(Phase::Head, state);
        connection
    }

    /// What is left for another protocol: the transport and what was received of it.
    pub(crate) fn into_parts(self) -> (Transport, Vec<u8>) {
        (self.transport, self.saved)
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.deadline_ms <= now_ms
    }

    /// Whether a response is being sent.
    #[inline]
    pub(crate) fn is_sending(&self) -> bool {
        !self.queue.is_empty() || self.transport.holds_output()
    }

    /// What it is about.
    pub(crate) fn state(&self) -> State {
        match self.phase {
            Phase::Body => State::Body,
            _ if self.is_sending() => State::Sending,
            Phase::Head => State::Reading,
            Phase::Idle => State::Idle,
            Phase::Stall | Phase::Application => State::Sending,
            Phase::Linger => State::Closing,
            Phase::Parked => State::Password,
        }
    }

    /// Whether it waits for a password to be checked.
    pub(crate) fn is_parked(&self) -> bool {
        self.saved_for == SavedFor::Password
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The number under which it waits for others to be over, if it does.
    pub(crate) fn waits_as(&self) -> Option<u64> {
        (self.saved_for == SavedFor::Bound).then_some(self.number)
    }

    /// Looks at its request again at its next turn.
    pub(crate) fn resume(&mut self) {
        self.saved_for = SavedFor::Turn;
    }

    #[inline]
    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    #[inline]
    pub(crate) fn transport_mut(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Whether it would be on the ring as well: it speaks in the clear, and waits for another request than its first.
    #[inline]
    pub(crate) fn fits_ring(&self) -> bool {
        self.phase == Phase::Idle
            && !self.socket.has(Readiness::END)
            && self.transport.lane() == Lane::Socket
            && !self.transport.is_secure()
    }

    /// Takes back output that the ring was given and that the socket had no room for.
    pub(crate) fn block(&mut self, output: &[u8], state: &LoopState) {
        self.transport.keep_output(output);
        self.socket.remove(Readiness::ROOM);
        self.enter(Phase::Stall, state);
    }

    /// Does what can be done now.
    pub(crate) fn turn(&mut self, state: &mut LoopState, readiness: Readiness) -> Turn {
        self.socket.add(readiness);
        let mut turn = self.work(state).unwrap_or_else(|_| {
            state.counts().connections_broken.add(1);
            self.abort(state);
            Turn::Close
        });
        if turn == Turn::Close && self.transport.is_staged(&state.ring) {
            // What was answered goes out first.
            self.after = After::Close;
            turn = Turn::Again;
        }
        static_probe!("done");
        turn
    }

    fn work(&mut self, state: &mut LoopState) -> io::Result<Turn> {
        for _ in 0..ROUNDS_MAX {
            if self.is_sending() {
                let (sent, bytes) = self.send_queue(state)?;
                if sent == Sent::Starved {
                    // Where the client took something the application may give more, before anything is waited for.
                    if bytes > 0 || self.feed(state)? == Fed::Some {
                        continue;
                    }
                    return Ok(Turn::Wait);
                }
                if sent != Sent::All {
                    if self.is_tunnel() && self.pass_on_input(state)? == Fed::Some {
                        continue;
                    }
                    self.step_back(state);
                    // Also where it is only the turn of others: it goes on when the socket has room for much. One that
                    // is filled to the brim instead has its reader woken up for little, again and again.
                    return Ok(Turn::Wait);
                }
            }
            match self.after {
                After::Continue => {}
                _ if self.transport.is_staged(&state.ring) => return Ok(Turn::Again),
                After::Close => {
                    // That the end is meant is waited for as its records were.
                    self.transport.say_goodbye();
                    if self.transport.holds_output() {
                        self.socket.remove(Readiness::ROOM);
                        self.enter(Phase::Stall, state);
                        return Ok(Turn::Wait);
                    }
                    return Ok(Turn::Close);
                }
                After::Linger => return self.linger(state),
                After::Upgrade => return Ok(Turn::Upgrade),
            }
            if self.saved_for.is_parked() {
                // A client that ends its side while it waits for others has gone away.
                let has_gone = self.socket.has(Readiness::END) && state.remove_gone(self.number, None);
                return Ok(if has_gone { Turn::Close } else { Turn::Wait });
            }
            let filled = if self.saved_for == SavedFor::Turn { self.take_saved(state) } else { self.receive(state)? };
            match filled {
                Input::Bytes { filled, scanned } => {
                    self.answer(filled, scanned, state)?;
                    if !self.queue.is_empty() && !self.is_answered_by_application() {
                        self.step_back(state);
                        return Ok(Turn::Wait);
                    }
                }
                Input::Nothing if state.stopping && self.is_between_requests() => {
                    if self.phase == Phase::Idle {
                        return Ok(Turn::Close);
                    }
                    // It was accepted just now, and its first request is on its way.
                    self.deadline_ms = self.deadline_ms.min(state.clock.now_ms + GRACE_MS);
                    return Ok(Turn::Wait);
                }
                Input::Nothing => return Ok(Turn::Wait),
                Input::Other => return Ok(Turn::Upgrade),
                Input::End => return Ok(Turn::Close),
            }
        }
        Ok(Turn::Again)
    }

    /// Gives up its place in the queue: it cannot take an answer now, and later clients would wait until this one has
    /// read its earlier responses, however slowly. It asks again once its output is out.
    fn step_back(&mut self, state: &mut LoopState) {
        if self.saved_for == SavedFor::Bound {
            // Not in the queue any more, it is looked at again only once it was asked for that.
            self.saved_for = SavedFor::Password;
            if state.remove_waiting(self.number, None) > 0 {
                self.resume();
            }
        }
    }

    /// Whether what comes is passed on as it is, in both directions.
    #[inline]
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(self.drain, Drain::Raw)
    }

    fn is_between_requests(&self) -> bool {
        self.queue.is_empty() && self.saved.is_empty() && self.drain.is_done()
    }

    /// Whether output waits for room in the socket.
    #[inline]
    pub(crate) fn waits_for_room(&self) -> bool {
        self.transport.holds_output()
            || (!self.queue.is_empty() && !matches!(self.phase, Phase::Application | Phase::Body))
    }

    fn take_saved(&mut self, state: &mut LoopState) -> Input {
        let filled = self.saved.len();
        state.input[..filled].copy_from_slice(&self.saved);
        self.saved.clear();
        self.saved_for = SavedFor::Rest;
        Input::Bytes { filled, scanned: 0 }
    }

    /// Receives once. Input that does not fill the memory was all there is, so that no second call is needed to
    /// learn it; later input makes a new event.
    fn receive(&mut self, state: &mut LoopState) -> io::Result<Input> {
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
            Err(_) if self.is_between_requests() => return Ok(Input::End),
            Err(error) => return Err(error),
        };
        let filled = saved + received;
        self.socket.set(
            Readiness::INPUT,
            filled == state.input.len() || self.socket.has(Readiness::END) || self.transport.is_read_out(),
        );
        if saved > 0 {
            state.input[..saved].copy_from_slice(&self.saved);
            self.saved.clear();
        }
        if self.transport.is_secure()
            && let Some(clients) = state.router.presented()
        {
            self.transport.enter(self.number, clients);
        }
        if self.transport.agreed_on_http2() {
            self.saved.extend_from_slice(&state.input[..filled]);
            return Ok(Input::Other);
        }
        Ok(Input::Bytes { filled, scanned: saved })
    }

    /// Answers the requests in the first `filled` bytes of the input, and keeps what is left of them. The first
    /// `scanned` bytes are known to end within a head.
    fn answer(&mut self, filled: usize, scanned: usize, state: &mut LoopState) -> io::Result<()> {
        let (mut at, mut batch) = (0, 0);
        let mut is_new = false;
        let mut received = Received::default();
        if scanned > 0 && self.drain.is_done() && !parse::has_empty_line(&state.input[..filled], scanned) {
            return self.keep_partial(filled, state);
        }
        while self.after == After::Continue {
            if !self.drain.is_done() {
                match self.drain.advance(&state.input[at..filled]) {
                    Ok(taken) => at += taken,
                    Err(_) => self.after = After::Linger,
                }
                if !self.drain.is_done() {
                    break;
                }
                continue;
            }
            if at == filled {
                break;
            }
            if batch == BATCH_MAX {
                batch = 0;
                if self.send_batch(BATCH_MAX, state)? != Sent::All {
                    break;
                }
                received.waited();
            }
            static_probe!("read");
            let LoopState {
                input,
                batch: places,
                router,
                clock,
                log,
                arm,
                alt_svc,
                limits,
                counters,
                index,
                stopping,
                throttles,
                watching,
                applications,
                ..
            } = state;
            let counts = &counters.0[*index];
            let mut request = Request::empty();
            match parse::parse_into(&input[at..filled], limits, &mut request) {
                Parsed::Complete(_)
                    if router.must_wait(&request, self.peer.ip(), || self.transport.is_secure(), clock) =>
                {
                    self.saved_for = SavedFor::Password;
                    break;
                }
                Parsed::Complete(head_bytes) => {
                    let mut peer = self.client_peer();
                    let is_told = router.see(&request, &mut peer);
                    let asker = Asker { connection: self.number, stream: None };
                    let mut user = || router.user(&request, &peer, clock);
                    let ask = |all: &mut Throttles| all.ask((&request, &mut user), asker, clock.now_ms, counts);
                    let gate = throttles.as_mut().map_or(Gate::Open(None), ask);
                    if matches!(gate, Gate::Wait) {
                        (self.saved_for, self.deadline_ms) = (SavedFor::Bound, u64::MAX); // The bound says how long.
                        break;
                    }
                    (at, is_new) = (at + head_bytes, true);
                    let stays = self.prepare_body(&request, at < filled, limits) && !*stopping;
                    if !stays {
                        self.end_behind_response(at == filled);
                    }
                    static_probe!("route");
                    let (exchange, persistence) = (&mut places[batch], Persistence::of(request.minor, stays));
                    peer.leased = (!is_told).then_some(&self.leased);
                    if let Gate::Aside(aside) = gate {
                        let asked = AskedAside::alone(&request, &peer, (self.peer, persistence));
                        respond_aside(aside, &asked, (watching, router, &mut *arm), (clock, counts), exchange);
                    } else {
                        if let Gate::Open(place @ Some(_)) = gate {
                            exchange.record.place = place;
                        }
                        router.respond(&request, &peer, persistence, clock, counts, exchange);
                    }
                    exchange.join_small();
                    if exchange.status != 0 && std::mem::take(&mut self.owes_alt_svc) {
                        alt_svc.apply(exchange, true);
                    }
                    counts.count(exchange.status);
                    if let Some(log) = log {
                        log.begin(&mut exchange.record.log, Some(&request), peer.client, exchange.status, clock);
                        self.told += 1;
                    }
                    if let Some(arm) = arm {
                        received.since(&mut self.saved_since_ns);
                        let client = if is_told { peer.address(self.peer) } else { self.peer };
                        exchange.record.arm = arm.begin(&request, || exchange.answered(), client, &mut received);
                        counts.arm_told.add(u64::from(exchange.record.arm.is_told()));
                    }
                    batch += 1;
                    if exchange.is_awaited() {
                        let asked = (&request, &peer.alone());
                        self.begin_application(asked, exchange, (applications, *stopping), at < filled);
                        break;
                    }
                }
                Parsed::Partial => break,
                Parsed::Rejected(505)
                    if at == 0 && !self.transport.is_secure() && preface::begins(&input[..filled]) =>
                {
                    // Its preface looks like a request of a version that HTTP/1.1 does not know.
                    if filled >= preface::PREFACE.len() {
                        self.after = After::Upgrade;
                        self.saved.extend_from_slice(&input[..filled]);
                    }
                    break;
                }
                Parsed::Rejected(status) => {
                    self.refuse(status, batch, state);
                    batch += 1;
                }
            }
        }
        if batch > 0 {
            self.send_batch(batch, state)?;
        }
        if self.after == After::Continue && at < filled {
            self.saved.extend_from_slice(&state.input[at..filled]);
            if !self.saved_for.is_parked() {
                self.saved_for = if self.queue.is_empty() { SavedFor::Rest } else { SavedFor::Turn };
            }
            if state.arm.is_some() && self.saved_since_ns == 0 {
                self.saved_since_ns = weir_arm::now_ns();
            }
        }
        self.update_phase(is_new, state);
        Ok(())
    }

    /// Ends the connection behind the response; `is_read` says that no input is left.
    #[inline]
    fn end_behind_response(&mut self, is_read: bool) {
        // Unread bytes would make the kernel reset the connection under the response.
        let is_quiet = is_read && self.drain.is_done() && self.after == After::Continue;
        self.after = if is_quiet { After::Close } else { After::Linger };
    }

    /// The client, as its socket tells of it.
    #[inline]
    pub(crate) fn client_peer(&self) -> ClientPeer<'static> {
        ClientPeer {
            client: self.peer.ip(),
            connection: self.number,
            socket: Some(self.transport.fd()),
            is_secure: self.transport.is_secure(),
            leased: None,
        }
    }

    /// Keeps input that ends within a head, unless no more of it can make one: parsing from the start again for each byte
    /// of a slow client would cost the square of the head.
    #[cold]
    fn keep_partial(&mut self, filled: usize, state: &mut LoopState) -> io::Result<()> {
        match request::partial(&state.input[..filled], &state.limits) {
            Parsed::Rejected(status) => {
                self.refuse(status, 0, state);
                self.send_batch(1, state)?;
            }
            _ => self.saved.extend_from_slice(&state.input[..filled]),
        }
        Ok(())
    }

    /// Gets ready to read past the body; whether the connection can stay open after the response.
    fn prepare_body(&mut self, request: &Request<'_>, has_more_input: bool, limits: &Limits) -> bool {
        if request.framing == Framing::None {
            return request.keep_alive;
        }
        // A client that waits for a word may or may not send the body after the final response.
        let is_certain = !request.expects_continue || has_more_input;
        match Drain::begin(request.framing, limits.body_bytes_max) {
            Ok(drain) if is_certain => self.drain = drain,
            Ok(_) | Err(_) => self.after = After::Linger,
        }
        request.keep_alive && self.after == After::Continue
    }

    /// Sends the first responses of the batch; those that the socket has no room for are queued.
    fn send_batch(&mut self, batch: usize, state: &mut LoopState) -> io::Result<Sent> {
        if !self.queue.is_empty() {
            return Ok(Sent::Blocked);
        }
        static_probe!("send");
        let (outcome, bytes) = self.flush_batch(batch, state);
        state.counts().bytes_sent.add(bytes);
        // A response that waits for the ring is reported when the ring has sent it.
        let owes = self.transport.is_staged(&state.ring) && state.arm.is_some();
        for place in 0..batch {
            if matches!(outcome, Ok(Sent::All)) || state.batch[place].is_finished() {
                if owes && state.batch[place].record.arm.is_told() {
                    state.owed.push((self.transport.token(), state.batch[place].owe_told()));
                }
                state.finish(place);
            } else {
                state.batch[place].sent_some();
                self.queue.push(std::mem::take(&mut state.batch[place]));
            }
        }
        if let Ok(sent @ (Sent::Blocked | Sent::Yielded)) = outcome {
            self.socket.set(Readiness::ROOM, sent == Sent::Yielded);
            self.enter(Phase::Stall, state);
        }
        outcome
    }

    #[inline]
    fn flush_batch(&mut self, batch: usize, state: &mut LoopState) -> (io::Result<Sent>, u64) {
        let LoopState { batch: places, copied, ring, .. } = state;
        let places = &mut places[..batch];
        let staging = ring.as_mut().map(|ring| {
            // A connection that closes after a response waits until it is sent. A response that is made piece by piece
            // is made as the socket takes it, and not ahead.
            let is_wanted = self.after == After::Continue && !places.iter().any(Exchange::continues);
            Staging { ring, is_wanted }
        });
        self.transport.flush(places, copied, staging)
    }

    /// Goes on with the responses that are queued.
    fn send_queue(&mut self, state: &mut LoopState) -> io::Result<(Sent, u64)> {
        if !self.socket.has(Readiness::ROOM) {
            return Ok((Sent::Blocked, 0));
        }
        static_probe!("send");
        match self.transport.push() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.socket.remove(Readiness::ROOM);
                self.block_on_room(state);
                return Ok((Sent::Blocked, 0));
            }
            pushed => pushed?,
        }
        if self.queue.is_empty() {
            self.update_phase(true, state);
            return Ok((Sent::All, 0));
        }
        self.drive_application(state)?;
        let staging = state.ring.as_mut().map(|ring| Staging { ring, is_wanted: self.may_wait_for_ring() });
        let has_ring = staging.is_some();
        let (outcome, bytes) = self.transport.flush(&mut self.queue, &mut state.copied, staging);
        state.counts().bytes_sent.add(bytes);
        let finished = self.queue.iter().take_while(|exchange| exchange.is_finished()).count();
        let owes = has_ring && finished > 0 && state.arm.is_some() && self.transport.is_staged(&state.ring);
        for place in 0..finished {
            self.end_application(place, state);
            if owes && self.queue[place].record.arm.is_told() {
                state.owed.push((self.transport.token(), self.queue[place].owe_told()));
            }
            state.finish_one(&mut self.queue[place]);
            state.take_memory(&mut self.queue[place]);
        }
        self.queue.drain(..finished);
        // Records of its end that the socket did not take go out before the connection may end.
        let outcome = match outcome {
            Ok(Sent::All) if self.transport.holds_output() => Ok(Sent::Blocked),
            outcome => outcome,
        };
        if bytes > 0 {
            self.queue.first_mut().into_iter().for_each(Exchange::sent_some);
        }
        match outcome {
            Ok(Sent::Starved) => {}
            _ if bytes > 0 => self.enter(Phase::Stall, state),
            _ => self.block_on_room(state),
        }
        let is_blocked = matches!(outcome, Ok(Sent::Blocked));
        if self.queue.is_empty() && !is_blocked {
            self.update_phase(true, state);
        }
        self.socket.set(Readiness::ROOM, !is_blocked);
        outcome.map(|sent| (sent, bytes))
    }

    /// Finds out what the connection waits for now. `is_new` says that something was finished since.
    fn update_phase(&mut self, is_new: bool, state: &LoopState) {
        let phase = if !self.queue.is_empty() {
            Phase::Stall
        } else if self.saved_for.is_parked() {
            Phase::Parked
        } else if !self.drain.is_done() {
            Phase::Body
        } else if self.saved.is_empty() {
            Phase::Idle
        } else {
            Phase::Head
        };
        if is_new || phase != self.phase {
            self.enter(phase, state);
        }
    }

    fn enter(&mut self, phase: Phase, state: &LoopState) {
        let timeouts = &state.timeouts;
        let timeout: Duration = match phase {
            Phase::Head => timeouts.head,
            Phase::Idle => timeouts.idle,
            Phase::Body => timeouts.body,
            Phase::Parked if self.saved_for == SavedFor::Bound => Duration::MAX,
            Phase::Application => Duration::MAX,
            Phase::Stall | Phase::Parked => timeouts.stall,
            Phase::Linger => timeouts.linger,
        };
        self.phase = phase;
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.deadline_ms = state.clock.now_ms.saturating_add(timeout_ms);
    }
}

/// Whether an application got something to go on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fed {
    Some,
    Nothing,
}

/// What there is to be answered.
enum Input {
    Bytes {
        filled: usize,
        scanned: usize,
    },
    Nothing,
    /// It is not of HTTP/1.
    Other,
    End,
}
