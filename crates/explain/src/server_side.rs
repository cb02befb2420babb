//! What the server's tasks had of the CPUs, and what observing wrote, while clients' requests were under way.

use super::from_sockets::window_end_ns;
use super::proc_side::ProcSide;
use weir_measure::slices::SliceFold;
use weir_measure::usage::{UsageFold, Verb};
use weir_objects::{Abstraction, Table};
use weir_report::ServerCpu;
use weir_timeline::Joiner;
use weir_trace::Source;
use weir_wire::{Kind, Record, Slot};

/// Tasks whose use of the CPUs is followed at a time.
const MOST_TASKS: usize = 1 << 16;
/// The interaction of tasks and CPUs, as the table of objects calls it.
const CPU: &str = "cpu";
/// What a slice of time sums up.
const USED: usize = 0;
const WAITED: usize = 1;
const SWITCHES: usize = 2;
const EVENTS: usize = 3;

/// The fold.
pub(super) struct ServerSide {
    abstraction: Abstraction,
    cpus: UsageFold,
    slices: SliceFold<4>,
    sampled: ProcSide,
}

impl ServerSide {
    pub(super) fn new() -> Self {
        Self {
            abstraction: Abstraction::new(&Table::ours(), &[CPU]),
            cpus: UsageFold::new(MOST_TASKS),
            slices: SliceFold::default(),
            sampled: ProcSide::default(),
        }
    }

    /// Takes a record of tasks and CPUs; the joiner follows clients and connections.
    pub(super) fn push(&mut self, joiner: &Joiner, source: Source, record: &Record, payload: &[Slot]) {
        if source == Source::Kernel {
            self.slices.push(record.time_ns, EVENTS, 1);
        }
        let slices = &mut self.slices;
        self.sampled.push(record, payload, |used| {
            slices.push(used.at_ns, USED, used.run_ns);
            slices.push(used.at_ns, WAITED, used.wait_ns);
            slices.push(used.at_ns, SWITCHES, used.slices);
        });
        if let Some(edge_ns) = window_end_ns(record) {
            self.pause(joiner, edge_ns);
        }
        let Self { abstraction, cpus, slices, .. } = self;
        abstraction.each(record, payload, |event| {
            let pid = event.requester.number().and_then(|number| u32::try_from(number).ok());
            if let (Some(pid), Some(verb)) = (pid, verb_of(event.verb)) {
                used(cpus, slices, joiner, (verb, pid, event.at_ns));
            }
        });
        if record.kind == Kind::Exit as u16 {
            // Tasks come and go during a recording: only those that live take memory.
            let (pid, _) = record.a_halves();
            self.event(joiner, Verb::Finish, pid, record.time_ns);
            self.cpus.evict(u64::from(pid), 0);
        }
    }

    fn event(&mut self, joiner: &Joiner, verb: Verb, pid: u32, at_ns: u64) {
        used(&mut self.cpus, &mut self.slices, joiner, (verb, pid, at_ns));
    }

    /// A window ends: what a task had counts up to here, and what it does until the next window is not known.
    fn pause(&mut self, joiner: &Joiner, edge_ns: u64) {
        let tasks: Vec<u64> = self.cpus.iter().map(|((task, _), _)| task).collect();
        // Their numbers were made of 32 bits.
        tasks.into_iter().for_each(|task| self.event(joiner, Verb::Finish, task as u32, edge_ns));
        self.cpus = UsageFold::new(MOST_TASKS);
    }

    /// What its tasks were seen to do within a window, where only /proc was sampled.
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

/// Adds what an event of a task and the CPUs tells.
fn used(cpus: &mut UsageFold, slices: &mut SliceFold<4>, joiner: &Joiner, (verb, pid, at_ns): (Verb, u32, u64)) {
    let task = u64::from(pid);
    let before = cpus.snapshot(task, 0);
    cpus.push(verb, task, 0, at_ns);
    // Asked now, not at the end: a task made for one connection is forgotten by then.
    if joiner.serves(pid) {
        let after = cpus.snapshot(task, 0);
        slices.push(at_ns, USED, after.used_ns - before.used_ns);
        slices.push(at_ns, WAITED, after.waited_ns - before.waited_ns);
        slices.push(at_ns, SWITCHES, after.accepts - before.accepts);
    }
}

/// The verb of the formulas; none for what no rule of CPUs says.
fn verb_of(verb: weir_objects::Verb) -> Option<Verb> {
    match verb {
        weir_objects::Verb::Request => Some(Verb::Request),
        weir_objects::Verb::Accept => Some(Verb::Accept),
        weir_objects::Verb::Finish => Some(Verb::Finish),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_timeline::Bounds;
    use weir_wire::task::{NO_SYSCALL, Switch};

    fn switch(time_ns: u64, prev: u32, next: u32, prev_state: u8) -> Record {
        Switch { prev, next, prev_state, syscall: NO_SYSCALL, descriptor: 0 }.write(time_ns, 0)
    }

    fn window(time_ns: u64, flags: u8) -> Record {
        Record { time_ns, kind: Kind::Window as u16, flags, b: time_ns, ..Record::default() }
    }

    /// Task 7 has the CPU and task 8 waits for it when the first window ends; both have gone on when the next begins.
    #[test]
    fn what_happens_between_windows_is_not_counted() {
        let mut joiner = Joiner::new(Bounds::default());
        let mut side = ServerSide::new();
        let (ms, text) = (1_000_000, weir_wire::text_slots("worker"));
        let name = |pid: u32| {
            let a = u64::from(pid) | u64::from(pid) << 32;
            Record {
                time_ns: 1,
                kind: Kind::TaskName as u16,
                flags: 1,
                a,
                slots: text.len() as u8,
                ..Record::default()
            }
        };
        for pid in [7, 8] {
            joiner.push(&name(pid), &text, None, &mut |_, _| {});
            assert!(joiner.serves(pid));
        }
        for record in [
            window(ms, 0),
            switch(2 * ms, 8, 7, 0),
            window(4 * ms, 1),
            window(60_000 * ms, 0),
            switch(60_001 * ms, 7, 8, 1),
            switch(60_002 * ms, 8, 0, 1),
        ] {
            side.push(&joiner, Source::Kernel, &record, &[]);
        }
        let (cpu, events) = side.within((0, 60_010 * ms), 1);
        assert_eq!((cpu.used_ns_per_request, cpu.waited_ns_per_request), (3e6, 0.0));
        assert_eq!(events, 6);
    }

    /// As with a process for each request: each has the CPU for a microsecond and ends.
    #[test]
    fn any_number_of_tasks_may_come_and_go() {
        let (joiner, mut side) = (Joiner::new(Bounds::default()), ServerSide::new());
        for pid in 1..=100_000u32 {
            let at_ns = u64::from(pid) * 2_000;
            let exit = Record { time_ns: at_ns + 900, kind: Kind::Exit as u16, a: u64::from(pid), ..Record::default() };
            for record in [switch(at_ns, 0, pid, 0), exit, switch(at_ns + 1_000, pid, 0, 16)] {
                side.push(&joiner, Source::Kernel, &record, &[]);
            }
        }
        assert_eq!((side.cpus.iter().count(), side.cpus.evicted()), (0, 0));
    }
}
