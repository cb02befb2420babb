//! A pool of runners, as a configuration asks for it.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How scripts are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// A process for each request (RFC 3875).
    Cgi,
    /// Processes that speak CGIplus, kept for further requests.
    Cgiplus,
    /// Engines that run CGI scripts of Perl and Python, kept likewise.
    Rte,
    /// Hosts of shared libraries with ISAPI's interface, kept likewise.
    Isapi,
}

impl Way {
    /// Its name in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cgi => "cgi",
            Self::Cgiplus => "cgiplus",
            Self::Rte => "rte",
            Self::Isapi => "isapi",
        }
    }
}

/// A pool of runners, as a configuration asks for it. Zero stands for "no bound" in all bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its name in messages; pools that differ have different names.
    pub name: String,
    /// Where its runners listen, a Unix socket.
    pub socket: PathBuf,
    /// How scripts are run.
    pub way: Way,
    /// Runners: requests that are answered at once.
    pub workers: u32,
    /// The directory below which scripts lie; others are refused.
    pub root: PathBuf,
    /// The user that scripts run as, if the supervisor is root.
    pub user: Option<String>,
    /// Whether each script runs as the owner of its file, which takes root's rights; `user` is only the runner's then.
    pub as_owner: bool,
    /// With `as_owner`: the directory in the home of each owner below which scripts lie, in place of `root`.
    pub home: Option<PathBuf>,
    /// How long a request may take until its script is killed.
    pub timeout: Duration,
    /// How long a request may take until its script counts as stuck.
    pub slow: Duration,
    /// Programs that run scripts, by the ending of the script's name.
    pub interpreters: Vec<(String, PathBuf)>,
    /// Variables of all scripts.
    pub env: Vec<(String, String)>,
    /// Variables of the supervisor's own environment that scripts get.
    pub pass: Vec<String>,
    /// CPU time of each process (RLIMIT_CPU), rounded up to seconds.
    pub cpu: Duration,
    /// Bytes of each process's address space (RLIMIT_AS).
    pub memory: u64,
    /// Processes of the user at once (RLIMIT_NPROC).
    pub processes: u64,
    /// Bytes of a file that a script writes (RLIMIT_FSIZE).
    pub files: u64,
    /// Bytes of a response.
    pub output: u64,
    /// Requests after which a persistent process is replaced.
    pub renew: u32,
    /// How long a persistent process is kept without a request.
    pub idle: Duration,
    /// Whether CGIplus scripts get variables in struct mode from the start.
    pub is_struct: bool,
}

impl Pool {
    /// The bound of each process's CPU time in whole seconds (RLIMIT_CPU), rounded up; 0 = none.
    pub(crate) fn cpu_s(&self) -> u64 {
        self.cpu.as_secs() + u64::from(self.cpu.subsec_nanos() > 0)
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            name: "cgi".to_owned(),
            socket: PathBuf::new(),
            way: Way::Cgi,
            workers: 8,
            root: PathBuf::from("/"),
            user: None,
            as_owner: false,
            home: None,
            timeout: Duration::from_secs(60),
            slow: Duration::from_secs(5),
            interpreters: Vec::new(),
            env: Vec::new(),
            pass: Vec::new(),
            cpu: Duration::ZERO,
            memory: 0,
            processes: 0,
            files: 0,
            output: 0,
            renew: 10_000,
            idle: Duration::from_secs(600),
            is_struct: false,
        }
    }
}
