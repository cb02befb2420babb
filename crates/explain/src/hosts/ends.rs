//! Which connections two hosts have with each other: each end's recording tells the sequence numbers with which both
//! directions begin, 64 bits that no other connection has, even where addresses are translated on the way. A load
//! generator's own record has none, so that its connections are known by their addresses.

use std::collections::HashMap;
use std::net::SocketAddr;
use weir_trace::RunReader;
use weir_wire::client::ClientConnection;
use weir_wire::socket::SocketOpen;
use weir_wire::{Kind, Record, Slot};

/// Sockets of a host, and connections of its generators, that are looked at.
const MOST_ENDS: usize = 1 << 20;
/// Numbers of sockets that were made of addresses in memory have this bit.
const OF_ADDRESS: u32 = 1 << 31;

/// An end of a connection on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum End {
    /// A socket, by its number.
    Socket(u32),
    /// A connection of a load generator, by its lane and number.
    Client(u32, u64),
}

/// A connection between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shared {
    /// The host and the end that was accepted, where that is known, and where its streams begin.
    pub(super) server: (usize, End),
    pub(super) client: (usize, End),
    /// Sequence numbers of the first byte to the server, and of the first byte to the client.
    pub(super) to_server: u32,
    pub(super) to_client: u32,
}

#[derive(Debug, Clone, Copy)]
struct Socket {
    receive_base: u32,
    send_base: u32,
    is_server: bool,
}

/// The ends on a host.
#[derive(Debug, Default)]
pub(super) struct Ends {
    sockets: HashMap<u32, Socket>,
    /// Sockets by their addresses: the only one, or none where several have had them.
    by_address: HashMap<(SocketAddr, SocketAddr), Option<u32>>,
    clients: HashMap<(SocketAddr, SocketAddr), Option<(u32, u64)>>,
    /// The lowest and the highest number of a socket.
    pub(super) numbers: Option<(u32, u32)>,
    /// Ends beyond the bound.
    pub(super) left_out: u64,
    /// Windows of the recording.
    pub(super) windows: u64,
    pub(super) requests: u64,
}

impl Ends {
    /// Reads a run for them.
    pub(super) fn of(reader: &RunReader) -> Self {
        let mut ends = Self::default();
        reader.merge().each(|sourced| {
            ends.push(&sourced.record, sourced.payload);
            true
        });
        ends
    }

    fn push(&mut self, record: &Record, payload: &[Slot]) {
        let (low, high) = record.a_halves();
        match Kind::from_code(record.kind) {
            Some(Kind::SocketOpen) => {
                self.number(low);
                if let Some(open) = SocketOpen::read(record, payload) {
                    self.open(&open);
                }
            }
            Some(Kind::SocketReady) => {
                self.number(low);
                if let Some(socket) = self.sockets.get_mut(&low) {
                    socket.is_server = true;
                }
            }
            Some(Kind::SocketPeer) => [low, high].into_iter().for_each(|id| self.number(id)),
            Some(Kind::SocketRecv | Kind::SocketSend | Kind::SocketState | Kind::ListenReady) => self.number(low),
            Some(Kind::ClientConnection) => {
                if let Some(told) = ClientConnection::read(record, payload).filter(|told| !told.failed) {
                    let end = (record.lane, told.connection);
                    let room = self.clients.len() < MOST_ENDS;
                    self.left_out += u64::from(!room);
                    if room {
                        only(&mut self.clients, (told.local, told.remote), end);
                    }
                }
            }
            Some(Kind::ClientRequest) => self.requests += 1,
            Some(Kind::Window) => self.windows += u64::from(record.flags & 1 == 0),
            _ => {}
        }
    }

    fn number(&mut self, id: u32) {
        if id != 0 && id & OF_ADDRESS == 0 {
            let (first, last) = self.numbers.unwrap_or((id, id));
            self.numbers = Some((first.min(id), last.max(id)));
        }
    }

    fn open(&mut self, open: &SocketOpen) {
        let SocketOpen { socket, receive_base, send_base, .. } = *open;
        let known = self.sockets.get(&socket).is_some_and(|known| known.receive_base == receive_base);
        // Without TCP both directions begin nowhere.
        if known || (receive_base, send_base) == (0, 0) {
            return;
        }
        if self.sockets.len() >= MOST_ENDS {
            self.left_out += 1;
            return;
        }
        self.sockets.insert(socket, Socket { receive_base, send_base, is_server: false });
        only(&mut self.by_address, (open.local, open.remote), socket);
    }

    /// Whether a generator's connections are told.
    pub(super) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }
}

