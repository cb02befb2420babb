//! What holds under every policy: each request is served once, and no node has more than its policy allows.
// scripts/test: serves

use proptest::prelude::*;
use weir_plan::{
    Cluster, Discipline, Dispatch, Kind, Lard, Limits, Log, Object, Partition, Policy, Scenario, Service, TopOrder,
    Trace, Within, search, simulate,
};

fn objects(count: usize) -> Vec<Object> {
    let object = |at: usize| Object {
        name: format!("/{at}").into(),
        kind: Kind::ALL[at % Kind::ALL.len()],
        bytes: 100 * at as u64,
        size_from: weir_plan::SizeFrom::Whole,
        requests: 1,
    };
    (0..count).map(object).collect()
}

/// Random arrivals, many for few objects.
fn trace(requests: usize, objects: usize, gap_ns: u64, service_ns: u64, seed: u64) -> Trace {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut trace = Trace::default();
    let mut at_ns = 0;
    for _ in 0..requests {
        at_ns += random.u64(..=2 * gap_ns);
        let object = (objects as f64 * random.f64().powi(3)) as u32;
        trace.at_ns.push(at_ns);
        trace.object.push(object);
        trace.service_ns.push(random.u64(1..=2 * service_ns) as f32);
    }
    trace
}

fn policies() -> Vec<Policy> {
    let by = [Partition::Random, Partition::RoundRobin, Partition::Balanced];
    let by = by.into_iter().flat_map(|by| {
        let top = Policy::Top { share: 0.1, copies: Some(2), order: TopOrder::Requests, by };
        [Policy::Partition(by), Policy::HotNode(by), Policy::Replicas { copies: 3, by }, top]
    });
    let lard = |is_replicated| Policy::Lard(Lard { low: 2, high: 5, is_replicated, shrink_ns: 100_000 });
    let hash = [None, Some(1.1), Some(2.0)].map(|bound| Policy::Hash { bound });
    by.chain(hash).chain([lard(false), lard(true), Policy::Full, Policy::ByType]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn each_request_is_served_once_or_rejected(
        nodes in 1u32..=64, servers in 1u32..4, gap in 1u64..2000, queue in prop::sample::select(vec![2u32, 20, 1_000_000]), seed: u64,
    ) {
        let (requests, objects) = (2000, objects(100));
        let trace = trace(requests, objects.len(), gap, 1000, seed);
        let work = trace.work_ns(&objects);
        for policy in policies() {
            for discipline in [Discipline::Fifo, Discipline::Shared] {
                for dispatch in [Dispatch::LeastActive, Dispatch::RoundRobin, Dispatch::Random] {
                    let cluster = Cluster { servers, discipline, dispatch, queue_max: queue, ..Cluster::new(nodes) };
                    let outcome = simulate(&trace, &objects, &work, &cluster, &policy, seed);
                    prop_assert_eq!(outcome.served + outcome.rejected, requests as u64, "{}", policy);
                    prop_assert_eq!(outcome.nodes.iter().map(|node| node.served).sum::<u64>(), outcome.served);
                    prop_assert_eq!((outcome.waiting.count(), outcome.response.count()), (outcome.served, outcome.served));
                    for node in &outcome.nodes {
                        prop_assert!(node.most <= queue, "{} of {}", node.most, queue);
                        // Times are rounded to nanoseconds, each time that something is served.
                        let rounded = node.served as f64 / trace.at_ns.last().map_or(1.0, |&last_ns| last_ns as f64);
                        prop_assert!(node.utilisation <= 1.0 + rounded, "{}", node.utilisation);
                    }
                    // Work that was done is work that was asked for.
                    if outcome.rejected == 0 {
                        let done = outcome.response_mean_ns() - outcome.waiting_mean_ns();
                        let asked = work.iter().sum::<f64>() / requests as f64;
                        prop_assert!((done - asked).abs() <= 1.0 + 1e-4 * asked, "{} {} {}", policy, done, asked);
                    }
                    // The same seed gives the same.
                    prop_assert_eq!(&outcome, &simulate(&trace, &objects, &work, &cluster, &policy, seed));
                }
            }
        }
    }

    #[test]
    fn no_node_is_above_its_bound(nodes in 1u32..=20, gap in 1u64..300, seed: u64) {
        let objects = objects(50);
        let trace = trace(3000, objects.len(), gap, 1000, seed);
        let work = trace.work_ns(&objects);
        let cluster = Cluster::new(nodes);
        for is_replicated in [false, true] {
            let lard = Lard { low: 3, high: 8, is_replicated, shrink_ns: 50_000 };
            let outcome = simulate(&trace, &objects, &work, &cluster, &Policy::Lard(lard), seed);
            prop_assert!(outcome.nodes.iter().all(|node| node.most <= 2 * lard.high), "{:?}", outcome.nodes);
        }
        // With a bound of 1.5 the fullest has at most 1.5 times the mean of the time when most were there, rounded up.
        let whole = simulate(&trace, &objects, &work, &cluster, &Policy::Hash { bound: Some(1.5) }, seed);
        let most: u32 = whole.nodes.iter().map(|node| node.most).max().unwrap_or(0);
        let all: u32 = whole.nodes.iter().map(|node| node.most).sum();
        prop_assert!(f64::from(most) <= (1.5 * f64::from(all) / f64::from(nodes)).ceil(), "{:?}", whole.nodes);
    }
}

#[test]
fn lard_keeps_objects_where_they_are() {
    let objects = objects(100);
    let trace = trace(20_000, objects.len(), 1000, 2000, 3);
    let work = trace.work_ns(&objects);
    let of = |policy: Policy| simulate(&trace, &objects, &work, &Cluster::new(4), &policy, 1);
    let (full, lard) = (of(Policy::Full), of(Policy::Lard(Lard::default())));
    let least: u64 = objects.iter().map(|object| object.bytes).sum();
    assert_eq!(full.storage(), 4 * least);
    assert!((least..2 * least).contains(&lard.storage()), "{} of {least}", lard.storage());
}

/// A log whose first object has half of the requests.
fn log() -> Log {
    let mut text = String::new();
    let mut random = fastrand::Rng::with_seed(9);
    for second in 0..120 {
        for _ in 0..50 {
            let object = if random.bool() { 0 } else { random.u32(..1000) };
            let (minute, second) = (second / 60, second % 60);
            text += &format!(
                "::1 - - [10/Oct/2000:13:{minute:02}:{second:02} +0000] \"GET /{object}.html HTTP/1.0\" 200 {}\n",
                1000 + object
            );
        }
    }
    Log::read([(String::new(), text.as_bytes())]).expect("a log")
}

#[test]
fn the_search_finds_few_nodes_and_then_little_storage() {
    let log = log();
    // 50 a second of 40 ms are two servers' work.
    let scenario = Scenario::new(&log, &Service::new(40e6, 0.0), 1.0, Within::Random, 1..4);
    assert!(scenario.load().is_some_and(|load| (load - 2.0).abs() < 0.05), "{:?}", scenario.load());
    let limits = Limits { share: 0.95, limit_ns: 200_000_000, nodes_max: 10 };
    let found = search(&scenario, &Cluster::new(1), limits);
    let best = &found.tried[found.best.expect("a plan")];
    assert!(best.is_met && best.figures.response_p95_ns.high < 200e6 * 1.02);
    // Half of the work belongs to one object: partitions alone keep its node too busy.
    assert!((3..=4).contains(&best.nodes), "{best:?}");
    assert!(matches!(best.policy, Policy::Top { share, .. } if share < 0.05), "{}", best.policy);
    assert!(best.figures.storage.mean < 1.2 * log.bytes() as f64);
    let fewer = found.tried.iter().filter(|tried| tried.nodes < best.nodes);
    assert!(fewer.clone().count() > 0 && fewer.clone().all(|tried| !tried.is_met));
    // What cannot be met is said so.
    let none = search(&scenario, &Cluster::new(1), Limits { limit_ns: 30_000_000, ..limits });
    assert!(none.best.is_none() && none.tried.iter().all(|tried| !tried.is_met && tried.nodes <= 10));
    // Ten times the requests need some ten times the nodes.
    let grown = Scenario::new(&log, &Service::new(40e6, 0.0), 10.0, Within::Random, 1..2);
    let more = search(&grown, &Cluster::new(1), Limits { nodes_max: 64, ..limits });
    let more = &more.tried[more.best.expect("a plan")];
    assert!((20..=25).contains(&more.nodes), "{}", more.nodes);
}

/// A log with a request in each of these seconds.
fn log_of_seconds(seconds: &[u32]) -> Log {
    let line = |second: &u32| {
        format!("::1 - - [10/Oct/2000:13:55:{second:02} +0000] \"GET /{}.html HTTP/1.0\" 200 10\n", second % 3)
    };
    let text: String = seconds.iter().map(line).collect();
    Log::read([(String::new(), text.as_bytes())]).expect("a log")
}

#[test]
fn one_request_needs_one_node_and_no_seed_meets_nothing() {
    let log = log_of_seconds(&[1]);
    let scenario = Scenario::new(&log, &Service::new(20e6, 0.0), 1.0, Within::Random, 1..4);
    let limits = Limits { share: 0.95, limit_ns: 100_000_000, nodes_max: 64 };
    let found = search(&scenario, &Cluster::new(1), limits);
    assert_eq!(found.best.map(|best| found.tried[best].nodes), Some(1));
    let none = Scenario::new(&log, &Service::new(20e6, 0.0), 1.0, Within::Random, 1..1);
    assert_eq!(search(&none, &Cluster::new(1), limits).best, None);
}

#[test]
fn a_node_that_cannot_keep_up_is_behind() {
    // Two requests a second, each of which takes a second, for 20 s: one node is 20 s behind, two are not.
    let log = log_of_seconds(&(0..40).map(|number| number / 2).collect::<Vec<_>>());
    let scenario = Scenario::new(&log, &Service::new(1e9, 0.0), 1.0, Within::Even, 1..2);
    let behind_s = |nodes: u32| {
        let figures = scenario.repeat(&Cluster { nodes, ..Cluster::new(1) }, &Policy::Full, None);
        figures.behind_max_ns.mean / 1e9
    };
    assert!((20.0..=21.0).contains(&behind_s(1)), "{}", behind_s(1));
    assert!(behind_s(2) <= 1.0, "{}", behind_s(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The search against trying one node more until the objective is met, for logs that are shorter than their requests take.
    #[test]
    fn the_search_begins_at_a_bound_that_holds(
        seconds in prop::collection::vec(0u32..5, 1..30),
        service_ms in 1u32..3000,
        limit_ms in 1u32..6000,
        share in 0.3f64..1.0,
    ) {
        let log = log_of_seconds(&seconds);
        let scenario = Scenario::new(&log, &Service::new(f64::from(service_ms) * 1e6, 0.0), 1.0, Within::Random, 1..3);
        let limits = Limits { share, limit_ns: u64::from(limit_ms) * 1_000_000, nodes_max: 40 };
        let found = search(&scenario, &Cluster::new(1), limits);
        let fewest = (1..=limits.nodes_max).find(|nodes| {
            let cluster = Cluster { nodes: *nodes, limit_ns: Some(limits.limit_ns), ..Cluster::new(1) };
            let figures = scenario.repeat(&cluster, &Policy::Full, Some(share));
            weir_plan::is_within(figures.missed_share, share)
        });
        prop_assert_eq!(found.best.map(|best| found.tried[best].nodes), fewest);
    }
}
