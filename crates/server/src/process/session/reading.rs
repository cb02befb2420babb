//! Reads a session that came from another server: nothing of it is believed before it was checked.

use super::{
    ContentName, Ending, HTTP1, HTTP2, LINE_BYTES_MAX, PARTS_MAX, PATH_BYTES_MAX, PLAIN_VERSION, Pending,
    RELAYED_VERSION, RELAYS_MAX, RESPONSES_MAX, STREAMS_MAX, Session, VERSION, Wait,
};
use crate::exchange::streamed::Far;
use crate::http::response::{Digest, Part, Response, Variant};
use crate::policy::codec_swap::StreamPlace;
use crate::policy::sessions::{AdoptError, BODY_BYTES_MAX, SESSION_BYTES_MAX, SessionSummary};
use crate::telemetry::access_log::LineText;
use crate::tls::TlsSession;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use zeroize::Zeroizing;

/// A file's end is below this, so that sums of parts are no matter.
const CONTENT_BYTES_MAX: u64 = 1 << 52;
/// Bytes of a list of variants' names.
const NAMES_BYTES_MAX: usize = 4096;

/// What is still to be read.
pub(super) struct Reader<'b>(&'b [u8]);

pub(super) type Read<T> = Result<T, AdoptError>;

impl SessionSummary {
    /// Reads the bytes of [`crate::TakenSession::session`], of this server or another one.
    ///
    /// # Errors
    ///
    /// [`AdoptError::Version`], [`AdoptError::Malformed`] and [`AdoptError::Path`].
    pub fn read(session: &[u8]) -> Result<Self, AdoptError> {
        let read = Session::read(session)?;
        Ok(Self {
            // What was read is not empty.
            version: session.first().copied().unwrap_or(VERSION),
            responses: read.responses.len(),
            relays: read.relays(),
            bytes_to_go: read.bytes_to_go(),
            known_bytes: read.known_bytes(),
        })
    }
}

pub(super) const fn malformed(part: &'static str) -> AdoptError {
    AdoptError::Malformed { part }
}

/// An error unless it is so.
pub(super) fn holds(is_so: bool, part: &'static str) -> Read<()> {
    if is_so { Ok(()) } else { Err(malformed(part)) }
}

impl Session {
    /// Reads bytes that may come from elsewhere.
    ///
    /// # Errors
    ///
    /// Those of [`AdoptError`] that concern the bytes alone.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, AdoptError> {
        holds(bytes.len() <= SESSION_BYTES_MAX, "its length")?;
        let mut from = Reader(bytes);
        let version = from.byte()?;
        if !(PLAIN_VERSION..=VERSION).contains(&version) {
            return Err(AdoptError::Version { version, known: VERSION });
        }
        let is_http2 = match from.byte()? {
            HTTP1 => false,
            HTTP2 => true,
            _ => return Err(malformed("the protocol")),
        };
        let (peer, client) = (from.address()?, from.option(Reader::address)?);
        let ending = match from.byte()? {
            0 => Ending::Stays,
            1 => Ending::Closes,
            2 => Ending::Lingers,
            _ => return Err(malformed("how it ends")),
        };
        let wait = match from.byte()? {
            0 => Wait::Head,
            1 => Wait::Idle,
            2 => Wait::Body,
            3 => Wait::Room,
            _ => return Err(malformed("what it waits for")),
        };
        let (left_ms, body_bytes) = (from.number()?, from.number()?);
        holds(body_bytes <= BODY_BYTES_MAX, "the body of a request")?;
        let [saved, input, output] = [from.text()?, from.text()?, from.text()?].map(<[u8]>::to_vec);
        let tls = from.option(Reader::text)?.map(|tls| TlsSession(Zeroizing::new(tls.to_vec())));
        // What a session of TLS holds is in its own bytes.
        holds(tls.is_none() || (input.is_empty() && output.is_empty()), "what it holds")?;
        let count = from.length()?;
        holds(count <= if is_http2 { STREAMS_MAX } else { RESPONSES_MAX }, "the number of responses")?;
        let responses = (0..count).map(|_| from.pending(version)).collect::<Read<Vec<Pending>>>()?;
        let http2 = if is_http2 { Some(Box::new(from.http2()?)) } else { None };
        holds(from.0.is_empty(), "its end")?;
        let read =
            Self { peer, client, ending, wait, left_ms, body_bytes, saved, input, output, tls, responses, http2 };
        let has_relays = version != RELAYED_VERSION || read.relays() > 0;
        holds(has_relays && read.relays() <= RELAYS_MAX, "the number of responses that another server makes")?;
        holds(version != VERSION || read.is_swapped(), "the version")?;
        read.has_order()?;
        Ok(read)
    }
}

