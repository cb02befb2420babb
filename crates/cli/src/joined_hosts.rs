//! The runs of several hosts as one run on one clock: joined once, and kept beside the first of them.

use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use weir_terminal::stop::Stop;
use weir_tiles::Places;
use weir_trace::{JoinedHosts, RunReader};

/// Raised when joined runs are made in another way: kept ones of before are then made anew.
const VERSION: u32 = 2;
/// A part that a process still writes is younger.
const PART_IS_OLD: Duration = Duration::from_secs(86_400);

/// What a command reads: a run, or those of several hosts as one.
pub(crate) struct OneRun {
    pub(crate) directory: PathBuf,
    /// Where the joined run cannot be kept it is removed in the end.
    _for_now: Option<TempDir>,
}

/// The run that a user names, or the runs of several hosts joined into one: those that a directory of `weir record
/// --host` holds, or the named run with `others`. `None` if the user ended it.
///
/// # Errors
/// The runs cannot be read or put on one clock, or there is no room for the joined run.
pub(crate) fn one(command: &str, named: &Path, others: &[PathBuf]) -> anyhow::Result<Option<OneRun>> {
    let mut all = vec![named.to_owned()];
    all.extend_from_slice(others);
    let runs = weir_explain::runs_of(&all)?;
    if let [run] = &runs[..] {
        return Ok(Some(OneRun { directory: run.clone(), _for_now: None }));
    }
    let Some(first) = runs.first() else { anyhow::bail!("{}: names no host's run", named.display()) };
    let derived = first.join("derived");
    let kept = derived.join(name_of(&runs)?);
    if let Ok(Some(joined)) = JoinedHosts::read(&kept) {
        warn(command, &joined.warnings);
        return Ok(Some(OneRun { directory: kept, _for_now: None }));
    }
    let _may_be_read_only = fs::create_dir(&derived);
    let folder = tempfile::Builder::new().prefix("joined-part-").tempdir_in(&derived).or_else(|_| tempfile::tempdir());
    let folder = folder.context("the runs of several hosts are joined into one, for which there is no room")?;
    let run = folder.path().join("run");
    // Without signals there is still an end: the second Ctrl-C's default.
    let stop = Stop::on_signals().ok();
    let mut line = weir_terminal::progress::Line::new();
    let mut go_on = |records: u64| {
        line.show(|| format!("joining the hosts' runs, once: {records} events (Ctrl-C stops)"));
        !stop.as_ref().is_some_and(Stop::asked)
    };
    let Some(joined) = weir_explain::joined(&runs, &run, &mut go_on)? else { return Ok(None) };
    drop(line);
    warn(command, &joined.warnings);
    // Another process may have been first, whose run may be read already.
    if fs::exists(&kept).unwrap_or_default() && JoinedHosts::read(&kept).is_ok_and(|hosts| hosts.is_some()) {
        return Ok(Some(OneRun { directory: kept, _for_now: None }));
    }
    forget_others(&derived);
    if folder.path().parent() == Some(&derived) && fs::rename(&run, &kept).is_ok() {
        return Ok(Some(OneRun { directory: kept, _for_now: None }));
    }
    Ok(Some(OneRun { directory: run, _for_now: Some(folder) }))
}

fn warn(command: &str, warnings: &[String]) {
    warnings.iter().for_each(|warning| eprintln!("weir {command}: {warning}"));
}

/// The name of the joined run: what the runs hold, and their order, are in it.
fn name_of(runs: &[PathBuf]) -> anyhow::Result<String> {
    let mut all = 0u64;
    for run in runs {
        let places = Places::of(&RunReader::open(run)?)?;
        all = all.rotate_left(7) ^ places.fingerprint();
    }
    Ok(format!("joined-{VERSION}-{all:016x}"))
}

/// Removes what was joined of other contents, or with other hosts, and what was never finished.
fn forget_others(derived: &Path) {
    for entry in fs::read_dir(derived).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        let at_work = name.starts_with("joined-part-") && age.is_none_or(|age| age < PART_IS_OLD);
        if name.starts_with("joined-") && !at_work {
            // It is of no use any more, and of no harm where it cannot be removed.
            let _left = fs::remove_dir_all(entry.path());
        }
    }
}
