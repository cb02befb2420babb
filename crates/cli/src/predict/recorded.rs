//! The run that a prediction is made of.

use std::path::{Path, PathBuf};
use weir_explain::View;
use weir_measure::class::Grouping;
use weir_predict::Trace;

/// The run that is meant.
pub(super) fn run_of(named: Option<&PathBuf>, command: &str) -> Option<PathBuf> {
    let run = named.cloned().or_else(weir_record::run_directory::last);
    if run.is_none() {
        eprintln!(
            "weir {command}: no run in weir-runs; make one by weir explain --load URL --port N --rate R (see `weir {command} --help`)"
        );
    }
    run
}

/// What its requests did.
pub(super) fn read(run: &Path) -> anyhow::Result<Trace> {
    weir_explain::trace_of(run, Grouping::new(Vec::new()), &View::default())
}
