//! `weir cluster etcd`: runs and supervises the member of etcd that `init` or `join` has made on this machine.

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};
use weir_cluster::{ETCD_COMMON_NAME, EtcdKeys, REVOKED};
use weir_directory::supervise::{EtcdServer, Supervised, Supervisor};
use weir_directory::{EtcdMember, EtcdMembership, EtcdSettings, TlsFiles};
use weir_terminal::stop::Stop;
use weir_terminal::text_file;

/// What `init` and `join` write for this command.
pub(super) const FILE: &str = "etcd.toml";
/// Its data, and its log.
const DATA: &str = "etcd";
const LOG: &str = "etcd.log";
/// What this command says where `init` and `join` have started it.
const OWN_LOG: &str = "etcd-supervisor.log";
/// Held while a process supervises it; has the number of that process.
const LOCK: &str = "etcd.lock";
/// etcd's ports.
const CLIENT_PORT: u16 = 2379;
/// Bytes of these files that are read.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(100);
/// Between two tries to give it a vote.
const PROMOTE_EVERY: Duration = Duration::from_secs(1);
/// Between the new starts of two members after a certificate was revoked.
const AFTER_EACH_OTHER: Duration = Duration::from_secs(4);
/// How long a question to the members may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take to begin, or to end.
const START_PATIENCE: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  weir cluster etcd /etc/weir/cluster --user www-data
      run it until a signal, as weir-etcd.service does
  weir cluster etcd /etc/weir/cluster --end
      end the one that weir cluster init or join has started

etcd is started again where it ends by itself, after 0.1 s at first and 10 s at
most. Its log is etcd.log in the cluster's directory, at most 32 MiB.

Exit status: 0 if it was ended, 1 if it cannot start.";

/// Run the member of etcd of this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The cluster's directory
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The user that it runs as, to whom the cluster's directory belongs
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// End the one that runs, and wait until it has ended
    #[arg(long, conflicts_with = "user")]
    end: bool,
}

/// An address for a member of etcd: that of this machine, and the port for clients; the members use the next port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EtcdAddress {
    pub(super) client: SocketAddr,
}

impl FromStr for EtcdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let whole = text.parse::<SocketAddr>().or_else(|_| text.parse::<IpAddr>().map(|ip| (ip, CLIENT_PORT).into()));
        let client = whole.map_err(|_| format!("{text:?} is no address of this machine such as 10.0.0.11"))?;
        if client.ip().is_unspecified() || !(1..u16::MAX).contains(&client.port()) {
            return Err(format!("{client} is no address at which other machines reach this one; give such a one"));
        }
        Ok(Self { client })
    }
}

impl EtcdAddress {
    fn peer(self) -> SocketAddr {
        SocketAddr::new(self.client.ip(), self.client.port() + 1)
    }
}

/// `etcd.toml`: the member of etcd on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EtcdFile {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    token: String,
    joins: bool,
    /// Where clients reached the other members when it joined: a learner answers no questions about members.
    #[serde(default)]
    others: Vec<String>,
    /// The members with which it begins: each with its address for the others.
    members: BTreeMap<String, String>,
}

impl EtcdFile {
    /// The first member of a new etcd.
    pub(super) fn first(name: &str, address: EtcdAddress, token: &str) -> Self {
        let (client, peer) = (address.client, address.peer());
        let members = BTreeMap::from([(name.to_owned(), peer.to_string())]);
        Self { name: name.to_owned(), client, peer, token: token.to_owned(), joins: false, others: Vec::new(), members }
    }

