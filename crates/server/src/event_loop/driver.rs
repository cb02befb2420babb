//! One loop with its connections: it waits for what is ready and gives each connection its turn.

use super::adopted_contents::AdoptedContents;
use super::followed::Followed;
use super::refusal::refuse;
use super::spare::Eviction;
use super::stopping::Stopping;
use super::tokens::index_of;
use crate::counters::census::Census;
use crate::counters::rounds::Rounds;
use crate::event_loop::client::Client;
use crate::event_loop::passed_on::PassedOn;
use crate::event_loop::role::LoopRole;
use crate::event_loop::sessions::Sessions;
use crate::event_loop::slab::Slab;
use crate::event_loop::tokens::{HANDED, LISTENERS, QUIC, RESERVED, WAKER, WATCHES, listener_index, listener_token};
use crate::exchange::wakes::Address;
use crate::http1::connection::Turn;
use crate::io::epoll::{self, Epoll, Interest, Readiness, Waker};
use crate::io::listen::Listener;
use crate::io::open::{Entry, Open};
use crate::loop_state::LoopState;
use crate::policy::throttle::Asker;
use crate::quic;
use crate::tls::Session;
use crate::transport::ring::Ring;
use crate::transport::{Lane, Transport};
use crate::upstream::background::BACKGROUND;
use crate::upstream::links::{KEPT_TOKEN, LINK_BIT, Links, PROBE_TOKEN, SHARED_TOKEN};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// Events between two looks at what has changed, so that a round of many does not serve what is out of date for long:
/// some 50 us.
const EVENTS_PER_HEARING: usize = 16;

/// Connections accepted before those that are open have their turn.
pub(super) const ACCEPTS_MAX: usize = 64;

/// Connections that may wait to be accepted when the server is stopped.
pub(super) const BACKLOG_MAX: usize = 4096;

/// How often deadlines are looked at, and the log is handed over.
const SWEEP_MS: u64 = 500;

/// How long nothing is accepted after descriptors have run out.
const PAUSE_MS: u64 = 200;

/// One loop with its connections.
pub(crate) struct EventLoop {
    pub(crate) epoll: Rc<Epoll>,
    /// What leads to upstreams.
    pub(super) links: Rc<Links>,
    pub(super) listeners: Vec<Listener>,
    pub(super) quic: Vec<quic::Endpoint>,
    tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) connections: Slab,
    pub(crate) state: LoopState,
    /// Connections that have more to do without waiting.
    pub(crate) again: Vec<u64>,
    /// Connections that are closed once the ring has nothing more to do with them.
    pub(crate) closing: Vec<Client>,
    /// The tokens of connections that wait for others to be over, by their numbers: the end of one is told to those
    /// only that it is for, however many there are.
    waiting: HashMap<u64, u64>,
    /// The connections of all loops.
    pub(super) open: Arc<Open>,
    pub(super) eviction: Eviction,
    paused_until_ms: Option<u64>,
    next_sweep_ms: u64,
    /// Nothing has happened since the last census.
    is_counted: bool,
    /// Applications may have asked for a turn.
    is_waked: bool,
    stop_deadline_ms: u64,
    /// The same for tunnels.
    tunnels_deadline_ms: u64,
    /// Whether tunnels have longer than responses.
    keeps_tunnels: bool,
    pub(super) role: LoopRole,
    /// How long requests wait for a turn; only where waits are counted.
    rounds: Option<Rounds>,
    /// Orders about sessions, and what those are sent of that have come here.
    pub(super) sessions: Arc<Sessions>,
    pub(super) adopted: AdoptedContents,
    /// Responses that take long, for another node to go on with.
    pub(super) followed: Followed,
}

