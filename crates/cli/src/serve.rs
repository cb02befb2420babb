//! The `weir serve` command.

mod beside;
mod said;

use crate::cluster::published::make_root;
use crate::console::OwnConsole;
use crate::given_files::ARM_BYTES_MAX;
use crate::serve_cluster::{FromElsewhere, NodeFigures, node_number};
use crate::serve_php;
use crate::serve_policy::{Adapting, PolicyArgs};
use crate::serve_scripts;
use anyhow::{Context, anyhow};
use beside::Beside;
use said::{announce, begins, farewell};
use signal_hook::consts::{SIGHUP, SIGUSR1};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_server::{
    AccessLog, Admin, AdminError, AdminRights, AdminToken, Adviser, ArmRules, BindError, CertificateFiles,
    ConfigurationError, Io, ListenAddr, LogFormat, LogTarget, Options, Reloader, Server, SiteWord, Symlinks, Teller,
    is_media_type, parse_configuration, read_configuration,
};
use weir_terminal::stop::Stop;
use weir_terminal::text_file;

const EXAMPLES: &str = "\
Examples:
  weir serve
      the current directory, for this machine only
  weir serve --listen :8080 /srv/www
      on every interface
  weir serve --listen '[::1]:8080' --listen 127.0.0.1:8080 site
      at two addresses
  weir serve --listen 127.0.0.1:0 site
      any free port; the first line of output says which
  weir serve --listen :443 --tls-cert site.pem --tls-key site.key site
      over TLS, with HTTP/2 and HTTP/1.1; repeat both for more certificates
  weir serve --listen :443 --http3 --tls-cert site.pem --tls-key site.key site
      also HTTP/3, at the same port of UDP; responses over TCP announce it
  weir serve --listen unix:/run/weir.sock site
      at a Unix socket
  weir serve --access-log access.log --log-queries site
      with a log of all requests, queries included
  weir serve weir.toml
      hosts, paths, headers, redirects and more, from a configuration file
  weir serve --example-config > weir.toml
      a configuration to begin with; check it by weir check weir.toml
  weir serve --admin unix:admin.sock site
      with a status page: curl --unix-socket admin.sock http://w/metrics
  weir serve --admin 127.0.0.1:9100 --admin-token token site
      and http://127.0.0.1:9100/console/ shows in a browser what it does
  weir serve --admin unix:admin.sock --admin-may stop,mark --activity act site
      and weir activity, weir requests and weir connections show what it does
  weir serve --listen :80 --user www-data /srv/www
      started by root for its port; drops root's rights afterwards
  weir serve --policy flood.policy --decisions log.jsonl site
      adapting by rules: weir check flood.policy first, and weir replay
      flood.policy log.jsonl for what other rules would have done
  weir serve --php /srv/wordpress
      a site of PHP; needs the package php-fpm and nothing else
  weir serve --cgi /srv/www
      files of /srv/www; those below /srv/www/cgi-bin are run, one process for
      each request
  weir serve --listen 10.0.0.80:80 --cluster /etc/weir/cluster /srv/www
      as a node of a cluster, between whose nodes sessions move: weir cluster
  weir serve --arm shop.arm site
      report requests to `weir agent` as business transactions, by directives
      in shop.arm: Arm On, ArmApplication shop, ArmMatch ^/order/ order, ...

A changed file is served from the moment of its change. Where DIR is a link that
is switched to another directory, that is served within a second, or at SIGHUP.
Text is sent compressed (br, zstd, gzip) to clients that accept it.
Symbolic links that leave DIR are refused, unless --symlinks says otherwise.
SIGINT or SIGTERM finishes the responses in flight and ends with 0; a second
one, 200 ms later or more, ends at once.
HTTP/2 is spoken over TLS if the client agrees, and in the clear with clients
that begin with it; HTTP/3 with --http3 or --listen-quic.
Changed files of certificates are used within a second.
The server also listens on sockets that systemd passes on (LISTEN_FDS), which
replace the default address.
SIGHUP or SIGUSR1 reopens the access log, for log rotation. SIGHUP also reloads
the configuration and the policy, for later requests, unless they have mistakes.
It closes no connection.

