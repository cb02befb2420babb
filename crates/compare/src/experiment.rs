//! Carrying out a plan.
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::error::ExperimentError;
use crate::interrupt::Interrupt;
use crate::observed::Observed;
use crate::observing::{self, Observer};
use crate::outcome::{Block, BlockSlice, Ending, Outcome, Slice};
use crate::plan::{Measured, Plan};
use crate::program;
use crate::schedule::{PlannedBlock, Role, Schedule};
use crate::server::Server;
use crate::slice;
use crate::verdict;

/// What is handed every complete block.
type Keep<'a> = &'a mut dyn FnMut(&Block) -> std::io::Result<()>;

/// A plan that can be carried out once.
pub struct Experiment<'a> {
    plan: Plan,
    interrupt: Interrupt,
    done: Vec<Block>,
    keep: Option<Keep<'a>>,
    observer: Option<Observer>,
    unobserved: Option<String>,
}

/// How far an experiment is; told before each slice and at the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Slices measured.
    pub slices_done: usize,
    /// Slices planned, those of cases that ended early left out.
    pub slices_total: usize,
    /// The case and the role that come now; `None` at the end.
    pub now: Option<(usize, Role)>,
    /// About how long the slices left will take, in seconds, without starting and stopping; no longer than the budget.
    pub left_s: f64,
}

impl<'a> Experiment<'a> {
    /// Prepares to carry out `plan` until it is done or `interrupt` says otherwise.
    #[must_use]
    pub fn new(plan: Plan, interrupt: Interrupt) -> Self {
        Self { plan, interrupt, done: Vec::new(), keep: None, observer: None, unobserved: None }
    }

    /// Goes on after these blocks of the same plan, which are not measured again.
    #[must_use]
    pub fn after(mut self, blocks: Vec<Block>) -> Self {
        self.done = blocks;
        self
    }

    /// Hands every complete block over at once, so that none is lost whatever comes.
    #[must_use]
    pub fn keeping(mut self, keep: &'a mut dyn FnMut(&Block) -> std::io::Result<()>) -> Self {
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
    /// second one at once. So does a server or a load that fails once a block is complete: the outcome says why.
    ///
    /// # Errors
    /// [`ExperimentError`]: the plan is wrong, a server or a load is at fault, the system refuses,
    /// or it was interrupted before a block was complete.
    pub fn run(self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, ExperimentError> {
        let Self { plan, interrupt, done, keep, observer, mut unobserved } = self;
        plan.check()?;
        program::look_for_all(&plan)?;
        let bench = Bench::set_up(&plan, interrupt)?;
        let restarted = plan.restarts();
        let mut under_way = UnderWay { servers: Vec::new(), restarted, plan: &plan, bench: &bench, blocks: done };
        let began = Instant::now();
        let ending = match under_way.carry_out(progress, keep) {
            Ok(ending) => ending,
            Err(error) if under_way.blocks.is_empty() => return Err(error),
            Err(ExperimentError::Interrupted) => Ending::Interrupted,
            Err(error) => Ending::Failed(error.to_string()),
        };
        let mut observed = Vec::new();
        if let (Some(observer), Ending::Done | Ending::Budget) = (observer, &ending) {
            let blocks_s = began.elapsed().as_secs_f64();
            unobserved = under_way.observe(&observer, blocks_s, &mut observed).err();
        }
        under_way.servers.drain(..).flatten().for_each(|server| server.stop(&bench));
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
}

impl UnderWay<'_> {
    fn carry_out(
        &mut self,
        progress: &mut dyn FnMut(Progress),
        mut keep: Option<Keep<'_>>,
    ) -> Result<Ending, ExperimentError> {
        let (plan, bench) = (self.plan, self.bench);
        self.servers = plan.servers.iter().map(|_| None).collect();
        if !self.restarted {
            for index in 0..plan.servers.len() {
                self.servers[index] = Some(Server::start(plan, index, bench)?);
            }
        }
        if plan.measured == Measured::Generator && plan.repetitions.warm_up_s > 0.0 {
            // The commands are started afresh for each slice; what can be warm is the server.
            for subject in plan.cases[0].subjects() {
                slice::warm_up(plan, 0, subject, bench)?;
            }
        }
        let began = Instant::now();
        let budget = plan.repetitions.budget_s.map(Duration::from_secs_f64);
        let mut schedule = Schedule::new(plan);
        let mut known =
            self.blocks.iter().map(|block| block.case).fold(vec![0_usize; plan.cases.len()], |mut all, case| {
                if let Some(count) = all.get_mut(case) {
                    *count += 1;
                }
                all
            });
        let mut open = vec![true; plan.cases.len()];
        let mut slices_done = 0;
        loop {
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
            let mut in_round: usize = round.iter().map(|block| block.order.len()).sum();
            for planned in round {
                let mut slices = Vec::with_capacity(planned.order.len());
                for role in planned.order.iter().copied() {
                    if bench.interrupt.is_requested() {
                        // A part of a block cannot be paired.
                        return Ok(Ending::Interrupted);
                    }
                    let left = in_round + schedule.slices_left(|case| open[case]);
                    let budget_left = budget.map(|budget| budget.saturating_sub(began.elapsed()).as_secs_f64());
                    let left_s = (left as f64 * slice_s(plan)).min(budget_left.unwrap_or(f64::INFINITY));
                    let now = Some((planned.case, role));
                    progress(Progress { slices_done, slices_total: slices_done + left, now, left_s });
                    slices.push(BlockSlice { role, slice: self.slice(planned.case, role)? });
                    slices_done += 1;
                    in_round -= 1;
                }
                let block = Block { case: planned.case, slices };
                let kept = keep.as_mut().map_or(Ok(()), |keep| keep(&block));
                // What the disk has no room for is in the report all the same.
                self.blocks.push(block);
                kept.map_err(|source| ExperimentError::System { what: "keeping a block", source })?;
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
        progress(Progress { slices_done, slices_total: slices_done, now: None, left_s: 0.0 });
        Ok(Ending::Done)
    }

    /// Observes slices of every subject and case in turn, until there are as many as are wanted; else says why not.
    fn observe(&mut self, observer: &Observer, blocks_s: f64, observed: &mut Vec<Observed>) -> Result<(), String> {
        let rounds = observing::rounds(self.plan, blocks_s)?;
        let plan = self.plan;
        for _ in 0..rounds {
            for (case, planned) in plan.cases.iter().enumerate() {
                for subject in planned.subjects() {
                    if self.bench.interrupt.is_requested() {
                        return Err("it was interrupted".to_owned());
                    }
                    let number = observed.len();
                    let found = self.on_server(subject, |server, bench| {
                        Ok(observing::observe((plan, case, subject), server, bench, (observer, number)))
                    });
                    observed.push(found.map_err(|error| error.to_string())??);
                }
            }
        }
        Ok(())
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
        let done = work(server, self.bench)?;
        if let Some(server) = started {
            server.stop(self.bench);
        }
        Ok(done)
    }
}

/// About how long a slice takes, in seconds.
fn slice_s(plan: &Plan) -> f64 {
    let warm_up_s = if plan.measured == Measured::Server { plan.repetitions.warm_up_s } else { 0.0 };
    plan.repetitions.block_s + warm_up_s
}
