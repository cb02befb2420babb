//! Addresses of clients are people's: unless they are to be kept, a run holds keyed hashes in their place.

use crate::strangers::Strangers;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use weir_wire::socket::{HASHED_CLIENT, OLDER, SocketOpen};
use weir_wire::{Record, Slot};

/// Addresses of this host that are told apart; further ones are taken for clients'.
const MOST_OWN: usize = 1 << 12;

/// Which addresses are kept, and what takes the place of others: the same for the same address, within one recording.
/// The key is random, lives in memory only and ends with the recording.
#[derive(Debug)]
pub(crate) struct Redaction {
    key: RandomState,
    own: BTreeSet<IpAddr>,
    strangers: Strangers,
}

impl Redaction {
    /// Keeps the addresses of this host's interfaces, and those that its sockets turn out to have.
    pub(crate) fn new() -> Self {
        Self { key: RandomState::new(), own: own_addresses(), strangers: Strangers::default() }
    }

    /// Gives a record on without the addresses of clients: of a connection at one of the server's ports the other end is
    /// hidden, and any other is told when the server turns out to deal with it.
    pub(crate) fn pass(
        &mut self,
        record: Record,
        slots: &[Slot],
        is_servers: impl Fn(u16) -> bool,
        keep: &mut dyn FnMut(Record, &[Slot]),
    ) {
        let Some(open) = SocketOpen::read(&record, slots) else {
            if let Some(open) = self.strangers.met(&record) {
                let open = if is_servers(open.local.port()) { self.apply(open) } else { open };
                let (told, slots) = open.write(record.time_ns, record.lane);
                keep(Record { flags: OLDER, ..told }, &slots);
            }
            return keep(record, slots);
        };
        // Containers have addresses that no interface of ours has; what one asks of another is no client's.
        if self.own.len() < MOST_OWN {
            self.own.insert(open.local.ip());
        }
        if is_servers(open.local.port()) {
            let (hidden, slots) = self.apply(open).write(record.time_ns, record.lane);
            keep(Record { flags: record.flags, ..hidden }, &slots);
        } else if !self.strangers.hold(open) {
            keep(record, slots);
        }
    }

    /// Nothing is known of any socket from here on.
    pub(crate) fn forget_sockets(&mut self) {
        self.strangers = Strangers::default();
    }

    /// Sockets that found no room since this was last asked, and will never be told.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        self.strangers.take_dropped()
    }

    /// A client's connection without its client's address. The port stays: connections are told apart by it.
    pub(crate) fn apply(&self, open: SocketOpen) -> SocketOpen {
        let address = open.remote.ip();
        if address.is_loopback() || self.own.contains(&address) || address == open.local.ip() {
            return open;
        }
        let hash = self.key.hash_one(address);
        let stands_for = Ipv6Addr::from_bits(u128::from(HASHED_CLIENT) << 64 | u128::from(hash));
        SocketOpen { remote: SocketAddr::new(IpAddr::V6(stands_for), open.remote.port()), ..open }
    }
}

