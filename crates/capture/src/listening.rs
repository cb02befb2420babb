//! The servers of this host: processes that listen on TCP ports, in all network namespaces that may be looked at.

use crate::socket_tables::{ListeningSocket, listening_sockets};
use crate::target::{Target, other_namespaces, processes, socket_inodes, stat, trees};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

/// The process that systemd starts others from: it holds their sockets, too.
const INIT: u32 = 1;

/// Where a server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Inode number of the network namespace.
    pub netns: u32,
    /// The TCP port.
    pub port: u16,
}

/// A process that listens, with its children, but for those that are servers of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The process that the others descend from.
    pub root: u32,
    /// The file name of the program that it runs, or its own name where that may not be seen.
    pub program: String,
    /// Where it listens, with one of the addresses.
    pub places: BTreeMap<Place, IpAddr>,
    /// It, and its descendants.
    pub pids: BTreeSet<u32>,
}

impl Listener {
    /// What a recording of it watches.
    #[must_use]
    pub fn target(&self) -> Target {
        Target { pids: self.pids.clone(), ports: self.ports(), ..Target::default() }
    }

    /// Its TCP ports.
    #[must_use]
    pub fn ports(&self) -> BTreeSet<u16> {
        self.places.keys().map(|place| place.port).collect()
    }
}

/// What listens on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listening {
    /// The servers whose processes are known, by their first ports.
    pub servers: Vec<Listener>,
    /// Places of our own namespace whose processes may not be looked at.
    pub hidden: BTreeMap<Place, IpAddr>,
    /// Whether all processes were looked at before the time was up.
    pub complete: bool,
}

/// Looks for what listens, until a time.
#[must_use]
pub fn listening(until: Instant) -> Listening {
    let mut sockets: HashMap<u64, (Place, IpAddr)> = HashMap::new();
    let own = std::iter::once("self".to_owned());
    for of in own.chain(other_namespaces().iter().map(u32::to_string)) {
        let netns = namespace(&of);
        for ListeningSocket { address, inode } in listening_sockets(&of) {
            sockets.insert(inode, (Place { netns, port: address.port() }, address.ip()));
        }
    }
    let mut complete = true;
    let mut holders: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for pid in processes().filter(|pid| *pid != std::process::id()) {
        if Instant::now() > until {
            complete = false;
            break;
        }
        let held: Vec<u64> = socket_inodes(pid).into_iter().filter(|inode| sockets.contains_key(inode)).collect();
        if !held.is_empty() {
            holders.insert(pid, held);
        }
    }
    let own = own_inodes();
    let known: BTreeSet<u64> = holders.values().flatten().chain(&own).copied().collect();
    let ours = namespace("self");
    let hidden = sockets.iter().filter(|(inode, (place, _))| !known.contains(inode) && place.netns == ours);
    let hidden = hidden.map(|(_, (place, ip))| (*place, *ip)).collect();
    Listening { servers: servers(holders, &sockets), hidden, complete }
}

/// Sockets that this process itself holds.
fn own_inodes() -> Vec<u64> {
    socket_inodes(std::process::id()).into_iter().collect()
}

/// The inode number of a process's network namespace, 0 where it may not be seen.
fn namespace(of: &str) -> u32 {
    // The kernel has them as 32 bits.
    fs::metadata(format!("/proc/{of}/ns/net")).map_or(0, |about| about.ino() as u32)
}

/// Holders of sockets, those together that descend from each other or listen at the same place.
fn servers(mut holders: BTreeMap<u32, Vec<u64>>, sockets: &HashMap<u64, (Place, IpAddr)>) -> Vec<Listener> {
    // What another process serves is that one's.
    if let Some(of_init) = holders.remove(&INIT) {
        let served: BTreeSet<u64> = holders.values().flatten().copied().collect();
        let alone: Vec<u64> = of_init.into_iter().filter(|inode| !served.contains(inode)).collect();
        if !alone.is_empty() {
            holders.insert(INIT, alone);
        }
    }
    let mut found: BTreeMap<u32, BTreeMap<Place, IpAddr>> = BTreeMap::new();
    // A shell that a server of logins has started may have started servers in turn.
    let all = |root: u32| if root == INIT { BTreeSet::from([INIT]) } else { trees([root]) };
    for (pid, inodes) in &holders {
        let root = root_of(*pid, &holders);
        let places = inodes.iter().filter_map(|inode| sockets.get(inode));
        found.entry(root).or_default().extend(places.copied());
    }
    let mut servers: Vec<Listener> = Vec::new();
    let within: BTreeMap<u32, BTreeSet<u32>> = found.keys().map(|root| (*root, all(*root))).collect();
    for (root, places) in found {
        let same = servers.iter_mut().find(|other| places.keys().any(|place| other.places.contains_key(place)));
        let mut pids = within[&root].clone();
        let inner = within.iter().filter(|(other, _)| **other != root && pids.contains(other));
        let theirs: BTreeSet<u32> = inner.flat_map(|(_, pids)| pids).copied().collect();
        pids.retain(|pid| !theirs.contains(pid));
        match same {
            Some(other) => {
                other.places.extend(places);
                other.pids.extend(pids);
            }
            None => servers.push(Listener { root, program: program(root), places, pids }),
        }
    }
    servers.sort_by_key(|server| (server.places.keys().map(|place| place.port).min(), server.root));
    servers
}

/// The topmost of a process's ancestors that holds one of its sockets, too.
fn root_of(pid: u32, holders: &BTreeMap<u32, Vec<u64>>) -> u32 {
    let (mut root, mut at) = (pid, pid);
    let own = &holders[&pid];
    // A process that ends meanwhile ends the way; a number that is given anew could make a circle of it.
    for _ in 0..64 {
        let Some((parent, _)) = stat(at).filter(|(parent, _)| *parent > INIT) else { break };
        if holders.get(&parent).is_some_and(|held| held.iter().any(|inode| own.contains(inode))) {
            root = parent;
        }
        at = parent;
    }
    root
}

/// The program that a process runs.
fn program(pid: u32) -> String {
    let file = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let name = file.and_then(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    let name = name.map(|name| name.strip_suffix(" (deleted)").map_or(name.clone(), str::to_owned));
    let own = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned();
    name.unwrap_or_else(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_server_and_its_children_are_one_and_this_process_is_none() {
        let own = TcpListener::bind("127.0.0.1:0").expect("a free port");
        // A shell that has inherited the socket, and its child.
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&own);
        // SAFETY: the descriptor is ours; it is to outlive an exec.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).stdout(Stdio::null()).spawn().expect("sh");
        let port = own.local_addr().expect("its address").port();
        let look = || listening(Instant::now() + Duration::from_secs(30));
        let of_port =
            |listening: &Listening| listening.servers.iter().find(|server| server.ports().contains(&port)).cloned();
        let deadline = Instant::now() + Duration::from_secs(10);
        let server = loop {
            match of_port(&look()) {
                Some(server) if server.pids.len() == 2 => break server,
                other => assert!(Instant::now() < deadline, "{other:?}"),
            }
        };
        assert_eq!(server.root, child.id());
        for pid in server.pids {
            // SAFETY: both are the child and its own child, which still run.
            unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        }
        let _ = child.wait();
        let gone = look();
        assert_eq!((of_port(&gone), gone.complete), (None, true));
        assert!(gone.hidden.keys().all(|place| place.port != port), "our own socket is not another's");
        assert!(!listening(Instant::now() - Duration::from_secs(1)).complete, "no time to look is told");
    }
}
