//! What a caller can choose about a server; every bound has a default here.

use crate::access_log::format::Format;
use crate::admin::{Admin, Teller};
use crate::advice::Adviser;
use crate::arm_rules::ArmRules;
use crate::config::{HostRules, Mistake};
use crate::front::rules::SiteKind;
use crate::listen::ListenAddr;
use crate::throttle::Throttle;
use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How to serve a directory.
#[derive(Debug, Clone)]
pub struct Options {
    /// Addresses to listen on; each loop listens on all of them. Default: `127.0.0.1:8080`.
    pub listen: Vec<ListenAddr>,
    /// A process whose listening sockets at these addresses are taken over; once this server runs, it is asked to end
    /// (SIGTERM). Default: none.
    pub take_over: Option<u32>,
    /// The directory that is served; nothing outside it is ever opened.
    pub root: PathBuf,
    /// Event loops, each a thread with its own listening sockets, cache and log buffer; at least 1 is run.
    /// Default: the CPUs that this process may use.
    pub loops: usize,
    /// Event loops that rest until [`crate::Control::spread`] has them serve, on the addresses of TCP. They have their
    /// shares of memory and descriptors all the time. Default: 0.
    pub reserve_loops: usize,
    /// How bytes come and go. Default: by io_uring where that works.
    pub io: Io,
    /// Bytes of file content held in memory by all loops together; each loop has an equal share. Default: 256 MiB.
    pub cache_bytes_max: u64,
    /// Files up to this size are held in memory; larger ones are sent from their descriptor, which in the clear spares
    /// the kernel a copy. Where most is encrypted, 1 MiB is better. Default: 24 KiB.
    pub cached_file_bytes_max: u64,
    /// Compressed forms of files. Default: both ways are on.
    pub compression: Compression,
    /// Whether the includes of `.shtml` files are carried out (mod_include's include, echo, set and if; ESI's include).
    /// They lead to what the site serves anyhow, and run nothing. Default: yes.
    pub includes: bool,
    /// Directories that each loop watches for changes (inotify), so that files in memory need no look. Those beyond
    /// it, and where the kernel does not tell of changes, are looked at once a second. 0 = none. Default: 8192.
    pub watches_max: usize,
    /// Media types by the ending of a name, without its dot and in lower case, before the built-in ones.
    pub media_types: HashMap<String, String>,
    /// Whether a directory without `index.html` is listed; otherwise it is answered with 403. Default: yes.
    pub listing: bool,
    /// Names of files that stand for their directory, in the order in which they are looked for. Default: `index.html`.
    pub index: Vec<String>,
    /// Whether names that begin with a dot are served. `/.well-known/` (RFC 8615) always is. Default: no.
    pub dot_files: bool,
    /// Which symbolic links are followed. Default: those that lead to something below the root.
    pub symlinks: Symlinks,
    /// The hosts of a configuration; with them `root`, `listing`, `index`, `dot_files`, `symlinks`, `media_types`,
    /// `compression` and `includes` mean nothing, as each site says its own. Default: none.
    pub hosts: Option<HostRules>,
    /// What counts more than what a configuration says of its sites. Default: nothing.
    pub site_word: SiteWord,
    /// Where to write a line for each response. Default: nowhere.
    pub access_log: Option<AccessLog>,
    /// Where the server tells of itself: a page, JSON, metrics for Prometheus. Default: nowhere.
    pub admin: Option<Admin>,
    /// The user as whom the server runs when it was started as root, once everything is open. Default: as it was started.
    pub user: Option<String>,
    /// Whether the server confines itself to the files and system calls that it needs (Landlock, seccomp): the thread
    /// that runs it, and all that come from that, for ever; so it is for programs that do nothing else. Without a word on
    /// it the library does not.
    pub sandbox: Option<bool>,
    /// Directories in which further releases of a root will lie, or other roots of a new configuration: a server that is
    /// confined leaves them open to itself, beside those that lie around a root or around the target of a link to it.
    pub releases: Vec<PathBuf>,
    /// Files that a new configuration would be read from: a server that is confined leaves them open to itself.
    pub read_again: Vec<PathBuf>,
    /// Who else tells something where the server tells of itself. Default: nobody.
    pub teller: Option<Arc<dyn Teller>>,
    /// The rules by which an adviser goes, which whoever runs the server reads. Default: none.
    pub policy: Option<PolicyOptions>,
    /// What a configuration says that can be done, and is seldom meant. Default: nothing.
    pub warnings: Vec<Mistake>,
    /// Which requests are told as business transactions (ARM). Default: none.
    pub arm: Option<ArmRules>,
    /// Who knows rules: is asked about requests for the paths that they are for. Default: nobody.
    pub adviser: Option<Arc<dyn Adviser>>,
    /// Bounds on the requests that are under way for some paths; the first that a path is of counts. Default: none.
    pub throttles: Vec<Throttle>,
    /// Certificates, the first for clients that name no host that any of them has. With at least one, the addresses
    /// of `listen` speak TLS. Default: none.
    pub certificates: Vec<CertificateFiles>,
    /// Addresses that speak in the clear although there are certificates. Default: none.
    pub listen_clear: Vec<ListenAddr>,
    /// Addresses of UDP that speak HTTP/3, which needs certificates. Default: none.
    pub listen_quic: Vec<ListenAddr>,
    /// Whether HTTP/3 is spoken at the addresses and ports of `listen` as well, as far as they are of IP. Default: no.
    pub http3: bool,
    /// Who is told of what happens while the server runs: certificates that were changed, a log that cannot be
    /// written. Default: nobody.
    pub notice: fn(&str),
    /// How long to wait for a slow client.
    pub timeouts: Timeouts,
    /// How much of anything one client, or all of them, may use.
    pub limits: Limits,
}

