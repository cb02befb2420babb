//! A closer look at a slow request: how much of its time the generator itself took.

use crate::connect::kernel::monotonic_ns;
use crate::counts::slowest::SlowOne;
use crate::engine::state::{Engine, Version};
use std::os::fd::AsRawFd;

impl<V: Version> Engine<'_, V> {
    /// Counts a slow response that was just read on a connection, before the connection goes on; `begun_ns` is when the
    /// generator turned to its request, and `held_us` how long the request then waited for a free connection.
    #[cold]
    #[inline(never)]
    pub(crate) fn count_slow(
        &mut self,
        slot: usize,
        intended_ns: u64,
        begun_ns: u64,
        held_us: u32,
        reads_at_once: bool,
    ) {
        let latency_ns = self.now_ns.saturating_sub(intended_ns);
        let unread_ns =
            if reads_at_once && latency_ns >= self.tally.slow.tick_ns { self.lay_unread_ns(slot) } else { None };
        self.count_slow_read(intended_ns, begun_ns, held_us, unread_ns);
    }

    /// The same where it is known otherwise how long the response lay in the socket.
    #[cold]
    #[inline(never)]
    pub(crate) fn count_slow_read(&mut self, intended_ns: u64, begun_ns: u64, held_us: u32, unread_ns: Option<u64>) {
        let latency_ns = self.now_ns.saturating_sub(intended_ns);
        let held_ns = u64::from(held_us) * 1000;
        let late_ns = begun_ns.saturating_sub(intended_ns).saturating_sub(held_ns);
        let successes = self.tally.successes();
        self.tally.slow.add(SlowOne { latency_ns, late_ns, unread_ns }, successes);
    }

    /// How long what a connection received last had lain there when it was read, within the kernel's tick.
    fn lay_unread_ns(&mut self, slot: usize) -> Option<u64> {
        let fd = self.connections[slot].stream.as_ref()?.fd().as_raw_fd();
        let came_ago_ns = self.connector.kernel.came_ago_ns(fd)?;
        Some(came_ago_ns.saturating_sub(monotonic_ns().saturating_sub(self.now_ns)))
    }
}

/// How long an arrival waited for a connection that waits since `late_us` behind its intended time, in microseconds.
#[inline]
pub(crate) fn held_us(intended_ns: u64, late_us: u32, now_ns: u64) -> u32 {
    micros(now_ns.saturating_sub(intended_ns)).saturating_sub(late_us)
}

/// Nanoseconds as microseconds; what is more than an hour is an hour and some.
#[inline]
pub(crate) fn micros(ns: u64) -> u32 {
    u32::try_from(ns / 1000).unwrap_or(u32::MAX)
}
