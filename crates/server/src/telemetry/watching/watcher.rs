//! One watcher: what it wants, its budget, and what waits to be written to it.

use super::json::{self, Left};
use super::question::Subscription;
use super::seen::Seen;
use crate::telemetry::request_filter::RequestFilter;
use std::time::{Duration, Instant};

/// From one line that tells what was left out to the next.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Bytes beside the budget for lines that tell what was left out, and the last one.
const OWN_BYTES_MAX: usize = 1024;

/// A watcher, without its socket.
#[derive(Debug)]
pub(super) struct Watcher {
    asked: Subscription,
    /// What waits to be written, and how much of it was.
    out: Vec<u8>,
    written: usize,
    /// Bytes that it may still get, and since when that is so.
    budget_bytes: u64,
    since: Instant,
    /// Nothing more is made for it until it gets more budget.
    is_spent: bool,
    left: Left,
    told: Left,
    tell_at: Instant,
    is_ended: bool,
}

impl Watcher {
    pub(super) fn new(asked: Subscription, now: Instant) -> Self {
        let out = json::begin(&asked);
        let budget_bytes = u64::from(asked.budget_bytes_per_s);
        let (left, told) = (Left::default(), Left::default());
        let (written, tell_at) = (0, now + TELL_EVERY);
        Self { asked, out, written, budget_bytes, since: now, is_spent: false, left, told, tell_at, is_ended: false }
    }

    pub(super) fn filter(&self) -> &RequestFilter {
        &self.asked.filter
    }

    /// Whether it is told bodies.
    pub(super) fn takes_bodies(&self) -> bool {
        self.asked.takes_bodies()
    }

    pub(super) fn budget_bytes_per_s(&self) -> u32 {
        self.asked.budget_bytes_per_s
    }

    /// Gives it the budget of the time that has gone by, of at most a second.
    pub(super) fn earn(&mut self, now: Instant) {
        let rate = u64::from(self.asked.budget_bytes_per_s);
        let ms = u64::try_from(now.saturating_duration_since(self.since).as_millis()).unwrap_or(u64::MAX).min(1000);
        let earned = rate * ms / 1000;
        if earned > 0 {
            self.budget_bytes = (self.budget_bytes + earned).min(rate);
            (self.since, self.is_spent) = (now, false);
        }
    }

    /// Writes a request, if it wants it and its budget has room.
    pub(super) fn offer(&mut self, seen: &Seen) {
        if self.is_ended || !self.asked.filter.is_for(&seen.facts()) {
            return;
        }
        let line = if self.is_spent { None } else { Some(json::request(self.left.shown + 1, seen, &self.asked)) };
        let waiting = self.out.len() - self.written;
        let room = (self.asked.budget_bytes_per_s as usize).saturating_sub(waiting);
        match line.filter(|line| line.len() as u64 <= self.budget_bytes && line.len() <= room) {
            Some(line) => {
                self.budget_bytes -= line.len() as u64;
                self.out.extend_from_slice(&line);
                self.left.shown += 1;
                if self.asked.requests_max == Some(self.left.shown) {
                    self.end("requests");
                }
            }
            None => {
                // Also where a smaller one would fit: what is made for nothing costs as much as what is written.
                self.is_spent = true;
                self.left.left_out += 1;
            }
        }
    }

    /// Loops have dropped so many requests.
    pub(super) fn dropped(&mut self, count: u64) {
        self.left.dropped += count;
    }

    /// Tells what was left out, if that is more than a second ago and something was.
    pub(super) fn tell(&mut self, now: Instant) {
        let is_news = (self.left.left_out, self.left.dropped) != (self.told.left_out, self.told.dropped);
        let has_room = self.out.len() - self.written < self.asked.budget_bytes_per_s as usize + OWN_BYTES_MAX / 2;
        if !self.is_ended && is_news && has_room && now >= self.tell_at {
            self.out.extend_from_slice(&json::left(self.left));
            (self.told, self.tell_at) = (self.left, now + TELL_EVERY);
        }
    }

    /// Nothing more comes behind the last line.
    pub(super) fn end(&mut self, why: &'static str) {
        if !self.is_ended {
            self.out.extend_from_slice(&json::end(why, self.left));
            self.is_ended = true;
        }
    }

    /// What is to be written next.
    pub(super) fn rest(&self) -> &[u8] {
        &self.out[self.written..]
    }

    /// So much of it was written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        } else if self.written >= 4096 {
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// Whether it is over, and all of it was written.
    pub(super) fn is_over(&self) -> bool {
        self.is_ended && self.rest().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Subscription {
        Subscription::read(query).expect("a subscription")
    }

    #[test]
    fn one_who_does_not_read_costs_its_budget_and_is_told_what_was_left_out() {
        let begin = Instant::now();
        let mut watcher = Watcher::new(asked("budget=4096"), begin);
        let seen = Seen::default();
        for second in 1..=100_u64 {
            for _ in 0..1000 {
                watcher.offer(&seen);
            }
            watcher.dropped(1);
            let now = begin + Duration::from_secs(second);
            watcher.earn(now);
            watcher.tell(now);
        }
        assert!(watcher.rest().len() <= 4096 + OWN_BYTES_MAX, "{}", watcher.rest().len());
        assert!(watcher.out.capacity() <= 4 * 4096, "{}", watcher.out.capacity());
        assert_eq!(watcher.left.shown + watcher.left.left_out, 100_000);
        assert_eq!(watcher.left.dropped, 100);
        watcher.end("requests");
        let text = String::from_utf8(watcher.rest().to_vec()).expect("text");
        assert!(
            text.ends_with("\n") && text.contains("\"type\":\"end\"") && text.contains("\"type\":\"left\""),
            "{text}"
        );
    }

    #[test]
    fn one_who_reads_gets_its_budget_each_second_and_no_more() {
        let begin = Instant::now();
        let mut watcher = Watcher::new(asked("budget=8192&show=timing"), begin);
        let mut read = 0;
        for tick in 1..=100_u64 {
            (0..1000).for_each(|_| watcher.offer(&Seen::default()));
            read += watcher.rest().len();
            watcher.wrote(watcher.rest().len());
            watcher.earn(begin + Duration::from_millis(100 * tick));
        }
        // Ten seconds, and what it had at first.
        assert!((8 * 8192..=11 * 8192 + 512).contains(&read), "{read}");
    }

    #[test]
    fn after_as_many_requests_as_were_asked_for_it_ends() {
        let mut watcher = Watcher::new(asked("requests=2"), Instant::now());
        assert!(!watcher.is_over());
        (0..5).for_each(|_| watcher.offer(&Seen::default()));
        let _ = watcher.rest();
        assert_eq!(watcher.left.shown, 2);
        watcher.wrote(watcher.rest().len());
        assert!(watcher.is_over());
    }
}
