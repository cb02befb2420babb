//! One attempt to have a server answer a request: which server it is, and what is learnt of it for the next ones.

use super::balance::{Asked, Key};
use super::concurrency::MeasuredLimit;
use super::group::Upstream;
use super::health::{Admission, Outcome};
use crate::exchange::application::RequestHead;
use std::rc::Rc;

/// Statuses by which a server says that it cannot serve.
const UNABLE: [u16; 3] = [502, 503, 504];

/// An attempt; dropped, it counts no more among those under way.
#[derive(Debug)]
pub(super) struct Attempt {
    upstream: Rc<Upstream>,
    server: usize,
    admission: Admission,
    /// When it began, and when the first byte of the response came, on the monotonic clock; 0 = not yet.
    begun_ns: u64,
    first_byte_ns: u64,
    outcome: Option<Outcome>,
    is_measured: bool,
}

impl Upstream {
    /// What of a request chooses its server.
    pub(super) fn key(&self, head: &RequestHead<'_>, target: &str) -> Key {
        if self.common.rules.servers.len() == 1 {
            return Key::None;
        }
        let path = target.split('?').next().unwrap_or(target);
        self.balancer.borrow().key(Asked { fields: head.fields(), path: path.as_bytes(), client: head.client() })
    }

    /// Chooses a server. Servers whose bit is in `tried` come last.
    pub(super) fn attempt(self: &Rc<Self>, key: Key, tried: u64) -> Attempt {
        let (common, now_ms) = (&self.common, self.links.now_ms());
        let mut balancer = self.balancer.borrow_mut();
        let (server, admission) = if common.rules.servers.len() == 1 {
            (0, Admission::Usual)
        } else {
            match common.health.claim_trial(now_ms).filter(|server| tried & (1 << server) == 0) {
                Some(server) => (server, Admission::Trial),
                None => {
                    let shares = common.health.shares(now_ms);
                    (balancer.choose(key, &shares, tried).unwrap_or(0), Admission::Usual)
                }
            }
        };
        balancer.begin(server);
        drop(balancer);
        let is_measured = common.limits.get(server).is_some_and(MeasuredLimit::begin_waiting);
        let begun_ns = if self.is_timed() { weir_arm::now_ns() } else { 0 };
        let upstream = Rc::clone(self);
        Attempt { upstream, server, admission, begun_ns, first_byte_ns: 0, outcome: None, is_measured }
    }

    /// Whether times are measured: they choose among servers, or bound the requests under way.
    fn is_timed(&self) -> bool {
        self.common.rules.servers.len() > 1 || !self.common.limits.is_empty()
    }
}

impl Attempt {
    pub(super) fn server(&self) -> usize {
        self.server
    }

    /// The head of a response has come.
    pub(super) fn answered(&mut self, status: u16) {
        self.outcome = Some(if UNABLE.contains(&status) { Outcome::Failure } else { Outcome::Success });
        if self.begun_ns > 0 {
            self.first_byte_ns = weir_arm::now_ns();
        }
    }

    /// The server did not do its part.
    pub(super) fn failed(&mut self) {
        self.outcome = Some(Outcome::Failure);
    }

    /// Writes the line of Set-Cookie that keeps the client with this server, if it has none for it.
    pub(super) fn keep_client(&self, key: Key, is_secure: bool, fields: &mut Vec<u8>) {
        if let Key::Sticky(before) = key
            && before != Some(self.server)
        {
            self.upstream.balancer.borrow().set_cookie(self.server, is_secure, fields);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let common = &self.upstream.common;
        let first_byte_us = (self.first_byte_ns > 0)
            .then(|| u32::try_from(self.first_byte_ns.saturating_sub(self.begun_ns) / 1000).unwrap_or(u32::MAX));
        self.upstream.balancer.borrow_mut().end(self.server, first_byte_us);
        if common.rules.servers.len() > 1
            && let Some(outcome) = self.outcome
        {
            common.health.report(self.server, self.admission, outcome, self.upstream.links.now_ms());
        }
        if let Some(limit) = common.limits.get(self.server).filter(|_| self.is_measured) {
            match self.outcome {
                Some(Outcome::Success) => limit.complete(weir_arm::now_ns() / 1000),
                Some(Outcome::Failure) | None => limit.cancel(),
            }
        }
    }
}
