//! Carrying out a plan.
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::error::{ExperimentError, ObserveError};
use crate::interrupt::Interrupt;
use crate::measured_slice::Slice;
use crate::metric::Measured;
use crate::observed::Observed;
use crate::observing::{self, Observer};
use crate::outcome::{Block, BlockSlice, Ending, FailedSlice, Outcome};
use crate::plan::Plan;
use crate::program;
use crate::schedule::{PlannedBlock, Role, Schedule};
use crate::server::Server;
use crate::slice;
use crate::verdict;

/// How often a block is begun at most.
const ATTEMPTS: usize = 3;
/// Blocks may be begun again as often as one of so many is planned: what fails more often should not be measured around.
const FAILURES_EACH: usize = 10;
/// But at least so often in the whole experiment.
const FAILURES_LEAST: usize = 3;

/// What is complete, and can be kept.
#[derive(Debug, Clone, Copy)]
pub enum Complete<'a> {
    /// A block.
    Block(&'a Block),
    /// A slice that was observed after the blocks.
    Observed(&'a Observed),
}

/// What is handed all that is complete.
type Keep<'a> = &'a mut dyn FnMut(Complete<'_>) -> std::io::Result<()>;

/// A plan that can be carried out once.
pub struct Experiment<'a> {
    plan: Plan,
    interrupt: Interrupt,
    done: Vec<Block>,
    observed: Vec<Observed>,
    keep: Option<Keep<'a>>,
    observer: Option<Observer>,
    unobserved: Option<String>,
}

/// How far an experiment is; told before each slice and at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Slices measured.
    pub slices_done: usize,
    /// Slices planned, those of cases that ended early left out.
    pub slices_total: usize,
    /// The case and the role that come now; `None` at the end.
    pub now: Option<(usize, Role)>,
    /// About how long the slices left will take, in seconds, without starting and stopping; no longer than the budget.
    pub left_s: f64,
    /// What has just failed, if the block that begins now is one that is measured again.
    pub failed: Option<FailedSlice>,
}

impl<'a> Experiment<'a> {
    /// Prepares to carry out `plan` until it is done or `interrupt` says otherwise.
    #[must_use]
    pub fn new(plan: Plan, interrupt: Interrupt) -> Self {
        let (done, observed) = (Vec::new(), Vec::new());
        Self { plan, interrupt, done, observed, keep: None, observer: None, unobserved: None }
    }

    /// Goes on after these blocks and observed slices of the same plan, which are not measured again.
    #[must_use]
    pub fn after(mut self, blocks: Vec<Block>, observed: Vec<Observed>) -> Self {
        (self.done, self.observed) = (blocks, observed);
        self
    }

