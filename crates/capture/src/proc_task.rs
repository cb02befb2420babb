//! What /proc tells of a task: its state, its use of the CPUs, the system call that it waits in.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use weir_wire::task::{NO_SYSCALL, STATE_UNSEEN, TaskUsage};

/// The kernel's TASK_INTERRUPTIBLE and TASK_UNINTERRUPTIBLE.
const INTERRUPTIBLE: u8 = 1;
const UNINTERRUPTIBLE: u8 = 2;

/// A task's use of the CPUs, and, where it is asked for, what it is doing; `None` if it is gone.
pub(crate) fn look(tgid: u32, pid: u32, also_state: bool) -> Option<TaskUsage> {
    let folder = format!("/proc/{tgid}/task/{pid}");
    let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).ok();
    let (run_ns, wait_ns, slices) = schedstat(&read("schedstat")?)?;
    let (mut state, mut call) = (STATE_UNSEEN, (NO_SYSCALL, 0));
    if also_state {
        state = read("stat").and_then(|text| state_of(&text)).unwrap_or(STATE_UNSEEN);
        // Told to its owner and to root only, and not of a task that runs.
        if matches!(state, INTERRUPTIBLE | UNINTERRUPTIBLE) {
            call = read("syscall").and_then(|text| blocked_call(&text)).unwrap_or(call);
        }
    }
    let (syscall, descriptor) = call;
    Some(TaskUsage { pid, tgid, run_ns, wait_ns, slices, state, syscall, descriptor })
}

/// The time on a CPU and the time in a run queue (both nanoseconds) of each task of these processes, by its number.
#[must_use]
pub fn cpu_times(pids: &BTreeSet<u32>) -> HashMap<u32, (u64, u64)> {
    let tasks = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let times = |task: fs::DirEntry| {
        let (run_ns, wait_ns, _) = schedstat(&fs::read_to_string(task.path().join("schedstat")).ok()?)?;
        Some((task.file_name().to_str()?.parse().ok()?, (run_ns, wait_ns)))
    };
    pids.iter().flat_map(tasks).filter_map(times).collect()
}

/// Time on a CPU, time in a run queue (both nanoseconds) and turns, from a line of `schedstat`
/// (Documentation/scheduler/sched-stats.rst).
fn schedstat(line: &str) -> Option<(u64, u64, u64)> {
    let mut fields = line.split_ascii_whitespace().map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?))
}

/// The state of a line of `stat`: the letter after the name, which may hold anything, brackets included
/// (proc_pid_stat(5)).
fn state_of(line: &str) -> Option<u8> {
    let (_, rest) = line.rsplit_once(") ")?;
    match rest.chars().next()? {
        'R' => Some(0),
        'S' => Some(INTERRUPTIBLE),
        'D' => Some(UNINTERRUPTIBLE),
        _ => None,
    }
}

/// The system call of a line of `syscall` and its first argument's low 16 bits: `232 0x5 …`; a task that is in none
/// shows -1, one that runs `running` (proc_pid_syscall(5)).
fn blocked_call(line: &str) -> Option<(u16, u16)> {
    let mut fields = line.split_ascii_whitespace();
    let number = fields.next()?.parse::<u16>().ok().filter(|number| *number < NO_SYSCALL)?;
    let argument = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    Some((number, argument as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_the_kernels_own_are_read() {
        assert_eq!(schedstat("8374928 1203 17\n"), Some((8_374_928, 1203, 17)));
        assert_eq!(schedstat("1 2"), None);
        assert_eq!(state_of("12 (a) S (b) D 1 2 3"), Some(UNINTERRUPTIBLE));
        assert_eq!(state_of("12 (apache2) R 1"), Some(0));
        assert_eq!(state_of("12 (apache2) Z 1"), None);
        assert_eq!(blocked_call("232 0x10005 0x7ffd 0x1 0x2 0x3 0x4 0x7ffc 0x7f00\n"), Some((232, 5)));
        assert_eq!([blocked_call("running\n"), blocked_call("-1 0x7ffd 0x7f00\n")], [None, None]);
    }

    #[test]
    fn this_very_task_runs() {
        let own = std::process::id();
        let usage = look(own, own, true).expect("this process lives");
        assert_eq!((usage.pid, usage.tgid), (own, own));
        assert!(look(u32::MAX, u32::MAX, true).is_none());
    }

    proptest! {
        #[test]
        fn no_line_breaks_it(line: String, state: String) {
            schedstat(&line);
            state_of(&line);
            blocked_call(&line);
            let told = state_of(&format!("1 ({line}) {state}"));
            prop_assert!(told.is_none_or(|state| state <= UNINTERRUPTIBLE));
        }

        #[test]
        fn numbers_are_read_as_they_are_written(run: u64, wait: u64, slices: u64, call in 0..NO_SYSCALL, argument: u64) {
            prop_assert_eq!(schedstat(&format!("{run} {wait} {slices}\n")), Some((run, wait, slices)));
            prop_assert_eq!(blocked_call(&format!("{call} {argument:#x} 0x0")), Some((call, argument as u16)));
        }
    }
}
