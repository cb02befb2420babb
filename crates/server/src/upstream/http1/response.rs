//! Reads a response of HTTP/1 from an upstream (RFC 9112).
//!
//! A response in one piece whose length is known takes the straight way: the parser reads the head where it lies, the
//! fields are copied once, in runs of those that are passed on, and the body is given out where it lies.

use super::chunks::put;
use super::names::{self, Name, Nominated, members};
use super::upgrade::Upgrade;
use crate::exchange::drain::{Drain, DrainError, Part};
use crate::http::framing::Framing;
use crate::http::request::decimal;
use crate::upstream::message::{FIELDS_MAX, Garbled, HEAD_BYTES_MAX, ResponseHead, Said};
use std::mem::MaybeUninit;

/// Interim responses before a response.
const INTERIMS_MAX: u32 = 32;
/// Bytes of a body in chunks between two pieces of its content: sizes, extensions, trailers.
const OVERHEAD_BYTES_MAX: u64 = 16 << 10;
/// Fields behind a body.
const TRAILERS_MAX: usize = 64;

/// What the response is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Expected {
    #[default]
    Response,
    /// That to HEAD, which has no body.
    HeadOnly,
    /// 101 and another protocol, or a response that refuses it.
    Upgrade(Upgrade),
}

/// Reads responses, one after another. The memory of one is used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    stage: Stage,
    expected: Expected,
    after: After,
    interims: u32,
    /// A head that is not whole yet, or trailers.
    saved: Vec<u8>,
    /// Memory for the fields of a head.
    spare: Vec<u8>,
}

/// How far the response is.
#[derive(Debug, Default)]
enum Stage {
    /// Nothing of it has come.
    #[default]
    Awaited,
    /// Its head comes.
    Head,
    /// So many bytes of the body are to come.
    Length(u64),
    Chunked(Drain),
    /// The body ends with the connection.
    UntilClose,
    Ended,
    Failed(Garbled),
}

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum After {
    #[default]
    Stays,
    Ends,
}

impl Reader {
    /// Begins with the next response.
    pub(crate) fn begin(&mut self, expected: Expected) {
        (self.stage, self.expected, self.after, self.interims) = (Stage::Awaited, expected, After::Stays, 0);
        self.saved.clear();
    }

    /// Begins anew with the same response, as its request is sent again.
    pub(crate) fn repeat(&mut self) {
        self.begin(self.expected);
    }

    /// Gives memory back that [`ResponseHead::fields`] had.
    #[cfg(test)]
    pub(crate) fn recycle(&mut self, fields: Vec<u8>) {
        if fields.capacity() > self.spare.capacity() {
            self.spare = fields;
        }
    }

