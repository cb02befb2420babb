//! Who asks: for those on the way of a request that treat clients differently.

use std::net::IpAddr;
use std::os::fd::RawFd;

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) client: IpAddr,
    /// The connection, by a number that is never given to another one.
    pub(crate) connection: u64,
    /// Its socket of TCP, or of the Unix domain; none with QUIC.
    pub(crate) socket: Option<RawFd>,
}
