//! Rules over nodes: what a cluster can do of a policy, what its director decides, and which sessions switch.

use std::collections::BTreeSet;
use weir_adapt::forecast::Method;
use weir_adapt::nodes::{
    Acted, AtomSeen, DirectorRules, Done, Dropped, Heeded, NodeReading, NodeRules, NodeSeen, NodeState, NodeStrain,
    RuleTimes, SessionSeen, Switched, Wished,
};
use weir_adapt::{Outcome, Policy};

const POOLS: &str = "pool main = { n1, n2 }; pool reserve = { r1, r2, r3 };\n";
const GROWS: &str = "atom \"/**\" {\n\
    rule more: every 1s if cpu@main > 80% then grow reserve by 1 cooldown 10s;\n\
    rule less: every 1s if cpu@main < 20% then shrink reserve by 2 cooldown 5s; }";

fn policy(rules: &str) -> Policy {
    let text = format!("{POOLS}{rules}");
    Policy::read("cluster.policy", &text).unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}")).0
}

/// A node that has heard no word.
const NONE: Heeded = Heeded { epoch: 0, number: 0, state: NodeState::Awake };

/// A cluster whose nodes are heard at once.
struct Heard {
    now_ms: u64,
    cpu: f64,
    heeded: [Option<Heeded>; 5],
    is_up: [bool; 5],
    age_ms: u64,
}

const NAMES: [&str; 5] = ["n1", "n2", "r1", "r2", "r3"];

impl Heard {
    fn new() -> Self {
        Self { now_ms: 100_000, cpu: 50.0, heeded: [Some(NONE); 5], is_up: [true; 5], age_ms: 100 }
    }

    fn nodes(&self) -> Vec<NodeSeen<'static>> {
        let node = |at: usize| NodeSeen {
            name: NAMES[at],
            is_up: self.is_up[at],
            is_drained: false,
            reading: Some(NodeReading {
                number: self.now_ms - self.age_ms,
                cpu_percent: self.cpu,
                ..NodeReading::default()
            }),
            age_ms: self.age_ms,
            heeded: self.heeded[at],
        };
        (0..5).map(node).collect()
    }

    /// One second later; the nodes have heard the word that came before.
    fn tick(&mut self, rules: &mut DirectorRules) -> Vec<Acted> {
        self.heed(rules.wished());
        self.now_ms += 1_000;
        rules.tick(self.now_ms, &self.nodes(), &[])
    }

    fn heed(&mut self, word: &Wished) {
        if word.number == 0 {
            return;
        }
        for (name, heeded) in NAMES.iter().zip(&mut self.heeded) {
            let is_awake = word.awake.get(*name).copied().unwrap_or(true);
            let state = if is_awake { NodeState::Awake } else { NodeState::Asleep };
            *heeded = Some(Heeded { epoch: word.epoch, number: word.number, state });
        }
    }

    fn ticks(&mut self, rules: &mut DirectorRules, times: usize) -> Vec<Acted> {
        (0..times).flat_map(|_| self.tick(rules)).collect()
    }
}

fn director(rules: &str, epoch: u64, at_ms: u64, last: Option<(&Wished, u64)>) -> DirectorRules {
    DirectorRules::new(policy(rules), Method::default(), RuleTimes::default(), (epoch, at_ms), last)
}

fn awake(rules: &DirectorRules) -> Vec<&str> {
    rules.wished().awake.iter().filter(|(_, is_awake)| **is_awake).map(|(name, _)| name.as_str()).collect()
}

fn fired(acted: &[Acted]) -> Vec<(&str, &[Done])> {
    let fired = acted.iter().filter(|acted| acted.decision.outcome == Outcome::Fired);
    fired.map(|acted| (acted.decision.rule.as_str(), acted.done.as_slice())).collect()
}

