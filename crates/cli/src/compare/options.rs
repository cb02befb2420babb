//! The options of `weir compare`, and the plan that they make.
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ArgGroup;
use weir_compare::{
    Asked, Case, CommandLine, CpuAccountingChoice, CpuSet, CpuWord, Defaults, Fraction, Observer, Pair, PartsChoice,
    Pinning, Plan, Ports, Repetitions, Seconds, Target,
};

use super::side::{Side, Surroundings};

/// The largest plan that is read, in bytes.
const PLAN_BYTES_MAX: u64 = 16 << 20;

/// Options that the lists of subjects do not use.
const SHOWN_ALONE: [&str; 9] = ["results", "seed", "blocks", "until", "budget", "junit", "json", "html", "history"];

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("asked").args(["plan", "a", "resume", "results_of", "subjects", "show_subject"]).required(true))]
pub(super) struct Options {
    /// Plan of the experiment in TOML: any number of subjects and cases.
    #[arg(value_name = "PLAN.toml", conflicts_with_all = ["url", "url_a", "url_b"])]
    plan: Option<PathBuf>,
    /// Command of server A, the baseline, or the name of a ready-made one (with --generators, command of load generator
    /// A).
    #[arg(long, value_name = "CMD")]
    a: Option<CommandLine>,
    /// Command or name of server B, which is judged against A. Without it A's server is used for both sides, with the
    /// commands of --beside-a and --beside-b.
    #[arg(long, value_name = "CMD", requires = "a")]
    b: Option<CommandLine>,
    /// Use A's server for both sides. Implied if --b is absent and there is a --beside command.
    #[arg(long, conflicts_with_all = ["b", "generators"])]
    same: bool,
    /// URL of the servers, if they share one. They are then started for each slice.
    #[arg(long, value_name = "URL", requires = "a")]
    url: Option<Target>,
    /// URL of A, if not --url.
    #[arg(long, value_name = "URL", requires = "a")]
    url_a: Option<Target>,
    /// URL of B, if not --url.
    #[arg(long, value_name = "URL", requires = "a")]
    url_b: Option<Target>,
    /// Path that is requested from ready-made servers [default: the path of the other server's URL, or /index.html].
    #[arg(long, value_name = "PATH", requires = "a")]
    path: Option<String>,
    /// Ready-made servers speak TLS 1.3, with a certificate that is made for the experiment. A load of your own
    /// (--load) must accept any certificate.
    #[arg(long, requires = "a")]
    tls: bool,
    /// The folder that ready-made servers serve, {site} in commands; without it a sample site.
    #[arg(long, value_name = "DIR", requires = "a")]
    site: Option<PathBuf>,
    /// Connections that the load holds open.
    #[arg(short, long, value_name = "N", default_value_t = 10, requires = "a")]
    connections: u32,
    /// Length of a slice; a block has one of each subject [default: 0.3; with --generators 1].
    #[arg(long, value_name = "TIME")]
    block_seconds: Option<Seconds>,
    /// Blocks of each case, at most [default: 100, or as many as --budget has room for].
    #[arg(long, value_name = "N")]
    blocks: Option<usize>,
    /// Blocks in which A is measured twice, for the noise floor [default: all].
    #[arg(long, value_name = "N")]
    aa: Option<usize>,
    /// Load before each slice that is not counted (with --generators, once) [default: 0.1; with --generators 1].
    #[arg(long, value_name = "TIME")]
    warm_up: Option<Seconds>,
    /// End a case once the interval of its CPU time per request extends at most this far to either side, such as 1%.
    #[arg(long, value_name = "FRACTION")]
    until: Option<Fraction>,
    /// Stop after the block in which this time runs out, such as 10m.
    #[arg(long, value_name = "TIME")]
    budget: Option<Seconds>,
    /// How many times to start every server, where it is not started for each slice: a difference between two starts of
    /// one program is none between programs [default: as often as a verdict on memory needs].
    #[arg(long, value_name = "N", conflicts_with = "generators")]
    starts: Option<usize>,
    /// Keep the plan and every complete block in this new folder, for --resume and for later.
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(super) results: Option<PathBuf>,
    /// Resume the experiment in this folder where it ended; --blocks, --until and --budget may be raised.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seed", "aa", "block_seconds", "warm_up", "starts"])]
    pub(super) resume: Option<PathBuf>,
    /// Report the experiment in this folder as it ended; start nothing.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["results", "resume", "seed", "blocks", "aa", "block_seconds", "warm_up", "until", "budget"]
    )]
    pub(super) results_of: Option<PathBuf>,
    /// Keep this result in a folder with earlier ones, a file each, and report figures that have shifted for good.
    #[arg(long, value_name = "DIR")]
    pub(super) history: Option<PathBuf>,
    /// Name of this result in the history [default: git's commit here, if there is one].
    #[arg(long, value_name = "TEXT", requires = "history")]
    pub(super) label: Option<String>,
    /// Accept the present level as the new baseline: shifts until now are no failure any more.
    #[arg(long, requires = "history")]
    pub(super) accept_shift: bool,
    /// List the ready-made servers that a plan can name by from = "NAME", what they need, and whether that is
    /// installed.
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
    /// With --generators: the server that both send to, by its command or the name of a ready-made one.
    #[arg(long, value_name = "CMD", requires = "generators")]
    server: Option<CommandLine>,
    /// How long a server may take until its port answers.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "a")]
    start_timeout: Seconds,
    /// How much longer than its slice a load may take; then it is ended, and its block measured again. Default: 30s,
    /// and 10m for a load command without {seconds}, whose length is not known.
    #[arg(long, value_name = "TIME", requires = "a")]
    load_timeout: Option<Seconds>,
    /// The smallest difference that matters to you, such as 5% or 0.05. State it before you look.
    #[arg(long, value_name = "FRACTION", default_value = "2%", requires = "a")]
    smallest_effect: Fraction,
    /// Count CPU time by process trees even where control groups can be made.
    #[arg(long, requires = "a")]
    no_cgroup: bool,
    /// After the blocks, observe N short slices of each subject for the parts of its responses, which show why one is
    /// slower. Default: up to 3 where that is permitted (Linux 5.10, root) and takes little time beside the blocks.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3", require_equals = true, conflicts_with_all = ["no_parts", "generators"])]
    parts: Option<u32>,
    /// Observe no slices.
    #[arg(long)]
    no_parts: bool,
    #[command(flatten)]
    pub(super) shape: Shape,
    /// Exit with 3 if B is worse in a metric, has more errors than A, or if no metric has a verdict.
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
    /// Write the report also as one HTML page with plots.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Show more of each subject: CPU time in the kernel and outside, context switches, bytes, the shares of the
    /// clients, errors, parts of a response.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub(super) details: bool,
    /// Write also a report for continuous integration: a test for each metric, which fails where it is worse, and for
    /// each figure of the history, which fails where it has shifted for the worse for good.
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
        let text = weir_terminal::text_file::read(file, PLAN_BYTES_MAX)
            .with_context(|| format!("reading the plan {}", file.display()))?;
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
        repetitions.block_s = self.block_seconds.map_or(repetitions.block_s, |time| time.0);
        repetitions.warm_up_s = self.warm_up.map_or(repetitions.warm_up_s, |time| time.0);
        repetitions.starts = self.starts.or(repetitions.starts);
        repetitions.until = self.until.map(|until| until.0).or(repetitions.until);
        repetitions.budget_s = self.budget.map(|budget| budget.0).or(repetitions.budget_s);
        plan.seed = self.seed.unwrap_or(plan.seed);
    }

    fn of_commands(self) -> anyhow::Result<Plan> {
        let parts = self.parts_choice().unwrap_or_default();
        let pinning = pinning(self.server_cpu.clone(), self.load_cpu.clone(), self.beside_cpu.clone())?;
        let (pair, urls) = self.pair(&pinning)?;
        let asked = Asked {
            blocks: self.blocks,
            aa_blocks: self.aa,
            block_s: self.block_seconds.map(|time| time.0),
            warm_up_s: self.warm_up.map(|time| time.0),
            until: self.until.map(|until| until.0),
            budget_s: self.budget.map(|budget| budget.0),
            starts: self.starts,
        };
        Ok(Plan {
            measured: pair.measured,
            servers: pair.servers,
            subjects: pair.subjects,
            cases: vec![Case {
                name: "load".to_owned(),
                targets: urls.map(Some).to_vec(),
                connections: self.connections,
                options: Vec::new(),
            }],
            repetitions: Repetitions::asked(&asked, pair.measured, 2, 1),
            pinning,
            restart: self.restart,
            start_timeout_s: self.start_timeout.0,
            load_timeout_s: self.load_timeout.map(|time| time.0),
            smallest_effect: self.smallest_effect.0,
            seed: self.seed.unwrap_or_else(drawn_seed),
            parts,
            site: self.site,
            accounting: if self.no_cgroup { CpuAccountingChoice::ProcessTree } else { CpuAccountingChoice::Best },
        })
    }

    /// A and B, and where each is reached.
    fn pair(&self, pinning: &Pinning) -> anyhow::Result<(Pair, [Target; 2])> {
        let a = self.a.clone().context("--a CMD is needed, or a plan")?;
        let own = own_load()?;
        let around = Surroundings {
            path: self.path.as_deref(),
            tls: self.tls,
            connections: self.connections,
            cpus: pinning.server.as_ref().map_or_else(cpus, |set| set.numbers().len()),
            weir: own.program(),
        };
        let (url_a, url_b) = (self.url_a.as_ref().or(self.url.as_ref()), self.url_b.as_ref().or(self.url.as_ref()));
        let mut ports = Ports::default();
        let insecure =
            |side: &Side| if self.tls && side.from.is_some() { vec!["--insecure".to_owned()] } else { Vec::new() };
        let load = |side: &Side| self.load.clone().unwrap_or_else(|| own.with(&insecure(side)));
        let has_beside = self.beside_a.is_some() || self.beside_b.is_some();
        let mut sides = Vec::new();
        let mut pair = match (self.generators, self.b.clone(), self.server.clone()) {
            (true, Some(b), Some(server)) => {
                sides.push(Side::of(("--server", server), (url_a, None), &around, &mut ports)?);
                Pair::of_generators(&a, &b, sides[0].server.command.clone())
            }
            (false, Some(b), _) => {
                sides.push(Side::of(("--a", a), (url_a, url_b), &around, &mut ports)?);
                sides.push(Side::of(("--b", b), (url_b, url_a), &around, &mut ports)?);
                let [a, b] = [0, 1].map(|index: usize| sides[index].server.command.clone());
                let mut pair = Pair::of_servers(a, b, &own);
                for (subject, side) in pair.subjects.iter_mut().zip(&sides) {
                    subject.load = load(side);
                }
                pair
            }
            (false, None, _) if self.same || has_beside => {
                sides.push(Side::of(("--a", a), (url_a, None), &around, &mut ports)?);
                Pair::of_one_server(sides[0].server.command.clone(), &load(&sides[0]))
            }
            _ => anyhow::bail!(
                "--b CMD is needed, or a command beside A's server (--beside-b), or --same for A against itself"
            ),
        };
        anyhow::ensure!(
            (self.path.is_none() && !self.tls) || sides.iter().any(|side| side.from.is_some()),
            "--path and --tls are for ready-made servers (weir compare --subjects lists them); for other servers the URLs say both"
        );
        // Two ready-made ones are called by their names, where these differ.
        if let [a, b] = &sides[..]
            && let (Some(a), Some(b)) = (a.from, b.from)
            && a != b
        {
            pair.subjects.iter_mut().zip([a, b]).for_each(|(subject, from)| from.name.clone_into(&mut subject.name));
        }
        let urls = [&sides[0], sides.last().unwrap_or(&sides[0])].map(|side| side.url.clone());
        pair.servers = sides.into_iter().map(|side| side.server).collect();
        if !self.generators {
            pair = pair.beside(self.beside_a.clone(), self.beside_b.clone());
        }
        Ok((pair, urls))
    }
}

