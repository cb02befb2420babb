//! The arguments of `weir explain`.

use crate::load::LoadArgs;
use crate::record::TargetArgs;
use crate::rung::RungArgs;
use std::path::PathBuf;
use weir_explain::{Slo, slo};

const EXAMPLES: &str = "\
Examples:
  weir explain --load http://127.0.0.1:8080/ --port 8080
      load a running server for 10 s, record it meanwhile, and explain it
  weir explain --load http://127.0.0.1:8080/ -d 5s -- ./server --port 8080
      start the server, too
  weir explain --port 80 -d 10s
      the requests of real clients, without a load: from the server's side
  weir explain --slo 'p99<200ms' runs/a
      exit status 3 if the objective was missed
  weir explain --load http://127.0.0.1/ --port 80 --comm postgres --packs auto
      followed into the database, with phases and queries
  weir explain --load http://127.0.0.1/ --port 80 --stacks --folded stacks.txt
      sample stacks, too, and write them for flamegraph.pl or speedscope
  weir explain --port 80 -d 30s --arm
      by the transactions that applications report to `weir agent` (ARM)
  weir explain runs/a
      a run that `weir record --run runs/a` and `weir load --run runs/a` made
  weir explain runs/web runs/database
      two hosts, recorded at the same time: what the first one asked the second
      one is followed there
  weir explain --decisions log.jsonl runs/a
      with what the rules of `weir serve --decisions log.jsonl` decided
  weir explain --cluster-events /etc/weir/cluster runs/a
      with the sessions that moved to another node of a cluster
  weir explain --json runs/a | jq '.causes[0]'
      figures for a program
  weir explain --otlp http://127.0.0.1:4318 runs/a
      the slowest requests and a sample of the others, as OpenTelemetry's spans
  weir explain --spans spans.jsonl runs/a
      spans of existing instrumentation beside the parts: what they do not see
  weir explain --generator $(pgrep k6) -d 30s
      is a slow percentile the server's, or the load generator's own?
  weir explain --group '/shop/*/buy' --group '/static/**' runs/a
      put paths together into transaction classes

Parts of a response, in the order in which it passes them:
  generator         from the intended time to when the generator sent
  connect           the connection being made
  request_transit   on the way to the server's socket, and bytes of the request
                    that the server waited for
  accept_queue      arrived, but no worker had accepted its connection
  worker_queue      behind other requests of the same worker
  run               the server's task had the CPU
  wait_cpu          it could run, but another task had the CPU
  wait_disk         for storage
  wait_lock         for a lock
  wait_process      for another process of this host that is not recorded
  wait_network      for another host, or a client that takes it slowly
  wait_timer        asleep
  stopped           held by a signal (SIGSTOP), a debugger or a freezer
  response_transit  on the way to the client
  client_wakeup     at the client, whose task did not run yet
  unattributed      what the recording cannot tell

From the server's side (without --load, or with --server-side) a response counts
from the arrival of its first byte at the server's socket to its last send;
generator, connect, response_transit and client_wakeup are then not known.

Exit status: 0 if anything could be explained, 1 if not, 2 for wrong usage, 3 if
an objective (--slo) was missed.";

/// Options that say how a run is made: where the run exists already, they would be ignored.
const OF_MAKING_A_RUN: [&str; 31] = [
    "url",
    "stacks",
    "arm",
    "no_questions",
    "trace_headers",
    "watch",
    "watch_windows",
    "probe",
    "packs",
    "allow_slow_probes",
    "keep_queries",
    "no_tls_probes",
    "rung",
    "without_rung",
    "connections",
    "requests",
    "duration",
    "rate",
    "poisson",
    "seed",
    "queue",
    "no_keepalive",
    "pipeline",
    "threads",
    "cpu",
    "timeout",
    "method",
    "headers",
    "body",
    "insecure",
    "ca",
];

/// Explain where the time of a server's requests goes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run directory to explain; those of several hosts, recorded at the same time, are explained as one
    #[arg(value_name = "RUN", conflicts_with_all = OF_MAKING_A_RUN)]
    pub(crate) recorded: Vec<PathBuf>,

    /// Load this URL and record the server meanwhile
    #[arg(long = "load", value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Watch the sockets of a load generator (k6, wrk, JMeter), and say how much of what it reports is its own doing: how
    /// long answers lay unread. TCP, one request at a time on a connection; as root
    #[arg(long, value_name = "PID", conflicts_with = "recorded")]
    pub(super) generator: Option<u32>,

    /// Where the run is written [default: a new directory in weir-runs]
    #[arg(long, value_name = "DIR", conflicts_with = "recorded")]
    pub(super) run: Option<PathBuf>,

    /// Put paths that match this pattern together into one class: * within a segment, ** across; may be repeated, the
    /// first match counts
    #[arg(long, value_name = "PATTERN")]
    pub(super) group: Vec<String>,

    /// Explain from the server's side although a client has recorded its requests
    #[arg(long)]
    pub(super) server_side: bool,

    /// A port that speaks TLS, beside 443 and 8443: its handshakes are told apart from requests
    #[arg(long, value_name = "N")]
    pub(super) tls_port: Vec<u16>,

    /// Objective: 'p99<200ms' (as seen by a client, a status from 500 on misses it), or, as seen by a client only,
    /// 'errors<1%' (such a status, or no whole response); may be repeated
    #[arg(long, value_name = "OBJECTIVE", value_parser = slo)]
    pub(super) slo: Vec<Slo>,

    /// Add the decisions that `weir serve --decisions FILE` made meanwhile to the run's time line, where they stay
    #[arg(long, value_name = "FILE")]
    pub(super) decisions: Option<PathBuf>,

    /// Say which requests moved between nodes of a cluster meanwhile, by the events of a member: a file, or its
    /// cluster's directory; may be repeated for those of other members
    #[arg(long, value_name = "FILE")]
    pub(super) cluster_events: Vec<PathBuf>,

    /// Print the report as JSON (times in nanoseconds)
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the HTML report to this file [default: report.html in the run directory]
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Hand requests on as spans of OpenTelemetry, each with its parts as children: to a receiver (http://HOST:4318) or
    /// into a file, a line of JSON. The 1,000 slowest are handed on, and of the others 1,000 drawn evenly
    #[arg(long, value_name = "FILE|URL")]
    pub(super) otlp: Option<String>,

    /// Lay the spans of existing instrumentation beside the requests: a file of OTLP in JSON, as a collector's file
    /// exporter writes it
    #[arg(long, value_name = "FILE")]
    pub(super) spans: Option<PathBuf>,

    /// Write sampled stacks to this file as folded lines, which flamegraph.pl, inferno and speedscope read
    #[arg(long, value_name = "FILE")]
    pub(super) folded: Option<PathBuf>,

    /// The server to start
    #[arg(last = true, value_name = "SERVER COMMAND", requires = "url")]
    pub(crate) command: Vec<String>,

    // From here on each has a heading of its own in the help.
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(super) sources: crate::sources::SourceArgs,

    #[command(flatten)]
    pub(super) rung: RungArgs,

    #[command(flatten)]
    pub(super) load: LoadArgs,
}
