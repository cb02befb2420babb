//! A span, as both encodings tell it.

use crate::{Counts, Event, Request, Skipped, What};

pub(super) const CLOCK: &str = "the real time of the host that made each span";
pub(super) const KIND_SERVER: u64 = 2;
pub(super) const KIND_CONSUMER: u64 = 5;
pub(super) const STATUS_ERROR: u64 = 2;
/// Attributes that tell a response's status, the current name and the one before.
pub(super) const STATUS_KEYS: [&str; 2] = ["http.response.status_code", "http.status_code"];
pub(super) const HOST_KEY: &str = "host.name";

/// What is looked at of a span.
#[derive(Debug, Default)]
pub(super) struct Span<'a> {
    pub(super) name: &'a str,
    pub(super) kind: u64,
    pub(super) has_parent: bool,
    pub(super) begun_ns: Option<u64>,
    pub(super) ended_ns: Option<u64>,
    pub(super) status: Option<u16>,
    pub(super) has_failed: bool,
}

impl Span<'_> {
    pub(super) fn tell(&self, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) {
        counts.event(if self.name.is_empty() { "(nameless)" } else { self.name });
        let is_request = [KIND_SERVER, KIND_CONSUMER].contains(&self.kind) || !self.has_parent;
        let (Some(begun_ns), Some(at_ns)) = (self.begun_ns, self.ended_ns.filter(|at_ns| *at_ns > 0)) else {
            return counts.skip(Skipped::NoTime);
        };
        if !is_request {
            return counts.skip(Skipped::NotMapped);
        }
        let (status, has_failed) = (self.status, self.has_failed);
        // Clocks are set: a span may seem to end before it begins.
        let request = Request { begun_ns: begun_ns.min(at_ns), name: self.name, status, has_failed };
        take(Event { at_ns, cpu: None, task: None, process: None, what: What::Request(request) });
    }
}
