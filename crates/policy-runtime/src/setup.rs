//! How rules are used at a node, and why a policy may not fit there.

use std::time::Duration;
use thiserror::Error;
use weir_adapt::forecast::Method;
use weir_adapt::{Engine, Policy};

/// How rules are used.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The name that policies have for this node.
    pub here: String,
    /// From one look at the rules to the next; 10 ms at least.
    pub tick: Duration,
    /// How forecasts are made.
    pub method: Method,
    /// Whether what rules are told is written down.
    pub is_recorded: bool,
    /// From one judgement of what the requests are, a crowd or an attack, to the next.
    pub judge_every: Duration,
    /// Whether the server can have more loops, which stand for the nodes of pools.
    pub has_reserve: bool,
}

/// Why a policy cannot be used at one node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetupError {
    /// A rule serves sessions at other nodes.
    #[error("{file}:{line}: {}; {}", self.what(), self.remedy())]
    Elsewhere {
        /// The policy's file.
        file: String,
        /// The rule's line.
        line: usize,
        /// The rule's name.
        rule: String,
        /// This node.
        here: String,
    },
    /// A rule asks for more copies or nodes.
    #[error("{file}:{line}: {}; {}", self.what(), self.remedy())]
    NoReserve {
        /// The policy's file.
        file: String,
        /// The rule's line.
        line: usize,
        /// The rule's name.
        rule: String,
    },
}

impl SetupError {
    /// The line of the rule, from 1.
    pub fn line(&self) -> usize {
        let (Self::Elsewhere { line, .. } | Self::NoReserve { line, .. }) = self;
        *line
    }

    /// What is wrong with it.
    pub fn what(&self) -> String {
        match self {
            Self::Elsewhere { rule, here, .. } => {
                format!("rule `{rule}` serves sessions at other nodes than `{here}`, and there is one node")
            }
            Self::NoReserve { rule, .. } => {
                format!("rule `{rule}` asks for more copies or nodes, and this server has no loops in reserve")
            }
        }
    }

    /// What would be right.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Elsewhere { .. } => {
                "use variants of this one (`use`, `next`), or give the rule to a cluster (weir cluster rules)"
            }
            Self::NoReserve { .. } => {
                "give it some (--reserve-loops, or reserve_loops in its configuration), or give the rule to a cluster (weir cluster rules)"
            }
        }
    }
}

impl Setup {
    pub(crate) fn tick_ms(&self) -> u64 {
        u64::try_from(self.tick.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// The rules as they are used here.
    ///
    /// # Errors
    /// The first rule that one node cannot carry out.
    pub fn engine(&self, policy: Policy) -> Result<Engine, SetupError> {
        if let Some(weir_adapt::Elsewhere { rule, line }) = policy.elsewhere(&self.here).into_iter().next() {
            let (file, here) = (policy.file().to_owned(), self.here.clone());
            return Err(SetupError::Elsewhere { file, line, rule, here });
        }
        if let Some(weir_adapt::Elsewhere { rule, line }) = policy.asks_for_nodes().into_iter().next()
            && !self.has_reserve
        {
            return Err(SetupError::NoReserve { file: policy.file().to_owned(), line, rule });
        }
        Ok(Engine::new(policy, &self.here, self.method))
    }
}
