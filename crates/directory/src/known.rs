//! Values that say whether they are fresh.

use std::time::{Duration, Instant};

/// A value that was read from the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known<T> {
    /// The engine answered now.
    Fresh(T),
    /// The engine is away: the last value that it gave.
    Stale {
        /// That value.
        value: T,
        /// When the engine gave it.
        since: Instant,
    },
}

impl<T> Known<T> {
    /// The value, fresh or stale.
    pub fn value(&self) -> &T {
        match self {
            Self::Fresh(value) | Self::Stale { value, .. } => value,
        }
    }

    /// The value itself, fresh or stale.
    pub fn into_value(self) -> T {
        match self {
            Self::Fresh(value) | Self::Stale { value, .. } => value,
        }
    }

    /// How old a stale value is; `None` for a fresh one.
    pub fn age(&self) -> Option<Duration> {
        match self {
            Self::Fresh(_) => None,
            Self::Stale { since, .. } => Some(since.elapsed()),
        }
    }

    /// Makes another value of it, which is as fresh.
    ///
    /// # Errors
    ///
    /// Those of the function.
    pub fn try_map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Known<U>, E> {
        Ok(match self {
            Self::Fresh(value) => Known::Fresh(make(value)?),
            Self::Stale { value, since } => Known::Stale { value: make(value)?, since },
        })
    }

    /// Both values; stale since the older one, where any is stale.
    pub fn with<U>(self, other: Known<U>) -> Known<(T, U)> {
        match (self, other) {
            (Self::Fresh(one), Known::Fresh(two)) => Known::Fresh((one, two)),
            (Self::Stale { value: one, since: first }, Known::Stale { value: two, since: second }) => {
                Known::Stale { value: (one, two), since: first.min(second) }
            }
            (Self::Stale { value, since }, Known::Fresh(two)) => Known::Stale { value: (value, two), since },
            (Self::Fresh(one), Known::Stale { value, since }) => Known::Stale { value: (one, value), since },
        }
    }
}
