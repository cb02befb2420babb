//! A connection of HTTP/2 with an upstream, without its socket: bytes come in, bytes go out, and requests share it
//! (RFC 9113).
//!
//! What is received of a response is held by its stream, up to the stream's window, and the window of the connection is
//! opened at once: a client that takes its response slowly holds back its own stream alone.

use super::request::{self, NoHead, Target};
use super::response;
use super::settings::{PeerSettings, WINDOW_BYTES};
use super::stream::{Expects, HELD_BYTES_MAX, Stream, StreamFault};
use crate::http::fields::{Bounds, Fields};
use crate::http::frames::allowance::{Allowance, cost};
use crate::http::frames::frame::{self, Code, Head, PAYLOAD_BYTES_MAX, WINDOW_MAX, flag, kind};
use crate::http::frames::hpack::Decoder;
use crate::http::preface::PREFACE;
use crate::upstream::message::{FIELDS_MAX, Garbled, HEAD_BYTES_MAX, Said};
use std::collections::HashMap;

/// What all streams together may receive before it was looked at; it is opened again as soon as it was.
const WINDOW_OF_ALL_BYTES: i64 = 8 << 20;
/// The window of all is opened by this much at once.
const CREDIT_BYTES: i64 = 1 << 20;
/// Bytes that wait for the socket before bodies have to.
const BACKLOG_BYTES: usize = 64 << 10;
/// Bytes that wait for the socket at most, answers to the upstream's own questions included.
const OUT_BYTES_MAX: usize = 1 << 20;
/// A window that is opened by less costs more than it brings.
const SMALL_BYTES: u32 = 1024;
/// The bound on fields that the upstream is told (section 6.5.2).
const BOUNDS: Bounds = Bounds { bytes_max: HEAD_BYTES_MAX, fields_max: FIELDS_MAX };
/// What is told of us: no pushes, the window of a stream, the size of a head.
const SETTINGS: [(u16, u32); 3] = [(2, 0), (4, HELD_BYTES_MAX as u32), (6, HEAD_BYTES_MAX as u32)];
/// CANCEL (section 7).
const CANCEL: u32 = 8;

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its HTTP/2 {why}")]
pub(crate) struct Fault {
    code: u32,
    why: &'static str,
}

fn fault(code: Code, why: &'static str) -> Fault {
    Fault { code: code as u32, why }
}

/// A block of fields that is not whole.
#[derive(Debug)]
struct Continued {
    stream: u32,
    ends: bool,
    block: Vec<u8>,
}

/// A request for [`Connection::open`].
#[derive(Debug)]
pub(crate) struct Asked<'r, U> {
    /// As HTTP/1.1 would have it.
    pub(crate) head: &'r [u8],
    pub(crate) is_secure: bool,
    /// A body follows.
    pub(crate) has_body: bool,
    pub(crate) expects: Expects,
    pub(crate) user: U,
}

/// Both sides of a connection.
#[derive(Debug)]
pub(crate) struct Connection<U> {
    out: Vec<u8>,
    /// Bytes of these that the socket has taken.
    sent: usize,
    /// A frame that is not whole.
    partial: Vec<u8>,
    decoder: Decoder,
    fields: Fields,
    continued: Option<Continued>,
    streams: HashMap<u32, Stream<U>>,
    next: u32,
    told: Vec<u32>,
    window_out: i64,
    window_in: i64,
    credit: i64,
    peer: PeerSettings,
    /// The last stream that is looked at, once the upstream has said that it leaves.
    last: Option<u32>,
    allowance: Allowance,
    now_ms: u64,
}

impl<U: Copy> Connection<U> {
    pub(crate) fn new(now_ms: u64) -> Self {
        let mut out = PREFACE.to_vec();
        frame::settings(&mut out, &SETTINGS);
        frame::number(&mut out, kind::WINDOW_UPDATE, 0, (WINDOW_OF_ALL_BYTES - WINDOW_BYTES) as u32);
        Self {
            out,
            sent: 0,
            partial: Vec::new(),
            decoder: Decoder::default(),
            fields: Fields::default(),
            continued: None,
            streams: HashMap::new(),
            next: 1,
            told: Vec::new(),
            window_out: WINDOW_BYTES,
            window_in: WINDOW_OF_ALL_BYTES,
            credit: 0,
            peer: PeerSettings::default(),
            last: None,
            allowance: Allowance::new(now_ms),
            now_ms,
        }
    }

