//! The line whose slope is the median of all slopes (Theil 1950, Sen 1968).

use super::fit::{Forecast, fit};

/// Points at most, taken evenly from those given: slopes are their square.
const POINTS_MAX: usize = 64;

/// As [`super::least_squares`], but of up to 29 % of wild values untouched. At most 64 of the points are looked at,
/// evenly over the whole, always with the last.
pub fn theil_sen(points: impl Iterator<Item = (f64, f64)> + Clone, at_s: f64) -> Option<Forecast> {
    let all = points.clone().count();
    if all < 3 {
        return None;
    }
    let step = all.div_ceil(POINTS_MAX);
    // Counted from the end, so that the last one is always among them.
    let chosen: Vec<(f64, f64)> = points
        .clone()
        .enumerate()
        .filter(|(at, _)| (all - 1 - at).is_multiple_of(step))
        .map(|(_, point)| point)
        .collect();
    let mut slopes = Vec::with_capacity(chosen.len() * chosen.len() / 2);
    for (at, (t, v)) in chosen.iter().enumerate() {
        for (earlier_t, earlier_v) in &chosen[..at] {
            if t > earlier_t {
                slopes.push((v - earlier_v) / (t - earlier_t));
            }
        }
    }
    let slope = median(&mut slopes)?;
    let mut heights: Vec<f64> = chosen.iter().map(|(t, v)| v - slope * t).collect();
    let height = median(&mut heights)?;
    let line = |t: f64| height + slope * t;
    Some(Forecast { value: line(at_s).max(0.0), fit: fit(points.map(|(t, v)| (v, line(t)))) })
}

fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    let lower = if even { below.iter().copied().fold(f64::NEG_INFINITY, f64::max) } else { upper };
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::super::least_squares;
    use super::*;

    #[test]
    fn wild_values_do_not_turn_the_line() {
        let points = (0..100).map(|n| (f64::from(n), if n % 7 == 3 { 5000.0 } else { 100.0 + 2.0 * f64::from(n) }));
        let robust = theil_sen(points.clone(), 120.0).expect("points");
        assert!((robust.value - 340.0).abs() < 20.0, "{robust:?}");
        let squares = least_squares(points, 120.0).expect("points");
        assert!((squares.value - 340.0).abs() > 300.0, "{squares:?}");
    }

    #[test]
    fn without_wild_values_both_say_the_same() {
        let points = (0..50).map(|n| (f64::from(n), 7.0 + 3.0 * f64::from(n)));
        let (robust, squares) = (theil_sen(points.clone(), 60.0), least_squares(points, 60.0));
        let (robust, squares) = (robust.expect("points"), squares.expect("points"));
        assert!((robust.value - 187.0).abs() < 1e-6 && (squares.value - 187.0).abs() < 1e-6);
        assert!(robust.fit > 0.999_999 && squares.fit > 0.999_999);
        assert_eq!(theil_sen([(0.0, 1.0), (1.0, 1.0)].into_iter(), 2.0), None);
    }
}
