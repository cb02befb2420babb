//! What the client says of a request, and the steps of its response that only the client knows: before its first byte is
//! sent, and after the server's last one.

use super::Joiner;
use super::requests::Waiting;
use crate::blocked::hold_of;
use crate::sockets::Socket;
use crate::step::{Detail, Step, push_step};
use crate::tasks::State;
use std::sync::Arc;
use weir_measure::part::Part;
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::{Record, Slot};

/// A SYN that is not answered is sent again after a second (TCP_TIMEOUT_INIT), by a timer of some ticks' exactness;
/// nanoseconds.
const SYN_AGAIN_NS: u64 = 950_000_000;
/// What is sent and not acknowledged is sent again after 0.2 s at the earliest (TCP_RTO_MIN); nanoseconds.
const ACKNOWLEDGED_AGAIN_NS: u64 = 150_000_000;

impl Joiner {
    /// A request is over for the client: it waits until all is told that happened at the server.
    pub(super) fn request(&mut self, record: &Record, payload: &[Slot], name: Option<&Arc<str>>) {
        let Some(request) = ClientRequest::read(record, payload) else { return };
        let (first, _) = self.statistics.client_ns.unwrap_or((request.intended_ns, 0));
        self.statistics.client_ns = Some((first.min(request.intended_ns), request.done_ns));
        if request.outcome != Outcome::Done {
            self.statistics.failed[request.outcome as usize] += 1;
            return;
        }
        self.statistics.requests += 1;
        self.statistics.retried += u64::from(request.retried);
        self.statistics.bytes = self.statistics.bytes.saturating_add(request.response_bytes);
        if let Some(connection) = self.connections.get_mut(&(record.lane, request.connection)) {
            connection.waiting += 1;
        }
        let name = Arc::clone(name.unwrap_or(&self.nameless));
        self.waiting.push_back(Waiting { request, lane: record.lane, name });
    }

    /// In the generator, and its connection being made: up to the send.
    ///
    /// A request that was sent again was already out of the generator, on a connection that ended without answering it:
    /// that time is what getting a connection that holds has taken.
    pub(super) fn client_steps(&self, waiting: &Waiting, steps: &mut Vec<Step>, sent_ns: u64) {
        let request = &waiting.request;
        let connection = self.connections.get(&(waiting.lane, request.connection));
        let sent_ns = sent_ns.clamp(request.intended_ns, request.done_ns.max(request.intended_ns));
        let (mut from, mut to) = (sent_ns, sent_ns);
        if let Some(connection) = connection.filter(|_| request.opened_connection) {
            from = connection.told.connect_start_ns.clamp(request.intended_ns, sent_ns);
            // The TLS handshake belongs to the connection as much as TCP's own.
            to = if request.encrypted { sent_ns } else { connection.told.connected_ns.clamp(from, sent_ns) };
        }
        let begun = if request.retried { request.started_ns.clamp(request.intended_ns, from) } else { from };
        self.generator_steps(waiting, steps, request.intended_ns, begun);
        let ended = Step {
            from_ns: begun,
            to_ns: from,
            part: Part::Connect,
            pid: 0,
            waiter: 0,
            detail: Detail::EndedConnection,
        };
        steps.extend((from > begun).then_some(ended));
        self.connect_steps(waiting, steps, (from, to));
        push_step(steps, to, sent_ns, Part::Generator, 0);
    }

    /// The connection being made: what held it up at the server, where that is known.
    fn connect_steps(&self, waiting: &Waiting, steps: &mut Vec<Step>, window: (u64, u64)) {
        let (mut from_ns, to_ns) = window;
        let connection = self.connections.get(&(waiting.lane, waiting.request.connection));
        let connection = connection.filter(|_| from_ns < to_ns);
        let socket = connection.and_then(|connection| self.sockets.get(connection.socket?));
        let (Some(connection), Some(socket)) = (connection, socket) else {
            return push_step(steps, from_ns, to_ns, Part::Connect, 0);
        };
        let named = |from_ns, to_ns, detail| Step { from_ns, to_ns, part: Part::Connect, pid: 0, waiter: 0, detail };
        let told = &connection.told;
        let made_ns = told.connected_ns.clamp(from_ns, to_ns);
        if self.is_late_syn(&connection.told, socket) && made_ns > from_ns {
            steps.push(named(from_ns, made_ns, Detail::LateSyn(told.remote)));
            from_ns = made_ns;
        }
        // A CPU may have been taken away meanwhile: then it is not known who sent.
        let is_strange = |task| self.tasks.named(task).is_some_and(|name| !name.traced);
        for (begin_ns, end_ns, task) in socket.turns_at(to_ns).into_iter().filter(|turn| !is_strange(turn.2)) {
            let (begin_ns, end_ns) = (begin_ns.max(from_ns), end_ns.min(to_ns));
            if end_ns > begin_ns {
                push_step(steps, from_ns, begin_ns, Part::Connect, 0);
                steps.push(named(begin_ns, end_ns, Detail::Handshake(task)));
                from_ns = end_ns;
            }
        }
        push_step(steps, from_ns, to_ns, Part::Connect, 0);
    }

