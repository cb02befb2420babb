//! The options of a server; every bound has its default here.

use crate::certificates::challenges::Challenges;
use crate::certificates::settings::{CertificateFiles, ObtainOptions};
use crate::certificates::tickets::SharedTickets;
use crate::config::host_rules::HostRules;
use crate::counters::php_watch::PhpWatch;
use crate::exchange::elsewhere::{Elsewhere, ElsewhereHandle};
use crate::files::settings::{Compression, Symlinks};
use crate::http::limits::{Limits, Timeouts};
use crate::io::listen::ListenAddr;
use crate::io::way::Io;
use crate::policy::advice::Adviser;
use crate::policy::settings::PolicyOptions;
use crate::policy::throttle::Throttle;
use crate::site::settings::{SiteBounds, SiteKind, SiteWord};
use crate::telemetry::access_log::settings::AccessLog;
use crate::telemetry::admin::{Admin, AdminPages, AdminRights, Teller};
use crate::telemetry::arm_rules::ArmRules;
use crate::upstream::common::Common;
use crate::upstream::php_pool::PhpPool;
use crate::upstream::script_pool::ScriptPool;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_diagnostic::Mistake;

/// How to serve a directory.
#[derive(Debug, Clone)]
pub struct Options {
    /// Addresses to listen on; each loop listens on all of them. Default: `127.0.0.1:8080`.
    pub listen: Vec<ListenAddr>,
    /// A process whose listening sockets at these addresses are taken over; once this server runs, it is asked to end
    /// (SIGTERM). Default: none.
    pub take_over: Option<u32>,
    /// Whether live sessions may move to other processes, which takes the keys of TLS sessions out of rustls for them.
    /// Default: no.
    pub moves_sessions: bool,
    /// The number of this server in a cluster, below 1024: it stands in the connection ids of QUIC, so that a director knows
    /// where a client's datagrams belong. Default: none.
    pub cluster_node: Option<u16>,
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
    /// What may be changed at the admin address. Default: nothing.
    pub admin_rights: AdminRights,
    /// Requests that are kept for the admin address; 0 = none. Without an admin address there are none. Default: 4096.
    pub history: usize,
    /// The file in which the server keeps what it did, minute by minute. Default: none.
    pub activity: Option<PathBuf>,
    /// The user as whom the server runs when it was started as root, once everything is open. Default: as it was
    /// started.
    pub user: Option<String>,
    /// Whether the server confines itself to the files and system calls that it needs (Landlock, seccomp): the thread
    /// that runs it, and all that come from that, for ever; so it is for programs that do nothing else. Without a word
    /// on it the library does not.
    pub sandbox: Option<bool>,
    /// Directories in which further releases of a root will lie, or other roots of a new configuration: a server that
    /// is confined leaves them open to itself, beside those that lie around a root or around the target of a link to
    /// it.
    pub releases: Vec<PathBuf>,
    /// Files that a new configuration would be read from: a server that is confined leaves them open to itself.
    pub read_again: Vec<PathBuf>,
    /// Adds metrics and JSON to those of the server at the admin address. Default: none.
    pub teller: Option<Arc<dyn Teller>>,
    /// Serves further pages at the admin address, below `/console/`. Default: none.
    pub admin_pages: Option<Arc<dyn AdminPages>>,
    /// The rules that an adviser follows; the program that runs the server reads them. Default: none.
    pub policy: Option<PolicyOptions>,
    /// What a configuration says that can be done, and is seldom meant. Default: nothing.
    pub warnings: Vec<Mistake>,
    /// Which requests are reported as business transactions (ARM). Default: none.
    pub arm: Option<ArmRules>,
    /// The adviser, which is asked about requests for the paths that its rules govern. Default: none.
    pub adviser: Option<Arc<dyn Adviser>>,
    /// Brings content that lies on other machines: where a root has a symbolic link with the text
    /// `.weir-elsewhere/DIGEST/BYTES/SECONDS`, with the content's SHA-256 and when it was modified, the response is made
    /// of what this brings. Default: none, and such links lead nowhere.
    pub elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Counts what requests wait for ([`crate::Counters::waits`]) also without an adviser, at two looks at the clock for
    /// a round of a loop that has many requests. Default: no.
    pub measures_waits: bool,
    /// Bounds on the requests that are under way for some paths; the first that a path is of counts. Default: none.
    pub throttles: Vec<Throttle>,
    /// Certificates, the first for clients that name no host that any of them has. With at least one, the addresses
    /// of `listen` speak TLS. Default: none.
    pub certificates: Vec<CertificateFiles>,
    /// From whom the certificates of hosts are obtained, for the program that does it. Default: from none.
    pub obtain: Option<ObtainOptions>,
    /// Answers to the challenges of an authority (ACME). Default: none.
    pub challenges: Challenges,
    /// Keys of TLS session tickets that servers share. Default: none, and each makes its own ones.
    pub tickets: SharedTickets,
    /// What is known of our own PHP; the program that runs it tells it. Default: nothing.
    pub php: PhpWatch,
    /// The same of our own scripts of other kinds. Default: nothing.
    pub scripts: PhpWatch,
    /// Addresses that speak in the clear although there are certificates. Default: none.
    pub listen_clear: Vec<ListenAddr>,
    /// Those of `listen` and `listen_clear` where each connection begins with a header of the PROXY protocol. Default:
    /// none.
    pub proxy_protocol: Vec<ListenAddr>,
    /// Addresses of UDP that speak HTTP/3, which needs certificates. Default: none.
    pub listen_quic: Vec<ListenAddr>,
    /// Whether HTTP/3 is spoken at the addresses and ports of `listen` as well, as far as they are of IP. Default: no.
    pub http3: bool,
    /// Called with a message about something that happens while the server runs, such as certificates that were changed
    /// or a log that cannot be written. Default: a function that does nothing.
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

