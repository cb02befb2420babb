//! A request on its way, with all that an answer to it needs.

use crate::counters::LoopCounters;
use crate::files::head::Persistence;
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::policy::client_peer::ClientPeer;

/// A request on its way, with all that an answer to it needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) peer: &'a ClientPeer<'a>,
    pub(super) path: &'a [u8],
    pub(super) persistence: Persistence,
    pub(super) clock: &'a Clock,
    pub(super) counters: &'a LoopCounters,
}
