//! Threads of one process that hand work to each other by wake-ups, and locks, which look alike.

use crate::wakeups::{OTHER, SOCKET, WORKER, plain, responses, steps_with_slots};
use std::net::SocketAddr;
use weir_measure::part::Part;
use weir_timeline::{Detail, Step};
use weir_wire::socket::{HELD_BACK, SocketOpen};
use weir_wire::task::{BY_INTERRUPT, CARRIES, CONTEXT_TOLD, NO_SYSCALL, Switch};
use weir_wire::{Kind, Record, Slot, text_slots};

/// A client of the server's, on the same host.
const STRANGER: u32 = 500;
/// Another client's connection.
const ANOTHER: u32 = 6;
/// And two that came before.
const EARLIER: u32 = 30;
/// A connection to something that the server asks.
const BACK_END: u32 = 9;
/// Where a thread waits for work, and where the one that handed it out waits.
const WORK: u16 = 0x40;
const DONE: u16 = 0x400;
/// One lock.
const LOCK: u16 = 0x800;
const BY_TASK: u8 = CONTEXT_TOLD;
const BY_TIMER: u8 = CONTEXT_TOLD | BY_INTERRUPT;

/// What happens at the server, told in the order of time.
struct Told<'a>(&'a mut dyn FnMut(Record, &[Slot]));

impl Told<'_> {
    fn at(&mut self, time_ns: u64, lane: u32, kind: Kind, flags: u8, low: u32, high: u32) {
        (self.0)(plain(time_ns, lane, kind, flags, low, high), &[]);
    }

    /// The other task is a thread of the worker's process.
    fn threads(&mut self) {
        self.thread_named("other", 0);
    }

    /// The other task is a thread of the worker's process, with a name of its own, and these flags.
    fn thread_named(&mut self, name: &str, flags: u8) {
        let slots = text_slots(name);
        for (task, slots) in [(OTHER, slots), (WORKER, text_slots("worker"))] {
            let named = plain(1_210, 0, Kind::TaskName, 1 | flags, task, WORKER);
            (self.0)(Record { slots: slots.len() as u8, ..named }, &slots);
        }
    }

    /// A connection to a peer, or one of a client's.
    fn opens(&mut self, socket: u32, local: u16, remote: u16) {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (local, remote) = (address(local), address(remote));
        let cookie = u64::from(socket);
        let open = SocketOpen { socket, receive_base: 0, send_base: 0, cookie, netns: 0, local, remote };
        let (record, slots) = open.write(1_215, 0);
        (self.0)(record, &slots);
    }

    /// A task leaves its CPU to wait.
    fn waits(&mut self, time_ns: u64, task: u32, call: i64, argument: u16) {
        let left = Switch { prev: task, next: 0, prev_state: 1, syscall: call as u16, descriptor: argument };
        (self.0)(left.write(time_ns, lane(task)), &[]);
    }

    /// A task wakes another one, which gets its CPU at once.
    fn wakes(&mut self, time_ns: u64, flags: u8, waker: u32, woken: u32) {
        self.at(time_ns, lane(waker), Kind::Waking, flags, waker, woken);
        let came = Switch { prev: 0, next: woken, prev_state: 0, syscall: NO_SYSCALL, descriptor: 0 };
        (self.0)(came.write(time_ns, lane(woken)), &[]);
    }

    fn takes(&mut self, time_ns: u64, task: u32, socket: u32) {
        self.at(time_ns, lane(task), Kind::SocketRecv, 0, socket, 50);
    }

    fn gives(&mut self, time_ns: u64, task: u32, socket: u32) {
        self.at(time_ns, lane(task), Kind::SocketSend, 0, socket, 70);
    }

    /// Two clients' requests come, and the worker answers the first before it goes on with the second.
    fn is_a_loop(&mut self) {
        let clients = [EARLIER, EARLIER + 1];
        for client in clients {
            self.opens(client, 80, 40_000 + client as u16);
            self.at(1_216, 0, Kind::SocketReady, 0, client, 50);
        }
        clients.into_iter().for_each(|client| self.takes(1_217, WORKER, client));
        self.gives(1_218, WORKER, clients[0]);
        // By the work that it hands to a thread it tells that it defers.
        self.wakes(1_218, BY_TASK, WORKER, OTHER);
        self.waits(1_218, OTHER, libc::SYS_futex, WORK);
        self.gives(1_218, WORKER, clients[1]);
        self.waits(1_219, WORKER, libc::SYS_epoll_wait, 0);
        self.wakes(1_225, BY_TIMER, STRANGER, WORKER);
    }

    /// Another client's request comes.
    fn arrives(&mut self, time_ns: u64) {
        self.at(time_ns, 0, Kind::SocketReady, 0, ANOTHER, 50);
    }
}

fn lane(task: u32) -> u32 {
    u32::from(task == OTHER)
}

