//! Bounds of links.

use std::time::Duration;

/// Bounds of a link on time, size and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSettings {
    /// For the connection to be made.
    pub connect_ms: u64,
    /// For the TLS handshake.
    pub handshake_ms: u64,
    /// For the peer to take what is written.
    pub write_ms: u64,
    /// Pause before the second try to connect; it doubles with each.
    pub retry_first_ms: u64,
    /// The longest pause between tries.
    pub retry_max_ms: u64,
    /// Bytes that wait to be written.
    pub queue_bytes_max: usize,
    /// Links that a server has open.
    pub links_max: usize,
    /// Requests that a server answers at a time.
    pub requests_max: usize,
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            connect_ms: 1_000,
            handshake_ms: 1_000,
            write_ms: 2_000,
            retry_first_ms: 10,
            retry_max_ms: 1_000,
            queue_bytes_max: 64 << 20,
            links_max: 256,
            requests_max: 256,
        }
    }
}

impl LinkSettings {
    pub(super) fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms.max(1))
    }

    pub(super) fn handshake(&self) -> Duration {
        Duration::from_millis(self.handshake_ms.max(1))
    }

    pub(super) fn write(&self) -> Duration {
        Duration::from_millis(self.write_ms.max(1))
    }
}
