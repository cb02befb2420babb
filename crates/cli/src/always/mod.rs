//! `weir record --always`: short windows with pauses between them, for as long as the server runs and longer.

mod judge;
mod pace;
mod room;
mod shelf;

use crate::record::Args as RecordArgs;
use crate::webhook::Webhook;
use anyhow::{Context, bail};
use judge::Judge;
use pace::{Bounds, Pace, Spent};
use shelf::Shelf;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use weir_capture::{EventSource, Recorder, Recording, Target};
use weir_explain::{Slo, View};
use weir_measure::burn::BurnRule;
use weir_terminal::stop::Stop;
use weir_trace::{Run, Source};

/// How much time a run holds.
const RUN: Duration = Duration::from_secs(3_600);
/// Time between two looks for a server that is not there.
const LOOK: Duration = Duration::from_secs(2);
/// Pause after a run that could not be written, such as on a full disk.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// How soon a wait hears of Ctrl-C.
const TICK: Duration = Duration::from_millis(200);
/// How long one attempt to deliver an alert may take.
const WEBHOOK_PATIENCE: Duration = Duration::from_secs(10);
/// Where runs go that were given no directory.
const DIRECTORY: &str = "weir-runs/always";

/// Options of a recording that goes on for ever.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "For ever")]
pub(crate) struct AlwaysArgs {
    /// Record in short windows with pauses between them, until stopped; --run names the directory of the hourly runs
    #[arg(long, conflicts_with_all = ["duration", "command"])]
    pub(crate) always: bool,

    /// Length of a window [default: 250ms, with --slo five times its limit if that is longer]
    #[arg(long, value_name = "TIME", requires = "always", value_parser = weir_terminal::units::duration)]
    window: Option<Duration>,

    /// Disk space, MB an hour
    #[arg(long, value_name = "MB", requires = "always", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    disk_per_hour: u64,

    /// CPU time that observing may cost, in percent of the server's
    #[arg(long, value_name = "PERCENT", requires = "always", default_value_t = 1.0, value_parser = percent)]
    cpu_share: f64,

    /// How long to keep runs: 12h, 7d
    #[arg(long, value_name = "TIME", requires = "always", default_value = "7d", value_parser = weir_terminal::units::duration)]
    keep: Duration,

    /// Objective of the server: 'p99<200ms'; may be repeated
    #[arg(long, value_name = "OBJECTIVE", requires = "always", value_parser = weir_explain::slo)]
    slo: Vec<Slo>,

    /// When to alert: LONG/SHORT/RATE, where both windows burn the error budget at RATE or faster [default: 1h/5m/14.4,
    /// 6h/30m/6 and 3d/6h/1]
    #[arg(long, value_name = "RULE", requires = "slo", value_parser = rule)]
    burn: Vec<BurnRule>,

    /// Post alerts as JSON to this address, http or https
    #[arg(long, value_name = "URL", requires = "slo")]
    webhook: Option<String>,

    /// A port that speaks TLS, beside 443 and 8443
    #[arg(long, value_name = "N", requires = "slo")]
    tls_port: Vec<u16>,
}

fn percent(text: &str) -> anyhow::Result<f64> {
    let number = text.trim_end_matches('%').parse::<f64>().ok().filter(|number| (0.01..=100.0).contains(number));
    number.context("a percentage from 0.01 to 100")
}

fn rule(text: &str) -> anyhow::Result<BurnRule> {
    let parts: Vec<&str> = text.split('/').collect();
    let [long, short, rate] = parts[..] else { bail!("a rule is LONG/SHORT/RATE, such as 1h/5m/14.4") };
    let seconds = |text: &str| weir_terminal::units::duration(text).map(|time| time.as_secs().max(1));
    let rate = rate.parse::<f64>().ok().filter(|rate| *rate > 0.0).context("the rate is a number above 0")?;
    Ok(BurnRule { long_s: seconds(long)?, short_s: seconds(short)?, rate })
}

impl AlwaysArgs {
    fn view(&self) -> View {
        View {
            server_side: true,
            tls_ports: self.tls_port.clone(),
            objectives: self.slo.iter().map(|slo| (slo.text.clone(), slo.objective)).collect(),
        }
    }

    /// A window must be longer than what is asked for may take, or no request of it could be judged.
    fn window(&self) -> Duration {
        let limits = self.slo.iter().filter_map(|slo| match slo.objective {
            weir_measure::objective::Objective::Latency { limit_ns, .. } => Some(5 * limit_ns),
            weir_measure::objective::Objective::Errors { .. } => None,
        });
        let least = Duration::from_nanos(limits.max().unwrap_or(0)).max(Duration::from_millis(250));
        self.window.unwrap_or(least)
    }
}

