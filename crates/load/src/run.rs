//! A run: a thread for each loop, and their tallies made into a report.

use crate::connect::kernel::monotonic_ns;
use crate::counts::series::Series;
use crate::counts::slices;
use crate::counts::slices::locked;
use crate::counts::tally::Tally;
use crate::error::system::checked;
use crate::options::control::Control;
use crate::options::settings::Options;
use crate::plan::run_plan::{Plan, Share, shares};
use crate::report::health::{Health, Probe};
use crate::schedule::arrivals::Part;
use crate::{LoadError, LoadReport, Statuses};
use crate::{http1, http2, http3, tunneled, websocket};
use std::time::Duration;

/// From the making of the threads to the first request: longer than making them takes.
const LEAD_NS: u64 = 2_000_000;

/// Makes a run and reports what it found; `control` shows its progress and can end it early.
///
/// # Errors
/// [`LoadError`], if the run cannot be made at all: single failed requests are counted instead.
pub fn run(mut options: Options, control: &Control) -> Result<LoadReport, LoadError> {
    if options.websocket.is_some() {
        options.expected = Statuses::switched();
    }
    let plan = Plan::new(&options)?;
    let spoken = Spoken::new(&options, &plan)?;
    let start = Start { at_ns: monotonic_ns() + LEAD_NS, worker: Part::WHOLE };
    let made = make(&mut options, (&plan, &spoken), control, start)?;
    let series = locked(&control.series).clone();
    Ok(reported(&options, &[made], series))
}

/// When a run begins, and which part of it is made here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// CLOCK_MONOTONIC.
    pub(crate) at_ns: u64,
    pub(crate) worker: Part,
}

/// What one process made of a run; times count from its start.
#[derive(Debug)]
pub struct Made {
    pub(crate) tally: Tally,
    pub(crate) health: Vec<Health>,
    /// When the last loop was over, and when that was known.
    pub(crate) stopped_ns: u64,
    pub(crate) known_ns: u64,
    /// Whether the user wanted an end.
    pub(crate) is_stopped: bool,
    /// Addresses that no connection went to, in words.
    pub(crate) left_out: Vec<String>,
}

/// Makes a run, or this process's part of it.
pub(crate) fn make(
    options: &mut Options,
    (plan, spoken): (&Plan, &Spoken),
    control: &Control,
    start: Start,
) -> Result<Made, LoadError> {
    let (start_ns, cpu) = (start.at_ns, options.cpu);
    let (slices, collector) = slices::channel(options.sampling, options.threads, start_ns);
    let shares = shares(options, start_ns, start.worker, slices);
    tracing::info!(
        hosts = plan.hosts.len(),
        threads = shares.len(),
        version = options.protocol.version(),
        "run begins"
    );
    *locked(&control.series) = Series::new(options.sampling);
    let results: Vec<Result<(Tally, Health, u64), LoadError>> = std::thread::scope(|scope| {
        let run = Run { plan, spoken, control, cpu, start_ns };
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let name = format!("weir-load-{}", share.lane);
                let work = move || {
                    let result = run.drive(share);
                    if result.is_err() {
                        // What ends one loop ends the run.
                        control.stop();
                    }
                    result
                };
                std::thread::Builder::new().name(name).spawn_scoped(scope, work)
            })
            .collect();
        collector.collect(|slice| control.collect(slice));
        threads
            .into_iter()
            .map(|thread| {
                let thread = thread.map_err(|cause| LoadError::System { what: "making a thread", cause })?;
                thread.join().unwrap_or(Err(LoadError::Panicked))
            })
            .collect()
    });
    tracing::info!(is_stopped = control.is_stopped(), "all loops have ended");
    let latency = locked(&control.series).whole().clone();
    let mut tally = Tally { latency, ..Tally::new(options.expected.clone()) };
    let (mut health, mut stopped_ns) = (Vec::new(), 0);
    for result in results {
        let (of_loop, own, end_ns) = result?;
        tally.merge(&of_loop);
        health.push(own);
        stopped_ns = stopped_ns.max(end_ns);
    }
    let since_start = |time_ns: u64| time_ns.saturating_sub(start_ns);
    tally.last_done_ns = since_start(tally.last_done_ns);
    tally.over_ns = since_start(tally.over_ns);
    Ok(Made {
        tally,
        health,
        stopped_ns: since_start(stopped_ns),
        known_ns: since_start(monotonic_ns()),
        is_stopped: control.is_stopped(),
        left_out: plan.hosts.iter().flat_map(|(_, host)| host.told()).collect(),
    })
}

