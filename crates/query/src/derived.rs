//! Tables that are made once of the whole recording, and kept in the run's folder `derived`.

use crate::decisions::Decisions;
use crate::error::QueryError;
use crate::hosts::Hosts;
use crate::objects::Objects;
use crate::progress::{Progress, Watch};
use crate::requests::Requests;
use crate::run_row::RunRow;
use crate::schema::Group;
use crate::stacks::Samples;
use crate::tasks::Tasks;
use rusqlite::{Connection, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use weir_objects::Table;
use weir_tiles::Places;
use weir_timeline::{Bounds, Joiner};
use weir_trace::{Damage, RunReader, Sourced, holds_several};

/// Names of the rungs on which a request's data may arrive untold, as the collector notes them in a run.
pub const MISSING_ARRIVALS: [&str; 2] = ["system calls", "user probes"];

/// Raised when tables change their columns or meanings: kept ones of before are then made anew.
const VERSION: u32 = 2;
/// Records between two looks at whether to go on.
const LOOK: u64 = 1 << 16;
/// A part file that a process still writes is younger.
const PART_IS_OLD: Duration = Duration::from_secs(86_400);

/// Where the tables of a run are kept.
#[derive(Debug)]
pub(crate) struct Derived {
    folder: PathBuf,
    /// The begin of the files' names for the contents that the run has now.
    stem: String,
    /// What tells the rules by which objects are found from all others.
    rules: u64,
    /// Where they are made: beside the kept ones, or elsewhere where that folder cannot be written. Removed in the end.
    making: Option<TempDir>,
}

impl Derived {
    /// Of a run whose blocks have this fingerprint, by these rules for objects.
    pub(crate) fn new(run: &Path, fingerprint: u64, rules: &Table) -> Self {
        let stem = format!("sql-{VERSION}-{fingerprint:016x}");
        Self { folder: run.join("derived"), stem, rules: rules.fingerprint(), making: None }
    }

    /// The file that keeps the tables of a group. Objects by other rules are other tables.
    fn kept(&self, group: Group) -> PathBuf {
        let rules = if group == Group::Objects { format!("-{:016x}", self.rules) } else { String::new() };
        self.folder.join(format!("{}-{}{rules}.db", self.stem, group.name()))
    }

    /// The files of some groups, made first where they are not kept.
    pub(crate) fn files(
        &mut self,
        groups: &BTreeSet<Group>,
        source: &Recording,
        watch: &Watch,
    ) -> Result<Vec<(Group, PathBuf)>, QueryError> {
        let kept = |group: Group| self.kept(group);
        let (present, missing): (Vec<Group>, Vec<Group>) = groups.iter().partition(|group| kept(**group).is_file());
        let mut files: Vec<(Group, PathBuf)> = present.into_iter().map(|group| (group, kept(group))).collect();
        if missing.is_empty() {
            return Ok(files);
        }
        let making = self.make_room()?;
        for (group, made) in missing.iter().zip(build(&missing, source, &making, watch)?) {
            let kept = self.kept(*group);
            // Where the run's folder cannot be written, the file serves for now.
            files.push((*group, if fs::rename(&made, &kept).is_ok() { kept } else { made }));
        }
        self.forget_others();
        Ok(files)
    }

    /// The folder in which tables are made.
    fn make_room(&mut self) -> Result<PathBuf, QueryError> {
        if let Some(making) = &self.making {
            return Ok(making.path().to_owned());
        }
        let _may_be_read_only = fs::create_dir(&self.folder);
        let making = tempfile::Builder::new().prefix("sql-part-").tempdir_in(&self.folder);
        let making = making.or_else(|_| tempfile::tempdir()).map_err(|why| QueryError::write(&self.folder, &why))?;
        let path = making.path().to_owned();
        self.making = Some(making);
        Ok(path)
    }

    /// The names of kept tables of objects that may go: those by other rules, but for the latest of them, so that who
    /// compares two sets of rules does not make the tables anew for each question.
    fn of_other_rules(&self) -> Vec<String> {
        let (prefix, own) = (format!("{}-{}-", self.stem, Group::Objects.name()), self.kept(Group::Objects));
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let other = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_other = name.starts_with(&prefix) && entry.path() != own;
            is_other.then(|| Some((entry.metadata().ok()?.modified().ok()?, name))).flatten()
        };
        let mut others: Vec<_> = files.filter_map(other).collect();
        others.sort_unstable();
        others.pop();
        others.into_iter().map(|(_, name)| name).collect()
    }

    /// Removes what was kept of other contents of the run.
    fn forget_others(&self) {
        let others = self.of_other_rules();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
            let is_part = name.starts_with("sql-part-");
            // A part that was not written to for a day is one whose writer was killed.
            let at_work = is_part && age.is_none_or(|age| age < PART_IS_OLD);
            let is_of_use = name.starts_with(&self.stem) && !others.iter().any(|other| *other == name);
            if name.starts_with("sql-") && !at_work && !is_of_use {
                // It is of no use any more, and of no harm where it cannot be removed.
                let _left = if is_part { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
            }
        }
    }
}

