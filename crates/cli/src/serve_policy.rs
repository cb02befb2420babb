//! `weir serve --policy`: a server that follows rules, and the persister, a process that writes files and posts alerts for
//! it because the confined server cannot.

use crate::forecast_method::method;
use crate::given_files::read_policy;
use crate::webhook::Webhook;
use anyhow::{Context, anyhow, bail};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_adapt::forecast::Method;
use weir_adapt::{NO_RULES, Policy};
use weir_policy_runtime::persister::{self, Alerts, Places};
use weir_policy_runtime::{PersisterEnds, PolicyRuntime, Ready, Running, ServerActions, Setup, check_recording};
use weir_server::{Adviser, Control, Options, Placed, Server, Teller};
use weir_store::Limits;
use weir_terminal::units;

/// Bytes that the pipe to the persister holds, as far as the system allows.
const PIPE_BYTES: libc::c_int = 1 << 20;
/// How long one attempt to deliver an alert may take.
const WEBHOOK_PATIENCE: Duration = Duration::from_secs(5);
/// From one judgement of what the requests are to the next.
const JUDGE_EVERY: Duration = Duration::from_secs(10);
/// Interval at which the rules are evaluated, where neither option nor configuration says otherwise.
const TICK: Duration = Duration::from_secs(1);
/// How long the end waits for the persister: as long as one more try takes.
const CLERK_PATIENCE: Duration = Duration::from_secs(6);

/// What makes a node of a policy one that is read.
pub(crate) const UPSTREAM_REMEDY: &str = "give an upstream that name by `name`, or correct it";
/// What makes workers of a policy ones that there are.
pub(crate) const WORKERS_REMEDY: &str = "write php = { name = \"NAME\", workers_max = NUMBER } in the configuration, or the same of cgi, cgiplus, rte or isapi";

/// Rules for the server.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Rules")]
pub(crate) struct PolicyArgs {
    /// Adapt by the rules in FILE: refuse a share, use variants, alert; SIGHUP reloads it
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,

    /// Interval at which the rules are evaluated [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = tick)]
    tick: Option<Duration>,

    /// This node's name in the pools of the policy [default: here]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// How forecasts are made: least-squares, robust, or seasonal:PERIOD such as seasonal:24h [default: least-squares]
    #[arg(long, value_name = "METHOD", value_parser = method)]
    forecast: Option<Method>,

    /// Append readings and decisions to FILE, for weir replay; at 64 MiB it becomes FILE.1, and four such files are
    /// kept
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,

    /// Keep readings and decisions of a week in FILE, which weir env shows
    #[arg(long, value_name = "FILE")]
    environment: Option<PathBuf>,

    /// Post alerts as JSON to URL
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
}

/// Rules and how they are used: what the configuration says, and the command line, which counts more.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) file: PathBuf,
    tick: Duration,
    pub(crate) node: String,
    method: Method,
    decisions: Option<PathBuf>,
    environment: Option<PathBuf>,
    webhook: Option<String>,
    has_reserve: bool,
    /// The names of upstreams, which stand for nodes.
    upstreams: Vec<String>,
    /// Those whose PHP or other scripts this server runs, and how many workers each may have.
    php: Vec<(String, u32)>,
}

/// Something that cannot be used.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) source: Source,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// An option of the command line.
    Option(&'static str),
    /// Line and column of the configuration.
    Place(usize, usize),
}