Exit status: 0 if it was asked to stop, 1 if it cannot listen or serve, 2 for
wrong usage.";

/// Serve a directory over HTTP.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory to serve, or a configuration file; options override the file
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    root: PathBuf,

    /// Print a configuration that shows and explains every setting
    #[arg(long, exclusive = true)]
    example_config: bool,

    /// Address to listen on: HOST:PORT, :PORT for every interface, port 0 for any free one, unix:PATH, fd:N for an open
    /// socket; repeatable [default: 127.0.0.1:8080]
    #[arg(short, long, value_name = "ADDR")]
    listen: Vec<ListenAddr>,

    /// Take over the listening sockets of a running server, which exits when this one serves: no client is refused
    /// meanwhile. Requires root or the same user
    #[arg(long, value_name = "PID")]
    take_over: Option<u32>,

    /// Certificate in PEM, followed by its chain; --listen then speaks TLS. Repeatable: a client gets the one for the
    /// name that it asks for, else the first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Vec<PathBuf>,

    /// Private key in PEM; the first belongs to the first certificate, and so on
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Vec<PathBuf>,

    /// Address to listen on without TLS, beside those with TLS; repeatable
    #[arg(long, value_name = "ADDR")]
    listen_clear: Vec<ListenAddr>,

    /// Speak HTTP/3 as well, at the addresses and ports of --listen (UDP)
    #[arg(long)]
    http3: bool,

    /// UDP address for HTTP/3: HOST:PORT, or :PORT for every interface; repeatable
    #[arg(long, value_name = "ADDR")]
    listen_quic: Vec<ListenAddr>,

    /// Event loops, each with a thread of its own [default: the CPUs that may be used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    loops: Option<u16>,

    /// Event loops in reserve, until a rule asks for more copies or nodes; they stand for the nodes of pools [default:
    /// 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    reserve_loops: Option<u16>,

    /// Interface for network I/O: auto, epoll or io_uring; auto is io_uring where the kernel has it and allows it
    /// [default: auto]
    #[arg(long, value_name = "WAY")]
    io: Option<Io>,

    /// Memory for file contents, of all loops together, in MiB [default: 256]
    #[arg(long, value_name = "MIB")]
    cache_mib: Option<u32>,

    /// Write an access log to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,

    /// Format of the access log [default: that of the configuration, else combined]
    #[arg(long, value_enum, requires = "access_log")]
    log_format: Option<Format>,

    /// Write query strings into the access log instead of ?-
    #[arg(long, requires = "access_log")]
    log_queries: bool,

    /// Write whole client addresses into the access log instead of their networks
    #[arg(long, requires = "access_log")]
    log_addresses: bool,

    /// Report requests to weir agent as business transactions (ARM), by the directives of mod_arm in FILE
    #[arg(long, value_name = "FILE")]
    arm: Option<PathBuf>,

    #[command(flatten)]
    rules: PolicyArgs,

    /// Serve status and metrics at ADDR, to people (pages at / and /console/), programs (/status.json) and Prometheus
    /// (/metrics): unix:PATH, for its owner only, or ADDRESS:PORT with a token
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,

    /// File with the token that ADDRESS:PORT requires: Authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token: Option<PathBuf>,

    /// What is allowed at the admin address: stop (end connections and requests), mark (mark deployments), bodies (watch
    /// what requests and responses carry); a list such as stop,mark [default: nothing]
    #[arg(long, value_name = "RIGHTS", requires = "admin")]
    admin_may: Option<AdminRights>,

    /// Keep the last N requests for weir requests; 0 = none [default: 4096]
    #[arg(long, value_name = "N", requires = "admin", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    history: Option<u32>,

    /// Keep what the server does, minute by minute, in FILE for weir activity: 22 MB, made at the first start
    #[arg(long, value_name = "FILE")]
    activity: Option<PathBuf>,

    /// Run as this user, with its groups, once all sockets and files are open; for a start as root
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Run scripts of PHP in DIR by php-fpm, which is started and watched: files are sent, index.php answers for all
    /// other paths. A configuration has php = true for that
    #[arg(long)]
    php: bool,

    /// Run the files below DIR/cgi-bin as CGI scripts, one process for each request. A configuration has cgi = true for
    /// that, and cgiplus, rte and isapi for scripts that stay
    #[arg(long, conflicts_with = "php")]
    cgi: bool,

    /// Be a node of the cluster whose keys and members are in DIR (weir cluster init): live sessions then move to other
    /// nodes and come from them
    #[arg(long, value_name = "DIR")]
    cluster: Option<PathBuf>,

    /// The socket of this node's weir keeper [default: /run/weir-keeper.sock]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    keeper: Option<PathBuf>,

    /// Directory for further releases of DIR, which a confined server can then reach; repeatable
    #[arg(long, value_name = "DIR", conflicts_with = "no_sandbox")]
    releases: Vec<PathBuf>,

    /// Do not confine the server to the files and system calls that it needs
    #[arg(long)]
    no_sandbox: bool,

    /// Answer 403 for a directory without index.html instead of listing it
    #[arg(long)]
    no_listing: bool,

    /// Send files as they are: neither compressed here nor from FILE.br, FILE.zst or FILE.gz beside them
    #[arg(long)]
    no_compression: bool,

    /// Send .shtml files as they are, without carrying out their includes
    #[arg(long)]
    no_includes: bool,

    /// Media type of files by the ending of their names, such as xyz=chemical/x-xyz; repeatable
    #[arg(long, value_name = "ENDING=TYPE", value_parser = media_type)]
    media_type: Vec<(String, String)>,

    /// Serve names that begin with a dot, too (/.well-known/ always is)
    #[arg(long)]
    dot_files: bool,

    /// Symbolic links to follow: never, within (with targets below DIR), owner (of these, links that have the same
    /// owner as their target) or anywhere (needs --no-sandbox) [default: within]
    #[arg(long, value_name = "WHICH")]
    symlinks: Option<Symlinks>,

    /// The most open connections, of all loops together; beyond it idle and slow ones are closed, else new ones get 503
    /// [default: 16384]
    #[arg(long, value_name = "N")]
    connections_max: Option<u32>,

    /// The most open connections of one client address (IPv6: of a /64); more get 503; 0 = no limit [default: a quarter
    /// of all, no limit for loopback addresses]
    #[arg(long, value_name = "N")]
    connections_per_address: Option<u32>,

    /// Seconds that a connection may be idle between two requests [default: 60]
    #[arg(long, value_name = "SECS")]
    idle_timeout: Option<u32>,

    /// Seconds that a stopping server gives responses in flight [default: 30]
    #[arg(long, value_name = "SECS")]
    stop_timeout: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Common Log Format
    Common,
    /// Common with referrer and user agent
    Combined,
    /// A JSON object for each line
    Json,
}

