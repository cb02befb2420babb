//! Which requests are handed on: the slowest, and some of the others with the number that each stands for.

use super::real_time::RealTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_report::Example;
use weir_timeline::Response;
use weir_wire::trace_context::TraceContext;

/// Requests that are handed on because they are the slowest.
pub const SLOWEST: usize = 1000;
/// Requests that are handed on of the others.
pub const OTHERS: usize = 1000;

/// A request that is handed on.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Even over all numbers: its trace's number is made of it.
    pub key: u64,
    /// It is one of the slowest.
    pub slow: bool,
    /// How many requests it stands for.
    pub weight: f64,
    /// When it began, real time, nanoseconds since 1970.
    pub begin_unix_ns: u64,
    /// The trace that it names itself, and its caller's span.
    pub within: Option<TraceContext>,
    /// Its name, status, time and steps.
    pub request: Example,
}

impl Sampled {
    /// The number of its trace: that of its caller, where the request names one; else one of its own.
    #[must_use]
    pub fn trace(&self) -> u128 {
        let own = u128::from(scatter(self.key)) << 64 | u128::from(self.key | 1);
        self.within.map_or(own, |within| within.trace)
    }

    /// The number of its span, never zero, which means none.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.span_of(0)
    }

    /// The number of its span (0) or of that of a part (1 for the first one).
    pub(super) fn span_of(&self, index: u64) -> u64 {
        scatter(self.key.wrapping_add(index)).max(1)
    }
}

/// What tells a request from all others of its run, however often the run is read.
pub(crate) fn id_of(response: &Response<'_>) -> [u64; 3] {
    let request = response.request;
    [request.done_ns, request.connection, request.request_offset]
}

/// A number that is even over all numbers, of what tells a request from others.
pub(crate) fn key_of(id: [u64; 3]) -> u64 {
    id.into_iter().fold(0, |key, word| scatter(key ^ word))
}

/// The requests that are handed on, and out of how many.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The slowest first, then the others.
    pub requests: Vec<Sampled>,
    /// All that were explained.
    pub of: u64,
    /// They are told as a server sees them; else as the client of a load does.
    pub server_side: bool,
}

/// A request among the chosen ones: ranked by its time and key (the slowest), or by its key alone (the others).
#[derive(Debug)]
struct Kept<R> {
    rank: R,
    time_ns: u64,
    begin_ns: u64,
    within: Option<TraceContext>,
    request: Example,
}

impl<R: Ord> PartialEq for Kept<R> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<R: Ord> Eq for Kept<R> {}

impl<R: Ord> PartialOrd for Kept<R> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Ord> Ord for Kept<R> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// Chooses requests while they are read; holds at most [`SLOWEST`] and [`OTHERS`] of them.
#[derive(Debug, Default)]
pub(crate) struct Chooser {
    /// The fastest of the slowest on top.
    slowest: BinaryHeap<Reverse<Kept<(u64, u64)>>>,
    /// Those of the smallest keys, the largest of these on top: keys are even over all numbers, so each has the same
    /// chance.
    others: BinaryHeap<Kept<u64>>,
    count: u64,
}

impl Chooser {
    /// Takes a request, told from all others by its `id`; `make` is called where it is kept.
    pub(crate) fn push(
        &mut self,
        (time_ns, begin_ns): (u64, u64),
        id: [u64; 3],
        within: Option<TraceContext>,
        make: impl Fn() -> Example,
    ) {
        self.count += 1;
        let key = key_of(id);
        let slower = self.slowest.len() < SLOWEST
            || self.slowest.peek().is_some_and(|Reverse(fastest)| fastest.rank < (time_ns, key));
        let mut other = None;
        if slower {
            self.slowest.push(Reverse(Kept { rank: (time_ns, key), time_ns, begin_ns, within, request: make() }));
            // Who is pushed out of the slowest is one of the others.
            if self.slowest.len() > SLOWEST {
                other = self.slowest.pop().map(|Reverse(out)| Kept {
                    rank: out.rank.1,
                    time_ns: out.time_ns,
                    begin_ns: out.begin_ns,
                    within: out.within,
                    request: out.request,
                });
            }
        } else if self.others.len() < OTHERS || self.others.peek().is_some_and(|last| key < last.rank) {
            other = Some(Kept { rank: key, time_ns, begin_ns, within, request: make() });
        }
        if let Some(other) = other {
            self.others.push(other);
            if self.others.len() > OTHERS {
                self.others.pop();
            }
        }
    }

