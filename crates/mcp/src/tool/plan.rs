//! What a tool runs: commands of weir, one after the other.

use super::arguments::{
    BODY_BYTES_MAX, CONNECTIONS_MAX, CompareArguments, ExplainArguments, FIELD_BYTES_MAX, FIELDS_MAX, LoadArguments,
    OBJECTIVES_MAX, ROWS_MAX, SqlArguments, ToolError, within,
};
use super::name::Tool;
use crate::Place;
use serde_json::Value;
use url::Url;

/// What reading, joining and reporting may take beside a load or recording, seconds.
const BESIDE_S: f64 = 120.0;
/// How long a load goes on without a duration, seconds.
const DURATION_S: f64 = 5.0;
/// The most bytes that a question may have.
const SQL_BYTES_MAX: usize = 64 << 10;

/// A command.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its arguments, the subcommand first; no shell reads them.
    pub words: Vec<String>,
    /// How long it is expected to take, seconds.
    pub expected_s: f64,
    /// After how long it is stopped, seconds.
    pub limit_s: f64,
    /// After how many lines of output it is stopped, if it is.
    pub lines_max: Option<usize>,
}

/// What became of a command.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// Its exit status; `None` where a signal ended it.
    pub status: Option<i32>,
    /// What it printed, as much as is kept.
    pub output: Vec<u8>,
    /// What it said on standard error, as much as is kept.
    pub said: String,
    /// Whether it was stopped for its time.
    pub is_late: bool,
}

/// What is to be made of the outputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// The report of one command.
    Report,
    /// Rows.
    Rows { most: usize },
    /// Blocks of A, B and A again.
    Blocks { smallest_effect: f64 },
    /// Two runs.
    Runs { smallest_effect: f64 },
}

/// What a tool runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub(super) tool: Tool,
    pub(super) kind: Kind,
    /// The commands, in their order.
    pub steps: Vec<Step>,
}

impl Plan {
    /// What a call of a tool runs.
    ///
    /// # Errors
    /// The arguments are not as the schema says, out of range, or out of reach.
    pub fn of(tool: Tool, arguments: &Value, place: &Place) -> Result<Self, ToolError> {
        match tool {
            Tool::Load => load(&given(arguments)?, place),
            Tool::Explain | Tool::Advise => explain(tool, &given(arguments)?, place),
            Tool::Compare => compare(&given(arguments)?, place),
            Tool::Sql => sql(&given(arguments)?, place),
        }
    }
}

/// Arguments from JSON.
fn given<T: serde::de::DeserializeOwned>(arguments: &Value) -> Result<T, ToolError> {
    Ok(serde_json::from_value(arguments.clone())?)
}

fn words(of: &[&str]) -> Vec<String> {
    of.iter().map(|&word| word.to_owned()).collect()
}

/// A time as commands take it: to the millisecond.
fn time(seconds: f64) -> String {
    format!("{}ms", (seconds * 1e3).round().max(1.0))
}

/// The options of how much is asked, and for how long.
fn how_much(
    (duration_s, connections, rate_per_s): (Option<f64>, Option<u32>, Option<f64>),
    place: &Place,
) -> Result<(Vec<String>, f64), ToolError> {
    let most = place.duration_s_max;
    let duration_s = within("duration_s", duration_s.unwrap_or(DURATION_S.min(most)), 0.001, most)?;
    let connections = connections.unwrap_or(10);
    within("connections", f64::from(connections), 1.0, f64::from(CONNECTIONS_MAX))?;
    let mut options = vec![format!("--duration={}", time(duration_s)), format!("--connections={connections}")];
    if let Some(rate) = rate_per_s {
        within("rate_per_s", rate, 0.1, 1e7)?;
        options.push(format!("--rate={rate}"));
    }
    Ok((options, duration_s))
}

fn objectives(given: &[String]) -> Result<Vec<String>, ToolError> {
    if given.len() > OBJECTIVES_MAX {
        return Err(ToolError::Choice("objectives: at most 16 are judged; leave some out"));
    }
    Ok(given.iter().map(|objective| format!("--slo={objective}")).collect())
}

fn step(words: Vec<String>, expected_s: f64) -> Step {
    Step { words, expected_s, limit_s: expected_s + BESIDE_S, lines_max: None }
}

