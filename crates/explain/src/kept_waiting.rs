//! Whose request held others up: had the lock that they waited for, or kept the process behind which they queued.

use std::collections::BTreeMap;
use weir_measure::holders::{Hold, HoldersFold, Stretch};
use weir_measure::part::Part;
use weir_report::{Cause, HeldBy};
use weir_timeline::{Detail, Response, Step};

/// A share of a part below this is not worth a word.
const WORTH_SAYING: f64 = 0.05;
/// How many classes are named for a part.
const MOST_NAMED: usize = 3;

/// The fold over responses.
#[derive(Debug, Default)]
pub(super) struct KeptWaiting {
    fold: HoldersFold,
    stretches: Vec<Stretch>,
}

impl KeptWaiting {
    /// Takes a response of a class.
    pub(super) fn push(&mut self, class: u32, response: &Response<'_>) {
        if response.server.is_none() {
            return;
        }
        let Self { fold, stretches } = self;
        stretches.clear();
        stretches.extend(response.steps.iter().map(|step| Stretch {
            from_ns: step.from_ns,
            to_ns: step.to_ns,
            part: step.part,
            task: step.pid,
            waiter: step.waiter,
        }));
        fold.push(class, stretches, response.steps.iter().filter_map(hold));
    }

    /// After the last response.
    pub(super) fn finish(&mut self) {
        self.fold.finish();
    }

    /// Adds to each cause whose requests held its responses up; over this many responses.
    pub(super) fn name(&self, causes: &mut [Cause], responses: u64, classes: &[String]) {
        for cause in causes {
            cause.held_by = self.held_by(cause, responses, classes);
            // The first line names the holders of locks (`weir_report`).
            if !cause.held_by.is_empty() && cause.part != Part::WaitLock.name() {
                cause.text.push_str(&words(&cause.held_by));
            }
        }
    }

    fn held_by(&self, cause: &Cause, responses: u64, classes: &[String]) -> Vec<HeldBy> {
        let mut by_class: BTreeMap<u32, Vec<(Part, u64)>> = BTreeMap::new();
        for (by, ns) in self.fold.told().iter().filter(|(by, _)| by.part.name() == cause.part) {
            by_class.entry(by.class).or_default().push((by.did, *ns));
        }
        let whole_ns = (cause.mean_ns * responses as f64).max(1.0);
        let mut held_by: Vec<HeldBy> = by_class
            .into_iter()
            .filter_map(|(class, did)| {
                let (main, _) = did.iter().max_by_key(|(_, ns)| *ns)?;
                let share = did.iter().map(|(_, ns)| *ns).sum::<u64>() as f64 / whole_ns;
                let class = classes.get(class as usize)?.clone();
                (share >= WORTH_SAYING).then(|| HeldBy { class, did: main.name().to_owned(), share: share.min(1.0) })
            })
            .collect();
        held_by.sort_by(|a, b| b.share.total_cmp(&a.share));
        held_by.truncate(MOST_NAMED);
        held_by
    }
}

/// A step as a wait for what a task had, if it names that task.
fn hold(step: &Step) -> Option<Hold> {
    let waits = matches!(step.part, Part::WaitLock | Part::AcceptQueue | Part::WorkerQueue);
    let holder = match step.detail {
        Detail::Task(pid) | Detail::Lock(_, pid) if waits => pid,
        _ => return None,
    };
    Some(Hold { from_ns: step.from_ns, to_ns: step.to_ns, part: step.part, holder })
}

/// Whose requests, in words after the cause's own.
fn words(held_by: &[HeldBy]) -> String {
    let list: Vec<String> = held_by
        .iter()
        .map(|by| {
            let did = Part::ALL.into_iter().find(|part| part.name() == by.did).map_or("", did);
            format!("{}, which {did}, {:.0} %", by.class, 100.0 * by.share)
        })
        .collect();
    format!("; kept by {}", list.join("; "))
}

/// What a request did in a part.
fn did(part: Part) -> &'static str {
    match part {
        Part::Run => "ran",
        Part::WaitCpu => "waited for a CPU",
        Part::WaitDisk => "waited for a disk",
        Part::WaitLock => "waited for a lock",
        Part::WaitProcess => "waited for another process",
        Part::WaitNetwork => "waited for the network",
        Part::WaitTimer => "slept",
        Part::Stopped => "was stopped from outside",
        Part::AcceptQueue | Part::WorkerQueue => "waited in a queue",
        Part::RequestTransit => "waited for its client",
        _ => "did what is not known",
    }
}