    /// Whether a connection within the host came about only after its SYN was sent again. There none gets lost on its way,
    /// so the server's host has not answered it, as where its backlog is full.
    fn is_late_syn(&self, told: &ClientConnection, socket: &Socket) -> bool {
        let again_ns = told.connect_start_ns.saturating_add(SYN_AGAIN_NS);
        // One that is older than the recording was told when that began.
        self.sockets.is_own(told.local.ip(), socket.open.netns)
            && told.connected_ns >= again_ns
            && socket.opened_ns >= again_ns
            && told.connect_start_ns >= self.begun_ns
    }

    /// From the send to the arrival. A client within the host may have its connection, and send, while the server's host
    /// has no room for it; then it throws the handshake's end away, and has the client send it again.
    pub(super) fn request_steps(&self, steps: &mut Vec<Step>, id: u32, sent_ns: u64, arrived_ns: u64) {
        let socket = self.sockets.get(id);
        let socket = socket.filter(|socket| self.sockets.is_own(socket.open.remote.ip(), socket.open.netns));
        let opened_ns = socket.map_or(0, |socket| socket.opened_ns).min(arrived_ns);
        let mut from_ns = sent_ns;
        if let Some(socket) = socket.filter(|_| opened_ns.saturating_sub(sent_ns) >= ACKNOWLEDGED_AGAIN_NS) {
            let (part, detail) = (Part::AcceptQueue, Detail::FullBacklog(socket.open.local));
            steps.push(Step { from_ns, to_ns: opened_ns, part, pid: 0, waiter: 0, detail });
            from_ns = opened_ns;
        }
        push_step(steps, from_ns, arrived_ns, Part::RequestTransit, 0);
    }

    /// In the generator: where the connection that it got was at earlier requests meanwhile, at which part of theirs.
    fn generator_steps(&self, waiting: &Waiting, steps: &mut Vec<Step>, mut from_ns: u64, to_ns: u64) {
        let connection = self.connections.get(&(waiting.lane, waiting.request.connection));
        for earlier in connection.map(|connection| &connection.earlier).into_iter().flatten() {
            let (begin, end) = (earlier.from_ns.clamp(from_ns, to_ns.max(from_ns)), earlier.to_ns.min(to_ns));
            if end > begin {
                push_step(steps, from_ns, begin, Part::Generator, 0);
                let (part, detail) = (Part::Generator, Detail::Behind(earlier.part));
                steps.push(Step { from_ns: begin, to_ns: end, part, pid: 0, waiter: 0, detail });
                from_ns = end;
            }
        }
        push_step(steps, from_ns, to_ns, Part::Generator, 0);
    }

    /// Keeps what a connection was at, for the requests that waited for it meanwhile.
    pub(super) fn keep_earlier(&mut self, waiting: &Waiting, steps: &[Step]) {
        if let Some(connection) = self.connections.get_mut(&(waiting.lane, waiting.request.connection)) {
            connection.keep_earlier(&waiting.request, steps);
        }
    }

    /// From the server's last send to the client: on the way, or the client's task not yet there.
    pub(super) fn response_steps(&self, waiting: &Waiting, steps: &mut Vec<Step>, sent_ns: u64, held_back: bool) {
        let done_ns = waiting.request.done_ns;
        let from = steps.len();
        let Some(pid) = self.lanes.get(&waiting.lane) else {
            push_step(steps, sent_ns, done_ns, Part::ResponseTransit, 0);
            return held_in_transit(&mut steps[from..], held_back);
        };
        for spell in self.tasks.spells_back(*pid, sent_ns, done_ns) {
            let part = match spell.state {
                // On a CPU or on its way to one, it was late; blocked, it had nothing to take yet.
                State::Running { .. } | State::Runnable { .. } => Part::ClientWakeup,
                State::Blocked { state, .. } if hold_of(state).is_some() => Part::ClientWakeup,
                State::Blocked { .. } | State::Unknown => Part::ResponseTransit,
            };
            push_step(steps, spell.from_ns, spell.to_ns, part, *pid);
        }
        steps[from..].reverse();
        held_in_transit(&mut steps[from..], held_back);
    }
}

/// Says of a response that was held back why it was on its way.
fn held_in_transit(steps: &mut [Step], held_back: bool) {
    let transit = steps.iter_mut().filter(|step| held_back && step.part == Part::ResponseTransit);
    transit.for_each(|step| step.detail = Detail::HeldBack);
}
