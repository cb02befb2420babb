//! A real node beside the simulated one: what `measured` has put into folders.

use anyhow::{Context, bail};
use serde_json::Value;
use std::path::Path;

/// The two, nanoseconds.
pub(crate) struct Measured {
    /// The runs of one load have the same.
    pub(crate) load: String,
    /// When and on what, a line.
    pub(crate) surroundings: String,
    pub(crate) requests: u64,
    /// Which requests failed or were dropped.
    pub(crate) failures: u64,
    pub(crate) utilisation: f64,
    pub(crate) service_mean_ns: f64,
    /// Mean, p50 and p95 of the responses: measured, simulated.
    pub(crate) response_ns: [(f64, f64); 3],
    /// Mean queueing delay: measured, simulated.
    pub(crate) waiting_ns: (f64, f64),
}

/// The rate at which a node is at work for this share of its time, by how long it takes for responses of so many bytes,
/// small and large ones: reports of `weir load -c 1 --json`.
pub(crate) fn rate_per_s(utilisation: f64, service: &[(f64, std::path::PathBuf)]) -> anyhow::Result<f64> {
    let mean_s = |file: &Path| -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let report: Value = serde_json::from_str(&text)?;
        let mean_ns = report.pointer("/latency_ns/mean").and_then(Value::as_f64);
        Ok(mean_ns.with_context(|| format!("{}: no mean latency", file.display()))? / 1e9)
    };
    let [(small, of_small), (large, of_large)] = service else { bail!("give --service twice") };
    let (of_small, of_large) = (mean_s(of_small)?, mean_s(of_large)?);
    let mean = of_small + (of_large - of_small) * (crate::site::short_bytes_mean() - small) / (large - small);
    Ok(utilisation / mean)
}

/// Those of several utilisations, each in a folder of its own, in the order of their names.
pub(crate) fn read_all(folder: &Path) -> anyhow::Result<Vec<Measured>> {
    let list = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut folders: Vec<_> = list.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    folders.iter().map(|folder| read(folder)).collect()
}

fn read(folder: &Path) -> anyhow::Result<Measured> {
    let text = |name: &str| {
        let file = folder.join(name);
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let json = |name: &str| -> anyhow::Result<Value> { Ok(serde_json::from_str(&text(name)?)?) };
    let (load, plan) = (json("load.json")?, json("plan.json")?);
    let figures = &plan["tried"][0]["figures"];
    let of =
        |value: &Value, path: &str| value.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}"));
    let simulated = |name: &str| of(figures, &format!("/{name}/mean"));
    let real = |name: &str| of(&load, &format!("/latency_ns/{name}"));
    let service_mean_ns = simulated("response_mean_ns")? - simulated("waiting_mean_ns")?;
    let requests = of(&load, "/requests")? as u64;
    if requests as f64 != of(&plan, "/log/requests")? {
        bail!("the load and the plan are not of the same log");
    }
    let errors = load["errors"].as_object().map_or(0, |errors| errors.values().filter_map(Value::as_u64).sum());
    // The quantiles of weir load are named by their percentages.
    let p95 = load["latency_curve_ns"].as_array().into_iter().flatten().find(|pair| pair[0] == 95.0);
    let p95 = p95.and_then(|pair| pair[1].as_f64()).context("no 95th percentile")?;
    // A folder is LOAD-RUN.
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok(Measured {
        load: name.split_once('-').map_or(name, |(load, _)| load).to_owned(),
        surroundings: text("surroundings")?.trim().to_owned(),
        requests,
        failures: errors + load["dropped"].as_u64().unwrap_or(0),
        utilisation: simulated("utilisation_max")?,
        service_mean_ns,
        response_ns: [
            (real("mean")?, simulated("response_mean_ns")?),
            (real("p50")?, simulated("response_p50_ns")?),
            (p95, simulated("response_p95_ns")?),
        ],
        waiting_ns: (real("mean")? - service_mean_ns, simulated("waiting_mean_ns")?),
    })
}
