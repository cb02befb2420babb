//! A node as a queue: first come, first served, or all at once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// In which order a node serves what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discipline {
    /// First come, first served: a pool of workers, each with one request.
    #[default]
    Fifo,
    /// All at once, each as fast as the servers' capacity allows, but no request faster than one server: an event loop, or
    /// more workers than CPUs.
    Shared,
}

/// A request that a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub(crate) arrived_ns: u64,
    pub(crate) service_ns: u64,
}

/// No completion is to come.
pub(crate) const NEVER: u64 = u64::MAX;

/// A node that is told of arrivals and, at the time that it said last, of completions. Both give the time of its next
/// completion.
pub(crate) trait Station {
    fn new(servers: u32) -> Self;
    fn arrive(&mut self, now_ns: u64, job: Job) -> u64;
    /// Without a job in it there is none that could complete.
    fn complete(&mut self, now_ns: u64) -> Option<(Job, u64)>;
}

/// First come, first served.
pub(crate) struct Fifo {
    servers: usize,
    /// When it is done, and what it is.
    served: BinaryHeap<Reverse<(u64, Job)>>,
    waiting: VecDeque<Job>,
}

impl Fifo {
    fn begin(&mut self, now_ns: u64, job: Job) {
        self.served.push(Reverse((now_ns + job.service_ns, job)));
    }

    fn next(&self) -> u64 {
        self.served.peek().map_or(NEVER, |Reverse((done_ns, _))| *done_ns)
    }
}

impl Station for Fifo {
    fn new(servers: u32) -> Self {
        Self {
            servers: servers as usize,
            served: BinaryHeap::with_capacity(servers as usize),
            waiting: VecDeque::new(),
        }
    }

    #[inline]
    fn arrive(&mut self, now_ns: u64, job: Job) -> u64 {
        if self.served.len() < self.servers {
            self.begin(now_ns, job);
        } else {
            self.waiting.push_back(job);
        }
        self.next()
    }

    #[inline]
    fn complete(&mut self, now_ns: u64) -> Option<(Job, u64)> {
        let Reverse((_, job)) = self.served.pop()?;
        if let Some(next) = self.waiting.pop_front() {
            self.begin(now_ns, next);
        }
        Some((job, self.next()))
    }
}

/// All at once. Progress is counted on a clock of its own that runs as fast as each request is served, so that only
/// the next completion has to be known.
pub(crate) struct Shared {
    servers: f64,
    /// That clock, and when it was read, nanoseconds.
    progress_ns: f64,
    read_ns: u64,
    /// By the progress at which they are done; bits of a number that is not negative are in its order.
    served: BinaryHeap<Reverse<(u64, Job)>>,
}

impl Shared {
    /// How much of a server each request has.
    fn rate(&self) -> f64 {
        (self.servers / self.served.len() as f64).min(1.0)
    }

    fn read(&mut self, now_ns: u64) {
        if self.served.is_empty() {
            // Small numbers are exact.
            self.progress_ns = 0.0;
        } else {
            self.progress_ns += (now_ns - self.read_ns) as f64 * self.rate();
        }
        self.read_ns = now_ns;
    }

    fn next(&self) -> u64 {
        self.served.peek().map_or(NEVER, |Reverse((done, _))| {
            let left = (f64::from_bits(*done) - self.progress_ns).max(0.0);
            self.read_ns + (left / self.rate()).round() as u64
        })
    }
}

impl Station for Shared {
    fn new(servers: u32) -> Self {
        Self { servers: f64::from(servers), progress_ns: 0.0, read_ns: 0, served: BinaryHeap::new() }
    }

    #[inline]
    fn arrive(&mut self, now_ns: u64, job: Job) -> u64 {
        self.read(now_ns);
        self.served.push(Reverse(((self.progress_ns + job.service_ns as f64).to_bits(), job)));
        self.next()
    }

    #[inline]
    fn complete(&mut self, now_ns: u64) -> Option<(Job, u64)> {
        self.read(now_ns);
        let Reverse((_, job)) = self.served.pop()?;
        Some((job, self.next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of some jobs is done.
    fn served<S: Station>(servers: u32, jobs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let (mut station, mut next, mut done) = (S::new(servers), NEVER, Vec::new());
        let arrivals = jobs.iter().map(|(arrived_ns, service_ns)| (*arrived_ns, *service_ns)).chain([(NEVER - 1, 0)]);
        for (arrived_ns, service_ns) in arrivals {
            while next <= arrived_ns {
                let (job, after) = station.complete(next).expect("it said so");
                done.push((job.arrived_ns, next));
                next = after;
            }
            if arrived_ns < NEVER - 1 {
                next = station.arrive(arrived_ns, Job { arrived_ns, service_ns });
            }
        }
        done
    }

    #[test]
    fn the_first_come_is_the_first_served() {
        assert_eq!(served::<Fifo>(1, &[(0, 10), (1, 5), (30, 2)]), [(0, 10), (1, 15), (30, 32)]);
        assert_eq!(served::<Fifo>(2, &[(0, 10), (1, 5), (2, 7)]), [(1, 6), (0, 10), (2, 13)]);
    }

    #[test]
    fn all_are_served_at_once() {
        // From 4 on two share: the first has 6 left and needs 12, the second is done at 4 + 2 * 3.
        assert_eq!(served::<Shared>(1, &[(0, 10), (4, 3)]), [(4, 10), (0, 13)]);
        // Two servers are enough for two, and three have two thirds each.
        assert_eq!(served::<Shared>(2, &[(0, 10), (0, 10)]), [(0, 10), (0, 10)]);
        assert_eq!(served::<Shared>(2, &[(0, 10), (0, 10), (0, 10)]), [(0, 15), (0, 15), (0, 15)]);
    }
}
