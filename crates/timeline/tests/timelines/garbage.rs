//! With any records the joiner neither panics nor guesses: steps add up, and what is missing is counted.

use crate::world;

use std::sync::Arc;
use weir_measure::part::Part;
use weir_testkit::seeded::Choice;
use weir_timeline::{Bounds, Joiner, Statistics};
use weir_wire::client::{ClientConnection, ClientRequest};
use weir_wire::socket::SocketOpen;
use weir_wire::task::Switch;
use weir_wire::{KINDS, Kind, Record};
use world::{Event, Plan, Told, base_seed, join, simulate};

/// Every answered request is joined or counted by one reason.
fn accounted(statistics: &Statistics, told: &[Told]) {
    let unjoinable: u64 = statistics.unjoinable.iter().sum();
    assert_eq!(statistics.joined + unjoinable, statistics.requests, "{statistics:?}");
    assert_eq!(told.len() as u64, statistics.requests);
    assert_eq!(told.iter().filter(|one| one.unjoinable.is_some()).count() as u64, unjoinable);
}

/// A record of any kind, out of few tasks, sockets and connections, so that they meet.
fn any_record(choice: &mut Choice) -> Event {
    let wild = choice.below(10) == 0;
    let mut number = |few: u64| if wild { choice.next_u64() >> choice.below(64) } else { choice.below(few) };
    let times: [u64; 6] = std::array::from_fn(|_| number(50_000_000));
    let (pid, other) = (number(6) as u32, number(6) as u32);
    let (socket, lane) = ((number(4) as u32).saturating_add(1), number(4) as u32);
    let (position, bytes, port) = (number(3_000) as u32, number(500), 40_000_u16.wrapping_add(number(4) as u16));
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let kind = *choice.pick(KINDS);
    match Kind::from_code(kind.code) {
        Some(Kind::Switch) => {
            let syscall = *choice.pick(&[libc::SYS_futex, libc::SYS_epoll_wait, libc::SYS_recvfrom, 511]) as u16;
            let prev_state = choice.below(4) as u8;
            let switch = Switch { prev: pid, next: other, prev_state, syscall, descriptor: 0 };
            (switch.write(times[0], lane), Vec::new())
        }
        Some(Kind::SocketOpen) => {
            let open = SocketOpen {
                socket,
                receive_base: 0,
                send_base: 0,
                cookie: u64::from(socket),
                netns: 0,
                local: address(80),
                remote: address(port),
            };
            let (record, slots) = open.write(times[0], lane);
            (record, slots.to_vec())
        }
        Some(Kind::ClientConnection) => {
            let told = ClientConnection {
                connection: u64::from(socket),
                connect_start_ns: times[1],
                connected_ns: times[0],
                failed: false,
                local: address(port),
                remote: address(80),
            };
            let (record, slots) = told.write(lane);
            (record, slots.to_vec())
        }
        Some(Kind::ClientRequest) => {
            let request = ClientRequest {
                connection: u64::from(socket),
                intended_ns: times[1],
                started_ns: times[2],
                sent_ns: times[3],
                first_byte_ns: times[4],
                done_ns: times[0],
                request_offset: u64::from(position),
                request_bytes: bytes as u32,
                response_offset: times[5] % 3_000,
                response_bytes: bytes,
                status: 200,
                name: 0,
                outcome: weir_wire::client::Outcome::Done,
                opened_connection: choice.below(2) == 0,
                encrypted: choice.below(2) == 0,
                retried: choice.below(2) == 0,
                http_version: choice.below(4) as u8,
            };
            let (record, slots) = request.write(lane);
            (record, slots.to_vec())
        }
        _ => {
            let record = Record {
                time_ns: times[0],
                kind: kind.code,
                flags: (choice.below(16) & choice.below(16)) as u8,
                slots: 0,
                lane,
                a: if choice.below(2) == 0 {
                    u64::from(pid) | u64::from(other) << 32
                } else {
                    u64::from(socket) | u64::from(position) << 32
                },
                b: times[1],
            };
            (record, Vec::new())
        }
    }
}

