//! What is held against what, how often, and where it runs.
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::command_line::CommandLine;
use crate::cpus::CpuSet;
use crate::error::PlanError;
use crate::false_verdicts::blocks_for_a_verdict;
use crate::metric::{Measured, Metric};
use crate::target::Target;

/// The most subjects of one experiment.
pub const SUBJECTS_MAX: usize = 32;

/// The smallest difference that interests where nothing else is said: 2 %.
pub const SMALLEST_EFFECT: f64 = 0.02;

/// A whole experiment as a value: equal plans are carried out in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Of what CPU time, memory and switches are measured.
    pub measured: Measured,
    /// The servers that take part; at least one.
    pub servers: Vec<ServerSpec>,
    /// What is compared; 1 to [`SUBJECTS_MAX`]. In each case the first that takes part is the baseline, and the others
    /// are held against it.
    pub subjects: Vec<Subject>,
    /// The loads under which it is compared; at least one.
    pub cases: Vec<Case>,
    /// How often and for how long.
    pub repetitions: Repetitions,
    /// Which CPUs do what.
    pub pinning: Pinning,
    /// Start and stop the servers for each slice. Without it all stay up, idle but for one; done in any case when two
    /// use one address.
    pub restart: bool,
    /// How long a server may take until its port answers, in seconds; above 0, at most 3600.
    pub start_timeout_s: f64,
    /// How much longer than its slice a load may take, in seconds; above 0, at most 3600. `None`: [`LOAD_TIMEOUT_S`] for a
    /// load that is told how long to run, and [`UNTIMED_LOAD_TIMEOUT_S`] for one that is not.
    #[serde(default)]
    pub load_timeout_s: Option<f64>,
    /// The smallest difference that interests, as a fraction: 0.05 is 5 %; 0 to 10.
    pub smallest_effect: f64,
    /// Seed of the order of the blocks and of the bootstrap.
    pub seed: u64,
    /// How CPU time is counted.
    pub accounting: CpuAccountingChoice,
    /// The folder that `{site}` means for the servers; without it a sample site is made for the experiment.
    #[serde(default)]
    pub site: Option<PathBuf>,
    /// Whether slices are observed after the blocks, for the parts of responses.
    #[serde(default)]
    pub parts: PartsChoice,
}

/// Whether slices are observed after the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartsChoice {
    /// Up to three of each subject and case, where that is permitted and takes little beside the blocks.
    #[default]
    Auto,
    /// None.
    Never,
    /// So many of each subject and case; 1 to 100.
    Slices(u32),
}

/// One of those that are compared: a server under a load, with what runs beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// For reports; no two are equal.
    pub name: String,
    /// The index of its server; several subjects may share one.
    pub server: usize,
    /// The load; `{url}`, `{seconds}` and `{connections}` are filled in.
    pub load: CommandLine,
    /// Runs beside the server during the subject's slices only, such as an observer, and is not counted; `{pid}` (the
    /// server's), `{url}`, `{port}`, `{own}` (the server's folder) and `{site}` are filled in.
    pub beside: Option<CommandLine>,
}

/// A server under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// For messages, such as `server A`.
    pub name: String,
    /// Started once, or for each slice. Must stay in the foreground.
    pub command: CommandLine,
    /// Run to stop it; without it the server gets SIGTERM. What remains after 5 s is killed.
    #[serde(default)]
    pub stop: Option<CommandLine>,
    /// What tells that it can be loaded.
    #[serde(default)]
    pub ready: Readiness,
    /// Variables set for it beside our own environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The folder that it is started in; without it ours.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// Its CPUs, where they differ from the plan's.
    #[serde(default)]
    pub cpus: Option<CpuSet>,
    /// Files, by their names, that are written into a temporary folder before each start. `{own}` in them, in the
    /// commands and in the environment means that folder, and `{site}` the plan's. In the files `{tls_certificate}` and
    /// `{tls_key}` are a certificate for 127.0.0.1 that is made for the experiment, and its key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// What must be installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Need>,
}

/// A file that must be there, and the package that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The file.
    pub file: PathBuf,
    /// Debian's package.
    pub package: String,
}

