//! What lies where, and which of the nodes that have it serves a request.

use crate::Lard;
use std::fmt;
use std::str::FromStr;

/// How objects are divided among nodes, each to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partition {
    /// By chance.
    Random,
    /// In turn, in the order in which they were first asked for.
    RoundRobin,
    /// The one with the most work first, each to the node that has the least work so far (longest processing time first;
    /// Graham 1969, "Bounds on Multiprocessing Timing Anomalies").
    Balanced,
}

/// Which objects come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopOrder {
    /// Those asked for most often.
    Requests,
    /// Those with the most work for each byte that a replica takes.
    WorkPerByte,
}

impl TopOrder {
    /// What an object is worth, which is asked for so often, causes so much work and takes so many bytes: those with more
    /// come first.
    #[must_use]
    pub fn value(self, requests: f64, work: f64, bytes: u64) -> f64 {
        match self {
            Self::Requests => requests,
            Self::WorkPerByte => work / bytes.max(1) as f64,
        }
    }
}

/// Which of several nodes that have an object serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dispatch {
    /// The one with the fewest requests in it; of equal ones each in turn.
    #[default]
    LeastActive,
    /// Each in turn.
    RoundRobin,
    /// Any.
    Random,
}

/// A policy of placement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Policy {
    /// Everything on every node.
    Full,
    /// Each object on one node.
    Partition(Partition),
    /// The first node has everything, the others a part each.
    HotNode(Partition),
    /// Each object on so many nodes, the first by the partition, the others by chance or behind the first.
    Replicas {
        /// On how many nodes, 1 or more.
        copies: u32,
        /// Where the first copy is.
        by: Partition,
    },
    /// The first objects on several nodes, the others partitioned.
    Top {
        /// The share of the objects that counts as first, 0 to 1.
        share: f64,
        /// On how many nodes these are; `None` = on all.
        copies: Option<u32>,
        /// Which come first.
        order: TopOrder,
        /// Where the others are, and the first copy of the first.
        by: Partition,
    },
    /// Each kind of object on a node of its own, as far as there are nodes.
    ByType,
    /// Locality-aware request distribution.
    Lard(Lard),
    /// Consistent hashing, in which no node has more than `bound` times the mean number of requests, where that is given
    /// (Mirrokni, Thorup and Zadimoghaddam 2018, "Consistent Hashing with Bounded Loads").
    Hash {
        /// Above 1; `None` = no bound.
        bound: Option<f64>,
    },
}

/// What consistent hashing has as its bound where none is said.
const BOUND: f64 = 1.25;

/// Why a text is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no policy: write full, partition, partition-random, partition-round-robin, hot-node, replicas=2, top=12%, top=12%x4, by-type, lard, lard-r, hash or hash-bounded=1.25"
)]
pub struct PolicyError(String);

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let wrong = || PolicyError(text.to_owned());
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let by = Partition::Balanced;
        Ok(match (name, value) {
            ("full", None) => Self::Full,
            ("partition", None) => Self::Partition(by),
            ("partition-random", None) => Self::Partition(Partition::Random),
            ("partition-round-robin", None) => Self::Partition(Partition::RoundRobin),
            ("hot-node", None) => Self::HotNode(by),
            ("replicas", Some(copies)) => Self::Replicas { copies: copies_of(copies).ok_or_else(wrong)?, by },
            ("top", Some(value)) => {
                let (share, copies) = value
                    .split_once("%x")
                    .map_or((value.strip_suffix('%'), None), |(share, copies)| (Some(share), Some(copies)));
                let share: f64 = share.and_then(|share| share.trim().parse().ok()).ok_or_else(wrong)?;
                let copies = copies.map(|copies| copies_of(copies).ok_or_else(wrong)).transpose()?;
                if !(0.0..=100.0).contains(&share) {
                    return Err(wrong());
                }
                Self::Top { share: share / 100.0, copies, order: TopOrder::WorkPerByte, by }
            }
            ("by-type", None) => Self::ByType,
            ("lard", None) => Self::Lard(Lard::default()),
            ("lard-r", None) => Self::Lard(Lard { is_replicated: true, ..Lard::default() }),
            ("hash", None) => Self::Hash { bound: None },
            ("hash-bounded", None) => Self::Hash { bound: Some(BOUND) },
            ("hash-bounded", Some(value)) => {
                let bound = value.parse().ok().filter(|bound| (1.0..=100.0).contains(bound) && *bound > 1.0);
                Self::Hash { bound: Some(bound.ok_or_else(wrong)?) }
            }
            _ => return Err(wrong()),
        })
    }
}

fn copies_of(text: &str) -> Option<u32> {
    text.parse().ok().filter(|copies| (1..=64).contains(copies))
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "-random",
            Self::RoundRobin => "-round-robin",
            Self::Balanced => "",
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Partition(by) => write!(f, "partition{by}"),
            Self::HotNode(by) => write!(f, "hot-node{by}"),
            Self::Replicas { copies, by } => write!(f, "replicas{by}={copies}"),
            Self::Top { share, copies, .. } => {
                let share = format!("{:.2}", share * 100.0);
                write!(f, "top={}%", share.trim_end_matches('0').trim_end_matches('.'))?;
                copies.map_or(Ok(()), |copies| write!(f, "x{copies}"))
            }
            Self::ByType => f.write_str("by-type"),
            Self::Lard(lard) => f.write_str(if lard.is_replicated { "lard-r" } else { "lard" }),
            Self::Hash { bound: None } => f.write_str("hash"),
            Self::Hash { bound: Some(bound) } => write!(f, "hash-bounded={bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn policies_are_read_as_they_are_written() {
        for text in [
            "full",
            "partition",
            "partition-random",
            "partition-round-robin",
            "hot-node",
            "replicas=3",
            "top=12.5%",
            "top=12%x4",
            "by-type",
            "lard",
            "lard-r",
            "hash",
            "hash-bounded=1.5",
        ] {
            assert_eq!(text.parse::<Policy>().expect(text).to_string(), text);
        }
        for bad in [
            "",
            "fully",
            "full=1",
            "replicas",
            "replicas=0",
            "top=12",
            "top=101%",
            "top=1%x0",
            "hash-bounded=1",
            "hash-bounded=NaN",
        ] {
            assert!(bad.parse::<Policy>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_policy_or_refused(text: String) {
            let _ = text.parse::<Policy>();
        }
    }
}
