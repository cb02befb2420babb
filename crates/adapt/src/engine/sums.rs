//! The forecast of what several nodes make together, by the series of their sum.
//!
//! A director sends connections now to this node and now to that one, so that the rate of each wavers where their sum goes
//! straight: how well a line fits the worst of them says nothing of the sum.

use super::context::{EvalContext, FORECAST_OF};
use crate::forecast::{Forecast, Method, least_squares, theil_sen};
use crate::language::syntax::Predicted;
use crate::policy::Metric;
use crate::reading::NodeId;
use crate::series::Sample;

impl EvalContext<'_> {
    /// The line through the sum of nodes that are up, at the times of the one that was read least often; between two
    /// readings a node is taken to go straight. `None` of a forecast that is no line, or where the nodes were read at too
    /// few times in common.
    pub(super) fn forecast_of_sum(
        &mut self,
        metric: &Metric,
        nodes: &[NodeId],
        predicted: Predicted,
    ) -> Option<Forecast> {
        let method = self.by.unwrap_or(self.engine.method);
        if matches!(method, Method::Seasonal { .. }) {
            return None;
        }
        let (store, known, now_ms) = (self.store, self.nodes, self.now_ms);
        let up = nodes.iter().filter_map(|node| known.get(node.0 as usize)).filter(|node| !node.down);
        let all = up.filter_map(|node| store.get(node.slots(), metric.resource).ok());
        let (mut from_ms, mut to_ms, mut least) = (0, u64::MAX, None);
        for series in all.clone() {
            let mut samples = series.window(now_ms, metric.window_ms()).ok()?;
            let count = samples.len();
            from_ms = from_ms.max(samples.next()?.at_ms);
            to_ms = to_ms.min(series.latest(now_ms).ok()?.at_ms);
            if least.as_ref().is_none_or(|(least, _)| count < *least) {
                least = Some((count, series));
            }
        }
        let times = &mut self.scratch.times;
        times.clear();
        let (_, least) = least?;
        times.extend(
            least
                .window(now_ms, metric.window_ms())
                .ok()?
                .map(|sample| sample.at_ms)
                .filter(|at_ms| (from_ms..=to_ms).contains(at_ms)),
        );
        if times.len() < FORECAST_OF {
            return None;
        }
        let sums = &mut self.scratch.sums;
        sums.clear();
        sums.resize(times.len(), 0.0);
        for series in all {
            add(series.window(now_ms, metric.window_ms()).ok()?, times, sums);
        }
        let points = times.iter().zip(&*sums);
        let points = points.map(|(at_ms, sum)| (-(now_ms.saturating_sub(*at_ms) as f64) / 1e3, *sum));
        let at_s = predicted.in_ms as f64 / 1e3;
        if method == Method::Robust { theil_sen(points, at_s) } else { least_squares(points, at_s) }
    }
}

/// Adds what a node was at these times, which lie between its first and its last reading.
fn add(mut samples: impl Iterator<Item = Sample>, times: &[u64], sums: &mut [f64]) {
    let Some(mut before) = samples.next() else { return };
    let mut after = before;
    for (at_ms, sum) in times.iter().zip(sums) {
        while after.at_ms < *at_ms {
            let Some(next) = samples.next() else { break };
            (before, after) = (after, next);
        }
        let between_ms = after.at_ms.saturating_sub(before.at_ms);
        *sum += if between_ms == 0 || after.at_ms <= *at_ms {
            after.value
        } else {
            let share = at_ms.saturating_sub(before.at_ms) as f64 / between_ms as f64;
            before.value + (after.value - before.value) * share
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_goes_straight_from_reading_to_reading() {
        let samples = [(10, 1.0), (20, 3.0), (40, 3.0), (50, 0.0)].map(|(at_ms, value)| Sample { at_ms, value });
        let times = [10, 15, 20, 35, 45, 50];
        let mut sums = [100.0; 6];
        add(samples.into_iter(), &times, &mut sums);
        assert_eq!(sums, [101.0, 102.0, 103.0, 103.0, 101.5, 100.0]);
    }
}
