//! The `weir record` command: kernel events of a server, into a run directory.

use crate::arm_source::ArmRecording;
use crate::child::Child;
use crate::rung::RungArgs;
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_capture::{Footing, Probes, Recorder, Rung, Target, cgroup};
use weir_terminal::stop::Stop;
use weir_trace::{Limits, Run, Source};

/// Disk space of a recording, MiB, unless the user says.
pub(crate) const DISK_MIB: u64 = 4096;

const EXAMPLES: &str = "\
Examples:
  weir record --port 80 -d 10
      ten seconds of the server that listens on port 80
  weir record --run runs/a --comm apache2
      until Ctrl-C, into the directory runs/a
  weir record --pid 4711 --packs auto --probe libphp.so:php_mail
      a process with its children and threads, with phases and queries of known
      servers, and a mark at a function
  weir record --port 80 --arm
      with the transactions that its applications report to `weir agent`
  weir record --port 80 --decisions log.jsonl
      with what the rules of `weir serve --decisions log.jsonl` decided, also
      where there are no probes
  weir record --unit shop
      all processes of the systemd unit shop.service
  weir record --run runs/b -- nginx -g 'daemon off;'
      start a server, and record it until it ends
  weir record --always --port 80 --slo 'p99<200ms' --webhook https://h/alert
      in short windows until stopped, within bounds of disk and CPU time

The run is read by `weir explain RUN`. To join requests with a client's view,
let the load write to the same run:
  weir load --run runs/a http://127.0.0.1/

Needs Linux 5.18 or later, and root or CAP_BPF and CAP_PERFMON (else it reads
/proc alone: see --rung); to find another user's server by its port also
CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.

Exit status: 0 if it was recorded to the end, 1 if not or if the command failed
by itself, 2 for wrong usage.";

/// Record kernel events of a server: who runs, who waits for what, where requests begin and end.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run directory to write to; made if it is not there [default: a new directory in weir-runs]
    #[arg(long, value_name = "DIR")]
    pub(crate) run: Option<PathBuf>,

    /// How long to record: 500ms, 10s, 2m; without it until Ctrl-C or the command's end
    #[arg(short = 'd', long, value_name = "TIME", value_parser = weir_terminal::units::duration)]
    duration: Option<Duration>,

    /// Record the addresses of clients as they are; without it, keyed hashes replace them
    #[arg(long)]
    pub(crate) keep_addresses: bool,

    /// Disk space for the kernel's events, MiB; beyond it the oldest are removed
    #[arg(long, value_name = "MIB", default_value_t = DISK_MIB, value_parser = clap::value_parser!(u64).range(256..))]
    disk: u64,

    /// Add the decisions that `weir serve --decisions FILE` makes meanwhile to the run's time line
    #[arg(long, value_name = "FILE", conflicts_with = "always")]
    decisions: Option<PathBuf>,

    /// The server to start and record
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,

    // From here on each has a heading of its own in the help.
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    sources: crate::sources::SourceArgs,

    #[command(flatten)]
    pub(crate) rung: RungArgs,

    #[command(flatten)]
    pub(crate) always: crate::always::AlwaysArgs,
}

/// Which server is meant.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct TargetArgs {
    /// The server listens on this TCP port
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Vec<u16>,

    /// The server is this process, with its children and threads
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,

    /// The server's processes have this name
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Vec<String>,

    /// The server is this systemd unit
    #[arg(long, value_name = "NAME")]
    pub(crate) unit: Vec<String>,

    /// The server runs in this container: its name (of Docker or Podman), its id or the first characters of that
    #[arg(long, value_name = "NAME")]
    pub(crate) container: Vec<String>,

    /// The server's processes are in this control group (version 2), by its path below /sys/fs/cgroup
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<PathBuf>,
}

impl TargetArgs {
    /// Whether nothing was named.
    pub(crate) fn is_empty(&self) -> bool {
        let groups = self.unit.len() + self.container.len() + self.cgroup.len();
        self.port.is_empty() && self.pid.is_empty() && self.comm.is_empty() && groups == 0
    }

    /// What was named, in words.
    pub(crate) fn words(&self) -> String {
        let ports = self.port.iter().map(|port| format!("port {port}"));
        let pids = self.pid.iter().map(|pid| format!("process {pid}"));
        let groups = self.cgroup.iter().map(|path| path.display().to_string());
        let named = self.comm.iter().chain(&self.unit).chain(&self.container).cloned();
        ports.chain(pids).chain(named).chain(groups).collect::<Vec<_>>().join(", ")
    }

