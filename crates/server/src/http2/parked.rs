//! A request of HTTP/2 or HTTP/3 that waits for a password check or a place, while its connection's other streams go
//! on.

use super::message::{Unfit, request};
use crate::exchange::pending::Pending;
use crate::http::fields::Fields;
use crate::loop_state::LoopState;
use crate::policy::caller::Caller;
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
    pub(crate) fn new(fields: &Fields, waits: bool, bench: &LoopState) -> Box<Self> {
        let since_ns = if bench.arm.is_some() { weir_arm::now_ns() } else { 0 };
        Box::new(Self { fields: fields.clone(), since_ns, waits })
    }

    /// Answers it, unless it has to wait on.
    pub(crate) fn answer(
        mut self: Box<Self>,
        version: u8,
        (peer, caller, stream): (SocketAddr, &Caller<'_>, u64),
        bench: &mut LoopState,
        pending: &mut Pending,
    ) -> Option<Box<Self>> {
        let waits = match request(&self.fields, version, &bench.limits) {
            // Its place among those that wait is kept.
            Ok(request) if bench.front.must_wait(&request, peer.ip(), &bench.clock) => false,
            Ok(request) => {
                let (mut received, mut since_ns) = (Received::default(), self.since_ns);
                received.since(&mut since_ns);
                if bench.answer(&request, (peer, caller, stream), &mut received, pending) {
                    return None;
                }
                true
            }
            // It was well-formed, but a new configuration may hold it too large.
            Err(unfit) => {
                bench.forget_waiting(caller.connection, Some(stream));
                let status = if let Unfit::Status(status) = unfit { status } else { 400 };
                bench.answer_unfit(status, peer, pending);
                return None;
            }
        };
        self.waits = waits;
        Some(self)
    }
}
