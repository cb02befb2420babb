//! What a run is to do.

use super::executor::{Read, executor, stages};
use super::given::{Given, Named, OptionError};
use super::read::{Fields, duration_of};
use crate::script::{ScenarioOf, Settings};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weir_scenario::behaviour::Tags;
use weir_scenario::executors::{Executor, Keeps, Planned};

/// What a run is to do.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) scenarios: Vec<Planned>,
    pub(crate) settings: Settings,
    /// Thresholds: the metric's key, the expression, and from when on a miss ends the run.
    pub(crate) thresholds: Vec<(String, String, Option<Duration>)>,
    pub(crate) limits: Limits,
    pub(crate) hosts: BTreeMap<String, String>,
    pub(crate) trend_stats: Vec<String>,
    /// `s`, `ms`, `us`, or empty for what fits each value.
    pub(crate) time_unit: String,
    pub(crate) is_insecure: bool,
    pub(crate) has_setup: bool,
    pub(crate) has_teardown: bool,
    /// Options that have no effect here, with why.
    pub(crate) without_effect: Vec<String>,
}

/// How long parts of a run may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) setup: Duration,
    pub(crate) teardown: Duration,
}

/// Options that are refused, and what to do instead.
const REFUSED: [(&str, &str); 13] = [
    ("rps", "requests are not held back as a whole; use the executor constant-arrival-rate"),
    ("blacklistIPs", "addresses are not kept out; leave it out"),
    ("blockHostnames", "names are not kept out; leave it out"),
    ("executionSegment", "one process runs the whole test; use weir load --workers for several hosts"),
    ("executionSegmentSequence", "one process runs the whole test; leave it out"),
    ("localIPs", "the kernel chooses the address that connections come from; leave it out"),
    ("httpDebug", "messages are not printed; use weir load --verbose, or console.log in the script"),
    ("tlsAuth", "client certificates are not there for scripts; use weir load --cert"),
    ("tlsCipherSuites", "suites are not chosen for scripts; use weir load --ciphers"),
    ("tlsVersion", "the version is not chosen for scripts; use weir load --tls"),
    ("consoleOutput", "the log goes to standard error; redirect that"),
    ("paused", "a run cannot begin paused; leave it out"),
    ("linger", "there is no server of k6's to stay for; leave it out"),
];
/// Options that say nothing about the load.
const WITHOUT_EFFECT: [&str; 6] = ["systemTags", "noUsageReport", "ext", "cloud", "dns", "noSummary"];

