//! What a series did in a stretch of time.

use weir_measure::durations::Durations;

/// How something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// As it should.
    Good = 0,
    /// It was given up.
    Aborted = 1,
    /// It failed.
    Failed = 2,
    /// Its end was not told.
    Unknown = 3,
    /// Its process ended first.
    Unfinished = 4,
}

impl Outcome {
    /// All, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::Good, Self::Aborted, Self::Failed, Self::Unknown, Self::Unfinished];

    /// Of a code; what has none is unknown.
    #[must_use]
    pub fn of_code(code: i64) -> Self {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code).copied()).unwrap_or(Self::Unknown)
    }

    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["good", "aborted", "failed", "unknown", "unfinished"][self as usize]
    }
}

/// Outcomes and durations of a series; two of them merge into what one would have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fold {
    /// How often each [`Outcome`] came, by its code.
    pub outcomes: [u64; 5],
    /// Durations, of all outcomes.
    pub durations: Durations,
    /// Nanoseconds of these durations that were spent waiting for something outside, where that was told.
    pub blocked_ns: u64,
    /// Nanoseconds of these durations that passed before the work began, where that was told.
    pub queued_ns: u64,
}

impl Fold {
    /// Adds what another one holds.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.outcomes.iter_mut().zip(other.outcomes) {
            *count = count.saturating_add(more);
        }
        self.durations.merge(&other.durations);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
        self.queued_ns = self.queued_ns.saturating_add(other.queued_ns);
    }

    /// Events in it.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.outcomes.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How many of them failed or were not finished.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.outcomes[Outcome::Failed as usize].saturating_add(self.outcomes[Outcome::Unfinished as usize])
    }
}
