//! Ports for servers that cannot choose one themselves.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Below the range from which Linux takes the local ports of clients: under load one of those
/// would take a chosen port before the server does.
const FIRST: u32 = 15_000;
const COUNT: u32 = 17_000;

/// A port on which no process listens.
pub(super) fn free() -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Test programs run side by side; each starts at another place, so that they seldom meet.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    let start = std::process::id().wrapping_mul(2_654_435_761).wrapping_add(time >> 10);
    for _ in 0..200 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = (FIRST + start.wrapping_add(step) % COUNT) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "none of 200 ports is free"))
}

/// A port of 127.0.0.1 on which no process listens, for a server that cannot choose one; each call gives another.
///
/// It lies below the ports that the kernel hands out: one of those, found free and given back, may be the next test's.
///
/// # Panics
/// Where none of 200 ports is free.
#[must_use]
pub fn free_port() -> u16 {
    free().expect("one of 200 ports is free")
}
