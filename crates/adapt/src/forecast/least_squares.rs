//! The straight line of least squares.

use super::{Forecast, fit};

/// The straight line through points (seconds, value), at a time in the same seconds; `None` of fewer than three
/// points, or of points of one moment.
pub fn least_squares(points: impl Iterator<Item = (f64, f64)> + Clone, at_s: f64) -> Option<Forecast> {
    let (count, sum_t, sum_v) =
        points.clone().fold((0.0, 0.0, 0.0), |(count, t_sum, v_sum), (t, v)| (count + 1.0, t_sum + t, v_sum + v));
    if count < 3.0 {
        return None;
    }
    let (mean_t, mean_v) = (sum_t / count, sum_v / count);
    // About the means: sums of squares of large times would lose the digits that matter.
    let (tt, tv) = points
        .clone()
        .fold((0.0, 0.0), |(tt, tv), (t, v)| (tt + (t - mean_t) * (t - mean_t), tv + (t - mean_t) * (v - mean_v)));
    if tt <= 0.0 {
        return None;
    }
    let slope = tv / tt;
    let line = |t: f64| mean_v + slope * (t - mean_t);
    Some(Forecast { value: line(at_s).max(0.0), fit: fit(points.map(|(t, v)| (v, line(t)))) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_its_fit_told() {
        // By hand: slope 1.4 through (2.5, 4.5); 1.2 of the 11 of the squares about the mean is left.
        let points = [(1.0, 3.0), (2.0, 3.0), (3.0, 5.0), (4.0, 7.0)];
        let forecast = least_squares(points.into_iter(), 6.0).expect("four points");
        assert!((forecast.value - 9.4).abs() < 1e-9, "{forecast:?}");
        assert!((forecast.fit - (1.0 - 1.2 / 11.0)).abs() < 1e-9, "{forecast:?}");
        let still = least_squares([(0.0, 5.0), (1.0, 5.0), (2.0, 5.0)].into_iter(), 9.0).expect("three points");
        assert_eq!((still.value, still.fit), (5.0, 1.0));
        let falling = least_squares([(0.0, 9.0), (1.0, 5.0), (2.0, 1.0)].into_iter(), 9.0).expect("three points");
        assert_eq!(falling.value, 0.0);
        assert_eq!(least_squares([(0.0, 9.0), (1.0, 5.0)].into_iter(), 9.0), None);
        assert_eq!(least_squares([(1.0, 9.0), (1.0, 5.0), (1.0, 7.0)].into_iter(), 9.0), None);
    }
}
