//! What samples of /proc tell where no request can be followed: the server's use of the CPUs, and what its tasks were
//! seen to wait for.

use std::collections::HashMap;
use weir_measure::part::Part;
use weir_measure::slices::SliceFold;
use weir_report::ServerCpu;
use weir_timeline::{Wait, wait_of};
use weir_wire::Record;
use weir_wire::task::{NO_SYSCALL, STATE_UNSEEN, TaskUsage};

/// Tasks that are followed; more are damage.
const MOST_TASKS: usize = 1 << 16;
/// CPU time between two samples of a task is divided evenly over the time between them, in this many pieces.
const PIECES: u64 = 10;
/// What a task was seen at, as numbered in the fold; the words are for the report.
const SEEN: [&str; 7] = [
    "running or waiting for a CPU",
    "waiting for a descriptor (or idle)",
    "waiting for a lock",
    "sleeping",
    "waiting for a process",
    "waiting for a disk",
    "waiting for what /proc does not tell",
];

/// Use of the CPUs by a task since a look before.
pub(super) struct Used {
    pub(super) at_ns: u64,
    pub(super) run_ns: u64,
    pub(super) wait_ns: u64,
    pub(super) slices: u64,
}

/// The fold.
#[derive(Default)]
pub(super) struct ProcSide {
    last: HashMap<u32, (u64, TaskUsage)>,
    seen: SliceFold<7>,
}

impl ProcSide {
    /// Takes a record; hands over what a task used since it was last looked at.
    pub(super) fn push(&mut self, record: &Record, slots: &[[u64; 4]], mut take: impl FnMut(Used)) {
        let Some(usage) = TaskUsage::read(record, slots) else { return };
        if usage.state != STATE_UNSEEN {
            self.seen.push(record.time_ns, seen_at(&usage), 1);
        }
        if self.last.len() >= MOST_TASKS && !self.last.contains_key(&usage.pid) {
            return;
        }
        let Some((before_ns, before)) = self.last.insert(usage.pid, (record.time_ns, usage)) else { return };
        let since_ns = record.time_ns.saturating_sub(before_ns);
        let share = |now: u64, then: u64, piece: u64| {
            let all = now.saturating_sub(then);
            let up_to = |piece: u64| all / PIECES * piece + all % PIECES * piece / PIECES;
            up_to(piece + 1) - up_to(piece)
        };
        for piece in 0..PIECES {
            take(Used {
                at_ns: before_ns + since_ns / PIECES * piece,
                run_ns: share(usage.run_ns, before.run_ns, piece),
                wait_ns: share(usage.wait_ns, before.wait_ns, piece),
                slices: share(usage.slices, before.slices, piece),
            });
        }
    }

    /// What the tasks were seen at within a window, in words; nothing if none was looked at.
    pub(super) fn words(&self, window_ns: (u64, u64)) -> Option<String> {
        let counts = self.seen.between(window_ns.0, window_ns.1);
        let all: u64 = counts.iter().sum();
        if all == 0 {
            return None;
        }
        let mut shares: Vec<(u64, &str)> = counts.into_iter().zip(SEEN).filter(|(count, _)| *count > 0).collect();
        shares.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let list: Vec<String> = shares
            .into_iter()
            .map(|(count, words)| format!("{words} {:.0} %", 100.0 * count as f64 / all as f64))
            .collect();
        Some(format!("the server's tasks, looked at {all} times during the load: {}", list.join(", ")))
    }
}

/// What a task was at.
fn seen_at(usage: &TaskUsage) -> usize {
    if usage.state == 0 {
        return 0;
    }
    match wait_of(usage.state, usage.syscall) {
        Wait::Descriptor => 1,
        Wait::Lock => 2,
        Wait::Timer => 3,
        Wait::Process => 4,
        // Without its system call an uninterruptible wait may be any.
        Wait::Disk if usage.syscall != NO_SYSCALL => 5,
        Wait::Disk | Wait::Unknown => 6,
    }
}

/// Moves the server's CPU time of a request from `unattributed` to `run` and `wait_cpu`: right for the mean over all
/// requests.
pub(super) fn attribute(parts_ns: &mut [f64; Part::COUNT], cpu: &ServerCpu) {
    for (part, ns) in [(Part::Run, cpu.used_ns_per_request), (Part::WaitCpu, cpu.waited_ns_per_request)] {
        // At most what is unattributed: the server may have done other work, or served several requests at once.
        let ns = ns.clamp(0.0, parts_ns[Part::Unattributed as usize]);
        parts_ns[part as usize] += ns;
        parts_ns[Part::Unattributed as usize] -= ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(run_ns: u64, state: u8, syscall: i64) -> TaskUsage {
        let syscall = u16::try_from(syscall).unwrap_or(NO_SYSCALL);
        TaskUsage { pid: 7, tgid: 7, run_ns, wait_ns: run_ns / 2, slices: run_ns / 4, state, syscall, descriptor: 0 }
    }

    #[test]
    fn what_is_used_between_two_looks_is_kept_to_the_nanosecond() {
        let mut side = ProcSide::default();
        let (mut run_ns, mut wait_ns, mut slices, mut last_ns) = (0, 0, 0, 0);
        for (at_ns, used) in [(100, 1000), (1_100, 1007), (2_103, 3333)] {
            let (record, slots) = usage(used, 0, 0).write(at_ns);
            side.push(&record, &slots, |used| {
                assert!(used.at_ns >= last_ns && used.at_ns < at_ns);
                last_ns = used.at_ns;
                (run_ns, wait_ns, slices) = (run_ns + used.run_ns, wait_ns + used.wait_ns, slices + used.slices);
            });
        }
        assert_eq!((run_ns, wait_ns, slices), (2333, 1166, 583));
    }

    #[test]
    fn states_are_told_by_their_shares() {
        let mut side = ProcSide::default();
        let states = [(0, -1), (1, libc::SYS_futex), (1, libc::SYS_futex), (2, -1), (2, libc::SYS_fsync)];
        for (state, syscall) in states {
            let (record, slots) = usage(1, state, syscall).write(5_000_000);
            side.push(&record, &slots, |_| {});
        }
        let words = side.words((0, 10_000_000)).expect("looks");
        assert!(words.contains("5 times") && words.contains("lock 40 %") && words.contains("disk 20 %"), "{words}");
        assert_eq!(side.words((20_000_000, 30_000_000)), None);
    }

    #[test]
    fn no_more_is_attributed_than_there_is() {
        let mut parts = [0.0; Part::COUNT];
        parts[Part::Unattributed as usize] = 100.0;
        let cpu = ServerCpu { used_ns_per_request: 70.0, waited_ns_per_request: 50.0, ..ServerCpu::default() };
        attribute(&mut parts, &cpu);
        let of = |part: Part| parts[part as usize];
        assert_eq!([of(Part::Run), of(Part::WaitCpu), of(Part::Unattributed)], [70.0, 30.0, 0.0]);
    }
}
