//! How a load is watched while it runs: a view on a terminal, plain lines elsewhere.

use super::blocks::{blocks, top};
use super::far::Far;
use super::now::{Ending, Now};
use super::prometheus::Exporter;
use super::screen::Colours;
use super::stream::Stream;
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use weir_load::{Control, Counts, LoadError, LoadReport, Options, Point, Series, StopRule};
use weir_report::count as grouped;
use weir_report::nanoseconds;
use weir_terminal::pane::{Pane, size};
use weir_terminal::stop::Stop;
use weir_wire::client::Outcome;

/// How often the run is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often the view is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// How often a line is written where stderr is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The widest view: longer plots tell no more.
const COLUMNS_MAX: usize = 120;
/// Fewer late arrivals are accidents, however large their share.
const LATE_MIN: u64 = 5;
/// Columns before the plots and behind them.
const BEFORE: usize = 24;
const BEHIND: usize = 16;

/// How a run is shown while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Nothing is shown.
    pub(crate) quiet: bool,
    /// Lines even where stderr is no terminal.
    pub(crate) verbose: bool,
    /// What stands in the view's first line.
    pub(crate) title: String,
    /// The exporter that gets the figures.
    pub(crate) exporter: Option<Exporter>,
    /// What each interval is written to when it is over.
    pub(crate) stream: Option<Stream>,
    /// What is told beside the run.
    pub(crate) now: Option<Now>,
}

/// Runs a load, shows how far it is, and passes on the user's wish to end it.
pub(crate) fn watched(options: Options, stop: &Stop, watch: &Watch) -> Result<LoadReport, LoadError> {
    watching(options.stop, stop, watch, |control| weir_load::run(options, control))
}

/// The same of a load that `load` makes, and that ends as `planned`.
pub(super) fn watching<T: Send, E: From<LoadError> + Send>(
    planned: StopRule,
    stop: &Stop,
    watch: &Watch,
    load: impl FnOnce(&Control) -> Result<T, E> + Send,
) -> Result<T, E> {
    let control = Control::default();
    let terminal = !watch.quiet && std::io::stderr().is_terminal();
    std::thread::scope(|scope| {
        let (done, over) = channel();
        let control = &control;
        let load = scope.spawn(move || {
            let report = load(control);
            // It fails only where the receiver is gone, and then this thread's report is no longer wanted.
            let _ = done.send(());
            report
        });
        let begin = Instant::now();
        let mut pane = Pane::new(std::io::stderr());
        // Short work needs no view.
        let (mut next_draw, mut next_line) = (Duration::from_millis(500), LINE_EVERY);
        while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(TICK) {
            if stop.asked() {
                control.stop();
            }
            let elapsed = begin.elapsed();
            if let Some(exporter) = &watch.exporter {
                exporter.tick(control, elapsed);
            }
            if let Some(stream) = &watch.stream {
                stream.tick(control, elapsed);
            }
            if let Some(now) = &watch.now {
                now.tick(control, Far::of(control, elapsed, planned), stop.asked());
            }
            if terminal && elapsed >= next_draw {
                next_draw = elapsed + DRAW_EVERY;
                let (columns, rows) = size(2);
                let state = State { control, elapsed, planned, title: &watch.title, stopping: stop.asked() };
                let lines = control.look(|series| state.lines(series, columns, rows, Colours::of_stderr()));
                pane.draw(&lines, columns);
            }
            if watch.verbose && !terminal && elapsed >= next_line {
                next_line += LINE_EVERY;
                eprintln!("{}", progress(control, elapsed, planned));
            }
        }
        drop(pane);
        let result = load.join().unwrap_or(Err(LoadError::Panicked.into()));
        if let Some(now) = &watch.now {
            let ending = if result.is_err() { Ending::Failed } else { Ending::of(stop.asked()) };
            now.end(control, Far::of(control, begin.elapsed(), planned), ending);
        }
        result
    })
}

/// One line that says how far a run is.
pub(super) fn progress(control: &Control, elapsed: Duration, planned: StopRule) -> String {
    let seconds = elapsed.as_secs_f64();
    let planned = planned.time().map_or_else(String::new, |time| format!(" of {:.1}", time.as_secs_f64()));
    let mut line = format!(
        "{seconds:.1}{planned} s  {} requests  {:.0}/s  {} errors  {} connections",
        control.requests(),
        control.requests() as f64 / seconds,
        control.errors(),
        control.connections()
    );
    if control.unexpected() > 0 {
        line.push_str(&format!("  {} that are no success", control.unexpected()));
    }
    if control.dropped() > 0 {
        line.push_str(&format!("  {} dropped", control.dropped()));
    }
    line
}

/// A run at one time.
struct State<'a> {
    control: &'a Control,
    elapsed: Duration,
    planned: StopRule,
    title: &'a str,
    stopping: bool,
}

