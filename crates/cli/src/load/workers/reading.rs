//! How a worker makes its part of a run out of the words and files that were sent.

use super::super::args::Args;
use super::super::files::{Copies, Files};
use super::super::usage::Usage;
use super::limits::Limits;
use super::words;
use clap::FromArgMatches;
use weir_load::workers::{Job, PartError, Prepared};
use weir_record::ClientEvents;

/// A part that can begin, and its events where they are to be recorded.
pub(super) struct Part {
    pub(super) prepared: Prepared,
    pub(super) events: Option<ClientEvents>,
}

/// Prepares a job.
pub(super) fn prepare(job: &Job, copies: Copies, limits: &Limits) -> Result<Part, PartError> {
    read(job, copies, limits).map_err(|Usage(error)| PartError::Options {
        words: weir_terminal::output::causes(&error).trim_end().to_owned(),
    })
}

fn read(job: &Job, copies: Copies, limits: &Limits) -> Result<Part, Usage> {
    let matches = words::taken(&job.words)?;
    let args = Args::from_arg_matches(&matches)?;
    // The files of certificates are read when the part is prepared.
    let files = Files::Sent(copies);
    let mut options = args.load.options_of(args.url.as_deref(), &files)?;
    args.judge.apply(&mut options)?;
    let events = job.is_recorded.then(|| ClientEvents::of(&mut options));
    let prepared = Prepared::new(options, job)?;
    limits.check(prepared.options(), job.workers)?;
    drop(files);
    Ok(Part { prepared, events })
}
