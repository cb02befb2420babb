//! Window after window, run after run.

use super::judge::{Judge, Outlets};
use super::mark::Mark;
use super::pace::{Bounds, Pace};
use super::room;
use super::shelf::Shelf;
use crate::kernel;
use crate::target::Named;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};
use weir_capture::{EventSource, Ladder, Target};
use weir_explain::View;
use weir_measure::burn::BurnRule;
use weir_terminal::stop::Stop;
use weir_trace::Run;

/// How much time a run holds.
const RUN: Duration = Duration::from_secs(3_600);
/// Time between two looks for a server that is not there.
const LOOK: Duration = Duration::from_secs(2);
/// Pause after a run that could not be written, such as on a full disk.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// How soon a wait hears of Ctrl-C.
const TICK: Duration = Duration::from_millis(200);

/// What is recorded for ever, within which bounds.
#[derive(Debug, Clone)]
pub struct Forever {
    /// Where the runs go.
    pub directory: PathBuf,
    /// The server, as its user names it.
    pub named: Named,
    /// Where request boundaries may come from.
    pub ladder: Ladder,
    /// The addresses of clients are recorded as they are.
    pub keep_addresses: bool,
    /// Length of a window.
    pub window: Duration,
    /// Disk space, MB an hour.
    pub disk_mb_per_hour: u64,
    /// The share of the server's CPU time that observing may cost, 0 to 1.
    pub cpu_share: f64,
    /// How long runs are kept.
    pub keep: Duration,
    /// What is asked of the server.
    pub view: View,
    /// When to alert; the usual rules where there are none.
    pub rules: Vec<BurnRule>,
}

/// Records until its user says that it is enough, and returns how many windows there were.
///
/// # Errors
/// Nothing can be recorded, and later could not either.
pub fn record(forever: &Forever, outlets: Outlets, stop: &Stop) -> anyhow::Result<u64> {
    let hours = forever.keep.as_secs_f64() / 3_600.0;
    let bytes_per_hour = forever.disk_mb_per_hour as f64 * 1e6;
    let shelf = Shelf::open(&forever.directory, forever.keep, (bytes_per_hour * hours.max(1.0)) as u64)?;
    let rules = if forever.rules.is_empty() { &BurnRule::WORKBOOK[..] } else { &forever.rules };
    let judge = match forever.view.objectives.is_empty() && outlets.figures.is_none() {
        true => None,
        false => Some(Judge::start(forever.view.clone(), rules, forever.named.words(), outlets)?),
    };
    let bounds = Bounds { bytes_per_hour, cpu_share: forever.cpu_share };
    let pace = Pace::new(bounds, shelf.bytes_of_last_hour(SystemTime::now()));
    let mut watch = Watch { forever, stop, shelf, judge, pace, window: forever.window, windows: 0 };
    let ended = watch.for_ever();
    let notes = watch.judge.take().map(Judge::finish).unwrap_or_default();
    notes.iter().for_each(|note| eprintln!("weir record: {note}"));
    ended.map(|()| watch.windows)
}

struct Watch<'a> {
    forever: &'a Forever,
    stop: &'a Stop,
    shelf: Shelf,
    judge: Option<Judge>,
    pace: Pace,
    window: Duration,
    windows: u64,
}

impl Watch<'_> {
    fn for_ever(&mut self) -> anyhow::Result<()> {
        // What cannot be had now will not come later: privileges and probes are a mistake of the call.
        drop(kernel::with_probes(&self.forever.ladder)?);
        self.wait(self.pace.before_first());
        let mut waiting = false;
        while !self.stop.asked() {
            self.tidy(None);
            let target = match self.forever.named.find() {
                Ok(target) if !target.ports.is_empty() => target,
                found => {
                    if !std::mem::replace(&mut waiting, true) {
                        let why = found.err().map_or("it listens on no TCP port".to_owned(), |error| error.to_string());
                        eprintln!("weir record: waiting for the server: {why}");
                    }
                    self.wait(LOOK);
                    continue;
                }
            };
            waiting = false;
            let before = self.windows;
            match self.one_run(&target) {
                // The words of a failure stand there once, however long it takes until there is room.
                Err(error) if room::is_wanting(&error) && self.windows > before => self.wait_for_room(&error),
                Err(error) => {
                    eprintln!("weir record: {error:#}; it goes on in {} s", AFTER_FAILURE.as_secs());
                    self.wait(AFTER_FAILURE);
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Waits until a full disk has room again, by our own tidying or by others.
    fn wait_for_room(&self, error: &anyhow::Error) {
        let directory = self.shelf.directory();
        eprintln!(
            "weir record: {error:#}\n  the disk of {0} is full: recording goes on by itself when {1} MB are free there; make room, or let it keep less (--keep, --disk-per-hour) or write elsewhere (--run)",
            directory.display(),
            room::ENOUGH >> 20
        );
        self.wait(LOOK);
        while !self.stop.asked() && !room::is_there(directory) {
            self.tidy(None);
            self.wait(LOOK);
        }
        if !self.stop.asked() {
            eprintln!("weir record: there is room again in {}: recording goes on", directory.display());
        }
    }

    /// An hour of windows.
    fn one_run(&mut self, target: &Target) -> anyhow::Result<()> {
        let mut footing = kernel::with_probes(&self.forever.ladder)?;
        if let Some(probes) = footing.probes.as_mut().filter(|_| self.forever.keep_addresses) {
            probes.keep_addresses();
        }
        let run = self.shelf.next(SystemTime::now())?;
        let sources: Vec<Box<dyn EventSource>> = self.judge.iter().filter_map(Judge::source).collect();
        let mut last = Mark::now(target, None);
        // The pace holds the bound; this one stops a burst that a single window may be.
        let disk_mib = (2 * self.forever.disk_mb_per_hour).max(256);
        let recorder = kernel::start(&run, &mut footing, sources, target, disk_mib)?;
        let mut target = target.clone();
        let begin = Instant::now();
        while !self.stop.asked() && !recorder.has_failed() && begin.elapsed() < RUN {
            self.wait(self.window);
            let recording = recorder.recording();
            recording.pause(true);
            while recording.is_attached() && !recorder.has_failed() {
                std::thread::sleep(Duration::from_millis(5));
            }
            if recorder.has_failed() {
                break;
            }
            self.windows += 1;
            let mark = Mark::now(&target, Some(recording));
            let pause = self.pace.after(mark.since(&last));
            last = mark;
            let until = Instant::now() + pause;
            self.wait(pause.min(RUN.saturating_sub(begin.elapsed())));
            self.tidy(Some(&run));
            self.wait(until.saturating_duration_since(Instant::now()));
            // The server may have been restarted in the pause; if it is gone, the next run begins when it is there again.
            match self.forever.named.find() {
                Ok(found) if !found.ports.is_empty() && !self.stop.asked() => target = found,
                _ => break,
            }
            recording.retarget(target.clone());
            last.server_ns = Mark::now(&target, None).server_ns.min(last.server_ns);
            recording.pause(false);
            let asked = Instant::now();
            while !recording.is_attached() && !recorder.has_failed() && asked.elapsed() < LOOK {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        recorder.finish(footing.notes)?;
        Ok(())
    }

    fn tidy(&self, present: Option<&Run>) {
        for failure in self.shelf.tidy(SystemTime::now(), present.map(Run::directory)) {
            eprintln!("weir record: {failure}");
        }
    }

    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.stop.asked() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(TICK));
        }
    }
}
