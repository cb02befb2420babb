//! Methods of forecasts beside each other: which one is wrong by least is what shows, and other rules go on with it.

use crate::support;

use support::{VALID_MS, World};
use weir_adapt::forecast::Method;
use weir_adapt::log::{Entry, Header, Recorded, parse_entry};
use weir_adapt::{AtomId, CONTESTS_MAX, Contests, Engine, Policy, Replay, Resource};

const MINUTE_MS: u64 = 60_000;
/// Ninety-six steps, as a season has.
const PERIOD_MS: u64 = 96 * MINUTE_MS;

fn engine(text: &str, method: Method) -> Engine {
    let (policy, _) = Policy::read("test.policy", text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes:#?}"));
    Engine::new(policy, "n1", method)
}

fn policy(scope: &str, ahead: &str) -> String {
    format!(
        "pool main = {{ n1, n2 }};\natom \"/**\" {{ rule flood: during if rate@{scope} predicted in {ahead} > 900000rps then \
         shed 5% until rate@{scope} < 20rps; }}"
    )
}

/// The mean errors of least squares, the robust line and the season over so many minutes of a series, a look a minute.
fn errors(scope: &str, ahead: &str, minutes: u64, value: impl Fn(u64) -> f64) -> [f64; 3] {
    let text = policy(scope, ahead);
    let mut world = World::new(&text);
    world.engine = engine(&text, Method::Seasonal { period_ms: PERIOD_MS });
    world.up(0, "n2", false);
    let mut contests = Contests::default();
    for minute in 0..minutes {
        let at_ms = minute * MINUTE_MS;
        world.node(at_ms, "n1", Resource::Rate, value(minute));
        world.tick(at_ms);
        for of in world.engine.contested(&[]).0 {
            world.engine.contest(at_ms, &world.state, of, &mut contests);
        }
    }
    let said = contests.of(&format!("rate@{scope} predicted in {ahead}"), None).expect("it is contested");
    assert_eq!(said.map(|one| one.method.name()), ["least-squares", "robust", "seasonal"]);
    said.map(|one| {
        assert!(one.errors.count > 100, "{}: {} judged", one.method.name(), one.errors.count);
        one.errors.mean().expect("some were judged")
    })
}

/// As noise: twelve evenly distributed values have nearly a normal sum. The same each time.
fn noise(minute: u64) -> f64 {
    let share = |number: u64| {
        let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 40) as f64 / f64::from(1 << 24)
    };
    (0..12).map(|number| share(minute * 12 + number)).sum::<f64>() - 6.0
}

#[test]
fn on_a_noisy_ramp_the_line_of_least_squares_is_wrong_by_least() {
    for scope in ["here", "all", "main"] {
        let [squares, robust, season] =
            errors(scope, "20min", 6 * 96, |minute| 1000.0 + 4.0 * minute as f64 + 40.0 * noise(minute));
        assert!(squares < robust && robust < season, "@{scope}: {squares} {robust} {season}");
        // Three of 40 and what a line of forty minutes is wrong by itself.
        assert!(squares < 60.0, "@{scope}: {squares}");
    }
}

#[test]
fn on_a_daily_wave_the_season_is_wrong_by_least() {
    let wave = |minute: u64| 5000.0 + 3000.0 * (minute as f64 / 96.0 * std::f64::consts::TAU).sin();
    let [squares, robust, season] = errors("here", "20min", 8 * 96, wave);
    assert!(season < squares / 4.0 && season < robust / 4.0, "{squares} {robust} {season}");
}

#[test]
fn on_a_ramp_with_outliers_the_robust_line_is_wrong_by_least() {
    let ramp = |minute: u64| if minute % 9 == 4 { 90_000.0 } else { 1000.0 + 4.0 * minute as f64 };
    let [squares, robust, season] = errors("here", "20min", 6 * 96, ramp);
    assert!(robust < squares && robust < season, "{squares} {robust} {season}");
}

#[test]
fn what_is_compared_has_a_bound_and_the_rest_is_counted() {
    let mut text = policy("atom", "20s");
    for number in 0..100 {
        text = text.replace(
            "rule flood",
            &format!(
                "rule r{number}: during if rate@here predicted in {}s > 9rps then alert \"x\";\n rule flood",
                number + 2
            ),
        );
    }
    let engine = engine(&text, Method::default());
    let mut state = engine.state("n1");
    let atoms: Vec<AtomId> = (0..4).filter_map(|n| engine.atom(&mut state, &format!("/{n}"))).collect();
    let (all, over) = engine.contested(&atoms);
    assert_eq!((all.len(), over), (CONTESTS_MAX, 104 - CONTESTS_MAX));
    let mut contests = Contests::default();
    // Atoms that are asked for much come and go.
    for n in 0..200 {
        let atom = engine.atom(&mut state, &format!("/x/{n}")).expect("few atoms");
        engine.contested(&[atom]).0.into_iter().for_each(|of| engine.contest(n, &state, of, &mut contests));
    }
    assert_eq!(contests.len(), CONTESTS_MAX);
}

