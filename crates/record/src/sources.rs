//! The sources of events beside the spine.

use crate::transactions::Subscription;
use crate::user_probes::ProbesOfPrograms;
use anyhow::bail;
use weir_capture::asked::Questions;
use weir_capture::http2::HeadTraces;
use weir_capture::{EventSource, Probes, Samples, Target, TraceHeaders, Watch, Watched, Windows, in_pid_namespace};

/// What else is recorded.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Samples of stacks each second, on each CPU.
    pub stacks_hz: Option<u32>,
    /// What the server asks behind is told on the wire.
    pub questions: bool,
    /// The traces that requests name in their heads.
    pub trace_headers: bool,
    /// Transactions that applications report to the agent.
    pub transactions: bool,
    /// Probes in the server's own programs.
    pub programs: ProbesOfPrograms,
    /// What is watched beside scheduler and sockets.
    pub watched: Vec<Watched>,
    /// Watch only in windows.
    pub windows: Option<Windows>,
    /// One of the options that asked for this, if any did.
    pub asked_by: Option<&'static str>,
}

impl Sources {
    /// Loads all sources, for the spine's targets; a rung without probes has none.
    ///
    /// Call it before a run is made, so that a refusal leaves no run behind. `just_started` says that the
    /// server may not yet have mapped all of its files.
    pub(crate) fn load(
        &self,
        probes: Option<&mut Probes>,
        target: &Target,
        just_started: bool,
    ) -> anyhow::Result<Vec<Box<dyn EventSource>>> {
        let Some(loaded) = probes else {
            if let Some(option) = self.asked_by {
                bail!("{option} needs the kernel's probes, which this rung does without (see --rung)");
            }
            return Ok(Vec::new());
        };
        if in_pid_namespace() && (self.stacks_hz.is_some() || !self.watched.is_empty()) {
            bail!(
                "in a pid namespace of its own weir tells neither stacks nor what --watch tells: their numbers of tasks are the host's; leave --stacks and --watch out, or run it in the host's namespace (docker run --pid=host)"
            );
        }
        let mut sources: Vec<Box<dyn EventSource>> = Vec::new();
        if let Some(hz) = self.stacks_hz {
            sources.push(Box::new(Samples::load(loaded, hz)?));
            // What they will lack of the server is said at once, not when the recording is over.
            if let Some(missing) = weir_capture::missing_of_stacks(&target.pids) {
                eprintln!("weir: {missing}");
            }
        }
        sources.extend(self.programs.load(loaded, target, &self.watched, just_started)?);
        let traces = if self.trace_headers { HeadTraces::Read } else { HeadTraces::Left };
        sources.push(self.programs.streams(loaded, target, traces));
        // Before the questions, whose events it takes those from that are its own.
        if self.trace_headers {
            sources.push(Box::new(TraceHeaders::load(loaded)));
        }
        if self.questions {
            sources.push(Box::new(Questions::load(loaded, self.programs.keep_queries)));
        }
        sources.extend(Watch::load(loaded, &self.watched, self.windows)?);
        Ok(sources)
    }

    /// Has the agent tell of transactions, if that was asked for; likewise before a run is made.
    pub(crate) fn subscribe(&self) -> anyhow::Result<Option<Subscription>> {
        self.transactions.then(Subscription::open).transpose()
    }
}
