//! Processes that answer one request after the other.

use crate::children;
use crate::descriptor::{self, Moved};
use crate::environment::Environment;
use crate::marks::{Marks, Said, Sifted};
use crate::owner::Owner;
use crate::pool::Pool;
use crate::program::{NotRun, Program, Stamp};
use crate::signals;
use crate::spawn::Spawner;
use crate::start::Start;
use crate::telling::{Told, short};
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Processes that one runner keeps.
const KEPT_MAX: usize = 8;
/// How long a process that is told to end may take, by each of the two ways.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// The stream of variables, as a script opens it.
const STREAM: &str = "/dev/fd/3";
/// Bytes of output between two requests that are looked at.
const STALE_BYTES: usize = 4096;
/// Bytes of output that a process can write ahead, so that a response of 64 KiB does not make it wait.
const OUTPUT_BYTES: usize = 256 << 10;

/// A process that waits for requests, or answers one.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) pid: libc::pid_t,
    /// What it runs.
    key: Vec<u8>,
    stamp: Stamp,
    /// As whom it runs, if that is the owner of its file.
    owner: Option<Rc<Owner>>,
    /// For bodies; for variables; its output.
    pub(crate) stdin: OwnedFd,
    pub(crate) tells: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) marks: Marks,
    pub(crate) is_struct: bool,
    uses: u32,
    /// How long it is kept without a request; zero = for ever.
    idle: Duration,
    since: Instant,
    /// Whether it has answered a request that it has not read to its end.
    pub(crate) is_behind: bool,
    /// Whether there is something to read of its output between two requests.
    is_noisy: bool,
    /// How long the last response took from its first bytes to its end, if it came in pieces that follow each other fast.
    pub(crate) pause: Duration,
}

/// How a process is that waits for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Good,
    /// Its output has ended.
    Ended,
    /// It has written something that belongs to no request: why it is replaced.
    Faulty(&'static str),
}

impl Kept {
    /// Whether it has answered requests before.
    pub(crate) fn has_answered(&self) -> bool {
        self.uses > 0
    }

    /// Whether the process can have another request.
    fn condition(&mut self) -> Condition {
        // The wait for the request has looked at its output too.
        if self.uses == 0 || (!self.is_noisy && !self.marks.is_within()) {
            return Condition::Good;
        }
        let mut out = Vec::new();
        self.marks.restore(&mut out);
        let moved = descriptor::read(self.stdout.as_raw_fd(), STALE_BYTES, &mut out);
        let sifted = self.marks.sift(0, &mut out);
        match moved {
            Moved::Over => Condition::Ended,
            _ if sifted == Sifted::Ended => Condition::Faulty("marked the end of a response twice"),
            _ if sifted != Sifted::Going || !out.is_empty() || self.marks.is_within() => {
                Condition::Faulty("wrote between two requests")
            }
            _ => Condition::Good,
        }
    }
}

/// A process that is to end, and how.
#[derive(Debug)]
struct Ending {
    pid: libc::pid_t,
    /// It gets this signal then.
    signal: libc::c_int,
    at: Instant,
}

/// The processes of one runner.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    kept: Vec<Kept>,
    ending: Vec<Ending>,
    /// What was known of children that have ended.
    ended: u32,
    /// For the log.
    notices: Vec<Told>,
}

