//! Asks servers for their health, beside the requests of clients.

use super::group::Upstream;
use super::health::Outcome;
use super::http1::response::{Expected, Reader};
use super::links::{PROBE_TOKEN, RECEIVED_BYTES_MAX};
use super::message::Said;
use super::probe::{PROBES_MAX, Probe};
use crate::exchange::wakes::Address;
use std::io::{self, IoSlice};

impl Upstream {
    /// Begins probes that are due.
    pub(super) fn begin_probes(&self, now_ms: u64) {
        let Some(rules) = &self.common.rules.health.probe else { return };
        loop {
            let free = self.probes.borrow().iter().position(Option::is_none);
            let Some(place) = free else { return };
            let Some(server) = self.common.health.claim_probe(now_ms, weir_arm::now_ns()) else { return };
            let Ok((link, _)) = self.connect(server, self.probe_address(place)) else {
                self.common.health.report_probe(server, Outcome::Failure, now_ms);
                continue;
            };
            let timeout_ms = u64::try_from(rules.timeout.as_millis()).unwrap_or(u64::MAX);
            link.set_deadline(now_ms.saturating_add(timeout_ms));
            let place_of_server = self.common.rules.servers[server].place.to_string();
            let host = self.common.rules.host.as_deref().unwrap_or(&place_of_server);
            // A server is asked by HTTP; of a gateway it counts whether it takes the connection.
            let out = if self.common.gateway.is_none() {
                let of_unix = if host.starts_with("unix:") { "localhost" } else { host };
                format!(
                    "GET {} HTTP/1.1\r\nHost: {of_unix}\r\nUser-Agent: weir\r\nConnection: close\r\n\r\n",
                    rules.path
                )
            } else {
                String::new()
            };
            let mut reader = Reader::default();
            reader.begin(Expected::Response);
            self.probes.borrow_mut()[place] = Some(Probe { link, server, out: out.into_bytes(), sent: 0, reader });
            // What is connected already has no event.
            self.go_on_probe(place);
        }
    }

    fn probe_address(&self, place: usize) -> Address {
        Address { token: Some(PROBE_TOKEN), connection: (self.number.get() * PROBES_MAX + place) as u64 }
    }

    /// Goes on with a probe whose socket has an event, or whose time is over.
    pub(crate) fn go_on_probe(&self, place: usize) {
        let Some(mut probe) = self.probes.borrow_mut().get_mut(place).and_then(Option::take) else { return };
        let outcome = match self.step_probe(&mut probe) {
            Ok(None) if probe.link.is_due() => Outcome::Failure,
            Ok(None) => {
                self.probes.borrow_mut()[place] = Some(probe);
                return;
            }
            Ok(Some(outcome)) => outcome,
            Err(_) => Outcome::Failure,
        };
        self.common.health.report_probe(probe.server, outcome, self.links.now_ms());
        self.close(probe.link);
    }

    fn step_probe(&self, probe: &mut Probe) -> io::Result<Option<Outcome>> {
        let Probe { link, out, sent, reader, .. } = probe;
        if !link.connected()? {
            return Ok(None);
        }
        if out.is_empty() {
            return Ok(Some(Outcome::Success));
        }
        while *sent < out.len() {
            match link.send(&[IoSlice::new(&out[*sent..])])? {
                0 => return Ok(None),
                bytes => *sent += bytes,
            }
        }
        let mut status = None;
        while link.has_input() && status.is_none() {
            let mut note = |said: Said<'_>| {
                if let Said::Head(head) = said {
                    status = Some(head.status);
                }
            };
            let received = link.receive(RECEIVED_BYTES_MAX, |bytes| {
                (!bytes.is_empty())
                    .then(|| reader.read(bytes, &mut note))
                    .transpose()
                    .map_err(|_| io::ErrorKind::InvalidData)
            })?;
            match received {
                None => break,
                Some(Ok(Some(_))) => {}
                Some(Ok(None)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(Err(kind)) => return Err(kind.into()),
            }
        }
        let (first, last) = self.common.rules.health.probe.as_ref().map_or((200, 399), |rules| rules.statuses);
        Ok(status.map(|status| if (first..=last).contains(&status) { Outcome::Success } else { Outcome::Failure }))
    }
}
