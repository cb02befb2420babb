//! Intervals in time.

use std::time::{Duration, Instant};
use weir_record::live::{Live, LiveError, LiveWindow};
use weir_terminal::stop::Stop;

/// Windows one after the other, so that each begins an interval after the one before.
pub(super) struct Rhythm {
    interval: Duration,
    /// What attaching, detaching and folding took of the last interval.
    beside: Duration,
    next: Instant,
}

impl Rhythm {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, beside: Duration::ZERO, next: Instant::now() }
    }

    /// Waits until the interval begins, and records for what is left of it.
    pub(super) fn window(&mut self, live: &mut Live, stop: &Stop) -> Result<LiveWindow, LiveError> {
        while Instant::now() < self.next && !stop.asked() {
            std::thread::sleep(Duration::from_millis(10).min(self.next.saturating_duration_since(Instant::now())));
        }
        let begin = Instant::now();
        self.next = begin + self.interval;
        let time = self.interval.saturating_sub(self.beside).max(self.interval / 4);
        let window = live.window(time, stop)?;
        if !window.is_short {
            self.beside = begin.elapsed().saturating_sub(time);
        }
        Ok(window)
    }
}