impl Session {
    /// Whether the responses can be under way as they are, by the rules of the protocol.
    fn has_order(&self) -> Read<()> {
        let Some(http2) = &self.http2 else {
            // What stands behind another one is not begun.
            let is_begun = |one: &Pending| {
                one.response.offset > 0 || one.swapped.as_ref().is_some_and(|place| place.released_bytes > 0)
            };
            return holds(!self.responses.iter().skip(1).any(is_begun), "the order of responses");
        };
        holds(!self.is_swapped(), "sound over HTTP/2 that may go on in another variant")?;
        holds(http2.streams.len() == self.responses.len(), "the number of streams")?;
        let is_plain = self.ending == Ending::Stays && self.wait != Wait::Body && self.body_bytes == 0;
        // A head goes out in one piece.
        let is_begun = |one: &Pending| one.response.offset >= one.head_bytes && one.head_bytes > 0;
        let are_whole = self.responses.iter().all(|one| one.response.offset == 0 || is_begun(one));
        holds(is_plain && are_whole, "the state of a stream")
    }
}

impl<'b> Reader<'b> {
    fn bytes(&mut self, len: usize) -> Read<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(malformed("its length"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn truth(&mut self) -> Read<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed("a yes or no")),
        }
    }

    pub(super) fn number(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn length(&mut self) -> Read<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    pub(super) fn text(&mut self) -> Read<&'b [u8]> {
        let length = self.length()?;
        self.bytes(length)
    }

    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        self.truth()?.then(|| read(self)).transpose()
    }

    fn address(&mut self) -> Read<SocketAddr> {
        let ip: IpAddr = match self.byte()? {
            4 => Ipv4Addr::from(self.array::<4>()?).into(),
            6 => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return Err(malformed("an address")),
        };
        Ok(SocketAddr::new(ip, u16::from_le_bytes(self.array()?)))
    }

    fn pending(&mut self, version: u8) -> Read<Pending> {
        let head = self.text()?.to_vec();
        let variant = match self.byte()? {
            0 => Variant::Identity,
            1 => Variant::Gzip,
            2 => Variant::Brotli,
            3 => Variant::Zstd,
            _ => return Err(malformed("a coding")),
        };
        let count = self.length()?;
        holds(count <= PARTS_MAX, "the number of parts")?;
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(Part { head_end: self.number()?, start: self.number()?, end: self.number()? });
        }
        let ends = parts.iter().map(|part| part.head_end);
        let are_in_head = ends.clone().is_sorted() && ends.max().is_none_or(|last| last <= head.len() as u64);
        let are_ranges = parts.iter().all(|part| part.start < part.end && part.end <= CONTENT_BYTES_MAX);
        holds(are_in_head && are_ranges, "the parts of a response")?;
        let offset = self.number()?;
        let response = Response { head, resource: None, variant, parts, offset };
        let status = u16::try_from(self.number()?).ok().filter(|status| (100..1000).contains(status));
        let status = status.ok_or(malformed("a status"))?;
        let head_bytes = self.number()?;
        let content = self.option(Self::content)?;
        let is_plain = content.as_ref().is_none_or(|content| !content.is_made || variant != Variant::Identity);
        holds(is_plain, "the form of a content")?;
        let line = self.line()?;
        let host = self.option(|from| {
            let name = std::str::from_utf8(from.text()?).map_err(|_| malformed("the name of a host"))?;
            Ok(name.to_owned())
        })?;
        let far = if version >= RELAYED_VERSION { self.option(Self::far)? } else { None };
        let swapped = if version >= VERSION { self.option(Self::swapped)? } else { None };
        // What is made in pieces has a file, and its bytes are here.
        let has_content = content.is_some() && !response.parts.is_empty();
        let is_taken_of = match (&far, &swapped) {
            (Some(_), Some(_)) => false,
            (None, Some(_)) => content.is_some() && response.parts.is_empty() && variant == Variant::Identity,
            _ => has_content || (content.is_none() && response.parts.is_empty()),
        };
        holds(is_taken_of, "the content of a response")?;
        let has_rest = match (&far, &swapped) {
            // Where another server makes it, there is nothing of it here.
            (Some(_), _) => response.is_empty() && offset == 0,
            // The next piece is still to be made.
            (None, Some(_)) => offset <= response.len(),
            (None, None) => offset < response.len(),
        };
        holds(has_rest, "how far a response came")?;
        // A head that another server has made, or that has gone out with an earlier piece, is not here.
        let is_gone = far.is_some() || swapped.as_ref().is_some_and(|place| place.released_bytes >= head_bytes);
        holds(is_gone || head_bytes <= response.head.len() as u64, "the head of a response")?;
        Ok(Pending { response, status, head_bytes, content, line, host, far, swapped })
    }

    fn far(&mut self) -> Read<Far> {
        let (minor, closes, ends_with_connection) = (self.byte()?, self.truth()?, self.truth()?);
        let (sent_bytes, framing_bytes) = (self.number()?, self.number()?);
        holds(
            minor <= 2 && sent_bytes <= CONTENT_BYTES_MAX && framing_bytes <= CONTENT_BYTES_MAX,
            "how far a response came",
        )?;
        Ok(Far { minor, closes, ends_with_connection, sent_bytes, framing_bytes })
    }

    fn swapped(&mut self) -> Read<StreamPlace> {
        let path = self.path()?.into();
        let name = std::str::from_utf8(self.text()?).map_err(|_| malformed("the name of a variant"))?;
        holds(name.len() <= NAMES_BYTES_MAX, "the name of a variant")?;
        let (at, frame) = (self.number()?, self.option(Self::number)?);
        let (is_over, released_bytes) = (self.truth()?, self.number()?);
        // A frame has bytes, so that there are fewer of them.
        let is_place = at <= CONTENT_BYTES_MAX && frame.is_none_or(|frame| frame <= at);
        holds(is_place && released_bytes <= CONTENT_BYTES_MAX, "how far a response came")?;
        Ok(StreamPlace { path, name: name.into(), at, frame, is_over, released_bytes })
    }

    fn path(&mut self) -> Read<Vec<u8>> {
        let path = self.text()?.to_vec();
        let leads_out = path.split(|&byte| byte == b'/').any(|segment| segment == b"..");
        if path.first() != Some(&b'/') || leads_out || path.contains(&0) || path.len() > PATH_BYTES_MAX {
            return Err(AdoptError::Path);
        }
        Ok(path)
    }

    fn content(&mut self) -> Read<ContentName> {
        let site = u32::from_le_bytes(self.array()?);
        let path = self.path()?;
        let (digest, is_made) = (Digest(self.array()?), self.truth()?);
        Ok(ContentName { site, path, digest, is_made })
    }

    fn line(&mut self) -> Read<LineText> {
        let text = self.text()?.to_vec();
        let count = self.length()?;
        holds(text.len() <= LINE_BYTES_MAX && count <= LINE_BYTES_MAX, "a line of the log")?;
        let mut late = Vec::new();
        for _ in 0..count {
            late.push((u32::from_le_bytes(self.array()?), self.byte()?));
        }
        let line = LineText { text, late, took_us: self.number()? };
        holds(line.is_sound(), "a line of the log")?;
        Ok(line)
    }
}