#[test]
fn what_a_cluster_cannot_do_is_refused_in_words() {
    let members: BTreeSet<&str> = NAMES.into();
    let unfit = |rules: &str| {
        let found = policy(rules).unfit_for(&members);
        found.into_iter().map(|unfit| format!("{}: {}; {}", unfit.line, unfit.what, unfit.remedy)).collect::<Vec<_>>()
    };
    assert_eq!(unfit(GROWS), Vec::<String>::new());
    for (rule, expected) in [
        ("rule a: select best by cpu (n1, n2);", ""),
        ("rule a: at start if avg cpu@all over 5s > 50% then best by queue (any of reserve) else best (n1);", ""),
        ("rule a: select best by bandwidth (n1, n2);", "the node that sends the most"),
        ("rule a: select best by service (n1, n2);", "compares nodes by `service`"),
        ("rule a: select best by cpu (n1, n2) cooldown 5s;", "sees none by itself"),
        ("rule a: at start if cpu@here > 5% then best by cpu (n1, n2);", "decided for the whole cluster"),
        ("rule a: at start if rate@client > 5rps then best by cpu (n1, n2);", "of clients"),
        ("rule a: during if cpu@here > 90% then switch any of main hold 5s;", ""),
        ("rule a: during if cpu@here > 90% then best by active (n1, n2) hold 5s;", ""),
        ("rule a: during if cpu@here > 90% then best by wait (n1, n2) hold 5s;", ""),
        ("rule a: during if cpu@here > 90% then best by service (n1, n2) hold 5s;", "compares nodes by `service`"),
        ("rule a: every 1s if cpu@here > 90% then grow reserve by 1;", "decided for the whole cluster"),
        ("rule a: every 1s if cpu@main > 90% then shed 5% hold 5s;", "each server does by itself"),
        ("rule a: every 1s if queue@main > 5jobs and mem@main > 4GB then grow reserve by 1;", ""),
        ("rule a: every 1s if wait@main > 5ms or errors@main > 2% then grow reserve by 1;", ""),
        ("rule a: every 1s if service@main > 5ms then grow reserve by 1;", "which nodes do not tell each other"),
        ("rule a: every 1s if wait@atom > 5ms then replicate to 2 on main hold 5s;", "the rate alone"),
        ("rule a: every 1s if rate@atom > 5rps then replicate to 2 on main, spread over main hold 5s;", ""),
        ("rule a: during if bandwidth@client < 1Mbps then switch n1 hold 5s;", "of clients"),
    ] {
        let found = unfit(&format!("atom \"/**\" {{ {rule} }}")).join("\n");
        assert!(if expected.is_empty() { found.is_empty() } else { found.contains(expected) }, "{rule}: {found}");
    }
    let found = unfit("atom \"/v/*\" { rule a: select best by cpu (n1, n2); }").join("\n");
    assert!(found.contains("gives a connection to a node before the request"), "{found}");
    let few: BTreeSet<&str> = ["r1", "r2", "r3"].into();
    let found = policy(GROWS).unfit_for(&few).iter().map(|unfit| unfit.what.clone()).collect::<Vec<_>>().join("\n");
    assert!(
        found.contains("`n1` is no node of the cluster") && found.contains("all nodes of the cluster sleep"),
        "{found}"
    );
    let both = "pool more = { n1, r1 };\natom \"/**\" { rule a: every 1s if cpu@main > 90% then grow reserve by 1, grow more by 1; }";
    assert!(unfit(both).join("\n").contains("node `n1` is in `main` and in `more`"), "{:?}", unfit(both));
}

#[test]
fn a_reserve_grows_and_shrinks_in_its_order_and_keeps_its_cooldown() {
    let mut heard = Heard::new();
    let mut rules = director(GROWS, 4, heard.now_ms, None);
    assert_eq!(rules.wished().number, 0, "nothing is said before it is known how the reserve stands");
    heard.ticks(&mut rules, 3);
    assert_eq!(awake(&rules), Vec::<&str>::new());
    heard.cpu = 90.0;
    let acted = heard.ticks(&mut rules, 9);
    assert_eq!(fired(&acted), [("more", &[Done::Woken(vec!["r1".to_owned()])][..])], "once in its cooldown");
    let readings: Vec<_> = acted[0].decision.readings.iter().map(ToString::to_string).collect();
    assert_eq!(readings, ["cpu@main > 80%: 90%, 100ms old"]);
    let acted = heard.ticks(&mut rules, 10);
    assert_eq!(fired(&acted), [("more", &[Done::Woken(vec!["r2".to_owned()])][..])]);
    assert_eq!(awake(&rules), ["r1", "r2"]);
    // One that is down is passed over.
    heard.is_up[4] = false;
    let acted = heard.ticks(&mut rules, 11);
    assert!(matches!(fired(&acted)[..], [("more", [Done::Nothing(_)])]), "told once: {acted:?}");
    heard.is_up[4] = true;
    let acted = heard.ticks(&mut rules, 1);
    assert_eq!(fired(&acted), [("more", &[Done::Woken(vec!["r3".to_owned()])][..])], "nothing begins no cooldown");
    heard.cpu = 10.0;
    let acted = heard.ticks(&mut rules, 1);
    let both = vec!["r3".to_owned(), "r2".to_owned()];
    assert_eq!(fired(&acted), [("less", &[Done::Drained(both)][..])]);
    assert_eq!(awake(&rules), ["r1"]);
    let word = rules.wished().number;
    heard.ticks(&mut rules, 4);
    assert_eq!(rules.wished().number, word, "nothing changes, and nothing is said");
}

