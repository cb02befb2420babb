//! The `weir compare` command: arguments into a plan, the experiment's progress, the report.
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ArgGroup;
use weir_compare::{
    BlockKind, Case, CommandLine, CpuAccountingChoice, CpuSet, Experiment, ExperimentError, Interrupt, Outcome,
    Pinning, Plan, Progress, Repetitions, ServerSpec, Subjects, Target,
};
use weir_measure::comparison::Verdict;

/// Exit code of a command line that makes no sense.
const USAGE: u8 = 2;
/// Exit code of `--fail-if-worse`.
const WORSE: u8 = 3;
/// How often progress is told where there is no terminal.
const PROGRESS_EACH: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  Two servers, on ports of their own:
    weir compare --a \"nginx -c /etc/a.conf -g 'daemon off;'\" \\
        --b 'weir serve --listen 127.0.0.1:8082 site' -c 100 \\
        --url-a http://127.0.0.1:8081/ --url-b http://127.0.0.1:8082/

  Two configurations on one port (each is started for its slices), in a script:
    weir compare --a './server old.conf' --b './server new.conf' \\
        --url http://127.0.0.1:8080/ --json --fail-if-worse

  What does an observer cost? It runs beside the server in half of the slices:
    weir compare --a './server' --url http://127.0.0.1:8080/ \\
        --beside-b 'weir record --pid {pid} --run /tmp/observed'

  Two load generators against one server, by their own CPU time:
    weir compare --generators --server './server' \\
        --url http://127.0.0.1:8080/ \\
        --a 'wrk -t1 -c{connections} -d{seconds}s {url}' \\
        --b 'weir load {url} -c {connections} -d {seconds} --json'

The verdict:
  Each block measures A and B one right after the other. What counts is the
  median of the ratios B/A, with a bootstrap interval over blocks; the noise
  floor is the same for A against itself. For a cost, B is worse when the whole
  interval lies above the noise floor and the median beyond the smallest effect,
  better likewise below, and the same when interval and noise floor lie within
  the smallest effect; else one cannot tell.

Exit status: 0 if it was measured, 1 if not, 2 for wrong usage, 3 if B is worse
in something (--fail-if-worse).";

/// Hold two servers, configurations or load generators against each other, so that the answer holds on a noisy
/// machine.
///
/// Commands are split into words as a shell does, but no shell runs them: for pipes and variables write sh -c '...'.
/// Servers must stay in the foreground.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    // Boxed, as the other commands have far fewer.
    #[command(flatten)]
    options: Box<Options>,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("reached").args(["url", "url_a"]).required(true).multiple(true))]
