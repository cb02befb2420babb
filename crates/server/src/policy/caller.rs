//! The client of a request, for code that treats clients differently.

use crate::policy::leased::Leased;
use std::net::IpAddr;
use std::os::fd::RawFd;

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) client: IpAddr,
    /// The connection, by a number that is never given to another one.
    pub(crate) connection: u64,
    /// Its socket of TCP, or of the Unix domain; none with QUIC.
    pub(crate) socket: Option<RawFd>,
    /// Whether what is sent to it is encrypted.
    pub(crate) is_secure: bool,
    /// What it was advised last; none where nothing of it is kept.
    pub(crate) leased: Option<&'a Leased>,
}

impl Caller<'_> {
    /// The same where what it was advised last is not at hand.
    pub(crate) fn alone(&self) -> Caller<'static> {
        Caller { leased: None, ..*self }
    }
}
