//! What a plan is made from.

use weir_plan::{Cluster, Log, Policy, Scenario, Service, Within};

/// Takes in any bytes as a log, in each of its formats: what is counted adds up, and all of it is served.
pub fn planned_log(input: &[u8]) {
    let Ok(log) = Log::read([(String::new(), input)]) else { return };
    let asked: u64 = log.objects().iter().map(|object| object.requests).sum();
    assert_eq!(asked, log.requests());
    assert!(log.left_out().first().len() as u64 <= log.left_out().count());
    // A log may be compressed a thousandfold: then its reading is enough.
    if log.requests() > 1000 {
        return;
    }
    let busiest = log.clone().busiest(10);
    assert!(busiest.requests() <= log.requests() && busiest.duration_s() <= 10);
    let scenario = Scenario::new(&busiest, &Service::new(1e6, 10.0), 2.0, Within::Random, 1..2);
    for policy in [Policy::Full, Policy::ByType, Policy::Hash { bound: Some(1.25) }] {
        for outcome in scenario.outcomes(&Cluster::new(3), &policy) {
            assert_eq!(outcome.served, busiest.requests());
        }
    }
}

/// A policy that is read is written as one that is the same.
pub fn plan_policy(input: &[u8]) {
    let Ok(policy) = String::from_utf8_lossy(input).parse::<Policy>() else { return };
    let again: Policy = policy.to_string().parse().expect("what was written can be read");
    assert_eq!(again.to_string(), policy.to_string());
}
