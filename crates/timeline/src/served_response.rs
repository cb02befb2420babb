//! Exchanges told as responses: the server's side alone, by the same walk as where a client is joined.

use crate::counts::Unjoinable;
use crate::join::{AtServer, Joiner, Response};
use crate::known::Known;
use crate::messages::{Life, LongKind};
use crate::path::{Span, Walk};
use crate::phases::PhaseStretch;
use crate::served::{Arrival, Carrier, End, Exchange, MOST_NAMES, Parked, Sort};
use crate::server_end::ServerEnd;
use crate::step::Step;
use std::sync::Arc;
use weir_wire::Record;
use weir_wire::client::{ClientRequest, Outcome};
use weir_wire::socket::{OLDER, SocketOpen};
use weir_wire::trace_context::TraceContext;

/// Flag of [`weir_wire::Kind::Window`]: the window ends.
const WINDOW_ENDS: u8 = 1;

/// What is told of an exchange beside who asked.
#[derive(Clone, Copy)]
struct Told<'a> {
    steps: &'a [Step],
    phases: &'a [PhaseStretch],
    server: Option<AtServer>,
    unjoinable: Option<Unjoinable>,
    trace: Option<TraceContext>,
}

type Take<'a> = dyn FnMut(&Joiner, &Response<'_>) + 'a;

impl Joiner {
    pub(crate) fn serve_open(&mut self, open: &SocketOpen, record: &Record) {
        let port = open.local.port();
        let server_side = self.sockets.get(open.socket).is_some_and(|socket| socket.server_side);
        // Whether it is a client's connection, an older one shows by its first arrival.
        if let Some(served) = &mut self.served
            && (server_side || self.window_ns.is_some())
        {
            // Of one that was used before, the beginning was not seen whenever it is told.
            let in_window = self.window_ns.is_some_and(|begin_ns| record.time_ns >= begin_ns);
            served.open(open.socket, port, in_window && record.flags & OLDER == 0);
        }
    }

    /// A window of the recording begins or ends.
    pub(crate) fn window(&mut self, record: &Record, take: &mut Take<'_>) {
        if record.flags & WINDOW_ENDS == 0 {
            self.window_ns = Some(record.b);
            return;
        }
        if self.served.is_none() {
            return;
        }
        self.window_ns = None;
        self.edge(record.b, take);
        // Until the next window begins, anything may happen to anybody.
        self.statistics.gaps += std::mem::take(&mut self.tasks).gaps();
        self.sockets.clear();
    }

    /// What is under way at the end of a recording or a window is over or cut.
    pub(crate) fn edge(&mut self, at_ns: u64, take: &mut Take<'_>) {
        let Some(served) = &mut self.served else { return };
        served.edge(at_ns);
        self.edge_ns = at_ns;
        self.tell_over(u64::MAX, take);
        for socket in self.streams.long().under_way() {
            self.close_long(socket, true);
        }
        self.streams.long().forget();
        for (stream, end) in self.streams.edge() {
            self.tell(stream, end, take);
        }
        for (request, end) in self.quic.edge() {
            self.tell(request, end, take);
        }
    }

    /// Tells the exchanges that are over; where the recording tells what is asked behind, those whose questions have come.
    pub(crate) fn tell_served(&mut self, take: &mut Take<'_>) {
        let come_ns = self.last_ns.saturating_sub(self.bounds.grace_ns);
        self.tell_over(if self.questions.is_active() { come_ns } else { u64::MAX }, take);
    }

    fn tell_over(&mut self, until_ns: u64, take: &mut Take<'_>) {
        while let Some((exchange, end)) = self.served.as_mut().and_then(|served| served.next_over(until_ns)) {
            self.tell(exchange, end, take);
        }
        if self.served.is_none() {
            return;
        }
        while let Some(request) = self.quic.next_over() {
            self.tell(request, End::Told, take);
        }
        while let Some(mut stream) = self.streams.next_over(self.last_ns) {
            // On two CPUs a task may take bytes before their arrival has told of itself.
            stream.arrival = stream.arrival.or_else(|| {
                let mark = self.sockets.get(stream.socket)?.ready.first_past(stream.from)?;
                let (at_ns, position, not_accepted) = (mark.at_ns, mark.position, mark.not_accepted);
                (at_ns <= stream.sent?.last_ns).then_some(Arrival { at_ns, position, not_accepted })
            });
            self.tell(stream, End::Told, take);
        }
    }