struct Options {
    /// Command of server A, the one held against (with --generators, of load generator A).
    #[arg(long, value_name = "CMD")]
    a: CommandLine,
    /// Command of server B, the one judged. Without it A's server is used for both, with what --beside-a and
    /// --beside-b say.
    #[arg(long, value_name = "CMD")]
    b: Option<CommandLine>,
    /// Use A's server for both sides. Understood when --b is absent and there is a --beside command.
    #[arg(long, conflicts_with_all = ["b", "generators"])]
    same: bool,
    /// Where the servers are reached, if at one address. Servers that share it are started for each slice.
    #[arg(long, value_name = "URL")]
    url: Option<Target>,
    /// Where A is reached, if not at --url.
    #[arg(long, value_name = "URL")]
    url_a: Option<Target>,
    /// Where B is reached, if not at --url.
    #[arg(long, value_name = "URL")]
    url_b: Option<Target>,
    /// Connections that the load holds open.
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    connections: u32,
    /// Length of a slice; a block has two, one of each side.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    block_seconds: f64,
    /// Blocks of B against A.
    #[arg(long, value_name = "N", default_value_t = 20)]
    blocks: usize,
    /// Blocks of A against itself, for the noise floor. Default: half of --blocks, at least 5.
    #[arg(long, value_name = "N")]
    aa: Option<usize>,
    /// Load before each slice that is not counted (with --generators, once).
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    warm_up: f64,
    /// Seed of the order of the blocks and of the bootstrap. Default: drawn, and shown in the report.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// CPUs of the servers: 0, 0,2, 1-3 or any. Default: the first one.
    #[arg(long, value_name = "CPUS")]
    server_cpu: Option<CpuChoice>,
    /// CPUs of the load. Default: the second one.
    #[arg(long, value_name = "CPUS")]
    load_cpu: Option<CpuChoice>,
    /// CPUs of the commands beside a server. Default: any.
    #[arg(long, value_name = "CPUS")]
    beside_cpu: Option<CpuChoice>,
    /// Load command with {url}, {seconds} and {connections}; the counts of weir load --json, wrk, ab, httperf,
    /// h2load and hey are understood. Default: weir load.
    #[arg(long, value_name = "CMD", conflicts_with = "generators")]
    load: Option<CommandLine>,
    /// Start and stop the server for each slice, as is always done when both use one address.
    #[arg(long, conflicts_with = "generators")]
    restart: bool,
    /// Command that runs beside the server in A's slices and is not counted, such as an observer; ended with SIGINT.
    /// {pid} (of the server), {url} and {port} are filled in.
    #[arg(long, value_name = "CMD", conflicts_with = "generators")]
    beside_a: Option<CommandLine>,
    /// The same in B's slices.
    #[arg(long, value_name = "CMD", conflicts_with = "generators")]
    beside_b: Option<CommandLine>,
    /// Compare two load commands (--a and --b) against one server, by their CPU time.
    #[arg(long, requires_all = ["server", "b"])]
    generators: bool,
    /// With --generators: the server that both send to.
    #[arg(long, value_name = "CMD", requires = "generators")]
    server: Option<CommandLine>,
    /// How long a server may take until its port answers.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    start_timeout: f64,
    /// The smallest difference that interests you, such as 5% or 0.05. State it before you look.
    #[arg(long, value_name = "FRACTION", default_value = "5%", value_parser = fraction)]
    smallest_effect: f64,
    /// Count CPU time by process trees even where control groups can be made.
    #[arg(long)]
    no_cgroup: bool,
    /// Report as JSON, with every raw block.
    #[arg(long)]
    json: bool,
    /// Exit with 3 when B is worse in something.
    #[arg(long)]
    fail_if_worse: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let options = *args.options;
    let (json, fail_if_worse, seed_is_drawn) = (options.json, options.fail_if_worse, options.seed.is_none());
    let plan = match plan(options) {
        Ok(plan) => plan,
        Err(error) => return Ok(usage(&error)),
    };
    let command = command_to_repeat(plan.seed, seed_is_drawn);
    let interrupt = Interrupt::default();
    stop_on_signals(&interrupt)?;
    let mut teller = Teller::new();
    let ended = Experiment::new(plan, interrupt).run(&mut |progress| teller.tell(&progress));
    teller.finish();
    let outcome = match ended {
        Ok(outcome) => outcome,
        Err(ExperimentError::Plan(error)) => return Ok(usage(&error.into())),
        Err(error) => return Err(error.into()),
    };
    print(&outcome, &command, json)?;
    let is_worse = weir_compare::verdicts(&outcome).iter().any(|judgement| judgement.verdict == Verdict::Worse);
    Ok(if fail_if_worse && is_worse { ExitCode::from(WORSE) } else { ExitCode::SUCCESS })
}

fn usage(error: &anyhow::Error) -> ExitCode {
    eprintln!("weir compare: {}", crate::output::causes(error));
    ExitCode::from(USAGE)
}

/// CPUs, or none in particular.
#[derive(Debug, Clone)]
struct CpuChoice(Option<CpuSet>);

impl std::str::FromStr for CpuChoice {
    type Err = weir_compare::CpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "any" { Ok(Self(None)) } else { text.parse().map(|set| Self(Some(set))) }
    }
}

