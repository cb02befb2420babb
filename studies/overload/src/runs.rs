//! What the load generator reported of each run.

use anyhow::Context;
use serde_json::Value;
use std::path::Path;

/// One run, as its clients saw it.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Answers with 200, of clients that had not left.
    pub(crate) useful_per_s: f64,
    pub(crate) wanted_per_s: f64,
    /// Latencies of these by percentile, from the intended time on, in nanoseconds.
    pub(crate) curve: Vec<(f64, f64)>,
    /// Answers with 503 and 502, and requests without an answer, a second.
    pub(crate) refused_per_s: f64,
    pub(crate) bad_per_s: f64,
    pub(crate) unanswered_per_s: f64,
}

/// Both servers in one round.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) weir: Run,
    pub(crate) nginx: Run,
}

impl Run {
    pub(crate) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let load: Value = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))?;
        let seconds = load["duration_s"].as_f64().with_context(|| format!("{}: no duration_s", file.display()))?;
        let status = |status: &str| load["status"][status].as_f64().unwrap_or(0.0) / seconds;
        let errors = load["errors"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_f64());
        let curve = load["latency_curve_ns"].as_array().context("no curve of latency")?;
        Ok(Self {
            useful_per_s: status("200"),
            wanted_per_s: load["rate_wanted_per_s"].as_f64().unwrap_or(0.0),
            curve: curve.iter().filter_map(|pair| Some((pair[0].as_f64()?, pair[1].as_f64()?))).collect(),
            refused_per_s: status("503"),
            bad_per_s: status("502") + status("504"),
            unanswered_per_s: (errors.sum::<f64>() + 0.0) / seconds,
        })
    }

    /// The latency of successes at a percentile: that of the next one that the curve has.
    pub(crate) fn at_ns(&self, percent: f64) -> f64 {
        self.curve.iter().find(|(has, _)| *has >= percent).or(self.curve.last()).map_or(f64::NAN, |(_, ns)| *ns)
    }
}

/// The rounds of a folder, in their order.
pub(crate) fn pairs(folder: &Path) -> anyhow::Result<Vec<Pair>> {
    let read = |round: usize| -> anyhow::Result<Pair> {
        let of = |server: &str| Run::read(&folder.join(round.to_string()).join(format!("{server}.json")));
        Ok(Pair { weir: of("weir")?, nginx: of("nginx")? })
    };
    (1..).take_while(|round: &usize| folder.join(round.to_string()).is_dir()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let folder = std::env::temp_dir().join(format!("weir-study-overload-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("a.json");
        let text = r#"{"duration_s": 2.0, "rate_wanted_per_s": 500.0, "status": {"200": 480, "503": 500, "502": 4},
            "errors": {"timeout": 16}, "latency_curve_ns": [[50, 1000], [99, 5000], [100, 9000]]}"#;
        std::fs::write(&file, text).expect("writes");
        let run = Run::read(&file).expect("a report");
        assert_eq!(
            (run.useful_per_s, run.refused_per_s, run.bad_per_s, run.unanswered_per_s),
            (240.0, 250.0, 2.0, 8.0)
        );
        assert_eq!((run.at_ns(50.0), run.at_ns(90.0), run.at_ns(99.9)), (1000.0, 5000.0, 9000.0));
        std::fs::remove_dir_all(&folder).expect("removes");
    }
}
