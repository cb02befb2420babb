//! What was measured of one load on one subject.
use serde::{Deserialize, Serialize};

use crate::load_output::{Latency, LoadDetails, LoadTool};

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
