//! Which process writes a file, so that a reader can tell later whether it still runs.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;

/// A process: its number alone may be another one's by now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number in its own namespace of processes.
    pub pid: u32,
    /// When it started, clock ticks since the boot (`proc_pid_stat(5)`, field 22).
    pub started_ticks: u64,
    /// The kernel's id of the boot.
    pub boot_id: String,
    /// Its namespace of processes, as `/proc/self/ns/pid` names it.
    pub pid_namespace: String,
}

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// It does.
    Yes,
    /// It has ended.
    No,
    /// It cannot be told here: it is of another host or boot, of another namespace, or hidden.
    NotKnown,
}

impl Process {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        let (boot_id, pid_namespace) = here();
        Self { pid: std::process::id(), started_ticks: started_ticks("self").unwrap_or(0), boot_id, pid_namespace }
    }

    /// Whether it runs now.
    #[must_use]
    pub fn running(&self) -> Running {
        if here() != (self.boot_id.clone(), self.pid_namespace.clone()) {
            return Running::NotKnown;
        }
        match started_ticks(&self.pid.to_string()) {
            Some(ticks) if ticks == self.started_ticks => Running::Yes,
            Some(_) => Running::No,
            None if is_hidden(self.pid) => Running::NotKnown,
            None => Running::No,
        }
    }
}

/// Boot and namespace of this process.
fn here() -> (String, String) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned());
    (boot.trim().to_owned(), namespace.unwrap_or_default())
}

/// When a process started; `None` of one that is not there or has ended and only waits to be reaped.
fn started_ticks(process: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name stands in parentheses and may hold some itself.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let ticks = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(ticks)
}

/// Whether a process is there, though /proc does not show it.
fn is_hidden(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 0) else { return false };
    match fs::metadata(format!("/proc/{pid}")) {
        Ok(_) => return false,
        Err(error) if error.kind() != ErrorKind::NotFound => return true,
        Err(_) => {}
    }
    // SAFETY: the signal 0 is sent to no process; the call only tells whether there is one.
    let told = unsafe { libc::kill(pid, 0) };
    told == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_told_from_one_that_has_its_number_now() {
        let this = Process::this();
        assert_eq!(this.running(), Running::Yes);
        let later = Process { started_ticks: this.started_ticks + 1, ..this.clone() };
        assert_eq!(later.running(), Running::No);
        let elsewhere = Process { boot_id: "another".to_owned(), ..this.clone() };
        assert_eq!(elsewhere.running(), Running::NotKnown);
        let mut child = Command::new("sleep").arg("60").spawn().expect("it starts");
        let ticks = started_ticks(&child.id().to_string()).expect("it runs");
        let child_process = Process { pid: child.id(), started_ticks: ticks, ..this };
        assert_eq!(child_process.running(), Running::Yes);
        child.kill().expect("ours");
        // It may wait to be reaped first: that counts as ended.
        while child_process.running() != Running::No {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.wait().expect("ours");
        assert_eq!(child_process.running(), Running::No);
        assert_eq!(Process { pid: u32::MAX, ..child_process }.running(), Running::No);
    }
}
