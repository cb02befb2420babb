//! Traces that support no prediction, or not this one.

use crate::change::Change;
use crate::demand::Demand;
use crate::trace::Trace;

/// Requests that a prediction needs: below, its 95th percentile rests on ten of them or fewer.
const FEWEST: usize = 200;
/// The share of requests that may be missing.
const LEFT_OUT: f64 = 0.05;
/// How much the rates of a trace's parts may differ: of Poisson arrivals a tenth of 200 requests has a standard
/// deviation of 22 %, so that is added.
const UNEVEN: f64 = 0.25;
/// Parts of a trace that are compared.
const PARTS: usize = 4;
/// A part of the work below this share of the response is as good as none, as its change would not be seen.
const SEEN: f64 = 1e-3;
/// The utilisation from which on a trace tells of its own length more than of its load.
pub(crate) const FULL: f64 = 0.98;

/// Why there is no prediction; each says what to do about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// Too few requests.
    #[error("the run has {requests} requests, and a prediction needs {FEWEST} or more: record for longer")]
    TooFew {
        /// Its requests.
        requests: usize,
    },
    /// Too many are missing.
    #[error(
        "{left_out} of {all} requests failed or were not followed through the server, so what is left stands for another \
         load: record one without failures, by weir explain --load URL"
    )]
    LeftOut {
        /// Missing ones.
        left_out: u64,
        /// All.
        all: u64,
    },
    /// The rate changes.
    #[error(
        "requests did not come at one rate: {low_per_s:.0}/s and {high_per_s:.0}/s in quarters of the run; record a time \
         with a steady load, or make one by weir load --rate"
    )]
    Unsteady {
        /// The lowest rate of a part.
        low_per_s: f64,
        /// The highest.
        high_per_s: f64,
    },
    /// Responses became longer and longer.
    #[error(
        "the responses became longer and longer (on average {first_ms:.1} ms in the first quarter and {last_ms:.1} ms in \
         the last), so the server had more than it can take: record it at a lower rate"
    )]
    Growing {
        /// The mean of the first part, milliseconds.
        first_ms: f64,
        /// The mean of the last one.
        last_ms: f64,
    },
    /// What is changed was not used.
    #[error(
        "{name} did next to nothing in the run ({share:.3} % of the response), so the run says nothing about a change of \
         it: record a load that uses it"
    )]
    Idle {
        /// What is to be changed.
        name: String,
        /// Its share of the response, in a hundred.
        share: f64,
    },
    /// The model does not even give what was recorded.
    #[error(
        "the model does not repeat the run: it gives a mean response of {model_ms:.2} ms where {measured_ms:.2} ms were \
         recorded; what most of the response waits for is not known. weir explain RUN names it, --watch and --packs \
         record more of it"
    )]
    NotRepeated {
        /// By the model, milliseconds.
        model_ms: f64,
        /// As recorded.
        measured_ms: f64,
    },
}

/// Whether a trace supports a change.
///
/// # Errors
/// It does not.
pub fn check(trace: &Trace, change: &Change, demand: &Demand) -> Result<(), Unsupported> {
    let requests = trace.requests.len();
    if requests < FEWEST {
        return Err(Unsupported::TooFew { requests });
    }
    let all = requests as u64 + trace.left_out;
    if trace.left_out as f64 > LEFT_OUT * all as f64 {
        return Err(Unsupported::LeftOut { left_out: trace.left_out, all });
    }
    steady(trace)?;
    used(trace, change, demand)
}

fn steady(trace: &Trace) -> Result<(), Unsupported> {
    let first_ns = trace.requests.first().map_or(0, |request| request.at_ns);
    let whole_ns = (trace.requests.last().map_or(0, |request| request.at_ns) - first_ns).max(1);
    let mut parts = [(0usize, 0.0); PARTS];
    for request in &trace.requests {
        let at = u128::from(request.at_ns.saturating_sub(first_ns)) * PARTS as u128 / u128::from(whole_ns);
        let (count, sum_ns) = &mut parts[(at as usize).min(PARTS - 1)];
        *count += 1;
        *sum_ns += request.response_ns;
    }
    let part_s = whole_ns as f64 / 1e9 / PARTS as f64;
    let least = parts.iter().map(|(count, _)| *count).min().unwrap_or(0) as f64;
    let most = parts.iter().map(|(count, _)| *count).max().unwrap_or(0) as f64;
    let mean = trace.requests.len() as f64 / PARTS as f64;
    // What chance makes of four parts lies within three standard deviations on either side nearly always.
    if most - least > UNEVEN * mean + 6.0 * mean.sqrt() {
        return Err(Unsupported::Unsteady { low_per_s: least / part_s, high_per_s: most / part_s });
    }
    let means: Vec<f64> = parts.iter().map(|(count, sum_ns)| sum_ns / (*count).max(1) as f64).collect();
    let grows = means.windows(2).all(|two| two[1] > two[0] * 1.15);
    if grows && means[PARTS - 1] > 2.0 * means[0] {
        return Err(Unsupported::Growing { first_ms: means[0] / 1e6, last_ms: means[PARTS - 1] / 1e6 });
    }
    Ok(())
}

