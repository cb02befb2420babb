//! How the agent is to be.

use crate::directory::usual;
use crate::host;
use std::path::PathBuf;
use std::time::Duration;

/// How the agent is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The ARM directory.
    pub directory: PathBuf,
    /// A folder for what is to outlive the agent beside the keeper's: switches, and figures that are not kept yet.
    /// `None` = nothing does.
    pub state: Option<PathBuf>,
    /// The host's name, as transactions tell it.
    pub host: String,
    /// From which duration on every transaction is kept whole, nanoseconds; each minute's slowest ones are anyway.
    pub slow_ns: u64,
    /// The mode of the socket: it says which users may ask.
    pub socket_mode: u32,
    /// How often clients are looked at where little comes; where much does, it is more often.
    pub beat: Duration,
    /// How often figures are handed to the keeper.
    pub batch: Duration,
    /// Client processes at a time.
    pub most_processes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: usual(),
            state: None,
            host: host::name(),
            slow_ns: u64::MAX,
            socket_mode: 0o600,
            beat: Duration::from_millis(100),
            batch: Duration::from_secs(10),
            most_processes: 4096,
        }
    }
}
