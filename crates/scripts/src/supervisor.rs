//! The supervisor: it starts the runners of all pools, starts those again that die, and ends them with the server.

use crate::account::{self, Account};
use crate::children;
use crate::descriptor::{self, Moved};
use crate::engine;
use crate::limits;
use crate::messages::{PoolTold, ToServer, ToSupervisor, Wanted};
use crate::pool::{Pool, Way};
use crate::runner::Runner;
use crate::signals;
use crate::telling::{Telling, Told, short};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// The user of scripts where neither the configuration nor the server has one, as Debian names it.
const USER: &str = "www-data";
/// How soon a runner that has died is started again at first; each time it doubles, up to the second.
const BACK_OFF: Duration = Duration::from_millis(20);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// A runner that has lived for so long is started again at once.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// How long a pool that no host wants any more runs on, for requests that wait for it.
const RETIRED_PATIENCE: Duration = Duration::from_secs(30);
/// How long runners may take to end.
const END_PATIENCE: Duration = Duration::from_secs(3);
const TURN: Duration = Duration::from_millis(5);
const READ_BYTES: usize = 64 << 10;

/// A pool does not start.
#[derive(Debug, thiserror::Error)]
enum NoStart {
    #[error("there is no user {0} that scripts could run as; add it, or name another one by `user`")]
    NoUser(String),
    #[error("the scripts of {0} would run as root; name another `user`")]
    Root(String),
    #[error(
        "the scripts of {0} cannot run as the owners of their files: only root may change users; start the server as \
         root, or leave `as_owner` away"
    )]
    Owner(String),
    #[error("{0} cannot listen: {1}; make room where it is to, or set TMPDIR to another directory")]
    Listen(String, io::Error),
    #[error("the engines of {0} cannot be written into {folder}: {2}; make room there, or set TMPDIR to another directory", folder = .1.display())]
    Engines(String, PathBuf, io::Error),
    #[error("{0} cannot be started: {1}")]
    Fork(String, io::Error),
}

/// Runs scripts as the server says, until that closes its end of the link. The calling process must have one thread.
///
/// # Errors
///
/// Those of the system, at the start.
pub fn supervise(link: UnixStream) -> io::Result<()> {
    signals::install()?;
    children::adopt();
    link.set_nonblocking(true)?;
    let (from_runners, of_runners) = descriptor::pipe()?;
    descriptor::set_nonblocking(&from_runners)?;
    descriptor::set_nonblocking(&of_runners)?;
    let mut supervisor = Supervisor {
        link,
        from_runners,
        of_runners,
        heard: Vec::new(),
        told: Vec::new(),
        groups: Vec::new(),
        folder: None,
        user: None,
        status: Vec::new(),
        ended: 0,
    };
    while supervisor.turn() {}
    supervisor.end();
    Ok(())
}

/// A runner's process.
#[derive(Debug)]
struct Process {
    /// 0 = it has died, and is started again at `at`.
    pid: libc::pid_t,
    /// Since when it is as it is.
    at: Instant,
    failures: u32,
}

/// The runners of one pool.
#[derive(Debug)]
struct Group {
    pool: Pool,
    listener: OwnedFd,
    account: Option<Account>,
    processes: Vec<Process>,
    restarts: u64,
    retires: Option<Instant>,
}

#[derive(Debug)]
struct Supervisor {
    link: UnixStream,
    from_runners: OwnedFd,
    of_runners: OwnedFd,
    /// What has come of the server's and of a runner's next line.
    heard: Vec<u8>,
    told: Vec<u8>,
    groups: Vec<Group>,
    /// The directory of the pools' sockets and of the engines.
    folder: Option<PathBuf>,
    user: Option<String>,
    status: Vec<PoolTold>,
    /// What was known of children that have ended.
    ended: u32,
}

