//! Names of tasks: which are told already, and what /proc and the control groups say of a task beside its name.

use crate::probes::Probes;
use weir_wire::task::CARRIES;
use weir_wire::{Kind, Record};

/// Whether a task's name is still to be written; from now on it is not.
pub(crate) fn unnamed(named: &mut [u64], pid: u32) -> bool {
    let Some(word) = named.get_mut(pid as usize / 64) else { return false };
    let bit = 1 << (pid % 64);
    let fresh = *word & bit == 0 && pid != 0;
    *word |= bit;
    fresh
}

/// The number's name is to be written anew.
pub(crate) fn forget(named: &mut [u64], pid: u32) {
    if let Some(word) = named.get_mut(pid as usize / 64) {
        *word &= !(1 << (pid % 64));
    }
}

/// The record that names a task, if it still lives.
pub(crate) fn task_name(
    probes: &Probes,
    pid: u32,
    time_ns: u64,
    cpu: usize,
    in_groups: bool,
) -> Option<(Record, String)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let tgid: u32 = field("Tgid:")?.parse().ok()?;
    let record = Record {
        time_ns,
        kind: Kind::TaskName as u16,
        lane: cpu as u32,
        a: u64::from(pid) | u64::from(tgid) << 32,
        ..Record::default()
    };
    Some(whole_name(probes, record, field("Name:")?, in_groups))
}

/// The record of a task's name with what /proc and the control groups say of its process.
pub(crate) fn whole_name(probes: &Probes, record: Record, name: &str, in_groups: bool) -> (Record, String) {
    let (_, tgid) = record.a_halves();
    let traced = u8::from(probes.is_traced(tgid));
    let carries = traced != 0 && crate::runtimes::is_of_go(tgid);
    let flags = traced | if carries { CARRIES } else { 0 };
    let record = Record { flags, b: crate::target::start_ns(tgid).unwrap_or(0), ..record };
    // Where the server was named by its service or container, its processes are told with it.
    let group = if in_groups && flags != 0 { crate::cgroup::name_of_process(tgid) } else { None };
    (record, group.map_or_else(|| name.to_owned(), |group| format!("{name} in {group}")))
}
