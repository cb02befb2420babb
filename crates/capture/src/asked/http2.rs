//! HTTP/2 and gRPC towards another server (RFC 9113), in the clear: method, path and status of each stream.

use super::framing::{Framing, Head, Message};
use super::protocol::{Fact, Outcome, Protocol, Seen};
use super::shape::{bounded, path};
use crate::http2::Decoder;
use std::collections::BTreeMap;
use weir_wire::stream::{END_HEADERS, END_STREAM, PADDED, PRIORITY, frame_type};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Streams that wait for their answer.
const MOST_OPEN: usize = 1024;
/// The longest frame that is taken for one.
const FRAME_BYTES_MAX: usize = 1 << 24;
const FAILED: u16 = 400;

/// What is known of a stream.
#[derive(Debug)]
struct Stream {
    key: u64,
    grpc: bool,
    status: Option<u16>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Http2 {
    /// Bytes of the preface that are still to come.
    preface: usize,
    given: Framing,
    taken: Framing,
    /// The tables of both directions; `None` where a head was not seen to its end.
    requests: Option<Decoder>,
    responses: Option<Decoder>,
    streams: BTreeMap<u32, Stream>,
    asked: u64,
    whole: bool,
}

/// Whether the first bytes that a client gave are the preface.
pub(super) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(PREFACE)
}

impl Http2 {
    /// `whole` keeps queries.
    pub(super) fn new(whole: bool) -> Self {
        Self {
            preface: PREFACE.len(),
            given: Framing::default(),
            taken: Framing::default(),
            requests: Some(Decoder::default()),
            responses: Some(Decoder::default()),
            streams: BTreeMap::new(),
            asked: 0,
            whole,
        }
    }

    fn request(&mut self, message: &Message<'_>, tell: &mut dyn FnMut(Fact)) {
        let Frame { kind, stream, .. } = Frame::of(message.head);
        if kind != frame_type::HEADERS && kind != frame_type::CONTINUATION {
            return;
        }
        let (mut method, mut target, mut grpc) = (String::new(), String::new(), false);
        let known = decode(&mut self.requests, message, &mut |name, value| match name {
            b":method" => method = String::from_utf8_lossy(value).into_owned(),
            b":path" => target = String::from_utf8_lossy(value).into_owned(),
            b"content-type" => grpc |= value.starts_with(b"application/grpc"),
            _ => {}
        });
        if self.streams.contains_key(&stream) || self.streams.len() >= MOST_OPEN {
            return;
        }
        let shape = match (known, grpc) {
            (false, _) => "(a stream whose head was not seen)".to_owned(),
            (true, true) => bounded(target.trim_start_matches('/').to_owned()),
            (true, false) if self.whole => bounded(format!("{method} {target}")),
            (true, false) => format!("{method} {}", path(&target)),
        };
        let key = self.asked;
        self.asked += 1;
        self.streams.insert(stream, Stream { key, grpc, status: None });
        tell(Fact::Asked(key, shape));
    }

    fn response(&mut self, message: &Message<'_>, tell: &mut dyn FnMut(Fact)) {
        let Frame { kind, flags, stream } = Frame::of(message.head);
        let (mut status, mut grpc_status) = (None, None);
        if kind == frame_type::HEADERS {
            decode(&mut self.responses, message, &mut |name, value| {
                let number = || std::str::from_utf8(value).ok()?.parse::<u16>().ok();
                match name {
                    b":status" => status = number(),
                    b"grpc-status" => grpc_status = number(),
                    _ => {}
                }
            });
        }
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.status = status.filter(|status| *status >= 200).or(open.status);
        if kind == frame_type::HEADERS {
            tell(Fact::Begun(open.key));
        }
        let is_reset = kind == frame_type::RST_STREAM;
        let ends = kind <= frame_type::HEADERS && flags & END_STREAM != 0 || is_reset;
        if !ends {
            return;
        }
        let (key, grpc, status) = (open.key, open.grpc, open.status);
        self.streams.remove(&stream);
        tell(Fact::Ended(key, outcome(grpc, status, grpc_status, is_reset)));
    }
}

fn outcome(grpc: bool, status: Option<u16>, grpc_status: Option<u16>, is_reset: bool) -> Outcome {
    match (grpc_status, status) {
        _ if is_reset => Outcome::Failed("reset".to_owned()),
        (Some(0), _) => Outcome::Fine(Some("grpc 0".to_owned())),
        (Some(code), _) => Outcome::Failed(format!("grpc {code}")),
        (None, Some(status)) if status >= FAILED => Outcome::Failed(status.to_string()),
        (None, Some(status)) if !grpc => Outcome::Fine(Some(status.to_string())),
        _ => Outcome::Unseen,
    }
}

/// The head of a frame.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Frame {
    fn of(head: &[u8]) -> Self {
        let at = |index: usize| head.get(index).copied().unwrap_or(0);
        let stream = u32::from_be_bytes([at(5) & 0x7f, at(6), at(7), at(8)]);
        Self { kind: at(3), flags: at(4), stream }
    }
}

/// Reads a frame's block of fields; false, and the table is lost, where it is not whole.
fn decode(decoder: &mut Option<Decoder>, message: &Message<'_>, take: &mut dyn FnMut(&[u8], &[u8])) -> bool {
    let flags = message.head.get(4).copied().unwrap_or(0);
    let padding =
        if flags & PADDED != 0 { message.body.first().map_or(0, |padding| usize::from(*padding) + 1) } else { 0 };
    let begin = usize::from(flags & PADDED != 0) + if flags & PRIORITY != 0 { 5 } else { 0 };
    let end = message.body.len().saturating_sub(padding.saturating_sub(1));
    let block = message.body.get(begin..end);
    let whole = !message.is_cut() && flags & END_HEADERS != 0;
    let read = match (decoder.as_mut(), block) {
        (Some(decoder), Some(block)) if whole => decoder.decode(block, take).is_ok(),
        _ => false,
    };
    if !read {
        *decoder = None;
    }
    read
}

fn head(bytes: &[u8]) -> Head {
    match bytes {
        [a, b, c, kind, _, _, _, _, _] => {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            if *kind < b' ' && length < FRAME_BYTES_MAX { Head::Of(9, length) } else { Head::Wrong }
        }
        _ => Head::Short,
    }
}

impl Protocol for Http2 {
    fn name(&self) -> &'static str {
        "http2"
    }

    fn given(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        let skip = self.preface.min(seen.bytes.len());
        self.preface -= skip;
        let seen = Seen::new(&seen.bytes[skip..], seen.length - skip);
        let mut given = std::mem::take(&mut self.given);
        given.push(seen, head, &mut |message| self.request(&message, tell));
        if given.is_lost() {
            // A head may have been in what was not seen.
            (self.requests, given) = (None, Framing::default());
        }
        self.given = given;
    }

    fn taken(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact)) {
        let mut taken = std::mem::take(&mut self.taken);
        taken.push(seen, head, &mut |message| self.response(&message, tell));
        if taken.is_lost() {
            self.responses = None;
        }
        self.taken = taken;
    }

    fn is_lost(&self) -> bool {
        self.taken.is_lost()
    }

    fn resume(&mut self) {
        self.taken.reset();
        self.streams.clear();
    }
}
