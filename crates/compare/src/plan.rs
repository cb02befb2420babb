//! What is held against what, how often, and where it runs.
use serde::{Deserialize, Serialize};

use crate::command_line::CommandLine;
use crate::cpus::CpuSet;
use crate::error::PlanError;
use crate::schedule::Side;
use crate::target::Target;

/// A whole experiment as a value: equal plans are carried out in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is compared.
    pub subjects: Subjects,
    /// The loads under which it is compared; at least one.
    pub cases: Vec<Case>,
    /// How often and for how long.
    pub repetitions: Repetitions,
    /// Which CPUs do what.
    pub pinning: Pinning,
    /// How long a server may take until its port answers, in seconds; above 0, at most 3600.
    pub start_timeout_s: f64,
    /// The smallest difference that interests, as a fraction: 0.05 is 5 %; 0 to 10.
    pub smallest_effect: f64,
    /// Seed of the order of the blocks and of the bootstrap.
    pub seed: u64,
    /// How CPU time is counted.
    pub accounting: CpuAccountingChoice,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subjects {
    /// Two servers under the same load command.
    Servers {
        /// The one that is held against.
        a: ServerSpec,
        /// The one that is judged.
        b: ServerSpec,
        /// The load; `{url}`, `{seconds}` and `{connections}` are filled in.
        load: CommandLine,
        /// Start and stop the server for each slice. Without it both stay up, one of them idle;
        /// done in any case when both use one address.
        restart: bool,
    },
    /// One server, with different commands beside it.
    SameServer {
        /// The server.
        server: CommandLine,
        /// What runs beside it in A's slices.
        beside_a: Option<CommandLine>,
        /// What runs beside it in B's slices.
        beside_b: Option<CommandLine>,
        /// The load, as above.
        load: CommandLine,
        /// Start and stop the server for each slice.
        restart: bool,
    },
    /// Two load commands against one server; what is measured is the CPU time of the commands.
    Generators {
        /// The one that is held against; placeholders as in a load.
        a: CommandLine,
        /// The one that is judged.
        b: CommandLine,
        /// The server that both send to.
        server: CommandLine,
    },
}

/// A server under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Started once, or for each slice. Must stay in the foreground.
    pub command: CommandLine,
    /// Runs beside the server during its slices only, such as an observer, and is not counted;
    /// `{pid}` (the server's), `{url}` and `{port}` are filled in.
    pub beside: Option<CommandLine>,
}

/// A load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// For reports.
    pub name: String,
    /// Where A is reached.
    pub url_a: Target,
    /// Where B is reached; equal to `url_a` where there is one server.
    pub url_b: Target,
    /// Connections held open; 1 to 100,000.
    pub connections: u32,
}

/// How often and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repetitions {
    /// Blocks of B against A for each case; 1 to 10,000.
    pub blocks: usize,
    /// Blocks of A against itself for each case; 0 to 10,000.
    pub aa_blocks: usize,
    /// Length of a slice, in seconds; 0.05 to 3600. A block has two.
    pub block_s: f64,
    /// Length of the load before each slice that is not counted, in seconds; 0 to 3600.
    pub warm_up_s: f64,
}

/// Which CPUs do what; `None` leaves it to the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pinning {
    /// The servers' CPUs.
    pub server: Option<CpuSet>,
    /// The load's CPUs.
    pub load: Option<CpuSet>,
    /// The CPUs of what runs beside.
    pub beside: Option<CpuSet>,
}

/// How CPU time is to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuAccountingChoice {
    /// By control groups where they can be made, else by process trees.
    #[default]
    Best,
    /// By process trees, even where control groups could be made.
    ProcessTree,
}

/// Whose CPU time is divided by the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measured {
    Server,
    Generator,
}

