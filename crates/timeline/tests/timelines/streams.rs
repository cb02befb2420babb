//! Streams of HTTP/2 told apart: which bytes, which task and which send belong to each.

use std::net::SocketAddr;
use weir_timeline::{Bounds, Joiner, LongKind, Statistics, Unjoinable};
use weir_wire::socket::{HTTP2, SocketOpen};
use weir_wire::stream::{CONTROL, END_HEADERS, END_STREAM, Flow, HeadOf, StreamFrame, StreamHead, frame_type};
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, Slot};

const SOCKET: u32 = 5;
const TASK: u32 = 100;
/// After the last event, so that all that is to be told has come.
const LATE_NS: u64 = 10_000_000_000;

type Event = (Record, Vec<Slot>);

fn at_socket(time_ns: u64, kind: Kind, flags: u8, position: u64) -> Event {
    (
        Record { time_ns, kind: kind as u16, flags, a: u64::from(SOCKET) | position << 32, ..Record::default() },
        Vec::new(),
    )
}

fn frame(time_ns: u64, flow: Flow, stream: u32, kind: u8, sent: bool, position: u32) -> Event {
    let frame_flags = END_STREAM | END_HEADERS;
    let frame = StreamFrame { flow, stream, kind, sent, more: false, older: false, position, length: 11, frame_flags };
    (frame.write(time_ns, 0), Vec::new())
}

fn head(time_ns: u64, flow: Flow, stream: u32, name: &str) -> Event {
    let (of, name) = (HeadOf::Request, name.to_owned());
    StreamHead { flow, stream, of, grpc: false, events: false, websocket: false, status: 0, grpc_status: None, name }
        .write(time_ns, 0)
}

/// A connection from its beginning, in a window of a recording.
fn opening() -> Vec<Event> {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let (local, remote, cookie) = (address(80), address(40_000), u64::from(SOCKET));
    let open = SocketOpen { socket: SOCKET, receive_base: 0, send_base: 0, cookie, netns: 0, local, remote };
    let (opened, slots) = open.write(1_000, 0);
    let on_cpu = Switch { prev: 0, next: TASK, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
    vec![
        (Record { time_ns: 0, kind: Kind::Window as u16, a: 1, ..Record::default() }, Vec::new()),
        (on_cpu.write(1, 0), Vec::new()),
        (opened, slots.to_vec()),
    ]
}

/// A name, when it arrived, was picked up and sent, and of how many bytes its response was.
type Told = (String, u64, u64, u64, u64);

fn told(mut events: Vec<Event>) -> (Vec<Told>, Statistics) {
    events.push((Record { time_ns: LATE_NS, kind: Kind::ClockPair as u16, ..Record::default() }, Vec::new()));
    let mut joiner = Joiner::of_server(Bounds::default(), &[]);
    let mut told = Vec::new();
    let mut take = |_: &Joiner, one: &weir_timeline::Response<'_>| {
        let Some(at) = one.server else { return };
        let sum: u64 = one.steps.iter().map(|step| step.to_ns - step.from_ns).sum();
        assert_eq!(sum, one.time_ns());
        told.push((one.name.to_owned(), at.arrived_ns, at.picked_ns, at.sent_ns, one.request.response_bytes));
    };
    for (record, slots) in &events {
        joiner.push(record, slots, None, &mut take);
    }
    joiner.finish(&mut take);
    let statistics = joiner.statistics();
    (told, statistics)
}

#[test]
fn two_streams_that_overlap_have_their_own_times() {
    let flow = Flow::Socket(SOCKET);
    let mut events = opening();
    events.extend([
        // The first one's head, behind the preface; then the second one's, which arrives later.
        at_socket(2_000, Kind::SocketReady, 0, 44),
        at_socket(2_100, Kind::SocketRecv, HTTP2, 44),
        frame(2_101, flow, 1, frame_type::HEADERS, false, 24),
        at_socket(3_000, Kind::SocketReady, 0, 64),
        at_socket(3_100, Kind::SocketRecv, 0, 64),
        frame(3_101, flow, 3, frame_type::HEADERS, false, 44),
        // The second one is answered first, whole; of the first one the last byte goes with a later send.
        frame(4_000, flow, 3, frame_type::HEADERS, true, 0),
        frame(4_001, flow, 3, frame_type::STREAM_END, true, 0),
        frame(4_002, flow, 1, frame_type::HEADERS, true, 0),
        at_socket(4_010, Kind::SocketSend, 0, 40),
        frame(5_000, flow, 1, frame_type::DATA, true, 40),
        frame(5_001, flow, 1, frame_type::STREAM_END, true, 40),
        at_socket(5_010, Kind::SocketSend, 0, 60),
        head(20_000_000, flow, 1, "GET /one"),
        head(20_000_000, flow, 3, "GET /three"),
    ]);
    let (told, statistics) = told(events);
    let expected = [("GET /three", 3_000, 3_100, 4_010, 20), ("GET /one", 2_000, 2_100, 5_010, 40)];
    assert_eq!(
        told,
        expected.map(|(name, arrived, picked, sent, bytes)| (name.to_owned(), arrived, picked, sent, bytes))
    );
    let exchanges = statistics.exchanges;
    assert_eq!((exchanges.streams, exchanges.streams_nameless, exchanges.http2), (2, 0, 0));
    assert_eq!((statistics.requests, statistics.joined), (2, 2));
}

