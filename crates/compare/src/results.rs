//! The folder of an experiment: its plan, and every block and observed slice from the moment at which it is complete.
//!
//! They are lines of JSON, appended one by one, so that an experiment that is cut off loses at most what it was
//! measuring; a last line that was cut off is passed over.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::observed::Observed;
use crate::outcome::Block;
use crate::plan::Plan;

const PLAN: &str = "plan.json";
const BLOCKS: &str = "blocks.jsonl";
/// How often, and after which time, a lock of a process that is gone is asked for again.
const MOST_LOOKS: u32 = 50;
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const OBSERVED: &str = "observed.jsonl";

/// Why the folder of an experiment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// Of what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It has results already.
    #[error(
        "{} has the results of an experiment; go on with it by --resume, or name another folder",
        .0.display()
    )]
    Used(PathBuf),
    /// Another process is at work in it.
    #[error(
        "{} is in use{}: two experiments in one folder would mix their blocks; wait until it ends, or stop it",
        folder.display(), by(*.pid)
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Whose; `None` where the kernel does not tell.
        pid: Option<u32>,
    },
    /// There is no end of an experiment in it.
    #[error(
        "{} has no experiment that has come to an end; weir compare --resume goes on with one that was interrupted",
        .0.display()
    )]
    NoEnd(PathBuf),
    /// A file that this program did not write, or that was changed.
    #[error("{} line {line}: {message}; name the folder of an experiment that was begun with --results", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

/// A block or an observed slice that is not of the folder's plan.
#[derive(Debug, thiserror::Error)]
enum OfNoPlan {
    #[error("there is no case {0}")]
    Case(usize),
    #[error("its case has no subject {0}")]
    Subject(usize),
}

/// The folder, open for further blocks and observed slices.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    blocks: File,
    observed: File,
}

/// What is in the folder of an experiment that can go on.
#[derive(Debug)]
pub struct Resumed {
    /// The folder, open for more.
    pub results: Results,
    /// The plan.
    pub plan: Plan,
    /// The complete blocks, in the order in which they were measured.
    pub blocks: Vec<Block>,
    /// The observed slices, likewise.
    pub observed: Vec<Observed>,
}

impl Results {
    /// Makes the folder and writes the plan into it.
    ///
    /// # Errors
    /// [`ResultsError::Used`] when there are results in it, and the system's refusals.
    pub fn create(folder: &Path, plan: &Plan) -> Result<Self, ResultsError> {
        let failed = |path: PathBuf| move |source| ResultsError::Io { path, source };
        fs::create_dir_all(folder).map_err(failed(folder.to_owned()))?;
        let [plan_path, blocks_path, observed_path] = [PLAN, BLOCKS, OBSERVED].map(|name| folder.join(name));
        if plan_path.exists() || blocks_path.exists() {
            return Err(ResultsError::Used(folder.to_owned()));
        }
        // A plan is numbers and texts, all of which JSON has.
        let text = serde_json::to_string_pretty(plan).map_err(io::Error::from);
        text.and_then(|text| fs::write(&plan_path, text + "\n")).map_err(failed(plan_path))?;
        let blocks =
            OpenOptions::new().create_new(true).append(true).open(&blocks_path).map_err(failed(blocks_path))?;
        lock(&blocks, folder)?;
        let observed = appended(&observed_path)?;
        Ok(Self { folder: folder.to_owned(), blocks, observed })
    }

