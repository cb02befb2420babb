//! What is decided: the examples of the language at work, and each clause by itself.

use crate::support;

use support::World;
use weir_adapt::forecast::Method;
use weir_adapt::log::{Entry, Header, Owner, Recorded};
use weir_adapt::{Engine, Outcome, Policy, Replay, Resource, Subject, Unknown};

const EXAMPLE: &str = include_str!("../example.policy");
const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

#[test]
fn a_session_moves_when_its_node_is_busy_for_long_enough_and_is_held() {
    let mut world = World::new(EXAMPLE);
    world.begin(0, 1, "/page1.html");
    world.node(0, "n1", Resource::Cpu, 50.0);
    world.node(0, "n2", Resource::Cpu, 40.0);
    world.start(0, 1);
    assert_eq!(world.said(), ["0 pick fired serve at n2"]);
    let mut world = World::new(EXAMPLE);
    world.begin(0, 1, "/page1.html");
    for second in 0..60 {
        let busy = if (5..40).contains(&second) { 95.0 } else { 60.0 };
        for (node, cpu) in NODES.into_iter().zip([busy, 60.0, 30.0, 50.0]) {
            world.node(second * 1000, node, Resource::Cpu, cpu);
        }
        world.tick(second * 1000);
    }
    // Busy from 5 on, for 10 s; the hold of 30 s is over at 45, when the CPU is below 70 % already.
    // Of the queues of the reserve nothing is known.
    assert_eq!(world.said(), ["0 back unknown", "15 move fired serve at n3", "45 move released"]);
}

#[test]
fn the_variant_fits_the_clients_bandwidth() {
    for (bandwidth, said) in
        [(50e3, "0 fit fired use half"), (30e3, "0 fit fired use half"), (29e3, "0 fit fired use small")]
    {
        let mut world = World::new(EXAMPLE);
        world.begin(0, 1, "/v/film");
        world.client(0, 1, Resource::Bandwidth, bandwidth);
        world.start(0, 1);
        assert_eq!(world.said(), [said]);
    }
    // The best one is what a session begins with.
    let mut world = World::new(EXAMPLE);
    world.begin(0, 1, "/v/film");
    world.client(0, 1, Resource::Bandwidth, 200e3);
    world.start(0, 1);
    assert_eq!(world.said(), Vec::<String>::new());
    // Of a new client nothing is known: `else` is no answer to that.
    let mut world = World::new(EXAMPLE);
    world.begin(0, 1, "/v/film");
    world.start(0, 1);
    assert_eq!(world.decisions.len(), 1);
    let Outcome::Unknown { metric, why } = &world.decisions[0].outcome else { panic!("{:?}", world.decisions) };
    assert_eq!((metric.as_str(), *why), ("bandwidth@client", Unknown::Missing));
    assert!(world.decisions[0].outcome.to_string().contains("not fired, because bandwidth@client is unknown"));
}

#[test]
fn a_variant_is_left_at_most_as_often_as_the_limit_says() {
    let mut world = World::new(EXAMPLE);
    world.begin(0, 7, "/v/film");
    for second in 0..100 {
        world.client(second * 1000, 7, Resource::Bandwidth, 20e3);
        world.tick(second * 1000);
    }
    // Two seconds of the four must have been seen; from `small` there is nothing below.
    assert_eq!(world.said()[1..], ["0 drop unknown", "2 drop fired use half", "3 drop fired use small"]);
    let limited = "atom \"/\" { rule a: during if cpu > 50% then alert \"hot\" limit 3 per 60s; }";
    let mut world = World::new(limited);
    for second in 0..130 {
        world.node(second * 1000, "n1", Resource::Cpu, 90.0);
        world.tick(second * 1000);
    }
    let fired: Vec<u64> = world.fired("a").iter().map(|at| at / 1000).collect();
    assert_eq!(fired, [0, 1, 2, 60, 61, 62, 120, 121, 122]);
    assert_eq!(world.decisions.iter().filter(|decision| decision.outcome == Outcome::Limited).count(), 3);
}

