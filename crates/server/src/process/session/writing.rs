//! The form of a session that goes to another server: numbers are little-endian, and texts stand behind their length.

use super::{ContentName, Ending, HTTP1, HTTP2, PLAIN_VERSION, Pending, RELAYED_VERSION, Session, VERSION, Wait};
use crate::exchange::streamed::Far;
use crate::http::response::Variant;
use crate::policy::codec_swap::StreamPlace;
use crate::telemetry::access_log::LineText;
use std::net::{IpAddr, SocketAddr};
use zeroize::Zeroizing;

/// Room that nearly all sessions fit into, so that no copy of their keys is left behind.
const WRITTEN_BYTES: usize = 4096;

/// Bytes that are written.
pub(super) struct Writer(Zeroizing<Vec<u8>>);

impl Session {
    /// The session as bytes.
    pub(crate) fn write(&self) -> Zeroizing<Vec<u8>> {
        let more = self.http2.as_ref().map_or(0, |http2| http2.written_bytes());
        let mut out = Writer(Zeroizing::new(Vec::with_capacity(WRITTEN_BYTES + more)));
        let version = match (self.is_swapped(), self.relays()) {
            (true, _) => VERSION,
            (false, 1..) => RELAYED_VERSION,
            (false, 0) => PLAIN_VERSION,
        };
        out.byte(version);
        out.byte(if self.http2.is_some() { HTTP2 } else { HTTP1 });
        out.address(self.peer);
        out.option(self.client, Writer::address);
        out.byte(match self.ending {
            Ending::Stays => 0,
            Ending::Closes => 1,
            Ending::Lingers => 2,
        });
        out.byte(match self.wait {
            Wait::Head => 0,
            Wait::Idle => 1,
            Wait::Body => 2,
            Wait::Room => 3,
        });
        out.number(self.left_ms);
        out.number(self.body_bytes);
        out.text(&self.saved);
        out.text(&self.input);
        out.text(&self.output);
        out.option(self.tls.as_ref(), |out, tls| out.text(&tls.0));
        out.length(self.responses.len());
        for pending in &self.responses {
            out.pending(pending);
            if version >= RELAYED_VERSION {
                out.option(pending.far.as_ref(), Writer::far);
            }
            if version >= VERSION {
                out.option(pending.swapped.as_ref(), Writer::swapped);
            }
        }
        self.http2.iter().for_each(|http2| out.http2(http2));
        out.0
    }
}

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Lengths are far below this type's bound, as a session has one.
    pub(super) fn length(&mut self, length: usize) {
        self.0.extend_from_slice(&(length as u32).to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        self.length(text.len());
        self.0.extend_from_slice(text);
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn address(&mut self, address: SocketAddr) {
        match address.ip() {
            IpAddr::V4(ip) => {
                self.byte(4);
                self.0.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                self.byte(6);
                self.0.extend_from_slice(&ip.octets());
            }
        }
        self.0.extend_from_slice(&address.port().to_le_bytes());
    }

    fn pending(&mut self, pending: &Pending) {
        let response = &pending.response;
        self.text(&response.head);
        self.byte(match response.variant {
            Variant::Identity => 0,
            Variant::Gzip => 1,
            Variant::Brotli => 2,
            Variant::Zstd => 3,
        });
        self.length(response.parts.len());
        for part in &response.parts {
            [part.head_end, part.start, part.end].into_iter().for_each(|number| self.number(number));
        }
        self.number(response.offset);
        self.number(u64::from(pending.status));
        self.number(pending.head_bytes);
        self.option(pending.content.as_ref(), Self::content);
        self.line(&pending.line);
        self.option(pending.host.as_ref(), |out, host| out.text(host.as_bytes()));
    }

    fn far(&mut self, far: &Far) {
        [far.minor, far.closes.into(), far.ends_with_connection.into()].into_iter().for_each(|byte| self.byte(byte));
        [far.sent_bytes, far.framing_bytes].into_iter().for_each(|number| self.number(number));
    }

    fn swapped(&mut self, place: &StreamPlace) {
        self.text(&place.path);
        self.text(place.name.as_bytes());
        self.number(place.at);
        self.option(place.frame, Self::number);
        self.byte(u8::from(place.is_over));
        self.number(place.released_bytes);
    }

    fn content(&mut self, content: &ContentName) {
        self.0.extend_from_slice(&content.site.to_le_bytes());
        self.text(&content.path);
        self.0.extend_from_slice(&content.digest.0);
        self.byte(u8::from(content.is_made));
    }

    fn line(&mut self, line: &LineText) {
        self.text(&line.text);
        self.length(line.late.len());
        for (at, what) in &line.late {
            self.0.extend_from_slice(&at.to_le_bytes());
            self.byte(*what);
        }
        self.number(line.took_us);
    }
}
