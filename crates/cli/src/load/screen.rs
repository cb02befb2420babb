//! The report of a load on one screen.

use super::blocks::{blocks, condensed, top};
use super::finding::{Kind, Outcome};
use super::gate::Gate;
use super::heading::Heading;
use super::http3;
use super::workers::{lost_of, write_workers};
use std::fmt::Write;
use std::time::Duration;
use weir_load::{Histogram, LoadReport};
use weir_measure::summary::Summary;
use weir_report::count as grouped;
use weir_report::nanoseconds;

/// Rows of the picture of the latencies.
const ROWS: usize = 10;
/// The longest bar of the picture, in characters.
const BAR: f64 = 50.0;

/// The report names how much longer a run took than was asked for, from this much on.
const LONGER_MIN: Duration = Duration::from_millis(100);

/// The longest line of what happened over time.
const COLUMNS: usize = 76;

/// How words are set apart on a terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Colours {
    on: bool,
}

impl Colours {
    /// Colours where standard output shows them and the user has not asked for none.
    pub(super) fn of_stdout() -> Self {
        Self { on: weir_terminal::output::colours() }
    }

    /// The same for standard error.
    pub(super) fn of_stderr() -> Self {
        Self { on: weir_terminal::output::shows_colours(&std::io::stderr()) }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(super) fn doubtful(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// The whole screen; `calls` adds what the generator asked of the kernel.
pub(super) fn text(report: &LoadReport, heading: &Heading, gate: &Gate, calls: bool, colours: Colours) -> String {
    let mut screen = String::new();
    // Writing to a string cannot fail.
    let _ = write_head(&mut screen, report, heading, gate, colours)
        .and_then(|()| write_counts(&mut screen, report, gate, colours))
        .and_then(|()| write_course(&mut screen, report, heading, colours))
        .and_then(|()| write_times(&mut screen, report, colours))
        .and_then(|()| write_traces(&mut screen, report))
        .and_then(|()| write_workers(&mut screen, report))
        .and_then(|()| write_generator(&mut screen, report, heading, calls, colours));
    screen
}

/// What was loaded, how, and for how long.
fn write_head(
    screen: &mut String,
    report: &LoadReport,
    heading: &Heading,
    gate: &Gate,
    colours: Colours,
) -> std::fmt::Result {
    if report.successes == 0 {
        writeln!(screen, "{} {}", colours.bad("no request succeeded:"), colours.bold(&heading.url))?;
    } else {
        if let Some(reason) = gate.reason() {
            writeln!(screen, "{}", colours.bad(&reason))?;
        }
        if let Some(lost) = lost_of(report) {
            writeln!(screen, "{}", colours.bad(&lost))?;
        }
        writeln!(screen, "{}", colours.bold(&heading.url))?;
    }
    let seconds = report.duration.as_secs_f64();
    let ended = if report.interrupted { ", ended by you" } else { "" };
    let took = match took_longer(report) {
        Some(took_s) => format!(", took {took_s:.2} s until nothing was under way"),
        None => String::new(),
    };
    writeln!(screen, "{} for {seconds:.2} s{ended}{took}\n", heading.manner)
}

/// How long it took until nothing was under way, in seconds, where that is longer than what was asked for.
pub(super) fn took_longer(report: &LoadReport) -> Option<f64> {
    let beyond = report.took.saturating_sub(report.duration);
    (beyond > LONGER_MIN).then_some(report.took.as_secs_f64())
}

/// How many requests succeeded, and what became of the others.
fn write_counts(screen: &mut String, report: &LoadReport, gate: &Gate, colours: Colours) -> std::fmt::Result {
    let failures = report.failures();
    let share = report.success_rate().map_or_else(|| "-".to_owned(), percent);
    let success = format!(
        "  success    {share:>12}   {} of {} requests, {:.1}/s",
        grouped(report.successes),
        grouped(report.ended()),
        report.successes_per_s
    );
    writeln!(screen, "{}", if report.successes < report.ended() { colours.bad(&success) } else { success })?;
    for finding in &gate.findings {
        let kind = match finding.kind {
            Kind::Objective => "objective",
            Kind::Check => "check    ",
            Kind::Comparison => "compared ",
        };
        let words = format!("  {kind}  {}", finding.line());
        let words = match finding.outcome {
            Outcome::Met => words,
            Outcome::Missed => colours.bad(&words),
            Outcome::Untold => colours.doubtful(&words),
        };
        writeln!(screen, "{words}")?;
    }
    writeln!(screen, "  requests   {:>12}   {:.1}/s", grouped(report.requests), report.rate_per_s)?;
    writeln!(screen, "  received   {:>12}   {}/s", bytes(report.bytes as f64), bytes(report.bytes_per_s))?;
    let status = list(report.status.iter().map(|(code, count)| (report.status_name(*code), *count)));
    let mut others = match report.other_statuses() {
        0 => String::new(),
        others => format!("   ({} other than {})", grouped(others), report.expected_names()),
    };
    if report.unfit > 0 {
        others.push_str(&format!("   ({} failed a check)", grouped(report.unfit)));
    }
    let status = format!("{status}{others}");
    // Messages have none.
    if report.websocket.is_none() {
        writeln!(screen, "  status     {}", if report.unexpected > 0 { colours.bad(&status) } else { status })?;
    }
    let errors = list(report.errors.iter().map(|(kind, count)| (kind.name().to_owned(), *count)));
    writeln!(screen, "  errors     {}", if failures > 0 { colours.bad(&errors) } else { errors })?;
    for reason in &report.reasons {
        writeln!(screen, "             {} {}: {}", grouped(reason.count), reason.outcome.name(), reason.words)?;
    }
    for (heading, remarks) in [("tolerated", &report.tolerated), ("goaways  ", &report.goaways)] {
        if !remarks.is_empty() {
            let remarks = remarks.iter().map(|remark| (remark.words.clone(), remark.count));
            writeln!(screen, "  {heading}  {}", list(remarks))?;
        }
    }
    if report.abandoned > 0 {
        let cut = format!("  cut        {:>12}   not over when the run ended", grouped(report.abandoned));
        writeln!(screen, "{}", colours.bad(&cut))?;
    }
    Ok(())
}

/// What is counted of messages and events.
fn write_messages(screen: &mut String, report: &LoadReport) -> std::fmt::Result {
    if let Some(grpc) = &report.grpc {
        super::grpc::write(screen, grpc, report)?;
    }
    if let Some(websocket) = &report.websocket {
        super::websocket::write(screen, websocket, report.reconnects)?;
    }
    if let Some(streams) = &report.streams {
        super::streams::write(screen, streams)?;
    }
    Ok(())
}

/// What else is counted of the run's requests, connections and sessions.
fn write_course(screen: &mut String, report: &LoadReport, heading: &Heading, colours: Colours) -> std::fmt::Result {
    if report.stopped > 0 {
        writeln!(screen, "  stopped    {:>12}   by users who waited no longer", grouped(report.stopped))?;
    }
    write_messages(screen, report)?;
    if let Some(mix) = &report.mix {
        writeln!(screen, "  answers    {}", list(mix.kinds.iter().cloned()))?;
        if report.unexpected > 0 {
            writeln!(screen, "  successes  {}", list(mix.successes.iter().cloned()))?;
        }
        let wrong = grouped(mix.wrong_sizes);
        let wrong = if mix.wrong_sizes > 0 { colours.bad(&wrong) } else { wrong };
        if let Some((came, with_crowd)) = mix.clients {
            writeln!(
                screen,
                "  clients    {:>12}   {} of them came with the crowd",
                grouped(came),
                grouped(with_crowd)
            )?;
        }
        writeln!(screen, "  lengths    {wrong} other than the file's")?;
    }
    let handshakes = report.handshakes;
    if handshakes.full + handshakes.resumed > 0 {
        writeln!(
            screen,
            "  handshakes {:>12}   full, {} resumed",
            grouped(handshakes.full),
            grouped(handshakes.resumed)
        )?;
    }
    if let Some(counts) = &report.http3 {
        http3::write(screen, counts)?;
    }
    if heading.rate_wanted_per_s.is_some() {
        let dropped = grouped(report.dropped);
        let dropped = if report.dropped > 0 { colours.bad(&dropped) } else { dropped };
        writeln!(screen, "  arrivals   {} waited for a connection, {dropped} dropped", grouped(report.queued))?;
    }
    if let Some(sessions) = &report.sessions {
        let name = if of_pages(report) { "pages" } else { "sessions" };
        write!(screen, "  {name:<8}   {:>12}   {:.1}/s", grouped(sessions.completed), sessions.rate_per_s)?;
        if sessions.unexpected > 0 {
            let others = format!(", {} of them with a status that is no success", grouped(sessions.unexpected));
            write!(screen, "{}", colours.bad(&others))?;
        }
        let failed = format!("{} failed", grouped(sessions.failed));
        let failed = if sessions.failed > 0 { colours.bad(&failed) } else { failed };
        let stopped = match sessions.stopped {
            0 => String::new(),
            stopped => format!(", {} stopped", grouped(stopped)),
        };
        let (unfinished, connections) = (grouped(sessions.unfinished), grouped(sessions.connections));
        writeln!(screen, ", {failed}{stopped}, {unfinished} unfinished, over {connections} connections")?;
    }
    if report.resent > 0 {
        writeln!(
            screen,
            "  sent again {:>12}   the server closed {} kept-alive connections under them, or refused them unseen",
            grouped(report.resent),
            grouped(report.reconnects)
        )?;
    }
    Ok(())
}

/// The times, as a table and as pictures.
fn write_times(screen: &mut String, report: &LoadReport, colours: Colours) -> std::fmt::Result {
    if report.requests + report.failures() > 0 {
        table(screen, report, colours)?;
    }
    over_time(screen, report)?;
    picture(screen, &report.latency)
}

/// The traces of the slowest requests.
fn write_traces(screen: &mut String, report: &LoadReport) -> std::fmt::Result {
    let Some(traces) = report.slow_traces.as_ref().filter(|traces| !traces.is_empty()) else { return Ok(()) };
    writeln!(screen, "\n  slowest traces")?;
    traces.iter().try_for_each(|trace| writeln!(screen, "  {}", trace_in_words(trace, report)))
}

/// One of the slowest requests by its trace.
pub(super) fn trace_in_words(trace: &weir_load::SlowTrace, report: &LoadReport) -> String {
    let latency = nanoseconds(trace.latency_ns as f64);
    let request = trace.request.as_deref().unwrap_or_default();
    let by =
        report.workers.get(trace.worker as usize).map_or_else(String::new, |worker| format!("  by {}", worker.name));
    format!("{latency:>9}  {}  {} {request}{by}", trace.trace_id, report.status_name(trace.status))
}

/// How the generator fared, and what is to be known before the figures are believed.
fn write_generator(
    screen: &mut String,
    report: &LoadReport,
    heading: &Heading,
    calls: bool,
    colours: Colours,
) -> std::fmt::Result {
    let generator = report.generator;
    write!(
        screen,
        "\n  generator  {:.1} % CPU, waited for it {:.1} % of the time, {}",
        generator.cpu_share * 100.0,
        generator.runnable_share * 100.0,
        generator.io.name()
    )?;
    if heading.rate_wanted_per_s.is_some() {
        write!(screen, ", {} arrivals late", grouped(generator.late))?;
    }
    let each_ns = super::fault::cpu_ns_per_request(report);
    writeln!(screen, ", {} of CPU a request", nanoseconds(each_ns).trim())?;
    if let Some(words) = punctuality(&report.schedule_lag) {
        writeln!(screen, "  schedule   {words}")?;
    }
    if let Some(words) = super::fault::words(report) {
        writeln!(screen, "  at fault   {words}")?;
    }
    if calls && report.requests > 0 {
        let each = |count: u64| count as f64 / report.requests as f64;
        writeln!(
            screen,
            "  calls      {:.2} a request: {:.2} waits, {:.2} receptions, {:.2} transmissions",
            each(report.calls.total()),
            each(report.calls.wait),
            each(report.calls.receive),
            each(report.calls.send)
        )?;
    }
    for warning in &report.warnings {
        writeln!(screen, "  {} {warning}", colours.doubtful("warning:"))?;
    }
    Ok(())
}

/// Whether what the report calls sessions are the pages of users.
fn of_pages(report: &LoadReport) -> bool {
    report.sessions.is_some() && report.mix.as_ref().is_some_and(|mix| mix.clients.is_none())
}

/// How well the generator kept to its schedule, in words; nothing where it had none.
pub(super) fn punctuality(lag: &Histogram) -> Option<String> {
    let summary = Summary::of(lag)?;
    let [median, p99, max] = [summary.p50, summary.p99, summary.max].map(|lag_ns| nanoseconds(lag_ns as f64));
    Some(format!(
        "kept within {} for 99 % of the arrivals, half within {}, worst {}",
        p99.trim(),
        median.trim(),
        max.trim()
    ))
}

/// The durations, side by side.
fn table(screen: &mut String, report: &LoadReport, colours: Colours) -> std::fmt::Result {
    let columns = ["min", "mean", "stdev", "p50", "p90", "p99", "p99.9", "max"];
    write!(screen, "\n  {:<12}", "of successes")?;
    for column in columns {
        write!(screen, "{column:>9}")?;
    }
    writeln!(screen)?;
    let sessions = report
        .sessions
        .as_ref()
        .map(|sessions| (if of_pages(report) { "page" } else { "session" }, &sessions.lifetime));
    let streams = report.streams.iter();
    let streams = streams.flat_map(|streams| [("first event", &streams.first_event), ("between", &streams.between)]);
    let calls = report.grpc.iter();
    let calls = calls.flat_map(|calls| [("1st message", &calls.first_message), ("between", &calls.between)]);
    for (name, histogram) in
        [("latency", &report.latency), ("uncorrected", &report.latency_uncorrected), ("first byte", &report.first_byte)]
            .into_iter()
            .chain(streams)
            .chain(calls)
            .chain(report.websocket.iter().map(|websocket| ("handshake", &websocket.handshake)))
            .chain(sessions)
            .chain([
                ("connect", &report.connect),
                (if report.unfit > 0 { "no success" } else { "other status" }, &report.unexpected_latency),
                ("failed", &report.failure_time),
            ])
    {
        let Some(summary) = Summary::of(histogram) else { continue };
        let mut row = format!("  {name:<12}");
        for (_, value) in summary.fields() {
            write!(row, "{:>9}", nanoseconds(value))?;
        }
        writeln!(screen, "{}", if name == "latency" { colours.bold(&row) } else { row })?;
    }
    Ok(())
}

/// How the slow ones fared over time, in one line.
fn over_time(screen: &mut String, report: &LoadReport) -> std::fmt::Result {
    let points = report.series.points();
    if points.len() < 2 || report.latency.is_empty() {
        return Ok(());
    }
    let values: Vec<_> = points.iter().map(|point| point.summary.map(|summary| summary.p99 as f64)).collect();
    let shown = condensed(&values, COLUMNS);
    let most = nanoseconds(top(&shown));
    writeln!(screen, "\n  p99 of successes over time, to {most}\n  {}", blocks(&shown, top(&shown)))
}

/// How the latencies are spread: rows of equal ratio from the smallest to the largest.
fn picture(screen: &mut String, histogram: &Histogram) -> std::fmt::Result {
    if histogram.len() < 2 {
        return Ok(());
    }
    let (low, high) = (histogram.min().max(1) as f64, histogram.max().max(2) as f64);
    let ratio = (high / low).powf(1.0 / ROWS as f64).max(1.001);
    let mut rows = [0u64; ROWS];
    for value in histogram.iter_recorded() {
        let row = ((value.value_iterated_to() as f64 / low).ln() / ratio.ln()).max(0.0) as usize;
        rows[row.min(ROWS - 1)] += value.count_at_value();
    }
    let most = rows.iter().copied().max().unwrap_or(1).max(1) as f64;
    writeln!(screen, "\n  latency of successes up to")?;
    for (row, count) in rows.iter().enumerate() {
        let edge = (low * ratio.powi(row as i32 + 1)).min(high);
        let bar = "#".repeat((*count as f64 / most * BAR).ceil() as usize);
        let share = *count as f64 / histogram.len() as f64 * 100.0;
        writeln!(screen, "  {:>12} {share:>7.3} % {bar}", nanoseconds(edge))?;
    }
    Ok(())
}

/// A share, with as many digits as tell it from all and from none.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 | 100.0 => format!("{percent} %"),
        near if !(0.01..=99.99).contains(&near) => format!("{near:.4} %"),
        percent => format!("{percent:.2} %"),
    }
}

/// `name: count` of each, or a dash.
fn list(items: impl Iterator<Item = (String, u64)>) -> String {
    let items: Vec<_> = items.map(|(name, count)| format!("{name}: {}", grouped(count))).collect();
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

/// An amount of data in decimal units.
fn bytes(amount: f64) -> String {
    let mut scaled = amount;
    for unit in ["B", "kB", "MB", "GB"] {
        if scaled < 1000.0 {
            let decimals = usize::from(unit != "B" && scaled < 100.0);
            return format!("{scaled:.decimals$} {unit}");
        }
        scaled /= 1000.0;
    }
    format!("{scaled:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([12.0, 1234.0, 123_456.0, 5e12].map(bytes), ["12 B", "1.2 kB", "123 kB", "5.0 TB"]);
    }

    #[test]
    fn the_picture_holds_every_value() {
        let mut histogram = Histogram::new(3).expect("three digits");
        for value in [1_000, 2_000, 2_000, 900_000] {
            histogram.record(value).expect("it grows");
        }
        let mut screen = String::new();
        picture(&mut screen, &histogram).expect("a string takes all");
        let shares: f64 =
            screen.lines().filter_map(|line| line.split(" %").next()?.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        assert!((shares - 100.0).abs() < 0.01, "{screen}");
    }
}
