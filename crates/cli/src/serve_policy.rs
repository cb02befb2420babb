//! `weir serve --policy`: a server that goes by rules, and the clerk, which keeps and tells for it what a server that has
//! confined itself cannot.

use crate::webhook::Webhook;
use crate::{check, replay, units};
use anyhow::Context;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weir_adapt::Policy;
use weir_adapt::forecast::Method;
use weir_server::{Adviser, Control, Options, Server, Teller};
use weir_steward::clerk::{self, Places};
use weir_steward::{Hands, Ready, Running, Setup, Steward};
use weir_store::Limits;

/// Bytes that the pipe to the clerk holds, as far as the system allows.
const PIPE_BYTES: libc::c_int = 1 << 20;
/// So long one try to deliver an alert may take.
const WEBHOOK_PATIENCE: Duration = Duration::from_secs(5);
/// From one judgement of what the requests are to the next.
const JUDGE_EVERY: Duration = Duration::from_secs(10);
/// How long the end waits for the clerk: as long as one more try takes.
const CLERK_PATIENCE: Duration = Duration::from_secs(6);

/// Rules for the server.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Rules")]
pub(crate) struct PolicyArgs {
    /// Adapt by the rules in FILE: refuse a share, use variants, alert; SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,

    /// From one look at the rules to the next
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = tick)]
    tick: Duration,

    /// The name that pools of the policy have for this node
    #[arg(long, value_name = "NAME", default_value = "here")]
    node: String,

    /// How forecasts are made: least-squares, robust, or seasonal:PERIOD such as seasonal:24h
    #[arg(long, value_name = "METHOD", default_value = "least-squares", value_parser = replay::method)]
    forecast: Method,

    /// Write readings and decisions to FILE, which weir replay reads; at 64 MiB, and for another policy, it becomes
    /// FILE.1, of which four are kept
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,

    /// Keep readings and decisions of a week in FILE, which weir env shows
    #[arg(long, value_name = "FILE")]
    environment: Option<PathBuf>,

    /// Post alerts as JSON to URL
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
}

fn tick(text: &str) -> Result<Duration, String> {
    let tick = units::duration(text)?;
    if (Duration::from_millis(10)..=Duration::from_secs(60)).contains(&tick) {
        Ok(tick)
    } else {
        Err("a tick is 10ms to 1min long".to_owned())
    }
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
            (self.notice)(&format!("{glob} cannot be kept in memory: the server has as many patterns as it takes"));
        }
    }
}

impl Hands for Orders {
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
}

/// What the clerk is told at its start.
#[derive(Debug, clap::Args)]
pub(crate) struct ClerkArgs {
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
    steward: Steward,
    args: PolicyArgs,
    file: PathBuf,
    ready: Option<Ready>,
    running: Option<Running>,
    /// Where the clerk's end shows.
    clerk: Option<ChildStdout>,
    notice: fn(&str),
}

impl Adapting {
    /// By the policy of the command line or of the configuration; `None` without one. `Err`: it cannot be used, in lines
    /// that say where and why.
    pub(crate) fn new(args: &PolicyArgs, options: &Options) -> Result<Option<Self>, String> {
        let Some(file) = args.policy.clone().or_else(|| options.policy.clone()) else {
            let unused = [
                ("--decisions", args.decisions.is_some()),
                ("--environment", args.environment.is_some()),
                ("--webhook", args.webhook.is_some()),
            ];
            return match unused.into_iter().find(|(_, is_given)| *is_given) {
                Some((option, _)) => Err(format!("{option} is for rules; add --policy FILE, or leave it away")),
                None => Ok(None),
            };
        };
        let policy = read(&file)?;
        let setup = Setup {
            here: args.node.clone(),
            tick: args.tick,
            method: args.forecast,
            is_recorded: args.decisions.is_some(),
            judge_every: JUDGE_EVERY,
            has_reserve: options.reserve_loops > 0,
        };
        if !policy.nodes().is_empty() && !policy.has_in_pools(&args.node) {
            (options.notice)(&format!(
                "no pool of {} has the node `{}`, so its readings are in none; name it by --node",
                file.display(),
                args.node
            ));
        }
        let steward = Steward::new(policy, setup).map_err(|error| error.to_string())?;
        let (args, notice) = (args.clone(), options.notice);
        Ok(Some(Self { steward, args, file, ready: None, running: None, clerk: None, notice }))
    }

    pub(crate) fn adviser(&self) -> Arc<dyn Adviser> {
        self.steward.adviser()
    }

    pub(crate) fn teller(&self) -> Arc<dyn Teller> {
        self.steward.teller()
    }

    /// The file of the rules, which is read again.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Opens and starts what a confined server could not, as the user as whom it will run.
    pub(crate) fn prepare(&mut self, server: &Server, user: Option<&str>) -> anyhow::Result<()> {
        let PolicyArgs { decisions, environment, webhook, .. } = &self.args;
        let pipe = if decisions.is_some() || environment.is_some() || webhook.is_some() {
            let (pipe, end) = start_clerk(&self.args, user)?;
            self.clerk = Some(end);
            Some(pipe)
        } else {
            None
        };
        let orders = Box::new(Orders { control: server.control(), notice: self.notice });
        self.ready = Some(self.steward.ready(server.counters(), Some(orders), pipe, self.notice));
        Ok(())
    }