/// Notes what is the only one of a key.
fn only<K: Eq + std::hash::Hash, V: PartialEq>(all: &mut HashMap<K, Option<V>>, key: K, value: V) {
    let same = |known: &Option<V>| known.as_ref() == Some(&value);
    match all.get_mut(&key) {
        Some(known) if !same(known) => *known = None,
        Some(_) => {}
        None => drop(all.insert(key, Some(value))),
    }
}

/// The connections between hosts, by their ends.
pub(super) fn shared(hosts: &[Ends]) -> Vec<Shared> {
    let mut found = Vec::new();
    for (one, ends) in hosts.iter().enumerate() {
        let by_bases: HashMap<(u32, u32), u32> =
            ends.sockets.iter().map(|(id, socket)| ((socket.receive_base, socket.send_base), *id)).collect();
        for (other, others) in hosts.iter().enumerate().skip(one + 1) {
            found.extend(others.sockets.iter().filter_map(|(id, socket)| {
                let peer = by_sequence(&by_bases, *socket)?;
                let own = ends.sockets.get(&peer)?;
                let first = own.is_server || !socket.is_server;
                let (server, client) = if first {
                    ((one, End::Socket(peer), *own), (other, End::Socket(*id), *socket))
                } else {
                    ((other, End::Socket(*id), *socket), (one, End::Socket(peer), *own))
                };
                Some(Shared {
                    server: (server.0, server.1),
                    client: (client.0, client.1),
                    to_server: server.2.receive_base,
                    to_client: client.2.receive_base,
                })
            }));
        }
        for (other, others) in hosts.iter().enumerate().filter(|(other, _)| *other != one) {
            found.extend(ends.clients.iter().filter_map(|((local, remote), client)| {
                let ((lane, connection), id) = ((*client)?, (*others.by_address.get(&(*remote, *local))?)?);
                let socket = others.sockets.get(&id)?;
                Some(Shared {
                    server: (other, End::Socket(id)),
                    client: (one, End::Client(lane, connection)),
                    to_server: socket.receive_base,
                    to_client: socket.send_base,
                })
            }));
        }
    }
    found.sort_by_key(|shared| (shared.server, shared.client));
    found
}

/// The socket at the other end of a connection. The end that has asked for it counts its first byte from the number of its
/// SYN, which is one less than where the other end's data begins.
fn by_sequence(by_bases: &HashMap<(u32, u32), u32>, socket: Socket) -> Option<u32> {
    let Socket { receive_base, send_base, .. } = socket;
    let mirrored = [
        (send_base, receive_base),
        (send_base.wrapping_add(1), receive_base),
        (send_base, receive_base.wrapping_sub(1)),
    ];
    mirrored.iter().find_map(|bases| by_bases.get(bases)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(socket: u32, receive_base: u32, send_base: u32) -> SocketOpen {
        // Each host knows the other by an address that the other does not know: something translates between them.
        let (local, remote) = (SocketAddr::from(([10, 0, 0, 1], 80)), SocketAddr::from(([10, 0, 0, 2], 4_000)));
        SocketOpen { socket, receive_base, send_base, cookie: u64::from(socket), netns: 0, local, remote }
    }

    fn ends(told: &[(SocketOpen, bool)]) -> Ends {
        let mut ends = Ends::default();
        for (open, is_server) in told {
            let (record, slots) = open.write(1, 0);
            ends.push(&record, &slots);
            let ready = Record { kind: Kind::SocketReady as u16, a: u64::from(open.socket), ..Record::default() };
            if *is_server {
                ends.push(&ready, &[]);
            }
        }
        ends
    }

    proptest! {
        /// In any order of the ends, and whether or not the asking one counts from its SYN.
        #[test]
        fn ends_are_found_by_their_sequence_numbers(to_server: u32, to_client: u32, from_syn: bool, turned: bool) {
            prop_assume!((to_server, to_client) != (0, 0) && to_server != 1);
            let server = ends(&[(open(7, to_server, to_client), true)]);
            let client = ends(&[(open(9, to_client, to_server.wrapping_sub(u32::from(from_syn))), false)]);
            let hosts = if turned { [client, server] } else { [server, client] };
            let (server, client) = if turned { (1, 0) } else { (0, 1) };
            let found = Shared { server: (server, End::Socket(7)), client: (client, End::Socket(9)), to_server, to_client };
            prop_assert_eq!(shared(&hosts), vec![found]);
        }

        #[test]
        fn others_are_not_taken_for_them(a: (u32, u32), b: (u32, u32)) {
            let near = |one: u32, other: u32| one.wrapping_sub(other).wrapping_add(1) <= 2;
            prop_assume!(!(near(a.0, b.1) && near(a.1, b.0)));
            let hosts = [ends(&[(open(7, a.0, a.1), true)]), ends(&[(open(9, b.0, b.1), false)])];
            prop_assert_eq!(shared(&hosts), vec![]);
        }
    }
}
