//! The header that tells an upstream whose connection is passed on: the PROXY protocol, versions 1 and 2
//! (<https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>).

use super::settings::ProxyHeader;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first bytes of version 2 (section 2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 with the commands LOCAL and PROXY.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
/// TCP over IPv4 and IPv6.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// The header for a request of a client; none for a connection that the server makes for itself. The port of the client
/// and the address that it reached are not known here: they are 0.
pub(super) fn header(version: ProxyHeader, client: Option<IpAddr>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    let client = client.map(|client| client.to_canonical());
    match version {
        ProxyHeader::V1 => {
            // Writing to memory does not fail.
            let _ = match client {
                Some(IpAddr::V4(address)) => write!(out, "PROXY TCP4 {address} {} 0 0\r\n", Ipv4Addr::UNSPECIFIED),
                Some(IpAddr::V6(address)) => write!(out, "PROXY TCP6 {address} {} 0 0\r\n", Ipv6Addr::UNSPECIFIED),
                None => write!(out, "PROXY UNKNOWN\r\n"),
            };
        }
        ProxyHeader::V2 => {
            out.extend_from_slice(SIGNATURE);
            match client {
                Some(IpAddr::V4(address)) => {
                    out.extend_from_slice(&[PROXY, TCP4, 0, 12]);
                    out.extend_from_slice(&address.octets());
                    out.extend_from_slice(&[0; 4 + 2 * 2]);
                }
                Some(IpAddr::V6(address)) => {
                    out.extend_from_slice(&[PROXY, TCP6, 0, 36]);
                    out.extend_from_slice(&address.octets());
                    out.extend_from_slice(&[0; 16 + 2 * 2]);
                }
                None => out.extend_from_slice(&[LOCAL, 0, 0, 0]),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::proxy_protocol::{self, Beginning, Passed};

    #[test]
    fn what_is_written_is_read_again() {
        for version in [ProxyHeader::V1, ProxyHeader::V2] {
            for client in ["192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7"] {
                let client: IpAddr = client.parse().expect("an address");
                let out = header(version, Some(client));
                let Ok(Beginning::Header(bytes, Passed::Between { client: read, .. })) = proxy_protocol::read(&out)
                else {
                    panic!("{version:?} {client} {}", out.escape_ascii());
                };
                assert_eq!((bytes, read.ip()), (out.len(), client.to_canonical()));
            }
            let own = header(version, None);
            assert_eq!(proxy_protocol::read(&own), Ok(Beginning::Header(own.len(), Passed::Own)), "{version:?}");
        }
    }
}
