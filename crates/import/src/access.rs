//! Lists of networks: other servers take the first rule that holds, weir the smallest network.

use std::net::IpAddr;

/// A rule for a network, in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) lets_in: bool,
    pub(crate) network: Network,
}

/// A network, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    All,
    Of { address: IpAddr, bits: u32 },
}

impl Network {
    /// `all`, an address, a network with bits or a mask, or the beginning of an IPv4 address as Apache has it.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("all") {
            return Some(Self::All);
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address = address.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = address.parse::<IpAddr>() {
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = match bits {
                None => most,
                Some(bits) => match bits.parse::<IpAddr>() {
                    Ok(IpAddr::V4(mask)) => mask_bits(mask.into())?,
                    _ => bits.parse().ok().filter(|bits| *bits <= most)?,
                },
            };
            return Some(Self::Of { address: masked(address, bits), bits });
        }
        let parts: Vec<&str> = address.trim_end_matches('.').split('.').collect();
        if bits.is_some() || parts.is_empty() || parts.len() > 3 {
            return None;
        }
        let mut octets = [0_u8; 4];
        for (octet, part) in octets.iter_mut().zip(&parts) {
            *octet = part.parse().ok()?;
        }
        Some(Self::Of { address: IpAddr::from(octets), bits: 8 * u32::try_from(parts.len()).ok()? })
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Of { .. }, Self::All) => false,
            (Self::Of { address: own, bits }, Self::Of { address, bits: other_bits }) => {
                own.is_ipv4() == address.is_ipv4() && bits <= other_bits && masked(*address, *bits) == *own
            }
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Of { address, bits } if *bits == if address.is_ipv4() { 32 } else { 128 } => address.to_string(),
            Self::Of { address, bits } => format!("{address}/{bits}"),
        }
    }
}

fn mask_bits(mask: u32) -> Option<u32> {
    let bits = mask.leading_ones();
    (mask.count_ones() == bits).then_some(bits)
}

fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::from((u32::from(address) & mask_of(bits, 32) as u32).to_be_bytes()),
        IpAddr::V6(address) => IpAddr::from((u128::from(address) & mask_of(bits, 128)).to_be_bytes()),
    }
}

fn mask_of(bits: u32, of: u32) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (of - bits) }
}

/// `allow` and `deny` of weir that say the same as rules of which the first that holds counts; at their end the client
/// is let in or not.
pub(crate) fn first_counts(rules: &[Rule], otherwise: bool) -> (Vec<String>, Vec<String>) {
    let mut kept: Vec<Rule> = Vec::new();
    for rule in rules.iter().chain(&[Rule { lets_in: otherwise, network: Network::All }]) {
        // A rule below one that covers it never holds; without it the smaller network is always the earlier one.
        if !kept.iter().any(|earlier| earlier.network.covers(&rule.network)) {
            kept.push(*rule);
        }
    }
    let of = |lets_in: bool| {
        kept.iter().filter(|rule| rule.lets_in == lets_in).map(|rule| rule.network.text()).collect::<Vec<_>>()
    };
    (of(true), of(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn networks_are_read() {
        for (text, expected) in [
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1", "10.1.0.0/16"),
            ("192.168.", "192.168.0.0/16"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("::1", "::1"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("ALL", "all"),
        ] {
            assert_eq!(Network::read(text).map(|network| network.text()), Some(expected.to_owned()), "{text}");
        }
        for bad in ["", "example.org", "10.0.0.0/33", "300", "unix:", "10.0.0.0/255.0.255.0"] {
            assert_eq!(Network::read(bad), None, "{bad}");
        }
    }

    proptest! {
        /// Of the smallest network that holds a client, `deny` before `allow`: as weir judges.
        #[test]
        fn the_smallest_network_says_the_same(
            rules in proptest::collection::vec((any::<bool>(), 0_u32..4, 0_u32..4), 0..8),
            client in 0_u32..16,
        ) {
            let rules: Vec<Rule> = rules
                .into_iter()
                .map(|(lets_in, address, bits)| {
                    let bits = bits * 2 + 26;
                    let address = masked(IpAddr::from((address << 2).to_be_bytes()), bits);
                    Rule { lets_in, network: Network::Of { address, bits } }
                })
                .collect();
            let client = Network::Of { address: IpAddr::from(client.to_be_bytes()), bits: 32 };
            let expected = rules.iter().find(|rule| rule.network.covers(&client)).is_none_or(|rule| rule.lets_in);
            let (allow, deny) = first_counts(&rules, true);
            let size = |network: &String| match Network::read(network) {
                Some(Network::All) => Some(0),
                Some(own @ Network::Of { bits, .. }) if own.covers(&client) => Some(bits + 1),
                _ => None,
            };
            let most = |list: &[String]| list.iter().filter_map(size).max();
            let lets_in = match (most(&allow), most(&deny)) {
                (Some(allow), Some(deny)) => allow > deny,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => allow.is_empty(),
            };
            prop_assert_eq!(lets_in, expected);
        }
    }
}
