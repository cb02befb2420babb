//! Properties that hold for any input in any order.

use crate::support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use support::{VALID_MS, World};
use weir_adapt::forecast::Method;
use weir_adapt::log::{Entry, Header, Owner, Recorded, parse_entry};
use weir_adapt::{Decision, Engine, Outcome, Policy, Replay, Resource, State, Subject, check_policy, format_policy};

const EXAMPLE: &str = include_str!("../example.policy");

const BOUNDED: &str = "pool main = { n1, n2, n3 };\n\
    atom \"/**\" { variants full > half > small;\n\
    rule held priority 3: during if cpu > 70% then alert \"busy\" for 3s hold 7s;\n\
    rule until priority 2: during if cpu > 60% then switch any of main until cpu < 40% cooldown 9s;\n\
    rule limited: during if cpu > 50% then next down limit 2 per 20s;\n\
    rule up: during if cpu < 30% then next up limit 2 per 20s;\n\
    rule all priority 1: every 2s if avg cpu@all over 4s > 50% then alert \"hot\" limit 3 per 30s cooldown 4s; }";

const OF_CLIENTS: &str = "atom \"/v/*\" { variants full > half > small;\n\
    rule greedy priority 2: during if rate@client > 50rps then shed 90% until rate@client < 20rps;\n\
    rule much: during if avg rate@client over 4s > 30rps then shed 50%, alert \"much\" for 1s hold 3s cooldown 5s;\n\
    rule fit: at start if rate@client > 40rps then use small;\n\
    rule down: during if rate@client > 70rps and rtt@client > 10ms then next down limit 2 per 20s; }\n\
    atom \"/**\" { rule many: every 2s if rate@client > 60rps or cpu > 90% then shed 20% hold 4s; }";

/// Rules that end by a reading, in each way in which it can be asked for.
const RELEASED: &str = "atom \"/**\" {\n\
    rule latest: during if cpu > 60% then alert \"a\" until cpu < 40%;\n\
    rule held: during if cpu > 60% then alert \"b\" until cpu < 40% hold 4s;\n\
    rule not: every 2s if cpu > 60% then alert \"c\" until not cpu >= 40%;\n\
    rule both: during if cpu > 60% then alert \"d\" until cpu < 40% and queue < 5jobs;\n\
    rule either: during if cpu > 60% and queue > 7jobs then alert \"e\" until cpu < 40% or queue < 5jobs;\n\
    rule window: during if cpu > 60% then alert \"f\" until avg cpu over 6s < 40%;\n\
    rule forecast: during if cpu > 60% then alert \"g\" until cpu over 8s predicted in 2s < 40%; }";

/// Rules of which some are looked at when a session's link is read, and one at its own times.
const OF_LINKS: &str = "atom \"/v/*\" { variants full > half > small;\n\
    rule hot priority 3: during if cpu > 80% then use half until cpu < 40% hold 2s;\n\
    rule drop: during if avg bandwidth@client over 500ms < 400kbps then next down limit 2 per 5s;\n\
    rule back: during if bandwidth@client > 800kbps and rtt@client < 100ms then next up for 300ms cooldown 1s;\n\
    rule far: every 2s if rtt@client > 200ms then next down hold 3s; }";

/// A step of sessions with links: milliseconds since the last, whose link is read, what of it, and whether a tick follows.
type Read = (u64, u64, f64, f64, bool);

fn readings_of_links() -> impl Strategy<Value = Vec<Read>> {
    prop::collection::vec((1u64..400, 1u64..4, 1e4..2e6f64, 0.001..0.4f64, prop::bool::weighted(0.2)), 1..300)
}

fn read_links(world: &mut World, steps: &[Read]) {
    let mut now = 0;
    (1..4).for_each(|session| world.begin(now, session, "/v/film"));
    (1..4).for_each(|session| world.start(now, session));
    for (step, session, bandwidth_bps, rtt_s, ticks) in steps {
        now += step;
        world.client(now, *session, Resource::Bandwidth, *bandwidth_bps);
        world.client(now, *session, Resource::Rtt, *rtt_s);
        world.look(now, *session);
        if *ticks {
            world.node(now, "n1", Resource::Cpu, rtt_s * 250.0);
            world.tick(now);
        }
    }
}

/// At most so many of the times within each window of a length.
fn at_most(times: &[u64], most: usize, per_ms: u64) -> bool {
    times.windows(most + 1).all(|window| window[most] - window[0] >= per_ms)
}

