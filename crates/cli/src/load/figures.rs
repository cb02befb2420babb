//! Figures of a histogram, for programs.

use serde_json::{Value, json};
use weir_measure::summary::Summary;

/// A histogram's figures, null where it is empty.
pub(super) fn summary(histogram: &weir_load::Histogram) -> Value {
    Summary::of(histogram).map_or(Value::Null, figures)
}

/// The same of a summary.
pub(super) fn figures(summary: Summary) -> Value {
    let number = |value: f64| if value.fract() == 0.0 { json!(value as u64) } else { json!(value) };
    Value::Object(summary.fields().into_iter().map(|(name, value)| (name.to_owned(), number(value))).collect())
}
