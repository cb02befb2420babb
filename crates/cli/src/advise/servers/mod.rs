//! The servers behind an explanation: which processes they are, and what their configuration says.

mod apache;
mod cgroup;
mod linked;
mod nginx;
mod php_fpm;
mod postgres;
mod process;

pub(crate) use cgroup::{Quota, quota, unit};
pub(crate) use linked::{Address, addresses, listens};
pub(crate) use php_fpm::Ini;
pub(crate) use process::{Process, answers_names, available_bytes, is_real_time, resident_bytes};

use crate::advise::configuration::{Configuration, Files, Syntax};
use crate::advise::observed::Observed;
use crate::advise::recorded::Recorded;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_capture::Target;

/// How long a server's program may take to tell about itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of what it tells.
const MOST_ANSWER: u64 = 1 << 20;
/// Servers behind one another.
const MOST_SERVERS: usize = 32;

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Apache's httpd.
    Apache,
    /// nginx.
    Nginx,
    /// PHP's process manager.
    PhpFpm,
    /// PostgreSQL.
    Postgres,
    /// MariaDB or MySQL.
    Mariadb,
}

impl Kind {
    /// The kind of a program or task, by its name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let begins = |list: &[&str]| list.iter().any(|begin| name.starts_with(begin));
        if begins(&["apache2", "httpd"]) {
            Some(Self::Apache)
        } else if begins(&["nginx", "openresty"]) {
            Some(Self::Nginx)
        } else if begins(&["php-fpm"]) {
            Some(Self::PhpFpm)
        } else if begins(&["postgres", "postmaster"]) {
            Some(Self::Postgres)
        } else if begins(&["mariadb", "mysqld"]) {
            Some(Self::Mariadb)
        } else {
            None
        }
    }

    /// For reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apache => "Apache",
            Self::Nginx => "nginx",
            Self::PhpFpm => "php-fpm",
            Self::Postgres => "PostgreSQL",
            Self::Mariadb => "MariaDB",
        }
    }
}

/// A server with its configuration.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its first process; number 0 where only its command is known.
    pub(crate) process: Process,
    /// Processes of the server besides the first.
    pub(crate) children: Vec<u32>,
    /// What it was started with; of nothing where it could not be found.
    pub(crate) configuration: Configuration,
    /// php.ini and its additions, for php-fpm.
    pub(crate) ini: Ini,
    /// The folder against which relative paths count.
    pub(crate) root: PathBuf,
}

impl Server {
    fn of(process: Process, children: Vec<u32>) -> Option<Self> {
        let kind = kind_of(&process)?;
        let files = Files::below(process.root.clone());
        let (configuration, root) = match kind {
            Kind::Apache => apache::configuration(&process, &files),
            Kind::Nginx => nginx::configuration(&process, &files),
            Kind::PhpFpm => php_fpm::configuration(&process, &files),
            Kind::Postgres => postgres::configuration(&process, &files),
            Kind::Mariadb => (Configuration::empty(Syntax::Ini), PathBuf::from("/")),
        };
        let ini = if kind == Kind::PhpFpm { php_fpm::ini(&process, &files, &root) } else { Ini::default() };
        Some(Self { kind, process, children, configuration, ini, root })
    }

    /// Its name for reports, with the number of its first process.
    pub(crate) fn label(&self) -> String {
        match self.process.pid {
            0 => self.kind.name().to_owned(),
            pid => format!("{} ({pid})", self.kind.name()),
        }
    }

    /// Whether its configuration was found at all.
    pub(crate) fn is_known(&self) -> bool {
        !self.configuration.entries.is_empty()
    }
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Servers {
    /// The servers, those in front first.
    pub(crate) list: Vec<Server>,
    /// What could not be found or read.
    pub(crate) problems: Vec<String>,
}

impl Servers {
    /// The servers of a kind with their numbers in the list.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = (usize, &Server)> {
        self.list.iter().enumerate().filter(move |(_, server)| server.kind == kind)
    }
}

