//! How a request of a stream comes to its application.

use super::state::LoopState;
use crate::exchange::application::RequestHead;
use crate::exchange::life::Exchange;
use crate::exchange::request_body::RequestBody;
use crate::exchange::streamed::Manner;
use crate::files::head::Persistence;
use crate::http::request::Request;
use crate::policy::client_peer::ClientPeer;

/// Has the application begin that was chosen for a request of HTTP/2 or HTTP/3. `token` is that of its connection with
/// the loop, without QUIC; `is_received` says that there is no body, or none to come beside what came `early`.
pub(crate) fn begin(
    request: &Request<'_>,
    exchange: &mut Exchange,
    peer: &ClientPeer<'_>,
    token: Option<u64>,
    (is_received, early): (bool, Option<Box<RequestBody>>),
    state: &LoopState,
) {
    let patience_ms = state.applications.patience_ms;
    let manner = Manner { minor: request.minor, persistence: Persistence::Stays, patience_ms };
    let mut seen = *peer;
    state.router.see(request, &mut seen);
    let (client, is_secure) = (seen.client, seen.is_secure);
    let head = RequestHead {
        request,
        client,
        peer: peer.client,
        is_secure,
        socket: peer.socket,
        ends: None,
        user: None,
        arm: None,
    };
    if let Some(streamed) = exchange.streamed() {
        early.into_iter().for_each(|early| streamed.body.take_over(*early));
        if is_received {
            streamed.body.end();
        }
    }
    exchange.begin_application(&head, &state.applications.caller(token, peer.connection), manner);
}
