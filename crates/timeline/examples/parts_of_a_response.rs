//! Where the time of one response went, by seven events.
//!
//! The client says when it wanted, sent and finished a request; the kernel says when the server's socket got it, when a
//! task took it and sent the response. The joiner finds the request among the server's events by connection and byte
//! position, and divides its time into steps.
//!
//! `cargo run --release -p weir-timeline --example parts_of_a_response`

use std::net::SocketAddr;
use weir_timeline::{Bounds, Joiner, Response};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::socket::SocketOpen;
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, Slot};

const SOCKET: u32 = 5;
const TASK: u32 = 100;

fn main() {
    let mut joiner = Joiner::new(Bounds::default());
    let mut show = |_: &Joiner, response: &Response<'_>| {
        println!("a response of {} ns", response.time_ns());
        for step in response.steps {
            println!("{:>6} to {:>6} ns  {}", step.from_ns, step.to_ns, step.part.words());
        }
    };
    for (record, slots) in events() {
        joiner.push(&record, &slots, None, &mut show);
    }
    joiner.finish(&mut show);
    println!("{} of {} joined", joiner.statistics().joined, joiner.statistics().requests);
}

/// The events in the order of their times: a request of 50 bytes, and a response of 70.
fn events() -> Vec<(Record, Vec<Slot>)> {
    let (server, client) = (SocketAddr::from(([127, 0, 0, 1], 80)), SocketAddr::from(([127, 0, 0, 1], 40_000)));
    let (connection, lane) = (1, 7);
    let on_cpu = Switch { prev: 0, next: TASK, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
    let open = SocketOpen {
        socket: SOCKET,
        receive_base: 0,
        send_base: 0,
        cookie: u64::from(SOCKET),
        netns: 0,
        local: server,
        remote: client,
    };
    let connected = ClientConnection {
        connection,
        connect_start_ns: 1_000,
        connected_ns: 1_900,
        failed: false,
        local: client,
        remote: server,
    };
    let request = ClientRequest {
        connection,
        intended_ns: 1_000,
        started_ns: 1_000,
        sent_ns: 2_000,
        first_byte_ns: 9_000,
        done_ns: 9_000,
        request_offset: 0,
        request_bytes: 50,
        response_offset: 0,
        response_bytes: 70,
        status: 200,
        name: 0,
        outcome: Outcome::Done,
        opened_connection: true,
        encrypted: false,
        retried: false,
        http_version: 1,
        stream: 0,
    };
    let at_socket = |time_ns, kind: Kind, position: u64| {
        (Record { time_ns, kind: kind as u16, a: u64::from(SOCKET) | position << 32, ..Record::default() }, Vec::new())
    };
    let (opened, opened_slots) = open.write(1_500, 0);
    let (connected, connected_slots) = connected.write(lane);
    let (done, done_slots) = request.write(lane);
    vec![
        (on_cpu.write(1, 0), Vec::new()),
        (opened, opened_slots.to_vec()),
        (connected, connected_slots.to_vec()),
        at_socket(3_000, Kind::SocketReady, 50),
        at_socket(4_000, Kind::SocketRecv, 50),
        at_socket(8_000, Kind::SocketSend, 70),
        (done, done_slots.to_vec()),
    ]
}
