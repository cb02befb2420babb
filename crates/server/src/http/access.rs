//! Which clients are let in, by their network.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    addr: IpAddr,
    bits: u32,
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (addr, bits) = text.split_once('/').map_or((text, None), |(addr, bits)| (addr, Some(bits)));
        let addr: IpAddr = addr.parse().map_err(drop)?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(drop)?;
        let network = Self { addr: masked(addr, bits), bits };
        // Bits beyond the network's own are a slip: 10.0.0.1/8 or 10.0.0.1/32?
        if bits > most || network.addr != addr { Err(()) } else { Ok(network) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = self.bits == if self.addr.is_ipv4() { 32 } else { 128 };
        if is_whole { write!(f, "{}", self.addr) } else { write!(f, "{}/{}", self.addr, self.bits) }
    }
}

impl Network {
    /// Whether it is all of IPv4 or of IPv6.
    pub(crate) fn is_everything(self) -> bool {
        self.bits == 0
    }

    /// Whether an address is within it.
    pub(crate) fn holds(self, addr: IpAddr) -> bool {
        self.addr.is_ipv4() == addr.is_ipv4() && masked(addr, self.bits) == self.addr
    }
}

/// The first bits of an address; the others are 0.
pub(crate) fn masked(addr: IpAddr, bits: u32) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(addr) & mask).into())
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(addr) & mask).into())
        }
    }
}

/// Networks that are let in and networks that are not: the smallest that holds a client decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// With whether they are let in; the smallest come first, of equal ones those that are not.
    networks: Vec<(Network, bool)>,
    /// What becomes of all others.
    otherwise: bool,
}

impl Access {
    /// Without a network to let in, all are that are not refused.
    pub(crate) fn new(allowed: &[Network], denied: &[Network]) -> Self {
        let mut networks: Vec<_> = allowed.iter().map(|network| (*network, true)).collect();
        networks.extend(denied.iter().map(|network| (*network, false)));
        networks.sort_by_key(|(network, allows)| (std::cmp::Reverse(network.bits), *allows));
        Self { networks, otherwise: allowed.is_empty() }
    }

    pub(crate) fn allows(&self, client: IpAddr) -> bool {
        let found = self.networks.iter().find(|(network, _)| network.holds(client));
        found.map_or(self.otherwise, |(_, allows)| *allows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().expect("a network")).collect()
    }

    #[test]
    fn the_smallest_network_decides() {
        let access =
            Access::new(&networks(&["10.0.0.0/8", "::1"]), &networks(&["10.1.0.0/16", "10.0.0.0/8", "0.0.0.0/0"]));
        for (client, expected) in
            [("10.1.2.3", false), ("10.2.0.1", false), ("::1", true), ("::2", false), ("1.1.1.1", false)]
        {
            assert_eq!(access.allows(client.parse().expect("an address")), expected, "{client}");
        }
        let inner = Access::new(&networks(&["10.1.0.0/16"]), &networks(&["10.0.0.0/8"]));
        assert!(inner.allows("10.1.2.3".parse().expect("an address")));
        assert!(!inner.allows("10.2.2.3".parse().expect("an address")));
        let only_deny = Access::new(&[], &networks(&["192.0.2.7"]));
        assert!(!only_deny.allows("192.0.2.7".parse().expect("an address")));
        assert!(only_deny.allows("192.0.2.8".parse().expect("an address")));
        for bad in ["", "10.0.0.1/8", "10.0.0.0/33", "::/129", "host", "10.0.0.0/-1"] {
            assert_eq!(bad.parse::<Network>(), Err(()), "{bad}");
        }
    }
}
