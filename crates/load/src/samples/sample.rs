//! A request that is over, as a sample.

use std::collections::HashMap;
use weir_wire::Slot;
use weir_wire::client::{ClientRequest, Outcome};

/// One request that is over; times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When the generator began with it, from the begin of the run.
    pub start_ns: u64,
    /// Making its connection, TLS and proxy included, if it opened one; 0 otherwise.
    pub connect_ns: u64,
    /// From just before it was written until the first byte of the response; 0 if none came.
    pub first_byte_ns: u64,
    /// From just before it was written (from the connect call, if it opened its connection) to the last byte, or to the
    /// failure.
    pub total_ns: u64,
    /// From the time that the schedule intended for it to the last byte, or to the failure.
    pub latency_ns: u64,
    /// Bytes of the response, head and body.
    pub bytes: u64,
    /// The generator's number of its connection, unique in the run.
    pub connection: u64,
    /// [`Request::name`](crate::Request::name) of what was asked.
    pub name: u32,
    /// The status code, 0 if none came.
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it opened its connection.
    pub opened: bool,
    /// Whether it was sent before, on a kept connection that the server had closed meanwhile.
    pub retried: bool,
}

impl Sample {
    /// As it goes through a ring.
    pub(crate) fn to_slots(self) -> [Slot; 2] {
        let flags = u64::from(self.opened) | u64::from(self.retried) << 1;
        let what = u64::from(self.name) | u64::from(self.status) << 32 | (self.outcome as u64) << 48 | flags << 56;
        [
            [self.start_ns, self.connect_ns, self.first_byte_ns, self.total_ns],
            [self.latency_ns, self.bytes, self.connection, what],
        ]
    }

    pub(crate) fn from_slots(slots: &[Slot]) -> Option<Self> {
        let [[start_ns, connect_ns, first_byte_ns, total_ns], [latency_ns, bytes, connection, what], ..] = *slots
        else {
            return None;
        };
        Some(Self {
            start_ns,
            connect_ns,
            first_byte_ns,
            total_ns,
            latency_ns,
            bytes,
            connection,
            name: what as u32,
            status: (what >> 32) as u16,
            outcome: Outcome::from_code((what >> 48) as u8),
            opened: what >> 56 & 1 != 0,
            retried: what >> 56 & 2 != 0,
        })
    }
}

/// What has to be known beside a request to make a sample of it.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) begin_ns: u64,
    /// For each connection that is open, when its making began and ended.
    connects: HashMap<u64, (u64, u64)>,
    /// The same of the connection that was closed last: its last request may be told afterwards.
    closed: Option<(u64, (u64, u64))>,
}

impl Context {
    pub(crate) fn connected(&mut self, connection: u64, begin_ns: u64, ready_ns: u64) {
        self.connects.insert(connection, (begin_ns, ready_ns));
    }

    pub(crate) fn closes(&mut self, connection: u64) {
        self.closed = self.connects.remove_entry(&connection).or(self.closed);
    }

    /// When a connection's making began and ended, if it was made.
    pub(crate) fn connect(&self, connection: u64) -> Option<(u64, u64)> {
        let closed = || self.closed.filter(|(closed, _)| *closed == connection).map(|(_, connect)| connect);
        self.connects.get(&connection).copied().or_else(closed)
    }

    pub(crate) fn sample(&self, request: &ClientRequest) -> Sample {
        let opened = request.opened_connection;
        let connect = if opened { self.connect(request.connection) } else { None };
        let from_ns = match connect {
            // Over HTTP/2 it may have come while the connection was being made.
            Some((begin_ns, _)) => begin_ns.max(request.started_ns),
            None if opened || request.sent_ns == 0 => request.started_ns,
            None => request.sent_ns,
        };
        Sample {
            start_ns: request.started_ns.saturating_sub(self.begin_ns),
            connect_ns: connect.map_or(0, |(begin_ns, ready_ns)| ready_ns.saturating_sub(begin_ns)),
            first_byte_ns: match request.first_byte_ns {
                0 => 0,
                first_byte_ns => first_byte_ns.saturating_sub(request.sent_ns),
            },
            total_ns: request.done_ns.saturating_sub(from_ns),
            latency_ns: request.done_ns.saturating_sub(request.intended_ns),
            bytes: request.response_bytes,
            connection: request.connection,
            name: request.name,
            status: request.status,
            outcome: request.outcome,
            opened,
            retried: request.retried,
        }
    }
}

/// A thread's share of a number.
pub(crate) fn part(whole: usize, lane: u32, threads: u32) -> usize {
    whole / threads as usize + usize::from((lane as usize) < whole % threads as usize)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn request(start_ns: u64) -> ClientRequest {
        ClientRequest {
            connection: 7,
            intended_ns: start_ns,
            started_ns: start_ns + 10,
            sent_ns: start_ns + 110,
            first_byte_ns: start_ns + 1110,
            done_ns: start_ns + 2110,
            request_offset: 0,
            request_bytes: 20,
            response_offset: 0,
            response_bytes: 300,
            status: 200,
            name: 3,
            outcome: Outcome::Done,
            opened_connection: true,
            encrypted: false,
            retried: false,
            http_version: 1,
            stream: 0,
        }
    }

    #[test]
    fn the_parts_of_a_sample_are_those_of_its_request() {
        let mut context = Context { begin_ns: 500, connects: HashMap::from([(7, (1015, 1105))]), closed: None };
        let opened = context.sample(&request(1000));
        assert_eq!((opened.start_ns, opened.connect_ns, opened.first_byte_ns), (510, 90, 1000));
        assert_eq!((opened.total_ns, opened.latency_ns, opened.bytes), (2095, 2110, 300));
        let kept = context.sample(&ClientRequest { opened_connection: false, ..request(1000) });
        assert_eq!((kept.connect_ns, kept.total_ns, kept.latency_ns), (0, 2000, 2110));
        context.closes(7);
        context.closes(9);
        assert_eq!(context.sample(&request(1000)), opened);
        let refused = ClientRequest { connection: 8, sent_ns: 0, first_byte_ns: 0, status: 0, ..request(1000) };
        let refused = context.sample(&refused);
        assert_eq!((refused.connect_ns, refused.first_byte_ns, refused.total_ns), (0, 0, 2100));
    }

    #[test]
    fn a_sample_goes_through_a_ring_unchanged() {
        for outcome in Outcome::ALL {
            let (opened, retried) = (outcome as u8 & 1 == 0, outcome as u8 & 2 == 0);
            let request = ClientRequest {
                outcome,
                opened_connection: opened,
                retried,
                name: u32::MAX,
                status: 999,
                response_bytes: u64::MAX,
                ..request(1)
            };
            let sample = Context::default().sample(&request);
            assert_eq!(Sample::from_slots(&sample.to_slots()), Some(sample));
        }
    }
}
