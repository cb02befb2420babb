//! A server under test: started, waited for until its port answers, asked for its CPU time, ended.
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::accounting;
use crate::bench::Bench;
use crate::error::{ExperimentError, ServerError};
use crate::plan::Plan;
use crate::process::{Launch, Process};
use crate::schedule::Side;
use crate::target::Target;

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_millis(500);
/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// `SIGTERM` asks servers to end soon; after this long they are killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running server.
pub(crate) struct Server {
    name: &'static str,
    command: String,
    index: usize,
    process: Process,
}

impl Server {
    /// Starts the server with this index in the plan and waits until the port of its first case
    /// answers.
    pub(crate) fn start(plan: &Plan, index: usize, bench: &Bench) -> Result<Self, ExperimentError> {
        let (name, command) = plan.servers()[index];
        let side = if index == 0 { Side::A } else { Side::B };
        // A checked plan has a case.
        let target = plan.target(&plan.cases[0], side);
        let address = target.address();
        let addresses =
            target.resolve().map_err(|source| ServerError::Resolve { name, address: address.clone(), source })?;
        if answers(&addresses) {
            return Err(ServerError::AddressInUse { name, address }.into());
        }
        let launch = Launch { command, cpus: plan.pinning.server.as_ref(), group: bench.server_group(index) };
        let process = Process::start(&launch, &bench.guardian).map_err(|source| ServerError::Spawn {
            name,
            command: command.to_string(),
            source,
        })?;
        let mut server = Self { name, command: command.to_string(), index, process };
        server.wait_for_port(target, &addresses, Duration::from_secs_f64(plan.start_timeout_s), bench)?;
        Ok(server)
    }

    /// CPU time so far of its whole process tree, in nanoseconds.
    pub(crate) fn cpu_ns(&mut self, bench: &Bench) -> Result<u64, ServerError> {
        self.check()?;
        accounting::cpu_ns(bench.server_group(self.index), self.process.pid())
            .map_err(|source| ServerError::CpuTime { name: self.name, source })
    }

    /// That it still runs.
    pub(crate) fn check(&mut self) -> Result<(), ServerError> {
        match self.process.try_wait() {
            None => Ok(()),
            Some(ended) => Err(ServerError::Ended {
                name: self.name,
                command: self.command.clone(),
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

    pub(crate) fn pid(&self) -> libc::pid_t {
        self.process.pid()
    }

    /// Ends it and everything that it started.
    pub(crate) fn stop(mut self, bench: &Bench) {
        self.process.end(&[(libc::SIGTERM, PATIENCE)], &bench.interrupt);
        // Also what left its process group.
        if let Some(group) = bench.server_group(self.index) {
            group.kill();
        }
    }

    fn wait_for_port(
        &mut self,
        target: &Target,
        addresses: &[SocketAddr],
        patience: Duration,
        bench: &Bench,
    ) -> Result<(), ExperimentError> {
        let began = Instant::now();
        loop {
            self.check()?;
            if answers(addresses) {
                return Ok(self.check()?);
            }
            if bench.interrupt.is_requested() {
                return Err(ExperimentError::Interrupted);
            }
            if began.elapsed() >= patience {
                return Err(ServerError::Silent {
                    name: self.name,
                    address: target.address(),
                    command: self.command.clone(),
                    waited_s: patience.as_secs_f64(),
                    output: self.process.last_lines(),
                }
                .into());
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn answers(addresses: &[SocketAddr]) -> bool {
    addresses.iter().any(|address| TcpStream::connect_timeout(address, ATTEMPT).is_ok())
}