    /// Whether any byte of the response has come: without one the request can be sent over another connection, if its
    /// method allows that.
    #[cfg(test)]
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::Awaited)
    }

    /// Whether the response is whole.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// Whether the connection can take another request: the response is whole, and neither its head nor bytes behind it
    /// speak against that. A connection whose request was not sent whole must not be used again either.
    pub(crate) fn keeps(&self) -> bool {
        self.is_ended() && self.after == After::Stays
    }

    /// Reads what has come; returns how many of the bytes belong to the response, which are all but those behind its
    /// end. Where there are some, the connection is not kept.
    ///
    /// # Errors
    ///
    /// [`Garbled`], and the same again at each further call; [`Garbled::Stray`] for bytes behind an end that was said
    /// before.
    pub(crate) fn read<F: FnMut(Said<'_>)>(&mut self, input: &[u8], say: &mut F) -> Result<usize, Garbled> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let read = match &mut self.stage {
                Stage::Awaited | Stage::Head => self.head(rest, say),
                Stage::Length(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= taken as u64;
                    let is_whole = *left == 0;
                    say(Said::Body(&rest[..taken]));
                    if is_whole {
                        self.end(say);
                    }
                    Ok(taken)
                }
                Stage::Chunked(_) => self.chunks(rest, say),
                Stage::UntilClose => {
                    say(Said::Body(rest));
                    Ok(rest.len())
                }
                Stage::Ended => {
                    self.after = After::Ends;
                    if at > 0 {
                        break;
                    }
                    return Err(Garbled::Stray);
                }
                Stage::Failed(garbled) => Err(*garbled),
            };
            match read {
                Ok(taken) => at += taken,
                Err(garbled) => {
                    self.stage = Stage::Failed(garbled);
                    return Err(garbled);
                }
            }
        }
        Ok(at)
    }

    /// The upstream has ended its side of the connection: says the end where that is the end of the body.
    ///
    /// # Errors
    ///
    /// [`Garbled::Cut`] if the response is not whole, or what was wrong before.
    pub(crate) fn end_of_input<F: FnMut(Said<'_>)>(&mut self, say: &mut F) -> Result<(), Garbled> {
        self.after = After::Ends;
        match self.stage {
            Stage::Ended => Ok(()),
            Stage::UntilClose => {
                self.end(say);
                Ok(())
            }
            Stage::Failed(garbled) => Err(garbled),
            Stage::Awaited | Stage::Head | Stage::Length(_) | Stage::Chunked(_) => Err(Garbled::Cut),
        }
    }

    fn end<F: FnMut(Said<'_>)>(&mut self, say: &mut F) {
        self.stage = Stage::Ended;
        say(Said::End);
    }

    /// Reads a head; returns the bytes that were taken.
    fn head<F: FnMut(Said<'_>)>(&mut self, input: &[u8], say: &mut F) -> Result<usize, Garbled> {
        if !self.saved.is_empty() {
            return self.rest_of_head(input, say);
        }
        if let Some(taken) = self.whole_head(input, say)? {
            return Ok(taken);
        }
        // The parser stopped before the end of a head, or there is none yet.
        self.stage = Stage::Head;
        match end_of_head(input, 0)? {
            Some(_) => Err(Garbled::Head(NOT_A_HEAD)),
            None => {
                self.saved.extend_from_slice(input);
                Ok(input.len())
            }
        }
    }

    /// Reads the rest of a head that has begun.
    #[cold]
    fn rest_of_head<F: FnMut(Said<'_>)>(&mut self, input: &[u8], say: &mut F) -> Result<usize, Garbled> {
        let before = self.saved.len();
        let room = (HEAD_BYTES_MAX + 1).saturating_sub(before).min(input.len());
        self.saved.extend_from_slice(&input[..room]);
        let Some(end) = end_of_head(&self.saved, before)? else { return Ok(room) };
        let mut saved = std::mem::take(&mut self.saved);
        let read = self.whole_head(&saved[..end], say);
        saved.clear();
        self.saved = saved;
        read?.ok_or(Garbled::Head(NOT_A_HEAD))?;
        Ok(end - before)
    }

    /// Reads a head that the input begins with; none if it is not whole, or is none.
    fn whole_head<F: FnMut(Said<'_>)>(&mut self, input: &[u8], say: &mut F) -> Result<Option<usize>, Garbled> {
        // Empty lines before a response are bytes that belong to none.
        if input.first() != Some(&b'H') {
            return Ok(None);
        }
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut parsed = httparse::Response::new(&mut []);
        let strict = httparse::ParserConfig::default();
        match strict.parse_response_with_uninit_headers(&mut parsed, input, &mut fields) {
            Ok(httparse::Status::Complete(bytes)) if bytes <= HEAD_BYTES_MAX => {
                let (Some(status), Some(minor)) = (parsed.code, parsed.version) else {
                    return Err(Garbled::Head(NOT_A_HEAD));
                };
                self.take_head(status, minor, parsed.headers, &input[..bytes], say)?;
                Ok(Some(bytes))
            }
            Ok(httparse::Status::Complete(_)) => Err(Garbled::TooLarge),
            // A head with its end is refused for the number of its fields; another may be refused for its size.
            Err(httparse::Error::TooManyHeaders) => match end_of_head(input, 0)? {
                Some(_) => Err(Garbled::TooLarge),
                None => Ok(None),
            },
            Ok(httparse::Status::Partial) | Err(_) => Ok(None),
        }
    }

    /// Takes a head up: an interim response, or the head of the response.
    fn take_head<F: FnMut(Said<'_>)>(
        &mut self,
        status: u16,
        minor: u8,
        fields: &[httparse::Header<'_>],
        head: &[u8],
        say: &mut F,
    ) -> Result<(), Garbled> {
        self.stage = Stage::Head;
        let switched = match (status, self.expected) {
            (101, Expected::Upgrade(upgrade)) => Some(upgrade),
            (101, _) => return Err(Garbled::Head("it changes protocols, for which it was not asked")),
            _ => None,
        };
        let mut lines = std::mem::take(&mut self.spare);
        let said = Filter { fields, head, switched }.write(&mut lines)?;
        match status {
            101 => {
                if said.upgrades == 0 {
                    return Err(Garbled::Head("it changes protocols, and does not say to which"));
                }
                (self.stage, self.after) = (Stage::UntilClose, After::Ends);
                say(Said::Head(ResponseHead { status, fields: lines, length: None }));
                Ok(())
            }
            100..=199 => {
                self.interims += 1;
                if self.interims > INTERIMS_MAX {
                    return Err(Garbled::Head("it has too many interim responses before it"));
                }
                if status != 100 {
                    say(Said::Interim { status, fields: &lines });
                }
                self.spare = lines;
                Ok(())
            }
            200..=599 => {
                let length = self.frame(status, minor, &said)?;
                let is_whole = matches!(self.stage, Stage::Length(0));
                say(Said::Head(ResponseHead { status, fields: lines, length }));
                if is_whole {
                    self.end(say);
                }
                Ok(())
            }
            _ => Err(Garbled::Head("its status is none of HTTP")),
        }
    }

    /// Finds how the body is framed (RFC 9112 section 6.3), and whether the connection stays; returns the length.
    fn frame(&mut self, status: u16, minor: u8, said: &FramingFields) -> Result<Option<u64>, Garbled> {
        let is_chunked = match said.transfer {
            Transfer::None => false,
            Transfer::Chunked => true,
            Transfer::Other => return Err(Garbled::Head("its transfer coding is not `chunked`")),
        };
        let is_bodiless = self.expected == Expected::HeadOnly || matches!(status, 204 | 304);
        let stays = if minor == 0 { said.stays && !said.closes } else { !said.closes };
        // What was framed in two ways, or against its version, another server may have understood in another way.
        let is_doubtful = is_chunked && (said.length.is_some() || minor == 0);
        let has_body_against_status = status == 204 && (is_chunked || said.length.is_some_and(|bytes| bytes > 0));
        if !stays || is_doubtful || has_body_against_status {
            self.after = After::Ends;
        }
        let length = said.length.filter(|_| !is_chunked && status != 204);
        self.stage = match length {
            _ if is_bodiless => Stage::Length(0),
            _ if is_chunked => Stage::Chunked(Drain::whole(Framing::Chunked, OVERHEAD_BYTES_MAX)),
            Some(bytes) => Stage::Length(bytes),
            None => {
                self.after = After::Ends;
                Stage::UntilClose
            }
        };
        Ok(length)
    }

    /// Reads chunks and what is behind them.
    fn chunks<F: FnMut(Said<'_>)>(&mut self, input: &[u8], say: &mut F) -> Result<usize, Garbled> {
        let Stage::Chunked(drain) = &mut self.stage else { return Ok(0) };
        let saved = &mut self.saved;
        let read = drain.read(input, &mut |part| match part {
            Part::Content(content) => say(Said::Body(content)),
            Part::Trailer(piece) => saved.extend_from_slice(piece),
        });
        let taken = read.map_err(|error| match error {
            DrainError::Malformed => Garbled::Body("its chunks are malformed"),
            DrainError::TooLarge => Garbled::Body("its chunks have too many bytes that are no content"),
        })?;
        if drain.is_done() {
            // Without trailers there is the empty line only.
            if self.saved.len() > b"\r\n".len() {
                self.trailers(say)?;
            }
            self.saved.clear();
            self.end(say);
        }
        Ok(taken)
    }

    fn trailers<F: FnMut(Said<'_>)>(&mut self, say: &mut F) -> Result<(), Garbled> {
        let mut fields = [httparse::EMPTY_HEADER; TRAILERS_MAX];
        let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(&self.saved, &mut fields) else {
            return Err(Garbled::Body("its trailers are no fields, or too many"));
        };
        let mut lines = std::mem::take(&mut self.spare);
        lines.clear();
        for field in fields.iter().filter(|field| names::may_trail(field.name.as_bytes())) {
            put(field.name.as_bytes(), field.value, &mut lines);
        }
        if !lines.is_empty() {
            say(Said::Trailers(&lines));
        }
        self.spare = lines;
        Ok(())
    }
}