/// Works out what options ask for: those of the command line come before those of the script.
pub(crate) fn plan(script: Option<&str>, given: &Given, named: &Named) -> Result<Plan, OptionError> {
    let own = match script {
        Some(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        None => Value::Object(Map::new()),
    };
    let mut merged = given.config.clone();
    for (name, value) in Fields::of("options", own)?.into_inner() {
        merged.insert(name, value);
    }
    let runs = |name: &str| matches!(name, "vus" | "duration" | "iterations" | "stages");
    if given.options.keys().any(|name| runs(name) && name != "vus") {
        ["scenarios", "duration", "iterations", "stages"].iter().for_each(|name| drop(merged.remove(*name)));
    }
    for (name, value) in &given.options {
        match (name.as_str(), merged.get_mut(name), value) {
            ("tags" | "hosts", Some(Value::Object(own)), Value::Object(more)) => own.extend(more.clone()),
            _ => drop(merged.insert(name.clone(), value.clone())),
        }
    }
    let options_json = Value::Object(merged.clone()).to_string();
    let mut fields = Fields::of("", Value::Object(merged))?;
    for (name, why) in REFUSED {
        if fields.take(name).is_some_and(|value| value != Value::Bool(false)) {
            return Err(OptionError::Refused { name: name.to_owned(), why });
        }
    }
    let told = WITHOUT_EFFECT.iter().filter(|name| fields.take(name).is_some());
    let without_effect = told.map(|name| format!("option {name} has no effect here")).collect();
    let thresholds = thresholds(&mut fields, named.without_thresholds)?;
    let limits = Limits {
        setup: fields.duration("setupTimeout")?.unwrap_or(Duration::from_secs(60)),
        teardown: fields.duration("teardownTimeout")?.unwrap_or(Duration::from_secs(60)),
    };
    let trend_stats = trend_stats(&mut fields)?;
    let time_unit = fields.text("summaryTimeUnit")?.unwrap_or_default();
    if !["", "s", "ms", "us"].contains(&time_unit.as_str()) {
        return Err(OptionError::range("summaryTimeUnit", format!("{time_unit:?} is none of s, ms, us")));
    }
    let hosts = fields.texts("hosts")?;
    let is_insecure = fields.truth("insecureSkipTLSVerify")?;
    let keeps = Keeps { cookies: false, connections: !fields.truth("noVUConnectionReuse")? };
    let mut settings = settings(&mut fields, options_json)?;
    let scenarios = scenarios(&mut fields, keeps, &mut settings)?;
    fields.end()?;
    for scenario in &settings.scenarios {
        if !named.functions.contains(&scenario.exec) {
            return Err(OptionError::Exec { scenario: scenario.name.clone(), exec: scenario.exec.clone() });
        }
    }
    let exports = |name: &str| named.functions.iter().any(|function| function == name);
    Ok(Plan {
        scenarios,
        settings,
        thresholds,
        limits,
        hosts,
        trend_stats,
        time_unit,
        is_insecure,
        has_setup: exports("setup") && !named.without_setup,
        has_teardown: exports("teardown") && !named.without_teardown,
        without_effect,
    })
}

fn settings(fields: &mut Fields, options_json: String) -> Result<Settings, OptionError> {
    let usual = Settings::default();
    let count = |given: Option<u64>, usual: usize| given.map_or(usual, |given| given as usize);
    Ok(Settings {
        scenarios: Vec::new(),
        tags: fields.texts("tags")?.into_iter().collect(),
        user_agent: fields.text("userAgent")?.unwrap_or(usual.user_agent),
        redirects_max: fields.whole("maxRedirects")?.map_or(usual.redirects_max, |given| given.min(1000) as u32),
        discard_bodies: fields.truth("discardResponseBodies")?,
        throws: fields.truth("throw")?,
        keeps_cookies: fields.truth("noCookiesReset")?,
        batch: count(fields.whole("batch")?, usual.batch),
        batch_of_host: count(fields.whole("batchPerHost")?, usual.batch_of_host),
        options_json,
        closes: fields.truth("noConnectionReuse")?,
        iteration_least: fields.duration("minIterationDuration")?.unwrap_or_default(),
        hosts: usual.hosts,
    })
}

fn trend_stats(fields: &mut Fields) -> Result<Vec<String>, OptionError> {
    let usual = ["avg", "min", "med", "max", "p(90)", "p(95)"];
    let Some(given) = fields.list("summaryTrendStats")? else { return Ok(usual.map(str::to_owned).to_vec()) };
    let mut stats = Vec::new();
    for value in given {
        let text = value.as_str().unwrap_or_default().trim().to_owned();
        let percent =
            text.strip_prefix("p(").and_then(|rest| rest.strip_suffix(')')).and_then(|rest| rest.parse().ok());
        let is_percent = percent.is_some_and(|percent: f64| (0.0..=100.0).contains(&percent));
        if !is_percent && !["avg", "min", "med", "max", "count"].contains(&text.as_str()) {
            let words = format!("{text:?} is none of avg, min, med, max, count and p(N)");
            return Err(OptionError::range("summaryTrendStats", words));
        }
        stats.push(text);
    }
    Ok(stats)
}

fn thresholds(fields: &mut Fields, without: bool) -> Result<Vec<(String, String, Option<Duration>)>, OptionError> {
    let mut all = Vec::new();
    let Some(given) = fields.take("thresholds") else { return Ok(all) };
    for (key, value) in Fields::of("thresholds", given)?.into_inner() {
        let list = match value {
            Value::Array(list) => list,
            one => vec![one],
        };
        for one in list {
            match one {
                Value::String(text) => all.push((key.clone(), text, None)),
                Value::Object(_) => {
                    let path = format!("thresholds.{key}");
                    let mut fields = Fields::of(&path, one)?;
                    let text = fields.text("threshold")?;
                    let aborts = fields.truth("abortOnFail")?;
                    let delay = fields.take("delayAbortEval").map(|value| duration_of(&path, &value)).transpose()?;
                    fields.end()?;
                    let path = format!("{path}.threshold");
                    let text = text.ok_or(OptionError::Missing { path, why: "say what the metric must be" })?;
                    all.push((key.clone(), text, aborts.then(|| delay.unwrap_or_default())));
                }
                other => return Err(OptionError::kind(&format!("thresholds.{key}"), "a text or an object", &other)),
            }
        }
    }
    if without {
        all.clear();
    }
    Ok(all)
}

/// The scenarios, or the one that vus, duration, iterations and stages stand for.
fn scenarios(fields: &mut Fields, keeps: Keeps, settings: &mut Settings) -> Result<Vec<Planned>, OptionError> {
    let given = fields.take("scenarios");
    let vus = fields.whole("vus")?;
    let (duration, iterations) = (fields.duration("duration")?, fields.whole("iterations")?);
    let of_stages = stages("default", fields.list("stages")?)?;
    let mut planned = Vec::new();
    if let Some(given) = given {
        let all = Fields::of("scenarios", given)?.into_inner();
        if all.is_empty() {
            return Err(OptionError::range("scenarios", "there is none in it"));
        }
        for (name, value) in all {
            planned.push(scenario(&name, value, keeps, settings)?);
        }
        return Ok(planned);
    }
    let users = vus.unwrap_or(1).min(100_000) as u32;
    let ten_minutes = Duration::from_secs(600);
    let (executor, kind) = match (of_stages, iterations, duration) {
        (Some(stages), _, _) => {
            let start = vus.map_or(1, |vus| vus.min(100_000) as u32);
            (Executor::Ramping { start, stages, ramp_down: Duration::from_secs(30) }, "ramping-vus")
        }
        (None, Some(iterations), duration) => {
            let duration = duration.unwrap_or(ten_minutes);
            (Executor::Shared { users, iterations, duration }, "shared-iterations")
        }
        (None, None, Some(duration)) => (Executor::Constant { users, duration }, "constant-vus"),
        (None, None, None) => {
            (Executor::Shared { users: 1, iterations: 1, duration: ten_minutes }, "shared-iterations")
        }
    };
    let read = Read { executor, kind: kind.to_owned() };
    let about = About { start: Duration::ZERO, graceful_stop: Duration::from_secs(30), keeps };
    planned.push(add(read, "default", about, settings));
    let only = settings.scenarios.len() - 1;
    settings.scenarios[only].exec = "default".to_owned();
    Ok(planned)
}

/// What all executors have.
#[derive(Debug, Clone, Copy)]
struct About {
    start: Duration,
    graceful_stop: Duration,
    keeps: Keeps,
}

fn add(read: Read, name: &str, about: About, settings: &mut Settings) -> Planned {
    settings.scenarios.push(ScenarioOf {
        name: name.to_owned(),
        executor: read.kind,
        exec: "default".to_owned(),
        env: BTreeMap::new(),
        tags: Vec::new(),
        start: about.start,
    });
    let tags = tags_of(name, &settings.tags, &[]);
    let (executor, About { start, graceful_stop, keeps }) = (read.executor, about);
    Planned { name: name.into(), executor, start, graceful_stop, keeps, tags }
}

/// The tags of all that a scenario counts.
fn tags_of(name: &str, of_run: &[(String, String)], own: &[(String, String)]) -> Tags {
    let mut all: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::from([("scenario".into(), name.into())]);
    all.extend(of_run.iter().chain(own).map(|(name, value)| (name.as_str().into(), value.as_str().into())));
    all.into_iter().collect()
}

fn scenario(name: &str, value: Value, keeps: Keeps, settings: &mut Settings) -> Result<Planned, OptionError> {
    let at = format!("scenarios.{name}");
    let mut fields = Fields::of(&at, value)?;
    let path = format!("{at}.executor");
    let kind = fields.text("executor")?.ok_or(OptionError::Missing { path, why: "say how its iterations begin" })?;
    let read = executor(name, &kind, &mut fields)?;
    let about = About {
        start: fields.duration("startTime")?.unwrap_or_default(),
        graceful_stop: fields.duration("gracefulStop")?.unwrap_or(Duration::from_secs(30)),
        keeps,
    };
    if fields.take("options").is_some() {
        return Err(OptionError::Refused { name: format!("{at}.options"), why: "no browser is driven; leave it out" });
    }
    let (exec, env) = (fields.text("exec")?, fields.texts("env")?);
    let tags: Vec<(String, String)> = fields.texts("tags")?.into_iter().collect();
    fields.end()?;
    let mut planned = add(read, name, about, settings);
    planned.tags = tags_of(name, &settings.tags, &tags);
    let at = settings.scenarios.len() - 1;
    let scenario = &mut settings.scenarios[at];
    (scenario.env, scenario.tags) = (env, tags);
    if let Some(exec) = exec {
        scenario.exec = exec;
    }
    Ok(planned)
}