impl Plan {
    /// Checks every range that the fields state.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn check(&self) -> Result<(), PlanError> {
        let within = |name: &'static str, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) { Ok(()) } else { Err(PlanError::Range { name, value, low, high }) }
        };
        if self.cases.is_empty() {
            return Err(PlanError::NoCases);
        }
        let repetitions = &self.repetitions;
        within("blocks", repetitions.blocks as f64, 1.0, 10_000.0)?;
        within("A/A blocks", repetitions.aa_blocks as f64, 0.0, 10_000.0)?;
        within("block seconds", repetitions.block_s, 0.05, 3600.0)?;
        within("warm-up seconds", repetitions.warm_up_s, 0.0, 3600.0)?;
        within("start timeout seconds", self.start_timeout_s, 0.001, 3600.0)?;
        within("smallest effect", self.smallest_effect, 0.0, 10.0)?;
        for case in &self.cases {
            within("connections", f64::from(case.connections), 1.0, 100_000.0)?;
        }
        Ok(())
    }

    /// The servers to be run, each with its name in messages: one, or two.
    pub(crate) fn servers(&self) -> Vec<(&'static str, &CommandLine)> {
        match &self.subjects {
            Subjects::Servers { a, b, .. } => vec![("server A", &a.command), ("server B", &b.command)],
            Subjects::SameServer { server, .. } | Subjects::Generators { server, .. } => vec![("the server", server)],
        }
    }

    /// Every command that will be run, each with its name in messages.
    pub(crate) fn commands(&self) -> Vec<(&'static str, &CommandLine)> {
        let mut commands = self.servers();
        match &self.subjects {
            Subjects::Generators { a, b, .. } => commands.extend([("load generator A", a), ("load generator B", b)]),
            Subjects::Servers { load, .. } | Subjects::SameServer { load, .. } => commands.push(("the load", load)),
        }
        let beside = [(Side::A, "the command beside A"), (Side::B, "the command beside B")];
        commands.extend(beside.into_iter().filter_map(|(side, name)| Some((name, self.beside(side)?))));
        commands
    }

    /// The index in [`Self::servers`] of the server that `side` is measured on.
    pub(crate) fn server_of(&self, side: Side) -> usize {
        match (&self.subjects, side) {
            (Subjects::Servers { .. }, Side::B) => 1,
            _ => 0,
        }
    }

    /// Where the load of `side` goes.
    pub(crate) fn target<'a>(&self, case: &'a Case, side: Side) -> &'a Target {
        if self.server_of(side) == 0 { &case.url_a } else { &case.url_b }
    }

    /// The load command of `side`, not yet filled in.
    pub(crate) fn load(&self, side: Side) -> &CommandLine {
        match (&self.subjects, side) {
            (Subjects::Servers { load, .. } | Subjects::SameServer { load, .. }, _) => load,
            (Subjects::Generators { a, .. }, Side::A) => a,
            (Subjects::Generators { b, .. }, Side::B) => b,
        }
    }

    /// What runs beside the server in the slices of `side`.
    pub(crate) fn beside(&self, side: Side) -> Option<&CommandLine> {
        match (&self.subjects, side) {
            (Subjects::Servers { a: server, .. }, Side::A) | (Subjects::Servers { b: server, .. }, Side::B) => {
                server.beside.as_ref()
            }
            (Subjects::SameServer { beside_a, .. }, Side::A) => beside_a.as_ref(),
            (Subjects::SameServer { beside_b, .. }, Side::B) => beside_b.as_ref(),
            (Subjects::Generators { .. }, _) => None,
        }
    }

    pub(crate) fn measured(&self) -> Measured {
        match self.subjects {
            Subjects::Generators { .. } => Measured::Generator,
            _ => Measured::Server,
        }
    }

    /// Whether servers are started for each slice: when asked for, or when two share an address.
    /// Asks the resolver.
    pub(crate) fn restarts(&self) -> bool {
        match self.subjects {
            Subjects::Servers { restart, .. } => {
                restart || self.cases.iter().any(|case| case.url_a.shares_address_with(&case.url_b))
            }
            Subjects::SameServer { restart, .. } => restart,
            Subjects::Generators { .. } => false,
        }
    }
}