/// Serves until a signal says stop.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.example_config {
        print!("{}", weir_server::EXAMPLE_CONFIGURATION);
        return Ok(ExitCode::SUCCESS);
    }
    raise_open_files_limit();
    if args.tls_cert.len() != args.tls_key.len() {
        return wrong(&"give one --tls-key for each --tls-cert, in the same order");
    }
    let rules = match args.arm.as_deref().map(arm_rules).transpose() {
        Ok(rules) => rules,
        Err(error) => return wrong(&error),
    };
    let admin = match admin(&args) {
        Ok(admin) => admin,
        Err(error) => return wrong(&error),
    };
    let read_again = args.clone();
    make_root(args.cluster.as_deref(), &args.root)?;
    // Decided once: a configuration that is gone later does not become a directory.
    let is_file = args.root.metadata().is_ok_and(|metadata| !metadata.is_dir());
    let options = match options(args, is_file) {
        Ok(options) => options,
        Err(error) => return wrong(&error),
    };
    if let Some(what) = misused(&read_again, is_file, &options) {
        return wrong(&what);
    }
    let mut adapting = match Adapting::new(&read_again.rules, &options, &read_again.root) {
        Ok(adapting) => adapting,
        Err(error) => return wrong(&error),
    };
    if adapting.is_none() && read_again.reserve_loops.is_some_and(|loops| loops > 0) {
        return wrong(&"--reserve-loops is for rules; add --policy FILE, or leave it away");
    }
    let own = Own::new(rules, admin, adapting.as_ref(), read_again.cluster.is_some());
    let (user, for_obtaining) = (options.user.clone(), options.clone());
    let log_is_stdout = options.access_log.as_ref().is_some_and(|log| log.target == LogTarget::Stdout);
    let server = match Server::bind(own.over(options)) {
        Ok(server) => server,
        Err(
            error @ (BindError::RootMissing { .. }
            | BindError::RootNotDirectory { .. }
            | BindError::NoAddress
            | BindError::LinksOutOfReach
            | BindError::NotForQuic { .. }
            | BindError::NothingTaken { .. }
            | BindError::QuicTakenOver { .. }
            | BindError::TooManyForQuic { .. }
            | BindError::QuicWithoutTls),
        ) => return wrong(&error),
        Err(error) => return Err(error.into()),
    };
    let stop = Stop::on_signals().context("handling signals")?;
    let hung_up = watch_signals(&server)?;
    if let Some(adapting) = &mut adapting {
        adapting.prepare(&server, user.as_deref())?;
    }
    let mut beside = Beside::prepare(&for_obtaining, (&read_again.cluster, &read_again.keeper, own.node()), &server)?;
    begins(&server, log_is_stdout);
    let (reloader, is_followed) = (server.reloader(), server.followed_flag());
    let counts = server.run_with(stop.flag(), || {
        if is_followed.load(Ordering::Relaxed) {
            beside.leave_certificates();
            return;
        }
        // The server is confined by now, and so are the threads that start here.
        adapting.iter_mut().for_each(Adapting::start);
        beside.start();
        if hung_up.swap(false, Ordering::Relaxed) {
            let options = if is_file {
                read_again_and_tell(&read_again, &own, (&reloader, &mut beside))
            } else {
                follow_root_and_tell(&read_again.root, &reloader);
                None
            };
            adapting.iter_mut().for_each(|adapting| adapting.read_again(options.as_ref()));
            beside.read_again(options.as_ref());
        }
    });
    adapting.into_iter().for_each(Adapting::finish);
    beside.finish();
    announce(&farewell(&counts?), true);
    Ok(ExitCode::SUCCESS)
}

