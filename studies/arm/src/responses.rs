//! What each instrument said of the same pages.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;

/// Mean times of the pages of one run, milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Responses {
    /// As the client has it, over the responses that were captured.
    pub(crate) client_ms: f64,
    pub(crate) pages: u64,
    /// Of the client's, what passed before a process of the server had read of it, as it was captured: in queues, and while
    /// that process waited for its CPU.
    pub(crate) queued_ms: f64,
    /// Of the client's, what passed when the server had sent all of it: on its way, and while the client waited for its CPU.
    pub(crate) way_back_ms: f64,
    /// Apache's first byte (`%^FB`) and its whole response (`%D`).
    pub(crate) first_byte_ms: Option<f64>,
    pub(crate) apache_ms: Option<f64>,
    /// mod_arm's last byte, as a note of Apache's log.
    pub(crate) note_ms: Option<f64>,
    /// The transactions of mod_arm and of phparm, as the agent has them.
    pub(crate) mod_arm_ms: Option<f64>,
    pub(crate) phparm_ms: Option<f64>,
}

/// A transaction, as `weir arm tail --json` prints it.
#[derive(Debug, Deserialize)]
struct Told {
    application: String,
    name: String,
    duration_ns: u64,
}

/// A mean in the making.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Responses {
    /// Reads a run; `None` = there is none.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Option<Self>> {
        if !folder.join("done").exists() {
            return Ok(None);
        }
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
        };
        Self::of(&text("explain.json")?, &text("access.log")?, &text("transactions.json")?).map(Some)
    }

    fn of(explained: &str, log: &str, told: &str) -> anyhow::Result<Self> {
        let explained: Value = serde_json::from_str(explained).context("explain.json")?;
        let parts = explained.get("parts_ns").and_then(Value::as_object).context("explain.json has no parts_ns")?;
        let pages = explained.get("requests").and_then(Value::as_u64).context("explain.json has no requests")?;
        ensure!(pages > 0, "no page was captured");
        let ms = |part: &Value| part.as_f64().unwrap_or(0.0) / 1e6;
        let client_ms = parts.values().map(ms).sum();
        let stage = |name: &str| {
            let stage = explained.get("stages_ns").and_then(|stages| stages.get(name));
            stage.map(ms).with_context(|| format!("explain.json has no stage {name}"))
        };
        let (queued_ms, way_back_ms) = (stage("until_pick_up")?, stage("until_client")?);

        // %D, %^FB, the notes of the first and the last byte: microseconds, a dash where there is none.
        let mut fields = [Mean::default(); 4];
        for line in log.lines() {
            for (mean, field) in fields.iter_mut().zip(line.split(' ')) {
                if let Ok(us) = field.parse::<f64>() {
                    mean.add(us / 1e3);
                }
            }
        }
        let (mut mod_arm, mut phparm) = (Mean::default(), Mean::default());
        for line in told.lines() {
            let told: Told = serde_json::from_str(line).with_context(|| format!("transactions.json: {line}"))?;
            match (told.application.as_str(), told.name.as_str()) {
                ("study", "page") => mod_arm.add(told.duration_ns as f64 / 1e6),
                ("PhpApache", _) => phparm.add(told.duration_ns as f64 / 1e6),
                _ => {}
            }
        }
        let [apache, first_byte, _, note] = fields;
        Ok(Self {
            client_ms,
            pages,
            queued_ms,
            way_back_ms,
            first_byte_ms: first_byte.get(),
            apache_ms: apache.get(),
            note_ms: note.get(),
            mod_arm_ms: mod_arm.get(),
            phparm_ms: phparm.get(),
        })
    }

    /// By how much a mean falls short of the client's, percent.
    pub(crate) fn error_percent(&self, mean_ms: f64) -> f64 {
        (1.0 - mean_ms / self.client_ms) * 100.0
    }

    /// mod_arm's mean and what was captured before and behind it, which no server can see of itself.
    pub(crate) fn with_queue_ms(&self) -> Option<f64> {
        Some(self.mod_arm_ms? + self.queued_ms + self.way_back_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instrument_has_its_mean() {
        let explained = r#"{"requests": 2, "parts_ns": {"connect": 1e6, "accept_queue": 29e6, "run": 15e6, "client_wakeup": 5e6},
            "stages_ns": {"until_pick_up": 30e6, "at_server": 15e6, "until_client": 5e6}}"#;
        let log = "20000 9000 9100 19000\n20200 9200 - 19200\n";
        let told = r#"{"application":"study","name":"page","duration_ns":19000000}
{"application":"study","name":"file","duration_ns":1}
{"application":"PhpApache","name":"PhpApache","duration_ns":15000000}
{"application":"study","name":"page","duration_ns":20000000}"#;
        let found = Responses::of(explained, log, told).expect("a run");
        let expected = Responses {
            client_ms: 50.0,
            pages: 2,
            queued_ms: 30.0,
            way_back_ms: 5.0,
            first_byte_ms: Some(9.1),
            apache_ms: Some(20.1),
            note_ms: Some(19.1),
            mod_arm_ms: Some(19.5),
            phparm_ms: Some(15.0),
        };
        assert_eq!(found, expected);
        assert_eq!((found.error_percent(19.5), found.with_queue_ms()), (61.0, Some(54.5)));
        assert!(Responses::of("{}", "", "").is_err());
        let empty = Responses::of(
            r#"{"requests": 1, "parts_ns": {"run": 1}, "stages_ns": {"until_pick_up": 0, "until_client": 0}}"#,
            "- -\n",
            "",
        )
        .expect("a run");
        assert_eq!((empty.first_byte_ms, empty.mod_arm_ms, empty.with_queue_ms()), (None, None, None));
    }
}
