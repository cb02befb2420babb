//! What a proposed change does to the mean response: between its worst and its best.

use crate::change::{Change, Speed, time_of};
use crate::prediction::{Refusal, predict, what_if};
use crate::trace::Trace;
use weir_measure::queueing::Saving;

/// A share below which there is nothing to be shortened.
const NOTHING: f64 = 1e-3;

/// What a change does to the mean response, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// As it was recorded.
    pub now_ns: f64,
    /// With the change.
    pub then_ns: f64,
    /// At best.
    pub low_ns: f64,
    /// At worst.
    pub high_ns: f64,
}

/// Why a model does not tell what a change does.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoEffect {
    /// The run supports no prediction, or not this one.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing of the run is called so.
    #[error(
        "the model of this run has no {names} to shorten: waits for CPUs, workers and known locks are made anew; --try \
         measures it"
    )]
    NotThere {
        /// What was looked for.
        names: String,
    },
    /// Other programs do not matter.
    #[error("in the model of this run no request waits for other programs; --try measures it")]
    NoOthers,
    /// Responses grow without end.
    #[error("more requests come than the server takes with this change as well; record it at a lower rate")]
    Overrun,
}

/// Another number of workers in a pool, named by its beginning.
///
/// # Errors
/// The run does not support it, or more requests come than are served.
pub fn workers(trace: &Trace, pool: &str, count: u32, seed: u64) -> Result<Effect, NoEffect> {
    let change = Change { workers: vec![(pool.to_owned(), count)], ..Change::default() };
    let told = predict(trace, &change, seed)?;
    let mean = told.predicted.ok_or(NoEffect::Overrun)?.mean_ns;
    Ok(Effect { now_ns: told.recorded[1], then_ns: mean.value, low_ns: mean.low, high_ns: mean.high })
}

/// Less time for the first of these names (as `--faster` takes them) that the run knows: nanoseconds of a mean
/// response. What is saved in queues comes on top.
///
/// # Errors
/// The run knows none of them, or supports no prediction.
pub fn less(trace: &Trace, what: &[String], saved_ns: Saving, seed: u64) -> Result<Effect, NoEffect> {
    let requests = trace.requests.len().max(1) as f64;
    let response_ns = trace.requests.iter().map(|request| request.response_ns).sum::<f64>() / requests;
    let known = what.iter().map(|name| (name, time_of(trace, name))).find(|(_, ns)| *ns > NOTHING * response_ns);
    let (name, whole_ns) = known.ok_or_else(|| NoEffect::NotThere { names: what.join(" or ") })?;
    let change = |ns: f64| {
        let saved = (ns / whole_ns).clamp(0.0, 1.0);
        Change { faster: vec![Speed { what: name.clone(), saved }], ..Change::default() }
    };
    between(trace, &[saved_ns.low_ns, saved_ns.likely_ns, saved_ns.high_ns].map(change), seed)
}

/// Other programs keep such shares, 0 to 1, of what they have of the CPUs: at worst, likely and at best.
///
/// # Errors
/// No request waits for them, or the run supports no prediction.
pub fn others(trace: &Trace, kept: [f64; 3], seed: u64) -> Result<Effect, NoEffect> {
    let responses_ns: f64 = trace.requests.iter().map(|request| request.response_ns).sum();
    if trace.others_ns() * trace.requests.len() as f64 <= NOTHING * responses_ns {
        return Err(NoEffect::NoOthers);
    }
    between(trace, &kept.map(|kept| Change { others: Some(kept), ..Change::default() }), seed)
}

