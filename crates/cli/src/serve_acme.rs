//! `weir serve` with certificates by ACME, and the certifier: a process that asks the authority and writes files for a
//! server that is confined and can do neither.
//!
//! Both speak in lines of JSON over a pair of sockets. The server hands over settings and hosts; the certifier has
//! challenges answered, and puts certificates into files that the server reads again within a second.

use crate::serve_policy::ids;
use crate::side_process::{self, receive, send};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use weir_acme::{
    Answers, ChallengeCertificate, ChallengeKind, ExternalAccount, HostState, HostStatus, LETS_ENCRYPT,
    LETS_ENCRYPT_STAGING, Manager,
};
use weir_server::{Challenges, ObtainBy, ObtainOptions, ObtainedStatus, Options};

/// How long the certifier waits until the server answers a challenge.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// What the server tells the certifier.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToCertifier {
    /// The first line.
    Begin(Box<Wanted>),
    /// Other hosts.
    Hosts(Vec<String>),
    /// The last challenge is answered, or why not.
    Taken(Option<String>),
}

/// What the certifier tells the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToServer {
    Http01 { token: String, key_authorization: String },
    Http01Over { token: String },
    TlsAlpn01 { name: String, certificate: Vec<u8>, key: Vec<u8> },
    TlsAlpn01Over { name: String },
    Status(Vec<HostStatus>),
    Tell(String),
}

/// How certificates are obtained, and for whom.
#[derive(Debug, Serialize, Deserialize)]
struct Wanted {
    directory: String,
    contact: Vec<String>,
    storage: PathBuf,
    ca: Option<PathBuf>,
    /// Whether HTTP-01 and TLS-ALPN-01 may be used, in the order in which they are tried.
    http_first: Option<bool>,
    has_both: bool,
    external_account: Option<(String, PathBuf)>,
    hosts: Vec<String>,
}

impl Wanted {
    fn of(obtain: &ObtainOptions, speaks_in_the_clear: bool) -> Self {
        let directory = match obtain.directory.as_str() {
            "letsencrypt" => LETS_ENCRYPT.to_owned(),
            "letsencrypt-staging" => LETS_ENCRYPT_STAGING.to_owned(),
            other => other.to_owned(),
        };
        Self {
            directory,
            contact: obtain.contact.iter().map(|address| format!("mailto:{address}")).collect(),
            storage: obtain.storage.clone(),
            ca: obtain.ca.clone(),
            http_first: obtain.challenge.map(|by| by == ObtainBy::Http01),
            has_both: obtain.challenge.is_none() && speaks_in_the_clear,
            external_account: obtain.external_account.clone(),
            hosts: obtain.hosts.clone(),
        }
    }

    fn settings(self) -> (weir_acme::Settings, Vec<String>) {
        let challenges = match (self.http_first, self.has_both) {
            (Some(true), _) => vec![ChallengeKind::Http01],
            (Some(false), _) | (None, false) => vec![ChallengeKind::TlsAlpn01],
            (None, true) => vec![ChallengeKind::Http01, ChallengeKind::TlsAlpn01],
        };
        let external_account = self.external_account.map(|(key_id, key_file)| ExternalAccount { key_id, key_file });
        let settings = weir_acme::Settings {
            directory: self.directory,
            contact: self.contact,
            storage: self.storage,
            ca: self.ca,
            challenges,
            external_account,
        };
        (settings, self.hosts)
    }
}

/// The certifier of a server.
pub(crate) struct Obtaining {
    link: Arc<Mutex<UnixStream>>,
    challenges: Challenges,
    is_started: bool,
    hosts: Vec<String>,
    notice: fn(&str),
}

