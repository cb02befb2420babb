//! The arithmetic of ab's tables: as it should be, and by `--strict` as the original does it.

use super::samples::{Column, Measure, Samples};

/// The percentages of the table.
pub(super) const PERCENTAGES: [u64; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// A row of the table of connection times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) min_ms: u64,
    pub(super) mean_ms: u64,
    pub(super) sd_ms: f64,
    pub(super) median_ms: u64,
    pub(super) max_ms: u64,
    pub(super) apart: Apart,
}

/// How far mean and median are from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    /// Within one standard deviation.
    Near,
    /// Within two.
    Far,
    /// Beyond two.
    TooFar,
}

/// The row of a measure; there is at least one sample.
pub(super) fn row(samples: &mut Samples, measure: Measure, strict: bool) -> Row {
    samples.sort(measure);
    let column = *samples.column(measure);
    let (mean_us, sd_us) = if strict { strict_mean(&column) } else { mean(&column) };
    let median_us = median(samples, measure, strict);
    let (mean_ms, median_ms) = (to_ms(mean_us), to_ms(median_us));
    let apart = if strict {
        // The original compares what it has rounded to milliseconds before.
        apart(mean_ms as f64, median_ms as f64, sd_us / 1000.0)
    } else {
        apart(mean_us, median_us, sd_us)
    };
    Row {
        min_ms: to_ms(f64::from(column.min)),
        mean_ms,
        sd_ms: sd_us / 1000.0,
        median_ms,
        max_ms: to_ms(f64::from(column.max)),
        apart,
    }
}

/// Rounds microseconds to milliseconds, halves up.
pub(super) fn to_ms(us: f64) -> u64 {
    ((us + 500.0) / 1000.0) as u64
}

/// Mean and standard deviation of the sample, in microseconds.
fn mean(column: &Column) -> (f64, f64) {
    let count = u128::from(column.count);
    let mean = column.sum as f64 / column.count as f64;
    if count < 2 {
        return (mean, 0.0);
    }
    // In whole numbers, so that nothing cancels out: n * sum of squares is never below the square of the sum.
    let spread = count.saturating_mul(column.squares).saturating_sub(column.sum.saturating_mul(column.sum));
    (mean, (spread as f64 / count as f64 / (count - 1) as f64).sqrt())
}

/// The same, with the mean cut to whole microseconds before the deviations from it are taken.
fn strict_mean(column: &Column) -> (f64, f64) {
    let count = u128::from(column.count);
    let mean = column.sum / count;
    if count < 2 {
        return (mean as f64, 0.0);
    }
    // sum (x - m)^2 = sum x^2 - 2 m sum x + n m^2; the mean is cut, so n m <= sum x and nothing falls below zero.
    let spread = (column.squares + count * mean * mean).saturating_sub(2 * mean * column.sum);
    (mean as f64, (spread as f64 / (count - 1) as f64).sqrt())
}

/// The median in microseconds; sorted by this measure.
fn median(samples: &Samples, measure: Measure, strict: bool) -> f64 {
    let count = samples.count();
    let nth = |place: u64| u64::from(samples.nth(measure, place));
    let middle = count / 2;
    if strict {
        // For an odd count the original takes the middle and the next, for an even one the upper of the middle two.
        let odd = count > 1 && count % 2 == 1;
        return if odd { (nth(middle) + nth(middle + 1)) / 2 } else { nth(middle) } as f64;
    }
    if count % 2 == 1 { nth(middle) as f64 } else { (nth(middle.saturating_sub(1)) + nth(middle)) as f64 / 2.0 }
}

fn apart(mean: f64, median: f64, sd: f64) -> Apart {
    let distance = (mean - median).abs();
    if distance > 2.0 * sd {
        Apart::TooFar
    } else if distance > sd {
        Apart::Far
    } else {
        Apart::Near
    }
}

/// The total time within which so many percent of the requests were served, in microseconds; sorted by total time.
pub(super) fn percentile(samples: &Samples, percent: u64, strict: bool) -> u32 {
    let count = samples.count();
    let place = match percent {
        100.. => count - 1,
        _ if strict => count * percent / 100,
        _ => (count * percent).div_ceil(100).saturating_sub(1),
    };
    samples.nth(Measure::Total, place)
}

