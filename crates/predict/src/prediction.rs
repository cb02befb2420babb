//! A prediction: the simulation, repeated with resampled requests, beside the layers' solution.

use crate::change::{Change, ChangeError};
use crate::check::{FULL, Unsupported, check};
use crate::demand::{Bottleneck, Demand, demand};
use crate::found::{Alike, found};
use crate::layers::{Solved, solve};
use crate::program::Programs;
use crate::simulator::{Arrivals, Outcome, simulate_by};
use crate::trace::Trace;
use crate::usl::Usl;

/// How often the simulation is repeated; the interval is from the second lowest to the second highest.
const REPEATED: usize = 24;
/// Requests of a simulation, at most and at least.
const MOST_REQUESTS: usize = 20_000;
const FEWEST_REQUESTS: usize = 2_000;
/// What throughput, mean, p50, p95 and p99 of a real server differ by from one load to the next beyond what chance and
/// the model make of them, as shares: CPUs change their speed, caches are warmer under more load. Judged by
/// `studies/predict`.
const DIFFERS: [f64; 5] = [0.02, 0.06, 0.06, 0.10, 0.15];
/// The model may differ so much from what it was made of, as a share of the mean response.
const REPEATS_WITHIN: f64 = 0.35;

/// A figure and between what it lies by 19 of 20.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What is predicted, or was measured.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Figures {
    /// Responses a second.
    pub throughput_per_s: Interval,
    /// The mean response, nanoseconds.
    pub mean_ns: Interval,
    /// The median.
    pub p50_ns: Interval,
    /// The 95th percentile.
    pub p95_ns: Interval,
    /// The 99th percentile.
    pub p99_ns: Interval,
}

/// A prediction.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Prediction {
    /// What was asked.
    pub change: Change,
    /// Requests a second at which they come; null where clients ask one after the other.
    pub rate_per_s: Option<f64>,
    /// Clients that ask one after the other; null where requests come by a schedule.
    pub clients: Option<u32>,
    /// As it was recorded.
    pub recorded: [f64; 5],
    /// By the model at the recorded point: how well it repeats the run.
    pub repeated: Figures,
    /// By the model with the change; null where more comes than is served, so that responses grow without end.
    pub predicted: Option<Figures>,
    /// Responses a second where more comes than is served, else those of the prediction.
    pub throughput_per_s: f64,
    /// By layers of mean-value analysis.
    pub layers: Solved,
    /// The station that is full first.
    pub bottleneck: Bottleneck,
    /// Service demands with the change.
    pub demand: Demand,
    /// The universal scalability law beside it.
    pub usl: Option<Usl>,
    /// Why there is none.
    pub no_usl_because: Option<String>,
    /// What to know of it.
    pub remarks: Vec<String>,
}

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The change is not possible.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The trace does not support it.
    #[error(transparent)]
    Trace(#[from] Unsupported),
}

/// Predicts.
///
/// # Errors
/// The change does not fit the trace, or the trace supports no prediction.
pub fn predict(trace: &Trace, change: &Change, seed: u64) -> Result<Prediction, Refusal> {
    let now = demand(trace);
    let changed = change.applied(trace)?;
    check(trace, change, &now)?;
    let recorded = measured(trace);
    let at = |trace: &Trace, rate: Option<f64>| {
        trace.clients.map_or(Arrivals::Drawn(rate.unwrap_or(0.0)), Arrivals::Clients)
    };
    let before = repeated(trace, at(trace, Some(trace.rate_per_s())), seed);
    let repeated_figures = figures(&before, None);
    let off = repeated_figures.mean_ns.value / recorded[1] - 1.0;
    if off.abs() > REPEATS_WITHIN {
        let (model_ms, measured_ms) = (repeated_figures.mean_ns.value / 1e6, recorded[1] / 1e6);
        return Err(Unsupported::NotRepeated { model_ms, measured_ms }.into());
    }
    let rate_per_s = change.rate(trace);
    let demand = demand(&changed);
    let after = repeated(&changed, at(&changed, rate_per_s), seed);
    let is_full = rate_per_s.is_some_and(|rate| rate >= FULL * demand.most_per_s())
        || after.iter().any(|outcome| outcome.is_overrun);
    // What the model has left out at the recorded point is left out here too.
    let base = Base { recorded, model: &repeated_figures };
    let predicted = (!is_full).then(|| figures(&after, Some(&base)));
    let most_per_s = demand.most_per_s();
    let throughput_per_s = match (&predicted, rate_per_s) {
        (Some(figures), _) => figures.throughput_per_s.value,
        (None, Some(rate)) => most_per_s.min(rate),
        (None, None) => most_per_s,
    };
    let name = demand.stations.first().map_or_else(String::new, |station| station.name.clone());
    let utilisation = (throughput_per_s / most_per_s).min(1.0);
    let (usl, no_usl_because) = match Usl::of(trace) {
        Ok(usl) => (Some(usl), None),
        Err(reason) => (None, Some(reason.to_string())),
    };
    Ok(Prediction {
        remarks: remarks(trace, &changed, &demand),
        change: change.clone(),
        rate_per_s,
        clients: changed.clients,
        recorded,
        repeated: repeated_figures,
        predicted,
        throughput_per_s,
        layers: solve(&changed, rate_per_s),
        bottleneck: Bottleneck { name, most_per_s, utilisation },
        demand,
        usl,
        no_usl_because,
    })
}

