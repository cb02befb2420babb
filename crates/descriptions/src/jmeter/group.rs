//! Thread groups: how many users there are, and when.

use crate::jmeter::context::Walk;
use crate::jmeter::element::Element;
use crate::jmeter::scope::{Role, Scope, role};
use crate::model::{Group, Plan};

/// How long users go on where a plan says no end.
const ENDLESS: &str = "1m";

/// Takes an element of a test plan: a thread group, or what holds for all.
pub(super) fn take<'x>(
    walk: &Walk<'_>,
    (element, within): (Element<'x>, Option<Element<'x>>),
    scope: &Scope<'x>,
    plan: &mut Plan,
) {
    let kind = element.kind();
    match kind {
        "ThreadGroup" | "SetupThreadGroup" | "PostThreadGroup" => {}
        "CSVDataSet" => return walk.data(element, plan),
        _ if role(element) != Role::Other => return,
        _ => return walk.not_known(element),
    }
    let Some(within) = within else { return };
    let mut scope = walk.extended(scope, within);
    let loops = element.property("ThreadGroup.main_controller").map_or("1", |main| main.value("LoopController.loops"));
    let loops = walk.names.number(loops).unwrap_or(1.0);
    scope.is_once = loops == 1.0 || kind != "ThreadGroup";
    data_within(walk, within, plan);
    let steps = walk.steps(within, &scope, 0);
    if steps.is_empty() {
        return walk.report.lost(element.line(), format!("{} has no request", element.shown()), "leave it out");
    }
    match kind {
        "SetupThreadGroup" => plan.setup.extend(steps),
        "PostThreadGroup" => plan.teardown.extend(steps),
        _ => {
            let name = if element.name().is_empty() { "users" } else { element.name() }.to_owned();
            let mut keep = vec!["connections"];
            if scope.has_cookies && !walk.clears_cookies(within) {
                keep.insert(0, "cookies");
            }
            let load = load(walk, element, loops);
            plan.groups.push(Group { line: element.line(), name, load, keep, steps });
        }
    }
}

/// The data of a part and of the parts below it.
fn data_within(walk: &Walk<'_>, tree: Element<'_>, plan: &mut Plan) {
    for (element, below) in tree.pairs() {
        if element.kind() == "CSVDataSet" {
            walk.data(element, plan);
        }
        if let Some(below) = below {
            data_within(walk, below, plan);
        }
    }
}

/// The keys of a scenario that say how many users there are.
fn load(walk: &Walk<'_>, element: Element<'_>, loops: f64) -> Vec<(&'static str, String)> {
    let number = |name: &str| walk.names.number(element.value(name));
    let line = element.line();
    let lost = |what: String, remedy: &str| walk.report.lost(line, format!("{}: {what}", element.shown()), remedy);
    let users = number("ThreadGroup.num_threads").filter(|users| *users >= 1.0).map(|users| users.min(1e6) as u32);
    let users = users.unwrap_or_else(|| {
        lost("its number of threads is none that is known".to_owned(), "it is 1 now; write users");
        1
    });
    let ramp_s = number("ThreadGroup.ramp_time").unwrap_or(0.0).clamp(0.0, 1e7).round();
    let is_scheduled = element.is_true("ThreadGroup.scheduler");
    let duration_s = number("ThreadGroup.duration").filter(|seconds| is_scheduled && *seconds > 0.0);
    let duration_s = duration_s.map(|seconds| seconds.min(1e7).round());
    let mut keys = Vec::new();
    if let Some(delay) = number("ThreadGroup.delay").filter(|delay| is_scheduled && *delay > 0.0) {
        keys.push(("start", format!("\"{}s\"", delay.min(1e7).round())));
    }
    if !["", "continue"].contains(&element.value("ThreadGroup.on_sample_error")) {
        lost("what is done after an error is not carried over".to_owned(), "write expect where an iteration is to end");
    }
    let quoted = |seconds: f64| format!("\"{seconds}s\"");
    match (loops, duration_s) {
        (loops, Some(duration_s)) if loops < 0.0 && ramp_s >= 1.0 && users > 1 && duration_s > ramp_s => {
            let hold_s = duration_s - ramp_s;
            keys.push(("ramp", format!("\"0..{users}/{ramp_s}s, {users}/{hold_s}s\"")));
            return keys;
        }
        _ if ramp_s >= 1.0 && users > 1 => {
            lost(format!("its users begin together, not over {ramp_s} s"), "write ramp instead of users");
        }
        _ => {}
    }
    keys.push(("users", users.to_string()));
    match duration_s {
        Some(duration_s) if loops < 0.0 => keys.push(("duration", quoted(duration_s))),
        None if loops < 0.0 => {
            lost("it has no end".to_owned(), "it lasts one minute now; write duration");
            keys.push(("duration", format!("\"{ENDLESS}\"")));
        }
        duration_s => {
            keys.push(("iterations_each", (loops.clamp(1.0, 1e15) as u64).to_string()));
            if let Some(duration_s) = duration_s {
                keys.push(("duration", quoted(duration_s)));
            }
        }
    }
    keys
}
