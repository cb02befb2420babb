//! What is lost with a worker.

use crate::options::settings::Options;
use crate::schedule::arrivals::{Arrivals, Part};

/// Arrivals that are counted one by one; what is more is told by the rate.
const COUNTED_MAX: u64 = 5_000_000;

/// The arrivals of the schedule that are one worker's; `None` in a closed loop, or without an end.
pub(crate) fn arrivals_of(options: &Options, part: Part) -> Option<u64> {
    options.schedule.rate_per_s()?;
    let end_ns = match options.stop.time() {
        Some(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        None => u64::MAX,
    };
    let limit = options.stop.requests();
    if end_ns == u64::MAX && limit.is_none() {
        return None;
    }
    let lanes = options.threads;
    let mut count = 0;
    for lane in 0..lanes {
        let of_lane = limit.map_or(u64::MAX, |limit| {
            let (lane, lanes) = (u64::from(lane), u64::from(lanes));
            part.of(limit / lanes + u64::from(lane < limit % lanes))
        });
        let mut arrivals = Arrivals::of_part(&options.schedule, 0, (lane, lanes), part)?;
        let mut next_ns = arrivals.next_before(end_ns);
        let mut of_this = 0;
        while next_ns != u64::MAX && of_this < of_lane {
            of_this += 1;
            if count + of_this > COUNTED_MAX {
                return by_rate(options, part);
            }
            next_ns = arrivals.following(end_ns);
        }
        count += of_this;
    }
    Some(count)
}

/// About how many there are.
fn by_rate(options: &Options, part: Part) -> Option<u64> {
    let by_time =
        options.stop.time().map(|time| (options.schedule.rate_per_s().unwrap_or(0.0) * time.as_secs_f64()) as u64);
    [by_time, options.stop.requests()].into_iter().flatten().min().map(|all| part.of(all))
}
