//! Whose requests held the locks that responses waited for, and what these did meanwhile.
//!
//! A lock's holder is a task; the request that it worked on is known once that response is explained, which may be
//! before or after the one that waited. So both are kept for a while: responses, and waits that await their holder's.

use std::collections::{BTreeMap, VecDeque};
use weir_measure::part::PartTimes;
use weir_report::Holding;
use weir_timeline::{Detail, Joiner, Response, Step};

/// Responses that are kept for waits that are told later, and steps of one.
const MOST_RESPONSES: usize = 256;
const MOST_STEPS: usize = 256;
/// Waits whose holder's response may still come.
const MOST_WAITS: usize = 1024;
/// How long a wait awaits it, nanoseconds; who holds a lock for longer may never have had a request.
const PATIENCE_NS: u64 = 30_000_000_000;
/// Locks, holders and classes that are told apart; what comes after counts as held by none that is known.
const MOST_HOLDINGS: usize = 1024;
/// Holdings that are reported.
const MOST_SHOWN: usize = 32;
/// Below this share of the mean response one is not worth a line.
const WORTH_SHOWING: f64 = 0.001;
/// Overlaps that add up to more than this share of a wait belong to several requests at once.
const SURE: f64 = 1.01;

/// The fold.
#[derive(Debug, Default)]
pub(super) struct Holders {
    served: VecDeque<Served>,
    waits: VecDeque<Wait>,
    held: BTreeMap<(u32, Option<u32>), Held>,
}

/// What was held: how long, and what its holder's requests did meanwhile.
#[derive(Debug, Default)]
struct Held {
    ns: u64,
    parts: PartTimes,
}

/// A response that may have held something.
#[derive(Debug)]
struct Served {
    class: u32,
    from_ns: u64,
    to_ns: u64,
    steps: Vec<Step>,
}

impl Served {
    /// When a task worked on this, from its first step to its last.
    fn span(&self, task: u32) -> Option<(u64, u64)> {
        let mut own = self.steps.iter().filter(|step| step.pid == task);
        let first = own.next()?;
        Some((first.from_ns, own.next_back().unwrap_or(first).to_ns))
    }
}

/// A wait for what a task held.
#[derive(Debug)]
struct Wait {
    /// The label of what was waited for.
    label: u32,
    holder: u32,
    from_ns: u64,
    to_ns: u64,
    claims: Vec<(u32, Held)>,
}

impl Wait {
    /// Notes what a response did meanwhile, if the holder worked on it then.
    fn claim(&mut self, served: &Served) {
        if served.from_ns >= self.to_ns || served.to_ns <= self.from_ns {
            return;
        }
        let Some((from_ns, to_ns)) = served.span(self.holder) else { return };
        let (from_ns, to_ns) = (from_ns.max(self.from_ns), to_ns.min(self.to_ns));
        if from_ns >= to_ns {
            return;
        }
        let mut held = Held { ns: to_ns - from_ns, parts: PartTimes::default() };
        for step in &served.steps {
            held.parts[step.part as usize] += step.to_ns.min(to_ns).saturating_sub(step.from_ns.max(from_ns));
        }
        self.claims.push((served.class, held));
    }
}

impl Holders {
    /// Takes a response of a class; `label` gives the number of a culprit's label at a time.
    pub(super) fn push(
        &mut self,
        joiner: &Joiner,
        response: &Response<'_>,
        class: u32,
        mut label: impl FnMut(Detail, u64) -> u32,
    ) {
        let (from_ns, to_ns) = (response.request.intended_ns, response.request.done_ns);
        // The room of the oldest is used again.
        let mut served = match self.served.len() < MOST_RESPONSES {
            true => Served { class, from_ns, to_ns, steps: Vec::new() },
            false => self.served.pop_front().expect("it is full"),
        };
        served.steps.clear();
        served.steps.extend(response.steps.iter().take(MOST_STEPS));
        let served = Served { class, from_ns, to_ns, ..served };
        self.waits.iter_mut().for_each(|wait| wait.claim(&served));
        for step in response.steps {
            let Detail::Named(number) = step.detail else { continue };
            let Some(holder) = joiner.holder(number).filter(|holder| *holder != step.pid) else { continue };
            let label = label(step.detail, step.from_ns);
            let mut wait = Wait { label, holder, from_ns: step.from_ns, to_ns: step.to_ns, claims: Vec::new() };
            self.served.iter().for_each(|one| wait.claim(one));
            self.waits.push_back(wait);
        }
        self.served.push_back(served);
        while self.waits.len() > MOST_WAITS
            || self.waits.front().is_some_and(|wait| wait.to_ns.saturating_add(PATIENCE_NS) < to_ns)
        {
            let wait = self.waits.pop_front().expect("there is one");
            self.settle(wait);
        }
    }

    /// Puts a wait down to the requests that its holder worked on: to none where several would share the same time.
    fn settle(&mut self, wait: Wait) {
        let (whole, claimed) = (wait.to_ns - wait.from_ns, wait.claims.iter().map(|(_, held)| held.ns).sum::<u64>());
        let claims = if claimed as f64 > SURE * whole as f64 { Vec::new() } else { wait.claims };
        let known: u64 = claims.iter().map(|(_, held)| held.ns).sum();
        for (class, held) in claims {
            self.add((wait.label, Some(class)), &held);
        }
        self.add((wait.label, None), &Held { ns: whole.saturating_sub(known), parts: PartTimes::default() });
    }