/// A stream whose one head is of its request, taken and answered at once.
fn stream(at_ns: u64, number: u32) -> [Event; 4] {
    let flow = Flow::Socket(SOCKET);
    let position = 44 + 20 * u64::from(number);
    [
        at_socket(at_ns, Kind::SocketReady, 0, position + 20),
        at_socket(at_ns + 1, Kind::SocketRecv, if number == 1 { HTTP2 } else { 0 }, position + 20),
        frame(at_ns + 2, flow, number, frame_type::HEADERS, false, position as u32),
        frame(at_ns + 3, flow, number, frame_type::STREAM_END, true, 0),
    ]
}

fn send(at_ns: u64, position: u64) -> Event {
    at_socket(at_ns, Kind::SocketSend, 0, position)
}

#[test]
fn a_recorder_that_is_held_up_tells_heads_seconds_late() {
    const SECOND: u64 = 1_000_000_000;
    let flow = Flow::Socket(SOCKET);
    let mut events = opening();
    events.extend(stream(2_000, 1));
    events.push(send(2_010, 20));
    // What is told meanwhile does not make the first one be told without its name.
    events.extend(stream(3 * SECOND, 3));
    events.push(send(3 * SECOND + 10, 40));
    events.extend([head(4 * SECOND, flow, 1, "GET /one"), head(4 * SECOND, flow, 3, "GET /three")]);
    // Of these nothing is said; the last one is not waited for as the first of them was.
    events.extend(stream(5 * SECOND, 5));
    events.push(send(5 * SECOND + 10, 60));
    events.extend(stream(11 * SECOND, 7));
    events.push(send(11 * SECOND + 10, 80));
    events.extend(stream(12 * SECOND, 9));
    events.push(send(12 * SECOND + 10, 100));
    let mut joiner = Joiner::of_server(Bounds::default(), &[]);
    let mut told: Vec<(String, u64)> = Vec::new();
    for (record, slots) in &events {
        let at_ns = record.time_ns;
        joiner.push(record, slots, None, &mut |_, one| told.push((one.name.to_owned(), at_ns / SECOND)));
    }
    let nameless = ":80 (a stream of HTTP/2 whose name is not known)";
    let expected = [("GET /one", 5), ("GET /three", 5), (nameless, 11), (nameless, 12)];
    assert_eq!(told, expected.map(|(name, second)| (name.to_owned(), second)));
}

#[test]
fn over_tls_a_flow_is_that_of_the_socket_just_taken_from() {
    let flow = Flow::Tls(9);
    let mut events = opening();
    events.extend([
        at_socket(2_000, Kind::SocketReady, 0, 60),
        // The record's head by itself, then the record.
        at_socket(2_100, Kind::SocketRecv, 0, 5),
        at_socket(2_200, Kind::SocketRecv, 0, 60),
        frame(2_300, flow, 1, frame_type::HEADERS, false, 0),
        frame(2_400, flow, 1, frame_type::HEADERS, true, 0),
        frame(2_401, flow, 1, frame_type::STREAM_END, true, 0),
        at_socket(2_500, Kind::SocketSend, 0, 90),
        at_socket(3_000, Kind::SocketReady, 0, 100),
        at_socket(3_100, Kind::SocketRecv, 0, 65),
        at_socket(3_200, Kind::SocketRecv, 0, 100),
        frame(3_300, flow, 3, frame_type::HEADERS, false, 0),
        frame(3_400, flow, 3, frame_type::STREAM_END, true, 0),
        at_socket(3_500, Kind::SocketSend, 0, 150),
    ]);
    let (told, statistics) = told(events);
    let times: Vec<_> = told.iter().map(|(_, arrived, picked, sent, _)| (*arrived, *picked, *sent)).collect();
    assert_eq!(times, [(2_000, 2_100, 2_500), (3_000, 3_100, 3_500)]);
    assert!(told.iter().all(|(name, ..)| name.contains(":80") && name.contains("not known")), "{told:?}");
    let exchanges = statistics.exchanges;
    assert_eq!((exchanges.streams, exchanges.streams_nameless, exchanges.encrypted_streams), (2, 2, 2));
}

