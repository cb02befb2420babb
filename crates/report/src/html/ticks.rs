//! Round times along an axis.

use super::escape::unbroken;
use crate::units::nanoseconds;

/// Multiples of 1, 2 or 5 and a power of ten: at least two and at most six of them up to the scale.
pub(super) fn round_ticks(scale_ns: f64) -> Vec<f64> {
    if !(scale_ns.is_finite() && scale_ns >= 1.0) {
        return vec![0.0];
    }
    let decade = 10f64.powf(scale_ns.log10().floor());
    let step = [0.2, 0.5, 1.0, 2.0].map(|factor| factor * decade).into_iter().find(|step| scale_ns / step <= 5.5);
    let step = step.unwrap_or(2.0 * decade);
    (0..=(scale_ns / step).floor() as u32).map(|index| f64::from(index) * step).collect()
}

/// A round time without the zeros behind it: `5 ms`.
pub(super) fn tick(ns: f64) -> String {
    let text = nanoseconds(ns);
    let Some((figure, unit)) = text.split_once(' ') else {
        return text;
    };
    let short = if figure.contains('.') { figure.trim_end_matches('0').trim_end_matches('.') } else { figure };
    if short == "0" { short.to_owned() } else { unbroken(&format!("{short} {unit}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(round_ticks(844e3), [0.0, 200e3, 400e3, 600e3, 800e3]);
        assert_eq!(round_ticks(0.0), [0.0]);
        assert_eq!(tick(5e6), "5\u{a0}ms");
        assert_eq!(tick(200e3), "200\u{a0}us");
        for scale in 1..2_000 {
            let ticks = round_ticks(f64::from(scale) * 37.0).len();
            assert!((2..=7).contains(&ticks), "{ticks} ticks for {scale}");
        }
    }
}
