//! The report for people.

use std::collections::BTreeMap;
use std::path::Path;
use weir_objects::{ClassReport, Report};
use weir_report::{clean, count, nanoseconds, percent};
use weir_terminal::output;
use weir_trace::Damage;

use crate::table::Table;

/// Objects of an interaction, and parts of a class, that are shown.
const MOST_OBJECTS: usize = 10;
const MOST_PARTS: usize = 30;
const NOT_RECORDED: &str = "not recorded";
/// The interactions whose time is shown beside each part.
const CPU: &str = "cpu";

/// Equations (1) and (2), as far as they are recorded, nanoseconds.
type Sums = (Option<u64>, Option<u64>);

pub(crate) fn text(run: &Path, report: &Report, damage: &Damage) -> String {
    let width = output::table_columns();
    let events = count(report.counts.records);
    let mut lines = vec![format!("{}: {events} events in {}", run.display(), nanoseconds(report.measured_ns as f64))];
    lines.push(String::new());
    lines.extend(interactions(report).lines(width));
    lines.push(String::new());
    lines.extend(objects(report).lines(width));
    for class in &report.classes {
        lines.push(String::new());
        lines.extend(of_class(class, report.measured_ns, width));
    }
    let teams = teams(report);
    if !teams.is_empty() {
        lines.push(String::new());
        lines.extend(teams.lines(width));
    }
    let remarks = remarks(report, damage);
    if !remarks.is_empty() {
        lines.push(String::new());
        lines.extend(remarks);
    }
    lines.push(String::new());
    lines.join("\n")
}

fn told(number: Option<u64>) -> String {
    number.map_or_else(|| NOT_RECORDED.to_owned(), count)
}

fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| NOT_RECORDED.to_owned(), nanoseconds)
}

fn interactions(report: &Report) -> Table {
    let mut table = Table::new(["interaction", "pattern", "requests", "accepts", "finishes"]);
    for one in &report.interactions {
        let pattern = one.pattern.word().to_owned();
        table.push([one.name.clone(), pattern, told(one.requests), told(one.accepts), told(one.finishes)]);
    }
    table
}

fn objects(report: &Report) -> Table {
    let mut table = Table::new(["object", "busy", "of the time", "waited for", "accepts"]);
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for one in &report.objects {
        let so_far = shown.entry(&one.interaction).or_default();
        *so_far += 1;
        if *so_far > MOST_OBJECTS {
            continue;
        }
        let share = one.used_ns.map(|used| used as f64 / report.measured_ns.max(1) as f64);
        table.push([
            named(&one.interaction, &one.class, &one.name),
            time(one.used_ns.map(|ns| ns as f64)),
            share.map_or_else(String::new, percent),
            time(one.waited_ns.map(|ns| ns as f64)),
            count(one.accepts),
        ]);
    }
    for (interaction, all) in shown.into_iter().filter(|(_, all)| *all > MOST_OBJECTS) {
        let further = format!("and {} further of {interaction} (--json)", count((all - MOST_OBJECTS) as u64));
        table.push([further, String::new(), String::new(), String::new(), String::new()]);
    }
    table
}

/// "conversation: task nginx (7)", or "cpu 0" where the class says enough.
fn named(interaction: &str, class: &str, name: &str) -> String {
    // Names are the recorded programs' own.
    let name = clean(name);
    if interaction == class { format!("{class} {name}") } else { format!("{interaction}: {class} {name}") }
}

fn of_class(class: &ClassReport, measured_ns: u64, width: usize) -> Vec<String> {
    // The background is no transaction: what objects did for it is told in all.
    let transactions = class.finished + class.unfinished;
    let each = transactions.max(1) as f64;
    let mut lines = vec![if transactions == 0 {
        format!("{} (in all, and for no transaction):", class.name)
    } else {
        heading(class, measured_ns)
    }];
    let mut by_object: BTreeMap<(&str, &str), Sums> = BTreeMap::new();
    for one in &class.uses {
        let sums = by_object.entry((&one.interaction, &one.class)).or_default();
        *sums = (add(sums.0, one.used_ns), add(sums.1, one.waited_ns));
    }
    let mut table = Table::new(["  by", "busy", "waited for"]);
    for ((interaction, class), (used, waited)) in by_object {
        let name = if interaction == class { format!("  {class}") } else { format!("  {interaction} ({class})") };
        table.push([name, time(used.map(|ns| ns as f64 / each)), time(waited.map(|ns| ns as f64 / each))]);
    }
    lines.extend(table.lines(width));
    let parts = parts(class, each);
    if !parts.is_empty() {
        lines.extend(parts.lines(width));
    }
    lines
}