fn remarks(trace: &Trace, changed: &Trace, demand: &Demand) -> Vec<String> {
    let mut remarks = Vec::new();
    if changed.cpus > 2 * trace.cpus {
        remarks.push(format!(
            "{} CPUs are more than twice the {} recorded: an extrapolation, which no trial here has tested",
            changed.cpus, trace.cpus
        ));
    }
    if demand.client_ns > 0.0 {
        remarks.push(format!(
            "the load generator runs on the same CPUs, {:.0} us of each request; the prediction is for that arrangement",
            demand.client_ns / 1e3
        ));
    }
    if trace.others_matter(demand.others_ns) {
        remarks.push(format!(
            "requests waited for CPUs that other programs had, {:.0} us of each; the prediction has them wait as long, and \
             that these programs leave what the server asks for",
            demand.others_ns / 1e3
        ));
    }
    if trace.untold_disk_requests > 0 {
        remarks.push(format!(
            "{} requests of disks came after the first {} of each: what they waited in a disk's queue stays as long as it \
             was; record for a shorter time",
            trace.untold_disk_requests, Trace::DISK_REQUESTS_MAX
        ));
    }
    for (pool, before) in changed.pools.iter().zip(&trace.pools) {
        if pool.is_limit && pool.workers == before.workers {
            remarks.push(format!("{} has {} workers, as many as the run showed", pool.name, pool.workers));
        }
    }
    remarks
}

/// Throughput, mean, p50, p95 and p99 of a trace.
fn measured(trace: &Trace) -> [f64; 5] {
    let mut times: Vec<f64> = trace.requests.iter().map(|request| request.response_ns).collect();
    let [mean, p50, p95, p99] = of_times(&mut times);
    [trace.rate_per_s(), mean, p50, p95, p99]
}

fn of_times(times: &mut [f64]) -> [f64; 4] {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * times.len() as f64).ceil() as usize;
        times.get(rank.clamp(1, times.len().max(1)) - 1).copied().unwrap_or(0.0)
    };
    [times.iter().sum::<f64>() / times.len().max(1) as f64, at(0.5), at(0.95), at(0.99)]
}

fn repeated(trace: &Trace, arrivals: Arrivals, seed: u64) -> Vec<Outcome> {
    let count = trace.requests.len().clamp(FEWEST_REQUESTS, MOST_REQUESTS);
    let mut random = fastrand::Rng::with_seed(seed);
    let programs = Programs::of(trace);
    let requests = trace.requests.len();
    let found = found(&trace.requests, trace.cpus);
    let outcomes = (0..REPEATED).map(|_| {
        // Requests are drawn twice: once as those that might have been recorded, once as those that come.
        let drawn: Vec<u32> = (0..requests).map(|_| random.usize(..requests) as u32).collect();
        let alike = Alike::of(trace, &found, &drawn);
        simulate_by(trace, &programs, Some(&alike), arrivals, count, random.u64(..))
    });
    outcomes.collect()
}

/// The recorded point: what was measured, and what the model says of it.
struct Base<'a> {
    recorded: [f64; 5],
    model: &'a Figures,
}

