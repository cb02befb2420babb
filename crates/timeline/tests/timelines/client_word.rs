//! What the client says of a request beside its place in the streams: that it was sent before, and which HTTP it was.

use std::net::SocketAddr;
use weir_measure::part::Part;
use weir_timeline::{Bounds, Detail, Joiner, Statistics, Step, Unjoinable};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::socket::{HTTP2, SocketOpen};
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, Slot};

const SOCKET: u32 = 5;
const CLIENT: u32 = 7;
const TASK: u32 = 100;

type Event = (Record, Vec<Slot>);

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A request that was sent in vain at 2,000, whose connection was made from 5,000 to 5,100, and that was answered over
/// that one by 5,600.
fn retried() -> ClientRequest {
    ClientRequest {
        connection: 2,
        intended_ns: 1_000,
        started_ns: 2_000,
        sent_ns: 5_200,
        first_byte_ns: 5_600,
        done_ns: 5_600,
        request_offset: 0,
        request_bytes: 50,
        response_offset: 0,
        response_bytes: 70,
        status: 200,
        name: 0,
        outcome: Outcome::Done,
        opened_connection: true,
        encrypted: false,
        retried: true,
        http_version: 1,
        stream: 0,
    }
}

fn at_socket(time_ns: u64, kind: Kind, flags: u8, position: u64) -> Event {
    let a = u64::from(SOCKET) | position << 32;
    (Record { time_ns, kind: kind as u16, flags, a, ..Record::default() }, Vec::new())
}

