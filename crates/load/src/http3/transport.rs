//! QUIC below HTTP/3: how connections are made, the endpoint of a loop that knows them all, its clock and its timers.

use crate::LoadError;
use crate::connect::datagrams::Inbox;
use crate::connect::kernel::monotonic_ns;
use crate::error::tls_setup::TlsSetupError;
use crate::schedule::scheduler::NEVER;
use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, EcnCodepoint, Endpoint, EndpointConfig, EndpointEvent, NoneTokenStore,
    TokenMemoryCache, TransportConfig, VarInt,
};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a stream, and a connection, may send us before we grant more: so much that no server ever waits for it.
const WINDOW_BYTES: u64 = 1 << 40;
/// Streams that a server may have open in one direction: three, and some that are tried out (RFC 9114 6.2).
const INBOUND_STREAMS: u32 = 16;
/// Datagrams that one call sends at most: as many as fit into what the kernel takes at once.
const SEGMENTS_MAX: usize = 40;
/// Bytes of datagrams that are held for QUIC in one piece of memory.
const POOL_BYTES: usize = 256 << 10;
/// The most servers, and tokens of each, that are remembered.
const TOKENS: (usize, usize) = (16, 1024);

/// How connections are made; what servers gave to be known by is kept only where users come again. A slow client lets come
/// what its line holds: `line_bytes`.
pub(crate) fn client(
    tls: &Arc<rustls::ClientConfig>,
    resumes: bool,
    line_bytes: Option<u64>,
) -> Result<ClientConfig, LoadError> {
    let no_quic = || TlsSetupError::Library(rustls::Error::General("TLS 1.3 has no suite for QUIC".to_owned()));
    // QUIC encrypts the first packets with a suite of its own, not with one of those that are offered (RFC 9001 5.2).
    let initial =
        TLS13_AES_128_GCM_SHA256.tls13().and_then(rustls::Tls13CipherSuite::quic_suite).ok_or_else(no_quic)?;
    let crypto = QuicClientConfig::with_initial(Arc::clone(tls), initial).map_err(|_| no_quic())?;
    let mut transport = TransportConfig::default();
    let window = VarInt::from_u64(line_bytes.unwrap_or(WINDOW_BYTES)).unwrap_or(VarInt::MAX);
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(INBOUND_STREAMS.into())
        .stream_receive_window(window)
        .receive_window(window)
        // Only the server's windows and the network hold bodies up.
        .send_window(WINDOW_BYTES)
        // The loop has its own limits of time; the server's still holds.
        .max_idle_timeout(None)
        .datagram_receive_buffer_size(None);
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    match resumes {
        true => config.token_store(Arc::new(TokenMemoryCache::new(TOKENS.0 as u32, TOKENS.1))),
        false => config.token_store(Arc::new(NoneTokenStore)),
    };
    Ok(config)
}

/// The clock as QUIC has it: an instant for each nanosecond of the loop's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    base: Instant,
    base_ns: u64,
}

impl Clock {
    fn new() -> Self {
        Self { base: Instant::now(), base_ns: monotonic_ns() }
    }

    #[inline]
    pub(crate) fn instant(self, at_ns: u64) -> Instant {
        self.base + Duration::from_nanos(at_ns.saturating_sub(self.base_ns))
    }

    #[inline]
    pub(crate) fn nanoseconds(self, at: Instant) -> u64 {
        self.base_ns + u64::try_from(at.saturating_duration_since(self.base).as_nanos()).unwrap_or(NEVER / 2)
    }
}

/// When connections want to be asked, by their slots.
///
/// A time that is put off stays in the heap as it was, and is entered anew when it comes: most are put off with each
/// packet.
#[derive(Debug, Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<(u64, u32)>>);

impl Timers {
    pub(crate) fn enter(&mut self, at_ns: u64, slot: usize) {
        self.0.push(Reverse((at_ns, slot as u32)));
    }

