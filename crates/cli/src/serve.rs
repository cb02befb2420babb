//! The `weir serve` command.

mod said;

use crate::check::ARM_BYTES_MAX;
use crate::serve_policy::{Adapting, PolicyArgs};
use crate::stop::Stop;
use crate::text_file;
use anyhow::Context;
use said::{announce, farewell, greeting};
use signal_hook::consts::{SIGHUP, SIGUSR1};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_server::{
    AccessLog, Admin, AdminError, AdminToken, Adviser, ArmRules, BindError, CertificateFiles, ConfigurationError, Io,
    ListenAddr, LogFormat, LogTarget, Options, Reloader, Server, SiteWord, Symlinks, Teller, is_media_type,
    read_configuration,
};

const EXAMPLES: &str = "\
Examples:
  weir serve
      the current directory, for this machine only
  weir serve --listen :8080 /srv/www
      for every interface
  weir serve --listen '[::1]:8080' --listen 127.0.0.1:8080 site
      at two addresses
  weir serve --listen 127.0.0.1:0 site
      any free port; the line at the start says which
  weir serve --listen :443 --tls-cert site.pem --tls-key site.key site
      over TLS, with HTTP/2 and HTTP/1.1; more certificates by more of both
  weir serve --listen :443 --http3 --tls-cert site.pem --tls-key site.key site
      the same with HTTP/3, at the same port of UDP; responses over TCP say so
  weir serve --listen unix:/run/weir.sock site
      at a Unix socket
  weir serve --access-log access.log --log-queries site
      with a log of all requests, queries included
  weir serve weir.toml
      hosts, paths, headers, redirects and more, as a file says
  weir serve --example-config > weir.toml
      a file with everything in it to begin with; weir check weir.toml checks it
  weir serve --admin unix:admin.sock site
      with a page about itself: curl --unix-socket admin.sock http://w/metrics
  weir serve --listen :80 --user www-data /srv/www
      started by root for its port, and without root's rights from then on
  weir serve --policy flood.policy --decisions log.jsonl site
      adapting by rules: weir check flood.policy first, and weir replay
      flood.policy log.jsonl for what other rules would have done
  weir serve --arm shop.arm site
      requests told to `weir agent` as business transactions, by the directives
      in shop.arm: Arm On, ArmApplication shop, ArmMatch ^/order/ order, ...

A changed file is served from the moment of its change, and another directory
in the place of DIR (a switched link) within a second, or at SIGHUP.
Text is sent compressed (br, zstd, gzip) to clients that take it.
Symbolic links that leave DIR are refused, unless --symlinks says otherwise.
SIGINT or SIGTERM finishes the responses in flight and ends with 0; a second
one, 200 ms later or more, ends at once.
HTTP/2 is spoken over TLS where the client agrees, and in the clear with clients
that begin with it; HTTP/3 where --http3 or --listen-quic has it.
Changed files of certificates are used within a second.
Sockets that systemd passes on (LISTEN_FDS) are listened on as well, instead of
the default address.
SIGHUP or SIGUSR1 opens the access log again, for log rotation; SIGHUP has the
configuration and the policy read again: for requests from then on, and only if
they are without mistakes. No connection is closed by it.

Exit status: 0 if it was asked to stop, 1 if it cannot listen or serve, 2 for
wrong usage.";

