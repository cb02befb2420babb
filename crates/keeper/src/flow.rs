//! A connection by its ends, and what the director saw last of its client.

use crate::encoding::{DecodeError, put_address, put_u32, put_u64, take_address, take_u32, take_u64};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// A TCP connection by its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// The client's end.
    pub client: SocketAddr,
    /// The service's end.
    pub service: SocketAddr,
}

/// The sequence numbers of the first bytes that went through a socket: from them on the kernel counts the socket's bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Birth {
    /// That of the first byte to the client.
    pub send: u32,
    /// That of the first byte of the client.
    pub receive: u32,
}

/// What the director saw last of a client, in the segment with its newest acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The newest acknowledgement number.
    pub ack: u32,
    /// The sequence number behind the newest byte that the client has sent.
    pub sequence_end: u32,
    /// The window in bytes as it stands in the segment: not scaled.
    pub window: u32,
    /// The timestamp's value (`TSval`, RFC 7323), 0 without.
    pub ts_value: u32,
    /// The timestamp that it echoes (`TSecr`), 0 without.
    pub ts_echo: u32,
    /// How long ago the client's last segment was seen.
    pub age: Duration,
}

impl Flow {
    /// Appends its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_address(self.client, out);
        put_address(self.service, out);
    }

    /// Takes one from the front of the bytes.
    ///
    /// # Errors
    /// [`DecodeError`], if they are no encoding.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { client: take_address(bytes)?, service: take_address(bytes)? })
    }

    /// The same with addresses of IPv4 as such, where a socket shows them mapped into IPv6 (`::ffff:a.b.c.d`).
    #[must_use]
    pub fn canonical(self) -> Self {
        Self { client: canonical(self.client), service: canonical(self.service) }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} to {}", self.client, self.service)
    }
}

/// An address of IPv4 as such, without the flow label and scope of IPv6.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Birth {
    /// Appends its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u32(self.send, out);
        put_u32(self.receive, out);
    }

    /// Takes one from the front of the bytes.
    ///
    /// # Errors
    /// [`DecodeError`], if they are no encoding.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { send: take_u32(bytes)?, receive: take_u32(bytes)? })
    }
}

impl Seen {
    /// Appends its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.ack, self.sequence_end, self.window, self.ts_value, self.ts_echo] {
            put_u32(number, out);
        }
        put_u64(u64::try_from(self.age.as_nanos()).unwrap_or(u64::MAX), out);
    }

    /// Takes one from the front of the bytes.
    ///
    /// # Errors
    /// [`DecodeError`], if they are no encoding.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            ack: take_u32(bytes)?,
            sequence_end: take_u32(bytes)?,
            window: take_u32(bytes)?,
            ts_value: take_u32(bytes)?,
            ts_echo: take_u32(bytes)?,
            age: Duration::from_nanos(take_u64(bytes)?),
        })
    }
}
