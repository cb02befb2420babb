//! A wake-up out of an interrupt: the task that had the CPU then did not cause it.

use std::net::SocketAddr;
use std::sync::Arc;
use weir_measure::part::Part;
use weir_timeline::{Bounds, Detail, Joiner, Response, Step};
use weir_wire::client::{ClientConnection, ClientRequest, Outcome};
use weir_wire::socket::SocketOpen;
use weir_wire::task::{BY_INTERRUPT, CONTEXT_TOLD, IN_SOFT_INTERRUPT, NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, Slot, text_slots};

pub(crate) const WORKER: u32 = 100;
/// Another process of the server, which happens to have a CPU.
pub(crate) const OTHER: u32 = 101;
const CLIENT: u32 = 7;

pub(crate) fn plain(time_ns: u64, lane: u32, kind: Kind, flags: u8, low: u32, high: u32) -> Record {
    Record { time_ns, kind: kind as u16, flags, lane, a: u64::from(low) | u64::from(high) << 32, ..Record::default() }
}

pub(crate) fn switch(time_ns: u64, lane: u32, prev: u32, next: u32, syscall: u16) -> Record {
    let prev_state = u8::from(syscall != NO_SYSCALL);
    Switch { prev, next, prev_state, syscall, descriptor: 3 }.write(time_ns, lane)
}

pub(crate) const SOCKET: u32 = 5;

/// The stretches of a request that arrives at 1,200 ns and of which the client has heard at 5,600; `tell` says what happens
/// at the server in between.
pub(crate) fn steps(tell: impl FnOnce(&mut dyn FnMut(Record))) -> Vec<Step> {
    steps_with_slots(|push| tell(&mut |record| push(record, &[])))
}

/// The same where what happens has slots.
pub(crate) fn steps_with_slots(tell: impl FnOnce(&mut dyn FnMut(Record, &[Slot]))) -> Vec<Step> {
    steps_with_names(|push| tell(&mut |record, slots| push(record, slots, None)))
}

/// Takes a record with its slots and its text of the dictionary.
pub(crate) type PushNamed<'a> = dyn FnMut(Record, &[Slot], Option<&Arc<str>>) + 'a;

