//! What a load does now, in a small file of its run that is replaced each second: `weir console` shows it.
//!
//! A thread of its own writes it, so that a slow or full disk delays neither the load nor the answer to Ctrl-C.

use super::far::Far;
use super::heading::Heading;
use super::json::point_as_json;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_console::{NOW_FILE, NOW_POINTS_MAX, NOW_SCHEMA, running_load};
use weir_load::{Control, Counts, Point, Series};
use weir_measure::summary::Summary;
use weir_terminal::whole_file::write_whole;
use weir_trace::Process;

/// How often the file is written.
const EVERY: Duration = Duration::from_secs(1);
/// How long after its end an interval's figures are awaited from all loops.
const GRACE: Duration = Duration::from_millis(500);
/// How long the last writing may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a load came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// As it was planned.
    Planned,
    /// The user ended it.
    Interrupted,
    /// It could not be made.
    Failed,
}

impl Ending {
    pub(super) fn of(was_stopped: bool) -> Self {
        if was_stopped { Self::Interrupted } else { Self::Planned }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Planned => "ended",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// Tells what a load does now.
#[derive(Debug)]
pub(crate) struct Now {
    /// What stays: schema, version, process, target, manner.
    fixed: Value,
    next: Cell<Duration>,
    points: RefCell<Points>,
    writer: Writer,
}

impl Now {
    /// Tells of a load that is about to begin, in the directory of its run; the directory may come later.
    /// `None` where another load already tells there, or a thread cannot be started, which is said.
    pub(crate) fn begin(directory: &Path, heading: &Heading) -> Option<Self> {
        if let Some(pid) = running_load(directory) {
            let directory = directory.display();
            eprintln!(
                "weir load: {directory}: the load of process {pid} tells there what it does now; this one does not"
            );
            return None;
        }
        let fixed = json!({
            "schema": NOW_SCHEMA,
            "version": weir_terminal::VERSION,
            "process": Process::this(),
            // As in a run's manifest: a query may hold secrets.
            "target": weir_terminal::privacy::without_query(&heading.url),
            "manner": heading.manner,
            "begin_unix_ms": unix_ms(),
        });
        let writer = Writer::begin(directory.join(NOW_FILE));
        if let Err(error) = &writer {
            eprintln!("weir load: {NOW_FILE} is not written: cannot start a thread: {error}");
        }
        Some(Self { fixed, next: Cell::default(), points: RefCell::default(), writer: writer.ok()? })
    }

    /// Tells the latest, if it is time.
    pub(super) fn tick(&self, control: &Control, far: Far, is_stopping: bool) {
        if far.elapsed >= self.next.get() {
            self.next.set(far.elapsed + EVERY);
            let over = far.elapsed.saturating_sub(GRACE);
            self.writer.hand_on(self.text(control, far, Some(over), if is_stopping { "ending" } else { "running" }));
        }
    }

    /// Tells how it ended, and waits a while until that is written.
    pub(super) fn end(&self, control: &Control, far: Far, ending: Ending) {
        self.writer.hand_on(self.text(control, far, None, ending.name()));
        self.writer.finish();
    }

    /// The file: a line with the state, and one for each interval that was over by then, or for all.
    fn text(&self, control: &Control, far: Far, over: Option<Duration>, state: &str) -> String {
        let mut points = self.points.borrow_mut();
        let (whole, left_out, interval_s) = control.look(|series| {
            let left_out = points.renew(series, over);
            (whole(series, control.connections()), left_out, series.interval().as_secs_f64())
        });
        let mut head = self.fixed.clone();
        head["told_unix_ms"] = unix_ms().into();
        head["state"] = state.into();
        head["elapsed_s"] = far.elapsed.as_secs_f64().into();
        head["planned_s"] = json!(far.planned.time().map(|time| time.as_secs_f64()));
        head["planned_requests"] = json!(far.planned.requests());
        head["share"] = far.share.clamp(0.0, 1.0).into();
        head["left_s"] = json!(far.left_s.map(|left_s| left_s.max(0.0)));
        head["interval_s"] = interval_s.into();
        head["points_left_out"] = left_out.into();
        head["whole"] = whole;
        let mut text = format!("{head}\n");
        points.told.iter().for_each(|told| text.push_str(&told.line));
        text
    }
}

/// All that was counted so far, as one interval.
fn whole(series: &Series, connections: u64) -> Value {
    let until_s = series.timed().last().map_or(0.0, |(begin_s, length_s, _)| begin_s + length_s);
    let strain = series.points().last().map_or_else(Default::default, |point| point.strain);
    let summary = Summary::of(series.whole());
    let point = Point { counts: series.counts(), summary, connections, strain, ..Point::default() };
    told(0.0, until_s.max(1e-9), &point)
}

/// An interval, with what only the running load tells of it.
fn told(begin_s: f64, length_s: f64, point: &Point) -> Value {
    let mut value = point_as_json(begin_s, length_s, point);
    value["failed"] = point.counts.failures().into();
    value["failed_per_s"] = (point.counts.failures() as f64 / length_s).into();
    value["late"] = point.counts.late.into();
    value["waited"] = point.counts.queued.into();
    value["generator_runnable_share"] = point.strain.runnable_share.into();
    value
}

/// The lines of the intervals; those that stay the same are not made anew.
#[derive(Debug, Default)]
struct Points {
    interval: Duration,
    told: Vec<Told>,
}

#[derive(Debug)]
struct Told {
    begin_s: f64,
    length_s: f64,
    counts: Counts,
    line: String,
}

impl Points {
    /// Brings the lines up to date; returns how many intervals before them are left out.
    fn renew(&mut self, series: &Series, over: Option<Duration>) -> usize {
        if self.interval != series.interval() {
            self.told.clear();
        }
        self.interval = series.interval();
        let interval_s = self.interval.as_secs_f64();
        let left_out = series.points().len().saturating_sub(NOW_POINTS_MAX);
        let mut known = std::mem::take(&mut self.told).into_iter().peekable();
        for (index, (begin_s, length_s, point)) in series.timed().enumerate().skip(left_out) {
            if over.is_some_and(|over| (index + 1) as f64 * interval_s > over.as_secs_f64()) {
                break;
            }
            while known.next_if(|told| told.begin_s < begin_s).is_some() {}
            let same = |told: &Told| (told.begin_s, told.length_s, told.counts) == (begin_s, length_s, point.counts);
            self.told.push(match known.next_if(same) {
                Some(told) => told,
                None => {
                    let line = format!("{}\n", told(begin_s, length_s, point));
                    Told { begin_s, length_s, counts: point.counts, line }
                }
            });
        }
        left_out
    }
}

/// Writes the latest text by a thread of its own.
#[derive(Debug)]
struct Writer {
    slot: Arc<Slot>,
    over: Receiver<()>,
}

/// What is to be written: a newer text takes the place of one that still waits, as each is whole.
#[derive(Debug, Default)]
struct Slot {
    waiting: Mutex<Waiting>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    text: Option<String>,
    is_last: bool,
}

impl Writer {
    fn begin(file: PathBuf) -> std::io::Result<Self> {
        let slot = Arc::<Slot>::default();
        let (tell, over) = sync_channel(1);
        let waiting = Arc::clone(&slot);
        std::thread::Builder::new().name("weir-load-now".to_owned()).spawn(move || {
            waiting.write(&file);
            // If there is no receiver any more, its patience is over.
            let _ = tell.send(());
        })?;
        Ok(Self { slot, over })
    }

    fn hand_on(&self, text: String) {
        self.slot.locked().text = Some(text);
        self.slot.came.notify_one();
    }

    fn finish(&self) {
        self.slot.locked().is_last = true;
        self.slot.came.notify_one();
        if self.over.recv_timeout(PATIENCE).is_err() {
            eprintln!(
                "weir load: the end of the load could not be written to {NOW_FILE} within {} s",
                PATIENCE.as_secs()
            );
        }
    }
}

impl Slot {
    fn locked(&self) -> MutexGuard<'_, Waiting> {
        // What is held is whole after each step.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until the last text is written.
    fn write(&self, file: &Path) {
        let mut has_complained = false;
        loop {
            let waiting = self.came.wait_while(self.locked(), |waiting| waiting.text.is_none() && !waiting.is_last);
            let Some(text) = waiting.unwrap_or_else(PoisonError::into_inner).text.take() else { return };
            // A write that fails now may succeed later.
            if let Err(error) = write_whole(file, &text)
                && !std::mem::replace(&mut has_complained, true)
            {
                let file = file.display();
                eprintln!("weir load: cannot write {file}: {error}; weir console shows this load only once it is over");
            }
        }
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
