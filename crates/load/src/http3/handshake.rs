//! A connection is made: the handshake of QUIC and TLS, and what goes out before it is over.

use crate::LoadError;
use crate::connect::connection::Phase;
use crate::connect::connector::REOPEN_NS;
use crate::connect::witness::{self, Verdict};
use crate::counts::codes::http3_code_words;
use crate::engine::protocol::ProtocolLoop;
use crate::engine::state::Engine;
use crate::http3::state::Http3;
use crate::http3::streams::{Exchange, Link};
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{ConnectionError, Dir, TransportErrorCode};
use std::io;
use std::sync::atomic::Ordering;
use weir_wire::client::Outcome;

/// Codes of QUIC that are alerts of TLS begin here (RFC 9000 20.1).
const FIRST_ALERT: u64 = 0x100;
/// The alert of a server that knows none of the protocols that it was offered (RFC 7301 3.2).
const NO_APPLICATION_PROTOCOL: u64 = 120;

impl Engine<'_, Http3<'_>> {
    /// The socket of a connection is there: QUIC begins, with requests where a session allows it.
    pub(crate) fn begin_handshake(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let endpoint = &self.http.host.route.endpoints[connection.address];
        let Some(to) = endpoint.address() else { return };
        let wire = self.http.wire;
        match self.http.transport.connect(&wire.client, &wire.server_name, to, self.now_ns) {
            Ok((handle, quic)) => connection.http.link = Some(Box::new(Link::new(quic, handle))),
            Err(error) => return self.handshake_failed(slot, &io::Error::other(error.to_string())),
        }
        self.connections[slot].http.heard_ns = self.now_ns;
        if self.http.wire.early_data {
            self.send_early(slot);
        }
        self.touch(slot);
    }

    /// Sends the requests that wait for a connection in 0-RTT, as far as their methods are safe.
    fn send_early(&mut self, slot: usize) {
        if !self.connections[slot].http.link.as_ref().is_some_and(|link| link.quic.has_0rtt()) {
            return;
        }
        self.open_control(slot);
        let requests = &self.http.wire.requests;
        for _ in 0..self.share_of_held() {
            let connection = &mut self.connections[slot];
            let has_stream = connection.http.link.as_mut().is_some_and(|link| link.has_stream());
            let next = self.http.held.front();
            let is_safe = next.is_some_and(|exchange| requests[exchange.request as usize].is_safe);
            if !has_stream
                || !is_safe
                || connection.http.is_used_up()
                || connection.http.active >= connection.http.streams_max
            {
                break;
            }
            let Some(exchange) = self.http.held.pop_front() else { break };
            self.begin(slot, Exchange { opened: true, early: true, ..exchange });
        }
    }

    /// Opens our control stream and says our settings (RFC 9114 6.2.1).
    pub(crate) fn open_control(&mut self, slot: usize) {
        let Some(link) = &mut self.connections[slot].http.link else { return };
        if let Some(stream) = link.quic.streams().open(Dir::Uni) {
            // A server's windows have room for these few bytes; one without any would take no request either.
            let _ = link.quic.send_stream(stream).write(&self.http.wire.settings);
        }
    }

    /// Something of the server's came on a connection that is being made.
    pub(crate) fn heard_first(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if connection.phase == Phase::Connecting {
            connection.phase = Phase::Handshaking;
            let host = self.http.host;
            host.reached.store(true, Ordering::Relaxed);
            host.reached_at[connection.address].store(true, Ordering::Relaxed);
        }
        if let (Some(link), verdict @ (Verdict::Believed | Verdict::Refused(_))) =
            (&mut connection.http.link, witness::take())
        {
            link.verdict = verdict;
        }
    }

    /// The handshake is over.
    pub(crate) fn handshake_over(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let Some(link) = &mut connection.http.link else { return };
        let data = link.quic.crypto_session().handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
        match data.and_then(|data| data.protocol) {
            Some(protocol) if protocol == b"h3" => {}
            other => {
                let other = other.unwrap_or_default();
                let cause = format!("in the TLS handshake it chose {:?}", String::from_utf8_lossy(&other));
                self.fatal = Some(LoadError::NotHttp3 { host: self.http.host.url.host.clone(), cause });
                return self.not_made(slot, Outcome::Tls, None);
            }
        }
        // A session that is resumed shows no certificate.
        match link.verdict {
            Verdict::None => self.tally.handshakes.resumed += 1,
            Verdict::Believed | Verdict::Refused(_) => self.tally.handshakes.full += 1,
        }
        self.judge_early(slot);
        self.http.host.agreed.store(true, Ordering::Relaxed);
        self.made(slot);
    }