#[test]
fn rules_read_what_strains_nodes_and_know_nothing_of_a_node_that_does_not_say() {
    let strain = NodeStrain {
        queue: 12.0,
        wait_s: 0.25,
        mem_bytes: 7e9,
        mem_percent: 88.0,
        errors_per_s: 3.0,
        error_percent: 6.0,
    };
    let fires = |condition: &str, of_n2: Option<NodeStrain>| {
        let mut heard = Heard::new();
        let text = format!("atom \"/**\" {{ rule more: every 1s if {condition} then grow reserve by 1; }}");
        let mut rules = director(&text, 4, heard.now_ms, None);
        let mut acted = Vec::new();
        for _ in 0..4 {
            heard.heed(rules.wished());
            heard.now_ms += 1_000;
            let mut nodes = heard.nodes();
            for (node, strain) in nodes.iter_mut().zip([Some(strain), of_n2]) {
                node.reading = node.reading.map(|reading| NodeReading { strain, ..reading });
            }
            acted.extend(rules.tick(heard.now_ms, &nodes, &[]));
        }
        !fired(&acted).is_empty()
    };
    for (above, below) in [
        ("queue@main > 11jobs", "queue@main > 13jobs"),
        ("wait@main > 240ms", "wait@main > 260ms"),
        ("mem@main > 6.9GB", "mem@main > 7.1GB"),
        ("mem@main > 87%", "mem@main > 89%"),
        ("errors@main > 5rps", "errors@main > 7rps"),
        ("errors@main > 5%", "errors@main > 7%"),
    ] {
        // A pool has the mean of its nodes, and of rates their sum.
        assert!(fires(above, Some(strain)), "{above}");
        assert!(!fires(below, Some(strain)), "{below}");
        assert!(!fires(above, None), "{above}: n2 does not say");
    }
}

#[test]
fn no_connection_comes_to_a_node_that_sleeps_or_drains() {
    let mut heard = Heard::new();
    let mut rules = director(GROWS, 4, heard.now_ms, None);
    let receiving = |rules: &DirectorRules, heard: &Heard| -> Vec<&str> {
        heard.nodes().iter().filter(|node| rules.receives(node)).map(|node| node.name).collect()
    };
    assert_eq!(receiving(&rules, &heard), ["n1", "n2"]);
    heard.cpu = 90.0;
    heard.ticks(&mut rules, 2);
    assert_eq!(receiving(&rules, &heard), ["n1", "n2", "r1"]);
    // It still drains by the word of a director before.
    heard.heeded[2] = Some(Heeded { epoch: 2, number: 9, state: NodeState::Draining });
    assert_eq!(receiving(&rules, &heard), ["n1", "n2"]);
}

#[test]
fn rules_fire_on_no_old_reading_and_few_late_nodes_hold_nothing_up() {
    let mut heard = Heard::new();
    let mut rules = director(GROWS, 4, heard.now_ms, None);
    heard.ticks(&mut rules, 2);
    (heard.cpu, heard.age_ms) = (95.0, 5_001);
    assert!(fired(&heard.ticks(&mut rules, 20)).is_empty());
    heard.age_ms = 4_999;
    assert_eq!(fired(&heard.ticks(&mut rules, 2)).len(), 1);
    // One of five living nodes is late: it is left out.
    let late = |heard: &Heard, which: &[usize]| {
        let mut nodes = heard.nodes();
        which.iter().for_each(|at| nodes[*at].age_ms = 60_000);
        nodes
    };
    let mut rules = director(GROWS, 6, heard.now_ms, None);
    heard.heed(&Wished { epoch: 4, number: 3, ..Wished::default() });
    heard.heeded[2..].fill(Some(NONE));
    let fires = |rules: &mut DirectorRules, heard: &mut Heard, which: &[usize]| {
        let acted = (0..12).flat_map(|_| {
            heard.now_ms += 1_000;
            rules.tick(heard.now_ms, &late(heard, which), &[])
        });
        let acted: Vec<Acted> = acted.collect();
        fired(&acted).len()
    };
    assert_eq!(fires(&mut rules, &mut heard, &[0, 1]), 0, "two of five are too many");
    assert!(fires(&mut rules, &mut heard, &[1]) > 0);
}

