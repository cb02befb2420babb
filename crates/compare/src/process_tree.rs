//! CPU time of a process and everything below it, from `/proc`: for systems where no control
//! group can be made.
//!
//! - Of each living process the kernel's CPU clock is read (`clock_getcpuclockid`): nanoseconds,
//!   of all its threads, those that ended included, which the files in `/proc/PID/task` leave out.
//! - What exited children left behind is in their parent's `cutime` and `cstime`, in ticks of
//!   usually 10 ms; the ticks are cut from a running sum, so no more than one is lost altogether.
//!
//! Not seen: children of a process that ignores `SIGCHLD` (the kernel reaps them), and processes
//! that left both the tree and the session. Control groups see these too.
use std::collections::HashMap;
use std::fs;
use std::io;

/// CPU time so far of the process `root`, of all its descendants and of every other process in
/// the session that `root` leads, in nanoseconds.
///
/// # Errors
/// When `/proc` cannot be listed, or `root` is not there.
pub(crate) fn tree_cpu_ns(root: libc::pid_t) -> io::Result<u64> {
    let processes = processes()?;
    if !processes.contains_key(&root) {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("process {root} has ended")));
    }
    let mut total_ns = 0;
    for (pid, process) in &processes {
        if process.session == root || descends_from(*pid, root, &processes) {
            // One that ended since it was listed is now in its parent's sum, which we may have
            // read before: at worst it is missing from this reading.
            total_ns += process_cpu_ns(*pid).unwrap_or(0) + process.exited_children_ns;
        }
    }
    Ok(total_ns)
}

/// The process `root`, its descendants, and every other process in the session that it leads.
pub(crate) fn members(root: libc::pid_t) -> io::Result<Vec<libc::pid_t>> {
    let processes = processes()?;
    let belongs = |pid: &libc::pid_t| processes[pid].session == root || descends_from(*pid, root, &processes);
    Ok(processes.keys().copied().filter(belongs).collect())
}

struct ProcessFacts {
    parent: libc::pid_t,
    session: libc::pid_t,
    exited_children_ns: u64,
}

fn processes() -> io::Result<HashMap<libc::pid_t, ProcessFacts>> {
    // SAFETY: asks for a constant of the system.
    let ticks_per_s = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1);
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Processes end while we look: those are simply not there.
        let Ok(statistics) = fs::read_to_string(entry.path().join("stat")) else { continue };
        processes.extend(parse(&statistics, 1_000_000_000 / ticks_per_s).map(|process| (pid, process)));
    }
    Ok(processes)
}

/// Reads `/proc/PID/stat`: `pid (name) state ppid pgrp session ... cutime cstime`.
fn parse(statistics: &str, tick_ns: u64) -> Option<ProcessFacts> {
    // The name may contain anything, also parentheses and spaces.
    let (_, after_name) = statistics.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    // The first field here is the third of the manual's list.
    let field = |number: usize| fields.get(number - 3);
    let ticks = |number| field(number).and_then(|text| text.parse::<u64>().ok());
    Some(ProcessFacts {
        parent: field(4)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        exited_children_ns: (ticks(16)? + ticks(17)?) * tick_ns,
    })
}

fn descends_from(pid: libc::pid_t, root: libc::pid_t, processes: &HashMap<libc::pid_t, ProcessFacts>) -> bool {
    let mut current = pid;
    // Bounded, should the list have changed into a circle while it was read.
    for _ in 0..processes.len() {
        if current == root {
            return true;
        }
        match processes.get(&current) {
            Some(process) => current = process.parent,
            None => return false,
        }
    }
    false
}

/// CPU time of one process, all threads, in nanoseconds.
fn process_cpu_ns(pid: libc::pid_t) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both pointers are to variables of our own, of the types the calls expect.
    let read = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0
    };
    read.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let line = "77 (a ) S 1 (b) R 12 77 70 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9 0 0";
        let process = parse(line, 10_000_000).expect("a line of the kernel");
        assert_eq!((process.parent, process.session, process.exited_children_ns), (12, 70, 150_000_000));
        assert!(parse("77 (x) R 12", 1).is_none());
    }

    #[test]
    fn our_own_time_grows_as_we_compute() {
        // SAFETY: has no preconditions.
        let pid = unsafe { libc::getpid() };
        let before = tree_cpu_ns(pid).expect("we are there");
        let mut number = 1_u64;
        for step in 0..30_000_000_u64 {
            number = std::hint::black_box(number.wrapping_mul(step | 1));
        }
        assert!(tree_cpu_ns(pid).expect("we are there") > before + 1_000_000);
        assert!(tree_cpu_ns(0x3fff_fff0).is_err());
    }
}