fn used(trace: &Trace, change: &Change, demand: &Demand) -> Result<(), Unsupported> {
    let response_ns = trace.requests.iter().map(|request| request.response_ns).sum::<f64>().max(1.0);
    let all_ns = response_ns / trace.requests.len() as f64;
    if change.cores.is_some_and(|cores| cores != trace.cpus) && demand.cpu_ns() < SEEN * all_ns {
        return Err(Unsupported::Idle { name: "CPU".to_owned(), share: demand.cpu_ns() / all_ns * 100.0 });
    }
    for (name, _) in &change.workers {
        let of_pool = |number: &u16| trace.pools.get(usize::from(*number)).is_some_and(|pool| pool.name.contains(name));
        let sum_ns: f64 = trace
            .requests
            .iter()
            .flat_map(|request| &request.visits)
            .filter(|visit| trace.stacks.get(usize::from(visit.stack)).is_some_and(|stack| stack.iter().any(of_pool)))
            .map(|visit| visit.ns)
            .sum();
        if sum_ns < SEEN * response_ns {
            return Err(Unsupported::Idle { name: name.clone(), share: sum_ns / response_ns * 100.0 });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::demand;
    use crate::trace::{Pool, Request, Service, Visit, Work};

    fn trace(count: u64, at_ns: impl Fn(u64) -> u64, response_ns: impl Fn(u64) -> f64) -> Trace {
        let mut trace = Trace { cpus: 1, ..Trace::default() };
        for name in ["web", "idle"] {
            let (name, service) = (name.to_owned(), Service::Holding);
            trace.pools.push(Pool { name, service, workers: 2, is_limit: true, after_ns: 0.0, held_ns: 0.0 });
        }
        let (_, stack, label) = (trace.stack(&[]), trace.stack(&[0]), trace.label("web:run"));
        trace.requests.extend((0..count).map(|number| Request {
            at_ns: at_ns(number),
            response_ns: response_ns(number),
            class: 0,
            visits: vec![Visit { stack, work: Work::Cpu, lock: None, ns: 1e6, label }],
        }));
        trace
    }

    fn verdict(trace: &Trace, change: &Change) -> Result<(), Unsupported> {
        check(trace, change, &demand(trace))
    }

    #[test]
    fn what_supports_no_prediction_is_refused_with_its_reason() {
        let (even, same) = (|number: u64| number * 10_000_000, |_: u64| 1e6);
        let nothing = Change::default();
        assert_eq!(verdict(&trace(1000, even, same), &nothing), Ok(()));
        assert!(matches!(verdict(&trace(199, even, same), &nothing), Err(Unsupported::TooFew { requests: 199 })));
        let lost = Trace { left_out: 100, ..trace(1000, even, same) };
        assert!(matches!(verdict(&lost, &nothing), Err(Unsupported::LeftOut { left_out: 100, all: 1100 })));
        let rising = trace(1000, |number| (number as f64).sqrt() as u64 * 100_000_000, same);
        assert!(matches!(verdict(&rising, &nothing), Err(Unsupported::Unsteady { .. })));
        let growing = trace(1000, even, |number| number as f64 * 1e6);
        assert!(matches!(verdict(&growing, &nothing), Err(Unsupported::Growing { .. })));
        let idle = Change { workers: vec![("idle".to_owned(), 3)], ..Change::default() };
        assert!(matches!(verdict(&trace(1000, even, same), &idle), Err(Unsupported::Idle { .. })));
        let busy = Change { workers: vec![("web".to_owned(), 3)], ..Change::default() };
        assert_eq!(verdict(&trace(1000, even, same), &busy), Ok(()));
    }
}
