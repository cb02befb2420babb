//! The lines of the log, of which peers can cause only so many in a second.

use crate::counts::Counts;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in one second.
const LINES_MAX: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// The lines of the log.
#[derive(Debug)]
pub(crate) struct Journal {
    notice: fn(&str),
    second: Mutex<(Instant, u32, u64)>,
}

impl Journal {
    pub(crate) fn new(notice: fn(&str)) -> Self {
        Self { notice, second: Mutex::new((Instant::now(), 0, 0)) }
    }

    /// Writes a line, or counts it among those that are left out.
    pub(crate) fn tell(&self, counts: &Counts, line: &str) {
        let lost = {
            let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
            if second.0.elapsed() >= SECOND {
                (second.0, second.1) = (Instant::now(), 0);
            }
            if second.1 >= LINES_MAX {
                second.2 += 1;
                counts.lines_lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            second.1 += 1;
            std::mem::take(&mut second.2)
        };
        if lost > 0 {
            (self.notice)(&format!("{lost} lines were left out"));
        }
        (self.notice)(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_flood_is_bounded_and_counted() {
        static TOLD: AtomicU64 = AtomicU64::new(0);
        fn count(_: &str) {
            TOLD.fetch_add(1, Ordering::Relaxed);
        }
        let (counts, journal) = (Counts::default(), Journal::new(count));
        let start = Instant::now();
        (0..10_000).for_each(|_| journal.tell(&counts, "a line"));
        let (told, lost) = (TOLD.load(Ordering::Relaxed), counts.lines_lost.load(Ordering::Relaxed));
        // Each second has its lines, and one that tells of those before.
        let seconds = start.elapsed().as_secs() + 1;
        assert!(lost > 0 && told + lost >= 10_000 && told <= seconds * u64::from(LINES_MAX + 1), "{told} {lost}");
    }
}