const NOT_A_HEAD: &str = "it is no response of HTTP/1";

/// Where a head ends: behind the first empty line, which the bytes from `from` on may have. An error says that there is
/// none to wait for.
#[cold]
fn end_of_head(input: &[u8], from: usize) -> Result<Option<usize>, Garbled> {
    const BEGIN: &[u8] = b"HTTP/1.";
    let compared = input.len().min(BEGIN.len());
    if input[..compared] != BEGIN[..compared] {
        return Err(Garbled::Head(NOT_A_HEAD));
    }
    let start = from.saturating_sub(b"\n\r".len());
    let end = memchr::memchr_iter(b'\n', &input[start..]).find_map(|at| match &input[start + at + 1..] {
        [b'\n', ..] => Some(start + at + b"\n\n".len()),
        [b'\r', b'\n', ..] => Some(start + at + b"\n\r\n".len()),
        _ => None,
    });
    if end.unwrap_or(input.len()) > HEAD_BYTES_MAX { Err(Garbled::TooLarge) } else { Ok(end) }
}

/// What the fields of a head say about the message and the connection.
#[derive(Debug, Default)]
struct FramingFields {
    length: Option<u64>,
    transfer: Transfer,
    /// Connection has `close`.
    closes: bool,
    /// Connection has `keep-alive`.
    stays: bool,
    /// Connection names fields.
    nominates: bool,
    /// Lines of Upgrade.
    upgrades: usize,
}