    /// Starts the controller, once: from the server's thread, so that it is confined as that is.
    pub(crate) fn start(&mut self) {
        let Some(ready) = self.ready.take() else { return };
        match ready.start() {
            Ok(running) => self.running = Some(running),
            Err(error) => (self.notice)(&format!("the rules are not looked at: no thread for them: {error}")),
        }
    }

    /// Reads the rules again; with mistakes in them the former ones stay.
    pub(crate) fn read_again(&mut self, options: Option<&Options>) {
        if let Some(file) = options.and_then(|options| options.policy.as_ref()).filter(|_| self.args.policy.is_none()) {
            self.file.clone_from(file);
        }
        let Some(running) = &self.running else { return };
        let replaced = read(&self.file).and_then(|policy| running.replace(policy).map_err(|error| error.to_string()));
        match replaced {
            Ok(()) => (self.notice)(&format!("{} was read again and its rules hold", self.file.display())),
            Err(why) => {
                running.refused(&why);
                let file = self.file.display();
                (self.notice)(&format!("{why}\nweir serve: {file} was not taken up; the rules before it stay"));
            }
        }
    }

    /// Ends the controller, and waits for the clerk a while.
    pub(crate) fn finish(self) {
        if let Some(running) = self.running {
            running.stop();
        }
        drop(self.ready);
        if let Some(end) = self.clerk {
            let mut poll = libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let patience_ms = CLERK_PATIENCE.as_millis() as libc::c_int;
            // SAFETY: the kernel writes into the structure, which lives over the call.
            let waited = unsafe { libc::poll(&raw mut poll, 1, patience_ms) };
            if waited == 0 {
                (self.notice)(
                    "what was to be kept or told elsewhere takes longer than the server; it goes on by itself",
                );
            }
        }
    }
}

/// Reads and checks a policy; what is wrong with it in lines.
fn read(file: &Path) -> Result<Policy, String> {
    let name = file.display().to_string();
    let text = check::read_text(file).map_err(|error| format!("{name}: {error}; give a file of rules"))?;
    let (policy, _) = Policy::read(&name, &text).map_err(|mistakes| {
        mistakes.iter().map(|mistake| format!("{name}:{mistake}")).collect::<Vec<_>>().join("\nweir serve: ")
    })?;
    Ok(policy)
}

/// Starts the clerk with a pipe to it that does not wait, and one that ends when it does.
fn start_clerk(args: &PolicyArgs, user: Option<&str>) -> anyhow::Result<(ChildStdin, ChildStdout)> {
    let program = std::env::current_exe().context("where this program is")?;
    let mut command = Command::new(program);
    command.arg("serve-clerk").stdin(Stdio::piped()).stdout(Stdio::piped());
    let paths = [("--decisions", &args.decisions), ("--environment", &args.environment)];
    for (option, path) in paths.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?))) {
        command.arg(option).arg(path);
    }
    if let Some(url) = &args.webhook {
        weir_load::Url::parse(url).with_context(|| format!("--webhook {url}"))?;
        command.arg("--webhook").arg(url);
    }
    if let Some((uid, gid)) = user.map(ids).transpose()? {
        command.uid(uid).gid(gid);
    }
    // Ctrl-C in a terminal is for the server; the clerk ends when the server has.
    let mut child = command.process_group(0).spawn().context("starting the clerk")?;
    let pipe = child.stdin.take().context("the clerk's pipe")?;
    let end = child.stdout.take().context("the clerk's other pipe")?;
    let fd = pipe.as_raw_fd();
    // SAFETY: the calls take no pointers. A pipe that stays small holds less, and one that waits is refused.
    let flags = unsafe {
        libc::fcntl(fd, libc::F_SETPIPE_SZ, PIPE_BYTES);
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK)
    };
    anyhow::ensure!(flags >= 0, "the pipe to the clerk would wait: {}", std::io::Error::last_os_error());
    Ok((pipe, end))
}

/// The numbers of a user and its group.
fn ids(name: &str) -> anyhow::Result<(libc::uid_t, libc::gid_t)> {
    let text = std::ffi::CString::new(name)?;
    // SAFETY: the text lives over the call; no other thread runs yet that could ask for another user.
    let entry = unsafe { libc::getpwnam(text.as_ptr()).as_ref() };
    entry.map(|entry| (entry.pw_uid, entry.pw_gid)).with_context(|| format!("there is no user {name}"))
}

/// The clerk: does what the server asks until that ends.
pub(crate) fn clerk(args: &ClerkArgs) -> anyhow::Result<ExitCode> {
    let webhook = args.webhook.as_deref().map(|url| Webhook::start("weir serve", url, WEBHOOK_PATIENCE)).transpose()?;
    let places = Places {
        recording: args.decisions.clone(),
        recording_bytes_max: 64 << 20,
        recording_keep: 4,
        database: args.environment.clone(),
        limits: Limits { bytes: 64 << 20, ..Limits::default() },
    };
    let alert = |alert| {
        if let Some(webhook) = &webhook {
            webhook.send(alert);
        }
    };
    let from: &mut dyn Read = &mut std::io::stdin().lock();
    clerk::run(from, &places, alert, |wrong| eprintln!("weir serve: {wrong}"));
    if let Some(lost) = webhook.and_then(Webhook::finish) {
        eprintln!("weir serve: {lost}");
    }
    Ok(ExitCode::SUCCESS)
}
