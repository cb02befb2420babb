//! What tools tell of what their commands printed: the figures that matter, and how sure they are.

use super::name::Tool;
use super::plan::{Done, Kind, Plan};
use crate::judged::{FIGURES, by_blocks, by_runs, of_slices};
use serde_json::{Map, Value, json};

/// The most causes, classes and the like of a result; the run has all.
const MOST: usize = 10;
/// The most lines of standard error that become notes, and the longest of them in characters.
const NOTES: usize = 20;
const NOTE_CHARS: usize = 500;

/// What a tool tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The result; `None` where the tool failed.
    pub structured: Option<Value>,
    /// The same as text, or why the tool failed.
    pub text: String,
}

impl Told {
    /// The tool failed.
    #[must_use]
    pub fn failed(why: &str) -> Self {
        Self { structured: None, text: why.to_owned() }
    }

    fn of(structured: Value) -> Self {
        Self { text: structured.to_string(), structured: Some(structured) }
    }

    /// The result of tools/call.
    #[must_use]
    pub fn result(&self) -> Value {
        let mut result = json!({
            "content": [{ "type": "text", "text": self.text }],
            "isError": self.structured.is_none(),
        });
        if let Some(structured) = &self.structured {
            result["structuredContent"] = structured.clone();
        }
        result
    }
}

fn of(plan: &Plan, done: &[Done]) -> Told {
    let outcome = match plan.kind {
        Kind::Rows { most } => rows(done, most),
        Kind::Report => report(plan.tool, done),
        Kind::Blocks { smallest_effect } => blocks(plan, done, smallest_effect),
        Kind::Runs { smallest_effect } => runs(done, smallest_effect),
    };
    match outcome {
        Ok(mut structured) => {
            structured["schema"] = format!("weir-mcp-{}/1", plan.tool.name()).into();
            let commands = plan.steps.iter().take(done.len()).map(|step| format!("weir {}", step.words.join(" ")));
            let mut commands: Vec<String> = commands.collect();
            commands.dedup();
            commands.truncate(MOST);
            structured["commands"] = json!(commands);
            structured["exit_status"] = json!(done.last().and_then(|done| done.status));
            Told::of(structured)
        }
        Err(Unread(why)) => Told::failed(&why),
    }
}

/// Why a command gave no report, in its own words.
struct Unread(String);

/// The JSON that a command printed.
fn printed(done: Option<&Done>) -> Result<Value, Unread> {
    let Some(done) = done else { return Err(Unread("nothing ran".to_owned())) };
    if let Ok(report @ Value::Object(_)) = serde_json::from_slice(&done.output) {
        return match report["error"]["words"].as_str() {
            Some(words) => Err(Unread(words.to_owned())),
            None => Ok(report),
        };
    }
    let mut why = notes(done).iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
    if done.is_late {
        why = format!("it was stopped, as it took too long; ask for less\n{why}");
    }
    Err(Unread(if why.trim().is_empty() { format!("it gave no report (exit status {:?})", done.status) } else { why }))
}

/// What a command said beside its report.
fn notes(done: &Done) -> Vec<Value> {
    let lines = done.said.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.take(NOTES).map(|line| line.chars().take(NOTE_CHARS).collect::<String>().into()).collect()
}

/// Warnings of a report, and what its command said.
fn noted(report: &Value, done: Option<&Done>) -> Value {
    let warnings = report["warnings"].as_array().into_iter().flatten().take(NOTES).cloned();
    warnings.chain(done.map(notes).into_iter().flatten()).collect()
}

/// Fields of a report, by the same names.
fn picked(report: &Value, names: &[&str]) -> Map<String, Value> {
    names.iter().map(|&name| (name.to_owned(), report[name].clone())).collect()
}

/// The first of a list, with these fields of each.
fn first(list: &Value, names: &[&str]) -> Value {
    let list = list.as_array().into_iter().flatten().take(MOST);
    list.map(|one| Value::Object(picked(one, names))).collect()
}

