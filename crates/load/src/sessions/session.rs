//! Users: sessions of requests with pauses between them, each over a connection of its own.

use std::time::Duration;

/// The most requests of a burst: they go out in one write.
pub const BURST_MAX: usize = 1024;

/// What users do, one after the other.
///
/// With sessions, arrivals and the number of requests to stop after are those of sessions, and the connections are how
/// many sessions are under way at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Sessions {
    /// The sessions; when all were begun, the first one comes again.
    pub list: Vec<Session>,
    /// Where the random numbers of think times begin.
    pub seed: u64,
}

/// What one user does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Session {
    bursts: Vec<Burst>,
}

/// Requests that go out together, and the pause after the last of their responses.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Burst {
    /// Places in the list of [`crate::Requests`], at least one.
    pub(crate) requests: Vec<u32>,
    pub(crate) think: Think,
}

/// How long a user thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Think {
    /// Not at all.
    #[default]
    None,
    /// Always so long.
    Fixed(Duration),
    /// Between the two, any time as often as any other.
    Uniform(Duration, Duration),
    /// Exponentially distributed with this mean.
    Exponential(Duration),
}

impl Session {
    /// A session without requests.
    #[must_use]
    pub const fn new() -> Self {
        Self { bursts: Vec::new() }
    }

    /// Adds requests that go out together, pipelined over the session's connection when all before are answered; they
    /// are places in [`crate::Requests::list`].
    #[must_use]
    pub fn burst(mut self, requests: &[u32]) -> Self {
        self.bursts.push(Burst { requests: requests.to_vec(), think: Think::None });
        self
    }

    /// Sets the pause after the burst that was added last.
    #[must_use]
    pub fn think(mut self, think: Think) -> Self {
        if let Some(burst) = self.bursts.last_mut() {
            burst.think = think;
        }
        self
    }

    /// How many requests it has.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.bursts.iter().map(|burst| burst.requests.len()).sum()
    }

    /// Its bursts: places in [`crate::Requests::list`], and the pause after them.
    pub fn each_burst(&self) -> impl Iterator<Item = (&[u32], Think)> {
        self.bursts.iter().map(|burst| (burst.requests.as_slice(), burst.think))
    }

    pub(crate) fn bursts(&self) -> &[Burst] {
        &self.bursts
    }
}

impl Think {
    /// The longest time that it may be, or the mean where there is none.
    pub(crate) fn longest_or_mean(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(time) | Self::Uniform(_, time) | Self::Exponential(time) => time,
        }
    }

    /// The next time, in nanoseconds.
    pub(crate) fn draw_ns(self, random: &mut fastrand::Rng) -> u64 {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        match self {
            Self::None => 0,
            Self::Fixed(time) => ns(time),
            Self::Uniform(from, to) => random.u64(ns(from)..=ns(to).max(ns(from))),
            // 1 - u lies in (0, 1], so the logarithm is finite.
            Self::Exponential(mean) => (-(1.0 - random.f64()).ln() * ns(mean) as f64) as u64,
        }
    }
}

impl Sessions {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_are_as_they_were_asked_for() {
        let ms = Duration::from_millis;
        let mut random = fastrand::Rng::with_seed(1);
        let mut mean_ms =
            |think: Think| (0..100_000).map(|_| think.draw_ns(&mut random) as f64 / 1e6).sum::<f64>() / 1e5;
        assert!((mean_ms(Think::None)).abs() < 1e-9 && (mean_ms(Think::Fixed(ms(7))) - 7.0).abs() < 1e-6);
        // Standard errors: 2/sqrt(12 n) = 0.002 and 10/sqrt(n) = 0.03; five of each.
        assert!((mean_ms(Think::Uniform(ms(4), ms(6))) - 5.0).abs() < 0.01);
        assert!((mean_ms(Think::Exponential(ms(10))) - 10.0).abs() < 0.16);
        let all: Vec<_> = (0..1000).map(|_| Think::Uniform(ms(4), ms(6)).draw_ns(&mut random)).collect();
        assert!(all.iter().all(|time| (4_000_000..=6_000_000).contains(time)));
    }
}
