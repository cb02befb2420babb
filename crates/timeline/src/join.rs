//! Joins the client's requests with what happened at the server's sockets, by connection and byte offset.

use crate::answers;
use crate::carried::CarriedWaits;
use crate::conversations::{Conversations, Dealing};
use crate::counts::{Statistics, Unjoinable};
use crate::known::Known;
use crate::notes::Notes;
use crate::phases::{Ended, PhaseName, PhaseStretch, Phases};
use crate::questions::{QuestionRun, Questions};
use crate::quic::QuicStreams;
use crate::served::{Arrival, Exchanges, Served};
use crate::server_end::ServerEnd;
use crate::sockets::{Socket, Sockets};
use crate::step::{Step, push_step};
use crate::streams::{Streams, Turn};
use crate::task_names::TaskName;
use crate::tasks::{State, Tasks, Touch, Verb, WokenIn};
use crate::texts::Texts;
use crate::traces::Traces;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use weir_measure::part::Part;
use weir_wire::client::{ClientConnection, ClientRequest};
use weir_wire::quic::Quic;
use weir_wire::socket::{
    ACCEPTED, END_OF_STREAM, ERROR, FAR, HELD_BACK, HTTP2, NO_POSITION, NOT_ACCEPTED, PEEK, SocketOpen, SocketState,
    TLS,
};
use weir_wire::stream::{StreamFrame, StreamHead, frame_type};
use weir_wire::task::{CARRIES, Switch, TaskState, WAS_FROZEN};
use weir_wire::trace_context::{TraceContext, TraceOf};
use weir_wire::{Kind, Record, Slot, text_from_slots};

mod at_server;
mod client_side;
mod requests;

use requests::{Connection, Waiting};

/// Bounds of the joiner's memory.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// After a request's end its socket's last events may still come: the client can be faster than the server's return
    /// from its send. Nanoseconds.
    pub grace_ns: u64,
    /// The same where the server's last send is missing although the rest was seen: its CPU may be taken away before the
    /// send returns, in a virtual machine above all. Nanoseconds.
    pub late_ns: u64,
    /// A closed connection is kept so long for requests that were not yet told, nanoseconds.
    pub closed_ns: u64,
    /// Client connections that are remembered although they may be over.
    pub connections: usize,
    /// Changes of tasks that are remembered; where a long request would need more, the oldest are not attributed.
    pub changes: usize,
    /// So often it is looked at what may be forgotten: records.
    pub sweep_records: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // Three beats of the collector: what it tells from user space comes after the events that it is about.
            grace_ns: 60_000_000,
            late_ns: 500_000_000,
            closed_ns: 2_000_000_000,
            connections: 1 << 17,
            changes: 1 << 23,
            sweep_records: 1 << 16,
        }
    }
}

/// How often it is looked for a send that is late, nanoseconds.
const LOOK_AGAIN_NS: u64 = 1_000_000;
/// Lanes of generators whose task is remembered; more are damage.
const MOST_LANES: usize = 1 << 16;
/// Kinds whose lane is a CPU.
const KERNEL: std::ops::Range<u16> = Kind::Switch as u16..Kind::ClientConnection as u16;

/// When a request was where at the server; the times ascend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtServer {
    /// The number of the server's socket.
    pub socket: u32,
    /// Its first byte arrived.
    pub arrived_ns: u64,
    /// A task took it.
    pub picked_ns: u64,
    /// The last send of its response.
    pub sent_ns: u64,
}

/// A response, joined or not, its time divided into steps that follow each other without a gap.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// What the client said.
    pub request: &'a ClientRequest,
    /// The client's end of its connection, if that is known.
    pub client: Option<SocketAddr>,
    /// The server's end, where the response is told from the server's sockets.
    pub server_end: Option<ServerEnd>,
    /// Method and target.
    pub name: &'a str,
    /// Its steps, in their order, from the intended time to the end.
    pub steps: &'a [Step],
    /// Its stretches in phases of the servers' own work, as far as probes told of them.
    pub phases: &'a [PhaseStretch],
    /// Its times at the server, if it is joined.
    pub server: Option<AtServer>,
    /// Why it is not joined, if it is not.
    pub unjoinable: Option<Unjoinable>,
    /// The trace that it names itself, where it is a stream of HTTP/2 or came through a TLS library, and reading heads was
    /// allowed.
    pub trace: Option<TraceContext>,
}