fn report(tool: Tool, done: &[Done]) -> Result<Value, Unread> {
    let report = printed(done.last())?;
    let mut told = match tool {
        Tool::Load => load(&report),
        Tool::Advise => advise(&report),
        _ => explain(&report),
    };
    told["notes"] = noted(&report, done.last());
    Ok(told)
}

fn load(report: &Value) -> Value {
    let mut told = picked(
        report,
        &[
            "url",
            "requests",
            "successes",
            "success_rate",
            "rate_per_s",
            "successes_per_s",
            "duration_s",
            "interrupted",
            "latency_ns",
            "latency_uncorrected_ns",
            "errors",
            "status",
            "objectives",
            "passed",
            "missed",
            "dropped",
        ],
    );
    let points = report["series"]["points"].as_array().map(Vec::as_slice).unwrap_or_default();
    let interval_s = report["series"]["interval_s"].as_f64().unwrap_or(0.0);
    // What is left at a run's end is no whole slice.
    let whole: Vec<&Value> =
        points.iter().filter(|point| point["length_s"].as_f64().unwrap_or(0.0) > 0.5 * interval_s).collect();
    let of = |pointer: &str| {
        whole
            .iter()
            .filter_map(|point| point.pointer(pointer)?.as_f64())
            .filter(|value| *value > 0.0)
            .collect::<Vec<_>>()
    };
    let generator = &report["generator"];
    told.insert(
        "uncertainty".to_owned(),
        json!({
            "p50_ns": of_slices(&of("/latency_ns/p50")),
            "p99_ns": of_slices(&of("/latency_ns/p99")),
            "successes_per_s": of_slices(&of("/successes_per_s")),
            "generator_was_bottleneck": generator["bottleneck"],
            "generator_cpu_share": generator["cpu_share"],
            "generator_waited_share": generator["runnable_share"],
            "generator_share_of_slowest": generator["slowest"]["own_share"],
        }),
    );
    told.into()
}

fn explain(report: &Value) -> Value {
    let mut told = picked(
        report,
        &[
            "run",
            "subject",
            "requests",
            "duration_s",
            "rate_per_s",
            "errors",
            "status",
            "response_ns",
            "success_fraction",
            "parts_ns",
            "slow_parts_ns",
            "objectives",
        ],
    );
    let lists = [
        ("causes", first(&report["causes"], &["part", "mean_ns", "share", "who", "text"])),
        ("slow_causes", first(&report["slow_causes"], &["part", "excess_ns", "share", "who", "text"])),
        ("transactions", first(&report["transactions"], &["name", "count", "response_ns"])),
        ("percentiles", report.get("percentiles").cloned().unwrap_or_else(|| json!([]))),
    ];
    told.extend(lists.map(|(name, list)| (name.to_owned(), list)));
    let cost = &report["observer_cost"];
    told.insert(
        "uncertainty".to_owned(),
        json!({
            "joined_fraction": report["joined_fraction"],
            "unjoinable": report["unjoinable"],
            "noise_floor": report["noise_floor"],
            "sum_of_parts_over_response": report["sum_of_parts_over_response"],
            "not_observed": report["not_observed"],
            "source": report["rung"],
            "events_lost": cost["lost"],
            "observer_cpu_share": cost["cpu_share"],
        }),
    );
    told.into()
}

fn advise(report: &Value) -> Value {
    let mut told = picked(
        report,
        &["run", "subject", "response_ns", "slow_response_ns", "servers", "beyond_settings", "none_because"],
    );
    let findings = first(
        &report["findings"],
        &["number", "rule", "title", "facts", "settings", "commands", "reasoning", "effect", "predicted", "against"],
    );
    told.insert("findings".to_owned(), findings);
    told.insert(
        "uncertainty".to_owned(),
        json!({
            "effects": "estimates from one run, each with its least, likely and most; weir advise RUN --try measures one",
            "not_looked_at": report["problems"],
        }),
    );
    told.into()
}

