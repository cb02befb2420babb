//! The executors, as they are asked for.

use crate::behaviour::Tags;
use crate::executors::stages::{Stage, Stages};
use std::sync::Arc;
use std::time::Duration;
use weir_load::Profile;

/// The most users of a run.
pub const USERS_MAX: u32 = 100_000;
/// The most iterations of a scenario.
const ITERATIONS_MAX: u64 = 1 << 53;

/// How iterations of a scenario begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Executor {
    /// So many users, each again and again for a time.
    Constant {
        /// How many.
        users: u32,
        /// How long iterations begin.
        duration: Duration,
    },
    /// Users whose number changes with time.
    Ramping {
        /// How many there are at first.
        start: u32,
        /// What follows.
        stages: Vec<Stage>,
        /// How long one that is to go may take to finish its iteration.
        ramp_down: Duration,
    },
    /// So many iterations in all; the next free user takes the next one.
    Shared {
        /// How many users.
        users: u32,
        /// How many iterations.
        iterations: u64,
        /// How long iterations begin at most.
        duration: Duration,
    },
    /// So many iterations of each user.
    PerUser {
        /// How many users.
        users: u32,
        /// How many iterations of each.
        iterations: u64,
        /// How long iterations begin at most.
        duration: Duration,
    },
    /// Iterations at times of their own, whether those before are over or not: an open loop.
    Arrivals {
        /// Iterations a second over time.
        profile: Arc<Profile>,
        /// Users that are made before the first.
        users: u32,
        /// The most users; where all are at work, an iteration is dropped and counted.
        users_max: u32,
    },
}

/// A scenario.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Its name.
    pub name: Arc<str>,
    /// How iterations begin.
    pub executor: Executor,
    /// When, from the beginning of the run.
    pub start: Duration,
    /// How long what is under way may take at its end.
    pub graceful_stop: Duration,
    /// Whether a user keeps cookies and connections from one iteration to the next.
    pub keeps: Keeps,
    /// Tags of all that is counted of it.
    pub tags: Tags,
}

/// What a user keeps from one iteration to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeps {
    /// Its cookies.
    pub cookies: bool,
    /// Its connections and TLS sessions.
    pub connections: bool,
}

/// Why there is no such executor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No users, or too many.
    #[error("{users} users: give between 1 and {USERS_MAX} users to all scenarios together")]
    Users {
        /// How many.
        users: u64,
    },
    /// A time out of range.
    #[error("a scenario takes more than nothing and at most a year")]
    Duration,
    /// No iterations, or too many.
    #[error("{iterations} iterations: give at least 1 and at most 2^53")]
    Iterations {
        /// How many.
        iterations: u64,
    },
    /// Fewer users at most than at first.
    #[error("at most {users_max} users, and {users} before the first iteration: give at least as many at most")]
    FewerAtMost {
        /// Those before the first.
        users: u32,
        /// Those at most.
        users_max: u32,
    },
}

impl Executor {
    /// The most users at a time.
    #[must_use]
    pub fn users_max(&self) -> u32 {
        match self {
            Self::Constant { users, .. } | Self::Shared { users, .. } | Self::PerUser { users, .. } => *users,
            Self::Ramping { start, stages, .. } => Stages::new(*start, stages).most(),
            Self::Arrivals { users_max, .. } => *users_max,
        }
    }

    /// How long iterations begin, at most.
    #[must_use]
    pub fn duration(&self) -> Duration {
        match self {
            Self::Constant { duration, .. } | Self::Shared { duration, .. } | Self::PerUser { duration, .. } => {
                *duration
            }
            Self::Ramping { start, stages, .. } => Stages::new(*start, stages).duration(),
            Self::Arrivals { profile, .. } => profile.duration(),
        }
    }

    /// Whether it can be done.
    ///
    /// # Errors
    /// [`PlanError`], with what is out of range.
    pub fn check(&self) -> Result<(), PlanError> {
        let users = u64::from(self.users_max());
        if users == 0 || users > u64::from(USERS_MAX) {
            return Err(PlanError::Users { users });
        }
        let duration = self.duration();
        if duration.is_zero() || duration > Duration::from_secs(366 * 86_400) {
            return Err(PlanError::Duration);
        }
        match *self {
            Self::Shared { iterations, .. } | Self::PerUser { iterations, .. }
                if !(1..=ITERATIONS_MAX).contains(&iterations) =>
            {
                Err(PlanError::Iterations { iterations })
            }
            Self::Arrivals { users, users_max, .. } if users > users_max => {
                Err(PlanError::FewerAtMost { users, users_max })
            }
            _ => Ok(()),
        }
    }
}
