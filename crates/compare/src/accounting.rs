//! Which way CPU time is counted.
use std::io;

use serde::{Deserialize, Serialize};

use crate::control_group::ControlGroup;
use crate::cpu_time::CpuTime;
use crate::process_tree;

/// How CPU time of a whole process tree was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuAccounting {
    /// By a control group (version 2) of its own: complete, to the microsecond.
    ControlGroup,
    /// By the CPU clocks of the living processes of the tree (to the nanosecond) and what exited
    /// ones left with their parents (to the tick, usually 10 ms). Children that no process waits
    /// for are missing.
    ProcessTree,
}

impl CpuAccounting {
    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::ControlGroup => "control group (v2) of its own",
            Self::ProcessTree => "process tree in /proc",
        }
    }
}

/// CPU time so far of a running process and everything below it.
pub(crate) fn cpu(group: Option<&ControlGroup>, root: libc::pid_t) -> io::Result<CpuTime> {
    let tree = || Ok(CpuTime { ns: process_tree::tree_cpu_ns(root)?, system_ns: None });
    group.map_or_else(tree, ControlGroup::cpu)
}

/// The processes of a server now.
pub(crate) fn processes(group: Option<&ControlGroup>, root: libc::pid_t) -> io::Result<Vec<libc::pid_t>> {
    group.map_or_else(|| process_tree::members(root), ControlGroup::processes)
}
