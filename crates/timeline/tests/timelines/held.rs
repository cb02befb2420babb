//! What holds a request although its worker waits for nothing of its own: it is stopped, or a connection is not made.

use crate::wakeups::{OTHER, SOCKET, WORKER, plain, steps, steps_with_slots, switch};
use std::net::SocketAddr;
use weir_measure::part::Part;
use weir_timeline::{Bounds, Detail, Hold, Joiner, Step};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::socket::SocketOpen;
use weir_wire::task::{BY_INTERRUPT, CONTEXT_TOLD, FROZEN, NO_SYSCALL, STOPPED, Switch, TRACED, WAS_FROZEN};
use weir_wire::{Kind, Record};

const HOLDS: [(u8, Hold); 3] = [(STOPPED, Hold::Signal), (TRACED, Hold::Debugger), (FROZEN | 1, Hold::Freezer)];

fn leaves(time_ns: u64, prev_state: u8, call: i64) -> Record {
    Switch { prev: WORKER, next: 0, prev_state, syscall: call as u16, descriptor: 3 }.write(time_ns, 0)
}

fn at(steps: &[Step], from_ns: u64) -> (u64, Part, Detail) {
    let step = steps.iter().find(|step| step.from_ns == from_ns);
    step.map_or_else(|| panic!("no step from {from_ns}: {steps:?}"), |step| (step.to_ns, step.part, step.detail))
}

/// A worker that is stopped in any system call waits neither for what the call is about, such as the request, nor for
/// the process that lets it go on.
#[test]
fn a_worker_that_is_stopped_waits_for_no_other() {
    for (state, by) in HOLDS {
        for call in [libc::SYS_recvfrom, libc::SYS_futex, libc::SYS_clock_nanosleep, i64::from(NO_SYSCALL)] {
            let before = steps(|push| {
                push(leaves(1_210, state, call));
                push(plain(4_000, 1, Kind::Waking, CONTEXT_TOLD, OTHER, WORKER));
                push(switch(4_000, 0, 0, WORKER, NO_SYSCALL));
                push(plain(4_500, 0, Kind::SocketRecv, 0, SOCKET, 50));
                push(plain(5_500, 0, Kind::SocketSend, 0, SOCKET, 70));
            });
            assert_eq!(at(&before, 1_210), (4_000, Part::Stopped, Detail::Held(WORKER, by)), "{state} {call}");
            let within = steps(|push| {
                push(plain(1_400, 0, Kind::SocketRecv, 0, SOCKET, 50));
                push(leaves(2_000, state, call));
                push(plain(5_000, 1, Kind::Waking, CONTEXT_TOLD, OTHER, WORKER));
                push(switch(5_000, 0, 0, WORKER, NO_SYSCALL));
                push(plain(5_500, 0, Kind::SocketSend, 0, SOCKET, 70));
            });
            assert_eq!(at(&within, 2_000), (5_000, Part::Stopped, Detail::Held(WORKER, by)), "{state} {call}");
        }
    }
}

/// Frozen where it sleeps, it leaves no CPU: its thawing tells.
#[test]
fn a_worker_that_is_frozen_in_its_sleep_is_told_by_its_thawing() {
    for (flags, told) in [
        (CONTEXT_TOLD | WAS_FROZEN, (Part::Stopped, Detail::Held(WORKER, Hold::Freezer))),
        (CONTEXT_TOLD | BY_INTERRUPT, (Part::WaitTimer, Detail::Task(WORKER))),
    ] {
        let steps = steps(|push| {
            push(plain(1_400, 0, Kind::SocketRecv, 0, SOCKET, 50));
            push(leaves(2_000, 1, libc::SYS_ppoll));
            push(plain(5_000, 1, Kind::Waking, flags, OTHER, WORKER));
            push(switch(5_000, 0, 0, WORKER, NO_SYSCALL));
            push(plain(5_500, 0, Kind::SocketSend, 0, SOCKET, 70));
        });
        assert_eq!(at(&steps, 2_000), (5_000, told.0, told.1));
    }
}

