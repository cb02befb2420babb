//! The first screen.

mod bar;
mod classes;
mod footer;
mod hosts;
mod ink;
mod moves;
mod percentiles;
mod table;
mod text;
mod work;

use crate::html::headline::headline;
use crate::html::palette::part_named;
use crate::units::{bytes, count, decimal, figure, nanoseconds, percent};
use crate::{Explanation, ObjectiveResult};
use bar::Bars;
use ink::Ink;
use text::Screen;
pub use text::{clean, hanging};
use weir_measure::summary::Summary;

/// How a terminal wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colours, as on a terminal without NO_COLOR.
    pub colours: bool,
    /// Columns.
    pub width: usize,
}

/// Below this the tables have no room; narrower terminals wrap by themselves.
const LEAST_WIDTH: usize = 64;
/// Causes that are told.
const CAUSES: usize = 3;

/// The report as text.
#[must_use]
pub fn terminal(explanation: &Explanation, style: Style) -> String {
    let ink = Ink { colours: style.colours };
    let mut screen = Screen::new(style.width.max(LEAST_WIDTH), ink);
    figures(&mut screen, explanation);
    if explanation.response_ns.is_some() {
        let bars = Bars::of(explanation);
        screen.heading("Where the time goes");
        bars.write(&mut screen, explanation);
        table::write(&mut screen, explanation, &bars.rows);
        percentiles::write(&mut screen, explanation);
        causes(&mut screen, explanation);
        work::write(&mut screen, explanation);
        moves::write(&mut screen, explanation);
        hosts::write(&mut screen, explanation);
    }
    footer::write(&mut screen, explanation);
    classes::write(&mut screen, explanation);
    screen.finish()
}

/// Subject, answer and key figures.
fn figures(screen: &mut Screen, explanation: &Explanation) {
    let ink = screen.ink;
    screen.paragraph("", "", &explanation.subject, |line| ink.dim(line));
    screen.paragraph("", "", &format!("{}.", headline(explanation)), |line| ink.bold(line));
    screen.blank();
    let mut throughput = vec![
        format!("{} a second", figure(explanation.rate_per_s)),
        format!("{} in {} s", plural(explanation.requests, "request"), decimal(explanation.duration_s, 1)),
        bytes(explanation.bytes),
    ];
    let some_refused = explanation.success_fraction.is_some_and(|fraction| fraction < 1.0);
    if explanation.errors.is_empty() && explanation.dropped == 0 && !some_refused {
        throughput.push("no errors".to_owned());
    }
    screen.items("throughput", &throughput, str::to_owned);
    if let Some(times) = &explanation.response_ns {
        screen.items("response", &percentiles(times), str::to_owned);
    }
    if let Some(fraction) = explanation.success_fraction.filter(|_| some_refused) {
        let share = format!("{} of the requests", percent(fraction));
        let times = explanation.success_response_ns.as_ref().map(percentiles).unwrap_or_default();
        screen.items("succeeded", &[vec![share], times].concat(), str::to_owned);
    }
    let cpu = &explanation.server_cpu;
    if cpu.utilisation > 0.0 {
        let items = [
            format!("{} CPUs in use", decimal(cpu.utilisation, 2)),
            format!(
                "{} for a request, which waits {} for one",
                nanoseconds(cpu.used_ns_per_request),
                nanoseconds(cpu.waited_ns_per_request)
            ),
        ];
        screen.items("server", &items, str::to_owned);
    }
    let mut errors: Vec<String> =
        explanation.errors.iter().map(|(kind, number)| format!("{} {kind}", count(*number))).collect();
    if explanation.dropped > 0 {
        errors.push(format!("{} dropped by the generator's full queue", plural(explanation.dropped, "arrival")));
    }
    if explanation.retried > 0 {
        // No failure: the user has the answer, and what it took is in the parts.
        errors.push(format!("{} sent again on a new connection", plural(explanation.retried, "request")));
    }
    if !errors.is_empty() {
        screen.items("errors", &errors, |line| ink.alarm(line));
    }
    for objective in &explanation.objectives {
        let missed = objective.met == Some(false);
        screen.labelled(
            "objective",
            &verdict(objective),
            |line| if missed { ink.alarm(line) } else { line.to_owned() },
        );
    }
}

fn percentiles(times: &Summary) -> Vec<String> {
    let named =
        [("p50", times.p50), ("p90", times.p90), ("p99", times.p99), ("p99.9", times.p99_9), ("max", times.max)];
    named.iter().map(|(name, ns)| format!("{name} {}", nanoseconds(*ns as f64))).collect()
}

/// An objective with what became of it.
pub(crate) fn verdict(objective: &ObjectiveResult) -> String {
    let ObjectiveResult { text, met, requests, bad, unknown, burn_rate } = objective;
    let of = match met {
        None => return format!("{text}: not known: no request was watched for long enough"),
        Some(true) => "met",
        Some(false) => "MISSED",
    };
    let cut = if *unknown > 0 { format!("; {} cut too early to tell", count(*unknown)) } else { String::new() };
    format!(
        "{text}: {of}; {} of {} bad, burn rate {}{cut}",
        count(*bad),
        plural(*requests, "request"),
        decimal(*burn_rate, 2)
    )
}

fn causes(screen: &mut Screen, explanation: &Explanation) {
    if !explanation.causes.is_empty() {
        screen.heading("Largest causes");
    }
    for (index, cause) in explanation.causes.iter().take(CAUSES).enumerate() {
        screen.numbered(index + 1, part_named(&cause.part), &cause.text);
    }
    if !explanation.slow_causes.is_empty() {
        screen.heading("What the slowest 1 % wait for that the others do not");
    }
    for (index, cause) in explanation.slow_causes.iter().take(CAUSES).enumerate() {
        screen.numbered(index + 1, part_named(&cause.part), &cause.text);
    }
}

/// A number with its noun.
fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}
