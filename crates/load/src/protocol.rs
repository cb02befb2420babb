//! Which version of HTTP is spoken.

use crate::reach::{ProxyKind, Tls};
use crate::request::Version;
use crate::{Io, LoadError, Options};

/// The most streams of a connection that can be asked for.
const STREAMS_MAX: u32 = 10_000;
/// The most streams of all connections together: each has a place in memory from the start.
const STREAMS_IN_ALL_MAX: u64 = 4_000_000;

/// Which version of HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/1.1: one request at a time on a connection, or a pipeline.
    #[default]
    Http1,
    /// HTTP/2: agreed on in the TLS handshake, and with prior knowledge where there is none.
    Http2 {
        /// Requests under way on a connection, at most; 1 to 10000, and 4000000 on all connections together; 1 without
        /// [`Options::keep_alive`].
        streams: u32,
    },
}

impl Protocol {
    /// Whether it can do what else is asked for.
    pub(crate) fn check(self, options: &Options) -> Result<(), LoadError> {
        let Self::Http2 { streams } = self else { return Ok(()) };
        let wrong = |what| Err(LoadError::Options(what));
        if streams == 0 || streams > STREAMS_MAX {
            return wrong("the number of streams of a connection lies between 1 and 10000");
        }
        if u64::from(streams) * u64::from(options.connections) > STREAMS_IN_ALL_MAX {
            return wrong("the streams of all connections together are at most 4000000");
        }
        if options.pipeline > 1 {
            return wrong("HTTP/2 has no pipeline: its streams (--streams) take the place");
        }
        let asked = options.asks.list.iter().map(|ask| (&ask.url, &ask.request));
        let mut all = asked.chain([(&options.url, &options.request)]);
        if all.clone().any(|(_, request)| request.version == Version::Http10) {
            return wrong("a request has one version: HTTP/1.0 or HTTP/2");
        }
        if !options.keep_alive && streams > 1 {
            return wrong("a new connection for each request has one stream: several need connections that are kept");
        }
        let by_proxy = options.reach.proxy.as_ref().is_some_and(|proxy| proxy.kind == ProxyKind::Http);
        if by_proxy && all.any(|(url, _)| !url.encrypted) {
            return wrong("an HTTP proxy passes HTTP/2 on only if it is encrypted: https://, or a SOCKS proxy");
        }
        if options.asks.hosts().len() > 1 {
            return wrong("requests to several hosts are made over HTTP/1.1 only");
        }
        if options.io == Io::Uring {
            return wrong("io_uring carries HTTP/1.1 only: leave it out");
        }
        if options.verbatim.is_some() {
            return wrong("a request word for word can be sent over HTTP/1.1 only");
        }
        if options.reach.tls.alpn != Tls::default().alpn && !options.reach.tls.alpn.iter().any(|name| name == b"h2") {
            return wrong("HTTP/2 is agreed on as h2 in the TLS handshake: it must be among the protocols offered");
        }
        Ok(())
    }

    /// How connections are encrypted so that this version is spoken over them.
    pub(crate) fn over(self, tls: &Tls) -> Tls {
        let mut tls = tls.clone();
        if self != Self::Http1 && tls.alpn == Tls::default().alpn {
            tls.alpn = vec![b"h2".to_vec()];
        }
        tls
    }
}
