//! Times of responses by percentile.
use serde::{Deserialize, Serialize};
use weir_measure::curve::{PERCENTILES, together};

/// The times of responses at [`PERCENTILES`], in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Curve(Vec<f64>);

impl Curve {
    /// A curve of pairs of a percentile and a time; `None` unless they are [`PERCENTILES`] and the times never fall.
    #[must_use]
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        let percentiles = pairs.iter().map(|(percentile, _)| *percentile);
        let rises = pairs.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        let fits = pairs.len() == PERCENTILES.len() && percentiles.zip(PERCENTILES).all(|(found, ours)| found == ours);
        (fits && rises).then(|| Self(pairs.iter().map(|(_, ns)| *ns).collect()))
    }

    /// The times, in the order of [`PERCENTILES`].
    #[must_use]
    pub fn ns(&self) -> &[f64] {
        &self.0
    }

    /// The curve of several, each with the number of its values.
    pub(crate) fn together(curves: &[(&Self, u64)]) -> Option<Self> {
        let curves: Vec<(&[f64], f64)> = curves.iter().map(|(curve, count)| (curve.ns(), *count as f64)).collect();
        together(&curves).map(|ns| Self(ns.to_vec()))
    }
}