/// Where the scripts of a directory lie.
const CGI_FOLDER: &str = "cgi-bin";

/// An option that is given in vain, and what to write in its place.
fn misused(args: &Args, is_file: bool, options: &Options) -> Option<&'static str> {
    if args.php && is_file {
        return Some("--php is for a directory; write php = true into [[host]] of the configuration");
    }
    if args.cgi && is_file {
        return Some("--cgi is for a directory; write cgi = true into a [[host.path]] of the configuration");
    }
    if args.cgi && !args.root.join(CGI_FOLDER).is_dir() {
        return Some(
            "--cgi runs the scripts of cgi-bin, which the directory does not have; make it, or leave --cgi away",
        );
    }
    if options.admin_rights.mark && options.activity.is_none() {
        return Some("the right to mark is for a server that keeps activity; add --activity FILE, or leave it away");
    }
    (options.certificates.is_empty() && !options.listen_clear.is_empty())
        .then_some("--listen-clear is for a server with TLS; add --tls-cert and --tls-key, or use --listen")
}

/// Has the access log opened again at SIGHUP and SIGUSR1; what is set at SIGHUP, which reads the configuration again.
fn watch_signals(server: &Server) -> anyhow::Result<Arc<AtomicBool>> {
    for signal in [SIGHUP, SIGUSR1] {
        signal_hook::flag::register(signal, server.reopen_log_flag()).context("handling signals")?;
    }
    let hung_up = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&hung_up)).context("handling signals")?;
    Ok(hung_up)
}

/// What is wrong with the usage, on standard error.
fn wrong(what: &dyn std::fmt::Display) -> anyhow::Result<ExitCode> {
    eprintln!("weir serve: {what}");
    Ok(ExitCode::from(2))
}