impl State<'_> {
    /// The view, in lines that fit.
    fn lines(&self, series: &Series, columns: usize, rows: usize, colours: Colours) -> Vec<String> {
        // The last column stays free: a character there makes some terminals go to the next line.
        let width = columns.saturating_sub(1).clamp(1, COLUMNS_MAX);
        let counts = series.counts();
        let mut lines = vec![colours.bold(&cut(self.title, width)), cut(&self.how_far(width), width)];
        lines.extend(plots(series, width));
        let failures: Vec<_> = Outcome::ALL
            .into_iter()
            .filter(|outcome| outcome.is_error() && counts.errors[*outcome as usize] > 0)
            .map(|outcome| format!("{}: {}", outcome.name(), grouped(counts.errors[outcome as usize])))
            .collect();
        let errors = if failures.is_empty() { "none".to_owned() } else { failures.join(", ") };
        let share = counts.success_rate().map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        let others = match counts.unexpected {
            0 => String::new(),
            others => format!("; no success: {}", grouped(others)),
        };
        let errors = cut(&format!("  success    {share}; errors: {errors}{others}"), width);
        let is_good = failures.is_empty() && counts.unexpected == 0;
        lines.push(if is_good { errors } else { colours.bad(&errors) });
        let dropped = self.control.dropped();
        if dropped > 0 || counts.queued > 0 {
            let text = format!("  arrivals   {} waited, {} dropped", grouped(counts.queued), grouped(dropped));
            let text = cut(&text, width);
            lines.push(if dropped > 0 { colours.bad(&text) } else { text });
        }
        let health = self.health(series, &counts);
        let text = cut(&health.0, width);
        lines.push(if health.1 { colours.doubtful(&text) } else { text });
        lines.truncate(rows.saturating_sub(1).max(1));
        lines
    }

    /// The time that has passed and the time that is left.
    fn how_far(&self, width: usize) -> String {
        let Far { share, left_s, .. } = Far::of(self.control, self.elapsed, self.planned);
        let (seconds, requests) = (self.elapsed.as_secs_f64(), self.control.requests());
        let left = match left_s {
            _ if self.stopping => "ending".to_owned(),
            None => "no response yet".to_owned(),
            Some(left_s) if left_s <= 0.0 => "waiting for what is under way".to_owned(),
            Some(left_s) => format!("{left_s:.0} s left"),
        };
        let text = format!("{seconds:.1} s, {} requests, {left}", grouped(requests));
        let room = width.saturating_sub(text.chars().count() + 6).min(40);
        if room < 8 {
            return format!("  {text}");
        }
        let full = (share.clamp(0.0, 1.0) * room as f64) as usize;
        format!("  [{}{}] {text}", "=".repeat(full), " ".repeat(room - full))
    }

    /// The generator's own state, and whether it is a bad one.
    fn health(&self, series: &Series, counts: &Counts) -> (String, bool) {
        let strain = series.points().last().map_or_else(Default::default, |point| point.strain);
        let open = self.control.connections();
        let text = format!(
            "  generator  {:.0} % CPU, waited for it {:.0} %, {} late; {open} connection{}",
            strain.cpu_share * 100.0,
            strain.runnable_share * 100.0,
            grouped(counts.late),
            if open == 1 { "" } else { "s" }
        );
        let late = counts.late >= LATE_MIN && counts.late * 100 > counts.requests + counts.failures();
        (text, strain.cpu_share + strain.runnable_share > 0.9 || late)
    }
}

/// A line of the view: its name, its values, and how one reads.
type Row = (&'static str, Vec<Option<f64>>, fn(f64) -> String);

/// A line for the rate and for each of some percentiles: the last value, and those before as a plot.
fn plots(series: &Series, width: usize) -> Vec<String> {
    let room = width.saturating_sub(BEFORE + BEHIND);
    let timed: Vec<_> = series.timed().collect();
    let rate = timed.iter().map(|(_, length_s, point)| Some(point.counts.requests as f64 / length_s)).collect();
    let latency = |of: fn(&weir_measure::summary::Summary) -> u64| -> Vec<Option<f64>> {
        timed.iter().map(|(_, _, point): &(f64, f64, &Point)| point.summary.as_ref().map(|s| of(s) as f64)).collect()
    };
    let rate_text: fn(f64) -> String = |rate| format!("{}/s", grouped(rate.round() as u64));
    let rows: [Row; 5] = [
        ("rate", rate, rate_text),
        ("p50", latency(|summary| summary.p50), nanoseconds),
        ("p90", latency(|summary| summary.p90), nanoseconds),
        ("p99", latency(|summary| summary.p99), nanoseconds),
        ("max", latency(|summary| summary.max), nanoseconds),
    ];
    rows.into_iter()
        .map(|(name, values, text)| {
            let last = values.last().copied().flatten().map_or_else(|| "-".to_owned(), text);
            let shown = &values[values.len().saturating_sub(room)..];
            let most = top(shown);
            let scale = if shown.is_empty() { String::new() } else { format!("to {}", text(most)) };
            let plot = blocks(shown, most);
            cut(&format!("  {name:<8} {last:>12} {plot}{} {scale}", " ".repeat(room - shown.len())), width)
        })
        .collect()
}

/// The beginning of a text, as far as there is room; what a terminal would obey is shown as a question mark.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).map(|character| if character.is_control() { '?' } else { character }).collect()
}