/// Serve a directory over HTTP.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory to serve, or a configuration file; what is said here counts more than the file
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    root: PathBuf,

    /// Print a configuration with everything in it and what it is for
    #[arg(long, exclusive = true)]
    example_config: bool,

    /// Address to listen on: HOST:PORT, :PORT for every interface, port 0 for any free one, unix:PATH, fd:N for a
    /// socket that is open; repeatable [default: 127.0.0.1:8080]
    #[arg(short, long, value_name = "ADDR")]
    listen: Vec<ListenAddr>,

    /// Take the listening sockets of a running `weir serve` over, and have it end once this one serves: nobody who
    /// connects meanwhile is refused. To be root, or that server's user
    #[arg(long, value_name = "PID")]
    take_over: Option<u32>,

    /// Certificate in PEM, with those that lead to its authority; --listen speaks TLS then. Repeatable: a client gets the one for the name that it asks for, else the first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Vec<PathBuf>,

    /// The private key in PEM of the certificate at the same place
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Vec<PathBuf>,

    /// Address to listen on in the clear, beside those of TLS; repeatable
    #[arg(long, value_name = "ADDR")]
    listen_clear: Vec<ListenAddr>,

    /// Speak HTTP/3 as well, at the addresses and ports of --listen (UDP)
    #[arg(long)]
    http3: bool,

    /// Address of UDP that speaks HTTP/3: HOST:PORT, or :PORT for every interface; repeatable
    #[arg(long, value_name = "ADDR")]
    listen_quic: Vec<ListenAddr>,

    /// Event loops, each with a thread of its own [default: the CPUs that may be used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    loops: Option<u16>,

    /// Event loops that rest until a rule asks for more copies or nodes; they stand for the nodes of pools [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    reserve_loops: Option<u16>,

    /// How bytes come and go: auto, epoll or io_uring; auto is io_uring where the kernel has it and allows it [default: auto]
    #[arg(long, value_name = "WAY")]
    io: Option<Io>,

    /// Memory for file contents, of all loops together, in MiB [default: 256]
    #[arg(long, value_name = "MIB")]
    cache_mib: Option<u32>,

    /// Write an access log to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,

    /// Form of the access log [default: as a configuration has it, else combined]
    #[arg(long, value_enum, requires = "access_log")]
    log_format: Option<Format>,

    /// Write query strings into the access log instead of ?-
    #[arg(long, requires = "access_log")]
    log_queries: bool,

    /// Write whole client addresses into the access log instead of their networks
    #[arg(long, requires = "access_log")]
    log_addresses: bool,

    /// Tell requests as business transactions, by the directives of mod_arm in FILE
    #[arg(long, value_name = "FILE")]
    arm: Option<PathBuf>,

    #[command(flatten)]
    rules: PolicyArgs,

    /// Tell of itself at ADDR, to people (a page at /), programs (/status.json) and Prometheus (/metrics): unix:PATH,
    /// for its owner only, or ADDRESS:PORT with a token
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,

    /// The file with the token that is needed there: Authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token: Option<PathBuf>,

    /// Run as this user, with its groups, once everything is open; for a start as root
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Directory in which further releases of DIR will lie, for a confined server to reach them; repeatable
    #[arg(long, value_name = "DIR", conflicts_with = "no_sandbox")]
    releases: Vec<PathBuf>,

    /// Keep all files and system calls within reach, instead of those only that the server needs
    #[arg(long)]
    no_sandbox: bool,

    /// Answer 403 for a directory without index.html instead of listing it
    #[arg(long)]
    no_listing: bool,

    /// Send files as they are: neither compressed here nor from FILE.br, FILE.zst or FILE.gz beside them
    #[arg(long)]
    no_compression: bool,

    /// Send .shtml files as they are, instead of carrying out their includes
    #[arg(long)]
    no_includes: bool,

    /// Media type of files by the ending of their names, such as xyz=chemical/x-xyz; repeatable
    #[arg(long, value_name = "ENDING=TYPE", value_parser = media_type)]
    media_type: Vec<(String, String)>,

    /// Serve names that begin with a dot, too (/.well-known/ always is)
    #[arg(long)]
    dot_files: bool,

    /// Symbolic links that are followed: never, within (what lies below DIR), owner (of these, those that belong to whom
    /// their target belongs) or anywhere (needs --no-sandbox) [default: within]
    #[arg(long, value_name = "WHICH")]
    symlinks: Option<Symlinks>,

    /// Open connections of all loops together; for more, idle and slow ones are closed, else they are answered with 503
    /// [default: 16384]
    #[arg(long, value_name = "N")]
    connections_max: Option<u32>,

    /// Open connections of one client's address (of IPv6 its /64), more are answered with 503; 0 = no bound [default: a
    /// quarter of all, and no bound for loopback addresses]
    #[arg(long, value_name = "N")]
    connections_per_address: Option<u32>,

    /// Seconds that a connection may be idle between two requests [default: 60]
    #[arg(long, value_name = "SECS")]
    idle_timeout: Option<u32>,

    /// Seconds that responses in flight are given when the server is stopped [default: 30]
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
        eprintln!("weir serve: give one --tls-key for each --tls-cert, in the same order");
        return Ok(ExitCode::from(2));
    }
    let rules = match args.arm.as_deref().map(arm_rules).transpose() {
        Ok(rules) => rules,
        Err(wrong) => {
            eprintln!("weir serve: {wrong}");
            return Ok(ExitCode::from(2));
        }
    };
    let admin = match admin(&args) {
        Ok(admin) => admin,
        Err(wrong) => {
            eprintln!("weir serve: {wrong}");
            return Ok(ExitCode::from(2));
        }
    };
    let read_again = args.clone();
    // What it is at the start it stays: that a configuration is gone later does not make it a directory.
    let is_file = args.root.metadata().is_ok_and(|metadata| !metadata.is_dir());
    let options = match options(args, is_file) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("weir serve: {error}");
            return Ok(ExitCode::from(2));
        }
    };
    if options.certificates.is_empty() && !options.listen_clear.is_empty() {
        eprintln!(
            "weir serve: --listen-clear is for what speaks TLS otherwise; add --tls-cert and --tls-key, or use --listen"
        );
        return Ok(ExitCode::from(2));
    }
    let mut adapting = match Adapting::new(&read_again.rules, &options, &read_again.root) {
        Ok(adapting) => adapting,
        Err(wrong) => {
            eprintln!("weir serve: {wrong}");
            return Ok(ExitCode::from(2));
        }
    };
    if adapting.is_none() && read_again.reserve_loops.is_some_and(|loops| loops > 0) {
        eprintln!("weir serve: --reserve-loops is for rules; add --policy FILE, or leave it away");
        return Ok(ExitCode::from(2));
    }
    let own = Own { rules, admin, adapting: adapting.as_ref().map(Advising::of) };
    let user = options.user.clone();
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
        ) => {
            eprintln!("weir serve: {error}");
            return Ok(ExitCode::from(2));
        }
        Err(error) => return Err(error.into()),
    };
    let stop = Stop::on_signals().context("handling signals")?;
    for signal in [SIGHUP, SIGUSR1] {
        signal_hook::flag::register(signal, server.reopen_log_flag()).context("handling signals")?;
    }
    let hung_up = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&hung_up)).context("handling signals")?;
    if let Some(adapting) = &mut adapting {
        adapting.prepare(&server, user.as_deref())?;
    }
    announce(&greeting(&server), log_is_stdout);
    let reloader = server.reloader();
    let counts = server.run_with(stop.flag(), || {
        // Here the server has confined itself, and with it what is started from here.
        adapting.iter_mut().for_each(Adapting::start);
        if hung_up.swap(false, Ordering::Relaxed) {
            let options = if is_file {
                read_again_and_tell(&read_again, &own, &reloader)
            } else {
                follow_root_and_tell(&read_again.root, &reloader);
                None
            };
            if let Some(adapting) = &mut adapting {
                adapting.read_again(options.as_ref());
            }
        }
    });
    if let Some(adapting) = adapting {
        adapting.finish();
    }
    let counts = counts?;
    announce(&farewell(&counts), true);
    Ok(ExitCode::SUCCESS)
}

