//! A checked policy, compiled: names are numbers, and each rule knows for whom it is looked at.

use crate::check::{self, Level, Variants, level, scope};
use crate::glob::Glob;
use crate::language::interval::Interval;
use crate::language::mistake::Findings;
use crate::language::syntax::{self, ActKind, Aggregate, Condition, Name, Predicted, Source, Target, When};
use crate::reading::{NodeId, Resource, Where};
use rustc_hash::FxHashMap;
use weir_diagnostic::Mistake;

/// A policy that can be used.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) file: String,
    pub(crate) pools: Vec<Pool>,
    /// The names of all nodes of all pools, by their numbers.
    pub(crate) nodes: Vec<String>,
    /// Equal patterns are one block; from the most specific to the least.
    pub(crate) blocks: Vec<Block>,
    /// Each with its number: by priority, then in the order of the file.
    pub(crate) rules: Vec<Rule>,
    pub(crate) metrics: Vec<Metric>,
    /// Rules that are looked at once for all their atoms, in their order.
    pub(crate) own_rules: Vec<usize>,
    /// Blocks with rules for clients, in their order.
    pub(crate) client_blocks: Vec<usize>,
    /// Of the text: a state goes with one policy only.
    pub(crate) fingerprint: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) nodes: Vec<NodeId>,
}

/// What holds for the atoms of one pattern.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) glob: Glob,
    pub(crate) variants: Vec<String>,
    pub(crate) start_rules: Vec<usize>,
    pub(crate) session_rules: Vec<usize>,
    pub(crate) client_rules: Vec<usize>,
    pub(crate) atom_rules: Vec<usize>,
}

impl Block {
    /// Whether some rule is looked at for single atoms, or for sessions of them.
    pub(crate) fn reads_atoms(&self) -> bool {
        !(self.atom_rules.is_empty() && self.session_rules.is_empty())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) priority: i32,
    pub(crate) block: usize,
    pub(crate) level: Level,
    /// Milliseconds from one look to the next; 0 = each tick.
    pub(crate) every_ms: u64,
    pub(crate) branches: Vec<Branch>,
    pub(crate) for_ms: u64,
    pub(crate) until: Option<Test>,
    pub(crate) hold_ms: Option<u64>,
    pub(crate) cooldown_ms: u64,
    pub(crate) limit: Option<(usize, u64)>,
}

impl Rule {
    /// Whether it stays active once it has fired, until it is released.
    pub(crate) fn keeps(&self) -> bool {
        self.until.is_some() || self.hold_ms.is_some()
    }

    /// Whether it is not asked at each tick, or waits at some, and claims what it decided in between.
    pub(crate) fn claims_while_it_waits(&self) -> bool {
        let waits = self.every_ms > 0 || self.for_ms > 0 || self.cooldown_ms > 0 || self.limit.is_some();
        // A start happens once, and its rules remember nothing of one session for the next.
        waits && self.level != Level::Start
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Branch {
    /// `None`: otherwise.
    pub(crate) condition: Option<Test>,
    pub(crate) acts: Vec<Act>,
    pub(crate) classes: Classes,
}

/// What is done, by what it is done to: of a class one rule wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Classes {
    /// Of the session or the atoms: a bit each.
    pub(crate) own: u8,
    /// Of pools: a bit for each.
    pub(crate) pools: u64,
}

impl Classes {
    const PLACE: u8 = 1;
    const VARIANT: u8 = 2;
    const COPIES: u8 = 4;
    const SPREAD: u8 = 8;
    const SHED: u8 = 16;
    const STALE: u8 = 32;

