//! Requests that a trace marks, or tells whole, as records of a run.
//!
//! Where the scheduler's events are there, a marked request is a connection of its own: taken where it begins, answered
//! where it ends, so that its way through the tasks is found as that of any request. Where they are not, only its times
//! are known, and it is written as one that a client told.

use crate::connections::{Connections, at, closed, open_socket};
use crate::event::{NAME_BYTES, shortened};
use crate::lanes::Lanes;
use crate::{Edge, Event, Mark, Request};
use rustc_hash::FxHashMap;
use weir_wire::client::{ClientRequest, Outcome};
use weir_wire::probe::{ProbePoint, REQUEST};
use weir_wire::{Kind, Record};

/// Requests that are under way at a time.
const UNDER_WAY_MAX: usize = 1 << 17;
/// Marks that wait for the first event of the scheduler.
const EARLY_MAX: usize = 1 << 16;
/// What requests are called that have no name.
const NAMELESS: &str = "(request)";

/// What tells requests apart that are under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Task(u32),
    Told(Box<str>),
}

#[derive(Debug)]
struct Begun {
    at_ns: u64,
    name: Box<str>,
    /// Its connection, where the scheduler's events are there.
    socket: Option<u32>,
}

/// How marked requests are written.
#[derive(Debug)]
enum Way {
    /// It is not known yet whether the trace has the scheduler's events: requests that are over are kept.
    Undecided(Vec<(u64, Begun)>),
    /// By connections.
    ByTasks,
    /// By their times alone.
    ByTimes,
}

/// Requests under way.
#[derive(Debug)]
pub(crate) struct Requests {
    under_way: FxHashMap<Key, Begun>,
    way: Way,
    told: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { under_way: FxHashMap::default(), way: Way::Undecided(Vec::new()), told: 0 }
    }
}

impl Requests {
    /// Whether any request was marked by what tasks did.
    pub(crate) fn are_by_tasks(&self) -> bool {
        matches!(self.way, Way::ByTasks) && self.told > 0
    }

    /// An event of the scheduler is there: marked requests go by their tasks from here on.
    pub(crate) fn tasks_are_told(&mut self, lanes: &mut Lanes<'_>) {
        if let Way::Undecided(early) = &self.way {
            early.iter().for_each(|_| lanes.skip("requests before the scheduler's first event"));
            self.way = Way::ByTasks;
        }
    }

    pub(crate) fn mark(
        &mut self,
        event: &Event<'_>,
        mark: Mark<'_>,
        connections: &mut Connections,
        lanes: &mut Lanes<'_>,
    ) {
        if mark.key.is_some_and(|key| key.len() > NAME_BYTES) {
            return lanes.skip("marks with a key of more than 255 bytes");
        }
        let Some(key) = mark.key.map(|key| Key::Told(key.into())).or(event.task.map(Key::Task)) else {
            return lanes.skip("marks without a key and without a task");
        };
        match mark.edge {
            Edge::Begin => self.begin(event, key, mark.name, connections, lanes),
            Edge::End => self.end(event, &key, lanes),
        }
    }

    fn begin(
        &mut self,
        event: &Event<'_>,
        key: Key,
        name: Option<&str>,
        connections: &mut Connections,
        lanes: &mut Lanes<'_>,
    ) {
        if self.under_way.len() >= UNDER_WAY_MAX && !self.under_way.contains_key(&key) {
            return lanes.skip("requests under way beyond the bound");
        }
        let socket = matches!(self.way, Way::ByTasks).then(|| connections.number());
        if let Some(socket) = socket {
            open_socket((socket, 0), event, lanes);
            lanes.push(at(Kind::SocketReady, socket, 1, event), &[], None);
            lanes.push(at(Kind::SocketRecv, socket, 1, event), &[], None);
            name.iter().for_each(|name| tell_name(event, name, lanes));
        }
        let begun = Begun { at_ns: event.at_ns, name: shortened(name.unwrap_or(NAMELESS)).into(), socket };
        if let Some(before) = self.under_way.insert(key, begun) {
            before.socket.iter().for_each(|socket| lanes.push(closed(*socket, event), &[], None));
            lanes.skip("begins of requests whose end is not there");
        }
    }

    fn end(&mut self, event: &Event<'_>, key: &Key, lanes: &mut Lanes<'_>) {
        let Some(begun) = self.under_way.remove(key) else {
            return lanes.skip("ends of requests whose begin is not there");
        };
        self.told += 1;
        match (&mut self.way, begun.socket) {
            (_, Some(socket)) => {
                lanes.push(at(Kind::SocketSend, socket, 1, event), &[], None);
                lanes.push(closed(socket, event), &[], None);
            }
            (Way::Undecided(early), None) => {
                early.push((event.at_ns, begun));
                if early.len() >= EARLY_MAX {
                    self.by_times(lanes);
                }
            }
            (Way::ByTasks, None) => lanes.skip("requests before the scheduler's first event"),
            (Way::ByTimes, None) => write(event.at_ns, &begun, lanes),
        }
    }

    /// No event of the scheduler came.
    fn by_times(&mut self, lanes: &mut Lanes<'_>) {
        if let Way::Undecided(early) = std::mem::replace(&mut self.way, Way::ByTimes) {
            early.iter().for_each(|(end_ns, begun)| write(*end_ns, begun, lanes));
        }
    }

    /// Writes a request that its source tells whole.
    pub(crate) fn whole(event: &Event<'_>, request: Request<'_>, lanes: &mut Lanes<'_>) {
        let outcome = if request.has_failed { Outcome::Other } else { Outcome::Done };
        write_request(event.at_ns, request.begun_ns, request.name, (request.status.unwrap_or(0), outcome), lanes);
    }

    pub(crate) fn finish(mut self, lanes: &mut Lanes<'_>) {
        if matches!(self.way, Way::Undecided(_)) {
            self.by_times(lanes);
        }
        self.under_way.iter().for_each(|_| lanes.skip("begins of requests whose end is not there"));
    }
}

fn write(end_ns: u64, begun: &Begun, lanes: &mut Lanes<'_>) {
    write_request(end_ns, begun.at_ns, &begun.name, (0, Outcome::Done), lanes);
}

fn write_request(end_ns: u64, begun_ns: u64, name: &str, (status, outcome): (u16, Outcome), lanes: &mut Lanes<'_>) {
    let text = lanes.text(name);
    let request = ClientRequest {
        connection: 0,
        intended_ns: begun_ns,
        started_ns: begun_ns,
        sent_ns: begun_ns,
        first_byte_ns: end_ns,
        done_ns: end_ns,
        request_offset: 0,
        request_bytes: 0,
        response_offset: 0,
        response_bytes: 0,
        status,
        name: text,
        outcome,
        opened_connection: false,
        encrypted: false,
        retried: false,
        http_version: 0,
        stream: 0,
    };
    let (record, payload) = request.write(0);
    lanes.push_request(record, &payload, text);
}

/// Tells what the request is called that the running task begins.
fn tell_name(event: &Event<'_>, name: &str, lanes: &mut Lanes<'_>) {
    let point = ProbePoint { server: "import".to_owned(), name: "request".to_owned(), roles: REQUEST }.write();
    for (kind, text) in [(Kind::ProbeHit, point.as_str()), (Kind::ProbeText, name)] {
        let text = lanes.text(text);
        let lane = event.cpu.unwrap_or(0);
        let record = Record { time_ns: event.at_ns, kind: kind as u16, lane, b: u64::from(text), ..Record::default() };
        lanes.push(record, &[], Some(text));
    }
}
