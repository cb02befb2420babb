//! Generated policies under readings that stay: each that is accepted comes to rest.
//!
//! `WEIR_POLICIES` says how many are made, `WEIR_SEED` from which seed. A failure prints its own seed.

use crate::generated::{Rolls, Steady, policy};
use crate::support::World;
use std::collections::{BTreeMap, BTreeSet};
use weir_adapt::{Decision, Order, Outcome, Policy};

/// Policies of an ordinary run; it takes seconds.
const POLICIES: u64 = 2_000;
/// The longest that a rule waits once those before it are at rest: for its `every`, `for`, `cooldown`, `limit` and window.
const WAIT_MS: u64 = 2_000 + 2_000 + 4_000 + 6_000 + 6_000;
/// How long a policy is looked at once it has to be at rest: longer than each rule waits.
const REST_MS: u64 = WAIT_MS + 4_000;

/// What was made of the policies.
#[derive(Debug, Default)]
struct Made {
    accepted: u64,
    acted: u64,
    active: u64,
    superseded: u64,
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// What is wrong with the decisions of a policy under readings that stay.
fn unrest(text: &str, decisions: &[Decision]) -> Option<String> {
    let rules = text.matches("rule r").count() as u64;
    let settled_ms = WAIT_MS * rules;
    let mut fired: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let mut directions: BTreeSet<(String, bool)> = BTreeSet::new();
    for decision in decisions {
        let at = || format!("{} at {} ms: {decision}", decision.rule, decision.at_ms);
        match decision.outcome {
            // What fires on these readings fires on them later, too.
            Outcome::Released => return Some(format!("a release: {}", at())),
            Outcome::Superseded if decision.at_ms > settled_ms => return Some(format!("not at rest: {}", at())),
            Outcome::Fired => {
                let keeps = text.contains(&format!("rule {} keeps", decision.rule));
                if keeps {
                    let often = fired.entry((&decision.rule, decision.subject.to_string())).or_default();
                    *often += 1;
                    // Each rule before it can take its place once.
                    if *often > rules {
                        return Some(format!("fired {often} times: {}", at()));
                    }
                }
                for order in decision.orders.iter().filter(|_| decision.at_ms > settled_ms) {
                    let repeats = match order {
                        Order::Grow { pool, .. } => directions.insert((pool.clone(), true)) || !keeps,
                        Order::Shrink { pool, .. } => directions.insert((pool.clone(), false)) || !keeps,
                        Order::Alert { .. } => true,
                        _ => false,
                    };
                    if keeps || !repeats {
                        return Some(format!("not at rest: {}", at()));
                    }
                }
            }
            _ => {}
        }
    }
    let both = |(pool, grows): &(String, bool)| *grows && directions.contains(&(pool.clone(), false));
    directions.iter().find(|direction| both(direction)).map(|(pool, _)| format!("pool {pool} grows and shrinks"))
}

/// The policy without the word by which the test knows the rules that stay active.
fn plain(text: &str) -> String {
    text.replace(" keeps", "")
}

fn try_one(seed: u64, made: &mut Made) {
    let mut rolls = Rolls::new(seed);
    let text = policy(&mut rolls);
    let policy = plain(&text);
    if Policy::read("test.policy", &policy).is_err() {
        return;
    }
    made.accepted += 1;
    let steady = Steady::new(&mut rolls);
    let rules = text.matches("rule r").count() as u64;
    let mut world = World::new(&policy);
    world.tells_nothing();
    steady.begin(&mut world);
    for at_ms in (0..WAIT_MS * rules + REST_MS).step_by(1000) {
        steady.tell(&mut world, at_ms);
        world.tick(at_ms);
    }
    made.acted += u64::from(world.decisions.iter().any(|one| one.outcome == Outcome::Fired));
    made.active += u64::from(
        world
            .decisions
            .iter()
            .any(|one| one.outcome == Outcome::Fired && text.contains(&format!("rule {} keeps", one.rule))),
    );
    made.superseded += u64::from(world.decisions.iter().any(|one| one.outcome == Outcome::Superseded));
    if let Some(why) = unrest(&text, &world.decisions) {
        panic!("{why}\nWEIR_SEED={seed} WEIR_POLICIES=1\n{policy}\n{steady:#?}");
    }
}

#[test]
fn generated_policies_that_are_accepted_come_to_rest_under_readings_that_stay() {
    let first = number("WEIR_SEED", 20_261_126);
    let policies = number("WEIR_POLICIES", POLICIES);
    let mut made = Made::default();
    let began = std::time::Instant::now();
    (0..policies).for_each(|one| try_one(first + one, &mut made));
    println!("{policies} policies from seed {first}: {made:?} in {:.1} s", began.elapsed().as_secs_f64());
    if policies >= POLICIES {
        // It is no rest of policies that are all refused, or that do nothing.
        assert!(made.accepted * 100 >= policies * 30, "{made:?}");
        assert!(made.active * 100 >= made.accepted * 30 && made.superseded * 100 >= made.accepted, "{made:?}");
    }
}

/// The policies of pages, studies and tests, but for those that show what is refused.
fn sensible() -> Vec<(String, String)> {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for folder in ["docs/tutorials", "docs/how-to", "docs/reference", "studies/patia", "crates/adapt/tests", "."] {
        for entry in std::fs::read_dir(top.join(folder)).expect("a folder of the repository").flatten() {
            let path = entry.path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let name = path.display().to_string();
            match path.extension().and_then(|end| end.to_str()) {
                Some("policy") => all.push((name, text)),
                Some("md") => all.extend(text.split("\ncat > ").skip(1).filter_map(|block| {
                    let (file, rest) = block.split_once(" <<'END'\n")?;
                    let (policy, _) = rest.split_once("\nEND")?;
                    (file.ends_with(".policy") && !["wrong.policy", "fro.policy"].contains(&file))
                        .then(|| (format!("{name}: {file}"), policy.to_owned()))
                })),
                _ => {}
            }
        }
    }
    all
}

#[test]
fn the_policies_of_pages_and_studies_are_accepted() {
    let all = sensible();
    assert!(all.len() > 5, "only {} policies are found", all.len());
    for (name, text) in all {
        let checked = weir_adapt::check_policy(&text);
        assert!(checked.mistakes.is_empty(), "{name}\n{text}\n{:#?}", checked.mistakes);
    }
}
