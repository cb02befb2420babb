//! One slice: a load on a server, with CPU times read before and after.
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::control_group::ControlGroup;
use crate::cpus::CpuSet;
use crate::error::{ExperimentError, LoadError, PlanError};
use crate::load_output::{LoadCounts, LoadOutputError, LoadTool, parse_load_output};
use crate::machine;
use crate::measured_slice::Slice;
use crate::metric::Measured;
use crate::plan::{Case, LOAD_TIMEOUT_S, Plan, Subject, UNTIMED_LOAD_TIMEOUT_S};
use crate::process::{Launch, Process};
use crate::resources::{self, MemoryWatch};
use crate::server::Server;
use crate::target::Target;

/// Before CPU times are read: what a server still does for connections just closed, and a last
/// tick that a running thread has not been charged for, belong to the slice before.
const SETTLE: Duration = Duration::from_millis(10);
/// How long a load may go on beyond its slice once the experiment is asked to stop: less than people wait before they
/// ask again, and enough for a load that is about to end.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// The exit status of `weir load` where no request succeeded: its report is whole, and what is compared.
const NOTHING_SUCCEEDED: i32 = 1;
/// The exit status of `weir load` where an objective is missed, likewise.
const OBJECTIVE_MISSED: i32 = 3;
/// What runs beside a server is told to end in this order.
const BESIDE_SIGNALS: [(libc::c_int, Duration); 2] =
    [(libc::SIGINT, Duration::from_secs(10)), (libc::SIGTERM, Duration::from_secs(3))];

/// Measures one slice of a subject on its running server.
pub(crate) fn measure(
    plan: &Plan,
    case: usize,
    subject: usize,
    server: &mut Server,
    bench: &Bench,
) -> Result<Slice, ExperimentError> {
    let load = LoadRun::new(plan, case, subject, bench)?;
    let mut beside = start_beside(&load, server)?;
    if plan.measured == Measured::Server && plan.repetitions.warm_up_s > 0.0 {
        load.warm_up(plan.repetitions.warm_up_s).map_err(|error| blamed(error, server, bench))?;
    }
    thread::sleep(SETTLE);
    let switches_before = server.switches(bench);
    let server_before = server.cpu(bench)?;
    let cpus = used_cpus(plan);
    let busy_before_ns = machine::busy_ns(&cpus);
    let watch = server.watch_memory(bench);
    let done = load.run(plan.repetitions.block_s).map_err(|error| blamed(error, server, bench))?;
    let memory = watch.and_then(MemoryWatch::finish);
    let busy_ns = machine::busy_ns(&cpus).zip(busy_before_ns).map(|(after, before)| after.saturating_sub(before));
    thread::sleep(SETTLE);
    let server_cpu = server.cpu(bench)?.since(server_before);
    let switches = resources::switches_between(&switches_before, &server.switches(bench));
    if let Some((process, command)) = &mut beside {
        end_beside(process, command, bench)?;
    }
    if done.counts.requests == 0 {
        let (command, errors, output) = (done.command, done.counts.errors, done.output);
        return Err(LoadError::NoRequests { command, errors, output }.into());
    }

    let requests = done.counts.requests;
    let wall_s = done.wall.as_secs_f64();
    let duration_s = done.counts.duration_s.unwrap_or(wall_s);
    let load_cpus = plan.pinning.load.as_ref().map_or_else(available_cpus, |cpus| cpus.numbers().len());
    let foreign_cpu_share = busy_ns.map(|busy_ns| {
        busy_ns.saturating_sub(server_cpu.ns + done.cpu_ns) as f64 / (wall_s * 1e9 * cpus.len().max(1) as f64)
    });
    let compared_cpu_ns = match plan.measured {
        Measured::Server => server_cpu.ns,
        Measured::Generator => done.cpu_ns,
    };
    Ok(Slice {
        tool: done.counts.tool,
        requests,
        errors: done.counts.errors,
        duration_s,
        wall_s,
        // What came after the tool's time is in its count, and not in its rate.
        rate_per_s: done.counts.details.rate_told_per_s.unwrap_or(requests as f64 / duration_s),
        server_cpu_ns: server_cpu.ns,
        server_system_ns: server_cpu.system_ns,
        generator_cpu_ns: done.cpu_ns,
        generator_cpu_share: done.cpu_ns as f64 / (wall_s * 1e9 * load_cpus as f64),
        foreign_cpu_share,
        cpu_ns_per_request: compared_cpu_ns as f64 / requests as f64,
        bytes: done.counts.bytes,
        latency: done.counts.latency,
        memory,
        switches: switches.map(|(all, _)| all),
        involuntary_switches: switches.map(|(_, involuntary)| involuntary),
        details: done.counts.details,
    })
}