#[test]
fn a_flash_crowd_is_foreseen_and_given_back() {
    let mut world = World::new(EXAMPLE);
    for second in 0..400u64 {
        // Calm, a rise of 10 rps a second to 600, and the end of it.
        let rate = match second {
            0..60 => 20.0,
            60..118 => 20.0 + 10.0 * (second - 60) as f64,
            118..200 => 600.0,
            _ => 100.0,
        };
        world.atom(second * 1000, "/news/a.html", Resource::Rate, rate);
        world.atom(second * 1000, "/news/b.html", Resource::Rate, 15.0);
        world.tick(second * 1000);
    }
    let acted: Vec<_> =
        world.decisions.iter().filter(|decision| !matches!(decision.outcome, Outcome::Unknown { .. })).collect();
    assert_eq!(acted.len(), 2, "{acted:#?}");
    let (fired, released) = (acted[0], acted[1]);
    assert_eq!(fired.subject, Subject::Atom("/news/a.html".to_owned()));
    assert_eq!(
        support::say(fired).split_once(' ').expect("a time").1,
        "flash fired replicate to 4 on main, spread over reserve"
    );
    // Before the rate itself is above 500.
    assert!((85_000..108_000).contains(&fired.at_ms), "{fired:?}");
    let cited = &fired.readings[0];
    assert!(cited.value.is_some_and(|value| value > 500.0) && cited.fit.is_some_and(|fit| fit >= 0.8), "{cited:?}");
    assert!(cited.to_string().contains("predicted in 30s fit >= 0.8 > 500rps: "), "{cited}");
    assert_eq!(released.outcome, Outcome::Released);
    assert_eq!((released.at_ms, released.orders.len()), (200_000, 2));
    let errors = world.engine.forecast_errors(&world.state);
    assert_eq!((errors.len(), errors[0].metric.as_str()), (1, "rate@atom predicted in 30s fit >= 0.8"));
    assert!(errors[0].errors.count > 50 && errors[0].errors.mean().is_some_and(|mean| mean < 150.0), "{errors:?}");
}

#[test]
fn a_pool_shrinks_only_when_each_of_its_nodes_is_known_to_be_idle() {
    let run = |silent: bool, down: bool| {
        let mut world = World::new(EXAMPLE);
        if down {
            world.up(0, "r2", false);
        }
        for second in 0..900u64 {
            let at = second * 1000;
            for node in ["n1", "n2", "n3", "n4", "r1", "r2"].into_iter().filter(|node| !(silent && *node == "r2")) {
                world.node(at, node, Resource::Cpu, 10.0);
                if node.starts_with('r') {
                    world.node(at, node, Resource::Queue, 0.0);
                }
            }
            world.tick(at);
        }
        world.said()
    };
    assert_eq!(run(false, false), ["300 back fired shrink reserve by 1", "630 back fired shrink reserve by 1"]);
    assert_eq!(run(true, false), ["0 back unknown"]);
    assert_eq!(run(true, true)[0], "300 back fired shrink reserve by 1");
}

#[test]
fn workers_are_ordered_once_and_given_back_with_the_release_or_by_a_stronger_rule() {
    let mut world = World::new(
        "pool apps = { php };\n\
         atom \"/\" { rule a: during if cpu > 50% then workers 4 of apps until cpu < 20%;\n\
         rule b priority 2: during if cpu > 80% then workers 9 of apps until cpu < 70%; }",
    );
    for (second, cpu) in (0..).zip([10.0, 60.0, 60.0, 90.0, 60.0, 60.0, 10.0]) {
        world.node(second * 1000, "n1", Resource::Cpu, cpu);
        world.tick(second * 1000);
    }
    assert_eq!(
        world.said(),
        [
            "1 a fired workers 4 of apps",
            "3 b fired workers 9 of apps",
            "3 a superseded",
            "4 b released workers 9 of apps",
            "4 a fired workers 4 of apps",
            "6 a released workers 4 of apps",
        ]
    );
}

#[test]
fn stale_readings_decide_nothing() {
    let mut world = World::new("atom \"/\" { rule a: during if cpu > 50% then shed 5% until cpu < 20%; }");
    world.node(0, "n1", Resource::Cpu, 90.0);
    world.tick(0);
    for second in 1..10 {
        world.tick(second * 1000);
    }
    // It stays as it is: nothing is known that would release it.
    assert_eq!(world.said(), ["0 a fired shed 5%"]);
    world.node(10_000, "n1", Resource::Cpu, 10.0);
    world.tick(12_501);
    assert_eq!(world.said(), Vec::<String>::new());
    world.node(12_502, "n1", Resource::Cpu, 10.0);
    world.tick(13_000);
    assert_eq!(world.said(), ["13 a released shed 5%"]);
    world.tick(20_000);
    let Some(Outcome::Unknown { why: Unknown::Stale { age_ms }, .. }) = world.decisions.first().map(|one| &one.outcome)
    else {
        panic!("{:?}", world.decisions)
    };
    assert_eq!(*age_ms, 7498);
}

