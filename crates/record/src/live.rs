//! A recording that nothing is kept of: all servers of this host at once, and figures of each, window after window.
//!
//! The collector writes into a small run that is removed at the end; the figures come from the records in memory.

use crate::cost::{EVENT_NS, own_cpu_ns};
use crate::kernel;
use crate::passing_run::PassingRun;
use crate::windows::{Tap, TapCounts, Window};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use weir_capture::{BoundarySource, Ladder, Listener, Listening, Place, Recorder, Target, listening};
use weir_explain::by_server::{ByServer, SERVERS_MAX, ServerFigures, ServerFolds};
use weir_terminal::stop::Stop;
use weir_timeline::{Bounds, Joiner, ServerEnd};
use weir_trace::WriteError;

/// Records that end a window before its time: 10 MB, and some 0.1 s of CPU time to join them.
const RECORDS_ENOUGH: usize = 1 << 18;
/// Records of a window that are held. The rest is room for what comes between two looks and while the probes are detached.
const RECORDS_MAX: usize = 1 << 20;
/// Disk space of the run that is removed at the end, MiB.
const DISK_MIB: u64 = 64;
/// How soon the end of a window is noticed.
const TICK: Duration = Duration::from_millis(10);
/// How long processes may be looked for that listen.
const LOOK: Duration = Duration::from_millis(500);
/// How long the collector may take to attach or detach its probes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// No probe follows requests here.
    #[error("{0}")]
    NoProbes(String),
    /// The collector cannot begin, or its small run cannot be written.
    #[error("the recording cannot begin: {0}")]
    Begin(String),
    /// The small run could not be written on.
    #[error(
        "the recording ended by itself: {0}; make room in the directory for temporary files, or name another by TMPDIR"
    )]
    Ended(#[source] WriteError),
    /// The collector does not answer.
    #[error("the collector has not {0} its probes within {seconds} s; the machine may be overloaded: try again with a longer --interval", seconds = PATIENCE.as_secs())]
    Silent(&'static str),
}

/// A server with what was seen of it in a window.
#[derive(Debug, Clone)]
pub struct ServerNow {
    /// The server.
    pub listener: Listener,
    /// What was seen.
    pub figures: ServerFigures,
}

/// What a window showed.
#[derive(Debug, Clone, Default)]
pub struct LiveWindow {
    /// All servers, in the order of their ports.
    pub servers: Vec<ServerNow>,
    /// The source that request boundaries come from, as reports name it.
    pub rung: &'static str,
    /// How long events were recorded.
    pub watched: Duration,
    /// Whether the window ended before its time, because it held enough.
    pub is_short: bool,
    /// Windows so far that held too many events to be read; of such a one there are no figures.
    pub missed: u64,
    /// Responses at ports that no server was known to listen on.
    pub others: u64,
    /// Whether the processes of all listening sockets may be looked at, and were within the time for it.
    pub is_complete: bool,
    /// Listening sockets whose processes may not be looked at.
    pub hidden: usize,
    /// What it cost.
    pub cost: LiveCost,
}

/// What a window cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveCost {
    /// From the last window's end to this one's.
    pub elapsed: Duration,
    /// CPU time of this process in that time, by its own clock.
    pub own: Duration,
    /// Events recorded in that time.
    pub events: u64,
    /// Events that were lost since the recording began.
    pub lost: u64,
}

