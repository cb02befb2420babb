//! What the server and the process that runs PHP tell each other.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weir_server::PhpPool;

/// What the server tells the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToSupervisor {
    /// The first line.
    Begin(Box<Wanted>),
    /// Other pools.
    Pools(Vec<PhpPool>),
}

/// What the supervisor tells the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToServer {
    /// The pools that were asked for last listen.
    Ready,
    /// They do not, and nothing has changed.
    Failed(String),
    Tell(String),
    Status(Vec<PoolTold>),
    Stuck(StuckTold),
}

/// What is to be run, and how.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub(super) folder: PathBuf,
    pub(super) is_root: bool,
    /// The user of the server, if it is another one than that of its start.
    pub(super) user: Option<String>,
    pub(super) pools: Vec<PhpPool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PoolTold {
    pub(super) name: String,
    pub(super) workers: u32,
    pub(super) pid: u32,
    pub(super) restarts: u64,
}

/// A worker that has run one request for too long.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StuckTold {
    pub(super) pool: String,
    pub(super) pid: u32,
    pub(super) script: String,
    pub(super) request: String,
    pub(super) for_ms: u64,
    pub(super) timeout_ms: u64,
    pub(super) stack: Vec<String>,
    pub(super) no_stack: Option<String>,
}