    /// Counts what went out in 0-RTT; where the server refused that, it goes out again.
    fn judge_early(&mut self, slot: usize) {
        let http = &mut self.connections[slot].http;
        if http.link.as_ref().is_some_and(|link| link.quic.accepted_0rtt()) {
            let early = (0..http.places()).filter(|place| http.at(*place).early).count();
            self.tally.http3.counts.early_accepted += early as u64;
            return;
        }
        self.tally.http3.counts.early_refused += self.take_back(slot);
        if let Some(link) = &mut self.connections[slot].http.link {
            link.begin_anew();
        }
        self.open_control(slot);
    }

    /// Takes back the requests that went out on a connection that is being made; gives how many there were.
    pub(crate) fn take_back(&mut self, slot: usize) -> u64 {
        let mut taken = 0;
        for place in (0..self.connections[slot].http.places()).rev() {
            let exchange = self.connections[slot].http.take(place);
            if exchange.stream.is_some() {
                taken += 1;
                let again = Exchange {
                    intended_ns: exchange.intended_ns,
                    started_ns: exchange.started_ns,
                    request: exchange.request,
                    held_us: exchange.held_us,
                    stops_ns: exchange.stops_ns,
                    ..Exchange::default()
                };
                let again = self.with_patience(again);
                self.http.held.push_front(again);
            }
        }
        self.connections[slot].http.unsent.clear();
        taken
    }

    /// The handshake failed, for this reason.
    pub(crate) fn handshake_lost(&mut self, slot: usize, reason: &ConnectionError) {
        let has_agreed = self.http.host.agreed.load(Ordering::Relaxed);
        let not_http3 = |engine: &mut Self, cause: String| {
            if !has_agreed {
                engine.fatal =
                    Some(LoadError::NotHttp3 { host: engine.http.host.url.host.clone(), cause: cause.clone() });
            }
            cause
        };
        let (outcome, words) = match reason {
            ConnectionError::VersionMismatch => {
                (Outcome::Refused, not_http3(self, "it speaks no version of QUIC that is known here".to_owned()))
            }
            ConnectionError::ConnectionClosed(close) if close.error_code == TransportErrorCode::CONNECTION_REFUSED => {
                (Outcome::Refused, not_http3(self, "it refused the connection: CONNECTION_REFUSED of QUIC".to_owned()))
            }
            ConnectionError::ApplicationClosed(close) => {
                let code = http3_code_words(close.error_code.into_inner());
                (Outcome::Closed, not_http3(self, format!("it ended the connection in the handshake: {code}")))
            }
            other => {
                let verdict = self.connections[slot].http.link.as_ref().map(|link| link.verdict.clone());
                let error = tls_error_of(other, verdict.unwrap_or_default());
                return self.handshake_failed(slot, &error);
            }
        };
        self.not_made(slot, outcome, Some(&words));
        self.scheduler.sweep_by(self.now_ns + REOPEN_NS);
    }
}

/// The error of a handshake, in the form that TLS over TCP has.
fn tls_error_of(reason: &ConnectionError, verdict: Verdict) -> io::Error {
    let alert =
        |code: TransportErrorCode| u64::from(code).checked_sub(FIRST_ALERT).and_then(|alert| u8::try_from(alert).ok());
    match reason {
        ConnectionError::TransportError(error) => match (verdict, alert(error.code)) {
            (Verdict::Refused(error), _) => io::Error::other(error),
            (_, Some(alert)) if u64::from(alert) == NO_APPLICATION_PROTOCOL => {
                io::Error::other(rustls::Error::NoApplicationProtocol)
            }
            _ => io::Error::other(error.to_string()),
        },
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code) {
            Some(alert) => io::Error::other(rustls::Error::AlertReceived(alert.into())),
            None => io::Error::other(format!("the server ended the handshake: {close}")),
        },
        ConnectionError::TimedOut => io::ErrorKind::TimedOut.into(),
        other => io::Error::other(other.to_string()),
    }
}