impl Obtaining {
    /// Starts the certifier, as the user that the server will run as; none where no certificates are obtained.
    pub(crate) fn prepare(options: &Options) -> anyhow::Result<Option<Self>> {
        let Some(obtain) = &options.obtain else { return Ok(None) };
        let ids = options.user.as_deref().map(ids).transpose()?;
        make_storage(&obtain.storage, ids).with_context(|| {
            format!("cannot keep certificates in {}; give another directory as `storage`", obtain.storage.display())
        })?;
        let link = side_process::start("serve-certificates", ids).context("starting the certifier")?;
        let wanted = Wanted::of(obtain, !options.listen_clear.is_empty());
        let (challenges, notice, hosts) = (options.challenges.clone(), options.notice, obtain.hosts.clone());
        let waiting = hosts.iter().map(|host| ObtainedStatus::new(host.clone())).collect();
        challenges.set_status(waiting);
        let link = Arc::new(Mutex::new(link));
        say(&link, &ToCertifier::Begin(Box::new(wanted))).context("the settings of the certifier")?;
        Ok(Some(Self { link, challenges, is_started: false, hosts, notice }))
    }

    /// Starts to do as the certifier asks, once: from the server's thread, so that it is confined as that is.
    pub(crate) fn start(&mut self) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        let (challenges, notice) = (self.challenges.clone(), self.notice);
        let link = Arc::clone(&self.link);
        let own = link.lock().unwrap_or_else(PoisonError::into_inner).try_clone();
        let started = own.and_then(|from| {
            let body = move || serve_certifier(from, &link, &challenges, notice);
            std::thread::Builder::new().name("weir-acme".to_owned()).spawn(body)
        });
        if let Err(error) = started {
            notice(&format!("no certificates are obtained: there is no thread for it: {error}"));
        }
    }

    /// Hands over the hosts of another configuration.
    pub(crate) fn read_again(&mut self, options: Option<&Options>) {
        let Some(obtain) = options.and_then(|options| options.obtain.as_ref()) else { return };
        if obtain.hosts == self.hosts {
            return;
        }
        self.hosts.clone_from(&obtain.hosts);
        if let Err(error) = say(&self.link, &ToCertifier::Hosts(self.hosts.clone())) {
            (self.notice)(&format!("certificates of new hosts are not obtained until a restart: {error}"));
        }
    }
}

/// Makes the directory for certificates, for the user alone, and those above it as usual.
fn make_storage(storage: &Path, ids: Option<(libc::uid_t, libc::gid_t)>) -> io::Result<()> {
    if let Some(parent) = storage.parent() {
        fs::create_dir_all(parent)?;
    }
    for folder in [storage.to_owned(), storage.join("hosts")] {
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if let Some((uid, gid)) = ids {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid))?;
        }
    }
    Ok(())
}

/// The same from the server: two of its threads speak.
fn say(link: &Mutex<UnixStream>, message: &ToCertifier) -> io::Result<()> {
    send(&link.lock().unwrap_or_else(PoisonError::into_inner), message)
}

/// Does what the certifier asks until that ends.
fn serve_certifier(from: UnixStream, link: &Mutex<UnixStream>, challenges: &Challenges, notice: fn(&str)) {
    let mut from = BufReader::new(from);
    while let Some(message) = receive(&mut from) {
        let taken = match message {
            ToServer::Http01 { token, key_authorization } => challenges.answer_http01(&token, &key_authorization),
            ToServer::TlsAlpn01 { name, certificate, key } => challenges.answer_tls_alpn01(&name, certificate, key),
            ToServer::Http01Over { token } => {
                challenges.remove_http01(&token);
                continue;
            }
            ToServer::TlsAlpn01Over { name } => {
                challenges.remove_tls_alpn01(&name);
                continue;
            }
            ToServer::Status(hosts) => {
                challenges.set_status(hosts.into_iter().map(told).collect());
                continue;
            }
            ToServer::Tell(what) => {
                notice(&what);
                continue;
            }
        };
        let taken = ToCertifier::Taken(taken.err().map(|error| error.to_string()));
        if say(link, &taken).is_err() {
            break;
        }
    }
    notice("the process that obtains certificates has ended; those that are there are used on, restart to renew them");
}

