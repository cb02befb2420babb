//! A question for a server's health, on its way.

use super::http1::response::Reader;
use super::http2::connection::Connection;
use super::links::Link;

/// Probes of one upstream that are under way in a loop at once.
pub(crate) const PROBES_MAX: usize = 8;

/// A question for a server's health.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) link: Link,
    pub(super) server: usize,
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    pub(super) reader: Reader,
    /// The connection and the number of the question on it, where HTTP/2 is spoken.
    pub(super) http2: Option<(Box<Connection<()>>, u32)>,
    pub(super) is_open: bool,
}
