//! The header that tells an upstream whose connection is passed on: the PROXY protocol, versions 1 and 2
//! (<https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>).

use super::endpoints::Endpoints;
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
/// is 0 where another proxy has passed its request on, and so is the address that it reached where that is of another
/// family, or not known.
pub(super) fn header(version: ProxyHeader, client: Option<(IpAddr, Endpoints)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    let Some((client, Endpoints { client_port, local })) = client else {
        match version {
            ProxyHeader::V1 => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
            ProxyHeader::V2 => {
                out.extend_from_slice(SIGNATURE);
                out.extend_from_slice(&[LOCAL, 0, 0, 0]);
            }
        }
        return out;
    };
    let client = client.to_canonical();
    let nowhere = if client.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let local = local.map(|local| (local.ip().to_canonical(), local.port()));
    let (reached, port) = local.filter(|(ip, _)| ip.is_ipv4() == client.is_ipv4()).unwrap_or((nowhere, 0));
    match version {
        ProxyHeader::V1 => {
            let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
            // Writing to memory does not fail.
            let _ = write!(out, "PROXY {family} {client} {reached} {client_port} {port}\r\n");
        }
        ProxyHeader::V2 => {
            out.extend_from_slice(SIGNATURE);
            out.extend_from_slice(if client.is_ipv4() { &[PROXY, TCP4, 0, 12] } else { &[PROXY, TCP6, 0, 36] });
            for address in [client, reached] {
                match address {
                    IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
                    IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
                }
            }
            out.extend_from_slice(&client_port.to_be_bytes());
            out.extend_from_slice(&port.to_be_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::proxy_protocol::{self, Beginning, Passed};
    use std::net::SocketAddr;

    #[test]
    fn what_is_written_is_read_again() {
        for version in [ProxyHeader::V1, ProxyHeader::V2] {
            for (client, local) in [
                ("192.0.2.7", "198.51.100.1:443"),
                ("2001:db8::7", "[2001:db8::1]:443"),
                ("::ffff:192.0.2.7", "[::ffff:198.51.100.1]:443"),
                ("192.0.2.7", "[2001:db8::1]:443"),
            ] {
                let client: IpAddr = client.parse().expect("an address");
                let local: SocketAddr = local.parse().expect("an address");
                let out = header(version, Some((client, Endpoints { client_port: 4711, local: Some(local) })));
                let Ok(Beginning::Header(bytes, Passed::Between { client: read, local: server })) =
                    proxy_protocol::read(&out)
                else {
                    panic!("{version:?} {client} {}", out.escape_ascii());
                };
                assert_eq!((bytes, read), (out.len(), SocketAddr::new(client.to_canonical(), 4711)));
                let is_same = local.ip().to_canonical().is_ipv4() == client.to_canonical().is_ipv4();
                let reached = SocketAddr::new(local.ip().to_canonical(), local.port());
                assert_eq!(server == reached, is_same, "{server} {reached}");
            }
            let own = header(version, None);
            assert_eq!(proxy_protocol::read(&own), Ok(Beginning::Header(own.len(), Passed::Own)), "{version:?}");
        }
    }
}
