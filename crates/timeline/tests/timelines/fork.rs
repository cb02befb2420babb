//! A task that is made for a connection: before it was made, the request was with the one that made it.

use std::net::SocketAddr;
use weir_measure::part::Part;
use weir_timeline::{Bounds, Joiner, Step};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::socket::SocketOpen;
use weir_wire::task::{NO_SYSCALL, Switch};
use weir_wire::{Kind, Record};

const CLIENT: u32 = 7;

fn plain(time_ns: u64, lane: u32, kind: Kind, low: u32, high: u32) -> Record {
    Record { time_ns, kind: kind as u16, lane, a: u64::from(low) | u64::from(high) << 32, ..Record::default() }
}

fn switch(time_ns: u64, lane: u32, prev: u32, next: u32, syscall: u16) -> Record {
    let prev_state = u8::from(syscall != NO_SYSCALL);
    Switch { prev, next, prev_state, syscall, descriptor: 0 }.write(time_ns, lane)
}

#[test]
fn a_request_is_its_makers_before_its_task_is_made() {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let mut joiner = Joiner::new(Bounds::default());
    let mut steps: Vec<Step> = Vec::new();
    let mut push = |record: Record, slots: &[weir_wire::Slot]| {
        joiner.push(&record, slots, None, &mut |_, one| steps.extend(one.steps));
    };
    let epoll = libc::SYS_epoll_pwait as u16;
    // Another task had the number before: nothing is told of that one.
    push(switch(10, 1, 0, 200, NO_SYSCALL), &[]);
    push(switch(20, 1, 200, 0, epoll), &[]);
    push(plain(25, 1, Kind::Exit, 200, 0), &[]);
    push(switch(30, 0, 0, 100, NO_SYSCALL), &[]);
    push(switch(40, 0, 100, 0, epoll), &[]);
    let told = ClientConnection {
        connection: 1,
        connect_start_ns: 1_000,
        connected_ns: 1_100,
        failed: false,
        local: address(40_000),
        remote: address(80),
    };
    let open = SocketOpen {
        socket: 5,
        receive_base: 0,
        send_base: 0,
        cookie: 5,
        netns: 0,
        local: address(80),
        remote: address(40_000),
    };
    let (record, slots) = open.write(1_050, 0);
    push(record, &slots);
    let (record, slots) = told.write(CLIENT);
    push(record, &slots);
    push(plain(1_200, 0, Kind::SocketReady, 5, 50), &[]);
    push(plain(1_210, 0, Kind::Waking, 0, 100), &[]);
    push(switch(1_230, 0, 0, 100, NO_SYSCALL), &[]);
    push(plain(1_300, 0, Kind::Fork, 100, 200), &[]);
    push(switch(1_350, 1, 0, 200, NO_SYSCALL), &[]);
    push(plain(1_400, 1, Kind::SocketRecv, 5, 50), &[]);
    push(plain(1_500, 1, Kind::SocketSend, 5, 70), &[]);
    let request = ClientRequest {
        connection: 1,
        intended_ns: 1_000,
        started_ns: 1_000,
        sent_ns: 1_150,
        first_byte_ns: 1_600,
        done_ns: 1_600,
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
    let (record, slots) = request.write(CLIENT);
    push(record, &slots);
    joiner.finish(&mut |_, one| steps.extend(one.steps));
    let said: Vec<_> = steps.iter().map(|step| (step.from_ns, step.to_ns, step.part, step.pid)).collect();
    let expected = [
        (1_000, 1_100, Part::Connect, 0),
        (1_100, 1_150, Part::Generator, 0),
        (1_150, 1_200, Part::RequestTransit, 0),
        (1_200, 1_210, Part::RequestTransit, 100),
        (1_210, 1_230, Part::WaitCpu, 100),
        (1_230, 1_300, Part::Run, 100),
        (1_300, 1_350, Part::WaitCpu, 200),
        (1_350, 1_400, Part::Run, 200),
        (1_400, 1_500, Part::Run, 200),
        (1_500, 1_600, Part::ResponseTransit, 0),
    ];
    assert_eq!(said, expected);
}