impl EventLoop {
    pub(crate) fn new(
        (epoll, links): (Rc<Epoll>, Rc<Links>),
        listeners: Vec<Listener>,
        quic: Vec<quic::Endpoint>,
        tls: Option<Arc<rustls::ServerConfig>>,
        (state, open): (LoopState, Arc<Open>),
        (role, rounds): (LoopRole, Option<Rounds>),
        sessions: Arc<Sessions>,
    ) -> Self {
        Self {
            epoll,
            links,
            listeners,
            quic,
            tls,
            connections: Slab::default(),
            state,
            again: Vec::new(),
            closing: Vec::new(),
            waiting: HashMap::new(),
            open,
            eviction: Eviction::default(),
            paused_until_ms: None,
            next_sweep_ms: 0,
            is_counted: false,
            is_waked: false,
            stop_deadline_ms: u64::MAX,
            tunnels_deadline_ms: u64::MAX,
            keeps_tunnels: false,
            role,
            rounds,
            sessions,
            adopted: AdoptedContents::default(),
            followed: Followed::default(),
        }
    }

    /// The same for connections that move, whose long responses are followed.
    pub(crate) fn moving(self) -> Self {
        Self { followed: Followed::moving(), ..self }
    }

    /// Serves until `stop` is set and the responses in flight are sent.
    pub(crate) fn run(mut self, waker: &Waker, stop: &Stopping) -> io::Result<()> {
        self.epoll.add(waker.as_raw_fd(), WAKER, Interest::Input)?;
        for (i, listener) in self.listeners.iter().enumerate().filter(|_| self.role.serves()) {
            self.epoll.add(listener.socket.as_raw_fd(), listener_token(i), Interest::Level)?;
        }
        for (i, endpoint) in self.quic.iter().enumerate() {
            self.epoll.add(endpoint.fd(), QUIC + i as u64, Interest::Level)?;
            self.epoll.add(endpoint.handover_fd(), HANDED + i as u64, Interest::Level)?;
        }
        if let Some(fd) = self.state.watcher.fd() {
            self.epoll.add(fd, WATCHES, Interest::Level)?;
        }
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        while !(self.state.stopping && self.is_empty()) || self.role.is_leaving() {
            let timeout_ms = self.timeout_ms();
            let mut asks_first = self.rounds.as_ref().is_some_and(Rounds::is_timed) && self.end_round();
            let (count, receptions) = loop {
                let count = self.wait(&mut events, if asks_first { 0 } else { timeout_ms })?;
                let receptions = self.receptions();
                if asks_first && count + receptions == 0 && self.may_wait(timeout_ms) {
                    asks_first = false;
                    continue;
                }
                break (count, receptions);
            };
            if self.rounds.is_some() {
                self.begin_round(count + receptions, asks_first);
            }
            self.state.clock.tick();
            // Also where it slept for long: deadlines begin from here.
            self.links.set_now(self.state.clock.now_ms);
            self.is_counted &= count + receptions == 0;
            // First of all: a listening socket that is still listed from before stands ahead of a change, and the
            // connection that it brings may ask for what was changed.
            if events[..count].iter().any(|event| event.u64 == WATCHES) {
                self.state.apply_changes();
            }
            self.resume_unsent();
            for i in 0..receptions {
                if i > 0 && i.is_multiple_of(EVENTS_PER_HEARING) {
                    self.state.apply_changes();
                }
                self.turn_received(i);
            }
            for (i, event) in events[..count].iter().enumerate() {
                if i > 0 && i.is_multiple_of(EVENTS_PER_HEARING) {
                    self.state.apply_changes();
                }
                // The structure is packed, so the token is copied out before it is compared.
                let token = event.u64;
                self.turn_event(token, Readiness::of(event));
            }
            if !self.again.is_empty() {
                for token in std::mem::take(&mut self.again) {
                    let readiness = self.readiness(token);
                    self.turn(token, readiness);
                }
            }
            self.resume_requests();
            if self.state.clock.now_ms >= self.next_sweep_ms {
                self.sweep();
            }
            self.finish_role_change();
            if stop.is_asked() {
                self.go_on_stopping(stop.keeps_tunnels());
            }
        }
        if let Some(log) = self.state.log.take() {
            self.state.counts().log_dropped.add_shared(log.finish());
        }
        Ok(())
    }