fn told(tell: impl FnOnce(&mut Told)) -> Vec<Step> {
    let steps = steps_with_slots(|push| tell(&mut Told(push)));
    assert!(steps.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns), "{steps:?}");
    assert!(steps.iter().all(|step| step.detail != Detail::Task(STRANGER)), "a client is blamed: {steps:?}");
    steps
}

/// The part and the culprit at a time.
fn at(steps: &[Step], time_ns: u64) -> (Part, Detail) {
    let step = steps.iter().find(|step| (step.from_ns..step.to_ns).contains(&time_ns));
    step.map_or_else(|| panic!("nothing at {time_ns}: {steps:?}"), |step| (step.part, step.detail))
}

/// The thread of a pool does its work from 1,500 to 4,900 ns, in which it sleeps from 2,000 to 4,800.
fn work(told: &mut Told) {
    told.waits(2_000, OTHER, libc::SYS_clock_nanosleep, 0);
    told.wakes(4_800, BY_TIMER, WORKER, OTHER);
}

#[test]
fn what_a_thread_of_a_pool_does_stands_in_the_place_of_the_wait_for_it() {
    for done_in in [libc::SYS_futex, libc::SYS_epoll_wait] {
        let steps = told(|told| {
            told.threads();
            told.waits(1_220, OTHER, libc::SYS_futex, WORK);
            told.takes(1_400, WORKER, SOCKET);
            told.wakes(1_500, BY_TASK, WORKER, OTHER);
            told.waits(1_600, WORKER, done_in, DONE);
            work(told);
            told.wakes(4_900, BY_TASK, OTHER, WORKER);
            told.waits(4_950, OTHER, libc::SYS_futex, WORK);
            told.gives(5_500, WORKER, SOCKET);
        });
        assert_eq!(at(&steps, 1_700), (Part::Run, Detail::Task(OTHER)));
        assert_eq!(at(&steps, 3_000), (Part::WaitTimer, Detail::Task(OTHER)));
        assert_eq!(at(&steps, 5_000), (Part::Run, Detail::Task(WORKER)));
        assert!(steps.iter().all(|step| step.part != Part::WaitLock), "{steps:?}");
    }
}

/// Each wakes the other as above, but both wait in one place: that is a lock.
#[test]
fn a_lock_that_is_given_back_and_taken_again_is_no_work_that_is_handed_out() {
    let steps = told(|told| {
        told.threads();
        told.waits(1_220, OTHER, libc::SYS_futex, LOCK);
        told.takes(1_400, WORKER, SOCKET);
        told.wakes(1_500, BY_TASK, WORKER, OTHER);
        told.waits(1_600, WORKER, libc::SYS_futex, LOCK + 4);
        work(told);
        told.wakes(4_900, BY_TASK, OTHER, WORKER);
        told.gives(5_500, WORKER, SOCKET);
    });
    assert_eq!(at(&steps, 3_000), (Part::WaitLock, Detail::Task(OTHER)));
}

/// A thread that is at a request of its own when it is woken waited for something there, and not for work.
#[test]
fn a_thread_at_a_request_of_its_own_is_no_worker() {
    let steps = told(|told| {
        told.threads();
        told.opens(ANOTHER, 80, 40_001);
        told.arrives(1_216);
        told.takes(1_217, OTHER, ANOTHER);
        told.waits(1_220, OTHER, libc::SYS_futex, WORK);
        told.takes(1_400, WORKER, SOCKET);
        told.wakes(1_500, BY_TASK, WORKER, OTHER);
        told.waits(1_600, WORKER, libc::SYS_futex, DONE);
        work(told);
        told.wakes(4_900, BY_TASK, OTHER, WORKER);
        told.gives(5_500, WORKER, SOCKET);
    });
    assert_eq!(at(&steps, 3_000), (Part::WaitLock, Detail::Task(OTHER)));
}

/// A loop goes on with others while a thread works for the request; another client's arrival ends the loop's first wait.
#[test]
fn an_arrival_ends_no_wait_for_a_thread() {
    let steps = told(|told| {
        told.threads();
        told.opens(ANOTHER, 80, 40_001);
        told.waits(1_220, OTHER, libc::SYS_futex, WORK);
        told.takes(1_400, WORKER, SOCKET);
        told.wakes(1_500, BY_TASK, WORKER, OTHER);
        told.waits(1_600, WORKER, libc::SYS_epoll_wait, 4);
        told.waits(2_000, OTHER, libc::SYS_clock_nanosleep, 0);
        told.arrives(3_000);
        told.wakes(3_000, BY_TASK, STRANGER, WORKER);
        told.takes(3_010, WORKER, ANOTHER);
        told.waits(3_020, WORKER, libc::SYS_epoll_wait, 4);
        told.wakes(4_800, BY_TIMER, STRANGER, OTHER);
        told.wakes(4_900, BY_TASK, OTHER, WORKER);
        told.waits(4_950, OTHER, libc::SYS_futex, WORK);
        told.gives(5_500, WORKER, SOCKET);
    });
    for time_ns in [2_500, 3_500, 4_500] {
        assert_eq!(at(&steps, time_ns), (Part::WaitTimer, Detail::Task(OTHER)), "{time_ns} {steps:?}");
    }
}