#[test]
fn the_next_director_goes_on_where_the_last_one_was() {
    let mut heard = Heard::new();
    let mut first = director(GROWS, 4, heard.now_ms, None);
    heard.ticks(&mut first, 2);
    heard.cpu = 90.0;
    assert_eq!(fired(&heard.ticks(&mut first, 2)).len(), 1);
    heard.heed(first.wished());
    // It has heard the last word two seconds ago, and its own clock says something else.
    heard.now_ms += 7_000_000;
    let word = first.wished().clone();
    let mut second = director(GROWS, 5, heard.now_ms, Some((&word, 2_000)));
    let acted = heard.ticks(&mut second, 6);
    assert!(fired(&acted).is_empty(), "the cooldown goes on: {acted:?}");
    assert_eq!(awake(&second), ["r1"]);
    assert_eq!(fired(&heard.ticks(&mut second, 4)).len(), 1, "and ends");
    // One that has not heard the last word lets all cooldowns pass, and asks the nodes.
    heard.heed(second.wished());
    let mut third = director(GROWS, 6, heard.now_ms, Some((&word, 9_000)));
    let acted = (0..9).flat_map(|_| {
        heard.now_ms += 1_000;
        third.tick(heard.now_ms, &heard.nodes(), &[])
    });
    assert!(fired(&acted.collect::<Vec<_>>()).is_empty());
}

#[test]
fn new_connections_choose_by_the_first_rule_that_applies() {
    let rules = "atom \"/**\" {
        rule busy priority 2: at start if cpu@main > 80% then best by active (any of main, r1);
        rule pick: select best by queue (n2, n1); }
        atom \"/v/*\" { rule no: select best by cpu (r3); }";
    let mut heard = Heard::new();
    let mut rules = director(rules, 4, heard.now_ms, None);
    let mut chosen = |cpu: f64, age_ms: u64| {
        (heard.cpu, heard.age_ms) = (cpu, age_ms);
        // What was heard before is too old after 5 s.
        heard.ticks(&mut rules, 1 + age_ms as usize / 1_000);
        let chosen = rules.choosing().expect("one applies");
        let nodes: Vec<String> = chosen.nodes.iter().cloned().collect();
        (chosen.rule, chosen.by.name(), nodes.join(" "), chosen.readings.len())
    };
    assert_eq!(chosen(50.0, 100), ("pick".to_owned(), "queue", "n1 n2".to_owned(), 0));
    assert_eq!(chosen(90.0, 100), ("busy".to_owned(), "active", "n1 n2 r1".to_owned(), 1));
    assert_eq!(chosen(90.0, 6_000).0, "pick", "what is old is unknown");
    assert_eq!(director(GROWS, 4, 0, None).choosing(), None);
}