#[test]
fn garbage_adds_up() {
    for seed in base_seed()..base_seed() + 150 {
        let mut choice = Choice::from_seed(seed);
        let mut events: Vec<Event> = (0..3_000).map(|_| any_record(&mut choice)).collect();
        // Half of the traces are in order, as the merge gives them.
        if seed % 2 == 0 {
            events.sort_by_key(|(record, _)| record.time_ns);
        }
        let (told, statistics) = join(&events);
        told.iter().for_each(Told::check);
        accounted(&statistics, &told);
    }
}

#[test]
fn worlds_with_garbage_between_add_up() {
    for seed in base_seed()..base_seed() + 60 {
        let (mut events, _) = simulate(Plan::any(seed));
        let mut choice = Choice::from_seed(seed);
        for _ in 0..events.len() / 10 {
            let at = choice.below(events.len() as u64) as usize;
            let (mut record, slots) = any_record(&mut choice);
            record.time_ns = events[at].0.time_ns;
            events.insert(at, (record, slots));
        }
        let (told, statistics) = join(&events);
        told.iter().for_each(Told::check);
        accounted(&statistics, &told);
    }
}

/// Which records of the kernel may be dropped.
fn is_kernel(record: &Record) -> bool {
    (0x0101..0x0300).contains(&record.kind)
}

#[test]
fn what_is_dropped_is_missed_and_not_guessed() {
    let (mut requests, mut joined) = (0u64, 0u64);
    let (mut added_ns, mut lost_ns, mut total_ns) = (0u64, 0u64, 0u64);
    for seed in base_seed()..base_seed() + 150 {
        let (events, truths) = simulate(Plan::any(seed));
        let mut choice = Choice::from_seed(seed);
        let percent = 1 + choice.below(10);
        let kept: Vec<Event> =
            events.into_iter().filter(|(record, _)| !is_kernel(record) || choice.below(100) >= percent).collect();
        let (told, statistics) = join(&kept);
        accounted(&statistics, &told);
        requests += statistics.requests;
        joined += statistics.joined;
        for one in &told {
            one.check();
            let truth = truths
                .iter()
                .find(|truth| truth.connection == one.request.connection && truth.offset == one.request.request_offset);
            let truth = truth.expect("the world knows its requests");
            let parts = one.parts();
            let unattributed = parts[Part::Unattributed as usize];
            lost_ns += unattributed;
            total_ns += one.request.done_ns - one.request.intended_ns;
            if one.unjoinable.is_some() {
                let known = [Part::Generator, Part::Connect, Part::Unattributed];
                let other: u64 =
                    Part::ALL.iter().filter(|part| !known.contains(part)).map(|part| parts[*part as usize]).sum();
                assert_eq!(other, 0, "a request that is not joined has parts of a server: {one:#?}");
            }
            let more = |part: &Part| parts[*part as usize].saturating_sub(truth.parts[*part as usize]);
            added_ns += Part::ALL.iter().filter(|part| **part != Part::Unattributed).map(more).sum::<u64>();
        }
    }
    println!(
        "{joined} of {requests} joined; of {total_ns} ns {:.1} % unattributed, {:.1} % in another part than truly",
        100.0 * lost_ns as f64 / total_ns as f64,
        100.0 * added_ns as f64 / total_ns as f64
    );
    assert!(joined > requests / 2 && joined < requests, "{joined} of {requests}");
    assert!(lost_ns > added_ns, "what is lost must show as unattributed: {lost_ns} against {added_ns}");
}

/// Waits that a task's own blocking gives their names.
const WAITS: [Part; 5] = [Part::WaitLock, Part::WaitTimer, Part::WaitDisk, Part::WaitProcess, Part::WaitNetwork];

/// How long a request was in a part within a window.
fn within(told: &Told, part: Part, (from_ns, to_ns): (u64, u64)) -> u64 {
    let steps = told.steps.iter().filter(|step| step.part == part);
    steps.map(|step| step.to_ns.min(to_ns).saturating_sub(step.from_ns.max(from_ns))).sum()
}

