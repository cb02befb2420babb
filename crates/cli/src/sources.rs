//! The sources of events beside the spine that a user may ask for, by option.

use crate::probe_options::ProbeArgs;
use crate::watch::WatchArgs;
use weir_capture::MOST_HZ;
use weir_record::Sources;

/// What else to record.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "What else to record")]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    probes: ProbeArgs,

    #[command(flatten)]
    watch: WatchArgs,

    /// Sample stacks as well, on the CPUs and off them, HZ times a second on each CPU; 99 times without a number
    #[arg(
        long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "99",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_HZ))
    )]
    stacks: Option<u32>,

    /// Record the transactions that applications report to the agent (ARM): classes of requests, and phases within them
    #[arg(long)]
    arm: bool,

    /// Do not read what the server asks databases, caches, name servers and other web servers: by default the first 504
    /// bytes of each question and 280 of each answer are looked at, and its shape is kept without values
    #[arg(long)]
    no_questions: bool,

    /// Read the field traceparent of requests, in the clear and over TLS, so that spans of `weir explain --otlp` stand below
    /// their callers': the first 1,008 bytes of what the server takes are looked at, of HTTP/2 the heads, and that field
    /// alone is kept
    #[arg(long)]
    trace_headers: bool,
}

impl SourceArgs {
    /// What they come to.
    pub(crate) fn sources(&self) -> Sources {
        let (watched, windows) = self.watch.watched();
        Sources {
            stacks_hz: self.stacks,
            questions: !self.no_questions,
            trace_headers: self.trace_headers,
            transactions: self.arm,
            programs: self.probes.probes(),
            watched,
            windows,
            asked_by: self.given(),
        }
    }

    /// One of these options that was given, if any was.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let stacks = self.stacks.map(|_| "--stacks");
        let trace_headers = self.trace_headers.then_some("--trace-headers");
        stacks
            .or(self.arm.then_some("--arm"))
            .or(trace_headers)
            .or_else(|| self.probes.given())
            .or_else(|| self.watch.given())
    }
}