impl Settings {
    /// None where there are no rules.
    ///
    /// # Errors
    /// Everything that cannot be used.
    pub(crate) fn of(args: &PolicyArgs, options: &Options) -> Result<Option<Self>, Vec<Wrong>> {
        let said = options.policy.as_ref();
        let Some(file) = args.policy.clone().or_else(|| Some(said?.file.clone())) else {
            let unused = [
                ("--decisions", args.decisions.is_some()),
                ("--environment", args.environment.is_some()),
                ("--webhook", args.webhook.is_some()),
                ("--tick", args.tick.is_some()),
                ("--node", args.node.is_some()),
                ("--forecast", args.forecast.is_some()),
            ];
            let unused = unused.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| Wrong {
                source: Source::Option(option),
                what: "it is for rules".to_owned(),
                remedy: "add --policy FILE, or leave it away".to_owned(),
            });
            let unused: Vec<Wrong> = unused.collect();
            return if unused.is_empty() { Ok(None) } else { Err(unused) };
        };
        let mut wrong = Vec::new();
        let mut test = |source: Source, tested: anyhow::Result<()>| {
            let Err(error) = tested else { return };
            let error = error.to_string();
            let (what, remedy) = error.rsplit_once("; ").unwrap_or((&error, "give another one"));
            wrong.push(Wrong { source, what: what.to_owned(), remedy: remedy.to_owned() });
        };
        let method = match said.and_then(|said| said.forecast.as_ref()).filter(|_| args.forecast.is_none()) {
            Some(Placed { value, line, column }) => method(value).unwrap_or_else(|remedy| {
                test(Source::Place(*line, *column), Err(anyhow!("there is no forecast method \"{value}\"; {remedy}")));
                Method::default()
            }),
            None => args.forecast.unwrap_or_default(),
        };
        let decisions = chosen("--decisions", args.decisions.as_ref(), said.and_then(|said| said.decisions.as_ref()));
        let environment =
            chosen("--environment", args.environment.as_ref(), said.and_then(|said| said.environment.as_ref()));
        let webhook = chosen("--webhook", args.webhook.as_ref(), said.and_then(|said| said.webhook.as_ref()));
        if let Some((path, from)) = &decisions {
            test(*from, check_recording(path).map_err(anyhow::Error::from));
        }
        if let Some((path, from)) = &environment {
            test(*from, weir_store::check_store(path).map_err(anyhow::Error::from));
            if decisions.as_ref().is_some_and(|(decisions, _)| decisions == path) {
                test(*from, Err(anyhow!("{} is the recording, too; give another file", path.display())));
            }
        }
        if let Some((url, from)) = &webhook {
            test(*from, weir_load::Url::parse(url).map(drop).map_err(|error| anyhow!("{url}: {error}")));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let node = args.node.clone().or_else(|| Some(said?.node.as_ref()?.value.clone()));
        Ok(Some(Self {
            file,
            tick: args.tick.or_else(|| said?.tick).unwrap_or(TICK),
            node: node.unwrap_or_else(|| "here".to_owned()),
            method,
            decisions: decisions.map(|(path, _)| path),
            environment: environment.map(|(path, _)| path),
            webhook: webhook.map(|(url, _)| url),
            has_reserve: options.reserve_loops > 0,
            upstreams: options.upstream_names(),
            php: options.php_upstreams(),
        }))
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup {
            here: self.node.clone(),
            tick: self.tick,
            method: self.method,
            is_recorded: self.decisions.is_some(),
            judge_every: JUDGE_EVERY,
            has_reserve: self.has_reserve,
        }
    }

    fn is_upstream(&self, node: &str) -> bool {
        self.upstreams.iter().any(|name| name == node)
    }

    /// Warns of a policy with pools, none of which has this node, unless all of them are of upstreams.
    pub(crate) fn doubt(&self, policy: &Policy) -> Option<String> {
        let has_others = policy.nodes().iter().any(|node| !self.is_upstream(node));
        let is_nowhere = has_others && !policy.has_in_pools(&self.node);
        is_nowhere.then(|| format!("no pool has the node `{}`, so its readings are in none", self.node))
    }

    /// Warns of workers that no upstream has, or not so many.
    pub(crate) fn unknown_workers(&self, policy: &Policy) -> Option<String> {
        policy.ordered_workers().into_iter().find_map(|(name, workers)| {
            match self.php.iter().find(|(known, _)| known == name) {
                None => {
                    Some(format!("`workers` of `{name}`, which is no PHP and no pool of scripts of this server by its `name`, does nothing"))
                }
                Some((_, most)) if *most < workers => {
                    Some(format!("`workers {workers}` of `{name}` gives it {most}, its `workers_max`"))
                }
                Some(_) => None,
            }
        })
    }