/// A loop that waits for a timer of the request's is woken by another client meanwhile.
#[test]
fn an_arrival_ends_no_wait_for_a_timer() {
    let steps = told(|told| {
        told.opens(ANOTHER, 80, 40_001);
        told.takes(1_400, WORKER, SOCKET);
        told.waits(1_600, WORKER, libc::SYS_epoll_wait, 4);
        told.arrives(3_000);
        told.wakes(3_000, BY_TASK, STRANGER, WORKER);
        told.takes(3_010, WORKER, ANOTHER);
        told.waits(3_020, WORKER, libc::SYS_epoll_wait, 4);
        told.wakes(5_000, BY_TIMER, STRANGER, WORKER);
        told.gives(5_500, WORKER, SOCKET);
    });
    for time_ns in [2_500, 4_500] {
        assert_eq!(at(&steps, time_ns), (Part::WaitTimer, Detail::Task(WORKER)), "{time_ns} {steps:?}");
    }
}

/// One thread asks, another one reads the answer; each sleeps in a futex of its own meanwhile.
#[test]
fn a_question_of_one_thread_whose_answer_another_one_reads_is_a_wait_for_the_peer() {
    let steps = told(|told| {
        told.threads();
        told.opens(BACK_END, 50_000, 9_000);
        told.waits(1_220, OTHER, libc::SYS_futex, WORK);
        told.takes(1_400, WORKER, SOCKET);
        told.gives(1_500, WORKER, BACK_END);
        told.wakes(1_550, BY_TASK, WORKER, OTHER);
        told.waits(1_600, WORKER, libc::SYS_futex, DONE);
        told.waits(1_700, OTHER, libc::SYS_futex, WORK);
        told.wakes(4_900, BY_TASK, STRANGER, WORKER);
        told.wakes(4_950, BY_TASK, WORKER, OTHER);
        told.waits(4_960, WORKER, libc::SYS_futex, DONE);
        told.takes(5_000, OTHER, BACK_END);
        told.gives(5_500, OTHER, SOCKET);
    });
    let peer = SocketAddr::from(([127, 0, 0, 1], 9_000));
    for time_ns in [1_650, 3_000, 4_800] {
        assert_eq!(at(&steps, time_ns), (Part::WaitProcess, Detail::Peer(peer)), "{time_ns} {steps:?}");
    }
}

/// An interpreter's lock: who wants it looks again after a while, and waits for the same.
#[test]
fn a_lock_with_a_time_out_is_a_lock_before_the_pick_up_and_after_it() {
    for picked_ns in [1_300, 5_000] {
        let steps = told(|told| {
            told.threads();
            told.waits(1_220, OTHER, libc::SYS_futex, LOCK);
            told.wakes(1_230, BY_TASK, WORKER, OTHER);
            if picked_ns < 2_000 {
                told.takes(picked_ns, WORKER, SOCKET);
            }
            told.waits(1_400, WORKER, libc::SYS_futex, LOCK);
            told.wakes(3_000, BY_TIMER, OTHER, WORKER);
            told.waits(3_010, WORKER, libc::SYS_futex, LOCK + 4);
            told.wakes(4_900, BY_TASK, OTHER, WORKER);
            if picked_ns > 2_000 {
                told.takes(picked_ns, WORKER, SOCKET);
            }
            told.gives(5_500, WORKER, SOCKET);
        });
        for time_ns in [2_000, 4_000] {
            assert_eq!(at(&steps, time_ns), (Part::WaitLock, Detail::Task(OTHER)), "{picked_ns} {time_ns} {steps:?}");
        }
    }
}

/// The time of a wait for a lock is over and the thread has it, as the former holder gave it back meanwhile: no wake-up
/// tells that. `then` is what happens at the lock after that.
fn got_by_a_time_out(picked_ns: u64, had_waited: bool, then: impl Fn(&mut Told)) -> Vec<Step> {
    told(|told| {
        told.threads();
        told.waits(1_220, OTHER, libc::SYS_futex, LOCK);
        if had_waited {
            told.waits(1_222, WORKER, libc::SYS_futex, LOCK);
            told.wakes(1_225, BY_TIMER, OTHER, WORKER);
        }
        told.wakes(1_230, BY_TASK, WORKER, OTHER);
        if picked_ns < 2_000 {
            told.takes(picked_ns, WORKER, SOCKET);
        }
        told.waits(1_400, WORKER, libc::SYS_futex, LOCK);
        told.wakes(4_900, BY_TIMER, OTHER, WORKER);
        if picked_ns > 2_000 {
            told.takes(picked_ns, WORKER, SOCKET);
        }
        then(told);
        told.gives(5_500, WORKER, SOCKET);
    })
}

