//! The straight line of least squares.

use super::fit::{Forecast, still_of};

/// The straight line through points (seconds, value), at a time in the same seconds; `None` of fewer than three
/// points, or of points of one moment.
pub fn least_squares(mut points: impl Iterator<Item = (f64, f64)>, at_s: f64) -> Option<Forecast> {
    // As distances from the first point, so that no digits are lost to large times and values: one way over the points is
    // enough then.
    let (first_t, first_v) = points.next()?;
    let (mut count, mut sum_t, mut sum_v, mut sum_tt, mut sum_tv, mut sum_vv) = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (t, v) in points {
        let (t, v) = (t - first_t, v - first_v);
        count += 1.0;
        sum_t += t;
        sum_v += v;
        sum_tt += t * t;
        sum_tv += t * v;
        sum_vv += v * v;
    }
    if count < 3.0 {
        return None;
    }
    let (mean_t, mean_v) = (sum_t / count, sum_v / count);
    let tt = sum_tt - sum_t * mean_t;
    if tt <= 0.0 {
        return None;
    }
    let (tv, vv) = (sum_tv - sum_t * mean_v, sum_vv - sum_v * mean_v);
    let slope = tv / tt;
    let value = (first_v + mean_v + slope * (at_s - first_t - mean_t)).max(0.0);
    // Of the best line what it explains is the square of the correlation.
    let left = (vv - slope * tv).max(0.0);
    let fit = still_of(left, vv, count, first_v + mean_v).unwrap_or(1.0 - left / vv);
    Some(Forecast { value, fit })
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
