//! A distribution of times as a curve: its values at fixed percentiles, and that of several together.

use hdrhistogram::Histogram;

/// The percentiles of a curve, from the least value to the largest; they lie closer where the tail is.
pub const PERCENTILES: [f64; 28] = [
    0.0, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 96.0, 97.0,
    98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.98, 99.99, 100.0,
];

/// The values of a histogram at [`PERCENTILES`], as exact as its digits and never above its largest; `None` if it is
/// empty.
#[must_use]
pub fn of(histogram: &Histogram<u64>) -> Option<[u64; PERCENTILES.len()]> {
    if histogram.is_empty() {
        return None;
    }
    let (least, most) = (histogram.min(), histogram.max());
    Some(PERCENTILES.map(|percentile| match percentile {
        0.0 => least,
        percentile => histogram.value_at_percentile(percentile).clamp(least, most),
    }))
}

/// The curve of several distributions together, each with its weight: how many values it has. `None` without any.
///
/// Between two percentiles the values of one are taken to lie evenly, which is what the curves tell.
#[must_use]
pub fn together(curves: &[(&[f64], f64)]) -> Option<[f64; PERCENTILES.len()]> {
    let curves: Vec<(&[f64], f64)> =
        curves.iter().copied().filter(|(curve, weight)| curve.len() == PERCENTILES.len() && *weight > 0.0).collect();
    let all: f64 = curves.iter().map(|(_, weight)| weight).sum();
    let least = curves.iter().map(|(curve, _)| curve[0]).reduce(f64::min)?;
    let most = curves.iter().map(|(curve, _)| curve[PERCENTILES.len() - 1]).reduce(f64::max)?;
    let share =
        |value: f64| curves.iter().map(|(curve, weight)| percentile_of(curve, value) * weight).sum::<f64>() / all;
    let mut low = least;
    Some(PERCENTILES.map(|percentile| {
        if percentile == 0.0 {
            return least;
        }
        if percentile == 100.0 {
            return most;
        }
        // What has this percentile at least; the last answer is below it, as the curve never falls.
        let (mut below, mut above) = (low, most);
        for _ in 0..60 {
            let middle = below.midpoint(above);
            if share(middle) < percentile {
                below = middle;
            } else {
                above = middle;
            }
        }
        low = above;
        above
    }))
}

/// How many in a hundred values of a curve do not exceed `value`.
fn percentile_of(curve: &[f64], value: f64) -> f64 {
    let next = curve.partition_point(|at| *at <= value);
    if next == 0 {
        return 0.0;
    }
    if next == curve.len() {
        return 100.0;
    }
    let (from, to) = (curve[next - 1], curve[next]);
    // `to` lies above `value` and `from` does not, so they differ.
    let way = (value - from) / (to - from);
    PERCENTILES[next - 1] + way * (PERCENTILES[next] - PERCENTILES[next - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: impl Iterator<Item = u64>) -> Vec<f64> {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits");
        values.for_each(|value| histogram.record(value).expect("it grows"));
        of(&histogram).expect("it has values").map(|value| value as f64).to_vec()
    }

    #[test]
    fn a_curve_of_one_to_a_thousand() {
        let found = curve(1..=1000);
        for (percentile, value) in PERCENTILES.iter().zip(&found) {
            assert!((value - percentile * 10.0).abs() <= 1.0, "{percentile} %: {value}");
        }
        assert_eq!(of(&Histogram::new(3).expect("three digits")), None);
        assert_eq!(together(&[]), None);
    }

    #[test]
    fn together_they_are_the_curve_of_all_values() {
        let (fast, slow) =
            (curve((1..=3000).map(|value| value * 10)), curve((1..=1000).map(|value| 50_000 + value * 20)));
        let all = curve((1..=3000).map(|value| value * 10).chain((1..=1000).map(|value| 50_000 + value * 20)));
        let found = together(&[(&fast, 3000.0), (&slow, 1000.0)]).expect("two curves");
        for ((percentile, found), expected) in PERCENTILES.iter().zip(found).zip(all) {
            // At 75 % the one ends and the other begins: any value between is as right.
            let between = *percentile == 75.0 && (30_000.0..=50_100.0).contains(&found);
            assert!(between || (found / expected - 1.0).abs() < 0.02, "{percentile} %: {found} {expected}");
        }
        assert_eq!(together(&[(&fast, 5.0), (&slow, 0.0)]).map(|found| found[27]), Some(fast[27]));
    }

    proptest::proptest! {
        #[test]
        fn it_never_falls_and_stays_within(
            values in proptest::collection::vec(proptest::collection::vec(1_u64..10_000_000, 1..50), 1..5),
        ) {
            let curves: Vec<Vec<f64>> = values.iter().map(|values| curve(values.iter().copied())).collect();
            let weighted: Vec<(&[f64], f64)> =
                curves.iter().zip(&values).map(|(curve, values)| (curve.as_slice(), values.len() as f64)).collect();
            let found = together(&weighted).expect("there are values");
            proptest::prop_assert!(found.windows(2).all(|pair| pair[0] <= pair[1]), "{found:?}");
            let least = curves.iter().map(|curve| curve[0]).fold(f64::INFINITY, f64::min);
            let most = curves.iter().map(|curve| curve[27]).fold(0.0, f64::max);
            proptest::prop_assert_eq!((found[0], found[27]), (least, most));
        }
    }
}
