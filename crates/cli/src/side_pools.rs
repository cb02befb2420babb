//! Pools of processes beside a confined server, which answer its requests: of PHP, and of scripts.

use crate::side_folder;
use crate::side_process::{self, receive, send};
use anyhow::{Context, bail};
use serde::Serialize;
use std::fs::{self, DirBuilder};
use std::io::{self, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use weir_scripts::{PoolTold, ToServer};
use weir_server::{PhpPoolStatus, PhpWatch, StuckWorker};

/// How long the server waits for pools that were not there before.
const READY_PATIENCE: Duration = Duration::from_secs(20);
/// How long it waits until they are gone.
const END_PATIENCE: Duration = Duration::from_secs(8);
/// Bytes of a path of a Unix socket (sun_path of unix(7), with its end).
const SOCKET_BYTES_MAX: usize = 108;

/// A directory for pools' sockets and files, which is not made yet.
pub(crate) fn folder(name: &str) -> PathBuf {
    let is_root = is_root();
    let run = Path::new("/run");
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let above = match own {
        _ if is_root && run.is_dir() => run.to_owned(),
        Some(own) if !is_root => own,
        _ => std::env::temp_dir(),
    };
    above.join(format!("{name}-{}-{:08x}", std::process::id(), unforeseen()))
}

/// Whether this process is root.
pub(crate) fn is_root() -> bool {
    // SAFETY: the call takes nothing, and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A number that another user cannot know before, so that the directory is not taken.
fn unforeseen() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    // The seed of each map of the standard library is random.
    RandomState::new().hash_one(0) as u32
}

/// The pools of one kind that run beside a server.
#[derive(Debug)]
pub(crate) struct SidePools<P> {
    link: UnixStream,
    /// Until a thread reads it.
    from: Option<BufReader<UnixStream>>,
    pools: Vec<P>,
    /// The command of the process, and what it runs.
    command: &'static str,
    what: &'static str,
    watch: PhpWatch,
    notice: fn(&str),
    answers: Receiver<Option<String>>,
    to_answers: Option<Sender<Option<String>>>,
    /// Whether the process is to end.
    ends: Arc<AtomicBool>,
    /// Whether it has ended though it was not to.
    is_lost: Arc<AtomicBool>,
}

impl<P: Clone + PartialEq> SidePools<P> {
    /// Starts the process that runs the pools, and waits until all listen.
    pub(crate) fn begin(
        (command, what): (&'static str, &'static str),
        message: &impl Serialize,
        pools: Vec<P>,
        (watch, notice): (PhpWatch, fn(&str)),
    ) -> anyhow::Result<Self> {
        let link =
            side_process::start(command, None).with_context(|| format!("starting the process that runs {what}"))?;
        send(&link, message).with_context(|| format!("the settings of {what}"))?;
        let from =
            BufReader::new(link.try_clone().with_context(|| format!("the socket to the process that runs {what}"))?);
        let (to_answers, answers) = channel();
        let (from, to_answers) = (Some(from), Some(to_answers));
        let (ends, is_lost) = (Arc::default(), Arc::default());
        let mut own = Self { link, from, pools, command, what, watch, notice, answers, to_answers, ends, is_lost };
        own.await_first()?;
        Ok(own)
    }

    /// Waits for the pools before any thread reads what the supervisor says.
    fn await_first(&mut self) -> anyhow::Result<()> {
        let Some(from) = &mut self.from else { return Ok(()) };
        let of_link = || format!("the socket to the process that runs {}", self.what);
        self.link.set_read_timeout(Some(READY_PATIENCE)).with_context(of_link)?;
        loop {
            match receive(from) {
                Some(ToServer::Ready) => break,
                Some(ToServer::Failed(why)) => bail!("{why}"),
                Some(other) => hear(other, &self.watch, self.notice),
                None => bail!("the process that runs {} says nothing; start the server again", self.what),
            }
        }
        self.link.set_read_timeout(None).with_context(of_link)
    }

    /// Starts to take note of what the supervisor says, once: from the server's thread, so that it is confined as that is.
    pub(crate) fn start(&mut self) {
        let (Some(mut from), Some(answers)) = (self.from.take(), self.to_answers.take()) else { return };
        let (watch, notice, what) = (self.watch.clone(), self.notice, self.what);
        let (ends, is_lost) = (Arc::clone(&self.ends), Arc::clone(&self.is_lost));
        let body = move || {
            while let Some(message) = receive(&mut from) {
                let answer = match message {
                    ToServer::Ready => None,
                    ToServer::Failed(why) => Some(why),
                    other => {
                        hear(other, &watch, notice);
                        continue;
                    }
                };
                if answers.send(answer).is_err() {
                    break;
                }
            }
            if !ends.load(Ordering::Acquire) {
                is_lost.store(true, Ordering::Release);
                notice(&format!(
                    "the process that runs {what} has ended, and none of them is answered; restart the server"
                ));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("weir-side".to_owned()).spawn(body) {
            (self.notice)(&format!("nothing is told of {}: there is no thread for it: {error}", self.what));
        }
    }

    /// Whether the process has ended though it was not to; nothing is answered any more then.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Has other pools run, before the server asks them.
    pub(crate) fn make_ready<M: Serialize>(
        &mut self,
        pools: Vec<P>,
        message: impl FnOnce(Vec<P>) -> M,
    ) -> anyhow::Result<()> {
        if pools == self.pools {
            return Ok(());
        }
        while self.answers.try_recv().is_ok() {}
        send(&self.link, &message(pools.clone())).with_context(|| format!("the process that runs {}", self.what))?;
        match self.answers.recv_timeout(READY_PATIENCE) {
            Ok(None) => self.pools = pools,
            Ok(Some(why)) => bail!("{why}"),
            Err(_) => bail!("the process that runs {} says nothing; restart the server", self.what),
        }
        Ok(())
    }

    /// Has the processes end, and waits for that.
    pub(crate) fn finish(mut self) {
        // No thread has it if the server has never run.
        self.to_answers = None;
        self.ends.store(true, Ordering::Release);
        let _ = self.link.shutdown(std::net::Shutdown::Write);
        // The thread that reads ends with the supervisor, and drops its end then.
        loop {
            match self.answers.recv_timeout(END_PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let (what, command) = (self.what, self.command);
                    (self.notice)(&format!("the process that runs {what} does not end; look for weir {command}"));
                    break;
                }
            }
        }
    }
}

/// Makes the directory of the pools, which is the server's user's; `longest` is the socket with the longest path. It
/// removes those that servers have left which were killed.
pub(crate) fn make_folder(
    folder: &Path,
    ids: Option<(libc::uid_t, libc::gid_t)>,
    longest: &Path,
    mode: u32,
) -> anyhow::Result<()> {
    if longest.as_os_str().len() >= SOCKET_BYTES_MAX {
        bail!("the path of the directory for sockets, {}, is too long; set TMPDIR to a shorter one", folder.display());
    }
    let told = || format!("cannot keep sockets in {}; set TMPDIR to another directory", folder.display());
    let removed = side_folder::remove_dead(folder);
    if removed > 0 {
        tracing::info!(removed, "directories of servers that were killed");
    }
    match DirBuilder::new().mode(mode).create(folder) {
        // What a server has left of the same number.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_own(folder) => {
            fs::remove_dir_all(folder).and_then(|()| DirBuilder::new().mode(mode).create(folder)).with_context(told)?;
        }
        made => made.with_context(told)?,
    }
    // The umask cuts the mode of creation.
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).with_context(told)?;
    side_folder::hold(folder).with_context(told)?;
    if let Some((uid, gid)) = ids {
        chown(folder, Some(uid), Some(gid)).with_context(told)?;
    }
    Ok(())
}

