//! What a connection waits for, and until when.

use super::super::stream::Stream;
use super::{Connection, Phase};
use crate::loop_state::LoopState;
use std::time::Duration;

impl Connection {
    /// Finds out what the connection waits for now, and until when.
    pub(super) fn update_phase(&mut self, has_moved: bool, state: &LoopState) {
        let timeouts = &state.timeouts;
        let has_application = self.streams.iter().any(Stream::is_starved);
        let (phase, timeout) = if self.is_failed || self.is_done {
            (Phase::Linger, timeouts.linger)
        } else if self.streams.iter().any(Stream::is_answering) || self.is_blocked() {
            (Phase::Stall, timeouts.stall)
        } else if !self.has_settings
            || self.continued.is_some()
            // A body for an application has its own time, and nearly always ends within a frame.
            || (!self.saved.is_empty() && !has_application)
        {
            (Phase::Head, timeouts.head)
        } else if self.streams.iter().any(Stream::waits) || has_application {
            // An application's request has its own time: see below, and the exchange's patience.
            (Phase::Queue, Duration::MAX)
        } else {
            (Phase::Idle, timeouts.idle)
        };
        let after = |start_ms: u64, timeout: Duration| {
            start_ms.saturating_add(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
        };
        let is_new = std::mem::take(&mut self.is_new);
        if phase != self.phase || (phase == Phase::Stall && has_moved) || (phase == Phase::Idle && is_new) {
            self.phase = phase;
            self.phase_deadline_ms = after(state.clock.now_ms, timeout);
        }
        let held = self
            .streams
            .iter()
            .filter(|stream| stream.is_held || stream.owes_body())
            .map(|stream| stream.since_ms)
            .min();
        self.deadline_ms = held.map_or(u64::MAX, |since_ms| after(since_ms, timeouts.body)).min(self.phase_deadline_ms);
    }
}
