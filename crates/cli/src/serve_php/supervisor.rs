//! The supervisor: a process beside the server that runs php-fpm for it, and ends it with the server.

use super::configuration::Owners;
use super::fpm::{Change, Fpm};
use super::fpm_log::{self, Line, Slow};
use super::messages::{ToSupervisor, Wanted};
use crate::side_process::{self, receive, send};
use anyhow::Context;
use std::fs;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use weir_scripts::{PoolTold, StuckTold, ToServer};
use weir_server::PhpPool;

/// How often processes are looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a pool that no host wants any more runs on, for requests that wait for it.
const RETIRED_PATIENCE: Duration = Duration::from_secs(30);
/// How long a stack is waited for.
const STACK_PATIENCE: Duration = Duration::from_secs(2);
/// How long php-fpm may take until it listens.
const START_PATIENCE: Duration = Duration::from_secs(15);
/// How long php-fpm may take to end.
const END_PATIENCE: Duration = Duration::from_secs(4);
/// Lines that are kept of a php-fpm that does not start.
const LAST_LINES_MAX: usize = 8;

/// Runs php-fpm as the server says until that ends.
pub(crate) fn supervise() -> anyhow::Result<ExitCode> {
    // SAFETY: the call takes no memory of ours. Workers whose main process is killed become children of this process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    let link = side_process::link().context("the socket to the server")?;
    let mut from = BufReader::new(link.try_clone().context("the socket to the server")?);
    let Some(ToSupervisor::Begin(wanted)) = receive(&mut from) else {
        anyhow::bail!("weir serve starts this command for itself");
    };
    let (heard, of_server) = channel();
    std::thread::Builder::new()
        .name("weir-php-link".to_owned())
        .spawn(move || {
            while let Some(message) = receive(&mut from) {
                if heard.send(message).is_err() {
                    break;
                }
            }
        })
        .context("a thread for what the server says")?;
    let (lines, of_fpm) = channel();
    let pools = wanted.pools.clone();
    let mut supervisor = Supervisor {
        link,
        wanted: *wanted,
        fpms: Vec::new(),
        lines,
        stuck: Vec::new(),
        asked: None,
        last: Vec::new(),
        failed: None,
    };
    supervisor.want(pools);
    supervisor.run(&of_server, &of_fpm);
    supervisor.end();
    Ok(ExitCode::SUCCESS)
}

/// Pools that the server waits for.
#[derive(Debug)]
struct Asked {
    names: Vec<String>,
    until: Instant,
}

/// A worker that is stuck, and of which no stack has come yet.
#[derive(Debug)]
struct Stuck {
    pool: String,
    slow: Slow,
    until: Instant,
    why: Option<String>,
}

#[derive(Debug)]
struct Supervisor {
    link: UnixStream,
    wanted: Wanted,
    fpms: Vec<Fpm>,
    lines: Sender<(String, String)>,
    stuck: Vec<Stuck>,
    asked: Option<Asked>,
    /// What a php-fpm said last that has not started.
    last: Vec<String>,
    /// Why what the server has asked for does not come about; told at the next look, when its last lines have come.
    failed: Option<String>,
}