#[test]
fn what_cannot_be_followed_or_was_given_up_is_counted() {
    let flow = Flow::Socket(SOCKET);
    let mut events = opening();
    events.extend([
        at_socket(2_000, Kind::SocketReady, 0, 84),
        at_socket(2_100, Kind::SocketRecv, HTTP2, 84),
        frame(2_101, flow, 1, frame_type::HEADERS, false, 24),
        frame(2_102, flow, 3, frame_type::HEADERS, false, 44),
        frame(2_103, flow, 5, frame_type::HEADERS, false, 64),
        frame(2_200, flow, 3, frame_type::RST_STREAM, true, 0),
        at_socket(2_300, Kind::SocketSend, 0, 13),
        frame(2_400, flow, 0, frame_type::LOST, true, 0),
        at_socket(2_500, Kind::SocketSend, 0, 90),
    ]);
    let (told, statistics) = told(events);
    assert!(told.is_empty(), "{told:?}");
    assert_eq!((statistics.exchanges.streams_reset, statistics.exchanges.http2), (1, 2));
    assert_eq!((statistics.requests, statistics.unjoinable[Unjoinable::Http2 as usize]), (2, 2));
}

#[test]
fn what_is_under_way_at_the_end_is_cut() {
    let flow = Flow::Socket(SOCKET);
    let mut events = opening();
    events.extend([
        at_socket(2_000, Kind::SocketReady, 0, 44),
        at_socket(2_100, Kind::SocketRecv, HTTP2, 44),
        frame(2_101, flow, 1, frame_type::HEADERS, false, 24),
    ]);
    let (told, statistics) = told(events);
    assert!(told.is_empty(), "{told:?}");
    assert_eq!((statistics.exchanges.cut, statistics.exchanges.streams), (1, 0));
}

/// A frame of a WebSocket with a message of eleven bytes, or a part of one; 0 says that it begins.
fn message(time_ns: u64, sent: bool, first_byte: u8) -> Event {
    // What is taken stands behind the request of 100 bytes.
    let position = if sent { 0 } else { 100 };
    let (record, slots) = frame(time_ns, Flow::Socket(SOCKET), 0, frame_type::WEBSOCKET, sent, position);
    let told = StreamFrame::read(&record).expect("a frame");
    let length = if first_byte == 0 { 0 } else { told.length };
    (StreamFrame { frame_flags: first_byte, length, ..told }.write(record.time_ns, 0), slots)
}

#[test]
fn a_websocket_is_told_with_its_messages_and_its_upgrade_is_a_response() {
    const TEXT: u8 = 0x81;
    let mut events = opening();
    events.extend([
        at_socket(2_000, Kind::SocketReady, 0, 100),
        at_socket(2_100, Kind::SocketRecv, 0, 100),
        at_socket(2_200, Kind::SocketSend, 0, 80),
        message(2_201, true, 0),
        // A message, and its echo.
        at_socket(5_000, Kind::SocketReady, 0, 117),
        at_socket(5_100, Kind::SocketRecv, 0, 117),
        message(5_101, false, TEXT),
        message(5_200, true, TEXT),
        at_socket(5_300, Kind::SocketSend, 0, 93),
        // A ping is no message; one in two parts is one, and answers nothing.
        message(6_000, true, 0x89),
        message(7_000, true, 0x01),
        message(7_001, true, 0x80),
        at_socket(7_300, Kind::SocketSend, 0, 150),
        (
            Record {
                time_ns: 9_000,
                kind: Kind::SocketState as u16,
                a: u64::from(SOCKET),
                b: 1 | 7 << 8,
                ..Record::default()
            },
            Vec::new(),
        ),
    ]);
    let (told, statistics) = told(events);
    let times: Vec<_> = told.iter().map(|(_, arrived, picked, sent, _)| (*arrived, *picked, *sent)).collect();
    assert_eq!(times, [(2_000, 2_100, 2_200)], "the upgrade alone is a response");
    let [long] = statistics.long_lived.as_slice() else { panic!("{:?}", statistics.long_lived) };
    assert_eq!((long.kind, &*long.name, long.count, long.open), (LongKind::WebSocket, ":80", 1, 0));
    assert_eq!((long.received.count, long.received.bytes), (1, 11));
    assert_eq!((long.sent.count, long.sent.bytes, long.sent.between_ns), (2, 33, 2_000));
    assert_eq!((long.answered, long.answer_ns), (1, 300));
}

