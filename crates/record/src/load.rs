//! A load whose events are written to a run directory.

use crate::names::number_names;
use anyhow::anyhow;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_load::{LoadError, LoadReport, Options, Order, Schedule};
use weir_trace::{Run, Source, pump};

/// Slots of each thread's ring: a third of a second of the fastest load seen, at three slots a request.
const RING_SLOTS: usize = 1 << 17;

/// Has `drive` run a load, and writes its events to the run meanwhile.
///
/// # Errors
/// The load fails, or the run cannot be written.
pub fn into_run(
    mut options: Options,
    run: &Run,
    drive: impl FnOnce(Options) -> Result<LoadReport, LoadError>,
) -> anyhow::Result<LoadReport> {
    let names = number_names(&mut options);
    let mix = options.requests.mix.as_ref().map(|mix| mix.seed);
    let seed = mix.or(match (&options.schedule, &options.requests.order) {
        (Schedule::Poisson { seed, .. }, _) | (_, Order::Weighted { seed }) => Some(*seed),
        _ => None,
    });
    let (producers, mut consumers): (Vec<_>, Vec<_>) =
        (0..options.threads).map(|_| weir_wire::ring(RING_SLOTS)).unzip();
    options.events = producers;
    let unjoinable = unjoinable(&options);
    run.begin(Source::Client, weir_terminal::VERSION, weir_terminal::privacy::command_line(), None, seed)?;
    let over = AtomicBool::new(false);
    let (report, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| pump(run, Source::Client, &mut consumers, &names, &over));
        let report = drive(options);
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

/// Why the requests of a run cannot be found again at the server, if that is so.
fn unjoinable(options: &Options) -> Option<String> {
    let reach = &options.reach;
    if let Some(path) = &reach.unix {
        let path = path.display();
        return Some(format!(
            "the load went over the Unix socket {path}, which has no addresses: its requests cannot be joined with what \
             the server did for them; load it over TCP for that"
        ));
    }
    let proxy = reach.proxy.as_ref()?;
    Some(format!(
        "the load went through the proxy {proxy}, where its connections end: its requests can be joined with what the \
         proxy did for them, but not with what the server behind it did"
    ))
}