#[test]
fn a_limit_counts_what_the_director_before_has_done() {
    let rules = "atom \"/**\" {
        rule more: every 1s if cpu@main > 80% then grow reserve by 1 limit 2 per 60s;
        rule tell: every 1s if cpu@main > 80% then alert \"full\" limit 3 per 60s; }
        atom \"/news/*\" { rule hot: every 1s if rate@atom > 50rps then alert \"hot\" limit 2 per 60s; }";
    let mut heard = Heard::new();
    let asked = [AtomSeen { path: "/news/a", requests_per_s: 90.0, age_ms: 0 }];
    let ticks = |rules: &mut DirectorRules, heard: &mut Heard, times: usize| {
        let acted = (0..times).flat_map(|_| {
            heard.heed(rules.wished());
            heard.now_ms += 1_000;
            rules.tick(heard.now_ms, &heard.nodes(), &asked)
        });
        let acted: Vec<Acted> = acted.collect();
        ["more", "tell", "hot"].map(|name| fired(&acted).iter().filter(|(rule, _)| *rule == name).count())
    };
    heard.cpu = 90.0;
    let mut first = director(rules, 4, heard.now_ms, None);
    assert_eq!(ticks(&mut first, &mut heard, 1), [1, 1, 1]);
    let word = Wished::parse(&first.wished().to_text()).expect("it is gossiped");
    // It was heard 2 s ago, by another clock.
    heard.now_ms += 9_000_000;
    let mut second = director(rules, 5, heard.now_ms, Some((&word, 2_000)));
    assert_eq!(ticks(&mut second, &mut heard, 30), [1, 2, 1], "one of two, two of three, one of two");
    assert_eq!(second.dropped(), Dropped::default());
    // A third one knows of both.
    let word = Wished::parse(&second.wished().to_text()).expect("it is gossiped");
    let mut third = director(rules, 6, heard.now_ms, Some((&word, 29_000)));
    assert_eq!(ticks(&mut third, &mut heard, 20)[..2], [0, 0]);
    // What the first did is over by then, and what the second did is not yet.
    assert_eq!(ticks(&mut third, &mut heard, 8)[..2], [1, 1]);

    // Nodes follow a word that was not heard, and so there was a firing more.
    let mut first = director(rules, 8, heard.now_ms, None);
    heard.heeded = [Some(NONE); 5];
    ticks(&mut first, &mut heard, 1);
    let word = first.wished().clone();
    let newer = Heeded { epoch: 8, number: word.number + 1, state: NodeState::Awake };
    let mut second = director(rules, 9, heard.now_ms, Some((&word, 1_000)));
    heard.now_ms += 1_000;
    let mut nodes = heard.nodes();
    nodes[2].heeded = Some(newer);
    second.tick(heard.now_ms, &nodes, &[]);
    assert_eq!(ticks(&mut second, &mut heard, 20)[0], 0, "two of two");
}

#[test]
fn copies_are_wished_by_rate_and_end_with_it() {
    let rules = "atom \"/news/*\" { rule flash: every 1s if rate@atom > 50rps then replicate to 2 on main, spread over reserve until rate@atom < 20rps; }";
    let mut heard = Heard::new();
    let mut rules = director(rules, 4, heard.now_ms, None);
    let mut tick = |rate: f64| {
        heard.now_ms += 1_000;
        // Two nodes are asked for it, and one for another.
        let atoms = [("/news/a", rate / 2.0), ("/news/b", 1.0), ("/news/a", rate / 2.0), ("/other", 900.0)];
        let atoms = atoms.map(|(path, requests_per_s)| AtomSeen { path, requests_per_s, age_ms: 0 });
        rules.tick(heard.now_ms, &heard.nodes(), &atoms);
        rules.wished().atoms.clone()
    };
    assert!(tick(40.0).is_empty() && tick(40.0).is_empty());
    // Atoms are looked at one after the other within a second.
    tick(60.0);
    let wished = tick(60.0);
    assert_eq!(wished.keys().collect::<Vec<_>>(), ["/news/a"]);
    let wish = &wished["/news/a"];
    assert_eq!((wish.copies.clone(), wish.spread.clone()), (Some((2, "main".to_owned())), Some("reserve".to_owned())));
    assert_eq!(tick(30.0).len(), 1);
    tick(10.0);
    assert!(tick(10.0).is_empty());
}

fn sessions(count: u32) -> Vec<SessionSeen<u32>> {
    (0..count).map(|key| SessionSeen { key, path: "/v/film".to_owned(), is_taken: false }).collect()
}