#[test]
fn a_lock_that_is_got_by_a_time_out_is_a_lock_and_has_its_holder() {
    for picked_ns in [1_300, 5_000] {
        // The former holder wants it back, and gets it.
        let steps = got_by_a_time_out(picked_ns, true, |told| {
            told.waits(5_100, OTHER, libc::SYS_futex, LOCK + 4);
            told.wakes(5_200, BY_TASK, WORKER, OTHER);
        });
        assert_eq!(at(&steps, 3_000), (Part::WaitLock, Detail::Task(OTHER)), "{picked_ns} {steps:?}");
        // It has it back when it is about to wait for it.
        let steps = got_by_a_time_out(picked_ns, true, |told| {
            told.at(5_100, 0, Kind::Waking, BY_TASK, WORKER, OTHER);
            told.waits(5_200, OTHER, libc::SYS_futex, LOCK + 4);
        });
        assert_eq!(at(&steps, 3_000), (Part::WaitLock, Detail::Task(OTHER)), "{picked_ns} {steps:?}");
    }
}

/// A thread that waits for work for a while, or sleeps where it would be woken for some, waits for no lock.
#[test]
fn a_time_out_after_which_none_is_woken_at_the_word_is_a_sleep() {
    let wakes = |told: &mut Told| {
        told.waits(5_100, OTHER, libc::SYS_futex, LOCK + 4);
        told.wakes(5_200, BY_TASK, WORKER, OTHER);
    };
    for picked_ns in [1_300, 5_000] {
        for (had_waited, then) in [
            (true, (|_| ()) as fn(&mut Told)),
            // Another thread comes to the word, as to one that was given back to the allocator.
            (true, |told| told.waits(5_100, OTHER, libc::SYS_futex, LOCK + 4)),
            // It waits there again before it wakes the other.
            (true, |told| {
                told.waits(5_100, OTHER, libc::SYS_futex, LOCK + 4);
                told.waits(5_120, WORKER, libc::SYS_futex, LOCK);
                told.wakes(5_130, BY_TIMER, OTHER, WORKER);
            }),
            // The word is another wait's by then, and the thread has slept elsewhere before it ends that.
            (true, |told| {
                told.waits(5_050, WORKER, libc::SYS_futex, DONE);
                told.waits(5_060, OTHER, libc::SYS_futex, LOCK + 4);
                told.wakes(5_100, BY_TIMER, STRANGER, WORKER);
                told.wakes(5_200, BY_TASK, WORKER, OTHER);
            }),
            // Who hands work out there never waited there.
            (false, wakes),
        ] {
            let steps = got_by_a_time_out(picked_ns, had_waited, then);
            assert_eq!(at(&steps, 3_000), (Part::WaitTimer, Detail::Task(WORKER)), "{picked_ns} {steps:?}");
        }
    }
}

/// A thread that waited for another one's answer at a word at which that one has slept: what it slept is what was waited
/// for. It sleeps at another word, or at one whose low bits are the same in its own memory.
#[test]
fn one_that_slept_meanwhile_passes_no_lock_on() {
    for at in [DONE, LOCK] {
        let steps = told(|told| {
            told.threads();
            told.waits(1_220, OTHER, libc::SYS_futex, LOCK);
            told.wakes(1_230, BY_TASK, WORKER, OTHER);
            told.takes(1_300, WORKER, SOCKET);
            told.waits(1_400, WORKER, libc::SYS_futex, LOCK);
            told.waits(1_500, OTHER, libc::SYS_futex, at);
            told.wakes(4_800, BY_TIMER, STRANGER, OTHER);
            told.wakes(4_900, BY_TASK, OTHER, WORKER);
            told.gives(5_500, WORKER, SOCKET);
        });
        assert_eq!(at_of(&steps, 3_000), (Part::WaitTimer, OTHER), "{at:#x} {steps:?}");
    }
}

/// The part at a time, and the task whose time it is.
fn at_of(steps: &[Step], time_ns: u64) -> (Part, u32) {
    let step = steps.iter().find(|step| (step.from_ns..step.to_ns).contains(&time_ns)).expect("a step");
    (step.part, step.pid)
}

#[test]
fn a_response_that_nagles_algorithm_holds_back_says_so() {
    for flags in [0, HELD_BACK] {
        let steps = told(|told| {
            told.takes(1_400, WORKER, SOCKET);
            told.at(1_500, 0, Kind::SocketSend, flags, SOCKET, 70);
        });
        let detail = if flags == 0 { Detail::None } else { Detail::HeldBack };
        assert_eq!(at(&steps, 3_000), (Part::ResponseTransit, detail));
    }
}