    /// A connection has closed.
    pub(crate) fn close_streams(&mut self, at_ns: u64, socket: u32) {
        self.close_long(socket, false);
        self.streams.close(at_ns, socket);
    }

    /// A WebSocket is over, or the recording ends before it.
    pub(crate) fn close_long(&mut self, socket: u32, is_open: bool) {
        let port = self.sockets.get(socket).map_or(0, |known| known.open.local.port());
        self.streams.long().close(socket, is_open, || Arc::from(format!(":{port}")));
    }

    /// Keeps the memory of the server's side within its bounds; the oldest time that may still be asked for.
    pub(crate) fn sweep_served(&mut self, now_ns: u64) -> Option<u64> {
        let Self { served, tasks, sockets, conversations, phases, .. } = self;
        let served = served.as_mut()?;
        served.sweep(now_ns, |exchange| {
            let parked = exchange.parked.clone().unwrap_or_default();
            steps_of(Known { tasks, sockets, conversations, phases }, exchange, parked)
        })
    }

    fn tell(&mut self, mut exchange: Exchange, end: End, take: &mut Take<'_>) {
        let sort = exchange.sort(end);
        let open = self.sockets.get(exchange.socket).map(|socket| socket.open);
        let tells_inner = self.served.as_ref().is_some_and(|served| served.tells_inner);
        let inner = !tells_inner && open.is_some_and(|open| self.sockets.is_asked_by_traced(&open));
        if !inner && matches!(sort, Sort::Response | Sort::Cut) && self.takes_events(&exchange, open, end) {
            return;
        }
        let Some(served) = &mut self.served else { return };
        let counts = &mut served.counts;
        match sort {
            _ if inner => counts.inner += 1,
            Sort::Unanswered => served.note_unanswered(open.as_ref().map(ServerEnd::from)),
            Sort::Handshake => {
                counts.handshakes += 1;
                let last_ns = exchange.sent.map_or(0, |sent| sent.last_ns);
                counts.handshakes_ns += last_ns.saturating_sub(exchange.begun_ns());
            }
            Sort::Cut => {
                counts.cut += 1;
                self.give_cut(&exchange, open, take);
            }
            Sort::Http2 => {
                counts.http2 += 1;
                self.statistics.requests += 1;
                self.statistics.unjoinable[Unjoinable::Http2 as usize] += 1;
            }
            Sort::NoArrival => {
                let gap = self.tasks.had_gap(exchange.begun_ns().saturating_sub(self.bounds.grace_ns), self.last_ns);
                let reason = if gap { Unjoinable::Gap } else { Unjoinable::NoArrival };
                self.statistics.requests += 1;
                self.statistics.unjoinable[reason as usize] += 1;
            }
            Sort::Response => {
                counts.add(&exchange);
                let parked = exchange.parked.take().unwrap_or_default();
                let mut steps = steps_of(self.known(), &exchange, parked).steps;
                self.refine(&mut steps, 0);
                let Some(span) = span_of(&exchange) else { return };
                if exchange.stream == 0 {
                    self.put_carried(&mut steps, 0, (exchange.socket, span.begun_ns));
                }
                self.questions.name(&mut steps, exchange.socket, &self.tasks, &mut self.texts);
                let mut phases = Vec::new();
                if !self.phases.is_empty() {
                    self.phases.name_queries(&mut steps);
                    self.phases.stretches(&steps, exchange.socket, span.arrived_ns, &mut phases);
                    let told = self.phases.transaction(&steps, span.picked_ns, span.sent_ns);
                    // Of streams several are taken up at a time, and each has its head.
                    let by_task = || self.phases.request(span.picker, span.picked_ns, span.sent_ns);
                    let told = told.or_else(|| if exchange.stream == 0 { by_task() } else { None });
                    exchange.name = told.map(|number| Arc::from(self.texts.text(number))).or(exchange.name);
                }
                if let Some(name) = exchange.name.as_ref().filter(|_| exchange.stream == 0) {
                    self.streams.long().name(exchange.socket, name);
                }
                let request = self.request_of(&exchange, span.arrived_ns, span.sent_ns);
                let Span { socket, arrived_ns, picked_ns, sent_ns, .. } = span;
                let at = AtServer { socket, arrived_ns, picked_ns, sent_ns };
                self.count_joined(at, request.response_bytes);
                if let Some(socket) = self.sockets.get_mut(exchange.socket).filter(|_| exchange.stream == 0) {
                    socket.forget(exchange.to, exchange.sent.map_or(0, |sent| sent.to));
                }
                let trace = self.trace_of(&exchange, at, span.picker);
                let told = Told { steps: &steps, phases: &phases, server: Some(at), unjoinable: None, trace };
                self.give(&exchange, open, &request, told, take);
            }
        }
    }

