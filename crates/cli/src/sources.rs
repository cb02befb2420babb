//! The sources of events beside the spine that a user may ask for, by option.

use crate::arm_source::Subscription;
use crate::probe_options::ProbeArgs;
use crate::watch::WatchArgs;
use anyhow::bail;
use weir_capture::{EventSource, MOST_HZ, Probes, Samples, Target};

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
}

impl SourceArgs {
    /// Loads all sources that were asked for, for the spine's targets; a rung without probes has none.
    ///
    /// Call it before a run is made, so that a refusal leaves no run behind. `just_started` says that the
    /// server may not yet have mapped all of its files.
    pub(crate) fn load(
        &self,
        probes: Option<&Probes>,
        target: &Target,
        just_started: bool,
    ) -> anyhow::Result<Vec<Box<dyn EventSource>>> {
        let Some(loaded) = probes else {
            if let Some(option) = self.given() {
                bail!("{option} needs the kernel's probes, which this rung does without (see --rung)");
            }
            return Ok(Vec::new());
        };
        let mut sources: Vec<Box<dyn EventSource>> = Vec::new();
        if let Some(hz) = self.stacks {
            sources.push(Box::new(Samples::load(loaded, hz)?));
            // What they will lack of the server is said at once, not when the recording is over.
            if let Some(missing) = weir_capture::missing_of_stacks(&target.pids) {
                eprintln!("weir: {missing}");
            }
        }
        sources.extend(self.probes.load(loaded, target, just_started)?);
        sources.extend(self.watch.load(loaded)?);
        Ok(sources)
    }

    /// Has the agent tell of transactions, if that was asked for; likewise before a run is made.
    pub(crate) fn transactions(&self) -> anyhow::Result<Option<Subscription>> {
        self.arm.then(Subscription::open).transpose()
    }

    /// One of these options that was given, if any was.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let stacks = self.stacks.map(|_| "--stacks");
        stacks.or(self.arm.then_some("--arm")).or_else(|| self.probes.given()).or_else(|| self.watch.given())
    }
}