    /// Does what an event is for.
    #[inline]
    fn turn_event(&mut self, token: u64, readiness: Readiness) {
        match token {
            _ if token <= RESERVED && token & LINK_BIT == 0 => self.turn(token, readiness),
            _ if token <= RESERVED => self.turn_link(token, readiness),
            WATCHES => {}
            WAKER => self.drain_mailbox(),
            _ if token > LISTENERS => self.accept(token),
            _ => self.turn_datagrams(token, readiness),
        }
    }

    /// Notes when a round begins, with so many events, which were `found` when they were asked for first.
    #[inline]
    fn begin_round(&mut self, events: usize, found: bool) {
        if let Some(throttles) = &self.state.throttles {
            self.state.counts().waits.park(throttles.waiting(), self.state.clock.now_ms);
        }
        if let Some(rounds) = &mut self.rounds
            && !rounds.passes(events)
        {
            rounds.begin(events, found, &self.state.counters.0[self.state.index]);
        }
    }

    /// Notes when a round ends; whether it is to be looked what has come meanwhile before the loop sleeps.
    #[cold]
    fn end_round(&mut self) -> bool {
        let Some(rounds) = &mut self.rounds else { return false };
        rounds.end(&self.state.counters.0[self.state.index]);
        rounds.asks_first()
    }

    /// Whether there is nothing to be gone on with: what a socket did not take of what was sent comes first.
    #[cold]
    fn may_wait(&self, timeout_ms: i32) -> bool {
        timeout_ms != 0 && !self.state.ring.as_ref().is_some_and(Ring::has_news)
    }

    /// Takes up what other threads have for this loop.
    fn drain_mailbox(&mut self) {
        self.is_waked = true;
        self.move_sessions();
        let was_leaving = self.state.leaves_http3;
        let is_told = self.state.drain_mailbox();
        if self.state.watching.take_newcomers() {
            self.watch_under_way();
        }
        if self.state.leaves_http3 && !was_leaving {
            self.quic.iter_mut().for_each(|endpoint| endpoint.begin_stop(&mut self.state, &self.open));
        }
        self.change_role();
        self.resume_waiting();
        if !is_told {
            return;
        }
        for token in self.connections.tokens(Client::is_parked) {
            if let Some(connection) = self.connections.get(token) {
                connection.resume();
            }
            self.turn(token, Readiness::NONE);
        }
        for endpoint in &mut self.quic {
            endpoint.resume_parked(&mut self.state, &self.open);
        }
    }

    /// Gives the connections a turn whose applications have asked for it, behind all events of a round: a request that
    /// has waited for its turn, and whose client has left meanwhile, is not sent any more.
    fn resume_applications(&mut self) {
        for address in self.state.applications.wakes.take() {
            self.resume(address);
        }
    }

    /// Lets the request go on that uses a connection with an upstream.
    fn turn_link(&mut self, token: u64, readiness: Readiness) {
        if let Some(address) = self.links.note(token, readiness) {
            self.resume(address);
        }
    }

    /// Lets requests go on that have waited for something else than their clients, and looks at those that take long.
    #[inline]
    fn resume_requests(&mut self) {
        if self.followed.next_look_ms().is_some_and(|at_ms| at_ms <= self.state.clock.now_ms) {
            self.look_at_responses();
        }
        if std::mem::take(&mut self.is_waked) {
            self.resume_applications();
        }
        self.work_quic();
        if self.links.is_used() {
            self.resume_upstreams();
        }
    }

    /// Lets requests go on for which another one has made place, or whose time is over.
    fn resume_upstreams(&mut self) {
        let now_ms = self.state.clock.now_ms;
        if self.links.is_due(now_ms) {
            self.links.sweep(now_ms);
            self.state.router.sweep_upstreams(now_ms);
        }
        if self.links.take_stale() {
            self.state.router.drop_stale_links();
        }
        for address in self.links.take_ready() {
            self.resume(address);
        }
    }

