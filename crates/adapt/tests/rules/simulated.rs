//! Rules over nodes in a cluster of a hundred or a thousand simulated nodes that are asked for a million atoms: messages
//! are lost and late, nodes are slow, crash and come back, clocks differ, the cluster is parted, the directory is away,
//! directors die and take over from each other while the other one lives on.
//!
//! The code that decides is the one of real members, on a simulated clock. After each step the invariants hold that the
//! functions `check_…` name; at the end, when all is quiet, all members agree.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use weir_adapt::forecast::Method;
use weir_adapt::nodes::{
    Acted, AtomSeen, DirectorRules, Done, Heeded, NodeReading, NodeRules, NodeSeen, NodeState, RuleTimes, SWITCHES_MAX,
    SessionSeen, Switched, Wished,
};
use weir_adapt::{Outcome, Policy};
use weir_testkit::seeded::Choice;

const STEP_MS: u64 = 1_000;
/// Faults end, and it is looked whether all is well.
const FAULTY_STEPS: usize = 220;
const QUIET_STEPS: usize = 200;
/// Steps that are remembered of each member: what is older reaches no member any more.
const KEPT: usize = 40;
/// A member that was not heard for so many steps counts as gone.
const GONE: usize = 8;
/// Nodes that evaluate rules for sessions.
const EDGE: usize = 4;
const ATOMS: u64 = 1_000_000;
const ATOM_STEPS: usize = 5;
const MORE_COOLDOWN_MS: u64 = 20_000;
const LESS_COOLDOWN_MS: u64 = 10_000;
const AWAY_COOLDOWN_MS: u64 = 15_000;
const DIRECTORS: usize = 2;

fn policy(main: usize, reserve: usize) -> Policy {
    let names = |letter: char, count: usize| (0..count).map(|n| format!("{letter}{n}")).collect::<Vec<_>>().join(", ");
    let by = reserve.div_ceil(5);
    let text = format!(
        "pool main = {{ {} }}; pool edge = {{ {} }}; pool reserve = {{ {} }};
         atom \"/**\" {{
         rule more: every 2s if avg cpu@main over 4s > 70% then grow reserve by {by} for 2s cooldown 20s limit 3 per 120s;
         rule less: every 2s if cpu@main < 35% then shrink reserve by {by} for 4s cooldown 10s; }}
         atom \"/a/*\" {{ rule flash: every 5s if rate@atom > 500rps then replicate to 4 on main, spread over reserve
         until rate@atom < 200rps cooldown 30s; }}
         atom \"/v/*\" {{ rule away: during if cpu@here > 85% then switch any of edge until cpu@here < 60% cooldown 15s; }}",
        names('m', main),
        names('m', EDGE),
        names('r', reserve),
    );
    Policy::read("sim.policy", &text).unwrap_or_else(|mistakes| panic!("{mistakes:?}")).0
}

/// What a member has said at a step.
#[derive(Clone)]
struct Said {
    step: usize,
    reading: Option<NodeReading>,
    heeded: Option<Heeded>,
    word: Option<Rc<Wished>>,
}

/// What a member has heard last of each other one: the step that it was said in, and the one that it came in.
struct Ears(Vec<Option<(Said, usize)>>);

struct Node {
    name: String,
    is_dead: bool,
    /// Its messages take so many steps longer.
    slow: usize,
    drains_until: usize,
    word: Rc<Wished>,
    state: NodeState,
    number: u64,
    cpu: f64,
    popular: Vec<(String, f64)>,
    ears: Ears,
}

struct Director {
    is_dead: bool,
    /// The one in whose duty it believes to be.
    rules: Option<DirectorRules>,
    clock: Clock,
    ears: Ears,
}

/// A clock that is fast or slow, and begins anywhere.
#[derive(Clone, Copy)]
struct Clock {
    offset_ms: u64,
    per_mille: u64,
}

impl Clock {
    fn ms(self, step: usize) -> u64 {
        self.offset_ms + self.span_ms(step)
    }