/// Gaps between the times are at least so long.
fn apart(times: &[u64], least_ms: u64) -> bool {
    times.windows(2).all(|pair| pair[1] - pair[0] >= least_ms)
}

fn of_rule(decisions: &[Decision], rule: &str, what: impl Fn(&Outcome) -> bool) -> Vec<u64> {
    decisions.iter().filter(|one| one.rule == rule && what(&one.outcome)).map(|one| one.at_ms).collect()
}

/// What the policy `BOUNDED` promises of its decisions.
fn keeps_its_bounds(world: &World) {
    let decisions = &world.decisions;
    assert!(apart(&world.fired("held"), 7_000 + 3_000), "{:?}", world.fired("held"));
    let ends = of_rule(decisions, "held", |outcome| *outcome == Outcome::Released);
    for fired in world.fired("held") {
        let end = ends.iter().find(|end| **end >= fired);
        assert!(end.is_none_or(|end| end - fired >= 7_000), "held from {fired} to {end:?}");
    }
    assert!(apart(&world.fired("until"), 9_000));
    let ends = of_rule(decisions, "until", |outcome| matches!(outcome, Outcome::Released | Outcome::Superseded));
    for end in ends {
        assert!(world.fired("until").iter().all(|fired| *fired <= end || fired - end >= 9_000), "{end}");
    }
    assert!(at_most(&world.fired("limited"), 2, 20_000), "{:?}", world.fired("limited"));
    assert!(at_most(&world.fired("up"), 2, 20_000));
    assert!(at_most(&world.fired("all"), 3, 30_000) && apart(&world.fired("all"), 4_000));
}

/// Tells the world of CPUs; each step is (milliseconds since the last, value, whether it is told at all).
fn drive(world: &mut World, steps: &[(u64, f64, bool)]) {
    world.begin(0, 1, "/a");
    let mut now = 0;
    for (step, value, told) in steps {
        now += step;
        if *told {
            for node in ["n1", "n2", "n3"] {
                world.node(now, node, Resource::Cpu, *value);
            }
        }
        world.tick(now);
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, f64, bool)>> {
    prop::collection::vec((1u64..4_000, 0.0..100.0f64, prop::bool::weighted(0.8)), 1..300)
}

/// Milliseconds since the last step, and CPU and queue where they are told. Both stay up or down for some steps, and what
/// was told last is too old now and then.
type Apart = (u64, Option<f64>, Option<f64>);

fn told_apart() -> impl Strategy<Value = Vec<Apart>> {
    let value = |most: f64| prop_oneof![0.0..0.3 * most, 0.7 * most..most];
    let step = (200u64..1_500, prop::bool::weighted(0.6), prop::bool::weighted(0.6));
    let stretch = (value(100.0), value(10.0), prop::collection::vec(step, 1..20));
    prop::collection::vec(stretch, 2..20).prop_map(|stretches| {
        let told = stretches.into_iter().flat_map(|(cpu, queue, steps)| {
            steps.into_iter().map(move |(ms, of_cpu, of_queue)| (ms, of_cpu.then_some(cpu), of_queue.then_some(queue)))
        });
        told.collect()
    })
}

/// Each release by `until`, with the CPU and the queue that were known then.
fn releases(world: &mut World, steps: &[Apart]) -> Vec<(Decision, Option<f64>, Option<f64>)> {
    let (mut now_ms, mut last) = (0, [None; 2]);
    let mut all = Vec::new();
    for (step_ms, cpu, queue) in steps {
        now_ms += step_ms;
        for (at, (resource, value)) in [(Resource::Cpu, cpu), (Resource::Queue, queue)].into_iter().enumerate() {
            if let Some(value) = value {
                world.node(now_ms, "n1", resource, *value);
                last[at] = Some((now_ms, *value));
            }
        }
        let before = world.decisions.len();
        world.tick(now_ms);
        let known = |at: usize| last[at].filter(|(at_ms, _)| now_ms - at_ms <= VALID_MS).map(|(_, value)| value);
        let released = world.decisions[before..].iter().filter(|one| one.outcome == Outcome::Released);
        all.extend(released.map(|one| (one.clone(), known(0), known(1))));
    }
    all
}

/// Each way to ask for a reading does end a rule once the reading is there again, and not before.
#[test]
fn a_rule_waits_for_a_reading_that_releases_it() {
    let mut world = World::new(RELEASED);
    let busy = (0..10).map(|_| (1_000, Some(90.0), Some(9.0)));
    let silent = (0..20).map(|_| (1_000, None, None));
    let calm = (0..20).map(|_| (1_000, Some(5.0), Some(1.0)));
    let steps: Vec<Apart> = busy.chain(silent).chain(calm).collect();
    let released = releases(&mut world, &steps);
    let mut rules: Vec<&str> = released.iter().map(|(decision, ..)| &*decision.rule).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["both", "either", "forecast", "held", "latest", "not", "window"]);
    assert!(released.iter().all(|(decision, ..)| decision.at_ms > 30_000), "{released:#?}");
}

