//! One php-fpm with one pool: it is started, started again when it dies, and stopped.

use super::configuration::{self, Owners};
use super::fpm_log::{self, Stack};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use weir_server::PhpPool;

/// How soon one that has died is started again at first; each time it doubles.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// One that has lived for so long is started again at once.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// How long workers without their main process may go on with their requests.
const ORPHANS_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of the log of slow requests that are read at once, and beyond which it begins anew.
const SLOW_LOG_BYTES_MAX: u64 = 256 << 10;

/// Where it is.
#[derive(Debug)]
enum Stage {
    /// It does not listen yet.
    Starting(Child),
    /// It listens, since then.
    Up(Child, Instant),
    /// It is started again at this time.
    Down(Instant),
    /// Nothing runs any more.
    Over,
}

/// What has become of it.
#[derive(Debug)]
pub(super) enum Change {
    /// It listens.
    Up,
    /// It has died before it ever listened.
    Failed(String),
    /// It has died, and is started again after this time.
    Died(String, Duration),
}

/// One php-fpm with one pool.
#[derive(Debug)]
pub(super) struct Fpm {
    pub(super) pool: PhpPool,
    pub(super) restarts: u64,
    /// When it is to be stopped, as no host wants it any more.
    pub(super) retires: Option<Instant>,
    program: PathBuf,
    folder: PathBuf,
    stage: Stage,
    has_been_up: bool,
    failures: u32,
    /// Groups of processes whose first one has died, and until when they may live.
    orphans: Vec<(libc::pid_t, Instant)>,
    slow_log_at: u64,
}

impl Fpm {
    /// Writes its configuration and starts it; its lines go to the sender with its name.
    pub(super) fn start(
        pool: PhpPool,
        (program, folder): (&Path, &Path),
        owners: Owners<'_>,
        lines: &Sender<(String, String)>,
    ) -> io::Result<Self> {
        let text = configuration::write(&pool, folder, owners);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        io::Write::write_all(&mut options.open(configuration::file(&pool, folder))?, text.as_bytes())?;
        let mut fpm = Self {
            pool,
            restarts: 0,
            retires: None,
            program: program.to_owned(),
            folder: folder.to_owned(),
            stage: Stage::Over,
            has_been_up: false,
            failures: 0,
            orphans: Vec::new(),
            slow_log_at: 0,
        };
        fpm.spawn(lines)?;
        Ok(fpm)
    }

    fn spawn(&mut self, lines: &Sender<(String, String)>) -> io::Result<()> {
        // php-fpm takes a socket that is there for one of another php-fpm.
        match fs::remove_file(self.pool.socket(&self.folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut command = Command::new(&self.program);
        command.arg("--nodaemonize").arg("--fpm-config").arg(configuration::file(&self.pool, &self.folder));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A group of its own, so that workers whose main process has died are found.
        command.process_group(0);
        // SAFETY: between fork and exec only this system call is made, which no lock of the parent can hold up.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let mut child = command.spawn()?;
        if let Some(from) = child.stderr.take() {
            let (name, lines) = (self.pool.name(), lines.clone());
            std::thread::Builder::new().name("weir-php-log".to_owned()).spawn(move || pass_on(from, &name, &lines))?;
        }
        self.stage = Stage::Starting(child);
        Ok(())
    }

    /// Whether it listens.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.stage, Stage::Up(..))
    }

    /// Whether it has never listened.
    pub(super) fn is_new(&self) -> bool {
        !self.has_been_up
    }

    /// Its main process; 0 = none.
    pub(super) fn pid(&self) -> u32 {
        match &self.stage {
            Stage::Starting(child) | Stage::Up(child, _) => child.id(),
            Stage::Down(_) | Stage::Over => 0,
        }
    }

    /// Looks how it is, and starts it again if that is due.
    pub(super) fn look(&mut self, lines: &Sender<(String, String)>) -> Option<Change> {
        self.reap();
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Starting(mut child) => match child.try_wait() {
                Ok(None) if UnixStream::connect(self.pool.socket(&self.folder)).is_ok() => {
                    self.stage = Stage::Up(child, Instant::now());
                    self.has_been_up = true;
                    Some(Change::Up)
                }
                Ok(Some(status)) => Some(self.died(child.id(), status, Duration::ZERO)),
                _ => {
                    self.stage = Stage::Starting(child);
                    None
                }
            },
            Stage::Up(mut child, since) => match child.try_wait() {
                Ok(Some(status)) => Some(self.died(child.id(), status, since.elapsed())),
                _ => {
                    self.stage = Stage::Up(child, since);
                    None
                }
            },
            Stage::Down(due) if due <= Instant::now() => {
                self.restarts += 1;
                match self.spawn(lines) {
                    Ok(()) => None,
                    Err(error) => {
                        let after = self.back_off();
                        self.stage = Stage::Down(Instant::now() + after);
                        Some(Change::Died(format!("cannot be started: {error}"), after))
                    }
                }
            }
            Stage::Down(due) => {
                self.stage = Stage::Down(due);
                None
            }
            Stage::Over => None,
        }
    }