/// What tells that a server can be loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    /// Its port takes connections.
    #[default]
    Port,
    /// A command ends with status 0; tried again until it does.
    Command(CommandLine),
}

/// A load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// For reports; no two are equal.
    pub name: String,
    /// Where each subject is reached, in their order; `None` for one that takes no part.
    pub targets: Vec<Option<Target>>,
    /// Connections held open; 1 to 100,000.
    pub connections: u32,
    /// Further words of the load commands, appended.
    #[serde(default)]
    pub options: Vec<String>,
}

/// How often and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repetitions {
    /// Blocks of each case, at most; 1 to 10,000. In a block every subject of the case is measured once.
    pub blocks: usize,
    /// Blocks in which the baseline is measured twice, for the noise floor; 0 to `blocks`.
    pub aa_blocks: usize,
    /// Length of a slice, in seconds; 0.05 to 3600.
    pub block_s: f64,
    /// Length of the load before each slice that is not counted, in seconds; 0 to 3600.
    pub warm_up_s: f64,
    /// A case is done before its last block once the intervals of its ratios reach no further than this fraction to
    /// either side (0.01 is 1 %); above 0. `None`: all blocks are measured.
    #[serde(default)]
    pub until: Option<f64>,
    /// How often every server is started, spread evenly over the blocks: what differs between two starts of one program
    /// (where its memory lies, how much of it is touched) would otherwise pass for a difference between two programs.
    /// 1 to `blocks`; without it as often as a verdict on memory needs, if there are blocks enough. Where servers are
    /// started for each slice it says nothing.
    #[serde(default)]
    pub starts: Option<usize>,
    /// The whole experiment ends with the block during which this many seconds are over; above 0. `None`: no limit.
    #[serde(default)]
    pub budget_s: Option<f64>,
}

impl Repetitions {
    /// Blocks of each case where none are asked for.
    pub const BLOCKS: usize = 100;
    /// Length of a slice where none is asked for, in seconds. Many short slices tell more than few long ones: what two
    /// slices have in common is the less, the further they lie apart.
    pub const SLICE_S: f64 = 0.3;
    /// Length of the load before a slice where none is asked for, in seconds.
    pub const WARM_UP_S: f64 = 0.1;
    /// Both of these where load generators are compared: most of them know whole seconds only.
    pub const OF_GENERATORS_S: f64 = 1.0;

    /// What people ask for, and the rest as it is where nothing is said. With a budget of time and no number of blocks
    /// there are as many as fit into it, for `slices` slices (of all cases) beside the baseline's second ones.
    #[must_use]
    pub fn asked(asked: &Asked, measured: Measured, slices: usize, cases: usize) -> Self {
        let (slice_s, before_s) = match measured {
            Measured::Server => (Self::SLICE_S, Self::WARM_UP_S),
            Measured::Generator => (Self::OF_GENERATORS_S, Self::OF_GENERATORS_S),
        };
        let block_s = asked.block_s.unwrap_or(slice_s);
        let warm_up_s = asked.warm_up_s.unwrap_or(before_s);
        let fitting = asked.budget_s.map(|budget_s| {
            let round_s = (slices + cases) as f64 * (block_s + warm_up_s + SETTLE_S);
            ((budget_s / round_s.max(1e-3)) as usize).clamp(1, BLOCKS_MAX)
        });
        let blocks = asked.blocks.or(fitting).unwrap_or(Self::BLOCKS);
        Self {
            blocks,
            aa_blocks: asked.aa_blocks.unwrap_or(blocks),
            block_s,
            warm_up_s,
            until: asked.until,
            budget_s: asked.budget_s,
            starts: asked.starts,
        }
    }
}

/// What people say of repetitions; `None` where they do not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// As [`Repetitions::blocks`].
    pub blocks: Option<usize>,
    /// As [`Repetitions::aa_blocks`].
    pub aa_blocks: Option<usize>,
    /// As [`Repetitions::block_s`].
    pub block_s: Option<f64>,
    /// As [`Repetitions::warm_up_s`].
    pub warm_up_s: Option<f64>,
    /// As [`Repetitions::until`].
    pub until: Option<f64>,
    /// As [`Repetitions::budget_s`].
    pub budget_s: Option<f64>,
    /// As [`Repetitions::starts`].
    pub starts: Option<usize>,
}

