//! What the server and the process that runs scripts tell each other, in lines of JSON.

use crate::pool::Pool;
use serde::{Deserialize, Serialize};

/// What the server tells the supervisor.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToSupervisor {
    /// The first line.
    Begin(Box<Wanted>),
    /// Other pools.
    Pools(Vec<Pool>),
}

/// What the supervisor tells the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToServer {
    /// The pools that were asked for last listen.
    Ready,
    /// They do not, and nothing has changed.
    Failed(String),
    /// A line for the log.
    Tell(String),
    /// All pools, whenever something of them has changed.
    Status(Vec<PoolTold>),
    /// A script that runs one request for too long.
    Stuck(StuckTold),
}

/// What is to be run, and how.
#[derive(Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// The user of the server, if the supervisor is root and the server is not.
    pub user: Option<String>,
    /// The pools.
    pub pools: Vec<Pool>,
}

/// How a pool is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolTold {
    /// Its name.
    pub name: String,
    /// Its runners.
    pub workers: u32,
    /// The process of the first one; 0 = none.
    pub pid: u32,
    /// Runners that died and were started again.
    pub restarts: u64,
}

/// A script that runs one request for too long.
#[derive(Debug, Serialize, Deserialize)]
pub struct StuckTold {
    /// The pool.
    pub pool: String,
    /// The process of the script.
    pub pid: u32,
    /// The script's file.
    pub script: String,
    /// Method and target.
    pub request: String,
    /// How long it has run, in milliseconds.
    pub for_ms: u64,
    /// How long it may, in milliseconds; 0 = for ever.
    pub timeout_ms: u64,
    /// Functions that it is in, the innermost first, where that is known.
    pub stack: Vec<String>,
    /// Why it is not known, where it could be.
    pub no_stack: Option<String>,
}