    /// Warns of a node beside upstreams that is neither this one nor an upstream.
    pub(crate) fn unknown_node(&self, policy: &Policy) -> Option<String> {
        if !policy.nodes().iter().any(|node| self.is_upstream(node)) {
            return None;
        }
        let unknown = policy.nodes().iter().find(|node| **node != self.node && !self.is_upstream(node))?;
        Some(format!("`{unknown}` is neither this node nor the name of an upstream, so nothing is read of it"))
    }
}

/// What the command line says, else what the configuration does, and where.
fn chosen<T: Clone>(option: &'static str, given: Option<&T>, said: Option<&Placed<T>>) -> Option<(T, Source)> {
    let given = given.map(|value| (value.clone(), Source::Option(option)));
    given.or_else(|| said.map(|said| (said.value.clone(), Source::Place(said.line, said.column))))
}

fn tick(text: &str) -> anyhow::Result<Duration> {
    let tick = units::duration(text)?;
    let bounds = Duration::from_millis(10)..=Duration::from_secs(60);
    anyhow::ensure!(bounds.contains(&tick), "a tick is 10ms to 1min long");
    Ok(tick)
}

/// Orders to the server, as rules give them.
struct Orders {
    control: Control,
    notice: fn(&str),
}

impl Orders {
    /// A glob of a policy that the server cannot take: there are too many, or it is too large.
    fn tell(&self, glob: &str, is_taken: bool) {
        if !is_taken {
            (self.notice)(&format!("{glob} cannot be kept in memory: the server has no room for another pattern"));
        }
    }
}

impl ServerActions for Orders {
    fn pin(&self, glob: &str) {
        self.tell(glob, self.control.pin(glob));
    }

    fn unpin(&self, glob: &str) {
        self.control.unpin(glob);
    }

    fn warm(&self, glob: &str) {
        self.tell(glob, self.control.warm(glob));
    }

    fn spread(&self, loops_more: u32) {
        self.control.spread(loops_more);
    }

    fn workers(&self, upstream: &str, workers: Option<u32>) {
        self.control.workers(upstream, workers);
    }
}

/// What the persister is told at its start.
#[derive(Debug, clap::Args)]
pub(crate) struct PersisterArgs {
    /// The recording
    #[arg(long)]
    decisions: Option<PathBuf>,

    /// The environment database
    #[arg(long)]
    environment: Option<PathBuf>,

    /// Where alerts go
    #[arg(long)]
    webhook: Option<String>,
}

/// Rules at work beside a server.
pub(crate) struct Adapting {
    runtime: PolicyRuntime,
    settings: Settings,
    /// Whether the command line names the file; a configuration that is read later does not change it then.
    is_named: bool,
    ready: Option<Ready>,
    running: Option<Running>,
    /// A pipe that ends with the persister.
    persister: Option<File>,
    notice: fn(&str),
}

impl Adapting {
    /// By the policy of the command line or of the `configuration`; `None` without one. `Err`: it cannot be used, in lines
    /// that say where and why.
    pub(crate) fn new(args: &PolicyArgs, options: &Options, configuration: &Path) -> anyhow::Result<Option<Self>> {
        let found = Settings::of(args, options).map_err(|wrong| {
            let line = |Wrong { source, what, remedy }: &Wrong| match source {
                Source::Option(option) => format!("{option}: {what}; {remedy}"),
                Source::Place(line, column) => format!("{}:{line}:{column}: {what}; {remedy}", configuration.display()),
            };
            anyhow!(wrong.iter().map(line).collect::<Vec<_>>().join("\nweir serve: "))
        })?;
        let Some(settings) = found else { return Ok(None) };
        let policy = read(&settings.file)?;
        if let Some(doubt) = settings.doubt(&policy) {
            (options.notice)(&format!("{}: {doubt}; name it by --node", settings.file.display()));
        }
        if let Some(unknown) = settings.unknown_node(&policy) {
            (options.notice)(&format!("{}: {unknown}; {UPSTREAM_REMEDY}", settings.file.display()));
        }
        if let Some(unknown) = settings.unknown_workers(&policy) {
            (options.notice)(&format!("{}: {unknown}; {WORKERS_REMEDY}", settings.file.display()));
        }
        let runtime = PolicyRuntime::new(policy, settings.setup())?;
        let (is_named, notice) = (args.policy.is_some(), options.notice);
        Ok(Some(Self { runtime, settings, is_named, ready: None, running: None, persister: None, notice }))
    }

