//! The sources of events beside the spine that a user may ask for, by option.

use anyhow::bail;
use weir_capture::{EventSource, MOST_HZ, Probes, Samples, Target};

/// What else to record.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct SourceArgs {
    /// Sample stacks as well, on the CPUs and off them, so many times a second of each CPU
    #[arg(
        long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "99",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_HZ))
    )]
    pub(crate) stacks: Option<u32>,
}

impl SourceArgs {
    /// Loads the sources that were asked for, which share the spine's targets; a rung without probes has none. What
    /// they will lack of the server is said at once, not when the recording is over.
    pub(crate) fn load(&self, probes: Option<&Probes>, target: &Target) -> anyhow::Result<Vec<Box<dyn EventSource>>> {
        let Some(probes) = probes else {
            if *self != Self::default() {
                bail!(
                    "stacks and other sources beside the rung need the kernel's probes, which this rung does without (see --rung)"
                );
            }
            return Ok(Vec::new());
        };
        let mut sources: Vec<Box<dyn EventSource>> = Vec::new();
        if let Some(hz) = self.stacks {
            sources.push(Box::new(Samples::load(probes, hz)?));
            if let Some(missing) = weir_capture::missing_of_stacks(&target.pids) {
                eprintln!("weir: {missing}");
            }
        }
        Ok(sources)
    }
}