#[test]
fn one_that_decides_alone_is_enough_beside_unknown_ones() {
    for (condition, fires) in [
        ("cpu > 50% or queue > 5jobs", true),
        ("cpu > 50% and queue > 5jobs", false),
        ("cpu > 95% and queue > 5jobs", false),
        ("not (cpu < 50% and queue > 5jobs)", true),
        ("not queue > 5jobs", false),
    ] {
        let mut world = World::new(&format!("atom \"/\" {{ rule a: during if {condition} then shed 5% hold 5s; }}"));
        world.node(0, "n1", Resource::Cpu, 90.0);
        world.tick(0);
        assert_eq!(world.fired("a").len(), usize::from(fires), "{condition}");
    }
}

#[test]
fn the_first_by_priority_wins_in_its_class() {
    let policy = "pool main = { n1, n2, n3 };\natom \"/**\" { variants full > half > small;\n\
        rule low: during if cpu > 50% then use half hold 5s;\n\
        rule high priority 5: during if queue > 5jobs then use small until queue < 2jobs hold 3s;\n\
        rule other: during if cpu > 50% then switch n2 hold 5s; }";
    let mut world = World::new(policy);
    world.begin(0, 1, "/a");
    for second in 0..7 {
        world.node(second * 1000, "n1", Resource::Cpu, if second == 6 { 40.0 } else { 90.0 });
        world.node(second * 1000, "n1", Resource::Queue, if second == 1 { 9.0 } else { 0.0 });
        world.tick(second * 1000);
    }
    assert_eq!(
        world.said(),
        [
            "0 low fired use half",
            "0 other fired serve at n2",
            "1 high fired use small",
            "1 low superseded",
            "2 low outranked",
            "4 high released",
            "4 low fired use half",
            "6 other released",
        ]
    );
}

/// A rule that takes one class of another's ends the other's rest, and what both want stays until it is released.
#[test]
fn what_a_superseded_rule_did_beside_ends() {
    for (over, taken) in [("more", "spread over more"), ("spare", "")] {
        let policy = format!(
            "pool main = {{ n1, n2, n3 }}; pool spare = {{ d, e }}; pool more = {{ f }};\n\
             atom \"/a\" {{ rule low: during if cpu@here > 80% then replicate to 3 on main, spread over spare\n\
                 until cpu@here < 20%;\n\
             rule high priority 5: during if queue@here > 5jobs then spread over {over} until queue@here < 1jobs; }}"
        );
        let mut world = World::new(&policy);
        for second in 0..4 {
            world.node(second * 1000, "n1", Resource::Cpu, if second < 2 { 90.0 } else { 50.0 });
            world.node(second * 1000, "n1", Resource::Queue, [2.0, 9.0, 2.0, 0.0][second as usize]);
            world.tick(second * 1000);
        }
        let fired = format!("1 high fired {taken}");
        let released = format!("3 high released spread over {over}");
        assert_eq!(
            world.said(),
            [
                "0 low fired replicate to 3 on main, spread over spare",
                fired.trim_end(),
                "1 low superseded replicate to 3 on main",
                &released,
            ]
        );
    }
}

#[test]
fn how_old_answers_may_be_ends_with_its_rule() {
    let mut world = World::new(
        "atom \"/\" { rule a: during if cpu > 50% then stale 30s until cpu < 20%;\n\
         rule b priority 2: during if cpu > 80% then stale 2min, shed 5% until cpu < 70%; }",
    );
    for (second, cpu) in [60.0, 90.0, 60.0, 60.0, 10.0].into_iter().enumerate() {
        world.node(second as u64 * 1000, "n1", Resource::Cpu, cpu);
        world.tick(second as u64 * 1000);
    }
    let said = world.said();
    assert_eq!(said[..2], ["0 a fired stale 30s", "1 b fired stale 120s, shed 5%"]);
    // One answer has one age: the rule of higher priority took it, and the other has it again when that is over.
    assert_eq!(said.iter().filter(|line| line.ends_with("a superseded")).count(), 1, "{said:?}");
    assert!(said.contains(&"2 b released stale 120s, shed 5%".to_owned()), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("4 a released stale 30s"), "{said:?}");
}