#[test]
fn a_lost_lane_is_a_gap_and_no_wait() {
    for seed in base_seed()..base_seed() + 30 {
        let (events, _) = simulate(Plan::any(seed));
        let (whole, _) = join(&events);
        let (from, to) = (events.len() / 3, events.len() / 2);
        let lost = events[from..to].iter().filter(|(record, _)| is_kernel(record) && record.lane == 0).count() as u64;
        let after = events[to].0.time_ns;
        let mut kept: Vec<Event> = events
            .iter()
            .enumerate()
            .filter(|(at, (record, _))| !(from..to).contains(at) || !is_kernel(record) || record.lane != 0)
            .map(|(_, event)| event.clone())
            .collect();
        let at = kept.partition_point(|(record, _)| record.time_ns < after);
        let record = Record { time_ns: after, kind: Kind::Lost as u16, lane: 0, a: lost, ..Record::default() };
        kept.insert(at, (record, Vec::new()));
        let (told, statistics) = join(&kept);
        told.iter().for_each(Told::check);
        accounted(&statistics, &told);
        assert_eq!(statistics.lost, lost);
        let before = events[..from].iter().rev().find(|(record, _)| is_kernel(record) && record.lane == 0);
        let window = (before.map_or(0, |(record, _)| record.time_ns), after);
        for (one, truly) in
            told.iter().filter_map(|one| Some((one, whole.iter().find(|of| of.request == one.request)?)))
        {
            for part in WAITS {
                let (said, true_ns) = (within(one, part, window), within(truly, part, window));
                assert!(said <= true_ns, "seed {seed}: {} {said} ns, truly {true_ns}: {one:#?}", part.name());
            }
        }
    }
}

#[test]
fn memory_stays_bounded_however_long_a_run_is() {
    // A world again and again, each later and with other tasks and sockets: what is over must be forgotten.
    let mut joiner = Joiner::new(Bounds {
        grace_ns: 20_000_000,
        closed_ns: 5_000_000,
        sweep_records: 1000,
        connections: 500,
        ..Bounds::default()
    });
    let name = Arc::from("GET /");
    let (events, _) = simulate(Plan { keep_alive: false, downstream: false, ..Plan::any(base_seed()) });
    let length = events.last().map_or(0, |(record, _)| record.time_ns);
    let mut most_early = 0;
    let (rounds, mut told) = (400u64, 0u64);
    for round in 0..rounds {
        for (record, slots) in &events {
            let (mut record, mut slots) = (*record, slots.clone());
            shift(&mut record, &mut slots, round, length);
            joiner.push(&record, &slots, Some(&name), &mut |_, _| told += 1);
        }
        let held = joiner.held();
        if round < rounds / 4 {
            most_early = most_early.max(held);
        } else {
            assert!(held <= most_early * 2, "round {round}: {held} things held, at most {most_early} early on");
        }
    }
    joiner.finish(&mut |_, _| told += 1);
    assert_eq!(told, joiner.statistics().requests);
    assert!(joiner.statistics().joined * 100 >= told * 95, "{:?}", joiner.statistics());
}

/// The same event in a later round: other times, tasks that end, sockets and connections with other numbers.
fn shift(record: &mut Record, slots: &mut [weir_wire::Slot], round: u64, length: u64) {
    let by = round * (length + 30_000_000);
    record.time_ns += by;
    match Kind::from_code(record.kind) {
        Some(Kind::ClientRequest) => {
            record.a += round << 20;
            slots[0].iter_mut().for_each(|time| *time += by);
        }
        Some(Kind::ClientConnection) => {
            record.a += round << 20;
            record.b += by;
        }
        Some(Kind::SocketOpen | Kind::SocketReady | Kind::SocketRecv | Kind::SocketSend | Kind::SocketState) => {
            record.a = record.a & !0xffff_ffff | u64::from((record.a as u32).wrapping_add((round as u32) << 12));
        }
        _ => {}
    }
}
