//! Probes in the server's own programs.

use std::time::{Duration, Instant};
use weir_capture::http2::{HeadTraces, Streams};
use weir_capture::user_probes::{Plan, Programs, Release, UserProbes, Wanted};
use weir_capture::{EventSource, Probes, Target, Watched, tree};

/// A server that was just started maps its modules within this time.
const MAPPED: Duration = Duration::from_secs(3);

/// Whether probes are set at the edge of the server's TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsProbes {
    /// At all that are known.
    #[default]
    Set,
    /// At none: what goes over TLS has no names, and its streams are not told apart.
    Left,
}

/// Probes in the server's own programs.
#[derive(Debug, Clone, Default)]
pub struct ProbesOfPrograms {
    /// Which.
    pub wanted: Wanted,
    /// Queries and names of requests are kept whole.
    pub keep_queries: bool,
    /// Those at the edge of TLS.
    pub tls: TlsProbes,
}

impl ProbesOfPrograms {
    /// The source of streams of HTTP/2, and of the names of requests over TLS; says where it sets probes.
    pub(crate) fn streams(&self, probes: &mut Probes, target: &Target, traces: HeadTraces) -> Box<dyn EventSource> {
        if self.tls == TlsProbes::Left {
            return Box::new(Streams::in_the_clear(self.keep_queries, traces));
        }
        let programs = Programs::of(target.pids.iter().flat_map(|pid| tree(*pid)));
        let streams = Streams::load(probes, &programs, self.keep_queries, traces).unwrap_or_else(|error| {
            eprintln!("weir: streams of HTTP/2 over TLS are not told apart: {error}");
            Streams::in_the_clear(self.keep_queries, traces)
        });
        for note in streams.notes() {
            eprintln!("weir: {note}");
        }
        Box::new(streams)
    }

    /// The source for what is wanted and for what runtimes tell of the waits that are `watched` for, none if nothing is;
    /// says what it sets and what it left out.
    ///
    /// `just_started` says that the server may not yet have mapped all of its files.
    pub(crate) fn load(
        &self,
        probes: &Probes,
        target: &Target,
        watched: &[Watched],
        just_started: bool,
    ) -> anyhow::Result<Option<Box<dyn EventSource>>> {
        let wanted = &Wanted { watched: watched.to_vec(), ..self.wanted.clone() };
        // What is recorded without being asked for is not waited for.
        let waits = just_started && !wanted.is_empty();
        let deadline = Instant::now() + if waits { MAPPED } else { Duration::ZERO };
        let plan = loop {
            let programs = Programs::of(target.pids.iter().flat_map(|pid| tree(*pid)));
            match Plan::of(wanted, &programs, Release::running()) {
                Ok(plan) if !plan.sites.is_empty() || Instant::now() >= deadline => break plan,
                Err(error) if Instant::now() >= deadline => return Err(error.into()),
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        };
        for note in &plan.notes {
            eprintln!("weir: {note}");
        }
        if plan.sites.is_empty() && wanted.is_empty() {
            return Ok(None);
        }
        if plan.sites.is_empty() {
            eprintln!("weir: no pack fits what the server runs: no phases and no queries are recorded");
            return Ok(None);
        }
        match UserProbes::load(probes, plan, self.keep_queries) {
            Ok(loaded) => Ok(Some(Box::new(loaded))),
            Err(error) if wanted.is_empty() => {
                eprintln!(
                    "weir: what the server's own program tells of its rules or its waits is not recorded: {error}"
                );
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
