//! What happened at the server with a request that a client told of: found by its connection and its place in the bytes.

use super::requests::Waiting;
use super::{AtServer, Joiner};
use crate::counts::Unjoinable;
use crate::path::{Span, Walk};
use crate::sockets::{Mark, OurClient};
use crate::step::Step;

/// When a request was where, as its socket told.
#[derive(Clone, Copy)]
struct AtSocket {
    id: u32,
    arrived_ns: u64,
    not_accepted: bool,
    picked_ns: u64,
    picker: u32,
    /// The end of the response before it, where responses wait for each other.
    answered_ns: u64,
    sent_ns: u64,
    sender: u32,
    /// The sender kept the last bytes back.
    held_back: bool,
}

impl Joiner {
    /// The socket of a request's connection; found once, then remembered.
    fn socket_of(&mut self, waiting: &Waiting) -> Option<u32> {
        let connection = self.connections.get_mut(&(waiting.lane, waiting.request.connection))?;
        if connection.socket.is_none() {
            let told = &connection.told;
            // The server's side is established while the connect call is under way, or later where it had to wait; or it
            // is older than the recording, and told of when that begins. What opened earlier had these addresses before.
            let found = self.sockets.find(told.remote, told.local, told.connect_start_ns, waiting.request.done_ns);
            if let Some(socket) = found.and_then(|id| self.sockets.get_mut(id)) {
                socket.client = OurClient::Claimed;
            }
            connection.socket = found;
        }
        connection.socket
    }

    /// Whether the server took the request that waits longest, and has sent no end of its response.
    pub(super) fn lacks_send(&mut self) -> bool {
        let Some(waiting) = self.waiting.pop_front() else { return false };
        let request = &waiting.request;
        let last_byte = request.response_offset.saturating_add(request.response_bytes).saturating_sub(1);
        let socket = match request.http_version {
            0 | 1 => self.socket_of(&waiting).and_then(|id| self.sockets.get(id)),
            _ => None,
        };
        let lacks = socket.is_some_and(|socket| {
            let was_taken = socket.received.first_past(request.request_offset).is_some();
            was_taken && !socket.http2 && socket.sent.first_past(last_byte).is_none()
        });
        self.waiting.push_front(waiting);
        lacks
    }

    pub(super) fn steps_of(&mut self, waiting: &Waiting, steps: &mut Vec<Step>) -> Result<AtServer, Unjoinable> {
        let request = &waiting.request;
        match request.http_version {
            0 | 1 => {}
            2 => return self.steps_of_stream(waiting, steps),
            // HTTP/3 goes over no TCP socket, and what would come after it is not known.
            _ => return Err(Unjoinable::NoSocket),
        }
        let id = self.socket_of(waiting).ok_or(Unjoinable::NoSocket)?;
        let socket = self.sockets.get(id).ok_or(Unjoinable::NoSocket)?;
        // The server received HTTP/2 over this socket, even if the client reports another version.
        if socket.http2 {
            return Err(Unjoinable::Http2);
        }
        // Under way when the recording began: its connection is older, and what was seen of it then is not its beginning.
        if request.request_offset > 0 && request.sent_ns < socket.opened_ns {
            return Err(Unjoinable::NoSocket);
        }
        // What came or was taken after the response was a later request's; this one's own event is missing.
        let in_time = |mark: &Mark| mark.at_ns <= request.done_ns;
        let arrived = socket.ready.first_past(request.request_offset).filter(in_time).ok_or(Unjoinable::NoArrival)?;
        let picked = socket.received.first_past(request.request_offset).filter(in_time).ok_or(Unjoinable::NoPickUp)?;
        let first_sent = socket.sent.first_past(request.response_offset).ok_or(Unjoinable::NoSend)?;
        let last_byte = request.response_offset.saturating_add(request.response_bytes).saturating_sub(1);
        let sent = socket.sent.first_past(last_byte).ok_or(Unjoinable::NoSend)?;
        // The server answered before the request was complete, so what it did was not this request's work.
        // What was taken had arrived, even where the event of its arrival is missing.
        let request_end = request.request_offset.saturating_add(u64::from(request.request_bytes.max(1)) - 1);
        let complete = [&socket.ready, &socket.received].map(|marks| marks.first_past(request_end));
        let complete_ns = complete.into_iter().flatten().map(|mark| mark.at_ns).min().unwrap_or(u64::MAX);
        if first_sent.at_ns < picked.at_ns || sent.at_ns < complete_ns {
            return Err(Unjoinable::EarlyAnswer);
        }
        let told = AtSocket {
            id,
            arrived_ns: arrived.at_ns,
            not_accepted: arrived.not_accepted,
            picked_ns: picked.at_ns,
            picker: picked.pid,
            answered_ns: socket.answered_ns,
            sent_ns: sent.at_ns,
            sender: sent.pid,
            held_back: sent.held_back,
        };
        Ok(self.walk(waiting, steps, told))
    }

