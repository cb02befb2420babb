//! The thread that keeps a server's activity: it reads the counts each second, and writes every two seconds and at the
//! end of a minute. So a server that is killed loses two seconds of counts at most, and the times of its last minute.

use super::durations::{DurationSums, Durations};
use super::file::ActivityFile;
use super::format::{MarkKind, Span};
use super::recorder::{Reading, Recorder};
use super::shown::{self, ShownActivity};
use crate::counters::Counters;
use crate::io::open::Open;
use crate::telemetry::admin::reloads::{ReloadHistory, Reloading};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From one look at the counts to the next.
const TICK: Duration = Duration::from_secs(1);
/// Looks from one writing to the next.
const TICKS_PER_WRITING: u32 = 2;
/// How often a last writing is tried while another process has the file's lock.
const LAST_TRIES: u32 = 20;

/// The file and what is known of it; the thread and the admin address share it.
#[derive(Debug)]
pub(crate) struct ActivityKept {
    path: PathBuf,
    file: Mutex<ActivityFile>,
    state: Mutex<KeptState>,
}

/// How the writing goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct KeptState {
    /// Why the file cannot be written at the moment; none if it can.
    pub(crate) failing: Option<String>,
    /// Minutes that wait to be written, and those that were lost because more than a day of them waited.
    pub(crate) waiting_minutes: usize,
    pub(crate) lost_minutes: u64,
}

/// What the thread reads.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) counters: Counters,
    pub(crate) open: Arc<Open>,
    pub(crate) durations: Vec<Arc<Durations>>,
    pub(crate) reloads: Arc<dyn Reloading>,
    /// Set once another server has taken over.
    pub(crate) is_followed: Arc<AtomicBool>,
    /// The process whose sockets were taken over.
    pub(crate) took_over: Option<u32>,
    pub(crate) notice: fn(&str),
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct ActivityThread {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

impl ActivityThread {
    /// Has the thread write what there is, and end.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        // It has nothing to say, and its end is no reason for the server not to end.
        let _ = self.thread.join();
    }
}

impl ActivityKept {
    pub(crate) fn new(path: PathBuf, file: ActivityFile) -> Self {
        Self { path, file: Mutex::new(file), state: Mutex::default() }
    }

    pub(crate) fn file(&self) -> MutexGuard<'_, ActivityFile> {
        // A thread that panicked with the lock held left a file that is open.
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the writing goes.
    pub(crate) fn state(&self) -> KeptState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// So many hours until now in at most so many steps.
    ///
    /// # Errors
    ///
    /// The system's refusal to read.
    pub(crate) fn shown(&self, hours: u32, steps_max: u32) -> io::Result<ShownActivity> {
        let now_unix_s = now_unix_ms() / 1000;
        let (span, from_unix_s) = shown::wanted(hours, now_unix_s);
        let activity = self.file().since(span, from_unix_s, now_unix_s)?;
        Ok(ShownActivity::new(&activity, hours, steps_max, now_unix_s))
    }

    /// Marks a deployment, in the operator's words.
    ///
    /// # Errors
    ///
    /// The system's refusal to write.
    pub(crate) fn mark_deploy(&self, words: &str) -> io::Result<()> {
        self.file().mark(MarkKind::Deploy, now_unix_ms(), words)
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system's refusal of a thread.
    pub(crate) fn start(self: &Arc<Self>, sources: Sources) -> io::Result<ActivityThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        // It looks at the counts here, before the first request: the thread may begin late on a busy machine.
        let keeper = Keeper::new(Arc::clone(self), sources);
        let builder = std::thread::Builder::new().name("weir-activity".to_owned());
        let thread = builder.spawn(move || keeper.run(&told))?;
        Ok(ActivityThread { thread, stop })
    }
}

/// What the thread has.
struct Keeper {
    kept: Arc<ActivityKept>,
    sources: Sources,
    recorder: Recorder,
    reloads: ReloadHistory,
    is_followed: bool,
    is_failing: bool,
}

impl Keeper {
    fn new(kept: Arc<ActivityKept>, sources: Sources) -> Self {
        let recorder = Recorder::new(now_unix_ms() / 1000, sources.reading());
        let reloads = sources.reloads.history();
        Self { kept, sources, recorder, reloads, is_followed: false, is_failing: false }
    }

