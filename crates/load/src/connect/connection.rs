//! What every version of HTTP knows of one connection.

use crate::connect::stream::Stream;
use crate::requests::cookies::CookieJar;

/// Where a connection stands.
///
/// ```text
/// Closed -> Connecting -> Handshaking -> Open <-> Idle
///    ^          |              |          |        |
///    |          |              |       Leaving     |
///    +----------+--------------+----------+--------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Closed,
    /// The connect call is under way; its first requests wait.
    Connecting,
    /// The TLS handshake is under way; its first requests wait.
    Handshaking,
    /// Requests are under way, or over HTTP/2 may begin.
    Open,
    /// Open, with nothing to do; over HTTP/1 only.
    Idle,
    /// No request may begin any more. Those that did over HTTP/2 are waited for; then the server is given the time to
    /// close first, so that the port stays free here.
    Leaving,
}

/// A slot for a connection; slots are reused, their allocations with them.
#[derive(Debug)]
pub(crate) struct Connection<H> {
    pub(crate) phase: Phase,
    /// Whether it counts among those that may be open at a time.
    pub(crate) counted: bool,
    /// Whether its bytes on the wire are those of TLS.
    pub(crate) encrypted: bool,
    /// Whether the server is known to have ended its stream.
    pub(crate) hung_up: bool,
    /// Distinguishes the uses of a slot, so that events of a former one are known as such.
    pub(crate) generation: u32,
    pub(crate) stream: Option<Stream>,
    /// The generator's number of the connection, unique in the run.
    pub(crate) number: u64,
    /// Whose it is, of those that are told apart for fairness.
    pub(crate) client: u32,
    /// Which of the plan's hosts it goes to, and which of the host's addresses.
    pub(crate) host: u32,
    pub(crate) address: usize,
    pub(crate) connect_start_ns: u64,
    /// Responses that came over it.
    pub(crate) responses: u64,
    /// The cookies that its responses set.
    pub(crate) jar: CookieJar,
    /// When a connection that is left is closed at the latest; 0 = it does not wait for that.
    pub(crate) linger_until_ns: u64,
    /// What its version of HTTP keeps of it.
    pub(crate) http: H,
}

impl<H> Connection<H> {
    pub(crate) fn new(http: H) -> Self {
        Self {
            phase: Phase::Closed,
            counted: false,
            encrypted: false,
            hung_up: false,
            generation: 0,
            stream: None,
            number: 0,
            client: 0,
            host: 0,
            address: 0,
            connect_start_ns: 0,
            responses: 0,
            jar: CookieJar::default(),
            linger_until_ns: 0,
            http,
        }
    }

    /// What epoll and io_uring give back with the events of this use of the slot.
    #[inline]
    pub(crate) fn token(&self, slot: usize) -> u64 {
        u64::from(self.generation) << 32 | slot as u64
    }
}

/// The slot and the generation that a token stands for.
#[inline]
pub(crate) fn slot_of(token: u64) -> (usize, u32) {
    ((token & 0xffff_ffff) as usize, (token >> 32) as u32)
}