#[test]
fn errors_of_all_nodes_and_of_pools_are_cited_with_what_was_decided_on() {
    for scope in ["all", "main"] {
        let mut world = World::new(&policy(scope, "10s").replace("900000rps", "200rps"));
        for second in 0..60u64 {
            for node in ["n1", "n2"] {
                world.node(second * 1000, node, Resource::Rate, 2.0 * second as f64);
            }
            world.tick(second * 1000);
        }
        let fired = world.decisions.iter().find(|decision| decision.outcome.is_fired()).expect("it grows");
        let error = fired.readings[0].error;
        // A line foretells a line.
        assert!(error.is_some_and(|error| error < 1e-6), "@{scope}: {error:?}");
    }
}

#[test]
fn other_rules_go_on_with_readings_seasons_and_errors_and_a_replay_does_too() {
    let method = Method::Seasonal { period_ms: PERIOD_MS };
    let text = policy("here", "20min");
    let mut world = World::new(&text);
    world.engine = engine(&text, method);
    let wave = |minute: u64| 5000.0 + 3000.0 * (minute as f64 / 96.0 * std::f64::consts::TAU).sin();
    for minute in 0..4 * 96 {
        world.node(minute * MINUTE_MS, "n1", Resource::Rate, wave(minute));
        world.node(minute * MINUTE_MS, "n1", Resource::Cpu, 5.0);
        world.tick(minute * MINUTE_MS);
    }
    let now_ms = 4 * 96 * MINUTE_MS;
    // The same metric in other rules; the season says at once that the flood comes.
    let other = text.replace("900000rps", "6000rps").replace("shed 5%", "shed 9%");
    let next = engine(&other, method);
    let told = |handed: &[Entry]| {
        let mut state = next.state("n1");
        if let Some(n2) = next.node(&mut state, "n2") {
            next.node_is_up(&mut state, n2, false);
        }
        next.take_handed(now_ms, handed, &mut state);
        next.take_errors(&world.engine, &world.state, &mut state);
        state
    };
    let handed = next.handed(&world.state, &[], 4096);
    let mut state = told(&handed);
    let before = world.engine.forecast_errors(&world.state)[0].errors;
    assert!(before.count > 100);
    assert_eq!(next.forecast_errors(&state)[0].errors, before);
    let mut decisions = Vec::new();
    let reading = |at_ms| {
        let what = Recorded::Reading {
            resource: Resource::Rate,
            of: weir_adapt::log::Owner::Node("n1".to_owned()),
            value: 5000.0,
            valid_ms: Some(VALID_MS),
        };
        Entry { at_ms, what }
    };
    next.take_handed(now_ms, &[reading(now_ms)], &mut state);
    next.tick(now_ms, &[], &mut state, &mut decisions);
    assert!(decisions.iter().any(|decision| decision.outcome.is_fired()), "{decisions:?}");
    // Lines of a recording say the same.
    let lines: Vec<String> = handed.iter().map(Entry::to_line).collect();
    assert!(lines.iter().all(|line| line.len() < weir_adapt::log::LINE_BYTES_MAX));
    assert!(lines.iter().all(|line| !line.contains("cpu")), "no rule asks for it");
    let mut replay = Replay::new(engine(&other, method), "n1", Header::new("n1", VALID_MS));
    let mut again = Vec::new();
    let read = lines.iter().map(|line| parse_entry(line).expect("it was written so"));
    let tick = Entry { at_ms: now_ms, what: Recorded::Tick };
    let down = Entry { at_ms: 0, what: Recorded::Node { name: "n2".to_owned(), up: false } };
    for entry in [down].into_iter().chain(read).chain([reading(now_ms), tick]) {
        replay.entry(&entry, &mut again).expect("in the order of time");
    }
    let said = |all: &[weir_adapt::Decision]| all.iter().map(|one| (one.at_ms, support::say(one))).collect::<Vec<_>>();
    assert_eq!(said(&again), said(&decisions));
    // With no room nothing is handed over, rather than half of it.
    assert!(next.handed(&world.state, &[], handed.len() - 1).is_empty());
    // An invalid season is refused.
    let season = lines.last().expect("the season is the last one");
    assert!(season.contains("season") && parse_entry(&season.replace("\"step_ms\":60000", "\"step_ms\":0")).is_err());
}