#[test]
fn a_cooldown_counts_from_the_firing_and_from_the_release() {
    let policy = "atom \"/\" { rule a: during if cpu > 50% then shed 5% until cpu < 20% cooldown 10s; }";
    let mut world = World::new(policy);
    for second in 0..40u64 {
        // Hot for 4 s, cool for 4 s.
        world.node(second * 1000, "n1", Resource::Cpu, if second % 8 < 4 { 90.0 } else { 10.0 });
        world.tick(second * 1000);
    }
    assert_eq!(
        world.said(),
        [
            "0 a fired shed 5%",
            "4 a released shed 5%",
            "8 a cooling",
            "16 a fired shed 5%",
            "20 a released shed 5%",
            "24 a cooling",
            "32 a fired shed 5%",
            "36 a released shed 5%",
        ]
    );
}

/// A director sends connections now to this node and now to that one: the rate of each wavers, and their sum rises.
#[test]
fn what_nodes_make_together_is_foreseen_by_their_sum() {
    let policy = "pool main = { n1, n2 };
        atom \"/\" { rule a: during if rate@all over 10s predicted in 10s fit >= 0.8 > 400rps then alert \"x\" hold 5s; }";
    let mut world = World::new(policy);
    for tick in 0..80u64 {
        let at_ms = tick * 500;
        let all = 100.0 + 10.0 * at_ms as f64 / 1e3;
        let share = if tick / 2 % 2 == 0 { 0.7 } else { 0.3 };
        // They are read at times of their own.
        if tick % 2 == 0 {
            world.node(at_ms, "n1", Resource::Rate, all * share);
            world.node(at_ms + 100, "n2", Resource::Rate, all * (1.0 - share));
        }
        world.tick(at_ms + 200);
    }
    // 10 s before the sum is 400.
    let fired = world.fired("a");
    assert!(fired.first().is_some_and(|at_ms| (19_000..=22_000).contains(at_ms)), "{fired:?}");
}

#[test]
fn rates_of_nodes_add_up_and_shares_do_not() {
    let policy = |condition: &str| {
        format!("pool main = {{ n1, n2 }};\natom \"/\" {{ rule a: during if {condition} then alert \"x\" hold 5s; }}")
    };
    for (condition, fires) in [
        ("rate@all > 150rps", true),
        ("avg rate@all > 150rps", false),
        ("max rate@main > 90rps", true),
        ("avg rate@all over 4s > 150rps", true),
        ("max rate@all over 4s > 150rps", false),
        ("cpu@all > 60%", false),
        ("max cpu@all > 60%", true),
        ("p95 cpu@n1 over 4s > 60%", true),
        ("min cpu@all < 40%", true),
    ] {
        let mut world = World::new(&policy(condition));
        for second in 0..4 {
            for (node, rate, cpu) in [("n1", 100.0, 80.0), ("n2", 80.0, 30.0)] {
                world.node(second * 1000, node, Resource::Rate, rate);
                world.node(second * 1000, node, Resource::Cpu, cpu);
            }
            world.tick(second * 1000);
        }
        assert_eq!(!world.fired("a").is_empty(), fires, "{condition}");
    }
}

#[test]
fn what_makes_no_sense_is_counted() {
    let mut world = World::new("atom \"/\" { rule a: during if cpu > 50% then shed 5% hold 5s; }");
    for value in [f64::NAN, f64::INFINITY, -1.0] {
        world.node(0, "n1", Resource::Cpu, value);
    }
    world.node(10, "n1", Resource::Cpu, 10.0);
    world.node(5, "n1", Resource::Cpu, 99.0);
    world.node(10, "n1", Resource::Queue, 99.0);
    world.client(10, 99, Resource::Rtt, 1.0);
    let counts = world.state.counts();
    assert_eq!((counts.senseless, counts.out_of_order, counts.unasked, counts.readings), (4, 1, 1, 1));
    // A session can begin once, and what it had is gone with it.
    world.begin(20, 1, "/");
    let atom = world.engine.atom(&mut world.state, "/").expect("an atom");
    assert!(!world.engine.begin(&mut world.state, 1, atom));
    world.end(30, 1);
    assert_eq!(world.state.sessions(), 0);
}