    /// One that joins these, itself among them without a name.
    fn joining(name: &str, address: EtcdAddress, token: &str, known: &[EtcdMember]) -> anyhow::Result<Self> {
        let own = Self::first(name, address, token);
        let (mut members, mut others) = (own.members.clone(), Vec::new());
        for member in known {
            let url = member.peer_urls.first().context("a member of etcd has no address")?;
            let host = url.strip_prefix("https://").with_context(|| format!("{url} is no address with TLS"))?;
            if host != own.peer.to_string() {
                ensure!(!member.name.is_empty(), "the member at {url} has not started yet; start it, or remove it");
                members.insert(member.name.clone(), host.to_owned());
                others.extend(member.client_urls.clone());
            }
        }
        Ok(Self { joins: true, members, others, ..own })
    }

    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let text = text_file::read(&path, FILE_BYTES_MAX)
            .with_context(|| format!("{}: make it by weir cluster init or join with --etcd-member", path.display()))?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(FILE);
        fs::write(&path, toml::to_string(self)?).with_context(|| path.display().to_string())
    }

    /// Where clients reach it.
    pub(super) fn url(&self) -> String {
        format!("https://{}", self.client)
    }

    /// Where questions about members are answered.
    fn urls(&self) -> Vec<String> {
        if self.others.is_empty() { vec![self.url()] } else { self.others.clone() }
    }

    fn server(&self, folder: &Path) -> EtcdServer {
        EtcdServer {
            name: self.name.clone(),
            log: folder.join(LOG),
            members: self.members.iter().map(|(name, address)| (name.clone(), address.clone())).collect(),
            token: self.token.clone(),
            joins: self.joins,
            tls: Some(tls_files(folder)),
            member_common_name: Some(ETCD_COMMON_NAME.to_owned()),
            revoked: Some(folder.join(REVOKED)).filter(|list| list.exists()),
            data: folder.join(DATA),
            ..EtcdServer::alone(folder, &self.client.to_string(), &self.peer.to_string())
        }
    }
}

fn tls_files(folder: &Path) -> TlsFiles {
    let EtcdKeys { authority, certificate, key } = EtcdKeys::of(folder);
    TlsFiles { ca: authority, certificate, key }
}

/// Asks members of etcd with the keys of the one on this machine.
fn membership(folder: &Path, urls: Vec<String>) -> anyhow::Result<EtcdMembership> {
    let mut settings = EtcdSettings::new(urls, "weir/");
    (settings.tls, settings.patience) = (Some(tls_files(folder)), PATIENCE);
    Ok(EtcdMembership::open(&settings)?)
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.end {
        return end(&args.folder);
    }
    if let Some(user) = &args.user {
        weir_server::become_user(user).with_context(|| format!("becoming the user {user}"))?;
    }
    let file = EtcdFile::read(&args.folder)?;
    let mut revoked = Revoked::of(&args.folder);
    let stop = Stop::on_signals().context("handling signals")?;
    let lock = lock(&args.folder)?;
    let server = file.server(&args.folder);
    let mut supervisor = Supervisor::start(server)?;
    let pid = supervisor.state().pid.map_or_else(String::new, |pid| format!(" as process {pid}"));
    eprintln!("weir cluster etcd: member {} at {} runs{pid}", file.name, file.url());
    let mut vote = Vote::of(&args.folder, &file)?;
    let mut known = supervisor.state();
    while !stop.asked() {
        std::thread::sleep(LOOK);
        let now = supervisor.state();
        tell(&known, &now);
        known = now;
        vote.look();
        if revoked.has_changed(&args.folder, &file) {
            // With its next start it looks at the newest list, and all connections are made anew.
            supervisor.stop();
            supervisor = Supervisor::start(file.server(&args.folder))?;
            known = supervisor.state();
            eprintln!("weir cluster etcd: etcd was started again, and refuses the certificates of removed members");
        }
    }
    supervisor.stop();
    drop(lock);
    eprintln!("weir cluster etcd: ended");
    Ok(ExitCode::SUCCESS)
}

/// Says what has changed.
fn tell(known: &Supervised, now: &Supervised) {
    if now.ended.is_some() && (now.ended != known.ended || now.restarts > known.restarts) {
        let (why, times) = (now.ended.as_deref().unwrap_or_default(), now.restarts);
        eprintln!("weir cluster etcd: etcd ended ({why}); it was started again {times} times; see {LOG}");
    }
}

/// The list of revoked certificates, which etcd looks at only when a connection is made: after a change it is started
/// again, so that a removed member keeps no connection from before.
struct Revoked {
    /// When it was written, as far as etcd knows it.
    used: Option<SystemTime>,
    /// When etcd is to be started again.
    due: Option<Instant>,
}

impl Revoked {
    fn of(folder: &Path) -> Self {
        Self { used: written(folder), due: None }
    }