fn figures(outcomes: &[Outcome], base: Option<&Base<'_>>) -> Figures {
    let all: Vec<[f64; 5]> = outcomes
        .iter()
        .map(|outcome| {
            let [mean, p50, p95, p99] = of_times(&mut outcome.responses_ns.clone());
            [outcome.throughput_per_s, mean, p50, p95, p99]
        })
        .collect();
    let one = |at: usize| {
        let mut values: Vec<f64> = all.iter().map(|figures| figures[at]).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (values[1], values[values.len() - 2]);
        Interval { value: values.iter().sum::<f64>() / values.len() as f64, low, high }
    };
    let raw = Figures { throughput_per_s: one(0), mean_ns: one(1), p50_ns: one(2), p95_ns: one(3), p99_ns: one(4) };
    let Some(base) = base else { return raw };
    let model = base.model;
    let corrected = |interval: Interval, at: usize, model: f64| {
        let ratio = (base.recorded[at] / model.max(1e-9)).clamp(0.5, 2.0);
        // The interval holds what the model says, what its fault at the recorded point makes of it, and what a real
        // server differs by from one load to the next.
        Interval {
            value: interval.value * ratio,
            low: interval.low * ratio.min(1.0) * (1.0 - DIFFERS[at]),
            high: interval.high * ratio.max(1.0) * (1.0 + DIFFERS[at]),
        }
    };
    Figures {
        throughput_per_s: corrected(raw.throughput_per_s, 0, base.recorded[0]),
        mean_ns: corrected(raw.mean_ns, 1, model.mean_ns.value),
        p50_ns: corrected(raw.p50_ns, 2, model.p50_ns.value),
        p95_ns: corrected(raw.p95_ns, 3, model.p95_ns.value),
        p99_ns: corrected(raw.p99_ns, 4, model.p99_ns.value),
    }
}

/// What a run would have been with some of its work made faster.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct WhatIf {
    /// What was made faster.
    pub change: Change,
    /// Throughput, mean, p50, p95 and p99 as recorded.
    pub recorded: [f64; 5],
    /// The same of the run, replayed as it was.
    pub replayed: [f64; 5],
    /// The same of the run, replayed with the change.
    pub changed: [f64; 5],
    /// What the run would have shown: the recorded figures times what the replay changes.
    pub predicted: [f64; 5],
    /// The share of the mean response that the shortened work has of it, 0 to 1: more than it saves can only come from
    /// queues.
    pub own_share: f64,
}

/// Replays a run with some of its work made faster: requests come when they came, and queue anew. Clients that ask one
/// after the other ask sooner.
///
/// # Errors
/// The work is not in the trace, or the trace supports no prediction.
pub fn what_if(trace: &Trace, change: &Change, seed: u64) -> Result<WhatIf, Refusal> {
    let changed = change.applied(trace)?;
    check(trace, change, &demand(trace))?;
    let count = trace.requests.len().max(FEWEST_REQUESTS);
    let replay = |trace: &Trace| {
        let arrivals = trace.clients.map_or(Arrivals::AsRecorded, Arrivals::Clients);
        let outcome = crate::simulate(trace, arrivals, count, seed);
        let [mean, p50, p95, p99] = of_times(&mut outcome.responses_ns.clone());
        [outcome.throughput_per_s, mean, p50, p95, p99]
    };
    let (recorded, replayed, after) = (measured(trace), replay(trace), replay(&changed));
    let off = replayed[1] / recorded[1] - 1.0;
    if off.abs() > REPEATS_WITHIN {
        let (model_ms, measured_ms) = (replayed[1] / 1e6, recorded[1] / 1e6);
        return Err(Unsupported::NotRepeated { model_ms, measured_ms }.into());
    }
    let mut predicted = recorded;
    for at in 0..predicted.len() {
        predicted[at] *= if replayed[at] > 0.0 { after[at] / replayed[at] } else { 1.0 };
    }
    let sum = |trace: &Trace| -> f64 {
        trace.requests.iter().flat_map(|request| &request.visits).map(|visit| visit.ns).sum()
    };
    let saved: f64 = change.faster.iter().map(|speed| speed.saved).fold(0.0, f64::max);
    let own_ns = if saved > 0.0 { (sum(trace) - sum(&changed)) / saved / trace.requests.len() as f64 } else { 0.0 };
    let own_share = (own_ns / recorded[1].max(1.0)).min(1.0);
    Ok(WhatIf { change: change.clone(), recorded, replayed, changed: after, predicted, own_share })
}
