//! What `handleSummary` gets.

use crate::hash::{hash, hex};
use crate::options::Plan;
use crate::script::World;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use weir_scenario::metrics::{Checked, Contains, Kind, Sink, Threshold};

/// Metrics of weir's own, which k6 does not have.
const OWN: [&str; 1] = ["http_req_latency"];
/// Metrics that are there even where nothing was counted.
const ALWAYS: [&str; 2] = ["data_received", "data_sent"];

/// What is known of a run beside its metrics.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub(crate) plan: &'a Plan,
    /// Thresholds with the metric and the tags that they are about.
    pub(crate) thresholds: &'a [Kept],
    pub(crate) duration: Duration,
    pub(crate) has_colours: bool,
}

/// A threshold of a metric.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// The metric's key as it was written.
    pub(crate) key: String,
    pub(crate) metric: String,
    /// In ascending order.
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) threshold: Threshold,
    /// From when on a miss ends the run.
    pub(crate) abort_after: Option<Duration>,
}

/// The data of a run.
pub(crate) fn data(world: &World, about: &About<'_>) -> Value {
    let mut data = Map::new();
    data.insert("root_group".to_owned(), root_group(world));
    data.insert(
        "options".to_owned(),
        json!({
            "summaryTrendStats": about.plan.trend_stats,
            "summaryTimeUnit": about.plan.time_unit,
            "noColor": !about.has_colours,
        }),
    );
    data.insert(
        "state".to_owned(),
        json!({
            "isStdOutTTY": about.has_colours,
            "isStdErrTTY": false,
            "testRunDurationMs": about.duration.as_secs_f64() * 1000.0,
        }),
    );
    data.insert("metrics".to_owned(), Value::Object(metrics(world, about)));
    let setup = world.setup_data.get().and_then(|text| serde_json::from_str(text).ok());
    if let Some(setup) = setup {
        data.insert("setup_data".to_owned(), setup);
    }
    Value::Object(data)
}

fn metrics(world: &World, about: &About<'_>) -> Map<String, Value> {
    let mut all = Map::new();
    let metrics = world.metrics();
    for metric in metrics.iter().filter(|metric| !OWN.contains(&metric.name.as_str())) {
        let whole: Vec<&Kept> =
            about.thresholds.iter().filter(|kept| kept.metric == metric.name && kept.tags.is_empty()).collect();
        if !metric.whole.is_empty() || !whole.is_empty() || ALWAYS.contains(&metric.name.as_str()) {
            all.insert(metric.name.clone(), one(metric.kind, metric.contains, &metric.whole, &whole, about));
        }
        for part in &metric.parts {
            let of_part: Vec<&Kept> = about
                .thresholds
                .iter()
                .filter(|kept| kept.metric == metric.name && kept.tags == part.selector)
                .collect();
            if part.sink.is_empty() && of_part.is_empty() {
                continue;
            }
            let tags: Vec<String> = part.selector.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            let key = of_part
                .first()
                .map_or_else(|| format!("{}{{{}}}", metric.name, tags.join(",")), |kept| kept.key.clone());
            all.insert(key, one(metric.kind, metric.contains, &part.sink, &of_part, about));
        }
    }
    all
}

fn one(kind: Kind, contains: Contains, sink: &Sink, thresholds: &[&Kept], about: &About<'_>) -> Value {
    let contains = match contains {
        Contains::Default => "default",
        Contains::Time => "time",
        Contains::Data => "data",
    };
    let values = values(sink, &about.plan.trend_stats, about.duration);
    let mut one = json!({ "type": kind.name(), "contains": contains, "values": values });
    if !thresholds.is_empty() {
        let judged = thresholds.iter().map(|kept| {
            let holds = kept.threshold.holds(sink, about.duration);
            (kept.threshold.text.clone(), json!({ "ok": holds }))
        });
        one["thresholds"] = Value::Object(judged.collect());
    }
    one
}

/// The values of a metric by their names.
fn values(sink: &Sink, trend_stats: &[String], duration: Duration) -> Map<String, Value> {
    let mut values = Map::new();
    let mut add = |name: &str, value: f64| {
        // Whole numbers are written as such.
        let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
        values.insert(name.to_owned(), if is_whole { json!(value as i64) } else { json!(value) });
    };
    match sink {
        Sink::Counter { sum } => {
            add("count", *sum);
            add("rate", *sum / duration.as_secs_f64().max(1e-9));
        }
        Sink::Gauge { value, min, max, .. } => {
            add("value", *value);
            add("min", *min);
            add("max", *max);
        }
        Sink::Rate { passes, total } => {
            add("rate", *passes as f64 / (*total).max(1) as f64);
            add("passes", *passes as f64);
            add("fails", (*total - *passes) as f64);
        }
        Sink::Trend(trend) => {
            for name in trend_stats {
                let value = match name.as_str() {
                    "avg" => trend.mean(),
                    "min" => trend.min(),
                    "med" => trend.percentile(50.0),
                    "max" => trend.max(),
                    "count" => trend.count() as f64,
                    other => {
                        let percent = other.strip_prefix("p(").and_then(|rest| rest.strip_suffix(')'));
                        percent
                            .and_then(|percent| percent.parse().ok())
                            .map_or(0.0, |percent| trend.percentile(percent))
                    }
                };
                add(name, value);
            }
        }
    }
    values
}

/// The groups and checks within each other.
fn root_group(world: &World) -> Value {
    let checks: Vec<Checked> = world.metrics().checks.list().to_vec();
    let mut paths = world.groups();
    for check in &checks {
        if !check.group.is_empty() && !paths.contains(&check.group) {
            paths.push(Arc::clone(&check.group));
        }
    }
    // Those of setup and teardown are listed where they have checks.
    let of_phase = |path: &Arc<str>| matches!(&**path, "::setup" | "::teardown");
    paths.retain(|path| !of_phase(path) || checks.iter().any(|check| check.group == *path));
    group("", "", &paths, &checks)
}

fn id_of(path: &str) -> String {
    hash("md5", path.as_bytes()).map(|bytes| hex(&bytes)).unwrap_or_default()
}

fn group(name: &str, path: &str, paths: &[Arc<str>], checks: &[Checked]) -> Value {
    let groups: Vec<Value> = paths
        .iter()
        .filter_map(|other| {
            let name = other.strip_prefix(path)?.strip_prefix("::")?;
            (!name.contains("::")).then(|| group(name, other, paths, checks))
        })
        .collect();
    let own: Vec<Value> = checks
        .iter()
        .filter(|check| &*check.group == path)
        .map(|check| {
            let full = format!("{path}::{}", check.name);
            json!({ "name": &*check.name, "path": full, "id": id_of(&full), "passes": check.passes, "fails": check.fails })
        })
        .collect();
    json!({ "name": name, "path": path, "id": id_of(path), "groups": groups, "checks": own })
}
