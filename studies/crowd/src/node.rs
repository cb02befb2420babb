//! A node whose link all its responses share, and what was read of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A time that never comes, nanoseconds.
pub(crate) const NEVER: u64 = u64::MAX;

/// A response under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Response {
    /// When its request came, nanoseconds.
    pub(crate) arrived_ns: u64,
    /// How many responses the node had when it came, itself counted.
    pub(crate) active: u32,
}

/// A link of so many bytes a second, of which each response has as much as each other one.
///
/// Processor sharing in virtual time: progress is the bytes that one response would have had since the link was idle, so
/// the next to end is the one with the smallest progress at its end, and neither arrivals nor ends touch the others.
#[derive(Debug)]
pub(crate) struct Node {
    bytes_per_s: f64,
    progress: f64,
    read_ns: u64,
    /// By the progress at their end; bits of numbers that are not negative are in the order of the numbers.
    responses: BinaryHeap<Reverse<(u64, Response)>>,
    /// When the link was in use, nanoseconds in all.
    busy_ns: u64,
    /// Requests that came, those that were refused counted.
    pub(crate) came: u64,
}

impl Node {
    pub(crate) fn new(bytes_per_s: f64) -> Self {
        let responses = BinaryHeap::new();
        Self { bytes_per_s, progress: 0.0, read_ns: 0, responses, busy_ns: 0, came: 0 }
    }

    pub(crate) fn active(&self) -> u32 {
        self.responses.len() as u32
    }

    /// For how long the link was in use until now, nanoseconds.
    pub(crate) fn busy_ns(&mut self, now_ns: u64) -> u64 {
        self.read(now_ns);
        self.busy_ns
    }

    fn read(&mut self, now_ns: u64) {
        if self.responses.is_empty() {
            // Small numbers are exact.
            self.progress = 0.0;
        } else {
            let passed_ns = now_ns - self.read_ns;
            self.busy_ns += passed_ns;
            self.progress += passed_ns as f64 / 1e9 * self.bytes_per_s / self.responses.len() as f64;
        }
        self.read_ns = now_ns;
    }

    /// When the next response ends, nanoseconds.
    pub(crate) fn next_ns(&self) -> u64 {
        self.responses.peek().map_or(NEVER, |Reverse((end, _))| {
            let left = (f64::from_bits(*end) - self.progress).max(0.0);
            self.read_ns + (left * self.responses.len() as f64 / self.bytes_per_s * 1e9).ceil() as u64
        })
    }

    pub(crate) fn begin(&mut self, now_ns: u64, bytes: f64) {
        self.read(now_ns);
        let response = Response { arrived_ns: now_ns, active: self.active() + 1 };
        self.responses.push(Reverse(((self.progress + bytes).to_bits(), response)));
    }

    pub(crate) fn end(&mut self, now_ns: u64) -> Option<Response> {
        self.read(now_ns);
        self.responses.pop().map(|Reverse((_, response))| response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_share_the_link_and_idle_time_counts_as_unused() {
        let mut node = Node::new(1000.0);
        let second = 1_000_000_000;
        node.begin(0, 1000.0);
        // Half a second alone, then two share: 500 bytes are left of the first, and the second has 250.
        node.begin(second / 2, 250.0);
        assert_eq!(node.next_ns(), second);
        assert_eq!(node.end(second).map(|one| (one.arrived_ns, one.active)), Some((second / 2, 2)));
        assert_eq!(node.next_ns(), second + second / 4);
        assert_eq!(node.end(second + second / 4).map(|one| one.arrived_ns), Some(0));
        assert_eq!(
            (node.next_ns(), node.end(2 * second), node.busy_ns(3 * second)),
            (NEVER, None, second + second / 4)
        );
    }
}
