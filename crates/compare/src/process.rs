//! A command that we run: started on its CPUs and in a process group and session of its own,
//! watched, and ended for certain, with everything that it started.
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::command_line::CommandLine;
use crate::control_group::ControlGroup;
use crate::cpus::CpuSet;
use crate::guardian::Guardian;
use crate::interrupt::Interrupt;
use crate::left_behind;
use crate::output_tail::OutputTail;
use crate::plan::ServerSpec;

/// Bytes of standard output that are kept: the reports of load commands are far shorter.
const STDOUT_MAX: usize = 1 << 20;
/// Bytes of standard error that are kept.
const STDERR_MAX: usize = 8 << 10;
/// Lines shown in a message.
const LINES_SHOWN: usize = 8;

/// What is started, and where.
pub(crate) struct Launch<'a> {
    pub(crate) command: &'a CommandLine,
    pub(crate) cpus: Option<&'a CpuSet>,
    pub(crate) group: Option<&'a ControlGroup>,
    /// The server that it is or belongs to, for its environment and folder.
    pub(crate) server: Option<&'a ServerSpec>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// CPU time of it and of the children that it waited for, in nanoseconds.
    pub(crate) cpu_ns: u64,
}

/// A running command. When dropped, its whole process group is killed.
pub(crate) struct Process {
    pid: libc::pid_t,
    /// Readable once the command has ended; `None` on kernels before Linux 5.3.
    exit_event: Option<OwnedFd>,
    stdout: OutputTail,
    stderr: OutputTail,
    ended: Option<Ended>,
    guardian: Rc<Guardian>,
    mark: String,
}

impl Process {
    /// Starts a command; standard input is empty.
    pub(crate) fn start(launch: &Launch<'_>, guardian: &Rc<Guardian>) -> io::Result<Self> {
        let (stdout, stdout_writer) = io::pipe()?;
        let (stderr, stderr_writer) = io::pipe()?;
        let mut command = Command::new(launch.command.program());
        command.args(launch.command.arguments()).stdin(Stdio::null()).stdout(stdout_writer).stderr(stderr_writer);
        let mark = guardian.mark();
        command.env(left_behind::MARK, &mark);
        if let Some(server) = launch.server {
            command.envs(&server.environment);
            if let Some(folder) = &server.folder {
                command.current_dir(folder);
            }
        }
        let affinity = launch.cpus.map(CpuSet::as_affinity);
        let members = launch.group.map(ControlGroup::members);
        // SAFETY: has no preconditions.
        let parent = unsafe { libc::getpid() };
        // SAFETY: between fork and exec only system calls are made, on values computed before.
        unsafe { command.pre_exec(move || become_subject(parent, affinity.as_ref(), members)) };
        let child = command.spawn()?;
        // From here on we wait by the process id, with the CPU time; `child` does nothing when
        // dropped. The writing ends of the pipes go with `command`.
        drop(command);
        let pid = child.id() as libc::pid_t;
        guardian.watch(pid);
        let streams =
            OutputTail::read(stdout, STDOUT_MAX).and_then(|stdout| Ok((stdout, OutputTail::read(stderr, STDERR_MAX)?)));
        let (stdout, stderr) = match streams {
            Ok(streams) => streams,
            Err(error) => {
                end_now(pid);
                guardian.release(pid);
                return Err(error);
            }
        };
        Ok(Self { pid, exit_event: exit_event(pid), stdout, stderr, ended: None, guardian: Rc::clone(guardian), mark })
    }

    pub(crate) fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// What its descendants are known by.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    /// How it ended, if it has. What it left behind in its process group is then killed.
    pub(crate) fn try_wait(&mut self) -> Option<Ended> {
        if self.ended.is_none() && has_ended(self.pid) {
            self.ended = Some(end_now(self.pid));
            self.guardian.release(self.pid);
        }
        self.ended
    }

    /// Waits until it ends, but no longer than `patience` and not beyond an urgent interrupt.
    pub(crate) fn wait(&mut self, patience: Duration, interrupt: &Interrupt) -> Option<Ended> {
        self.wait_unless_stopped(patience, patience, interrupt)
    }