/// `5%` or `0.05`. A bare `5` would be 500 %, which nobody means.
fn fraction(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no fraction; write for instance 5% or 0.05");
    let (number, scale, most) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 0.01, 1000.0),
        None => (text, 1.0, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.0..=most).contains(&number) => Ok(number * scale),
        _ => Err(wrong()),
    }
}

/// What the options ask for.
fn plan(options: Options) -> anyhow::Result<Plan> {
    let url_a = options.url_a.or_else(|| options.url.clone()).context("--url or --url-a is needed")?;
    let load = match options.load {
        Some(load) => load,
        None => own_load()?,
    };
    let has_beside = options.beside_a.is_some() || options.beside_b.is_some();
    let (subjects, url_b) = match (options.generators, options.b, options.server) {
        (true, Some(b), Some(server)) => (Subjects::Generators { a: options.a, b, server }, Some(url_a.clone())),
        (false, Some(b), _) => {
            let a = ServerSpec { command: options.a, beside: options.beside_a };
            let b = ServerSpec { command: b, beside: options.beside_b };
            (Subjects::Servers { a, b, load, restart: options.restart }, options.url_b.or(options.url))
        }
        (false, None, _) if options.same || has_beside => {
            let (beside_a, beside_b) = (options.beside_a, options.beside_b);
            let subjects =
                Subjects::SameServer { server: options.a, beside_a, beside_b, load, restart: options.restart };
            (subjects, Some(url_a.clone()))
        }
        _ => anyhow::bail!(
            "--b CMD is needed, or a command beside A's server (--beside-b), or --same for A against itself"
        ),
    };
    let aa_blocks = options.aa.unwrap_or_else(|| (options.blocks / 2).max(5));
    let plan = Plan {
        subjects,
        cases: vec![Case {
            name: "load".to_owned(),
            url_a,
            url_b: url_b.context("--url-b is needed beside --url-a, or --url for both")?,
            connections: options.connections,
        }],
        repetitions: Repetitions {
            blocks: options.blocks,
            aa_blocks,
            block_s: options.block_seconds,
            warm_up_s: options.warm_up,
        },
        pinning: pinning(options.server_cpu, options.load_cpu, options.beside_cpu)?,
        start_timeout_s: options.start_timeout,
        smallest_effect: options.smallest_effect,
        seed: options.seed.unwrap_or_else(drawn_seed),
        accounting: if options.no_cgroup { CpuAccountingChoice::ProcessTree } else { CpuAccountingChoice::Best },
    };
    plan.check()?;
    Ok(plan)
}

/// `weir load`, by the path of this very program.
fn own_load() -> anyhow::Result<CommandLine> {
    let program = std::env::current_exe().context("finding the path of this program for the load; give --load")?;
    let words = ["load", "{url}", "-c", "{connections}", "-d", "{seconds}", "--json"];
    let words = std::iter::once(program.display().to_string()).chain(words.map(str::to_owned)).collect();
    Ok(CommandLine::from_words(words)?)
}

fn pinning(server: Option<CpuChoice>, load: Option<CpuChoice>, beside: Option<CpuChoice>) -> anyhow::Result<Pinning> {
    let available = CpuSet::available().context("asking which CPUs there are")?;
    let first = available.numbers().first().copied().unwrap_or(0);
    // With one CPU both share it, which the report warns of.
    let second = available.numbers().get(1).copied().unwrap_or(first);
    let choose = |choice: Option<CpuChoice>, default| match choice {
        Some(CpuChoice(set)) => Ok(set),
        None => CpuSet::one(default).map(Some),
    };
    Ok(Pinning {
        server: choose(server, first)?,
        load: choose(load, second)?,
        beside: beside.and_then(|choice| choice.0),
    })
}

/// A seed short enough to be typed.
fn drawn_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) % 1_000_000_000
}