/// Finds the servers of a run: those named by the user, those of the run's ports and command, those that the
/// explanation names, and those that their configurations lead to.
pub(crate) fn find(named: &Target, recorded: &Recorded, observed: &Observed) -> Servers {
    let mut found = Servers::default();
    let mut roots: Vec<u32> = Vec::new();
    let mut wanted: BTreeSet<u32> = named.pids.clone();
    if recorded.here {
        let ports = recorded.loaded_port().into_iter().chain(recorded.ports.iter().copied());
        wanted.extend(ports.filter_map(|port| Target::of_port(port).ok()).flat_map(|target| target.pids));
        wanted.extend(weir_capture::trees(recorded.pids.iter().copied()));
        wanted
            .extend(recorded.comms.iter().filter_map(|comm| Target::of_comm(comm).ok()).flat_map(|target| target.pids));
        for (name, pid) in observed.named() {
            // Numbers are given again: only a process that still bears the name is meant.
            if Process::read(pid).is_some_and(|process| process.name == name) {
                wanted.insert(pid);
            }
        }
    } else {
        found.problems.push(
            "the run was recorded on another host, or before this one was started: no server's configuration is looked at"
                .to_owned(),
        );
    }
    let processes = process::all();
    for pid in wanted {
        add(first_of(pid, &processes), &processes, &mut roots, &mut found);
    }
    if found.list.is_empty()
        && recorded.here
        && let Some(server) = Process::of_command(&recorded.command).and_then(|process| Server::of(process, Vec::new()))
    {
        found.list.push(server);
    }
    // The list grows while it is walked: each server may lead to those behind it.
    let mut at = 0;
    while at < found.list.len() && found.list.len() < MOST_SERVERS {
        for pid in linked::behind(&found.list[at], &processes) {
            add(Some(pid), &processes, &mut roots, &mut found);
        }
        at += 1;
    }
    for server in &found.list {
        let problems = server.configuration.problems.iter().chain(&server.ini.configuration.problems);
        found.problems.extend(problems.map(|problem| format!("{}: {problem}", server.label())));
        if !server.is_known() && server.kind != Kind::Mariadb {
            found.problems.push(format!("{}: its configuration was not found", server.label()));
        }
    }
    found
}

fn add(pid: Option<u32>, processes: &[(u32, u32)], roots: &mut Vec<u32>, found: &mut Servers) {
    let Some(pid) = pid.filter(|pid| !roots.contains(pid)) else { return };
    roots.push(pid);
    let children = processes.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child).collect();
    if let Some(server) = Process::read(pid).and_then(|process| Server::of(process, children)) {
        found.list.push(server);
        found.list.sort_by_key(|server| server.kind);
    }
}

fn kind_of(process: &Process) -> Option<Kind> {
    let program = process.program.file_name().and_then(|name| Kind::of(&name.to_string_lossy()));
    program.or_else(|| Kind::of(&process.name))
}

/// The first process of the server that a process belongs to: up through parents of the same kind.
fn first_of(pid: u32, processes: &[(u32, u32)]) -> Option<u32> {
    let kind = kind_of(&Process::read(pid)?)?;
    let mut first = pid;
    for _ in 0..MOST_SERVERS {
        let Some((_, parent)) = processes.iter().find(|(child, _)| *child == first) else { break };
        if Process::read(*parent).and_then(|process| kind_of(&process)) != Some(kind) {
            break;
        }
        first = *parent;
    }
    Some(first)
}

/// The first processes of all servers of a kind.
fn all_of(kind: Kind, processes: &[(u32, u32)]) -> BTreeSet<u32> {
    let of_kind =
        processes.iter().filter(|(pid, _)| Process::read(*pid).and_then(|process| kind_of(&process)) == Some(kind));
    of_kind.filter_map(|(pid, _)| first_of(*pid, processes)).collect()
}

/// What a server's program says about itself, both streams; nothing if it takes too long, or if a user other than root
/// and us can write the program: we may be root.
fn ask(process: &Process, arguments: &[&str]) -> String {
    let program = &process.program;
    if !process.is_near || !process::is_trusted(program) {
        return String::new();
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return String::new() };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reader = std::thread::spawn(move || {
        use std::io::Read;
        let mut text = Vec::new();
        // What cannot be read is missing from the answer, as if it had not been said.
        let _ = stdout.map(|pipe| pipe.take(MOST_ANSWER).read_to_end(&mut text));
        let _ = stderr.map(|pipe| pipe.take(MOST_ANSWER).read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + PATIENCE;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= deadline {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    reader.join().unwrap_or_default()
}