#[test]
fn what_a_task_took_elsewhere_may_be_what_it_answers() {
    const TEXT: u8 = 0x82;
    let elsewhere = |time_ns: u64, kind: Kind| {
        let (record, slots) = at_socket(time_ns, kind, 0, 7);
        (Record { a: 99 | 7 << 32, ..record }, slots)
    };
    let mut events = opening();
    events.extend([
        at_socket(2_000, Kind::SocketReady, 0, 100),
        at_socket(2_100, Kind::SocketRecv, 0, 100),
        at_socket(2_200, Kind::SocketSend, 0, 80),
        message(2_201, true, 0),
        at_socket(5_000, Kind::SocketReady, 0, 117),
        at_socket(5_100, Kind::SocketRecv, 0, 117),
        message(5_101, false, TEXT),
        elsewhere(5_110, Kind::SocketSend),
        elsewhere(5_150, Kind::SocketRecv),
        message(5_200, true, TEXT),
        at_socket(5_300, Kind::SocketSend, 0, 93),
    ]);
    let (_, statistics) = told(events);
    let [long] = statistics.long_lived.as_slice() else { panic!("{:?}", statistics.long_lived) };
    assert_eq!((long.sent.count, long.answered, long.open), (1, 0, 1));
}

#[test]
fn streams_that_carry_messages_are_no_responses() {
    let flow = Flow::Socket(SOCKET);
    let part = |time_ns: u64, stream: u32, sent: bool| frame(time_ns, flow, stream, frame_type::DATA, sent, 0);
    let said = |stream: u32, of: HeadOf, grpc: bool, events: bool| {
        let name = if of == HeadOf::Request { format!("GET /{stream}") } else { String::new() };
        let websocket = false;
        let head = StreamHead { flow, stream, of, grpc, events, websocket, status: 200, grpc_status: None, name };
        head.write(20_000_000, 0)
    };
    let mut events = opening();
    events.extend([
        at_socket(2_000, Kind::SocketReady, 0, 104),
        at_socket(2_100, Kind::SocketRecv, HTTP2, 104),
        frame(2_101, flow, 1, frame_type::HEADERS, false, 24),
        frame(2_102, flow, 3, frame_type::HEADERS, false, 44),
        frame(2_103, flow, 5, frame_type::HEADERS, false, 64),
        // One call of gRPC streams, another one does not.
        part(2_110, 3, false),
        part(2_120, 5, false),
        part(2_130, 5, false),
    ]);
    for stream in [1, 3, 5] {
        events.extend([frame(3_000, flow, stream, frame_type::HEADERS, true, 0), part(3_001, stream, true)]);
    }
    events.push(at_socket(3_010, Kind::SocketSend, 0, 60));
    events.extend([part(9_000, 1, true), at_socket(9_010, Kind::SocketSend, 0, 80)]);
    for stream in [1, 3, 5] {
        events.push(frame(9_020, flow, stream, frame_type::STREAM_END, true, 0));
        events.push(at_socket(9_030 + u64::from(stream), Kind::SocketSend, 0, 80_u64 + u64::from(stream)));
        events.extend([
            said(stream, HeadOf::Request, stream > 1, false),
            said(stream, HeadOf::Response, false, stream == 1),
        ]);
    }
    events.sort_by_key(|(record, _)| record.time_ns);
    let (told, statistics) = told(events);
    assert_eq!(told.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["GET /3"]);
    let long: Vec<_> = statistics
        .long_lived
        .iter()
        .map(|one| (one.kind, &*one.name, one.received.count, one.sent.count, one.sent.between_ns))
        .collect();
    assert_eq!(long, [(LongKind::Events, "GET /1", 0, 2, 6_000), (LongKind::Grpc, "GET /5", 2, 1, 0)]);
}

/// A connection ends.
fn closed(time_ns: u64) -> Event {
    let (kind, a, b) = (Kind::SocketState as u16, u64::from(SOCKET), 1 | 7 << 8);
    (Record { time_ns, kind, a, b, ..Record::default() }, Vec::new())
}

