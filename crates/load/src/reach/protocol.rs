//! Which version of HTTP is spoken.

use crate::reach::tls::{Tls, TlsVersion};
use std::time::Duration;

/// Which version of HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/1.1: one request at a time on a connection, or a pipeline.
    #[default]
    Http1,
    /// HTTP/2: agreed on in the TLS handshake, and with prior knowledge where there is none.
    Http2 {
        /// Requests under way on a connection, at most; 1 to 10000, and 4000000 on all connections together; 1 without
        /// [`crate::Options::keep_alive`].
        streams: u32,
    },
    /// HTTP/3 over QUIC and UDP, to `https` URLs.
    Http3 {
        /// Requests under way on a connection, at most; as with HTTP/2.
        streams: u32,
        /// Whether the first requests of a connection whose session is resumed go out in 0-RTT (RFC 8446 2.3), if their
        /// methods are safe (RFC 8470 4); needs [`crate::reach::Tls::resume`].
        early_data: bool,
        /// After how long a connection moves to another port of this host, again and again; never if not given. At
        /// least 100 ms.
        migrate_every: Option<Duration>,
    },
}

impl Protocol {
    /// Requests under way on a connection at most, where it has streams for them.
    #[must_use]
    pub fn streams(self) -> Option<u32> {
        match self {
            Self::Http1 => None,
            Self::Http2 { streams } | Self::Http3 { streams, .. } => Some(streams),
        }
    }

    /// How it is called in a TLS handshake (RFC 7301, RFC 9113 3.2, RFC 9114 3.1).
    pub(crate) fn name_in_tls(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 { .. } => b"h2",
            Self::Http3 { .. } => b"h3",
        }
    }

    /// The major version of HTTP.
    #[must_use]
    pub fn version(self) -> u8 {
        match self {
            Self::Http1 => 1,
            Self::Http2 { .. } => 2,
            Self::Http3 { .. } => 3,
        }
    }

    /// How connections are encrypted so that this version is spoken over them.
    pub(crate) fn over(self, tls: &Tls) -> Tls {
        let mut tls = tls.clone();
        let is_default = tls.alpn == Tls::default().alpn;
        match self {
            Self::Http1 => {}
            Self::Http2 { .. } if is_default => tls.alpn = vec![b"h2".to_vec()],
            Self::Http2 { .. } => {}
            Self::Http3 { .. } => {
                if is_default {
                    tls.alpn = vec![b"h3".to_vec()];
                }
                // RFC 9001 4.2: QUIC has no older version.
                tls.version = Some(TlsVersion::Tls13);
            }
        }
        tls
    }
}
