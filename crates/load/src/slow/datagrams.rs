//! A line in one direction, as datagrams have it: each takes the time of its bytes, and then that of the way.
//!
//! Knows no clock and no socket: times are given to it.

use crate::schedule::scheduler::NEVER;
use crate::slow::tokens::{CATCH_UP_NS, Limit, Tokens};
use std::collections::VecDeque;

/// Datagrams on their way.
#[derive(Debug)]
pub(crate) struct Datagrams<D> {
    limit: Option<Limit>,
    way_ns: u64,
    bytes_max: usize,
    tokens: Tokens,
    /// When each is there, and what it is.
    on_way: VecDeque<(u64, D)>,
    bytes: usize,
}

impl<D: AsRef<[u8]>> Datagrams<D> {
    /// A line without anything on it; `way_ns` is the time of the way, and `bytes_max` the most that it holds.
    pub(crate) fn new(limit: Option<Limit>, way_ns: u64, bytes_max: usize) -> Self {
        Self { limit, way_ns, bytes_max, tokens: Tokens::default(), on_way: VecDeque::new(), bytes: 0 }
    }

    /// Makes it that of another connection.
    pub(crate) fn reset(&mut self) {
        self.tokens = Tokens::default();
        self.on_way.clear();
        self.bytes = 0;
    }

    /// Whether another may be put on it at once: all before are through the limit, and there is room.
    pub(crate) fn is_free(&self, now_ns: u64) -> bool {
        self.free_ns() <= now_ns && self.bytes < self.bytes_max
    }

    /// When all that were put on it are through its limit.
    pub(crate) fn free_ns(&self) -> u64 {
        if self.limit.is_some() { self.tokens.paid_ns() } else { 0 }
    }

    /// Since when a datagram waits that is put on it now, as the line was not free before: a loop that came late makes up
    /// for some of it.
    pub(crate) fn waits_since_ns(&self, now_ns: u64) -> u64 {
        self.free_ns().max(now_ns.saturating_sub(CATCH_UP_NS)).min(now_ns)
    }

    /// Puts a datagram on it that is there since a time, behind all others; tells whether there was room.
    pub(crate) fn put(&mut self, since_ns: u64, now_ns: u64, datagram: D) -> bool {
        let bytes = datagram.as_ref().len();
        if self.bytes >= self.bytes_max {
            return false;
        }
        let through_ns = match self.limit {
            None => now_ns,
            Some(limit) => {
                self.tokens.start(since_ns);
                self.tokens.take(limit, bytes);
                self.tokens.paid_ns().max(now_ns)
            }
        };
        self.bytes += bytes;
        self.on_way.push_back((through_ns.saturating_add(self.way_ns), datagram));
        true
    }

    /// When the first is there.
    pub(crate) fn next_ns(&self) -> u64 {
        self.on_way.front().map_or(NEVER, |(at_ns, _)| *at_ns)
    }

    /// Takes the first, if it is there.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<D> {
        if self.next_ns() > now_ns {
            return None;
        }
        let (_, datagram) = self.on_way.pop_front()?;
        self.bytes -= datagram.as_ref().len();
        Some(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each datagram comes once and in order, when its bytes and those before it are through the limit and over the way.
        #[test]
        fn datagrams_come_when_their_bytes_have(
            steps in prop::collection::vec((0u64..50_000_000, 1usize..1500), 1..100),
            bytes_per_s in prop::option::of(1000.0..1e7f64),
            way_ns in 0u64..100_000_000,
        ) {
            let mut line = Datagrams::new(bytes_per_s.map(Limit::new), way_ns, 20_000);
            let (mut now_ns, mut through_ns, mut wanted) = (0, 0.0f64, VecDeque::new());
            for (number, (later_ns, bytes)) in steps.into_iter().enumerate() {
                now_ns += later_ns;
                while let Some(datagram) = line.take_due(now_ns) {
                    let (due_ns, put): (f64, Vec<u8>) = wanted.pop_front().expect("it was put");
                    prop_assert!(datagram == put && due_ns <= now_ns as f64 + 1e4, "{due_ns} {now_ns}");
                }
                let datagram = vec![number as u8; bytes];
                let is_full = wanted.iter().map(|(_, datagram)| datagram.len()).sum::<usize>() >= 20_000;
                prop_assert_eq!(line.put(now_ns, now_ns, datagram.clone()), !is_full);
                if !is_full {
                    let takes_ns = bytes_per_s.map_or(0.0, |rate| bytes as f64 / rate * 1e9);
                    through_ns = through_ns.max(now_ns as f64) + takes_ns;
                    wanted.push_back((through_ns + way_ns as f64, datagram));
                    // A byte's cost is rounded to a part of a nanosecond.
                    prop_assert!((line.free_ns() as f64 - through_ns).abs() < 1e4 || bytes_per_s.is_none());
                }
                let next_ns = wanted.front().map_or(NEVER as f64, |(due_ns, _)| *due_ns);
                prop_assert!((line.next_ns() as f64 - next_ns).abs() < 1e4, "{} {next_ns}", line.next_ns());
            }
        }
    }

    #[test]
    fn another_connection_finds_the_line_empty() {
        let mut line = Datagrams::new(Some(Limit::new(1000.0)), 0, 10);
        assert!(line.is_free(5) && line.put(5, 5, vec![0; 10]) && !line.is_free(5) && !line.put(5, 5, vec![0; 1]));
        assert!(!line.is_free(10_000_004) && line.take_due(10_000_004).is_none());
        assert!(line.take_due(10_000_006).is_some() && line.is_free(10_000_006));
        // A loop that came 5 ms late makes up for them, one that came much later for a part.
        let since_ns = line.waits_since_ns(15_000_006);
        assert!(line.put(since_ns, 15_000_006, vec![0; 10]));
        assert_eq!((since_ns / 1000, line.next_ns() / 1000), (10_000, 20_000));
        assert_eq!(line.waits_since_ns(1_020_000_000), 980_000_000);
        line.reset();
        assert!(line.is_free(0) && line.next_ns() == NEVER);
    }
}