/// A loop takes our request, answers another client's, and only then asks for ours.
#[test]
fn a_loop_asks_for_what_it_took_and_not_for_what_it_answered() {
    let steps = told(|told| {
        told.opens(ANOTHER, 80, 40_001);
        told.opens(BACK_END, 40_002, 7_000);
        told.threads();
        told.waits(1_215, OTHER, libc::SYS_futex, WORK);
        told.is_a_loop();
        told.arrives(1_226);
        told.takes(1_227, WORKER, ANOTHER);
        told.takes(1_400, WORKER, SOCKET);
        told.gives(1_450, WORKER, ANOTHER);
        told.gives(1_500, WORKER, BACK_END);
        told.waits(1_600, WORKER, libc::SYS_epoll_wait, 0);
        told.wakes(4_900, BY_TASK, STRANGER, WORKER);
        told.takes(5_000, WORKER, BACK_END);
        told.gives(5_500, WORKER, SOCKET);
    });
    let peer = SocketAddr::from(([127, 0, 0, 1], 7_000));
    assert_eq!(at(&steps, 3_000), (Part::WaitProcess, Detail::Peer(peer)));
}

/// A loop takes two requests before it goes on with any: what it then asks is for one of them, and not told of ours.
#[test]
fn what_a_loop_asks_for_one_of_two_requests_is_told_of_none() {
    let steps = told(|told| {
        told.opens(ANOTHER, 80, 40_001);
        told.opens(BACK_END, 40_002, 7_000);
        told.threads();
        told.waits(1_215, OTHER, libc::SYS_futex, WORK);
        told.is_a_loop();
        told.arrives(1_226);
        told.takes(1_380, WORKER, ANOTHER);
        told.takes(1_400, WORKER, SOCKET);
        told.gives(1_500, WORKER, BACK_END);
        told.waits(1_600, WORKER, libc::SYS_epoll_wait, 0);
        told.wakes(4_900, BY_TIMER, STRANGER, WORKER);
        told.takes(5_000, WORKER, BACK_END);
        told.gives(5_100, WORKER, ANOTHER);
        told.gives(5_500, WORKER, SOCKET);
    });
    assert!(steps.iter().all(|step| !matches!(step.detail, Detail::Peer(_))), "{steps:?}");
}

/// A loop that was at another client's request wakes a thread for what is neither's, as to collect garbage.
#[test]
fn what_a_loop_hands_out_for_none_is_not_waited_for() {
    let steps = told(|told| {
        told.opens(ANOTHER, 80, 40_001);
        told.threads();
        told.waits(1_215, OTHER, libc::SYS_futex, WORK);
        told.is_a_loop();
        told.arrives(1_226);
        told.takes(1_400, WORKER, SOCKET);
        told.takes(1_410, WORKER, ANOTHER);
        told.waits(1_420, WORKER, libc::SYS_futex, DONE);
        told.wakes(1_430, BY_TASK, OTHER, WORKER);
        told.waits(1_440, OTHER, libc::SYS_futex, WORK);
        told.wakes(1_500, BY_TASK, WORKER, OTHER);
        told.waits(1_600, WORKER, libc::SYS_epoll_wait, 0);
        work(told);
        told.wakes(4_900, BY_TASK, OTHER, WORKER);
        told.gives(4_950, WORKER, ANOTHER);
        told.waits(5_000, WORKER, libc::SYS_epoll_wait, 0);
        told.wakes(5_400, BY_TIMER, OTHER, WORKER);
        told.gives(5_500, WORKER, SOCKET);
    });
    assert_ne!(at(&steps, 3_000).1, Detail::Task(OTHER), "{steps:?}");
}

/// Each waits at one word, as threads do that stop for a collection of garbage: who ends it works for them, and holds no
/// lock.
#[test]
fn a_virtual_machines_own_thread_that_ends_a_wait_did_its_work() {
    for name in ["VM Thread", "pool-1"] {
        let steps = told(|told| {
            told.thread_named(name, 0);
            told.waits(1_220, OTHER, libc::SYS_futex, LOCK);
            told.takes(1_400, WORKER, SOCKET);
            told.wakes(1_500, BY_TASK, WORKER, OTHER);
            told.waits(1_600, WORKER, libc::SYS_futex, LOCK);
            told.wakes(4_900, BY_TASK, OTHER, WORKER);
            told.waits(4_950, OTHER, libc::SYS_futex, LOCK);
            told.gives(5_500, WORKER, SOCKET);
        });
        let part = if name == "VM Thread" { Part::Run } else { Part::WaitLock };
        assert_eq!(at(&steps, 3_000), (part, Detail::Task(OTHER)), "{name} {steps:?}");
    }
}

