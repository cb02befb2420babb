//! What a client gets out of the cache.

use super::freshness::Now;
use super::stored::{Body, MemoryBody, Stored};
use super::validators::{Conditions, push_line};
use crate::http::field_lines::lines;
use crate::http::range::{self, Ranges};
use crate::upstream::http1::digits::decimal;
use foldhash::fast::RandomState;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::{self, Write as _};
use std::sync::Arc;

/// Ranges of one response; a request for more gets all of it.
pub(crate) const RANGES_MAX: usize = 16;

/// How the answer came about, for Cache-Status (RFC 9211).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It was stored. It may be stale; `ttl` says so.
    Hit,
    /// The upstream said that it is still right.
    Validated,
    /// Another request brought it.
    Collapsed,
    /// The upstream failed, by this status if it answered at all.
    OnError(Option<u16>),
}

/// What of the stored response is sent.
#[derive(Debug)]
enum Form {
    Whole,
    NotModified,
    /// From the first byte to one past the last.
    Range(u64, u64),
    Multipart(Box<Multipart>),
    Unsatisfiable,
}

/// A body of several ranges.
#[derive(Debug)]
struct Multipart {
    boundary: String,
    /// What stands before each range, and the range.
    parts: Vec<(Vec<u8>, (u64, u64))>,
    end: Vec<u8>,
}

/// An answer: a status, fields and a body, from a stored response.
#[derive(Debug)]
pub(crate) struct Answer {
    stored: Arc<Stored>,
    file: Option<File>,
    form: Form,
    how: How,
    age_s: u64,
    left_s: i64,
}

/// A piece of the body.
#[derive(Debug)]
pub(crate) enum AnswerPiece<'a> {
    Bytes(&'a [u8]),
    /// Bytes of a file; at least one.
    File {
        file: &'a File,
        start: u64,
        len: u64,
    },
}

impl Answer {
    /// Answers from a stored response as a request's conditions have it (RFC 9111 section 4.3.2, RFC 9110 section 14.2).
    ///
    /// # Errors
    ///
    /// The body is in a file that cannot be opened, or is not what was written.
    pub(crate) fn new(stored: Arc<Stored>, conditions: &Conditions<'_>, how: How, now: Now) -> io::Result<Self> {
        let form = form(&stored, conditions);
        let file = match &stored.body {
            Body::Disk(body) if !matches!(form, Form::NotModified | Form::Unsatisfiable) => Some(body.open()?),
            _ => None,
        };
        let (age_s, left_s) = (stored.freshness.age_s(now), stored.freshness.left_s(now));
        Ok(Self { stored, file, form, how, age_s, left_s })
    }

    /// Whether its fields say what has made it.
    pub(crate) fn names_server(&self) -> bool {
        self.stored.names_server
    }

    /// The body, if it is one piece of memory.
    pub(crate) fn memory(&self) -> Option<&Arc<MemoryBody>> {
        match (&self.form, &self.stored.body) {
            (Form::Whole, Body::Memory(body)) => Some(body),
            _ => None,
        }
    }

    pub(crate) fn status(&self) -> u16 {
        match self.form {
            Form::Whole => self.stored.status,
            Form::NotModified => 304,
            Form::Range(..) | Form::Multipart(_) => 206,
            Form::Unsatisfiable => 416,
        }
    }

    /// Appends the lines of the head, with Date, Age and Cache-Status; without what frames the message. It allocates only
    /// where `into` has no room.
    pub(crate) fn write_fields(&self, into: &mut Vec<u8>) {
        let size = self.stored.body.bytes();
        // Writing to memory does not fail.
        let _ = match &self.form {
            Form::Whole => {
                into.extend_from_slice(&self.stored.fields);
                Ok(())
            }
            Form::NotModified => {
                // What describes the content stays away (RFC 9110 section 15.4.5).
                self.write_others(into, &[b"content-type", b"content-encoding", b"content-language", b"content-range"]);
                Ok(())
            }
            Form::Range(start, end) => {
                into.extend_from_slice(&self.stored.fields);
                write!(into, "Content-Range: bytes {start}-{}/{size}\r\n", end - 1)
            }
            Form::Multipart(multipart) => {
                self.write_others(into, &[b"content-type"]);
                write!(into, "Content-Type: multipart/byteranges; boundary={}\r\n", multipart.boundary)
            }
            Form::Unsatisfiable => {
                self.write_others(into, &[b"content-type", b"content-encoding", b"content-language", b"etag"]);
                write!(into, "Content-Range: bytes */{size}\r\n")
            }
        };
        into.extend_from_slice(b"Age: ");
        decimal(self.age_s, into);
        into.extend_from_slice(b"\r\nCache-Status: weir; ");
        let _ = match self.how {
            How::Hit => into.write_all(b"hit"),
            How::Validated => into.write_all(b"fwd=stale; fwd-status=304"),
            How::Collapsed => into.write_all(b"fwd=miss; collapsed"),
            How::OnError(None) => into.write_all(b"fwd=stale; detail=unreachable"),
            How::OnError(Some(status)) => write!(into, "fwd=stale; fwd-status={status}"),
        };
        into.extend_from_slice(if self.left_s < 0 { b"; ttl=-" } else { b"; ttl=" });
        decimal(self.left_s.unsigned_abs(), into);
        into.extend_from_slice(b"\r\n");
    }