/// As many as this process may use.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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
        assert_eq!((both.repetitions.aa_blocks, both.smallest_effect), (100, 0.02));
        assert_eq!((both.servers.len(), both.restart), (2, false));
        let beside = planned(&["--a", "x", "--beside-b", "y {pid}", "--url", "http://h/"]).expect("a plan");
        let with_beside = beside.subjects.iter().map(|subject| subject.beside.is_some());
        assert_eq!((beside.servers.len(), with_beside.collect::<Vec<_>>()), (1, vec![false, true]));
        let generators = ["--generators", "--server", "s", "--a", "x", "--b", "y", "--url", "http://h/"];
        assert_eq!(planned(&generators).expect("a plan").measured, Measured::Generator);
    }

    #[test]
    fn ready_made_servers_take_a_word() {
        let two = planned(&["--a", "nginx", "--b", "caddy", "--tls", "--site", "s", "-c", "77"]).expect("a plan");
        let names: Vec<&str> = two.subjects.iter().map(|subject| subject.name.as_str()).collect();
        assert_eq!((names, two.site.as_deref()), (vec!["nginx", "caddy"], Some(Path::new("s"))));
        let url = |plan: &Plan, subject: usize| plan.cases[0].targets[subject].as_ref().map(|url| url.url().to_owned());
        let urls = [0, 1].map(|subject| url(&two, subject).expect("a URL"));
        assert!(
            urls.iter().all(|url| url.starts_with("https://127.0.0.1:") && url.ends_with("/index.html")),
            "{urls:?}"
        );
        assert_ne!(urls[0], urls[1]);
        assert!(two.servers[0].files.contains_key("key.pem") && !two.servers[1].needs.is_empty());
        assert!(two.subjects.iter().all(|subject| subject.load.words().contains(&"--insecure".to_owned())));
        // The same twice keeps the names of its sides.
        let same = planned(&["--a", "nginx", "--b", "nginx", "--path", "/x"]).expect("a plan");
        assert_eq!((same.subjects[0].name.as_str(), url(&same, 1).is_some_and(|url| url.ends_with("/x"))), ("A", true));
        // Beside a command, it is asked for what that one is.
        let mixed = planned(&["--a", "./nginx", "--b", "weir", "--url-a", "http://h:1/p?q"]).expect("a plan");
        assert!(url(&mixed, 1).is_some_and(|url| url.ends_with("/p?q")), "{:?}", url(&mixed, 1));
        assert_eq!((mixed.servers[0].files.len(), url(&mixed, 0).as_deref()), (0, Some("http://h:1/p?q")));
        let generators = ["--generators", "--server", "nginx", "--a", "x", "--b", "y"];
        let generators = planned(&generators).expect("a plan");
        assert_eq!((generators.servers.len(), url(&generators, 0)), (1, url(&generators, 1)));
        let beside = planned(&["--a", "nginx", "--beside-b", "y"]).expect("a plan");
        assert_eq!((beside.servers.len(), beside.subjects[1].beside.is_some()), (1, true));
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
            &["--a", "nginx", "--b", "caddy", "--url", "http://h/"],
            &["--a", "nginx", "--b", "caddy", "--path", "x"],
            &["--a", "x", "--b", "y", "--url", "http://h/", "--tls"],
            &["plan.toml", "--path", "/x"],
            &["plan.toml", "--results-of", "folder"],
            &["plan.toml", "--label", "x"],
            &["plan.toml", "--accept-shift"],
        ] {
            assert!(planned(line).is_err(), "{line:?}");
        }
    }
}