    /// The earliest time.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.0.peek().map_or(NEVER, |Reverse((at_ns, _))| *at_ns)
    }

    /// Takes the slot whose time has come first, and that time.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        let Reverse((at_ns, slot)) = *self.0.peek().filter(|Reverse((at_ns, _))| *at_ns <= now_ns)?;
        self.0.pop();
        Some((at_ns, slot as usize))
    }
}

/// What a loop has for all connections of QUIC.
#[derive(Debug)]
pub(crate) struct Transport {
    endpoint: Endpoint,
    pub(crate) clock: Clock,
    pub(crate) timers: Timers,
    pub(crate) inbox: Inbox,
    /// Where datagrams are copied for QUIC, which holds on to what is still of use.
    pool: BytesMut,
    /// Datagrams that are about to be sent.
    pub(crate) out: Vec<u8>,
    /// Datagrams that one call may send: one, where the kernel cannot take more.
    pub(crate) segments_max: usize,
}

impl Transport {
    pub(crate) fn new() -> Self {
        Self {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
            clock: Clock::new(),
            timers: Timers::default(),
            inbox: Inbox::new(),
            pool: BytesMut::new(),
            out: Vec::with_capacity(64 << 10),
            segments_max: SEGMENTS_MAX,
        }
    }

    /// Begins a connection.
    pub(crate) fn connect(
        &mut self,
        client: &ClientConfig,
        server_name: &str,
        to: SocketAddr,
        now_ns: u64,
    ) -> Result<(ConnectionHandle, Connection), quinn_proto::ConnectError> {
        self.endpoint.connect(self.clock.instant(now_ns), client.clone(), to, server_name)
    }

    /// Hands a datagram to the connection that it is for: whether it was for it.
    pub(crate) fn take_one(
        &mut self,
        (bytes, ecn): (&[u8], u8),
        from: SocketAddr,
        handle: ConnectionHandle,
        connection: &mut Connection,
        now: Instant,
    ) -> bool {
        let (ecn, mut answer) = (EcnCodepoint::from_bits(ecn), Vec::new());
        // A client answers no datagram that is of none of its connections: such an answer is not sent.
        let event = self.endpoint.handle(now, from, None, ecn, BytesMut::from(bytes), &mut answer);
        match event {
            Some(quinn_proto::DatagramEvent::ConnectionEvent(of, event)) if of == handle => {
                connection.handle_event(event);
                true
            }
            _ => false,
        }
    }

    /// Hands the datagrams of a reception to the connection that they are for: whether any was for it.
    pub(crate) fn take_in(
        &mut self,
        place: usize,
        from: SocketAddr,
        handle: ConnectionHandle,
        connection: &mut Connection,
        now: Instant,
    ) -> bool {
        let (reception, bytes) = self.inbox.reception(place);
        let ecn = EcnCodepoint::from_bits(reception.ecn);
        if self.pool.capacity() < bytes.len() {
            self.pool.reserve(POOL_BYTES.max(bytes.len()));
        }
        self.pool.extend_from_slice(bytes);
        let mut rest = self.pool.split();
        let mut answer = Vec::new();
        let mut is_any = false;
        while !rest.is_empty() {
            let datagram = rest.split_to(reception.datagram_bytes.clamp(1, rest.len()));
            // A client answers no datagram that is of none of its connections: such an answer is not sent.
            let event = self.endpoint.handle(now, from, None, ecn, datagram, &mut answer);
            if let Some(quinn_proto::DatagramEvent::ConnectionEvent(of, event)) = event
                && of == handle
            {
                connection.handle_event(event);
                is_any = true;
            }
        }
        is_any
    }

    /// Has a connection and what knows all connections tell each other their news: its ids, and its end.
    pub(crate) fn exchange(&mut self, handle: ConnectionHandle, connection: &mut Connection, is_known: &mut bool) {
        while let Some(event) = connection.poll_endpoint_events() {
            *is_known &= !event.is_drained();
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
    }

    /// Forgets a connection.
    pub(crate) fn forget(&mut self, handle: ConnectionHandle) {
        self.endpoint.handle_event(handle, EndpointEvent::drained());
    }
}