/// Runs the load of a subject once without counting it.
pub(crate) fn warm_up(plan: &Plan, case: usize, subject: usize, bench: &Bench) -> Result<(), ExperimentError> {
    LoadRun::new(plan, case, subject, bench)?.run(plan.repetitions.warm_up_s).map(|_| ())
}

/// The CPUs of server and load together; all that there are when either may run anywhere.
fn used_cpus(plan: &Plan) -> Vec<usize> {
    let servers: Option<Vec<&CpuSet>> = plan.servers.iter().map(|server| plan.cpus_of(server)).collect();
    let (Some(servers), Some(load)) = (servers, &plan.pinning.load) else {
        return CpuSet::available().map(|cpus| cpus.numbers().to_vec()).unwrap_or_default();
    };
    let mut cpus: Vec<usize> = servers.iter().flat_map(|set| set.numbers()).chain(load.numbers()).copied().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn available_cpus() -> usize {
    CpuSet::available().map_or(1, |cpus| cpus.numbers().len())
}

/// A load of a subject, to be run.
pub(crate) struct LoadRun<'a> {
    plan: &'a Plan,
    pub(crate) case: &'a Case,
    pub(crate) subject: &'a Subject,
    pub(crate) target: &'a Target,
    bench: &'a Bench,
}

/// What a load did.
pub(crate) struct LoadDone {
    command: String,
    counts: LoadCounts,
    output: String,
    wall: Duration,
    cpu_ns: u64,
}

impl<'a> LoadRun<'a> {
    pub(crate) fn new(plan: &'a Plan, case: usize, subject: usize, bench: &'a Bench) -> Result<Self, ExperimentError> {
        let case = &plan.cases[case];
        // A schedule asks only for those that take part.
        let target = case.targets.get(subject).and_then(Option::as_ref);
        let target = target.ok_or_else(|| PlanError::NoSubjects { case: case.name.clone() })?;
        Ok(Self { plan, case, subject: &plan.subjects[subject], target, bench })
    }

