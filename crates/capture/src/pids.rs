//! Numbers of tasks where weir runs in a pid namespace of its own: the kernel's events tell the host's, /proc and users
//! those of the namespace.
//!
//! An iterator lists both of each task in the namespace (`bpf/pids.bpf.c`). Events get the namespace's numbers on their
//! way to the run. Tasks outside of it have none: theirs are the host's, above all that a namespace gives.

use crate::error::CaptureError;
use crate::spine::refusal;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link};
use rustc_hash::FxHashMap;
use std::io::Read;
use std::mem::MaybeUninit;
use weir_wire::task::renumbered;
use weir_wire::{Kind, Record};

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/pids.skel.rs"));
}

/// The namespace of the system's first process, as the kernel calls it: `PROC_PID_INIT_INO` of linux/proc_ns.h.
const FIRST: &str = "pid:[4026531836]";
/// The lowest number of a task outside: no namespace gives more than 2^22.
pub(crate) const OUTSIDE: u32 = 1 << 23;
/// Bytes of a task in the iterator's list, and tasks that are read of it.
const PAIR: usize = 8;
const MOST_TASKS: usize = 1 << 22;

/// The namespace that this process is in, if it is not the host's. Without a name (a kernel without namespaces) there is
/// but one.
pub(crate) fn own_namespace() -> Option<String> {
    let name = std::fs::read_link("/proc/self/ns/pid").ok()?.display().to_string();
    is_not_the_hosts(&name).then_some(name)
}

fn is_not_the_hosts(namespace: &str) -> bool {
    !namespace.is_empty() && namespace != FIRST
}

/// Whether events' numbers are translated.
#[must_use]
pub fn in_pid_namespace() -> bool {
    own_namespace().is_some()
}

/// The numbers.
pub(crate) struct Pids {
    link: Link,
    table: Table,
    /// The list was read since the last look at the rings; what is not in it is outside.
    is_fresh: bool,
}

/// Both numbers of each task that was met.
#[derive(Debug, Default)]
struct Table {
    to_own: FxHashMap<u32, u32>,
    to_hosts: FxHashMap<u32, u32>,
}

impl Pids {
    /// `None` where there is nothing to translate.
    ///
    /// # Errors
    /// [`CaptureError::PidNamespace`] if the kernel does not list both numbers.
    pub(crate) fn here() -> Result<Option<Self>, CaptureError> {
        let Some(namespace) = own_namespace() else { return Ok(None) };
        let link = attached().map_err(|error| {
            tracing::debug!(%error, "numbers of tasks are not listed");
            CaptureError::PidNamespace { namespace: namespace.clone() }
        })?;
        let mut pids = Self { link, table: Table::default(), is_fresh: false };
        pids.read();
        // This process itself is in the list, or the list is of no use.
        if pids.table.to_hosts.contains_key(&std::process::id()) {
            return Ok(Some(pids));
        }
        Err(CaptureError::PidNamespace { namespace })
    }

    /// The host's number of a task of this namespace; its own where it is not known: no task has that then.
    pub(crate) fn hosts(&mut self, own: u32) -> u32 {
        if own & OUTSIDE != 0 {
            return own & !OUTSIDE;
        }
        if !self.table.to_hosts.contains_key(&own) {
            self.read();
        }
        self.table.to_hosts.get(&own).copied().unwrap_or(own)
    }

    /// A new look at the rings begins: what is not known by now may be in the list.
    pub(crate) fn look(&mut self) {
        self.is_fresh = false;
    }

    /// The record with this namespace's numbers.
    pub(crate) fn translate(&mut self, record: &Record) -> Record {
        let told = renumbered(record, &mut |hosts| self.own(hosts));
        // The number may be another task's from now on.
        if record.kind == Kind::Exit as u16 {
            self.table.forget(record.a as u32);
        }
        told
    }

    fn own(&mut self, hosts: u32) -> u32 {
        if let Some(own) = self.table.to_own.get(&hosts) {
            return *own;
        }
        if !self.is_fresh {
            self.read();
            if let Some(own) = self.table.to_own.get(&hosts) {
                return *own;
            }
        }
        // Remembered, so that the list is read once for each.
        let outside = hosts | OUTSIDE;
        self.table.put(hosts, outside);
        outside
    }

    /// Reads the list.
    fn read(&mut self) {
        self.is_fresh = true;
        let mut bytes = Vec::new();
        let listed = Iter::new(&self.link).and_then(|list| {
            list.take((MOST_TASKS * PAIR) as u64).read_to_end(&mut bytes).map_err(libbpf_rs::Error::from)
        });
        if let Err(error) = listed {
            tracing::debug!(%error, "numbers of tasks cannot be listed");
        }
        self.table.take(&bytes);
    }
}

impl Table {
    /// Takes the list: pairs of the host's number and the namespace's.
    fn take(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks_exact(PAIR) {
            let number = |at: usize| pair.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_ne_bytes);
            if let (Some(hosts), Some(own)) = (number(0), number(4)) {
                self.put(hosts, own);
            }
        }
    }

    fn put(&mut self, hosts: u32, own: u32) {
        if hosts == 0 || own == 0 {
            return;
        }
        if self.to_own.len() >= MOST_TASKS {
            // More than there can be: of those that have ended unseen.
            (self.to_own, self.to_hosts) = Default::default();
        }
        self.forget(hosts);
        self.to_own.insert(hosts, own);
        if own < OUTSIDE {
            self.to_hosts.insert(own, hosts);
        }
    }

    fn forget(&mut self, hosts: u32) {
        if let Some(own) = self.to_own.remove(&hosts)
            && self.to_hosts.get(&own) == Some(&hosts)
        {
            self.to_hosts.remove(&own);
        }
    }
}

/// Loads and attaches the iterator.
fn attached() -> Result<Link, CaptureError> {
    let refused = |error: libbpf_rs::Error| refusal("listing numbers of tasks", &error);
    // As for the spine: a few times a recording, for as long as the process lives.
    let object = Box::leak(Box::new(MaybeUninit::uninit()));
    let open = skeleton::PidsSkelBuilder::default().open(object).map_err(refused)?;
    let skel = open.load().map_err(refused)?;
    skel.progs.list_numbers.attach().map_err(refused)
}

impl std::fmt::Debug for Pids {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pids").field("table", &self.table).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_namespace_of_ones_own_is_told_from_the_hosts() {
        assert!(!is_not_the_hosts(FIRST) && !is_not_the_hosts(""));
        assert!(is_not_the_hosts("pid:[4026532280]"));
    }

    #[test]
    fn a_number_that_comes_again_is_the_newer_tasks() {
        let mut table = Table::default();
        let list = |pairs: &[(u32, u32)]| {
            pairs.iter().flat_map(|(hosts, own)| [hosts.to_ne_bytes(), own.to_ne_bytes()].concat()).collect::<Vec<u8>>()
        };
        table.take(&list(&[(4_000, 1), (4_001, 7)]));
        assert_eq!((table.to_own[&4_001], table.to_hosts[&7]), (7, 4_001));
        // The namespace gives 7 to another task, whose end of the first is told later.
        table.take(&list(&[(4_009, 7)]));
        table.forget(4_001);
        assert_eq!((table.to_own.get(&4_001), table.to_hosts[&7]), (None, 4_009));
        table.put(5_000, 5_000 | OUTSIDE);
        assert_eq!((table.to_own[&5_000], table.to_hosts.len()), (5_000 | OUTSIDE, 2));
        // Half a pair is none.
        table.take(&[1, 2, 3]);
        assert_eq!(table.to_own.len(), 3);
    }
}
