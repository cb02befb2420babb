//! Requests over HTTP/3 by the marks of weir's own server: which datagram, which task and which send belong to each.

use std::sync::Arc;
use weir_measure::part::Part;
use weir_timeline::{Bounds, Joiner, Statistics, Unjoinable};
use weir_wire::quic::{Quic, QuicEvent};
use weir_wire::socket::NO_POSITION;
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record};

const SOCKET: u32 = 5;
const TASK: u32 = 100;
/// A connection's number at its task.
const CONNECTION: u32 = 7;
/// After the last event, so that all that is to be told has come.
const LATE_NS: u64 = 10_000_000_000;

fn told(time_ns: u64, event: QuicEvent, connection: u32, stream: u32, more: u64) -> Record {
    Quic { event, connection, stream, more }.write(time_ns, 0)
}

fn arrival(time_ns: u64) -> Record {
    told(time_ns, QuicEvent::Arrival, SOCKET, 0, 0)
}

fn empty(time_ns: u64) -> Record {
    told(time_ns, QuicEvent::Empty, SOCKET, 0, 0)
}

fn of_socket(time_ns: u64, kind: Kind) -> Record {
    let a = u64::from(SOCKET) | 1200 << 32;
    Record { time_ns, kind: kind as u16, flags: NO_POSITION, a, ..Record::default() }
}

/// The request that the `place`-th of `of` datagrams brought.
fn request(time_ns: u64, connection: u32, stream: u32, place: u64, of: u64) -> Record {
    told(time_ns, QuicEvent::Request, connection, stream, place << 32 | of << 48)
}

/// A window of a recording, in which the socket was found empty once.
fn opening() -> Vec<Record> {
    let on_cpu = Switch { prev: 0, next: TASK, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
    vec![
        Record { time_ns: 0, kind: Kind::Window as u16, a: 1, ..Record::default() },
        on_cpu.write(1, 0),
        arrival(10),
        of_socket(20, Kind::SocketRecv),
        empty(21),
    ]
}

/// When it arrived, was picked up and sent, its bytes, its status, and how much of it was spent behind others.
type Told = (u64, u64, u64, u64, u16, u64);

fn explained(mut events: Vec<Record>) -> (Vec<Told>, Statistics) {
    events.push(Record { time_ns: LATE_NS, kind: Kind::ClockPair as u16, ..Record::default() });
    let mut joiner = Joiner::of_server(Bounds::default(), &[]);
    let mut out = Vec::new();
    let mut take = |_: &Joiner, one: &weir_timeline::Response<'_>| {
        let Some(at) = one.server else { return };
        let sum: u64 = one.steps.iter().map(|step| step.to_ns - step.from_ns).sum();
        assert_eq!((sum, one.name, one.request.http_version), (one.time_ns(), "GET /a", 3));
        let behind: u64 =
            one.steps.iter().filter(|step| step.part == Part::WorkerQueue).map(|step| step.to_ns - step.from_ns).sum();
        let request = one.request;
        out.push((at.arrived_ns, at.picked_ns, at.sent_ns, request.response_bytes, request.status, behind));
    };
    let name: Arc<str> = Arc::from("GET /a");
    for record in &events {
        joiner.push(record, &[], Some(&name), &mut take);
    }
    joiner.finish(&mut take);
    (out, joiner.statistics())
}

#[test]
fn each_request_has_the_datagram_that_brought_it() {
    let other = CONNECTION + 1;
    let mut events = opening();
    events.extend([
        // Two clients' datagrams, received together.
        arrival(1_000),
        arrival(1_500),
        of_socket(2_000, Kind::SocketRecv),
        of_socket(2_001, Kind::SocketRecv),
        empty(2_002),
        request(2_100, CONNECTION, 1, 1, 2),
        told(2_200, QuicEvent::Ended, CONNECTION, 1, 200 | 90 << 16),
        told(2_210, QuicEvent::Emptied, CONNECTION, 0, 0),
        of_socket(2_300, Kind::SocketSend),
        request(2_400, other, 1, 2, 2),
        told(2_500, QuicEvent::Ended, other, 1, 404 | 20 << 16),
        told(2_510, QuicEvent::Emptied, other, 0, 0),
        of_socket(2_600, Kind::SocketSend),
    ]);
    let (out, statistics) = explained(events);
    // The second one stood behind the first: while that was received, and from its own reception to that one's send.
    let behind = 2_000 - 1_500 + 2_300 - 2_001;
    assert_eq!(out, [(1_000, 2_000, 2_300, 90, 200, 1), (1_500, 2_001, 2_600, 20, 404, behind)]);
    assert_eq!((statistics.exchanges.http3, statistics.exchanges.streams), (2, 0));
    assert_eq!((statistics.requests, statistics.joined), (2, 2));
}