/// How much longer than its slice a load may take where nothing is said, in seconds.
pub const LOAD_TIMEOUT_S: f64 = 30.0;

/// The same of a load that is not told how long to run, such as `ab -n 10000`, in seconds.
pub const UNTIMED_LOAD_TIMEOUT_S: f64 = 600.0;

/// What a slice takes beside its load and the warm-up, at least: reading the clocks, and letting things settle.
const SETTLE_S: f64 = 0.03;
/// The most blocks of a case.
const BLOCKS_MAX: usize = 10_000;

/// Which CPUs do what; `None` leaves it to the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pinning {
    /// The servers' CPUs.
    pub server: Option<CpuSet>,
    /// The load's CPUs.
    pub load: Option<CpuSet>,
    /// The CPUs of what runs beside.
    pub beside: Option<CpuSet>,
}

/// How CPU time is to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuAccountingChoice {
    /// By control groups where they can be made, else by process trees.
    #[default]
    Best,
    /// By process trees, even where control groups could be made.
    ProcessTree,
}

impl ServerSpec {
    /// A server that is ready when its port answers, in our folder and environment.
    #[must_use]
    pub fn new(name: &str, command: CommandLine) -> Self {
        Self {
            name: name.to_owned(),
            command,
            stop: None,
            ready: Readiness::Port,
            environment: BTreeMap::new(),
            folder: None,
            cpus: None,
            files: BTreeMap::new(),
            needs: Vec::new(),
        }
    }
}

impl Case {
    /// The subjects that take part, in their order; the first is the baseline.
    pub fn subjects(&self) -> impl Iterator<Item = usize> {
        self.targets.iter().enumerate().filter(|(_, target)| target.is_some()).map(|(index, _)| index)
    }

    /// The one that the others are held against; 0 where there is none.
    #[must_use]
    pub fn baseline(&self) -> usize {
        self.subjects().next().unwrap_or(0)
    }
}

