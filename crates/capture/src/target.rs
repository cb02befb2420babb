//! Which processes and ports are the server, read from /proc.

use crate::error::TargetError;
use crate::socket_tables::listening_sockets;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What to record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Thread groups of the server.
    pub pids: BTreeSet<u32>,
    /// Local TCP ports of the server.
    pub ports: BTreeSet<u16>,
    /// Control groups whose processes are the server's, those to come included.
    pub groups: BTreeSet<PathBuf>,
}

impl Target {
    /// The processes that listen on a port, with their children.
    ///
    /// # Errors
    /// [`TargetError::NoListener`], [`TargetError::Hidden`].
    pub fn of_port(port: u16) -> Result<Self, TargetError> {
        let pids = listeners_of_port(port)?;
        Ok(Self { pids: trees(pids), ports: BTreeSet::from([port]), ..Self::default() })
    }

    /// A process with its children, and the ports that they listen on.
    ///
    /// # Errors
    /// [`TargetError::NoPid`].
    pub fn of_pid(pid: u32) -> Result<Self, TargetError> {
        let pids = tree(pid);
        if pids.is_empty() {
            return Err(TargetError::NoPid(pid));
        }
        Ok(Self { ports: listening_ports(&pids), pids, ..Self::default() })
    }

    /// Every process of a name, with its children.
    ///
    /// # Errors
    /// [`TargetError::NoComm`].
    pub fn of_comm(comm: &str) -> Result<Self, TargetError> {
        let pids = trees(named(comm));
        if pids.is_empty() {
            return Err(TargetError::NoComm(comm.to_owned()));
        }
        Ok(Self { ports: listening_ports(&pids), pids, ..Self::default() })
    }

    /// The processes of a control group, with the ports that they listen on.
    ///
    /// # Errors
    /// [`TargetError::EmptyGroup`].
    pub fn of_group(group: &Path) -> Result<Self, TargetError> {
        let pids = crate::cgroup::processes(group);
        if pids.is_empty() {
            return Err(TargetError::EmptyGroup(group.display().to_string()));
        }
        Ok(Self { ports: listening_ports(&pids), pids, groups: BTreeSet::from([group.to_owned()]) })
    }

    /// Both targets together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.pids.extend(other.pids);
        self.ports.extend(other.ports);
        self.groups.extend(other.groups);
        self
    }
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let listing = fs::read_dir("/proc").into_iter().flatten().flatten();
    listing.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// (parent, start time in clock ticks) of a process.
pub(crate) fn stat(pid: u32) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything: fields are counted behind the last one.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split(' ').collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

/// When a process began, nanoseconds since boot (proc_pid_stat(5), field 22, in clock ticks); `None` if it is gone.
pub(crate) fn start_ns(pid: u32) -> Option<u64> {
    // SAFETY: sysconf reads a constant.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    stat(pid).map(|(_, start)| start * (1_000_000_000 / ticks))
}

/// A process and its descendants, empty if there is no such process.
#[must_use]
pub fn tree(root: u32) -> BTreeSet<u32> {
    trees([root])
}

/// Processes and their descendants, by one look at all processes; those that are gone are left out.
#[must_use]
pub fn trees(roots: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in processes() {
        if let Some((parent, _)) = stat(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut next: Vec<u32> = roots.into_iter().filter(|root| stat(*root).is_some()).collect();
    while let Some(pid) = next.pop() {
        if found.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// Processes by their name, as the kernel cuts it to 15 characters; without this one, which observes and is no server of
/// that name.
#[must_use]
pub fn named(comm: &str) -> Vec<u32> {
    let cut: String = comm.chars().take(15).collect();
    processes()
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == cut))
        .collect()
}

/// A process of each network namespace but our own, as far as we may look.
pub(crate) fn other_namespaces() -> Vec<u32> {
    let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let mut seen: HashSet<PathBuf> = of("self").into_iter().collect();
    processes().filter(|pid| of(&pid.to_string()).is_some_and(|namespace| seen.insert(namespace))).collect()
}

/// Inodes of the sockets that a process holds open.
pub(crate) fn socket_inodes(pid: u32) -> HashSet<u64> {
    let listing = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    listing
        .filter_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?;
            link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

/// The TCP ports that processes listen on.
#[must_use]
pub fn listening_ports(pids: &BTreeSet<u32>) -> BTreeSet<u16> {
    // A namespace's table is read once, not for each of a server's processes: it has a line for every connection, those
    // that have ended lately included.
    let mut namespaces: HashMap<PathBuf, (u32, HashSet<u64>)> = HashMap::new();
    for pid in pids {
        // Whose namespace may not be seen, of them no descriptors are seen either.
        let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/net")) else { continue };
        namespaces.entry(namespace).or_insert_with(|| (*pid, HashSet::new())).1.extend(socket_inodes(*pid));
    }
    let mut ports = BTreeSet::new();
    for (pid, inodes) in namespaces.into_values().filter(|(_, inodes)| !inodes.is_empty()) {
        let listening = listening_sockets(&pid.to_string());
        ports.extend(listening.into_iter().filter(|one| inodes.contains(&one.inode)).map(|one| one.address.port()));
    }
    ports
}

/// The processes that listen on a TCP port.
///
/// # Errors
/// [`TargetError::NoListener`] if no process does, [`TargetError::Hidden`] if we may not see which one.
pub fn listeners_of_port(port: u16) -> Result<BTreeSet<u32>, TargetError> {
    let at_port = |of: &str| -> HashSet<u64> {
        listening_sockets(of).into_iter().filter(|one| one.address.port() == port).map(|one| one.inode).collect()
    };
    let mut inodes = at_port("self");
    if inodes.is_empty() {
        // No process of our own network namespace listens: we look in the other ones, such as a container's.
        inodes = other_namespaces().iter().flat_map(|pid| at_port(&pid.to_string())).collect();
    }
    if inodes.is_empty() {
        return Err(TargetError::NoListener(port));
    }
    let pids: BTreeSet<u32> = processes().filter(|pid| !socket_inodes(*pid).is_disjoint(&inodes)).collect();
    if pids.is_empty() { Err(TargetError::Hidden(port)) } else { Ok(pids) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let target = Target::of_port(port).expect("this process listens");
        assert!(target.pids.contains(&std::process::id()));
        assert!(Target::of_pid(std::process::id()).expect("this process").ports.contains(&port));
        drop(listener);
        assert!(matches!(Target::of_port(port), Err(TargetError::NoListener(_))));
    }

    #[test]
    fn strangers_are_refused_in_words() {
        assert!(matches!(Target::of_pid(u32::MAX), Err(TargetError::NoPid(_))));
        let error = Target::of_comm("no-such-server").expect_err("nothing of that name");
        assert!(error.to_string().contains("no-such-server"));
    }

    #[test]
    fn a_search_by_name_does_not_find_its_own_process() {
        let own = fs::read_to_string("/proc/self/comm").expect("readable");
        let found = named(own.trim_end());
        assert!(!found.contains(&std::process::id()), "{found:?}");
    }
}
