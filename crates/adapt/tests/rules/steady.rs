//! Readings that stay the same: an accepted policy comes to rest, as no rule of it undoes what another did.

use crate::support;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;
use std::collections::BTreeMap;
use support::World;
use weir_adapt::{Decision, Order, Policy, Resource};

const VARIANTS: usize = 3;
const RULES_MAX: usize = 4;
const NODES: [&str; 5] = ["n1", "n2", "n3", "r1", "r2"];
/// A rule waits for its `every`, `for`, `cooldown` and window, once the rules before it keep their decisions. So this
/// is the sum of the longest of each below, for each rule.
const SETTLED_MS: u64 = (3_000 + 2_000 + 4_000 + 4_000) * RULES_MAX as u64;
const RUN_MS: u64 = 5 * SETTLED_MS;

/// Conditions, each with one that can release it.
const CONDITIONS: [(&str, &str); 13] = [
    ("bandwidth@client < 80kbps", "bandwidth@client > 120kbps"),
    ("bandwidth < 200kbps", "bandwidth@client > 250kbps"),
    ("bandwidth@client > 200kbps", "bandwidth < 150kbps"),
    ("rtt@client > 80ms or bandwidth < 80kbps", "rtt@client < 50ms and bandwidth > 90kbps"),
    ("cpu@here > 70%", "cpu < 50%"),
    ("cpu > 30%", "cpu@here < 20%"),
    ("cpu@here < 40%", "cpu@here > 60%"),
    ("queue@here > 5jobs", "queue@here < 2jobs"),
    ("cpu@here > 70% and queue@here > 5jobs", "cpu@here < 50% or queue@here < 2jobs"),
    ("avg cpu@all over 4s > 60%", "cpu@all < 40%"),
    ("max cpu@all > 60%", "max cpu@all < 50%"),
    ("max cpu@main < 60%", "max cpu@main > 70%"),
    ("rate@atom > 50rps", "rate@atom < 20rps"),
];

const OF_SESSIONS: [&str; 13] = [
    "use full",
    "use half",
    "use small",
    "next down",
    "next up",
    "switch n2",
    "switch n3",
    "switch n2.half",
    "switch any of main",
    "best by cpu (n1, n2)",
    "best by queue (n2.small, n3)",
    "use small, switch n3",
    "use half, switch n2",
];

const OF_ATOMS: [&str; 10] = [
    "replicate to 1 on main",
    "replicate to 3 on main",
    "replicate to 2 on spare",
    "spread over main",
    "spread over spare",
    "replicate to 3 on main, spread over spare",
    "grow main by 1",
    "shrink main by 1",
    "grow spare by 1, shed 5%",
    "shrink spare by 1",
];

/// A rule but for its name. `UNTIL` and `OTHER` become its own release and one of another condition.
fn rules() -> impl Strategy<Value = String> {
    let clauses = [
        "",
        "hold 3s",
        "until UNTIL",
        "until UNTIL hold 2s cooldown 4s",
        "for 2s until UNTIL limit 2 per 9s",
        "until OTHER",
        "limit 2 per 9s",
        "cooldown 4s",
        "for 2s",
        "for 2s hold 3s",
    ];
    let acts = prop_oneof![2 => prop::sample::select(&OF_SESSIONS[..]), 1 => prop::sample::select(&OF_ATOMS[..])];
    (
        0..4u32,
        prop::sample::select(vec!["during", "during", "every 2s", "every 3s"]),
        prop::sample::select(&CONDITIONS[..]),
        acts,
        prop::sample::select(clauses.to_vec()),
        prop::sample::select(&CONDITIONS[..]),
    )
        .prop_map(|(priority, when, (condition, until), acts, clause, (_, other))| {
            let clause = clause.replace("UNTIL", until).replace("OTHER", other);
            format!("priority {priority}: {when} if {condition} then {acts} {clause};")
        })
}

fn policies() -> impl Strategy<Value = String> {
    prop::collection::vec(rules(), 2..=RULES_MAX).prop_map(|rules| {
        let named = rules.iter().enumerate().map(|(number, rule)| format!("rule r{number} {rule}\n"));
        let named = named.collect::<String>();
        format!(
            "pool main = {{ n1, n2, n3 }};\npool spare = {{ r1, r2 }};\n\
             atom \"/v/*\" {{ variants full > half > small;\n{named}}}"
        )
    })
}

