//! Which rate is tried next: up in large steps, then halving, then a few rates near the answer many times over.

use super::highest::{Highest, Trial, highest};

/// A step upwards, and downwards where the first rate is too high.
const STEP: f64 = 4.0;
/// Steps at most: from 10/s to over 10 million/s.
const STEPS_MAX: usize = 11;
/// Halving ends where the two ends are nearer than this.
const NEAR: f64 = 1.5;
/// How far the rates that are measured reach beyond the ends of the halving.
const BEYOND: f64 = 1.15;
/// Rates of the first round of measurements, and how often each is tried.
const COARSE: (usize, usize) = (6, 3);
/// The same of the second, which lies where the first says.
const FINE: (usize, usize) = (4, 8);
/// How often the first round is made anew because the answer lay outside.
const SHIFTS_MAX: usize = 1;
/// Trials of a whole search, at most; most searches need fewer.
pub const TRIALS_MAX: usize = 2 * (STEPS_MAX + 3) + COARSE.0 * COARSE.1 * (1 + SHIFTS_MAX) + FINE.0 * FINE.1;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// The highest rate that held and the lowest that did not, where known.
    Climbing {
        held: Option<f64>,
        missed: Option<f64>,
        steps: usize,
    },
    Halving {
        held: f64,
        missed: f64,
    },
    Coarse {
        shifts: usize,
    },
    Fine,
    Over,
}

/// A search for the highest rate. It asks for trials one by one and knows no clock: the caller decides how long they
/// are.
#[derive(Debug, Clone)]
pub struct Search {
    allowed: f64,
    most_per_s: f64,
    seed: u64,
    random: fastrand::Rng,
    stage: Stage,
    /// Rates that are still to be tried in this stage, the next one last.
    waiting: Vec<f64>,
    /// The first of the trials that measure: those before only looked for where.
    measuring_from: Option<usize>,
    trials: Vec<Trial>,
}

impl Search {
    /// A search that begins at a rate above 0 and never goes above another; `allowed` is the share of bad requests that
    /// the objective allows, and `seed` is where the random order begins.
    #[must_use]
    pub fn new(from_per_s: f64, most_per_s: f64, allowed: f64, seed: u64) -> Self {
        Self {
            allowed,
            most_per_s,
            seed,
            random: fastrand::Rng::with_seed(seed),
            stage: Stage::Climbing { held: None, missed: None, steps: 0 },
            waiting: vec![from_per_s.min(most_per_s)],
            measuring_from: None,
            trials: Vec::new(),
        }
    }

    /// The rate to try next; `None` when the search is over.
    #[must_use]
    pub fn wanted(&self) -> Option<f64> {
        self.waiting.last().copied()
    }