fn load(given: &LoadArguments, place: &Place) -> Result<Plan, ToolError> {
    let url = place.url(&given.url)?;
    let (options, duration_s) = how_much((given.duration_s, given.connections, given.rate_per_s), place)?;
    let most = place.requests_max;
    let requests = given.requests.unwrap_or(most);
    within("requests", requests as f64, 1.0, most as f64)?;
    let mut command = words(&["load", "--json", "--quiet"]);
    command.extend(options);
    // As many slices as an interval needs, also of a short load.
    command.push(format!("--interval={}", time((duration_s / 20.0).clamp(0.05, 1.0))));
    command.push(format!("--requests={requests}"));
    command.extend(requested(given, place)?);
    command.extend(objectives(&given.objectives)?);
    command.push(url);
    Ok(Plan { tool: Tool::Load, kind: Kind::Report, steps: vec![step(command, duration_s)] })
}

/// The options of what each request is.
fn requested(given: &LoadArguments, place: &Place) -> Result<Vec<String>, ToolError> {
    let mut options = Vec::new();
    if let Some(method) = &given.method {
        options.push(format!("--method={}", place.method(method)?));
    }
    if given.fields.len() > FIELDS_MAX {
        return Err(ToolError::Choice("fields: a request may have 32; leave some out"));
    }
    for (name, value) in &given.fields {
        // What is no name or value of HTTP the command refuses itself; a line's end would begin another field.
        if name.len() + value.len() > FIELD_BYTES_MAX
            || [name, value].iter().any(|text| text.contains(['\r', '\n', '\0']))
        {
            return Err(ToolError::Choice("fields: each has 8 KiB at most, on one line"));
        }
        options.push(format!("--header={name}: {value}"));
    }
    if let Some(body) = &given.body {
        // The command would read a file of this name.
        if body.starts_with('@') || body.contains('\0') || body.len() > BODY_BYTES_MAX {
            return Err(ToolError::Choice(
                "body: 64 KiB of text at most, which neither begins with @ nor has the byte 0",
            ));
        }
        options.push(format!("--body={body}"));
    }
    Ok(options)
}

fn explain(tool: Tool, given: &ExplainArguments, place: &Place) -> Result<Plan, ToolError> {
    let mut command = words(&[tool.name(), "--json"]);
    command.extend(objectives(&given.objectives)?);
    if given.server_side {
        command.push("--server-side".to_owned());
    }
    let is_new = given.url.is_some() || given.port.is_some() || given.pid.is_some();
    let expected_s = match &given.run {
        Some(_) if is_new => {
            return Err(ToolError::Choice("run reads a recording, and url, port and pid make one; give one of both"));
        }
        Some(run) => {
            command.push(place.run(run)?.display().to_string());
            0.0
        }
        None if !is_new => return Err(ToolError::Choice("give run, or url, port or pid for a new recording")),
        None => {
            let (options, duration_s) = how_much((given.duration_s, given.connections, given.rate_per_s), place)?;
            let is_loaded = given.url.is_some();
            if !is_loaded && (given.connections.is_some() || given.rate_per_s.is_some()) {
                return Err(ToolError::Choice("connections and rate_per_s say how to load; add url"));
            }
            // Without a load only the time counts.
            command.extend(if is_loaded { options } else { options.into_iter().take(1).collect() });
            command.extend(target(given, place)?);
            command.push(format!("--run={}", place.new_run().display()));
            duration_s
        }
    };
    Ok(Plan { tool, kind: Kind::Report, steps: vec![step(command, expected_s)] })
}

/// The options of what is recorded.
fn target(given: &ExplainArguments, place: &Place) -> Result<Vec<String>, ToolError> {
    let mut options = Vec::new();
    let mut port = given.port;
    if let Some(url) = &given.url {
        let url = place.url(url)?;
        if given.pid.is_none() {
            port = port.or_else(|| Url::parse(&url).ok()?.port_or_known_default());
        }
        options.push(format!("--requests={}", place.requests_max));
        options.push(format!("--load={url}"));
    }
    options.extend(port.map(|port| format!("--port={port}")));
    options.extend(given.pid.map(|pid| format!("--pid={pid}")));
    Ok(options)
}