    pub(crate) fn peer(&self) -> &PeerSettings {
        &self.peer
    }

    /// Requests on it.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Whether it is of no use for further requests.
    pub(crate) fn is_leaving(&self) -> bool {
        self.last.is_some() || self.next > WINDOW_MAX as u32
    }

    /// Whether another request may begin, of at most so many.
    pub(crate) fn has_place(&self, streams_max: u32) -> bool {
        !self.is_leaving() && (self.streams.len() as u64) < u64::from(streams_max.min(self.peer.streams_max))
    }

    /// Begins a request; its number.
    ///
    /// # Errors
    ///
    /// [`NoHead`] for what is no head.
    pub(crate) fn open(&mut self, asked: Asked<'_, U>) -> Result<u32, NoHead> {
        let is_tunnel = matches!(asked.expects, Expects::Tunnel(_));
        let mut block = Vec::with_capacity(asked.head.len());
        request::block(asked.head, Target { is_secure: asked.is_secure, is_tunnel }, &mut block)?;
        let (id, is_sending) = (self.next, asked.has_body || is_tunnel);
        self.next += 2;
        self.write_block(id, &block, !is_sending);
        self.streams.insert(id, Stream::new(asked.user, asked.expects, self.peer.window, is_sending));
        Ok(id)
    }

    fn write_block(&mut self, id: u32, block: &[u8], ends: bool) {
        let mut pieces = block.chunks(PAYLOAD_BYTES_MAX).peekable();
        let (mut kind, mut flags) = (kind::HEADERS, if ends { flag::END_STREAM } else { 0 });
        while let Some(piece) = pieces.next() {
            let last = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
            frame::head(&mut self.out, piece.len(), kind, flags | last, id);
            self.out.extend_from_slice(piece);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
    }

    /// Sends some of a body; returns how many bytes there was room for.
    pub(crate) fn send(&mut self, id: u32, bytes: &[u8]) -> usize {
        let waiting = self.out.len() - self.sent;
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_sending) else { return 0 };
        let room = self.window_out.min(stream.window_out).max(0);
        let room = usize::try_from(room).unwrap_or(0).min(BACKLOG_BYTES.saturating_sub(waiting));
        let taken = room.min(bytes.len());
        stream.wants_room = taken < bytes.len();
        stream.window_out -= taken as i64;
        self.window_out -= taken as i64;
        for piece in bytes[..taken].chunks(PAYLOAD_BYTES_MAX) {
            frame::head(&mut self.out, piece.len(), kind::DATA, 0, id);
            self.out.extend_from_slice(piece);
        }
        taken
    }

