//! A request for which tables are looked up.

use crate::counters::LoopCounters;
use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::routing::client_certificates::Shown;
use crate::routing::tables::Via;
use std::net::IpAddr;

/// Who asks for a page, and of which host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) host: u16,
    pub(super) request: &'a Request<'a>,
    pub(super) client: IpAddr,
    pub(super) is_secure: bool,
    /// How a route has led to the path.
    pub(super) via: Via,
    /// What the client has shown of itself.
    pub(super) shown: &'a Shown,
    pub(super) clock: &'a Clock,
    pub(super) counters: &'a LoopCounters,
}

pub(super) const NS_PER_MS: u64 = 1_000_000;
