//! Asks servers for their health, beside the requests of clients.

use super::group::{Opening, Upstream};
use super::health::Outcome;
use super::http1::response::{Expected, Reader};
use super::http2::connection::{Asked, Connection};
use super::http2::stream::Expects;
use super::links::{Link, PROBE_TOKEN, RECEIVED_BYTES_MAX};
use super::message::Said;
use super::probe::{PROBES_MAX, Probe};
use super::proxy_header;
use super::secure::Offer;
use super::settings::Speaks;
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
            let offer = match self.common.rules.speaks {
                Speaks::Negotiated => Offer::Both,
                Speaks::Http2 => Offer::Http2,
                _ => Offer::Http1,
            };
            let header = self.common.rules.proxy_header.map(|version| proxy_header::header(version, None));
            let header = header.unwrap_or_default();
            let opening = Opening { user: self.probe_address(place), offer, header: &header };
            let Ok((link, _)) = self.connect(server, opening) else {
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
            let out = out.into_bytes();
            let probe = Probe { link, server, out, sent: 0, reader, http2: None, is_open: false };
            self.probes.borrow_mut()[place] = Some(probe);
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
        let Probe { link, out, sent, reader, http2, is_open, .. } = probe;
        if !*is_open {
            let Some(agreed) = link.opened()? else { return Ok(None) };
            *is_open = true;
            if agreed.is_http2 || (self.common.rules.speaks == Speaks::Http2 && !link.is_secure()) {
                let mut connection = Connection::new(self.links.now_ms());
                let (is_secure, expects) = (link.is_secure(), Expects::Response);
                let asked = Asked { head: out, is_secure, has_body: false, expects, user: () };
                let id = connection.open(asked).map_err(|_| io::ErrorKind::InvalidInput)?;
                *http2 = Some((Box::new(connection), id));
            }
        }
        if out.is_empty() {
            return Ok(Some(Outcome::Success));
        }
        if let Some((connection, id)) = http2 {
            let status = self.step_http2(link, connection, *id)?;
            return Ok(status.map(|status| self.judge(status)));
        }
        link.flush()?;
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
        Ok(status.map(|status| self.judge(status)))
    }

    fn judge(&self, status: u16) -> Outcome {
        let (first, last) = self.common.rules.health.probe.as_ref().map_or((200, 399), |rules| rules.statuses);
        if (first..=last).contains(&status) { Outcome::Success } else { Outcome::Failure }
    }

    /// Goes on with a probe over HTTP/2; the status once it is there.
    fn step_http2(&self, link: &mut Link, connection: &mut Connection<()>, id: u32) -> io::Result<Option<u16>> {
        let mut status = None;
        loop {
            link.flush()?;
            while !connection.output().is_empty() {
                match link.send(&[IoSlice::new(connection.output())])? {
                    0 => break,
                    bytes => connection.sent(bytes),
                }
            }
            let mut note = |said: Said<'_>| {
                if let Said::Head(head) = said {
                    status = Some(head.status);
                }
            };
            connection.take(id, 0, &mut note).map_err(|_| io::ErrorKind::InvalidData)?;
            if status.is_some() || !link.has_input() {
                return Ok(status);
            }
            let received = link.receive(RECEIVED_BYTES_MAX, |bytes| {
                (!bytes.is_empty()).then(|| connection.receive(bytes, self.links.now_ms()))
            })?;
            match received {
                None => return Ok(None),
                Some(Some(Ok(()))) => {}
                Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}
