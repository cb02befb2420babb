//! Each value as it is counted, for all outputs.

use super::file::{Sender, Writing, writing};
use super::form::{Form, Output, Point, begin, metric, point};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::time::SystemTime;
use weir_scenario::metrics::{Metric, Points, Tagged};

/// Metrics of weir's own, which k6's outputs do not have.
const OWN: [&str; 1] = ["http_req_latency"];

/// What values are written to.
#[derive(Debug)]
struct Outputs {
    all: Vec<(Form, Sender)>,
    /// Tags of the whole run.
    tags: Vec<(String, String)>,
    /// Thresholds by the keys of their metrics.
    thresholds: BTreeMap<String, Vec<String>>,
    told: HashSet<String>,
    /// Those of the value that is written, in ascending order; kept for the next one.
    room: Vec<(String, String)>,
}

/// What outputs are told of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfRun {
    /// Tags of all values.
    pub(crate) tags: Vec<(String, String)>,
    /// Thresholds by the keys of their metrics.
    pub(crate) thresholds: BTreeMap<String, Vec<String>>,
}

/// Outputs that are open: what takes the values, and the threads that write them.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) points: Box<dyn Points>,
    pub(crate) writings: Vec<Writing>,
}

/// An output cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("--out: {name} cannot be written: {cause}; name a file in a folder that is there and may be written")]
pub(crate) struct OutputError {
    name: String,
    cause: io::Error,
}

/// Opens outputs.
///
/// # Errors
/// [`OutputError`].
pub(crate) fn open(outputs: &[Output], of_run: OfRun) -> Result<Opened, OutputError> {
    let (mut all, mut threads) = (Vec::new(), Vec::new());
    for output in outputs {
        let mut head = Vec::new();
        begin(output.form, &mut head);
        let (sender, thread) = writing(output, head).map_err(|cause| OutputError { name: output.name(), cause })?;
        all.push((output.form, sender));
        threads.push(thread);
    }
    let OfRun { tags, thresholds } = of_run;
    let points = Outputs { all, tags, thresholds, told: HashSet::new(), room: Vec::new() };
    Ok(Opened { points: Box::new(points), writings: threads })
}

/// Adds a tag, unless there is one of that name.
fn add(tags: &mut Vec<(String, String)>, name: &str, value: &str) {
    if !tags.iter().any(|(known, _)| known == name) {
        tags.push((name.to_owned(), value.to_owned()));
    }
}

impl Points for Outputs {
    fn point(&mut self, of: &Metric, value: f64, tags: &dyn Tagged) {
        if OWN.contains(&of.name.as_str()) {
            return;
        }
        let is_new = !self.told.contains(&of.name);
        if is_new {
            self.told.insert(of.name.clone());
        }
        self.room.clear();
        tags.each(&mut |name, value| add(&mut self.room, name, value));
        // Values of no user have no group.
        if !self.room.is_empty() {
            add(&mut self.room, "group", "");
        }
        self.tags.iter().for_each(|(name, value)| add(&mut self.room, name, value));
        self.room.sort();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let written = Point { metric: of, value, at: since, tags: &self.room };
        let thresholds = self.thresholds.get(&of.name).map(Vec::as_slice).unwrap_or_default();
        for (form, sender) in &mut self.all {
            sender.add(|out| {
                if is_new {
                    metric(*form, of, thresholds, out);
                }
                point(*form, &written, out);
            });
        }
    }
}
