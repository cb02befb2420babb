//! What a run is to do, and why it cannot be made.

use crate::behaviour::Failure;
use crate::executors::{PlanError, Planned, USERS_MAX};
use std::time::Duration;
use weir_load::{Io, LoadError, Options, Reach, Sockets, StopRule, Trust, Url};

/// Connections of a user at a time, over all servers.
pub(crate) const LINKS_OF_A_USER: u32 = 16;
/// Those of them that go to one server.
pub(crate) const LINKS_TO_A_SERVER: usize = 6;
/// The most scenarios.
const SCENARIOS_MAX: usize = 1000;
/// Connections that every run may have, however few its users.
const CONNECTIONS_LEAST: u32 = 256;
/// Descriptors that the process needs beside the connections'.
const OTHER_FILES: u64 = 2048;
/// How long the engine waits for an answer: requests have their own times, which are shorter.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// What a run is to do.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// What runs.
    pub scenarios: Vec<Planned>,
    /// Whether there is something to do once before and once behind it.
    pub setup: bool,
    /// Whether there is something to do once behind it.
    pub teardown: bool,
    /// How long setup may take.
    pub setup_max: Duration,
    /// How long teardown may take.
    pub teardown_max: Duration,
    /// How servers are reached.
    pub reaching: Reaching,
    /// How a run that the user ends may take to finish what is under way.
    pub stop_grace: Duration,
}

/// How servers are reached.
#[derive(Debug, Clone, Default)]
pub struct Reaching {
    /// How sockets find the other end.
    pub reach: Reach,
    /// How certificates are judged.
    pub trust: Trust,
    /// How sockets are made.
    pub sockets: Sockets,
    /// The CPU of the loop, if it is to have one.
    pub cpu: Option<usize>,
}

/// Why a run cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is nothing to run, or too much.
    #[error("{count} scenarios: give between 1 and {SCENARIOS_MAX}")]
    Scenarios {
        /// How many.
        count: usize,
    },
    /// A scenario cannot be run.
    #[error("{name}: {cause}")]
    Scenario {
        /// Its name.
        name: String,
        /// Why not.
        cause: PlanError,
    },
    /// A user's behaviour could not be made.
    #[error(transparent)]
    Unmade(#[from] Failure),
    /// The engine below cannot run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It was ended at once.
    #[error("the run was cut before its end: there is no report")]
    Cut,
}

impl RunPlan {
    /// Whether it can be done.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.scenarios.is_empty() || self.scenarios.len() > SCENARIOS_MAX {
            return Err(RunError::Scenarios { count: self.scenarios.len() });
        }
        for scenario in &self.scenarios {
            let told = |cause| RunError::Scenario { name: scenario.name.to_string(), cause };
            scenario.executor.check().map_err(told)?;
        }
        let users = self.users_max();
        if users > u64::from(USERS_MAX) {
            let name = "all scenarios".to_owned();
            return Err(RunError::Scenario { name, cause: PlanError::Users { users } });
        }
        Ok(())
    }

    /// The users of all scenarios together.
    #[must_use]
    pub fn users_max(&self) -> u64 {
        self.scenarios.iter().map(|scenario| u64::from(scenario.executor.users_max())).sum()
    }

    /// What the engine below is to do.
    pub(crate) fn options(&self) -> Result<Options, RunError> {
        // The engine asks for a URL; users' requests have their own.
        let url = Url { encrypted: false, host: "localhost".to_owned(), port: 80, target: "/".to_owned() };
        let mut options = Options::new(url);
        let users = self.users_max() as u32 + 1;
        let wanted = users.saturating_mul(LINKS_TO_A_SERVER as u32).min((users * 2).max(4096));
        let allowed = u32::try_from(open_files_max().saturating_sub(OTHER_FILES)).unwrap_or(u32::MAX);
        options.connections = wanted.max(CONNECTIONS_LEAST).min(allowed.max(16)).max(users.min(allowed.max(16)));
        options.stop = StopRule::Requests(1);
        options.timeout = TIMEOUT_MAX;
        options.queue = 1;
        options.io = Io::Epoll;
        options.hang_up = true;
        options.reach = self.reaching.reach.clone();
        options.trust = self.reaching.trust.clone();
        options.sockets = self.reaching.sockets.clone();
        options.cpu = self.reaching.cpu;
        Ok(options)
    }
}

/// The most files that this process may have open.
fn open_files_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result; without one there is the least that every process has.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if known { limit.rlim_max } else { 1024 }
}