    /// The same of a stream of HTTP/2, which is found by its number.
    fn steps_of_stream(&mut self, waiting: &Waiting, steps: &mut Vec<Step>) -> Result<AtServer, Unjoinable> {
        let stream = waiting.request.stream;
        let id = self.socket_of(waiting).ok_or(Unjoinable::NoSocket)?;
        let found = self.streams.take(id, stream).filter(|_| stream != 0).ok_or(Unjoinable::Http2)?;
        let late = || self.sockets.get(id)?.ready.first_past(found.from).map(|mark| (mark.at_ns, mark.not_accepted));
        let arrived = found.arrival.map(|arrival| (arrival.at_ns, arrival.not_accepted)).or_else(late);
        let (arrived_ns, not_accepted) = arrived.ok_or(Unjoinable::NoArrival)?;
        let sent = found.sent.ok_or(Unjoinable::NoSend)?;
        let told = AtSocket {
            id,
            arrived_ns,
            not_accepted,
            picked_ns: found.picked_ns,
            picker: found.picker,
            answered_ns: 0,
            sent_ns: sent.last_ns,
            sender: sent.pid,
            // One segment has frames of many streams.
            held_back: false,
        };
        Ok(self.walk(waiting, steps, told))
    }

    /// Names every stretch of a request's time, from what its socket told.
    fn walk(&mut self, waiting: &Waiting, steps: &mut Vec<Step>, told: AtSocket) -> AtServer {
        let request = &waiting.request;
        // Two CPUs' clocks and the order of probes differ by nanoseconds; the parts must still follow each other.
        let mut moved = 0;
        let mut ascend = |time: u64, at_least: u64| {
            moved += u64::from(time < at_least || time > request.done_ns);
            time.max(at_least).min(request.done_ns)
        };
        let sent_by_client = ascend(request.sent_ns, request.intended_ns);
        let arrived_ns = ascend(told.arrived_ns, sent_by_client);
        let picked_ns = ascend(told.picked_ns, arrived_ns);
        let begun_ns = told.answered_ns.max(picked_ns).min(request.done_ns);
        // The client may have its response before the server's send returns: that is no fault of any clock.
        let sent_ns = told.sent_ns.max(begun_ns).min(request.done_ns);
        let span = Span {
            socket: told.id,
            arrived_ns,
            not_accepted: told.not_accepted,
            picked_ns,
            picker: told.picker,
            begun_ns,
            sent_ns,
            sender: told.sender,
        };
        self.statistics.moved += u64::from(moved > 0);
        self.client_steps(waiting, steps, sent_by_client);
        self.request_steps(steps, told.id, sent_by_client, arrived_ns);
        let from = steps.len();
        Walk { known: self.known(), span, steps, waiter: 0, depth: 0 }.server();
        steps[from..].sort_by_key(|step| step.from_ns);
        self.refine(steps, from);
        // Streams of one connection have each a goroutine of their own, of which it is not known whose it is.
        if request.http_version < 2 {
            self.put_carried(steps, from, (told.id, begun_ns));
        }
        self.response_steps(waiting, steps, sent_ns, told.held_back);
        AtServer { socket: told.id, arrived_ns, picked_ns, sent_ns }
    }

    /// Forgets what a request's resolution has used up.
    pub(super) fn release(&mut self, waiting: &Waiting) {
        let key = (waiting.lane, waiting.request.connection);
        let Some(connection) = self.connections.get_mut(&key) else { return };
        connection.waiting = connection.waiting.saturating_sub(1);
        let idle = connection.waiting == 0;
        let Some(id) = connection.socket else { return };
        let request = &waiting.request;
        let Some(socket) = self.sockets.get_mut(id) else { return };
        let response_end = request.response_offset.saturating_add(request.response_bytes);
        let last = socket.sent.first_past(response_end.saturating_sub(1)).map(|mark| mark.at_ns);
        socket.answered_ns = last.unwrap_or(socket.answered_ns).max(socket.answered_ns);
        let request_end = request.request_offset.saturating_add(u64::from(request.request_bytes));
        // Pipelined requests may share the mark that brought, took or answered them: it stays while one waits.
        let shared = u64::from(!idle);
        socket.forget(request_end.saturating_sub(shared), response_end.saturating_sub(shared));
        if idle && socket.closed_ns.is_some() {
            self.sockets.remove(id);
            self.connections.remove(&key);
        }
    }
}
