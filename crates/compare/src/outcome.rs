//! Everything that an experiment measured; verdicts are derived from it.
use serde::{Deserialize, Serialize};

use crate::accounting::CpuAccounting;
use crate::load_output::LoadTool;
use crate::plan::Plan;
use crate::schedule::{BlockKind, Side};

/// The facts of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was planned.
    pub plan: Plan,
    /// How CPU time was counted.
    pub accounting: CpuAccounting,
    /// Whether servers were started for each slice.
    pub restarted: bool,
    /// Whether it was ended before all of the plan was done.
    pub interrupted: bool,
    /// The complete blocks in the order in which they were measured.
    pub blocks: Vec<Block>,
}

/// A pair of slices, measured one right after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Index of the case.
    pub case: usize,
    /// What was held against what.
    pub kind: BlockKind,
    /// Whose slice came first.
    pub first: Side,
    /// A's slice.
    pub a: Slice,
    /// B's slice; in a block of A against itself, A in the role of B.
    pub b: Slice,
}

/// One load on one subject.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// What counted the requests.
    pub tool: LoadTool,
    /// Requests answered; at least one.
    pub requests: u64,
    /// Requests that failed or had an error status, as far as the tool counts them.
    pub errors: u64,
    /// How long was sent for, in seconds, as the tool says; else as long as the tool ran.
    pub duration_s: f64,
    /// How long the load command ran, in seconds.
    pub wall_s: f64,
    /// Requests answered each second.
    pub rate_per_s: f64,
    /// CPU time of the server's whole process tree, user and system, in nanoseconds.
    pub server_cpu_ns: u64,
    /// CPU time of the load command and its children, in nanoseconds.
    pub generator_cpu_ns: u64,
    /// The part of its CPUs that the load command used; 1 is all of it.
    pub generator_cpu_share: f64,
    /// The part of the CPUs of server and load that was used by anything else, also by what ran
    /// beside and by other virtual machines; `None` where the kernel does not tell.
    pub foreign_cpu_share: Option<f64>,
    /// CPU time for each request of what is compared (the server, or the generator), in
    /// nanoseconds.
    pub cpu_ns_per_request: f64,
}

impl Outcome {
    /// The blocks of one case and kind.
    pub(crate) fn blocks_of(&self, case: usize, kind: BlockKind) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.case == case && block.kind == kind)
    }
}
