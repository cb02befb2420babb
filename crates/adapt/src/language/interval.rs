//! Intervals of values: what every test comes to.

use std::cmp::Ordering;

/// An end of an interval: the value, and whether it belongs to the interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct End {
    pub(crate) value: f64,
    pub(crate) closed: bool,
}

/// The values between two ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: End,
    pub(crate) high: End,
}

/// How two intervals lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lie {
    /// There are values between them.
    Apart,
    /// Nothing is between them, and they share no value, or one only.
    Touching,
    /// They share values.
    Overlapping,
}

impl Interval {
    pub(crate) fn new(low: f64, low_closed: bool, high: f64, high_closed: bool) -> Self {
        Self { low: End { value: low, closed: low_closed }, high: End { value: high, closed: high_closed } }
    }

    /// What a comparison with a value allows: `<`, `<=`, `>` or `>=`.
    pub(crate) fn of(relation: &str, value: f64) -> Option<Self> {
        match relation {
            "<" => Some(Self::new(f64::NEG_INFINITY, false, value, false)),
            "<=" => Some(Self::new(f64::NEG_INFINITY, false, value, true)),
            ">" => Some(Self::new(value, false, f64::INFINITY, false)),
            ">=" => Some(Self::new(value, true, f64::INFINITY, false)),
            _ => None,
        }
    }

    pub(crate) fn holds(&self, value: f64) -> bool {
        let above = if self.low.closed { value >= self.low.value } else { value > self.low.value };
        let below = if self.high.closed { value <= self.high.value } else { value < self.high.value };
        above && below
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self.low.value.partial_cmp(&self.high.value) {
            Some(Ordering::Less) => false,
            Some(Ordering::Equal) => !(self.low.closed && self.high.closed),
            _ => true,
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let low = match self.low.value.total_cmp(&other.low.value) {
            Ordering::Greater => self.low,
            Ordering::Less => other.low,
            Ordering::Equal => End { closed: self.low.closed && other.low.closed, ..self.low },
        };
        let high = match self.high.value.total_cmp(&other.high.value) {
            Ordering::Less => self.high,
            Ordering::Greater => other.high,
            Ordering::Equal => End { closed: self.high.closed && other.high.closed, ..self.high },
        };
        Self { low, high }
    }

    /// Everything from the lower of the low ends to the higher of the high ones.
    pub(crate) fn hull(&self, other: &Self) -> Self {
        let low = if self.low.value <= other.low.value { self.low } else { other.low };
        let high = if self.high.value >= other.high.value { self.high } else { other.high };
        Self { low, high }
    }

    /// The values outside of it: below and above, what there is of them.
    pub(crate) fn outside(&self) -> impl Iterator<Item = Self> {
        let below = (self.low.value > f64::NEG_INFINITY)
            .then(|| Self::new(f64::NEG_INFINITY, false, self.low.value, !self.low.closed));
        let above = (self.high.value < f64::INFINITY)
            .then(|| Self::new(self.high.value, !self.high.closed, f64::INFINITY, false));
        below.into_iter().chain(above)
    }

    pub(crate) fn lie(&self, other: &Self) -> Lie {
        let common = self.intersection(other);
        match common.low.value.partial_cmp(&common.high.value) {
            Some(Ordering::Less) => Lie::Overlapping,
            Some(Ordering::Equal) => Lie::Touching,
            _ => Lie::Apart,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(relation: &str, value: f64) -> Interval {
        Interval::of(relation, value).expect("a comparison")
    }

    #[test]
    fn intervals_lie_apart_touch_or_overlap() {
        assert_eq!(of(">", 90.0).lie(&of("<", 70.0)), Lie::Apart);
        assert_eq!(of(">", 90.0).lie(&of("<", 90.0)), Lie::Touching);
        assert_eq!(of(">=", 90.0).lie(&of("<=", 90.0)), Lie::Touching);
        assert_eq!(of(">", 90.0).lie(&of("<", 95.0)), Lie::Overlapping);
        assert!(Interval::new(5.0, true, 5.0, false).is_empty() && !Interval::new(5.0, true, 5.0, true).is_empty());
    }

    #[test]
    fn the_outside_is_the_rest() {
        let inner = Interval::new(30.0, true, 100.0, false);
        for value in [0.0, 29.9, 30.0, 99.9, 100.0, 200.0] {
            assert_ne!(inner.holds(value), inner.outside().any(|part| part.holds(value)), "{value}");
        }
    }
}