/// A connection that begins at 1,900 ns and is given up at 5,100; the wait for it ends by a timer.
fn unconnected(peer: &str) -> (u64, Part, Detail) {
    const BACK_END: u32 = 9;
    let peer: SocketAddr = peer.parse().expect("an address");
    let local = SocketAddr::new(peer.ip(), 0);
    let steps = steps_with_slots(|push| {
        push(plain(1_400, 0, Kind::SocketRecv, 0, SOCKET, 50), &[]);
        let state = |time_ns, old: u64, new: u64| Record {
            b: old | new << 8,
            ..plain(time_ns, 0, Kind::SocketState, 0, BACK_END, 0)
        };
        push(state(1_900, 7, 2), &[]);
        push(leaves(2_000, 1, libc::SYS_poll), &[]);
        push(plain(5_000, 1, Kind::Waking, CONTEXT_TOLD | BY_INTERRUPT, OTHER, WORKER), &[]);
        push(switch(5_000, 0, 0, WORKER, NO_SYSCALL), &[]);
        let cookie = u64::from(BACK_END);
        let open =
            SocketOpen { socket: BACK_END, receive_base: 0, send_base: 0, cookie, netns: 0, local, remote: peer };
        let (record, slots) = open.write(5_100, 0);
        push(record, &slots);
        push(state(5_100, 2, 7), &[]);
        push(plain(5_500, 0, Kind::SocketSend, 0, SOCKET, 70), &[]);
    });
    at(&steps, 2_000)
}

#[test]
fn a_connection_that_is_not_made_names_its_peer() {
    for peer in ["127.0.0.1:5432", "[::1]:5432"] {
        let told = Detail::Unconnected(peer.parse().expect("an address"));
        assert_eq!(unconnected(peer), (5_000, Part::WaitProcess, told));
    }
    let elsewhere = "198.51.100.7:5432".parse().expect("an address");
    // Its own address is no other host's: that of a container, as a rule.
    let (until_ns, part, detail) = unconnected("198.51.100.7:5432");
    assert_eq!((until_ns, detail), (5_000, Detail::Unconnected(elsewhere)));
    assert!([Part::WaitNetwork, Part::WaitProcess].contains(&part), "{part:?}");
}

/// An open schedule over one connection: what comes while it is busy waits for the part at which the one before is.
#[test]
fn a_request_that_waits_in_the_generator_says_behind_what() {
    const CLIENT: u32 = 7;
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let mut joiner = Joiner::new(Bounds::default());
    let mut told: Vec<Vec<Step>> = Vec::new();
    let made = ClientConnection {
        connection: 1,
        connect_start_ns: 100,
        connected_ns: 200,
        failed: false,
        local: address(40_000),
        remote: address(80),
    };
    let (record, slots) = made.write(CLIENT);
    joiner.push(&record, &slots, None, &mut |_, _| {});
    for (intended_ns, sent_ns, done_ns) in [(1_000, 1_000, 5_000), (3_000, 5_000, 6_000), (5_500, 6_100, 7_000)] {
        let request = ClientRequest {
            connection: 1,
            intended_ns,
            started_ns: intended_ns,
            sent_ns,
            first_byte_ns: done_ns,
            done_ns,
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
            stream: 0,
        };
        let (record, slots) = request.write(CLIENT);
        joiner.push(&record, &slots, None, &mut |_, one| told.push(one.steps.to_vec()));
    }
    joiner.finish(&mut |_, one| told.push(one.steps.to_vec()));
    let generator = |index: usize| -> Vec<(u64, u64, Detail)> {
        let own = told[index].iter().filter(|step| step.part == Part::Generator);
        own.map(|step| (step.from_ns, step.to_ns, step.detail)).collect()
    };
    let behind = Detail::Behind(Part::Unattributed);
    assert_eq!(generator(0), []);
    assert_eq!(generator(1), [(3_000, 5_000, behind)]);
    assert_eq!(generator(2), [(5_500, 6_000, behind), (6_000, 6_100, Detail::None)]);
    for steps in &told {
        assert!(steps.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "{steps:?}");
    }
}
