//! A request of HTTP/2 or HTTP/3 that waits for a password check or a place, while its connection's other streams go
//! on.

use super::message::{Unfit, request};
use crate::exchange::life::Exchange;
use crate::http::fields::Fields;
use crate::http::request::{AllFields, Request};
use crate::loop_state::{LoopState, StreamOf};
use crate::policy::client_peer::ClientPeer;
use crate::telemetry::arm_requests::Received;
use std::net::SocketAddr;

/// A request that waits for its password to be checked, or for others to be over.
#[derive(Debug)]
pub(crate) struct Parked {
    fields: Fields,
    /// When it was received, for requests that are reported by ARM; 0 = unknown.
    since_ns: u64,
    /// It waits for others to be over.
    pub(crate) waits: bool,
}

impl Parked {
    #[cold]
    pub(crate) fn new(fields: &Fields, waits: bool, state: &LoopState) -> Box<Self> {
        let since_ns = if state.arm.is_some() { weir_arm::now_ns() } else { 0 };
        Box::new(Self { fields: fields.clone(), since_ns, waits })
    }

    /// Answers it, unless it has to wait on.
    pub(crate) fn answer(
        mut self: Box<Self>,
        version: u8,
        (address, peer, stream): (SocketAddr, &ClientPeer<'_>, u64),
        state: &mut LoopState,
        exchange: &mut Exchange,
        begin: impl FnOnce(&Request<'_>, &mut Exchange, &LoopState),
    ) -> Option<Box<Self>> {
        let request = request(&self.fields, version, &state.limits).map(|mut request| {
            request.all = AllFields::Block(&self.fields);
            request
        });
        let waits = match request {
            // Its place among those that wait is kept.
            Ok(request) if state.router.must_wait(&request, address.ip(), || peer.is_secure, &state.clock) => false,
            Ok(request) => {
                let (mut received, mut since_ns) = (Received::default(), self.since_ns);
                received.since(&mut since_ns);
                if state.answer(&request, (address, peer, stream), &mut received, exchange) {
                    if exchange.is_awaited() {
                        begin(&request, exchange, state);
                    }
                    return None;
                }
                true
            }
            // It was well-formed, but a new configuration may hold it too large.
            Err(unfit) => {
                state.remove_waiting(peer.connection, Some(stream));
                let status = if let Unfit::Status(status) = unfit { status } else { 400 };
                state.answer_unfit(status, &StreamOf { peer, socket: address, stream, version }, exchange);
                return None;
            }
        };
        self.waits = waits;
        Some(self)
    }
}
