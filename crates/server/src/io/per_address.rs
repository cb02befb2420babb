//! The number of connections of each client address, where it is bounded.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Without a word an address has one in so many of all connections.
const DEFAULT_SHARE: usize = 4;

/// The open connections of all loops by address; without a bound nothing is counted.
#[derive(Debug)]
pub(crate) struct PerAddress {
    most: usize,
    /// The options do not set the bound. Then the default share holds, except for clients on this machine.
    is_default: bool,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl PerAddress {
    /// `most` connections of an address, 0 = as many as there may be; without a word a quarter of all, which are
    /// `connections_max`.
    pub(crate) fn new(most: Option<usize>, connections_max: usize) -> Self {
        let share = (connections_max / DEFAULT_SHARE).max(1);
        Self { most: most.unwrap_or(share), is_default: most.is_none(), open: Mutex::default() }
    }

    /// Whether the client has to show that the address is its own before the connection counts, because a client with a
    /// forged address could use that share up. The default share is so large that half of it can be lost.
    pub(crate) fn must_show(&self, addr: IpAddr) -> bool {
        if !self.is_default || self.is_spared(addr) {
            return self.most > 0 && !self.is_default;
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&client(addr)).is_some_and(|count| *count >= self.most / 2)
    }

    /// Whether it has no bound: a Unix socket has no address, and over this machine's own come proxies.
    fn is_spared(&self, addr: IpAddr) -> bool {
        self.most == 0 || addr.is_unspecified() || self.is_default && addr.is_loopback()
    }

    /// Counts a connection; whether it may stay.
    pub(crate) fn enter(&self, addr: IpAddr) -> bool {
        if self.is_spared(addr) {
            return true;
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(client(addr)).or_default();
        let may_stay = *count < self.most;
        *count += usize::from(may_stay);
        may_stay
    }

    /// Counts one that was counted before, whether there is room or not.
    pub(crate) fn enter_again(&self, addr: IpAddr) {
        if !self.is_spared(addr) {
            *self.open.lock().unwrap_or_else(PoisonError::into_inner).entry(client(addr)).or_default() += 1;
        }
    }

    /// One that was counted has ended.
    pub(crate) fn leave(&self, addr: IpAddr) {
        if self.is_spared(addr) {
            return;
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&client(addr)) {
            *count -= 1;
            if *count == 0 {
                open.remove(&client(addr));
            }
        }
    }
}

/// What counts as one client: of IPv6 the network that one connection to the Internet is given.
fn client(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => addr,
        IpAddr::V6(addr) => IpAddr::V6((u128::from(addr) & !0 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_gets_it_back() {
        let per_address = PerAddress::new(Some(2), 100);
        let [a, b]: [IpAddr; 2] = ["2001:db8::1".parse().expect("v6"), "2001:db8:0:1::1".parse().expect("v6")];
        let neighbour = "2001:db8::2".parse().expect("v6");
        assert!(per_address.enter(a) && per_address.enter(neighbour));
        assert!(!per_address.enter(a) && per_address.enter(b));
        per_address.leave(neighbour);
        assert!(per_address.enter(a) && !per_address.enter(neighbour));
        per_address.leave(b);
        assert_eq!(per_address.open.lock().expect("no panic").len(), 1);
    }

    #[test]
    fn without_a_word_strangers_have_a_quarter_and_this_machine_all() {
        let per_address = PerAddress::new(None, 16);
        let [stranger, other, proxy, socket]: [IpAddr; 4] =
            ["192.0.2.1", "192.0.2.2", "127.0.0.1", "0.0.0.0"].map(|addr| addr.parse().expect("an address"));
        assert!((0..4).all(|_| per_address.enter(stranger)) && !per_address.enter(stranger));
        assert!(per_address.enter(other));
        assert!((0..16).all(|_| per_address.enter(proxy) && per_address.enter(socket)));
        assert!(per_address.must_show(stranger) && !per_address.must_show(other) && !per_address.must_show(proxy));
        (0..3).for_each(|_| per_address.leave(stranger));
        assert!(!per_address.must_show(stranger) && per_address.enter(stranger));
        (0..16).for_each(|_| per_address.leave(proxy));
        assert_eq!(per_address.open.lock().expect("no panic").len(), 2);
        let said = PerAddress::new(Some(2), 16);
        assert!((0..2).all(|_| said.enter(proxy)) && !said.enter(proxy) && said.must_show(other));
        let unbounded = PerAddress::new(Some(0), 16);
        assert!((0..20).all(|_| unbounded.enter(stranger)) && !unbounded.must_show(stranger));
        assert!(PerAddress::new(None, 1).enter(stranger), "one at least");
    }
}
