//! A stream of HTTP/2: a request, and its response as it is put into frames.

use super::encode;
use super::parked::Parked;
use crate::exchange::answering::Went;
use crate::exchange::life::Exchange;
use crate::exchange::request_body::RequestBody;
use crate::files::resource::Content;
use crate::http::frames::frame::{self, HEAD_BYTES, PAYLOAD_BYTES_MAX, flag, kind};
use crate::http::response::Piece;
use crate::loop_state::LoopState;
use std::io;
use std::os::unix::fs::FileExt;

/// The initial size of windows without a setting (RFC 9113 section 6.9.2).
pub(super) const WINDOW_BYTES: i64 = 65_535;
/// Received bytes that the server collects before it sends a WINDOW_UPDATE for them.
pub(super) const UNACKNOWLEDGED_BYTES_MAX: u32 = 16 << 10;
/// Bytes of a body for an application that the client has to send in each span of its time.
const STRIDE_BYTES: u64 = 16 << 10;
/// A frame of content with fewer bytes is hardly worth its head.
const DRIBBLE_BYTES: usize = 256;

/// A stream that is not closed on both sides.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) exchange: Exchange,
    /// Bytes that the client lets us send on it; settings can make it negative.
    pub(super) window: i64,
    /// The response waits for the end of the request's body.
    pub(super) is_held: bool,
    /// The client has ended its side.
    pub(super) is_received: bool,
    /// What the body is said to be, and what came of it.
    pub(super) body_expected: Option<u64>,
    pub(super) body_bytes: u64,
    /// Bytes of the body since we last gave its window back.
    pub(super) body_unacknowledged: u32,
    pub(super) since_ms: u64,
    pub(super) head_is_sent: bool,
    /// The request, while its password is being checked or it waits for others; there is no response until then.
    pub(super) parked: Option<Box<Parked>>,
    /// What came of the body meanwhile: no more than the stream's window, and its trailers.
    pub(super) early: Option<Box<RequestBody>>,
}

/// What became of a stream's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It put a frame into the output.
    Moved,
    /// The same, but the windows let it put hardly anything into that frame.
    Dribbled,
    /// It waits: for windows, for its request's body, for a password to be checked, or for others to be over.
    Waits,
    /// Its content is not what its head said: there is no honest way to go on.
    Broken,
}

impl Stream {
    pub(super) fn is_finished(&self) -> bool {
        self.head_is_sent && self.exchange.is_finished()
    }

    /// Whether it waits for others to be over.
    pub(super) fn waits(&self) -> bool {
        self.parked.as_ref().is_some_and(|parked| parked.waits)
    }

    /// Puts the head into the output, or the next piece of content as far as both windows let it. `table_is_due` says
    /// that the next head begins with the size of our table, `owes_alt_svc` that an application's is to name HTTP/3.
    pub(super) fn step(
        &mut self,
        out: &mut Vec<u8>,
        window: &mut i64,
        table_is_due: &mut bool,
        owes_alt_svc: &mut bool,
        state: &LoopState,
    ) -> Step {
        if self.is_held || self.parked.is_some() {
            return Step::Waits;
        }
        if self.exchange.is_awaited() {
            match self.go_on(owes_alt_svc, state) {
                Ok(Went::On) => {}
                Ok(Went::Nowhere) if self.exchange.response.is_finished() => return Step::Waits,
                Ok(Went::Nowhere) => {}
                Err(_) => return Step::Broken,
            }
        }
        if !self.head_is_sent && self.give_interims(out, table_is_due) {
            return Step::Moved;
        }
        if self.head_is_sent {
            return self.data(out, window, table_is_due);
        }
        self.head(out, std::mem::take(table_is_due));
        if self.exchange.response.is_finished() && (self.exchange.continues() || !self.exchange.has_trailers()) {
            return Step::Moved;
        }
        // Small content goes with its head.
        match self.data(out, window, table_is_due) {
            Step::Waits => Step::Moved,
            step => step,
        }
    }

    /// Has the application go on. The head of its response comes later than those of others, and is finished here.
    #[cold]
    fn go_on(&mut self, owes_alt_svc: &mut bool, state: &LoopState) -> io::Result<Went> {
        let is_begun = self.exchange.status != 0;
        let went = self.exchange.go_on(&state.clock)?;
        if !is_begun && self.exchange.status != 0 && std::mem::take(owes_alt_svc) {
            state.alt_svc.apply(&mut self.exchange, true);
        }
        Ok(went)
    }

