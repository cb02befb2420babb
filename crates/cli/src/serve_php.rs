//! `weir serve` with PHP of its own: a process beside the server runs php-fpm, as a confined server can start nothing.

mod configuration;
mod fpm;
mod fpm_log;
mod messages;
mod program;
mod supervisor;

use crate::serve_policy::ids;
use crate::side_process::{self, receive, send};
use anyhow::{Context, bail};
use messages::{PoolTold, ToServer, ToSupervisor, Wanted};
use std::fs::{self, DirBuilder};
use std::io::{self, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use weir_server::{Options, PhpPool, PhpPoolStatus, PhpWatch, StuckWorker};

pub(crate) use supervisor::supervise;

/// How long the server waits for pools that were not there before.
const READY_PATIENCE: Duration = Duration::from_secs(20);
/// How long it waits until they are gone.
const END_PATIENCE: Duration = Duration::from_secs(8);
/// Bytes of a path of a Unix socket (sun_path of unix(7), with its end).
const SOCKET_BYTES_MAX: usize = 108;

/// The directory of the pools' sockets and files; it is made when there is one.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // SAFETY: the call takes nothing, and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        let run = Path::new("/run");
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let above = match own {
            _ if is_root && run.is_dir() => run.to_owned(),
            Some(own) if !is_root => own,
            _ => std::env::temp_dir(),
        };
        above.join(format!("weir-php-{}-{:08x}", std::process::id(), unforeseen()))
    })
}

/// A number that another user cannot know before, so that the directory is not taken.
fn unforeseen() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    // The seed of each map of the standard library is random.
    RandomState::new().hash_one(0) as u32
}

/// The processes of PHP of a server.
#[derive(Debug)]
pub(crate) struct PhpProcesses {
    link: UnixStream,
    /// Until a thread reads it.
    from: Option<BufReader<UnixStream>>,
    pools: Vec<PhpPool>,
    watch: PhpWatch,
    notice: fn(&str),
    answers: Receiver<Option<String>>,
    to_answers: Option<Sender<Option<String>>>,
}

impl PhpProcesses {
    /// Starts the supervisor and waits until all pools listen; none where no host has PHP.
    pub(crate) fn prepare(options: &Options) -> anyhow::Result<Option<Self>> {
        let pools = options.php_pools();
        if pools.is_empty() {
            return Ok(None);
        }
        for pool in &pools {
            program::find(pool.program.as_deref(), std::env::var_os("PATH").as_deref())?;
        }
        let folder = folder();
        let ids = options.user.as_deref().map(ids).transpose()?;
        make_folder(folder, ids, &pools)?;
        let link = side_process::start("serve-php", None).context("starting the process that runs PHP")?;
        // SAFETY: the call takes nothing, and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        if let Some(user) = pools.iter().find_map(|pool| pool.user.as_deref()).filter(|_| !is_root) {
            (options.notice)(&format!("workers of PHP run as the server does and not as {user}: only root could"));
        }
        let user = options.user.clone().filter(|_| is_root);
        let wanted = Wanted { folder: folder.to_owned(), is_root, user, pools: pools.clone() };
        send(&link, &ToSupervisor::Begin(Box::new(wanted))).context("the settings of PHP")?;
        let from = BufReader::new(link.try_clone().context("the socket to the process that runs PHP")?);
        let (to_answers, answers) = channel();
        let (watch, notice) = (options.php.clone(), options.notice);
        let mut own = Self { link, from: Some(from), pools, watch, notice, answers, to_answers: Some(to_answers) };
        own.await_first()?;
        Ok(Some(own))
    }

    /// Waits for the pools before any thread reads what the supervisor says.
    fn await_first(&mut self) -> anyhow::Result<()> {
        let Some(from) = &mut self.from else { return Ok(()) };
        self.link.set_read_timeout(Some(READY_PATIENCE)).context("the socket to the process that runs PHP")?;
        loop {
            match receive(from) {
                Some(ToServer::Ready) => break,
                Some(ToServer::Failed(why)) => bail!("{why}"),
                Some(other) => hear(other, &self.watch, self.notice),
                None => bail!("the process that runs PHP says nothing; start the server again"),
            }
        }
        self.link.set_read_timeout(None).context("the socket to the process that runs PHP")
    }

    /// Starts to take note of what the supervisor says, once: from the server's thread, so that it is confined as that is.
    pub(crate) fn start(&mut self) {
        let (Some(mut from), Some(answers)) = (self.from.take(), self.to_answers.take()) else { return };
        let (watch, notice) = (self.watch.clone(), self.notice);
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
        };
        if let Err(error) = std::thread::Builder::new().name("weir-php".to_owned()).spawn(body) {
            (self.notice)(&format!("nothing is told of PHP: there is no thread for it: {error}"));
        }
    }

    /// Has the pools run that another configuration wants, before the server takes that up.
    pub(crate) fn make_ready(&mut self, options: &Options) -> anyhow::Result<()> {
        let pools = options.php_pools();
        if pools == self.pools {
            return Ok(());
        }
        while self.answers.try_recv().is_ok() {}
        send(&self.link, &ToSupervisor::Pools(pools.clone())).context("the process that runs PHP")?;
        match self.answers.recv_timeout(READY_PATIENCE) {
            Ok(None) => self.pools = pools,
            Ok(Some(why)) => bail!("{why}"),
            Err(_) => bail!("the process that runs PHP says nothing; restart the server"),
        }
        Ok(())
    }

    /// Has the processes end, and waits for that.
    pub(crate) fn finish(mut self) {
        // No thread has it if the server has never run.
        self.to_answers = None;
        let _ = self.link.shutdown(std::net::Shutdown::Write);
        // The thread that reads ends with the supervisor, and drops its end then.
        loop {
            match self.answers.recv_timeout(END_PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    (self.notice)("the process that runs PHP does not end; look for weir serve-php");
                    break;
                }
            }
        }
    }
}

/// Makes the directory, for the server's user alone.
fn make_folder(folder: &Path, ids: Option<(libc::uid_t, libc::gid_t)>, pools: &[PhpPool]) -> anyhow::Result<()> {
    let longest = pools.iter().map(|pool| pool.socket(folder).as_os_str().len()).max().unwrap_or(0);
    if longest >= SOCKET_BYTES_MAX {
        bail!(
            "the path of the directory for PHP's sockets, {}, is too long; set TMPDIR to a shorter one",
            folder.display()
        );
    }
    let told = || format!("cannot keep PHP's sockets in {}; set TMPDIR to another directory", folder.display());
    match DirBuilder::new().mode(0o700).create(folder) {
        // What a server has left of the same number.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_own(folder) => {
            fs::remove_dir_all(folder)
                .and_then(|()| DirBuilder::new().mode(0o700).create(folder))
                .with_context(told)?;
        }
        made => made.with_context(told)?,
    }
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
