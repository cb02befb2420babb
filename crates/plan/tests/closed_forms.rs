//! The simulator against the formulas of queueing theory: within 2 %, always by the same seeds.
// scripts/test: patient

use weir_measure::queueing;
use weir_plan::{Cluster, Discipline, Dispatch, Kind, Object, Outcome, Partition, Policy, Trace, simulate};

const REQUESTS: usize = 3_000_000;
const MEAN_NS: f64 = 1e6;

fn objects(count: usize) -> Vec<Object> {
    let object = |at: usize| Object {
        name: format!("/{at}").into(),
        kind: Kind::Html,
        bytes: 1,
        size_from: weir_plan::SizeFrom::Whole,
        requests: 1,
    };
    (0..count).map(object).collect()
}

/// Poisson arrivals at a rate, in requests of a mean service time, for one object that is kept.
fn trace(rate_per_s: f64, seed: u64, mut service_ns: impl FnMut(&mut fastrand::Rng) -> f64) -> Trace {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut at_ns, mut trace) = (0.0, Trace::default());
    for _ in 0..REQUESTS {
        at_ns += exponential(&mut random) * 1e9 / rate_per_s;
        trace.at_ns.push(at_ns as u64);
        trace.object.push(1);
        trace.service_ns.push(service_ns(&mut random) as f32);
    }
    trace
}

fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

/// One of ten takes five and a half times the mean, the others half of it: a coefficient of variation of 1.5 for
/// constant times, and of 2.35 for exponential ones.
fn two_sorts(random: &mut fastrand::Rng) -> f64 {
    if random.u8(..10) == 0 { 5.5 * MEAN_NS } else { 0.5 * MEAN_NS }
}

fn run(trace: &Trace, cluster: &Cluster, policy: Policy) -> Outcome {
    let objects = objects(2);
    let outcome = simulate(trace, &objects, &trace.work_ns(&objects), cluster, &policy, 1);
    assert_eq!((outcome.served, outcome.rejected), (REQUESTS as u64, 0));
    outcome
}

fn assert_near(what: &str, simulated: f64, formula: f64) {
    let off = simulated / formula - 1.0;
    println!("{what}: simulated {simulated:.0}, formula {formula:.0}, {:+.2} %", off * 100.0);
    assert!(off.abs() < 0.02, "{what}: {simulated} is not {formula}");
}

#[test]
fn one_server_with_exponential_times() {
    for (seed, load) in [(1, 0.3), (2, 0.7), (3, 0.8)] {
        let trace = trace(1000.0 * load, seed, |random| MEAN_NS * exponential(random));
        let outcome = run(&trace, &Cluster::new(1), Policy::Full);
        let wait_ns = queueing::mean_wait_ns(1, 1000.0 * load, MEAN_NS).expect("it is stable");
        assert_near(&format!("M/M/1 at {load}, mean"), outcome.waiting_mean_ns(), wait_ns);
        // Responses are distributed exponentially.
        for share in [0.5, 0.95, 0.99] {
            let response_ns = -(1.0f64 - share).ln() * MEAN_NS / (1.0 - load);
            assert_near(&format!("M/M/1 at {load}, {share}"), outcome.response.quantile_ns(share) as f64, response_ns);
        }
        assert_near("utilisation", outcome.nodes[0].utilisation, load);
        assert_near("share of the queueing", outcome.waiting_share(), load);
    }
}

#[test]
fn one_server_with_any_times() {
    // Pollaczek and Khinchine: the mean square of a service is 0.9 * 0.25 + 0.1 * 30.25 = 3.25 squares of the mean.
    let trace = trace(700.0, 4, two_sorts);
    let outcome = run(&trace, &Cluster::new(1), Policy::Full);
    assert_near("M/G/1", outcome.waiting_mean_ns(), 0.7 * 3.25 * MEAN_NS / (2.0 * 0.3));
}

#[test]
fn a_shared_server_needs_only_the_mean() {
    let cluster = Cluster { discipline: Discipline::Shared, ..Cluster::new(1) };
    for (seed, load) in [(5, 0.5), (6, 0.8)] {
        let outcome = run(&trace(1000.0 * load, seed, two_sorts), &cluster, Policy::Full);
        assert_near("M/G/1-PS", outcome.response_mean_ns(), MEAN_NS / (1.0 - load));
        let exponential = trace(1000.0 * load, seed, |random| MEAN_NS * exponential(random));
        assert_near("M/M/1-PS", run(&exponential, &cluster, Policy::Full).response_mean_ns(), MEAN_NS / (1.0 - load));
    }
}

#[test]
fn several_servers() {
    for (seed, servers, load) in [(7, 2, 0.8), (8, 5, 0.7), (9, 16, 0.9)] {
        let rate_per_s = 1000.0 * load * f64::from(servers);
        let trace = trace(rate_per_s, seed, |random| MEAN_NS * exponential(random));
        let cluster = Cluster { servers, ..Cluster::new(1) };
        let wait_ns = queueing::mean_wait_ns(servers, rate_per_s, MEAN_NS).expect("it is stable");
        assert_near(&format!("M/M/{servers}"), run(&trace, &cluster, Policy::Full).waiting_mean_ns(), wait_ns);
        // As many are there in any order of service, so by Little's law the mean is the same.
        let shared = Cluster { discipline: Discipline::Shared, ..cluster };
        let response_ns = run(&trace, &shared, Policy::Full).response_mean_ns();
        assert_near(&format!("M/M/{servers}-PS"), response_ns, wait_ns + MEAN_NS);
    }
}

#[test]
fn arrivals_that_are_dealt_by_chance_are_poisson_at_each_node() {
    let trace = trace(4.0 * 700.0, 10, |random| MEAN_NS * exponential(random));
    let cluster = Cluster { dispatch: Dispatch::Random, ..Cluster::new(4) };
    let wait_ns = queueing::mean_wait_ns(1, 700.0, MEAN_NS).expect("it is stable");
    assert_near("4 times M/M/1", run(&trace, &cluster, Policy::Full).waiting_mean_ns(), wait_ns);
    // One object lies on one node only, although the others are idle.
    let idle = run(&trace, &Cluster { servers: 4, ..cluster }, Policy::Partition(Partition::RoundRobin));
    let wait_ns = queueing::mean_wait_ns(4, 2800.0, MEAN_NS).expect("it is stable");
    assert_near("M/M/4", idle.waiting_mean_ns(), wait_ns);
    assert_eq!(idle.nodes.iter().filter(|node| node.served > 0).count(), 1);
}
