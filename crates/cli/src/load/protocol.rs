//! Which version of HTTP a load speaks.

use weir_load::Protocol;

/// The options that say so.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Speak HTTP/2: with https:// agreed on in the TLS handshake, with http:// with prior knowledge
    #[arg(long, alias = "http2-prior-knowledge", conflicts_with = "pipeline", help_heading = "Load")]
    http2: bool,
    /// Requests at a time on each connection of HTTP/2 (the server may allow fewer)
    #[arg(long, default_value_t = 1, value_name = "N", requires = "http2", help_heading = "Load")]
    streams: u32,
}

impl Args {
    pub(super) fn protocol(&self) -> Protocol {
        if self.http2 { Protocol::Http2 { streams: self.streams } } else { Protocol::Http1 }
    }
}
