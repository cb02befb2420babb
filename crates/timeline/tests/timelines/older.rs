//! Connections that are older than the recording, or than the connection that is meant; lanes without an end.

use std::net::SocketAddr;
use weir_timeline::{Bounds, Joiner, Unjoinable};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::socket::SocketOpen;
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, Slot};

const CLIENT: u32 = 7;

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn opened(time_ns: u64, socket: u32) -> (Record, Vec<Slot>) {
    let cookie = u64::from(socket);
    let (local, remote) = (address(80), address(40_000));
    let open = SocketOpen { socket, receive_base: 0, send_base: 0, cookie, netns: 0, local, remote };
    let (record, slots) = open.write(time_ns, 0);
    (record, slots.to_vec())
}

fn connected(connection: u64, connect_start_ns: u64) -> (Record, Vec<Slot>) {
    let connected_ns = connect_start_ns + 100;
    let (local, remote) = (address(40_000), address(80));
    let told = ClientConnection { connection, connect_start_ns, connected_ns, failed: false, local, remote };
    let (record, slots) = told.write(CLIENT);
    (record, slots.to_vec())
}

/// A request of 50 bytes with a response of 70; so many were before it on its connection.
fn request(connection: u64, number: u64, sent_ns: u64) -> (Record, Vec<Slot>) {
    let told = ClientRequest {
        connection,
        intended_ns: sent_ns,
        started_ns: sent_ns,
        sent_ns,
        first_byte_ns: sent_ns + 400,
        done_ns: sent_ns + 400,
        request_offset: 50 * number,
        request_bytes: 50,
        response_offset: 70 * number,
        response_bytes: 70,
        status: 200,
        name: 0,
        outcome: Outcome::Done,
        opened_connection: number == 0,
        encrypted: false,
        retried: false,
        http_version: 1,
        stream: 0,
    };
    let (record, slots) = told.write(CLIENT);
    (record, slots.to_vec())
}

/// What a socket saw of such a request.
fn served(socket: u64, number: u64, sent_ns: u64) -> [(Record, Vec<Slot>); 3] {
    let seen = |after_ns, kind, position: u64| {
        let a = socket | position << 32;
        (Record { time_ns: sent_ns + after_ns, kind: kind as u16, a, ..Record::default() }, Vec::new())
    };
    [
        seen(100, Kind::SocketReady, 50 * (number + 1)),
        seen(200, Kind::SocketRecv, 50 * (number + 1)),
        seen(300, Kind::SocketSend, 70 * (number + 1)),
    ]
}

/// Why each request could not be joined, in the order of their ends.
fn reasons(mut events: Vec<(Record, Vec<Slot>)>) -> Vec<Option<Unjoinable>> {
    let on_cpu = Switch { prev: 0, next: 100, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
    events.push((on_cpu.write(1, 0), Vec::new()));
    events.sort_by_key(|(record, _)| record.time_ns);
    let (mut joiner, mut reasons) = (Joiner::new(Bounds::default()), Vec::new());
    for (record, slots) in &events {
        joiner.push(record, slots, None, &mut |_, one| reasons.push(one.unjoinable));
    }
    joiner.finish(&mut |_, one| reasons.push(one.unjoinable));
    reasons
}

#[test]
fn a_socket_that_had_the_addresses_before_is_not_taken() {
    let mut events = vec![opened(1_000, 5), connected(1, 5_000), request(1, 0, 6_000)];
    events.extend(served(5, 0, 6_000));
    assert_eq!(reasons(events), [Some(Unjoinable::NoSocket)]);
}

#[test]
fn requests_under_way_when_the_recording_began_are_not_guessed() {
    for first in [0, 3] {
        // The census tells of the socket when the first of these requests has arrived already.
        let mut events = vec![connected(1, 1_000), opened(5_150, 5)];
        events.extend((0..3).map(|more| request(1, first + more, 5_000 + 1_000 * more)));
        events.extend((0..3).flat_map(|more| served(5, first + more, 5_000 + 1_000 * more)));
        events.retain(|(record, _)| record.kind != Kind::SocketReady as u16 || record.time_ns > 5_150);
        let reason = if first == 0 { Unjoinable::NoArrival } else { Unjoinable::NoSocket };
        assert_eq!(reasons(events), [Some(reason), None, None], "first {first}");
    }
}

#[test]
fn a_send_that_returns_long_after_the_client_has_the_response_is_found() {
    for (late_ms, is_found) in [(1, true), (59, true), (300, true), (499, true), (501, false)] {
        let mut events = vec![connected(1, 1_000), opened(1_050, 5), request(1, 0, 5_000)];
        events.extend(served(5, 0, 5_000));
        events.retain(|(record, _)| record.kind != Kind::SocketSend as u16);
        let done_ns = 5_400;
        let (mut send, slots) = served(5, 0, 5_000)[2].clone();
        send.time_ns = done_ns + late_ms * 1_000_000;
        events.push((send, slots));
        // The machine goes on meanwhile.
        events.extend((0..600).map(|at_ms| {
            let switch = Switch { prev: 0, next: 100, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
            (switch.write(10_000 + at_ms * 1_000_000, 1), Vec::new())
        }));
        let joined: Vec<bool> = reasons(events).iter().map(Option::is_none).collect();
        assert_eq!(joined, [is_found], "{late_ms} ms");
    }
}

#[test]
fn lanes_and_connections_have_bounds() {
    let bounds = Bounds { connections: 100, sweep_records: 64, ..Bounds::default() };
    let mut joiner = Joiner::new(bounds);
    let mut most = 0;
    for lane in 0..200_000u32 {
        let (mut record, slots) = connected(u64::from(lane), 1_000);
        record.lane = lane;
        joiner.push(&record, &slots, None, &mut |_, _| {});
        let kind = Kind::ClientLane as u16;
        joiner.push(&Record { lane, kind, a: 9, time_ns: 1_000, ..Record::default() }, &[], None, &mut |_, _| {});
        most = most.max(joiner.held());
    }
    assert!(most < (1 << 16) + 1_000, "{most} things held");
}
