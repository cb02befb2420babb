//! What a metric must be for a run to pass: `p(95)<500`, `rate<0.01`.

use crate::metrics::sink::{Kind, Sink};
use std::time::Duration;

/// What is taken of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aggregate {
    /// How many, or their sum where they are added up.
    Count,
    /// The share that is not zero, or the sum a second.
    Rate,
    /// The last value.
    Value,
    /// The mean.
    Average,
    /// The smallest.
    Min,
    /// The median.
    Median,
    /// The largest.
    Max,
    /// The value that so many percent do not exceed.
    Percentile(f64),
}

/// How it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `==`
    Same,
    /// `!=`
    Other,
}

/// A bound on a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// As it was written.
    pub text: String,
    /// What is taken of the values.
    pub aggregate: Aggregate,
    /// How it is compared.
    pub relation: Relation,
    /// With what.
    pub bound: f64,
}

/// Why a text is no threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// It has another form.
    #[error("{given:?} is no threshold: write p(95)<500, avg<200, med, min, max, rate<0.01, count>100 or value<5")]
    Form {
        /// What was given.
        given: String,
    },
    /// The metric has no such figure.
    #[error("{given:?}: a {kind} has no {aggregate}; it has {has}")]
    Unfit {
        /// What was given.
        given: String,
        /// The type of the metric.
        kind: &'static str,
        /// What was asked of it.
        aggregate: String,
        /// What it has.
        has: &'static str,
    },
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Rate => "rate",
            Self::Trend => "trend",
        }
    }
}

impl Threshold {
    /// Reads a threshold on a metric of this kind.
    ///
    /// # Errors
    /// [`ThresholdError`].
    pub fn parse(text: &str, kind: Kind) -> Result<Self, ThresholdError> {
        let form = || ThresholdError::Form { given: text.to_owned() };
        let at = text.find(['<', '>', '=', '!']).ok_or_else(form)?;
        let (left, rest) = text.split_at(at);
        let relations = [
            ("===", Relation::Same),
            ("!==", Relation::Other),
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("==", Relation::Same),
            ("!=", Relation::Other),
            ("<", Relation::Below),
            (">", Relation::Above),
        ];
        let (bound, relation) = relations
            .into_iter()
            .find_map(|(sign, relation)| Some((rest.strip_prefix(sign)?, relation)))
            .ok_or_else(form)?;
        let bound: f64 = bound.trim().parse().map_err(|_| form())?;
        let aggregate = aggregate(left.trim()).ok_or_else(form)?;
        let (fits, has) = match kind {
            Kind::Counter => (matches!(aggregate, Aggregate::Count | Aggregate::Rate), "count and rate"),
            Kind::Gauge => (matches!(aggregate, Aggregate::Value), "value"),
            Kind::Rate => (matches!(aggregate, Aggregate::Rate), "rate"),
            Kind::Trend => {
                let unfit = matches!(aggregate, Aggregate::Rate | Aggregate::Value);
                (!unfit, "avg, min, med, max, count and p(N)")
            }
        };
        if !fits || !bound.is_finite() {
            let (given, aggregate) = (text.to_owned(), left.trim().to_owned());
            return Err(ThresholdError::Unfit { given, kind: kind.name(), aggregate, has });
        }
        Ok(Self { text: text.trim().to_owned(), aggregate, relation, bound })
    }

    /// What the metric is, in a run of this length.
    #[must_use]
    pub fn value(&self, sink: &Sink, duration: Duration) -> f64 {
        self.aggregate.of(sink, duration)
    }

    /// Whether a metric fits; one without values does.
    #[must_use]
    pub fn holds(&self, sink: &Sink, duration: Duration) -> bool {
        if sink.is_empty() && !matches!(sink, Sink::Counter { .. }) {
            return true;
        }
        let value = self.value(sink, duration);
        match self.relation {
            Relation::Below => value < self.bound,
            Relation::AtMost => value <= self.bound,
            Relation::Above => value > self.bound,
            Relation::AtLeast => value >= self.bound,
            Relation::Same => value == self.bound,
            Relation::Other => value != self.bound,
        }
    }
}

impl Aggregate {
    /// The figure, in a run of this length.
    #[must_use]
    pub fn of(self, sink: &Sink, duration: Duration) -> f64 {
        match (sink, self) {
            (Sink::Counter { sum }, Self::Rate) => *sum / duration.as_secs_f64().max(1e-9),
            (Sink::Counter { sum }, _) => *sum,
            (Sink::Gauge { value, .. }, _) => *value,
            (Sink::Rate { passes, total }, _) => *passes as f64 / (*total).max(1) as f64,
            (Sink::Trend(trend), aggregate) => match aggregate {
                Self::Count => trend.count() as f64,
                Self::Min => trend.min(),
                Self::Max => trend.max(),
                Self::Median => trend.percentile(50.0),
                Self::Percentile(percent) => trend.percentile(percent),
                Self::Average | Self::Rate | Self::Value => trend.mean(),
            },
        }
    }
}

fn aggregate(text: &str) -> Option<Aggregate> {
    Some(match text {
        "count" => Aggregate::Count,
        "rate" => Aggregate::Rate,
        "value" => Aggregate::Value,
        "avg" => Aggregate::Average,
        "min" => Aggregate::Min,
        "med" => Aggregate::Median,
        "max" => Aggregate::Max,
        other => {
            let percent: f64 = other.strip_prefix("p(")?.strip_suffix(')')?.trim().parse().ok()?;
            Aggregate::Percentile((0.0..=100.0).contains(&percent).then_some(percent)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn thresholds_are_read_and_judged() {
        let mut trend = Sink::new(Kind::Trend);
        (1..=100).for_each(|value| trend.add(f64::from(value)));
        for (text, holds) in [
            ("p(95)<96", true),
            ("p(95) < 95", false),
            ("avg<=50.5", true),
            ("max==100", true),
            ("min!=1", false),
            ("med>=50", true),
            ("count>100", false),
        ] {
            let threshold = Threshold::parse(text, Kind::Trend).expect(text);
            assert_eq!(threshold.holds(&trend, Duration::from_secs(1)), holds, "{text}");
        }
        let rate = Threshold::parse("rate>5", Kind::Counter).expect("of a counter");
        assert!(rate.holds(&Sink::Counter { sum: 20.0 }, Duration::from_secs(2)));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        for (text, kind, told) in [
            ("p95<5", Kind::Trend, "is no threshold"),
            ("p(101)<5", Kind::Trend, "is no threshold"),
            ("rate<5", Kind::Trend, "a trend has no rate; it has avg"),
            ("p(95)<5", Kind::Rate, "a rate has no p(95); it has rate"),
            ("rate<x", Kind::Rate, "is no threshold"),
            ("", Kind::Rate, "is no threshold"),
        ] {
            let told_really = Threshold::parse(text, kind).expect_err(text).to_string();
            assert!(told_really.contains(told), "{text}: {told_really}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z(){}0-9.<>=! ]{0,16}") {
            let _ = Threshold::parse(&text, Kind::Trend);
        }
    }
}
