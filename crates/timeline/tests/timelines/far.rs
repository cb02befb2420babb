//! What is asked of another recorded host is followed there; between what the hosts did lies the way there and back.

use std::net::SocketAddr;
use weir_measure::part::Part;
use weir_timeline::{Bounds, Detail, Joiner, Step};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::socket::{ACCEPTED, FAR, SocketOpen};
use weir_wire::task::{CONTEXT_TOLD, NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, Slot, text_slots};

const CLIENT: u32 = 7;
/// The web server's connections, and the end at the store of the second one.
const SERVED: u32 = 5;
const ASKING: u32 = 6;
const ASKED: u32 = 9;
/// Tasks on either host, and the CPU of each.
const WEB: (u32, u32) = (100, 0);
const STORE: (u32, u32) = (200, 1024);

type Event = (Record, Vec<Slot>);

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

fn open(time_ns: u64, socket: u32, local: SocketAddr, remote: SocketAddr) -> Event {
    let cookie = u64::from(socket);
    // Not known: so the address of the store counts as another host's only by what is said of the ends.
    let open = SocketOpen { socket, receive_base: 0, send_base: 0, cookie, netns: 0, local, remote };
    let (record, slots) = open.write(time_ns, 0);
    (record, slots.to_vec())
}

fn at_socket(time_ns: u64, kind: Kind, socket: u32, (_, lane): (u32, u32), position: u64) -> Event {
    let a = u64::from(socket) | position << 32;
    (Record { time_ns, kind: kind as u16, lane, a, ..Record::default() }, Vec::new())
}

fn named(pid: u32, name: &str) -> Event {
    let (a, slots) = (u64::from(pid) | u64::from(pid) << 32, text_slots(name));
    let record =
        Record { time_ns: 1, kind: Kind::TaskName as u16, flags: 1, slots: slots.len() as u8, a, ..Record::default() };
    (record, slots)
}

