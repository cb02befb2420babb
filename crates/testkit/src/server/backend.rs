//! What stands behind a web server: it speaks another protocol than HTTP.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::process::{self, Process, run};
use super::start::{StartError, UNPRIVILEGED, is_root, own_directory, read_log};

/// A server of another protocol; dropping it ends the server and removes its directory.
#[derive(Debug)]
pub struct RunningBackend {
    /// Its Unix socket, where it has one.
    pub socket: Option<PathBuf>,
    /// Its port on 127.0.0.1, where it has one.
    pub port: Option<u16>,
    pub(super) process: Process,
    pub(super) log: PathBuf,
    // Declared last: the files go when the processes that use them are gone.
    pub(super) own: TempDir,
}

impl RunningBackend {
    /// The process that was started (the master where there are workers).
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The process that was started and all its living descendants, the former first.
    pub fn pids(&self) -> Vec<u32> {
        process::tree(self.pid())
    }

    /// Its own directory, with its configuration and its logs.
    pub fn dir(&self) -> &Path {
        self.own.path()
    }

    /// What it has logged up to now.
    pub fn log(&self) -> String {
        read_log(&self.log)
    }
}

/// A database; dropping it ends it and removes its data.
#[derive(Debug)]
pub struct RunningDatabase {
    /// The server: its processes, socket and port.
    pub backend: RunningBackend,
    /// What a PHP page passes to the connect call over the Unix socket, the launcher says in which
    /// form.
    pub address: String,
    /// The same over TCP.
    pub address_tcp: String,
    pub(super) client: Vec<String>,
}

impl RunningDatabase {
    /// Runs statements, one after the other, and gives what they return, a line for each row with
    /// tabs between the columns. The first that fails ends it: its message is the error.
    pub fn sql(&self, statements: &str) -> io::Result<String> {
        // The launchers put the client's program first.
        let (program, args) = self.client.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(args);
        run(command, statements)
    }

    /// The server's process, the master where there are workers.
    pub fn pid(&self) -> u32 {
        self.backend.pid()
    }
}

/// A directory of a server's own with a part, `data`, that belongs to the user it runs as.
pub(super) fn with_data() -> Result<(TempDir, PathBuf), StartError> {
    let own = own_directory().map_err(StartError::Prepare)?;
    let data = own.path().join("data");
    std::fs::create_dir(&data).map_err(StartError::Prepare)?;
    std::fs::set_permissions(&data, Permissions::from_mode(0o755)).map_err(StartError::Prepare)?;
    if is_root() {
        chown(&data, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).map_err(StartError::Prepare)?;
    }
    Ok((own, data))
}

/// A command of a server that refuses to run as root: as root we run it as [`UNPRIVILEGED`].
pub(super) fn unprivileged(program: impl AsRef<Path>, home: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(home).env("HOME", home).env("LC_ALL", "C");
    if is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    command
}
