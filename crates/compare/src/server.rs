//! A server under test: started, waited for until it is ready, asked for what it used, ended.
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::accounting;
use crate::bench::Bench;
use crate::command_line::CommandLine;
use crate::cpu_time::CpuTime;
use crate::error::{ExperimentError, ServerError};
use crate::left_behind;
use crate::listener;
use crate::plan::{Plan, Readiness, ServerSpec};
use crate::process::{Launch, Process};
use crate::resources::{self, MemoryWatch, ThreadSwitches};
use crate::target::Target;

/// How long one attempt to connect, or one command that asks whether it is ready, may take.
const ATTEMPT: Duration = Duration::from_millis(500);
/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// `SIGTERM` asks servers to end soon; after this long they are killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running server.
pub(crate) struct Server {
    spec: ServerSpec,
    index: usize,
    process: Process,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Starts the server with this index in the plan and waits until it is ready.
    pub(crate) fn start(plan: &Plan, index: usize, bench: &Bench) -> Result<Self, ExperimentError> {
        let spec = &bench.workplace.furnish(index, &plan.servers[index])?;
        let name = || spec.name.clone();
        // Where no case loads it (it serves another one), there is no port to be asked for.
        let target = plan.target_of_server(index);
        let addresses = match target {
            Some(target) => target.resolve().map_err(|source| ServerError::Resolve {
                name: name(),
                address: target.address(),
                source,
            })?,
            None => Vec::new(),
        };
        if let (true, Some(target)) = (answers(&addresses), target) {
            return Err(ServerError::AddressInUse {
                name: name(),
                address: target.address(),
                holders: listener::listeners(target.port()),
            }
            .into());
        }
        let group = bench.server_group(index);
        let launch = Launch { command: &spec.command, cpus: plan.cpus_of(spec), group, server: Some(spec) };
        let process = Process::start(&launch, &bench.guardian).map_err(|source| ServerError::Spawn {
            name: name(),
            command: spec.command.to_string(),
            source,
        })?;
        let mut server = Self { spec: spec.clone(), index, process, addresses: addresses.clone() };
        server.wait_until_ready(target, &addresses, Duration::from_secs_f64(plan.start_timeout_s), bench)?;
        Ok(server)
    }

    /// CPU time so far of its whole process tree.
    pub(crate) fn cpu(&mut self, bench: &Bench) -> Result<CpuTime, ServerError> {
        self.check()?;
        accounting::cpu(bench.server_group(self.index), self.process.pid())
            .map_err(|source| ServerError::CpuTime { name: self.spec.name.clone(), source })
    }

    /// Context switches so far of its threads; none where the kernel does not tell.
    pub(crate) fn switches(&self, bench: &Bench) -> Vec<ThreadSwitches> {
        let processes = accounting::processes(bench.server_group(self.index), self.process.pid());
        processes.map(|found| resources::switches(&found)).unwrap_or_default()
    }

    /// Begins to look at its memory; `None` where no thread can be had.
    pub(crate) fn watch_memory(&self, bench: &Bench) -> Option<MemoryWatch> {
        let (index, pid, groups) = (self.index, self.process.pid(), bench.groups());
        MemoryWatch::start(move || {
            accounting::processes(groups.as_ref().and_then(|groups| groups.servers.get(index)), pid)
        })
        .ok()
    }

    /// That it still runs.
    pub(crate) fn check(&mut self) -> Result<(), ServerError> {
        match self.process.try_wait() {
            None => Ok(()),
            Some(ended) => Err(ServerError::Ended {
                name: self.spec.name.clone(),
                command: self.spec.command.to_string(),
                status: ended.status,
                output: self.process.last_lines(),
            }),
        }
    }

    /// That it still runs, with time for it to end: a load that fails because the server closed its sockets may see that
    /// before the server's end can be seen.
    pub(crate) fn check_soon(&mut self, bench: &Bench) -> Result<(), ServerError> {
        const PATIENCE: Duration = Duration::from_millis(500);
        self.process.wait(PATIENCE, &bench.interrupt);
        self.check()
    }

    /// Which of the plan's servers it is.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn pid(&self) -> libc::pid_t {
        self.process.pid()
    }

    /// Ends it and everything that it started.
    pub(crate) fn stop(mut self, bench: &Bench) {
        if let Some(stop) = &self.spec.stop {
            // Whether it helped shows in what is still there.
            let _ended = run_briefly(stop, &self.spec, PATIENCE, bench);
            self.process.wait(PATIENCE, &bench.interrupt);
        }
        self.process.end(&[(libc::SIGTERM, PATIENCE)], &bench.interrupt);
        // Also what left its process group.
        if let Some(group) = bench.server_group(self.index) {
            group.kill();
        }
        left_behind::end(self.process.mark());
        // The kernel takes a moment to end what was killed, and the next server may need the port.
        let began = Instant::now();
        while answers(&self.addresses) && began.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
        }
    }

    fn wait_until_ready(
        &mut self,
        target: Option<&Target>,
        addresses: &[SocketAddr],
        patience: Duration,
        bench: &Bench,
    ) -> Result<(), ExperimentError> {
        let began = Instant::now();
        loop {
            self.check()?;
            let ready = match &self.spec.ready {
                Readiness::Port => target.is_none() || answers(addresses),
                Readiness::Command(command) => run_briefly(command, &self.spec, ATTEMPT, bench),
            };
            if ready {
                return Ok(self.check()?);
            }
            if bench.interrupt.is_requested() {
                return Err(ExperimentError::Interrupted);
            }
            if began.elapsed() >= patience {
                return Err(ServerError::Silent {
                    name: self.spec.name.clone(),
                    address: target.map_or_else(String::new, Target::address),
                    command: self.spec.command.to_string(),
                    waited_s: patience.as_secs_f64(),
                    output: self.process.last_lines(),
                }
                .into());
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Runs a command that belongs to a server; whether it ended well and in time.
fn run_briefly(command: &CommandLine, spec: &ServerSpec, patience: Duration, bench: &Bench) -> bool {
    let launch = Launch { command, cpus: None, group: bench.beside_group(), server: Some(spec) };
    let ended = Process::start(&launch, &bench.guardian)
        .and_then(|mut process| process.wait(patience, &bench.interrupt).ok_or_else(|| io::ErrorKind::TimedOut.into()));
    ended.is_ok_and(|ended| ended.status.success())
}

fn answers(addresses: &[SocketAddr]) -> bool {
    addresses.iter().any(|address| TcpStream::connect_timeout(address, ATTEMPT).is_ok())
}
