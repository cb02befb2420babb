//! A stream of HTTP/3: a request, and its response as it is written to the stream.

use super::encode;
use super::frame::{self, Reader, kind};
use crate::exchange::life::Exchange;
use crate::exchange::request_body::RequestBody;
use crate::files::resource::Content;
use crate::http::response::Piece;
use crate::http2::append;
use crate::http2::parked::Parked;
use crate::io::clock::Clock;
use bytes::Bytes;
use quinn_proto::{StreamId, VarInt, WriteError};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A stream's number.
pub(super) fn number_of(id: StreamId) -> u64 {
    VarInt::from(id).into_inner()
}

/// Bytes that a stream is given before the others of its connection have their turn.
const TURN_BYTES_MAX: usize = 64 << 10;
/// Bytes of an application's body that are held outside QUIC, which holds the rest of what one request may.
const BODY_BYTES_MAX: usize = 16 << 10;
/// Bytes of such a body that the client has to send in each span of its time.
const STRIDE_BYTES: u64 = 16 << 10;
/// Bytes of a file that are read at once.
const READ_BYTES_MAX: u64 = 64 << 10;
/// Content up to this size is copied behind its head.
const COPIED_BYTES_MAX: u64 = 4 << 10;

/// A stream that is not over on both sides.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) reader: Reader,
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) exchange: Exchange,
    /// The response waits for the end of the request's body.
    pub(super) is_held: bool,
    /// The client has ended its side, or need not.
    pub(super) is_received: bool,
    /// What the body is said to be, and what came of it.
    pub(super) body_expected: Option<u64>,
    pub(super) body_bytes: u64,
    pub(super) since_ms: u64,
    /// The request, while its password is being checked or it waits for others; there is no response until then.
    pub(super) parked: Option<Box<Parked>>,
    /// Bytes of the response that QUIC had no room for.
    unsent: Bytes,
    /// It says when there is room.
    pub(super) is_blocked: bool,
    /// What came of the body and its trailers while it was parked.
    pub(super) early: Option<Box<RequestBody>>,
    /// The fields behind the response's body were written, or are being so.
    trailers_are_due: bool,
    /// There may be more to read, for which there was no room.
    pub(super) is_unread: bool,
}

/// What is expected of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Head,
    Body,
    /// Nothing but the end: there were trailers.
    End,
}

/// How far the response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Head,
    Content,
    /// All of it was taken; the client has not said yet that it has it.
    Ended,
    /// There is nothing more to do.
    Over,
}

/// What became of a stream's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Something was taken.
    Moved,
    /// The last of it was.
    Finished,
    /// It waits: for room, for its request, for a password to be checked, or for others to be over.
    Waits,
    /// Its content is not what its head said: there is no honest way to go on.
    Broken,
}

impl Stream {
    /// Whether some of the response has still to be given to QUIC.
    pub(super) fn is_wanting(&self) -> bool {
        !matches!(self.output, Output::Ended | Output::Over)
    }

    pub(super) fn new(id: StreamId, exchange: Exchange, now_ms: u64) -> Self {
        Self {
            id,
            reader: Reader::default(),
            input: Input::Head,
            output: Output::Head,
            exchange,
            is_held: false,
            is_received: false,
            body_expected: None,
            body_bytes: 0,
            since_ms: now_ms,
            parked: None,
            unsent: Bytes::new(),
            is_blocked: false,
            early: None,
            trailers_are_due: false,
            is_unread: false,
        }
    }

    /// Whether it waits for others to be over.
    pub(super) fn waits(&self) -> bool {
        self.parked.as_ref().is_some_and(|parked| parked.waits)
    }

    /// Whether it has something to send as soon as there is room.
    pub(super) fn is_answering(&self) -> bool {
        self.input != Input::Head
            && !self.is_held
            && self.parked.is_none()
            && matches!(self.output, Output::Head | Output::Content)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_received && self.output == Output::Over
    }

    /// Takes the end of the body; whether it was as long as it was said to be.
    pub(super) fn ends_well(&mut self) -> bool {
        self.is_received = true;
        self.is_held = false;
        if let Some(streamed) = self.exchange.streamed() {
            streamed.body.end();
        }
        self.body_expected.is_none_or(|expected| expected == self.body_bytes)
    }

    /// Makes the pending response say what was sent of it, before it is settled.
    pub(super) fn forget_unsent(&mut self) {
        let response = &mut self.exchange.response;
        let unsent = std::mem::take(&mut self.unsent).len() as u64;
        response.offset = response.offset.saturating_sub(unsent).max(self.exchange.head_bytes.min(response.offset));
    }

