//! A pool of processes that run scripts beside the server, as a configuration says it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory in place of the pools' own until it is known ([`crate::Options::place_scripts`]).
const NOWHERE: &str = "/nonexistent/weir-scripts";

/// How scripts are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScriptWay {
    /// Each request starts the script anew (RFC 3875).
    Cgi,
    /// Scripts that stay and speak CGIplus, the protocol of the web server WASD.
    Cgiplus,
    /// Unchanged scripts of CGI within an interpreter that stays.
    Rte,
    /// Shared libraries with the interface of ISAPI.
    Isapi,
}

impl ScriptWay {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cgi, Self::Cgiplus, Self::Rte, Self::Isapi];

    /// Its key in a configuration.
    pub fn key(self) -> &'static str {
        match self {
            Self::Cgi => "cgi",
            Self::Cgiplus => "cgiplus",
            Self::Rte => "rte",
            Self::Isapi => "isapi",
        }
    }

    /// Whether a process answers more than one request.
    pub fn is_persistent(self) -> bool {
        self != Self::Cgi
    }

    /// Its name as people write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cgi => "CGI",
            Self::Cgiplus => "CGIplus",
            Self::Rte => "RTE",
            Self::Isapi => "ISAPI",
        }
    }
}

impl fmt::Display for ScriptWay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A pool of processes that run scripts beside the server, as a configuration says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptPool {
    /// How its scripts are run.
    pub way: ScriptWay,
    /// What rules call it. Pools that differ in this have processes of their own, as rules give each its number.
    pub called: Option<String>,
    /// Requests that are answered at once.
    pub workers: u32,
    /// As many as there may be by a rule (`workers N of POOL`), at least `workers`.
    pub workers_max: u32,
    /// Requests that wait for one of them.
    pub queue: u64,
    /// The user of the scripts if the server was started as root; `None` for the server's own, or else `www-data`.
    pub user: Option<String>,
    /// Whether each script runs as the owner of its file; the server must have been started as root.
    pub as_owner: bool,
    /// With `as_owner`: the directory in the home of each owner below which scripts lie, in place of `root`.
    pub home: Option<PathBuf>,
    /// How long a request may run until its script is killed; zero = for ever.
    pub timeout: Duration,
    /// How long a request may run until its script counts as stuck; zero = never.
    pub slow: Duration,
    /// The directory below which the scripts lie: DOCUMENT_ROOT.
    pub root: PathBuf,
    /// Programs that run files in place of these themselves, by the ending of their names, such as `.pl`.
    pub interpreters: Vec<(String, PathBuf)>,
    /// Variables of all scripts, which are the same for all requests: names and values.
    pub env: Vec<(String, String)>,
    /// Variables of the server's own environment that scripts get: names.
    pub pass: Vec<String>,
    /// CPU time of each process (RLIMIT_CPU), in whole seconds; zero = no bound.
    pub cpu: Duration,
    /// Bytes of the address space of each process (RLIMIT_AS); 0 = no bound.
    pub memory: u64,
    /// Processes that the user may have at once (RLIMIT_NPROC); 0 = no bound.
    pub processes: u64,
    /// Bytes of a file that a process writes (RLIMIT_FSIZE); 0 = no bound.
    pub files: u64,
    /// Bytes of a response, beyond which its script is killed; 0 = no bound.
    pub output: u64,
    /// Requests after which a process that stays is replaced; 0 = never.
    pub renew: u32,
    /// How long a process that stays is kept without a request.
    pub idle: Duration,
    /// Whether scripts of CGIplus get their variables in binary form until they ask for another one.
    pub is_struct: bool,
}

impl ScriptPool {
    /// A pool with the defaults of its way.
    pub fn new(way: ScriptWay, root: PathBuf) -> Self {
        let (renew, idle) = if way.is_persistent() { (10_000, Duration::from_secs(600)) } else { (0, Duration::ZERO) };
        Self {
            way,
            called: None,
            workers: 8,
            workers_max: 8,
            queue: 1024,
            user: None,
            as_owner: false,
            home: None,
            timeout: Duration::from_secs(60),
            slow: Duration::from_secs(5),
            root,
            interpreters: Vec::new(),
            env: Vec::new(),
            pass: Vec::new(),
            cpu: Duration::ZERO,
            memory: 0,
            processes: 0,
            files: 0,
            output: 0,
            renew,
            idle,
            is_struct: matches!(way, ScriptWay::Rte | ScriptWay::Isapi),
        }
    }

    /// Its name in messages and of its files, such as `cgi-1a2b3c4d`: equal pools have the same one.
    pub fn name(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let digest = ring::digest::digest(&ring::digest::SHA256, &text);
        let digits: String = digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{digits}", self.way.key())
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
    fn equal_pools_of_scripts_have_one_name() {
        let pool = |way| ScriptPool::new(way, "/srv".into());
        for way in ScriptWay::ALL {
            let name = pool(way).name();
            assert_eq!(name, pool(way).name());
            assert!(name.starts_with(way.key()) && name.len() == way.key().len() + 9, "{name}");
            assert_ne!(name, ScriptPool { workers: 9, ..pool(way) }.name());
            assert_ne!(name, ScriptPool { root: "/srv/b".into(), ..pool(way) }.name());
            assert_eq!(pool(way).socket(Path::new("/run/x")), PathBuf::from(format!("/run/x/{name}.sock")));
            let text = serde_json::to_string(&pool(way)).expect("is written");
            assert_eq!(serde_json::from_str::<ScriptPool>(&text).expect("is read"), pool(way));
        }
    }
}