fn rows(done: &[Done], most: usize) -> Result<Value, Unread> {
    let Some(last) = done.last() else { return Err(Unread("nothing ran".to_owned())) };
    let text = String::from_utf8_lossy(&last.output);
    // One row a line, which is also so where the command was stopped within its answer.
    let row = |line: &str| serde_json::from_str::<Value>(line.trim_end_matches(',')).ok().filter(Value::is_object);
    let mut rows: Vec<Value> = text.lines().filter_map(row).take(most + 1).collect();
    let is_cut = rows.len() > most;
    // A question can fail within its answer. One that was stopped behind the rows that are told has answered.
    if !text.starts_with('[') || (!is_cut && last.status != Some(0)) {
        return printed(Some(last)).and_then(|_| Err(Unread("it gave no rows".to_owned())));
    }
    rows.truncate(most);
    let columns: Vec<&String> = rows.first().and_then(Value::as_object).into_iter().flat_map(Map::keys).collect();
    Ok(json!({
        "columns": columns,
        "rows": rows,
        "uncertainty": {
            "rows": rows.len(),
            "is_cut": is_cut,
            "joined": "parts of requests are known only where they were joined with the server's side: see the tool explain",
        },
        "notes": notes(last),
    }))
}

fn blocks(plan: &Plan, done: &[Done], smallest_effect: f64) -> Result<Value, Unread> {
    let a = plan.steps.last().and_then(|step| step.words.last());
    let mut blocks: [Vec<[f64; 3]>; 3] = Default::default();
    let (mut bottleneck, mut warned) = (false, Vec::new());
    for (steps, done) in plan.steps.chunks(3).zip(done.chunks_exact(3)) {
        let reports = done.iter().map(|done| printed(Some(done))).collect::<Result<Vec<_>, _>>()?;
        bottleneck |= reports.iter().any(|report| report["generator"]["bottleneck"] == true);
        warned.extend(reports.iter().flat_map(|report| report["warnings"].as_array().cloned().unwrap_or_default()));
        // The first of B's place may be B; A again is always last.
        let order = if steps[0].words.last() == a { [0, 1, 2] } else { [1, 0, 2] };
        for (values, pointer) in blocks.iter_mut().zip(["/latency_ns/p50", "/latency_ns/p99", "/successes_per_s"]) {
            values.push(order.map(|at| reports[at].pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)));
        }
    }
    if blocks[0].is_empty() {
        return Err(done.last().map_or_else(
            || Unread("nothing ran".to_owned()),
            |last| printed(Some(last)).err().unwrap_or_else(|| Unread("no block was completed".to_owned())),
        ));
    }
    warned.sort_by_key(Value::to_string);
    warned.dedup();
    warned.truncate(NOTES);
    let count = blocks[0].len();
    let figures: Vec<Value> =
        FIGURES.iter().zip(&blocks).map(|(figure, blocks)| by_blocks(figure, blocks, smallest_effect)).collect();
    Ok(json!({
        "figures": figures,
        "uncertainty": {
            "level": 0.95,
            "smallest_effect": smallest_effect,
            "noise": "a_over_a: A against itself, measured in each block",
            "blocks": count,
            "generator_was_bottleneck": bottleneck,
        },
        "notes": warned,
    }))
}

fn runs(done: &[Done], smallest_effect: f64) -> Result<Value, Unread> {
    let (a, b) = (printed(done.first())?, printed(done.get(1))?);
    let series = |report: &Value, figure: &str| -> Vec<f64> {
        let slice_s = report["course"]["slice_s"].as_f64().unwrap_or(1.0).max(1e-9);
        let slices = report["course"]["slices"].as_array().map(Vec::as_slice).unwrap_or_default();
        // The ends are no whole slices.
        let inner = if slices.len() > 2 { &slices[1..slices.len() - 1] } else { slices };
        let value = |slice: &Value| match figure {
            "rate_per_s" => slice["answered"].as_f64().map(|answered| answered / slice_s),
            _ => slice[figure].as_f64(),
        };
        inner.iter().filter_map(value).filter(|value| *value > 0.0).collect()
    };
    let figures: Vec<Value> = FIGURES
        .iter()
        .map(|figure| by_runs(figure, &series(&a, figure.name), &series(&b, figure.name), smallest_effect))
        .collect();
    let parts: Map<String, Value> = a["parts_ns"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(part, of_a)| (part.clone(), json!({ "a": of_a, "b": b["parts_ns"][part] })))
        .collect();
    let of = |name: &str| json!({ "a": a[name], "b": b[name] });
    Ok(json!({
        "figures": figures,
        "parts_ns": parts,
        "uncertainty": {
            "level": 0.95,
            "smallest_effect": smallest_effect,
            "noise": "not known: one run of each side does not say what differs from run to run; compare url_a with url_b \
                      for that",
            "joined_fraction": of("joined_fraction"),
            "noise_floor": of("noise_floor"),
        },
        "notes": noted(&a, done.first()).as_array().into_iter().chain(noted(&b, done.get(1)).as_array()).flatten().collect::<Vec<_>>(),
    }))
}