fn told(host: HostStatus) -> ObtainedStatus {
    let state = match host.state {
        HostState::Wanted => "wanted",
        HostState::Valid => "valid",
        HostState::Due => "due",
        HostState::Expired => "expired",
    };
    let mut status = ObtainedStatus::new(host.host);
    state.clone_into(&mut status.state);
    status.not_after_unix_s = host.not_after_unix_s;
    status.next_attempt_unix_s = host.next_attempt_unix_s;
    status.failures = host.failures;
    status.last_error = host.last_error;
    status
}

/// The certifier: obtains and renews certificates until the server ends.
pub(crate) fn certifier() -> anyhow::Result<ExitCode> {
    let link = side_process::link().context("the socket to the server")?;
    let mut from = BufReader::new(link.try_clone().context("the socket to the server")?);
    let Some(ToCertifier::Begin(wanted)) = receive(&mut from) else {
        anyhow::bail!("weir serve starts this command for itself");
    };
    let (settings, mut hosts) = wanted.settings();
    let (taken, of_taken) = channel();
    let (others, of_others) = channel();
    std::thread::Builder::new()
        .name("weir-acme-link".to_owned())
        .spawn(move || listen(from, &taken, &others))
        .context("a thread for what the server says")?;
    let mut manager = Manager::new(settings);
    let mut link = Link { link, taken: of_taken };
    let mut status = Vec::new();
    loop {
        manager.set_hosts(&hosts, &mut link);
        loop {
            let wait = manager.turn(now_unix_s(), &mut link);
            let now = manager.status(now_unix_s());
            if now != status {
                link.say(&ToServer::Status(now.clone()));
                status = now;
            }
            match of_others.recv_timeout(wait) {
                Ok(other) => {
                    hosts = other;
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(ExitCode::SUCCESS),
            }
        }
    }
}

fn now_unix_s() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Hands on what the server says, and ends the process with it: files are written at once, so that none is cut.
fn listen(mut from: impl BufRead, taken: &Sender<Option<String>>, others: &Sender<Vec<String>>) {
    while let Some(message) = receive(&mut from) {
        let _ = match message {
            ToCertifier::Taken(why) => taken.send(why).is_ok(),
            ToCertifier::Hosts(hosts) => others.send(hosts).is_ok(),
            ToCertifier::Begin(_) => false,
        };
    }
    tracing::info!("the server has ended");
    std::process::exit(0);
}

/// The way to the server.
struct Link {
    link: UnixStream,
    taken: Receiver<Option<String>>,
}

impl Link {
    fn say(&self, message: &ToServer) {
        // If the server has ended, so does this process.
        let _ = send(&self.link, message);
    }

    /// Has the server answer a challenge.
    fn ask(&self, message: &ToServer) -> io::Result<()> {
        // What came too late for the question before.
        while self.taken.try_recv().is_ok() {}
        send(&self.link, message)?;
        match self.taken.recv_timeout(ANSWER_PATIENCE) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(io::Error::other(why)),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the server says nothing")),
        }
    }
}

impl Answers for Link {
    fn answer_http01(&mut self, token: &str, key_authorization: &str) -> io::Result<()> {
        let (token, key_authorization) = (token.to_owned(), key_authorization.to_owned());
        self.ask(&ToServer::Http01 { token, key_authorization })
    }

    fn remove_http01(&mut self, token: &str) {
        self.say(&ToServer::Http01Over { token: token.to_owned() });
    }

    fn answer_tls_alpn01(&mut self, name: &str, made: &ChallengeCertificate) -> io::Result<()> {
        let (certificate, key) = (made.certificate.clone(), made.key.clone());
        self.ask(&ToServer::TlsAlpn01 { name: name.to_owned(), certificate, key })
    }

    fn remove_tls_alpn01(&mut self, name: &str) {
        self.say(&ToServer::TlsAlpn01Over { name: name.to_owned() });
    }

    /// The server finds the file by itself.
    fn install(&mut self, names: &[&str], file: &Path) {
        tracing::info!(?names, file = %file.display(), "a certificate was obtained");
    }

    fn tell(&mut self, what: &str) {
        self.say(&ToServer::Tell(what.to_owned()));
    }
}
