//! What histories of tasks tell, and what they must not.

use super::*;

fn switch(prev: u32, next: u32, prev_state: u8) -> Switch {
    Switch { prev, next, prev_state, syscall: NO_SYSCALL, descriptor: 0 }
}

#[test]
fn spells_follow_the_scheduler() {
    let mut tasks = Tasks::default();
    tasks.switch(100, 0, switch(0, 7, 0));
    tasks.switch(200, 0, switch(7, 9, 1));
    tasks.waking(250, 9, 7, WokenIn::Untold);
    tasks.switch(300, 0, switch(9, 7, 0));
    let spells: Vec<_> = tasks.spells_back(7, 50, 350).map(|s| (s.from_ns, s.to_ns, s.state, s.woken_by)).collect();
    assert_eq!(
        spells,
        [
            (300, 350, State::Running { cpu: 0 }, 0),
            (250, 300, State::Runnable { waker: 9, woken_in: WokenIn::Untold }, 0),
            (200, 250, State::Blocked { state: 1, syscall: NO_SYSCALL, argument: 0 }, 9),
            (100, 200, State::Running { cpu: 0 }, 0),
            (50, 100, State::Unknown, 0),
        ]
    );
    assert_eq!(tasks.ran_on(0, 150, 320).collect::<Vec<_>>(), [(7, 150, 200), (9, 200, 300), (7, 300, 320)]);
}

#[test]
fn a_missing_switch_is_a_gap_not_data() {
    let mut tasks = Tasks::default();
    tasks.switch(100, 0, switch(0, 7, 0));
    tasks.switch(200, 0, switch(8, 9, 1));
    assert_eq!(tasks.gaps(), 1);
    assert_eq!(tasks.spells_back(7, 150, 300).next().map(|s| s.state), Some(State::Unknown));
}

#[test]
fn what_a_cpu_lost_is_unknown_but_for_what_others_tell() {
    let mut tasks = Tasks::default();
    let lock = libc::SYS_futex as u16;
    tasks.switch(100, 0, switch(0, 7, 0));
    tasks.switch(100, 1, switch(0, 8, 0));
    tasks.switch(110, 2, Switch { syscall: lock, ..switch(9, 10, 1) });
    tasks.seen(150, 0);
    tasks.switch(180, 1, switch(8, 11, 0));
    tasks.lost(200, 0);
    tasks.waking(250, 3, 9, WokenIn::Untold);
    let spells = |pid| {
        let spells: Vec<_> = tasks.spells_back(pid, 105, 300).map(|s| (s.from_ns, s.to_ns, s.state)).collect();
        spells
    };
    assert_eq!(spells(7), [(150, 300, State::Unknown), (105, 150, State::Running { cpu: 0 })]);
    assert_eq!(spells(8), [(180, 300, State::Unknown), (105, 180, State::Running { cpu: 1 })]);
    let blocked = |syscall| State::Blocked { state: 1, syscall, argument: 0 };
    assert_eq!(
        spells(9),
        [
            (250, 300, State::Runnable { waker: 3, woken_in: WokenIn::Untold }),
            (200, 250, blocked(NO_SYSCALL)),
            (150, 200, State::Unknown),
            (110, 150, blocked(lock)),
            (105, 110, State::Unknown),
        ]
    );
    assert_eq!(spells(10), [(110, 300, State::Running { cpu: 2 }), (105, 110, State::Unknown)]);
    assert!(tasks.had_gap(160, 170) && !tasks.had_gap(100, 140));
    assert_eq!(tasks.ran_on(0, 105, 190).collect::<Vec<_>>(), [(7, 105, 150), (0, 150, 190)]);
}

#[test]
fn a_wake_up_that_overtakes_the_block_is_not_lost() {
    let mut tasks = Tasks::default();
    tasks.switch(100, 0, switch(0, 7, 0));
    tasks.waking(199, 3, 7, WokenIn::Untold);
    tasks.switch(200, 0, switch(7, 0, 1));
    assert_eq!(
        tasks.spells_back(7, 200, 300).next().map(|s| s.state),
        Some(State::Runnable { waker: 3, woken_in: WokenIn::Untold })
    );
}