impl Plan {
    /// What a tool tells of what its commands printed. Commands that did not run, as the one before failed, are left out.
    #[must_use]
    pub fn told(&self, done: &[Done]) -> Told {
        of(self, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    fn place() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a folder");
        std::fs::create_dir(root.join("a")).expect("a folder");
        std::fs::write(root.join("a/manifest.jsonl"), "").expect("a file");
        (
            folder,
            Place {
                new_runs: root.clone(),
                root,
                named: 0.into(),
                hosts: Vec::new(),
                duration_s_max: 60.0,
                requests_max: 5000,
                methods: vec!["POST".to_owned()],
            },
        )
    }

    #[test]
    fn rows_are_cut_and_that_is_told() {
        let (_folder, place) = place();
        let plan = Plan::of(Tool::Sql, &json!({"run": "a", "sql": "SELECT 1", "rows_max": 2}), &place).expect("a plan");
        let done = |output: &str| [Done { status: Some(0), output: output.as_bytes().to_vec(), ..Done::default() }];
        let told = plan.told(&done("[\n{\"n\":1},\n{\"n\":2},\n{\"n\":3}")).structured.expect("rows");
        assert_eq!((&told["rows"], &told["uncertainty"]["is_cut"]), (&json!([{"n": 1}, {"n": 2}]), &json!(true)));
        let told = plan.told(&done("[]\n")).structured.expect("no rows are an answer");
        assert_eq!((&told["rows"], &told["uncertainty"]["is_cut"]), (&json!([]), &json!(false)));
        let failed = Done {
            status: Some(2),
            output: b"[\n{\"n\":1}".to_vec(),
            said: "not authorized".to_owned(),
            ..Done::default()
        };
        assert_eq!(plan.told(&[failed]), Told::failed("not authorized"));
        let wrong = Done { status: Some(2), said: "weir sql: there is no column x".to_owned(), ..Done::default() };
        let told = plan.told(&[wrong]);
        assert_eq!((told.structured, told.text.as_str()), (None, "weir sql: there is no column x"));
    }

    #[test]
    fn blocks_keep_the_sides_apart_in_either_order() {
        let (_folder, place) = place();
        let two = json!({"url_a": "http://127.0.0.1:1/", "url_b": "http://127.0.0.1:2/", "blocks": 6});
        let plan = Plan::of(Tool::Compare, &two, &place).expect("a plan");
        let done: Vec<Done> = plan
            .steps
            .iter()
            .map(|step| {
                let ns = if step.words.last().is_some_and(|url| url.contains(":2/")) { 2000 } else { 1000 };
                let report = json!({"latency_ns": {"p50": ns, "p99": ns}, "successes_per_s": 10.0, "warnings": ["w"]});
                Done { status: Some(0), output: report.to_string().into_bytes(), ..Done::default() }
            })
            .collect();
        let told = plan.told(&done).structured.expect("a result");
        assert_eq!(
            (&told["figures"][0]["verdict"], &told["figures"][0]["b_over_a"]["ratio"]),
            (&json!("worse"), &json!(2.0))
        );
        assert_eq!((&told["figures"][2]["verdict"], &told["notes"]), (&json!("the_same"), &json!(["w"])));
    }
}
