//! What a connection of HTTP/1 has under way, as it is told.

use super::Connection;
use crate::exchange::life::Exchange;
use crate::loop_state::Watching;
use crate::telemetry::admin::connected::UnderWay;
use crate::telemetry::recent::asked_of;
use crate::telemetry::watching::Network;

impl Connection {
    /// Requests so far, where they are told: with a log or a history.
    pub(crate) fn requests(&self) -> Option<u64> {
        (self.told > 0).then_some(self.told)
    }

    /// Has those under way watched that began before a watcher came.
    pub(crate) fn watch_under_way(&mut self, watching: &mut Watching) {
        let (client, port, session) = (self.peer.ip(), Some(self.peer.port()), self.number);
        let (protocol, tls) = ("HTTP/1.1", self.transport.is_secure());
        let network = Network { client, port, session, protocol, tls, ..Network::default() };
        self.queue.iter_mut().for_each(|exchange| watching.adopt(network.clone(), exchange));
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