    /// What was chosen, with real times.
    pub(crate) fn finish(self, clock: RealTime, server_side: bool) -> Sample {
        let rest = self.count.saturating_sub(self.slowest.len() as u64);
        let weight = rest as f64 / self.others.len().max(1) as f64;
        let mut slowest: Vec<_> = self.slowest.into_iter().map(|Reverse(kept)| kept).collect();
        slowest.sort_by_key(|kept| Reverse(kept.rank));
        let slowest =
            slowest.into_iter().map(|kept| (kept.rank.1, true, 1.0, kept.begin_ns, kept.within, kept.request));
        let others = self.others.into_sorted_vec().into_iter();
        let others = others.map(|kept| (kept.rank, false, weight, kept.begin_ns, kept.within, kept.request));
        let sampled = slowest.chain(others).filter_map(|(key, slow, weight, begin_ns, within, request)| {
            Some(Sampled { key, slow, weight, begin_unix_ns: clock.at(begin_ns)?, within, request })
        });
        Sample { requests: sampled.collect(), of: self.count, server_side }
    }
}

/// Numbers that differ in anything become numbers that differ in everything (SplitMix64; Steele, Lea and Flood 2014).
pub(crate) fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
pub(in crate::spans) mod tests {
    use super::*;
    use weir_report::ExampleStep;
    use weir_wire::{Kind, Record};

    pub(in crate::spans) fn request(name: &str, time_ns: u64) -> Example {
        let step = |part: &str, from_ns, ns, who: &str| ExampleStep {
            part: part.to_owned(),
            from_ns,
            ns,
            task: "python3 (7)".to_owned(),
            who: who.to_owned(),
        };
        Example {
            sort: String::new(),
            name: name.to_owned(),
            status: 200,
            response_ns: time_ns,
            at_ns: 0,
            steps: vec![
                step("run", 0, time_ns / 4, ""),
                step("wait_process", time_ns / 4, time_ns - time_ns / 4, "db: q"),
            ],
            cpus: Vec::new(),
            holders: Vec::new(),
        }
    }

    #[test]
    fn the_slowest_are_all_there_and_the_others_stand_for_the_rest() {
        let mut chooser = Chooser::default();
        for number in 0..10_000u64 {
            chooser.push((scatter(number) % 1_000_000, number * 10), [number, 1, 2], None, || request("GET /", number));
        }
        let mut clock = RealTime::default();
        assert_eq!(clock.at(5), None);
        clock.push(&Record { time_ns: 100, kind: Kind::ClockPair as u16, a: 1_000_100, ..Record::default() });
        let mut times: Vec<u64> = (0..10_000u64).map(|number| scatter(number) % 1_000_000).collect();
        times.sort_unstable_by_key(|time| Reverse(*time));
        let kept: Vec<u64> = chooser.slowest.iter().map(|Reverse(kept)| kept.time_ns).collect();
        assert!(kept.iter().all(|time| *time >= times[SLOWEST - 1]));
        let sample = chooser.finish(clock, true);
        assert_eq!((sample.requests.len(), sample.of), (SLOWEST + OTHERS, 10_000));
        let weights: f64 = sample.requests.iter().map(|one| one.weight).sum();
        assert!((weights - 10_000.0).abs() < 1e-6);
        assert!(sample.requests.iter().all(|one| one.begin_unix_ns >= 1_000_000));
        assert!(sample.requests[..SLOWEST].iter().all(|one| one.slow) && !sample.requests[SLOWEST].slow);
    }
}