/// The report of a run whose parts were made by one process or several.
pub(crate) fn reported(options: &Options, parts: &[Made], series: Series) -> LoadReport {
    let mut whole = Tally::new(options.expected.clone());
    let mut health = Vec::new();
    let (mut stopped_ns, mut known_ns, mut is_stopped) = (0, 0, false);
    for part in parts {
        whole.merge(&part.tally);
        health.extend_from_slice(&part.health);
        stopped_ns = stopped_ns.max(part.stopped_ns);
        known_ns = known_ns.max(part.known_ns);
        is_stopped |= part.is_stopped;
    }
    let (interrupted, end_ns) = match options.stop.time() {
        Some(time) => {
            let planned = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let cut = stopped_ns < planned || whole.abandoned > 0;
            let interrupted = is_stopped && cut;
            // Where the requests were all made before, the last of them ended the run.
            let by_requests = options.stop.requests().is_some() && !interrupted && known_ns < planned;
            (interrupted, if by_requests { whole.last_done_ns } else { stopped_ns.min(planned) })
        }
        None => (is_stopped, stopped_ns.min(known_ns)),
    };
    let mut report = LoadReport::new(options, whole, &health, 0, end_ns, interrupted);
    report.series = series;
    for words in parts.iter().flat_map(|part| &part.left_out) {
        if !report.warnings.contains(words) {
            report.warnings.push(words.clone());
        }
    }
    report
}

/// What goes out over the version of HTTP that is spoken.
#[derive(Debug)]
pub(crate) enum Spoken {
    Http1,
    Http2(http2::Wire),
    Http3(Box<http3::Wire>),
    WebSocket(websocket::Opening),
    Tunneled(tunneled::Opening),
}

impl Spoken {
    pub(crate) fn new(options: &Options, plan: &Plan) -> Result<Self, LoadError> {
        if let Some(opening) = tunneled::Opening::new(options)? {
            return Ok(Self::Tunneled(opening));
        }
        if let Some(opening) = websocket::Opening::new(options)? {
            return Ok(Self::WebSocket(opening));
        }
        if let Some(wire) = http3::Wire::new(options, &plan.hosts)? {
            return Ok(Self::Http3(Box::new(wire)));
        }
        Ok(http2::Wire::new(options)?.map_or(Self::Http1, Self::Http2))
    }
}

/// What all threads of a run have.
#[derive(Clone, Copy)]
struct Run<'r> {
    plan: &'r Plan,
    spoken: &'r Spoken,
    control: &'r Control,
    /// The CPU of the first thread, if it is to have one.
    cpu: Option<usize>,
    start_ns: u64,
}

impl Run<'_> {
    /// What one thread does: prepares itself, waits for the common start, and runs its loop.
    fn drive(self, mut share: Share) -> Result<(Tally, Health, u64), LoadError> {
        let Self { plan, spoken, control, cpu, start_ns } = self;
        if let Some(first) = cpu {
            pin(first + share.lane as usize)?;
        }
        // Timers are to fire when they are due, not up to 50 us later together with others.
        // SAFETY: the call takes numbers only; where it is refused, timers stay as they were.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let lane = share.lane;
        share.slices.begin();
        let work: Box<dyn FnOnce() -> Result<(Tally, u64), LoadError> + '_> = match spoken {
            Spoken::Http1 => {
                let engine = http1::engine(plan, control, share)?;
                Box::new(move || http1::drive(engine, start_ns))
            }
            Spoken::Http2(wire) => {
                let engine = http2::engine(plan, wire, control, share)?;
                Box::new(move || http2::drive(engine, start_ns))
            }
            Spoken::Http3(wire) => {
                let engine = http3::engine(plan, wire, control, share)?;
                Box::new(move || http3::drive(engine, start_ns))
            }
            Spoken::WebSocket(opening) => {
                let engine = websocket::engine(plan, opening, control, share)?;
                Box::new(move || websocket::drive(engine, start_ns))
            }
            Spoken::Tunneled(opening) => {
                let engine = tunneled::engine(plan, opening, control, share)?;
                Box::new(move || tunneled::drive(engine, start_ns))
            }
        };
        std::thread::sleep(Duration::from_nanos(start_ns.saturating_sub(monotonic_ns())));
        tracing::debug!(lane, "loop connects and sends");
        let probe = Probe::begin();
        let (tally, end_ns) = work().inspect_err(|error| tracing::debug!(lane, %error, "loop failed"))?;
        tracing::debug!(lane, abandoned = tally.abandoned, "loop ended");
        Ok((tally, probe.end(), end_ns))
    }
}

/// Keeps the calling thread on one CPU.
fn pin(cpu: usize) -> Result<(), LoadError> {
    let failed = |cause| LoadError::Cpu { cpu, cause };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(failed(std::io::ErrorKind::InvalidInput.into()));
    }
    // SAFETY: an all-zero set is the empty set, and the CPU lies within it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    };
    // SAFETY: the set outlives the call and its size is given; 0 is the calling thread.
    checked(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }).map_err(failed)?;
    Ok(())
}