impl Supervisor {
    fn run(&mut self, of_server: &Receiver<ToSupervisor>, of_fpm: &Receiver<(String, String)>) {
        let mut told = Vec::new();
        loop {
            match of_server.recv_timeout(TICK) {
                Ok(ToSupervisor::Pools(pools)) => self.want(pools),
                Ok(ToSupervisor::Begin(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            for (name, line) in of_fpm.try_iter().take(1000) {
                self.hear(name, &line);
            }
            self.look();
            self.tell_stuck();
            let status = self.status();
            if status != told {
                self.say(&ToServer::Status(status.clone()));
                told = status;
            }
        }
    }

    fn say(&self, message: &ToServer) {
        // If the server has ended, so does this process.
        let _ = send(&self.link, message);
    }

    fn status(&self) -> Vec<PoolTold> {
        let living = self.fpms.iter().filter(|fpm| fpm.retires.is_none());
        let told = |fpm: &Fpm| PoolTold {
            name: fpm.pool.name(),
            workers: fpm.pool.workers,
            pid: fpm.pid(),
            restarts: fpm.restarts,
        };
        living.map(told).collect()
    }

    /// Starts what is wanted and does not run, and has the rest end in a while.
    fn want(&mut self, pools: Vec<PhpPool>) {
        self.last.clear();
        let names: Vec<String> = pools.iter().map(PhpPool::name).collect();
        for pool in pools {
            let name = pool.name();
            if let Some(fpm) = self.fpms.iter_mut().find(|fpm| fpm.pool == pool && !fpm.is_over()) {
                fpm.retires = None;
                continue;
            }
            let program = match super::program::find(pool.program.as_deref(), std::env::var_os("PATH").as_deref()) {
                Ok(program) => program,
                Err(error) => return self.fail(&error.to_string()),
            };
            let (is_root, server) = (self.wanted.is_root, self.wanted.user.clone());
            let owners = Owners { is_root, server: server.as_deref() };
            match Fpm::start(pool, (&program, &self.wanted.folder), owners, &self.lines) {
                Ok(fpm) => self.fpms.push(fpm),
                Err(error) => return self.fail(&format!("{name} ({}) cannot be started: {error}", program.display())),
            }
        }
        self.asked = Some(Asked { names, until: Instant::now() + START_PATIENCE });
    }

    /// What the server has asked for does not come about: all is as before.
    fn fail(&mut self, why: &str) {
        let mut told = why.to_owned();
        for line in self.last.drain(..) {
            told.push_str("; it says: ");
            told.push_str(&line);
        }
        self.fpms.retain_mut(|fpm| {
            let is_new = fpm.is_new();
            if is_new {
                fpm.kill();
            }
            !is_new
        });
        self.asked = None;
        self.say(&ToServer::Failed(told));
    }

    fn hear(&mut self, name: String, line: &str) {
        match fpm_log::line(line) {
            Line::Slow(slow) => {
                let until = Instant::now() + STACK_PATIENCE;
                self.stuck.push(Stuck { pool: name, slow, until, why: None });
            }
            Line::NoTrace(why) => {
                let of_pid = |stuck: &&mut Stuck| why.contains(&stuck.slow.pid.to_string());
                match self.stuck.iter_mut().find(of_pid) {
                    Some(stuck) => stuck.why = Some(why),
                    None => self.say(&ToServer::Tell(format!("{name}: {why}"))),
                }
            }
            Line::Told(line) => {
                if self.asked.is_some() {
                    self.last.push(line);
                    if self.last.len() > LAST_LINES_MAX {
                        let first = self.last.remove(0);
                        self.say(&ToServer::Tell(format!("php-fpm: {first}")));
                    }
                } else {
                    self.say(&ToServer::Tell(format!("{name}: {line}")));
                }
            }
            Line::Quiet => {}
        }
    }

    /// Looks at all processes.
    fn look(&mut self) {
        let now = Instant::now();
        if let Some(why) = self.failed.take() {
            return self.fail(&why);
        }
        for at in 0..self.fpms.len() {
            let fpm = &mut self.fpms[at];
            if fpm.retires.is_some_and(|at| at <= now) {
                fpm.end(false);
            }
            let (change, name) = (fpm.look(&self.lines), fpm.pool.name());
            match change {
                None | Some(Change::Up) => {}
                Some(Change::Failed(what)) => self.failed = Some(format!("php-fpm of {name} {what}")),
                Some(Change::Died(_, Duration::MAX)) => {}
                Some(Change::Died(what, after)) => {
                    let after = after.as_millis();
                    self.say(&ToServer::Tell(format!("php-fpm of {name} {what}; it is started again in {after} ms")));
                }
            }
        }
        self.fpms.retain(|fpm| fpm.retires.is_none() || !fpm.is_over());
        let Some(asked) = &self.asked else { return };
        if self.failed.is_none() && asked.until <= now {
            self.failed = Some("php-fpm does not listen in time".to_owned());
        }
        let names = asked.names.clone();
        let is_up = |name: &String| self.fpms.iter().any(|fpm| fpm.pool.name() == *name && fpm.is_up());
        if !names.iter().all(is_up) {
            return;
        }
        self.asked = None;
        for fpm in &mut self.fpms {
            if fpm.retires.is_none() && !names.contains(&fpm.pool.name()) {
                fpm.retires = Some(now + RETIRED_PATIENCE);
            }
        }
        for line in std::mem::take(&mut self.last) {
            self.say(&ToServer::Tell(format!("php-fpm: {line}")));
        }
        self.say(&ToServer::Ready);
    }

    /// Tells of stuck workers, with their stacks if these have come.
    fn tell_stuck(&mut self) {
        if self.stuck.is_empty() {
            return;
        }
        let now = Instant::now();
        let stacks: Vec<_> = self.fpms.iter_mut().flat_map(Fpm::stacks).collect();
        for Stuck { pool, slow, until, why } in std::mem::take(&mut self.stuck) {
            let stack = stacks.iter().rev().find(|stack| stack.pid == slow.pid && !stack.frames.is_empty());
            if stack.is_none() && why.is_none() && now < until {
                self.stuck.push(Stuck { pool, slow, until, why });
                continue;
            }
            let timeout = self.fpms.iter().find(|fpm| fpm.pool.name() == pool).map(|fpm| fpm.pool.timeout);
            let no_stack = stack.is_none().then(|| no_stack(why));
            self.say(&ToServer::Stuck(StuckTold {
                pool,
                pid: slow.pid,
                script: slow.script,
                request: slow.request,
                for_ms: slow.for_ms,
                timeout_ms: timeout.map_or(0, |timeout| u64::try_from(timeout.as_millis()).unwrap_or(0)),
                stack: stack.map(|stack| stack.frames.clone()).unwrap_or_default(),
                no_stack,
            }));
        }
    }

    /// Stops all processes, and removes what was written for them.
    fn end(mut self) {
        self.fpms.iter_mut().for_each(|fpm| fpm.end(true));
        let until = Instant::now() + END_PATIENCE;
        let mut are_gone = false;
        while !are_gone && Instant::now() < until {
            are_gone = self.fpms.iter_mut().filter_map(|fpm| (!fpm.is_gone()).then_some(fpm)).count() == 0;
            if !are_gone {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.fpms.iter_mut().for_each(Fpm::kill);
        let folder: PathBuf = self.wanted.folder;
        let _ = fs::remove_dir_all(folder);
    }
}

/// Why there is no stack, and what helps.
fn no_stack(why: Option<String>) -> String {
    match why {
        Some(why) => format!(
            "php-fpm may not look into its worker: {why}; give it CAP_SYS_PTRACE, or set kernel.yama.ptrace_scope to 1"
        ),
        None => "php-fpm has written no stack in time".to_owned(),
    }
}