    /// Gives QUIC as much of the response as it takes, up to a turn's worth.
    pub(super) fn step(&mut self, quic: &mut quinn_proto::Connection, clock: &Clock) -> Step {
        if self.is_blocked || !self.is_answering() {
            return Step::Waits;
        }
        if self.exchange.is_awaited() && self.exchange.go_on(clock).is_err() {
            return Step::Broken;
        }
        // Also where the response is whole already, as it came with them.
        if self.output == Output::Head && self.unsent.is_empty() {
            self.unsent = self.interims();
        }
        let mut taken = 0;
        while taken < TURN_BYTES_MAX {
            if self.unsent.is_empty() {
                if self.exchange.is_awaited() && self.exchange.response.is_finished() {
                    break;
                }
                if self.output == Output::Content && self.exchange.is_finished() {
                    if self.exchange.has_trailers() && !self.trailers_are_due {
                        self.trailers_are_due = true;
                        self.unsent = self.trailers();
                        continue;
                    }
                    // It fails only where the client wants no more of it, and says so.
                    let _ = quic.send_stream(self.id).finish();
                    self.output = Output::Ended;
                    return Step::Finished;
                }
                match self.next_bytes() {
                    Ok(bytes) => self.unsent = bytes,
                    Err(_) => return Step::Broken,
                }
            }
            match quic.send_stream(self.id).write_chunks(std::slice::from_mut(&mut self.unsent)) {
                Ok(written) => taken += written.bytes,
                Err(WriteError::Blocked) => {
                    self.is_blocked = true;
                    break;
                }
                // The event that says that the client wants no more of it is on its way.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    self.is_blocked = true;
                    return Step::Waits;
                }
            }
        }
        if taken == 0 {
            return Step::Waits;
        }
        self.exchange.sent_some();
        Step::Moved
    }

    /// What comes next of the response; its offset moves on as if it were taken.
    fn next_bytes(&mut self) -> io::Result<Bytes> {
        if self.output == Output::Head {
            self.output = Output::Content;
            return self.head();
        }
        let exchange = &mut self.exchange;
        // An application's pieces behind the first, which goes with the head, have a frame each.
        let is_piece = exchange.response.offset == 0 && exchange.streamed().is_some();
        let piece = exchange.response.rest().next().ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = match piece {
            Piece::Head(bytes) if is_piece => {
                let mut out = Vec::with_capacity(bytes.len() + 9);
                frame::put_head(&mut out, kind::DATA, bytes.len() as u64);
                out.extend_from_slice(bytes);
                exchange.response.offset += bytes.len() as u64;
                return Ok(out.into());
            }
            Piece::Head(bytes) => Bytes::copy_from_slice(bytes),
            Piece::Content { start, len } => match exchange.source.content() {
                Some(Content::Memory(content)) => {
                    let place = |number: u64| usize::try_from(number).ok();
                    let range = place(start).zip(place(start + len)).map(|(start, end)| start..end);
                    let range = range.filter(|range| range.end <= content.len());
                    // What lies in memory is not copied: QUIC holds it until the client has it.
                    Bytes::from_owner(Held(Arc::clone(content))).slice(range.ok_or(io::ErrorKind::UnexpectedEof)?)
                }
                Some(Content::File(file)) => {
                    let mut bytes = vec![0; len.min(READ_BYTES_MAX) as usize];
                    file.read_exact_at(&mut bytes, start)?;
                    if !exchange.is_unchanged() {
                        // Bytes of two versions must never look like one file.
                        return Err(io::ErrorKind::StaleNetworkFileHandle.into());
                    }
                    bytes.into()
                }
                None => {
                    let stored = exchange.source.stored().ok_or(io::ErrorKind::NotFound)?;
                    let start = usize::try_from(start).map_err(|_| io::ErrorKind::UnexpectedEof)?;
                    let end = start.saturating_add(len.min(READ_BYTES_MAX) as usize);
                    Bytes::copy_from_slice(stored.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?)
                }
            },
        };
        exchange.response.offset += bytes.len() as u64;
        Ok(bytes)
    }

    /// Interim responses, each in a frame of its own (RFC 9114 section 4.1).
    fn interims(&mut self) -> Bytes {
        let mut out = Vec::new();
        for head in self.exchange.take_interims() {
            let mut block = Vec::new();
            encode::block(&head, &mut block);
            frame::put_head(&mut out, kind::HEADERS, block.len() as u64);
            out.extend_from_slice(&block);
        }
        out.into()
    }

    /// The head in a frame of its own, then the beginning of one frame for the whole body.
    fn head(&mut self) -> io::Result<Bytes> {
        let response = &mut self.exchange.response;
        let head_bytes = usize::try_from(self.exchange.head_bytes).unwrap_or(usize::MAX).min(response.head.len());
        response.offset = self.exchange.head_bytes;
        let body_bytes = response.len().saturating_sub(response.offset);
        let mut out = Vec::with_capacity(head_bytes + 16 + body_bytes.min(COPIED_BYTES_MAX) as usize);
        // Room for a length of two bytes, which nearly every head has.
        out.extend_from_slice(&[kind::HEADERS as u8, 0, 0]);
        encode::block(&response.head[..head_bytes], &mut out);
        let block_bytes = out.len() - 3;
        if let Ok(len @ 0..0x4000) = u16::try_from(block_bytes) {
            out[1..3].copy_from_slice(&(len | 0x4000).to_be_bytes());
        } else {
            // A long address to go to instead; it is rare enough to be copied.
            let block = out.split_off(3);
            out.clear();
            frame::put_head(&mut out, kind::HEADERS, block.len() as u64);
            out.extend_from_slice(&block);
        }
        if body_bytes > 0 {
            frame::put_head(&mut out, kind::DATA, body_bytes);
        }
        if body_bytes <= COPIED_BYTES_MAX {
            for piece in self.exchange.response.rest() {
                append(piece, &self.exchange, COPIED_BYTES_MAX as usize, &mut out)?;
            }
            self.exchange.response.offset += body_bytes;
        }
        Ok(out.into())
    }
}