    fn back_off(&mut self) -> Duration {
        let after = BACK_OFF.saturating_mul(1 << self.failures.min(10)).min(BACK_OFF_MAX);
        self.failures += 1;
        after
    }

    fn died(&mut self, pid: u32, status: ExitStatus, lived: Duration) -> Change {
        // They finish what they do, and take no new request: they have the socket of before.
        self.leave(pid, libc::SIGQUIT);
        let what = format!("has ended ({status})");
        if !self.has_been_up {
            return Change::Failed(what);
        }
        if self.retires.is_some() {
            return Change::Died(what, Duration::MAX);
        }
        if lived >= GOOD_LIFE {
            self.failures = 0;
        }
        let after = self.back_off();
        self.stage = Stage::Down(Instant::now() + after);
        Change::Died(what, after)
    }

    /// Signals the processes that are left of a group.
    fn leave(&mut self, pid: u32, signal: libc::c_int) {
        let group = pid.cast_signed();
        signal_group(group, signal);
        self.orphans.push((group, Instant::now() + ORPHANS_PATIENCE));
    }

    /// Reaps workers whose main process has died; those that do not end are killed.
    fn reap(&mut self) {
        let now = Instant::now();
        self.orphans.retain(|(group, until)| {
            if *until <= now {
                signal_group(*group, libc::SIGKILL);
            }
            loop {
                // SAFETY: the call takes no memory of ours.
                match unsafe { libc::waitpid(-group, std::ptr::null_mut(), libc::WNOHANG) } {
                    0 => break true,
                    pid if pid > 0 => {}
                    _ => break false,
                }
            }
        });
    }

    /// Whether nothing of it runs.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over) && self.orphans.is_empty()
    }

    /// Has it end: workers finish their requests, or are cut off at once.
    pub(super) fn end(&mut self, is_at_once: bool) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Starting(child) | Stage::Up(child, _) => {
                let signal = if is_at_once { libc::SIGTERM } else { libc::SIGQUIT };
                // SAFETY: the process is a child that was not waited for, so that its number is its own.
                unsafe { libc::kill(child.id().cast_signed(), signal) };
                let patience = if is_at_once { ORPHANS_PATIENCE } else { self.pool.timeout + ORPHANS_PATIENCE };
                self.orphans.push((child.id().cast_signed(), Instant::now() + patience));
            }
            Stage::Down(_) | Stage::Over => {}
        }
    }

    /// Kills what is left of it.
    pub(super) fn kill(&mut self) {
        self.end(true);
        self.orphans.iter_mut().for_each(|(_, until)| *until = Instant::now());
        self.reap();
    }

    /// Looks whether something of it is left, once it was told to end.
    pub(super) fn is_gone(&mut self) -> bool {
        self.reap();
        self.is_over()
    }

    /// The stacks that were written since the last look.
    pub(super) fn stacks(&mut self) -> Vec<Stack> {
        self.read_stacks().unwrap_or_default()
    }

    fn read_stacks(&mut self) -> io::Result<Vec<Stack>> {
        let mut file =
            File::options().read(true).write(true).open(configuration::slow_log(&self.pool, &self.folder))?;
        let bytes = file.metadata()?.len();
        if bytes <= self.slow_log_at {
            return Ok(Vec::new());
        }
        file.seek(SeekFrom::Start(self.slow_log_at))?;
        let mut text = Vec::new();
        (&file).take(SLOW_LOG_BYTES_MAX).read_to_end(&mut text)?;
        let (stacks, whole) = fpm_log::stacks(&String::from_utf8_lossy(&text));
        self.slow_log_at += whole as u64;
        if self.slow_log_at >= SLOW_LOG_BYTES_MAX && self.slow_log_at == bytes {
            file.set_len(0)?;
            self.slow_log_at = 0;
        }
        Ok(stacks)
    }
}

fn signal_group(group: libc::pid_t, signal: libc::c_int) {
    // SAFETY: the call takes no memory of ours; the group is one that this process has made, and has not reaped yet.
    unsafe { libc::kill(-group, signal) };
}

/// Passes lines on until the last process of php-fpm has closed its end.
fn pass_on(from: impl Read, name: &str, lines: &Sender<(String, String)>) {
    const LINE_BYTES_MAX: u64 = 16 << 10;
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            _ => return,
        }
        if lines.send((name.to_owned(), String::from_utf8_lossy(&line).into_owned())).is_err() {
            return;
        }
    }
}
