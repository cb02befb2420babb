//! What the servers did, a line each: processes, phases, queries, decisions, wake-ups for nothing. The HTML tells it at length.

use super::text::{Screen, fit};
use crate::Explanation;
use crate::units::{count, decimal, figure, nanoseconds, percent, share};

/// Items that a line names, the largest.
const MOST: usize = 3;
/// Columns before a query's text that its label takes.
const LABEL: usize = 12;

/// Writes those that have something to say.
pub(super) fn write(screen: &mut Screen, explanation: &Explanation) {
    let wakeups = &explanation.wakeups;
    let futile = wakeups.futile > 0;
    let lists = [
        explanation.processes.len(),
        explanation.phases.len(),
        explanation.queries.len(),
        explanation.asked.len(),
        explanation.decisions.len(),
    ];
    if lists.iter().all(|length| *length == 0) && !futile {
        return;
    }
    screen.blank();
    let mut processes: Vec<_> = explanation.processes.iter().collect();
    processes.sort_by(|a, b| (b.run_ns + b.wait_ns).total_cmp(&(a.run_ns + a.wait_ns)));
    // How many workers there are stands in the HTML.
    let name = |name: &str| name.split(" (").next().unwrap_or(name).to_owned();
    let processes = processes
        .iter()
        .map(|one| format!("{} {} + {}", name(&one.name), nanoseconds(one.run_ns), nanoseconds(one.wait_ns)));
    list(screen, "run + wait", processes);
    let whole: f64 = explanation.parts_ns.iter().sum();
    let mut phases: Vec<_> = explanation.phases.iter().collect();
    phases.sort_by(|a, b| b.mean_ns.total_cmp(&a.mean_ns));
    let phases =
        phases.iter().map(|phase| format!("{} {} {}", phase.server, phase.name, percent(share(phase.mean_ns, whole))));
    list(screen, "phases", phases);
    if let Some(query) = explanation.queries.first() {
        let of_response = share(query.mean_ns * query.count as f64, explanation.requests as f64);
        let figure = format!("{} a response: ", nanoseconds(of_response));
        let room = screen.width.saturating_sub(LABEL + figure.len());
        screen.labelled("query", &format!("{figure}{}", fit(&query.text, room)), str::to_owned);
    }
    for (label, asked) in ["asked", ""].into_iter().zip(&explanation.asked) {
        let outcomes = asked.outcomes();
        let outcomes = if asked.failed + asked.unanswered > 0 { format!(" ({outcomes})") } else { String::new() };
        let figure = format!("{} {}, {} each: ", asked.protocol, percent(asked.share), nanoseconds(asked.mean_ns));
        let room = screen.width.saturating_sub(LABEL + figure.len());
        screen.labelled(
            label,
            &format!("{figure}{}", fit(&format!("{}{outcomes}", asked.question), room)),
            str::to_owned,
        );
    }
    let decisions = &explanation.decisions;
    for (label, decided) in ["decided", ""].into_iter().zip(decisions) {
        let at = format!("{} s: ", decimal(decided.at_s, 2));
        let room = screen.width.saturating_sub(LABEL + at.len());
        screen.labelled(label, &format!("{at}{}", fit(&decided.text, room)), str::to_owned);
    }
    if decisions.len() > 2 {
        screen.labelled("", &format!("{} more decisions", count(decisions.len() as u64 - 2)), str::to_owned);
    }
    if futile {
        let unseen =
            if wakeups.unseen > 0 { format!("; {} events missing", count(wakeups.unseen)) } else { String::new() };
        let (futile_each, of_what) = wakeups.futile_for_each(explanation.requests);
        let text = format!(
            "{} of {} for nothing, {} for each {of_what}{unseen}",
            count(wakeups.futile),
            count(wakeups.wakeups),
            figure(futile_each),
        );
        screen.labelled("wake-ups", &text, str::to_owned);
    }
}

/// A line of the first few items.
fn list(screen: &mut Screen, label: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        return;
    }
    let mut shown: Vec<String> = items.iter().take(MOST).map(|item| fit(item, screen.width / 2)).collect();
    if items.len() > MOST {
        shown.push(format!("{} more", items.len() - MOST));
    }
    screen.items(label, &shown, str::to_owned);
}