    fn write_others(&self, into: &mut Vec<u8>, without: &[&[u8]]) {
        for (name, value) in lines(&self.stored.fields) {
            if !without.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                push_line(into, name, value);
            }
        }
    }

    /// Bytes of the body; for HEAD those that GET would have. None where the status has no body.
    pub(crate) fn length(&self) -> Option<u64> {
        match &self.form {
            Form::Whole if self.stored.status == 204 => None,
            Form::Whole => Some(self.stored.body.bytes()),
            Form::NotModified => None,
            Form::Unsatisfiable => Some(0),
            Form::Range(start, end) => Some(end - start),
            Form::Multipart(multipart) => {
                let part = |(head, (start, end)): &(Vec<u8>, (u64, u64))| head.len() as u64 + end - start;
                Some(multipart.parts.iter().map(part).sum::<u64>() + multipart.end.len() as u64)
            }
        }
    }

    /// The piece of the body that begins at this byte of it; none at the end.
    pub(crate) fn piece(&self, offset: u64) -> Option<AnswerPiece<'_>> {
        match &self.form {
            Form::Whole => self.content(offset, self.stored.body.bytes()),
            Form::NotModified | Form::Unsatisfiable => None,
            Form::Range(start, end) => self.content(start.checked_add(offset)?, *end),
            Form::Multipart(multipart) => {
                let mut offset = offset;
                for (head, (start, end)) in &multipart.parts {
                    if let Some(rest) =
                        usize::try_from(offset).ok().and_then(|at| head.get(at..)).filter(|rest| !rest.is_empty())
                    {
                        return Some(AnswerPiece::Bytes(rest));
                    }
                    offset -= head.len() as u64;
                    if offset < end - start {
                        return self.content(start + offset, *end);
                    }
                    offset -= end - start;
                }
                let rest = multipart.end.get(usize::try_from(offset).ok()?..)?;
                (!rest.is_empty()).then_some(AnswerPiece::Bytes(rest))
            }
        }
    }

    /// Content up to one past a last byte.
    fn content(&self, start: u64, end: u64) -> Option<AnswerPiece<'_>> {
        if start >= end {
            return None;
        }
        match (&self.stored.body, &self.file) {
            (Body::Memory(body), _) => body.bytes.get(start as usize..end as usize).map(AnswerPiece::Bytes),
            (Body::Disk(_), Some(file)) => Some(AnswerPiece::File { file, start, len: end - start }),
            (Body::Disk(_), None) => None,
        }
    }
}

fn form(stored: &Stored, conditions: &Conditions<'_>) -> Form {
    let is_conditional = conditions.if_none_match[0].is_some() || conditions.if_modified_since.is_some();
    // Conditions count where the response would be a success without them (RFC 9110 section 13.2.1), ranges for 200.
    if is_conditional && stored.status / 100 == 2 && stored.validators().are_known_to(conditions) {
        return Form::NotModified;
    }
    let Some(asked) = conditions.range.filter(|_| stored.status == 200) else { return Form::Whole };
    if !stored.validators().allow_range(conditions) {
        return Form::Whole;
    }
    match range::parse(asked, stored.body.bytes(), RANGES_MAX) {
        Ranges::Whole => Form::Whole,
        Ranges::Unsatisfiable => Form::Unsatisfiable,
        Ranges::Some(ranges) => match *ranges {
            [(start, end)] => Form::Range(start, end),
            _ => Form::Multipart(Box::new(multipart(stored, &ranges))),
        },
    }
}

/// The body of several ranges (RFC 9110 section 14.6). The boundary comes of a hash that is keyed at random, so that no
/// content can have it.
fn multipart(stored: &Stored, ranges: &[(u64, u64)]) -> Multipart {
    let boundary = format!("{:016x}", RandomState::default().hash_one(stored.hash));
    let kind =
        lines(&stored.fields).find(|(name, _)| name.eq_ignore_ascii_case(b"content-type")).map(|(_, value)| value);
    let size = stored.body.bytes();
    let head = |start: u64, end: u64| {
        let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
        if let Some(kind) = kind {
            push_line(&mut head, b"Content-Type", kind);
        }
        head.extend_from_slice(format!("Content-Range: bytes {start}-{}/{size}\r\n\r\n", end - 1).as_bytes());
        head
    };
    let parts = ranges.iter().map(|&(start, end)| (head(start, end), (start, end))).collect();
    Multipart { parts, end: format!("\r\n--{boundary}--\r\n").into_bytes(), boundary }
}