/// One thread asks, another one reads the answer, and a third hand-over, which nothing tells of, has the first go on.
#[test]
fn an_answer_that_any_thread_reads_is_a_wait_for_the_peer() {
    let steps = told(|told| {
        told.threads();
        told.opens(BACK_END, 50_000, 9_000);
        told.waits(1_220, OTHER, libc::SYS_epoll_pwait, 4);
        told.takes(1_400, WORKER, SOCKET);
        told.gives(1_500, WORKER, BACK_END);
        told.waits(1_600, WORKER, libc::SYS_futex, DONE);
        told.wakes(4_800, BY_TASK, STRANGER, OTHER);
        told.takes(4_820, OTHER, BACK_END);
        told.waits(4_860, OTHER, libc::SYS_epoll_pwait, 4);
        told.wakes(4_890, BY_TIMER, STRANGER, WORKER);
        told.gives(5_500, WORKER, SOCKET);
    });
    let peer = SocketAddr::from(([127, 0, 0, 1], 9_000));
    for time_ns in [1_650, 3_000, 4_700] {
        assert_eq!(at(&steps, time_ns), (Part::WaitProcess, Detail::Peer(peer)), "{time_ns} {steps:?}");
    }
}

/// A thread asks for one goroutine, carries another one that asks elsewhere, and reads the first one's answer.
#[test]
fn what_a_thread_carries_between_question_and_answer_is_no_matter() {
    let steps = told(|told| {
        told.thread_named("worker", CARRIES);
        told.opens(BACK_END, 50_000, 9_000);
        told.opens(BACK_END + 1, 50_001, 9_001);
        told.takes(1_400, WORKER, SOCKET);
        told.gives(1_500, WORKER, BACK_END);
        told.waits(1_600, WORKER, libc::SYS_epoll_pwait, 4);
        told.wakes(3_000, BY_TASK, STRANGER, WORKER);
        told.gives(3_050, WORKER, BACK_END + 1);
        told.waits(3_100, WORKER, libc::SYS_epoll_pwait, 4);
        told.wakes(4_800, BY_TASK, STRANGER, WORKER);
        told.takes(4_900, WORKER, BACK_END);
        told.gives(5_500, WORKER, SOCKET);
    });
    let peer = SocketAddr::from(([127, 0, 0, 1], 9_000));
    for time_ns in [2_000, 4_000] {
        assert_eq!(at(&steps, time_ns), (Part::WaitProcess, Detail::Peer(peer)), "{time_ns} {steps:?}");
    }
}

/// A thread that slept for want of goroutines waited for none of the request's: what that waited for is not known.
#[test]
fn a_parked_thread_of_go_waits_for_no_lock() {
    for (flags, part) in [(CARRIES, Part::Unattributed), (0, Part::WaitLock)] {
        let steps = told(|told| {
            told.thread_named("worker", flags);
            told.takes(1_400, WORKER, SOCKET);
            told.waits(1_600, WORKER, libc::SYS_futex, DONE);
            told.wakes(4_900, BY_TASK, OTHER, WORKER);
            told.gives(5_500, WORKER, SOCKET);
        });
        assert_eq!(at(&steps, 3_000).0, part, "{flags} {steps:?}");
    }
}

/// A loop that has answered some requests by its timers answers ours when another's comes, at the time of its own timer.
fn answered_at_an_arrival(timers: u64, timer_ns: u64) -> Vec<Step> {
    told(|told| {
        told.opens(ANOTHER, 80, 40_001);
        for number in 0..timers {
            let at_ns = 1_216 + 10 * number;
            told.arrives(at_ns);
            told.takes(at_ns, WORKER, ANOTHER);
            told.waits(at_ns + 1, WORKER, libc::SYS_epoll_wait, 4);
            told.wakes(at_ns + timer_ns, BY_TIMER, STRANGER, WORKER);
            told.gives(at_ns + timer_ns, WORKER, ANOTHER);
        }
        told.takes(1_400, WORKER, SOCKET);
        told.waits(1_600, WORKER, libc::SYS_epoll_wait, 4);
        told.arrives(4_900);
        told.wakes(4_900, BY_TASK, STRANGER, WORKER);
        told.takes(4_910, WORKER, ANOTHER);
        told.gives(5_500, WORKER, SOCKET);
    })
}