    fn span_ms(self, steps: usize) -> u64 {
        steps as u64 * STEP_MS * self.per_mille / 1_000
    }
}

#[derive(Default)]
struct Faults {
    lost_per_mille: u64,
    /// Members on the other side, and since when.
    parted: Vec<bool>,
    is_directory_away: bool,
}

/// What has happened in all, so that a test sees that something has.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    woken: usize,
    drained: usize,
    wished: usize,
    switched: usize,
    takeovers: usize,
    rivals: usize,
}

/// A firing of a rule over pools that changed something.
struct Firing {
    rule: String,
    epoch: u64,
    step: usize,
}

struct World {
    choice: Choice,
    step: usize,
    policy: Policy,
    nodes: Vec<Node>,
    directors: Vec<Director>,
    faults: Faults,
    history: Vec<VecDeque<Said>>,
    epochs: u64,
    newest_epoch: u64,
    demand: f64,
    /// Atoms that each node is asked for beside the hot ones.
    tail: u32,
    hot: Vec<(String, f64)>,
    edge: Vec<(NodeRules<u64>, Clock)>,
    /// Of each session its node of the edge, when it switched, and whether it came from another one.
    sessions: BTreeMap<u64, (usize, Option<usize>)>,
    words: HashMap<(u64, u64), Rc<Wished>>,
    firings: Vec<Firing>,
    /// Epochs whose director had not heard the last word of the one before.
    unheard: Vec<u64>,
    tally: Tally,
}