    /// Opens the folder of an experiment to go on with it: its plan, and its blocks and observed slices so far.
    ///
    /// # Errors
    /// [`ResultsError::Content`] for what no experiment wrote, and the system's refusals.
    pub fn resume(folder: &Path) -> Result<Resumed, ResultsError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ResultsError::Io { path, source }
        };
        let [plan_path, blocks_path, observed_path] = [PLAN, BLOCKS, OBSERVED].map(|name| folder.join(name));
        let text = fs::read_to_string(&plan_path).map_err(failed(&plan_path))?;
        let plan: Plan = serde_json::from_str(&text).map_err(|error| ResultsError::Content {
            path: plan_path.clone(),
            line: error.line(),
            message: error.to_string(),
        })?;
        let mut blocks_file = OpenOptions::new().append(true).open(&blocks_path).map_err(failed(&blocks_path))?;
        // Before it is read: what another process is about to append is not known yet.
        lock(&blocks_file, folder)?;
        let is_of_plan = |case: usize| if case < plan.cases.len() { Ok(()) } else { Err(OfNoPlan::Case(case)) };
        let blocks = whole_lines(&mut blocks_file, &blocks_path, |block: &Block| is_of_plan(block.case))?;
        // Folders of former versions have none.
        let mut observed_file = appended(&observed_path)?;
        let observed = whole_lines(&mut observed_file, &observed_path, |slice: &Observed| {
            is_of_plan(slice.case)?;
            let has_it = plan.cases[slice.case].subjects().any(|subject| subject == slice.subject);
            if has_it { Ok(()) } else { Err(OfNoPlan::Subject(slice.subject)) }
        })?;
        let results = Self { folder: folder.to_owned(), blocks: blocks_file, observed: observed_file };
        Ok(Resumed { results, plan, blocks, observed })
    }

    /// Appends a block.
    ///
    /// # Errors
    /// The system's: a full disk, as a rule.
    pub fn keep(&mut self, block: &Block) -> io::Result<()> {
        append(&mut self.blocks, block)
    }

    /// Appends an observed slice.
    ///
    /// # Errors
    /// As [`Results::keep`].
    pub fn keep_observed(&mut self, observed: &Observed) -> io::Result<()> {
        append(&mut self.observed, observed)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn appended(path: &Path) -> Result<File, ResultsError> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|source| ResultsError::Io { path: path.to_owned(), source })
}

/// In one write, so that a line is there as a whole or is the cut one at the end.
fn append(file: &mut File, value: &impl Serialize) -> io::Result<()> {
    file.write_all((serde_json::to_string(value)? + "\n").as_bytes())
}

/// The values of a file's whole lines, each of which must pass a check. A last line that was cut off is taken away.
fn whole_lines<T: DeserializeOwned>(
    file: &mut File,
    path: &Path,
    check: impl Fn(&T) -> Result<(), OfNoPlan>,
) -> Result<Vec<T>, ResultsError> {
    let failed = |source| ResultsError::Io { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(failed)?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut values = Vec::new();
    for (index, line) in text[..whole].lines().enumerate() {
        let content = |message: String| ResultsError::Content { path: path.to_owned(), line: index + 1, message };
        let value: T = serde_json::from_str(line).map_err(|error| content(error.to_string()))?;
        check(&value).map_err(|error| content(error.to_string()))?;
        values.push(value);
    }
    // What was cut off would make the next line unreadable.
    file.set_len(whole as u64).and_then(|()| file.flush()).map_err(failed)?;
    Ok(values)
}

/// Keeps other processes out for as long as the file is open; also the kernel's end of a process that was killed ends it.
fn lock(blocks: &File, folder: &Path) -> Result<(), ResultsError> {
    let inode = blocks.metadata().map_or(0, |metadata| metadata.ino());
    let mut looks = 0;
    loop {
        // SAFETY: a call with an open descriptor and a constant.
        if unsafe { libc::flock(blocks.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(ResultsError::Io { path: folder.to_owned(), source: error });
        }
        let pid = holder(&fs::read_to_string("/proc/locks").unwrap_or_default(), inode);
        looks += 1;
        // A child that one who was killed had forked, and that has not run its program yet, has the lock a moment longer.
        if looks == MOST_LOOKS || pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            return Err(ResultsError::InUse { folder: folder.to_owned(), pid });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The process that holds a lock on a file, from `/proc/locks` (proc(5)): `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE`.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let ends = format!(":{inode}");
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_ours = fields.get(1) == Some(&"FLOCK") && fields.get(5)?.ends_with(&ends);
        if is_ours { fields.get(4)?.parse().ok() } else { None }
    })
}

/// By whom, for a message.
fn by(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_lock_is_read_from_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  READ 77 08:01:4711 128 128\n2: FLOCK  ADVISORY  WRITE 4242 08:01:4711 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 08:01:4711 0 EOF\n";
        assert_eq!(holder(locks, 4711), Some(4242));
        assert_eq!(holder(locks, 711), None);
        assert_eq!(holder("what", 1), None);
    }
}