    /// The names by which rules call upstreams.
    pub fn upstream_names(&self) -> Vec<String> {
        let all = self.hosts.iter().flat_map(|hosts| &hosts.0.upstreams);
        let mut names: Vec<String> = all.map(|common| common.rules.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Upstreams whose PHP or other scripts this server runs, by the names by which rules call them, and how many workers each may have.
    pub fn php_upstreams(&self) -> Vec<(String, u32)> {
        let all = self.hosts.iter().flat_map(|hosts| &hosts.0.upstreams);
        let of = |common: &Arc<Common>| Some((common.rules.name.clone(), common.rules.workers_max()?));
        all.filter_map(of).collect()
    }

    /// The pools of PHP that hosts and paths want, each once.
    pub fn php_pools(&self) -> Vec<PhpPool> {
        self.hosts.as_ref().map(HostRules::php_pools).unwrap_or_default()
    }

    /// Says in which directory the sockets of these pools are; before a server has the options.
    pub fn place_php(&mut self, folder: &Path) {
        if let Some(hosts) = &mut self.hosts {
            hosts.place_php(folder);
        }
    }

    /// The pools of scripts of other kinds that hosts and paths want, each once.
    pub fn script_pools(&self) -> Vec<ScriptPool> {
        self.hosts.as_ref().map(HostRules::script_pools).unwrap_or_default()
    }

    /// Says in which directory the sockets of these pools are; before a server has the options.
    pub fn place_scripts(&mut self, folder: &Path) {
        if let Some(hosts) = &mut self.hosts {
            hosts.place_scripts(folder);
        }
    }

    /// Has this count more than what was said of `root`, and than what each site of a configuration says.
    pub fn say_of_sites(&mut self, word: SiteWord) {
        self.serve_so(self.site_kind().under(&word));
        self.site_word = word;
    }

    /// How `root` is served.
    pub(crate) fn site_kind(&self) -> SiteKind {
        SiteKind {
            root: self.root.clone(),
            listing: self.listing,
            dot_files: self.dot_files,
            index: self.index.clone(),
            symlinks: self.symlinks,
            media_types: self.media_types.clone(),
            compression: self.compression.clone(),
            includes: self.includes,
        }
    }

    /// Serves another root, or the same one otherwise.
    pub(crate) fn serve_so(&mut self, kind: SiteKind) {
        let SiteKind { root, listing, dot_files, index, symlinks, media_types, compression, includes } = kind;
        (self.root, self.listing, self.dot_files, self.index) = (root, listing, dot_files, index);
        (self.symlinks, self.media_types) = (symlinks, media_types);
        (self.compression, self.includes) = (compression, includes);
    }

    /// Whether it is counted what requests wait for.
    pub(crate) fn counts_waits(&self) -> bool {
        self.adviser.is_some() || self.measures_waits
    }

    /// What the sites of one loop may use together.
    pub(crate) fn site_bounds(&self) -> SiteBounds {
        SiteBounds {
            cache_bytes_max: self.cache_bytes_max / self.all_loops() as u64,
            cached_file_bytes_max: self.cached_file_bytes_max,
            watches_max: self.watches_max,
            ranges_max: self.limits.ranges_max,
            listing_entries_max: self.limits.listing_entries_max,
            elsewhere: self.elsewhere.clone().map(ElsewhereHandle),
            times_looks: self.counts_waits(),
        }
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
            moves_sessions: false,
            cluster_node: None,
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
            admin_rights: AdminRights::default(),
            history: 4096,
            activity: None,
            user: None,
            sandbox: None,
            releases: Vec::new(),
            read_again: Vec::new(),
            teller: None,
            admin_pages: None,
            policy: None,
            warnings: Vec::new(),
            arm: None,
            adviser: None,
            elsewhere: None,
            measures_waits: false,
            throttles: Vec::new(),
            certificates: Vec::new(),
            obtain: None,
            challenges: Challenges::default(),
            tickets: SharedTickets::default(),
            php: PhpWatch::default(),
            scripts: PhpWatch::of_scripts(),
            listen_clear: Vec::new(),
            proxy_protocol: Vec::new(),
            listen_quic: Vec::new(),
            http3: false,
            notice: |_| {},
            timeouts: Timeouts::default(),
            limits: Limits::default(),
        }
    }
}
