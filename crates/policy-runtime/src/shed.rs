//! Which requests are refused: a share of them, exactly.

use std::sync::atomic::{AtomicU64, Ordering};

/// A share of the requests that is refused.
#[derive(Debug)]
pub(crate) struct Shed {
    /// In steps of 2^-64.
    share: u64,
    count: AtomicU64,
}

impl Shed {
    pub(crate) fn new(percent: f64) -> Self {
        // A conversion stays within the type's bounds.
        Self { share: (percent.clamp(0.0, 100.0) / 100.0 * 2.0_f64.powi(64)) as u64, count: AtomicU64::new(0) }
    }

    /// Whether the next request is refused, and its number. The numbers' multiples of the golden ratio fill the circle
    /// evenly (Weyl), so of any run of requests the share is refused within two or three, and no client that asks in a
    /// rhythm of its own meets only the refusals.
    pub(crate) fn next(&self) -> (bool, u64) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (at < self.share || self.share == u64::MAX, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_run_of_requests_loses_the_share() {
        for percent in [0.0, 0.1, 5.0, 33.3, 50.0, 99.0, 100.0] {
            let shed = Shed::new(percent);
            let refused: Vec<bool> = (0..20_000).map(|_| shed.next().0).collect();
            for length in [100, 1000, 10_000] {
                for run in refused.chunks(length) {
                    let count = run.iter().filter(|refused| **refused).count() as f64;
                    let wanted = percent / 100.0 * length as f64;
                    assert!((count - wanted).abs() <= 3.0, "{percent}% of {length}: {count}");
                }
            }
        }
    }
}
