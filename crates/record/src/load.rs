//! A load whose events are written to a run directory.

use crate::names::number_names;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_load::{LoadError, LoadReport, Options, Order, Schedule};
use weir_trace::{Run, Source, WriteError, pump};
use weir_wire::Consumer;

/// Slots of each thread's ring: a third of a second of the fastest load seen, at three slots a request.
const RING_SLOTS: usize = 1 << 17;

/// A load that was written to a run.
#[derive(Debug)]
pub struct Written<T> {
    /// What the load came to.
    pub made: T,
    /// Why its events are not all in the run, where they are not: the load went on all the same.
    pub unwritten: Option<UnwrittenError>,
}

/// Why the events of a load are not all in a run.
#[derive(Debug, thiserror::Error)]
pub enum UnwrittenError {
    /// The run cannot be written.
    #[error(transparent)]
    Run(#[from] WriteError),
    /// The thread that writes ended by a defect.
    #[error("the writer of the run ended by a defect; please report it")]
    Panicked,
}

/// The events of a load on their way into a run.
#[derive(Debug)]
pub struct ClientEvents {
    rings: Vec<Consumer>,
    names: Vec<String>,
    seed: Option<u64>,
    unjoinable: Option<String>,
}

impl ClientEvents {
    /// Has a load of these options tell its events. Requests get the numbers of their names here, so this comes before they
    /// are put together.
    #[must_use]
    pub fn of(options: &mut Options) -> Self {
        let names = number_names(options);
        let mix = options.requests.mix.as_ref().map(|mix| mix.seed);
        let seed = mix.or(match (&options.schedule, &options.requests.order) {
            (Schedule::Poisson { seed, .. }, _) | (_, Order::Weighted { seed }) => Some(*seed),
            _ => None,
        });
        let (producers, rings) = (0..options.threads).map(|_| weir_wire::ring(RING_SLOTS)).unzip();
        options.events = producers;
        Self { rings, names, seed, unjoinable: unjoinable(options) }
    }

    /// Has `drive` make the load, and writes its events to the run meanwhile; `remarks` are what it says of its own trouble.
    /// Events that find no place are counted as lost and hold the load up in no way.
    ///
    /// # Errors
    /// [`WriteError`], where the run cannot be begun: then the load is not made.
    pub fn written<T>(
        self,
        run: &Run,
        drive: impl FnOnce() -> T,
        remarks: impl FnOnce(&T) -> Vec<String>,
    ) -> Result<Written<T>, WriteError> {
        let Self { mut rings, names, seed, unjoinable } = self;
        run.begin(Source::Client, weir_terminal::VERSION, weir_terminal::privacy::command_line(), None, seed)?;
        let over = AtomicBool::new(false);
        let (made, pumped) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| pump(run, Source::Client, &mut rings, &names, &over));
            let made = drive();
            over.store(true, Ordering::Release);
            (made, writer.join())
        });
        // What the generator knows of its own trouble belongs to every later reading of the run.
        let end = |cost| run.end(Source::Client, cost, remarks(&made).into_iter().chain(unjoinable).collect());
        let ended = pumped.map_err(|_| UnwrittenError::Panicked).and_then(|cost| Ok(end(cost?)?));
        Ok(Written { made, unwritten: ended.err() })
    }
}

/// Has `drive` run a load, and writes its events to the run meanwhile.
///
/// # Errors
/// The load fails, or the run cannot be begun.
pub fn into_run(
    mut options: Options,
    run: &Run,
    drive: impl FnOnce(Options) -> Result<LoadReport, LoadError>,
) -> anyhow::Result<Written<LoadReport>> {
    let events = ClientEvents::of(&mut options);
    let unjoinable = events.unjoinable.clone();
    let remarks =
        |made: &Result<LoadReport, LoadError>| made.as_ref().map_or_else(|_| Vec::new(), |made| made.warnings.clone());
    let Written { made, unwritten } = events.written(run, || drive(options), remarks)?;
    let mut made = made?;
    made.warnings.extend(unjoinable);
    Ok(Written { made, unwritten })
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