/// A step with clients: milliseconds since the last step, the rate of each of three clients (`None` = no reading), a
/// client to forget, and a client that begins a session.
type Asking = (u64, [Option<f64>; 3], Option<usize>, Option<usize>);

const CLIENTS: [&str; 3] = ["192.0.2.7", "192.0.2.8", "2001:db8::/64"];

fn askings() -> impl Strategy<Value = Vec<Asking>> {
    let rate = || prop::option::weighted(0.8, 0.0..100.0f64);
    let which = || prop::option::weighted(0.2, 0usize..3);
    prop::collection::vec((1u64..2_000, [rate(), rate(), rate()], which(), which()), 1..200)
}

fn ask(world: &mut World, steps: &[Asking]) {
    let (mut now, mut begun) = (0, Vec::new());
    for (number, (step, rates, gone, begins)) in (1..).zip(steps) {
        now += step;
        for (client, rate) in CLIENTS.iter().zip(rates) {
            rate.iter().for_each(|rate| world.asks(now, client, *rate));
        }
        if let Some(client) = gone {
            world.gone(now, CLIENTS[*client]);
        }
        if let Some(client) = begins {
            // Some go on over further ticks.
            if begun.len() > 3 {
                world.end(now, begun.remove(0));
            }
            world.begin_of(now, number, "/v/film", CLIENTS[*client]);
            world.client(now, number, Resource::Rtt, 0.02);
            world.start(now, number);
            begun.push(number);
        }
        world.tick(now);
    }
}

/// Words of the language, in no order.
fn words() -> impl Strategy<Value = String> {
    let words: Vec<&str> = "pool atom rule { } ( ) [ ] ; : , = > < >= <= @ . \"/v/*\" \"/**\" variants select best by any \
        of switch next down up use replicate to 4 on spread over grow shrink shed 10% stale alert at start during every 5s if then \
        elif else and or not in predicted fit 0.8 for until hold cooldown limit per priority cpu mem queue wait \
        bandwidth rtt rate errors active here client all avg max p99 90% 30kbps 2jobs 500rps a b c # \n"
        .split(' ')
        .filter(|word| !word.is_empty())
        .collect();
    prop::collection::vec(prop::sample::select(words), 0..80).prop_map(|words| words.join(" "))
}

/// Pieces of rules that are well-formed, with spaces, lines and comments between them.
fn policies() -> impl Strategy<Value = String> {
    let condition = prop::sample::select(vec![
        "cpu > 90%",
        "not (cpu@all<30% or max queue@main over 4s >= 2jobs)",
        "rate@atom predicted in 30s fit >= 0.8 > 500rps",
        "errors in [1%,5%)",
        "avg rate@client over 5s>=50rps and not rate@client<1krps",
        "wait@atom > 20ms",
        "mem > 1.5GB and p99 wait@here over 60s > 250ms",
    ]);
    let act = prop::sample::select(vec![
        "shed 5%",
        "stale 1.5s",
        "alert \"a \\\" b\"",
        "replicate to 2 on main",
        "spread over main",
    ]);
    let space = prop::sample::select(vec![" ", "\n", "  # why\n", "\n\n\n", "\n# own\n  "]);
    let stab = prop::sample::select(vec!["", "for 5s", "hold 1.5s cooldown 2min", "until cpu < 5%", "limit 3 per 60s"]);
    let rule = (condition, act, stab, prop::collection::vec(space, 12));
    prop::collection::vec(rule, 1..5).prop_map(|rules| {
        let mut text = String::from("pool main={n1 ,n2};");
        for (number, (condition, act, stab, space)) in rules.into_iter().enumerate() {
            let s = |at: usize| space[at];
            text += &format!(
                "{}atom{}\"/v/{number}*\"{}{{{}rule{}r{number}{}:{}every 5s if{}{condition}{}then{}{act}{}{stab};{}}}",
                s(0),
                s(1),
                s(2),
                s(3),
                s(4),
                s(5),
                s(6),
                s(7),
                s(8),
                s(9),
                s(10),
                s(11)
            );
        }
        text
    })
}