/// The run, replayed with the change at worst, as is likely and at best.
fn between(trace: &Trace, changes: &[Change; 3], seed: u64) -> Result<Effect, NoEffect> {
    let (mut means, mut now_ns) = ([0.0; 3], 0.0);
    for (mean, change) in means.iter_mut().zip(changes) {
        let told = what_if(trace, change, seed)?;
        (*mean, now_ns) = (told.predicted[1], told.recorded[1]);
    }
    let [worst, likely, best] = means;
    Ok(Effect { now_ns, then_ns: likely, low_ns: best.min(likely), high_ns: worst.max(likely) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Request, Service, Visit, Work};

    const MS: f64 = 1e6;

    /// Pages of two workers, one each 6 ms: 4 ms at the CPU, 4 ms at the disk, 2 ms of a client's connection.
    fn trace() -> Trace {
        let mut trace = Trace { cpus: 2, ..Trace::default() };
        let (name, service) = ("apache2".to_owned(), Service::Holding);
        trace.pools.push(Pool { name, service, workers: 2, is_limit: true, after_ns: 0.0, held_ns: 0.0 });
        let (_, outside, inside) = (trace.label(""), trace.stack(&[]), trace.stack(&[0]));
        let labels = ["client:connect", "apache2:run", "apache2:wait_disk|/var/log/access.log"];
        let [connect, run, disk] = labels.map(|label| trace.label(label));
        for number in 0..1_200u64 {
            let visit = |stack, work, ns, label| Visit { stack, work, lock: None, ns, label };
            let visits = vec![
                visit(outside, Work::Delay, 2.0 * MS, connect),
                visit(inside, Work::Cpu, 4.0 * MS, run),
                visit(inside, Work::Delay, 4.0 * MS, disk),
            ];
            // Two at a time, so that the third waits.
            let at_ns = number / 3 * 18_000_000;
            let response_ns = if number % 3 == 2 { 18.0 * MS } else { 10.0 * MS };
            trace.requests.push(Request { at_ns, response_ns, class: 0, visits });
        }
        trace
    }

    fn means(told: Result<Effect, NoEffect>) -> [f64; 4] {
        let Effect { now_ns, then_ns, low_ns, high_ns } = told.expect("an effect");
        [now_ns, low_ns, then_ns, high_ns].map(|ns| (ns / MS * 100.0).round() / 100.0)
    }

    #[test]
    fn a_wait_that_goes_away_takes_its_queue_along() {
        let (trace, saved_ns) = (trace(), Saving::of(0.0, 2.0 * MS, 4.0 * MS));
        let shortened = |what: &[&str]| {
            let what: Vec<String> = what.iter().map(|&name| name.to_owned()).collect();
            less(&trace, &what, saved_ns, 1)
        };
        // 12.67 ms now. Without the disk a page takes 6 ms and the third one of three 10 ms: 5.33 ms are saved by 4.
        let of_disk = means(shortened(&["wait_disk"]));
        assert_eq!(of_disk, [12.67, 7.33, 10.0, 12.67]);
        // A connection that stays open saves its own time alone, and no more than it takes.
        assert_eq!(means(shortened(&["connect"])), [12.67, 10.67, 10.67, 12.67]);
        // The first name that the run knows counts.
        assert_eq!(means(shortened(&["postgres:wait_disk", "wait_disk"])), of_disk);
        let none = shortened(&["accept_queue"]).expect_err("it is made anew");
        assert!(matches!(none, NoEffect::NotThere { .. }), "{none}");
    }

    /// The same pages at random times, each of which waits so long for other programs to leave its CPU, with responses as
    /// the model has them.
    fn at_random(others_ns: f64) -> Trace {
        let (mut trace, mut random, mut at_ns) = (trace(), fastrand::Rng::with_seed(9), 0.0);
        trace.requests.truncate(600);
        for request in &mut trace.requests {
            at_ns += -(1.0 - random.f64()).ln() * 7.0 * MS;
            request.at_ns = at_ns as u64;
            let runs = request.visits[1];
            request.visits.insert(1, Visit { work: Work::Others, ns: others_ns, ..runs });
        }
        let outcome = crate::simulate(&trace, crate::Arrivals::AsRecorded, 0, 1);
        let mean_ns = outcome.responses_ns.iter().sum::<f64>() / outcome.responses_ns.len() as f64;
        trace.requests.iter_mut().for_each(|request| request.response_ns = mean_ns);
        trace
    }

    #[test]
    fn a_larger_pool_or_a_quieter_neighbour_is_foretold() {
        let trace = at_random(0.0);
        let more = means(workers(&trace, "apache2", 16, 1));
        assert!(more[2] < more[0] - 0.5, "pages wait for a CPU at most: {more:?}");
        let same = means(workers(&trace, "apache2", 2, 1));
        assert!((same[2] / same[0] - 1.0).abs() < 0.1, "as many as there are: {same:?}");
        assert_eq!(others(&trace, [0.5, 0.1, 0.0], 1), Err(NoEffect::NoOthers));
        let [now, best, likely, worst] = means(others(&at_random(MS), [1.0, 0.1, 0.0], 1));
        assert!(best <= likely && (worst - now).abs() < 0.01, "{now}: {best}, {likely}, {worst}");
        assert!(likely < now - 1.0, "workers are free sooner, too: {now}, {likely}");
        assert!((best * MS / trace.requests[0].response_ns - 1.0).abs() < 1e-2, "as without them: {best}");
    }
}