    fn add(&mut self, key: (u32, Option<u32>), more: &Held) {
        if more.ns == 0 {
            return;
        }
        let has_room = self.held.contains_key(&key) || self.held.len() < MOST_HOLDINGS;
        let held = self.held.entry(if has_room { key } else { (0, None) }).or_default();
        held.ns += more.ns;
        held.parts.iter_mut().zip(more.parts).for_each(|(sum, ns)| *sum += ns);
    }

    /// What was held, by whom, and for which requests: means over so many responses, the largest first.
    pub(super) fn report(
        &mut self,
        labels: &[String],
        classes: &[String],
        responses: u64,
        mean_ns: f64,
    ) -> Vec<Holding> {
        while let Some(wait) = self.waits.pop_front() {
            self.settle(wait);
        }
        let mut by_words: BTreeMap<(&str, &str, Option<&str>), Held> = BTreeMap::new();
        for ((label, class), held) in &self.held {
            let Some((lock, holder)) = labels.get(*label as usize).and_then(|label| label.rsplit_once(" held by "))
            else {
                continue;
            };
            // Workers of one name are one holder: they differ in nothing but their number.
            let holder = holder.rsplit_once(" (").map_or(holder, |(name, _)| name);
            let class = class.and_then(|class| classes.get(class as usize)).map(String::as_str);
            let sum = by_words.entry((lock, holder, class)).or_default();
            sum.ns += held.ns;
            sum.parts.iter_mut().zip(held.parts).for_each(|(sum, ns)| *sum += ns);
        }
        let each = |ns: u64| ns as f64 / responses.max(1) as f64;
        let mut holdings: Vec<Holding> = by_words
            .into_iter()
            .map(|((lock, holder, class), held)| Holding {
                lock: lock.to_owned(),
                holder: holder.to_owned(),
                request: class.map(str::to_owned),
                mean_ns: each(held.ns),
                parts_ns: held.parts.map(each),
            })
            .filter(|holding| holding.mean_ns >= WORTH_SHOWING * mean_ns)
            .collect();
        holdings.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
        holdings.truncate(MOST_SHOWN);
        holdings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_measure::part::Part;

    fn step(from_ns: u64, to_ns: u64, part: Part, pid: u32) -> Step {
        Step { from_ns, to_ns, part, pid, waiter: 0, detail: Detail::None }
    }

    fn wait(label: u32, holder: u32, from_ns: u64, to_ns: u64) -> Wait {
        Wait { label, holder, from_ns, to_ns, claims: Vec::new() }
    }

    /// A response of class 1 that task 9 worked on from 100 to 900: it ran, and then it slept.
    fn slow() -> Served {
        let steps = vec![
            step(50, 100, Part::RequestTransit, 0),
            step(100, 200, Part::Run, 9),
            step(200, 900, Part::WaitTimer, 9),
            step(900, 950, Part::ResponseTransit, 0),
        ];
        Served { class: 1, from_ns: 50, to_ns: 950, steps }
    }

    fn report(waits: impl IntoIterator<Item = Wait>) -> Vec<Holding> {
        let mut holders = Holders::default();
        waits.into_iter().for_each(|wait| holders.settle(wait));
        let labels = ["", "flock of /a held by php-fpm (9)", "flock of /a held by php-fpm (8)"].map(str::to_owned);
        holders.report(&labels, &["GET /".to_owned(), "GET /slow.php".to_owned()], 1, 1_000.0)
    }

    #[test]
    fn a_wait_is_put_down_to_the_request_of_its_holder_for_as_long_as_that_was_worked_on() {
        let mut one = wait(1, 9, 150, 1_150);
        one.claim(&slow());
        let told = report([one]);
        let parts: Vec<f64> =
            [Part::Run, Part::WaitTimer, Part::ResponseTransit].map(|part| told[0].parts_ns[part as usize]).into();
        assert_eq!((told[0].request.as_deref(), told[0].mean_ns), (Some("GET /slow.php"), 750.0));
        assert_eq!((told[0].lock.as_str(), told[0].holder.as_str()), ("flock of /a", "php-fpm"));
        assert_eq!(parts, [50.0, 700.0, 0.0]);
        // From then on the holder had it without a request that is known.
        assert_eq!((told[1].request.as_deref(), told[1].mean_ns), (None, 250.0));
    }

    #[test]
    fn nothing_is_said_where_it_is_not_known_whose_request_it_was() {
        let mut another = wait(1, 8, 150, 800);
        another.claim(&slow());
        let mut earlier = wait(1, 9, 0, 100);
        earlier.claim(&slow());
        // An event loop has several at a time: each could be the one.
        let mut both = wait(1, 9, 200, 800);
        both.claim(&slow());
        both.claim(&Served { class: 0, ..slow() });
        for one in [another, earlier, both] {
            let whole = (one.to_ns - one.from_ns) as f64;
            let told = report([one]);
            assert_eq!(told.iter().map(|one| (one.request.clone(), one.mean_ns)).collect::<Vec<_>>(), [(None, whole)]);
        }
    }

    #[test]
    fn workers_of_one_name_are_one_holder_and_what_is_kept_is_bounded() {
        let told = report([wait(1, 9, 0, 100), wait(2, 8, 0, 300)]);
        assert_eq!((told.len(), told[0].mean_ns), (1, 400.0));
        let mut holders = Holders::default();
        for label in 0..2 * MOST_HOLDINGS as u32 {
            holders.settle(wait(label + 1, 9, 0, 10));
        }
        assert!(holders.held.len() <= MOST_HOLDINGS + 1);
        assert_eq!(holders.held.values().map(|held| held.ns).sum::<u64>(), 20 * MOST_HOLDINGS as u64);
    }
}
