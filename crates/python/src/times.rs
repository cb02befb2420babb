//! A distribution of times.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weir_load::Histogram;
use weir_measure::summary::Summary;

/// A distribution of times in microseconds, exact to three digits; all figures are None where there are no values.
#[pyclass(frozen, module = "weir")]
#[derive(Debug)]
pub(crate) struct Times {
    values: Histogram,
    summary: Option<Summary>,
}

impl Times {
    pub(crate) fn new(values: Histogram) -> Self {
        Self { summary: Summary::of(&values), values }
    }

    fn figure(&self, of: impl Fn(&Summary) -> f64) -> Option<f64> {
        self.summary.as_ref().map(|summary| of(summary) / 1e3)
    }
}

#[pymethods]
impl Times {
    /// How many values there are.
    #[getter]
    fn count(&self) -> u64 {
        self.values.len()
    }

    /// The smallest.
    #[getter]
    fn min_us(&self) -> Option<f64> {
        self.figure(|summary| summary.min as f64)
    }

    /// The arithmetic mean.
    #[getter]
    fn mean_us(&self) -> Option<f64> {
        self.figure(|summary| summary.mean)
    }

    /// The standard deviation.
    #[getter]
    fn stdev_us(&self) -> Option<f64> {
        self.figure(|summary| summary.stdev)
    }

    /// The median.
    #[getter]
    fn p50_us(&self) -> Option<f64> {
        self.figure(|summary| summary.p50 as f64)
    }

    /// What 90 % do not exceed.
    #[getter]
    fn p90_us(&self) -> Option<f64> {
        self.figure(|summary| summary.p90 as f64)
    }

    /// What 99 % do not exceed.
    #[getter]
    fn p99_us(&self) -> Option<f64> {
        self.figure(|summary| summary.p99 as f64)
    }

    /// What 99.9 % do not exceed.
    #[getter]
    fn p99_9_us(&self) -> Option<f64> {
        self.figure(|summary| summary.p99_9 as f64)
    }

    /// The largest.
    #[getter]
    fn max_us(&self) -> Option<f64> {
        self.figure(|summary| summary.max as f64)
    }

    /// What this percentage of the values, 0 to 100, does not exceed.
    fn percentile(&self, percent: f64) -> PyResult<Option<f64>> {
        if !(0.0..=100.0).contains(&percent) {
            return Err(PyValueError::new_err(format!("{percent}: a percentage lies between 0 and 100")));
        }
        Ok(self.figure(|summary| self.values.value_at_quantile(percent / 100.0).min(summary.max) as f64))
    }

    /// The buckets that hold values: pairs of the highest time of a bucket and how many values it holds.
    fn buckets(&self) -> Vec<(f64, u64)> {
        self.values
            .iter_recorded()
            .map(|bucket| (bucket.value_iterated_to() as f64 / 1e3, bucket.count_at_value()))
            .collect()
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.values.len()).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        match &self.summary {
            None => "<no times>".to_owned(),
            Some(summary) => format!(
                "<{} times: p50 {} us, p99 {} us, max {} us>",
                summary.count,
                summary.p50 as f64 / 1e3,
                summary.p99 as f64 / 1e3,
                summary.max as f64 / 1e3
            ),
        }
    }
}