    fn run(mut self, stop: &AtomicBool) {
        self.mark_start();
        let mut ticks: u32 = 0;
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(TICK);
            ticks = ticks.wrapping_add(1);
            if self.look() || ticks.is_multiple_of(TICKS_PER_WRITING) {
                self.recorder.flush();
                self.write();
            }
        }
        // What the loops did between the last look and their end.
        self.look();
        self.recorder.end_minute();
        for _ in 0..LAST_TRIES {
            if self.write() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if !self.is_followed {
            self.mark(MarkKind::Stop, &format!("process {}", std::process::id()));
        }
    }

    /// Takes note of what was done since the last look; whether a minute is over.
    fn look(&mut self) -> bool {
        let is_over = self.recorder.tick(now_unix_ms() / 1000, self.sources.reading());
        self.mark_changes();
        is_over
    }

    /// Marks that the server began, and that the one before it was lost, if it was.
    fn mark_start(&mut self) {
        let before = self.kept.file().marks().unwrap_or_default();
        let lives = |kind| matches!(kind, MarkKind::Start | MarkKind::Stop | MarkKind::Lost | MarkKind::Followed);
        let last = before.iter().rev().find(|mark| lives(mark.kind));
        let took_over = self.sources.took_over;
        if let Some(last) = last.filter(|last| last.kind == MarkKind::Start && took_over.is_none()) {
            self.mark(MarkKind::Lost, &format!("{} ended without a stop", last.words));
        }
        let own = std::process::id();
        let words = took_over.map_or_else(String::new, |former| format!(", took over from process {former}"));
        self.mark(MarkKind::Start, &format!("process {own}{words}"));
    }

    /// Marks what was done to the server since the last look.
    fn mark_changes(&mut self) {
        let now = self.sources.reloads.history();
        let before = std::mem::replace(&mut self.reloads, now.clone());
        if now.done > before.done {
            self.mark(MarkKind::Reload, "configuration taken up");
        }
        if now.failed > before.failed {
            let why = now.last_error.clone().unwrap_or_default();
            self.mark(MarkKind::ReloadRefused, why.lines().next().unwrap_or("configuration refused"));
        }
        if now.roots_moved > before.roots_moved {
            self.mark(MarkKind::Deploy, now.last_root.as_deref().unwrap_or("a root leads elsewhere"));
        }
        if !self.is_followed && self.sources.is_followed.load(Ordering::Relaxed) {
            self.is_followed = true;
            self.mark(MarkKind::Followed, &format!("process {} has given its addresses away", std::process::id()));
        }
    }

    fn mark(&mut self, kind: MarkKind, words: &str) {
        let marked = self.kept.file().mark(kind, now_unix_ms(), words);
        if let Err(error) = marked {
            (self.sources.notice)(&format!(
                "the mark \"{words}\" is not in {}: {error}; make room on its disk",
                self.kept.path.display()
            ));
        }
    }

    /// Writes what waits, as far as it can; whether all was written. What cannot be written waits on.
    fn write(&mut self) -> bool {
        let outcome = self.write_waiting();
        let (waiting_minutes, lost_minutes) = self.recorder.state();
        let path = self.kept.path.display();
        let failing = outcome.as_ref().err().map(ToString::to_string);
        let state = KeptState { failing: failing.clone(), waiting_minutes, lost_minutes };
        *self.kept.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        match (&failing, self.is_failing) {
            (Some(error), false) => (self.sources.notice)(&format!(
                "activity cannot be written to {path}: {error}; a day of it is kept in memory meanwhile: make room"
            )),
            (None, true) => (self.sources.notice)(&format!("activity is written to {path} again")),
            _ => {}
        }
        self.is_failing = failing.is_some();
        outcome.is_ok_and(|is_all| is_all)
    }

    fn write_waiting(&mut self) -> io::Result<bool> {
        let mut file = self.kept.file();
        while let Some(waiting) = self.recorder.next() {
            let spans = [Span::Minute, Span::Hour];
            for span in spans.into_iter().skip(usize::from(waiting.is_in_minute)) {
                match file.add(span, &waiting.figures) {
                    Ok(()) => waiting.is_in_minute = true,
                    // Another server writes just now; it takes microseconds.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            self.recorder.written();
        }
        Ok(true)
    }
}

impl Sources {
    fn reading(&self) -> Reading {
        let mut durations = DurationSums::default();
        self.durations.iter().for_each(|of_loop| of_loop.add_to(&mut durations));
        let open = self.open.count.load(Ordering::Relaxed) as u64;
        Reading { counts: self.counters.read(), open, durations }
    }
}

/// Milliseconds since 1970.
fn now_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