/// Settings from files that the command line names, which are read once.
struct Own {
    rules: Option<ArmRules>,
    admin: Option<Admin>,
    adapting: Option<Advising>,
    /// What the node process of a cluster tells of itself.
    figures: Arc<NodeFigures>,
    /// What brings content that other nodes have.
    elsewhere: Arc<FromElsewhere>,
    /// The pages of the admin address beside its own.
    console: Arc<OwnConsole>,
    is_node: bool,
}

/// What the rules need of the server.
struct Advising {
    adviser: Arc<dyn Adviser>,
    teller: Arc<dyn Teller>,
    file: PathBuf,
}

impl Advising {
    fn of(adapting: &Adapting) -> Self {
        Self { adviser: adapting.adviser(), teller: adapting.teller(), file: adapting.file().to_owned() }
    }
}

impl Own {
    fn new(rules: Option<ArmRules>, admin: Option<Admin>, adapting: Option<&Adapting>, is_node: bool) -> Self {
        let (figures, elsewhere, console) = (Arc::default(), Arc::default(), Arc::default());
        Self { rules, admin, adapting: adapting.map(Advising::of), figures, elsewhere, console, is_node }
    }

    /// What the node process of a cluster tells and brings.
    fn node(&self) -> (&Arc<NodeFigures>, &Arc<FromElsewhere>) {
        (&self.figures, &self.elsewhere)
    }

    /// These override a configuration.
    fn over(&self, options: Options) -> Options {
        let mut options =
            Options { arm: self.rules.clone().or(options.arm), admin: self.admin.clone().or(options.admin), ..options };
        options.admin_pages = Some(Arc::<OwnConsole>::clone(&self.console));
        if let Some(Advising { adviser, teller, file }) = &self.adapting {
            (options.adviser, options.teller) = (Some(Arc::clone(adviser)), Some(Arc::clone(teller)));
            options.read_again.push(file.clone());
        }
        if self.is_node {
            options.teller = Some(self.figures.teller(options.teller.take()));
            options.elsewhere = Some(Arc::<FromElsewhere>::clone(&self.elsewhere));
            // The other nodes, and the rules over nodes, are told of it.
            options.measures_waits = true;
        }
        options
    }
}

/// Has the server serve what the path of its root leads to now.
fn follow_root_and_tell(root: &Path, reloader: &Reloader) {
    let told = reloader.follow_roots();
    if told.is_empty() {
        let root = root.display();
        announce(
            &format!("weir serve: {root} is the same directory as before, and there is no configuration to read again"),
            true,
        );
    }
    told.iter().for_each(|told| announce(&format!("weir serve: {told}"), true));
}

/// Reads the configuration again, and hands out what it says; with mistakes in it, everything stays as it is.
fn read_again_and_tell(args: &Args, own: &Own, (reloader, beside): (&Reloader, &mut Beside)) -> Option<Options> {
    let file = args.root.display().to_string();
    // Reading a pipe would block the server, and a pipe can be read only once.
    let read = match args.root.metadata() {
        Ok(metadata) if metadata.is_file() => options(args.clone(), true),
        found => {
            let source = found.err().unwrap_or_else(|| std::io::Error::other("it is no file"));
            Err(ConfigurationError::Unreadable { path: args.root.clone(), source })
        }
    };
    let read = read.map_err(anyhow::Error::from);
    match read.and_then(|options| beside.make_ready(&options).map(|()| options)) {
        Ok(options) => {
            // The state of upstreams goes on only in rules that are in no other hands.
            let without_hosts = Options { hosts: None, ..options.clone() };
            let after_restart = reloader.reload(own.over(options));
            let rest = match after_restart.as_slice() {
                [] => String::new(),
                changed => format!("; only after a restart: {}", changed.join(", ")),
            };
            announce(&format!("weir serve: {file} was read again and holds{rest}"), true);
            Some(without_hosts)
        }
        Err(error) => {
            reloader.refused(&error.to_string());
            let hint = confined_hint(args, &error.to_string());
            announce(
                &format!("weir serve: {error}\nweir serve: {file} was not taken up; all is as before{hint}"),
                true,
            );
            None
        }
    }
}