impl Supervisor {
    /// Whether it goes on.
    fn turn(&mut self) -> bool {
        let due = self.look();
        let fd = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [fd(self.link.as_raw_fd()), fd(self.from_runners.as_raw_fd())];
        signals::wait(&mut fds, due);
        if signals::is_to_end() {
            return false;
        }
        if fds[0].revents != 0 && descriptor::read(self.link.as_raw_fd(), READ_BYTES, &mut self.heard) == Moved::Over {
            return false;
        }
        while let Some(line) = take_line(&mut self.heard) {
            match serde_json::from_slice(&line) {
                Ok(ToSupervisor::Begin(wanted)) => {
                    let Wanted { user, pools } = *wanted;
                    self.user = user;
                    self.want(&pools);
                }
                Ok(ToSupervisor::Pools(pools)) => self.want(&pools),
                Err(_) => return false,
            }
        }
        if fds[1].revents != 0 {
            descriptor::read(self.from_runners.as_raw_fd(), READ_BYTES, &mut self.told);
        }
        while let Some(line) = take_line(&mut self.told) {
            if let Ok(told) = serde_json::from_slice(&line) {
                self.pass_on(told);
            }
        }
        true
    }

    fn say(&mut self, message: &ToServer) {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        // If the server has ended, so does this process. It reads all the time, so the wait is short.
        let _ = self.link.set_nonblocking(false);
        let _ = (&self.link).write_all(&line);
        let _ = self.link.set_nonblocking(true);
    }

    fn pass_on(&mut self, told: Told) {
        match told {
            Told::Notice(text) => self.say(&ToServer::Tell(text)),
            Told::Stuck(stuck) => self.say(&ToServer::Stuck(stuck)),
        }
    }

    /// Starts what is wanted and does not run, and has the rest end in a while.
    fn want(&mut self, pools: &[Pool]) {
        let mut added = Vec::new();
        if let Some(folder) = pools.first().and_then(|pool| pool.socket.parent()) {
            self.folder = Some(folder.to_owned());
        }
        for pool in pools {
            if let Some(group) = self.groups.iter_mut().find(|group| group.pool == *pool) {
                group.retires = None;
                continue;
            }
            match Group::start(pool.clone(), self.user.as_deref(), self.of_runners.as_fd()) {
                Ok(group) => added.push(group),
                Err(error) => {
                    added.iter_mut().for_each(Group::kill);
                    return self.say(&ToServer::Failed(error.to_string()));
                }
            }
        }
        self.groups.append(&mut added);
        for group in &mut self.groups {
            if group.retires.is_none() && !pools.contains(&group.pool) {
                group.retires = Some(Instant::now() + RETIRED_PATIENCE);
            }
        }
        self.say(&ToServer::Ready);
    }

    /// Starts runners again, and drops pools that are no longer wanted; when something is due next.
    fn look(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let ended = signals::children_ended();
        if std::mem::replace(&mut self.ended, ended) != ended {
            self.bury(now);
        }
        self.groups.retain_mut(|group| {
            let is_over = group.retires.is_some_and(|at| now >= at);
            if is_over {
                group.kill();
            }
            !is_over
        });
        for group in &mut self.groups {
            group.start_again(now, self.of_runners.as_fd());
        }
        self.tell_status();
        let starts = self.groups.iter().flat_map(|group| &group.processes);
        let starts = starts.filter(|process| process.pid == 0).map(|process| process.at);
        let due = starts.chain(self.groups.iter().filter_map(|group| group.retires)).min()?;
        Some(due.saturating_duration_since(now))
    }