/// Told again from its lines, with the state written down and read again after some of them.
fn replayed(policy: &str, world: &World, written_after: usize) -> Vec<Decision> {
    let (policy, _) = Policy::read("test.policy", policy).expect("well-formed");
    let engine = Engine::new(policy, "n1", Method::default());
    let header = Header::new("n1", VALID_MS);
    let mut decisions = Vec::new();
    let mut replay = Replay::new(engine, "n1", header);
    for (number, entry) in world.told.iter().enumerate() {
        let line = entry.to_line();
        let again = parse_entry(&line).expect("what was written is read");
        assert_eq!(again, *entry);
        replay.entry(&again, &mut decisions).expect("in order");
        if number == written_after {
            let text = serde_json::to_string(replay.state()).expect("a state has a form");
            let read: State = serde_json::from_str(&text).expect("what was written is read");
            assert_eq!(&read, replay.state());
            replay.resume(read).expect("a state of the same policy");
        }
    }
    decisions
}

/// Sessions alike between two ticks: the CPU at the tick before them, how many, and what is known of their links.
type Alike = (f64, u32, Option<f64>, Option<f64>);

/// Rules for sessions as they begin, some of which remember what they did, or see more than the link.
fn beginnings() -> impl Strategy<Value = String> {
    let rule = prop::sample::select(vec![
        "at start if bandwidth@client < 100kbps then use small else use full;",
        "at start if bandwidth@client < 100kbps then use small limit 7 per 5s;",
        "at start if rtt@client > 100ms or cpu@here > 50% then use half cooldown 3s;",
        "at start if not bandwidth@client in [50kbps,1Mbps) and rtt@client < 1s then use half;",
        "at start if rate@atom < 5rps then use small;",
        "during if bandwidth@client < 100kbps then next down limit 3 per 60s;",
    ]);
    let policies = prop::collection::vec(rule, 1..4).prop_map(|rules| {
        let named = rules.iter().enumerate().map(|(number, rule)| format!("rule r{number}: {rule}\n"));
        format!("atom \"/v/*\" {{ variants full > half > small;\n{}}}", named.collect::<String>())
    });
    // Some undo each other.
    policies.prop_filter("refused", |policy| Policy::read("test.policy", policy).is_ok())
}

