//! What a metric is now, and whether a test holds: true, false or unknown.

use super::intake::Engine;
use crate::decision::Cited;
use crate::forecast::{Forecast, Method, least_squares, theil_sen};
use crate::language::syntax::{Aggregate, Predicted};
use crate::policy::{Metric, Scope, Test};
use crate::reading::{NodeId, Resource};
use crate::series::{Sample, Series, Unknown, aggregate, mean};
use crate::state::{Node, Scratch, Seen, Slots, Store, Tracks, Value};

/// Readings of which a forecast is made at least.
pub(super) const FORECAST_OF: usize = 5;

/// A test that is true, false, or neither: of which metric nothing is known, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Truth {
    True,
    False,
    Unknown(usize, Unknown),
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// What has come of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Present {
    pub(super) value: f64,
    pub(super) at_ms: u64,
    /// So much later than a forecast was for, it still is what came of it.
    pub(super) late_ms: u64,
}

/// Looks at readings for one subject.
pub(super) struct EvalContext<'e> {
    pub(super) engine: &'e Engine,
    pub(super) now_ms: u64,
    pub(super) store: &'e Store,
    pub(super) nodes: &'e [Node],
    pub(super) tracks: &'e mut Tracks,
    pub(super) scratch: &'e mut Scratch,
    pub(super) seen: &'e Seen,
    /// How forecasts are made, however badly they fit; `None` = as the rules have them.
    pub(super) by: Option<Method>,
}

impl<'e> EvalContext<'e> {
    /// Whether a test holds. One of several that decides alone is enough, even beside unknown ones.
    pub(super) fn truth(&mut self, test: &Test) -> Truth {
        match test {
            Test::Not(inner) => match self.truth(inner) {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                unknown => unknown,
            },
            Test::All(parts) => self.join(parts, Truth::False, Truth::True),
            Test::Any(parts) => self.join(parts, Truth::True, Truth::False),
            Test::Metric { metric, interval, .. } => match self.value(*metric) {
                Ok(value) => interval.holds(value.value).into(),
                Err(why) => Truth::Unknown(*metric, why),
            },
        }
    }

    fn join(&mut self, parts: &[Test], decides: Truth, otherwise: Truth) -> Truth {
        let mut all = otherwise;
        for part in parts {
            let one = self.truth(part);
            if one == decides {
                return decides;
            }
            if all == otherwise {
                all = one;
            }
        }
        all
    }

    /// Tells every test of a condition with what is known of it.
    pub(super) fn cite(&mut self, test: &Test, to: &mut Vec<Cited>) {
        match test {
            Test::Not(inner) => self.cite(inner, to),
            Test::All(parts) | Test::Any(parts) => parts.iter().for_each(|part| self.cite(part, to)),
            Test::Metric { metric: number, interval, text } => {
                let value = self.value(*number).ok();
                let metric = &self.engine.policy.metrics[*number];
                let error = metric.predicted.and_then(|_| {
                    let track = self.track(*number)?;
                    self.tracks.get(track)?.errors().mean()
                });
                to.push(Cited {
                    test: text.clone(),
                    resource: metric.resource,
                    value: value.map(|value| value.value),
                    age_ms: value.map_or(0, |value| value.age_ms),
                    readings: value.map_or(0, |value| value.readings),
                    fit: value.and_then(|value| value.fit),
                    error,
                    held: value.is_some_and(|value| interval.holds(value.value)),
                });
            }
        }
    }

    /// What a metric is now.
    pub(super) fn value(&mut self, number: usize) -> Result<Value, Unknown> {
        let engine = self.engine;
        let metric = &engine.policy.metrics[number];
        let epoch = self.scratch.epoch_of(metric.scope);
        if let (of, Some(value)) = self.scratch.values[number]
            && of == epoch
        {
            return value;
        }
        let value = self.computed(number, metric);
        self.scratch.values[number] = (epoch, Some(value));
        value
    }

    fn computed(&mut self, number: usize, metric: &Metric) -> Result<Value, Unknown> {
        let engine = self.engine;
        match metric.scope {
            Scope::Session => {
                let slots = self.seen.session.ok_or(Unknown::Missing)?;
                self.of_one(number, self.store.get(&slots, metric.resource)?)
            }
            Scope::Client => {
                let slots = self.seen.client.ok_or(Unknown::Missing)?;
                self.of_one(number, self.store.get(&slots, metric.resource)?)
            }
            Scope::Atom => {
                let (_, slots) = self.seen.atom.ok_or(Unknown::Missing)?;
                self.of_one(number, self.store.get(&slots, metric.resource)?)
            }
            Scope::Here => self.of_node(number, engine.here),
            Scope::Node(node) => self.of_node(number, node),
            Scope::Pool(_) | Scope::All => self.of_several(number),
        }
    }