impl Options {
    /// All loops, those that rest included.
    pub(crate) fn all_loops(&self) -> usize {
        self.loops.max(1) + self.reserve_loops
    }

    /// Has this count more than what was said of `root`, and than what each site of a configuration says.
    pub fn say_of_sites(&mut self, word: SiteWord) {
        SiteKind::of(self).under(&word).put(self);
        self.site_word = word;
    }

    /// Whether links are followed to where a server that confines itself does not reach.
    pub(crate) fn leads_anywhere(&self) -> bool {
        match &self.hosts {
            Some(rules) => {
                let sites = &rules.0.sites;
                sites.iter().any(|site| site.how.clone().under(&self.site_word).symlinks == Symlinks::Anywhere)
            }
            None => self.symlinks == Symlinks::Anywhere,
        }
    }

    /// Serves `root` with the defaults.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            listen: vec![ListenAddr::default()],
            take_over: None,
            root: root.into(),
            loops: std::thread::available_parallelism().map_or(1, usize::from),
            reserve_loops: 0,
            io: Io::Auto,
            cache_bytes_max: 256 << 20,
            cached_file_bytes_max: 24 << 10,
            compression: Compression::default(),
            includes: true,
            watches_max: 8192,
            media_types: HashMap::new(),
            listing: true,
            index: vec!["index.html".to_owned()],
            dot_files: false,
            symlinks: Symlinks::default(),
            hosts: None,
            site_word: SiteWord::default(),
            access_log: None,
            admin: None,
            user: None,
            sandbox: None,
            releases: Vec::new(),
            read_again: Vec::new(),
            teller: None,
            policy: None,
            warnings: Vec::new(),
            arm: None,
            adviser: None,
            throttles: Vec::new(),
            certificates: Vec::new(),
            listen_clear: Vec::new(),
            listen_quic: Vec::new(),
            http3: false,
            notice: |_| {},
            timeouts: Timeouts::default(),
            limits: Limits::default(),
        }
    }
}

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Symlinks {
    /// None.
    Never,
    /// Those that lead to something below the root, by a relative path or by one that begins with the root's own.
    #[default]
    Within,
    /// Of these, those that belong to whom the file or directory belongs that they lead to.
    Owner,
    /// All, wherever they lead: whoever can make a link in the root has what it leads to served. A server that confines
    /// itself does not reach what lies elsewhere, so that both together are refused.
    Anywhere,
}

impl FromStr for Symlinks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            "within" => Ok(Self::Within),
            "owner" => Ok(Self::Owner),
            "anywhere" => Ok(Self::Anywhere),
            _ => Err(format!("{text:?} is neither never nor within nor owner nor anywhere")),
        }
    }
}