    /// The processes and ports that are meant.
    pub(crate) fn find(&self) -> anyhow::Result<Target> {
        let mut target = Target::default();
        for port in &self.port {
            target = target.and(Target::of_port(*port)?);
        }
        for pid in &self.pid {
            target = target.and(Target::of_pid(*pid)?);
        }
        for comm in &self.comm {
            target = target.and(Target::of_comm(comm)?);
        }
        for unit in &self.unit {
            target = target.and(Target::of_group(&cgroup::of_unit(unit)?)?);
        }
        for container in &self.container {
            target = target.and(Target::of_group(&cgroup::of_container(container)?)?);
        }
        for path in &self.cgroup {
            target = target.and(Target::of_group(&cgroup::of_path(path)?)?);
        }
        Ok(target)
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.target.is_empty() && args.command.is_empty() {
        eprintln!(
            "weir record: name a server: --port N, --pid PID, --comm NAME, --unit NAME, --container NAME, or -- COMMAND (see `weir record --help`)"
        );
        return Ok(ExitCode::from(2));
    }
    if args.always.always {
        if let Some(option) = args.sources.given() {
            eprintln!(
                "weir record: --always records scheduler and sockets alone: {option} is for recordings with an end"
            );
            return Ok(ExitCode::from(2));
        }
        return crate::always::run(args);
    }
    // A server that is started here writes its file later.
    if let Some(log) = args.decisions.as_ref().filter(|_| args.command.is_empty()) {
        weir_explain::decisions::check(log)?;
    }
    let stop = Stop::on_signals()?;
    // The probes load before the command starts: if they are refused, no server was started in vain.
    let mut footing = args.rung.ladder().climb()?;
    footing.notes.iter().for_each(|note| eprintln!("weir record: {note}"));
    if footing.rung == Rung::ClientOnly {
        bail!("nothing can be recorded on the rung {:?}", footing.rung.name());
    }
    if let Some(probes) = footing.probes.as_mut().filter(|_| args.keep_addresses) {
        probes.keep_addresses();
    }
    let mut child = if args.command.is_empty() { None } else { Some(Child::start(&args.command)?) };
    let mut target = args.target.find()?;
    if let Some(child) = &child {
        target = target.and(Target::of_pid(child.id()).context("the command ended at once")?);
    }
    if child.is_none() {
        must_listen(&target)?;
    }
    footing.settle(&target)?;
    let sources = args.sources.load(footing.probes.as_ref(), &target, child.is_some())?;
    let transactions = args.sources.transactions()?;
    // Not before: what is refused leaves no run behind.
    let run = Run::create(&args.run.clone().unwrap_or_else(crate::run_directory::next))?;
    run.begin(
        Source::Kernel,
        weir_terminal::VERSION,
        weir_terminal::privacy::command_line(),
        Some(footing.rung.name()),
        None,
    )?;
    let recorder = match footing.probes {
        Some(probes) => Recorder::start_with(probes, sources, &target, &run, limits(args.disk))?,
        None => Recorder::sample(&target, &run, limits(args.disk))?,
    };
    let transactions = transactions.map(|told| told.record(&run)).transpose()?;
    let Ending { notes, failed } = wait(args, &stop, &recorder, &target, child.as_mut());
    let cost = recorder.finish([footing.notes, notes.clone()].concat())?;
    transactions.map(ArmRecording::finish).transpose()?;
    if let Some(child) = child {
        child.end();
    }
    let decided = args.decisions.as_ref().map(|log| weir_explain::decisions::put(run.directory(), log)).transpose()?;
    for note in notes.iter().chain(decided.iter().flatten()) {
        eprintln!("weir record: {note}");
    }
    eprintln!(
        "recorded {} events ({:.1} MB, {} lost) in {}; collector {:.2} CPU s\nread it: weir explain {}",
        cost.events,
        cost.bytes as f64 / 1e6,
        cost.lost,
        run.directory().display(),
        cost.cpu_seconds,
        run.directory().display()
    );
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Without a TCP port no request of a server that runs already would be seen.
pub(crate) fn must_listen(target: &Target) -> anyhow::Result<()> {
    if target.ports.is_empty() {
        bail!("the target listens on no TCP port; name one with --port N");
    }
    Ok(())
}

/// The probes of the highest rung that works, with the reasons why none above it does, where nothing can be done without
/// probes.
pub(crate) fn probes(rung: &RungArgs) -> anyhow::Result<(Probes, Rung, Vec<String>)> {
    let Footing { probes, rung, notes: mut why, .. } = rung.ladder().climb()?;
    let Some(probes) = probes else {
        why.push(format!("the rung {:?} follows no request", rung.name()));
        bail!("{}", why.join("\n  "));
    };
    Ok((probes, rung, why))
}

/// Divides the disk space among the streams, in segments small enough that removing one leaves most of a stream.
pub(crate) fn limits(disk_mib: u64) -> Limits {
    let usual = Limits::default();
    let stream_bytes = (disk_mib << 20) / weir_capture::streams() as u64;
    Limits { stream_bytes, segment_bytes: usual.segment_bytes.min(stream_bytes / 4), ..usual }
}

/// How a recording came to its end.
#[derive(Default)]
struct Ending {
    /// What is worth noting about it.
    notes: Vec<String>,
    /// The command ended by itself, and not with success.
    failed: bool,
}

impl Ending {
    fn noted(note: String) -> Self {
        Self { notes: vec![note], failed: false }
    }
}

/// What is noted of a target that has ended.
pub(crate) const TARGET_ENDED: &str = "every process of the target has ended; what was recorded is kept";

/// Whether no process of the target runs any more.
pub(crate) fn has_ended(target: &Target) -> bool {
    target.pids.iter().all(|pid| !crate::child::lives(*pid))
}

/// Waits for the end.
fn wait(args: &Args, stop: &Stop, recorder: &Recorder, target: &Target, mut child: Option<&mut Child>) -> Ending {
    let begin = Instant::now();
    let mut line = weir_terminal::progress::Line::new();
    loop {
        if stop.asked() || args.duration.is_some_and(|limit| begin.elapsed() >= limit) {
            return Ending::default();
        }
        if recorder.has_failed() {
            return Ending::noted("the recording could not be written on".to_owned());
        }
        if let Some(status) = child.as_deref_mut().and_then(Child::ended) {
            let note = format!("the command ended ({status}); what was recorded is kept");
            return Ending { failed: !status.success(), ..Ending::noted(note) };
        }
        if child.is_none() && has_ended(target) {
            return Ending::noted(TARGET_ENDED.to_owned());
        }
        let recording = recorder.recording();
        line.show(|| {
            format!(
                "recording {:.0} s, {} events, {} lost",
                begin.elapsed().as_secs_f64(),
                recording.events.load(Ordering::Relaxed),
                recording.lost.load(Ordering::Relaxed)
            )
        });
        std::thread::sleep(Duration::from_millis(50));
    }
}