/// A proxy asks a server that asks the proxy again, over another connection, and there the proxy sleeps.
#[test]
fn one_that_stands_twice_in_a_chain_is_followed_both_times() {
    let steps = told(|told| {
        let ends = [(9, 50_000, 9_000), (10, 9_000, 50_000), (11, 50_001, 80), (12, 80, 50_001)];
        ends.into_iter().for_each(|(socket, local, remote)| told.opens(socket, local, remote));
        told.takes(1_400, WORKER, SOCKET);
        told.gives(1_500, WORKER, 9);
        told.at(1_510, 0, Kind::SocketReady, 0, 10, 50);
        told.takes(1_550, OTHER, 10);
        told.waits(1_600, WORKER, libc::SYS_epoll_wait, 4);
        told.at(1_690, 1, Kind::SocketReady, 0, 12, 50);
        told.wakes(1_695, BY_TASK, OTHER, WORKER);
        told.gives(1_700, OTHER, 11);
        told.waits(1_800, OTHER, libc::SYS_epoll_wait, 4);
        told.takes(1_900, WORKER, 12);
        told.waits(2_000, WORKER, libc::SYS_clock_nanosleep, 0);
        told.wakes(4_000, BY_TIMER, STRANGER, WORKER);
        told.wakes(4_095, BY_TASK, WORKER, OTHER);
        told.gives(4_100, WORKER, 12);
        told.takes(4_200, OTHER, 11);
        told.waits(4_250, WORKER, libc::SYS_epoll_wait, 4);
        told.wakes(4_295, BY_TASK, OTHER, WORKER);
        told.gives(4_300, OTHER, 10);
        told.takes(4_400, WORKER, 9);
        told.gives(5_500, WORKER, SOCKET);
    });
    assert_eq!(at(&steps, 3_000), (Part::WaitTimer, Detail::Task(WORKER)), "{steps:?}");
    assert_eq!(at(&steps, 1_750), (Part::Run, Detail::Task(OTHER)), "{steps:?}");
    assert!(steps.iter().all(|step| step.part != Part::WaitProcess), "{steps:?}");
}

/// A server on io_uring whose calls are done by a thread of the kernel's, which polls without a pause: it takes the request,
/// then `meanwhile`, and it gives the response.
fn by_a_poller(meanwhile: impl Fn(&mut Told)) -> Vec<Step> {
    told(|told| {
        told.thread_named("iou-sqp-100", 0);
        told.opens(BACK_END, 40_002, 7_000);
        told.waits(1_220, WORKER, libc::SYS_io_uring_enter, 4);
        told.takes(1_400, OTHER, SOCKET);
        told.wakes(1_410, BY_TASK, OTHER, WORKER);
        meanwhile(told);
        told.waits(1_600, WORKER, libc::SYS_io_uring_enter, 4);
        told.wakes(5_000, BY_TASK, OTHER, WORKER);
        told.waits(5_100, WORKER, libc::SYS_io_uring_enter, 4);
        told.gives(5_500, OTHER, SOCKET);
    })
}

#[test]
fn a_thread_that_polls_a_ring_works_for_the_one_that_asks_by_it() {
    let steps = by_a_poller(|_| ());
    assert_eq!(at(&steps, 1_405), (Part::Run, Detail::Task(OTHER)), "{steps:?}");
    assert_eq!(at(&steps, 1_500), (Part::Run, Detail::Task(WORKER)), "{steps:?}");
    assert_eq!(at(&steps, 3_000), (Part::WaitTimer, Detail::Task(WORKER)), "{steps:?}");
    assert_eq!(at(&steps, 5_050), (Part::Run, Detail::Task(WORKER)), "{steps:?}");
    assert_eq!(at(&steps, 5_300), (Part::Run, Detail::Task(OTHER)), "{steps:?}");
}

/// What it asks over a socket is awaited, whether or not the answer has come when the wait is over.
#[test]
fn a_question_that_a_polling_thread_sends_is_a_wait_for_the_peer() {
    let peer = SocketAddr::from(([127, 0, 0, 1], 7_000));
    for is_read in [true, false] {
        let steps = told(|told| {
            told.thread_named("iou-sqp-100", 0);
            told.opens(BACK_END, 40_002, 7_000);
            told.waits(1_220, WORKER, libc::SYS_io_uring_enter, 4);
            told.takes(1_400, OTHER, SOCKET);
            told.wakes(1_410, BY_TASK, OTHER, WORKER);
            told.gives(1_550, OTHER, BACK_END);
            told.waits(1_600, WORKER, libc::SYS_io_uring_enter, 4);
            if is_read {
                told.takes(4_990, OTHER, BACK_END);
            }
            told.wakes(5_000, BY_TASK, OTHER, WORKER);
            told.waits(5_100, WORKER, libc::SYS_io_uring_enter, 4);
            told.gives(5_500, OTHER, SOCKET);
        });
        assert_eq!(at(&steps, 3_000), (Part::WaitProcess, Detail::Peer(peer)), "{is_read} {steps:?}");
    }
}