#[test]
fn atoms_that_come_at_once_are_looked_at_one_after_the_other() {
    let mut world =
        World::new("atom \"/**\" { rule hot: every 5s if rate@atom > 50rps then shed 5% until rate@atom < 20rps; }");
    for atom in 0..10_000 {
        world.atom(0, &format!("/{atom}"), Resource::Rate, 10.0);
    }
    let mut looks = Vec::new();
    for second in 0..20 {
        for atom in 0..10_000 {
            world.atom(second * 1000, &format!("/{atom}"), Resource::Rate, 10.0);
        }
        world.tick(second * 1000);
        looks.push(world.state.looked_at());
    }
    // A fifth of them each second: no tick has five times the work of the others.
    assert!(looks[5..].iter().all(|looks| (1_800..2_200).contains(looks)), "{looks:?}");
    assert_eq!(looks[5..10].iter().sum::<u64>(), 10_000, "each once in five seconds: {looks:?}");
}

#[test]
fn ticks_that_come_a_little_early_leave_no_look_out() {
    let mut world = World::new("atom \"/\" { rule hot: every 5s if cpu > 50% then alert \"hot\"; }");
    for tick in 0..60 {
        let at_ms = tick * 1000 + [0, 3, 1, 4, 2, 0, 5][tick as usize % 7];
        world.node(at_ms, "n1", Resource::Cpu, 90.0);
        world.tick(at_ms);
    }
    let fired: Vec<u64> = world.fired("hot").iter().map(|at| at / 1000).collect();
    assert_eq!(fired, [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55]);
}

const GREEDY: &str = "atom \"/**\" { variants full > small;\n\
    rule greedy: during if rate@client > 50rps then shed 90% until rate@client < 20rps;\n\
    rule fit: at start if rate@client > 30rps then use small else use full; }";

#[test]
fn a_greedy_client_loses_its_share_and_a_modest_one_nothing() {
    let mut world = World::new(GREEDY);
    for second in 0..20u64 {
        let at_ms = second * 1000;
        let greedy = if (5..12).contains(&second) { 90.0 } else { 10.0 };
        world.asks(at_ms, "192.0.2.7", greedy);
        world.asks(at_ms, "192.0.2.8", 19.0);
        world.tick(at_ms);
    }
    let decided =
        world.decisions.iter().map(|one| (one.at_ms / 1000, one.subject.to_string(), one.outcome.to_string()));
    let of = || "/** client 192.0.2.7".to_owned();
    assert_eq!(decided.collect::<Vec<_>>(), [(5, of(), "fired".to_owned()), (12, of(), "released".to_owned())]);
    let subject = Subject::Client { client: "192.0.2.7".to_owned(), atoms: "/**".to_owned() };
    assert_eq!(world.decisions[0].subject, subject);
    assert_eq!(world.decisions[0].readings[0].value, Some(90.0));
    assert_eq!(world.decisions[1].orders, world.decisions[0].orders, "what it lost it loses no longer");
}

#[test]
fn of_a_client_that_is_new_nothing_is_said_while_too_little_is_known_of_it() {
    let mut world =
        World::new("atom \"/**\" { rule much: during if avg rate@client over 4s > 50rps then shed 50% hold 9s; }");
    for second in 0..4u64 {
        world.asks(second * 1000, "192.0.2.7", 90.0);
        world.tick(second * 1000);
    }
    assert_eq!(world.said(), ["2 much fired shed 50%"]);
    world.tick(60_000);
    world.tick(61_000);
    assert_eq!(world.said(), ["60 much released shed 50%", "61 much unknown"], "what is too old is told");
}

