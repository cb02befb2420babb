//! What the server's tasks had of the CPUs, and what observing wrote, while clients' requests were under way.

use super::proc_side::ProcSide;
use weir_measure::slices::SliceFold;
use weir_measure::usage::UsageFold;
use weir_report::ServerCpu;
use weir_timeline::{Joiner, Object, abstract_events};
use weir_trace::{Source, Sourced};

/// Tasks whose use of the CPUs is followed at a time.
const MOST_TASKS: usize = 1 << 16;
/// What a slice of time sums up.
const USED: usize = 0;
const WAITED: usize = 1;
const SWITCHES: usize = 2;
const EVENTS: usize = 3;

/// The fold.
pub(super) struct ServerSide {
    cpus: UsageFold,
    slices: SliceFold<4>,
    sampled: ProcSide,
}

impl ServerSide {
    pub(super) fn new() -> Self {
        Self { cpus: UsageFold::new(MOST_TASKS), slices: SliceFold::default(), sampled: ProcSide::default() }
    }

    /// Takes a record. Tasks and CPUs only: what clients and connections had of each other is the joiner's to say.
    pub(super) fn push(&mut self, joiner: &Joiner, sourced: &Sourced<'_>) {
        if sourced.source == Source::Kernel {
            self.slices.push(sourced.record.time_ns, EVENTS, 1);
        }
        let slices = &mut self.slices;
        self.sampled.push(&sourced.record, sourced.payload, |used| {
            slices.push(used.at_ns, USED, used.run_ns);
            slices.push(used.at_ns, WAITED, used.wait_ns);
            slices.push(used.at_ns, SWITCHES, used.slices);
        });
        abstract_events(&sourced.record, sourced.payload, |event| {
            let (Object::Task(pid), Object::Cpus) = (event.requester, event.object) else { return };
            let before = self.cpus.snapshot(u64::from(pid), 0);
            self.cpus.push(event.verb, u64::from(pid), 0, event.at_ns);
            // Asked now, not at the end: a task made for one connection is forgotten by then.
            if joiner.serves(pid) {
                let after = self.cpus.snapshot(u64::from(pid), 0);
                self.slices.push(event.at_ns, USED, after.used_ns - before.used_ns);
                self.slices.push(event.at_ns, WAITED, after.waited_ns - before.waited_ns);
                self.slices.push(event.at_ns, SWITCHES, after.accepts - before.accepts);
            }
        });
    }

    /// What its tasks were seen to do within a window, where samples were all that could be had.
    pub(super) fn sampled_words(&self, window_ns: (u64, u64)) -> Option<String> {
        self.sampled.words(window_ns)
    }

    /// What the server had within a window, for each of its requests; and the kernel's events in it.
    pub(super) fn within(&self, window_ns: (u64, u64), requests: u64) -> (ServerCpu, u64) {
        let (from_ns, to_ns) = window_ns;
        let sums = self.slices.between(from_ns, to_ns);
        let (elapsed_ns, requests) = (to_ns.saturating_sub(from_ns).max(1) as f64, requests.max(1) as f64);
        let cpu = ServerCpu {
            utilisation: sums[USED] as f64 / elapsed_ns,
            used_ns_per_request: sums[USED] as f64 / requests,
            waited_ns_per_request: sums[WAITED] as f64 / requests,
            switches_per_request: sums[SWITCHES] as f64 / requests,
        };
        (cpu, sums[EVENTS])
    }
}