    fn of_node(&mut self, number: usize, node: NodeId) -> Result<Value, Unknown> {
        let (nodes, store) = (self.nodes, self.store);
        let slots = nodes.get(node.0 as usize).ok_or(Unknown::Missing)?.slots();
        self.of_one(number, store.get(slots, self.engine.policy.metrics[number].resource)?)
    }

    /// A metric of one series.
    fn of_one(&mut self, number: usize, series: &Series) -> Result<Value, Unknown> {
        let metric = &self.engine.policy.metrics[number];
        let latest = series.latest(self.now_ms)?;
        let age_ms = self.now_ms.saturating_sub(latest.at_ms);
        if let Some(predicted) = metric.predicted {
            let now_ms = self.now_ms;
            let track = self.track(number);
            if let Some(track) = track.and_then(|track| self.tracks.get(track)) {
                // An evaluation can come so much later than the time that a forecast was for.
                track.came(latest.at_ms, (predicted.in_ms / 4).max(series.valid_ms()), latest.value);
            }
            let (forecast, readings) = self.forecast(metric, predicted, series)?;
            if let Some(track) = track.and_then(|track| self.tracks.get(track)) {
                track.made(now_ms.saturating_add(predicted.in_ms), predicted.in_ms, forecast.value);
            }
            let value = self.enough(forecast, predicted)?;
            return Ok(Value { value, age_ms, readings, fit: Some(forecast.fit) });
        }
        let Some(over_ms) = metric.over_ms else {
            return Ok(Value { value: latest.value, age_ms, readings: 1, fit: None });
        };
        let room = &mut self.scratch.room;
        room.clear();
        room.extend(series.window(self.now_ms, over_ms)?.map(|sample| sample.value));
        let readings = room.len();
        let value = aggregate(room, metric.aggregate.unwrap_or(Aggregate::Avg)).ok_or(Unknown::Missing)?;
        Ok(Value { value, age_ms, readings, fit: None })
    }

    /// The number of the errors of a metric's forecasts for the subject.
    fn track(&mut self, number: usize) -> Option<usize> {
        let metric = &self.engine.policy.metrics[number];
        let place = match metric.scope {
            // A session is over, and a client gone, before much is learnt of their forecasts.
            Scope::Session | Scope::Client => return None,
            Scope::Atom => self.seen.atom?.0,
            Scope::Here | Scope::Node(_) | Scope::Pool(_) | Scope::All => u32::MAX,
        };
        self.tracks.of(number, place)
    }

    fn forecast(&self, metric: &Metric, predicted: Predicted, series: &Series) -> Result<(Forecast, usize), Unknown> {
        let window = series.window(self.now_ms, metric.window_ms())?;
        let readings = window.len();
        if readings < FORECAST_OF {
            return Err(Unknown::NoForecast);
        }
        // Seconds from now on, so that no digits are lost.
        let now_ms = self.now_ms;
        let points = window.map(move |Sample { at_ms, value }| (-(now_ms.saturating_sub(at_ms) as f64) / 1e3, value));
        let at_s = predicted.in_ms as f64 / 1e3;
        let forecast = match self.by.unwrap_or(self.engine.method) {
            Method::LeastSquares => least_squares(points, at_s),
            Method::Robust => theil_sen(points, at_s),
            Method::Seasonal { .. } => {
                series.season().and_then(|season| season.forecast(now_ms.saturating_add(predicted.in_ms)))
            }
        };
        Ok((forecast.ok_or(Unknown::NoForecast)?, readings))
    }