/// One thread hands requests out to a pool. The thread of the pool that takes ours is at another request until 4,000 ns, and
/// a third one is free; the first waits in `call` until 3,500 before it hands ours out.
fn handed_out_late(call: i64, argument: u16) -> Vec<Step> {
    const FREE: u32 = 102;
    told(|told| {
        told.threads();
        let slots = text_slots("other");
        let named = plain(1_211, 0, Kind::TaskName, 1, FREE, WORKER);
        (told.0)(Record { slots: slots.len() as u8, ..named }, &slots);
        told.opens(ANOTHER, 80, 40_001);
        told.waits(1_216, WORKER, libc::SYS_futex, WORK);
        told.wakes(1_217, BY_TASK, OTHER, WORKER);
        let leaves = |next, prev_state, descriptor| Switch {
            prev: if next == 0 { FREE } else { 0 },
            next,
            prev_state,
            syscall: libc::SYS_futex as u16,
            descriptor,
        };
        (told.0)(leaves(FREE, 0, 0).write(1_218, 2), &[]);
        (told.0)(leaves(0, 1, WORK).write(1_219, 2), &[]);
        told.waits(1_220, WORKER, libc::SYS_futex, LOCK);
        told.wakes(1_221, BY_TASK, OTHER, WORKER);
        told.arrives(1_222);
        told.takes(1_223, WORKER, ANOTHER);
        told.waits(1_230, OTHER, call, argument);
        told.wakes(3_500, BY_TASK, WORKER, OTHER);
        told.at(3_600, 1, Kind::Waking, BY_TASK, OTHER, FREE);
        told.waits(3_700, OTHER, libc::SYS_epoll_wait, 4);
        told.gives(4_000, WORKER, ANOTHER);
        told.takes(4_500, WORKER, SOCKET);
        told.gives(5_500, WORKER, SOCKET);
    })
}

#[test]
fn a_timer_that_is_due_when_another_request_comes_is_a_wait_for_time() {
    assert_eq!(at(&answered_at_an_arrival(4, 5), 3_000), (Part::WaitTimer, Detail::Task(WORKER)));
    assert_eq!(at(&answered_at_an_arrival(3, 5), 3_000).0, Part::Unattributed, "it may answer when others ask");
}

#[test]
fn a_request_that_is_handed_out_late_for_a_lock_waits_for_that() {
    let steps = handed_out_late(libc::SYS_futex, LOCK);
    assert_eq!(at(&steps, 2_000), (Part::WaitLock, Detail::Task(WORKER)), "{steps:?}");
    assert_eq!(at(&steps, 3_800), (Part::WorkerQueue, Detail::Task(WORKER)), "{steps:?}");
    // Where that one waits for no lock, it is not known what kept it, but that the other was at others.
    let steps = handed_out_late(libc::SYS_epoll_wait, 4);
    assert_eq!(at(&steps, 2_000), (Part::WorkerQueue, Detail::Task(WORKER)), "{steps:?}");
}

/// The time of a wait for a lock is over, and the one that had it waits elsewhere until it is told that it is had: it gave
/// way. The lock is given back before others come to wait for it.
#[test]
fn one_that_gives_way_to_a_time_out_had_the_lock() {
    for (since_ns, part) in [(4_910, Part::WaitLock), (4_850, Part::WaitTimer)] {
        let steps = told(|told| {
            told.threads();
            told.waits(1_220, OTHER, libc::SYS_futex, LOCK);
            told.wakes(1_230, BY_TASK, WORKER, OTHER);
            told.takes(1_300, WORKER, SOCKET);
            told.waits(1_400, WORKER, libc::SYS_futex, LOCK);
            if since_ns < 4_900 {
                told.waits(since_ns, OTHER, libc::SYS_futex, DONE);
            }
            told.wakes(4_900, BY_TIMER, STRANGER, WORKER);
            if since_ns > 4_900 {
                told.waits(since_ns, OTHER, libc::SYS_futex, DONE);
            }
            told.wakes(4_920, BY_TASK, WORKER, OTHER);
            told.gives(5_500, WORKER, SOCKET);
        });
        assert_eq!(at(&steps, 3_000).0, part, "{since_ns} {steps:?}");
        if part == Part::WaitLock {
            assert_eq!(at(&steps, 3_000).1, Detail::Task(OTHER), "{steps:?}");
        }
    }
}

/// A process that waited for another one's lock of a file, as those of PHP do while they compile, asks for its own request.
#[test]
fn a_lock_of_a_file_hands_no_request_on() {
    let mut asked = Vec::new();
    let tell = |push: &mut crate::wakeups::PushNamed<'_>| {
        let mut push = |record: Record, slots: &[Slot]| push(record, slots, None);
        let mut told = Told(&mut push);
        told.opens(BACK_END, 50_000, 7_000);
        told.takes(1_400, WORKER, SOCKET);
        told.waits(1_600, WORKER, libc::SYS_fcntl, 7);
        told.wakes(2_000, BY_TASK, OTHER, WORKER);
        told.gives(2_500, WORKER, BACK_END);
        told.takes(3_000, WORKER, BACK_END);
        told.gives(5_500, WORKER, SOCKET);
    };
    responses(tell, &mut |joiner, response| {
        asked.extend(joiner.questions(response).iter().map(|one| (one.remote.port(), one.asked_ns)));
    });
    assert_eq!(asked, [(7_000, 2_500)]);
}