    /// What it is doing, in a word.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        match self.stage {
            Stage::Climbing { .. } => "looking for the range",
            Stage::Halving { .. } => "halving",
            Stage::Coarse { .. } => "measuring around it",
            Stage::Fine => "measuring near it",
            Stage::Over => "over",
        }
    }

    /// All trials so far.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// What is known so far: from the measuring trials, and where there are none yet, from those that looked for the range.
    #[must_use]
    pub fn answer(&self) -> Highest {
        highest(&self.trials[self.measuring_from.unwrap_or(0)..], self.allowed, self.seed)
    }

    /// Takes in what a trial at the wanted rate found.
    pub fn tried(&mut self, trial: Trial) {
        self.waiting.pop();
        self.trials.push(trial);
        let holds = trial.holds(self.allowed);
        let looking = matches!(self.stage, Stage::Climbing { .. } | Stage::Halving { .. });
        let tries = self.trials.iter().filter(|other| other.rate_per_s == trial.rate_per_s).count();
        if looking && !holds && tries == 1 {
            // Something else may have held the server up for a moment, which would send the search far off: a rate that
            // is too high misses twice.
            return self.waiting.push(trial.rate_per_s);
        }
        match self.stage {
            Stage::Climbing { held, missed, steps } => {
                let held = if holds { Some(held.unwrap_or(0.0).max(trial.rate_per_s)) } else { held };
                let missed = if holds { missed } else { Some(missed.unwrap_or(f64::INFINITY).min(trial.rate_per_s)) };
                self.climb(held, missed, steps + 1);
            }
            Stage::Halving { held, missed } => {
                let (held, missed) = if holds { (trial.rate_per_s, missed) } else { (held, trial.rate_per_s) };
                self.halve(held, missed);
            }
            Stage::Coarse { shifts } if self.waiting.is_empty() => self.coarse_over(shifts),
            Stage::Fine if self.waiting.is_empty() => self.stage = Stage::Over,
            Stage::Coarse { .. } | Stage::Fine | Stage::Over => {}
        }
    }

    fn climb(&mut self, held: Option<f64>, missed: Option<f64>, steps: usize) {
        self.stage = Stage::Climbing { held, missed, steps };
        let next = match (held, missed) {
            (Some(held), Some(missed)) => return self.halve(held, missed),
            (Some(held), None) if held < self.most_per_s => (held * STEP).min(self.most_per_s),
            (None, Some(missed)) => missed / STEP,
            _ => return self.stage = Stage::Over,
        };
        if steps < STEPS_MAX {
            self.waiting.push(next);
        } else {
            self.stage = Stage::Over;
        }
    }

    fn halve(&mut self, held: f64, missed: f64) {
        if missed / held > NEAR {
            self.stage = Stage::Halving { held, missed };
            return self.waiting.push((held * missed).sqrt());
        }
        self.measuring_from = Some(self.trials.len());
        self.stage = Stage::Coarse { shifts: 0 };
        self.spread(held / BEYOND, missed * BEYOND, COARSE);
    }

    /// Puts evenly spread rates up, each so many times, in an order that is random within each time.
    fn spread(&mut self, low: f64, high: f64, (rates, times): (usize, usize)) {
        let high = high.min(self.most_per_s);
        for _ in 0..times {
            let mut turn: Vec<f64> = (0..rates).map(|at| low + (high - low) * at as f64 / (rates - 1) as f64).collect();
            self.random.shuffle(&mut turn);
            self.waiting.extend(turn);
        }
    }

    fn coarse_over(&mut self, shifts: usize) {
        let (low, high) = match self.answer() {
            Highest::Found { low_per_s, high_per_s, rate_per_s } => {
                self.stage = Stage::Fine;
                // Where the interval is narrow, the rates around still have to lie apart.
                let (low, high) = (low_per_s.min(rate_per_s * 0.96), high_per_s.max(rate_per_s * 1.04));
                return self.spread(low, high, FINE);
            }
            Highest::Above(rate) if rate < self.most_per_s => (rate, rate * NEAR),
            Highest::Below(rate) => (rate / NEAR, rate),
            Highest::Above(_) | Highest::Unknown => return self.stage = Stage::Over,
        };
        if shifts == SHIFTS_MAX {
            self.stage = Stage::Over;
            return;
        }
        self.stage = Stage::Coarse { shifts: shifts + 1 };
        self.spread(low, high, COARSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that arrivals of a Poisson process spend with one server that takes 1 for each, in units of that.
    fn sojourns(load: f64, arrivals: usize, random: &mut fastrand::Rng) -> Vec<f64> {
        let mut work: f64 = 0.0;
        (0..arrivals)
            .map(|_| {
                work = (work + (1.0 - random.f64()).ln() / load).max(0.0) + 1.0;
                work
            })
            .collect()
    }

    /// The share of requests that take longer than a limit, in the steady state.
    fn late_share(load: f64, limit: f64) -> f64 {
        let all = sojourns(load, 2_000_000, &mut fastrand::Rng::with_seed(99));
        all[100_000..].iter().filter(|time| **time > limit).count() as f64 / 1_900_000.0
    }

    /// The load at which 1 % take longer than a limit.
    fn truth(limit: f64) -> f64 {
        let (mut held, mut missed) = (0.1, 1.0);
        for _ in 0..14 {
            let middle = (held + missed) / 2.0;
            if late_share(middle, limit) <= 0.01 { held = middle } else { missed = middle }
        }
        (held + missed) / 2.0
    }

    fn search(limit: f64, arrivals_at_capacity: f64, seed: u64) -> (Highest, usize) {
        // A capacity of 1000/s.
        let mut random = fastrand::Rng::with_seed(seed ^ 0xabcd);
        let mut search = Search::new(10.0, 1e6, 0.01, seed);
        while let Some(rate_per_s) = search.wanted() {
            let load = rate_per_s / 1000.0;
            let all = sojourns(load, (arrivals_at_capacity * load) as usize, &mut random);
            let counted = &all[all.len() / 5..];
            let bad = counted.iter().filter(|time| **time > limit).count() as u64;
            search.tried(Trial { rate_per_s, requests: counted.len() as u64, bad });
        }
        (search.answer(), search.trials().len())
    }

    #[test]
    fn the_maximum_of_a_known_queue_lies_in_the_interval() {
        let limit = 10.0;
        let truth_per_s = 1000.0 * truth(limit);
        assert!((700.0..900.0).contains(&truth_per_s), "{truth_per_s}");
        let (mut covered, mut widths, mut errors) = (0, Vec::new(), Vec::new());
        let searches = 100;
        for seed in 0..searches {
            let (answer, trials) = search(limit, 3000.0, seed);
            assert!(trials <= TRIALS_MAX, "{trials}");
            let Highest::Found { rate_per_s, low_per_s, high_per_s } = answer else {
                panic!("{answer:?}, seed {seed}")
            };
            covered += u32::from((low_per_s..=high_per_s).contains(&truth_per_s));
            widths.push((high_per_s - low_per_s) / truth_per_s);
            errors.push((rate_per_s - truth_per_s) / truth_per_s);
        }
        widths.sort_by(f64::total_cmp);
        errors.sort_by(f64::total_cmp);
        let all = searches as usize;
        println!(
            "truth {truth_per_s:.0}/s, covered {covered} of {searches}, width {:.3} in the middle and {:.3} at the most, error {:.3} {:.3} {:.3}",
            widths[all / 2],
            widths[all - 1],
            errors[0],
            errors[all / 2],
            errors[all - 1]
        );
        assert!(covered >= 90, "{covered}");
        assert!(widths[all / 2] < 0.085, "{}", widths[all / 2]);
        assert!(errors[all / 2].abs() < 0.01 && errors[0] > -0.1 && errors[all - 1] < 0.1, "{errors:?}");
    }

    #[test]
    fn a_single_disturbance_does_not_mislead() {
        let mut search = Search::new(10.0, 1e6, 0.01, 1);
        let mut first = true;
        while let Some(rate_per_s) = search.wanted() {
            let bad = if std::mem::take(&mut first) || rate_per_s > 500.0 { 1000 } else { 0 };
            search.tried(Trial { rate_per_s, requests: 1000, bad });
        }
        let Highest::Found { rate_per_s, .. } = search.answer() else { panic!("{:?}", search.answer()) };
        assert!((450.0..520.0).contains(&rate_per_s), "{rate_per_s}");
    }

    #[test]
    fn a_server_without_limits_is_tried_up_to_the_bound() {
        let mut search = Search::new(10.0, 5000.0, 0.01, 1);
        while let Some(rate_per_s) = search.wanted() {
            search.tried(Trial { rate_per_s, requests: 1000, bad: 0 });
        }
        assert_eq!((search.answer(), search.trials().len()), (Highest::Above(5000.0), 6));
    }

    #[test]
    fn a_server_that_never_holds_is_given_up() {
        let mut search = Search::new(10.0, 5000.0, 0.01, 1);
        while let Some(rate_per_s) = search.wanted() {
            search.tried(Trial { rate_per_s, requests: 1000, bad: 1000 });
        }
        assert!(matches!(search.answer(), Highest::Below(rate) if rate < 0.001));
        assert!(search.trials().len() <= 2 * STEPS_MAX);
    }

    #[test]
    fn every_search_ends() {
        for seed in 0..200 {
            // A server of pure chance.
            let mut random = fastrand::Rng::with_seed(seed);
            let mut search = Search::new(10.0, 1e6, 0.01, seed);
            while let Some(rate_per_s) = search.wanted() {
                search.tried(Trial { rate_per_s, requests: 100, bad: random.u64(0..5) });
                assert!(search.trials().len() <= TRIALS_MAX);
            }
        }
    }
}