/// The request with everything that belongs to it; the flags are those of its pick-up.
fn events(request: ClientRequest, flags: u8) -> Vec<Event> {
    let cookie = u64::from(SOCKET);
    let (local, remote) = (address(80), address(40_000));
    let open = SocketOpen { socket: SOCKET, receive_base: 0, send_base: 0, cookie, netns: 0, local, remote };
    let (opened, open_slots) = open.write(5_050, 0);
    let made = ClientConnection {
        connection: 2,
        connect_start_ns: 5_000,
        connected_ns: 5_100,
        failed: false,
        local: remote,
        remote: local,
    };
    let (made, made_slots) = made.write(CLIENT);
    let (over, over_slots) = request.write(CLIENT);
    let on_cpu = Switch { prev: 0, next: TASK, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
    vec![
        (on_cpu.write(1, 0), Vec::new()),
        (opened, open_slots.to_vec()),
        (made, made_slots.to_vec()),
        at_socket(5_300, Kind::SocketReady, 0, 50),
        at_socket(5_400, Kind::SocketRecv, flags, 50),
        at_socket(5_500, Kind::SocketSend, 0, 70),
        (over, over_slots.to_vec()),
    ]
}

/// Steps of each response, and why it could not be joined.
type Told = Vec<(Vec<Step>, Option<Unjoinable>)>;

fn joined(mut joiner: Joiner, events: &[Event]) -> (Told, Statistics) {
    let mut told = Vec::new();
    for (record, slots) in events {
        joiner.push(record, slots, None, &mut |_, one| told.push((one.steps.to_vec(), one.unjoinable)));
    }
    joiner.finish(&mut |_, one| told.push((one.steps.to_vec(), one.unjoinable)));
    (told, joiner.statistics())
}

fn pieces(steps: &[Step]) -> Vec<(u64, u64, Part)> {
    steps.iter().map(|step| (step.from_ns, step.to_ns, step.part)).collect()
}

#[test]
fn the_first_try_belongs_to_getting_a_connection() {
    let (told, statistics) = joined(Joiner::new(Bounds::default()), &events(retried(), 0));
    let [(steps, None)] = told.as_slice() else { panic!("{told:?}") };
    let client = [
        (1_000, 2_000, Part::Generator),
        (2_000, 5_000, Part::Connect),
        (5_000, 5_100, Part::Connect),
        (5_100, 5_200, Part::Generator),
    ];
    assert_eq!(pieces(&steps[..4]), client);
    let details: Vec<Detail> = steps[..4].iter().map(|step| step.detail).collect();
    assert_eq!(details, [Detail::None, Detail::EndedConnection, Detail::None, Detail::None]);
    assert_eq!(statistics.retried, 1);
    // Sent once, the same times are the generator's: it took so long before it began to connect.
    let (told, statistics) =
        joined(Joiner::new(Bounds::default()), &events(ClientRequest { retried: false, ..retried() }, 0));
    assert_eq!(pieces(&told[0].0[..2]), [(1_000, 5_000, Part::Generator), (5_000, 5_100, Part::Connect)]);
    assert_eq!(statistics.retried, 0);
}

#[test]
fn times_in_any_order_still_add_up() {
    // Damaged records tell anything: begun after the connection was, before it was wanted, or never.
    for started_ns in [0, 999, 1_000, 4_999, 5_000, 5_001, 5_250, 9_000, u64::MAX] {
        let request = ClientRequest { started_ns, ..retried() };
        let (told, _) = joined(Joiner::new(Bounds::default()), &events(request, 0));
        let (steps, reason) = &told[0];
        assert_eq!(*reason, None);
        assert!(steps.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "{started_ns}: {steps:?}");
        assert_eq!(steps.iter().map(|step| step.to_ns - step.from_ns).sum::<u64>(), 4_600, "{started_ns}: {steps:?}");
    }
}

#[test]
fn later_versions_of_http_are_never_joined() {
    // What it says, and whether its connection began with the preface of HTTP/2: either is reason enough.
    for (http_version, flags, reason) in [
        (0, 0, None),
        (1, 0, None),
        (2, 0, Some(Unjoinable::Http2)),
        (2, HTTP2, Some(Unjoinable::Http2)),
        (0, HTTP2, Some(Unjoinable::Http2)),
        (1, HTTP2, Some(Unjoinable::Http2)),
        (3, 0, Some(Unjoinable::NoSocket)),
        (255, 0, Some(Unjoinable::NoSocket)),
    ] {
        let request = ClientRequest { http_version, ..retried() };
        let (told, statistics) = joined(Joiner::new(Bounds::default()), &events(request, flags));
        assert_eq!(told[0].1, reason, "version {http_version}, flags {flags}");
        let parts: Vec<Part> = told[0].0.iter().map(|step| step.part).collect();
        assert_eq!(parts.contains(&Part::Run), reason.is_none(), "version {http_version}: {parts:?}");
        assert_eq!(statistics.joined, u64::from(reason.is_none()));
        if let Some(reason) = reason {
            assert_eq!(statistics.unjoinable[reason as usize], 1);
            assert_eq!(parts.last(), Some(&Part::Unattributed));
        }
    }
}

#[test]
fn frames_of_http2_are_counted_and_not_told_as_responses() {
    let begin = Record { time_ns: 0, kind: Kind::Window as u16, a: 1, ..Record::default() };
    for (flags, responses) in [(0, 1), (HTTP2, 0)] {
        let mut all = vec![(begin, Vec::new())];
        all.extend(events(retried(), flags));
        // A second exchange of the connection, whose own bytes are no preface.
        all.extend([
            at_socket(6_000, Kind::SocketReady, 0, 59),
            at_socket(6_100, Kind::SocketRecv, 0, 59),
            at_socket(6_200, Kind::SocketSend, 0, 79),
            (Record { time_ns: 10_000_000_000, kind: Kind::ClockPair as u16, ..Record::default() }, Vec::new()),
        ]);
        let (told, statistics) = joined(Joiner::of_server(Bounds::default(), &[]), &all);
        assert_eq!(told.len(), 2 * responses, "{told:?}");
        let exchanges = statistics.exchanges;
        assert_eq!((exchanges.http2, exchanges.http2_connections), if responses == 0 { (2, 1) } else { (0, 0) });
        assert_eq!(statistics.unjoinable[Unjoinable::Http2 as usize], exchanges.http2);
        assert_eq!(statistics.requests, 2);
    }
}

/// A request over a connection of its own: when the recording began, when the client had the connection and when the
/// server's host, when it was sent; and what the socket tells.
fn over_a_fresh_connection(times: [u64; 4], encrypted: bool, at_server: &[Event]) -> Vec<Step> {
    let [begun_ns, connected_ns, opened_ns, sent_ns] = times;
    let cookie = u64::from(SOCKET);
    let (local, remote) = (address(80), address(40_000));
    let open = SocketOpen { socket: SOCKET, receive_base: 0, send_base: 0, cookie, netns: 0, local, remote };
    let (opened, open_slots) = open.write(opened_ns, 0);
    let connect_start_ns = 1_000;
    let made =
        ClientConnection { connection: 2, connect_start_ns, connected_ns, failed: false, local: remote, remote: local };
    let (made, made_slots) = made.write(CLIENT);
    let last_ns = at_server.last().map_or(opened_ns, |(record, _)| record.time_ns).max(sent_ns);
    let done_ns = last_ns + 1_000;
    let times =
        ClientRequest { intended_ns: 1_000, started_ns: 1_000, sent_ns, first_byte_ns: done_ns, done_ns, ..retried() };
    let request = ClientRequest { retried: false, encrypted, request_offset: if encrypted { 200 } else { 0 }, ..times };
    let response_offset = if encrypted { 900 } else { 0 };
    let (over, over_slots) = ClientRequest { response_offset, ..request }.write(CLIENT);
    let on_cpu = Switch { prev: 0, next: TASK, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
    let mut events = vec![
        (on_cpu.write(begun_ns, 0), Vec::new()),
        (made, made_slots.to_vec()),
        (opened, open_slots.to_vec()),
        (over, over_slots.to_vec()),
    ];
    events.splice(3..3, at_server.iter().cloned());
    let (told, _) = joined(Joiner::new(Bounds::default()), &events);
    let [(steps, None)] = told.as_slice() else { panic!("{told:?}") };
    assert!(steps.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "{steps:?}");
    steps.clone()
}

fn exchange(arrived_ns: u64) -> [Event; 3] {
    [
        at_socket(arrived_ns, Kind::SocketReady, 0, 50),
        at_socket(arrived_ns + 100, Kind::SocketRecv, 0, 50),
        at_socket(arrived_ns + 200, Kind::SocketSend, 0, 70),
    ]
}

#[test]
fn a_connection_whose_syn_was_sent_again_names_the_server() {
    let second = 1_000_000_000;
    let told = |begun_ns: u64, connected_ns: u64, opened_ns: u64| {
        let sent_ns = connected_ns + 500;
        let arrived_ns = sent_ns.max(opened_ns) + 100;
        let steps = over_a_fresh_connection([begun_ns, connected_ns, opened_ns, sent_ns], false, &exchange(arrived_ns));
        steps.iter().find(|step| step.part == Part::Connect).map(|step| (step.from_ns, step.to_ns, step.detail))
    };
    let late = Detail::LateSyn(address(80));
    // The server's host has it, or has to be told again itself.
    for opened_ns in [second + 2_050, second + 300_000_000] {
        assert_eq!(told(1, second + 2_000, opened_ns), Some((1_000, second + 2_000, late)));
    }
    // At once; or the client alone was late; or it is older than the recording, and was told when that began.
    assert_eq!(told(1, 5_100, 5_050), Some((1_000, 5_100, Detail::None)));
    assert_eq!(told(1, second + 2_000, 5_050), Some((1_000, second + 2_000, Detail::None)));
    assert_eq!(told(5_000, second + 2_000, second + 2_050), Some((1_000, second + 2_000, Detail::None)));
}

#[test]
fn a_request_before_the_server_has_its_connection_waits_for_room_in_the_backlog() {
    let (sent_ns, opened_ns) = (5_200, 200_005_200);
    let steps = over_a_fresh_connection([1, 5_100, opened_ns, sent_ns], false, &exchange(opened_ns + 300));
    let waits = steps.iter().find(|step| step.from_ns == sent_ns).map(|step| (step.to_ns, step.part, step.detail));
    assert_eq!(waits, Some((opened_ns, Part::AcceptQueue, Detail::FullBacklog(address(80)))), "{steps:?}");
    // Where it has it in time, the way is what took so long.
    let steps = over_a_fresh_connection([1, 5_100, 5_050, sent_ns], false, &exchange(opened_ns + 300));
    let waits = steps.iter().find(|step| step.from_ns == sent_ns).map(|step| (step.to_ns, step.part, step.detail));
    assert_eq!(waits, Some((opened_ns + 300, Part::RequestTransit, Detail::None)), "{steps:?}");
}

#[test]
fn a_tls_handshake_is_told_by_the_turns_of_the_servers_task() {
    let at_server = [
        at_socket(6_000, Kind::SocketReady, 0, 100),
        at_socket(6_100, Kind::SocketRecv, 0, 100),
        at_socket(8_000, Kind::SocketSend, 0, 800),
        at_socket(8_100, Kind::SocketSend, 0, 900),
        at_socket(9_000, Kind::SocketReady, 0, 250),
        at_socket(9_100, Kind::SocketRecv, 0, 250),
        at_socket(9_200, Kind::SocketSend, 0, 970),
    ];
    let steps = over_a_fresh_connection([1, 5_100, 5_050, 8_900], true, &at_server);
    let connect = steps.iter().filter(|step| step.part == Part::Connect);
    let connect: Vec<_> = connect.map(|step| (step.from_ns, step.to_ns, step.detail)).collect();
    let with = Detail::Handshake(TASK);
    assert_eq!(
        connect,
        [(1_000, 6_000, Detail::None), (6_000, 8_100, with), (8_100, 8_900, Detail::None)],
        "{steps:?}"
    );
}
