//! The address of the client behind proxies that are trusted: the last hop that none of them is (RFC 7239 section 8.1,
//! and X-Forwarded-For as proxies write it).
//!
//! One of the two fields counts, and the configuration says which: a proxy that writes one of them passes on what a
//! client writes into the other.

use crate::http::access::Network;
use std::net::{IpAddr, SocketAddr};

/// Lines of the field that are looked at, from the last one on.
const LINES_MAX: usize = 8;
/// Hops that are looked at, from the last one on. The last of them is the client if all are trusted.
const HOPS_MAX: usize = 32;
/// Networks of a configuration.
pub(crate) const NETWORKS_MAX: usize = 256;

/// Which proxies are believed, and by which field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrustedProxies {
    pub(crate) networks: Vec<Network>,
    pub(crate) field: ClientField,
}

/// The field that trusted proxies write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ClientField {
    /// X-Forwarded-For, with X-Forwarded-Proto.
    #[default]
    XForwardedFor,
    /// Forwarded (RFC 7239).
    Forwarded,
}

impl TrustedProxies {
    /// Whether a proxy at this address is believed.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.holds(address))
    }
}

/// What is known of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// None if no proxy says it. Of the socket's peer only that caller knows it.
    pub(crate) port: Option<u16>,
    /// Whether it speaks TLS with the proxy that it reached, if that says so.
    pub(crate) is_secure: Option<bool>,
}

/// The client of a request that came from `peer`. A hop that is no address (`unknown`, `_name`) ends the search: the
/// proxy that wrote it stands for the client then.
pub(crate) fn client_address<'f>(
    peer: IpAddr,
    fields: impl Iterator<Item = (&'f str, &'f [u8])>,
    trusted: &TrustedProxies,
) -> Client {
    let mut client = Client { address: peer.to_canonical(), port: None, is_secure: None };
    if trusted.networks.is_empty() || !trusted.holds(peer) {
        return client;
    }
    let name = match trusted.field {
        ClientField::XForwardedFor => "x-forwarded-for",
        ClientField::Forwarded => "forwarded",
    };
    let (mut lines, mut lines_count): ([&[u8]; LINES_MAX], usize) = ([b""; LINES_MAX], 0);
    for (field, value) in fields {
        if field.eq_ignore_ascii_case(name) {
            lines[lines_count % LINES_MAX] = value;
            lines_count += 1;
        } else if trusted.field == ClientField::XForwardedFor && field.eq_ignore_ascii_case("x-forwarded-proto") {
            client.is_secure = last_scheme(value);
        }
    }
    let known = lines_count.min(LINES_MAX);
    let lines = (1..=known).map(|back| lines[(lines_count - back) % LINES_MAX]);
    let hops = lines.flat_map(|line| Backwards { rest: Some(line) }).filter(|hop| !hop.is_empty());
    for hop in hops.take(HOPS_MAX) {
        let (address, is_secure) = match trusted.field {
            ClientField::XForwardedFor => (node(hop), client.is_secure),
            ClientField::Forwarded => element(hop),
        };
        let Some((address, port)) = address else { break };
        client = Client { address, port, is_secure };
        if !trusted.holds(address) {
            break;
        }
    }
    client
}

/// Elements of a list, the last one first, split at commas outside quotes. Quotes are counted from the end, so that one
/// that a client leaves open hides nothing of what a proxy appends.
struct Backwards<'f> {
    rest: Option<&'f [u8]>,
}

impl<'f> Iterator for Backwards<'f> {
    type Item = &'f [u8];

    fn next(&mut self) -> Option<&'f [u8]> {
        let rest = self.rest?;
        let mut is_quoted = false;
        for (at, byte) in rest.iter().enumerate().rev() {
            match byte {
                b'"' => is_quoted = !is_quoted,
                b',' if !is_quoted => {
                    self.rest = Some(&rest[..at]);
                    return Some(rest[at + 1..].trim_ascii());
                }
                _ => {}
            }
        }
        self.rest = None;
        Some(rest.trim_ascii())
    }
}

/// An element of Forwarded: the node of `for`, and whether `proto` is https.
fn element(text: &[u8]) -> (Option<(IpAddr, Option<u16>)>, Option<bool>) {
    let (mut address, mut is_secure) = (None, None);
    for pair in text.split(|byte| *byte == b';') {
        let Some(at) = memchr::memchr(b'=', pair) else { continue };
        let (name, value) = (pair[..at].trim_ascii(), unquoted(pair[at + 1..].trim_ascii()));
        if name.eq_ignore_ascii_case(b"for") {
            address = node(value);
        } else if name.eq_ignore_ascii_case(b"proto") {
            is_secure = scheme(value);
        }
    }
    (address, is_secure)
}

/// An address of IPv4, or of IPv6 with or without brackets, and perhaps a port.
fn node(text: &[u8]) -> Option<(IpAddr, Option<u16>)> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip().to_canonical(), Some(address.port())));
    }
    let bare = text.strip_prefix('[')?.strip_suffix(']')?;
    Some((IpAddr::V6(bare.parse().ok()?).to_canonical(), None))
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