/// What is said of all sites at once, by a command line for example; what is not said is as each of them says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteWord {
    /// As [`Options::listing`].
    pub listing: Option<bool>,
    /// As [`Options::dot_files`].
    pub dot_files: Option<bool>,
    /// As [`Options::symlinks`].
    pub symlinks: Option<Symlinks>,
    /// Both ways of [`Options::compression`].
    pub compression: Option<bool>,
    /// As [`Options::includes`].
    pub includes: Option<bool>,
    /// Before those of [`Options::media_types`].
    pub media_types: HashMap<String, String>,
}

/// Rules and how they are used, as a configuration says it: for whoever knows rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOptions {
    /// The file of the rules.
    pub file: PathBuf,
    /// From one look at them to the next.
    pub tick: Option<Duration>,
    /// The name that they have for this node.
    pub node: Option<Placed<String>>,
    /// How forecasts are made.
    pub forecast: Option<Placed<String>>,
    /// The recording of what they were told and decided.
    pub decisions: Option<Placed<PathBuf>>,
    /// The database of readings and decisions.
    pub environment: Option<Placed<PathBuf>>,
    /// Where alerts are posted.
    pub webhook: Option<Placed<String>>,
}

impl PolicyOptions {
    /// Of a file of rules, with nothing else said.
    pub fn new(file: PathBuf) -> Self {
        let (forecast, decisions, environment, webhook) = (None, None, None, None);
        Self { file, tick: None, node: None, forecast, decisions, environment, webhook }
    }
}

/// A value of a configuration with its place there, for a mistake that is found later; equal to another one whose value
/// is, wherever that stands.
#[derive(Debug, Clone, Eq)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// The line, counted from 1.
    pub line: usize,
    /// The character in its line, counted from 1.
    pub column: usize,
}

impl<T: PartialEq> PartialEq for Placed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// How a loop waits, and how bytes of connections in the clear that are kept come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// By io_uring where the kernel has it (Linux 6.1 and later) and lets it be used, else by epoll.
    #[default]
    Auto,
    /// A call for each reception and each transmission, told by epoll when there is something to do.
    Epoll,
    /// By io_uring, or the server does not start.
    Uring,
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "epoll" => Ok(Self::Epoll),
            "io_uring" => Ok(Self::Uring),
            _ => Err(format!("{text:?} is neither auto nor epoll nor io_uring")),
        }
    }
}

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateFiles {
    /// The certificate, then those that lead from it to an authority, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
    /// What its authority says of it, an OCSP response in DER, which is sent along while it is not out of date.
    pub ocsp: Option<PathBuf>,
}

impl CertificateFiles {
    /// Those of a certificate and its key.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key, ocsp: None }
    }

    /// All of them.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.ocsp)
    }
}

/// Which compressed forms clients that take them get (RFC 9110 section 12.5.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// Send `file.br`, `file.zst` or `file.gz` in place of `file`, if it is not older. Default: yes.
    pub neighbours: bool,
    /// Compress what is text, once, in a thread beside the loops, and keep it in memory. Default: yes.
    pub on_the_fly: bool,
    /// Bytes from which on that is done. Default: 1 KiB.
    pub bytes_min: u64,
    /// Bytes up to which that is done. Default: 1 MiB.
    pub bytes_max: u64,
}

impl Compression {
    /// Files are sent as they are.
    pub(crate) const NONE: Self = Self { neighbours: false, on_the_fly: false, bytes_min: 0, bytes_max: 0 };
}

impl Default for Compression {
    fn default() -> Self {
        Self { neighbours: true, on_the_fly: true, bytes_min: 1 << 10, bytes_max: 1 << 20 }
    }
}

/// How long to wait for a slow client; each has a resolution of half a second.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// From the first byte of a request, or from the connection's start, to the end of its head, then 408. Default: 10 s.
    pub head: Duration,
    /// Between two requests of a connection. Default: 60 s.
    pub idle: Duration,
    /// For the whole of a request body, which is read and ignored. Default: 10 s.
    pub body: Duration,
    /// For a client that takes no byte of its response. Default: 60 s.
    pub stall: Duration,
    /// For a client to notice that its connection is being closed. Default: 2 s.
    pub linger: Duration,
    /// For responses in flight when the server is stopped. Default: 30 s.
    pub stop: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            body: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            linger: Duration::from_secs(2),
            stop: Duration::from_secs(30),
        }
    }
}