impl Stream {
    /// Bytes that may be read of the stream now.
    pub(super) fn room(&self) -> usize {
        match () {
            () if self.parked.is_some() => 0,
            () if self.exchange.is_awaited() => self.exchange.body_room(),
            () => usize::MAX,
        }
    }

    /// An application has begun: the body is its own. With `expects` the client waits for a word before it sends that.
    #[cold]
    pub(super) fn begun_application(&mut self, expects: bool, now_ms: u64) {
        self.is_held = false;
        self.since_ms = now_ms;
        if let Some(streamed) = self.exchange.streamed() {
            streamed.body.hold_at_most(BODY_BYTES_MAX);
            self.early.take().into_iter().for_each(|early| streamed.body.take_over(*early));
        }
        if expects && !self.is_received && self.body_bytes == 0 {
            let mut block = Vec::new();
            encode::block(b"HTTP/1.1 100 \r\n\r\n", &mut block);
            let mut out = Vec::with_capacity(block.len() + 3);
            frame::put_head(&mut out, kind::HEADERS, block.len() as u64);
            out.extend_from_slice(&block);
            self.unsent = out.into();
        }
    }

    /// Takes up bytes of a body that an application takes, or may come to take.
    #[cold]
    pub(super) fn keep_data(&mut self, bytes: &[u8], now_ms: u64) {
        let before = self.body_bytes - bytes.len() as u64;
        if before / STRIDE_BYTES != self.body_bytes / STRIDE_BYTES {
            self.since_ms = now_ms;
        }
        self.body().put(bytes);
    }

    /// Where the request's body goes: to its application, or to where one finds it that begins later.
    #[cold]
    pub(super) fn body(&mut self) -> &mut RequestBody {
        match self.exchange.streamed() {
            Some(streamed) => &mut streamed.body,
            None => self.early.get_or_insert_default(),
        }
    }

    /// Whether an application takes the request's body, or may come to take it.
    pub(super) fn keeps_body(&self) -> bool {
        self.parked.is_some() || self.exchange.is_awaited()
    }

    /// Whether it waits for its application, or for a body that the application waits for.
    pub(super) fn is_starved(&self) -> bool {
        self.exchange.is_awaited() && self.exchange.response.is_finished() && self.unsent.is_empty()
    }

    /// Whether its application waits for the body, of which the client has been owing some since `since_ms`.
    pub(super) fn owes_body(&self) -> bool {
        !self.is_received && self.is_starved() && self.exchange.is_owed_body() && !self.exchange.is_tunnel()
    }

    /// The fields behind a body, in a frame of their own (RFC 9114 section 4.1).
    #[cold]
    fn trailers(&mut self) -> Bytes {
        let mut block = Vec::new();
        if let Some(streamed) = self.exchange.streamed() {
            encode::trailers(streamed.trailers(), &mut block);
        }
        let mut out = Vec::with_capacity(block.len() + 5);
        frame::put_head(&mut out, kind::HEADERS, block.len() as u64);
        out.extend_from_slice(&block);
        out.into()
    }
}

/// Content that is held for as long as QUIC may have to send it again.
struct Held(Arc<[u8]>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