    /// Whether etcd is to be started again now. The members do it one after the other, so that a majority is there.
    fn has_changed(&mut self, folder: &Path, file: &EtcdFile) -> bool {
        let now = written(folder);
        if now == self.used {
            return false;
        }
        let place = file.members.keys().position(|name| *name == file.name).unwrap_or(0);
        let due = *self.due.get_or_insert_with(|| Instant::now() + AFTER_EACH_OTHER * place as u32);
        if Instant::now() < due {
            return false;
        }
        (self.used, self.due) = (now, None);
        true
    }
}

fn written(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder.join(REVOKED)).and_then(|found| found.modified()).ok()
}

/// Whether the member counts for the majority.
enum Vote {
    /// Not yet, or not known: asked again at this time.
    Wanted {
        membership: Box<EtcdMembership>,
        name: String,
        next: Instant,
    },
    Given,
}

impl Vote {
    fn of(folder: &Path, file: &EtcdFile) -> anyhow::Result<Self> {
        if !file.joins {
            return Ok(Self::Given);
        }
        let membership = Box::new(membership(folder, file.urls())?);
        Ok(Self::Wanted { membership, name: file.name.clone(), next: Instant::now() })
    }

    /// Gives a learner its vote once it has all entries.
    fn look(&mut self) {
        let Self::Wanted { membership, name, next } = self else { return };
        if Instant::now() < *next {
            return;
        }
        *next = Instant::now() + PROMOTE_EVERY;
        let Ok(members) = membership.members() else { return };
        let Some(own) = members.iter().find(|member| member.name == *name) else { return };
        let is_given = !own.is_learner || membership.promote(own.id).unwrap_or(false);
        if is_given {
            eprintln!("weir cluster etcd: member {name} votes, one of {}", members.len());
            *self = Self::Given;
        }
    }
}

/// Takes the place of the process that supervises; the file has its number.
fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK);
    let named = || path.display().to_string();
    let options = || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = options().with_context(named)?;
    if !try_lock(&file).with_context(named)? {
        let pid = holder(&mut file).map_or_else(String::new, |pid| format!(", as process {pid}"));
        bail!("it runs already{pid}; end that one by weir cluster etcd {} --end", folder.display());
    }
    file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes())).with_context(named)?;
    Ok(file)
}

fn try_lock(file: &File) -> std::io::Result<bool> {
    // SAFETY: the descriptor is open over the call, which touches no memory of ours.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = std::io::Error::last_os_error();
    if error.kind() == std::io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
}

fn holder(file: &mut File) -> Option<i32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn end(folder: &Path) -> anyhow::Result<ExitCode> {
    let path = folder.join(LOCK);
    let Ok(mut file) = File::open(&path) else {
        println!("no etcd is supervised here");
        return Ok(ExitCode::SUCCESS);
    };
    let until = Instant::now() + START_PATIENCE;
    let mut asked = None;
    while !try_lock(&file).with_context(|| path.display().to_string())? {
        if asked.is_none() {
            asked = holder(&mut file);
            let pid = asked.context("the process that runs it has not said its number yet; try again")?;
            // SAFETY: the call takes numbers only; the process holds the lock, so that it is the one that is meant.
            let sent = unsafe { libc::kill(pid, libc::SIGTERM) };
            ensure!(sent == 0, "process {pid} cannot be ended: {}", std::io::Error::last_os_error());
        }
        ensure!(Instant::now() < until, "it has not ended within {} s", START_PATIENCE.as_secs());
        std::thread::sleep(LOOK);
    }
    println!("{}", if asked.is_some() { "etcd has ended" } else { "no etcd is supervised here" });
    Ok(ExitCode::SUCCESS)
}

/// Enters this machine into an etcd that there is, and writes its file; returns all URLs for clients.
pub(super) fn enter(
    folder: &Path,
    name: &str,
    address: EtcdAddress,
    (token, urls): (&str, Vec<String>),
) -> anyhow::Result<Vec<String>> {
    let membership = membership(folder, urls)?;
    let peer = format!("https://{}", address.peer());
    let until = Instant::now() + START_PATIENCE;
    let members = loop {
        match membership.add_learner(&peer) {
            Ok(members) => break members,
            // Another one is to get its vote first.
            Err(error) if error.to_string().contains("learner") && Instant::now() < until => {
                std::thread::sleep(PROMOTE_EVERY);
            }
            // The member that was given its vote last is not connected to all others yet.
            Err(error) if error.to_string().contains("unhealthy") && Instant::now() < until => {
                std::thread::sleep(PROMOTE_EVERY);
            }
            Err(error) => return Err(error).context("the etcd of the cluster does not take a new member"),
        }
    };
    let file = EtcdFile::joining(name, address, token, &members)?;
    file.write(folder)?;
    let mut urls: Vec<String> = members.into_iter().flat_map(|member| member.client_urls).collect();
    if !urls.contains(&file.url()) {
        urls.push(file.url());
    }
    Ok(urls)
}

