//! A server that runs for the length of a test.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::process::{self, Process};
use super::start::read_log;
use crate::Site;

/// A server that answers on its port; dropping it ends the server and removes its directory.
#[derive(Debug)]
pub struct RunningServer {
    /// The port on 127.0.0.1.
    pub port: u16,
    /// Further ports that the launcher was asked for, in order.
    pub more_ports: Vec<u16>,
    /// The directory that is served; for servers without files, their own directory.
    pub root: PathBuf,
    pub(super) scheme: &'static str,
    pub(super) process: Process,
    pub(super) log: PathBuf,
    // Declared last: the files go when the processes that use them are gone.
    pub(super) _own: TempDir,
    pub(super) _site: Option<Site>,
}

impl RunningServer {
    /// The process that was started (the master where there are workers).
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The process that was started and all its living descendants, the former first.
    pub fn pids(&self) -> Vec<u32> {
        process::tree(self.pid())
    }

    /// The address of a path, such as `/1k.txt`.
    pub fn url(&self, path: &str) -> String {
        format!("{}://127.0.0.1:{}{path}", self.scheme, self.port)
    }

    /// The server's own directory, with its configuration and its logs.
    pub fn dir(&self) -> &Path {
        self._own.path()
    }

    /// What the server has logged up to now.
    pub fn log(&self) -> String {
        read_log(&self.log)
    }

    /// Kills the server and all its processes at once, as in a crash.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}