    /// Takes note of runners that have died, and ends what they have left.
    fn bury(&mut self, now: Instant) {
        let mut told = Vec::new();
        for group in &mut self.groups {
            for process in group.processes.iter_mut().filter(|process| process.pid != 0) {
                let (is_stopped, status) = children::stopped_or_ended(process.pid);
                if is_stopped {
                    // Its own scripts can do that, and it would never go on.
                    // SAFETY: the call takes no memory of ours. It was not waited for, so the number is its own.
                    unsafe { libc::kill(process.pid, libc::SIGKILL) };
                }
                let Some(status) = status else { continue };
                let has_lived = now - process.at >= GOOD_LIFE;
                process.failures = if has_lived { 0 } else { process.failures + 1 };
                let wait = BACK_OFF * (1 << process.failures.min(9));
                let wait = if has_lived { Duration::ZERO } else { wait.min(BACK_OFF_MAX) };
                told.push(format!(
                    "a runner of {} (process {}) has ended ({}), and is started again in {} ms",
                    group.pool.name,
                    process.pid,
                    ExitStatus::from_raw(status),
                    wait.as_millis()
                ));
                (process.pid, process.at) = (0, now + wait);
                group.restarts += 1;
            }
        }
        for text in told {
            self.say(&ToServer::Tell(text));
        }
        let known: Vec<_> = self.groups.iter().flat_map(|group| &group.processes).map(|process| process.pid).collect();
        children::end_strays(&known);
    }

    fn tell_status(&mut self) {
        let living = self.groups.iter().filter(|group| group.retires.is_none());
        let status: Vec<_> = living.map(Group::told).collect();
        if status != self.status {
            self.say(&ToServer::Status(status.clone()));
            self.status = status;
        }
    }

    /// Ends all runners.
    fn end(&mut self) {
        self.groups.iter_mut().for_each(Group::ask_to_end);
        let until = Instant::now() + END_PATIENCE;
        while Instant::now() < until && self.groups.iter_mut().any(Group::is_alive) {
            std::thread::sleep(TURN);
        }
        children::end_strays(&[]);
        for group in &self.groups {
            let _ = std::fs::remove_file(&group.pool.socket);
        }
        // A server that was killed can remove nothing, and a confined one may not.
        if let Some(folder) = &self.folder {
            engine::remove(folder);
        }
    }
}