    pub(crate) fn of(act: &Act) -> Self {
        let own = |own| Self { own, pools: 0 };
        match act {
            Act::Place { targets, .. } => {
                let with_variant = targets.iter().any(|target| matches!(target, To::Node { variant: Some(_), .. }));
                own(Self::PLACE | if with_variant { Self::VARIANT } else { 0 })
            }
            Act::Down | Act::Up | Act::Use(_) => own(Self::VARIANT),
            Act::Replicate { .. } => own(Self::COPIES),
            Act::Spread { .. } => own(Self::SPREAD),
            Act::Shed(_) => own(Self::SHED),
            Act::Stale(_) => own(Self::STALE),
            Act::Grow { pool, .. } | Act::Shrink { pool, .. } | Act::Workers { pool, .. } => {
                Self { own: 0, pools: 1 << pool }
            }
            Act::Alert(_) => Self::default(),
        }
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self { own: self.own | other.own, pools: self.pools | other.pools }
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.own & other.own != 0 || self.pools & other.pools != 0
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// To the best of the targets; `select`, `best` and `switch` are this.
    Place {
        by: Resource,
        targets: Vec<To>,
        /// The node on which the session is does not count as one of a pool.
        elsewhere: bool,
    },
    Down,
    Up,
    Use(usize),
    Replicate {
        copies: u32,
        pool: usize,
    },
    Spread {
        pool: usize,
    },
    Grow {
        pool: usize,
        by: u32,
    },
    Shrink {
        pool: usize,
        by: u32,
    },
    Workers {
        pool: usize,
        workers: u32,
    },
    Shed(f64),
    /// So old an answer may be, in milliseconds.
    Stale(u64),
    Alert(String),
}

#[derive(Debug, Clone)]
pub(crate) enum To {
    Node { node: NodeId, variant: Option<usize> },
    AnyOf(usize),
}

/// A condition whose metrics have numbers.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    Any(Vec<Test>),
    All(Vec<Test>),
    Not(Box<Test>),
    Metric { metric: usize, interval: Interval, text: String },
}

#[derive(Debug, Clone)]
pub(crate) struct Metric {
    pub(crate) aggregate: Option<Aggregate>,
    pub(crate) resource: Resource,
    pub(crate) scope: Scope,
    pub(crate) over_ms: Option<u64>,
    pub(crate) predicted: Option<Predicted>,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Here,
    Session,
    Client,
    Atom,
    All,
    Pool(usize),
    Node(NodeId),
}

impl Scope {
    /// Whether it is the same for all sessions, clients and atoms.
    pub(crate) fn is_fixed(self) -> bool {
        !matches!(self, Self::Session | Self::Client | Self::Atom)
    }

    pub(crate) fn place(self) -> Where {
        match self {
            Self::Session => Where::Session,
            Self::Client => Where::Client,
            Self::Atom => Where::Atom,
            _ => Where::Node,
        }
    }
}

impl Metric {
    /// How far back it looks, in milliseconds; 0 = at the latest value only.
    pub(crate) fn window_ms(&self) -> u64 {
        match (self.over_ms, self.predicted) {
            (Some(over), _) => over,
            // What a forecast of some time looks back on, unless it is told.
            (None, Some(predicted)) => 2 * predicted.in_ms,
            (None, None) => 0,
        }
    }
}

impl Policy {
    /// Reads a policy; `file` is what decisions call it. With it come warnings: what is seldom meant.
    ///
    /// # Errors
    /// All mistakes, in the order of the lines.
    pub fn read(file: &str, text: &str) -> Result<(Self, Vec<Mistake>), Vec<Mistake>> {
        let mut findings = Findings::new(text);
        let source = check::read(text, &mut findings);
        if !findings.mistakes.is_empty() {
            return Err(findings.mistakes);
        }
        let compiled = Compiler::new(&source).compile(file, text, &findings);
        Ok((compiled, findings.warnings))
    }

    /// How many rules it has.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Of no other text: by it a recording says under which rules it was made.
    pub fn mark(&self) -> String {
        format!("{:016x}", self.fingerprint)
    }

    /// The names of its rules with their lines, by priority and then in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.rules.iter().map(|rule| (&*rule.name, rule.line))
    }

    /// The block of an atom: of the most specific pattern that fits its path.
    pub(crate) fn block_of(&self, path: &str) -> Option<usize> {
        self.blocks.iter().position(|block| block.glob.fits(path))
    }

    /// The longest window of a metric of this resource at this place; `None` if no rule asks for it there.
    pub(crate) fn window_ms(&self, resource: Resource, place: Where) -> Option<u64> {
        let asked = self.metrics.iter().filter(|metric| metric.resource == resource && metric.scope.place() == place);
        let compared = self.rules.iter().flat_map(|rule| &rule.branches).flat_map(|branch| &branch.acts);
        let compared = compared.filter_map(|act| match act {
            Act::Place { by, .. } if *by == resource && place == Where::Node => Some(0),
            _ => None,
        });
        asked.map(Metric::window_ms).chain(compared).max()
    }
}

/// Gives everything its number; what the checker has accepted leads somewhere.
struct Compiler<'s> {
    source: &'s Source,
    nodes: Vec<String>,
    node_numbers: FxHashMap<String, u32>,
    pools: Vec<Pool>,
    metrics: Vec<Metric>,
    metric_numbers: FxHashMap<String, usize>,
}

