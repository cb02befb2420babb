//! What the server tells the process that runs PHP. What that tells is as it is for scripts ([`weir_scripts::ToServer`]).

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

/// What is to be run, and how.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub(super) folder: PathBuf,
    pub(super) is_root: bool,
    /// The user of the server, if it is another one than that of its start.
    pub(super) user: Option<String>,
    pub(super) pools: Vec<PhpPool>,
}