/// The addresses of this host's interfaces (getifaddrs(3)).
fn own_addresses() -> BTreeSet<IpAddr> {
    let mut found = BTreeSet::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the pointer is to a pointer of ours, which the call fills in.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return found;
    }
    let mut next = first;
    // SAFETY: the list is linked by the call and ends in null; an address is of the size that its family says.
    unsafe {
        while let Some(entry) = next.as_ref() {
            if let Some(address) = entry.ifa_addr.as_ref() {
                match i32::from(address.sa_family) {
                    libc::AF_INET => {
                        let v4 = entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                        found.insert(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()));
                    }
                    libc::AF_INET6 => {
                        let v6 = entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                        found.insert(IpAddr::from(v6.sin6_addr.s6_addr));
                    }
                    _ => {}
                }
            }
            next = entry.ifa_next;
        }
        libc::freeifaddrs(first);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::socket::unknown_address;

    fn open(local: &str, remote: &str) -> SocketOpen {
        let address = |text: &str| text.parse().expect("an address");
        SocketOpen {
            socket: 1,
            receive_base: 2,
            send_base: 3,
            cookie: 4,
            netns: 5,
            local: address(local),
            remote: address(remote),
        }
    }

    #[test]
    fn a_stranger_is_hidden_in_the_same_way_each_time() {
        let (one, other) = (Redaction::new(), Redaction::new());
        let stranger = open("192.0.2.1:80", "198.51.100.7:4000");
        let hidden = one.apply(stranger);
        assert_ne!(hidden.remote.ip(), stranger.remote.ip());
        assert_eq!(hidden.remote.port(), 4000);
        assert_eq!((hidden.local, hidden.cookie), (stranger.local, stranger.cookie));
        let again = one.apply(open("192.0.2.1:80", "198.51.100.7:4001"));
        assert_eq!(again.remote.ip(), hidden.remote.ip(), "one client stays one client");
        assert_ne!(one.apply(open("192.0.2.1:80", "198.51.100.8:4000")).remote.ip(), hidden.remote.ip());
        // Two recordings do not tell whether it was the same one.
        assert_ne!(other.apply(stranger).remote.ip(), hidden.remote.ip());
    }

    #[test]
    fn other_services_connections_are_told_only_where_the_server_uses_them() {
        let mut redaction = Redaction::new();
        let mut told = Vec::new();
        let mut pass = |record: Record, slots: &[Slot]| {
            let mut keep = |record: Record, slots: &[Slot]| told.push((record, SocketOpen::read(&record, slots)));
            redaction.pass(record, slots, |port| port == 80, &mut keep);
        };
        let (client, login) = (open("192.0.2.1:80", "198.51.100.7:4000"), open("192.0.2.1:22", "198.51.100.7:5000"));
        let (login, database) = (SocketOpen { socket: 2, ..login }, open("192.0.2.1:40000", "203.0.113.9:5432"));
        let database = SocketOpen { socket: 3, ..database };
        for one in [client, login, database] {
            let (record, slots) = one.write(5, 1);
            pass(record, &slots);
        }
        for socket in [1, 3] {
            let record =
                Record { time_ns: 9, kind: weir_wire::Kind::SocketSend as u16, a: socket, ..Record::default() };
            pass(record, &[]);
        }
        let opens: Vec<_> =
            told.iter().filter_map(|(record, open)| Some((record.time_ns, record.flags, (*open)?))).collect();
        assert_eq!(opens.len(), 2, "{told:?}");
        assert_eq!((opens[0].0, opens[0].1, opens[0].2.socket), (5, 0, 1));
        assert_ne!(opens[0].2.remote.ip(), client.remote.ip());
        assert_eq!(opens[1], (9, OLDER, database), "before the event that tells whose it is");
        assert_eq!(told.len(), 4);
        assert!(told[2].1.is_some() && told[3].1.is_none());
    }

    #[test]
    fn what_one_container_asks_of_another_is_not_hidden() {
        let mut redaction = Redaction::new();
        let told = |redaction: &mut Redaction, one: SocketOpen| {
            let (record, slots) = one.write(5, 1);
            let mut told = None;
            redaction
                .pass(record, &slots, |port| port == 80, &mut |record, slots| told = SocketOpen::read(&record, slots));
            told
        };
        let asked = open("198.51.100.3:80", "198.51.100.2:4000");
        assert_ne!(told(&mut redaction, asked), Some(asked), "of its peer nothing is known yet");
        let asks = open("198.51.100.2:4000", "198.51.100.3:80");
        assert_eq!(told(&mut redaction, asks), None);
        assert_eq!(told(&mut redaction, asked), Some(asked));
    }

    #[test]
    fn this_host_is_not_hidden() {
        let redaction = Redaction::new();
        assert!(redaction.own.contains(&IpAddr::from([127, 0, 0, 1])), "{:?}", redaction.own);
        for remote in ["127.0.0.1:4000", "[::1]:4000", "192.0.2.1:4000"] {
            let open = open("192.0.2.1:80", remote);
            assert_eq!(redaction.apply(open), open);
        }
        assert_eq!(unknown_address().port(), 0);
    }
}
