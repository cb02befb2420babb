//! The processes that took part in responses, and who waited for whom.

use std::collections::HashMap;
use weir_measure::part::Part;
use weir_measure::participants::ParticipantsFold;
use weir_report::{ProcessShare, WaitingEdge};
use weir_timeline::{Detail, Step};

/// Participants that are told apart.
const MOST: usize = 256;
/// Edges that are shown.
const MOST_EDGES: usize = 64;
/// Processes that wait for each other.
const MOST_DEPTH: usize = 8;
/// An edge below this share of the mean response is left out.
const WORTH_SHOWING: f64 = 0.001;

/// The folds.
pub(super) struct Participants {
    fold: ParticipantsFold,
    /// Of each task of the response at hand, the task that waits for it.
    waiters: HashMap<u32, u32>,
}

impl Participants {
    pub(super) fn new() -> Self {
        Self { fold: ParticipantsFold::new(MOST), waiters: HashMap::new() }
    }

    /// Takes a response; `label` gives the number of a culprit's label at a time.
    pub(super) fn push(&mut self, steps: &[Step], mut label: impl FnMut(Detail, u64) -> u32) {
        self.waiters.clear();
        for step in steps.iter().filter(|step| step.pid != 0 && step.waiter != 0) {
            self.waiters.insert(step.pid, step.waiter);
        }
        let mut before = (0, 0);
        for step in steps.iter().filter(|step| step.pid != 0 && is_servers(step.part)) {
            let (own, ns) = (label(Detail::Task(step.pid), step.from_ns), step.to_ns - step.from_ns);
            self.fold.had(own, step.part, ns);
            let culprit = if is_wait(step.part) { label(step.detail, step.from_ns) } else { 0 };
            if culprit != 0 && culprit != own {
                self.fold.waited(own, culprit, step.part, ns, true);
            }
            let (mut pid, mut waiter) = (step.pid, step.waiter);
            let mut seen = Vec::with_capacity(MOST_DEPTH);
            // One that stands twice in a chain waits for one that waits for it.
            while waiter != 0 && seen.len() < MOST_DEPTH && !seen.contains(&(waiter, pid)) {
                seen.push((waiter, pid));
                let (from, to) = (label(Detail::Task(waiter), step.from_ns), label(Detail::Task(pid), step.from_ns));
                self.fold.waited(from, to, Part::WaitProcess, ns, before != (waiter, pid));
                before = (waiter, pid);
                (pid, waiter) = (waiter, self.waiters.get(&waiter).copied().unwrap_or(0));
            }
        }
    }

    /// Each one's share of the mean over this many responses, and who waited for whom.
    pub(super) fn report(
        &self,
        labels: &[String],
        responses: u64,
        mean_ns: f64,
    ) -> (Vec<ProcessShare>, Vec<WaitingEdge>) {
        let count = responses.max(1) as f64;
        let name = |label: u32| match labels.get(label as usize) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => "(others)".to_owned(),
        };
        let shares = self.fold.shares();
        let processes = shares.iter().map(|(who, share)| ProcessShare {
            name: name(*who),
            run_ns: share.run_ns as f64 / count,
            wait_ns: share.wait_ns as f64 / count,
        });
        let edges = self.fold.waits().into_iter().map(|((from, to, part), wait)| WaitingEdge {
            from: name(from),
            to: name(to),
            part: part.name().to_owned(),
            count: wait.count,
            mean_ns: wait.ns as f64 / count,
        });
        let shown = edges.filter(|edge| edge.mean_ns >= WORTH_SHOWING * mean_ns).take(MOST_EDGES);
        (processes.collect(), shown.collect())
    }
}

/// Whether a part is the server's time, or that of a process that it waits for.
fn is_servers(part: Part) -> bool {
    !matches!(
        part,
        Part::Generator
            | Part::Connect
            | Part::RequestTransit
            | Part::ResponseTransit
            | Part::ClientWakeup
            | Part::Unattributed
    )
}

/// Whether a part is a wait for its culprit.
fn is_wait(part: Part) -> bool {
    matches!(part, Part::WaitCpu | Part::WaitLock | Part::WaitDisk | Part::WaitProcess | Part::WaitNetwork)
}