    fn count_joined(&mut self, at: AtServer, bytes: u64) {
        let (first_ns, last_ns) = self.statistics.client_ns.unwrap_or((at.arrived_ns, 0));
        self.statistics.client_ns = Some((first_ns.min(at.arrived_ns), last_ns.max(at.sent_ns)));
        self.statistics.requests += 1;
        self.statistics.joined += 1;
        self.statistics.bytes = self.statistics.bytes.saturating_add(bytes);
    }

    /// Gives a response that the recording's edge cuts.
    fn give_cut(&mut self, exchange: &Exchange, open: Option<SocketOpen>, take: &mut Take<'_>) {
        let request = self.request_of(exchange, exchange.begun_ns(), self.edge_ns.max(exchange.begun_ns()));
        let told = Told { steps: &[], phases: &[], server: None, unjoinable: Some(Unjoinable::Edge), trace: None };
        self.give(exchange, open, &request, told, take);
    }

    /// The trace that a request over HTTP/2, or over TLS, names itself.
    fn trace_of(&self, exchange: &Exchange, at: AtServer, picker: u32) -> Option<TraceContext> {
        // A task that serves others in the clear beside takes their heads elsewhere.
        let is_its_own = exchange.stream == 0 && exchange.encrypted;
        let by_task = || self.traces.of_task(picker, at.picked_ns, at.sent_ns);
        exchange.trace.or_else(|| if is_its_own { by_task() } else { None })
    }

    /// Takes a response of HTTP/1.1 aside that is made of events; whether it is such a one.
    fn takes_events(&mut self, exchange: &Exchange, open: Option<SocketOpen>, end: End) -> bool {
        let Some(life) = exchange.events.as_deref().filter(|life| life.sent.count > 1) else { return false };
        let last_ns = exchange.sent.map_or(exchange.picked_ns, |sent| sent.last_ns);
        let told = match self.phases.is_empty() {
            true => None,
            false => self.phases.request(exchange.picker, exchange.picked_ns, last_ns),
        };
        let name = told.map(|number| Arc::from(self.texts.text(number))).or_else(|| exchange.name.clone());
        let port = || Arc::from(format!(":{}", open.map_or(0, |open| open.local.port())));
        let life = Life { begun_ns: exchange.begun_ns(), last_ns, ..life.clone() };
        // Nothing tells that it is over but its connection's next request, or end.
        self.streams.long().tell(LongKind::Events, &name.unwrap_or_else(port), &life, end != End::Told);
        true
    }

