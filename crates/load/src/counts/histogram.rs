//! Histograms of nanoseconds.

/// A histogram of nanoseconds, as the report holds them.
pub type Histogram = hdrhistogram::Histogram<u64>;

/// The longest time that is told apart: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A histogram from 1 ns to an hour with three significant digits.
pub(crate) fn histogram() -> Histogram {
    // The bounds are constants that the library accepts: low below half of high, at most five digits.
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("valid constant bounds")
}