impl Processes {
    /// Takes out the process for a program, or starts one.
    pub(crate) fn take(
        &mut self,
        (program, key): (&Program, &[u8]),
        pool: &Pool,
        (spawner, stderr): (&mut Spawner, RawFd),
    ) -> Result<Kept, NotRun> {
        let owner = program.owned.as_ref().map(|owned| &owned.owner);
        if let Some(at) = self.kept.iter().position(|kept| kept.key == key) {
            let mut kept = self.kept.swap_remove(at);
            if kept.stamp == program.stamp && kept.owner.as_ref() == owner {
                match kept.condition() {
                    Condition::Good => return Ok(kept),
                    Condition::Ended => {}
                    Condition::Faulty(fault) => self.notices.push(replaced(key, fault)),
                }
            }
            self.retire(kept);
        }
        if self.kept.len() >= KEPT_MAX {
            let oldest = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.since).map(|(at, _)| at);
            if let Some(oldest) = oldest {
                let kept = self.kept.swap_remove(oldest);
                self.retire(kept);
            }
        }
        start((program, key), pool, (spawner, stderr)).map_err(|error| NotRun::of(&program.name, error))
    }

    /// What is for the log since this was called last.
    pub(crate) fn take_notices(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.notices)
    }

    /// Puts a process back that has answered; what its callouts said for the log.
    pub(crate) fn put(&mut self, mut kept: Kept, has_body: bool, pool: &Pool) -> Vec<Told> {
        let Said { is_struct, idle, notices, .. } = kept.marks.take_said();
        kept.is_struct = is_struct.unwrap_or(kept.is_struct);
        kept.idle = idle.unwrap_or(kept.idle);
        kept.uses += 1;
        kept.since = Instant::now();
        kept.is_noisy = false;
        let mut told: Vec<_> = notices.iter().map(|text| Told::Notice(short(text))).collect();
        let left = if has_body { descriptor::waiting(kept.stdin.as_raw_fd()) } else { 0 };
        if left > 0 {
            // The next request's body would begin with it.
            told.push(replaced(&kept.key, &format!("left {left} bytes of a request's body unread")));
        } else if kept.is_behind {
            told.push(replaced(&kept.key, "answered a request before it had read it to its end"));
        } else if kept.marks.excess() > 0 {
            let text = format!("wrote {} bytes behind the end of its response", kept.marks.excess());
            told.push(replaced(&kept.key, &text));
        }
        if left > 0 || kept.is_behind || kept.marks.excess() > 0 || (pool.renew > 0 && kept.uses >= pool.renew) {
            self.retire(kept);
        } else {
            self.kept.push(kept);
        }
        told
    }

    /// Appends what is to be waited for between two requests: the output of each process from which nothing has come.
    pub(crate) fn outputs(&self, fds: &mut Vec<libc::pollfd>) {
        let quiet = self.kept.iter().filter(|kept| !kept.is_noisy);
        fds.extend(quiet.map(|kept| libc::pollfd { fd: kept.stdout.as_raw_fd(), events: libc::POLLIN, revents: 0 }));
    }

    /// Takes note of those of whose output something is to be read.
    pub(crate) fn note(&mut self, fds: &[libc::pollfd]) {
        for fd in fds.iter().filter(|fd| fd.revents != 0) {
            self.kept.iter_mut().filter(|kept| kept.stdout.as_raw_fd() == fd.fd).for_each(|kept| kept.is_noisy = true);
        }
    }

    /// Puts a process back that was not asked.
    pub(crate) fn put_unused(&mut self, kept: Kept) {
        self.kept.push(kept);
    }

    /// Has a process end by itself: the end of its stream of variables says so.
    fn retire(&mut self, kept: Kept) {
        let pid = kept.pid;
        drop(kept);
        self.ending.push(Ending { pid, signal: libc::SIGTERM, at: Instant::now() + END_PATIENCE });
    }

    /// Has all processes end.
    pub(crate) fn retire_all(&mut self) {
        while let Some(kept) = self.kept.pop() {
            self.retire(kept);
        }
    }

    /// Has those end that wait for too long, and kills those that do not end; when to look again.
    pub(crate) fn tend(&mut self) -> Option<Duration> {
        if self.kept.is_empty() && self.ending.is_empty() {
            return None;
        }
        let (now, ended) = (Instant::now(), signals::children_ended());
        let has_ended = std::mem::replace(&mut self.ended, ended) != ended;
        let (mut at, mut has_lost) = (0, false);
        while let Some(kept) = self.kept.get(at) {
            let is_over = !kept.idle.is_zero() && now >= kept.since + kept.idle;
            if is_over || (has_ended && children::reap(kept.pid).is_some()) {
                let kept = self.kept.swap_remove(at);
                if is_over {
                    self.retire(kept);
                } else {
                    has_lost = true;
                }
            } else {
                at += 1;
            }
        }
        let before = self.ending.len();
        self.ending.retain_mut(|ending| {
            let is_over = children::reap(ending.pid).is_some();
            if !is_over && now >= ending.at {
                children::signal(ending.pid, ending.signal);
                (ending.signal, ending.at) = (libc::SIGKILL, now + END_PATIENCE);
            }
            !is_over
        });
        if has_lost || self.ending.len() < before {
            children::end_strays(&self.living());
        }
        let dues = self.kept.iter().filter(|kept| !kept.idle.is_zero()).map(|kept| kept.since + kept.idle);
        let due = dues.chain(self.ending.iter().map(|ending| ending.at)).min()?;
        Some(due.saturating_duration_since(now))
    }

    /// The processes that it knows; other children are what scripts have left behind.
    pub(crate) fn living(&self) -> Vec<libc::pid_t> {
        let kept = self.kept.iter().map(|kept| kept.pid);
        kept.chain(self.ending.iter().map(|ending| ending.pid)).collect()
    }
}

/// Why a process is replaced.
fn replaced(key: &[u8], fault: &str) -> Told {
    Told::Notice(short(&format!("{} {fault}, so its process is replaced", String::from_utf8_lossy(key))))
}

/// Starts a process.
fn start((program, key): (&Program, &[u8]), pool: &Pool, (spawner, stderr): (&mut Spawner, RawFd)) -> io::Result<Kept> {
    let mut nonce = [0; 16];
    SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("there is no randomness"))?;
    let nonce: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
    let marks = Marks::new(&nonce);
    let (of_body, stdin) = descriptor::pipe()?;
    let (of_variables, tells) = descriptor::pipe()?;
    let (stdout, of_output) = descriptor::pipe()?;
    for end in [&stdin, &tells, &stdout] {
        descriptor::set_nonblocking(end)?;
    }
    descriptor::widen(&stdout, OUTPUT_BYTES);
    if pool.as_owner {
        descriptor::open_to_others(&of_body, descriptor::READ_BY_ALL)?;
        descriptor::open_to_others(&of_variables, descriptor::READ_BY_ALL)?;
        descriptor::open_to_others(&of_output, descriptor::WRITTEN_BY_ALL)?;
    }
    let mut environment = Environment::of_pool(pool);
    environment.add(b"CGIPLUSIN", STREAM.as_bytes());
    for (name, text) in marks.variables() {
        environment.add(name.as_bytes(), &text);
    }
    let descriptors = [of_body.as_raw_fd(), of_output.as_raw_fd(), stderr, of_variables.as_raw_fd()];
    let pid = spawner.start(&Start {
        file: &program.file,
        arguments: &program.arguments,
        folder: &program.folder,
        environment: environment.pointers(),
        descriptors: &descriptors,
        memory: pool.memory,
        cpu_s: pool.cpu_s(),
        owned: program.owned.as_ref(),
        is_own_program: program.is_own(),
    })?;
    Ok(Kept {
        pid,
        key: key.to_owned(),
        stamp: program.stamp,
        owner: program.owned.as_ref().map(|owned| Rc::clone(&owned.owner)),
        stdin,
        tells,
        stdout,
        marks,
        is_struct: pool.is_struct,
        uses: 0,
        idle: pool.idle,
        since: Instant::now(),
        is_behind: false,
        is_noisy: false,
        pause: Duration::ZERO,
    })
}
