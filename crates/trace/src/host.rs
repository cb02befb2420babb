//! Who the recorded host is.

use serde::{Deserialize, Serialize};
use std::fs;

/// A host: machine and boot, with what a reader wants to know of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// /etc/machine-id, empty where there is none.
    pub machine_id: String,
    /// The kernel's id of this boot.
    pub boot_id: String,
    /// The kernel's release.
    pub kernel: String,
    /// Processors that are online.
    pub cpus: u32,
}

impl Host {
    /// This host, now.
    #[must_use]
    pub fn this() -> Self {
        let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        Self {
            name: line("/proc/sys/kernel/hostname"),
            machine_id: line("/etc/machine-id"),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            kernel: line("/proc/sys/kernel/osrelease"),
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        }
    }
}