/// Bounds on what clients may use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections of all loops together. For one more, one is closed that is idle, or slow; where there is none it is
    /// answered with 503 and closed. It is lowered to what the limit of open files allows. Default: 16384.
    pub connections_max: usize,
    /// Bytes of a request head, then 431; 1024 to 1 MiB. Default: 16 KiB.
    pub head_bytes_max: usize,
    /// Bytes of a request target, then 414. Default: 8 KiB.
    pub target_bytes_max: usize,
    /// Bytes of a request body that are read and ignored to keep the connection; with a larger one the connection
    /// closes after the response. Default: 64 KiB.
    pub body_bytes_max: u64,
    /// Requests that a client of HTTP/2 or HTTP/3 may have under way over one connection; more are refused, or wait with
    /// the client. Default: 128.
    pub streams_max: usize,
    /// Open connections of one client's address (IPv6: of its /64), in all loops together; more are answered with 503
    /// and closed. 0 = as many as there may be. Without a word a quarter of all, but for the loopback addresses, over which
    /// proxies come. Those of Unix sockets have no bound. Default: none.
    pub connections_per_address_max: Option<usize>,
    /// Handshakes of QUIC that one loop may have under way before clients have to show first that their address is their
    /// own, which costs them a round trip; 0 = all have to. Where addresses have shares all have to as well. Default: 256.
    pub handshakes_max: usize,
    /// Ranges in one request; with more of them the whole file is sent (RFC 9110 section 14.2). Default: 16.
    pub ranges_max: usize,
    /// Entries shown in a directory listing; the page says when there are more. Default: 4096.
    pub listing_entries_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16384,
            head_bytes_max: 16 << 10,
            target_bytes_max: 8 << 10,
            body_bytes_max: 64 << 10,
            streams_max: 128,
            connections_per_address_max: None,
            handshakes_max: 256,
            ranges_max: 16,
            listing_entries_max: 4096,
        }
    }
}

/// An access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// Where the lines go.
    pub target: LogTarget,
    /// Which fields a line has.
    pub format: LogFormat,
    /// Write query strings, also those in referrers, instead of `?-`. Default: no.
    pub queries: bool,
    /// Write whole client addresses instead of their network (IPv4 /24, IPv6 /48). Default: no.
    pub addresses: bool,
    /// When a new file is begun, and how many are kept. Default: never; others may do it.
    pub rotation: Option<Rotation>,
}

/// When a log begins a new file: `access.log` becomes `access.log.1`, which becomes `access.log.2`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes of a file; what would exceed them goes into a new one.
    pub bytes_max: Option<u64>,
    /// Age of a file, with a resolution of a second; an empty file does not age.
    pub age_max: Option<Duration>,
    /// Files kept beside the one that is written; the oldest is removed. With 0 what was written is.
    pub keep: u32,
}

impl AccessLog {
    /// A log in the Combined Log Format with queries and addresses redacted.
    pub fn new(target: LogTarget) -> Self {
        Self { target, format: LogFormat::Combined, queries: false, addresses: false, rotation: None }
    }
}

/// Where access log lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// A file that is appended to, and opened again when asked by [`crate::Server::reopen_log_flag`].
    File(PathBuf),
}

/// The fields of an access log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogFormat {
    /// `host ident user [time] "request" status bytes`.
    Common,
    /// The same, then `"referrer" "user agent"`.
    Combined,
    /// An object: `time`, `client`, `user`, `host`, `method`, `target`, `protocol`, `status`, `bytes` (of the body),
    /// `duration_us`, `referrer`, `user_agent`.
    Json,
    /// Fields by Apache's letters.
    Own(OwnFormat),
}

/// A format with the letters of Apache's `LogFormat`, made by parsing it: `%h %u %t "%r" %>s %O %D`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFormat(pub(crate) Format);

impl FromStr for OwnFormat {
    type Err = String;

    /// What is wrong, and what would be right.
    fn from_str(text: &str) -> Result<Self, String> {
        Format::read(text).map(Self)
    }
}