#[test]
fn a_session_is_served_by_what_its_client_asks_for_altogether() {
    let mut world = World::new(GREEDY);
    world.asks(0, "192.0.2.7", 40.0);
    world.asks(0, "192.0.2.8", 2.0);
    for (session, client) in [(1, "192.0.2.7"), (2, "192.0.2.8"), (3, "192.0.2.7")] {
        world.begin_of(100, session, "/a", client);
        world.start(100, session);
    }
    assert_eq!(world.said(), ["0 fit fired use small", "0 fit fired use small"]);
    // Of a client that is new, was forgotten, or has not been told of for long, nothing is known.
    assert!(world.gone(200, "192.0.2.8") && !world.gone(200, "192.0.2.8"));
    for (at_ms, session, client) in [(200, 4, "192.0.2.8"), (9_000, 5, "192.0.2.7")] {
        world.begin_of(at_ms, session, "/a", client);
        world.start(at_ms, session);
    }
    world.begin(9_000, 6, "/a");
    world.start(9_000, 6);
    let unknown = |one: &weir_adapt::Decision| matches!(one.outcome, Outcome::Unknown { .. });
    assert!(!world.decisions.is_empty() && world.decisions.iter().all(unknown), "{:?}", world.decisions);
}

#[test]
fn a_client_for_which_a_rule_is_active_is_not_forgotten() {
    let mut world = World::new(GREEDY);
    world.asks(0, "192.0.2.7", 90.0);
    world.tick(0);
    assert!(!world.gone(0, "192.0.2.7"));
    // Of what is too old nothing is concluded, not even that it has become less.
    world.tick(60_000);
    assert_eq!(world.said(), ["0 greedy fired shed 90%"]);
    world.asks(61_000, "192.0.2.7", 0.0);
    world.tick(61_000);
    assert!(world.gone(61_000, "192.0.2.7"));
    assert_eq!((world.said(), world.state.clients()), (vec!["61 greedy released shed 90%".to_owned()], 0));
    // There is room for so many, and the others are counted.
    for number in 0..weir_adapt::CLIENTS_MAX {
        world.asks(62_000, &format!("client {number}"), 1.0);
    }
    assert_eq!(world.engine.client(&mut world.state, "one too many"), None);
    assert_eq!((world.state.clients(), world.state.counts().clients_refused), (weir_adapt::CLIENTS_MAX, 1));
}

/// The recorder had other rules. None of them was active for these clients and atoms, or it would not have forgotten
/// them.
#[test]
fn a_replay_lets_go_of_clients_and_atoms_that_were_forgotten() {
    const RULES: &str = "atom \"/**\" {
        rule greedy: during if rate@client > 50rps then shed 90% until rate@client < 20rps;
        rule busy: during if rate@atom > 50rps then shed 50% until rate@atom < 20rps; }";
    let (client, atom) = ("192.0.2.7".to_owned(), "/a".to_owned());
    let replayed = |forgotten: Vec<Recorded>| {
        let (policy, _) = Policy::read("test.policy", RULES).expect("well-formed");
        let engine = Engine::new(policy, "n1", Method::default());
        let mut replay = Replay::new(engine, "n1", Header::new("n1", 5_000));
        let mut decisions = Vec::new();
        let mut tell = |at_ms, what| replay.entry(&Entry { at_ms, what }, &mut decisions).expect("in order");
        for of in [Owner::Client(client.clone()), Owner::Atom(atom.clone())] {
            tell(0, Recorded::Reading { resource: Resource::Rate, of, value: 90.0, valid_ms: None });
        }
        tell(0, Recorded::Tick);
        forgotten.into_iter().for_each(|what| tell(500, what));
        tell(1_000, Recorded::Tick);
        // By then what was read is too old.
        tell(9_000, Recorded::Tick);
        let of = |what: &Outcome| {
            let these = decisions.iter().filter(|decision| decision.outcome == *what);
            these.map(|decision| (decision.at_ms, decision.rule.clone())).collect::<Vec<_>>()
        };
        (of(&Outcome::Fired), of(&Outcome::Released))
    };
    let at = |at_ms: u64, rules: [&str; 2]| rules.map(|rule| (at_ms, rule.to_owned())).to_vec();
    let fired = at(0, ["busy", "greedy"]);
    let sorted = |(mut fired, mut released): (Vec<_>, Vec<_>)| {
        fired.sort();
        released.sort();
        (fired, released)
    };
    assert_eq!(sorted(replayed(vec![])), (fired.clone(), vec![]), "of what is too old nothing is concluded");
    let gone = vec![Recorded::Gone { client: client.clone() }, Recorded::GoneAtom { atom: atom.clone() }];
    assert_eq!(sorted(replayed(gone)), (fired, at(1_000, ["busy", "greedy"])));
}
