//! The points of a run as they come: one object a line, for programs that follow it.

use super::json::point_as_json;
use super::line_writer::LineWriter;
use anyhow::Context;
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;
use weir_load::{Control, Counts, Packed, Point, Series};
use weir_measure::summary::Summary;

/// How long after its end an interval's figures are awaited from all loops.
const GRACE: Duration = Duration::from_millis(500);
/// The most points of a run that is streamed; so many intervals are told one by one.
pub(super) const POINTS_MAX: usize = 50_000;

/// Writes each interval that is over.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The option, with the file where it is one.
    option: String,
    state: RefCell<State>,
}

/// What was written so far.
#[derive(Debug)]
struct State {
    /// None once all is written.
    to: Option<LineWriter>,
    /// The end of what was written, from the start of the run.
    until_s: f64,
    /// The last point that was written: after its neighbour was merged with it only the rest is new.
    last: Option<(f64, Point)>,
    written: Counts,
}

impl Stream {
    /// A stream into a file, or to standard output for `-`.
    pub(super) fn new(file: &Path) -> anyhow::Result<Self> {
        let to = LineWriter::open(file).with_context(|| format!("--ndjson: cannot write {}", file.display()))?;
        let state = State { to: Some(to), until_s: 0.0, last: None, written: Counts::default() };
        let option = match file.to_str() {
            Some("-") => "--ndjson".to_owned(),
            _ => format!("--ndjson {}", file.display()),
        };
        Ok(Self { option, state: RefCell::new(state) })
    }

    /// Writes the intervals that are over, so long after the run's start.
    pub(super) fn tick(&self, control: &Control, elapsed: Duration) {
        let mut state = self.state.borrow_mut();
        let lines = control.look(|series| {
            let interval_s = series.interval().as_secs_f64();
            let over_s = elapsed.saturating_sub(GRACE).as_secs_f64();
            // The last point's length is not known before the run is over.
            let last = series.points().len().saturating_sub(1);
            state.lines(series, |index| index < last && (index + 1) as f64 * interval_s <= over_s)
        });
        state.write(lines);
    }

    /// Writes what is left when the run is over.
    pub(super) fn finish(&self, series: &Series) -> anyhow::Result<()> {
        let mut state = self.state.borrow_mut();
        let mut lines = state.lines(series, |_| true);
        lines.extend(state.late(&series.counts()));
        state.write(lines);
        state.to.take().map_or(Ok(()), LineWriter::finish).with_context(|| self.option.clone())
    }
}

impl State {
    /// The lines of the points that are over and were not written yet.
    fn lines(&mut self, series: &Series, is_over: impl Fn(usize) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, (begin_s, length_s, point)) in series.timed().enumerate() {
            let end_s = begin_s + length_s;
            // Times are whole milliseconds at least.
            if end_s <= self.until_s + 1e-6 {
                continue;
            }
            if !is_over(index) {
                break;
            }
            let (from_s, point) = match &self.last {
                Some((last_s, last)) if begin_s <= *last_s + 1e-6 => (self.until_s, without(point, last)),
                _ => (begin_s, point.clone()),
            };
            lines.push(format!("{}\n", point_as_json(from_s, end_s - from_s, &point)));
            self.written = self.written.and(&point.counts);
            self.until_s = end_s;
            self.last = Some((from_s, point));
        }
        lines
    }

    /// What a loop handed in after its interval was written, in one more object without latencies.
    fn late(&self, all: &Counts) -> Option<String> {
        if self.written == *all {
            return None;
        }
        let point = Point { counts: less(all, &self.written), ..Point::default() };
        let mut late = point_as_json(0.0, self.until_s.max(1e-9), &point);
        late["late"] = true.into();
        Some(format!("{late}\n"))
    }

    fn write(&mut self, lines: Vec<String>) {
        if let Some(to) = &mut self.to {
            lines.into_iter().for_each(|line| to.push(line));
        }
    }
}

/// What a point holds beyond another that was merged into it.
fn without(point: &Point, part: &Point) -> Point {
    let mut latency = point.latency.histogram();
    let before = latency.clone();
    // It fails only where the part is none of the point's, and then all of it is told.
    if latency.subtract(part.latency.histogram()).is_err() {
        latency = before;
    }
    Point {
        counts: less(&point.counts, &part.counts),
        summary: Summary::of(&latency),
        latency: Packed::of(&latency),
        ..point.clone()
    }
}

fn less(all: &Counts, part: &Counts) -> Counts {
    Counts {
        requests: all.requests.saturating_sub(part.requests),
        unexpected: all.unexpected.saturating_sub(part.unexpected),
        errors: std::array::from_fn(|kind| all.errors[kind].saturating_sub(part.errors[kind])),
        bytes: all.bytes.saturating_sub(part.bytes),
        dropped: all.dropped.saturating_sub(part.dropped),
        queued: all.queued.saturating_sub(part.queued),
        late: all.late.saturating_sub(part.late),
    }
}
