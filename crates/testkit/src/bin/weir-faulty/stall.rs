//! Requests wait while the whole server stands still, at times that arithmetic can tell.
//!
//! Of requests that arrive evenly, the share `ms / every` waits, each for the rest of the stall:
//! the share that waits longer than `x` is `(ms - x) / every`. With 200 of each 1000 ms the 90th
//! percentile is 100 ms and the 99th 190 ms.
//!
//! With `--long-ms` and `--long-each` one of so many stalls is longer, so that percentiles far out have
//! a truth of their own: of stalls of 240 ms each 400 ms, each tenth of which takes 380 ms, the share
//! that waits longer than `x` is `(9 * (240 - x) + 380 - x) / 4000` below 240 ms and `(380 - x) / 4000`
//! above.

use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::{monotonic, sleep_until};
use crate::{event, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let stall = options.millis("ms", 200)?;
    let every = options.millis("every", 1000)?;
    let long = options.number("long-ms")?.map_or(stall, Duration::from_millis);
    let long_each = options.number("long-each")?.unwrap_or(1);
    if stall >= every || long >= every || long_each == 0 {
        return Err(Failure::Usage("--ms and --long-ms must be less than --every, --long-each above 0".to_owned()));
    }
    let stalls = Stalls { stall, every, long, long_each };
    let listener = options.listen()?;
    let start = monotonic();
    // Nothing happens in the loop unless a request wakes it: to look at the clock then is the same
    // as to stand still at the right moment.
    let stand_still = || {
        if let Some(end) = stalls.until(monotonic() - start) {
            sleep_until(start + end);
        }
    };
    event::serve(&listener, stand_still, http::ok)?;
    Ok(())
}

/// When the server stands still.
struct Stalls {
    stall: Duration,
    every: Duration,
    /// How long one of so many takes.
    long: Duration,
    long_each: u64,
}

impl Stalls {
    /// The end of the stall under way at a time since the start. The first one comes after a full
    /// period, so that a test does not wait for its server.
    fn until(&self, since_start: Duration) -> Option<Duration> {
        let periods = u64::try_from(since_start.as_nanos() / self.every.as_nanos()).ok()?;
        let begin = self.every * u32::try_from(periods).ok()?;
        let length = if periods.is_multiple_of(self.long_each) { self.long } else { self.stall };
        (periods > 0 && since_start - begin < length).then_some(begin + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::clock::SimulatedClock;

    fn waits_ms(stalls: &Stalls, from_ms: u64, requests: u64) -> Vec<u128> {
        let clock = SimulatedClock::at(from_ms * 1_000_000);
        let mut waits_ms = Vec::new();
        for _ in 0..requests {
            let now = Duration::from_nanos(clock.now_ns());
            let end = stalls.until(now).unwrap_or(now);
            waits_ms.push((end - now).as_millis());
            clock.advance(1_000_000);
        }
        waits_ms.sort_unstable();
        waits_ms
    }

    fn regular() -> Stalls {
        let ms = Duration::from_millis;
        Stalls { stall: ms(200), every: ms(1000), long: ms(200), long_each: 1 }
    }

    #[test]
    fn evenly_spaced_requests_wait_as_arithmetic_says() {
        // 10 periods after the first, a request each millisecond.
        let waits_ms = waits_ms(&regular(), 1000, 10_000);
        assert_eq!((waits_ms[9_000], waits_ms[9_900], waits_ms[7_999]), (101, 191, 0));
    }

    #[test]
    fn a_longer_stall_has_percentiles_of_its_own() {
        let ms = Duration::from_millis;
        let stalls = Stalls { stall: ms(240), every: ms(400), long: ms(380), long_each: 10 };
        // Five times ten periods, a request each millisecond: 9 (240 - x) + 380 - x of 4000 wait longer than x.
        let waits_ms = waits_ms(&stalls, 4000, 20_000);
        assert_eq!((waits_ms[10_000], waits_ms[18_000]), (55, 215));
        assert_eq!((waits_ms[19_800], waits_ms[19_980]), (341, 377));
    }

    #[test]
    fn the_first_period_has_no_stall() {
        let ms = Duration::from_millis;
        assert_eq!(regular().until(ms(100)), None);
        assert_eq!(regular().until(ms(1100)), Some(ms(1200)));
        assert_eq!(regular().until(ms(1200)), None);
    }
}