    fn head(&mut self, out: &mut Vec<u8>, table_is_due: bool) {
        let response = &mut self.exchange.response;
        let head_bytes = usize::try_from(self.exchange.head_bytes).unwrap_or(usize::MAX).min(response.head.len());
        response.offset = self.exchange.head_bytes;
        self.head_is_sent = true;
        let is_finished = response.is_finished() && !self.exchange.continues() && !self.exchange.has_trailers();
        let response = &mut self.exchange.response;
        let end = if is_finished { flag::END_STREAM } else { 0 };
        let start = out.len();
        frame::head(out, 0, kind::HEADERS, end | flag::END_HEADERS, self.id);
        if table_is_due {
            out.push(encode::EMPTY_TABLE);
        }
        encode::block(&response.head[..head_bytes], out);
        let block = out.len() - start - HEAD_BYTES;
        if block <= PAYLOAD_BYTES_MAX {
            set_len(out, start, block);
            return;
        }
        // A long address to go to instead; it is rare enough to be copied.
        let block = out.split_off(start + HEAD_BYTES);
        out.truncate(start);
        let mut pieces = block.chunks(PAYLOAD_BYTES_MAX).enumerate().peekable();
        while let Some((number, piece)) = pieces.next() {
            let last = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
            let (kind, end) = if number == 0 { (kind::HEADERS, end) } else { (kind::CONTINUATION, 0) };
            frame::head(out, piece.len(), kind, last | end, self.id);
            out.extend_from_slice(piece);
        }
    }

    fn data(&mut self, out: &mut Vec<u8>, window: &mut i64, table_is_due: &mut bool) -> Step {
        if self.exchange.is_finished() {
            // The end needs no window.
            self.end(out, table_is_due);
            return Step::Moved;
        }
        let most = self.window.min(*window).min(PAYLOAD_BYTES_MAX as i64);
        let Ok(most @ 1..) = usize::try_from(most) else { return Step::Waits };
        let start = out.len();
        frame::head(out, 0, kind::DATA, 0, self.id);
        let mut room = most;
        for piece in self.exchange.response.rest() {
            match append(piece, &self.exchange, room, out) {
                Ok(taken) => room -= taken,
                Err(_) => {
                    out.truncate(start);
                    return Step::Broken;
                }
            }
            if room == 0 {
                break;
            }
        }
        let len = most - room;
        set_len(out, start, len);
        self.exchange.response.offset += len as u64;
        self.window -= len as i64;
        *window -= len as i64;
        if self.exchange.is_finished() {
            if self.exchange.has_trailers() {
                self.trailers(out, table_is_due);
            } else {
                out[start + 4] = flag::END_STREAM;
            }
            return Step::Moved;
        }
        self.exchange.sent_some();
        // What an application gives in small pieces is not the client's doing.
        if len < DRIBBLE_BYTES && !self.exchange.response.is_finished() { Step::Dribbled } else { Step::Moved }
    }
}

impl Stream {
    /// Ends the stream behind the last frame of a body.
    #[cold]
    fn end(&mut self, out: &mut Vec<u8>, table_is_due: &mut bool) {
        if self.exchange.has_trailers() {
            self.trailers(out, table_is_due);
        } else {
            frame::head(out, 0, kind::DATA, flag::END_STREAM, self.id);
        }
    }

    /// The fields behind a body, in a frame of their own (RFC 9113 section 8.1).
    #[cold]
    fn trailers(&mut self, out: &mut Vec<u8>, table_is_due: &mut bool) {
        let Some(streamed) = self.exchange.streamed() else { return };
        let mut block = start_of_block(table_is_due);
        encode::trailers(streamed.trailers(), &mut block);
        let mut pieces = block.chunks(PAYLOAD_BYTES_MAX).enumerate().peekable();
        while let Some((number, piece)) = pieces.next() {
            let last = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
            let (kind, end) = if number == 0 { (kind::HEADERS, flag::END_STREAM) } else { (kind::CONTINUATION, 0) };
            frame::head(out, piece.len(), kind, last | end, self.id);
            out.extend_from_slice(piece);
        }
    }

    /// Writes interim responses, each in a frame of its own; whether the response is still to come.
    fn give_interims(&mut self, out: &mut Vec<u8>, table_is_due: &mut bool) -> bool {
        // Also where the response is whole already, as it came with them.
        for head in self.exchange.take_interims() {
            let mut block = start_of_block(table_is_due);
            encode::block(&head, &mut block);
            frame::head(out, block.len(), kind::HEADERS, flag::END_HEADERS, self.id);
            out.extend_from_slice(&block);
        }
        self.exchange.is_awaited() && self.exchange.response.head.is_empty()
    }