/// A recording and what of it is known before it is read.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) reader: RunReader,
    pub(crate) span_ns: (u64, u64),
    /// No client told of its requests: the server's sockets do.
    pub(crate) served: bool,
    /// The recording's source of boundaries does not tell of every arrival.
    pub(crate) untold_arrivals: bool,
    pub(crate) hosts: Arc<Hosts>,
    /// What events mean for the tables of objects.
    pub(crate) rules: Table,
}

impl Recording {
    /// Opens a run.
    pub(crate) fn open(run: &Path, rules: Table) -> Result<(Self, Places), QueryError> {
        if holds_several(run) {
            return Err(QueryError::Several(run.to_owned()));
        }
        let reader = RunReader::open(run)?;
        let hosts = Hosts::of(run, &reader).map_err(|why| QueryError::Hosts { run: run.to_owned(), why })?;
        let hosts = Arc::new(hosts);
        let places = Places::of(&reader)?;
        let span_ns = places.span_ns().ok_or_else(|| QueryError::Empty(run.to_owned()))?;
        let untold_arrivals = reader.rung().is_some_and(|rung| MISSING_ARRIVALS.contains(&rung));
        let served = !places.hold_clients();
        Ok((Self { reader, span_ns, served, untold_arrivals, hosts, rules }, places))
    }

    fn joiner(&self) -> Joiner {
        let bounds = Bounds::default();
        let mut joiner = if self.served { Joiner::of_server(bounds, &[]) } else { Joiner::new(bounds) };
        if self.untold_arrivals {
            joiner.supply_arrivals();
        }
        joiner
    }
}

