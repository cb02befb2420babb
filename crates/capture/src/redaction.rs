//! Addresses of clients are people's: unless they are to be kept, a run holds keyed hashes in their place.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use weir_wire::socket::{HASHED_CLIENT, SocketOpen};

/// Which addresses are kept, and what takes the place of others: the same for the same address, within one recording.
/// The key is random, lives in memory only and ends with the recording.
#[derive(Debug)]
pub(crate) struct Redaction {
    key: RandomState,
    own: BTreeSet<IpAddr>,
}

impl Redaction {
    /// Keeps the addresses of this host's interfaces.
    pub(crate) fn new() -> Self {
        Self { key: RandomState::new(), own: own_addresses() }
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