/// The same where what happens has slots, or a text of the dictionary.
pub(crate) fn steps_with_names(tell: impl FnOnce(&mut PushNamed<'_>)) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    responses(tell, &mut |_, one| steps.extend(one.steps));
    steps
}

/// The same request, as it is told.
pub(crate) fn responses(tell: impl FnOnce(&mut PushNamed<'_>), take: &mut dyn FnMut(&Joiner, &Response<'_>)) {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let mut joiner = Joiner::new(Bounds::default());
    let mut push_named = |record: Record, slots: &[Slot], name: Option<&Arc<str>>| {
        joiner.push(&record, slots, name, take);
    };
    let mut push = |record: Record, slots: &[Slot]| push_named(record, slots, None);
    for (pid, name) in [(WORKER, "worker"), (OTHER, "other")] {
        let slots = text_slots(name);
        push(Record { slots: slots.len() as u8, ..plain(5, 0, Kind::TaskName, 1, pid, pid) }, &slots);
    }
    push(switch(10, 1, 0, OTHER, NO_SYSCALL), &[]);
    push(switch(30, 0, 0, WORKER, NO_SYSCALL), &[]);
    let (connection, socket) = (1, SOCKET);
    let open = SocketOpen {
        socket,
        receive_base: 0,
        send_base: 0,
        cookie: 5,
        netns: 0,
        local: address(80),
        remote: address(40_000),
    };
    let (record, slots) = open.write(1_050, 0);
    push(record, &slots);
    let told = ClientConnection {
        connection,
        connect_start_ns: 1_000,
        connected_ns: 1_100,
        failed: false,
        local: address(40_000),
        remote: address(80),
    };
    let (record, slots) = told.write(CLIENT);
    push(record, &slots);
    push(plain(1_200, 0, Kind::SocketReady, 0, socket, 50), &[]);
    tell(&mut push_named);
    let mut push = |record: Record, slots: &[Slot]| push_named(record, slots, None);
    let request = ClientRequest {
        connection,
        intended_ns: 1_000,
        started_ns: 1_000,
        sent_ns: 1_150,
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
        retried: false,
        http_version: 1,
        stream: 0,
    };
    let (record, slots) = request.write(CLIENT);
    push(record, &slots);
    joiner.finish(take);
}

/// A request within which its worker waits in a call, from 2,000 to 5,000 ns, and is woken on the CPU of the other.
fn waits(syscall: i64, flags: u8) -> (Part, Detail) {
    let steps = steps(|push| {
        push(plain(1_400, 0, Kind::SocketRecv, 0, SOCKET, 50));
        push(switch(2_000, 0, WORKER, 0, syscall as u16));
        push(plain(5_000, 1, Kind::Waking, flags, OTHER, WORKER));
        push(switch(5_000, 0, 0, WORKER, NO_SYSCALL));
        push(plain(5_500, 0, Kind::SocketSend, 0, SOCKET, 70));
    });
    let step = steps.iter().find(|step| step.from_ns == 2_000).expect("the wait");
    assert_eq!(step.to_ns, 5_000, "{steps:?}");
    (step.part, step.detail)
}

#[test]
fn a_time_out_is_told_by_the_interrupt_that_ended_the_wait() {
    let by_interrupt = CONTEXT_TOLD | BY_INTERRUPT;
    let own = Detail::Task(WORKER);
    assert_eq!(waits(libc::SYS_ppoll, by_interrupt), (Part::WaitTimer, own));
    assert_eq!(waits(libc::SYS_futex, by_interrupt), (Part::WaitTimer, own));
    assert_eq!(waits(libc::SYS_rt_sigtimedwait, by_interrupt), (Part::WaitTimer, own));
    // A file's lock is waited for until it is there.
    assert_eq!(waits(libc::SYS_flock, by_interrupt), (Part::WaitLock, Detail::None));
    assert_eq!(waits(libc::SYS_fsync, by_interrupt), (Part::WaitDisk, Detail::None));
}

#[test]
fn what_comes_over_a_network_is_no_ones_who_was_interrupted() {
    let received = CONTEXT_TOLD | BY_INTERRUPT | IN_SOFT_INTERRUPT;
    assert_eq!(waits(libc::SYS_ppoll, received), (Part::WaitNetwork, Detail::None));
}

#[test]
fn a_task_that_woke_another_by_itself_is_followed() {
    // What the other did meanwhile stands in the place of the wait: it ran.
    for flags in [CONTEXT_TOLD, CONTEXT_TOLD | IN_SOFT_INTERRUPT, 0] {
        assert_eq!(waits(libc::SYS_ppoll, flags), (Part::Run, Detail::Task(OTHER)), "{flags}");
        assert_eq!(waits(libc::SYS_futex, flags), (Part::WaitLock, Detail::Task(OTHER)), "{flags}");
    }
}

/// With many connections on few CPUs the threads of a server hand the CPU to each other again and again before one of them
/// comes to a request.
#[test]
fn a_request_that_waits_behind_many_hand_overs_is_told_to_its_arrival() {
    for hand_overs in [1, 7, 9, 60, 200] {
        let steps = steps(|push| {
            push(switch(1_205, 1, OTHER, 0, libc::SYS_futex as u16));
            let (mut running, mut waiting) = (WORKER, OTHER);
            for number in 0..2 * hand_overs {
                let at_ns = 1_210 + 5 * number;
                push(plain(at_ns, 0, Kind::Waking, CONTEXT_TOLD, running, waiting));
                // Each waits in a place of its own, which no lock does.
                let (syscall, descriptor) = (libc::SYS_futex as u16, running as u16 * 64);
                let passed = Switch { prev: running, next: waiting, prev_state: 1, syscall, descriptor };
                push(passed.write(at_ns + 1, 0));
                (running, waiting) = (waiting, running);
            }
            push(plain(4_000, 0, Kind::SocketRecv, 0, SOCKET, 50));
            push(plain(5_500, 0, Kind::SocketSend, 0, SOCKET, 70));
        });
        let lost: Vec<&Step> = steps.iter().filter(|step| step.part == Part::Unattributed).collect();
        // Each thread of a pair is handed the CPU half of the times; more than 256 in all are too many to follow.
        let is_followed = 2 * hand_overs <= 256;
        assert_eq!(lost.is_empty(), is_followed, "{hand_overs} hand-overs: {lost:?}");
        let told: u64 = steps.iter().map(|step| step.to_ns - step.from_ns).sum();
        assert_eq!(told, 4_600, "{hand_overs} hand-overs: the parts add up");
    }
}
