//! What the connections of a loop share: the sites, the counters, the log, and memory that is used again.

use crate::config::options::Options;
use crate::counters::{Counters, LoopCounters};
use crate::exchange::application::Applications;
use crate::exchange::error_page::{self, Extra};
use crate::exchange::life::{Exchange, Source};
use crate::exchange::wakes::Wakes;
use crate::files::head::Persistence;
use crate::files::watcher::Watcher;
use crate::http::fields::Fields as RequestFields;
use crate::http::limits::{Limits, Timeouts};
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::loop_state::watching::{AskedAside, StreamOf, Watching, respond_aside};
use crate::policy::client_peer::ClientPeer;
use crate::policy::control::Controls;
use crate::policy::throttle::{Asker, Gate, Throttles};
use crate::process::reload::Reloads;
use crate::routing::Router;
use crate::routing::fields::Fields;
use crate::telemetry::arm_requests::{ArmRequests, Owed, Received};
use crate::telemetry::response_log::ResponseLog;
use crate::transport::ring::Ring;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use weir_wire::static_probe;

/// Pipelined responses that go out together.
pub(crate) const BATCH_MAX: usize = 16;

/// Bytes of memory of a head that are kept for another one.
const KEPT_HEAD_BYTES_MAX: usize = 8 << 10;

/// What the connections of a loop share; all of it is memory that is used again and again.
#[derive(Debug)]
pub(crate) struct LoopState {
    pub(crate) clock: Clock,
    pub(crate) router: Router,
    /// The access log and the history of requests, where there is either.
    pub(crate) log: Option<ResponseLog>,
    pub(crate) arm: Option<ArmRequests>,
    /// Ends of responses that wait for the ring's next call, with the tokens of their connections.
    pub(crate) owed: Vec<(u64, Owed)>,
    /// What responses over TLS say of HTTP/3, once in each connection; empty = it is not spoken.
    pub(crate) alt_svc: Fields,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// Whether connections may go on at another server.
    pub(crate) moves_sessions: bool,
    pub(crate) counters: Counters,
    /// Which of the counters are this loop's.
    pub(crate) index: usize,
    pub(crate) stopping: bool,
    /// Connections that were begun, with the number of the loop above them.
    connections_begun: Cell<u64>,
    /// Where another configuration comes from, and which one holds.
    pub(crate) reloads: Arc<Reloads>,
    generation: u64,
    /// Orders of others, and how new those are that it has taken up.
    pub(crate) controls: Arc<Controls>,
    controls_generation: u64,
    /// Reserve loops that are to serve.
    pub(crate) loops_more: u32,
    /// Whether clients of HTTP/3 are told to go.
    pub(crate) leaves_http3: bool,
    pub(crate) applications: Applications,
    /// Bounds on what is under way; none without any.
    pub(crate) throttles: Option<Throttles>,
    /// Requests that an operator watches.
    pub(crate) watching: Watching,
    /// What tells of changed files.
    pub(crate) watcher: Rc<Watcher>,
    pub(crate) input: Box<[u8]>,
    pub(crate) batch: Vec<Exchange>,
    pub(crate) copied: Vec<u8>,
    /// Where there is io_uring.
    pub(crate) ring: Option<Ring>,
    /// Fields of the request that is read, for HTTP/2 and HTTP/3.
    pub(crate) fields: RequestFields,
    /// Frames that are put together to go out at once, for HTTP/2.
    pub(crate) out: Vec<u8>,
}

impl LoopState {
    pub(crate) fn new(
        router: Router,
        log: Option<ResponseLog>,
        arm: Option<ArmRequests>,
        options: &Options,
        counters: Counters,
        index: usize,
        (reloads, watcher, wakes): (Arc<Reloads>, Rc<Watcher>, Arc<Wakes>),
    ) -> Self {
        let (limits, timeouts) = (options.limits.clone(), options.timeouts.clone());
        let applications = Applications::new(wakes, timeouts.application);
        // Twice the largest head, so that what is left of one input always leaves room for more.
        let input_bytes = (2 * limits.head_bytes_max).max(64 << 10);
        Self {
            clock: Clock::new(),
            router,
            log,
            arm,
            owed: Vec::new(),
            alt_svc: Fields::default(),
            limits,
            timeouts,
            moves_sessions: options.moves_sessions,
            counters,
            index,
            stopping: false,
            connections_begun: Cell::new((index as u64) << 48),
            reloads,
            generation: 0,
            controls: Arc::default(),
            controls_generation: 0,
            loops_more: 0,
            leaves_http3: false,
            applications,
            throttles: None,
            watching: Watching::default(),
            watcher,
            input: vec![0; input_bytes].into(),
            batch: (0..BATCH_MAX).map(|_| Exchange::default()).collect(),
            copied: Vec::new(),
            ring: None,
            fields: RequestFields::default(),
            out: Vec::new(),
        }
    }

