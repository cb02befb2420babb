//! The second look at a response's steps: what the optional sources say of each stretch.
//!
//! Passes only cut and rename steps: they still follow each other without a gap, and add up to what they did.

use crate::join::Joiner;
use crate::refinement::Refine;
use crate::step::Step;
use crate::{disk, interrupts, locks, own_locks, quota};
use weir_measure::part::Part;

impl Joiner {
    /// Refines a response's steps from an index on.
    pub(crate) fn refine(&mut self, steps: &mut Vec<Step>, from: usize) {
        let (notes, tasks, phases, texts) = (&self.notes, &self.tasks, &self.phases, &mut self.texts);
        Refine { notes, tasks, phases, texts, division: &mut self.statistics.run }.steps(steps, from);
    }

    /// Puts what goroutines waited for, for a request over a client's connection since its turn, in its place.
    pub(crate) fn put_carried(&mut self, steps: &mut Vec<Step>, from: usize, ours: (u32, u64)) {
        let known = (&self.tasks, self.phases.servers());
        self.carried.put(steps, from, ours, known, &mut self.texts);
    }
}

impl Refine<'_> {
    /// Refines the steps from an index on.
    pub(crate) fn steps(&mut self, steps: &mut Vec<Step>, from: usize) {
        if self.notes.is_empty() && self.phases.is_empty() {
            return;
        }
        let plain = steps.split_off(from.min(steps.len()));
        for step in plain {
            match step.part {
                Part::Run => interrupts::divide(self, step, steps),
                Part::WaitCpu => steps.push(quota::name(self, step)),
                Part::WaitDisk if !locks::divide(self, step, steps) => steps.push(disk::name(self, step)),
                Part::WaitLock if own_locks::divide(self, step, steps) => {}
                Part::WaitLock | Part::WaitProcess | Part::WaitNetwork | Part::Unattributed => {
                    match disk::served(self, step).or_else(|| locks::ended_by_timer(self, step)) {
                        Some(told) => steps.push(told),
                        None if locks::divide(self, step, steps) => {}
                        None => steps.push(step),
                    }
                }
                // By who had the kernel's lock.
                Part::WaitDisk => {}
                Part::WaitTimer => steps.push(disk::served(self, step).unwrap_or(step)),
                _ => steps.push(step),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::RunDivision;
    use crate::notes::Notes;
    use crate::phases::Phases;
    use crate::step::Detail;
    use crate::tasks::{Tasks, WokenIn};
    use crate::texts::Texts;
    use proptest::prelude::*;
    use weir_wire::task::Switch;
    use weir_wire::watched::{NAMED_CGROUP, NAMED_DEVICE, NAMED_FILE, NAMED_TASK, SOFT_INTERRUPT, STOLEN};
    use weir_wire::{Kind, Record, text_slots};

    fn record(time_ns: u64, kind: Kind, flags: u8, a: u64, b: u64) -> Record {
        Record { time_ns, kind: kind as u16, flags, a, b, ..Record::default() }
    }

    /// What is known, as the joiner keeps it.
    #[derive(Default)]
    struct Known {
        notes: Notes,
        tasks: Tasks,
        phases: Phases,
        texts: Texts,
        division: RunDivision,
    }

    impl Known {
        fn switch(&mut self, time_ns: u64, prev: u32, next: u32, prev_state: u8, syscall: i64) {
            let switch = Switch { prev, next, prev_state, syscall: syscall as u16, descriptor: 0 };
            self.tasks.switch(time_ns, 0, switch);
        }

        fn note(&mut self, time_ns: u64, kind: Kind, flags: u8, a: u64, b: u64) {
            self.notes.push(&record(time_ns, kind, flags, a, b), &[]);
        }

        fn name(&mut self, sort: u8, key: u64, text: &str) {
            self.notes.push(&record(1, Kind::Named, sort, key, 0), &text_slots(text));
        }

        fn refined(&mut self, steps: &[Step]) -> Vec<(u64, u64, Part, String)> {
            let mut steps = steps.to_vec();
            let Self { notes, tasks, phases, texts, division } = self;
            Refine { notes, tasks, phases, texts, division }.steps(&mut steps, 0);
            let text = |detail| match detail {
                Detail::Named(number) | Detail::Lock(number, _) => self.texts.text(number).to_owned(),
                Detail::Task(pid) => format!("task {pid}"),
                Detail::Unconnected(peer) => format!("no connection to {peer}"),
                _ => String::new(),
            };
            steps.iter().map(|step| (step.from_ns, step.to_ns, step.part, text(step.detail))).collect()
        }
    }

    fn step(from_ns: u64, to_ns: u64, part: Part) -> Step {
        Step { from_ns, to_ns, part, pid: 7, waiter: 0, detail: Detail::None }
    }

    fn told(from_ns: u64, to_ns: u64, part: Part, text: &str) -> (u64, u64, Part, String) {
        (from_ns, to_ns, part, text.to_owned())
    }

    #[test]
    fn running_is_cut_at_the_outer_interrupts() {
        let mut known = Known::default();
        known.note(1, Kind::Watched, 0, 4, 0);
        known.switch(100, 0, 7, 0, 0);
        // A hard one within a soft one, which ends after it.
        known.note(250, Kind::Interrupt, 0, 20 | 24 << 48, 0);
        known.note(300, Kind::Interrupt, SOFT_INTERRUPT, 100 | 3 << 48, 0);
        assert_eq!(
            known.refined(&[step(100, 400, Part::Run)]),
            [
                told(100, 200, Part::Run, ""),
                told(200, 300, Part::Run, "soft interrupt net_rx"),
                told(300, 400, Part::Run, ""),
            ]
        );
        assert_eq!(known.division, RunDivision { watched_ns: 300, interrupt_ns: 100, stolen_ns: 0 });
        // Outside of a window nothing is claimed.
        known.note(500, Kind::Watched, 0, 0, 0);
        known.refined(&[step(450, 600, Part::Run)]);
        assert_eq!(known.division.watched_ns, 300);
    }

    #[test]
    fn the_hypervisors_time_is_cut_from_the_end_of_a_turn() {
        let mut known = Known::default();
        known.note(1, Kind::Watched, 0, 4, 0);
        known.switch(100, 0, 7, 0, 0);
        known.note(400, Kind::Interrupt, STOLEN, 120, 0);
        known.switch(400, 7, 0, 0, 0);
        // More than the turn: it began before.
        known.switch(500, 0, 7, 0, 0);
        known.note(600, Kind::Interrupt, STOLEN, 150, 0);
        known.switch(600, 7, 0, 0, 0);
        assert_eq!(
            known.refined(&[step(100, 400, Part::Run), step(500, 600, Part::Run)]),
            [
                told(100, 280, Part::Run, ""),
                told(280, 400, Part::Run, "the hypervisor"),
                told(500, 600, Part::Run, "the hypervisor"),
            ]
        );
        assert_eq!(known.division, RunDivision { watched_ns: 400, interrupt_ns: 0, stolen_ns: 220 });
    }

    #[test]
    fn a_wait_for_storage_names_its_file_or_its_device() {
        let mut known = Known::default();
        known.name(NAMED_FILE, 77, "/srv/big.bin");
        known.name(NAMED_DEVICE, 254 << 20, "vda");
        known.switch(1_000_000, 0, 7, 0, 0);
        known.note(2_000_000, Kind::FileWait, 1, 7, 77);
        known.switch(2_000_000, 7, 0, 2, libc::SYS_read);
        known.note(2_900_000, Kind::DiskRequest, 0, 7 | 254 << 52, 500_000 | 8 << 40);
        known.tasks.waking(3_000_000, 0, 7, WokenIn::Untold);
        known.switch(3_000_001, 0, 7, 0, 0);
        known.switch(5_000_000, 7, 0, 2, libc::SYS_fsync);
        known.note(5_900_000, Kind::DiskRequest, 2, 99 | 254 << 52, 500_000 | 8 << 40);
        known.tasks.waking(6_000_000, 0, 7, WokenIn::Untold);
        let steps = [step(2_000_000, 3_000_000, Part::WaitDisk), step(5_000_000, 6_000_000, Part::WaitDisk)];
        assert_eq!(
            known.refined(&steps),
            [
                told(2_000_000, 3_000_000, Part::WaitDisk, "/srv/big.bin"),
                told(5_000_000, 6_000_000, Part::WaitDisk, "device vda"),
            ]
        );
    }

    #[test]
    fn a_lock_is_told_by_its_own_note_and_its_holder() {
        let mut known = Known::default();
        known.name(NAMED_FILE, 77, "/run/app.lock");
        known.name(NAMED_TASK, 9, "weir-holder");
        known.switch(1_000_000, 0, 7, 0, 0);
        known.note(1_990_000, Kind::LockWait, 2, 7 | 9 << 32, 77);
        known.switch(2_000_000, 7, 0, 1, libc::SYS_flock);
        known.tasks.waking(3_000_000, 9, 7, WokenIn::Untold);
        // Another call than the note's is another lock.
        known.switch(3_000_001, 0, 7, 0, 0);
        known.switch(4_000_000, 7, 0, 1, libc::SYS_semop);
        known.tasks.waking(5_000_000, 9, 7, WokenIn::Untold);
        let steps = [step(2_000_000, 3_000_000, Part::WaitLock), step(4_000_000, 5_000_000, Part::WaitLock)];
        assert_eq!(
            known.refined(&steps),
            [
                told(2_000_000, 3_000_000, Part::WaitLock, "flock of /run/app.lock held by weir-holder (9)"),
                told(4_000_000, 5_000_000, Part::WaitLock, ""),
            ]
        );
    }

    /// 8 waits for 9, and 7 behind it: when 9 lets go, 8 has the lock, and then 7.
    #[test]
    fn a_lock_that_changes_hands_within_a_wait_is_told_by_turns() {
        let mut known = Known::default();
        known.name(NAMED_FILE, 77, "/run/app.lock");
        for (pid, name) in [(8, "first"), (9, "keeper")] {
            known.name(NAMED_TASK, pid, name);
        }
        let blocks = |known: &mut Known, at_ns, pid, cpu| {
            known.note(at_ns - 10_000, Kind::LockWait, 2, u64::from(pid) | 9 << 32, 77);
            let comes = Switch { prev: 0, next: pid, prev_state: 0, syscall: 0, descriptor: 0 };
            let leaves = |call: i64| Switch { prev: pid, next: 0, prev_state: 1, syscall: call as u16, descriptor: 0 };
            // It has slept until shortly before.
            known.tasks.switch(at_ns - 900_000, cpu, comes);
            known.tasks.switch(at_ns - 800_000, cpu, leaves(libc::SYS_clock_nanosleep));
            known.tasks.waking(at_ns - 21_000, 0, pid, WokenIn::Interrupt);
            known.tasks.switch(at_ns - 20_000, cpu, comes);
            known.tasks.switch(at_ns, cpu, leaves(libc::SYS_flock));
        };
        blocks(&mut known, 1_000_000, 8, 1);
        blocks(&mut known, 2_000_000, 7, 0);
        known.tasks.waking(5_000_000, 9, 8, WokenIn::Untold);
        known.tasks.switch(5_000_001, 1, Switch { prev: 0, next: 8, prev_state: 0, syscall: 0, descriptor: 0 });
        known.tasks.waking(6_000_000, 8, 7, WokenIn::Untold);
        let turns = [
            told(2_000_000, 5_000_000, Part::WaitLock, "flock of /run/app.lock held by keeper (9)"),
            told(5_000_000, 6_000_000, Part::WaitLock, "flock of /run/app.lock held by first (8)"),
        ];
        assert_eq!(known.refined(&[step(2_000_000, 6_000_000, Part::WaitLock)]), turns);
        // A wait for another lock before is none for this one.
        let mut other = Known::default();
        other.name(NAMED_TASK, 9, "keeper");
        blocks(&mut other, 2_000_000, 7, 0);
        other.note(990_000, Kind::LockWait, 2, 8 | 9 << 32, 78);
        other.tasks.waking(6_000_000, 8, 7, WokenIn::Untold);
        assert_eq!(
            other.refined(&[step(2_000_000, 6_000_000, Part::WaitLock)]),
            [told(2_000_000, 6_000_000, Part::WaitLock, "flock of a file held by keeper (9)")]
        );
    }

    #[test]
    fn a_kernel_lock_is_no_disk_and_ends_where_it_is_told_to() {
        let mut known = Known::default();
        known.switch(1_000_000, 0, 7, 0, 0);
        known.note(1_990_000, Kind::LockWait, 4, 7, 0xff00);
        known.switch(2_000_000, 7, 0, 2, libc::SYS_write);
        known.tasks.waking(3_000_000, 0, 7, WokenIn::Untold);
        known.switch(3_000_001, 0, 7, 0, 0);
        known.note(3_000_100, Kind::LockEnd, 0, 7, 0);
        known.switch(4_000_000, 7, 0, 2, libc::SYS_write);
        known.tasks.waking(5_000_000, 0, 7, WokenIn::Untold);
        let steps = [step(2_000_000, 3_000_000, Part::WaitDisk), step(4_000_000, 5_000_000, Part::WaitDisk)];
        assert_eq!(
            known.refined(&steps),
            [
                told(2_000_000, 3_000_000, Part::WaitLock, "kernel mutex in an unknown function"),
                told(4_000_000, 5_000_000, Part::WaitDisk, ""),
            ]
        );
    }

    #[test]
    fn a_wait_that_a_timer_ends_is_one_for_time() {
        let mut known = Known::default();
        known.switch(1_000_000, 0, 7, 0, 0);
        known.switch(2_000_000, 7, 0, 1, libc::SYS_ppoll);
        known.tasks.waking(3_000_000, 0, 7, WokenIn::Untold);
        known.note(3_000_300, Kind::TimerWakeup, 0, 7, 0);
        assert_eq!(
            known.refined(&[step(2_000_000, 3_000_000, Part::WaitProcess)]),
            [told(2_000_000, 3_000_000, Part::WaitTimer, "task 7")],
            "and it is the task itself that slept"
        );
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 5432));
        let unconnected = Step { detail: Detail::Unconnected(peer), ..step(2_000_000, 3_000_000, Part::WaitProcess) };
        assert_eq!(
            known.refined(&[unconnected]),
            [told(2_000_000, 3_000_000, Part::WaitTimer, "no connection to 127.0.0.1:5432")],
            "but the peer to which no connection was made stays named"
        );
    }

    #[test]
    fn a_quota_takes_the_blame_from_an_idle_cpu_but_not_from_its_own_tasks() {
        let mut known = Known::default();
        known.name(NAMED_CGROUP, 5, "/web");
        known.note(1, Kind::CgroupMember, 0, 7, 5);
        known.note(2, Kind::CgroupMember, 0, 8, 5);
        known.note(3, Kind::Fork, 0, 8 | 11 << 32, 0);
        known.note(100_000_000, Kind::Throttled, 0, 70_000_000, 5);
        let own = |pid| Step { detail: Detail::Task(pid), ..step(95_000_000, 96_000_000, Part::WaitCpu) };
        let steps = [step(30_000_000, 95_000_000, Part::WaitCpu), own(8), own(11)];
        assert_eq!(
            known.refined(&steps),
            [
                told(30_000_000, 95_000_000, Part::WaitCpu, "the CPU quota of cgroup /web"),
                told(95_000_000, 96_000_000, Part::WaitCpu, "task 8"),
                told(95_000_000, 96_000_000, Part::WaitCpu, "task 11"),
            ]
        );
    }

    fn any_note() -> impl Strategy<Value = (u64, u8, u8, u64, u64)> {
        (0u64..2_000, 0u8..11, 0u8..8, prop_oneof![1u64..9, any::<u64>()], prop_oneof![0u64..9, any::<u64>()])
    }

    proptest! {
        /// For any notes, the steps follow each other as before, and only waits change their part.
        #[test]
        fn steps_stay_whole(
            lengths in proptest::collection::vec((1u64..300, 0usize..Part::COUNT, 1u32..9), 1..20),
            switches in proptest::collection::vec((0u64..2_000, 0u32..9, 0u8..3, 0i64..80), 0..40),
            notes in proptest::collection::vec(any_note(), 0..60),
        ) {
            let mut known = Known::default();
            let mut switches = switches;
            switches.sort_by_key(|one| one.0);
            let mut current = 0;
            for (at, next, state, call) in switches {
                known.switch(at, current, next, state, call);
                current = next;
            }
            let kinds = [
                Kind::Named, Kind::FileWait, Kind::LockWait, Kind::LockEnd, Kind::TimerWakeup, Kind::DiskRequest,
                Kind::Interrupt, Kind::Throttled, Kind::CgroupMember, Kind::Watched, Kind::SourceCost,
            ];
            let mut notes = notes;
            notes.sort_by_key(|one| one.0);
            for (at, kind, flags, a, b) in notes {
                known.note(at, kinds[usize::from(kind)], flags, a, b);
            }
            let mut at = 0;
            let mut steps = Vec::new();
            for (length, part, pid) in lengths {
                steps.push(Step { from_ns: at, to_ns: at + length, part: Part::ALL[part], pid, waiter: 0, detail: Detail::None });
                at += length;
            }
            let run = |steps: &[(u64, u64, Part)]| -> u64 {
                steps.iter().filter(|step| step.2 == Part::Run).map(|step| step.1 - step.0).sum()
            };
            let before: Vec<_> = steps.iter().map(|step| (step.from_ns, step.to_ns, step.part)).collect();
            let refined: Vec<_> = known.refined(&steps).into_iter().map(|(from, to, part, _)| (from, to, part)).collect();
            prop_assert_eq!(refined.first().map(|step| step.0), Some(0));
            prop_assert_eq!(refined.last().map(|step| step.1), Some(at));
            prop_assert!(refined.windows(2).all(|pair| pair[0].1 == pair[1].0));
            prop_assert!(refined.iter().all(|step| step.0 < step.1));
            prop_assert_eq!(run(&refined), run(&before));
            known.notes.trim(1_000);
            known.notes.trim(u64::MAX);
            prop_assert!(known.notes.held() < 1_000);
        }
    }
}
