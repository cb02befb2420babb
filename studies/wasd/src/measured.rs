//! What was measured: the results of the study's experiments.
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use weir_compare::{Block, Plan, Results, Resumed, Role, Slice};
use weir_measure::comparison::{Bootstrap, Estimate, PairedRatios, median};
use weir_measure::signed_rank;

/// Above this part of its CPU, the generator was the limit.
const GENERATOR_LIMIT: f64 = 0.95;

/// An experiment of the study: its plan, and its blocks so far.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) plan: Plan,
    pub(crate) blocks: Vec<Block>,
}

/// All experiments of the study, by the names of their plans.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) experiments: BTreeMap<String, Experiment>,
}

/// What is told of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quantity {
    /// Requests answered each second.
    Rate,
    /// CPU time of the server for each request, in nanoseconds.
    Cpu,
    /// Received each second, in megabytes (1,000,000 bytes).
    Megabytes,
    /// The 99th percentile of the times of responses, in nanoseconds.
    P99,
    /// The bytes of the client that got the least, for each byte of the one that got the most.
    Evenness,
}

/// A subject in cases of an experiment, written `PLAN | CASE | SUBJECT`. With several cases (`CASE + CASE`) their values
/// are summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    plan: String,
    cases: Vec<String>,
    subject: String,
}

/// A ratio of two places, and whether chance could have made it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) estimate: Estimate,
    pub(crate) probability: Option<f64>,
    /// Whether the generator was at its limit in one of them.
    pub(crate) is_limited: bool,
}

impl Measured {
    /// Reads the results of the plans of these names that are in the folder; those that are not were not begun.
    pub(crate) fn read(folder: &Path, plans: &[String]) -> anyhow::Result<Self> {
        let mut experiments = BTreeMap::new();
        for name in plans {
            let own = folder.join(name);
            if own.join("plan.json").exists() {
                let Resumed { plan, blocks, .. } = Results::resume(&own)?;
                experiments.insert(name.clone(), Experiment { plan, blocks });
            }
        }
        Ok(Self { experiments })
    }

    /// The median over the blocks, with its interval; `None` where there is nothing yet.
    pub(crate) fn value(&self, place: &Place, quantity: Quantity) -> anyhow::Result<Option<Estimate>> {
        let values = self.values(place, quantity)?;
        Ok(Bootstrap::with_seed(self.seed(place)).median_ratio(&values).ok())
    }

    /// How many times as much there is at one place as at another, block by block: the first block of the one and the
    /// first of the other belong to one round, and so on.
    pub(crate) fn ratio(&self, over: &Place, under: &Place, quantity: Quantity) -> anyhow::Result<Option<Ratio>> {
        let mut ratios = PairedRatios::default();
        for (over, under) in self.values(over, quantity)?.into_iter().zip(self.values(under, quantity)?) {
            // What has no ratio is not counted: the estimate says how many blocks it rests on.
            let _no_ratio = ratios.push(under, over);
        }
        let estimate = ratios.snapshot(&Bootstrap::with_seed(self.seed(over))).ok();
        let depends = !matches!(quantity, Quantity::Cpu);
        let is_limited = depends && (self.is_limited(over)? || self.is_limited(under)?);
        let probability = signed_rank::probability(ratios.ratios());
        Ok(estimate.map(|estimate| Ratio { estimate, probability, is_limited }))
    }

    /// Whether the generator was at its limit there, in the median of the blocks.
    pub(crate) fn is_limited(&self, place: &Place) -> anyhow::Result<bool> {
        let mut limited = false;
        for case in &place.cases {
            let slices = self.slices(place, case)?;
            let shares: Vec<f64> = slices.iter().map(|slice| slice.generator_cpu_share).collect();
            limited |= median(&shares).is_some_and(|share| share > GENERATOR_LIMIT);
        }
        Ok(limited)
    }

    /// The part of the CPUs that others took, of all slices of an experiment: the median and the most.
    pub(crate) fn foreign(&self, plan: &str) -> Option<(f64, f64)> {
        let blocks = self.experiments.get(plan)?.blocks.iter();
        let shares: Vec<f64> =
            blocks.flat_map(|block| &block.slices).filter_map(|slice| slice.slice.foreign_cpu_share).collect();
        Some((median(&shares)?, shares.iter().copied().fold(0.0, f64::max)))
    }

    /// Where requests failed or had an error status, of all blocks: the place, how many did, and of how many.
    pub(crate) fn errors(&self) -> Vec<(String, u64, u64)> {
        let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (name, experiment) in &self.experiments {
            for block in &experiment.blocks {
                let case = &experiment.plan.cases[block.case];
                for slice in &block.slices {
                    let subject = match slice.role {
                        Role::Subject(subject) => subject,
                        Role::Again => case.baseline(),
                    };
                    let place = format!("{name}, {}, {}", case.name, experiment.plan.subject_name(subject));
                    let (errors, requests) = found.entry(place).or_default();
                    *errors += slice.slice.errors;
                    *requests += slice.slice.requests;
                }
            }
        }
        let told = found.into_iter().filter(|(_, (errors, _))| *errors > 0);
        told.map(|(place, (errors, requests))| (place, errors, requests)).collect()
    }

