//! A server that weir starts, and ends again whatever happens.

use anyhow::Context;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A child process with a process group of its own.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
}

impl Child {
    /// Starts a command; its output goes to stderr, so that stdout stays a report's.
    pub(crate) fn start(command: &[String]) -> anyhow::Result<Self> {
        let (program, arguments) = command.split_first().context("no command")?;
        let mut start = Command::new(program);
        start.args(arguments).stdin(Stdio::null()).process_group(0);
        // SAFETY: dup gives a new descriptor of our stderr, which the child then owns.
        let stderr = unsafe { libc::dup(2) };
        if stderr >= 0 {
            // SAFETY: the descriptor was made above and nobody else owns it.
            start.stdout(unsafe { <Stdio as std::os::fd::FromRawFd>::from_raw_fd(stderr) });
        }
        // SAFETY: prctl is async-signal-safe; the child dies with us even when we are killed.
        unsafe {
            start.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            })
        };
        let process =
            start.spawn().with_context(|| format!("cannot start {program:?}; is it installed and in PATH?"))?;
        Ok(Self { process })
    }

    /// Its process number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Ends it and its group: asked first, forced after two seconds.
    pub(crate) fn end(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if self.ended().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.signal(libc::SIGKILL);
        let _ = self.process.wait();
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the group was made by us for this child, and the child is not yet reaped, so the number is its own.
        unsafe { libc::kill(-(self.process.id() as i32), signal) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether a process is there.
pub(crate) fn lives(pid: u32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}