impl Response<'_> {
    /// The response time: from the intended time to the last byte, nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.request.done_ns.saturating_sub(self.request.intended_ns)
    }
}

/// The joiner: takes records in the order of time, gives responses.
#[derive(Debug)]
pub struct Joiner {
    pub(crate) bounds: Bounds,
    pub(crate) tasks: Tasks,
    pub(crate) sockets: Sockets,
    pub(crate) conversations: Conversations,
    connections: FxHashMap<(u32, u64), Connection>,
    lanes: FxHashMap<u32, u32>,
    waiting: VecDeque<Waiting>,
    /// When it is looked again for the send of the request that waits longest.
    look_again_ns: u64,
    pub(crate) steps: Vec<Step>,
    pub(crate) texts: Texts,
    pub(crate) notes: Notes,
    pub(crate) phases: Phases,
    pub(crate) traces: Traces,
    pub(crate) questions: Questions,
    pub(crate) carried: CarriedWaits,
    stretches: Vec<PhaseStretch>,
    pub(crate) statistics: Statistics,
    since_sweep: u32,
    pub(crate) last_ns: u64,
    /// The first that the kernel told, nanoseconds; the largest time until then.
    begun_ns: u64,
    /// Where the recording, or its last window, ended.
    pub(crate) edge_ns: u64,
    pub(crate) nameless: Arc<str>,
    /// Responses are told from the server's sockets alone.
    pub(crate) served: Option<Served>,
    /// Streams of HTTP/2.
    pub(crate) streams: Streams,
    /// Requests over HTTP/3.
    pub(crate) quic: QuicStreams,
    /// Everything opened from here on was seen from its beginning: a window of the recording has begun.
    pub(crate) window_ns: Option<u64>,
    pub(crate) names: FxHashMap<(u32, u16), Arc<str>>,
    untold_arrivals: bool,
}

