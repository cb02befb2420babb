//! What was decided, by which rule, on which readings.

use crate::reading::Resource;
use crate::series::Unknown;
use crate::show_ms;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A decision, or a firing that was not one. Those that were not are told when the reason changes, not at each tick.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Counted from 1.
    pub number: u64,
    /// When, in milliseconds of the clock of ticks.
    pub at_ms: u64,
    /// The rule's name.
    pub rule: String,
    /// The file of the rule.
    pub file: String,
    /// The line of the rule, from 1.
    pub line: usize,
    /// For whom.
    pub subject: Subject,
    /// What became of it.
    pub outcome: Outcome,
    /// What is to be done: of a firing; of a release what was done and may end now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<Order>,
    /// The readings that it was decided on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Cited>,
}

/// For whom a decision is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// All atoms of a pattern together.
    Atoms(String),
    /// One atom, by its path.
    Atom(String),
    /// One session.
    Session {
        /// The number that it was begun with.
        number: u64,
        /// The path of its atom.
        atom: String,
    },
    /// What one client asks for of the atoms of a pattern.
    Client {
        /// The client's name: its address, of IPv6 its network of 64 bits.
        client: String,
        /// The pattern.
        atoms: String,
    },
}

/// What became of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// It fired: the orders are to be carried out.
    Fired,
    /// It was active and is no longer: the effects of its orders may be undone where that makes sense.
    Released,
    /// It was active until a rule of higher priority took its place. The orders are those that the other rule does not
    /// replace; their effects may be undone.
    Superseded,
    /// Not fired: a test is neither true nor false.
    Unknown {
        /// The metric that is not known.
        metric: String,
        /// Why not.
        #[serde(flatten)]
        why: Unknown,
    },
    /// Not fired: a rule of higher priority, or an earlier one, has decided the same.
    Outranked,
    /// Not fired: it fired as often as its `limit` allows.
    Limited,
    /// Not fired: it fired, or was released, less than its `cooldown` ago.
    Cooling,
}

impl Outcome {
    /// Whether something is to be done.
    pub fn is_fired(&self) -> bool {
        *self == Self::Fired
    }
}

/// Something that the controller of the server is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Order {
    /// Serve the session at this node.
    Place {
        /// The node's name.
        node: String,
        /// The variant to go on with there, if it is to be another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        variant: Option<String>,
    },
    /// Go on with this variant.
    Use {
        /// Its name.
        variant: String,
    },
    /// Have so many copies of the atoms.
    Replicate {
        /// How many, the first one counted.
        copies: u32,
        /// On nodes of this pool.
        pool: String,
    },
    /// Let nodes of this pool serve the atoms, too.
    Spread {
        /// The pool's name.
        pool: String,
    },
    /// Use more nodes of a pool.
    Grow {
        /// The pool's name.
        pool: String,
        /// How many more.
        by: u32,
    },
    /// Use fewer nodes of a pool.
    Shrink {
        /// The pool's name.
        pool: String,
        /// How many fewer.
        by: u32,
    },
    /// Have so many workers run of each upstream of a pool.
    Workers {
        /// The pool's name.
        pool: String,
        /// How many.
        workers: u32,
    },
    /// Refuse a share of the requests.
    Shed {
        /// The share, in percent.
        percent: f64,
    },
    /// Answer with what is there already, even where it is not what the files hold now.
    Stale {
        /// How old an answer may be, in milliseconds.
        age_ms_max: u64,
    },
    /// Alert people.
    Alert {
        /// What.
        text: String,
    },
}

/// A test with what was known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cited {
    /// The test as the policy has it.
    pub test: String,
    /// What is measured.
    pub resource: Resource,
    /// The value, in the unit of the resource; `None` where it is not known.
    pub value: Option<f64>,
    /// The age of the oldest of the latest readings that it was made of, in milliseconds.
    pub age_ms: u64,
    /// How many readings it was made of.
    pub readings: usize,
    /// Of a forecast: how well it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<f64>,
    /// Of a forecast: the mean size of the errors of earlier ones, in the unit of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Whether the test was true.
    pub held: bool,
}

impl fmt::Display for Decision {
    /// In one line: the rule, for whom, what became of it, and on which readings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{}) for {} {}", self.rule, self.file, self.line, self.subject, self.outcome)?;
        for (number, order) in self.orders.iter().enumerate() {
            write!(f, "{} {order}", if number == 0 { ":" } else { "," })?;
        }
        self.readings.iter().try_for_each(|cited| write!(f, "; {cited}"))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Atoms(glob) => write!(f, "{glob}"),
            Self::Atom(path) => write!(f, "{path}"),
            Self::Session { number, atom } => write!(f, "{atom} session {number}"),
            Self::Client { client, atoms } => write!(f, "{atoms} client {client}"),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place { node, variant: None } => write!(f, "serve at {node}"),
            Self::Place { node, variant: Some(variant) } => write!(f, "serve {variant} at {node}"),
            Self::Use { variant } => write!(f, "use {variant}"),
            Self::Replicate { copies, pool } => write!(f, "replicate to {copies} on {pool}"),
            Self::Spread { pool } => write!(f, "spread over {pool}"),
            Self::Grow { pool, by } => write!(f, "grow {pool} by {by}"),
            Self::Shrink { pool, by } => write!(f, "shrink {pool} by {by}"),
            Self::Workers { pool, workers } => write!(f, "workers {workers} of {pool}"),
            Self::Shed { percent } => write!(f, "shed {percent}%"),
            Self::Stale { age_ms_max } => write!(f, "stale {}", show_ms(*age_ms_max)),
            Self::Alert { text } => write!(f, "alert \"{text}\""),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "there is no reading"),
            Self::Stale { age_ms } => write!(f, "the latest reading is {} old", show_ms(*age_ms)),
            Self::Short { seen_ms, asked_ms } => {
                write!(f, "readings go back {} of {}", show_ms(*seen_ms), show_ms(*asked_ms))
            }
            Self::Unfit { fit, asked } => write!(f, "the forecast fits with {fit:.2}, not {asked}"),
            Self::NoForecast => write!(f, "there are too few readings for a forecast"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fired => write!(f, "fired"),
            Self::Released => write!(f, "released"),
            Self::Superseded => write!(f, "superseded by a rule of higher priority"),
            Self::Unknown { metric, why } => write!(f, "not fired, because {metric} is unknown: {why}"),
            Self::Outranked => write!(f, "not fired, because another rule comes first"),
            Self::Limited => write!(f, "not fired, because of its limit"),
            Self::Cooling => write!(f, "not fired, because of its cooldown"),
        }
    }
}

impl fmt::Display for Cited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dimension = self.resource.dimension();
        match self.value {
            None => write!(f, "{}: unknown", self.test)?,
            Some(value) => write!(f, "{}: {}", self.test, dimension.show(value))?,
        }
        if let Some(fit) = self.fit {
            write!(f, ", fit {fit:.2}")?;
        }
        if let Some(error) = self.error {
            write!(f, ", so far {} wrong", dimension.show(error))?;
        }
        if self.value.is_some() && self.age_ms > 0 { write!(f, ", {} old", show_ms(self.age_ms)) } else { Ok(()) }
    }
}
