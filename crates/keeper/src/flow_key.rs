//! A connection as the filters' maps have it: `struct flow_key` of `bpf/packet.h`.

use crate::flow::Flow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Bytes of `struct flow_key`.
pub(crate) const KEY_BYTES: usize = 36;

/// The key of a flow.
pub(crate) fn key(flow: &Flow) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..16].copy_from_slice(&mapped(flow.client).octets());
    key[16..32].copy_from_slice(&mapped(flow.service).octets());
    key[32..34].copy_from_slice(&flow.client.port().to_be_bytes());
    key[34..].copy_from_slice(&flow.service.port().to_be_bytes());
    key
}

/// The flow of a key; `None` if it is of another length.
pub(crate) fn flow_of(key: &[u8]) -> Option<Flow> {
    let key: &[u8; KEY_BYTES] = key.try_into().ok()?;
    let ip = |at: usize| key[at..at + 16].first_chunk::<16>().map(|ip| Ipv6Addr::from(*ip).to_canonical());
    let port = |at: usize| u16::from_be_bytes([key[at], key[at + 1]]);
    Some(Flow { client: SocketAddr::new(ip(0)?, port(32)), service: SocketAddr::new(ip(16)?, port(34)) })
}

/// The address as IPv6 has it; one of IPv4 mapped (RFC 4291, section 2.5.5.2).
pub(crate) fn mapped(address: SocketAddr) -> Ipv6Addr {
    match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_layout_of_the_filters() {
        let flow = Flow {
            client: "10.1.2.3:258".parse().expect("valid"),
            service: "[2001:db8::1]:80".parse().expect("valid"),
        };
        let key = key(&flow);
        assert_eq!(&key[..16], b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x01\x02\x03");
        assert_eq!(&key[16..32], b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01");
        assert_eq!(&key[32..], b"\x01\x02\0\x50");
        assert_eq!((flow_of(&key), flow_of(&key[1..])), (Some(flow), None));
    }
}