    /// Takes note of files that have changed.
    pub(crate) fn apply_changes(&mut self) {
        self.router.apply_changes(&self.watcher, &self.counters.0[self.index]);
    }

    /// A number for a connection that no other connection of any loop has.
    #[inline]
    pub(crate) fn next_connection(&self) -> u64 {
        let number = self.connections_begun.get() + 1;
        self.connections_begun.set(number);
        number
    }

    #[inline]
    pub(crate) fn counts(&self) -> &LoopCounters {
        &self.counters.0[self.index]
    }

    /// Takes up what came from other threads; whether connections that wait for a password have something to go on
    /// with.
    pub(crate) fn drain_mailbox(&mut self) -> bool {
        self.take_orders();
        if let Some(options) = self.reloads.newer(&mut self.generation) {
            self.limits = Limits { connections_max: self.limits.connections_max, ..options.limits.clone() };
            // The memory for input was made for the first bound.
            self.limits.head_bytes_max = self.limits.head_bytes_max.min(self.input.len() / 2);
            self.timeouts = options.timeouts.clone();
            self.applications.set_patience(self.timeouts.application);
            if let (Some(log), Some(wanted)) = (&mut self.log, &options.access_log) {
                log.change(wanted);
            }
            let taken_up = match &options.hosts {
                Some(rules) => self.router.reload(Arc::clone(&rules.0), &options.site_bounds(), &options.site_word),
                None => self.router.follow(&self.reloads.place().directory(), &self.counters.0[self.index]),
            };
            if taken_up.is_err() {
                self.counts().reload_failed.add(1);
            }
            match &mut self.throttles {
                Some(throttles) => throttles.take_up(&options.throttles),
                None => self.throttles = Throttles::new(&options.throttles, Arc::clone(&self.controls), self.index),
            }
            // What they wait for may be another password now.
            self.router.take_mail(&self.clock);
            return true;
        }
        self.router.take_mail(&self.clock)
    }

    /// Whether requests wait for others to be over.
    pub(crate) fn has_waiting(&self) -> bool {
        self.throttles.as_ref().is_some_and(Throttles::has_waiting)
    }

    /// The waiting requests that now get a place, or have waited too long, in the order of their arrival.
    pub(crate) fn turns_of_waiting(&mut self) -> Vec<Asker> {
        self.throttles.as_mut().map(|throttles| throttles.turns(self.clock.now_ms)).unwrap_or_default()
    }

    /// Drops a connection, or one stream of it, from those that wait for others to be over; how many did.
    pub(crate) fn remove_waiting(&mut self, connection: u64, stream: Option<u64>) -> u64 {
        self.throttles.as_mut().map_or(0, |throttles| throttles.forget(connection, stream))
    }

    /// The same where the client has gone away; whether any did.
    pub(crate) fn remove_gone(&mut self, connection: u64, stream: Option<u64>) -> bool {
        let gone = self.remove_waiting(connection, stream);
        self.counts().throttle_gone.add(gone);
        gone > 0
    }

    /// Does as it is ordered, and some of what is to be loaded; the rest when it is woken again, behind the requests
    /// until then.
    fn take_orders(&mut self) {
        if let Some(orders) = self.controls.newer(&mut self.controls_generation) {
            // The program that gave the order may have other rules than before.
            self.router.ask_again(&self.counters.0[self.index]);
            self.router.carry_out(&orders);
            self.loops_more = orders.loops_more;
            self.leaves_http3 = orders.leaves_http3;
        }
        if let Some(is_watched) = self.watching.take_up(self.index) {
            let controls = Arc::clone(&self.controls);
            self.throttles = Throttles::watched(self.throttles.take(), is_watched, controls, self.index);
        }
        let counts = &self.counters.0[self.index];
        if self.router.warm_some(&self.clock, counts) {
            self.controls.wake(self.index);
        }
    }

