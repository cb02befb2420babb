//! The listening sockets of a network namespace, as /proc/net/tcp and tcp6 show them (proc_net_tcp(5)).

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The state of a socket that listens (TCP_LISTEN).
const LISTENS: &str = "0A";

/// A socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListeningSocket {
    /// Where.
    pub(crate) address: SocketAddr,
    /// Its inode, which the descriptors of its processes name.
    pub(crate) inode: u64,
}

/// The listening TCP sockets that a process's network namespace shows; `of` is a process number, or `self`.
pub(crate) fn listening_sockets(of: &str) -> Vec<ListeningSocket> {
    let text = |table| fs::read_to_string(format!("/proc/{of}/net/{table}")).unwrap_or_default();
    ["tcp", "tcp6"].into_iter().flat_map(|table| text(table).lines().filter_map(line).collect::<Vec<_>>()).collect()
}

/// A line of such a table, if it is of a socket that listens.
fn line(line: &str) -> Option<ListeningSocket> {
    let mut fields = line.split_ascii_whitespace();
    let (local, state) = (fields.nth(1)?, fields.nth(1)?);
    if state != LISTENS {
        return None;
    }
    Some(ListeningSocket { address: address(local)?, inode: fields.nth(5)?.parse().ok()? })
}

/// An address as these tables write it: words of 32 bits in the byte order of the machine, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let hex = address.get(at * 8..at * 8 + 8).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        u32::from_str_radix(hex, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;

    #[test]
    fn both_tables_tell_where_a_socket_listens() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let address = listener.local_addr().expect("its address");
            let told = listening_sockets("self");
            assert!(told.iter().any(|one| one.address == address && one.inode > 0), "{address} is not in {told:?}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(text in "\\PC{0,80}", hex in "[0-9A-Fa-f:]{0,48}") {
            let _ = line(&text);
            let _ = address(&hex);
        }
    }
}
