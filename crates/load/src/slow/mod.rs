//! Users on slow lines: how much their connections bring in a second, how far away they are, and when they click stop.
//!
//! The limits are kept in [`way`], by a schedule of tokens for each connection; what is not slow never comes here.

mod alarms;
mod clients;
mod links;
mod tokens;
mod way;

pub use links::Link;

use crate::protocol::Protocol;
use crate::sessions::Think;
use crate::{Io, LoadError, Options};
pub(crate) use clients::Slow;
use std::time::Duration;

/// The lowest and the highest limit, bytes a second.
const LIMITS: (f64, f64) = (0.1, 1e10);
/// The longest added latency.
const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// What slows a client down, for every connection of a run; by default nothing does.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SlowClient {
    /// Rates and latency of its line.
    pub link: Link,
    /// How long users wait for a whole response before they click stop; `None` = as long as it takes.
    ///
    /// It counts from the intended time. The connection is closed, and the request counts as
    /// [`Outcome::Stopped`](crate::Outcome::Stopped), which is no error.
    pub patience: Option<Think>,
    /// Where the random numbers of the patience begin.
    pub seed: u64,
}

impl SlowClient {
    /// Whether anything slows the client down.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.link != Link::default() || self.patience.is_some()
    }

    /// Whether these can be honoured with the other options.
    pub(crate) fn check(&self, options: &Options) -> Result<(), LoadError> {
        let wrong = |what| Err(LoadError::Options(what));
        let fits = |rate: Option<f64>| rate.is_none_or(|rate| (LIMITS.0..=LIMITS.1).contains(&rate));
        if !fits(self.link.read_bytes_per_s) || !fits(self.link.write_bytes_per_s) {
            return wrong("a client's limit lies between 0.1 B/s and 10 GB/s");
        }
        if self.link.latency > LATENCY_MAX {
            return wrong("the added latency is at most an hour");
        }
        if !self.is_slow() {
            return Ok(());
        }
        if options.protocol != Protocol::Http1 {
            return wrong(
                "limits, latency and patience are those of clients that speak HTTP/1: leave them out with HTTP/2, whose \
                 streams share one connection",
            );
        }
        if options.directed.is_some() {
            return wrong("clients that a director drives are not slowed down: leave limits, latency and patience out");
        }
        if options.io == Io::Uring {
            return wrong(
                "io_uring receives as soon as something comes, which a slow client must not: leave it out with limits, \
                 latency and patience",
            );
        }
        Ok(())
    }
}
