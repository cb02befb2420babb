//! What a request finds when it comes: a server that is busy, or that has been idle for some time.
//!
//! A request costs more behind a pause: CPUs wake from idle states, caches and predictors have lost what they knew,
//! and each event loop takes a round for one request alone. The trace holds requests behind pauses of all lengths, so a
//! simulated request is drawn from those that found the server as it does. At a higher rate pauses are shorter, and
//! requests become as cheap as those that were recorded behind short pauses; nothing is assumed of why.

use crate::trace::{Request, Trace};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request is drawn from at least so many that found the server alike, and from one of so many of its class.
const ALIKE: usize = 50;
const OF_ALL: usize = 20;

/// How a request found the server: minus the number of requests under way, but no more than the CPUs that they could
/// keep awake; or where none was under way for how long, nanoseconds.
pub(crate) fn state(under_way: usize, cpus: u32, idle_ns: f64) -> f64 {
    if under_way > 0 { -(under_way.min(cpus.max(1) as usize) as f64) } else { idle_ns.max(0.0) }
}

/// How each of the requests, by the times at which they came, found the server: minus the number of those under way, at
/// most `cpus`; or for how long there had been none, nanoseconds. The first one's is infinite.
#[must_use]
pub fn found(requests: &[Request], cpus: u32) -> Vec<f64> {
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut idle_since = None;
    let found = requests.iter().map(|request| {
        while let Some(Reverse(end_ns)) = ends.peek().copied()
            && end_ns <= request.at_ns
        {
            ends.pop();
            idle_since = Some(end_ns);
        }
        let idle_ns = idle_since.map_or(f64::INFINITY, |since| request.at_ns.saturating_sub(since) as f64);
        let found = state(ends.len(), cpus, idle_ns);
        ends.push(Reverse(request.at_ns.saturating_add(request.response_ns.max(0.0) as u64)));
        found
    });
    found.collect()
}

/// Of which requests one is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drawn {
    /// Of those that found the server alike.
    OfAState,
    /// Of all, as other programs kept the server from its work: a request that was kept for long found others that were kept
    /// as well, and is no longer because of them. Drawn for what it found it would keep the next ones, without end.
    OfAll,
}

/// Requests by their class and by how they found the server.
#[derive(Debug)]
pub(crate) struct Alike {
    of: Drawn,
    /// By class, then by state.
    sorted: Vec<(f64, u32)>,
    /// Where the requests of each class begin and end.
    classes: Vec<(usize, usize)>,
}

impl Alike {
    /// Of requests that were drawn from a trace, with what [`found`] says of it.
    pub(crate) fn of(trace: &Trace, found: &[f64], drawn: &[u32]) -> Self {
        let class = |number: u32| usize::from(trace.requests[number as usize].class);
        let mut sorted: Vec<(f64, u32)> = drawn.iter().map(|number| (found[*number as usize], *number)).collect();
        sorted.sort_unstable_by(|one, other| {
            (class(one.1).cmp(&class(other.1))).then(one.0.total_cmp(&other.0)).then(one.1.cmp(&other.1))
        });
        let mut classes = Vec::new();
        for (at, (_, number)) in sorted.iter().enumerate() {
            let class = class(*number);
            if classes.len() <= class {
                classes.resize(class + 1, (at, at));
            }
            classes[class].1 = at + 1;
        }
        let is_kept = trace.others_matter(trace.others_ns());
        Self { of: if is_kept { Drawn::OfAll } else { Drawn::OfAState }, sorted, classes }
    }

    /// One of those that found the server like this, of a class as often as the class was recorded.
    pub(crate) fn draw(&self, trace: &Trace, state: f64, random: &mut fastrand::Rng) -> u32 {
        let any = self.sorted[random.usize(..self.sorted.len())].1;
        let (begin, end) = self.classes[usize::from(trace.requests[any as usize].class)];
        if self.of == Drawn::OfAll {
            return any;
        }
        let of_class = &self.sorted[begin..end];
        let (mut from, mut to) =
            (of_class.partition_point(|one| one.0 < state), of_class.partition_point(|one| one.0 <= state));
        let wanted = (of_class.len() / OF_ALL).max(ALIKE).min(of_class.len());
        if to - from < wanted {
            from = (from.midpoint(to)).saturating_sub(wanted / 2).min(of_class.len() - wanted);
            to = from + wanted;
        }
        of_class[random.usize(from..to)].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Visit, Work};

    fn request(at_ns: u64, response_ns: f64) -> Request {
        Request { at_ns, response_ns, ..Request::default() }
    }

    #[test]
    fn a_request_finds_others_or_a_pause() {
        let requests = [request(10, 5.0), request(12, 10.0), request(13, 100.0), request(14, 1.0), request(200, 1.0)];
        let found = found(&requests, 2);
        // Three are under way when the fourth comes, which counts as two CPUs' worth.
        assert_eq!(found[..4], [f64::INFINITY, -1.0, -2.0, -2.0]);
        assert!((found[4] - 87.0).abs() < 1e-9, "the last of them ended at 113: {found:?}");
    }

    #[test]
    fn those_are_drawn_that_found_it_alike() {
        let mut trace = Trace { requests: (0..2_000).map(|at| request(at, 1.0)).collect(), ..Trace::default() };
        trace.requests.iter_mut().enumerate().for_each(|(at, request)| request.class = (at % 2) as u16);
        let states: Vec<f64> = (0..2_000).map(|at| if at < 1_000 { -1.0 } else { f64::from(at) }).collect();
        let drawn: Vec<u32> = (0..2_000).collect();
        let (alike, mut random) = (Alike::of(&trace, &states, &drawn), fastrand::Rng::with_seed(1));
        let mut odd = 0;
        for _ in 0..500 {
            let of = [-1.0, 1_500.0, f64::INFINITY].map(|state| alike.draw(&trace, state, &mut random));
            let [busy, idle, longest] = of;
            assert!(busy < 1_000 && (1_440..1_560).contains(&idle) && longest >= 1_900, "{busy} {idle} {longest}");
            odd += of.iter().filter(|number| *number % 2 == 1).count();
        }
        assert!((600..900).contains(&odd), "half of each class: {odd} of 1500");
    }

    #[test]
    fn what_others_kept_is_drawn_of_all() {
        let mut trace = Trace { requests: (0..2_000).map(|at| request(at, 10.0)).collect(), ..Trace::default() };
        let kept = |request: &mut Request| {
            let (work, lock) = (Work::Others, None);
            request.visits.push(Visit { stack: 0, work, lock, ns: 5.0, label: 0 });
        };
        trace.requests.iter_mut().step_by(2).for_each(kept);
        let states: Vec<f64> = (0..2_000).map(|at| -f64::from(at % 2 + 1)).collect();
        let drawn: Vec<u32> = (0..2_000).collect();
        let (alike, mut random) = (Alike::of(&trace, &states, &drawn), fastrand::Rng::with_seed(1));
        let odd = (0..500).filter(|_| alike.draw(&trace, -2.0, &mut random) % 2 == 1).count();
        assert!((200..300).contains(&odd), "{odd} of 500 found two under way");
    }
}