    /// Gives a connection a turn for one of its requests.
    pub(super) fn resume(&mut self, Address { token, connection }: Address) {
        match token {
            Some(PROBE_TOKEN) => self.state.router.go_on_probe(connection),
            Some(SHARED_TOKEN) => self.links.turn_shared(connection),
            Some(KEPT_TOKEN) => self.state.router.sweep_upstreams(self.state.clock.now_ms),
            Some(BACKGROUND) => self.state.router.go_on_in_background(connection),
            Some(token) => self.turn(token, Readiness::NONE),
            None => self.quic.iter_mut().for_each(|endpoint| endpoint.resume_application(connection)),
        }
    }

    /// Gives those a turn that wait for others and have something to get now, in the order of their coming.
    fn resume_waiting(&mut self) {
        for Asker { connection: number, stream } in self.state.turns_of_waiting() {
            let Some(token) = self.waiting.remove(&number) else {
                let stream = stream.unwrap_or_default();
                self.quic.iter_mut().for_each(|endpoint| endpoint.resume_waiting(number, stream, &mut self.state));
                continue;
            };
            if let Some(connection) = self.connections.get(token).filter(|client| client.waits_as().is_some()) {
                // An application that begins now is to wake this connection.
                self.state.applications.token = token;
                connection.resume_waiting(stream, &mut self.state);
                self.turn(token, Readiness::NONE);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty() && self.closing.is_empty() && self.quic.iter().all(quic::Endpoint::is_empty)
    }

    /// Sleeps without end only where nothing has a deadline.
    fn timeout_ms(&self) -> i32 {
        let links_wait = self.links.is_used() && (self.links.has_ready() || self.links.has_closing());
        if !self.again.is_empty() || !self.closing.is_empty() || links_wait {
            return 0;
        }
        let log_is_empty = self.state.log.as_ref().is_none_or(crate::telemetry::response_log::ResponseLog::is_empty);
        let has_own = self.state.router.has_probes() || self.state.router.has_background();
        let look_ms = self.followed.next_look_ms();
        let is_idle = self.is_empty() && self.links.is_empty() && !has_own && look_ms.is_none();
        if is_idle && self.paused_until_ms.is_none() && log_is_empty && self.is_counted {
            return -1;
        }
        let next_ms = self.next_sweep_ms.min(self.links.due_ms()).min(look_ms.unwrap_or(u64::MAX));
        let sweep_ms = next_ms.saturating_sub(self.state.clock.now_ms).clamp(1, SWEEP_MS);
        let quic_ms = self.quic.iter().filter_map(quic::Endpoint::next_due).min().map_or(SWEEP_MS, |at| {
            // Rounded up, so that a timer is not looked at again and again before its time.
            let wait_ns = at.saturating_duration_since(Instant::now()).as_nanos();
            u64::try_from(wait_ns.div_ceil(1_000_000)).unwrap_or(SWEEP_MS)
        });
        i32::try_from(sweep_ms.min(quic_ms)).unwrap_or(1)
    }

    /// Lets what a token of QUIC is of do what it can.
    #[inline(never)]
    fn turn_datagrams(&mut self, token: u64, readiness: Readiness) {
        match index_of(token, QUIC) {
            Some(index) => self.turn_quic(index, readiness),
            None => self.turn_handed(token),
        }
    }

    /// Lets a socket of QUIC do what it can.
    fn turn_quic(&mut self, index: usize, readiness: Readiness) {
        let Some(endpoint) = self.quic.get_mut(index) else { return };
        if readiness.has(Readiness::ROOM) {
            endpoint.resume_output(&mut self.state, &self.open);
        }
        if readiness.has(Readiness::INPUT) {
            endpoint.receive(&mut self.state, &self.open);
        }
    }

    /// Takes in what a server that has taken the sockets of QUIC over hands on.
    #[cold]
    fn turn_handed(&mut self, token: u64) {
        let Some(index) = index_of(token, HANDED) else { return };
        let Some(endpoint) = self.quic.get_mut(index) else { return };
        if endpoint.receive_handed(&mut self.state, &self.open) {
            // Modifying what is registered allocates nothing, so it does not fail.
            let _ = self.epoll.modify(endpoint.fd(), QUIC + index as u64, endpoint.interest());
        }
    }

    /// Does what QUIC has to do without a datagram, and has the event queue tell of room where output waits for it.
    fn work_quic(&mut self) {
        for (i, endpoint) in self.quic.iter_mut().enumerate() {
            if endpoint.next_due().is_some_and(|at| at <= Instant::now()) {
                endpoint.work(&mut self.state, &self.open);
            }
            if let Some(interest) = endpoint.new_interest() {
                // Modifying what is registered allocates nothing, so it does not fail.
                let _ = self.epoll.modify(endpoint.fd(), QUIC + i as u64, interest);
            }
        }
    }

    /// Lets a connection do what it can, and remembers what it waits for.
    pub(crate) fn turn(&mut self, token: u64, readiness: Readiness) {
        let Some(connection) = self.connections.get(token) else { return };
        self.state.applications.token = token;
        let turn = connection.turn(&mut self.state, readiness);
        if turn == Turn::Close {
            return self.close(token);
        }
        if self.followed.is_resting() && connection.is_sending() {
            self.followed.begin(self.state.clock.now_ms);
        }
        if self.state.throttles.is_some()
            && let Some(number) = connection.waits_as()
        {
            self.waiting.insert(number, token);
        }
        if connection.lane() != Lane::Socket {
            return self.finish_turn_in_ring(token, turn);
        }
        if turn == Turn::Wait
            && self.state.ring.is_some()
            && !self.state.stopping
            && connection.fits_ring()
            && self.join_ring(token)
        {
            return;
        }
        let Some(connection) = self.connections.get(token) else { return };
        let (fd, interest) = (connection.fd(), connection.interest());
        if connection.registered != Some(interest) {
            if interest != Interest::Input {
                connection.before_joining = REQUESTS_BEFORE_JOINING;
            }
            let is_new = connection.registered.replace(interest).is_none();
            let registered =
                if is_new { self.epoll.add(fd, token, interest) } else { self.epoll.modify(fd, token, interest) };
            if registered.is_err() {
                self.state.counts().connections_broken.add(1);
                return self.close(token);
            }
        }
        if turn == Turn::Again {
            self.again.push(token);
        }
    }

    pub(crate) fn close(&mut self, token: u64) {
        let Some(connection) = self.connections.get(token) else { return };
        if !self.waiting.is_empty()
            && let Some(number) = connection.number()
        {
            self.waiting.remove(&number);
        }
        connection.abort(&mut self.state);
        self.open.leave(connection.socket_peer());
        if connection.is_held_elsewhere {
            self.end_held_elsewhere(token);
        }
        let Some(connection) = self.connections.get(token) else { return };
        if connection.lane() == Lane::Socket && !connection.is_staged(&self.state.ring) {
            // Where it is: to move it out first would cost more than all else here.
            self.connections.discard(token);
        } else if let Some(connection) = self.connections.remove(token) {
            self.close_in_ring(token, connection);
        }
    }

    /// Accepts what waits; each connection has its first turn at once, because its request is mostly here.
    pub(super) fn accept(&mut self, listener: u64) {
        for accepted in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(listener_index(listener)) else { return };
            if accepted > 0 {
                let [is_awaited, is_told] =
                    epoll::have_input([Some(listener.socket.as_raw_fd()), self.state.watcher.fd()]);
                // The waiting client may have come after this round's events, and have just changed a file it asks for.
                if is_told {
                    self.state.apply_changes();
                }
                if !is_awaited {
                    return;
                }
            }
            match epoll::accept(&listener.socket) {
                Ok((socket, peer)) => {
                    let (is_secure, is_passed_on) = (listener.is_secure, listener.is_passed_on);
                    self.state.counts().connections.add(1);
                    let entry = match self.open.enter(peer.ip()) {
                        Entry::Full if self.make_room() => self.open.enter(peer.ip()),
                        entry => entry,
                    };
                    if entry != Entry::Counted {
                        self.state.counts().connections_refused.add(1);
                        if !is_secure {
                            refuse(socket.into());
                        }
                        continue;
                    }
                    if is_passed_on {
                        self.accept_passed_on(socket, peer, is_secure);
                        continue;
                    }
                    let session = match self.tls.as_ref().filter(|_| is_secure) {
                        Some(config) => Session::new(config, &self.state.counters, self.state.index).ok().map(Box::new),
                        None => None,
                    };
                    if session.is_none() && is_secure {
                        // A session of a configuration that was accepted begins; without it nothing may be sent.
                        self.open.leave(peer.ip());
                        continue;
                    }
                    let transport = Transport::new(socket, session);
                    let token = self.connections.insert(Client::new(transport, peer, &self.state));
                    self.turn(token, Readiness::INPUT);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return,
                    // The client gave up while it waited, or the network did.
                    Some(libc::ECONNABORTED | libc::EINTR | libc::EPROTO | libc::ENETDOWN | libc::EHOSTUNREACH) => {}
                    // Out of descriptors or memory: the listening socket stays ready, and asking again at once
                    // would spin. The clients wait in the kernel's queue meanwhile.
                    _ => return self.pause(),
                },
            }
        }
    }

    /// Takes up a connection that a proxy passes on, if that is one that is trusted.
    #[cold]
    fn accept_passed_on(&mut self, socket: OwnedFd, peer: SocketAddr, is_secure: bool) {
        if !self.state.router.may_pass_on(peer.ip()) {
            self.state.counts().connections_refused.add(1);
            return self.open.leave(peer.ip());
        }
        let tls = self.tls.clone().filter(|_| is_secure);
        let passed_on = PassedOn::new(socket, tls, &self.state);
        let token = self.connections.insert(Client::passed_on(passed_on, peer));
        self.turn(token, Readiness::INPUT);
    }

    fn pause(&mut self) {
        self.state.counts().accept_pauses.add(1);
        self.paused_until_ms = Some(self.state.clock.now_ms + PAUSE_MS);
        self.next_sweep_ms = self.next_sweep_ms.min(self.state.clock.now_ms + PAUSE_MS);
        self.listen(Interest::Paused);
    }

    fn listen(&self, interest: Interest) {
        for (i, listener) in self.listeners.iter().enumerate() {
            // Modifying what is registered allocates nothing, so it does not fail.
            let _ = self.epoll.modify(listener.socket.as_raw_fd(), listener_token(i), interest);
        }
    }

    /// Asks the requests that wait for others again, as some may have waited long enough.
    fn ask_again(&mut self) {
        if self.state.has_waiting() {
            self.drain_mailbox();
        }
    }

    /// What is done now and then: deadlines, the log, the end of a pause.
    fn sweep(&mut self) {
        let now_ms = self.state.clock.now_ms;
        self.next_sweep_ms = now_ms + SWEEP_MS;
        if self.paused_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            self.paused_until_ms = None;
            self.listen(Interest::Level);
        }
        self.ask_again();
        self.links.sweep(now_ms);
        self.state.router.sweep_upstreams(now_ms);
        self.state.router.ask_again(&self.state.counters.0[self.state.index]);
        for token in
            self.connections.tokens(|connection| connection.is_leaving(now_ms) || connection.is_kept_waiting(now_ms))
        {
            self.turn(token, Readiness::NONE);
        }
        for token in self.connections.tokens(|connection| connection.is_due(now_ms)) {
            if let Some(connection) = self.connections.get(token) {
                connection.expire(&mut self.state);
            }
            self.close(token);
        }
        self.quic.iter_mut().for_each(|endpoint| endpoint.sweep(&mut self.state, &self.open));
        if self.stop_deadline_ms <= now_ms {
            self.cut_off(now_ms);
        }
        if let Some(log) = &mut self.state.log {
            log.hand_over();
        }
        self.take_census();
    }

