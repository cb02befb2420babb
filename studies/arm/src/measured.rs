//! What was measured of CPU time and pages: the results of the plans.

use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use weir_compare::{Block, Plan, Results, Resumed, Role, Slice};
use weir_measure::comparison::{Bootstrap, Estimate, PairedRatios};

/// An experiment: its plan, and its blocks so far.
#[derive(Debug)]
pub(crate) struct Experiment {
    plan: Plan,
    blocks: Vec<Block>,
}

/// The experiments; `None` = it was not begun.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// CPU time of Apache for a page, and pages a second.
    pub(crate) pages: Option<Experiment>,
    /// CPU time of the agent for a page.
    pub(crate) agent: Option<Experiment>,
    /// CPU time of Apache for a small file.
    pub(crate) files: Option<Experiment>,
    /// What it costs one Apache to have its transactions switched on: a small file, a page, a page with PHP's calls.
    pub(crate) switched: Switched,
}

/// One Apache, switched on and off in turn.
#[derive(Debug, Default)]
pub(crate) struct Switched {
    /// A small file, with mod_arm.
    pub(crate) file: Option<SwitchCost>,
    /// A page, with mod_arm.
    pub(crate) page: Option<SwitchCost>,
    /// A page that calls PHP's functions, without mod_arm.
    pub(crate) phparm: Option<SwitchCost>,
}

/// What `arm-cost` tells.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct SwitchCost {
    /// Pairs of slices.
    pub(crate) pairs: usize,
    /// CPU time for a request while it was off, nanoseconds.
    pub(crate) off_ns: f64,
    /// On against off, within pairs: the median.
    ratio: f64,
    /// The lower end of its 95 % interval.
    low: f64,
    /// The upper end.
    high: f64,
}

impl SwitchCost {
    /// On against off: the median and its interval.
    pub(crate) fn ratio(&self) -> (f64, f64, f64) {
        (self.ratio, self.low, self.high)
    }

    /// How much more CPU time a request takes, microseconds: the median and its interval.
    pub(crate) fn more_us(&self) -> (f64, f64, f64) {
        let more = |ratio: f64| (ratio - 1.0) * self.off_ns / 1e3;
        (more(self.ratio), more(self.low), more(self.high))
    }
}

/// What is told of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// CPU time of what is measured for each request, nanoseconds.
    Cpu,
    /// Requests answered each second.
    Rate,
    /// The part of a CPU that it took.
    Share,
}

impl Measured {
    /// Reads what is in the folder.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let of = |name: &str| -> anyhow::Result<Option<Experiment>> {
            let own = folder.join(name);
            if !own.join("plan.json").exists() {
                return Ok(None);
            }
            let Resumed { plan, blocks, .. } = Results::resume(&own)?;
            Ok(Some(Experiment { plan, blocks }))
        };
        let switched = |name: &str| -> anyhow::Result<Option<SwitchCost>> {
            let file = folder.join("switched").join(format!("{name}.json"));
            if !file.exists() {
                return Ok(None);
            }
            let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            serde_json::from_str(&text).map(Some).with_context(|| format!("reading {}", file.display()))
        };
        let switched = Switched { file: switched("file")?, page: switched("page")?, phparm: switched("phparm")? };
        Ok(Self { pages: of("pages")?, agent: of("agent")?, files: of("files")?, switched })
    }

    /// Each of them that was begun, with its name.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &Experiment)> {
        let all = [("pages", &self.pages), ("agent", &self.agent), ("files", &self.files)];
        all.into_iter().filter_map(|(name, experiment)| Some((name, experiment.as_ref()?)))
    }
}

impl Quantity {
    fn of(self, slice: &Slice) -> f64 {
        match self {
            Self::Cpu => slice.cpu_ns_per_request,
            Self::Rate => slice.rate_per_s,
            Self::Share => slice.server_cpu_ns as f64 / (slice.wall_s * 1e9),
        }
    }
}

impl Experiment {
    /// The median over the blocks, with its interval.
    pub(crate) fn value(&self, subject: &str, quantity: Quantity) -> Option<Estimate> {
        let role = self.role(subject)?;
        let values: Vec<f64> =
            self.blocks.iter().filter_map(|block| block.of(role)).map(|slice| quantity.of(slice)).collect();
        self.bootstrap().median_ratio(&values).ok()
    }

    /// How many times as much a subject has as the first one, block by block.
    pub(crate) fn ratio(&self, subject: &str, quantity: Quantity) -> Option<Estimate> {
        self.ratio_of(self.role(subject)?, quantity)
    }

    /// The first subject against itself: what no difference looks like.
    pub(crate) fn noise(&self, quantity: Quantity) -> Option<Estimate> {
        self.ratio_of(Role::Again, quantity)
    }

    /// How many blocks there are, and the seconds of a slice.
    pub(crate) fn size(&self) -> (usize, f64) {
        (self.blocks.len(), self.plan.repetitions.block_s)
    }

    /// Requests that failed or had an error status, and all.
    pub(crate) fn errors(&self) -> (u64, u64) {
        let slices = self.blocks.iter().flat_map(|block| &block.slices);
        slices.fold((0, 0), |(errors, all), slice| (errors + slice.slice.errors, all + slice.slice.requests))
    }

    /// The part of the CPUs that others took: the median over the slices.
    pub(crate) fn foreign(&self) -> Option<f64> {
        let slices = self.blocks.iter().flat_map(|block| &block.slices);
        let shares: Vec<f64> = slices.filter_map(|slice| slice.slice.foreign_cpu_share).collect();
        weir_measure::comparison::median(&shares)
    }

    fn role(&self, subject: &str) -> Option<Role> {
        self.plan.subjects.iter().position(|found| found.name == subject).map(Role::Subject)
    }

    fn ratio_of(&self, over: Role, quantity: Quantity) -> Option<Estimate> {
        let mut ratios = PairedRatios::default();
        for block in &self.blocks {
            let under = Role::Subject(self.plan.cases[block.case].baseline());
            if let Some((under, over)) = block.of(under).zip(block.of(over)) {
                // What has no ratio is not counted: the estimate says how many blocks it rests on.
                let _no_ratio = ratios.push(quantity.of(under), quantity.of(over));
            }
        }
        ratios.snapshot(&self.bootstrap()).ok()
    }

    fn bootstrap(&self) -> Bootstrap {
        Bootstrap::with_seed(self.plan.seed)
    }
}