#[test]
fn a_long_response_ends_where_quic_has_sent_all_of_it() {
    let mut events = opening();
    events.extend([
        arrival(1_000),
        of_socket(2_000, Kind::SocketRecv),
        empty(2_001),
        request(2_100, CONNECTION, 1, 1, 1),
        told(2_200, QuicEvent::Begun, CONNECTION, 1, 200),
        told(2_210, QuicEvent::Ended, CONNECTION, 1, 200 | 90_000 << 16),
        told(2_220, QuicEvent::Carried, CONNECTION, 0, 0),
        of_socket(2_300, Kind::SocketSend),
        // An acknowledgement; a datagram without content, then the rest.
        arrival(5_000),
        of_socket(5_100, Kind::SocketRecv),
        empty(5_101),
        of_socket(5_150, Kind::SocketSend),
        told(5_200, QuicEvent::Emptied, CONNECTION, 0, 0),
        of_socket(5_300, Kind::SocketSend),
        told(7_000, QuicEvent::Acknowledged, CONNECTION, 1, 0),
    ]);
    let (out, _) = explained(events);
    // From the reception of the acknowledgement to its answer it was at that.
    assert_eq!(out, [(1_000, 2_000, 5_300, 90_000, 200, 50)]);
}

/// Where the last datagram was full it is not known that it was the last one, until the client has acknowledged it.
#[test]
fn what_is_acknowledged_had_been_sent() {
    let mut events = opening();
    events.extend([
        arrival(1_000),
        of_socket(2_000, Kind::SocketRecv),
        request(2_100, CONNECTION, 1, 1, 1),
        told(2_210, QuicEvent::Ended, CONNECTION, 1, 200 | 1_150 << 16),
        told(2_220, QuicEvent::Carried, CONNECTION, 0, 0),
        of_socket(2_300, Kind::SocketSend),
    ]);
    // A client that leaves has it as well, acknowledged or not.
    for end in [QuicEvent::Acknowledged, QuicEvent::Closed] {
        let events = [&events[..], &[told(7_000, end, CONNECTION, 1, 0)]].concat();
        assert_eq!(explained(events).0, [(1_000, 2_000, 2_300, 1_150, 200, 0)], "{end:?}");
    }
}

#[test]
fn a_datagram_may_be_taken_before_its_arrival_has_told_of_itself() {
    let mut events = opening();
    events.extend([
        of_socket(2_000, Kind::SocketRecv),
        empty(2_001),
        arrival(2_002),
        request(2_100, CONNECTION, 1, 1, 1),
        told(2_210, QuicEvent::Ended, CONNECTION, 1, 200),
        told(2_220, QuicEvent::Emptied, CONNECTION, 0, 0),
        of_socket(2_300, Kind::SocketSend),
        // The next one has its own arrival, not the one that came late.
        arrival(9_000),
        of_socket(9_100, Kind::SocketRecv),
        empty(9_101),
        request(9_200, CONNECTION, 2, 1, 1),
        told(9_210, QuicEvent::Ended, CONNECTION, 2, 200),
        told(9_220, QuicEvent::Emptied, CONNECTION, 0, 0),
        of_socket(9_300, Kind::SocketSend),
    ]);
    let times: Vec<_> = explained(events).0.iter().map(|one| (one.0, one.1, one.2)).collect();
    assert_eq!(times, [(2_000, 2_000, 2_300), (9_000, 9_100, 9_300)]);
}

#[test]
fn what_was_given_up_or_is_not_known_is_counted() {
    let mut events = opening();
    events.extend([
        arrival(1_000),
        of_socket(2_000, Kind::SocketRecv),
        request(2_100, CONNECTION, 1, 1, 1),
        request(2_101, CONNECTION, 2, 1, 1),
        told(2_200, QuicEvent::GivenUp, CONNECTION, 1, 0),
        // The server does not know with which datagram it came.
        request(2_300, CONNECTION, 3, 0, 0),
        told(2_400, QuicEvent::Ended, CONNECTION, 3, 200),
        told(2_410, QuicEvent::Emptied, CONNECTION, 0, 0),
        of_socket(2_500, Kind::SocketSend),
        told(2_600, QuicEvent::Closed, CONNECTION, 0, 0),
        request(3_000, CONNECTION + 1, 1, 1, 1),
    ]);
    let (out, statistics) = explained(events);
    assert!(out.is_empty(), "{out:?}");
    assert_eq!((statistics.exchanges.http3_given_up, statistics.exchanges.cut), (2, 1));
    assert_eq!(statistics.unjoinable[Unjoinable::NoArrival as usize], 1);
}
