//! How many connections each client's address has, where that is bounded.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// The open connections of all loops by address; without a bound nothing is counted.
#[derive(Debug)]
pub(crate) struct PerAddress {
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl PerAddress {
    /// `most` connections of an address; 0 = as many as there may be.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Mutex::default() }
    }

    /// Whether there is a bound at all.
    pub(crate) fn is_bounded(&self) -> bool {
        self.most > 0
    }

    /// Counts a connection; whether it may stay.
    pub(crate) fn enter(&self, addr: IpAddr) -> bool {
        if self.most == 0 || addr.is_unspecified() {
            return true;
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(client(addr)).or_default();
        let may_stay = *count < self.most;
        *count += usize::from(may_stay);
        may_stay
    }

    /// One that was counted has ended.
    pub(crate) fn leave(&self, addr: IpAddr) {
        if self.most == 0 {
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
        let per_address = PerAddress::new(2);
        let [a, b]: [IpAddr; 2] = ["2001:db8::1".parse().expect("v6"), "2001:db8:0:1::1".parse().expect("v6")];
        let neighbour = "2001:db8::2".parse().expect("v6");
        assert!(per_address.enter(a) && per_address.enter(neighbour));
        assert!(!per_address.enter(a) && per_address.enter(b));
        per_address.leave(neighbour);
        assert!(per_address.enter(a) && !per_address.enter(neighbour));
        per_address.leave(b);
        assert_eq!(per_address.open.lock().expect("no panic").len(), 1);
    }
}
