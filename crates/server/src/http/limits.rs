//! How much of anything a client may use, and how long the server waits for it.

use std::time::Duration;

/// How long to wait for a slow client; each has a resolution of half a second.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// From the first byte of a request, or from the connection's start, to the end of its head, then 408. Default: 10
    /// s.
    pub head: Duration,
    /// Between two requests of a connection. Default: 60 s.
    pub idle: Duration,
    /// For the whole of a request body that is discarded, and for each 16 KiB of one that an application takes. Default:
    /// 10 s.
    pub body: Duration,
    /// For an application to give something while the client owes nothing; then 504, or the end of the connection where
    /// the response has begun. Default: 60 s.
    pub application: Duration,
    /// For a client that takes no byte of its response. Default: 60 s.
    pub stall: Duration,
    /// For a client to notice that its connection is being closed. Default: 2 s.
    pub linger: Duration,
    /// For responses in flight when the server is stopped. Default: 30 s.
    pub stop: Duration,
    /// For tunnels, such as WebSockets, once another server has taken over from this one: those that are left then are
    /// closed. Default: 24 h.
    pub tunnels_kept: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            body: Duration::from_secs(10),
            application: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            linger: Duration::from_secs(2),
            stop: Duration::from_secs(30),
            tunnels_kept: Duration::from_secs(86_400),
        }
    }
}

/// Bounds on what clients may use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections of all loops together. For one more, one is closed that is idle, or slow; where there is none
    /// it is answered with 503 and closed. It is lowered to what the limit of open files allows. Default: 16384.
    pub connections_max: usize,
    /// Bytes of a request head, then 431; 1024 to 1 MiB. Default: 16 KiB.
    pub head_bytes_max: usize,
    /// Bytes of a request target, then 414. Default: 8 KiB.
    pub target_bytes_max: usize,
    /// Bytes of a request body that are read and ignored to keep the connection; with a larger one the connection
    /// closes after the response. Default: 64 KiB.
    pub body_bytes_max: u64,
    /// Requests that a client of HTTP/2 or HTTP/3 may have under way over one connection; more are refused, or wait
    /// with the client. Default: 128.
    pub streams_max: usize,
    /// Open connections of one client's address (IPv6: of its /64), in all loops together; more are answered with 503
    /// and closed. 0 = as many as there may be. Without a word a quarter of all, but for the loopback addresses, over
    /// which proxies come. Those of Unix sockets have no bound. Default: none.
    pub connections_per_address_max: Option<usize>,
    /// Handshakes of QUIC that one loop may have under way before clients have to show first that their address is
    /// their own, which costs them a round trip; 0 = all have to. Where addresses have shares all have to as well.
    /// Default: 256.
    pub handshakes_max: usize,
    /// Ranges in one request; with more of them the whole file is sent (RFC 9110 section 14.2). Default: 16.
    pub ranges_max: usize,
    /// Entries shown in a directory listing; the page says when there are more. Default: 4096.
    pub listing_entries_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16384,
            head_bytes_max: 16 << 10,
            target_bytes_max: 8 << 10,
            body_bytes_max: 64 << 10,
            streams_max: 128,
            connections_per_address_max: None,
            handshakes_max: 256,
            ranges_max: 16,
            listing_entries_max: 4096,
        }
    }
}
