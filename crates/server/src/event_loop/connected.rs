//! What a loop tells of its connections, and how it ends some of them by order.

use crate::event_loop::client::Client;
use crate::event_loop::driver::EventLoop;
use crate::event_loop::sessions::{Order, Sessions};
use crate::io::epoll::{self, Readiness};
use crate::telemetry::admin::connected::{CONNECTIONS_MAX, Connected, ConnectionNow, Connections, Ended, Stop};
use std::net::IpAddr;

impl Connected for Sessions {
    fn connections(&self, of: Option<IpAddr>) -> Connections {
        let mut all = Connections::default();
        for said in self.ask_each(|answer| Order::Connected(of, answer)) {
            let Some(said) = said else {
                all.silent_loops += 1;
                continue;
            };
            all.connections.extend(said.connections);
            all.left_out += said.left_out;
        }
        all.connections.sort_by_key(ConnectionNow::rank);
        all
    }

    fn stop(&self, what: Stop) -> Ended {
        let mut all = Ended::default();
        for said in self.ask_each(|answer| Order::Stop(what, answer)) {
            let Some(said) = said else {
                all.silent_loops += 1;
                continue;
            };
            all.connections += said.connections;
            all.requests += said.requests;
        }
        all
    }
}

impl EventLoop {
    /// Who is connected: all, or those of an address.
    #[cold]
    pub(super) fn connected(&self, of: Option<IpAddr>) -> Connections {
        let now_ms = self.state.clock.now_ms;
        let is_meant = |now: &ConnectionNow| of.is_none_or(|of| now.client.ip().to_canonical() == of.to_canonical());
        let over_quic = self.quic.iter().flat_map(|endpoint| endpoint.connected(now_ms)).map(|now| (now, None));
        let mut all: Vec<(ConnectionNow, Option<&Client>)> = self
            .connections
            .iter()
            .filter_map(|client| Some((client.now(now_ms)?, Some(client))))
            .chain(over_quic)
            .filter(|(now, _)| is_meant(now))
            .collect();
        all.sort_by_key(|(now, _)| now.rank());
        let left_out = all.len().saturating_sub(CONNECTIONS_MAX);
        // The kernel is asked about those only that are told.
        all.truncate(CONNECTIONS_MAX);
        let told = |(mut now, client): (ConnectionNow, Option<&Client>)| {
            if let Some(client) = client {
                client.ask_kernel(&mut now);
            }
            now
        };
        Connections { connections: all.into_iter().map(told).collect(), left_out, silent_loops: 0 }
    }

    /// Has requests under way watched that began before a watcher came.
    #[cold]
    pub(super) fn watch_under_way(&mut self) {
        let watching = &mut self.state.watching;
        self.connections.iter_mut().for_each(|client| client.watch_under_way(watching));
        self.quic.iter_mut().for_each(|endpoint| endpoint.watch_under_way(watching));
    }

    /// Ends what is meant.
    #[cold]
    pub(super) fn stop(&mut self, what: Stop) -> Ended {
        let mut stopped = Ended::default();
        let is_meant = |client: &Client| match (client.number(), what) {
            (Some(number), Stop::Connection(id) | Stop::Request(id, _)) => number == id.0,
            (Some(_), Stop::Client(address)) => client.peer.ip().to_canonical() == address.to_canonical(),
            (None, _) => false,
        };
        for token in self.connections.tokens(is_meant) {
            let Some(client) = self.connections.get(token) else { continue };
            match what {
                Stop::Request(_, stream) if client.has_streams() => {
                    if client.stop_request(stream, &mut self.state) {
                        stopped.requests += 1;
                        self.turn(token, Readiness::NONE);
                    }
                }
                // A request of HTTP/1 has no number.
                Stop::Request(..) => {}
                Stop::Connection(_) | Stop::Client(_) => {
                    stopped.connections += 1;
                    if client.is_sending() {
                        // No client takes a response that was cut off for a whole one.
                        epoll::reset_on_close(client.fd());
                    }
                    self.close(token);
                }
            }
        }
        for endpoint in &mut self.quic {
            let of_endpoint = endpoint.stop(what, &mut self.state, &self.open);
            stopped.connections += of_endpoint.connections;
            stopped.requests += of_endpoint.requests;
        }
        self.state.counts().stopped_by_order.add((stopped.connections + stopped.requests) as u64);
        stopped
    }
}