fn compare(given: &CompareArguments, place: &Place) -> Result<Plan, ToolError> {
    let smallest_effect = within("smallest_effect", given.smallest_effect.unwrap_or(0.05), 0.0, 1.0)?;
    let loads =
        given.blocks.is_some() || given.block_s.is_some() || given.connections.is_some() || given.rate_per_s.is_some();
    match (&given.url_a, &given.url_b, &given.run_a, &given.run_b) {
        (Some(a), Some(b), None, None) => blocks(given, (&place.url(a)?, &place.url(b)?), smallest_effect, place),
        (None, None, Some(_), Some(_)) if loads => Err(ToolError::Choice(
            "blocks, block_s, connections and rate_per_s say how to load; runs are there already",
        )),
        (None, None, Some(a), Some(b)) => {
            let one = |run: &str| -> Result<Step, ToolError> {
                let directory = place.run(run)?.display().to_string();
                Ok(step(vec!["explain".to_owned(), "--json".to_owned(), directory], 0.0))
            };
            let steps = vec![one(a)?, one(b)?];
            Ok(Plan { tool: Tool::Compare, kind: Kind::Runs { smallest_effect }, steps })
        }
        _ => Err(ToolError::Choice("give url_a and url_b, or run_a and run_b")),
    }
}

fn blocks(
    given: &CompareArguments,
    (a, b): (&str, &str),
    smallest_effect: f64,
    place: &Place,
) -> Result<Plan, ToolError> {
    let blocks = given.blocks.unwrap_or(8);
    within("blocks", f64::from(blocks), 1.0, 100.0)?;
    let slices = 3.0 * f64::from(blocks);
    let most = place.duration_s_max;
    let block_s = within("block_s", given.block_s.unwrap_or(1.0_f64.min(most / slices)), 0.1, 60.0)?;
    if block_s * slices > most {
        return Err(ToolError::Range { name: "3 * blocks * block_s", least: 0.3, most, given: block_s * slices });
    }
    let (options, _) = how_much((Some(block_s), given.connections, given.rate_per_s), place)?;
    let requests = (place.requests_max as f64 / slices).max(1.0) as u64;
    let one = |url: &str| {
        let mut command = words(&["load", "--json", "--quiet"]);
        command.extend(options.iter().cloned());
        command.push(format!("--requests={requests}"));
        command.push(url.to_owned());
        step(command, block_s)
    };
    // The order of A and B changes, so that neither has always what the machine did first.
    let steps =
        (0..blocks).flat_map(|block| if block % 2 == 0 { [one(a), one(b), one(a)] } else { [one(b), one(a), one(a)] });
    Ok(Plan { tool: Tool::Compare, kind: Kind::Blocks { smallest_effect }, steps: steps.collect() })
}

