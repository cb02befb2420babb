//! The options of `weir compare`, and the plan that they make.
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ArgGroup;
use weir_compare::{
    Case, CommandLine, CpuAccountingChoice, CpuSet, CpuWord, Defaults, Fraction, Observer, Pair, PartsChoice, Pinning,
    Plan, Repetitions, Seconds, Target,
};

/// What the lists of subjects have nothing to do with.
const SHOWN_ALONE: [&str; 9] = ["results", "seed", "blocks", "until", "budget", "junit", "json", "html", "history"];

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("asked").args(["plan", "a", "resume", "results_of", "subjects", "show_subject"]).required(true))]
pub(super) struct Options {
    /// Plan of the experiment in TOML: any number of subjects and cases.
    #[arg(value_name = "PLAN.toml", conflicts_with_all = ["url", "url_a", "url_b"])]
    plan: Option<PathBuf>,
    /// Command of server A, the one held against (with --generators, of load generator A).
    #[arg(long, value_name = "CMD")]
    a: Option<CommandLine>,
    /// Command of server B, the one judged. Without it A's server is used for both, with what --beside-a and
    /// --beside-b say.
    #[arg(long, value_name = "CMD", requires = "a")]
    b: Option<CommandLine>,
    /// Use A's server for both sides. Understood when --b is absent and there is a --beside command.
    #[arg(long, conflicts_with_all = ["b", "generators"])]
    same: bool,
    /// Where the servers are reached, if at one address. Servers that share it are started for each slice.
    #[arg(long, value_name = "URL", requires = "a")]
    url: Option<Target>,
    /// Where A is reached, if not at --url.
    #[arg(long, value_name = "URL", requires = "a")]
    url_a: Option<Target>,
    /// Where B is reached, if not at --url.
    #[arg(long, value_name = "URL", requires = "a")]
    url_b: Option<Target>,
    /// Connections that the load holds open.
    #[arg(short, long, value_name = "N", default_value_t = 10, requires = "a")]
    connections: u32,
    /// Length of a slice; a block has one of each subject [default: 1].
    #[arg(long, value_name = "SECONDS")]
    block_seconds: Option<f64>,
    /// Blocks of each case, at most [default: 20].
    #[arg(long, value_name = "N")]
    blocks: Option<usize>,
    /// Blocks in which A is measured twice, for the noise floor [default: half of --blocks, at least 5].
    #[arg(long, value_name = "N")]
    aa: Option<usize>,
    /// Load before each slice that is not counted (with --generators, once) [default: 1].
    #[arg(long, value_name = "SECONDS")]
    warm_up: Option<f64>,
    /// End a case once the interval of its CPU time per request reaches no further than this to either side, such as 1%.
    #[arg(long, value_name = "FRACTION")]
    until: Option<Fraction>,
    /// End with the block during which this time is over, such as 10m.
    #[arg(long, value_name = "TIME")]
    budget: Option<Seconds>,
    /// Keep the plan and every complete block in this new folder, for --resume and for later.
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(super) results: Option<PathBuf>,
    /// Go on with the experiment in this folder where it ended; --blocks, --until and --budget may be raised.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seed", "aa", "block_seconds", "warm_up"])]
    pub(super) resume: Option<PathBuf>,
    /// Report of the experiment in this folder as it ended; nothing is started.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["results", "resume", "seed", "blocks", "aa", "block_seconds", "warm_up", "until", "budget"]
    )]
    pub(super) results_of: Option<PathBuf>,
    /// Keep this result in a folder with earlier ones, a file each, and tell what has shifted for good.
    #[arg(long, value_name = "DIR")]
    pub(super) history: Option<PathBuf>,
    /// What this result is called in the history [default: git's commit here, if there is one].
    #[arg(long, value_name = "TEXT", requires = "history")]
    pub(super) label: Option<String>,
    /// Take the level that has been reached as the one that is to be: shifts so far are no failure any more.
    #[arg(long, requires = "history")]
    pub(super) accept_shift: bool,
    /// List the ready-made servers that a plan can name by from = "NAME", what they take, and whether that is there.
    #[arg(long, conflicts_with_all = SHOWN_ALONE)]
    pub(super) subjects: bool,
    /// Print the configuration of a ready-made server, with the reason for each setting.
    #[arg(long, value_name = "NAME", conflicts_with_all = SHOWN_ALONE)]
    pub(super) show_subject: Option<String>,
    /// Seed of the order of the blocks and of the bootstrap. Default: drawn, and shown in the report.
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// CPUs of the servers: 0, 0,2, 1-3 or any. Default: the first one.
    #[arg(long, value_name = "CPUS", requires = "a")]
    server_cpu: Option<CpuWord>,
    /// CPUs of the load. Default: the second one.
    #[arg(long, value_name = "CPUS", requires = "a")]
    load_cpu: Option<CpuWord>,
    /// CPUs of the commands beside a server. Default: any.
    #[arg(long, value_name = "CPUS", requires = "a")]
    beside_cpu: Option<CpuWord>,
    /// Load command with {url}, {seconds} and {connections}; the counts of weir load --json, wrk, ab, httperf,
    /// h2load and hey are understood. Default: weir load.
    #[arg(long, value_name = "CMD", conflicts_with = "generators", requires = "a")]
    load: Option<CommandLine>,
    /// Start and stop the server for each slice, as is always done when both use one address.
    #[arg(long, conflicts_with = "generators", requires = "a")]
    restart: bool,
    /// Command that runs beside the server in A's slices and is not counted, such as an observer; ended with SIGINT.
    /// {pid} (of the server), {url} and {port} are filled in.
    #[arg(long, value_name = "CMD", conflicts_with = "generators", requires = "a")]
    beside_a: Option<CommandLine>,
    /// The same in B's slices.
    #[arg(long, value_name = "CMD", conflicts_with = "generators", requires = "a")]
    beside_b: Option<CommandLine>,
    /// Compare two load commands (--a and --b) against one server, by their CPU time.
    #[arg(long, requires_all = ["server", "b"])]
    generators: bool,
    /// With --generators: the server that both send to.
    #[arg(long, value_name = "CMD", requires = "generators")]
    server: Option<CommandLine>,
    /// How long a server may take until its port answers.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, requires = "a")]
    start_timeout: f64,
    /// The smallest difference that interests you, such as 5% or 0.05. State it before you look.
    #[arg(long, value_name = "FRACTION", default_value = "2%", requires = "a")]
    smallest_effect: Fraction,
    /// Count CPU time by process trees even where control groups can be made.
    #[arg(long, requires = "a")]
    no_cgroup: bool,
    /// Observe N short slices of each subject after the blocks, for the parts of its responses: why one is slower.
    /// Default: up to 3 where that is permitted (Linux 5.18, root) and takes little beside the blocks.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3", require_equals = true, conflicts_with_all = ["no_parts", "generators"])]
    parts: Option<u32>,
    /// Observe none.
    #[arg(long)]
    no_parts: bool,
    #[command(flatten)]
    pub(super) shape: Shape,
    /// Exit with 3 when B is worse in something.
    #[arg(long)]
    pub(super) fail_if_worse: bool,
}