    /// Makes the response to a request of a stream, and begins what is said of it elsewhere; false if it is to be asked
    /// about again, as it waits for others to be over.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        request: &Request<'_>,
        (address, peer, stream): (SocketAddr, &ClientPeer<'_>, u64),
        received: &mut Received,
        exchange: &mut Exchange,
    ) -> bool {
        let Self { router, clock, log, arm, counters, index, throttles, watching, .. } = self;
        let counts = &counters.0[*index];
        let mut seen = *peer;
        router.see(request, &mut seen);
        let (peer, socket, address) = (&seen, address, seen.address(address));
        static_probe!("route");
        let asker = Asker { connection: peer.connection, stream: Some(stream) };
        match throttles.as_mut().map(|throttles| {
            let mut user = || router.user(request, peer, clock);
            throttles.ask((request, &mut user), asker, clock.now_ms, counts)
        }) {
            Some(Gate::Wait) => return false,
            Some(Gate::Aside(aside)) => {
                let asked = AskedAside { request, peer, socket, stream: Some(stream), persistence: Persistence::Stays };
                respond_aside(aside, &asked, (watching, router, &mut *arm), (clock, counts), exchange);
            }
            Some(Gate::Open(place)) => {
                exchange.record.place = place;
                router.respond(request, peer, Persistence::Stays, clock, counts, exchange);
            }
            None => router.respond(request, peer, Persistence::Stays, clock, counts, exchange),
        }
        counts.count(exchange.status);
        if let Some(log) = log {
            log.begin(&mut exchange.record.log, Some(request), address.ip(), exchange.status, clock);
        }
        if let Some(arm) = arm {
            exchange.record.arm = arm.begin(request, || exchange.answered(), address, received);
            counts.arm_told.add(u64::from(exchange.record.arm.is_told()));
        }
        true
    }

    /// The same for what is no request that could be answered.
    #[cold]
    pub(crate) fn answer_unfit(&mut self, status: u16, from: &StreamOf<'_>, exchange: &mut Exchange) {
        error_page::write(exchange, status, Extra::default(), &self.clock, Persistence::Stays);
        self.counts().count(status);
        if let Some(log) = &mut self.log {
            log.begin(&mut exchange.record.log, None, from.socket.ip(), status, &self.clock);
        }
        self.watching.see_unfit(&from.network(), exchange);
    }

    /// Takes a response off the way: counts and logs it, and makes its place free for the next one.
    #[inline]
    pub(crate) fn finish(&mut self, place: usize) {
        // In its place: to move it out and in again would cost more than all the rest.
        let counts = &self.counters.0[self.index];
        finish_in(&mut self.log, counts, &mut self.batch[place]);
    }

    /// The same of one that has left its place.
    #[inline]
    pub(crate) fn finish_one(&mut self, exchange: &mut Exchange) {
        finish_in(&mut self.log, &self.counters.0[self.index], exchange);
    }

    /// Takes the memory of a head that was sent, for that of the next request whose response has to be waited for.
    pub(crate) fn take_memory(&mut self, exchange: &mut Exchange) {
        let head = &mut self.batch[0].response.head;
        if head.capacity() == 0 && exchange.response.head.capacity() <= KEPT_HEAD_BYTES_MAX {
            std::mem::swap(head, &mut exchange.response.head);
            head.clear();
        }
    }
}

/// What only a request of an application has at its end: its counts, and a status for one whose client has gone before
/// there was any.
#[cold]
fn finish_application(counts: &LoopCounters, exchange: &mut Exchange) {
    if exchange.status == 0 {
        exchange.say_gone();
    }
    counts.applications.add(1);
    counts.count_class(exchange.status);
    let is_finished = exchange.is_finished();
    match &exchange.source {
        Source::Application(by) if by.streamed.has_failed() => counts.applications_failed.add(1),
        Source::Application(by) if by.streamed.is_cancelled() || !is_finished => counts.applications_cancelled.add(1),
        _ => {}
    }
}

#[inline]
fn finish_in(log: &mut Option<ResponseLog>, counts: &LoopCounters, exchange: &mut Exchange) {
    if matches!(exchange.source, Source::Application(_)) {
        finish_application(counts, exchange);
    }
    if let Some(host) = &exchange.record.log.host {
        host.count(exchange.status, exchange.sent_bytes());
    }
    if let Some(log) = log
        && let (body_bytes, all_bytes) = (exchange.body_sent_bytes(), exchange.sent_bytes())
        && !log.end(&mut exchange.record.log, body_bytes, all_bytes)
    {
        counts.log_dropped.add_shared(1);
    }
    if exchange.record.watched.is_some() {
        exchange.finish_watched();
    }
    if exchange.record.arm.is_told() {
        exchange.end_told();
    }
    exchange.finish();
}