    /// The first subject against itself, of all cases: the interval that lies furthest from 1.
    pub(crate) fn noise(&self, plan: &str, quantity: Quantity) -> Option<Estimate> {
        let experiment = self.experiments.get(plan)?;
        let of_case = |(index, case): (usize, &weir_compare::Case)| {
            let mut ratios = PairedRatios::default();
            for block in experiment.blocks.iter().filter(|block| block.case == index) {
                if let Some((one, again)) = block.twice(case.baseline(), false)
                    && let Some((one, again)) = quantity.of(one).zip(quantity.of(again))
                {
                    let _no_ratio = ratios.push(one, again);
                }
            }
            ratios.snapshot(&Bootstrap::with_seed(experiment.plan.seed)).ok()
        };
        let all = experiment.plan.cases.iter().enumerate().filter_map(of_case);
        all.max_by(|one, other| one.interval.reach().total_cmp(&other.interval.reach()))
    }

    fn seed(&self, place: &Place) -> u64 {
        self.experiments.get(&place.plan).map_or(0, |experiment| experiment.plan.seed)
    }

    fn values(&self, place: &Place, quantity: Quantity) -> anyhow::Result<Vec<f64>> {
        let mut sums: Option<Vec<f64>> = None;
        for case in &place.cases {
            let slices = self.slices(place, case)?;
            let values: Vec<f64> = slices.into_iter().filter_map(|slice| quantity.of(slice)).collect();
            sums = Some(match sums {
                None => values,
                Some(sums) => sums.into_iter().zip(values).map(|(sum, value)| sum + value).collect(),
            });
        }
        Ok(sums.unwrap_or_default())
    }

    /// The subject's slices in a case; none where the experiment was not begun.
    fn slices(&self, place: &Place, case: &str) -> anyhow::Result<Vec<&Slice>> {
        let Some(experiment) = self.experiments.get(&place.plan) else { return Ok(Vec::new()) };
        let (case, subject) = place.within(&experiment.plan, case)?;
        let blocks = experiment.blocks.iter().filter(|block| block.case == case);
        Ok(blocks.filter_map(|block| block.of(Role::Subject(subject))).collect())
    }
}

impl Place {
    /// Reads `PLAN | CASE | SUBJECT`.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        let parts: Vec<&str> = text.split(" | ").collect();
        let [plan, cases, subject] = parts[..] else { bail!("{text:?} is no place: PLAN | CASE | SUBJECT") };
        let cases = cases.split(" + ").map(str::to_owned).collect();
        Ok(Self { plan: plan.to_owned(), cases, subject: subject.to_owned() })
    }

    /// The indices of case and subject in a plan.
    fn within(&self, plan: &Plan, case: &str) -> anyhow::Result<(usize, usize)> {
        let name = &self.plan;
        let index = plan.cases.iter().position(|found| found.name == case);
        let index = index.with_context(|| format!("the plan {name} has no case {case:?}"))?;
        let subject = plan.subjects.iter().position(|found| found.name == self.subject);
        let subject = subject.with_context(|| format!("the plan {name} has no subject {:?}", self.subject))?;
        let takes_part = plan.cases[index].subjects().any(|found| found == subject);
        ensure!(takes_part, "in the plan {name}, {:?} takes no part in {case:?}", self.subject);
        Ok((index, subject))
    }
}

impl Quantity {
    /// Its value in a slice, where it was measured.
    fn of(self, slice: &Slice) -> Option<f64> {
        match self {
            Self::Rate => Some(slice.rate_per_s),
            Self::Cpu => Some(slice.cpu_ns_per_request),
            Self::Megabytes => Some(slice.bytes? as f64 / slice.duration_s / 1e6),
            Self::P99 => Some(slice.latency?.p99_ns),
            Self::Evenness => {
                let shares = slice.details.fairness?;
                Some(shares.least_bytes as f64 / shares.most_bytes as f64)
            }
        }
    }

    /// A value in three or four digits, with its unit where that is not the same for all.
    pub(crate) fn shown(self, value: f64) -> String {
        match self {
            Self::Rate => digits(value),
            Self::Megabytes => digits(value),
            Self::Cpu | Self::P99 => match value {
                ns if ns >= 1e6 => format!("{} ms", digits(ns / 1e6)),
                ns => format!("{} us", digits(ns / 1e3)),
            },
            Self::Evenness => format!("{value:.2}"),
        }
    }

    /// What a table of it is called, with its unit.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Rate => "requests a second",
            Self::Cpu => "CPU time of the server for a request",
            Self::Megabytes => "megabytes a second",
            Self::P99 => "99th percentile of the times of responses",
            Self::Evenness => "bytes of the client that got least, as a part of those of the one that got most",
        }
    }
}

/// A number in three digits, or whole where it has more.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), String::new()), |(w, r)| (w, format!(".{r}")));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &rest
}