fn is_own(folder: &Path) -> bool {
    // SAFETY: the call takes nothing, and cannot fail.
    let own = unsafe { libc::geteuid() };
    folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own)
}

/// Takes note of what the supervisor says.
fn hear(message: ToServer, watch: &PhpWatch, notice: fn(&str)) {
    match message {
        ToServer::Tell(what) => notice(&what),
        ToServer::Status(pools) => {
            let pool = |of: PoolTold| PhpPoolStatus::new(of.name, of.workers, of.pid, of.restarts);
            watch.set_pools(pools.into_iter().map(pool).collect());
        }
        ToServer::Stuck(told) => {
            let mut worker = StuckWorker::new(told.pool, told.pid, told.script, told.request);
            (worker.stack, worker.no_stack) = (told.stack, told.no_stack);
            let worker = watch.stuck(worker, told.for_ms, told.timeout_ms);
            notice(&stuck_line(&worker, told.for_ms));
        }
        ToServer::Ready | ToServer::Failed(_) => {}
    }
}

/// What the log says of a stuck worker.
fn stuck_line(worker: &StuckWorker, for_ms: u64) -> String {
    let StuckWorker { pool, pid, script, request, request_id, stack, no_stack, .. } = worker;
    let id = request_id.as_ref().map_or_else(String::new, |id| format!("request {id}, "));
    let seconds = for_ms as f64 / 1000.0;
    let stack = match (stack.as_slice(), no_stack) {
        ([], Some(why)) => format!("no stack: {why}"),
        ([], None) => "no stack".to_owned(),
        (frames, _) => format!("stack: {}", frames.join(" < ")),
    };
    format!("worker {pid} of {pool} is stuck in {script} for {seconds:.1} s ({id}{request}); {stack}")
}