    /// Says that the client may send the body that it holds back.
    #[cold]
    pub(super) fn ask_for_body(&self, out: &mut Vec<u8>, table_is_due: &mut bool) {
        let mut block = start_of_block(table_is_due);
        encode::block(b"HTTP/1.1 100 \r\n\r\n", &mut block);
        frame::head(out, block.len(), kind::HEADERS, flag::END_HEADERS, self.id);
        out.extend_from_slice(&block);
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

    /// Bytes of the body that the application has taken, and that the client may send anew.
    pub(super) fn window_back(&mut self, now_ms: u64) -> u32 {
        let unacknowledged = self.body_unacknowledged;
        let Some(streamed) = self.exchange.streamed().filter(|streamed| streamed.is_begun()) else { return 0 };
        // Not above the window, which is below this type's most.
        let held = streamed.body.bytes().len() as u32;
        let back = unacknowledged.saturating_sub(held);
        // A client that has used its window up waits for any of it.
        let may_send = i64::from(unacknowledged) < WINDOW_BYTES;
        if self.is_received || back == 0 || (back < UNACKNOWLEDGED_BYTES_MAX && may_send) {
            return 0;
        }
        self.body_unacknowledged = held;
        self.since_ms = now_ms;
        back
    }

    /// Whether it would send if the client took what there is.
    pub(super) fn is_answering(&self) -> bool {
        !self.is_held && !self.waits() && !self.is_starved()
    }

    /// Whether its application waits for the body, of which the client has been owing some since `since_ms`.
    pub(super) fn owes_body(&self) -> bool {
        !self.is_received && self.is_starved() && self.exchange.is_owed_body() && !self.exchange.is_tunnel()
    }

    /// Counts bytes of such a body: enough of them give the client time anew.
    pub(super) fn renew(&mut self, bytes: u64, now_ms: u64) {
        let before = self.body_bytes - bytes;
        if before / STRIDE_BYTES != self.body_bytes / STRIDE_BYTES || !self.exchange.is_owed_body() {
            self.since_ms = now_ms;
        }
    }

    /// Whether the stream waits for its application, or for a body that the application waits for.
    pub(super) fn is_starved(&self) -> bool {
        self.exchange.is_awaited() && self.exchange.response.is_finished()
    }
}

/// A block of fields to which nothing was added; it begins with the size of our table where that is due.
fn start_of_block(table_is_due: &mut bool) -> Vec<u8> {
    if std::mem::take(table_is_due) { vec![encode::EMPTY_TABLE] } else { Vec::new() }
}

/// Appends up to `room` bytes of a piece; returns how many.
pub(crate) fn append(piece: Piece<'_>, exchange: &Exchange, room: usize, out: &mut Vec<u8>) -> io::Result<usize> {
    let (start, len) = match piece {
        Piece::Head(bytes) => {
            let taken = bytes.len().min(room);
            out.extend_from_slice(&bytes[..taken]);
            return Ok(taken);
        }
        Piece::Content { start, len } => (start, len),
    };
    let taken = usize::try_from(len).unwrap_or(usize::MAX).min(room);
    let mut put = |bytes: &[u8]| {
        let start = usize::try_from(start).ok()?;
        out.extend_from_slice(bytes.get(start..start.checked_add(taken)?)?);
        Some(())
    };
    match exchange.source.content() {
        Some(Content::Memory(bytes)) => put(bytes).ok_or(io::ErrorKind::UnexpectedEof)?,
        Some(Content::File(file)) => {
            let at = out.len();
            out.resize(at + taken, 0);
            file.read_exact_at(&mut out[at..], start)?;
            // After the bytes are here, so that no change falls between the look and them: bytes of two versions must
            // never look like one file.
            if !exchange.is_unchanged() {
                return Err(io::ErrorKind::StaleNetworkFileHandle.into());
            }
        }
        None => exchange.source.stored().and_then(put).ok_or(io::ErrorKind::UnexpectedEof)?,
    }
    Ok(taken)
}

/// Completes a frame's head that was written before its length was known.
fn set_len(out: &mut [u8], start: usize, len: usize) {
    // At most PAYLOAD_BYTES_MAX.
    out[start..start + 3].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
}
