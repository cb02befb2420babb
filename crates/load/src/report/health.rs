//! How the generator itself fares: whether its own slowness is in the figures.

use crate::carried::carried;
use crate::connect::kernel::{monotonic_ns, thread_cpu_ns};

/// Clock reads that are timed to know what one costs.
const CLOCK_READS: u64 = 1000;

/// What a loop's thread did with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Health {
    /// How long it ran.
    pub(crate) cpu_ns: u64,
    /// Share of the time that it ran.
    pub(crate) cpu_share: f64,
    /// Share of the time that it could have run, but waited for the CPU.
    pub(crate) runnable_share: f64,
    /// What reading the clock costs.
    pub(crate) clock_read_ns: f64,
}

/// A look at the calling thread, to be compared with a later one.
#[derive(Debug)]
pub(crate) struct Probe {
    at_ns: u64,
    cpu_ns: u64,
    waited_ns: Option<u64>,
    clock_read_ns: f64,
}

impl Probe {
    pub(crate) fn begin() -> Self {
        let begin = monotonic_ns();
        let mut end = begin;
        for _ in 0..CLOCK_READS {
            end = monotonic_ns();
        }
        let clock_read_ns = (end - begin) as f64 / CLOCK_READS as f64;
        Self { at_ns: end, cpu_ns: thread_cpu_ns(), waited_ns: run_queue_wait_ns(), clock_read_ns }
    }

    /// What the thread did since.
    pub(crate) fn end(&self) -> Health {
        let wall = (monotonic_ns() - self.at_ns).max(1) as f64;
        let waited = match (run_queue_wait_ns(), self.waited_ns) {
            (Some(now), Some(before)) => now.saturating_sub(before),
            _ => 0,
        };
        let cpu_ns = thread_cpu_ns() - self.cpu_ns;
        Health {
            cpu_ns,
            cpu_share: cpu_ns as f64 / wall,
            runnable_share: waited as f64 / wall,
            clock_read_ns: self.clock_read_ns,
        }
    }
}

/// How long the calling thread has waited on run queues, where the kernel counts that.
fn run_queue_wait_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

carried!(Health { cpu_ns, cpu_share, runnable_share, clock_read_ns });
