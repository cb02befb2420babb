//! What is left of scripts: processes that forked away from them become children of the runner (prctl(2),
//! PR_SET_CHILD_SUBREAPER), which ends them until the kernel says that there are none.

use std::time::{Duration, Instant};

/// How long killed processes may take to end; one in an uninterruptible wait of the kernel takes longer.
const PATIENCE: Duration = Duration::from_secs(5);
const TURN: Duration = Duration::from_millis(1);

/// Whether a process has ended, and how, without a wait.
pub(crate) fn reap(pid: libc::pid_t) -> Option<libc::c_int> {
    let mut status = 0;
    // SAFETY: the kernel writes one number.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
    (ended == pid).then_some(status)
}

/// Whether a child has been stopped, by a signal, since this was asked last; or its end where it has ended.
pub(crate) fn stopped_or_ended(pid: libc::pid_t) -> (bool, Option<libc::c_int>) {
    let mut status = 0;
    // SAFETY: the kernel writes one number.
    let changed = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    match changed == pid {
        true if libc::WIFSTOPPED(status) => (true, None),
        is_changed => (false, is_changed.then_some(status)),
    }
}

/// Sends a signal to a process and its group.
pub(crate) fn signal(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: the call takes no memory of ours. The process has not been waited for, so the number is still its own.
    unsafe {
        libc::kill(-pid, signal);
        // It may have gone to another group.
        if libc::getpgid(pid) != pid {
            libc::kill(pid, signal);
        }
    }
}

/// Has this process get the children of descendants that end.
pub(crate) fn adopt() {
    // SAFETY: the call takes no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Ends all children but those that are named, and their descendants; how many that were, and whether all are gone.
pub(crate) fn end_strays(known: &[libc::pid_t]) -> (usize, bool) {
    // Most scripts leave nothing: then this is the only call.
    if known.is_empty() && !is_parent() {
        return (0, true);
    }
    let until = Instant::now() + PATIENCE;
    let mut ended = 0;
    // SAFETY: the call takes nothing.
    let own = unsafe { libc::getpgrp() };
    loop {
        let strays: Vec<_> = of_this_process().into_iter().filter(|(pid, _)| !known.contains(pid)).collect();
        if strays.is_empty() {
            return (ended, true);
        }
        for &(pid, group) in &strays {
            // SAFETY: the calls take no memory of ours. It is a child that was not waited for, so the number is its own,
            // and so is that of its group. A group is killed at once, so that none of it forks away meanwhile.
            unsafe {
                if group > 1 && group != own && !known.contains(&group) {
                    libc::kill(-group, libc::SIGKILL);
                }
                libc::kill(pid, libc::SIGKILL);
            }
            // Its children come to this process when it has ended, and are met in the next turn.
            ended += usize::from(reap(pid).is_some());
        }
        if Instant::now() > until {
            return (ended, false);
        }
        std::thread::sleep(TURN);
    }
}

/// Whether there are children; those that have ended are waited for.
fn is_parent() -> bool {
    loop {
        // SAFETY: the kernel writes nothing.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
            0 => return true,
            -1 => return false,
            _ => {}
        }
    }
}

/// The children of this process and their groups, by what proc(5) says of all processes.
fn of_this_process() -> Vec<(libc::pid_t, libc::pid_t)> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<libc::pid_t>().ok());
    let mut found: Vec<_> = pids
        .filter_map(|pid| parent_of(pid).filter(|(parent, _)| *parent == own).map(|(_, group)| (pid, group)))
        .collect();
    // Where /proc hides processes of other users (hidepid of proc(5)), the list of this one's own children has them. By
    // itself that list may lack some while they end.
    let listed = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
    for pid in listed.split_ascii_whitespace().filter_map(|pid| pid.parse::<libc::pid_t>().ok()) {
        if found.iter().all(|(known, _)| *known != pid) {
            // SAFETY: the call takes no memory of ours.
            found.push((pid, unsafe { libc::getpgid(pid) }));
        }
    }
    found
}

/// The parent and the group of a process: the fields behind its name and its state. The name is in parentheses and may hold some itself.
fn parent_of(pid: libc::pid_t) -> Option<(String, libc::pid_t)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_ascii_whitespace().skip(1);
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