impl Plan {
    /// Checks every range that the fields state.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn check(&self) -> Result<(), PlanError> {
        let within = |name: &'static str, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) { Ok(()) } else { Err(PlanError::Range { name, value, low, high }) }
        };
        if self.cases.is_empty() {
            return Err(PlanError::NoCases);
        }
        let repetitions = &self.repetitions;
        within("subjects", self.subjects.len() as f64, 1.0, SUBJECTS_MAX as f64)?;
        within("blocks", repetitions.blocks as f64, 1.0, BLOCKS_MAX as f64)?;
        within("A/A blocks", repetitions.aa_blocks as f64, 0.0, repetitions.blocks as f64)?;
        within("starts of each server", repetitions.starts.unwrap_or(1) as f64, 1.0, repetitions.blocks as f64)?;
        within("block seconds", repetitions.block_s, 0.05, 3600.0)?;
        within("warm-up seconds", repetitions.warm_up_s, 0.0, 3600.0)?;
        within("width of the interval", repetitions.until.unwrap_or(1.0), 1e-6, 10.0)?;
        within("budget in seconds", repetitions.budget_s.unwrap_or(1.0), 1e-3, 1e9)?;
        within("start timeout seconds", self.start_timeout_s, 0.001, 3600.0)?;
        within("load timeout seconds", self.load_timeout_s.unwrap_or(LOAD_TIMEOUT_S), 0.001, 3600.0)?;
        if let PartsChoice::Slices(slices) = self.parts {
            within("observed slices", f64::from(slices), 1.0, 100.0)?;
        }
        within("smallest effect", self.smallest_effect, 0.0, 10.0)?;
        for server in &self.servers {
            if let Some(file) = server.files.keys().find(|file| !is_inside(file)) {
                return Err(PlanError::Outside { server: server.name.clone(), file: file.clone() });
            }
        }
        for (index, subject) in self.subjects.iter().enumerate() {
            if self.subjects[..index].iter().any(|other| other.name == subject.name) {
                return Err(PlanError::Twice { what: "subjects", name: subject.name.clone() });
            }
            if subject.server >= self.servers.len() {
                return Err(PlanError::NoServer { subject: subject.name.clone() });
            }
        }
        for (index, case) in self.cases.iter().enumerate() {
            if self.cases[..index].iter().any(|other| other.name == case.name) {
                return Err(PlanError::Twice { what: "cases", name: case.name.clone() });
            }
            if case.targets.len() != self.subjects.len() || case.subjects().next().is_none() {
                return Err(PlanError::NoSubjects { case: case.name.clone() });
            }
            within("connections", f64::from(case.connections), 1.0, 100_000.0)?;
        }
        Ok(())
    }

    /// How many judgements it asks for, if everything is measured: subjects beside the baseline, of every case, by metric.
    #[must_use]
    pub fn comparisons(&self) -> usize {
        let pairs: usize = self.cases.iter().map(|case| case.subjects().count().saturating_sub(1)).sum();
        pairs * Metric::concerning(self.measured).len()
    }

    /// How often every server is started, where that is not done for each slice.
    pub(crate) fn starts(&self) -> usize {
        let Repetitions { blocks, starts, .. } = self.repetitions;
        // Two more than a verdict on memory needs, for starts that are as it happens alike.
        let needed = match self.measured {
            Measured::Server => blocks_for_a_verdict(self.comparisons()) + 2,
            Measured::Generator => 1,
        };
        starts.unwrap_or_else(|| needed.min(blocks / 2)).max(1)
    }

    /// Every command that will be run, each with its name in messages, and each once.
    pub(crate) fn commands(&self) -> Vec<(String, &CommandLine)> {
        let mut commands: Vec<(String, &CommandLine)> =
            self.servers.iter().map(|server| (server.name.clone(), &server.command)).collect();
        for server in &self.servers {
            commands.extend(server.stop.as_ref().map(|stop| (format!("what stops {}", server.name), stop)));
            if let Readiness::Command(command) = &server.ready {
                commands.push((format!("what asks whether {} is ready", server.name), command));
            }
        }
        for subject in &self.subjects {
            let name = match self.measured {
                Measured::Generator => format!("load generator {}", subject.name),
                Measured::Server => format!("the load of {}", subject.name),
            };
            if self.measured == Measured::Generator || !commands.iter().any(|(_, other)| **other == subject.load) {
                commands.push((name, &subject.load));
            }
        }
        let beside = |subject: &'_ Subject| format!("the command beside {}", subject.name);
        commands.extend(self.subjects.iter().filter_map(|subject| Some((beside(subject), subject.beside.as_ref()?))));
        commands
    }

    /// A subject's name, for reports.
    #[must_use]
    pub fn subject_name(&self, subject: usize) -> String {
        self.subjects.get(subject).map_or_else(|| format!("subject {subject}"), |found| found.name.clone())
    }

    /// Where a server runs.
    pub(crate) fn cpus_of<'a>(&'a self, server: &'a ServerSpec) -> Option<&'a CpuSet> {
        server.cpus.as_ref().or(self.pinning.server.as_ref())
    }

    /// Where a server is first reached, of all cases and subjects.
    pub(crate) fn target_of_server(&self, server: usize) -> Option<&Target> {
        let targets = self.cases.iter().flat_map(|case| case.targets.iter().enumerate());
        targets.filter(|(subject, _)| self.subjects[*subject].server == server).find_map(|(_, target)| target.as_ref())
    }

    /// Whether servers are started for each slice: when asked for, or when two share an address. Asks the resolver.
    pub(crate) fn restarts(&self) -> bool {
        let reached: Vec<(usize, &Target)> = self
            .cases
            .iter()
            .flat_map(|case| case.targets.iter().enumerate())
            .filter_map(|(subject, target)| Some((self.subjects[subject].server, target.as_ref()?)))
            .collect();
        let shared =
            |one: &(usize, &Target), other: &(usize, &Target)| one.0 != other.0 && one.1.shares_address_with(other.1);
        self.restart
            || reached
                .iter()
                .enumerate()
                .any(|(index, one)| reached[index + 1..].iter().any(|other| shared(one, other)))
    }
}

/// Whether a name is that of a file within a folder.
fn is_inside(name: &str) -> bool {
    !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}