/// The decisions for those sessions, each told with all that there is of it, and told as a number of them.
fn told_both_ways(policy: &str, steps: &[Alike]) -> [Vec<Decision>; 2] {
    let mut world = World::new(policy);
    let (mut short, mut number) = (Vec::new(), 0);
    for (second, (cpu, sessions, bandwidth_bps, rtt_s)) in steps.iter().copied().enumerate() {
        let at_ms = second as u64 * 1000;
        let before = world.told.len();
        world.node(at_ms, "n1", Resource::Cpu, cpu);
        world.tick(at_ms);
        short.extend_from_slice(&world.told[before..]);
        for _ in 0..sessions {
            number += 1;
            world.begin(at_ms, number, "/v/a");
            bandwidth_bps.into_iter().for_each(|value| world.client(at_ms, number, Resource::Bandwidth, value));
            rtt_s.into_iter().for_each(|value| world.client(at_ms, number, Resource::Rtt, value));
            world.start(at_ms, number);
            world.end(at_ms, number);
        }
        // It is written when the next tick is near.
        let what = Recorded::Passed { sessions, atom: "/v/a".to_owned(), bandwidth_bps, rtt_s };
        short.push(Entry { at_ms: at_ms + 999, what });
    }
    let (policy, _) = Policy::read("test.policy", policy).expect("well-formed");
    let mut replay = Replay::new(Engine::new(policy, "n1", Method::default()), "n1", Header::new("n1", VALID_MS));
    let mut decisions = Vec::new();
    for entry in &short {
        let again = parse_entry(&entry.to_line()).expect("what was written is read");
        assert_eq!(again, *entry);
        replay.entry(&again, &mut decisions).expect("in order");
    }
    // The numbers of the sessions are not recorded.
    let mut both = [world.decisions, decisions];
    for decision in both.iter_mut().flatten() {
        if let Subject::Session { number, .. } = &mut decision.subject {
            *number = 0;
        }
    }
    both
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn limits_cooldowns_and_holds_hold_for_any_input(steps in steps()) {
        let mut world = World::new(BOUNDED);
        drive(&mut world, &steps);
        keeps_its_bounds(&world);
    }

    #[test]
    fn nothing_is_decided_on_readings_that_are_missing_or_stale(steps in steps()) {
        let mut world = World::new(BOUNDED);
        drive(&mut world, &steps);
        for decision in world.decisions.iter().filter(|decision| decision.outcome.is_fired()) {
            prop_assert!(decision.readings.iter().any(|cited| cited.held), "{decision:?}");
            for cited in &decision.readings {
                prop_assert!(cited.value.is_some() && cited.age_ms <= VALID_MS, "{decision:?}");
            }
        }
    }

    /// What a release is decided on is known as well: so it is by what was told, not by what the decision cites alone.
    #[test]
    fn nothing_is_released_on_readings_that_are_missing_or_stale(steps in told_apart()) {
        let mut world = World::new(RELEASED);
        let decisions = releases(&mut world, &steps);
        for (decision, cpu, queue) in decisions {
            let (low, few) = (cpu.map(|cpu| cpu < 40.0), queue.map(|queue| queue < 5.0));
            let is_known = match &*decision.rule {
                "latest" | "held" | "not" => low == Some(true),
                "both" => low == Some(true) && few == Some(true),
                "either" => low == Some(true) || few == Some(true),
                // What the average and the forecast are is told by what they cite; of what is stale there is none.
                "window" | "forecast" => low.is_some(),
                other => unreachable!("{other} has no until"),
            };
            prop_assert!(is_known, "on {cpu:?} and {queue:?}: {decision:?}");
            let is_one_of_two = decision.rule == "either";
            prop_assert!(decision.readings.iter().all(|cited| cited.value.is_some() || is_one_of_two), "{decision:?}");
            prop_assert!(decision.readings.iter().all(|cited| cited.age_ms <= VALID_MS), "{decision:?}");
        }
    }

    #[test]
    fn a_replay_decides_what_was_decided_live(steps in steps(), written_after in 0usize..400) {
        let mut world = World::new(BOUNDED);
        drive(&mut world, &steps);
        prop_assert_eq!(replayed(BOUNDED, &world, written_after), world.decisions);
    }

    #[test]
    fn of_clients_nothing_is_decided_on_what_is_missing_or_stale_and_a_replay_decides_the_same(
        steps in askings(),
        written_after in 0usize..800,
    ) {
        let mut world = World::new(OF_CLIENTS);
        ask(&mut world, &steps);
        // What was told of each client last, up to a decision.
        let mut told = world.told.iter().peekable();
        let mut last: BTreeMap<String, (u64, f64)> = BTreeMap::new();
        for decision in &world.decisions {
            while let Some(entry) = told.next_if(|entry| entry.at_ms <= decision.at_ms) {
                match &entry.what {
                    Recorded::Reading { of: Owner::Client(client), value, .. } => {
                        last.insert(client.clone(), (entry.at_ms, *value));
                    }
                    Recorded::Gone { client } => drop(last.remove(client)),
                    _ => {}
                }
            }
            let Subject::Client { client, .. } = &decision.subject else { continue };
            // Also what a client has again is decided on what is known of it, unless its time is over by itself.
            if decision.outcome.is_fired() || decision.outcome == Outcome::Released {
                let known = decision.readings.iter().filter(|cited| cited.test.contains("rate"));
                let (at_ms, value) = last[client];
                for cited in known {
                    prop_assert!(cited.value.is_some() && cited.age_ms <= VALID_MS, "{decision:?}");
                    prop_assert!(decision.at_ms - at_ms <= VALID_MS, "{decision:?}");
                    // The rate of one client is not that of another.
                    prop_assert!(cited.test.contains("over") || cited.value == Some(value), "{decision:?}: {value}");
                }
            }
        }
        prop_assert_eq!(replayed(OF_CLIENTS, &world, written_after), world.decisions);
    }

    #[test]
    fn a_session_whose_link_is_read_is_decided_for_at_once_and_a_replay_decides_the_same(
        steps in readings_of_links(),
        written_after in 0usize..1200,
    ) {
        let mut world = World::new(OF_LINKS);
        read_links(&mut world, &steps);
        for session in 1..4 {
            let of_session: Vec<Decision> = world.decisions.iter().filter(|decision| {
                matches!(decision.subject, Subject::Session { number, .. } if number == session)
            }).cloned().collect();
            let fired = |rule: &str| of_rule(&of_session, rule, Outcome::is_fired);
            prop_assert!(at_most(&fired("drop"), 2, 5_000), "{:?}", fired("drop"));
            prop_assert!(apart(&fired("back"), 1_000), "{:?}", fired("back"));
            // It may be superseded before its time is over, and is looked at in its own rhythm all the same.
            prop_assert!(apart(&fired("far"), 1_950), "{:?}", fired("far"));
            let told: Vec<u64> = steps.iter().scan(0, |now, step| { *now += step.0; Some((*now, step.1)) })
                .filter(|(_, of)| *of == session).map(|(now, _)| now).collect();
            // A tick of the same time tells nothing more.
            for at_ms in fired("drop") {
                prop_assert!(told.contains(&at_ms) || world.told.iter().any(|entry| {
                    entry.at_ms == at_ms && entry.what == Recorded::Tick
                }), "{at_ms}");
            }
        }
        prop_assert_eq!(replayed(OF_LINKS, &world, written_after), world.decisions);
    }

    #[test]
    fn sessions_that_are_told_as_a_number_of_them_are_decided_as_each_would_be(
        policy in beginnings(),
        steps in prop::collection::vec(
            (0.0..100.0f64, 1u32..20, prop::option::of(1e3..2e6f64), prop::option::of(0.001..2.0f64)),
            1..30,
        ),
    ) {
        let [each, together] = told_both_ways(&policy, &steps);
        prop_assert_eq!(each, together);
    }

    #[test]
    fn no_text_breaks_the_parser(text in "\\PC{0,200}", soup in words()) {
        for text in [text, soup] {
            let checked = check_policy(&text);
            let lines = text.split('\n').count();
            for mistake in checked.mistakes.iter().chain(&checked.warnings) {
                prop_assert!((1..=lines).contains(&mistake.line) && mistake.column > 0, "{mistake}");
                prop_assert!(!mistake.what.is_empty() && !mistake.remedy.is_empty());
            }
            if let Ok(formatted) = format_policy(&text) {
                prop_assert_eq!(format_policy(&formatted), Ok(formatted.clone()));
            }
        }
    }

    #[test]
    fn a_formatted_policy_says_the_same_and_stays(text in policies()) {
        let formatted = format_policy(&text).expect("well-formed");
        prop_assert_eq!(format_policy(&formatted), Ok(formatted.clone()), "of {}", text);
        let whats = |text: &str| {
            let checked = check_policy(text);
            checked.mistakes.into_iter().chain(checked.warnings).map(|one| one.what).collect::<Vec<_>>()
        };
        prop_assert_eq!(whats(&text).len(), whats(&formatted).len());
        prop_assert_eq!(text.matches('#').count(), formatted.matches('#').count());
        let bare = |text: &str| {
            let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
            lines.collect::<String>().split_whitespace().collect::<String>()
        };
        prop_assert_eq!(bare(&text), bare(&formatted));
    }
}

