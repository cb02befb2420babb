//! The summary as a text, laid out as k6 1 does.

use super::figures::{bytes, humanized, number, time};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Metrics that the part of checks has instead.
const OF_CHECKS: &str = "checks";
const HTTP: [&str; 3] = ["http_req_duration", "http_req_failed", "http_reqs"];
const EXECUTION: [&str; 5] = ["dropped_iterations", "iteration_duration", "iterations", "vus", "vus_max"];
const NETWORK: [&str; 2] = ["data_received", "data_sent"];
const WEBSOCKET: [&str; 6] =
    ["ws_connecting", "ws_msgs_received", "ws_msgs_sent", "ws_ping", "ws_session_duration", "ws_sessions"];
/// Parts of a request and of an iteration, which the short text leaves out.
const LEFT_OUT: [&str; 7] = [
    "group_duration",
    "http_req_blocked",
    "http_req_connecting",
    "http_req_receiving",
    "http_req_sending",
    "http_req_tls_handshaking",
    "http_req_waiting",
];

/// Signs of a terminal.
#[derive(Debug, Clone, Copy)]
struct Colours(bool);

impl Colours {
    fn green(self, text: &str) -> String {
        if self.0 { format!("\x1b[32m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn red(self, text: &str) -> String {
        if self.0 { format!("\x1b[31m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// A line of a metric before it is laid out.
struct Line {
    name: String,
    cells: Vec<String>,
    is_trend: bool,
}

/// The text of a run's data; `options` may hold `indent` and `enableColors`.
pub(crate) fn text(data: &Value, options: &Value) -> String {
    let indent = options["indent"].as_str().unwrap_or(" ").to_owned();
    let colours = Colours(options["enableColors"].as_bool().unwrap_or(false));
    let unit = data["options"]["summaryTimeUnit"].as_str().unwrap_or_default();
    let none = Map::new();
    let metrics = data["metrics"].as_object().unwrap_or(&none);
    let mut text = String::new();
    thresholds(metrics, unit, colours, &mut text);
    text.push_str("  █ TOTAL RESULTS \n\n");
    checks(data, metrics, colours, &mut text);
    let own = |name: &str| {
        let base = name.split('{').next().unwrap_or(name);
        let listed = [&HTTP[..], &EXECUTION, &NETWORK, &WEBSOCKET, &LEFT_OUT];
        !listed.iter().any(|list| list.contains(&base)) && base != OF_CHECKS
    };
    let stats: Vec<&str> =
        data["options"]["summaryTrendStats"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let with = |wanted: &dyn Fn(&str) -> bool| -> Vec<Line> { lines(metrics, wanted, &stats, unit) };
    let base_in =
        |list: &'static [&'static str]| move |name: &str| list.contains(&name.split('{').next().unwrap_or(name));
    let parts = [
        ("CUSTOM", with(&own)),
        ("HTTP", with(&base_in(&HTTP))),
        ("EXECUTION", with(&base_in(&EXECUTION))),
        ("NETWORK", with(&base_in(&NETWORK))),
        ("WEBSOCKET", with(&base_in(&WEBSOCKET))),
    ];
    lay_out(&parts, &mut text);
    let lines = text
        .lines()
        .map(|line| if line.is_empty() { String::new() } else { format!("{}{line}", &indent[1.min(indent.len())..]) });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn thresholds(metrics: &Map<String, Value>, unit: &str, colours: Colours, text: &mut String) {
    let judged = |metric: &Value| metric["thresholds"].as_object().is_some_and(|all| !all.is_empty());
    if !metrics.values().any(judged) {
        return;
    }
    text.push_str("  █ THRESHOLDS \n\n");
    let mut names: Vec<&String> = metrics.keys().filter(|name| judged(&metrics[*name])).collect();
    names.sort();
    let mut last = String::new();
    for name in names {
        let metric = &metrics[name];
        let (base, part) = name.split_once('{').map_or((name.as_str(), None), |(base, part)| (base, Some(part)));
        if last != base {
            let _ = writeln!(text, "    {base}");
        }
        let mut space = "    ";
        if let Some(part) = part {
            let _ = writeln!(text, "      {{{part}");
            space = "      ";
        }
        for (expression, judged) in metric["thresholds"].as_object().into_iter().flatten() {
            let ok = judged["ok"] == true;
            let mark = if ok { colours.green("✓") } else { colours.red("✗") };
            let aggregation = expression.split(['<', '>', '=', '!']).next().unwrap_or_default().trim();
            let value = metric["values"][if aggregation == "value" { "value" } else { aggregation }].as_f64();
            let told = match (value, metric["type"].as_str(), metric["contains"].as_str()) {
                (Some(value), Some(kind), Some(contains)) if aggregation == "rate" && kind == "counter" => {
                    let _ = contains;
                    format!("{aggregation}={}/s", number(value, 6))
                }
                (Some(value), Some(kind), Some(contains)) => {
                    format!("{aggregation}={}", humanized(value, kind, contains, unit))
                }
                _ => format!("{aggregation}=…"),
            };
            let _ = writeln!(text, "{space}{mark} '{expression}' {told}");
        }
        text.push('\n');
        last = base.to_owned();
    }
    text.push('\n');
}

fn checks(data: &Value, metrics: &Map<String, Value>, colours: Colours, text: &mut String) {
    let Some(metric) = metrics.get(OF_CHECKS) else { return };
    let value = |name: &str| metric["values"][name].as_f64().unwrap_or_default();
    let (passes, fails) = (value("passes"), value("fails"));
    let total = passes + fails;
    let seconds = data["state"]["testRunDurationMs"].as_f64().unwrap_or_default() / 1000.0;
    let share = |part: f64| humanized(if total > 0.0 { part / total } else { 0.0 }, "rate", "default", "");
    let rows = [
        (
            "checks_total",
            number(total, 0),
            format!("{}/s", number(if seconds > 0.0 { total / seconds } else { 0.0 }, 6)),
        ),
        ("checks_succeeded", share(passes), format!("{passes} out of {total}")),
        ("checks_failed", share(fails), format!("{fails} out of {total}")),
    ];
    let width = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or_default();
    for (name, first, second) in &rows {
        let _ = writeln!(text, "    {name:.<19}: {first:<width$} {second}");
    }
    text.push('\n');
    let mut all = Vec::new();
    collect(&data["root_group"], &mut all);
    for check in all {
        let (passes, fails) = (check["passes"].as_u64().unwrap_or(0), check["fails"].as_u64().unwrap_or(0));
        let name = check["name"].as_str().unwrap_or_default();
        if fails == 0 {
            let _ = writeln!(text, "    {} {name}", colours.green("✓"));
        } else {
            let share = (passes as f64 / (passes + fails) as f64 * 100.0).floor();
            let _ =
                writeln!(text, "    {}", colours.red(&format!("✗ {name}\n      ↳  {share}% — ✓ {passes} / ✗ {fails}")));
        }
    }
    text.push('\n');
}

/// The checks of a group and of those in it, its own first.
fn collect<'a>(group: &'a Value, all: &mut Vec<&'a Value>) {
    all.extend(group["checks"].as_array().into_iter().flatten());
    group["groups"].as_array().into_iter().flatten().for_each(|inner| collect(inner, all));
}

/// The lines of the metrics that are wanted, submetrics below theirs.
fn lines(metrics: &Map<String, Value>, wanted: &dyn Fn(&str) -> bool, stats: &[&str], unit: &str) -> Vec<Line> {
    let mut names: Vec<&String> = metrics.keys().filter(|name| wanted(name)).collect();
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let metric = &metrics[name];
            let (kind, contains) =
                (metric["type"].as_str().unwrap_or_default(), metric["contains"].as_str().unwrap_or_default());
            let value = |key: &str| metric["values"][key].as_f64().unwrap_or_default();
            let told = |key: &str| humanized(value(key), kind, contains, unit);
            let shown = match name.split_once('{') {
                Some((_, part)) => format!("  {{ {} }}", part.trim_end_matches('}')),
                None => name.clone(),
            };
            let cells = match kind {
                "trend" => {
                    stats.iter().map(|stat| format!("{stat}={}", of_stat(stat, value(stat), contains, unit))).collect()
                }
                "counter" => vec![told("count"), of_rate(value("rate"), contains, unit)],
                "rate" => {
                    let (passes, fails) = (value("passes"), value("fails"));
                    vec![told("rate"), format!("{passes} out of {}", passes + fails)]
                }
                _ => vec![told("value"), format!("min={}", told("min")), format!("max={}", told("max"))],
            };
            Line { name: shown, cells, is_trend: kind == "trend" }
        })
        .collect()
}

fn of_stat(stat: &str, value: f64, contains: &str, unit: &str) -> String {
    if stat == "count" { number(value, 0) } else { humanized(value, "trend", contains, unit) }
}

fn of_rate(value: f64, contains: &str, unit: &str) -> String {
    match contains {
        "data" => format!("{}/s", bytes(value)),
        "time" => format!("{}/s", time(value, unit)),
        _ => format!("{}/s", number(value, 6)),
    }
}

/// All parts with the columns of all trends, and those of all others, below each other.
fn lay_out(parts: &[(&str, Vec<Line>); 5], text: &mut String) {
    let all = || parts.iter().flat_map(|(_, lines)| lines);
    let name_width = all().map(|line| line.name.chars().count()).max().unwrap_or_default() + 3;
    let width_of = |at: usize, is_trend: bool| {
        let cells = all().filter(|line| line.is_trend == is_trend).filter_map(|line| line.cells.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    for (title, lines) in parts {
        if lines.is_empty() {
            continue;
        }
        let _ = writeln!(text, "    {title}");
        for line in lines {
            let _ = write!(text, "    {:.<name_width$}:", line.name);
            for (at, cell) in line.cells.iter().enumerate() {
                let is_last = at + 1 == line.cells.len() && !line.is_trend;
                let width = if is_last { 0 } else { width_of(at, line.is_trend) };
                let _ = write!(text, " {cell:<width$}");
            }
            text.push('\n');
        }
        text.push('\n');
    }
}