    /// The nodes of a metric of several.
    fn nodes_of(&self, metric: &Metric) -> &'e [NodeId] {
        match metric.scope {
            Scope::Pool(pool) => &self.engine.policy.pools[pool].nodes,
            _ => &self.engine.all,
        }
    }

    /// A metric of the nodes of a pool, or of all: of those that are up each must be known.
    fn of_several(&mut self, number: usize) -> Result<Value, Unknown> {
        let metric = &self.engine.policy.metrics[number];
        let nodes = self.nodes_of(metric);
        let Some(predicted) = metric.predicted else { return self.together(metric, nodes, None) };
        let (now_ms, track) = (self.now_ms, self.track(number));
        if track.is_some()
            && let Ok(present) = self.present(number)
            && let Some(track) = track.and_then(|track| self.tracks.get(track))
        {
            track.came(present.at_ms, present.late_ms, present.value);
        }
        let together = self.together(metric, nodes, Some(predicted))?;
        if let Some(track) = track.and_then(|track| self.tracks.get(track)) {
            track.made(now_ms.saturating_add(predicted.in_ms), predicted.in_ms, together.value);
        }
        let (value, fit) = (together.value, together.fit.unwrap_or(f64::NAN));
        self.enough(Forecast { value, fit }, predicted)?;
        Ok(together)
    }

    /// What has come of a metric that is predicted, by the latest readings.
    pub(super) fn present(&mut self, number: usize) -> Result<Present, Unknown> {
        let metric = &self.engine.policy.metrics[number];
        let (store, resource) = (self.store, metric.resource);
        let one = |slots: Option<&Slots>| store.get(slots.ok_or(Unknown::Missing)?, resource);
        let known = self.nodes;
        let node = |NodeId(node): NodeId| known.get(node as usize).map(Node::slots);
        let (value, at_ms, valid_ms) = match metric.scope {
            Scope::Pool(_) | Scope::All => {
                let nodes = self.nodes_of(metric);
                let together = self.together(metric, nodes, None)?;
                let valid_ms = nodes.iter().filter_map(|id| Some(one(node(*id)).ok()?.valid_ms())).max();
                (together.value, self.now_ms.saturating_sub(together.age_ms), valid_ms.unwrap_or(0))
            }
            scope => {
                let series = match scope {
                    Scope::Session => one(self.seen.session.as_ref()),
                    Scope::Client => one(self.seen.client.as_ref()),
                    Scope::Atom => one(self.seen.atom.as_ref().map(|(_, slots)| slots)),
                    Scope::Node(id) => one(node(id)),
                    _ => one(node(self.engine.here)),
                }?;
                let latest = series.latest(self.now_ms)?;
                (latest.value, latest.at_ms, series.valid_ms())
            }
        };
        // An evaluation can come so much later than the time that a forecast was for.
        let late_ms = metric.predicted.map_or(0, |predicted| predicted.in_ms / 4).max(valid_ms);
        Ok(Present { value, at_ms, late_ms })
    }

    /// What nodes make together, now or as it is forecast; however badly that fits.
    fn together(&mut self, metric: &Metric, nodes: &[NodeId], predicted: Option<Predicted>) -> Result<Value, Unknown> {
        let (store, known) = (self.store, self.nodes);
        let mut together = Value { value: 0.0, age_ms: 0, readings: 0, fit: None };
        // The mean over time of each node counts by itself where nodes add up.
        let each = metric.resource.adds_up() && matches!(metric.aggregate, None | Some(Aggregate::Avg));
        let mut room = std::mem::take(&mut self.scratch.room);
        room.clear();
        for node in nodes.iter().filter_map(|node| known.get(node.0 as usize)).filter(|node| !node.down) {
            let value = store.get(node.slots(), metric.resource).and_then(|series| {
                let latest = series.latest(self.now_ms)?;
                together.age_ms = together.age_ms.max(self.now_ms.saturating_sub(latest.at_ms));
                if let Some(predicted) = predicted {
                    let (forecast, readings) = self.forecast(metric, predicted, series)?;
                    together.readings += readings;
                    // The worst one counts; one that is no number is the worst.
                    let is_worse = together.fit.is_none_or(|fit| forecast.fit.is_nan() || forecast.fit < fit);
                    together.fit = if is_worse { Some(forecast.fit) } else { together.fit };
                    room.push(forecast.value);
                } else if let Some(over_ms) = metric.over_ms.filter(|_| metric.predicted.is_none()) {
                    let window = series.window(self.now_ms, over_ms)?;
                    let readings = window.len();
                    together.readings += readings;
                    if each {
                        room.push(mean(window.map(|sample| sample.value)));
                    } else {
                        room.extend(window.map(|sample| sample.value));
                    }
                } else {
                    together.readings += 1;
                    room.push(latest.value);
                }
                Ok(())
            });
            if let Err(why) = value {
                self.scratch.room = room;
                return Err(why);
            }
        }
        // `avg` of the latest values is the mean over the nodes, for every resource.
        let adds_up = each && (metric.aggregate.is_none() || metric.over_ms.is_some());
        let value = if adds_up && !room.is_empty() {
            Some(room.iter().sum())
        } else {
            aggregate(&mut room, metric.aggregate.unwrap_or(Aggregate::Avg))
        };
        self.scratch.room = room;
        together.value = value.ok_or(Unknown::Missing)?;
        let of_sum = predicted.filter(|_| adds_up).and_then(|predicted| self.forecast_of_sum(metric, nodes, predicted));
        if let Some(forecast) = of_sum {
            (together.value, together.fit) = (forecast.value, Some(forecast.fit));
        }
        Ok(together)
    }

    /// The latest value of a node, for a comparison of nodes.
    pub(super) fn latest(&self, node: NodeId, by: Resource) -> Option<f64> {
        let node = self.nodes.get(node.0 as usize).filter(|node| !node.down)?;
        Some(self.store.get(node.slots(), by).ok()?.latest(self.now_ms).ok()?.value)
    }

    /// The value of a forecast that fits well enough.
    fn enough(&self, forecast: Forecast, predicted: Predicted) -> Result<f64, Unknown> {
        match predicted.fit.filter(|_| self.by.is_none()) {
            // A fit that is no number is none.
            Some(asked) if forecast.fit < asked || forecast.fit.is_nan() => {
                Err(Unknown::Unfit { fit: forecast.fit, asked })
            }
            _ => Ok(forecast.value),
        }
    }
}
