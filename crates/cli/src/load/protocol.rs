//! Which version of HTTP a load speaks.

use std::time::Duration;
use weir_load::Protocol;
use weir_terminal::units::duration;

/// The options that say so.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Speak HTTP/2: with https:// agreed on in the TLS handshake, with http:// with prior knowledge
    #[arg(long, alias = "http2-prior-knowledge", conflicts_with = "pipeline", help_heading = "Load")]
    http2: bool,
    /// Speak HTTP/3, over QUIC and UDP: https:// only
    #[arg(long, conflicts_with_all = ["pipeline", "http2"], help_heading = "Load")]
    http3: bool,
    /// Requests at a time on each connection of HTTP/2 or HTTP/3 (the server may allow fewer)
    #[arg(long, value_name = "N", help_heading = "Load")]
    streams: Option<u32>,
    /// With --http3 and --resume: send the first requests of a connection in 0-RTT, before its handshake is over, if
    /// their methods are safe (GET, HEAD, OPTIONS, TRACE)
    #[arg(long, requires = "http3", requires = "resume", help_heading = "Load")]
    early_data: bool,
    /// With --http3: move each connection to another port of this host each TIME, as users do who change networks
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "http3", help_heading = "Load")]
    migrate_every: Option<Duration>,
}

impl Args {
    /// Of calls of gRPC, which go over HTTP/2.
    pub(super) fn of_calls(&self) -> Protocol {
        Protocol::Http2 { streams: self.streams.unwrap_or(1) }
    }

    /// The version, or what is wrong.
    pub(super) fn protocol(&self) -> anyhow::Result<Protocol> {
        let streams = self.streams.unwrap_or(1);
        if self.http3 {
            let (early_data, migrate_every) = (self.early_data, self.migrate_every);
            return Ok(Protocol::Http3 { streams, early_data, migrate_every });
        }
        if self.http2 {
            return Ok(Protocol::Http2 { streams });
        }
        anyhow::ensure!(
            self.streams.is_none(),
            "--streams: HTTP/1.1 has none; give --http2 or --http3, or more connections (-c)"
        );
        Ok(Protocol::Http1)
    }
}