/// The options of the file, if one is given, overridden by those of the command line.
fn options(args: Args, is_file: bool) -> Result<Options, ConfigurationError> {
    tracing::info!(root = %args.root.display(), is_file, "reads its settings");
    let mut options = named(args.root, is_file, (args.php, args.cgi))?;
    let passed_on = systemd_sockets(&std::env::vars_os().collect());
    if !args.listen.is_empty() {
        options.listen = args.listen;
    } else if !passed_on.is_empty() && options.listen == [ListenAddr::default()] {
        options.listen.clear();
    }
    options.listen.extend(passed_on);
    if !args.listen_clear.is_empty() {
        options.listen_clear = args.listen_clear;
    }
    if !args.listen_quic.is_empty() {
        options.listen_quic = args.listen_quic;
    }
    options.http3 |= args.http3;
    options.take_over = args.take_over;
    (options.moves_sessions, options.cluster_node) = (args.cluster.is_some(), node_number(args.cluster.as_deref()));
    if !args.tls_cert.is_empty() {
        options.certificates = certificates((args.tls_cert, args.tls_key), options.certificates);
        if !is_file {
            // Encryption copies the bytes in any case, and from memory it needs no system call.
            options.cached_file_bytes_max = 1 << 20;
        }
    }
    if let Some(connections) = args.connections_per_address {
        options.limits.connections_per_address_max = Some(connections as usize);
    }
    options.loops = args.loops.map_or(options.loops, usize::from);
    options.reserve_loops = args.reserve_loops.map_or(options.reserve_loops, usize::from);
    options.io = args.io.unwrap_or(options.io);
    if let Some(mib) = args.cache_mib {
        options.cache_bytes_max = u64::from(mib) << 20;
    }
    options.say_of_sites(SiteWord {
        listing: args.no_listing.then_some(false),
        dot_files: args.dot_files.then_some(true),
        symlinks: args.symlinks,
        compression: args.no_compression.then_some(false),
        includes: args.no_includes.then_some(false),
        media_types: args.media_type.into_iter().collect(),
    });
    if let Some(connections) = args.connections_max {
        options.limits.connections_max = connections as usize;
    }
    if let Some(seconds) = args.idle_timeout {
        options.timeouts.idle = Duration::from_secs(seconds.into());
    }
    if let Some(seconds) = args.stop_timeout {
        options.timeouts.stop = Duration::from_secs(seconds.into());
    }
    if let Some(path) = args.access_log {
        let target = if path.as_os_str() == "-" { LogTarget::Stdout } else { LogTarget::File(path) };
        options.access_log = Some(access_log(target, args.log_format, options.access_log));
    }
    if let Some(log) = &mut options.access_log {
        log.queries |= args.log_queries;
        log.addresses |= args.log_addresses;
    }
    tell((args.admin_may, args.history, args.activity), &mut options);
    options.user = args.user.or(options.user);
    options.releases.extend(args.releases);
    options.sandbox = Some(!args.no_sandbox && options.sandbox != Some(false));
    options.notice = |notice| announce(&format!("weir serve: {notice}"), true);
    Ok(options)
}

/// What the server tells of itself, and what may be changed there.
fn tell((rights, history, activity): (Option<AdminRights>, Option<u32>, Option<PathBuf>), options: &mut Options) {
    options.admin_rights = options.admin_rights.and(rights.unwrap_or_default());
    options.history = history.map_or(options.history, |requests| requests as usize);
    options.activity = activity.or(options.activity.take());
}

/// The options of a file, or those for a directory.
fn named(root: PathBuf, is_file: bool, (has_php, has_cgi): (bool, bool)) -> Result<Options, ConfigurationError> {
    let mut options = match (is_file, has_php, has_cgi) {
        (true, ..) => read_configuration(&root)?,
        (false, true, _) => with_programs(&root, "php = true\n")?,
        (false, _, true) => with_programs(&root, "[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = true\n")?,
        (false, ..) => Options::new(root),
    };
    options.place_php(serve_php::folder());
    options.place_scripts(serve_scripts::folder());
    Ok(options)
}

