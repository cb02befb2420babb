//! What is measured: resources, whose they are, and single readings of them.

use crate::language::Dimension;
use serde::{Deserialize, Serialize};

/// Something that is measured, by the name that policies have for it.
///
/// The sources: the server's counts of an upstream, which is a node by its name, its `queue`, `wait`, `service`, `active`,
/// `rate` and `errors`; the monitor of a node its `cpu`, `mem`, `queue`, `wait`, `rate`, `errors` and `active` (those of other
/// nodes come by the environment database); the server's count of an atom's requests `rate`, `errors` and `active` of
/// atoms, its timestamps of what these waited for `wait` and `queue`; its look at a client's socket `bandwidth` and
/// `rtt` of sessions, its count of a client's requests `rate` of clients. A new client has no reading, except a prior
/// of its link, which the server takes from the client's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Share of the node's CPUs that is in use, 0 to 100 %.
    Cpu,
    /// Memory in use, in bytes: `mem` with a unit of bytes.
    Mem,
    /// Memory in use, 0 to 100 % of the node's: `mem` with `%`.
    MemShare,
    /// Requests that wait, in jobs.
    Queue,
    /// Time that a request waits for a resource, in seconds.
    Wait,
    /// Acknowledged bits over the time in which data was queued, in bits a second.
    Bandwidth,
    /// Round-trip time, in seconds.
    Rtt,
    /// Requests a second.
    Rate,
    /// Failed requests a second: `errors` with `rps`.
    Errors,
    /// Share of requests that fail, 0 to 100 %: `errors` with `%`.
    ErrorShare,
    /// Requests that are being answered, in jobs.
    Active,
    /// Time that answering a request takes once it has its turn, in seconds: of upstreams.
    Service,
}

/// Where a resource is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Where {
    /// At a node: `@here`, `@all`, a pool or a node by its name.
    Node,
    /// At an atom: `@atom`.
    Atom,
    /// At a client's session, which is a connection of it: `bandwidth@client` and `rtt@client`.
    Session,
    /// At a client, over all its connections: `rate@client`.
    Client,
}

impl Where {
    /// All of them, in the order of their declaration.
    pub(crate) const ALL: [Self; 4] = [Self::Node, Self::Atom, Self::Session, Self::Client];
}

impl Resource {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 12] = [
        Self::Cpu,
        Self::Mem,
        Self::MemShare,
        Self::Queue,
        Self::Wait,
        Self::Bandwidth,
        Self::Rtt,
        Self::Rate,
        Self::Errors,
        Self::ErrorShare,
        Self::Active,
        Self::Service,
    ];

    /// The words of the language, in the order of the grammar.
    pub(crate) const WORDS: [&'static str; 10] =
        ["cpu", "mem", "queue", "wait", "bandwidth", "rtt", "rate", "errors", "active", "service"];

    /// The word that policies and recorded readings have for it; `mem` and `errors` stand for two each.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Mem | Self::MemShare => "mem",
            Self::Queue => "queue",
            Self::Wait => "wait",
            Self::Bandwidth => "bandwidth",
            Self::Rtt => "rtt",
            Self::Rate => "rate",
            Self::Errors | Self::ErrorShare => "errors",
            Self::Active => "active",
            Self::Service => "service",
        }
    }

    /// What its values measure.
    pub fn dimension(self) -> Dimension {
        match self {
            Self::Cpu | Self::MemShare | Self::ErrorShare => Dimension::Share,
            Self::Mem => Dimension::Bytes,
            Self::Queue | Self::Active => Dimension::Jobs,
            Self::Wait | Self::Rtt | Self::Service => Dimension::Time,
            Self::Bandwidth => Dimension::Bandwidth,
            Self::Rate | Self::Errors => Dimension::Rate,
        }
    }

    /// The resource of a word with the dimension of its value; `None` where they do not go together.
    pub fn of(word: &str, dimension: Dimension) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| resource.name() == word && resource.dimension() == dimension)
    }

    /// The resource by which `best by WORD` compares: of `mem` and `errors` the share.
    pub(crate) fn to_compare(word: &str) -> Option<Self> {
        let of_the_word = || Self::ALL.into_iter().filter(|resource| resource.name() == word);
        of_the_word().find(|resource| resource.dimension() == Dimension::Share).or_else(|| of_the_word().next())
    }

    /// The largest value that there is.
    pub(crate) fn most(self) -> f64 {
        if self.dimension() == Dimension::Share { 100.0 } else { f64::INFINITY }
    }

    /// Whether it is measured there.
    pub fn is_measured(self, place: Where) -> bool {
        match place {
            Where::Node => !matches!(self, Self::Rtt),
            Where::Atom => {
                matches!(self, Self::Queue | Self::Wait | Self::Rate | Self::Errors | Self::ErrorShare | Self::Active)
            }
            Where::Session => matches!(self, Self::Bandwidth | Self::Rtt),
            Where::Client => self == Self::Rate,
        }
    }

    /// Where it is measured when a policy says `@client`.
    pub(crate) fn place_at_clients(self) -> Where {
        if self.is_measured(Where::Client) { Where::Client } else { Where::Session }
    }

    /// Where it is measured when a policy does not say so.
    pub(crate) fn usual_place(self) -> Where {
        match self {
            Self::Bandwidth | Self::Rtt => Where::Session,
            Self::Rate | Self::Errors | Self::ErrorShare => Where::Atom,
            _ => Where::Node,
        }
    }

    /// Whether nodes together have the sum of their values, not the mean.
    pub(crate) fn adds_up(self) -> bool {
        matches!(self, Self::Rate | Self::Errors | Self::Active)
    }

    /// Whether more of it is better.
    pub(crate) fn more_is_better(self) -> bool {
        self == Self::Bandwidth
    }

    /// Its place in [`Resource::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// A node, as [`crate::Engine::node`] numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub(crate) u32);

/// An atom, as [`crate::Engine::atom`] numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AtomId(pub(crate) u32);

/// A client, as [`crate::Engine::client`] numbers them: no number is given to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub(crate) u64);

/// What a reading is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Of {
    /// A node.
    Node(NodeId),
    /// An atom.
    Atom(AtomId),
    /// A session, by the number that the caller of [`crate::Engine::begin`] gave it.
    Session(u64),
    /// A client.
    Client(ClientId),
}

/// A measured value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// What was measured.
    pub resource: Resource,
    /// Its subject.
    pub of: Of,
    /// The value, in the unit of the resource's dimension; finite and not negative.
    pub value: f64,
    /// When it was measured, in milliseconds of the clock that ticks are told by.
    pub at_ms: u64,
    /// How long it holds, in milliseconds: older than that it is stale, and no rule fires for it.
    pub valid_ms: u64,
}