/// The shape of the report.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Shape {
    /// Report as JSON, with every raw block.
    #[arg(long)]
    pub(super) json: bool,
    /// Report as Markdown.
    #[arg(long, conflicts_with = "json")]
    pub(super) markdown: bool,
    /// Write the report as one HTML page with plots as well.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Show as well what each used and how it served: CPU time in the kernel and outside, context switches, bytes, the shares
    /// of the clients, errors, parts of a response.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub(super) details: bool,
    /// Write a report for continuous integration as well: a test for each metric, which fails where it is worse.
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
}

impl Options {
    /// What the options ask for.
    pub(super) fn into_plan(self) -> anyhow::Result<Plan> {
        let plan = match &self.plan {
            Some(file) => self.read_file(file)?,
            None => self.of_commands()?,
        };
        plan.check()?;
        Ok(plan)
    }

    fn read_file(&self, file: &Path) -> anyhow::Result<Plan> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading the plan {}", file.display()))?;
        let load = own_load()?;
        let weir = load.program().to_owned();
        let defaults = Defaults { load, pinning: pinning(None, None, None)?, seed: drawn_seed(), weir };
        let mut plan = weir_compare::read_plan(&text, file, &defaults)?;
        self.change(&mut plan);
        Ok(plan)
    }

    /// What is said of observed slices, if anything is.
    fn parts_choice(&self) -> Option<PartsChoice> {
        match self.parts {
            _ if self.no_parts => Some(PartsChoice::Never),
            Some(0) => Some(PartsChoice::Never),
            parts => parts.map(PartsChoice::Slices),
        }
    }

    /// Changes what the options say of a plan that is known.
    pub(super) fn change(&self, plan: &mut Plan) {
        if let Some(parts) = self.parts_choice() {
            plan.parts = parts;
        }
        let repetitions = &mut plan.repetitions;
        if let Some(blocks) = self.blocks {
            repetitions.blocks = blocks;
            repetitions.aa_blocks = repetitions.aa_blocks.min(blocks);
        }
        repetitions.aa_blocks = self.aa.unwrap_or(repetitions.aa_blocks);
        repetitions.block_s = self.block_seconds.unwrap_or(repetitions.block_s);
        repetitions.warm_up_s = self.warm_up.unwrap_or(repetitions.warm_up_s);
        repetitions.until = self.until.map(|until| until.0).or(repetitions.until);
        repetitions.budget_s = self.budget.map(|budget| budget.0).or(repetitions.budget_s);
        plan.seed = self.seed.unwrap_or(plan.seed);
    }

    fn of_commands(self) -> anyhow::Result<Plan> {
        let parts = self.parts_choice().unwrap_or_default();
        let a = self.a.context("--a CMD is needed, or a plan")?;
        let url_a = self.url_a.or_else(|| self.url.clone()).context("--url or --url-a is needed")?;
        let load = self.load.map_or_else(own_load, Ok)?;
        let has_beside = self.beside_a.is_some() || self.beside_b.is_some();
        let (pair, url_b) = match (self.generators, self.b, self.server) {
            (true, Some(b), Some(server)) => (Pair::of_generators(&a, &b, server), Some(url_a.clone())),
            (false, Some(b), _) => (Pair::of_servers(a, b, &load), self.url_b.or(self.url)),
            (false, None, _) if self.same || has_beside => (Pair::of_one_server(a, &load), Some(url_a.clone())),
            _ => anyhow::bail!(
                "--b CMD is needed, or a command beside A's server (--beside-b), or --same for A against itself"
            ),
        };
        let pair = if self.generators { pair } else { pair.beside(self.beside_a, self.beside_b) };
        let url_b = url_b.context("--url-b is needed beside --url-a, or --url for both")?;
        let blocks = self.blocks.unwrap_or(20);
        Ok(Plan {
            measured: pair.measured,
            servers: pair.servers,
            subjects: pair.subjects,
            cases: vec![Case {
                name: "load".to_owned(),
                targets: vec![Some(url_a), Some(url_b)],
                connections: self.connections,
                options: Vec::new(),
            }],
            repetitions: Repetitions {
                blocks,
                aa_blocks: self.aa.unwrap_or_else(|| (blocks / 2).max(5).min(blocks)),
                block_s: self.block_seconds.unwrap_or(1.0),
                warm_up_s: self.warm_up.unwrap_or(1.0),
                until: self.until.map(|until| until.0),
                budget_s: self.budget.map(|budget| budget.0),
            },
            pinning: pinning(self.server_cpu, self.load_cpu, self.beside_cpu)?,
            restart: self.restart,
            start_timeout_s: self.start_timeout,
            smallest_effect: self.smallest_effect.0,
            seed: self.seed.unwrap_or_else(drawn_seed),
            parts,
            site: None,
            accounting: if self.no_cgroup { CpuAccountingChoice::ProcessTree } else { CpuAccountingChoice::Best },
        })
    }
}