/// What streams, ends as a rule with its client's giving it up; what does not, was given up.
#[test]
fn streams_that_carry_messages_may_be_given_up() {
    let flow = Flow::Socket(SOCKET);
    let head = |stream: u32, of: HeadOf, [grpc, events, websocket]: [bool; 3], status: u16| {
        let name = if of == HeadOf::Request { format!("GET /{stream}") } else { String::new() };
        let head = StreamHead { flow, stream, of, grpc, events, websocket, status, grpc_status: None, name };
        head.write(20_000_000, 0)
    };
    let asked = |stream: u32, told: [bool; 3]| head(stream, HeadOf::Request, told, 0);
    let given = |stream: u32, status: u16, events: bool| head(stream, HeadOf::Response, [false, events, false], status);
    let ping = |time_ns: u64, stream: u32| {
        let (record, slots) = frame(time_ns, flow, stream, frame_type::DATA, true, 0);
        let told = StreamFrame::read(&record).expect("a frame");
        (StreamFrame { frame_flags: CONTROL, ..told }.write(time_ns, 0), slots)
    };
    let mut events = opening();
    events.extend([at_socket(2_000, Kind::SocketReady, 0, 144), at_socket(2_100, Kind::SocketRecv, HTTP2, 144)]);
    for (number, stream) in [1, 3, 5, 7, 9].into_iter().enumerate() {
        events.push(frame(2_101 + number as u64, flow, stream, frame_type::HEADERS, false, 24 + 20 * number as u32));
    }
    for (at_ns, stream) in [(3_000, 1), (3_001, 3), (3_002, 5), (3_003, 7), (4_000, 3), (4_001, 5), (4_002, 7)] {
        events.push(frame(at_ns, flow, stream, frame_type::DATA, true, 0));
        events.push(at_socket(at_ns, Kind::SocketSend, 0, at_ns));
    }
    events.extend([ping(5_000, 7), at_socket(5_001, Kind::SocketSend, 0, 5_001)]);
    // One of the client's, one of the server's, and the end of the connection.
    events.extend([1, 3].map(|stream| frame(6_000, flow, stream, frame_type::RST_STREAM, false, 200)));
    events.push(frame(6_100, flow, 5, frame_type::RST_STREAM, true, 0));
    events.push(closed(7_000));
    events.extend([asked(1, [false; 3]), given(1, 200, false), asked(3, [false; 3]), given(3, 200, true)]);
    events.extend([asked(5, [true, false, false]), given(5, 200, false)]);
    // A WebSocket that was taken up, and one that was refused.
    events.extend([
        asked(7, [false, false, true]),
        given(7, 200, false),
        asked(9, [false, false, true]),
        given(9, 403, false),
    ]);
    let (told, statistics) = told(events);
    assert!(told.is_empty(), "{told:?}");
    let long: Vec<_> =
        statistics.long_lived.iter().map(|one| (one.kind, &*one.name, one.open, one.sent.count)).collect();
    let expected =
        [(LongKind::WebSocket, "GET /7", 0, 2), (LongKind::Events, "GET /3", 0, 2), (LongKind::Grpc, "GET /5", 0, 2)];
    assert_eq!(long, expected);
    assert_eq!(statistics.exchanges.streams_reset, 2);
}

/// A response of HTTP/1.1 in events: in the clear its socket is told, through TLS the task's next send tells it.
#[test]
fn events_of_http1_are_told_by_what_carries_them() {
    let event = |time_ns: u64, flow: Flow| frame(time_ns, flow, 0, frame_type::EVENT, true, 0);
    for flow in [Flow::Socket(SOCKET), Flow::Tls(0)] {
        let mut events = opening();
        events.extend([
            at_socket(2_000, Kind::SocketReady, 0, 100),
            at_socket(2_100, Kind::SocketRecv, 0, 100),
            at_socket(2_200, Kind::SocketSend, 0, 80),
            event(5_000, flow),
            at_socket(5_010, Kind::SocketSend, 0, 91),
            event(9_000, flow),
            at_socket(9_010, Kind::SocketSend, 0, 102),
            // The end of the content is no event.
            at_socket(9_100, Kind::SocketSend, 0, 107),
            // A response in which one looks like an event, and only one, is a response.
            at_socket(12_000, Kind::SocketReady, 0, 200),
            at_socket(12_100, Kind::SocketRecv, 0, 200),
            event(12_300, flow),
            at_socket(12_310, Kind::SocketSend, 0, 150),
            closed(15_000),
        ]);
        let (told, statistics) = told(events);
        assert_eq!(told.iter().map(|one| one.1).collect::<Vec<_>>(), [12_000], "{flow:?}");
        let [long] = statistics.long_lived.as_slice() else { panic!("{:?}", statistics.long_lived) };
        assert_eq!((long.kind, &*long.name, long.count, long.open), (LongKind::Events, ":80", 1, 0));
        assert_eq!((long.sent.count, long.sent.bytes, long.sent.between_ns), (2, 22, 4_000));
        assert_eq!(long.lasted_ns, 7_100);
    }
}