    pub(crate) fn adviser(&self) -> Arc<dyn Adviser> {
        self.runtime.adviser()
    }

    pub(crate) fn teller(&self) -> Arc<dyn Teller> {
        self.runtime.teller()
    }

    /// The file of the rules, which is read again.
    pub(crate) fn file(&self) -> &Path {
        &self.settings.file
    }

    /// Opens and starts what a confined server could not, as the user that the server will run as.
    pub(crate) fn prepare(&mut self, server: &Server, user: Option<&str>) -> anyhow::Result<()> {
        let Settings { decisions, environment, webhook, .. } = &self.settings;
        let ends = if decisions.is_some() || environment.is_some() || webhook.is_some() {
            let ends = start_persister(&self.settings, user)?;
            self.persister = Some(ends.reports.try_clone().context("the persister's other pipe")?);
            Some(ends)
        } else {
            None
        };
        let orders = Box::new(Orders { control: server.control(), notice: self.notice });
        let ready = self.runtime.ready(server.counters(), Some(orders), ends, self.notice);
        self.ready = Some(ready.with_insight(server.insight()));
        Ok(())
    }

    /// Starts the controller, once: from the server's thread, so that it is confined as that is.
    pub(crate) fn start(&mut self) {
        let Some(ready) = self.ready.take() else { return };
        match ready.start() {
            Ok(running) => self.running = Some(running),
            Err(error) => (self.notice)(&format!("the rules are not evaluated: there is no thread for them: {error}")),
        }
    }

    /// Reads the rules again; with mistakes in them the former ones stay.
    pub(crate) fn read_again(&mut self, options: Option<&Options>) {
        if let Some(policy) = options.and_then(|options| options.policy.as_ref()).filter(|_| !self.is_named) {
            self.settings.file.clone_from(&policy.file);
        }
        let Some(running) = &self.running else { return };
        let file = &self.settings.file;
        let replaced = read(file).and_then(|policy| Ok(running.replace(policy)?));
        let file = file.display();
        match replaced {
            Ok(()) => (self.notice)(&format!("{file} was read again and its rules hold")),
            Err(why) => {
                running.refused(&why.to_string());
                (self.notice)(&format!("{why}\nweir serve: {file} was not taken up; the rules before it stay"));
            }
        }
    }

    /// Ends the controller, and waits for the persister a while.
    pub(crate) fn finish(self) {
        if let Some(running) = self.running {
            running.stop();
        }
        drop(self.ready);
        if let Some(end) = self.persister
            && !has_ended(end, CLERK_PATIENCE)
        {
            (self.notice)("the persister has not written or posted everything yet; it goes on by itself");
        }
    }
}

/// Waits at most `most` for the end of a non-blocking pipe; bytes before it are dropped: the controller, which is gone,
/// would have read them.
fn has_ended(mut pipe: File, most: Duration) -> bool {
    let until = Instant::now() + most;
    loop {
        let mut poll = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let left_ms = until.saturating_duration_since(Instant::now()).as_millis() as libc::c_int;
        // SAFETY: the kernel writes into the structure, which lives over the call.
        if unsafe { libc::poll(&raw mut poll, 1, left_ms) } == 0 {
            return false;
        }
        match pipe.read(&mut [0; 4096]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return true,
        }
    }
}

/// Reads and checks a policy; what is wrong with it in lines. A policy without a rule is refused: an editor or a full
/// disk may leave an empty file.
fn read(file: &Path) -> anyhow::Result<Policy> {
    let name = file.display().to_string();
    let text = read_policy(file).map_err(|error| anyhow!("{name}: {error}; give a file of rules"))?;
    let (policy, _) = Policy::read(&name, &text).map_err(|mistakes| {
        anyhow!(mistakes.iter().map(|mistake| format!("{name}:{mistake}")).collect::<Vec<_>>().join("\nweir serve: "))
    })?;
    tracing::info!(file = name, rules = policy.rules(), "policy read");
    if policy.rules() == 0 {
        bail!("{name}: {NO_RULES}; write one, or serve without a policy");
    }
    Ok(policy)
}

