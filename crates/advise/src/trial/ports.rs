//! Ports of copies.

use anyhow::bail;
use std::net::{Ipv4Addr, TcpListener};

/// Below those from which Linux takes clients' ports: under load one of those would take a chosen one first.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
const TRIES: u16 = 500;

/// A port on which no process listens, and that is not yet in `taken`.
pub(super) fn free(taken: &mut Vec<u16>) -> anyhow::Result<u16> {
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    for step in 0..TRIES {
        let port = FIRST + (start + step) % COUNT;
        if !taken.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            taken.push(port);
            return Ok(port);
        }
    }
    bail!("none of {TRIES} ports from {} on is free for the copies", FIRST + start)
}

/// The port of a listening address: `80`, `*:80`, `127.0.0.1:80`, `[::]:80`; `None` for a Unix socket.
pub(super) fn of_listen(text: &str) -> Option<u16> {
    if text.starts_with("unix:") || text.starts_with('/') {
        return None;
    }
    match text.rsplit_once(':') {
        // The colons of `[::1]` alone are no port: nginx then takes its default.
        Some((_, port)) if !port.ends_with(']') => port.parse().ok(),
        Some(_) => Some(80),
        // nginx: an address without a port is on port 80.
        None => text.parse().ok().or(Some(80)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_addresses() {
        let ports = ["80", "*:81", "127.0.0.1:82", "[::]:83", "[::1]", "localhost", "unix:/run/x"].map(of_listen);
        assert_eq!(ports, [Some(80), Some(81), Some(82), Some(83), Some(80), Some(80), None]);
        let mut taken = Vec::new();
        let (one, other) = (free(&mut taken).expect("a port"), free(&mut taken).expect("a port"));
        assert_ne!(one, other);
    }
}