#[test]
fn sessions_switch_in_batches_and_not_again_at_once() {
    let rules = "atom \"/v/*\" { rule away: during if cpu@here > 80% then switch any of main for 2s until cpu@here < 60% cooldown 5s; }";
    let mut heard = Heard::new();
    let mut node = NodeRules::new(policy(rules), Method::default(), RuleTimes::default(), "n1");
    let mut tick = |node: &mut NodeRules<u32>, cpu: f64, open: &[SessionSeen<u32>]| {
        heard.now_ms += 1_000;
        let mut nodes = heard.nodes();
        nodes[0].reading = Some(NodeReading { number: heard.now_ms, cpu_percent: cpu, ..NodeReading::default() });
        let switches = node.tick(heard.now_ms, &nodes, &[], open);
        assert!(switches.iter().all(|switch| switch.to == "n2"));
        (switches.into_iter().map(|switch| switch.key).collect::<Vec<_>>(), heard.now_ms)
    };
    let mut open = sessions(8);
    assert!(tick(&mut node, 50.0, &open).0.is_empty());
    assert!(tick(&mut node, 90.0, &open).0.is_empty() && tick(&mut node, 90.0, &open).0.is_empty(), "not for 2s yet");
    let (moved, now_ms) = tick(&mut node, 90.0, &open);
    assert_eq!(moved.len(), 2, "a quarter of eight");
    assert_eq!(node.put_off(), 6);
    // One stays, and is left alone for a while; the next ones come at the next tick, without a wait.
    node.switched(&moved[0], Switched::Moved, now_ms);
    node.switched(&moved[1], Switched::Failed, now_ms);
    open.retain(|seen| seen.key != moved[0]);
    let (next, _) = tick(&mut node, 90.0, &open);
    assert_eq!(next.len(), 2);
    assert!(!next.contains(&moved[1]));
    // What was not moved stays once the load is over.
    open.retain(|seen| !next.contains(&seen.key));
    assert!(tick(&mut node, 50.0, &open).0.is_empty());
    // One that has just come rests for the cooldown.
    let came = [SessionSeen { key: 99, path: "/v/film".to_owned(), is_taken: true }];
    let waits = (0..5).take_while(|_| tick(&mut node, 90.0, &came).0.is_empty()).count();
    assert_eq!(waits, 5);
    assert!((0..3).any(|_| tick(&mut node, 90.0, &came).0 == [99]));
}

#[test]
fn a_node_that_sleeps_is_no_target() {
    let rules = "atom \"/v/*\" { rule away: during if cpu@here > 80% then switch any of reserve hold 5s; }";
    let mut heard = Heard::new();
    heard.cpu = 10.0;
    heard.heed(&Wished::default());
    heard.heeded[2] = Some(Heeded { epoch: 1, number: 1, state: NodeState::Asleep });
    heard.heeded[3] = Some(Heeded { epoch: 1, number: 1, state: NodeState::Draining });
    let mut node = NodeRules::new(policy(rules), Method::default(), RuleTimes::default(), "n1");
    let mut nodes = heard.nodes();
    nodes[0].reading = Some(NodeReading { number: 1, cpu_percent: 95.0, ..NodeReading::default() });
    let switches = node.tick(heard.now_ms, &nodes, &[], &sessions(1));
    assert_eq!(switches.iter().map(|switch| switch.to.as_str()).collect::<Vec<_>>(), ["r3"]);
}

/// Nor is one that a rule names.
#[test]
fn a_named_node_that_sleeps_is_no_target() {
    let rules = "atom \"/v/*\" { rule away: during if cpu@here > 80% then switch r1 hold 5s; }";
    for (state, expected) in [(NodeState::Asleep, 0), (NodeState::Draining, 0), (NodeState::Awake, 1)] {
        let mut heard = Heard::new();
        heard.cpu = 10.0;
        heard.heeded[2] = Some(Heeded { epoch: 1, number: 1, state });
        let mut node = NodeRules::new(policy(rules), Method::default(), RuleTimes::default(), "n1");
        let mut nodes = heard.nodes();
        nodes[0].reading = Some(NodeReading { number: 1, cpu_percent: 95.0, ..NodeReading::default() });
        assert_eq!(node.tick(heard.now_ms, &nodes, &[], &sessions(1)).len(), expected, "{state:?}");
    }
}

/// Before it has heard a director, a node of the reserve gets no session: it is asleep as far as the others know.
#[test]
fn a_node_of_the_reserve_that_has_heard_no_director_is_no_target() {
    let rules = "atom \"/**\" { rule more: every 5s if cpu@main > 99% then grow reserve by 1 cooldown 60s; }
        atom \"/v/*\" { rule away: during if cpu@here > 80% then switch any of reserve hold 5s; }";
    let mut heard = Heard::new();
    heard.cpu = 10.0;
    heard.heeded[2..].copy_from_slice(&[
        None,
        Some(NONE),
        Some(Heeded { epoch: 1, number: 1, state: NodeState::Awake }),
    ]);
    let mut node = NodeRules::new(policy(rules), Method::default(), RuleTimes::default(), "n1");
    let mut nodes = heard.nodes();
    nodes[0].reading = Some(NodeReading { number: 1, cpu_percent: 95.0, ..NodeReading::default() });
    let switches = node.tick(heard.now_ms, &nodes, &[], &sessions(1));
    assert_eq!(switches.iter().map(|switch| switch.to.as_str()).collect::<Vec<_>>(), ["r3"]);
}
