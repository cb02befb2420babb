//! How a server's processes start: its directory, its output, the wait until it answers.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::process::Process;

/// How long a server may take until it answers; generous, because tests share the machine with
/// compilers.
pub(super) const START_LIMIT: Duration = Duration::from_secs(20);

/// The user and group for servers that refuse to run as root: unprivileged on every system.
pub(super) const UNPRIVILEGED: u32 = 65_534;

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Its directory or its configuration could not be written.
    Prepare(io::Error),
    /// Its program could not be executed.
    Spawn {
        /// The program.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The served directory cannot be read by the user that the server changes to.
    Unreadable {
        /// The part of the path that is closed to others.
        path: PathBuf,
    },
    /// It ended before it answered.
    Ended {
        /// How it ended.
        status: String,
        /// Its own log.
        log: String,
    },
    /// It runs, but did not answer within the limit.
    Silent {
        /// Its own log.
        log: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare(source) => write!(f, "the server's directory: {source}"),
            Self::Spawn { program, source } => write!(f, "{}: {source}", program.display()),
            Self::Unreadable { path } => {
                write!(f, "the server's user cannot read {}: open it with chmod o+rx, or use a Site", path.display())
            }
            Self::Ended { status, log } => {
                write!(f, "the server ended ({status}); its log:\n{log}")
            }
            Self::Silent { log } => {
                write!(f, "the server did not answer within {START_LIMIT:?}; its log:\n{log}")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// Runs the command with its output in a file; the signal is the one that ends it.
pub(super) fn spawn(
    mut command: Command,
    output: &Path,
    cpu: Option<usize>,
    signal: i32,
) -> Result<Process, StartError> {
    let file = File::create(output).map_err(StartError::Prepare)?;
    let copy = file.try_clone().map_err(StartError::Prepare)?;
    command.stdout(file).stderr(copy);
    let program = PathBuf::from(command.get_program());
    Process::spawn(command, cpu, signal).map_err(|source| StartError::Spawn { program, source })
}

/// Polls until the server is ready, has ended, or the limit has passed.
pub(super) fn wait_until<T>(
    process: &mut Process,
    logs: &[&Path],
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T, StartError> {
    let log = || logs.iter().map(|path| read_log(path)).collect::<String>();
    let start = Instant::now();
    while start.elapsed() < START_LIMIT {
        let value = ready();
        // Asked after the port: a server that could not bind has ended by the time that another
        // server on the same port has answered us.
        if let Some(status) = process.ended() {
            return Err(StartError::Ended { status, log: log() });
        }
        if let Some(value) = value {
            return Ok(value);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(StartError::Silent { log: log() })
}

/// A temporary directory that a server can still use after it has given up root's rights.
pub(super) fn own_directory() -> io::Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("weir-server-").tempdir()?;
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
    Ok(dir)
}

pub(super) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

pub(super) fn read_log(path: &Path) -> String {
    // A log that is absent says as much as an empty one.
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Finds what keeps a user other than the owner from reading the directory.
pub(super) fn closed_to_others(root: &Path) -> Option<PathBuf> {
    let closed =
        |path: &Path, needed: u32| fs::metadata(path).map_or(true, |meta| meta.permissions().mode() & needed != needed);
    if closed(root, 0o005) {
        return Some(root.to_owned());
    }
    root.ancestors().skip(1).find(|path| closed(path, 0o001)).map(Path::to_owned)
}
