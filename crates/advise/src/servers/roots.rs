//! The first processes of servers.

use super::{Kind, Process};
use std::collections::BTreeSet;

/// Servers behind one another.
pub(super) const MOST_SERVERS: usize = 32;

/// The kind of server that a process belongs to, by its program or its name.
pub(super) fn kind_of(process: &Process) -> Option<Kind> {
    let program = process.program.file_name().and_then(|name| Kind::of(&name.to_string_lossy()));
    program.or_else(|| Kind::of(&process.name))
}

/// The first process of the server that a process belongs to: up through parents of the same kind.
pub(super) fn first_of(pid: u32, processes: &[(u32, u32)]) -> Option<u32> {
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
pub(super) fn all_of(kind: Kind, processes: &[(u32, u32)]) -> BTreeSet<u32> {
    let of_kind =
        processes.iter().filter(|(pid, _)| Process::read(*pid).and_then(|process| kind_of(&process)) == Some(kind));
    of_kind.filter_map(|(pid, _)| first_of(*pid, processes)).collect()
}
