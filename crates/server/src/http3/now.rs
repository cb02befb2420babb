//! A connection of HTTP/3 as it is told, and the end of one request by order.

use super::connection::Connection;
use super::frame::Code;
use super::stream::{Stream, number_of};
use crate::counters::census::State;
use crate::loop_state::{LoopState, StreamOf, Watching};
use crate::telemetry::admin::connected::{ConnectionId, ConnectionNow, UnderWay};
use crate::telemetry::recent::asked_of;

/// From one of the client's requests to the next: two bits of a stream's number say its kind (RFC 9000 section 2.1).
const STREAM_STEP: u64 = 4;

impl Connection {
    /// It as it is at this moment of the loop's clock.
    pub(crate) fn now(&self, now_ms: u64) -> ConnectionNow {
        let stats = self.quic.stats();
        let under_way = |stream: &Stream| UnderWay {
            stream: Some(number_of(stream.id)),
            request: asked_of(&stream.exchange.record.log.noted),
            sent_bytes: stream.exchange.sent_bytes(),
        };
        ConnectionNow {
            id: ConnectionId(self.number),
            client: self.peer,
            protocol: "HTTP/3",
            is_secure: true,
            age_ms: now_ms.saturating_sub(self.began_ms),
            state: State::ALL[self.state().0 as usize].1,
            requests: Some(self.next_request / STREAM_STEP),
            received_bytes: Some(stats.udp_rx.bytes),
            sent_bytes: Some(stats.udp_tx.bytes),
            under_way: self.streams.iter().map(under_way).collect(),
        }
    }

    /// Has those under way watched that began before a watcher came.
    pub(crate) fn watch_under_way(&mut self, watching: &mut Watching) {
        let (peer, socket) = (self.client_peer(), self.peer);
        for stream in self.streams.iter_mut().filter(|stream| stream.parked.is_none()) {
            let from = StreamOf { peer: &peer, socket, stream: number_of(stream.id), version: 3 };
            watching.adopt(from.network(), &mut stream.exchange);
        }
    }

    /// Ends a request by order, on both sides; whether it was there.
    pub(crate) fn stop_request(&mut self, number: u64, state: &mut LoopState) -> bool {
        let Some(place) = self.streams.iter().position(|stream| number_of(stream.id) == number) else { return false };
        self.reset(place, Code::RequestCancelled, state);
        true
    }
}