/// What fills the tables of a group. They are few, and each is large once it works.
enum Builder<'c> {
    Run(RunRow<'c>),
    Requests(Box<Requests<'c>>),
    Tasks(Box<Tasks<'c>>),
    Stacks(Box<Samples<'c>>),
    Remarks(Decisions<'c>),
    Objects(Box<Objects<'c>>),
}

impl<'c> Builder<'c> {
    fn new(group: Group, connection: &'c Connection, source: &Recording) -> Result<Self> {
        let (span_ns, hosts) = (source.span_ns, &source.hosts);
        Ok(match group {
            Group::Run => Self::Run(RunRow::new(connection, &source.hosts)?),
            Group::Requests => Self::Requests(Box::new(Requests::new(connection, source.joiner(), span_ns, hosts)?)),
            Group::Tasks => Self::Tasks(Box::new(Tasks::new(connection, span_ns, hosts)?)),
            Group::Stacks => Self::Stacks(Box::new(Samples::new(connection, span_ns.0, hosts)?)),
            Group::Remarks => Self::Remarks(Decisions::new(connection, span_ns.0, hosts)?),
            Group::Objects => {
                Self::Objects(Box::new(Objects::new(connection, span_ns.0, hosts, source.rules.clone())?))
            }
        })
    }

    fn push(&mut self, sourced: &Sourced<'_>) -> Result<()> {
        match self {
            Self::Run(run) => run.push(sourced),
            Self::Requests(requests) => requests.push(sourced)?,
            Self::Tasks(tasks) => tasks.push(sourced)?,
            Self::Stacks(samples) => samples.push(sourced)?,
            Self::Remarks(decisions) => decisions.push(sourced)?,
            Self::Objects(objects) => objects.push(sourced)?,
        }
        Ok(())
    }

    fn finish(self, source: &Recording, damage: &Damage) -> Result<()> {
        match self {
            Self::Run(run) => run.finish(&source.reader, source.span_ns, damage),
            Self::Requests(requests) => requests.finish(),
            Self::Tasks(tasks) => tasks.finish(),
            Self::Stacks(samples) => samples.finish(),
            Self::Remarks(_) => Ok(()),
            Self::Objects(objects) => objects.finish(),
        }
    }
}

/// Makes the tables of some groups in one pass; their files, named by the groups.
fn build(groups: &[Group], source: &Recording, folder: &Path, watch: &Watch) -> Result<Vec<PathBuf>, QueryError> {
    let path_of = |group: &Group| folder.join(format!("{}.db", group.name()));
    let wrong = |error: rusqlite::Error| QueryError::Write { path: folder.to_owned(), why: error.to_string() };
    let open = |group: &Group| -> Result<Connection> {
        let path = path_of(group);
        let _of_before = fs::remove_file(&path);
        let connection = Connection::open(path)?;
        // A file that is not finished is never used, so it need not survive a crash.
        connection.execute_batch(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN",
        )?;
        Ok(connection)
    };
    let connections = groups.iter().map(open).collect::<Result<Vec<_>>>().map_err(wrong)?;
    let builders = groups.iter().zip(&connections).map(|(group, connection)| Builder::new(*group, connection, source));
    let mut builders = builders.collect::<Result<Vec<_>>>().map_err(wrong)?;
    let (from_ns, to_ns) = source.span_ns;
    let mut events = 0;
    let mut outcome = Ok(());
    let mut merge = source.reader.merge();
    merge.each(|sourced| {
        // Outside of the span that the heads of the blocks told, only damage lies.
        if sourced.record.time_ns < from_ns || sourced.record.time_ns > to_ns {
            return true;
        }
        events += 1;
        outcome = builders.iter_mut().try_for_each(|builder| builder.push(&sourced)).map_err(wrong);
        if outcome.is_ok() && events % LOOK == 0 && !watch(Progress::Reading { events }) {
            outcome = Err(QueryError::Stopped);
        }
        outcome.is_ok()
    });
    outcome?;
    for builder in builders {
        builder.finish(source, merge.damage()).map_err(wrong)?;
    }
    for (group, connection) in groups.iter().zip(&connections) {
        connection.execute_batch(indexes(*group)).and_then(|()| connection.execute_batch("COMMIT")).map_err(wrong)?;
    }
    Ok(groups.iter().map(path_of).collect())
}

/// What questions look things up by.
fn indexes(group: Group) -> &'static str {
    match group {
        Group::Requests => {
            "CREATE INDEX requests_by_id ON requests (id);
             CREATE INDEX requests_by_time ON requests (at_ns);
             CREATE INDEX parts_by_request ON parts (request_id)"
        }
        Group::Tasks => {
            "CREATE INDEX waits_by_pid ON waits (pid, at_ns);
             CREATE INDEX slices_by_pid ON slices (pid, at_ns);
             CREATE INDEX tasks_by_pid ON tasks (pid)"
        }
        // Questions to interactions look at many of them; an index would take longer than it saves.
        Group::Run | Group::Stacks | Group::Remarks | Group::Objects => "",
    }
}
