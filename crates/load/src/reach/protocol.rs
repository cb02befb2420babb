//! Which version of HTTP is spoken.

use crate::reach::tls::Tls;

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
}

impl Protocol {
    /// How connections are encrypted so that this version is spoken over them.
    pub(crate) fn over(self, tls: &Tls) -> Tls {
        let mut tls = tls.clone();
        if self != Self::Http1 && tls.alpn == Tls::default().alpn {
            tls.alpn = vec![b"h2".to_vec()];
        }
        tls
    }
}