    /// Runs the load command for `seconds` before a slice.
    pub(crate) fn warm_up(&self, seconds: f64) -> Result<(), ExperimentError> {
        match self.run(seconds) {
            // A load this short may end before a server that waits for its CPU has answered once, which load commands call
            // a failure; some take no part of a second. What matters shows in the slice.
            Ok(_) | Err(ExperimentError::Load(LoadError::Failed { .. } | LoadError::Output { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Runs the load command for `seconds` and reads what it did.
    pub(crate) fn run(&self, seconds: f64) -> Result<LoadDone, ExperimentError> {
        let template = &self.subject.load;
        let command = template.with(&self.case.options).filled(&[
            ("url", self.target.url().to_owned()),
            // Displayed without a point when whole: some tools take no other.
            ("seconds", seconds.to_string()),
            ("connections", self.case.connections.to_string()),
        ]);
        let patience_s = self.plan.load_timeout_s.unwrap_or(if template.mentions("seconds") {
            LOAD_TIMEOUT_S
        } else {
            UNTIMED_LOAD_TIMEOUT_S
        });
        let slice = Duration::from_secs_f64(seconds);
        let limit = slice + Duration::from_secs_f64(patience_s);

        let group = self.bench.load_group();
        let group_before = group.map(ControlGroup::cpu).transpose().map_err(LoadError::CpuTime)?;
        let launch = Launch { command: &command, cpus: self.plan.pinning.load.as_ref(), group, server: None };
        let began = Instant::now();
        let mut process = Process::start(&launch, &self.bench.guardian)
            .map_err(|source| LoadError::Spawn { command: command.to_string(), source })?;
        let ended = process.wait_unless_stopped(limit, slice + STOP_GRACE, &self.bench.interrupt);
        let wall = began.elapsed();
        let text = command.to_string();
        let Some(ended) = ended else {
            return Err(if self.bench.interrupt.is_requested() {
                ExperimentError::Interrupted
            } else {
                LoadError::Overran { command: text, limit_s: limit.as_secs_f64() }.into()
            });
        };
        let cpu_ns = match (group, group_before) {
            (Some(group), Some(before)) => group.cpu().map_err(LoadError::CpuTime)?.since(before).ns,
            _ => ended.cpu_ns,
        };
        let output = process.last_lines();
        let counts = parse_load_output(&process.stdout());
        if !ended.status.success() && !tells_of_failures(&counts, ended.status) {
            return Err(LoadError::Failed { command: text, status: ended.status, output }.into());
        }
        match counts {
            Ok(counts) => Ok(LoadDone { command: text, counts, output, wall, cpu_ns }),
            Err(source) => Err(LoadError::Output { command: text, source, output }.into()),
        }
    }
}

/// Whether a load that ended with an exit status other than 0 did all that it was to do, and says by it what it found:
/// answers that are no success are a result, which a comparison must not leave out.
fn tells_of_failures(counts: &Result<LoadCounts, LoadOutputError>, status: ExitStatus) -> bool {
    let is_weir = counts.as_ref().is_ok_and(|counts| counts.tool == LoadTool::Weir && counts.requests > 0);
    is_weir && [NOTHING_SUCCEEDED, OBJECTIVE_MISSED].map(Some).contains(&status.code())
}

/// What to say of a load that failed: a server that died explains more than the errors that followed from it.
fn blamed(error: ExperimentError, server: &mut Server, bench: &Bench) -> ExperimentError {
    server.check_soon(bench).map_or_else(ExperimentError::from, |()| error)
}

/// Starts what runs beside the server, if anything does.
pub(crate) fn start_beside(load: &LoadRun<'_>, server: &Server) -> Result<Option<(Process, String)>, LoadError> {
    let Some(template) = &load.subject.beside else { return Ok(None) };
    let (plan, bench) = (load.plan, load.bench);
    let [own, site] = bench.workplace.places(server.index());
    let (pid, port) = (server.pid().to_string(), load.target.port().to_string());
    let command = template.filled(&[("pid", pid), ("url", load.target.url().to_owned()), ("port", port), own, site]);
    let (cpus, group) = (plan.pinning.beside.as_ref(), bench.beside_group());
    let launch = Launch { command: &command, cpus, group, server: None };
    match Process::start(&launch, &bench.guardian) {
        Ok(process) => Ok(Some((process, command.to_string()))),
        Err(source) => Err(LoadError::Spawn { command: command.to_string(), source }),
    }
}

/// Ends it.
pub(crate) fn end_beside(process: &mut Process, command: &str, bench: &Bench) -> Result<(), LoadError> {
    if let Some(ended) = process.try_wait() {
        let output = process.last_lines();
        return Err(LoadError::BesideEnded { command: command.to_owned(), status: ended.status, output });
    }
    process.end(&BESIDE_SIGNALS, &bench.interrupt);
    // Also what left its process group.
    if let Some(group) = bench.beside_group() {
        group.kill();
    }
    Ok(())
}