/// Readings: bandwidth, round trips, CPU of each node, queue of each node, requests.
type Steady = (f64, f64, [f64; 5], [f64; 5], f64);

fn readings() -> impl Strategy<Value = Steady> {
    let cpu = || prop::sample::select(vec![10.0, 25.0, 35.0, 55.0, 80.0, 95.0]);
    let queue = || prop::sample::select(vec![0.0, 3.0, 9.0]);
    (
        prop::sample::select(vec![40e3, 100e3, 170e3, 220e3, 300e3]),
        prop::sample::select(vec![0.01, 0.06, 0.2]),
        [cpu(), cpu(), cpu(), cpu(), cpu()],
        [queue(), queue(), queue(), queue(), queue()],
        prop::sample::select(vec![10.0, 30.0, 80.0]),
    )
}

fn run(policy: &str, (bandwidth_bps, rtt_s, cpu, queue, rate_per_s): Steady) -> Vec<Decision> {
    let mut world = World::new(policy);
    world.begin(0, 1, "/v/a");
    for at_ms in (0..RUN_MS).step_by(1000) {
        world.client(at_ms, 1, Resource::Bandwidth, bandwidth_bps);
        world.client(at_ms, 1, Resource::Rtt, rtt_s);
        world.atom(at_ms, "/v/a", Resource::Rate, rate_per_s);
        for (node, (cpu, queue)) in NODES.into_iter().zip(cpu.into_iter().zip(queue)) {
            world.node(at_ms, node, Resource::Cpu, cpu);
            world.node(at_ms, node, Resource::Queue, queue);
        }
        world.tick(at_ms);
    }
    world.decisions
}

/// When something became other than it was ordered before: where the session is served and in which variant, how many
/// copies there are and where, who serves besides, and whether a pool grows or shrinks. What one rule gives back and
/// orders again by its own `hold` is the same all the time.
fn switches(decisions: &[Decision]) -> Vec<u64> {
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut switches = Vec::new();
    for decision in decisions.iter().filter(|decision| decision.outcome.is_fired()) {
        for order in &decision.orders {
            let of = match order {
                Order::Place { .. } | Order::Use { .. } => {
                    switches.push(decision.at_ms);
                    continue;
                }
                Order::Replicate { .. } => "copies".to_owned(),
                Order::Spread { .. } => "spread".to_owned(),
                Order::Grow { pool, .. } | Order::Shrink { pool, .. } => pool.clone(),
                Order::Workers { pool, .. } => format!("workers of {pool}"),
                Order::Shed { .. } | Order::Stale { .. } | Order::Alert { .. } => continue,
            };
            // Orders of a pool differ by their direction, as all are by one.
            let before = last.insert(of, order.to_string());
            if before.is_none_or(|before| before != order.to_string()) {
                switches.push(decision.at_ms);
            }
        }
    }
    switches
}

/// A rule that keeps others out of what it decides does so for good, and what the others do is either the same, or leads
/// step by step to an end: so each rule has at most as many switches as a session has variants, one of them for its
/// place, and after some time there is none.
#[test]
fn under_readings_that_stay_an_accepted_policy_switches_a_bounded_number_of_times() {
    let config = ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() };
    let accepted = policies().prop_filter("refused", |policy| Policy::read("test.policy", policy).is_ok());
    let (switched, often) = (Cell::new(0), Cell::new(0));
    let ran = TestRunner::new(config).run(&(accepted, readings()), |(policy, steady)| {
        let decisions = run(&policy, steady);
        let switches = switches(&decisions);
        let rules = policy.matches("rule r").count();
        prop_assert!(switches.len() <= rules * VARIANTS, "{} switches of\n{policy}\n{decisions:#?}", switches.len());
        let late = switches.iter().find(|at_ms| **at_ms > SETTLED_MS);
        prop_assert!(late.is_none(), "still at {late:?} of\n{policy}\n{switches:?}");
        switched.set(switched.get() + u32::from(!switches.is_empty()));
        often.set(often.get() + u32::from(switches.len() > 1));
        Ok(())
    });
    ran.unwrap_or_else(|failed| panic!("{failed}"));
    // The bound is of something that happens.
    assert!(
        switched.get() > 300 && often.get() > 60,
        "{} policies switched, {} more than once",
        switched.get(),
        often.get()
    );
}
