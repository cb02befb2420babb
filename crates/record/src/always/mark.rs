//! What had been spent by a moment.

use super::pace::Spent;
use crate::cost::own_cpu_ns;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;
use weir_capture::{Recording, Target};

/// What had been spent by a moment.
#[derive(Debug)]
pub(super) struct Mark {
    at: Instant,
    bytes: u64,
    events: u64,
    own_ns: u64,
    pub(super) server_ns: u64,
}

impl Mark {
    pub(super) fn now(target: &Target, recording: Option<&Recording>) -> Self {
        Self {
            at: Instant::now(),
            bytes: recording.map_or(0, |recording| recording.bytes.load(Ordering::Acquire)),
            events: recording.map_or(0, |recording| recording.events.load(Ordering::Relaxed)),
            own_ns: own_cpu_ns(),
            server_ns: target.pids.iter().map(|pid| cpu_ns_of(*pid)).sum(),
        }
    }

    pub(super) fn since(&self, last: &Self) -> Spent {
        Spent {
            bytes: self.bytes.saturating_sub(last.bytes),
            events: self.events.saturating_sub(last.events),
            own_ns: self.own_ns.saturating_sub(last.own_ns),
            // Processes of a pool come and go: those that went take their time with them, and the share errs downwards.
            server_ns: self.server_ns.saturating_sub(last.server_ns),
            elapsed: self.at.duration_since(last.at),
        }
    }
}

/// CPU time of a process with all its threads, those that ended included (proc_pid_stat(5), fields 14 and 15).
fn cpu_ns_of(pid: u32) -> u64 {
    // SAFETY: sysconf reads a constant.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    // The name stands in parentheses and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * (1_000_000_000 / ticks)
}