impl LiveCost {
    /// CPU time of this process for each second, such as 0.05 for 5 % of a CPU.
    #[must_use]
    pub fn own_share(&self) -> f64 {
        self.own.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// What the probes cost the observed processes for each second at most, by the cost of an event as it was measured.
    #[must_use]
    pub fn probes_share_max(&self) -> f64 {
        self.events as f64 * EVENT_NS as f64 / 1e9 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Counters at the end of a window.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    own_ns: u64,
    events: u64,
}

/// The recording.
#[derive(Debug)]
pub struct Live {
    recorder: Recorder,
    windows: Receiver<Window>,
    counts: Arc<TapCounts>,
    /// Where the collector writes; removed with it.
    _passing: PassingRun,
    listening: Listening,
    wanted: fn(&Listener) -> bool,
    tls_ports: Vec<u16>,
    last: Mark,
    /// What is to be known of the rung.
    pub notes: Vec<String>,
}

impl Live {
    /// Begins to record what listens on this host and is wanted; these ports, beside 443 and 8443, are encrypted.
    ///
    /// # Errors
    /// [`LiveError::NoProbes`] with what is missing and the remedy, [`LiveError::Begin`].
    pub fn start(ladder: &Ladder, wanted: fn(&Listener) -> bool, tls_ports: &[u16]) -> Result<Self, LiveError> {
        let mut footing = kernel::with_probes(ladder).map_err(|error| LiveError::NoProbes(format!("{error:#}")))?;
        let found = look(wanted);
        let passing = PassingRun::create("top").map_err(|error| LiveError::Begin(error.to_string()))?;
        let (to, windows) = sync_channel(1);
        let counts: Arc<TapCounts> = Arc::default();
        let tap = Tap::new("figures", RECORDS_MAX, to, Arc::clone(&counts));
        let last = Mark { at: Instant::now(), own_ns: own_cpu_ns(), events: 0 };
        let recorder = kernel::start(&passing.run, &mut footing, vec![Box::new(tap)], &target(&found), DISK_MIB);
        let recorder = recorder.map_err(|error| LiveError::Begin(format!("{error:#}")))?;
        let (tls_ports, notes) = (tls_ports.to_vec(), footing.notes);
        Ok(Self { recorder, windows, counts, _passing: passing, listening: found, wanted, tls_ports, last, notes })
    }

    /// The source that request boundaries come from.
    #[must_use]
    pub fn source(&self) -> BoundarySource {
        self.recorder.source()
    }

    /// Records for so long, or until there is enough or an end is asked for; what was seen.
    ///
    /// # Errors
    /// [`LiveError::Ended`], [`LiveError::Silent`].
    pub fn window(&mut self, time: Duration, stop: &Stop) -> Result<LiveWindow, LiveError> {
        self.resume()?;
        let begin = Instant::now();
        while begin.elapsed() < time && self.counts.held() < RECORDS_ENOUGH && !stop.asked() {
            if self.recorder.has_failed() {
                break;
            }
            std::thread::sleep(TICK.min(time.saturating_sub(begin.elapsed())));
        }
        let is_short = self.counts.held() >= RECORDS_ENOUGH;
        self.recorder.recording().pause(true);
        self.wait_until(false, "detached")?;
        let mut window = self.windows.try_recv().unwrap_or_default();
        let watched = Duration::from_nanos(window.length_ns());
        let by_server = self.folded(&mut window);
        Ok(self.seen(by_server, watched, is_short))
    }

    /// Whether the recording has ended by itself; [`Live::finish`] says why.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.recorder.has_failed()
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// [`LiveError::Ended`].
    pub fn finish(self) -> Result<(), LiveError> {
        self.recorder.finish(Vec::new()).map(|_| ()).map_err(LiveError::Ended)
    }

    /// Attaches the probes again, if they are not, to what listens now.
    fn resume(&mut self) -> Result<(), LiveError> {
        if self.recorder.recording().is_attached() {
            return Ok(());
        }
        self.listening = look(self.wanted);
        let recording = self.recorder.recording();
        recording.retarget(target(&self.listening));
        recording.pause(false);
        self.wait_until(true, "attached")
    }

    fn wait_until(&self, attached: bool, what: &'static str) -> Result<(), LiveError> {
        let asked = Instant::now();
        while self.recorder.recording().is_attached() != attached && !self.recorder.has_failed() {
            if asked.elapsed() > PATIENCE {
                return Err(LiveError::Silent(what));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn folded(&self, window: &mut Window) -> ByServer {
        let ends = |listener: &Listener| listener.places.keys().map(end_of).collect();
        let ends: Vec<Vec<ServerEnd>> = self.listening.servers.iter().map(ends).collect();
        let mut folds = ServerFolds::new(&ends);
        let mut joiner = Joiner::of_server(Bounds::default(), &self.tls_ports);
        joiner.tell_inner();
        if self.source().misses_arrivals() {
            joiner.supply_arrivals();
        }
        window.join(&mut joiner, &mut |joiner, response| folds.push(joiner, response));
        folds.finish(&joiner)
    }

    fn seen(&mut self, by_server: ByServer, watched: Duration, is_short: bool) -> LiveWindow {
        let recording = self.recorder.recording();
        let events = recording.events.load(Ordering::Relaxed);
        let mark = Mark { at: Instant::now(), own_ns: own_cpu_ns(), events };
        let cost = LiveCost {
            elapsed: mark.at.duration_since(self.last.at),
            own: Duration::from_nanos(mark.own_ns.saturating_sub(self.last.own_ns)),
            events: mark.events.saturating_sub(self.last.events),
            lost: recording.lost.load(Ordering::Relaxed),
        };
        self.last = mark;
        let listeners = self.listening.servers.iter().cloned();
        let servers = listeners.zip(by_server.servers);
        LiveWindow {
            servers: servers.map(|(listener, figures)| ServerNow { listener, figures }).collect(),
            rung: self.source().name(),
            watched,
            is_short,
            missed: self.counts.missed(),
            others: by_server.others,
            is_complete: self.listening.complete && self.listening.servers.len() <= SERVERS_MAX,
            hidden: self.listening.hidden.len(),
            cost,
        }
    }
}

fn end_of(place: &Place) -> ServerEnd {
    ServerEnd { netns: place.netns, port: place.port }
}

/// What listens and is wanted.
fn look(wanted: fn(&Listener) -> bool) -> Listening {
    let mut found = listening(Instant::now() + LOOK);
    found.servers.retain(wanted);
    found
}

/// All that listens, as one server: its processes ask each other, and what one waits for another is then known.
fn target(listening: &Listening) -> Target {
    listening.servers.iter().map(Listener::target).fold(Target::default(), Target::and)
}
