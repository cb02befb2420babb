//! A worker's part of a run, made ready before its start is known.

use crate::counts::histogram::histogram;
use crate::options::control::Control;
use crate::options::settings::Options;
use crate::plan::run_plan::Plan;
use crate::run::Spoken;
use crate::run::{Made, Start, make};
use crate::schedule::arrivals::Part;
use crate::workers::bounds::WORKERS_MAX;
use crate::workers::error::WorkersError;
use crate::workers::frame::Job;
use crate::{LoadError, Sampling};
use std::time::Duration;

/// The longest run by workers: 12 days.
const LONGEST: Duration = Duration::from_secs(12 * 86_400);

/// A worker's part of a run, whose options are checked, hosts resolved and requests built.
#[derive(Debug)]
pub struct Prepared {
    options: Options,
    plan: Plan,
    spoken: Spoken,
    part: Part,
}

/// Whether so many workers can share a run.
///
/// # Errors
/// [`WorkersError`], with the option that they cannot share.
pub fn check_split(options: &Options, workers: usize) -> Result<(), WorkersError> {
    if workers == 0 || workers > WORKERS_MAX {
        return Err(WorkersError::Count { given: workers, most: WORKERS_MAX });
    }
    let loops = workers as u64 * u64::from(options.threads);
    if u64::from(options.connections) < loops {
        return Err(WorkersError::Connections {
            connections: options.connections,
            workers: workers as u64,
            threads: options.threads,
            loops,
        });
    }
    let wrong = |option, why| Err(WorkersError::Option { option, why });
    if options.stop.time().is_some_and(|time| time > LONGEST) {
        return wrong("-d", "a run by workers takes at most 12 days");
    }
    if options.cpu.is_some() {
        return wrong("--cpu", "workers have CPUs of their own; pin them where they are started (taskset)");
    }
    if !options.reach.sources.is_empty() {
        return wrong("--source", "these are addresses of one host; leave it out");
    }
    if options.reach.unix.is_some() {
        return wrong("--unix", "this is a socket of one host; leave it out, or load from that host alone");
    }
    if options.websocket.is_some() {
        return wrong("ws://", "messages over WebSockets are sent by one generator; leave --workers out");
    }
    if options.grpc.is_some() {
        return wrong("grpc://", "calls of gRPC are made by one generator; leave --workers out");
    }
    if options.streaming.is_some() {
        return wrong("--stream", "streamed answers are looked at by one generator; leave one of both out");
    }
    if options.requests.mix.as_ref().is_some_and(|mix| mix.crowd.is_some()) {
        return wrong("--flash-crowd", "its clients are drawn by one generator; leave it out, or load from one host");
    }
    Ok(())
}

impl Prepared {
    /// Makes a worker's part of a run ready; `options` are those of the whole run.
    ///
    /// # Errors
    /// [`LoadError`], if that part cannot be run here.
    pub fn new(mut options: Options, job: &Job) -> Result<Self, LoadError> {
        let part = Part { worker: job.worker, workers: job.workers };
        options.connections = part.of(u64::from(options.connections)) as u32;
        options.queue = part.of(options.queue as u64) as usize;
        options.sampling = Sampling {
            interval: Duration::from_nanos(job.interval_ns),
            points_max: usize::try_from(job.points_max).unwrap_or(usize::MAX),
        };
        let plan = Plan::new(&options)?;
        let spoken = Spoken::new(&options, &plan)?;
        Ok(Self { options, plan, spoken, part })
    }

    /// What this part asks, before it runs.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Makes it, from `at_ns` of CLOCK_MONOTONIC on.
    ///
    /// # Errors
    /// [`LoadError`], if it cannot be made at all.
    pub fn make(mut self, at_ns: u64, control: &Control) -> Result<Made, LoadError> {
        let start = Start { at_ns, worker: self.part };
        // A queue of no arrivals is the whole run's last resort, and a loop without any request is over at once.
        make(&mut self.options, (&self.plan, &self.spoken), control, start)
    }
}

impl Made {
    /// What a part says that did nothing; for tests of what goes from host to host.
    #[doc(hidden)]
    #[must_use]
    pub fn empty() -> Self {
        Self {
            tally: crate::counts::tally::Tally {
                latency: histogram(),
                ..crate::counts::tally::Tally::new(crate::Statuses::default())
            },
            health: Vec::new(),
            stopped_ns: 0,
            known_ns: 0,
            is_stopped: false,
            left_out: Vec::new(),
        }
    }
}
