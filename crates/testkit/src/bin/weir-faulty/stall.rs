//! Requests wait while the whole server stands still, at times that arithmetic can tell.
//!
//! Of requests that arrive evenly, the share `ms / every` waits, each for the rest of the stall:
//! the share that waits longer than `x` is `(ms - x) / every`. With 200 of each 1000 ms the 90th
//! percentile is 100 ms and the 99th 190 ms.

use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::{monotonic, sleep_until};
use crate::{event, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let stall = options.millis("ms", 200)?;
    let every = options.millis("every", 1000)?;
    if stall >= every {
        return Err(Failure::Usage("--ms must be less than --every".to_owned()));
    }
    let listener = options.listen()?;
    let start = monotonic();
    // Nothing happens in the loop unless a request wakes it: to look at the clock then is the same
    // as to stand still at the right moment.
    let stand_still = || {
        if let Some(end) = stalled_until(monotonic() - start, stall, every) {
            sleep_until(start + end);
        }
    };
    event::serve(&listener, stand_still, http::ok)?;
    Ok(())
}

/// The end of the stall under way at a time since the start. The first one comes after a full
/// period, so that a test does not wait for its server.
fn stalled_until(since_start: Duration, stall: Duration, every: Duration) -> Option<Duration> {
    let periods = since_start.as_nanos() / every.as_nanos();
    let begin = every * u32::try_from(periods).ok()?;
    (periods > 0 && since_start - begin < stall).then_some(begin + stall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::clock::SimulatedClock;

    #[test]
    fn evenly_spaced_requests_wait_as_arithmetic_says() {
        let (stall, every) = (Duration::from_millis(200), Duration::from_millis(1000));
        let clock = SimulatedClock::at(0);
        let mut waits_ms = Vec::new();
        // 10 periods after the first, a request each millisecond.
        clock.advance(1_000_000_000);
        for _ in 0..10_000 {
            let now = Duration::from_nanos(clock.now_ns());
            let end = stalled_until(now, stall, every).unwrap_or(now);
            waits_ms.push((end - now).as_millis());
            clock.advance(1_000_000);
        }
        waits_ms.sort_unstable();
        assert_eq!(waits_ms[9_000], 101);
        assert_eq!(waits_ms[9_900], 191);
        assert_eq!(waits_ms[7_999], 0);
    }

    #[test]
    fn the_first_period_has_no_stall() {
        let ms = Duration::from_millis;
        assert_eq!(stalled_until(ms(100), ms(200), ms(1000)), None);
        assert_eq!(stalled_until(ms(1100), ms(200), ms(1000)), Some(ms(1200)));
        assert_eq!(stalled_until(ms(1200), ms(200), ms(1000)), None);
    }
}