fn last_scheme(list: &[u8]) -> Option<bool> {
    scheme(list.rsplit(|byte| *byte == b',').next()?.trim_ascii())
}

fn scheme(text: &[u8]) -> Option<bool> {
    match text {
        text if text.eq_ignore_ascii_case(b"https") => Some(true),
        text if text.eq_ignore_ascii_case(b"http") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(peer: &str, field: ClientField, fields: &[(&str, &str)]) -> Client {
        let networks = ["10.0.0.0/8", "fd00::/8", "127.0.0.1"];
        let networks = networks.map(|text| text.parse().expect("a network")).to_vec();
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        client_address(peer.parse().expect("an address"), fields, &TrustedProxies { networks, field })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_last_hop_that_is_not_trusted_is_the_client() {
        for (peer, lines, expected) in [
            ("192.0.2.9", vec!["198.51.100.1"], "192.0.2.9"),
            ("10.0.0.1", vec![], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", vec!["198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["6.6.6.6, 198.51.100.1"], "198.51.100.1"),
            ("10.0.0.1", vec!["6.6.6.6, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
            ("10.0.0.1", vec!["6.6.6.6", "198.51.100.1,10.0.0.2", "10.0.0.3"], "198.51.100.1"),
            ("10.0.0.1", vec!["10.0.0.4, 10.0.0.3"], "10.0.0.4"),
            ("10.0.0.1", vec!["198.51.100.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", vec!["198.51.100.1:4711, , "], "198.51.100.1"),
            ("10.0.0.1", vec!["[2001:db8::1]:80"], "2001:db8::1"),
            ("10.0.0.1", vec!["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", vec!["[2001:db8::1]"], "2001:db8::1"),
        ] {
            let fields: Vec<_> = lines.iter().map(|line| ("X-Forwarded-For", *line)).collect();
            assert_eq!(of(peer, ClientField::XForwardedFor, &fields).address, ip(expected), "{peer} {lines:?}");
        }
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_has_it() {
        for (line, expected, port, is_secure) in [
            ("for=192.0.2.43", "192.0.2.43", None, None),
            ("For=\"[2001:db8:cafe::17]:4711\"; proto=HTTPS", "2001:db8:cafe::17", Some(4711), Some(true)),
            ("for=192.0.2.43;proto=http;by=203.0.113.43, for=10.0.0.2;proto=https", "192.0.2.43", None, Some(false)),
            ("for=\"_hidden\", for=10.0.0.2", "10.0.0.2", None, None),
            // A client leaves a quote open.
            ("for=\"6.6.6.6, for=198.51.100.1", "198.51.100.1", None, None),
            ("for=\", for=\"[2001:db8::1]\"", "2001:db8::1", None, None),
            ("by=1.1.1.1", "10.0.0.1", None, None),
        ] {
            let client = of("10.0.0.1", ClientField::Forwarded, &[("Forwarded", line), ("X-Forwarded-For", "6.6.6.6")]);
            assert_eq!(client, Client { address: ip(expected), port, is_secure }, "{line}");
        }
    }

    #[test]
    fn what_an_untrusted_peer_says_counts_for_nothing() {
        let fields = [("X-Forwarded-Proto", "https"), ("X-Forwarded-For", "10.0.0.9")];
        let client = of("192.0.2.1", ClientField::XForwardedFor, &fields);
        assert_eq!(client, Client { address: ip("192.0.2.1"), port: None, is_secure: None });
        let client = of("127.0.0.1", ClientField::XForwardedFor, &fields);
        assert_eq!(client, Client { address: ip("10.0.0.9"), port: None, is_secure: Some(true) });
    }

    proptest! {
        /// A client writes anything; the proxy in front of this server appends what it sees.
        #[test]
        fn a_client_cannot_change_what_a_proxy_appends(
            written in proptest::collection::vec("[ -~]{0,60}", 0..12),
            is_joined in any::<bool>(),
            is_forwarded in any::<bool>(),
        ) {
            let (field, name, seen) = if is_forwarded {
                (ClientField::Forwarded, "forwarded", "for=198.51.100.7")
            } else {
                (ClientField::XForwardedFor, "x-forwarded-for", "198.51.100.7")
            };
            let mut lines = written;
            match lines.last_mut().filter(|_| is_joined) {
                Some(last) => *last = format!("{last}, {seen}"),
                None => lines.push(seen.to_owned()),
            }
            let fields: Vec<_> = lines.iter().map(|line| (name, line.as_str())).collect();
            prop_assert_eq!(of("10.0.0.1", field, &fields).address, ip("198.51.100.7"));
        }

        #[test]
        fn no_bytes_make_it_fail(
            lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..12),
        ) {
            for field in [ClientField::Forwarded, ClientField::XForwardedFor] {
                let trusted = TrustedProxies { networks: vec!["0.0.0.0/0".parse().expect("a network")], field };
                for name in ["forwarded", "x-forwarded-for", "x-forwarded-proto"] {
                    client_address(ip("10.0.0.1"), lines.iter().map(|line| (name, line.as_slice())), &trusted);
                }
            }
        }
    }
}