/// The same for a line of the file of percentages, where the original rounds otherwise.
pub(super) fn csv_percentile(samples: &Samples, percent: u64, strict: bool) -> u32 {
    let count = samples.count();
    if strict && (1..100).contains(&percent) {
        // Of a few samples the original reads the one behind the last: that is not repeated.
        let place = (0.5 + count as f64 * percent as f64 / 100.0) as u64;
        return samples.nth(Measure::Total, place.min(count - 1));
    }
    percentile(samples, percent, false)
}

#[cfg(test)]
mod tests {
    use super::super::samples::Sample;
    use super::*;

    fn of(totals_us: &[u32]) -> Samples {
        let mut samples = Samples::new(false);
        for total_us in totals_us {
            samples.push(Sample { total_us: *total_us, connect_us: 1, ..Sample::default() });
        }
        samples
    }

    fn total(totals_us: &[u32], strict: bool) -> Row {
        row(&mut of(totals_us), Measure::Total, strict)
    }

    #[test]
    fn the_median_of_an_odd_count_is_the_middle() {
        let values = [1_000, 2_000, 3_000, 10_000, 20_000];
        assert_eq!((total(&values, false).median_ms, total(&values, true).median_ms), (3, 7));
        let values = [1_000, 2_000, 10_000, 20_000];
        assert_eq!((total(&values, false).median_ms, total(&values, true).median_ms), (6, 10));
        assert_eq!((total(&[4_000], false).median_ms, total(&[4_000], true).median_ms), (4, 4));
    }

    #[test]
    fn means_and_deviations_are_those_of_the_sample() {
        // Of 2, 4, 4, 4, 5, 5, 7, 9 ms the squared deviations from 5 add up to 32.
        let values: Vec<u32> = [2, 4, 4, 4, 5, 5, 7, 9].map(|ms| ms * 1000).to_vec();
        for strict in [false, true] {
            let row = total(&values, strict);
            assert_eq!((row.min_ms, row.mean_ms, row.max_ms), (2, 5, 9));
            assert!((row.sd_ms - (32.0f64 / 7.0).sqrt()).abs() < 1e-9, "{}", row.sd_ms);
        }
        // Cut to whole microseconds, the mean of 0 and 1 is 0 and the deviation 1 instead of 0.7.
        let (right, strict) = (total(&[0, 1], false), total(&[0, 1], true));
        assert!((right.sd_ms - 0.5f64.sqrt() / 1000.0).abs() < 1e-12 && (strict.sd_ms - 0.001).abs() < 1e-12);
        assert!(total(&[7], false).sd_ms.abs() < 1e-12);
    }

    #[test]
    fn mean_and_median_are_compared_before_they_are_rounded() {
        // Mean 0.4 ms and median 0.6 ms round to 0 and 1: one whole millisecond, five deviations.
        let values = [100, 200, 600, 600, 600];
        assert_eq!((total(&values, false).apart, total(&values, true).apart), (Apart::Near, Apart::TooFar));
        let skewed: Vec<u32> = std::iter::repeat_n(1_000, 99).chain([1_000_000]).collect();
        assert_eq!(total(&skewed, false).apart, Apart::Near);
        assert_eq!(apart(10.0, 5.0, 4.0), Apart::Far);
        assert_eq!(apart(10.0, 0.0, 4.0), Apart::TooFar);
    }

    #[test]
    fn a_percentage_is_the_least_time_that_serves_so_many() {
        let mut ten = of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|ms| ms * 1000));
        ten.sort(Measure::Total);
        let of = |percent, strict| percentile(&ten, percent, strict) / 1000;
        assert_eq!(PERCENTAGES.map(|percent| of(percent, false)), [5, 7, 8, 8, 9, 10, 10, 10, 10]);
        assert_eq!(PERCENTAGES.map(|percent| of(percent, true)), [6, 7, 8, 9, 10, 10, 10, 10, 10]);
        let csv = |percent, strict| csv_percentile(&ten, percent, strict) / 1000;
        assert_eq!([0, 1, 50, 99, 100].map(|percent| csv(percent, false)), [1, 1, 5, 10, 10]);
        assert_eq!([0, 1, 50, 99, 100].map(|percent| csv(percent, true)), [1, 1, 6, 10, 10]);
    }

    #[test]
    fn halves_of_a_millisecond_are_rounded_up() {
        assert_eq!([0.0, 499.0, 500.0, 1499.0, 1500.0].map(to_ms), [0, 0, 1, 1, 2]);
    }
}