fn heading(class: &ClassReport, measured_ns: u64) -> String {
    let rate = class.finished as f64 / (measured_ns.max(1) as f64 / 1e9);
    let mean = nanoseconds(class.response_ns as f64 / class.finished.max(1) as f64);
    let (name, finished) = (clean(&class.name), count(class.finished));
    let client = class.client_told > 0;
    let client = client.then(|| nanoseconds(class.client_response_ns as f64 / class.client_told as f64));
    let client = client.map_or_else(String::new, |mean| format!(", {mean} at the client"));
    let unfinished = class.unfinished > 0;
    let unfinished = unfinished.then(|| format!(", {} without a finish", count(class.unfinished)));
    let unfinished = unfinished.unwrap_or_default();
    format!("{name}: {finished} transactions ({rate:.1}/s){unfinished}, response {mean}{client}; for each:")
}

fn add(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

/// The hierarchy, with the CPU's time for each part.
fn parts(class: &ClassReport, each: f64) -> Table {
    let mut table = Table::new(["  part", "passages", "elapsed", "on a CPU", "waiting for one"]);
    let mut rows: BTreeMap<&[String], (f64, f64, f64, f64)> = BTreeMap::new();
    for part in class.parts.iter().filter(|part| !part.part.is_empty()) {
        let row = rows.entry(&part.part).or_default();
        (row.0, row.1) = (row.0 + part.passages as f64, row.1 + part.elapsed_ns as f64);
    }
    for one in class.uses.iter().filter(|one| one.interaction == CPU && !one.part.is_empty()) {
        let row = rows.entry(&one.part).or_default();
        (row.2, row.3) = (row.2 + one.used_ns.unwrap_or(0) as f64, row.3 + one.waited_ns.unwrap_or(0) as f64);
    }
    // Where there are many, those that took least go; what stands above one that stays, stays too.
    let mut sizes: Vec<f64> = rows.values().map(|row| row.1.max(row.2)).collect();
    sizes.sort_by(f64::total_cmp);
    let least = sizes.len().checked_sub(MOST_PARTS).and_then(|at| sizes.get(at)).copied().unwrap_or(0.0);
    for (part, (passages, elapsed, used, waited)) in &rows {
        if elapsed.max(*used) < least {
            continue;
        }
        let indent = "  ".repeat(part.len());
        let passages = if *passages > 0.0 { format!("{:.2}", passages / each) } else { String::new() };
        let elapsed = if *elapsed > 0.0 { nanoseconds(elapsed / each) } else { String::new() };
        let name = clean(part.last().map_or("", String::as_str));
        let (used, waited) = (nanoseconds(used / each), nanoseconds(waited / each));
        table.push([format!("{indent}{name}"), passages, elapsed, used, waited]);
    }
    table
}

fn teams(report: &Report) -> Table {
    let mut table = Table::new(["server", "tasks", "requests", "wake-ups", "semi-busy-waiting", "each request"]);
    for team in &report.teams {
        let each = team.semi_busy_waiting as f64 / team.accepts.max(1) as f64;
        table.push([
            clean(&team.name),
            count(team.tasks),
            count(team.accepts),
            count(team.wakeups),
            count(team.semi_busy_waiting),
            format!("{each:.2}"),
        ]);
    }
    table
}

fn remarks(report: &Report, damage: &Damage) -> Vec<String> {
    let counts = &report.counts;
    let all = [
        (counts.without_rule, "events are of kinds for which no rule stands"),
        (counts.lost, "events were lost"),
        (counts.accepts_unasked, "accepts came without a request: from before the recording, or lost"),
        (counts.finishes_unaccepted, "finishes came without an accept"),
        (counts.uses_unfinished, "uses have no finish, and are left out"),
        (counts.uses_forgotten, "uses began too long before they were told: they are in the background"),
        (counts.names_unmatched, "requests of clients were not found at the server"),
        (counts.left_out, "tasks, requests or parts are beyond the bounds, and left out"),
        (report.transactions_evicted, "transactions were ended, as too many were under way"),
        (report.charges_too_late, "uses came too late for their transaction: they are in the background"),
        (report.charges_collapsed, "charges have lost their part, for lack of room"),
        (damage.bytes, "bytes of the run are damaged"),
    ];
    let mut lines: Vec<String> = all
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, words)| format!("{} {words}", count(*number)))
        .collect();
    lines.extend(damage.refused.iter().cloned());
    if counts.unbalanced_ns > 0 {
        lines.push(format!(
            "objects' own time and the sum of what is charged for them differ by {}: please report this",
            nanoseconds(counts.unbalanced_ns as f64)
        ));
    }
    lines
}