/// Of a link that becomes slow it is decided at the reading that says so, and for no other session.
#[test]
fn a_look_is_at_one_session_and_waits_for_no_tick() {
    let mut world = World::new(OF_LINKS);
    read_links(&mut world, &[(100, 1, 1e6, 0.01, false), (100, 1, 1e5, 0.01, false), (100, 2, 1e5, 0.01, false)]);
    assert_eq!(world.fired("drop"), Vec::<u64>::new(), "they are not known for half of the time");
    for at_ms in [400, 500, 600, 700] {
        world.client(at_ms, 1, Resource::Bandwidth, 1e5);
        world.client(at_ms, 2, Resource::Bandwidth, 1e5);
        world.look(at_ms, 1);
    }
    assert_eq!(world.fired("drop"), [500, 600], "two steps are allowed");
    assert!(world.decisions.iter().all(|decision| matches!(decision.subject, Subject::Session { number: 1 | 2, .. })));
    let fired = world.decisions.iter().filter(|decision| decision.outcome.is_fired());
    assert!(fired.into_iter().all(|decision| matches!(decision.subject, Subject::Session { number: 1, .. })));
}

/// The examples of the language: each decision of a long and changing run is within what its rule says.
#[test]
fn the_examples_keep_to_their_clauses() {
    let mut world = World::new(EXAMPLE);
    world.begin(0, 1, "/v/film");
    for second in 0..1200u64 {
        let wave = if (second / 20).is_multiple_of(2) { 20e3 } else { 500e3 };
        world.client(second * 1000, 1, Resource::Bandwidth, wave);
        world.atom(second * 1000, "/news/a", Resource::Rate, wave / 500.0);
        world.tick(second * 1000);
    }
    assert!(at_most(&world.fired("drop"), 3, 60_000));
    assert!(apart(&world.fired("flash"), 120_000));
}