/// What Transfer-Encoding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Transfer {
    #[default]
    None,
    Chunked,
    /// Another coding, or several.
    Other,
}

impl FramingFields {
    fn length(&mut self, value: &[u8]) -> Result<(), Garbled> {
        // A list of the same number is that number (RFC 9112 section 6.3).
        for member in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let bytes = decimal(member).ok_or(Garbled::Head("its Content-Length is no number"))?;
            if self.length.replace(bytes).is_some_and(|before| before != bytes) {
                return Err(Garbled::Head("it has two lengths"));
            }
        }
        Ok(())
    }

    fn transfer(&mut self, value: &[u8]) {
        let is_only = self.transfer == Transfer::None && value.eq_ignore_ascii_case(b"chunked");
        self.transfer = if is_only { Transfer::Chunked } else { Transfer::Other };
    }

    fn connection(&mut self, value: &[u8]) {
        for option in members(value) {
            if option.eq_ignore_ascii_case(b"close") {
                self.closes = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.stays = true;
            } else {
                self.nominates = true;
            }
        }
    }
}

/// Writes those fields of a head that are passed on.
struct Filter<'h> {
    fields: &'h [httparse::Header<'h>],
    /// The head that they lie in.
    head: &'h [u8],
    /// It changes protocols, for who has asked in this way.
    switched: Option<Upgrade>,
}

impl Filter<'_> {
    fn write(&self, lines: &mut Vec<u8>) -> Result<FramingFields, Garbled> {
        lines.clear();
        lines.reserve(self.head.len());
        let said = self.pass(None, lines)?;
        if said.nominates {
            let mut nominated = Nominated::default();
            for field in self.fields.iter().filter(|field| names::is(field.name.as_bytes(), b"connection")) {
                nominated.line(field.value).map_err(|_| Garbled::Head("its Connection has too many options"))?;
            }
            lines.clear();
            self.pass(Some(&nominated), lines)?;
        }
        Ok(said)
    }

    /// Copies the lines, whole runs at once where they are passed on as they are.
    fn pass(&self, nominated: Option<&Nominated<'_>>, lines: &mut Vec<u8>) -> Result<FramingFields, Garbled> {
        let mut said = FramingFields::default();
        let last_end = self.head.len() - if self.head.ends_with(b"\n\n") { 1 } else { 2 };
        let begins = |at: usize| {
            let begin = |field: &httparse::Header<'_>| field.name.as_ptr() as usize - self.head.as_ptr() as usize;
            self.fields.get(at).map_or(last_end, begin)
        };
        let mut at = begins(0);
        let mut run = at;
        for (index, field) in self.fields.iter().enumerate() {
            let end = begins(index + 1);
            let is_passed = self.take(field, nominated, &mut said)?;
            if !is_passed || !self.head[at..end].ends_with(b"\r\n") {
                lines.extend_from_slice(&self.head[run..at]);
                run = end;
                if is_passed {
                    put(field.name.as_bytes(), field.value, lines);
                }
            }
            at = end;
        }
        lines.extend_from_slice(&self.head[run..at]);
        Ok(said)
    }

    /// Reads what a field says here; whether it is passed on.
    #[inline]
    fn take(
        &self,
        field: &httparse::Header<'_>,
        nominated: Option<&Nominated<'_>>,
        said: &mut FramingFields,
    ) -> Result<bool, Garbled> {
        match names::of(field.name.as_bytes()) {
            Name::ContentLength => said.length(field.value)?,
            Name::TransferEncoding => said.transfer(field.value),
            Name::Connection => said.connection(field.value),
            Name::Upgrade => {
                said.upgrades += 1;
                return Ok(self.switched == Some(Upgrade::Passed) && said.upgrades == 1);
            }
            Name::OfConnection | Name::Te | Name::Lookalike => {}
            // Of the handshake that HTTP/2 and HTTP/3 do without (RFC 8441 section 5).
            _ if self.switched == Some(Upgrade::Extended)
                && field.name.eq_ignore_ascii_case("sec-websocket-accept") => {}
            _ => return Ok(nominated.is_none_or(|nominated| !nominated.has(field.name.as_bytes()))),
        }
        Ok(false)
    }
}