    fn give(
        &mut self,
        exchange: &Exchange,
        open: Option<SocketOpen>,
        request: &ClientRequest,
        told: Told<'_>,
        take: &mut Take<'_>,
    ) {
        let name = match (&exchange.name, open) {
            (Some(name), _) => Arc::clone(name),
            (None, Some(open)) if exchange.stream != 0 => {
                Arc::from(format!("{} (a stream of HTTP/2 whose name is not known)", self.name_of(&open)))
            }
            (None, Some(open)) => self.name_of(&open),
            (None, None) => Arc::clone(&self.nameless),
        };
        let Told { steps, phases, server, unjoinable, trace } = told;
        let (client, server_end) = (open.map(|open| open.remote), open.as_ref().map(ServerEnd::from));
        take(self, &Response { request, client, server_end, name: &name, steps, phases, server, unjoinable, trace });
    }

    /// The port, and the network namespace where several have it.
    fn name_of(&mut self, open: &SocketOpen) -> Arc<str> {
        let port = open.local.port();
        if let Some(name) = self.names.get(&(open.netns, port)) {
            return Arc::clone(name);
        }
        let other = self.names.keys().any(|(netns, known)| *known == port && *netns != open.netns);
        let name: Arc<str> = match other {
            true => Arc::from(format!(":{port} in network namespace {}", open.netns)),
            false => Arc::from(format!(":{port}")),
        };
        if self.names.len() < MOST_NAMES {
            self.names.insert((open.netns, port), Arc::clone(&name));
        }
        name
    }

    /// The request as a client at the server's own socket would have told it.
    fn request_of(&self, exchange: &Exchange, arrived_ns: u64, done_ns: u64) -> ClientRequest {
        let sent = exchange.sent;
        ClientRequest {
            connection: u64::from(exchange.socket),
            intended_ns: arrived_ns,
            started_ns: arrived_ns,
            sent_ns: arrived_ns,
            first_byte_ns: sent.map_or(0, |sent| sent.first_ns.clamp(arrived_ns, done_ns)),
            done_ns,
            request_offset: exchange.from,
            request_bytes: u32::try_from(exchange.to.saturating_sub(exchange.from)).unwrap_or(u32::MAX),
            response_offset: sent.map_or(0, |sent| sent.from),
            response_bytes: sent.map_or(0, |sent| sent.to.saturating_sub(sent.from)),
            status: exchange.status,
            name: 0,
            outcome: Outcome::Done,
            opened_connection: exchange.ordinal == Some(0),
            encrypted: exchange.encrypted,
            retried: false,
            http_version: match (exchange.carrier, exchange.stream) {
                (Carrier::Quic, _) => 3,
                (Carrier::Tcp, 0) => 0,
                (Carrier::Tcp, _) => 2,
            },
            stream: exchange.stream,
        }
    }
}

/// When an answered exchange was where; its times ascend.
fn span_of(exchange: &Exchange) -> Option<Span> {
    let (sent, arrival) = (exchange.sent?, exchange.arrival?);
    // On two CPUs the task that takes may tell of itself before the arrival does.
    let arrived_ns = arrival.at_ns;
    let picked_ns = exchange.picked_ns.max(arrived_ns);
    let begun_ns = exchange.answered_ns.max(picked_ns);
    Some(Span {
        socket: exchange.socket,
        arrived_ns,
        not_accepted: arrival.not_accepted,
        picked_ns,
        picker: exchange.picker,
        begun_ns,
        sent_ns: sent.last_ns.max(begun_ns),
        sender: sent.pid,
    })
}

/// The steps of an answered exchange up to its last send so far, after those that are known already.
fn steps_of(known: Known<'_>, exchange: &Exchange, mut parked: Parked) -> Parked {
    let Some(span) = span_of(exchange) else { return parked };
    if parked.until_ns >= span.sent_ns {
        return parked;
    }
    let from = parked.steps.len();
    let mut walk = Walk { known, span, steps: &mut parked.steps, waiter: 0, depth: 0 };
    match parked.until_ns {
        0 => walk.server(),
        until_ns => walk.rest(until_ns),
    }
    parked.steps[from..].sort_by_key(|step| step.from_ns);
    parked.until_ns = span.sent_ns;
    parked
}