fn sql(given: &SqlArguments, place: &Place) -> Result<Plan, ToolError> {
    let most = given.rows_max.unwrap_or(100) as usize;
    within("rows_max", most as f64, 1.0, ROWS_MAX as f64)?;
    let mut command = words(&["sql", "--json"]);
    match (&given.sql, &given.saved) {
        (Some(sql), None) if sql.len() > SQL_BYTES_MAX => {
            return Err(ToolError::Choice("sql: a question may have 64 KiB; ask less at a time"));
        }
        (Some(sql), None) => {
            command.extend(["--".to_owned(), place.run(&given.run)?.display().to_string(), sql.clone()]);
        }
        (None, Some(saved)) => {
            command.extend([format!("--saved={saved}"), place.run(&given.run)?.display().to_string()]);
        }
        _ => return Err(ToolError::Choice("give sql, or saved")),
    }
    // The bracket in front, and one row more, which tells that there are more.
    let lines_max = Some(most + 2);
    Ok(Plan { tool: Tool::Sql, kind: Kind::Rows { most }, steps: vec![Step { lines_max, ..step(command, 0.0) }] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn place() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a folder");
        std::fs::create_dir(root.join("a")).expect("a folder");
        std::fs::write(root.join("a/manifest.jsonl"), "").expect("a file");
        let place = Place {
            new_runs: root.clone(),
            root,
            named: 0.into(),
            hosts: Vec::new(),
            duration_s_max: 30.0,
            requests_max: 5000,
            methods: vec!["POST".to_owned()],
        };
        (folder, place)
    }

    #[test]
    fn calls_become_bounded_commands() {
        let (_folder, place) = place();
        let plan =
            Plan::of(Tool::Load, &json!({"url": "http://127.0.0.1:1/", "duration_s": 2}), &place).expect("a plan");
        let words = plan.steps[0].words.join(" ");
        assert_eq!(
            words,
            "load --json --quiet --duration=2000ms --connections=10 --interval=100ms --requests=5000 http://127.0.0.1:1/"
        );
        let sent = json!({"url": "http://127.0.0.1:1/", "method": "POST", "fields": {"Content-Type": "text/plain"}, "body": "a=b"});
        let plan = Plan::of(Tool::Load, &sent, &place).expect("a plan");
        for word in ["--method=POST", "--header=Content-Type: text/plain", "--body=a=b"] {
            assert!(plan.steps[0].words.iter().any(|one| one == word), "{word}: {:?}", plan.steps);
        }
        let two = json!({"url_a": "http://127.0.0.1:1/", "url_b": "http://127.0.0.1:2/", "blocks": 2});
        let plan = Plan::of(Tool::Compare, &two, &place).expect("a plan");
        let asked: Vec<&str> = plan.steps.iter().map(|step| step.words.last().expect("a URL").as_str()).collect();
        let [a, b] = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"];
        assert_eq!(asked, [a, b, a, b, a, a]);
        let plan = Plan::of(Tool::Explain, &json!({"url": "http://127.0.0.1:81/"}), &place).expect("a plan");
        assert!(plan.steps[0].words.contains(&"--port=81".to_owned()), "{:?}", plan.steps);
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let (_folder, place) = place();
        for (tool, arguments, words) in [
            (Tool::Load, json!({}), "no URL"),
            (Tool::Load, json!({"url": "http://127.0.0.1/", "duration_s": 31}), "0.001 to 30"),
            (Tool::Load, json!({"url": "http://127.0.0.1/", "requests": 5001}), "5000"),
            (Tool::Load, json!({"url": "http://127.0.0.1/", "shell": "rm"}), "unknown field"),
            (Tool::Load, json!({"url": "http://192.0.2.1/"}), "--allow HOST"),
            (Tool::Load, json!({"url": "http://127.0.0.1/", "method": "DELETE"}), "--allow-method METHOD"),
            (
                Tool::Load,
                json!({"url": "http://127.0.0.1/", "method": "POST", "body": "@/etc/passwd"}),
                "begins with @",
            ),
            (Tool::Load, json!({"url": "http://127.0.0.1/", "fields": {"A": "b\r\nC: d"}}), "on one line"),
            (Tool::Load, json!({"url": "http://127.0.0.1/", "fields": ["A: b"]}), "do not fit"),
            (Tool::Explain, json!({}), "give run, or url"),
            (Tool::Explain, json!({"run": "a", "port": 1}), "give one of both"),
            (Tool::Explain, json!({"port": 1, "rate_per_s": 5}), "add url"),
            (Tool::Compare, json!({"url_a": "http://127.0.0.1/"}), "give url_a and url_b"),
            (Tool::Compare, json!({"run_a": "a", "run_b": "a", "blocks": 9}), "there already"),
            (Tool::Sql, json!({"run": "a"}), "give sql, or saved"),
            (Tool::Sql, json!({"run": "../b", "sql": "SELECT 1"}), "no run here"),
            (Tool::Sql, json!([1]), "do not fit"),
        ] {
            let refused = Plan::of(tool, &arguments, &place).map(|plan| plan.steps).expect_err("refused").to_string();
            assert!(refused.contains(words), "{arguments}: {refused}");
        }
    }

    proptest! {
        // Each case makes a folder.
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// What a client says never becomes an option of its own.
        #[test]
        fn no_argument_becomes_an_option(text in "\\PC{0,30}") {
            let (_folder, place) = place();
            for (tool, arguments) in [
                (Tool::Sql, json!({"run": "a", "sql": text})),
                (Tool::Sql, json!({"run": "a", "saved": text})),
                (Tool::Load, json!({"url": "http://127.0.0.1/", "objectives": [text]})),
                (Tool::Load, json!({"url": text})),
                (Tool::Load, json!({"url": "http://127.0.0.1/", "method": text})),
                (Tool::Load, json!({"url": "http://127.0.0.1/", "body": text, "fields": {&text: text}})),
                (Tool::Explain, json!({"run": text})),
            ] {
                let Ok(plan) = Plan::of(tool, &arguments, &place) else { continue };
                for step in &plan.steps {
                    let options = step.words.iter().take_while(|word| *word != "--").filter(|word| word.starts_with('-'));
                    for option in options {
                        let name = option.split('=').next().unwrap_or_default();
                        let known = [
                            "--json", "--quiet", "--duration", "--connections", "--interval", "--requests", "--slo",
                            "--saved", "--method", "--header", "--body",
                        ];
                        prop_assert!(known.contains(&name), "{option}");
                    }
                }
            }
        }
    }
}
