//! The steps of a request, told in one place: to a recording of the server by static probes, to people who debug by
//! events (`WEIR_LOG=weir_scripts=debug`), and to ARM (`runs.rs`).
//!
//! A probe that no recording attaches to is two instructions that do nothing; events and ARM that are off cost a
//! comparison each.

use crate::exchange::Outcome;
use crate::fastcgi::Pairs;
use crate::runs::{Ran, Runs};
use crate::trouble::Trouble;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_wire::static_probe;

/// The steps of the request that a runner is at.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// The request's number where its steps are told; else none.
    told: Option<Rc<str>>,
    runs: Runs,
    since: Option<Instant>,
    process: Process,
}

/// The process that answers, and the CPU time that had been counted before.
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    pid: libc::pid_t,
    is_kept: bool,
    cpu_before: Duration,
}

impl Steps {
    /// A request was taken; what it says of ARM becomes what its script is to know.
    pub(crate) fn taken(&mut self, pairs: &mut [u8], line: fn(&[u8]) -> String) {
        static_probe!("script_activation");
        self.runs.begin(pairs);
        self.told = None;
        if tracing::enabled!(tracing::Level::DEBUG) {
            let id = Pairs(pairs).flatten().find(|(name, _)| *name == b"REQUEST_ID");
            let id: Rc<str> = id.map_or("-".into(), |(_, value)| String::from_utf8_lossy(value).into());
            tracing::debug!(request = &*id, line = line(pairs), "taken");
            (self.told, self.since, self.process) = (Some(id), Some(Instant::now()), Process::default());
        }
    }

    /// The process that answers has begun, or was chosen among those that were kept.
    pub(crate) fn begun(&mut self, pid: libc::pid_t, script: &str, is_kept: bool, has_answered: bool) {
        static_probe!("script_run");
        if let Some(id) = &self.told {
            let cpu_before = if is_kept { cpu_of(pid) } else { cpu_of_ended() };
            self.process = Process { pid, is_kept, cpu_before };
            let what = if has_answered { "process chosen" } else { "process begun" };
            tracing::debug!(request = &**id, pid, script, "{what}");
        }
    }

    /// Where its output is told.
    pub(crate) fn told(&self) -> Option<Rc<str>> {
        self.told.clone()
    }

    /// The script's part has ended.
    pub(crate) fn ended(&mut self, outcome: Outcome, output: u64) {
        let ran = match Trouble::of(outcome, "", output) {
            None => Ran::Good,
            Some(Trouble::Gone) => Ran::Aborted,
            Some(_) => Ran::Failed,
        };
        self.end(ran);
        if let Some(id) = self.told.take() {
            let Process { pid, is_kept, cpu_before } = self.process;
            let cpu = if is_kept { cpu_of(pid) } else { cpu_of_ended() }.saturating_sub(cpu_before);
            let (cpu_us, time_us) = (cpu.as_micros(), self.time_us());
            let how = match outcome {
                Outcome::Exited(status) if libc::WIFSIGNALED(status) => format!("by signal {}", libc::WTERMSIG(status)),
                Outcome::Exited(status) => format!("with status {}", libc::WEXITSTATUS(status)),
                other => format!("{other:?}"),
            };
            tracing::debug!(request = &*id, pid, how, output_bytes = output, cpu_us, time_us, "ended");
        }
    }

    /// No script was run.
    pub(crate) fn refused(&mut self, why: &Trouble) {
        self.end(Ran::Failed);
        if let Some(id) = self.told.take() {
            tracing::debug!(request = &*id, time_us = self.time_us(), "refused: {why}");
        }
    }

    fn end(&mut self, ran: Ran) {
        static_probe!("script_end");
        self.runs.end(ran);
    }

    fn time_us(&self) -> u128 {
        self.since.map_or(0, |since| since.elapsed().as_micros())
    }
}

/// CPU time of a process that runs; zero for one that has ended.
fn cpu_of(pid: libc::pid_t) -> Duration {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one number and one structure.
    let is_read = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0
    };
    let ns = u32::try_from(time.tv_nsec).unwrap_or(0);
    if is_read { Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), ns) } else { Duration::ZERO }
}

/// CPU time of all children that have ended, with theirs (getrusage(2), RUSAGE_CHILDREN).
fn cpu_of_ended() -> Duration {
    // SAFETY: plain numbers, for which zeros are valid; the kernel writes one structure.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_process_grows() {
        let own = libc::pid_t::try_from(std::process::id()).expect("a number");
        let before = cpu_of(own);
        let until = Instant::now() + Duration::from_secs(20);
        while cpu_of(own) < before + Duration::from_millis(2) {
            assert!(Instant::now() < until, "it stands still");
        }
        assert_eq!(cpu_of(-7), Duration::ZERO);
    }
}