impl World {
    fn new(choice: Choice, count: usize) -> Self {
        let reserve = count / 5;
        let main = count - reserve;
        let policy = policy(main, reserve);
        let members = DIRECTORS + count;
        let mut choice = choice;
        let mut clock = || Clock { offset_ms: choice.below(1 << 40), per_mille: 990 + choice.below(21) };
        let directors: Vec<Director> = (0..DIRECTORS)
            .map(|_| Director { is_dead: false, rules: None, clock: clock(), ears: Ears::of(members) })
            .collect();
        let edge = (0..EDGE).map(|at| {
            let rules = NodeRules::new(policy.clone(), Method::default(), RuleTimes::default(), &format!("m{at}"));
            (rules, clock())
        });
        let edge = edge.collect();
        let names = (0..main).map(|n| format!("m{n}")).chain((0..reserve).map(|n| format!("r{n}")));
        let node = |(at, name): (usize, String)| Node {
            name,
            is_dead: false,
            slow: 0,
            drains_until: 0,
            word: Rc::default(),
            state: NodeState::Awake,
            number: 0,
            cpu: 0.0,
            popular: Vec::new(),
            // Only those of the edge hear nodes; all hear the directors.
            ears: Ears::of(if at < EDGE { members } else { DIRECTORS }),
        };
        let nodes = names.enumerate().map(node).collect();
        Self {
            choice,
            step: 1,
            policy,
            nodes,
            directors,
            faults: Faults { parted: vec![false; members], ..Faults::default() },
            history: vec![VecDeque::new(); members],
            epochs: 0,
            newest_epoch: 0,
            demand: 40.0,
            tail: number("WEIR_SIM_PATHS", 5) as u32,
            hot: Vec::new(),
            edge,
            sessions: (0..40).map(|session| (session, (session as usize % EDGE, None))).collect(),
            words: HashMap::new(),
            firings: Vec::new(),
            unheard: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Tally {
        while self.step < FAULTY_STEPS {
            self.have_faults();
            self.one_step();
        }
        self.end_faults();
        let end = self.step + QUIET_STEPS;
        while self.step < end {
            self.one_step();
        }
        self.check_all_agree();
        self.tally
    }

    fn one_step(&mut self) {
        self.load();
        self.say();
        for member in 0..DIRECTORS + self.nodes.len() {
            self.hear(member);
        }
        (0..self.nodes.len()).for_each(|node| self.heed(node));
        (0..DIRECTORS).for_each(|director| self.have_duty(director));
        (0..DIRECTORS).for_each(|director| self.decide(director));
        (0..EDGE).for_each(|at| self.switch(at));
        self.step += 1;
    }

    fn have_faults(&mut self) {
        let choice = &mut self.choice;
        if choice.below(10) == 0 {
            self.faults.lost_per_mille = *choice.pick(&[0, 0, 100, 400]);
            self.demand = *choice.pick(&[15.0, 40.0, 75.0, 95.0, 140.0]);
        }
        if choice.below(25) == 0 {
            self.faults.is_directory_away = choice.below(3) == 0;
        }
        if choice.below(30) == 0 {
            let some = *choice.pick(&[0, 0, 2, 5]);
            self.faults.parted.iter_mut().for_each(|side| *side = some > 0 && choice.below(some) == 0);
        }
        for _ in 0..1 + self.nodes.len() / 100 {
            let node = choice.below(self.nodes.len() as u64) as usize;
            match choice.below(30) {
                0 | 1 => self.nodes[node].is_dead = true,
                2..=6 => self.nodes[node].revive(),
                7 => self.nodes[node].slow = choice.below(8) as usize,
                _ => {}
            }
        }
        if choice.below(40) == 0 {
            let director = choice.below(DIRECTORS as u64) as usize;
            self.directors[director].is_dead = true;
            self.directors[director].rules = None;
        }
        if choice.below(15) == 0 {
            self.directors.iter_mut().for_each(|director| director.is_dead = false);
        }
    }

    fn end_faults(&mut self) {
        let members = DIRECTORS + self.nodes.len();
        self.faults = Faults { parted: vec![false; members], ..Faults::default() };
        self.directors.iter_mut().for_each(|director| director.is_dead = false);
        self.nodes.iter_mut().for_each(|node| {
            node.revive();
            node.slow = 0;
        });
        self.demand = 10.0;
    }

    /// Connections go where the director sends them whose table is in force: that of the newest epoch.
    fn load(&mut self) {
        let active = self.directors.iter().filter(|director| !director.is_dead);
        let active = active.filter_map(|director| director.rules.as_ref()).max_by_key(|rules| rules.wished().epoch);
        let awake = |name: &str| match active {
            Some(rules) => rules.wished().awake.get(name).copied().unwrap_or(true),
            None => name.starts_with('m'),
        };
        let mains = self.nodes.iter().filter(|node| node.name.starts_with('m')).count();
        let serving = self.nodes.iter().filter(|node| !node.is_dead && awake(&node.name)).count().max(1);
        let each = self.demand * mains as f64 / serving as f64;
        if self.step % 20 == 1 {
            self.hot = (0..3).map(|_| (atom(self.choice.below(ATOMS)), 40_000.0 / mains as f64)).collect();
        }
        for at in 0..self.nodes.len() {
            let serves = awake(&self.nodes[at].name);
            // Readings flap.
            let noise = 0.7 + self.choice.below(600) as f64 / 1_000.0;
            self.nodes[at].cpu = if serves { (each * noise).min(100.0) } else { 0.5 };
            if serves && self.step % 10 == at % 10 {
                let tail = (0..self.tail).map(|rank| (atom(self.choice.below(ATOMS)), 20.0 / (1.0 + f64::from(rank))));
                self.nodes[at].popular = self.hot.iter().cloned().chain(tail).collect();
            }
        }
    }

    fn say(&mut self) {
        let step = self.step;
        for (at, director) in self.directors.iter().enumerate().filter(|(_, director)| !director.is_dead) {
            let word = director.rules.as_ref().map(DirectorRules::wished).filter(|word| word.number > 0);
            let word = word.map(|word| Rc::new(word.clone())).or_else(|| self.history[at].back()?.word.clone());
            let said = Said { step, reading: None, heeded: None, word };
            push(&mut self.history[at], said);
        }
        for (at, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| !node.is_dead) {
            node.number += 1;
            let reading = NodeReading { number: node.number, cpu_percent: node.cpu, ..NodeReading::default() };
            let heeded = Heeded { epoch: node.word.epoch, number: node.word.number, state: node.state };
            let said = Said { step, reading: Some(reading), heeded: Some(heeded), word: None };
            push(&mut self.history[DIRECTORS + at], said);
        }
    }

    /// Gossip reaches a member after some steps, or not; what came before is not heard again.
    fn hear(&mut self, member: usize) {
        let is_dead = match member.checked_sub(DIRECTORS) {
            Some(node) => self.nodes[node].is_dead,
            None => self.directors[member].is_dead,
        };
        if is_dead {
            return;
        }
        let ears = match member.checked_sub(DIRECTORS) {
            Some(node) => &self.nodes[node].ears,
            None => &self.directors[member].ears,
        };
        let heard: Vec<(usize, Said)> = (0..ears.0.len())
            .filter_map(|of| {
                let slow = of.checked_sub(DIRECTORS).map_or(0, |node| self.nodes[node].slow);
                let last = ears.0[of].as_ref().map_or(0, |(said, _)| said.step);
                let lag = 1 + (mixed(self.choice.seed(), member as u64, of as u64) % 2) as usize + slow;
                let fresh = self.history[of].iter().rev().take_while(|said| said.step > last);
                let found = fresh.into_iter().find(|said| {
                    let roll = mixed(self.choice.seed() ^ said.step as u64, member as u64, of as u64) % 1_000;
                    said.step + lag <= self.step && roll >= self.faults.lost_per_mille
                });
                let is_parted = self.faults.parted[member] != self.faults.parted[of];
                found.filter(|_| !is_parted || of == member).map(|said| (of, said.clone()))
            })
            .collect();
        let step = self.step;
        let ears = match member.checked_sub(DIRECTORS) {
            Some(node) => &mut self.nodes[node].ears,
            None => &mut self.directors[member].ears,
        };
        heard.into_iter().for_each(|(of, said)| ears.0[of] = Some((said, step)));
    }

    /// A node follows the newest word, as `ruling.rs` of the node process does.
    fn heed(&mut self, at: usize) {
        let step = self.step;
        let takes = 2 + self.choice.below(4) as usize;
        let node = &mut self.nodes[at];
        if node.is_dead {
            return;
        }
        let words = node.ears.0.iter().take(DIRECTORS).flatten().filter_map(|(said, _)| said.word.as_ref());
        let newest = words.max_by_key(|word| (word.epoch, word.number)).cloned();
        if let Some(word) = newest.filter(|word| word.is_newer_than(&node.word)) {
            node.word = word;
        }
        let is_awake = node.word.awake.get(&node.name).copied().unwrap_or(true);
        node.state = match (node.state, is_awake) {
            (_, true) => NodeState::Awake,
            (NodeState::Awake, false) => {
                node.drains_until = step + takes;
                NodeState::Draining
            }
            (NodeState::Draining, false) if step >= node.drains_until => NodeState::Asleep,
            (state, false) => state,
        };
    }

    /// The lock of the directory makes a director active when the other one is not heard; the old one may live on.
    fn have_duty(&mut self, at: usize) {
        let director = &self.directors[at];
        if director.is_dead {
            return;
        }
        let newest = director.ears.newest_epoch();
        if let Some(rules) = &director.rules {
            if newest > rules.wished().epoch {
                self.directors[at].rules = None;
            }
            return;
        }
        let other = 1 - at;
        let hears_other = director.ears.0[other].as_ref().is_some_and(|(_, came)| self.step - came <= 3);
        let other_is_active = self.directors[other].rules.is_some();
        let reaches_lock = !self.faults.is_directory_away && !self.faults.parted[at];
        let is_first = self.epochs == 0 && at == 0;
        if !reaches_lock || !(is_first || (self.step > 10 && (!hears_other || !other_is_active))) {
            return;
        }
        self.epochs = (self.epochs + 1).max(newest / 2 + 1);
        let epoch = 2 * self.epochs + at as u64;
        self.newest_epoch = epoch;
        let last = director.ears.newest_word();
        let final_word = self.words.keys().max().copied();
        if last.as_ref().map(|(word, _)| (word.epoch, word.number)) != final_word {
            self.unheard.push(epoch);
        }
        let clock = director.clock;
        let last = last.map(|(word, came)| (word, clock.span_ms(self.step - came)));
        let last = last.as_ref().map(|(word, age_ms)| (&**word, *age_ms));
        let (method, times) = (Method::default(), RuleTimes::default());
        let rules = DirectorRules::new(self.policy.clone(), method, times, (epoch, clock.ms(self.step)), last);
        self.tally.takeovers += usize::from(!is_first);
        self.tally.rivals += usize::from(other_is_active);
        self.directors[at].rules = Some(rules);
    }

    fn decide(&mut self, at: usize) {
        let Director { rules: Some(rules), clock, ears, is_dead: false } = &mut self.directors[at] else { return };
        let nodes = ears.nodes(&self.nodes, self.step, *clock);
        let mut atoms = Vec::new();
        // Nodes say it each ten seconds.
        let is_told = self.step.is_multiple_of(ATOM_STEPS);
        for (node, seen) in self.nodes.iter().zip(&nodes).filter(|(_, seen)| is_told && seen.is_up) {
            let asked = node.popular.iter();
            atoms.extend(asked.map(|(path, rate)| AtomSeen { path, requests_per_s: *rate, age_ms: seen.age_ms }));
        }
        let acted = rules.tick(clock.ms(self.step), &nodes, &atoms);
        check_receiving(rules, &nodes);
        let word = rules.wished().clone();
        acted.iter().for_each(check_readings);
        self.check_words(word.clone());
        for acted in &acted {
            self.note(acted, word.epoch);
        }
    }

    /// Counts what was done, and looks at the time since the rule did something before.
    fn note(&mut self, acted: &Acted, epoch: u64) {
        let by = self.nodes.iter().filter(|node| node.name.starts_with('r')).count().div_ceil(5);
        for done in &acted.done {
            match done {
                Done::Woken(nodes) => self.tally.woken += nodes.len(),
                Done::Drained(nodes) => self.tally.drained += nodes.len(),
                Done::Wished(_) => self.tally.wished += 1,
                _ => {}
            }
            let (Done::Woken(nodes) | Done::Drained(nodes)) = done else { continue };
            assert!((1..=by).contains(&nodes.len()), "{acted:?}");
            // What a director decides that lives on beside a newer one is heeded by no node that has heard the newer one.
            if epoch == self.newest_epoch {
                self.check_pace(&acted.decision.rule, epoch);
            }
        }
    }

    /// No rule over pools does something twice within its cooldown, nor more often than its limit; also not by two
    /// directors, if the second has heard the last word of the first.
    fn check_pace(&mut self, rule: &str, epoch: u64) {
        let of_rule = || self.firings.iter().filter(|firing| firing.rule == rule);
        let cooldown_ms = if rule == "more" { MORE_COOLDOWN_MS } else { LESS_COOLDOWN_MS };
        if let Some(last) = of_rule().next_back() {
            let apart_ms = (self.step - last.step) as u64 * STEP_MS;
            let is_excused = last.epoch != epoch && (self.unheard.contains(&epoch) || last.epoch > epoch);
            assert!(
                is_excused || apart_ms * 103 / 100 >= cooldown_ms,
                "{rule} after {apart_ms} ms in epochs {} and {epoch}",
                last.epoch
            );
        }
        // The director of each epoch from then on has heard the last word of the one before.
        let is_known = |of: u64| of <= epoch && !self.unheard.iter().any(|unheard| of < *unheard && *unheard <= epoch);
        let lately = of_rule().filter(|firing| is_known(firing.epoch) && self.step - firing.step < 115).count();
        assert!(rule != "more" || lately < 3, "{rule} is limited to 3 in 120 s");
        self.firings.push(Firing { rule: rule.to_owned(), epoch, step: self.step });
    }

    /// Of one epoch and number there is one word, and of one epoch one director.
    fn check_words(&mut self, word: Wished) {
        if word.number == 0 {
            return;
        }
        let key = (word.epoch, word.number);
        let known = self.words.entry(key).or_insert_with(|| Rc::new(word.clone()));
        assert_eq!(**known, word, "two words of {key:?}");
        let active = self.directors.iter().filter_map(|director| director.rules.as_ref());
        assert!(active.filter(|rules| rules.wished().epoch == word.epoch).count() <= 1, "epoch {}", word.epoch);
        assert_eq!(Wished::parse(&word.to_text()), Ok(word), "it can be gossiped");
    }

    /// Sessions of the edge switch; none of them again within the cooldown.
    fn switch(&mut self, at: usize) {
        let (step, node) = (self.step, &self.nodes[at]);
        if node.is_dead {
            return;
        }
        let open: Vec<SessionSeen<u64>> = self
            .sessions
            .iter()
            .filter(|(_, (place, _))| *place == at)
            .map(|(key, (_, since))| SessionSeen { key: *key, path: "/v/film".to_owned(), is_taken: since.is_some() })
            .collect();
        let (rules, clock) = &mut self.edge[at];
        let mut nodes = node.ears.nodes(&self.nodes, step, *clock);
        // It knows itself at once.
        let own = NodeReading { number: node.number, cpu_percent: node.cpu, ..NodeReading::default() };
        (nodes[at].reading, nodes[at].age_ms, nodes[at].is_up) = (Some(own), 0, true);
        let switches = rules.tick(clock.ms(step), &nodes, &[], &open);
        assert!(switches.len() <= SWITCHES_MAX.min(open.len().div_ceil(4).max(1)), "{} at once", switches.len());
        for switch in switches {
            let to = self.nodes.iter().position(|node| node.name == switch.to).expect("a node");
            assert!(to != at && to < EDGE, "to {}", switch.to);
            let fails = self.choice.below(4) == 0;
            let what = if fails { Switched::Failed } else { Switched::Moved };
            let (rules, clock) = &mut self.edge[at];
            rules.switched(&switch.key, what, clock.ms(step));
            if fails {
                continue;
            }
            let (place, since) = self.sessions.get_mut(&switch.key).expect("it is there");
            let rested_ms = since.map_or(u64::MAX, |since| (step - since) as u64 * STEP_MS);
            assert!(
                rested_ms.saturating_mul(103) / 100 >= AWAY_COOLDOWN_MS,
                "session {} after {rested_ms} ms",
                switch.key
            );
            (*place, *since) = (to, Some(step));
            self.tally.switched += 1;
        }
    }

    /// In the end one director is active, all nodes follow its last word, none drains, and the reserve sleeps.
    fn check_all_agree(&self) {
        let active: Vec<&DirectorRules> =
            self.directors.iter().filter_map(|director| director.rules.as_ref()).collect();
        assert_eq!(active.len(), 1, "directors that are active");
        let word = active[0].wished();
        for node in self.nodes.iter().filter(|node| node.name.starts_with('r')) {
            let heeded = (node.word.epoch, node.word.number);
            assert_eq!(heeded, (word.epoch, word.number), "{}", node.name);
            assert_eq!(node.state, NodeState::Asleep, "{} of {:?}", node.name, word.awake);
        }
    }
}

/// No node gets connections that is told to sleep, or that drains as far as is heard.
fn check_receiving(rules: &DirectorRules, nodes: &[NodeSeen<'_>]) {
    let word = rules.wished();
    for node in nodes.iter().filter(|node| node.name.starts_with('r') && rules.receives(node)) {
        assert!(node.heeded.is_none_or(|heeded| heeded.state != NodeState::Draining), "{} drains", node.name);
        assert!(word.number == 0 || word.awake[node.name], "{} is told to sleep", node.name);
    }
}

/// No rule fires on a reading that is older than its validity.
fn check_readings(acted: &Acted) {
    for cited in acted.decision.readings.iter().filter(|_| acted.decision.outcome == Outcome::Fired) {
        let valid_ms = if cited.test.contains("@atom") { 45_000 } else { 5_000 };
        assert!(cited.value.is_some() && cited.age_ms <= valid_ms, "{cited:?}");
    }
}

impl Ears {
    fn of(members: usize) -> Self {
        Self((0..members).map(|_| None).collect())
    }

    fn newest_epoch(&self) -> u64 {
        let heard = self.0.iter().flatten();
        let epochs = heard.flat_map(|(said, _)| {
            let heeded = said.heeded.map(|heeded| heeded.epoch);
            heeded.into_iter().chain(said.word.as_ref().map(|word| word.epoch))
        });
        epochs.max().unwrap_or(0)
    }

    fn newest_word(&self) -> Option<(Rc<Wished>, usize)> {
        let words = self.0.iter().take(DIRECTORS).flatten();
        let words = words.filter_map(|(said, came)| Some((said.word.clone()?, *came)));
        words.max_by_key(|(word, _)| (word.epoch, word.number))
    }

    fn nodes<'n>(&self, nodes: &'n [Node], step: usize, clock: Clock) -> Vec<NodeSeen<'n>> {
        let seen = |(node, heard): (&'n Node, &Option<(Said, usize)>)| {
            let age = heard.as_ref().map_or(usize::MAX, |(_, came)| step - came);
            NodeSeen {
                name: &node.name,
                is_up: age <= GONE,
                is_drained: false,
                reading: heard.as_ref().and_then(|(said, _)| said.reading),
                age_ms: if age == usize::MAX { 0 } else { clock.span_ms(age) },
                heeded: heard.as_ref().and_then(|(said, _)| said.heeded),
            }
        };
        nodes.iter().zip(&self.0[DIRECTORS..]).map(seen).collect()
    }
}

impl Node {
    /// One that was dead knows nothing any more.
    fn revive(&mut self) {
        if self.is_dead {
            self.is_dead = false;
            (self.word, self.state) = (Rc::default(), NodeState::Awake);
            self.ears.0.iter_mut().for_each(|heard| *heard = None);
        }
    }
}

fn atom(number: u64) -> String {
    format!("/a/{number}")
}

fn push(history: &mut VecDeque<Said>, said: Said) {
    history.push_back(said);
    if history.len() > KEPT {
        history.pop_front();
    }
}

/// A number that is the same for the same ones.
fn mixed(one: u64, two: u64, three: u64) -> u64 {
    Choice::from_seed(one ^ two.wrapping_mul(0x9e37_79b9) ^ three.wrapping_mul(0x85eb_ca6b_0000_0001)).next_u64()
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// `WEIR_SIM_NODES`, `WEIR_SIM_SEEDS` and `WEIR_SIM_PATHS` say how much is simulated, `WEIR_SEED` repeats one run.
#[test]
fn directors_and_nodes_decide_alike_through_faults() {
    let (nodes, seeds) = (number("WEIR_SIM_NODES", 100) as usize, number("WEIR_SIM_SEEDS", 3));
    let is_repeated = std::env::var_os(weir_testkit::seeded::SEED_VARIABLE).is_some();
    let mut all = Tally::default();
    for _ in 0..if is_repeated { 1 } else { seeds } {
        let one = World::new(Choice::from_environment(), nodes).run();
        all.woken += one.woken;
        all.drained += one.drained;
        all.wished += one.wished;
        all.switched += one.switched;
        all.takeovers += one.takeovers;
        all.rivals += one.rivals;
    }
    eprintln!("{nodes} nodes, {seeds} seeds: {all:?}");
    if !is_repeated {
        let counts = [all.woken, all.drained, all.wished, all.switched, all.takeovers];
        assert!(counts.iter().all(|count| *count > 0), "{all:?}");
    }
}