/// Runs the command.
pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let always = &args.always;
    if let Some(refusal) = weir_explain::refusal(&always.slo) {
        eprintln!("weir record: {refusal}");
        return Ok(ExitCode::from(2));
    }
    let stop = Stop::on_signals()?;
    let hours = always.keep.as_secs_f64() / 3_600.0;
    let bytes_per_hour = always.disk_per_hour as f64 * 1e6;
    let directory = args.run.clone().unwrap_or_else(|| DIRECTORY.into());
    let shelf = Shelf::open(&directory, always.keep, (bytes_per_hour * hours.max(1.0)) as u64)?;
    let webhook =
        always.webhook.as_deref().map(|url| Webhook::start("weir record", url, WEBHOOK_PATIENCE)).transpose()?;
    let rules = if always.burn.is_empty() { BurnRule::WORKBOOK.to_vec() } else { always.burn.clone() };
    let judge = match always.slo.is_empty() {
        true => None,
        false => Some(Judge::start(always.view(), &rules, args.target.words(), webhook)?),
    };
    let bounds = Bounds { bytes_per_hour, cpu_share: always.cpu_share / 100.0 };
    let pace = Pace::new(bounds, shelf.bytes_of_last_hour(SystemTime::now()));
    let window = always.window();
    let mut watch = Watch { args, stop, shelf, judge, pace, window, windows: 0 };
    let ended = watch.for_ever();
    let notes = watch.judge.take().map(Judge::finish).unwrap_or_default();
    notes.iter().for_each(|note| eprintln!("weir record: {note}"));
    ended?;
    let plural = if watch.windows == 1 { "" } else { "s" };
    eprintln!(
        "recorded {0} window{plural} in {1}\nread them: weir explain {1}/TIME",
        watch.windows,
        directory.display()
    );
    Ok(ExitCode::SUCCESS)
}

struct Watch<'a> {
    args: &'a RecordArgs,
    stop: Stop,
    shelf: Shelf,
    judge: Option<Judge>,
    pace: Pace,
    window: Duration,
    windows: u64,
}

impl Watch<'_> {
    fn for_ever(&mut self) -> anyhow::Result<()> {
        // What cannot be had now will not come later: privileges and probes are a mistake of the call.
        drop(crate::record::probes(&self.args.rung)?);
        self.wait(self.pace.before_first());
        let mut waiting = false;
        while !self.stop.asked() {
            self.tidy(None);
            let target = match self.args.target.find() {
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
        let (mut probes, rung, notes) = crate::record::probes(&self.args.rung)?;
        if self.args.keep_addresses {
            probes.keep_addresses();
        }
        let run = self.shelf.next(SystemTime::now())?;
        run.begin(
            Source::Kernel,
            weir_terminal::VERSION,
            weir_terminal::privacy::command_line(),
            Some(rung.name()),
            None,
        )?;
        let sources: Vec<Box<dyn EventSource>> = self.judge.iter().filter_map(Judge::source).collect();
        let mut last = Mark::now(target, None);
        // The pace holds the bound; this one stops a burst that a single window may be.
        let limits = crate::record::limits((2 * self.args.always.disk_per_hour).max(256));
        let recorder = Recorder::start_with(probes, sources, target, &run, limits)?;
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
            match self.args.target.find() {
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
        recorder.finish(notes)?;
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

/// What had been spent by a moment.
#[derive(Debug)]
struct Mark {
    at: Instant,
    bytes: u64,
    events: u64,
    own_ns: u64,
    server_ns: u64,
}

impl Mark {
    fn now(target: &Target, recording: Option<&Recording>) -> Self {
        Self {
            at: Instant::now(),
            bytes: recording.map_or(0, |recording| recording.bytes.load(Ordering::Acquire)),
            events: recording.map_or(0, |recording| recording.events.load(Ordering::Relaxed)),
            own_ns: own_cpu_ns(),
            server_ns: target.pids.iter().map(|pid| cpu_ns_of(*pid)).sum(),
        }
    }

    fn since(&self, last: &Self) -> Spent {
        Spent {
            bytes: self.bytes.saturating_sub(last.bytes),
            events: self.events.saturating_sub(last.events),
            own_ns: self.own_ns.saturating_sub(last.own_ns),
            // Processes of a pool come and go: those that went take their time with them, and the share errs downwards.
            server_ns: self.server_ns.saturating_sub(last.server_ns),
            elapsed: self.at.duration_since(last.at),
        }
    }
}

fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours; the call writes it and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of a process with all its threads, those that ended included (proc_pid_stat(5), fields 14 and 15).
fn cpu_ns_of(pid: u32) -> u64 {
    // SAFETY: sysconf reads a constant.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    // The name stands in parentheses and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * (1_000_000_000 / ticks)
}
