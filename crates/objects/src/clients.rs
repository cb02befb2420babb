//! Connections of load generators: whose requests have names that the generator tells once they are answered.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Connections that are known; of more, those go that were used longest ago.
const MOST: usize = 1 << 16;

/// A connection: the generator's lane, and its number there.
pub(crate) type ClientId = (u32, u64);

#[derive(Debug)]
struct Client {
    local: SocketAddr,
    remote: SocketAddr,
    /// A request was told since it was looked at last.
    used: bool,
}

/// The connections of generators.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    known: FxHashMap<ClientId, Client>,
    by_local: FxHashMap<SocketAddr, ClientId>,
    /// In the order in which they are looked at when one must go.
    order: VecDeque<ClientId>,
}

impl Clients {
    /// A connection is established, between the generator's end and the server's.
    pub(crate) fn connect(&mut self, id: ClientId, local: SocketAddr, remote: SocketAddr) {
        let before = self.known.insert(id, Client { local, remote, used: false });
        if let Some(before) = &before
            && self.by_local.get(&before.local) == Some(&id)
        {
            self.by_local.remove(&before.local);
        }
        self.by_local.insert(local, id);
        if before.is_some() {
            return;
        }
        self.order.push_back(id);
        while self.known.len() > MOST {
            let Some(oldest) = self.order.pop_front() else { return };
            match self.known.get_mut(&oldest) {
                // Each request that was told lets its connection stay once.
                Some(client) if client.used => {
                    client.used = false;
                    self.order.push_back(oldest);
                }
                _ => self.forget(oldest),
            }
        }
    }

    fn forget(&mut self, id: ClientId) {
        let Some(client) = self.known.remove(&id) else { return };
        // The address may be another connection's by now.
        if self.by_local.get(&client.local) == Some(&id) {
            self.by_local.remove(&client.local);
        }
    }

    /// The ends of a connection of which a request is told: the generator's, and the server's.
    pub(crate) fn of_request(&mut self, id: ClientId) -> Option<(SocketAddr, SocketAddr)> {
        let client = self.known.get_mut(&id)?;
        client.used = true;
        Some((client.local, client.remote))
    }

    /// Whether an address is a generator's end.
    pub(crate) fn have(&self, local: &SocketAddr) -> bool {
        self.by_local.contains_key(local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_leave_those_that_are_used() {
        let mut clients = Clients::default();
        let at = |number: u64| SocketAddr::from(([127, (number >> 16) as u8, 0, 1], number as u16));
        let server = SocketAddr::from(([127, 0, 0, 1], 80));
        for number in 0..(2 * MOST as u64) {
            clients.connect((7, number), at(number), server);
            // One of them is used all along.
            assert_eq!(clients.of_request((7, 5)).is_some(), number >= 5);
        }
        let last = 2 * MOST as u64 - 1;
        assert_eq!((clients.known.len(), clients.by_local.len(), clients.order.len()), (MOST, MOST, MOST));
        assert!(clients.have(&at(last)) && clients.have(&at(5)) && !clients.have(&at(6)));
        assert_eq!(clients.of_request((7, last)), Some((at(last), server)));
        // The number of a connection that is there: its address changes, and nothing is kept of it twice.
        clients.connect((7, last), at(1), server);
        assert_eq!((clients.of_request((7, last)), clients.order.len()), (Some((at(1), server)), MOST));
        assert_eq!((clients.have(&at(last)), clients.by_local.len()), (false, MOST));
    }
}
