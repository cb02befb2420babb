//! Which servers a run had.

use super::roots::{MOST_SERVERS, first_of};
use super::{Kind, Process, Server, linked, process};
use crate::observed::Observed;
use crate::recorded::Recorded;
use std::collections::BTreeSet;
use weir_capture::Target;

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