/// The options for a directory with programs: those of a configuration that says no more than that.
fn with_programs(root: &Path, programs: &str) -> Result<Options, ConfigurationError> {
    // A text of JSON is one of TOML as well.
    let quoted = serde_json::Value::from(root.to_string_lossy()).to_string();
    parse_configuration(&format!("[[host]]\nroot = {quoted}\n{programs}"), Path::new("."))
        .map_err(|mistakes| ConfigurationError::Mistaken { path: root.to_owned(), mistakes })
}

/// Certificates that the command line names, and those of hosts that obtain theirs beside them.
fn certificates(named: (Vec<PathBuf>, Vec<PathBuf>), of_file: Vec<CertificateFiles>) -> Vec<CertificateFiles> {
    let named = named.0.into_iter().zip(named.1).map(|(certificate, key)| CertificateFiles::new(certificate, key));
    named.chain(of_file.into_iter().filter(|files| files.obtained_for.is_some())).collect()
}

/// The log at this place, with what a configuration says of it otherwise.
fn access_log(target: LogTarget, format: Option<Format>, of_file: Option<AccessLog>) -> AccessLog {
    // Standard output cannot be rotated.
    let rotation = of_file.as_ref().and_then(|log| log.rotation).filter(|_| target != LogTarget::Stdout);
    let before = of_file.unwrap_or_else(|| AccessLog::new(target.clone()));
    let format = match format {
        None => before.format.clone(),
        Some(Format::Common) => LogFormat::Common,
        Some(Format::Combined) => LogFormat::Combined,
        Some(Format::Json) => LogFormat::Json,
    };
    AccessLog { target, format, rotation, ..before }
}

/// The listening sockets that systemd opened for this process (sd_listen_fds(3)): from descriptor 3 on, if they are
/// meant for it.
fn systemd_sockets(environment: &HashMap<OsString, OsString>) -> Vec<ListenAddr> {
    let number = |name: &str| environment.get(std::ffi::OsStr::new(name))?.to_str()?.parse::<u32>().ok();
    match (number("LISTEN_PID"), number("LISTEN_FDS")) {
        (Some(pid), Some(count)) if pid == std::process::id() => {
            (3..3 + count.min(64)).map(|fd| ListenAddr::Inherited(fd.cast_signed())).collect()
        }
        _ => Vec::new(),
    }
}

/// An ending and its media type, which goes into a field as it is.
fn media_type(text: &str) -> anyhow::Result<(String, String)> {
    let (ending, media_type) = text.split_once('=').context("it has no =")?;
    anyhow::ensure!(is_media_type(media_type), "{media_type:?} is no media type");
    Ok((ending.trim_start_matches('.').to_ascii_lowercase(), media_type.to_owned()))
}

/// Reads from a file which requests are reported as transactions.
fn arm_rules(path: &Path) -> anyhow::Result<ArmRules> {
    let text = text_file::read(path, ARM_BYTES_MAX).map_err(|error| anyhow!("--arm {}: {error}", path.display()))?;
    text.parse().map_err(|error| anyhow!("--arm {}, {error}", path.display()))
}

/// A hint for a refusal that comes from the server's own confinement.
fn confined_hint(args: &Args, error: &str) -> &'static str {
    if args.no_sandbox || !error.contains("ermission denied") {
        return "";
    }
    "; what was not named at the start is out of reach until a restart (`releases` names the directories of later roots)"
}

/// The admin address of the command line.
fn admin(args: &Args) -> Result<Option<Admin>, AdminError> {
    let Some(addr) = &args.admin else { return Ok(None) };
    let token = args.admin_token.as_deref().map(AdminToken::read).transpose()?;
    Admin::new(addr, token).map(Some)
}

/// A connection takes a descriptor, and the usual soft limit is far below what the process may have.
fn raise_open_files_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or fill the structure, which lives over them; a refusal leaves the limit as it was.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
