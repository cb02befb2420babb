//! What a connection of HTTP/1 has under way, as it is told.

use super::Connection;
use crate::exchange::life::Exchange;
use crate::telemetry::admin::connected::UnderWay;
use crate::telemetry::recent::asked_of;

impl Connection {
    /// Requests so far, where they are told: with a log or a history.
    pub(crate) fn requests(&self) -> Option<u64> {
        (self.told > 0).then_some(self.told)
    }

    /// Those under way, in the order of their responses.
    pub(crate) fn under_way(&self) -> Vec<UnderWay> {
        let under_way = |exchange: &Exchange| UnderWay {
            stream: None,
            request: asked_of(&exchange.record.log.noted),
            sent_bytes: exchange.sent_bytes(),
        };
        self.queue.iter().map(under_way).collect()
    }
}