    /// The time of responses is over, and perhaps that of tunnels.
    #[cold]
    fn cut_off(&mut self, now_ms: u64) {
        self.state.controls.end();
        let ends_tunnels = self.tunnels_deadline_ms <= now_ms;
        for endpoint in &mut self.quic {
            if ends_tunnels {
                endpoint.abort(&mut self.state, &self.open);
            } else {
                endpoint.abort_responses(&mut self.state, &self.open);
            }
        }
        for token in self.connections.tokens(|connection| ends_tunnels || !connection.has_tunnels()) {
            if self.connections.get(token).is_some_and(|connection| connection.is_sending()) {
                self.state.counts().stop_aborted.add(1);
            }
            self.close(token);
        }
    }

    fn take_census(&mut self) {
        let mut census = Census::default();
        self.connections.iter().for_each(|connection| connection.count(&mut census));
        self.quic.iter().for_each(|endpoint| endpoint.count(&mut census));
        (census.cache_bytes, census.cache_entries) = self.state.router.fill();
        (census.pinned_bytes, census.pinned_entries) = self.state.router.pinned();
        self.state.counts().board.put(&census);
        self.is_counted = true;
    }

    /// Begins to stop where it has not, and has tunnels end soon that were to be kept, where that was revoked.
    #[cold]
    fn go_on_stopping(&mut self, keeps_tunnels: bool) {
        let now_ms = self.state.clock.now_ms;
        let after = |time: Duration| now_ms.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        if !self.state.stopping || self.role.is_leaving() {
            self.begin_stop();
            let timeouts = &self.state.timeouts;
            self.stop_deadline_ms = after(timeouts.stop);
            let kept = if keeps_tunnels { timeouts.tunnels_kept.max(timeouts.stop) } else { timeouts.stop };
            self.tunnels_deadline_ms = after(kept);
            self.keeps_tunnels = keeps_tunnels;
        }
        if std::mem::replace(&mut self.keeps_tunnels, keeps_tunnels) && !keeps_tunnels {
            self.tunnels_deadline_ms = self.tunnels_deadline_ms.min(after(self.state.timeouts.stop));
        }
    }

