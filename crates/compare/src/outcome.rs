//! Everything that an experiment measured; verdicts are derived from it.
use serde::{Deserialize, Serialize};

use crate::accounting::CpuAccounting;
use crate::load_output::{Latency, LoadDetails, LoadTool};
use crate::observed::Observed;
use crate::plan::Plan;
use crate::schedule::Role;

/// The facts of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was planned.
    pub plan: Plan,
    /// How CPU time was counted.
    pub accounting: CpuAccounting,
    /// Whether servers were started for each slice.
    pub restarted: bool,
    /// Why it ended.
    pub ending: Ending,
    /// The complete blocks in the order in which they were measured.
    pub blocks: Vec<Block>,
    /// The observed slices, which tell the parts of responses and are in no figure of the blocks.
    #[serde(default)]
    pub observed: Vec<Observed>,
    /// Why there are none, or fewer than were asked for, where there are not.
    #[serde(default)]
    pub unobserved: Option<String>,
}

/// Why an experiment ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All of the plan was done, or every case was precise enough.
    Done,
    /// The budget of time was used up.
    Budget,
    /// It was told to stop.
    Interrupted,
    /// A server or a load failed after some blocks were complete, and again when that was repeated: why.
    Failed(String),
}

/// A slice of each subject of a case, measured one right after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Index of the case.
    pub case: usize,
    /// In which life of the servers: how often all had been started before, where that is not done for each slice.
    #[serde(default)]
    pub life: usize,
    /// The slices in the order in which they were measured.
    pub slices: Vec<BlockSlice>,
    /// The attempts at it before, each of which a slice that failed has ended; nothing else is known of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedSlice>,
}

/// A slice that failed, so that its block was measured again from its begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSlice {
    /// Whose; `None` where a server did not start before the block.
    pub role: Option<Role>,
    /// Why, with what its command printed last.
    pub why: String,
}

/// A slice and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockSlice {
    /// Whose.
    pub role: Role,
    /// What was measured.
    #[serde(flatten)]
    pub slice: Slice,
}

/// One load on one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// The part of it that was spent in the kernel, in nanoseconds, which most kernels find by looking at each tick (1 to
    /// 10 ms): of a short slice it says little. `None` where it is not told apart.
    #[serde(default)]
    pub server_system_ns: Option<u64>,
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
    /// Bytes received, heads included, where the tool tells them.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Times of responses, where the tool tells them.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// Memory of the server's processes, each shared page divided among those that share it, where the kernel tells.
    #[serde(default)]
    pub memory: Option<Memory>,
    /// How often the server's threads that lived throughout were switched, of themselves and preempted, where the kernel
    /// tells.
    #[serde(default)]
    pub switches: Option<u64>,
    /// Those of them that the kernel forced on a thread that could have gone on.
    #[serde(default)]
    pub involuntary_switches: Option<u64>,
    /// What else the tool tells: errors and statuses, the curve of the times, the shares of the clients.
    #[serde(flatten)]
    pub details: LoadDetails,
}

/// Memory of a server during a slice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The mean of the looks, in bytes.
    pub mean_bytes: f64,
    /// The largest of the looks, in bytes.
    pub peak_bytes: u64,
    /// How many looks.
    pub looks: u32,
}

impl Slice {
    /// Whether every request failed or had an error status, as far as the tool tells.
    #[must_use]
    pub fn only_failures(&self) -> bool {
        let failures: u64 = self.details.failures.values().sum();
        self.requests + failures <= self.errors
    }

    /// CPU time of the server outside the kernel, in nanoseconds; `None` where it is not told apart.
    #[must_use]
    pub fn server_user_ns(&self) -> Option<u64> {
        self.server_system_ns.map(|system_ns| self.server_cpu_ns.saturating_sub(system_ns))
    }
}

impl Block {
    /// The slice of a role.
    #[must_use]
    pub fn of(&self, role: Role) -> Option<&Slice> {
        self.slices.iter().find(|found| found.role == role).map(|found| &found.slice)
    }

    /// The slices of the baseline and of a subject.
    #[must_use]
    pub fn pair(&self, baseline: usize, subject: usize) -> Option<(&Slice, &Slice)> {
        Some((self.of(Role::Subject(baseline))?, self.of(Role::Subject(subject))?))
    }

    /// The two slices of the baseline, where it was measured twice: in the block's order if `in_order`, else the repeated
    /// one second.
    #[must_use]
    pub fn twice(&self, baseline: usize, in_order: bool) -> Option<(&Slice, &Slice)> {
        let (one, other) = (self.of(Role::Subject(baseline))?, self.of(Role::Again)?);
        let place = |role| self.slices.iter().position(|found| found.role == role);
        let turned = in_order && place(Role::Again) < place(Role::Subject(baseline));
        Some(if turned { (other, one) } else { (one, other) })
    }
}

impl Outcome {
    /// The blocks of one case.
    pub fn blocks_of(&self, case: usize) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.case == case)
    }

    /// The pairs of slices of a case: a subject's behind its baseline's.
    #[must_use]
    pub fn pairs(&self, case: usize, subject: usize) -> Vec<(&Slice, &Slice)> {
        let baseline = self.plan.cases.get(case).map_or(0, crate::plan::Case::baseline);
        self.blocks_of(case).filter_map(|block| block.pair(baseline, subject)).collect()
    }

    /// The pairs of slices of the baseline against itself.
    #[must_use]
    pub fn repeated(&self, case: usize, in_order: bool) -> Vec<(&Slice, &Slice)> {
        let baseline = self.plan.cases.get(case).map_or(0, crate::plan::Case::baseline);
        self.blocks_of(case).filter_map(|block| block.twice(baseline, in_order)).collect()
    }
}
