//! A server that runs for the length of a test.

pub(crate) mod apache;
pub(crate) mod backend;
pub(crate) mod certificate;
pub(crate) mod faulty;
pub(crate) mod mariadb;
pub(crate) mod nghttpd;
pub(crate) mod nginx;
pub(crate) mod php_fpm;
mod port;
pub(crate) mod postgres;
mod process;
pub(crate) mod slow_fs;
pub(crate) mod weir_serve;

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Site;
use certificate::Certificate;
use process::Process;

/// How long a server may take until it answers; generous, because tests share the machine with
/// compilers.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A port of 127.0.0.1 on which no process listens, for a server that cannot choose one; each call gives another.
///
/// It lies below the ports that the kernel hands out: one of those, found free and given back, may be the next test's.
///
/// # Panics
/// Where none of 200 ports is free.
#[must_use]
pub fn free_port() -> u16 {
    port::free().expect("one of 200 ports is free")
}

/// A server that answers on its port; dropping it ends the server and removes its directory.
#[derive(Debug)]
pub struct RunningServer {
    /// The port on 127.0.0.1.
    pub port: u16,
    /// Further ports that the launcher was asked for, in order.
    pub more_ports: Vec<u16>,
    /// The directory that is served; for servers without files, their own directory.
    pub root: PathBuf,
    scheme: &'static str,
    process: Process,
    log: PathBuf,
    // Declared last: the files go when the processes that use them are gone.
    _own: TempDir,
    _site: Option<Site>,
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

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Its directory or its configuration could not be written.
    Prepare(io::Error),
    /// Its program could not be executed.
    Spawn {
        /// The program.
        program: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The served directory cannot be read by the user that the server changes to.
    Unreadable {
        /// The part of the path that is closed to others.
        path: PathBuf,
    },
    /// It ended before it answered.
    Ended {
        /// How it ended.
        status: String,
        /// Its own log.
        log: String,
    },
    /// It runs, but did not answer within the limit.
    Silent {
        /// Its own log.
        log: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare(source) => write!(f, "the server's directory: {source}"),
            Self::Spawn { program, source } => write!(f, "{}: {source}", program.display()),
            Self::Unreadable { path } => {
                write!(f, "the server's user cannot read {}: open it with chmod o+rx, or use a Site", path.display())
            }
            Self::Ended { status, log } => {
                write!(f, "the server ended ({status}); its log:\n{log}")
            }
            Self::Silent { log } => {
                write!(f, "the server did not answer within {START_LIMIT:?}; its log:\n{log}")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// Where a launcher's files come from: the caller's directory or a sample that lives as long.
#[derive(Debug, Clone, Default)]
struct Launch {
    root: Option<PathBuf>,
    cpu: Option<usize>,
    more_ports: usize,
    certificate: Option<Certificate>,
    /// Whether it is ready as soon as it listens, as it does not answer in HTTP/1.
    only_listens: bool,
}

/// What a launcher fills in for one attempt.
struct Attempt<'a> {
    port: u16,
    more_ports: &'a [u16],
    /// The server's own directory, world-readable.
    dir: &'a Path,
    root: &'a Path,
}

impl Launch {
    /// Starts a server that takes its port from us, again on another port when it was taken.
    fn start(
        &self,
        log_name: &str,
        command: impl Fn(&Attempt<'_>) -> io::Result<Command>,
    ) -> Result<RunningServer, StartError> {
        let mut tries_left = 3;
        loop {
            let result = self.start_once(log_name, &command);
            tries_left -= 1;
            match result {
                Err(StartError::Ended { log, .. }) if tries_left > 0 && log.contains("Address already in use") => {}
                other => return other,
            }
        }
    }

    fn start_once(
        &self,
        log_name: &str,
        command: impl Fn(&Attempt<'_>) -> io::Result<Command>,
    ) -> Result<RunningServer, StartError> {
        let own = own_directory().map_err(StartError::Prepare)?;
        let (root, site) = match &self.root {
            Some(root) => (root.canonicalize().map_err(StartError::Prepare)?, None),
            None => {
                let site = Site::sample().map_err(StartError::Prepare)?;
                (site.path().to_owned(), Some(site))
            }
        };
        let port = port::free().map_err(StartError::Prepare)?;
        let more_ports = (0..self.more_ports).map(|_| port::free()).collect::<io::Result<Vec<_>>>();
        let more_ports = more_ports.map_err(StartError::Prepare)?;
        let attempt = Attempt { port, more_ports: &more_ports, dir: own.path(), root: &root };
        let command = command(&attempt).map_err(StartError::Prepare)?;
        let output = own.path().join("output.log");
        let mut process = spawn(command, &output, self.cpu, libc::SIGTERM)?;

        let log = own.path().join(log_name);
        wait_until(&mut process, &[&output, &log], || {
            let ready = if self.only_listens { listens(port) } else { answers(port) };
            ready.then_some(())
        })?;
        let log = if log.exists() { log } else { output };
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        Ok(RunningServer { port, more_ports, root, scheme, process, log, _own: own, _site: site })
    }
}

/// Runs the command with its output in a file; the signal is the one that ends it.
fn spawn(mut command: Command, output: &Path, cpu: Option<usize>, signal: i32) -> Result<Process, StartError> {
    let file = File::create(output).map_err(StartError::Prepare)?;
    let copy = file.try_clone().map_err(StartError::Prepare)?;
    command.stdout(file).stderr(copy);
    let program = PathBuf::from(command.get_program());
    Process::spawn(command, cpu, signal).map_err(|source| StartError::Spawn { program, source })
}

/// Polls until the server is ready, has ended, or the limit has passed.
fn wait_until<T>(process: &mut Process, logs: &[&Path], mut ready: impl FnMut() -> Option<T>) -> Result<T, StartError> {
    let log = || logs.iter().map(|path| read_log(path)).collect::<String>();
    let start = Instant::now();
    while start.elapsed() < START_LIMIT {
        let value = ready();
        // Asked after the port: a server that could not bind has ended by the time that another
        // server on the same port has answered us.
        if let Some(status) = process.ended() {
            return Err(StartError::Ended { status, log: log() });
        }
        if let Some(value) = value {
            return Ok(value);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(StartError::Silent { log: log() })
}

/// Whether a server accepts connections on the port.
fn listens(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

/// Whether an HTTP server answers on the port; any status will do.
///
/// We wait for a request that was accepted: a second one, sent while the machine stands still, would be counted, too,
/// and tests compare servers' counts.
fn answers(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(START_LIMIT))?;
        stream.write_all(b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        Ok(&head == b"HTTP/")
    };
    ask().unwrap_or(false)
}

/// A temporary directory that a server can still use after it has given up root's rights.
fn own_directory() -> io::Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("weir-server-").tempdir()?;
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
    Ok(dir)
}

fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// The user and group for servers that refuse to run as root: unprivileged on every system.
const UNPRIVILEGED: u32 = 65_534;

fn read_log(path: &Path) -> String {
    // A log that is absent says as much as an empty one.
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Finds what keeps a user other than the owner from reading the directory.
fn closed_to_others(root: &Path) -> Option<PathBuf> {
    let closed =
        |path: &Path, needed: u32| fs::metadata(path).map_or(true, |meta| meta.permissions().mode() & needed != needed);
    if closed(root, 0o005) {
        return Some(root.to_owned());
    }
    root.ancestors().skip(1).find(|path| closed(path, 0o001)).map(Path::to_owned)
}