/// What the command line says in files of its own, which are read once.
struct Own {
    rules: Option<ArmRules>,
    admin: Option<Admin>,
    adapting: Option<Advising>,
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
    /// It counts more than a configuration.
    fn over(&self, options: Options) -> Options {
        let mut options =
            Options { arm: self.rules.clone().or(options.arm), admin: self.admin.clone().or(options.admin), ..options };
        if let Some(Advising { adviser, teller, file }) = &self.adapting {
            (options.adviser, options.teller) = (Some(Arc::clone(adviser)), Some(Arc::clone(teller)));
            options.read_again.push(file.clone());
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
            &format!("weir serve: {root} is the directory of before; there is no configuration to read again"),
            true,
        );
    }
    told.iter().for_each(|told| announce(&format!("weir serve: {told}"), true));
}

/// Reads the configuration again, and hands out what it says; with mistakes in it, everything stays as it is.
fn read_again_and_tell(args: &Args, own: &Own, reloader: &Reloader) -> Option<Options> {
    let file = args.root.display().to_string();
    // A pipe in its place would keep the server waiting, and is read only once anyhow.
    let read = match args.root.metadata() {
        Ok(metadata) if metadata.is_file() => options(args.clone(), true),
        found => {
            let source = found.err().unwrap_or_else(|| std::io::Error::other("it is no file"));
            Err(ConfigurationError::Unreadable { path: args.root.clone(), source })
        }
    };
    match read {
        Ok(options) => {
            let after_restart = reloader.reload(own.over(options.clone()));
            let rest = match after_restart.as_slice() {
                [] => String::new(),
                changed => format!("; only after a restart: {}", changed.join(", ")),
            };
            announce(&format!("weir serve: {file} was read again and holds{rest}"), true);
            Some(options)
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

/// What the file says, if one is given, and then what the command line says.
fn options(args: Args, is_file: bool) -> Result<Options, ConfigurationError> {
    let mut options = if is_file { read_configuration(&args.root)? } else { Options::new(args.root) };
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
    if !args.tls_cert.is_empty() {
        let pairs = args.tls_cert.into_iter().zip(args.tls_key);
        options.certificates = pairs.map(|(certificate, key)| CertificateFiles::new(certificate, key)).collect();
        if !is_file {
            // What is encrypted is copied anyhow, and from memory it is without a system call.
            options.cached_file_bytes_max = 1 << 20;
        }
    }
    if let Some(connections) = args.connections_per_address {
        options.limits.connections_per_address_max = Some(connections as usize);
    }
    if let Some(loops) = args.loops {
        options.loops = usize::from(loops);
    }
    if let Some(loops) = args.reserve_loops {
        options.reserve_loops = usize::from(loops);
    }
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
    options.user = args.user.or(options.user);
    options.releases.extend(args.releases);
    options.sandbox = Some(!args.no_sandbox && options.sandbox != Some(false));
    options.notice = |notice| announce(&format!("weir serve: {notice}"), true);
    Ok(options)
}

/// The log at this place, with what a configuration says of it otherwise.
fn access_log(target: LogTarget, format: Option<Format>, of_file: Option<AccessLog>) -> AccessLog {
    // Standard output cannot be turned round.
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
fn media_type(text: &str) -> Result<(String, String), String> {
    let (ending, media_type) = text.split_once('=').ok_or("it has no =")?;
    if !is_media_type(media_type) {
        return Err(format!("{media_type:?} is no media type"));
    }
    Ok((ending.trim_start_matches('.').to_ascii_lowercase(), media_type.to_owned()))
}

/// Which requests are told, as a file says it.
fn arm_rules(path: &Path) -> Result<ArmRules, String> {
    let text = text_file::read(path, ARM_BYTES_MAX).map_err(|error| format!("--arm {}: {error}", path.display()))?;
    text.parse().map_err(|error| format!("--arm {}, {error}", path.display()))
}

/// What a refusal has to do with what the server has taken away from itself.
fn confined_hint(args: &Args, error: &str) -> &'static str {
    if args.no_sandbox || !error.contains("ermission denied") {
        return "";
    }
    "; what was not named at the start is out of reach until a restart (`releases` names where roots will lie)"
}

/// Where the server tells of itself, as the command line says it.
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
