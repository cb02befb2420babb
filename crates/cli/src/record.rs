//! The `weir record` command: kernel events of a server, into a run directory.

use crate::always::{self, AlwaysArgs};
use crate::kubernetes::KubernetesArgs;
use crate::record_hosts::{self, HostArgs};
use crate::rung::RungArgs;
use crate::sources::SourceArgs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir_record::{DISK_MIB, Named, Recorded, Setup, Wanted};
use weir_terminal::stop::Stop;

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
  weir record --always --port 80 --prometheus-listen 127.0.0.1:9466
      the same with figures for Prometheus, whose exemplars name requests
  weir record --host web --host root@store --port 80 --port 5432 -d 30s
      two hosts at once, by ssh: each records what it has of the named servers,
      and `weir explain RUN` explains their runs together

The run is read by `weir explain RUN`. To join requests with a client's view,
let the load write to the same run:
  weir load --run runs/a http://127.0.0.1/

Needs Linux 5.10 or later, and root or CAP_BPF and CAP_PERFMON (else it reads
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
    sources: SourceArgs,

    #[command(flatten)]
    pub(crate) rung: RungArgs,

    #[command(flatten)]
    pub(crate) always: AlwaysArgs,

    #[command(flatten)]
    hosts: HostArgs,

    #[command(flatten)]
    kubernetes: KubernetesArgs,
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
        self.named().is_empty()
    }

    /// The server as it was named.
    pub(crate) fn named(&self) -> Named {
        Named {
            ports: self.port.clone(),
            pids: self.pid.clone(),
            comms: self.comm.clone(),
            units: self.unit.clone(),
            containers: self.container.clone(),
            cgroups: self.cgroup.clone(),
            wanted: Wanted::All,
        }
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
    if !args.hosts.host.is_empty() {
        let command = <Args as clap::Args>::augment_args(clap::Command::new("record"));
        return record_hosts::run(&args.hosts, &command, args.run.clone(), args.duration, args.disk);
    }
    args.kubernetes.tell("weir record")?;
    if args.always.always {
        if let Some(option) = args.sources.given() {
            eprintln!(
                "weir record: --always records scheduler and sockets alone: {option} is for recordings with an end"
            );
            return Ok(ExitCode::from(2));
        }
        let call = always::Call {
            run: args.run.clone(),
            keep_addresses: args.keep_addresses,
            named: args.target.named(),
            ladder: args.rung.ladder(),
        };
        return always::run(&args.always, call);
    }
    // A server that is started here writes its file later.
    if let Some(log) = args.decisions.as_ref().filter(|_| args.command.is_empty()) {
        weir_explain::decisions::check(log)?;
    }
    let stop = Stop::on_signals()?;
    let wanted = if args.hosts.send_run { Wanted::Some } else { Wanted::All };
    let setup = Setup {
        who: "weir record",
        directory: args.run.clone(),
        named: Named { wanted, ..args.target.named() },
        command: args.command.clone(),
        ladder: args.rung.ladder(),
        sources: args.sources.sources(),
    };
    if args.hosts.send_run {
        weir_record::hosts::send(setup, args.disk, args.keep_addresses, &stop)?;
        return Ok(ExitCode::SUCCESS);
    }
    let recorded = weir_record::until_end(&setup, args.duration, args.disk, args.keep_addresses, &stop)?;
    let Recorded { run, cost, notes, has_failed } = recorded;
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
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