/// Starts the persister with a pipe to it, and one from it that ends when it does; neither blocks.
fn start_persister(settings: &Settings, user: Option<&str>) -> anyhow::Result<PersisterEnds> {
    let program = std::env::current_exe().context("where this program is")?;
    let mut command = Command::new(program);
    command.arg("serve-persister").stdin(Stdio::piped()).stdout(Stdio::piped());
    let paths = [("--decisions", &settings.decisions), ("--environment", &settings.environment)];
    for (option, path) in paths.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?))) {
        command.arg(option).arg(path);
    }
    if let Some(url) = &settings.webhook {
        command.arg("--webhook").arg(url);
    }
    if let Some((uid, gid)) = user.map(ids).transpose()? {
        command.uid(uid).gid(gid);
    }
    // Ctrl-C in a terminal is for the server; the persister ends when the server has.
    let mut child = command.process_group(0).spawn().context("starting the persister")?;
    let asks = child.stdin.take().context("the persister's pipe")?;
    let reports = File::from(OwnedFd::from(child.stdout.take().context("the persister's other pipe")?));
    // SAFETY: the call takes no pointers. A pipe that stays small holds less.
    unsafe { libc::fcntl(asks.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
    not_to_wait(asks.as_fd())
        .and_then(|()| not_to_wait(reports.as_fd()))
        .context("a pipe of the persister would wait")?;
    Ok(PersisterEnds { asks, reports, pid: child.id() })
}

/// Makes a descriptor non-blocking.
fn not_to_wait(pipe: BorrowedFd<'_>) -> std::io::Result<()> {
    // SAFETY: the call takes no pointers.
    let flags = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    if flags < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// The numbers of a user and its group.
pub(crate) fn ids(name: &str) -> anyhow::Result<(libc::uid_t, libc::gid_t)> {
    let text = std::ffi::CString::new(name)?;
    // SAFETY: the text lives over the call; no other thread runs yet that could ask for another user.
    let entry = unsafe { libc::getpwnam(text.as_ptr()).as_ref() };
    entry.map(|entry| (entry.pw_uid, entry.pw_gid)).with_context(|| format!("there is no user {name}"))
}

/// The persister: does what the server asks until that ends.
pub(crate) fn persister(args: &PersisterArgs) -> anyhow::Result<ExitCode> {
    let webhook = args.webhook.as_deref().map(|url| Webhook::start("weir serve", url, WEBHOOK_PATIENCE)).transpose()?;
    let places = Places {
        recording: args.decisions.clone(),
        recording_bytes_max: 64 << 20,
        recording_keep: 4,
        database: args.environment.clone(),
        limits: Limits { bytes: 64 << 20, ..Limits::default() },
    };
    // The server reads of losses when it looks; a persister that waited for it would delay its own work.
    let reports = File::from(std::io::stdout().as_fd().try_clone_to_owned().context("the way back to the server")?);
    not_to_wait(reports.as_fd()).context("the way back to the server")?;
    let from: &mut dyn Read = &mut std::io::stdin().lock();
    let mut alerts = Posted(webhook);
    persister::run(from, reports, &places, &mut alerts, |wrong| eprintln!("weir serve: {wrong}"));
    if let Some(lost) = alerts.0.and_then(Webhook::finish) {
        eprintln!("weir serve: {lost}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Alerts by a webhook, if there is one.
struct Posted(Option<Webhook>);

impl Alerts for Posted {
    fn send(&mut self, alert: serde_json::Value) {
        if let Some(webhook) = &self.0 {
            webhook.send(alert);
        }
    }

    fn lost(&self) -> u64 {
        self.0.as_ref().map_or(0, Webhook::lost)
    }

    fn failing(&self) -> Option<String> {
        self.0.as_ref().and_then(Webhook::failing)
    }
}
