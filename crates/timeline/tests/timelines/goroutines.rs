//! Goroutines that threads carry: what each waits for, as probes in Go's runtime tell it.

use crate::wakeups::{OTHER, PushNamed, SOCKET, WORKER, plain, steps_with_names};
use std::sync::Arc;
use weir_measure::part::Part;
use weir_timeline::{Detail, Step};
use weir_wire::probe::{CARRIED, END, LOCK, ProbePoint, SLEEP};
use weir_wire::task::{BY_INTERRUPT, CONTEXT_TOLD, NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, text_slots};

/// A goroutine of the request's, and another.
const OURS: u64 = 0xc000_0100;
const ANOTHERS: u64 = 0xc000_0200;
const BY_TIMER: u8 = CONTEXT_TOLD | BY_INTERRUPT;

struct Told<'a>(&'a mut PushNamed<'a>);

impl Told<'_> {
    fn at(&mut self, time_ns: u64, lane: u32, kind: Kind, flags: u8, low: u32, high: u32) {
        (self.0)(plain(time_ns, lane, kind, flags, low, high), &[], None);
    }

    /// Both tasks are threads of one process.
    fn threads(&mut self) {
        let slots = text_slots("other");
        let named = plain(1_210, 0, Kind::TaskName, 1, OTHER, WORKER);
        (self.0)(Record { slots: slots.len() as u8, ..named }, &slots, None);
    }

    /// The task of a lane meets a probe of the runtime's.
    fn hits(&mut self, time_ns: u64, lane: u32, roles: u16, goroutine: u64) {
        let point = ProbePoint { server: "Go".to_owned(), name: "wait".to_owned(), roles: roles | CARRIED };
        let hit = Record { time_ns, kind: Kind::ProbeHit as u16, lane, a: goroutine, ..Record::default() };
        (self.0)(hit, &[], Some(&Arc::from(point.write())));
    }

    /// A task waits from a time to another in `epoll_wait`, until an interrupt ends it.
    fn idles(&mut self, from_ns: u64, to_ns: u64, lane: u32, task: u32) {
        let syscall = libc::SYS_epoll_pwait as u16;
        let left = Switch { prev: task, next: 0, prev_state: 1, syscall, descriptor: 4 };
        (self.0)(left.write(from_ns, lane), &[], None);
        self.at(to_ns, lane, Kind::Waking, BY_TIMER, task, task);
        let came = Switch { prev: 0, next: task, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
        (self.0)(came.write(to_ns, lane), &[], None);
    }

    fn takes(&mut self, time_ns: u64, lane: u32, socket: u32) {
        self.at(time_ns, lane, Kind::SocketRecv, 0, socket, 50);
    }

    fn gives(&mut self, time_ns: u64, lane: u32, socket: u32) {
        self.at(time_ns, lane, Kind::SocketSend, 0, socket, 70);
    }
}

fn told(tell: impl FnOnce(&mut Told)) -> Vec<Step> {
    let steps = steps_with_names(|push| {
        let mut told = Told(push);
        told.threads();
        tell(&mut told);
    });
    assert!(steps.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "{steps:?}");
    steps
}

fn at(steps: &[Step], time_ns: u64) -> (Part, Detail) {
    let step = steps.iter().find(|step| (step.from_ns..step.to_ns).contains(&time_ns));
    step.map_or_else(|| panic!("nothing at {time_ns}: {steps:?}"), |step| (step.part, step.detail))
}

/// A goroutine waits for a lock from 1,500 to 3,000 ns, and then sleeps to 5,000: to the kernel its thread waits for timers.
#[test]
fn a_lock_is_told_from_the_sleep_after_it() {
    let steps = told(|told| {
        told.takes(1_400, 0, SOCKET);
        told.hits(1_500, 0, LOCK, OURS);
        told.idles(1_600, 2_900, 0, WORKER);
        told.hits(3_000, 1, LOCK | END, OURS);
        told.hits(3_100, 0, SLEEP, OURS);
        told.idles(3_200, 4_900, 0, WORKER);
        told.hits(5_000, 0, SLEEP | END, OURS);
        told.gives(5_500, 0, SOCKET);
    });
    for time_ns in [1_510, 2_000, 2_950] {
        let (part, detail) = at(&steps, time_ns);
        assert_eq!(part, Part::WaitLock, "{time_ns} {steps:?}");
        assert!(matches!(detail, Detail::Lock(_, OTHER)), "{detail:?}");
    }
    for time_ns in [3_150, 4_950] {
        assert_eq!(at(&steps, time_ns), (Part::WaitTimer, Detail::Task(WORKER)), "{time_ns} {steps:?}");
    }
    assert_eq!(at(&steps, 1_450).0, Part::Run);
    assert_eq!(at(&steps, 5_100).0, Part::Run);
}

/// Whose wait it is nothing tells: the thread has carried another one since it took the request.
#[test]
fn a_wait_of_an_unknown_goroutine_is_none_of_ours() {
    for known in [false, true] {
        let steps = told(|told| {
            told.takes(1_400, 0, SOCKET);
            if !known {
                told.hits(1_450, 0, SLEEP, ANOTHERS);
            }
            told.hits(1_500, 0, LOCK, OURS);
            told.idles(1_600, 2_900, 0, WORKER);
            told.hits(3_000, 1, LOCK | END, OURS);
            told.gives(5_500, 0, SOCKET);
        });
        let part = if known { Part::WaitLock } else { Part::WaitTimer };
        assert_eq!(at(&steps, 2_000).0, part, "{steps:?}");
    }
}

/// A thread that slept has taken up something else, unless it deals with a client first.
#[test]
fn a_thread_that_slept_carries_another_goroutine() {
    let steps = told(|told| {
        told.takes(1_400, 0, SOCKET);
        told.idles(1_500, 1_600, 0, WORKER);
        told.hits(1_650, 0, LOCK, ANOTHERS);
        told.hits(3_000, 1, LOCK | END, ANOTHERS);
        told.gives(5_500, 0, SOCKET);
    });
    assert!(steps.iter().all(|step| step.part != Part::WaitLock), "{steps:?}");
}

/// A wait whose end was not told, and one of another sort, are none.
#[test]
fn only_an_end_of_its_own_sort_ends_a_wait() {
    let steps = told(|told| {
        told.takes(1_400, 0, SOCKET);
        told.hits(1_500, 0, LOCK, OURS);
        told.hits(3_000, 1, SLEEP | END, OURS);
        told.gives(5_500, 0, SOCKET);
    });
    assert!(steps.iter().all(|step| step.part != Part::WaitLock), "{steps:?}");
}
