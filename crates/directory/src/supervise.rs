//! Starts an installed etcd, keeps it running, and ends it.
//!
//! etcd ends with the process that supervises it, however that one ends. Where etcd ends by itself it is started
//! again, after a pause that grows while it does not stay up.

use crate::etcd::{TlsFiles, is_loopback};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The pause before the first new start.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// When it ran for so long, the next pause is short again.
const STEADY: Duration = Duration::from_secs(30);
/// Between two polls whether it still runs.
const POLL: Duration = Duration::from_millis(20);
/// How long it may take to end after SIGTERM.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of its log; then the log goes to `.old`, and that of before is dropped.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Polls of it between two of the log's size.
const POLLS_PER_LOG: u32 = 500;
/// Revisions of which etcd keeps old values, so that watches can go on after a pause.
const REVISIONS_KEPT: &str = "10000";

/// How etcd is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdServer {
    /// The program, `etcd` for the one on the search path.
    pub program: PathBuf,
    /// This member's name.
    pub name: String,
    /// Its data, a folder that is made readable for this user only.
    pub data: PathBuf,
    /// The file of its log, to which is added.
    pub log: PathBuf,
    /// Where clients reach it, as `host:port`.
    pub client: String,
    /// Where the other members reach it, as `host:port`.
    pub peer: String,
    /// All members, this one among them: name and `host:port` for the other members.
    pub members: Vec<(String, String)>,
    /// What distinguishes this cluster of etcd from others.
    pub token: String,
    /// Whether it joins members that run already, rather than beginning with all of them.
    pub joins: bool,
    /// Mutual TLS for clients and members; required but at loopback addresses. The certificate must be for servers
    /// and for clients.
    pub tls: Option<TlsFiles>,
    /// The common name that the certificates of members must have, so that other certificates of the same authority
    /// are those of clients only; `None` for any.
    pub member_common_name: Option<String>,
    /// A list of revoked certificates in DER, which etcd reads with each new connection; `None` for none.
    pub revoked: Option<PathBuf>,
    /// The most bytes of its database; `None` for etcd's own bound of 2 GiB.
    pub quota_bytes: Option<u64>,
    /// The time between heartbeats of the leader; an election begins after ten without one. `None` for etcd's 100 ms.
    pub heartbeat: Option<Duration>,
}

/// Why etcd cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// It would speak in the clear over a network.
    #[error("etcd at {address} would speak in the clear; give certificates, or use a loopback address")]
    InTheClear {
        /// The address that is no loopback one.
        address: String,
    },
    /// An address is no host and port.
    #[error("{address:?} is no address like 10.0.0.1:2379")]
    Address {
        /// What was given.
        address: String,
    },
    /// The list of members lacks this one.
    #[error("the members do not name {name} at {peer}; give each member all of them, itself included")]
    Members {
        /// This member.
        name: String,
        /// Its address.
        peer: String,
    },
    /// A file or a folder.
    #[error("{}: {error}; it must be writable for this user", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The program does not start.
    #[error("{} does not start: {error}; install etcd (on Debian the package etcd-server), or give its path", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The thread that watches it does not start.
    #[error("no thread can be started: {error}; raise the bound on threads")]
    Thread {
        /// What the system said.
        error: io::Error,
    },
}

/// How the supervised etcd stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Supervised {
    /// Its process, while it runs.
    pub pid: Option<u32>,
    /// How often it was started again.
    pub restarts: u64,
    /// How it ended last, or why it could not be started.
    pub ended: Option<String>,
}

/// An etcd that is kept running until this is dropped.
#[derive(Debug)]
pub struct Supervisor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    stop: Condvar,
}

#[derive(Debug, Default)]
struct State {
    supervised: Supervised,
    /// What became of the first start, until it was taken.
    first: Option<Result<(), SuperviseError>>,
    is_stopping: bool,
}

impl EtcdServer {
    /// A member alone, at two addresses of this machine, with its files below a folder.
    #[must_use]
    pub fn alone(folder: &Path, client: &str, peer: &str) -> Self {
        Self {
            program: PathBuf::from("etcd"),
            name: "alone".to_owned(),
            data: folder.join("etcd"),
            log: folder.join("etcd.log"),
            client: client.to_owned(),
            peer: peer.to_owned(),
            members: vec![("alone".to_owned(), peer.to_owned())],
            token: "weir".to_owned(),
            joins: false,
            tls: None,
            member_common_name: None,
            revoked: None,
            quota_bytes: None,
            heartbeat: None,
        }
    }