impl Group {
    fn start(pool: Pool, server: Option<&str>, of_runners: BorrowedFd<'_>) -> Result<Self, NoStart> {
        // SAFETY: the call takes nothing, and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        if pool.as_owner && !is_root {
            return Err(NoStart::Owner(pool.name));
        }
        let account = if is_root {
            let name = pool.user.as_deref().or(server.filter(|user| *user != "root")).unwrap_or(USER);
            let account = account::find(name).ok_or_else(|| NoStart::NoUser(name.to_owned()))?;
            if account.uid == 0 {
                return Err(NoStart::Root(pool.name));
            }
            Some(account)
        } else {
            None
        };
        if pool.way == Way::Rte
            && let Some(folder) = pool.socket.parent()
        {
            let told = |error| NoStart::Engines(pool.name.clone(), folder.to_owned(), error);
            engine::install(folder).map_err(told)?;
        }
        let listener =
            listen(&pool, server.filter(|_| is_root)).map_err(|error| NoStart::Listen(pool.name.clone(), error))?;
        let now = Instant::now();
        let processes = (0..pool.workers).map(|_| Process { pid: 0, at: now, failures: 0 }).collect();
        let mut group = Self { pool, listener, account, processes, restarts: 0, retires: None };
        for at in 0..group.processes.len() {
            match group.fork(of_runners) {
                Ok(pid) => group.processes[at].pid = pid,
                Err(error) => {
                    group.kill();
                    return Err(NoStart::Fork(group.pool.name, error));
                }
            }
        }
        Ok(group)
    }

    /// Forks a runner.
    fn fork(&self, of_runners: BorrowedFd<'_>) -> io::Result<libc::pid_t> {
        let supervisor = std::process::id();
        // SAFETY: this process has one thread, so the new one may do anything.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // Nothing of the supervisor may run in this process, not even if it panics.
                let ended =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.be_runner(supervisor, of_runners)));
                if let Ok(Err(error)) = &ended {
                    self.tell_no_start(error, of_runners);
                }
                // SAFETY: the call does not return.
                unsafe { libc::_exit(i32::from(!matches!(ended, Ok(Ok(()))))) }
            }
            pid => Ok(pid),
        }
    }

    /// Has the log say why a runner did not start.
    fn tell_no_start(&self, error: &io::Error, of_runners: BorrowedFd<'_>) {
        let text = format!("a runner of {} cannot start: {error}", self.pool.name);
        if let Ok(pipe) = of_runners.try_clone_to_owned() {
            Telling::new(pipe).tell(&Told::Notice(short(&text)));
        }
    }

    /// What the process of a runner does.
    fn be_runner(&self, supervisor: u32, of_runners: BorrowedFd<'_>) -> io::Result<()> {
        // The link to the server is the supervisor's alone: its end has to show there.
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        // SAFETY: the calls take no memory of ours.
        unsafe {
            libc::dup2(null.as_raw_fd(), 0);
            libc::setpgid(0, 0);
        }
        drop(null);
        if let Some(account) = &self.account {
            match self.pool.as_owner {
                true => account::become_one_that_changes(account)?,
                false => account::become_one(account)?,
            }
        }
        // SAFETY: the call takes no memory of ours. A change of the user takes the setting back, so it comes behind.
        // Scripts have the same user: they shall not look into this process, which sees all requests.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            libc::prctl(libc::PR_SET_DUMPABLE, 0);
        }
        if std::os::unix::process::parent_id() != supervisor {
            return Ok(());
        }
        limits::set(&self.pool)?;
        let runner = Runner::new(self.pool.clone(), self.listener.as_fd(), of_runners)?;
        descriptor::close_inherited();
        runner.run();
        Ok(())
    }

    fn start_again(&mut self, now: Instant, of_runners: BorrowedFd<'_>) {
        for at in 0..self.processes.len() {
            if self.processes[at].pid == 0 && now >= self.processes[at].at {
                match self.fork(of_runners) {
                    Ok(pid) => (self.processes[at].pid, self.processes[at].at) = (pid, now),
                    Err(error) => {
                        self.tell_no_start(&error, of_runners);
                        self.processes[at].at = now + BACK_OFF_MAX;
                    }
                }
            }
        }
    }

    fn told(&self) -> PoolTold {
        PoolTold {
            name: self.pool.name.clone(),
            workers: self.pool.workers,
            pid: self.processes.first().map_or(0, |process| process.pid.unsigned_abs()),
            restarts: self.restarts,
        }
    }

    fn ask_to_end(&mut self) {
        for process in self.processes.iter().filter(|process| process.pid != 0) {
            // SAFETY: the call takes no memory of ours. The process has not been waited for, so the number is its own.
            unsafe { libc::kill(process.pid, libc::SIGTERM) };
        }
    }

    /// Whether one of its runners lives.
    fn is_alive(&mut self) -> bool {
        for process in self.processes.iter_mut().filter(|process| process.pid != 0) {
            if children::reap(process.pid).is_some() {
                process.pid = 0;
            }
        }
        self.processes.iter().any(|process| process.pid != 0)
    }

    /// Ends them; what they leave is ended with the next one that has died.
    fn kill(&mut self) {
        self.ask_to_end();
        let until = Instant::now() + END_PATIENCE;
        while Instant::now() < until && self.is_alive() {
            std::thread::sleep(TURN);
        }
        let _ = std::fs::remove_file(&self.pool.socket);
    }
}

/// The socket of a pool, which only the server's user may connect to.
fn listen(pool: &Pool, server: Option<&str>) -> io::Result<OwnedFd> {
    match std::fs::remove_file(&pool.socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&pool.socket)?;
    listener.set_nonblocking(true)?;
    std::fs::set_permissions(&pool.socket, std::fs::Permissions::from_mode(0o600))?;
    if let Some(account) = server.and_then(account::find) {
        chown(&pool.socket, Some(account.uid), Some(account.gid))?;
    }
    Ok(listener.into())
}

/// The first line, without its end.
fn take_line(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = memchr::memchr(b'\n', bytes)?;
    let mut line: Vec<u8> = bytes.drain(..=end).collect();
    line.pop();
    Some(line)
}