/// This command line, with the seed if that was drawn.
fn command_to_repeat(seed: u64, seed_is_drawn: bool) -> String {
    let mut words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if seed_is_drawn {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    CommandLine::from_words(words).map(|command| command.to_string()).unwrap_or_default()
}

/// The first signal ends the experiment after the current slice, the second at once.
pub(crate) fn stop_on_signals(interrupt: &Interrupt) -> anyhow::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let interrupt = interrupt.clone();
        // SAFETY: the handler only adds to an atomic number.
        unsafe { signal_hook::low_level::register(signal, move || interrupt.request()) }
            .context("installing a signal handler")?;
    }
    Ok(())
}

fn print(outcome: &Outcome, command: &str, json: bool) -> anyhow::Result<()> {
    let text = if json {
        format!("{:#}\n", weir_compare::json_report(outcome, command)?)
    } else {
        weir_compare::terminal_report(outcome, command, crate::output::colours())
    };
    crate::output::print(&text)
}

/// Tells progress on standard error: one line renewed on a terminal, else a line each few seconds.
pub(crate) struct Teller {
    is_terminal: bool,
    told: Instant,
}

impl Teller {
    pub(crate) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), told: Instant::now() }
    }

    pub(crate) fn tell(&mut self, progress: &Progress) {
        let what = match progress.block.map(|block| block.kind) {
            Some(BlockKind::Ab) => "B against A",
            Some(BlockKind::Aa) => "A against itself",
            None => "done",
        };
        let Progress { slices_done, slices_total, left_s, .. } = progress;
        let text = format!("slice {slices_done} of {slices_total}, {what}, about {left_s:.0} s left");
        // Nobody may be reading any more; that is no reason to end.
        if self.is_terminal {
            let _unread = write!(io::stderr(), "\r\x1b[K{text}");
        } else if self.told.elapsed() >= PROGRESS_EACH {
            self.told = Instant::now();
            let _unread = writeln!(io::stderr(), "{text}");
        }
    }

    pub(crate) fn finish(&self) {
        if self.is_terminal {
            let _unread = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn planned(line: &[&str]) -> anyhow::Result<Plan> {
        plan(*Line::try_parse_from([&["compare"], line].concat())?.args.options)
    }

    #[test]
    fn arguments_become_a_plan() {
        let both = planned(&["--a", "x 1", "--b", "x 2", "--url", "http://127.0.0.1:1/"]).expect("a plan");
        assert_eq!((both.repetitions.aa_blocks, both.smallest_effect), (10, 0.05));
        assert!(matches!(both.subjects, Subjects::Servers { restart: false, .. }));
        let beside = planned(&["--a", "x", "--beside-b", "y {pid}", "--url", "http://h/"]).expect("a plan");
        assert!(matches!(beside.subjects, Subjects::SameServer { beside_a: None, beside_b: Some(_), .. }));
        let generators = ["--generators", "--server", "s", "--a", "x", "--b", "y", "--url", "http://h/"];
        assert!(matches!(planned(&generators).expect("a plan").subjects, Subjects::Generators { .. }));
    }

    #[test]
    fn what_makes_no_plan_is_refused() {
        for line in [
            &["--a", "x", "--b", "y"][..],
            &["--a", "x", "--url", "http://h/"],
            &["--a", "x", "--b", "y", "--url", "h"],
            &["--a", "x", "--b", "y", "--url-a", "http://h/"],
            &["--a", "x", "--b", "y", "--url", "http://h/", "--blocks", "0"],
            &["--a", "x", "--b", "y", "--url", "http://h/", "--smallest-effect", "5"],
            &["--a", "x", "--b", "y", "--url", "http://h/", "--server-cpu", "x"],
            &["--a", "x", "--b", "y", "--url", "http://h/", "--generators"],
            &["--a", "", "--b", "y", "--url", "http://h/"],
        ] {
            assert!(planned(line).is_err(), "{line:?}");
        }
        assert_eq!((fraction("5%"), fraction("0.5"), fraction("150 %")), (Ok(0.05), Ok(0.5), Ok(1.5)));
    }
}
