//! Carrying out a plan.
use crate::bench::Bench;
use crate::error::ExperimentError;
use crate::interrupt::Interrupt;
use crate::outcome::{Block, Outcome, Slice};
use crate::plan::{Measured, Plan};
use crate::program;
use crate::schedule::{BlockKind, PlannedBlock, Side, schedule};
use crate::server::Server;
use crate::slice;

/// A plan that can be carried out once.
#[derive(Debug)]
pub struct Experiment {
    plan: Plan,
    interrupt: Interrupt,
}

/// How far an experiment is; told before each slice and at the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Slices measured.
    pub slices_done: usize,
    /// Slices planned.
    pub slices_total: usize,
    /// The block that comes now; `None` at the end.
    pub block: Option<PlannedBlock>,
    /// About how long the slices left will take, in seconds, without starting and stopping.
    pub left_s: f64,
}

impl Experiment {
    /// Prepares to carry out `plan` until it is done or `interrupt` says otherwise.
    #[must_use]
    pub fn new(plan: Plan, interrupt: Interrupt) -> Self {
        Self { plan, interrupt }
    }

    /// Carries it out. Blocks; the servers and loads are children of the calling thread and are
    /// ended in every case: on return, on panic, and when the process is killed.
    ///
    /// An interrupt ends it after the current slice, with the complete blocks as the outcome; a
    /// second one at once.
    ///
    /// # Errors
    /// [`ExperimentError`]: the plan is wrong, a server or a load is at fault, the system refuses,
    /// or it was interrupted before a block was complete.
    pub fn run(self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, ExperimentError> {
        let Self { plan, interrupt } = self;
        plan.check()?;
        program::look_for_all(&plan)?;
        let bench = Bench::set_up(&plan, interrupt)?;
        let restarted = plan.restarts();
        let mut servers: Vec<Option<Server>> = plan.servers().iter().map(|_| None).collect();
        if !restarted {
            for (index, server) in servers.iter_mut().enumerate() {
                *server = Some(Server::start(&plan, index, &bench)?);
            }
        }
        if plan.measured() == Measured::Generator && plan.repetitions.warm_up_s > 0.0 {
            // The commands are started afresh for each slice; what can be warm is the server.
            for side in [Side::A, Side::B] {
                slice::warm_up(&plan, &plan.cases[0], side, &bench)?;
            }
        }

        let repetitions = plan.repetitions;
        let order = schedule(plan.cases.len(), repetitions.blocks, repetitions.aa_blocks, plan.seed);
        let slices_total = order.len() * 2;
        let mut slices_done = 0;
        let mut tell = |slices_done: usize, block| {
            let left_s = (slices_total - slices_done) as f64 * slice_s(&plan);
            progress(Progress { slices_done, slices_total, block, left_s });
        };
        let mut blocks = Vec::with_capacity(order.len());
        'experiment: for planned in order {
            let mut slices: [Option<Slice>; 2] = [None, None];
            for role in [planned.first, planned.first.other()] {
                if bench.interrupt.is_requested() {
                    // Half a block cannot be paired.
                    break 'experiment;
                }
                tell(slices_done, Some(planned));
                slices[role as usize] = Some(run_slice(&plan, planned, role, &mut servers, restarted, &bench)?);
                slices_done += 1;
            }
            if let [Some(a), Some(b)] = slices {
                blocks.push(Block { case: planned.case, kind: planned.kind, first: planned.first, a, b });
            }
        }
        tell(slices_done, None);
        for server in servers.into_iter().flatten() {
            server.stop(&bench);
        }
        if blocks.is_empty() {
            return Err(ExperimentError::Interrupted);
        }
        let interrupted = slices_done < slices_total;
        Ok(Outcome { accounting: bench.accounting(), restarted, interrupted, blocks, plan })
    }
}

/// About how long a slice takes, in seconds.
fn slice_s(plan: &Plan) -> f64 {
    let warm_up_s = if plan.measured() == Measured::Server { plan.repetitions.warm_up_s } else { 0.0 };
    plan.repetitions.block_s + warm_up_s
}

/// One slice of a block, on a server that is up or is started for it.
fn run_slice(
    plan: &Plan,
    planned: PlannedBlock,
    role: Side,
    servers: &mut [Option<Server>],
    restarted: bool,
    bench: &Bench,
) -> Result<Slice, ExperimentError> {
    let side = match planned.kind {
        BlockKind::Ab => role,
        BlockKind::Aa => Side::A,
    };
    let case = &plan.cases[planned.case];
    let index = plan.server_of(side);
    let mut started = None;
    let server = match &mut servers[index] {
        Some(server) => server,
        None => started.insert(Server::start(plan, index, bench)?),
    };
    let slice = slice::measure(plan, case, side, server, bench)?;
    if let (true, Some(server)) = (restarted, started) {
        server.stop(bench);
    }
    Ok(slice)
}
