//! A run: a thread for each loop, and their tallies made into a report.

use crate::connect::kernel::monotonic_ns;
use crate::counts::series::Series;
use crate::counts::slices;
use crate::counts::slices::locked;
use crate::counts::tally::Tally;
use crate::error::system::checked;
use crate::http2::Wire;
use crate::options::control::Control;
use crate::options::settings::Options;
use crate::plan::run_plan::{Plan, Share, shares};
use crate::report::health::{Health, Probe};
use crate::{LoadError, LoadReport};
use crate::{http1, http2};
use std::time::Duration;

/// From the making of the threads to the first request: longer than making them takes.
const LEAD_NS: u64 = 2_000_000;

/// Makes a run and reports what it found; `control` shows its progress and can end it early.
///
/// # Errors
/// [`LoadError`], if the run cannot be made at all: single failed requests are counted instead.
pub fn run(mut options: Options, control: &Control) -> Result<LoadReport, LoadError> {
    let plan = Plan::new(&options)?;
    let wire = Wire::new(&options)?;
    let start_ns = monotonic_ns() + LEAD_NS;
    let cpu = options.cpu;
    let (slices, collector) = slices::channel(options.sampling, options.threads, start_ns);
    let shares = shares(&mut options, start_ns, slices);
    tracing::info!(hosts = plan.hosts.len(), threads = shares.len(), is_http2 = wire.is_some(), "run begins");
    *locked(&control.series) = Series::new(options.sampling);
    let results: Vec<Result<(Tally, Health, u64), LoadError>> = std::thread::scope(|scope| {
        let (plan, wire) = (&plan, wire.as_ref());
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let name = format!("weir-load-{}", share.lane);
                let work = move || {
                    let result = drive(plan, wire, control, share, cpu, start_ns);
                    if result.is_err() {
                        // What ends one loop ends the run.
                        control.stop();
                    }
                    result
                };
                std::thread::Builder::new().name(name).spawn_scoped(scope, work)
            })
            .collect();
        collector.collect(&control.series);
        threads
            .into_iter()
            .map(|thread| {
                let thread = thread.map_err(|cause| LoadError::System { what: "making a thread", cause })?;
                thread.join().unwrap_or(Err(LoadError::Panicked))
            })
            .collect()
    });
    tracing::info!(is_stopped = control.is_stopped(), "all loops have ended");
    let series = locked(&control.series).clone();
    let mut whole = Tally { latency: series.whole().clone(), ..Tally::new(options.expected.clone()) };
    let mut health = Vec::new();
    let mut stopped_ns = 0;
    for result in results {
        let (tally, own, end_ns) = result?;
        whole.merge(&tally);
        health.push(own);
        stopped_ns = stopped_ns.max(end_ns);
    }
    let (interrupted, end_ns) = match options.stop.time() {
        Some(time) => {
            let planned = start_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            let cut = stopped_ns < planned || whole.abandoned > 0;
            let interrupted = control.is_stopped() && cut;
            // Where the requests were all made before, the last of them ended the run.
            let by_requests = options.stop.requests().is_some() && !interrupted && monotonic_ns() < planned;
            (interrupted, if by_requests { whole.last_done_ns } else { stopped_ns.min(planned) })
        }
        None => (control.is_stopped(), stopped_ns.min(monotonic_ns())),
    };
    let mut report = LoadReport::new(&options, whole, &health, start_ns, end_ns, interrupted);
    report.series = series;
    report.warnings.extend(plan.hosts.iter().flat_map(|(_, host)| host.left_out()));
    Ok(report)
}

/// What one thread does: prepares itself, waits for the common start, and runs its loop.
fn drive(
    plan: &Plan,
    wire: Option<&Wire>,
    control: &Control,
    mut share: Share,
    cpu: Option<usize>,
    start_ns: u64,
) -> Result<(Tally, Health, u64), LoadError> {
    if let Some(first) = cpu {
        pin(first + share.lane as usize)?;
    }
    // Timers are to fire when they are due, not up to 50 us later together with others.
    // SAFETY: the call takes numbers only; where it is refused, timers stay as they were.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let lane = share.lane;
    share.slices.begin();
    let work: Box<dyn FnOnce() -> Result<(Tally, u64), LoadError> + '_> = match wire {
        None => {
            let engine = http1::engine(plan, control, share)?;
            Box::new(move || http1::drive(engine, start_ns))
        }
        Some(wire) => {
            let engine = http2::engine(plan, wire, control, share)?;
            Box::new(move || http2::drive(engine, start_ns))
        }
    };
    std::thread::sleep(Duration::from_nanos(start_ns.saturating_sub(monotonic_ns())));
    tracing::debug!(lane, "loop connects and sends");
    let probe = Probe::begin();
    let (tally, end_ns) = work().inspect_err(|error| tracing::debug!(lane, %error, "loop failed"))?;
    tracing::debug!(lane, abandoned = tally.abandoned, "loop ended");
    Ok((tally, probe.end(), end_ns))
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