/// `weir load`, by the path of this very program.
fn own_load() -> anyhow::Result<CommandLine> {
    let program = std::env::current_exe().context("finding the path of this program for the load; give --load")?;
    let words = ["load", "{url}", "-c", "{connections}", "-d", "{seconds}", "--json"];
    let words = std::iter::once(program.display().to_string()).chain(words.map(str::to_owned)).collect();
    Ok(CommandLine::from_words(words)?)
}

/// What observes a slice, and why nothing can.
pub(super) fn observer(folder: &Path) -> anyhow::Result<Observer> {
    let program =
        std::env::current_exe().context("finding the path of this program, which observes; use --no-parts")?;
    // What is sampled from /proc, or seen from the client alone, has no parts.
    let always = "--port {port} --pid {pid} --json --run {run} --without-rung proc --without-rung client";
    let words = |own: &str| {
        let own = format!("explain {own} {always}");
        let words = std::iter::once(program.display().to_string()).chain(own.split(' ').map(str::to_owned));
        CommandLine::from_words(words.collect())
    };
    Ok(Observer {
        loading: words("--load {url}")?,
        beside: words("--server-side -d {seconds}")?,
        folder: folder.to_owned(),
    })
}

fn pinning(server: Option<CpuWord>, load: Option<CpuWord>, beside: Option<CpuWord>) -> anyhow::Result<Pinning> {
    let available = CpuSet::available().context("asking which CPUs there are")?;
    let first = available.numbers().first().copied().unwrap_or(0);
    // With one CPU both share it, which the report warns of.
    let second = available.numbers().get(1).copied().unwrap_or(first);
    let choose = |choice: Option<CpuWord>, default| match choice {
        Some(CpuWord(set)) => Ok(set),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use weir_compare::Measured;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn planned(line: &[&str]) -> anyhow::Result<Plan> {
        Line::try_parse_from([&["compare"], line].concat())?.options.into_plan()
    }

    #[test]
    fn arguments_become_a_plan() {
        let both = planned(&["--a", "x 1", "--b", "x 2", "--url", "http://127.0.0.1:1/"]).expect("a plan");
        assert_eq!((both.repetitions.aa_blocks, both.smallest_effect), (10, 0.02));
        assert_eq!((both.servers.len(), both.restart), (2, false));
        let beside = planned(&["--a", "x", "--beside-b", "y {pid}", "--url", "http://h/"]).expect("a plan");
        let with_beside = beside.subjects.iter().map(|subject| subject.beside.is_some());
        assert_eq!((beside.servers.len(), with_beside.collect::<Vec<_>>()), (1, vec![false, true]));
        let generators = ["--generators", "--server", "s", "--a", "x", "--b", "y", "--url", "http://h/"];
        assert_eq!(planned(&generators).expect("a plan").measured, Measured::Generator);
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
            &[],
            &["plan.toml", "--a", "x", "--b", "y", "--url", "http://h/"],
            &["plan.toml", "--url", "http://h/"],
            &["plan.toml", "--resume", "folder"],
            &["--resume", "folder", "--results", "folder"],
            &["--resume", "folder", "--seed", "1"],
            &["--resume", "folder", "--block-seconds", "2"],
            &["--results-of", "folder", "--resume", "folder"],
            &["--results-of", "folder", "--blocks", "3"],
            &["plan.toml", "--results-of", "folder"],
            &["plan.toml", "--label", "x"],
            &["plan.toml", "--accept-shift"],
        ] {
            assert!(planned(line).is_err(), "{line:?}");
        }
    }
}