impl<'s> Compiler<'s> {
    fn new(source: &'s Source) -> Self {
        let mut compiler = Self {
            source,
            nodes: Vec::new(),
            node_numbers: FxHashMap::default(),
            pools: Vec::new(),
            metrics: Vec::new(),
            metric_numbers: FxHashMap::default(),
        };
        for pool in &source.pools {
            let nodes = pool.nodes.iter().map(|node| compiler.node(&node.text)).collect();
            compiler.pools.push(Pool { name: pool.name.text.clone(), nodes });
        }
        compiler
    }

    fn node(&mut self, name: &str) -> NodeId {
        let next = self.nodes.len() as u32;
        let number = *self.node_numbers.entry(name.to_owned()).or_insert(next);
        if number == next {
            self.nodes.push(name.to_owned());
        }
        NodeId(number)
    }

    fn pool(&self, name: &Name) -> usize {
        self.pools.iter().position(|pool| pool.name == name.text).expect("the checker has looked for it")
    }

    fn compile(mut self, file: &str, text: &str, findings: &Findings<'_>) -> Policy {
        let mut blocks: Vec<Block> = Vec::new();
        let mut block_numbers: FxHashMap<&str, usize> = FxHashMap::default();
        let mut rules = Vec::new();
        let variants = Variants::of_all(self.source);
        for atom in &self.source.atoms {
            let glob = &atom.glob.text;
            let block = *block_numbers.entry(glob).or_insert_with(|| {
                let variants = variants.of(glob).iter().map(|name| name.text.clone()).collect();
                let [start_rules, session_rules, client_rules, atom_rules] = [const { Vec::new() }; 4];
                let glob = Glob::new(glob);
                blocks.push(Block { glob, variants, start_rules, session_rules, client_rules, atom_rules });
                blocks.len() - 1
            });
            for rule in &atom.rules {
                rules.push(self.rule(rule, block, &blocks[block].variants, findings.line(rule.name.at)));
            }
        }
        // Stable, so equal ones stay in the order of the file.
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&block| std::cmp::Reverse(blocks[block].glob.specificity()));
        let mut blocks: Vec<Block> = order.iter().map(|&block| blocks[block].clone()).collect();
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        let mut own_rules = Vec::new();
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &block)| places[block] = place);
        for (number, rule) in rules.iter_mut().enumerate() {
            rule.block = places[rule.block];
            let block = &mut blocks[rule.block];
            match rule.level {
                Level::Start => block.start_rules.push(number),
                Level::Session => block.session_rules.push(number),
                Level::Client => block.client_rules.push(number),
                Level::Atom => block.atom_rules.push(number),
                Level::Block => own_rules.push(number),
            }
        }
        let client_blocks = (0..blocks.len()).filter(|&block| !blocks[block].client_rules.is_empty()).collect();
        let Self { nodes, pools, metrics, .. } = self;
        let fingerprint = text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
        Policy { file: file.to_owned(), pools, nodes, blocks, rules, metrics, own_rules, client_blocks, fingerprint }
    }

    fn rule(&mut self, rule: &syntax::Rule, block: usize, variants: &[String], line: usize) -> Rule {
        let branches = rule.branches.iter().map(|branch| {
            let condition = branch.condition.as_ref().map(|condition| self.test(condition));
            let acts: Vec<Act> = branch.acts.iter().map(|act| self.act(&act.kind, variants)).collect();
            let classes = acts.iter().map(Classes::of).fold(Classes::default(), Classes::with);
            Branch { condition, acts, classes }
        });
        let branches = branches.collect();
        let stability = &rule.stability;
        Rule {
            name: rule.name.text.clone(),
            line,
            priority: rule.priority,
            block,
            level: level(rule),
            every_ms: if let When::Every(every_ms) = rule.when { every_ms } else { 0 },
            branches,
            for_ms: stability.for_ms.unwrap_or(0),
            until: stability.until.as_ref().map(|until| self.test(until)),
            hold_ms: stability.hold_ms,
            cooldown_ms: stability.cooldown_ms.unwrap_or(0),
            limit: stability.limit.map(|(times, per_ms)| (times as usize, per_ms)),
        }
    }

    fn test(&mut self, condition: &Condition) -> Test {
        match condition {
            Condition::Any(parts) => Test::Any(parts.iter().map(|part| self.test(part)).collect()),
            Condition::All(parts) => Test::All(parts.iter().map(|part| self.test(part)).collect()),
            Condition::Not(inner) => Test::Not(Box::new(self.test(inner))),
            Condition::Test(test) => {
                let (metric, text) = (self.metric(&test.metric), test.text.clone());
                Test::Metric { metric, interval: test.interval, text }
            }
        }
    }

    /// The same metric of several rules is computed once.
    fn metric(&mut self, metric: &syntax::Metric) -> usize {
        let key = format!("{:?} {}", metric.resource, metric.text);
        if let Some(number) = self.metric_numbers.get(&key) {
            return *number;
        }
        let scope = match metric.scope.as_ref().map(|scope| &*scope.text) {
            Some("here") => Scope::Here,
            Some("all") => Scope::All,
            Some(name) if !matches!(name, "client" | "atom") => {
                match self.pools.iter().position(|pool| pool.name == name) {
                    Some(pool) => Scope::Pool(pool),
                    None => Scope::Node(self.node(name)),
                }
            }
            _ => match scope(metric) {
                Where::Session => Scope::Session,
                Where::Client => Scope::Client,
                Where::Atom => Scope::Atom,
                Where::Node => Scope::Here,
            },
        };
        let syntax::Metric { aggregate, resource, over_ms, predicted, text, .. } = metric.clone();
        self.metrics.push(Metric { aggregate, resource, scope, over_ms, predicted, text });
        self.metric_numbers.insert(key, self.metrics.len() - 1);
        self.metrics.len() - 1
    }

    fn act(&mut self, kind: &ActKind, variants: &[String]) -> Act {
        let variant = |name: &Name| variants.iter().position(|known| *known == name.text);
        let mut to = |target: &Target| match target {
            Target::Node { node, variant: named } => {
                To::Node { node: self.node(&node.text), variant: named.as_ref().and_then(variant) }
            }
            Target::AnyOf(pool) => To::AnyOf(self.pool(pool)),
        };
        match kind {
            ActKind::Best { by, targets } => {
                Act::Place { by: *by, targets: targets.iter().map(&mut to).collect(), elsewhere: false }
            }
            ActKind::Switch(target) => Act::Place { by: Resource::Cpu, targets: vec![to(target)], elsewhere: true },
            ActKind::NextDown => Act::Down,
            ActKind::NextUp => Act::Up,
            ActKind::Use(name) => Act::Use(variant(name).expect("the checker has looked for it")),
            ActKind::Replicate { copies, pool } => Act::Replicate { copies: *copies, pool: self.pool(pool) },
            ActKind::Spread(pool) => Act::Spread { pool: self.pool(pool) },
            ActKind::Grow { pool, by } => Act::Grow { pool: self.pool(pool), by: *by },
            ActKind::Shrink { pool, by } => Act::Shrink { pool: self.pool(pool), by: *by },
            ActKind::Workers { pool, workers } => Act::Workers { pool: self.pool(pool), workers: *workers },
            ActKind::Shed(share) => Act::Shed(*share),
            ActKind::Stale(age_ms_max) => Act::Stale(*age_ms_max),
            ActKind::Alert(text) => Act::Alert(text.clone()),
        }
    }
}

/// A step of FNV-1a.
fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_pattern_counts_and_equal_ones_merge() {
        let text = "atom \"/**\" { rule a: every 5s if cpu > 50% then shed 5%; }\n\
                    atom \"/v/*\" { rule b: every 5s if cpu > 50% then shed 5%; }\n\
                    atom \"/v/*\" { rule c priority 2: every 5s if cpu > 50% then shed 5%; }\n";
        let (policy, _) = Policy::read("x.policy", text).expect("well-formed");
        let globs: Vec<&str> = policy.blocks.iter().map(|block| block.glob.text()).collect();
        assert_eq!(globs, ["/v/*", "/**"]);
        assert_eq!((policy.block_of("/v/a"), policy.block_of("/w")), (Some(0), Some(1)));
        let rules: Vec<_> = policy.rules.iter().map(|rule| (&*rule.name, rule.block, rule.line)).collect();
        assert_eq!(rules, [("c", 0, 3), ("a", 1, 1), ("b", 0, 2)]);
        // The metric of all three is one.
        assert_eq!(policy.metrics.len(), 1);
    }
}
