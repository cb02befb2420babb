//! A client's connection as it is told.

use super::{Client, Protocol};
use crate::counters::census::State;
use crate::io::connection_facts::moved_bytes;
use crate::loop_state::{LoopState, Watching};
use crate::telemetry::admin::connected::{ConnectionId, ConnectionNow};

impl Client {
    /// It as it is at this moment of the loop's clock, without what the kernel knows; none where its client is at another
    /// node, or its header has not come.
    pub(crate) fn now(&self, now_ms: u64) -> Option<ConnectionNow> {
        let (state, protocol, requests, under_way, is_secure) = match &self.protocol {
            Protocol::Http1(connection) => {
                let is_secure = connection.transport().is_secure();
                (connection.state(), "HTTP/1.1", connection.requests(), connection.under_way(), is_secure)
            }
            Protocol::Http2(connection) => {
                let is_secure = connection.transport().is_secure();
                (connection.state().0, "HTTP/2", Some(connection.requests()), connection.under_way(), is_secure)
            }
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => return None,
        };
        Some(ConnectionNow {
            id: ConnectionId(self.number()?),
            client: self.peer,
            protocol,
            is_secure,
            age_ms: now_ms.saturating_sub(self.began_ms),
            state: State::ALL[state as usize].1,
            requests,
            received_bytes: None,
            sent_bytes: None,
            under_way,
        })
    }

    /// Has its requests under way watched that began before a watcher came.
    pub(crate) fn watch_under_way(&mut self, watching: &mut Watching) {
        match &mut self.protocol {
            Protocol::Http1(connection) => connection.watch_under_way(watching),
            Protocol::Http2(connection) => connection.watch_under_way(watching),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => {}
        }
    }

    /// Adds what the kernel knows of it.
    pub(crate) fn ask_kernel(&self, now: &mut ConnectionNow) {
        if let Some((received, sent)) = moved_bytes(self.fd) {
            (now.received_bytes, now.sent_bytes) = (Some(received), Some(sent));
        }
    }

    /// Ends a request of HTTP/2 by order; whether it was there.
    pub(crate) fn stop_request(&mut self, stream: u64, state: &mut LoopState) -> bool {
        if let Protocol::Http2(connection) = &mut self.protocol {
            connection.stop_request(stream, state)
        } else {
            false
        }
    }

    /// Whether single requests of it can be ended.
    pub(crate) fn has_streams(&self) -> bool {
        matches!(self.protocol, Protocol::Http2(_))
    }
}
