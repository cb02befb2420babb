//! A question for a server's health, on its way.

use super::http1::response::Reader;
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
}
