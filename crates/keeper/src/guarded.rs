//! Sockets of servers that this keeper has a second descriptor of, so that the kernel does not end their connections when
//! the server is killed.

use crate::flow::Flow;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Servers at a time: one, and the one that takes its place.
const SERVERS_MAX: usize = 16;
/// Sockets of all of them.
const SOCKETS_MAX: usize = 4_096;
/// Descriptors that the keeper needs besides: its table, its socket, its clients, and what is being moved.
const OTHER_DESCRIPTORS: u64 = 256;

/// Why a socket is not guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotGuarded {
    /// The server is not known, or has ended.
    UnknownServer,
    /// There are as many as there may be.
    Full(u32),
}

/// The sockets of servers that live.
#[derive(Debug)]
pub(crate) struct Guarded {
    servers: HashMap<u64, HashMap<Flow, OwnedFd>>,
    sockets_max: usize,
    count: usize,
}

impl Guarded {
    /// Guards as many as the process may have descriptors for.
    pub(crate) fn new() -> Self {
        let descriptors = raise_descriptors(SOCKETS_MAX as u64 + OTHER_DESCRIPTORS);
        let room = usize::try_from(descriptors.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(SOCKETS_MAX);
        Self { servers: HashMap::new(), sockets_max: room.min(SOCKETS_MAX), count: 0 }
    }

    /// A server that lives, of which nothing is guarded yet; whether it was not known.
    pub(crate) fn begin(&mut self, server: u64) -> Result<bool, NotGuarded> {
        if !self.servers.contains_key(&server) && self.servers.len() >= SERVERS_MAX {
            return Err(NotGuarded::Full(SERVERS_MAX as u32));
        }
        let before = self.servers.insert(server, HashMap::new());
        self.count -= before.as_ref().map_or(0, HashMap::len);
        Ok(before.is_none())
    }

    /// Guards a socket of a server.
    pub(crate) fn put(&mut self, server: u64, flow: Flow, socket: OwnedFd) -> Result<(), NotGuarded> {
        // Below the bound of this type.
        let full = NotGuarded::Full(self.sockets_max as u32);
        let sockets = self.servers.get_mut(&server).ok_or(NotGuarded::UnknownServer)?;
        if !sockets.contains_key(&flow) && self.count >= self.sockets_max {
            return Err(full);
        }
        self.count += usize::from(sockets.insert(flow, socket).is_none());
        Ok(())
    }

    /// Lets go of the sockets of these connections.
    pub(crate) fn let_go(&mut self, flows: &[Flow]) {
        for sockets in self.servers.values_mut() {
            self.count -= flows.iter().filter(|flow| sockets.remove(flow).is_some()).count();
        }
    }

    /// Of a server that has ended: its sockets. It is told as one that lives until there are none left, and this is called
    /// once more.
    pub(crate) fn take(&mut self, server: u64) -> HashMap<Flow, OwnedFd> {
        let sockets = self.servers.get_mut(&server).map(std::mem::take).unwrap_or_default();
        self.count -= sockets.len();
        if sockets.is_empty() {
            self.servers.remove(&server);
        }
        sockets
    }

    /// The servers that live.
    pub(crate) fn servers(&self) -> Vec<u64> {
        self.servers.keys().copied().collect()
    }

    /// How many sockets are guarded.
    pub(crate) fn count(&self) -> u64 {
        self.count as u64
    }
}

/// Raises the process's bound on descriptors as far as it may; the bound that holds then.
fn raise_descriptors(wanted: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure, which lives over it.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    if limit.rlim_cur < wanted {
        let before = limit.rlim_cur;
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: the call reads the structure, which lives over it.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return before;
        }
    }
    limit.rlim_cur
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn flow(port: u16) -> Flow {
        Flow { client: (Ipv4Addr::new(10, 0, 0, 2), port).into(), service: (Ipv4Addr::new(10, 0, 0, 80), 80).into() }
    }

    fn descriptor() -> OwnedFd {
        std::fs::File::open("/dev/null").expect("it is everywhere").into()
    }

    #[test]
    fn sockets_have_a_bound_and_belong_to_a_server_that_lives() {
        let mut guarded = Guarded { sockets_max: 2, ..Guarded::new() };
        assert_eq!(guarded.put(1, flow(1), descriptor()), Err(NotGuarded::UnknownServer));
        assert_eq!((guarded.begin(1), guarded.begin(2)), (Ok(true), Ok(true)));
        guarded.put(1, flow(1), descriptor()).expect("room");
        // Its response was copied again.
        guarded.put(1, flow(1), descriptor()).expect("room");
        guarded.put(2, flow(2), descriptor()).expect("room");
        assert_eq!(guarded.put(2, flow(3), descriptor()), Err(NotGuarded::Full(2)));
        guarded.let_go(&[flow(1), flow(9)]);
        assert_eq!(guarded.count(), 1);
        guarded.put(2, flow(3), descriptor()).expect("room");
        assert_eq!((guarded.take(2).len(), guarded.count(), guarded.servers().len()), (2, 0, 2));
        guarded.put(2, flow(4), descriptor()).expect("it was on its way");
        assert_eq!((guarded.take(2).len(), guarded.take(2).len()), (1, 0));
        assert_eq!((guarded.count(), guarded.servers()), (0, vec![1]));
        assert_eq!(guarded.put(2, flow(2), descriptor()), Err(NotGuarded::UnknownServer));
    }

    #[test]
    fn a_server_that_begins_again_has_nothing_of_before() {
        let mut guarded = Guarded::new();
        assert_eq!(guarded.begin(1), Ok(true));
        guarded.put(1, flow(1), descriptor()).expect("room");
        assert_eq!((guarded.begin(1), guarded.count()), (Ok(false), 0));
        for server in 2..=SERVERS_MAX as u64 {
            assert_eq!(guarded.begin(server), Ok(true));
        }
        assert_eq!(guarded.begin(99), Err(NotGuarded::Full(16)));
        assert_eq!(guarded.begin(1), Ok(false));
    }
}
