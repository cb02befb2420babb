//! A policy as it is written: what the parser makes and the checker looks at.

use super::interval::Interval;
use crate::reading::Resource;

/// A word with the byte where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) at: usize,
}

// Where a word stands is no part of what it says.
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Source {
    pub(crate) pools: Vec<Pool>,
    pub(crate) atoms: Vec<Atom>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pool {
    pub(crate) name: Name,
    pub(crate) nodes: Vec<Name>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Atom {
    pub(crate) glob: Name,
    /// From the best to the smallest.
    pub(crate) variants: Vec<Name>,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub(crate) name: Name,
    pub(crate) priority: i32,
    pub(crate) when: When,
    pub(crate) branches: Vec<Branch>,
    pub(crate) stability: Stability,
}

/// When a rule is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Once, as a request or session starts.
    Start,
    /// At each tick.
    During,
    /// Each so many milliseconds.
    Every(u64),
}

/// `if … then …`; without a condition `else`, or a `select`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Branch {
    pub(crate) condition: Option<Condition>,
    pub(crate) acts: Vec<Act>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    Any(Vec<Condition>),
    All(Vec<Condition>),
    Not(Box<Condition>),
    Test(Test),
}

impl Condition {
    /// Each of its tests.
    pub(crate) fn each(&self, look: &mut impl FnMut(&Test)) {
        match self {
            Self::Any(parts) | Self::All(parts) => parts.iter().for_each(|part| part.each(look)),
            Self::Not(part) => part.each(look),
            Self::Test(test) => look(test),
        }
    }
}

/// A metric that lies within an interval.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    pub(crate) metric: Metric,
    pub(crate) interval: Interval,
    pub(crate) at: usize,
    /// As it is written, in one line.
    pub(crate) text: String,
}

impl PartialEq for Test {
    fn eq(&self, other: &Self) -> bool {
        self.metric == other.metric && self.interval == other.interval
    }
}

/// What of several values counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Aggregate {
    Avg,
    Max,
    Min,
    P95,
    P99,
}

impl Aggregate {
    pub(crate) const WORDS: [(&'static str, Self); 5] =
        [("avg", Self::Avg), ("max", Self::Max), ("min", Self::Min), ("p95", Self::P95), ("p99", Self::P99)];
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Metric {
    pub(crate) aggregate: Option<Aggregate>,
    pub(crate) resource: Resource,
    pub(crate) scope: Option<Name>,
    pub(crate) over_ms: Option<u64>,
    pub(crate) predicted: Option<Predicted>,
    /// As it is written, in one line.
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Predicted {
    pub(crate) in_ms: u64,
    /// The least R2 at which the forecast counts.
    pub(crate) fit: Option<f64>,
}

/// One thing to do, with where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) kind: ActKind,
    pub(crate) at: usize,
}

impl PartialEq for Act {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ActKind {
    Best {
        by: Resource,
        targets: Vec<Target>,
    },
    Switch(Target),
    NextDown,
    NextUp,
    Use(Name),
    Replicate {
        copies: u32,
        pool: Name,
    },
    Spread(Name),
    Grow {
        pool: Name,
        by: u32,
    },
    Shrink {
        pool: Name,
        by: u32,
    },
    /// So many workers of an application, of each upstream of a pool.
    Workers {
        workers: u32,
        pool: Name,
    },
    Shed(f64),
    /// So old an answer may be, in milliseconds.
    Stale(u64),
    Alert(String),
}

impl ActKind {
    /// Its first word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Best { .. } => "best",
            Self::Switch(_) => "switch",
            Self::NextDown => "next down",
            Self::NextUp => "next up",
            Self::Use(_) => "use",
            Self::Replicate { .. } => "replicate",
            Self::Spread(_) => "spread",
            Self::Grow { .. } => "grow",
            Self::Shrink { .. } => "shrink",
            Self::Workers { .. } => "workers",
            Self::Shed(_) => "shed",
            Self::Stale(_) => "stale",
            Self::Alert(_) => "alert",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    /// A node, and the variant to use there.
    Node { node: Name, variant: Option<Name> },
    /// Any node of a pool.
    AnyOf(Name),
}

/// What keeps a rule from acting too soon, too long or too often.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Stability {
    pub(crate) for_ms: Option<u64>,
    pub(crate) until: Option<Condition>,
    pub(crate) hold_ms: Option<u64>,
    pub(crate) cooldown_ms: Option<u64>,
    /// So many firings within so many milliseconds.
    pub(crate) limit: Option<(u32, u64)>,
    /// Where each stands: `for`, `until`, `hold`, `cooldown`, `limit`.
    pub(crate) places: StabilityPlaces,
}

/// Where a rule's clauses stand.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StabilityPlaces(pub(crate) [Option<usize>; 5]);

// Where a clause stands is no part of what it says.
impl PartialEq for StabilityPlaces {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl StabilityPlaces {
    pub(crate) const WORDS: [&'static str; 5] = ["for", "until", "hold", "cooldown", "limit"];
}