impl Joiner {
    /// An empty joiner.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            tasks: Tasks::default(),
            sockets: Sockets::default(),
            conversations: Conversations::default(),
            connections: FxHashMap::default(),
            lanes: FxHashMap::default(),
            waiting: VecDeque::new(),
            look_again_ns: 0,
            steps: Vec::new(),
            texts: Texts::default(),
            notes: Notes::default(),
            phases: Phases::default(),
            traces: Traces::default(),
            questions: Questions::default(),
            carried: CarriedWaits::default(),
            stretches: Vec::new(),
            statistics: Statistics::default(),
            since_sweep: 0,
            last_ns: 0,
            begun_ns: u64::MAX,
            edge_ns: 0,
            nameless: Arc::from("(unnamed)"),
            served: None,
            streams: Streams::of_client(),
            quic: QuicStreams::default(),
            window_ns: None,
            names: FxHashMap::default(),
            untold_arrivals: false,
        }
    }

    /// A joiner that tells responses from the server's sockets alone and passes over what clients say; these ports,
    /// beside 443 and 8443, are encrypted.
    #[must_use]
    pub fn of_server(bounds: Bounds, tls_ports: &[u16]) -> Self {
        Self { served: Some(Served::new(tls_ports)), streams: Streams::default(), ..Self::new(bounds) }
    }

    /// Requests of one captured process to another are told as responses, too, beside being part of the outer one's.
    pub fn tell_inner(&mut self) {
        if let Some(served) = &mut self.served {
            served.tells_inner = true;
        }
    }

    /// The recording does not tell of every arrival: what is taken unannounced arrived by then, or with its connection.
    pub fn supply_arrivals(&mut self) {
        self.untold_arrivals = true;
    }

    /// Takes the next record; `name` is the text of its dictionary id, if it has one.
    pub fn push(
        &mut self,
        record: &Record,
        payload: &[Slot],
        name: Option<&Arc<str>>,
        take: &mut dyn FnMut(&Joiner, &Response<'_>),
    ) {
        let now_ns = record.time_ns;
        self.last_ns = now_ns;
        while self.is_first_due(now_ns) {
            self.resolve_first(take);
        }
        self.since_sweep += 1;
        if self.since_sweep >= self.bounds.sweep_records {
            self.sweep(now_ns);
            self.tell_served(take);
        }
        let Some(kind) = Kind::from_code(record.kind) else { return };
        let (low, high) = record.a_halves();
        if KERNEL.contains(&record.kind) {
            self.begun_ns = self.begun_ns.min(now_ns);
            self.tasks.seen(now_ns, record.lane);
        }
        match kind {
            Kind::Switch => {
                Switch::read(record).into_iter().for_each(|told| self.tasks.switch(now_ns, record.lane, told));
            }
            Kind::TaskState => TaskState::read(record).into_iter().for_each(|told| self.tasks.found(now_ns, told)),
            Kind::Waking => {
                if record.flags & WAS_FROZEN != 0 {
                    self.tasks.thawed(high);
                }
                self.tasks.waking(now_ns, low, high, WokenIn::of(record.flags));
            }
            Kind::Fork => {
                // Where the child's process is not told, a flag says that it is one of its own.
                let own = (record.flags & 1 != 0).then_some(high);
                let process = Some(record.b as u32).filter(|tgid| *tgid != 0).or(own);
                self.tasks.fork(now_ns, low, high, process);
                self.phases.born(high);
            }
            Kind::Exit => self.tasks.exit(low),
            Kind::TaskName => self.named(record, payload),
            Kind::Lost => {
                self.statistics.lost = self.statistics.lost.saturating_add(record.a);
                self.tasks.lost(now_ns, record.lane);
            }
            Kind::SocketOpen => {
                if let Some(open) = SocketOpen::read(record, payload) {
                    self.tasks.attempts.end(now_ns, open.socket, true);
                    if let Some(peer) = self.sockets.open(open, now_ns) {
                        // Data that arrives tells which end was accepted.
                        self.conversations.connect([open.socket, peer], None, now_ns);
                    }
                    self.serve_open(&open, record);
                }
            }
            Kind::SocketReady => {
                self.statistics.seen.arrivals += 1;
                let not_accepted = record.flags & NOT_ACCEPTED != 0;
                let position = self.sockets.arrival(low, now_ns, high, not_accepted);
                self.conversations.arrive(low, now_ns, not_accepted);
                if let (Some(served), Some(position)) = (&mut self.served, position) {
                    served.arrive(low, Arrival { at_ns: now_ns, position, not_accepted });
                }
            }
            Kind::SocketRecv => {
                self.touch(record, Verb::Receive);
                self.tell_served(take);
            }
            Kind::SocketSend => self.touch(record, Verb::Send),
            Kind::SocketState => {
                if SocketState::read(record).is_some_and(SocketState::begins_to_connect) {
                    self.tasks.connects(record.lane, now_ns, low);
                } else {
                    self.tasks.attempts.end(now_ns, low, false);
                    if let Some(socket) = self.sockets.get_mut(low) {
                        socket.closed_ns = Some(now_ns);
                    }
                    self.conversations.close(low);
                    self.close_streams(now_ns, low);
                    if let Some(served) = &mut self.served {
                        served.close(low);
                    }
                    self.tell_served(take);
                }
            }
            Kind::ListenReady => self.statistics.seen.connections += 1,
            Kind::Window => self.window(record, take),
            // What clients said of themselves is another view of the same requests.
            Kind::ClientConnection | Kind::ClientRequest | Kind::ClientDropped if self.served.is_some() => {}
            Kind::ClientConnection => self.client_connection(record, payload),
            Kind::ClientRequest => self.request(record, payload, name),
            Kind::ClientDropped => self.statistics.dropped = self.statistics.dropped.saturating_add(record.a),
            Kind::ClientLane if self.lanes.len() < MOST_LANES || self.lanes.contains_key(&record.lane) => {
                self.lanes.insert(record.lane, low);
            }
            Kind::SocketPeer => self.peers(record),
            Kind::ProbeHit => name.iter().for_each(|told| self.probe_hit(record, told)),
            Kind::Asked => self.questions.push(record, payload, name, (&self.sockets, &self.tasks), &mut self.texts),
            kind if is_of_stream(kind) => self.of_stream(record, payload, name),
            Kind::ProbeText => self.phases.text(record.lane, now_ns, name.map_or("", |text| text), &mut self.texts),
            // The notes take it below, or it is of no use here.
            _ => {}
        }
        self.notes.push(record, payload);
    }

    /// A task has a name.
    fn named(&mut self, record: &Record, payload: &[Slot]) {
        let (task, tgid) = record.a_halves();
        let [traced, carries] = [1, CARRIES].map(|flag| record.flags & flag != 0);
        let known = TaskName { name: text_from_slots(payload), tgid, traced, carries };
        self.tasks.name(task, known, record.time_ns);
    }

    /// A probe was hit.
    fn probe_hit(&mut self, hit: &Record, told: &Arc<str>) {
        match self.phases.carried(hit, told, &self.tasks) {
            Some((hit, true)) => self.carried.ends(hit, &self.tasks),
            Some((hit, false)) => self.carried.begins(hit, &self.tasks),
            None => self.phases.push_hit(hit, told, &self.tasks),
        }
    }

    /// Tells what is over by this time, of the recording's clock, while the recording goes on: where only the next request
    /// or the connection's end says that a response is over, its silence does.
    pub fn settle(&mut self, now_ns: u64, take: &mut dyn FnMut(&Joiner, &Response<'_>)) {
        while self.is_first_due(now_ns) {
            self.resolve_first(take);
        }
        if let Some(served) = &mut self.served {
            served.settle(now_ns);
        }
        self.tell_served(take);
    }

    /// Resolves what is left at the end of a recording.
    pub fn finish(&mut self, take: &mut dyn FnMut(&Joiner, &Response<'_>)) {
        while !self.waiting.is_empty() {
            self.resolve_first(take);
        }
        self.edge(self.last_ns, take);
    }

    /// The counts so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let exchanges = self.served.as_ref().map(|served| served.counts).unwrap_or_default();
        let exchanges = self.streams.counts_with(exchanges);
        let (http3_given_up, http3_forgotten) = self.quic.lost();
        let exchanges = Exchanges { http3_given_up, forgotten: exchanges.forgotten + http3_forgotten, ..exchanges };
        Statistics {
            gaps: self.statistics.gaps + self.tasks.gaps(),
            exchanges,
            carried_waits: self.carried.counts(),
            long_lived: self.streams.long_told(),
            sources: self.notes.costs(),
            stolen_ns: self.notes.stolen(),
            ..self.statistics.clone()
        }
    }

    /// How many requests were never answered, by the server's end of their connections; the first 4,096 ends are told
    /// apart, and those of others are in [`Exchanges::unanswered`] alone.
    pub fn unanswered(&self) -> impl Iterator<Item = (ServerEnd, u64)> + '_ {
        let counts = self.served.iter().flat_map(|served| &served.unanswered_at);
        counts.map(|(end, count)| (*end, *count))
    }

    /// Whether a request of a client is known to have begun.
    #[must_use]
    pub fn clients_began(&self) -> bool {
        self.statistics.client_ns.is_some()
    }

    /// The time of the last record, nanoseconds.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.last_ns
    }

    /// How many things are held in memory: events of tasks and sockets, connections, and requests that wait.
    #[must_use]
    pub fn held(&self) -> usize {
        self.served.as_ref().map_or(0, Served::held)
            + self.tasks.held()
            + self.sockets.held()
            + self.conversations.held()
            + self.streams.held()
            + self.quic.held()
            + self.connections.len()
            + self.lanes.len()
            + self.waiting.len()
            + self.texts.held()
            + self.notes.held()
            + self.phases.held()
            + self.traces.held()
            + self.questions.held()
            + self.carried.held()
    }

    /// A task's name, if the recording tells it.
    #[must_use]
    pub fn task_name(&self, pid: u32) -> Option<&TaskName> {
        self.tasks.named(pid)
    }

    /// The name that a task had at a time.
    #[must_use]
    pub fn task_name_at(&self, pid: u32, at_ns: u64) -> Option<&TaskName> {
        self.tasks.named_at(pid, at_ns)
    }

    /// When a task waited for a CPU within a time, and which task had that CPU: (task, from, to) in nanoseconds, the latest
    /// first; waits for a CPU that no task had are left out.
    pub fn waits_for_cpu(&self, pid: u32, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        let waits = self.tasks.spells_back(pid, from_ns, to_ns);
        let of_cpu = waits.filter_map(|spell| match spell.state {
            State::Runnable { .. } => Some((spell.next_cpu?, spell.from_ns, spell.to_ns)),
            _ => None,
        });
        let had = of_cpu.flat_map(|(cpu, from_ns, to_ns)| self.tasks.ran_on(cpu, from_ns, to_ns));
        had.filter(move |(task, _, _)| *task != 0 && *task != pid)
    }

    /// Whether a task has had more than one name.
    #[must_use]
    pub fn is_renamed(&self, pid: u32) -> bool {
        self.tasks.is_renamed(pid)
    }

    /// A text that a step's detail refers to.
    #[must_use]
    pub fn text(&self, number: u32) -> &str {
        self.texts.text(number)
    }

    /// The number by which steps refer to a text.
    pub fn number_of(&mut self, text: &str) -> u32 {
        self.texts.number(text)
    }

    /// A phase's name.
    #[must_use]
    pub fn phase(&self, number: u32) -> &PhaseName {
        self.phases.name(number)
    }

    /// What has ended since this was last asked: passages of tasks through phases, and queries.
    pub fn take_ended(&mut self) -> Ended {
        self.phases.take_ended()
    }

    /// The questions that are over since this was last asked, and how many there was no room for.
    pub fn take_questions(&mut self) -> (Vec<QuestionRun>, u64) {
        self.questions.take_ended()
    }

    /// The name of the request that a task took up within a window, if a probe told it; without its query.
    #[must_use]
    pub fn request_name(&self, pid: u32, from_ns: u64, to_ns: u64) -> Option<&str> {
        self.phases.request(pid, from_ns, to_ns).map(|number| self.texts.text(number))
    }

    /// Whether a task belongs to the server: it was seen to serve a connection, or to be in a traced process.
    #[must_use]
    pub fn serves(&self, pid: u32) -> bool {
        self.tasks.serves(pid)
    }

    /// What a request's way is walked over.
    pub(crate) fn known(&self) -> Known<'_> {
        let Self { tasks, sockets, conversations, phases, .. } = self;
        Known { tasks, sockets, conversations, phases }
    }

    /// Two sockets are the ends of one connection, within the host or between recorded hosts.
    fn peers(&mut self, record: &Record) {
        let (low, high) = record.a_halves();
        let accepted = if record.flags & ACCEPTED != 0 { low } else { high };
        if record.flags & FAR != 0 {
            self.conversations.connect_far([low, high], accepted, record.time_ns);
            self.sockets.connect_far([low, high]);
        } else {
            self.conversations.connect([low, high], Some(accepted), record.time_ns);
        }
    }

    /// Whether a pair of sockets joins threads of one process, as where they wake each other's event loop.
    fn is_within_a_process(&self, id: u32, record: &Record) -> bool {
        let peer = self.conversations.peer(id);
        let asked = peer.and_then(|peer| self.conversations.asked(peer, record.time_ns));
        let own = self.tasks.current(record.lane).unwrap_or(0);
        asked.is_some_and(|asked| asked.pid == own || answers::are_siblings(self.known(), asked.pid, own))
    }

    /// A task took a datagram of the server's clients, or gave some.
    fn touch_datagrams(&mut self, record: &Record, id: u32, verb: Verb) {
        let Some(pid) = self.tasks.current(record.lane).filter(|_| record.flags & (ERROR | PEEK) == 0) else { return };
        let number = self.quic.dealt(pid, id, verb, record.time_ns);
        self.tasks.touch(record.lane, record.time_ns, number, verb, true);
        if verb == Verb::Send {
            self.tasks.exchanged(pid, verb, true);
        }
    }

    /// Something of HTTP/3.
    fn of_quic(&mut self, record: &Record, name: Option<&Arc<str>>) {
        let Some(told) = Quic::read(record).filter(|_| self.served.is_some()) else { return };
        let pid = self.tasks.current(record.lane).unwrap_or(0);
        if let Some(number) = self.quic.push(record.time_ns, pid, told, name) {
            self.tasks.touch(record.lane, record.time_ns, number, Verb::Receive, true);
            self.tasks.exchanged(pid, Verb::Receive, true);
        }
    }

    fn touch(&mut self, record: &Record, verb: Verb) {
        let (id, position) = record.a_halves();
        if record.flags & NO_POSITION != 0 && self.quic.knows(id) {
            return self.touch_datagrams(record, id, verb);
        }
        let server_side = match self.sockets.get(id) {
            Some(socket) => socket.server_side,
            None => self.conversations.is_accepted(id) && !self.is_within_a_process(id, record),
        };
        let socket = self.sockets.get_mut(id);
        let pid = self.tasks.touch(record.lane, record.time_ns, id, verb, server_side);
        if record.flags & (ERROR | PEEK) == 0 {
            self.conversations.touch(id, Dealing { at_ns: record.time_ns, verb, pid });
        }
        let whole = record.flags & (END_OF_STREAM | ERROR | PEEK) == 0;
        if whole && server_side && verb == Verb::Send {
            self.carried.answers(record.time_ns, id);
        }
        if whole {
            self.tasks.exchanged(pid, verb, server_side);
        }
        let seen = &mut self.statistics.seen;
        let Some(socket) = socket else {
            let unknown = whole && verb == Verb::Receive && self.conversations.peer(id).is_none();
            seen.received_unknown += u64::from(unknown);
            return;
        };
        let count = if verb == Verb::Receive { &mut seen.received } else { &mut seen.sent };
        *count += u64::from(whole && server_side);
        socket.touch(record.time_ns);
        if verb == Verb::Receive {
            let [http2, encrypted] = [HTTP2, TLS].map(|flag| record.flags & flag != 0);
            socket.http2 |= http2;
            if let Some(served) = &mut self.served {
                served.speaks(id, http2, encrypted);
            }
        }
        let aside = END_OF_STREAM | ERROR | NO_POSITION | if verb == Verb::Receive { PEEK } else { 0 };
        if server_side && record.flags & aside == 0 {
            let at_ns = record.time_ns;
            if verb == Verb::Receive && self.untold_arrivals {
                let arrival = socket.arrived_by(at_ns, position);
                if let (Some(served), Some(arrival)) = (&mut self.served, arrival) {
                    served.arrive(id, arrival);
                }
            }
            let position = match verb {
                Verb::Receive => socket.pick_up(at_ns, position, pid),
                Verb::Send => socket.send(at_ns, position, pid, record.flags & HELD_BACK != 0),
            };
            if verb == Verb::Send {
                self.streams.sent(id, at_ns, pid);
                let tasks = &self.tasks;
                self.streams.long().sent(id, at_ns, pid, |since_ns| {
                    let other = |touch: &Touch| touch.verb == Verb::Receive && touch.socket != id;
                    tasks.touches(pid, since_ns, at_ns).any(other)
                });
            }
            match (&mut self.served, verb) {
                (Some(served), Verb::Receive) => served.take(id, at_ns, position, pid),
                (Some(served), Verb::Send) => {
                    served.send(id, at_ns, position, pid);
                    if let Some(bytes) = self.streams.long().sent_event(pid, id) {
                        served.event(id, at_ns, bytes);
                    }
                }
                (None, _) => {}
            }
        }
    }

    /// A client's connection is established.
    fn client_connection(&mut self, record: &Record, payload: &[Slot]) {
        let Some(told) = ClientConnection::read(record, payload) else { return };
        let key = (record.lane, told.connection);
        self.sockets.expect(told.remote, told.local);
        // It is told again, at a later time, when the recording's beginning was given up for room.
        let again = self
            .connections
            .get(&key)
            .is_some_and(|known| ClientConnection { connected_ns: known.told.connected_ns, ..told } == known.told);
        if !again {
            self.connections.insert(key, Connection { told, socket: None, waiting: 0, earlier: VecDeque::new() });
        }
    }

    /// A frame of HTTP/2 was taken or given by the task that runs on its lane, or a head was read; or something of HTTP/3, or
    /// a trace that a request names.
    fn of_stream(&mut self, record: &Record, payload: &[Slot], name: Option<&Arc<str>>) {
        if record.kind == Kind::TraceContext as u16 {
            return self.trace(record);
        }
        self.of_quic(record, name);
        StreamHead::read(record, payload).into_iter().for_each(|head| self.streams.head(record.time_ns, head));
        let Some(frame) = StreamFrame::read(record) else { return };
        let pid = self.tasks.current(record.lane).unwrap_or(0);
        let at = self.tasks.at(pid);
        if frame.kind == frame_type::EVENT {
            return self.streams.long().event(pid, &frame);
        }
        if frame.kind == frame_type::WEBSOCKET {
            let begun = self.streams.websocket(record.time_ns, pid, &frame, at, &mut self.sockets);
            if let (Some(socket), Some(served)) = (begun, &mut self.served) {
                served.upgrade(socket);
            }
            return;
        }
        let turn = self.streams.frame(record.time_ns, pid, &frame, at, &mut self.sockets);
        let Some(served) = &mut self.served else { return };
        match turn {
            Turn::None => {}
            Turn::Followed(socket) => served.follow(socket, true),
            Turn::Lost(socket, under_way) => {
                served.follow(socket, false);
                served.counts.http2 += under_way;
                self.statistics.requests += under_way;
                self.statistics.unjoinable[Unjoinable::Http2 as usize] += under_way;
            }
        }
    }

    /// The trace that a request names, or none.
    fn trace(&mut self, record: &Record) {
        match self.traces.push(record) {
            Some((TraceOf::Stream(flow, stream), Some(trace))) => {
                self.streams.trace(record.time_ns, flow, stream, trace);
            }
            Some((TraceOf::Task, trace)) => {
                let pid = self.tasks.current(record.lane).unwrap_or(0);
                self.traces.taken(pid, record.time_ns, trace);
            }
            // Those that are told of sockets are laid beside by their readers.
            _ => {}
        }
    }

    /// Whether the request that waits longest is to be resolved: all that belongs to it was seen, or would have come.
    fn is_first_due(&mut self, now_ns: u64) -> bool {
        let Some(first) = self.waiting.front() else { return false };
        let since_ns = now_ns.saturating_sub(first.request.done_ns);
        if since_ns <= self.bounds.grace_ns || now_ns < self.look_again_ns {
            return false;
        }
        let waits = since_ns <= self.bounds.late_ns && self.lacks_send();
        self.look_again_ns = if waits { now_ns.saturating_add(LOOK_AGAIN_NS) } else { 0 };
        !waits
    }

    fn resolve_first(&mut self, take: &mut dyn FnMut(&Joiner, &Response<'_>)) {
        let Some(waiting) = self.waiting.pop_front() else { return };
        let mut steps = std::mem::take(&mut self.steps);
        steps.clear();
        let request = &waiting.request;
        let joined = self.steps_of(&waiting, &mut steps);
        let unjoinable = joined.err().map(|reason| {
            let missing = !matches!(reason, Unjoinable::EarlyAnswer | Unjoinable::NoSocket | Unjoinable::Http2);
            let gap = self.tasks.had_gap(request.sent_ns, request.done_ns.saturating_add(self.bounds.grace_ns));
            if missing && gap { Unjoinable::Gap } else { reason }
        });
        if let Some(reason) = unjoinable {
            self.statistics.unjoinable[reason as usize] += 1;
            steps.clear();
            self.client_steps(&waiting, &mut steps, waiting.request.sent_ns);
            let begin = steps.last().map_or(waiting.request.intended_ns, |step| step.to_ns);
            push_step(&mut steps, begin, waiting.request.done_ns, Part::Unattributed, 0);
        } else {
            self.statistics.joined += 1;
        }
        let mut stretches = std::mem::take(&mut self.stretches);
        stretches.clear();
        let connection = self.connections.get(&(waiting.lane, waiting.request.connection));
        let socket = connection.and_then(|connection| connection.socket).unwrap_or(0);
        if let Some(server) = joined.ok().filter(|_| !self.phases.is_empty()) {
            self.phases.name_queries(&mut steps);
            self.phases.stretches(&steps, socket, server.arrived_ns, &mut stretches);
        }
        self.questions.name(&mut steps, socket, &self.tasks, &mut self.texts);
        let (server, phases) = (joined.ok(), stretches.as_slice());
        let transaction = server.and_then(|at| self.phases.transaction(&steps, at.picked_ns, at.sent_ns));
        let name = transaction.map_or(&*waiting.name, |number| self.texts.text(number));
        let connection = self.connections.get(&(waiting.lane, waiting.request.connection));
        let client = connection.map(|connection| connection.told.local);
        let trace = server.and_then(|at| match waiting.request.stream {
            0 => None,
            stream => self.streams.trace_of(at.socket, stream),
        });
        let request = &waiting.request;
        take(
            self,
            &Response { request, client, server_end: None, name, steps: &steps, phases, server, unjoinable, trace },
        );
        self.keep_earlier(&waiting, &steps);
        (self.steps, self.stretches) = (steps, stretches);
        self.release(&waiting);
    }

    /// Keeps memory within its bounds.
    fn sweep(&mut self, now_ns: u64) {
        self.since_sweep = 0;
        let oldest_mark = self.sockets.sweep(now_ns.saturating_sub(self.bounds.closed_ns));
        let oldest_request = self.waiting.front().map(|first| first.request.intended_ns);
        let oldest_exchange = self.sweep_served(now_ns);
        let oldest_stream = self.streams.sweep(now_ns.saturating_sub(self.bounds.closed_ns));
        let oldest_quic = self.quic.oldest_ns();
        let keep_ns = [oldest_mark, oldest_request, oldest_exchange, oldest_stream, oldest_quic]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now_ns);
        let mut keep_ns = keep_ns.min(now_ns.saturating_sub(self.bounds.grace_ns));
        self.tasks.trim(keep_ns);
        self.conversations.trim(keep_ns);
        self.notes.trim(keep_ns);
        self.phases.trim(keep_ns);
        self.traces.trim(keep_ns);
        self.questions.trim(keep_ns);
        self.carried.trim(keep_ns);
        while self.tasks.held() > self.bounds.changes && keep_ns < now_ns {
            keep_ns += (now_ns - keep_ns).div_ceil(2);
            self.tasks.trim(keep_ns);
        }
        if self.connections.len() > self.bounds.connections {
            let (old, sockets) = (now_ns.saturating_sub(self.bounds.closed_ns), &self.sockets);
            // Where too many are told of as new, that is no reason either: a damaged time may be of any future.
            let flooded = self.connections.len() > 2 * self.bounds.connections;
            self.connections.retain(|_, connection| {
                let lives = connection.socket.is_some_and(|id| sockets.get(id).is_some_and(Socket::is_claimed));
                connection.waiting > 0 || lives || !flooded && connection.told.connected_ns > old
            });
        }
    }
}

/// Whether a kind tells of streams, or of the trace of a request.
fn is_of_stream(kind: Kind) -> bool {
    matches!(kind, Kind::StreamFrame | Kind::StreamHead | Kind::Quic | Kind::TraceContext)
}