    /// Hands over each result as soon as it is complete, so that no later failure loses it.
    #[must_use]
    pub fn keeping(mut self, keep: &'a mut dyn FnMut(Complete<'_>) -> std::io::Result<()>) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Observes slices after the blocks, as the plan says; without it none is.
    #[must_use]
    pub fn observing(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Says why no slice is observed.
    #[must_use]
    pub fn unobserved(mut self, why: String) -> Self {
        self.unobserved = Some(why);
        self
    }

    /// Carries it out. Blocks; the servers and loads are children of the calling thread and are
    /// ended in every case: on return, on panic, and when the process is killed.
    ///
    /// An interrupt ends it after the current slice, with the complete blocks as the outcome; a
    /// second one at once. A slice that fails is told, its servers are started anew, and its block is measured again, a few
    /// times; what fails more often ends the experiment, and the outcome says why. So does at once what has never worked:
    /// a failure before the first complete block of a case.
    ///
    /// # Errors
    /// [`ExperimentError`]: the plan is wrong, a server or a load is at fault, the system refuses,
    /// or it was interrupted before a block was complete.
    pub fn run(self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, ExperimentError> {
        let Self { plan, interrupt, done, mut observed, mut keep, observer, mut unobserved } = self;
        plan.check()?;
        program::look_for_all(&plan)?;
        let bench = Bench::set_up(&plan, interrupt)?;
        let restarted = plan.restarts();
        let mut under_way = UnderWay {
            servers: plan.servers.iter().map(|_| None).collect(),
            restarted,
            plan: &plan,
            bench: &bench,
            life: done.iter().map(|block| block.life + 1).max().unwrap_or(0),
            failures: done.iter().map(|block| block.failed.len()).sum(),
            blocks: done,
        };
        let began = Instant::now();
        let ending = match under_way.carry_out(progress, &mut keep) {
            Ok(ending) => ending,
            Err(error) if under_way.blocks.is_empty() => return Err(error),
            Err(ExperimentError::Interrupted) => Ending::Interrupted,
            Err(error) => Ending::Failed(under_way.in_words(&error)),
        };
        if let (Some(observer), Ending::Done | Ending::Budget) = (observer, &ending) {
            let blocks_s = began.elapsed().as_secs_f64().max(under_way.measured_s());
            unobserved =
                under_way.observe(&observer, blocks_s, &mut observed, &mut keep).err().map(|why| why.to_string());
        }
        under_way.stop_servers();
        let blocks = under_way.blocks;
        if blocks.is_empty() {
            return Err(ExperimentError::Interrupted);
        }
        Ok(Outcome { accounting: bench.accounting(), restarted, ending, blocks, plan, observed, unobserved })
    }
}

struct UnderWay<'a> {
    plan: &'a Plan,
    bench: &'a Bench,
    restarted: bool,
    servers: Vec<Option<Server>>,
    blocks: Vec<Block>,
    /// How often all servers were started before.
    life: usize,
    /// Slices that failed.
    failures: usize,
}

