//! A pool of php-fpm that runs beside the server, as a configuration says it.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory in place of the pools' own until it is known ([`crate::Options::place_php`]).
const NOWHERE: &str = "/nonexistent/weir-php";

/// A pool of php-fpm that runs beside the server, as a configuration says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhpPool {
    /// The program, if it is not to be looked for.
    pub program: Option<PathBuf>,
    /// Processes that answer requests, each one at a time.
    pub workers: u32,
    /// As many as there may be by a rule (`workers N of POOL`), at least `workers`. If they are more, processes start as
    /// requests come, and end when they have had none for a while.
    pub workers_max: u32,
    /// Requests that wait for one of them.
    pub queue: u64,
    /// What rules call it. Pools that differ in this have processes of their own, as rules give each its number.
    pub called: Option<String>,
    /// The user that they run as if the server was started as root; `None` for the server's own, or else `www-data`.
    pub user: Option<String>,
    /// Settings of PHP, which scripts cannot change.
    pub ini: Vec<(String, String)>,
    /// Requests after which a worker is replaced by a new one; 0 = never.
    pub renew: u32,
    /// How long a request may run until its worker is killed; zero = for ever.
    pub timeout: Duration,
    /// How long a request may run until its worker counts as stuck; zero = never.
    pub slow: Duration,
}

impl Default for PhpPool {
    fn default() -> Self {
        Self {
            program: None,
            workers: 8,
            workers_max: 8,
            queue: 1024,
            called: None,
            user: None,
            ini: Vec::new(),
            renew: 500,
            timeout: Duration::from_secs(60),
            slow: Duration::from_secs(5),
        }
    }
}

impl PhpPool {
    /// Its name in messages and of its files: equal pools have the same one.
    pub fn name(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let digest = ring::digest::digest(&ring::digest::SHA256, &text);
        let digits: String = digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("php-{digits}")
    }

    /// Where it listens, by the directory of the pools.
    pub fn socket(&self, folder: &Path) -> PathBuf {
        folder.join(self.name()).with_extension("sock")
    }

    /// The same before the directory is known.
    pub(crate) fn socket_nowhere(&self) -> PathBuf {
        self.socket(Path::new(NOWHERE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pools_have_one_name() {
        let pool = PhpPool::default();
        assert_eq!(pool.name(), PhpPool::default().name());
        assert_ne!(pool.name(), PhpPool { workers: 9, ..PhpPool::default() }.name());
        let socket = pool.socket(Path::new("/run/x"));
        assert_eq!(socket, PathBuf::from(format!("/run/x/{}.sock", pool.name())));
    }
}
