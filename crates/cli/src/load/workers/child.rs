//! A worker that is a process started here: by ssh on another host, or on this one.

use anyhow::Context;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Lines of what it says on standard error that are kept: the last ones.
const LINES_MAX: usize = 20;
/// The longest line that is kept, bytes.
const LINE_BYTES_MAX: u64 = 4096;
/// What a shell returns that does not find a program.
const NOT_FOUND: i32 = 127;
/// How often it is looked whether it has ended, and how many times.
const LOOK: Duration = Duration::from_millis(25);
const LOOKS: u32 = 40;

/// A process, and what it says on standard error.
#[derive(Debug)]
pub(super) struct Running {
    child: Mutex<Child>,
    said: Arc<Mutex<VecDeque<String>>>,
    is_ssh: bool,
}

/// A started process with the pipes to it.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) running: Arc<Running>,
    pub(super) to: ChildStdin,
    pub(super) from: ChildStdout,
}

/// Starts a worker on this host.
pub(super) fn local() -> anyhow::Result<Started> {
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found again")?);
    command.args(["worker", "--stdio"]);
    start(command, false).context("cannot start a worker on this host")
}

/// Starts a worker on a host that ssh reaches.
pub(super) fn by_ssh(host: &str, weir: Option<&str>, config: Option<&Path>) -> anyhow::Result<Started> {
    let mut command = Command::new("ssh");
    // No question is put to a user, and a host that is gone is noticed.
    command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
    command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]);
    if let Some(file) = config {
        command.arg("-F").arg(file);
    }
    let weir = weir.unwrap_or("weir").replace('\'', r"'\''");
    command.args(["--", host, &format!("exec '{weir}' worker --stdio")]);
    start(command, true).context("cannot start ssh; is openssh-client installed?")
}

fn start(mut command: Command, is_ssh: bool) -> std::io::Result<Started> {
    // A group of its own: the terminal's Ctrl-C is for us, who still want its report.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let missing = || std::io::Error::other("a pipe to it is missing");
    let to = child.stdin.take().ok_or_else(missing)?;
    let from = child.stdout.take().ok_or_else(missing)?;
    let err = child.stderr.take().ok_or_else(missing)?;
    let said: Arc<Mutex<VecDeque<String>>> = Arc::default();
    let kept = Arc::clone(&said);
    std::thread::spawn(move || keep_last(err, &kept));
    Ok(Started { running: Arc::new(Running { child: Mutex::new(child), said, is_ssh }), to, from })
}

impl Running {
    /// Why it says no more, in words: waits a moment for its end.
    pub(super) fn why(&self) -> String {
        let status = self.wait();
        // What it says last comes behind its end.
        std::thread::sleep(LOOK);
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).back().cloned();
        let last = said.map_or_else(String::new, |line| format!(": {line}"));
        match status {
            Some(status) if self.is_ssh && status.code() == Some(NOT_FOUND) => {
                format!("there is no weir in its PATH{last}; install it there, or name it by --remote-weir PATH")
            }
            Some(status) if self.is_ssh => format!("its ssh ended ({status}){last}"),
            Some(status) => format!("its process ended ({status}){last}"),
            None => format!("it closed its standard output{last}"),
        }
    }

    /// Ends it: its standard input is closed already, and a moment is given to it.
    pub(super) fn end(&self) {
        if self.wait().is_some() {
            return;
        }
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _has_ended = child.kill();
        let _has_ended = child.wait();
    }

    fn wait(&self) -> Option<std::process::ExitStatus> {
        for _ in 0..LOOKS {
            let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            if let Ok(Some(status)) = status {
                return Some(status);
            }
            std::thread::sleep(LOOK);
        }
        None
    }
}

/// Keeps the last lines of what is said.
fn keep_last(from: impl Read, kept: &Mutex<VecDeque<String>>) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == LINES_MAX {
            kept.pop_front();
        }
        if !text.is_empty() {
            kept.push_back(text);
        }
    }
}