/// The task leaves its CPU, blocked in a call, and comes back after a wake-up in an interrupt.
fn sleeps((pid, cpu): (u32, u32), syscall: i64, from_ns: u64, woken_ns: u64, to_ns: u64) -> [Event; 3] {
    let out = Switch { prev: pid, next: 0, prev_state: 1, syscall: syscall as u16, descriptor: 4 };
    let back = Switch { prev: 0, next: pid, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
    let a = u64::from(pid) << 32;
    let waking = Record {
        time_ns: woken_ns,
        kind: Kind::Waking as u16,
        flags: 1 | CONTEXT_TOLD,
        lane: cpu,
        a,
        ..Record::default()
    };
    [(out.write(from_ns, cpu), Vec::new()), (waking, Vec::new()), (back.write(to_ns, cpu), Vec::new())]
}

fn request() -> ClientRequest {
    ClientRequest {
        stream: 0,
        connection: 2,
        intended_ns: 1_000,
        started_ns: 1_000,
        sent_ns: 1_000,
        first_byte_ns: 9_500,
        done_ns: 9_500,
        request_offset: 0,
        request_bytes: 50,
        response_offset: 0,
        response_bytes: 70,
        status: 200,
        name: 0,
        outcome: Outcome::Done,
        opened_connection: false,
        encrypted: false,
        retried: false,
        http_version: 1,
    }
}

/// A request at the web server, which asks the store from 1,300 on; the answer is there at 9,000.
fn events(far: bool) -> Vec<Event> {
    let made = ClientConnection {
        connection: 2,
        connect_start_ns: 100,
        connected_ns: 300,
        failed: false,
        local: address(3, 40_000),
        remote: address(1, 80),
    };
    let (made, made_slots) = made.write(CLIENT);
    let (over, over_slots) = request().write(CLIENT);
    let on_cpu = |(next, cpu)| {
        (Switch { prev: 0, next, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 }.write(2, cpu), vec![])
    };
    let a = u64::from(ASKED) | u64::from(ASKING) << 32;
    let peer = Record { time_ns: 450, kind: Kind::SocketPeer as u16, flags: FAR | ACCEPTED, a, ..Record::default() };
    let mut events = vec![
        named(WEB.0, "web on one"),
        named(STORE.0, "store on two"),
        on_cpu(WEB),
        on_cpu(STORE),
        open(200, SERVED, address(1, 80), address(3, 40_000)),
        (made, made_slots.to_vec()),
        open(400, ASKING, address(1, 50_000), address(2, 5_432)),
        // Its address is hashed, so that the addresses do not tell that these are ends of one connection.
        open(410, ASKED, address(2, 5_432), address(77, 50_000)),
    ];
    events.extend(far.then_some((peer, vec![])));
    events.extend(sleeps(STORE, libc::SYS_recvfrom, 500, 3_300, 3_350));
    events.extend([
        at_socket(1_100, Kind::SocketReady, SERVED, WEB, 50),
        at_socket(1_200, Kind::SocketRecv, SERVED, WEB, 50),
        at_socket(1_300, Kind::SocketSend, ASKING, WEB, 10),
    ]);
    events.extend(sleeps(WEB, libc::SYS_recvfrom, 1_400, 9_000, 9_100));
    events.extend([
        at_socket(3_200, Kind::SocketReady, ASKED, STORE, 10),
        at_socket(3_400, Kind::SocketRecv, ASKED, STORE, 10),
    ]);
    events.extend(sleeps(STORE, libc::SYS_clock_nanosleep, 3_500, 6_500, 6_600));
    events.extend([
        at_socket(6_700, Kind::SocketSend, ASKED, STORE, 20),
        at_socket(9_200, Kind::SocketRecv, ASKING, WEB, 20),
        at_socket(9_300, Kind::SocketSend, SERVED, WEB, 70),
        (over, over_slots.to_vec()),
    ]);
    events.sort_by_key(|(record, _)| record.time_ns);
    events
}

fn steps(far: bool) -> Vec<Step> {
    let (mut joiner, mut told) = (Joiner::new(Bounds::default()), Vec::new());
    for (record, slots) in events(far) {
        joiner.push(&record, &slots, None, &mut |_, one| told.push((one.steps.to_vec(), one.unjoinable)));
    }
    joiner.finish(&mut |_, one| told.push((one.steps.to_vec(), one.unjoinable)));
    let [(steps, None)] = told.as_slice() else { panic!("{told:?}") };
    assert!(steps.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "{steps:?}");
    assert_eq!(steps.iter().map(|step| step.to_ns - step.from_ns).sum::<u64>(), 8_500, "{steps:?}");
    steps.clone()
}

#[test]
fn what_the_other_host_did_lies_between_the_ways() {
    let steps = steps(true);
    let way = Detail::Way(address(2, 5_432));
    let between: Vec<(u64, u64, Part, u32, Detail)> = steps
        .iter()
        .filter(|step| step.from_ns >= 1_400 && step.to_ns <= 9_000)
        .map(|step| (step.from_ns, step.to_ns, step.part, step.pid, step.detail))
        .collect();
    let store = Detail::Task(STORE.0);
    let expected = [
        (1_400, 3_200, Part::WaitNetwork, WEB.0, way),
        (3_200, 3_300, Part::RequestTransit, STORE.0, Detail::None),
        (3_300, 3_350, Part::WaitCpu, STORE.0, Detail::None),
        (3_350, 3_400, Part::Run, STORE.0, store),
        (3_400, 3_500, Part::Run, STORE.0, store),
        (3_500, 6_500, Part::WaitTimer, STORE.0, store),
        (6_500, 6_600, Part::WaitCpu, STORE.0, Detail::None),
        (6_600, 6_700, Part::Run, STORE.0, store),
        (6_700, 9_000, Part::WaitNetwork, WEB.0, way),
    ];
    assert_eq!(between, expected);
}

/// Without a word on the ends the addresses tell nothing: no guess is made at who has answered.
#[test]
fn an_end_that_is_not_told_is_not_guessed() {
    let steps = steps(false);
    let waits: Vec<(u64, u64, Part)> = steps
        .iter()
        .filter(|step| step.from_ns >= 1_400 && step.to_ns <= 9_000)
        .map(|step| (step.from_ns, step.to_ns, step.part))
        .collect();
    let [(1_400, 9_000, part)] = waits.as_slice() else { panic!("{waits:?}") };
    assert!(matches!(part, Part::WaitNetwork | Part::WaitProcess), "{waits:?}");
}
