//! What a connection of HTTP/2 has under way, as it is told, and the end of one request by order.

use super::Connection;
use crate::http::frames::frame::{self, Code, kind};
use crate::http2::stream::Stream;
use crate::loop_state::{LoopState, StreamOf, Watching};
use crate::telemetry::admin::connected::UnderWay;
use crate::telemetry::recent::asked_of;

impl Connection {
    /// Requests so far: streams of clients have odd numbers (RFC 9113 section 5.1.1).
    pub(crate) fn requests(&self) -> u64 {
        u64::from(self.last).div_ceil(2)
    }

    /// Has those under way watched that began before a watcher came.
    pub(crate) fn watch_under_way(&mut self, watching: &mut Watching) {
        let (peer, socket) = (self.client_peer(), self.peer);
        for stream in self.streams.iter_mut().filter(|stream| stream.parked.is_none()) {
            let from = StreamOf { peer: &peer, socket, stream: stream.id.into(), version: 2 };
            watching.adopt(from.network(), &mut stream.exchange);
        }
    }

    /// Those under way.
    pub(crate) fn under_way(&self) -> Vec<UnderWay> {
        let under_way = |stream: &Stream| UnderWay {
            stream: Some(stream.id.into()),
            request: asked_of(&stream.exchange.record.log.noted),
            sent_bytes: stream.exchange.sent_bytes(),
        };
        self.streams.iter().map(under_way).collect()
    }

    /// Ends one of them by order (CANCEL); whether it was there.
    pub(crate) fn stop_request(&mut self, number: u64, state: &mut LoopState) -> bool {
        let Some(place) = self.streams.iter().position(|stream| u64::from(stream.id) == number) else { return false };
        let stream = &mut self.streams[place];
        frame::number(&mut self.control, kind::RST_STREAM, stream.id, Code::Cancel as u32);
        // What was sent of its response is logged, and it counts as ended by us.
        stream.is_received = false;
        self.leave_queue(place, state);
        self.take_off(place, state);
        true
    }
}
