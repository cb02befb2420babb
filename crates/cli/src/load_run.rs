//! A load whose events are written to a run directory.

use crate::load::{Watch, number_names, watched};
use crate::stop::Stop;
use anyhow::anyhow;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_load::{LoadReport, Options, Order, Schedule};
use weir_trace::{Run, Source, pump};

/// Slots of each thread's ring: a third of a second of the fastest load seen, at three slots a request.
const RING_SLOTS: usize = 1 << 17;

/// Runs a load and writes its events to the run.
pub(crate) fn into_run(mut options: Options, run: &Run, stop: &Stop, watch: &Watch) -> anyhow::Result<LoadReport> {
    let names = number_names(&mut options);
    let mix = options.requests.mix.as_ref().map(|mix| mix.seed);
    let seed = mix.or(match (&options.schedule, &options.requests.order) {
        (Schedule::Poisson { seed, .. }, _) | (_, Order::Weighted { seed }) => Some(*seed),
        _ => None,
    });
    let (producers, mut consumers): (Vec<_>, Vec<_>) =
        (0..options.threads).map(|_| weir_wire::ring(RING_SLOTS)).unzip();
    options.events = producers;
    let unjoinable = crate::load::reach::unjoinable(&options);
    run.begin(Source::Client, crate::VERSION, crate::privacy::command_line(), None, seed)?;
    let over = AtomicBool::new(false);
    let (report, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| pump(run, Source::Client, &mut consumers, &names, &over));
        let report = watched(options, stop, watch);
        over.store(true, Ordering::Release);
        (report, writer.join())
    });
    let cost = written.map_err(|_| anyhow!("the writer of the run ended by a defect; please report it"))??;
    let mut report = report?;
    report.warnings.extend(unjoinable);
    // What the generator knows of its own trouble belongs to every later reading of the run.
    run.end(Source::Client, cost, report.warnings.clone())?;
    Ok(report)
}
