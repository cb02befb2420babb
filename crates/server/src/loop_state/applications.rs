//! How a request of a stream comes to its application.

use super::state::LoopState;
use crate::exchange::application::{RequestHead, Wake};
use crate::exchange::life::Exchange;
use crate::exchange::streamed::Manner;
use crate::exchange::wakes::{Address, Waked};
use crate::files::head::Persistence;
use crate::http::request::Request;
use crate::policy::client_peer::ClientPeer;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Has the application begin that was chosen for a request of HTTP/2 or HTTP/3. `token` is that of its connection with
/// the loop, without QUIC; `is_received` says that there is no body, or none to come.
pub(crate) fn begin(
    request: &Request<'_>,
    exchange: &mut Exchange,
    peer: &ClientPeer<'_>,
    token: Option<u64>,
    is_received: bool,
    state: &LoopState,
) {
    let patience_ms = u64::try_from(state.timeouts.application.as_millis()).unwrap_or(u64::MAX);
    let manner = Manner { minor: request.minor, persistence: Persistence::Stays, patience_ms };
    let address = Address { token, connection: peer.connection };
    let wakes = Arc::clone(&state.wakes);
    let wake = Wake(Arc::new(Waked { wakes, address, is_waked: AtomicBool::new(false) }));
    let head = RequestHead { request, client: peer.client, is_secure: peer.is_secure };
    exchange.begin_application(&head, wake, manner, &state.clock);
    if let Some(streamed) = exchange.streamed().filter(|_| is_received) {
        streamed.body.end();
    }
}