impl UnderWay<'_> {
    fn carry_out(
        &mut self,
        progress: &mut dyn FnMut(Progress),
        keep: &mut Option<Keep<'_>>,
    ) -> Result<Ending, ExperimentError> {
        let plan = self.plan;
        self.start_servers()?;
        self.warm_up_servers()?;
        let began = Instant::now();
        let budget = plan.repetitions.budget_s.map(Duration::from_secs_f64);
        let mut schedule = Schedule::new(plan);
        let mut known = self.blocks_by_case();
        let mut open = vec![true; plan.cases.len()];
        let mut slices_done = 0;
        let mut begun: Option<usize> = None;
        for number in 0.. {
            let round = schedule.round();
            if round.is_empty() {
                break;
            }
            let round: Vec<PlannedBlock> = round
                .into_iter()
                .filter(|block| {
                    let is_known = known[block.case] > 0;
                    known[block.case] -= usize::from(is_known);
                    !is_known && open[block.case]
                })
                .collect();
            let due = number * plan.starts() / plan.repetitions.blocks.max(1);
            if !self.restarted && !round.is_empty() && begun.replace(due).is_some_and(|begun| begun != due) {
                // They are started before the next block.
                self.stop_servers();
                self.life += 1;
            }
            let mut in_round: usize = round.iter().map(|block| block.order.len()).sum();
            for planned in round {
                let left = in_round + schedule.slices_left(|case| open[case]);
                let mut tell = |of_block: usize, failed: Option<&FailedSlice>| {
                    let budget_left = budget.map(|budget| budget.saturating_sub(began.elapsed()).as_secs_f64());
                    let left_s = ((left - of_block) as f64 * slice_s(plan)).min(budget_left.unwrap_or(f64::INFINITY));
                    let now = planned.order.get(of_block).map(|role| (planned.case, *role));
                    let (slices_done, slices_total) = (slices_done + of_block, slices_done + left);
                    progress(Progress { slices_done, slices_total, now, left_s, failed: failed.cloned() });
                };
                let block = self.block(&planned, &mut tell)?;
                slices_done += planned.order.len();
                in_round -= planned.order.len();
                self.keep(block, keep)?;
                if budget.is_some_and(|budget| began.elapsed() >= budget) {
                    return Ok(Ending::Budget);
                }
            }
            if let Some(until) = plan.repetitions.until {
                for (case, open) in open.iter_mut().enumerate() {
                    *open = !verdict::is_precise(plan, &self.blocks, case, until);
                }
                if !open.contains(&true) {
                    break;
                }
            }
        }
        progress(Progress { slices_done, slices_total: slices_done, now: None, left_s: 0.0, failed: None });
        Ok(Ending::Done)
    }

    /// The servers of generators that are compared: the commands are started afresh for each slice, so that only the
    /// servers can be warm.
    fn warm_up_servers(&self) -> Result<(), ExperimentError> {
        let plan = self.plan;
        if plan.measured == Measured::Generator && plan.repetitions.warm_up_s > 0.0 {
            for subject in plan.cases[0].subjects() {
                slice::warm_up(plan, 0, subject, self.bench)?;
            }
        }
        Ok(())
    }

    /// How many blocks of each case are complete.
    fn blocks_by_case(&self) -> Vec<usize> {
        let mut counts = vec![0; self.plan.cases.len()];
        for block in &self.blocks {
            if let Some(count) = counts.get_mut(block.case) {
                *count += 1;
            }
        }
        counts
    }

    /// Hands over a complete block. What the disk has no room for is in the report all the same.
    fn keep(&mut self, block: Block, keep: &mut Option<Keep<'_>>) -> Result<(), ExperimentError> {
        let kept = keep.as_mut().map_or(Ok(()), |keep| keep(Complete::Block(&block)));
        self.blocks.push(block);
        kept.map_err(|source| ExperimentError::System { what: "keeping a block", source })
    }

    /// Measures a block. If a slice fails, all of it is measured again, so that its slices still follow one another.
    fn block(
        &mut self,
        planned: &PlannedBlock,
        tell: &mut dyn FnMut(usize, Option<&FailedSlice>),
    ) -> Result<Block, ExperimentError> {
        let mut failed: Vec<FailedSlice> = Vec::new();
        loop {
            let (role, error) = match self.attempt(planned, failed.last(), tell) {
                Ok(slices) => return Ok(Block { case: planned.case, life: self.life, slices, failed }),
                Err(ended) => ended,
            };
            if !self.may_repeat(planned.case, &error, failed.len() + 1) {
                return Err(error);
            }
            failed.push(FailedSlice { role, why: error.to_string() });
            self.failures += 1;
            // What has died or hangs would fail again.
            self.stop_servers();
            self.life += 1;
        }
    }

    /// The slices of a block, or whose failed and why. Before each is told how many of the block are done.
    fn attempt(
        &mut self,
        planned: &PlannedBlock,
        mut failed: Option<&FailedSlice>,
        tell: &mut dyn FnMut(usize, Option<&FailedSlice>),
    ) -> Result<Vec<BlockSlice>, (Option<Role>, ExperimentError)> {
        self.start_servers().map_err(|error| (None, error))?;
        let mut slices = Vec::with_capacity(planned.order.len());
        for role in planned.order.iter().copied() {
            if self.bench.interrupt.is_requested() {
                // A part of a block cannot be paired.
                return Err((Some(role), ExperimentError::Interrupted));
            }
            tell(slices.len(), failed.take());
            let slice = self.slice(planned.case, role).map_err(|error| (Some(role), error))?;
            slices.push(BlockSlice { role, slice });
        }
        Ok(slices)
    }

    /// Whether a block is to be measured again after so many attempts. What has never worked is not tried again: as a rule
    /// it is wrong in the plan.
    fn may_repeat(&self, case: usize, error: &ExperimentError, attempts: usize) -> bool {
        let may_pass = matches!(error, ExperimentError::Load(_) | ExperimentError::Server(_));
        let has_worked = self.blocks.iter().any(|block| block.case == case);
        let planned = self.plan.repetitions.blocks * self.plan.cases.len();
        may_pass && has_worked && attempts < ATTEMPTS && self.failures < (planned / FAILURES_EACH).max(FAILURES_LEAST)
    }

    /// What ended it, with how often something had failed before.
    fn in_words(&self, error: &ExperimentError) -> String {
        match self.failures {
            0 => error.to_string(),
            1 => format!("{error}\n(a slice had failed before, and its block was measured again)"),
            failures => format!("{error}\n({failures} slices had failed before, and their blocks were measured again)"),
        }
    }

    /// Starts every server that is not up, unless that is done for each slice.
    fn start_servers(&mut self) -> Result<(), ExperimentError> {
        for index in 0..self.plan.servers.len() {
            if !self.restarted && self.servers[index].is_none() {
                self.servers[index] = Some(Server::start(self.plan, index, self.bench)?);
            }
        }
        Ok(())
    }

    /// Observes slices of every subject and case in turn, until there are as many as are wanted; else says why not.
    fn observe(
        &mut self,
        observer: &Observer,
        blocks_s: f64,
        observed: &mut Vec<Observed>,
        keep: &mut Option<Keep<'_>>,
    ) -> Result<(), ObserveError> {
        let rounds = observing::rounds(self.plan, blocks_s)?;
        let plan = self.plan;
        for round in 1..=rounds as usize {
            for (case, planned) in plan.cases.iter().enumerate() {
                for subject in planned.subjects() {
                    let of_it = |found: &&Observed| (found.case, found.subject) == (case, subject);
                    if observed.iter().filter(of_it).count() >= round {
                        // From before an interrupt.
                        continue;
                    }
                    if self.bench.interrupt.is_requested() {
                        return Err(ObserveError::Interrupted);
                    }
                    let number = observed.len();
                    let found = self.on_server(subject, |server, bench| {
                        Ok(observing::observe((plan, case, subject), server, bench, (observer, number)))
                    });
                    let found = found??;
                    let kept = keep.as_mut().map_or(Ok(()), |keep| keep(Complete::Observed(&found)));
                    observed.push(found);
                    kept.map_err(ObserveError::Keep)?;
                }
            }
        }
        Ok(())
    }

    /// How long the loads of all blocks took, those of before an interrupt included, in seconds.
    fn measured_s(&self) -> f64 {
        let slices = self.blocks.iter().flat_map(|block| &block.slices);
        slices.map(|found| found.slice.wall_s).sum()
    }

    fn stop_servers(&mut self) {
        for server in &mut self.servers {
            if let Some(server) = server.take() {
                server.stop(self.bench);
            }
        }
    }

    /// One slice, on a server that is up or is started for it.
    fn slice(&mut self, case: usize, role: Role) -> Result<Slice, ExperimentError> {
        let subject = match role {
            Role::Subject(subject) => subject,
            Role::Again => self.plan.cases[case].baseline(),
        };
        let plan = self.plan;
        self.on_server(subject, |server, bench| slice::measure(plan, case, subject, server, bench))
    }

    /// Does something with the server of a subject, which is up or is started for it.
    fn on_server<T>(
        &mut self,
        subject: usize,
        work: impl FnOnce(&mut Server, &Bench) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let index = self.plan.subjects[subject].server;
        let mut started = None;
        let server = match &mut self.servers[index] {
            Some(server) => server,
            None => started.insert(Server::start(self.plan, index, self.bench)?),
        };
        let done = work(server, self.bench);
        if let Some(server) = started {
            server.stop(self.bench);
        }
        done
    }
}

/// About how long a slice takes, in seconds.
fn slice_s(plan: &Plan) -> f64 {
    let warm_up_s = if plan.measured == Measured::Server { plan.repetitions.warm_up_s } else { 0.0 };
    plan.repetitions.block_s + warm_up_s
}
