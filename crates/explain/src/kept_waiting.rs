//! Whose request held others up: had the lock that they waited for, or kept the process behind which they queued.

use std::collections::BTreeMap;
use weir_measure::holders::{Hold, HoldersFold, Stretch};
use weir_measure::part::Part;
use weir_report::{Cause, HeldBy, Holding};
use weir_timeline::{Detail, Response, Step};

/// A share of a part below this is not worth a word.
const WORTH_SAYING: f64 = 0.05;
/// How many classes are named for a part.
const MOST_NAMED: usize = 3;
/// What is held that is reported.
const MOST_SHOWN: usize = 32;
/// Below this share of the mean response it is not worth a line.
const WORTH_SHOWING: f64 = 0.001;

/// The fold over responses.
#[derive(Debug, Default)]
pub(super) struct KeptWaiting {
    fold: HoldersFold,
    stretches: Vec<Stretch>,
}

impl KeptWaiting {
    /// Takes a response of a class; `label` gives the number of a culprit's label at a time.
    pub(super) fn push(&mut self, class: u32, response: &Response<'_>, mut label: impl FnMut(Detail, u64) -> u32) {
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
        fold.push(class, stretches, response.steps.iter().filter_map(|step| hold(step, &mut label)));
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

    /// What was held, by whom, and for which requests: means over so many responses, the largest first.
    pub(super) fn report(&self, labels: &[String], classes: &[String], responses: u64, mean_ns: f64) -> Vec<Holding> {
        let mut by_words: BTreeMap<(&str, &str, Option<&str>), [u64; Part::COUNT]> = BTreeMap::new();
        let mut whole: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (thing, ns) in self.fold.things() {
            let words = labels.get(*thing as usize).and_then(|label| lock_and_holder(label));
            words.into_iter().for_each(|words| *whole.entry(words).or_default() += ns);
        }
        for (by, ns) in self.fold.told() {
            let words = labels.get(by.thing as usize).and_then(|label| lock_and_holder(label));
            let (Some((lock, holder)), Some(class)) = (words, classes.get(by.class as usize)) else { continue };
            by_words.entry((lock, holder, Some(class))).or_default()[by.did as usize] += ns;
        }
        // For the rest of the time it is not known for which request.
        for ((lock, holder), ns) in whole {
            let told = by_words.range((lock, holder, None)..).take_while(|((a, b, _), _)| (*a, *b) == (lock, holder));
            let told: u64 = told.flat_map(|(_, parts)| parts).sum();
            by_words.entry((lock, holder, None)).or_default()[Part::Unattributed as usize] = ns.saturating_sub(told);
        }
        let each = |ns: u64| ns as f64 / responses.max(1) as f64;
        let mut holdings: Vec<Holding> = by_words
            .into_iter()
            .map(|((lock, holder, class), parts)| Holding {
                lock: lock.to_owned(),
                holder: holder.to_owned(),
                request: class.map(str::to_owned),
                mean_ns: each(parts.iter().sum()),
                parts_ns: if class.is_some() { parts.map(each) } else { [0.0; Part::COUNT] },
            })
            .filter(|holding| holding.mean_ns > 0.0 && holding.mean_ns >= WORTH_SHOWING * mean_ns)
            .collect();
        holdings.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
        holdings.truncate(MOST_SHOWN);
        holdings
    }
}

/// A lock and its holder, by the label of a wait for it. Workers of one name are one holder: they differ in nothing but
/// their number.
fn lock_and_holder(label: &str) -> Option<(&str, &str)> {
    let (lock, holder) = label.rsplit_once(" held by ")?;
    Some((lock, holder.rsplit_once(" (").map_or(holder, |(name, _)| name)))
}

/// A step as a wait for what a task had, if it names that task. A lock that is named has the number of its label.
fn hold(step: &Step, label: impl FnOnce(Detail, u64) -> u32) -> Option<Hold> {
    let waits = matches!(step.part, Part::WaitLock | Part::WaitCpu | Part::AcceptQueue | Part::WorkerQueue);
    let (thing, holder) = match step.detail {
        Detail::Task(pid) if waits => (0, pid),
        Detail::Lock(_, pid) if waits && pid != step.pid => (label(step.detail, step.from_ns), pid),
        _ => return None,
    };
    Some(Hold { from_ns: step.from_ns, to_ns: step.to_ns, part: step.part, thing, holder })
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

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [&str; 3] = ["", "flock of /a held by php-fpm (9)", "flock of /a held by php-fpm (8)"];

    /// A response of class 1 that task 9 worked on from 100 to 900: it ran, and then it slept.
    fn slow() -> Vec<Stretch> {
        let stretch = |from_ns, to_ns, part, task| Stretch { from_ns, to_ns, part, task, waiter: 0 };
        vec![
            stretch(50, 100, Part::RequestTransit, 0),
            stretch(100, 200, Part::Run, 9),
            stretch(200, 900, Part::WaitTimer, 9),
            stretch(900, 950, Part::ResponseTransit, 0),
        ]
    }

    /// What is told of waits for things, each with its holder and its time, beside responses of these classes.
    fn told(beside: &[u32], waits: &[(u32, u32, u64, u64)]) -> Vec<Holding> {
        let mut kept = KeptWaiting::default();
        beside.iter().for_each(|class| kept.fold.push(*class, &slow(), []));
        for (thing, holder, from_ns, to_ns) in waits.iter().copied() {
            let waits = Stretch { from_ns, to_ns, part: Part::WaitLock, task: 7, waiter: 0 };
            let hold = Hold { from_ns, to_ns, part: Part::WaitLock, thing, holder };
            kept.fold.push(0, &[waits], [hold]);
        }
        kept.finish();
        let classes = ["GET /", "GET /slow.php"].map(str::to_owned);
        kept.report(&LABELS.map(str::to_owned), &classes, 1, 1_000.0)
    }

    #[test]
    fn a_wait_is_put_down_to_the_request_of_its_holder_for_as_long_as_that_was_worked_on() {
        let told = told(&[1], &[(1, 9, 150, 1_150)]);
        let parts: Vec<f64> =
            [Part::Run, Part::WaitTimer, Part::ResponseTransit].map(|part| told[0].parts_ns[part as usize]).into();
        assert_eq!((told[0].request.as_deref(), told[0].mean_ns), (Some("GET /slow.php"), 750.0));
        assert_eq!((told[0].lock.as_str(), told[0].holder.as_str()), ("flock of /a", "php-fpm"));
        assert_eq!(parts, [50.0, 700.0, 0.0]);
        // From then on the holder had it without a request that is known.
        assert_eq!((told[1].request.as_deref(), told[1].mean_ns, told.len()), (None, 250.0, 2));
        assert!(told[1].parts_ns.iter().all(|ns| *ns == 0.0));
    }

    #[test]
    fn nothing_is_said_where_it_is_not_known_whose_request_it_was() {
        // Another worker's, one that came later, and an event loop's that has several at a time.
        let waits: [(&[u32], _); 3] = [(&[1], (1, 8, 150, 800)), (&[1], (1, 9, 0, 100)), (&[1, 0], (1, 9, 200, 800))];
        for (beside, wait) in waits {
            let whole = (wait.3 - wait.2) as f64;
            let told: Vec<_> = told(beside, &[wait]).into_iter().map(|one| (one.request, one.mean_ns)).collect();
            assert_eq!(told, [(None, whole)]);
        }
    }

    #[test]
    fn workers_of_one_name_are_one_holder() {
        let told = told(&[], &[(1, 9, 0, 100), (2, 8, 0, 300)]);
        assert_eq!((told.len(), told[0].mean_ns), (1, 400.0));
    }
}
