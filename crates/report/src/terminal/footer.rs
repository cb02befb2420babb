//! What the figures rest on, and what they cost.

use super::text::Screen;
use crate::units::{bytes, count, figure, nanoseconds, percent, percent_of_all};
use crate::{Explanation, LongLived, MessageFigures};

pub(super) fn write(screen: &mut Screen, explanation: &Explanation) {
    screen.blank();
    let ink = screen.ink;
    screen.labelled("joined", &joined(explanation), str::to_owned);
    if !explanation.exchanges.is_empty() {
        screen.labelled("counted", &explanation.boundary, str::to_owned);
        // One window is a recording like any other.
        let told = explanation.exchanges.iter().filter(|(what, number)| *what != "windows" || **number > 1);
        let beside: Vec<String> =
            told.map(|(what, number)| format!("{} {}", count(*number), what.replace('_', " "))).collect();
        if !beside.is_empty() {
            screen.labelled("beside", &beside.join(", "), str::to_owned);
        }
    }
    for long in &explanation.long_lived {
        screen.labelled("long-lived", &long_lived(long), str::to_owned);
    }
    let cost = &explanation.observer_cost;
    let lost = if cost.lost == 0 { "none lost".to_owned() } else { format!("{} LOST", count(cost.lost)) };
    screen.labelled(
        "observing",
        &format!(
            "{} events ({} a request), {lost}, {}; collector {} of CPU time, {} of a CPU",
            count(cost.events),
            figure(cost.events_per_request),
            bytes(cost.bytes),
            nanoseconds(cost.cpu_seconds * 1e9),
            percent(cost.cpu_share)
        ),
        str::to_owned,
    );
    for source in &cost.sources {
        screen.labelled("watching", &source.words(), str::to_owned);
    }
    let of_run: Vec<String> =
        explanation.run_parts_ns.iter().map(|(part, ns)| format!("{part} {}", nanoseconds(*ns))).collect();
    if !of_run.is_empty() {
        screen.labelled("within run", &of_run.join(", "), str::to_owned);
    }
    screen.labelled("noise floor", &noise(explanation), str::to_owned);
    let rung = if explanation.rung.is_empty() { "unknown" } else { &explanation.rung };
    screen.labelled("rung", rung, str::to_owned);
    if !explanation.not_observed.is_empty() {
        screen.labelled("unobserved", &explanation.not_observed.join(", "), str::to_owned);
    }
    for warning in &explanation.warnings {
        screen.labelled("warning", warning, |line| ink.caution(line));
    }
}

/// Responses that stay open, in a line.
fn long_lived(long: &LongLived) -> String {
    let way = |what: &str, figures: &MessageFigures| {
        let between = figures.between_ns.map_or_else(String::new, |ns| format!(", {} between", nanoseconds(ns)));
        format!("{} {what} ({}{between})", count(figures.messages), bytes(figures.bytes))
    };
    let still = if long.still_open > 0 { format!(" ({} still open)", count(long.still_open)) } else { String::new() };
    let answered = long.answer_ns.map_or_else(String::new, |ns| {
        format!("; {} known to answer one, {} after its arrival", count(long.answered), nanoseconds(ns))
    });
    format!(
        "{} {}: {}{still}, seen for {} each; messages: {}, {}{answered}",
        long.kind,
        long.name,
        count(long.count),
        nanoseconds(long.lasted_ns),
        way("received", &long.received),
        way("sent", &long.sent)
    )
}

fn joined(explanation: &Explanation) -> String {
    if explanation.requests == 0 {
        return "nothing: there are no answered requests".to_owned();
    }
    let mut text = format!("{} of the requests", percent_of_all(explanation.joined_fraction));
    if !explanation.unjoinable.is_empty() {
        let reasons: Vec<String> =
            explanation.unjoinable.iter().map(|(reason, number)| format!("{} {reason}", count(*number))).collect();
        text = format!("{text}; unjoinable: {}", reasons.join(", "));
    }
    text
}

fn noise(explanation: &Explanation) -> String {
    match explanation.noise_floor {
        Some(floor) => format!("+-{} of the mean response (95 % interval)", percent(floor)),
        None => "unknown: the run was too short to tell".to_owned(),
    }
}