#[test]
fn a_number_that_is_given_again_is_another_task() {
    let mut tasks = Tasks::default();
    let name = |name: &str, traced| TaskName { name: name.to_owned(), tgid: 3, traced, carries: false };
    tasks.name(3, name("parent", true), 50);
    tasks.name(7, name("stranger", false), 50);
    tasks.switch(100, 0, switch(0, 7, 0));
    tasks.touch(0, 150, 5, Verb::Receive, true);
    tasks.exit(7);
    assert!(tasks.serves(7), "its requests are yet to be told");
    tasks.switch(200, 0, switch(7, 3, 0));
    tasks.fork(300, 3, 7, None);
    assert_eq!(tasks.named(7), Some(&name("parent", true)));
    assert_eq!(tasks.touches(7, 0, 400).count(), 0);
    let spells: Vec<_> = tasks.spells_back(7, 50, 350).map(|s| (s.from_ns, s.to_ns, s.state, s.parent)).collect();
    assert_eq!(
        spells,
        [(300, 350, State::Runnable { waker: 3, woken_in: WokenIn::Task }, 0), (50, 300, State::Unknown, 3)]
    );
}

#[test]
fn an_ended_task_is_forgotten_with_its_name() {
    let mut tasks = Tasks::default();
    let held = tasks.held();
    for pid in 10..1000 {
        let time_ns = u64::from(pid) * 100;
        tasks.fork(time_ns, 1, pid, Some(pid));
        tasks.name(pid, TaskName { name: "child".to_owned(), tgid: pid, traced: true, carries: false }, time_ns);
        tasks.switch(time_ns + 10, 0, switch(0, pid, 0));
        tasks.touch(0, time_ns + 20, 5, Verb::Send, true);
        tasks.exit(pid);
        // Dead shows as runnable: the kernel's bit for it is not recorded.
        tasks.switch(time_ns + 30, 0, switch(pid, 0, 0));
    }
    tasks.trim(1_000_000);
    assert_eq!(tasks.held(), held + 1, "the CPU's last change is all that is left");
}

#[test]
fn trimming_keeps_the_state_that_holds() {
    let mut tasks = Tasks::default();
    tasks.switch(100, 0, switch(0, 7, 0));
    tasks.switch(200, 0, switch(7, 0, 1));
    tasks.trim(150);
    assert_eq!(tasks.spells_back(7, 150, 200).next().map(|s| s.state), Some(State::Running { cpu: 0 }));
    assert_eq!(tasks.state_since(7, 180), 100);
}

/// Two threads of one process; the first takes a request of connection 5, and then waits in a futex until the other one
/// wakes it: for a lock if that one has waited there. The request that the first is at then.
fn at_after_a_wait(other_waits: u16, answered: bool) -> u32 {
    let mut tasks = Tasks::default();
    for pid in [7, 8] {
        tasks.name(pid, TaskName { name: "shop".to_owned(), tgid: 7, traced: true, carries: false }, 0);
    }
    let waits =
        |pid, descriptor| Switch { prev_state: 1, syscall: libc::SYS_futex as u16, descriptor, ..switch(pid, 0, 1) };
    tasks.switch(100, 0, switch(0, 7, 0));
    tasks.switch(100, 1, switch(0, 8, 0));
    tasks.switch(110, 1, waits(8, other_waits));
    tasks.waking(120, 7, 8, WokenIn::Task);
    tasks.switch(120, 1, switch(0, 8, 0));
    tasks.touch(0, 130, 5, Verb::Receive, true);
    tasks.exchanged(7, Verb::Receive, true);
    if answered {
        tasks.touch(0, 140, 5, Verb::Send, true);
        tasks.exchanged(7, Verb::Send, true);
    }
    tasks.switch(200, 0, waits(7, 0x800));
    tasks.waking(300, 8, 7, WokenIn::Task);
    tasks.at(7)
}

#[test]
fn a_thread_that_waits_for_a_lock_stays_at_its_request() {
    assert_eq!(at_after_a_wait(0x800, false), 5);
    // It may have been handed another one: where it was woken for work, or has answered its own.
    assert_eq!(at_after_a_wait(0x40, false), 0);
    assert_eq!(at_after_a_wait(0x800, true), 0);
}