    fn check(&self) -> Result<(), SuperviseError> {
        let addresses = [&self.client, &self.peer];
        for address in addresses.into_iter().chain(self.members.iter().map(|(_, address)| address)) {
            let host = address.rsplit_once(':').and_then(|(host, port)| port.parse::<u16>().ok().map(|_| host));
            let Some(host) = host.filter(|host| !host.is_empty()) else {
                return Err(SuperviseError::Address { address: address.clone() });
            };
            if self.tls.is_none() && !is_loopback(host) {
                return Err(SuperviseError::InTheClear { address: address.clone() });
            }
        }
        if !self.members.contains(&(self.name.clone(), self.peer.clone())) {
            return Err(SuperviseError::Members { name: self.name.clone(), peer: self.peer.clone() });
        }
        Ok(())
    }

    fn url(&self, address: &str) -> String {
        format!("{}://{address}", if self.tls.is_some() { "https" } else { "http" })
    }

    /// The options of etcd (etcd --help of 3.4).
    fn arguments(&self) -> Vec<OsString> {
        let members: Vec<String> =
            self.members.iter().map(|(name, address)| format!("{name}={}", self.url(address))).collect();
        let mut given: Vec<(&str, OsString)> = vec![
            ("name", self.name.clone().into()),
            ("data-dir", self.data.clone().into()),
            ("listen-client-urls", self.url(&self.client).into()),
            ("advertise-client-urls", self.url(&self.client).into()),
            ("listen-peer-urls", self.url(&self.peer).into()),
            ("initial-advertise-peer-urls", self.url(&self.peer).into()),
            ("initial-cluster", members.join(",").into()),
            ("initial-cluster-state", if self.joins { "existing" } else { "new" }.into()),
            ("initial-cluster-token", self.token.clone().into()),
            ("auto-compaction-mode", "revision".into()),
            ("auto-compaction-retention", REVISIONS_KEPT.into()),
            ("logger", "zap".into()),
            ("log-outputs", "stderr".into()),
        ];
        if let Some(quota) = self.quota_bytes {
            given.push(("quota-backend-bytes", quota.to_string().into()));
        }
        if let Some(heartbeat) = self.heartbeat {
            given.push(("heartbeat-interval", heartbeat.as_millis().to_string().into()));
            given.push(("election-timeout", (heartbeat.as_millis() * 10).to_string().into()));
        }
        if let Some(TlsFiles { ca, certificate, key }) = &self.tls {
            for (name, file) in [
                ("trusted-ca-file", ca),
                ("cert-file", certificate),
                ("key-file", key),
                ("peer-trusted-ca-file", ca),
                ("peer-cert-file", certificate),
                ("peer-key-file", key),
            ] {
                given.push((name, file.clone().into()));
            }
            if let Some(revoked) = &self.revoked {
                given.push(("client-crl-file", revoked.into()));
                given.push(("peer-crl-file", revoked.into()));
            }
            given.push(("client-cert-auth", "true".into()));
            given.push(("peer-client-cert-auth", "true".into()));
            if let Some(name) = &self.member_common_name {
                given.push(("peer-cert-allowed-cn", name.into()));
                // A host with several addresses may ask from another one than its certificate's; the name suffices.
                given.push(("experimental-peer-skip-client-san-verification", "true".into()));
            }
        }
        let argument = |(name, value): (&str, OsString)| {
            let mut argument = OsString::from(format!("--{name}="));
            argument.push(value);
            argument
        };
        given.into_iter().map(argument).collect()
    }

    /// Starts the process, in the thread that waits for it: it ends with that thread.
    fn spawn(&self) -> Result<Child, SuperviseError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| SuperviseError::File { path, error }
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.data).map_err(at(&self.data))?;
        let log = open_log(&self.log).map_err(at(&self.log))?;
        let error_log = log.try_clone().map_err(at(&self.log))?;
        let mut command = Command::new(&self.program);
        command.args(self.arguments()).stdin(Stdio::null()).stdout(log).stderr(error_log);
        // etcd takes each option from the environment as well, and ends where both are there.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        let parent = std::process::id();
        // SAFETY: between fork and exec it calls prctl and getppid only, which are safe there (signal-safety(7)).
        unsafe {
            command.pre_exec(move || {
                // Own group: Ctrl-C on a terminal ends the supervisor, which then ends etcd in order. Where the supervisor
                // itself is killed, etcd gets the signal that it cannot put off: it keeps what it has acknowledged, and
                // one that goes on, or stands still, would hold its files and ports against the next start.
                if libc::setpgid(0, 0) != 0 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(io::Error::last_os_error());
                }
                if u32::try_from(libc::getppid()) != Ok(parent) {
                    // The parent died before the request: no signal would end us.
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Ok(())
            });
        }
        command.spawn().map_err(|error| SuperviseError::Program { program: self.program.clone(), error })
    }
}