/// Starts the member of this machine in the background, and waits until it answers.
pub(super) fn start(folder: &Path) -> anyhow::Result<u32> {
    let file = EtcdFile::read(folder)?;
    let path = folder.join(OWN_LOG);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let log = log.with_context(|| path.display().to_string())?;
    let mut command = Command::new(std::env::current_exe().context("where this program is")?);
    command.args(["cluster", "etcd"]).arg(folder).stdin(Stdio::null());
    command.stdout(log.try_clone().context("the log")?).stderr(log);
    // SAFETY: between fork and exec it calls setsid only, which is safe there (signal-safety(7)).
    unsafe {
        command.pre_exec(|| {
            // It goes on when the terminal of this command is closed.
            if libc::setsid() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let mut child = command.spawn().context("starting weir cluster etcd")?;
    let membership = membership(folder, file.urls())?;
    let until = Instant::now() + START_PATIENCE;
    loop {
        if let Some(status) = child.try_wait().context("weir cluster etcd")? {
            bail!("etcd does not start ({status}): {}", last_line(&path));
        }
        let members = membership.members().unwrap_or_default();
        if members.iter().any(|member| member.name == file.name && !member.is_learner) {
            return Ok(child.id());
        }
        ensure!(
            Instant::now() < until,
            "etcd has not answered within {} s; see {}",
            START_PATIENCE.as_secs(),
            folder.join(LOG).display()
        );
        std::thread::sleep(LOOK);
    }
}

fn last_line(path: &Path) -> String {
    let text = text_file::read(path, 1 << 20).unwrap_or_default();
    text.lines().last().unwrap_or("it says nothing").to_owned()
}

/// Whether an etcd is installed: on the search path.
pub(super) fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("etcd").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, peer: &str) -> EtcdMember {
        EtcdMember {
            id: 1,
            name: name.to_owned(),
            peer_urls: vec![peer.to_owned()],
            client_urls: Vec::new(),
            is_learner: false,
        }
    }

    #[test]
    fn an_address_has_etcds_port_or_its_own() {
        let of = |text: &str| text.parse::<EtcdAddress>();
        assert_eq!(of("10.0.0.11").expect("is one").client.to_string(), "10.0.0.11:2379");
        assert_eq!(of("[fd00::1]:4000").expect("is one").peer().to_string(), "[fd00::1]:4001");
        for wrong in ["", "front", "0.0.0.0", "10.0.0.1:0", "10.0.0.1:65535", "10.0.0.1:x"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_that_joins_begins_with_all_others() {
        let address = "10.0.0.12".parse().expect("is one");
        let known = [member("n1", "https://10.0.0.11:2380"), member("", "https://10.0.0.12:2380")];
        let file = EtcdFile::joining("n2", address, "token", &known).expect("is right");
        let names: Vec<&str> = file.members.keys().map(String::as_str).collect();
        assert_eq!((names, file.joins), (vec!["n1", "n2"], true));
        let text = toml::to_string(&file).expect("is TOML");
        assert_eq!(toml::from_str::<EtcdFile>(&text).expect("is read"), file);
        let unstarted = [member("", "https://10.0.0.13:2380")];
        let refused = EtcdFile::joining("n2", address, "token", &unstarted).expect_err("is refused").to_string();
        assert!(refused.contains("has not started yet"), "{refused}");
        let clear = [member("n1", "http://10.0.0.11:2380")];
        assert!(EtcdFile::joining("n2", address, "token", &clear).is_err());
    }

    #[test]
    fn of_two_that_supervise_the_second_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = lock(folder.path()).expect("is the first");
        let refused = lock(folder.path()).expect_err("is the second").to_string();
        assert!(refused.contains(&format!("as process {}", std::process::id())), "{refused}");
        drop(first);
        lock(folder.path()).expect("is the first again");
    }
}