    /// The same, and no longer than `stopped` from now on where the experiment is asked to stop.
    pub(crate) fn wait_unless_stopped(
        &mut self,
        patience: Duration,
        stopped: Duration,
        interrupt: &Interrupt,
    ) -> Option<Ended> {
        let began = Instant::now();
        loop {
            if let Some(ended) = self.try_wait() {
                return Some(ended);
            }
            let limit = if interrupt.is_requested() { patience.min(stopped) } else { patience };
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() || interrupt.is_urgent() {
                return None;
            }
            self.sleep_until_end(left.min(Duration::from_millis(200)));
        }
    }

    /// Ends it: each signal in turn to the command itself with time to obey, then `SIGKILL` to
    /// the whole process group. An urgent interrupt shortens the patience to nothing.
    pub(crate) fn end(&mut self, signals: &[(libc::c_int, Duration)], interrupt: &Interrupt) -> Ended {
        for (signal, patience) in signals {
            if let Some(ended) = self.try_wait() {
                return ended;
            }
            // SAFETY: the process is our child and was not waited for, so the number is its own.
            unsafe { libc::kill(self.pid, *signal) };
            if let Some(ended) = self.wait(*patience, interrupt) {
                return ended;
            }
        }
        let ended = end_now(self.pid);
        self.guardian.release(self.pid);
        self.ended = Some(ended);
        ended
    }

    /// All of its standard output, up to a bound; to be asked once it has ended.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.text(Duration::from_secs(2))
    }

    /// The last lines that it printed, for a message: each on a new line after a bar, errors
    /// preferred.
    pub(crate) fn last_lines(&self) -> String {
        let patience = Duration::from_millis(if self.ended.is_some() { 500 } else { 0 });
        let mut text = self.stderr.text(patience);
        if text.trim().is_empty() {
            text = self.stdout.text(patience);
        }
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].iter().map(|line| format!("\n  | {line}")).collect()
    }

    fn sleep_until_end(&self, time: Duration) {
        match &self.exit_event {
            // No polling: that would take time from what is being measured.
            Some(event) => {
                let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // Rounded up, or the last millisecond would be spent spinning.
                let milliseconds = time.as_millis() as libc::c_int + 1;
                // SAFETY: one entry, ours, and its number.
                unsafe { libc::poll(&raw mut poll, 1, milliseconds) };
            }
            None => std::thread::sleep(time.min(Duration::from_millis(20))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            end_now(self.pid);
            left_behind::end(&self.mark);
            self.guardian.release(self.pid);
        }
    }
}

/// In the child, before it becomes the command.
fn become_subject(parent: libc::pid_t, affinity: Option<&libc::cpu_set_t>, members: Option<RawFd>) -> io::Result<()> {
    let check = |result: libc::c_int| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: system calls on values that outlive them; all are allowed between fork and exec.
    unsafe {
        // A session, and with it a process group, of its own: Ctrl-C reaches only us, and one
        // signal reaches all of it.
        check(libc::setsid())?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() != parent {
            // We were killed before the line above.
            libc::_exit(127);
        }
        // A shell may have started us in the background, where SIGINT is ignored.
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_DFL);
        }
        if let Some(affinity) = affinity {
            check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), affinity))?;
        }
        if let Some(members) = members {
            check(libc::write(members, c"0".as_ptr().cast(), 1) as libc::c_int)?;
        }
    }
    Ok(())
}

/// A descriptor that becomes readable when the process ends.
fn exit_event(pid: libc::pid_t) -> Option<OwnedFd> {
    // SAFETY: the call takes two numbers; a result of 0 or above is a descriptor that is ours.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor as RawFd))
    }
}

/// Whether our child has ended; it is left to be waited for, so that its number stays its own.
fn has_ended(pid: libc::pid_t) -> bool {
    // SAFETY: an all-zero `siginfo_t` is valid, and the pointer is to it.
    unsafe {
        let mut information: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut information, options) == 0 && information.si_pid() == pid
    }
}

/// Kills the process group of our child, which was not waited for yet, and waits for the child.
fn end_now(pid: libc::pid_t) -> Ended {
    // SAFETY: the number is our child's, and its group's, until it is waited for just below; the
    // structures are ours and all-zero ones are valid.
    unsafe {
        libc::kill(-pid, libc::SIGKILL);
        let mut status = 0;
        let mut usage: libc::rusage = std::mem::zeroed();
        while libc::wait4(pid, &raw mut status, 0, &raw mut usage) == -1 && *libc::__errno_location() == libc::EINTR {}
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Ended { status: ExitStatus::from_raw(status), cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime) }
    }
}
