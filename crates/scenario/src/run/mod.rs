//! A run: many users as one director of [`weir_load`].

mod asking;
mod director;
mod flow;
mod handle;
mod incoming;
mod outgoing;
mod plan;
mod report;
mod scripts;
mod sockets;
mod timers;
mod user;
mod words;

pub use handle::Handle;
pub use plan::{Reaching, RunError, RunPlan};
pub use report::{Cause, Ended, Lateness, Report, ScenarioCounts};

use crate::behaviour::Maker;
use crate::metrics::Shared;
use director::Runner;
use incoming::Watch;
use std::sync::{Arc, Mutex, PoisonError};
use weir_load::LoadReport;

/// Makes a run and reports what it found; `handle` shows its progress and can end it.
///
/// # Errors
/// [`RunError`], if the run cannot be made, or ends because a user's behaviour cannot be made.
pub fn run(
    plan: RunPlan,
    maker: Box<dyn Maker>,
    metrics: &Shared,
    handle: &Arc<Handle>,
) -> Result<(Report, LoadReport), RunError> {
    plan.check()?;
    let mut options = plan.options()?;
    let watch = Watch::default();
    let told = Arc::new(Mutex::new(None));
    let runner = Runner::new(plan, maker, metrics.clone(), Arc::clone(handle), watch.clone(), Arc::clone(&told));
    options.observers = vec![Box::new(watch)];
    options.directed = Some(runner.directed());
    let load = weir_load::run(options, &handle.control)?;
    let told = told.lock().unwrap_or_else(PoisonError::into_inner).take();
    let report = told.ok_or(RunError::Cut)?;
    match &report.ended {
        Ended::Unmade(failure) => Err(RunError::Unmade(failure.clone())),
        _ => Ok((report, load)),
    }
}
