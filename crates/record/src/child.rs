//! A server that weir starts, and ends in every case, with everything that it started in its process group.

use anyhow::Context;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use weir_compare::Guardian;

/// What a server's processes may take to end when asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// A child process with a process group of its own.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    /// Ends the group when we are killed. Without one (no process left to fork) only the child itself ends with us.
    guardian: Option<Guardian>,
    stopped: bool,
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
            // SAFETY: the descriptor was made above, and nothing else owns it.
            start.stdout(unsafe { <Stdio as std::os::fd::FromRawFd>::from_raw_fd(stderr) });
        }
        let guardian = Guardian::start(None, &[], None).ok();
        let join = guardian.as_ref().map(Guardian::joining);
        let us = std::process::id();
        // SAFETY: all that is called is async-signal-safe; the child dies with us even when we are killed.
        unsafe {
            start.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                if libc::getppid() as u32 != us {
                    // We were killed before the line above.
                    libc::_exit(127);
                }
                join.as_ref().map_or(Ok(()), |join| join())
            })
        };
        let process =
            start.spawn().with_context(|| format!("cannot start {program:?}; is it installed and in PATH?"))?;
        Ok(Self { process, guardian, stopped: false })
    }

    /// Its process number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it did. It is left to be waited for, so that its number, and its group's, stay its own.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: an all-zero siginfo_t is valid, and the pointer is to it; the process is our child.
        let information = unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            let answer = libc::waitid(libc::P_PID, self.process.id(), &raw mut information, options);
            (answer == 0 && information.si_pid() != 0).then_some(information)?
        };
        // SAFETY: waitid has filled it in for a child, for which it has a status.
        let status = unsafe { information.si_status() };
        Some(ExitStatus::from_raw(match information.si_code {
            libc::CLD_EXITED => (status & 0xff) << 8,
            libc::CLD_DUMPED => status | 0x80,
            _ => status,
        }))
    }

    /// Ends it and its group: asked first, forced after two seconds.
    pub(crate) fn end(mut self) {
        self.stop();
    }

    /// Also where the child has ended: what it started may live on without it.
    fn stop(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while group_lives(self.process.id()) {
            if Instant::now() >= deadline {
                self.signal(libc::SIGKILL);
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Before the number is given free by the wait.
        if let Some(guardian) = self.guardian.take() {
            guardian.release(self.process.id().cast_signed());
        }
        let _ = self.process.wait();
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the group was made by us for this child, and the child is not yet reaped, so the number is its own.
        unsafe { libc::kill(-self.process.id().cast_signed(), signal) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether a process runs. One that has ended stays listed, as a zombie, until its parent waits for it; so does
/// the first thread of one whose other threads go on.
pub(crate) fn lives(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name stands in parentheses and may hold anything: fields are counted behind the last one (proc_pid_stat(5)).
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let has_ended = fields.next().is_some_and(|state| matches!(state, "Z" | "X"));
    let threads: u32 = fields.nth(16).and_then(|threads| threads.parse().ok()).unwrap_or(0);
    !has_ended || threads > 1
}

/// Whether a process of a group still runs. A signal would find those, too, that ended and are not yet waited for: our
/// own child, which must keep the number, and orphans whose new parent takes its time.
fn group_lives(group: u32) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok()).any(|stat| {
        // The name stands in parentheses and may hold anything: state, parent and group follow the last one.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        let (state, of) = (fields.next(), fields.nth(1).and_then(|field| field.parse().ok()));
        of == Some(group) && !matches!(state, None | Some("Z" | "X"))
    })
}