impl Supervisor {
    /// Starts etcd; it is not waited for until it answers.
    ///
    /// # Errors
    ///
    /// The first start fails. Later ones are tried again and again, see [`Supervisor::state`].
    pub fn start(server: EtcdServer) -> Result<Self, SuperviseError> {
        server.check()?;
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("weir-etcd".to_owned())
            .spawn(move || own.run(&server))
            .map_err(|error| SuperviseError::Thread { error })?;
        let mut supervisor = Self { shared, thread: Some(thread) };
        let first = supervisor.shared.first();
        if first.is_err() {
            supervisor.stop();
        }
        first.map(|()| supervisor)
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> Supervised {
        self.shared.lock().supervised.clone()
    }

    /// Ends etcd: by SIGTERM, and after 5 s by SIGKILL.
    pub fn stop(&mut self) {
        self.shared.lock().is_stopping = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has panicked where it returns an error; the process ended with it.
            let _ = thread.join();
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first start.
    fn first(&self) -> Result<(), SuperviseError> {
        let mut state = self.lock();
        loop {
            if let Some(first) = state.first.take() {
                return first;
            }
            state = self.stop.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, less long where it is to stop meanwhile; whether it is.
    fn pause(&self, time: Duration) -> bool {
        let waits = |state: &mut State| !state.is_stopping;
        let waited = self.stop.wait_timeout_while(self.lock(), time, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_stopping
    }

    fn run(&self, server: &EtcdServer) {
        let mut pause = PAUSE;
        let mut is_first = true;
        loop {
            let begun = Instant::now();
            match server.spawn() {
                Ok(child) => {
                    self.lock().supervised.pid = Some(child.id());
                    self.tell_first(&mut is_first, Ok(()));
                    let ended = self.attend(child, &server.log);
                    let mut state = self.lock();
                    state.supervised.pid = None;
                    state.supervised.ended = Some(ended);
                }
                Err(error) => {
                    self.lock().supervised.ended = Some(error.to_string());
                    if is_first {
                        self.tell_first(&mut is_first, Err(error));
                        return;
                    }
                }
            }
            if begun.elapsed() >= STEADY {
                pause = PAUSE;
            }
            tracing::warn!(ended = self.lock().supervised.ended, pause_ms = pause.as_millis(), "etcd ended");
            if self.pause(pause) {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
            self.lock().supervised.restarts += 1;
        }
    }

    fn tell_first(&self, is_first: &mut bool, first: Result<(), SuperviseError>) {
        if std::mem::take(is_first) {
            self.lock().first = Some(first);
            self.stop.notify_all();
        }
    }

    /// Waits until the process ends, or ends it; returns how it ended.
    fn attend(&self, mut child: Child, log: &Path) -> String {
        for poll in 1u32.. {
            match child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) => {}
                Err(error) => return error.to_string(),
            }
            if poll.is_multiple_of(POLLS_PER_LOG)
                && let Err(error) = bound_log(log)
            {
                tracing::warn!(%error, log = %log.display(), "the log of etcd cannot be bounded");
            }
            if self.pause(POLL) {
                return end(&mut child);
            }
        }
        String::new()
    }
}

/// Ends a process in order, or else by force; returns how it ended.
fn end(child: &mut Child) -> String {
    let until = Instant::now() + END_PATIENCE;
    // SAFETY: kill touches no memory; the child is not yet waited for, so its number is still its own.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) => return status.to_string(),
            Ok(None) => thread::sleep(POLL),
            Err(error) => return error.to_string(),
        }
    }
    let _ = child.kill();
    child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Empties a log that is too long, after its content went to `.old`: etcd adds to the same file again.
fn bound_log(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.len() <= LOG_BYTES_MAX {
        return Ok(());
    }
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    fs::copy(path, old)?;
    OpenOptions::new().write(true).open(path)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_started_is_refused_in_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let alone = EtcdServer::alone(folder.path(), "127.0.0.1:1", "127.0.0.1:2");
        assert!(alone.check().is_ok());
        let clear = EtcdServer { client: "10.0.0.1:2379".to_owned(), ..alone.clone() };
        assert!(matches!(Supervisor::start(clear), Err(SuperviseError::InTheClear { .. })));
        let address = EtcdServer { client: "127.0.0.1".to_owned(), ..alone.clone() };
        assert!(matches!(Supervisor::start(address), Err(SuperviseError::Address { .. })));
        let members = EtcdServer { members: Vec::new(), ..alone.clone() };
        assert!(matches!(Supervisor::start(members), Err(SuperviseError::Members { .. })));
        let absent = EtcdServer { program: folder.path().join("absent"), ..alone };
        let error = Supervisor::start(absent).expect_err("no program").to_string();
        assert!(error.contains("etcd-server"), "{error}");
    }

    #[test]
    fn a_log_stays_within_its_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut log = open_log(&path).expect("a log");
        log.set_len(LOG_BYTES_MAX + 1).expect("a long log");
        bound_log(&path).expect("bounded");
        io::Write::write_all(&mut log, b"next").expect("added");
        assert_eq!(fs::read(&path).expect("read"), b"next");
        assert_eq!(fs::metadata(folder.path().join("log.old")).expect("the old one").len(), LOG_BYTES_MAX + 1);
    }
}