    /// Takes what has arrived already, then no more; idle connections close, the others finish their response.
    fn begin_stop(&mut self) {
        self.state.stopping = true;
        let serves = self.role.serves();
        self.role = LoopRole::Steady;
        for i in (0..self.listeners.len()).filter(|&i| serves && !self.listeners[i].is_inherited).collect::<Vec<_>>() {
            // As much as the kernel's queue can hold; without anything in it a call costs next to nothing.
            (0..BACKLOG_MAX / ACCEPTS_MAX).for_each(|_| self.accept(listener_token(i)));
        }
        for listener in &self.listeners {
            // If another server has the socket too, epoll would report it as long as that server runs.
            let _ = self.epoll.remove(listener.socket.as_raw_fd());
        }
        self.listeners.clear();
        self.paused_until_ms = None;
        for token in self.connections.tokens(|_| true) {
            // What has arrived for those on the ring comes with the last completions, and then their turn.
            self.leave_ring(token);
            if self.connections.get(token).is_some_and(|connection| connection.lane() == Lane::Socket) {
                self.turn(token, Readiness::INPUT);
            }
        }
        for endpoint in &mut self.quic {
            endpoint.begin_stop(&mut self.state, &self.open);
        }
    }
}

/// Requests without waiting for room, after which a connection that left joins again.
pub(crate) const REQUESTS_BEFORE_JOINING: u8 = 16;