    /// Ends a request's body, with trailers if there are any.
    pub(crate) fn end<'t>(&mut self, id: u32, trailers: impl Iterator<Item = (&'t str, &'t [u8])>) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_sending) else { return };
        stream.is_sending = false;
        let mut block = Vec::new();
        request::trailers(trailers, &mut block);
        if block.is_empty() {
            frame::head(&mut self.out, 0, kind::DATA, flag::END_STREAM, id);
        } else {
            self.write_block(id, &block, true);
        }
    }

    /// Gives on what has come of a response; see [`Stream::take`].
    ///
    /// # Errors
    ///
    /// Why there is nothing more.
    pub(crate) fn take(&mut self, id: u32, room: usize, say: &mut dyn FnMut(Said<'_>)) -> Result<bool, StreamFault> {
        let stream = self.streams.get_mut(&id).ok_or(StreamFault::Lost)?;
        let taken = stream.take(room, say);
        if let Some(bytes) = stream.take_credit() {
            frame::number(&mut self.out, kind::WINDOW_UPDATE, id, bytes);
        }
        taken
    }

    /// Forgets a request; the upstream is told if it is not over.
    pub(crate) fn close(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(&id) else { return };
        if stream.is_receiving() || stream.is_sending {
            frame::number(&mut self.out, kind::RST_STREAM, id, CANCEL);
        }
    }

    /// Says that the connection is not used any more.
    pub(crate) fn leave(&mut self) {
        if self.last.is_none() {
            self.last = Some(self.next);
            frame::go_away(&mut self.out, 0, Code::NoError);
        }
    }

    /// Bytes for the socket.
    pub(crate) fn output(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// The socket has taken so many of them.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.out.len() {
            self.out.clear();
            self.out.shrink_to(BACKLOG_BYTES);
            self.sent = 0;
        } else if self.sent >= BACKLOG_BYTES {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        if self.output().len() <= BACKLOG_BYTES / 2 {
            self.tell_waiting();
        }
    }

    /// Requests that are to go on.
    pub(crate) fn take_told(&mut self) -> Vec<U> {
        let mut users = Vec::with_capacity(self.told.len());
        for id in self.told.drain(..) {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.is_told = false;
                users.push(stream.user);
            }
        }
        users
    }

    fn tell(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.is_told) {
            stream.is_told = true;
            self.told.push(id);
        }
    }

    /// Tells those that have more to send.
    fn tell_waiting(&mut self) {
        if self.window_out <= 0 {
            return;
        }
        for (id, stream) in &mut self.streams {
            if stream.wants_room && stream.window_out > 0 && !stream.is_told {
                stream.is_told = true;
                self.told.push(*id);
            }
        }
    }

    /// All requests end: the connection has.
    pub(crate) fn lose(&mut self) {
        let ids: Vec<u32> = self.streams.keys().copied().collect();
        for id in ids {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.fail(StreamFault::Lost);
            }
            self.tell(id);
        }
        self.last = Some(0);
    }

    /// Takes up bytes of the upstream.
    ///
    /// # Errors
    ///
    /// Why the connection ends; the upstream is told by what goes out.
    pub(crate) fn receive(&mut self, bytes: &[u8], now_ms: u64) -> Result<(), Fault> {
        self.now_ms = now_ms;
        let read = self.read(bytes);
        if let Err(fault) = read {
            frame::head(&mut self.out, 8, kind::GOAWAY, 0, 0);
            self.out.extend_from_slice(&[0; 4]);
            self.out.extend_from_slice(&fault.code.to_be_bytes());
        }
        read
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            if self.partial.is_empty() {
                match whole(bytes) {
                    Some((head, payload, rest)) => {
                        self.frame(&head, payload)?;
                        bytes = rest;
                    }
                    None => {
                        self.partial.extend_from_slice(bytes);
                        bytes = b"";
                    }
                }
            } else {
                let wanted = match Head::read(&self.partial) {
                    None => frame::HEAD_BYTES,
                    Some(head) => frame::HEAD_BYTES + head.len,
                };
                let (more, rest) = bytes.split_at((wanted - self.partial.len()).min(bytes.len()));
                self.partial.extend_from_slice(more);
                bytes = rest;
            }
            self.read_partial()?;
        }
        Ok(())
    }

    /// Handles a frame that came in pieces once it is whole, and looks at the beginning of one that is not.
    fn read_partial(&mut self) -> Result<(), Fault> {
        let Some(head) = Head::read(&self.partial) else {
            return Ok(());
        };
        self.check(&head)?;
        if self.partial.len() < frame::HEAD_BYTES + head.len {
            return Ok(());
        }
        let mut frame = std::mem::take(&mut self.partial);
        let handled = self.frame(&head, &frame[frame::HEAD_BYTES..]);
        frame.clear();
        self.partial = frame;
        handled
    }

    /// Whether a frame may come now.
    fn check(&self, head: &Head) -> Result<(), Fault> {
        if !self.peer.is_known && (head.kind != kind::SETTINGS || head.has(flag::ACK) || head.stream != 0) {
            return Err(fault(Code::Protocol, "does not begin with its settings: does it speak HTTP/2 here?"));
        }
        if head.len > PAYLOAD_BYTES_MAX {
            return Err(fault(Code::FrameSize, "has a frame that is too large"));
        }
        Ok(())
    }

    fn frame(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        self.check(head)?;
        if let Some(continued) = &self.continued
            && (head.kind != kind::CONTINUATION || head.stream != continued.stream)
        {
            return Err(fault(Code::Protocol, "has another frame within a block of fields"));
        }
        match head.kind {
            kind::DATA => self.data(head, payload),
            kind::HEADERS => self.headers(head, payload),
            kind::CONTINUATION => self.continuation(head, payload),
            kind::RST_STREAM => self.reset(head, payload),
            kind::SETTINGS => self.settings(head, payload),
            kind::PING => self.ping(head, payload),
            kind::GOAWAY => self.go_away(head, payload),
            kind::WINDOW_UPDATE => self.window_update(head, payload),
            kind::PUSH_PROMISE => Err(fault(Code::Protocol, "pushes, which it was told not to")),
            // PRIORITY, and what no standard knows.
            _ => self.spend(cost::FRAME),
        }
    }

    /// Bears a frame that brings nothing.
    fn spend(&mut self, tokens: u64) -> Result<(), Fault> {
        let is_borne = self.allowance.spend(tokens, self.now_ms) && self.output().len() <= OUT_BYTES_MAX;
        if is_borne { Ok(()) } else { Err(fault(Code::EnhanceYourCalm, "has too many frames that bring nothing")) }
    }

    /// A stream that a frame is for; none if it is over.
    fn stream(&mut self, head: &Head) -> Result<Option<&mut Stream<U>>, Fault> {
        if head.stream == 0 || head.stream >= self.next || head.stream.is_multiple_of(2) {
            return Err(fault(Code::Protocol, "has a frame for a stream that there is not"));
        }
        Ok(self.streams.get_mut(&head.stream))
    }

    /// Ends a stream whose response is none.
    fn garbled(&mut self, id: u32, garbled: Garbled) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.fail(StreamFault::Garbled(garbled));
            frame::number(&mut self.out, kind::RST_STREAM, id, Code::Protocol as u32);
        }
        self.tell(id);
    }

    fn data(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        let content = frame::unpadded(head, payload).map_err(|code| fault(code, "has a frame with wrong padding"))?;
        let (bytes, ends) = (payload.len() as i64, head.has(flag::END_STREAM));
        self.window_in -= bytes;
        if self.window_in < 0 {
            return Err(fault(Code::FlowControl, "sends more than its window allows"));
        }
        self.credit += bytes;
        if self.credit >= CREDIT_BYTES {
            frame::number(&mut self.out, kind::WINDOW_UPDATE, 0, self.credit as u32);
            self.window_in += std::mem::take(&mut self.credit);
        }
        if content.is_empty() && !ends {
            self.spend(cost::FRAME)?;
        }
        let Some(stream) = self.stream(head)? else {
            return if content.len() < SMALL_BYTES as usize { self.spend(cost::FRAME) } else { Ok(()) };
        };
        if !stream.is_receiving() {
            // It was reset, or has ended; what was under way meanwhile is let go.
            return self.spend(cost::FRAME);
        }
        match stream.take_body(content, bytes, ends) {
            Ok(true) => self.tell(head.stream),
            Ok(false) => return Err(fault(Code::FlowControl, "sends more than the window of a stream allows")),
            Err(garbled) => self.garbled(head.stream, garbled),
        }
        Ok(())
    }

    fn headers(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        let (block, _) = frame::headers(head, payload).map_err(|code| fault(code, "has a head that cannot be read"))?;
        self.stream(head)?;
        let ends = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.block(head.stream, ends, block);
        }
        self.continued = Some(Continued { stream: head.stream, ends, block: block.to_vec() });
        Ok(())
    }

    fn continuation(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        self.spend(cost::FRAME)?;
        let Some(mut continued) = self.continued.take() else {
            return Err(fault(Code::Protocol, "goes on with a head that has not begun"));
        };
        continued.block.extend_from_slice(payload);
        if continued.block.len() > HEAD_BYTES_MAX {
            return Err(fault(Code::EnhanceYourCalm, "has a head that is too large"));
        }
        if head.has(flag::END_HEADERS) {
            return self.block(continued.stream, continued.ends, &continued.block);
        }
        self.continued = Some(continued);
        Ok(())
    }

    /// Handles a whole block of fields.
    fn block(&mut self, id: u32, ends: bool, block: &[u8]) -> Result<(), Fault> {
        let read = self.decoder.decode(block, BOUNDS, &mut self.fields);
        read.map_err(|_| fault(Code::Compression, "has a block of fields that cannot be read"))?;
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_receiving()) else {
            return self.spend(cost::FRAME);
        };
        let taken = if stream.has_head() {
            match response::trailers(&self.fields) {
                Ok(lines) if ends => stream.take_trailers(lines),
                Ok(_) => Err(Garbled::Body("it has two heads")),
                Err(garbled) => Err(garbled),
            }
        } else {
            response::head(&self.fields).and_then(|head| stream.take_head(head, ends))
        };
        match taken {
            Ok(()) => self.tell(id),
            Err(garbled) => self.garbled(id, garbled),
        }
        Ok(())
    }

    fn reset(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Err(fault(Code::FrameSize, "has a RST_STREAM of another size"));
        }
        let code = frame::word(payload);
        if let Some(stream) = self.stream(head)?
            && (stream.is_receiving() || stream.is_sending)
        {
            stream.fail(if code == Code::RefusedStream as u32 {
                StreamFault::Refused
            } else {
                StreamFault::Reset(code)
            });
            self.tell(head.stream);
            return Ok(());
        }
        self.spend(cost::FRAME)
    }

    fn settings(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        const WRONG: &str = "has settings that are none";
        if head.stream != 0 {
            return Err(fault(Code::Protocol, WRONG));
        }
        self.spend(cost::FRAME)?;
        if head.has(flag::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(fault(Code::FrameSize, WRONG)) };
        }
        let before = self.peer.window;
        self.peer.take(payload).map_err(|code| fault(code, WRONG))?;
        let opened = self.peer.window - before;
        for stream in self.streams.values_mut() {
            stream.window_out += opened;
            if stream.window_out > WINDOW_MAX {
                return Err(fault(Code::FlowControl, "opens a window too far"));
            }
        }
        frame::head(&mut self.out, 0, kind::SETTINGS, flag::ACK, 0);
        self.tell_waiting();
        Ok(())
    }

    fn ping(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 || payload.len() != 8 {
            return Err(fault(Code::FrameSize, "has a PING that is none"));
        }
        self.spend(cost::FRAME)?;
        if !head.has(flag::ACK) {
            frame::head(&mut self.out, 8, kind::PING, flag::ACK, 0);
            self.out.extend_from_slice(payload);
        }
        Ok(())
    }

    fn go_away(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 || payload.len() < 8 {
            return Err(fault(Code::FrameSize, "has a GOAWAY that is none"));
        }
        self.spend(cost::FRAME)?;
        let last = frame::word(payload) & 0x7fff_ffff;
        self.last = Some(self.last.map_or(last, |before| before.min(last)));
        let refused: Vec<u32> = self.streams.keys().copied().filter(|id| *id > last).collect();
        for id in refused {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.fail(StreamFault::Refused);
            }
            self.tell(id);
        }
        Ok(())
    }

    fn window_update(&mut self, head: &Head, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Err(fault(Code::FrameSize, "has a WINDOW_UPDATE of another size"));
        }
        let bytes = frame::word(payload) & 0x7fff_ffff;
        if bytes < SMALL_BYTES {
            self.spend(cost::FRAME)?;
        }
        if head.stream == 0 {
            self.window_out += i64::from(bytes);
            if bytes == 0 || self.window_out > WINDOW_MAX {
                return Err(fault(Code::FlowControl, "opens its window by nothing, or too far"));
            }
            self.tell_waiting();
            return Ok(());
        }
        let Some(stream) = self.stream(head)? else { return Ok(()) };
        stream.window_out += i64::from(bytes);
        if bytes == 0 || stream.window_out > WINDOW_MAX {
            self.garbled(head.stream, Garbled::Body("it opens its window by nothing, or too far"));
        } else if stream.wants_room {
            self.tell(head.stream);
        }
        Ok(())
    }
}

/// A frame that the input has whole, and what is behind it.
fn whole(input: &[u8]) -> Option<(Head, &[u8], &[u8])> {
    let head = Head::read(input)?;
    let (payload, rest) = input[frame::HEAD_BYTES..].split_at_checked(head.len)?;
    Some((head, payload, rest))
}
