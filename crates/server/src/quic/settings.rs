//! What all endpoints have in common.

use crate::config::options::Options;
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that a client may send us ahead of our reading on a stream. With what an application's request
/// holds of its body ([`crate::http3`]) those of a stream are [`crate::exchange::request_body::HELD_BYTES_MAX`].
const STREAM_RECEIVE_BYTES: u32 = 48 << 10;
/// Of 21 streams whose applications take nothing: the others of the connection can still send.
const RECEIVE_BYTES: u32 = 1 << 20;

/// Bytes of responses that a connection may have on the way; what lies in memory anyhow is not copied for it.
const SEND_BYTES: u64 = 1 << 20;

/// Streams for the connection itself: three, and some that are tried out.
const INBOUND_STREAMS: u32 = 16;

/// Sockets of QUIC that a loop can have.
pub(crate) const QUIC_MAX: usize = 1024;

/// The longest that a silent client is remembered, even if the options say more: the most that the standard can
/// express.
const IDLE_MAX: Duration = Duration::from_secs(1 << 30);

/// What all endpoints have in common: keys, windows, and that a new token is of use to none but its client.
pub(crate) fn config(tls: rustls::ServerConfig, options: &Options) -> Result<Arc<ServerConfig>, NoInitialCipherSuite> {
    let crypto = QuicServerConfig::try_from(tls)?;
    let mut transport = TransportConfig::default();
    let streams = u32::try_from(options.limits.streams_max).unwrap_or(u32::MAX);
    let idle = options.timeouts.idle.max(options.timeouts.stall).min(IDLE_MAX);
    transport
        .max_concurrent_bidi_streams(streams.into())
        .max_concurrent_uni_streams(INBOUND_STREAMS.into())
        .stream_receive_window(STREAM_RECEIVE_BYTES.into())
        .receive_window(RECEIVE_BYTES.into())
        .send_window(SEND_BYTES)
        .max_idle_timeout(Some(IdleTimeout::try_from(idle).unwrap_or(VarInt::MAX.into())))
        .datagram_receive_buffer_size(None);
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(Arc::new(config))
}
