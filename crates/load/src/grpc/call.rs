//! One call under way: its messages, and how it ends.

use crate::counts::grpc::GrpcTally;
use crate::grpc::collector::Collector;
use crate::grpc::messages::{Part, Reader};
use crate::requests::grpc_status::CODE_MAX;
use memchr::memchr;
use percent_encoding::percent_decode;
use std::fmt;

/// The content type of each answer (gRPC over HTTP/2), perhaps with a codec behind it.
const CONTENT_TYPE: &[u8] = b"application/grpc";
/// The most of a status's words that is kept, bytes.
const WORDS_BYTES_MAX: usize = 300;

/// What has come of a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    reader: Reader,
    stage: Stage,
    /// Bytes of this side's messages that may go out by now.
    pub(crate) released: usize,
    first_ns: u64,
    last_ns: u64,
    messages: u64,
    /// The message under way, where messages are kept.
    kept: Vec<u8>,
    /// What the server says of a status other than OK.
    words: String,
}

#[derive(Debug, Clone, Copy, Default)]
enum Stage {
    /// The head has not come.
    #[default]
    Begun,
    /// Messages come.
    Open,
    /// It ended with this status.
    Ended(u16),
    /// It ended, or will end, in a way that no call may.
    Faulty(Fault),
}

/// Why what came is no answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An answer of HTTP, with this status.
    Http(u16),
    Compressed,
    Flag(u8),
    NoStatus,
    Code,
    Cut,
    /// More of a message than is kept.
    Long,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => write!(
                formatter,
                "an answer of HTTP with the status {status} and without a content-type of gRPC came: what listens there \
                 is no server of gRPC, or a proxy that could not reach it"
            ),
            Self::Compressed => formatter
                .write_str("a compressed message came although none was accepted (grpc-accept-encoding: identity)"),
            Self::Flag(flag) => write!(formatter, "a message begins with the byte {flag} where 0 or 1 belongs"),
            Self::NoStatus => formatter.write_str("the call ended without grpc-status"),
            Self::Code => formatter.write_str("its grpc-status is no number from 0 to 999"),
            Self::Cut => formatter.write_str("the call ended within a message"),
            Self::Long => formatter.write_str("a message is longer than is kept"),
        }
    }
}

/// How a call went that ended with a status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) intended_ns: u64,
    pub(crate) is_success: bool,
    /// Messages that this side sent.
    pub(crate) sent: u64,
}

impl Call {
    /// It goes out, so many bytes of its messages at once.
    pub(crate) fn begin(&mut self, released: usize) {
        self.reset();
        self.released = released;
    }

    fn reset(&mut self) {
        self.reader = Reader::default();
        self.stage = Stage::Begun;
        (self.first_ns, self.last_ns, self.messages) = (0, 0, 0);
        self.kept.clear();
        self.words.clear();
    }

    /// The head of its answer came, lines of `name: value`; the last that comes, if it `ends` the call.
    pub(crate) fn head(&mut self, status: u16, fields: &[u8], ends: bool) {
        let kind = value(fields, b"content-type").unwrap_or_default();
        let is_grpc = kind.get(..CONTENT_TYPE.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(CONTENT_TYPE));
        self.stage = if is_grpc && status == 200 { Stage::Open } else { Stage::Faulty(Fault::Http(status)) };
        if ends {
            self.trailers(fields);
        }
    }

    /// Its trailers came, with which it ends.
    pub(crate) fn trailers(&mut self, fields: &[u8]) {
        if !matches!(self.stage, Stage::Open) {
            return;
        }
        self.stage = match value(fields, b"grpc-status").map(code) {
            None => Stage::Faulty(Fault::NoStatus),
            Some(None) => Stage::Faulty(Fault::Code),
            Some(Some(0)) if !self.reader.is_between() => Stage::Faulty(Fault::Cut),
            Some(Some(code)) => Stage::Ended(code),
        };
        if let Stage::Ended(1..) = self.stage {
            let words = value(fields, b"grpc-message").unwrap_or_default();
            self.words.push_str(&percent_decode(&words[..words.len().min(WORDS_BYTES_MAX)]).decode_utf8_lossy());
        }
    }

    /// Takes a piece of content, which came at this time; gives how many messages it ended.
    pub(crate) fn content(
        &mut self,
        mut piece: &[u8],
        now_ns: u64,
        (tally, collector): (&mut GrpcTally, Option<&Collector>),
    ) -> u64 {
        if matches!(self.stage, Stage::Begun | Stage::Faulty(Fault::Http(_))) {
            return 0;
        }
        let mut ended = 0;
        while let Some(part) = self.reader.next(&mut piece) {
            match part {
                Part::Begin { flag: 0, .. } => {}
                Part::Begin { flag: 1, .. } => self.stage = Stage::Faulty(Fault::Compressed),
                Part::Begin { flag, .. } => self.stage = Stage::Faulty(Fault::Flag(flag)),
                Part::Content(content) => {
                    tally.received_bytes += content.len() as u64;
                    if let Some(collector) = collector
                        && !collector.add(&mut self.kept, content)
                    {
                        self.stage = Stage::Faulty(Fault::Long);
                    }
                }
                Part::End => {
                    ended += 1;
                    if let Some(collector) = collector {
                        collector.push(std::mem::take(&mut self.kept));
                    }
                }
            }
        }
        self.came(ended, now_ns, tally);
        ended
    }

    /// So many messages came.
    fn came(&mut self, messages: u64, now_ns: u64, tally: &mut GrpcTally) {
        if messages == 0 {
            return;
        }
        if self.messages == 0 {
            self.first_ns = now_ns;
        } else {
            tally.between.saturating_record(now_ns.saturating_sub(self.last_ns));
        }
        tally.between.saturating_record_n(0, messages - 1);
        tally.received += messages;
        self.last_ns = now_ns;
        self.messages += messages;
    }

    /// How many messages came.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// The status that it ended with, if it did.
    pub(crate) fn status(&self) -> Option<u16> {
        match self.stage {
            Stage::Ended(code) => Some(code),
            Stage::Begun | Stage::Open | Stage::Faulty(_) => None,
        }
    }

    /// Why what came is no answer, where it ended without a status.
    pub(crate) fn fault(&self) -> Fault {
        match self.stage {
            Stage::Faulty(fault) => fault,
            Stage::Begun | Stage::Open | Stage::Ended(_) => Fault::NoStatus,
        }
    }

    /// It ended with a status, and is counted.
    pub(crate) fn finish(&mut self, ended: Ended, tally: &mut GrpcTally) {
        tally.sent += ended.sent;
        if let Stage::Ended(code @ 1..) = self.stage {
            tally.details.note(code, &self.words, 1);
        }
        if ended.is_success {
            tally.messages_per_call.saturating_record(self.messages);
            if self.messages > 0 {
                tally.first_message.saturating_record(self.first_ns.saturating_sub(ended.intended_ns));
            }
        }
        self.reset();
    }
}

/// The value of a field among lines of `name: value`, whose names are in small letters.
fn value<'f>(mut fields: &'f [u8], name: &[u8]) -> Option<&'f [u8]> {
    while let Some(end) = memchr(b'\n', fields) {
        let line = &fields[..end];
        fields = &fields[end + 1..];
        if let Some(value) = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(b": ")) {
            return Some(value);
        }
    }
    None
}

/// The code that a grpc-status says.
fn code(digits: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok().filter(|code| *code <= CODE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"content-type: application/grpc+proto\n";

    fn ended(is_success: bool) -> Ended {
        Ended { intended_ns: 100, is_success, sent: 1 }
    }

    #[test]
    fn messages_and_the_status_are_counted() {
        let (mut call, mut tally) = (Call::default(), GrpcTally::new());
        call.begin(7);
        assert_eq!(call.content(b"\0\0\0\0\0", 500, (&mut tally, None)), 0);
        call.head(200, HEAD, false);
        assert_eq!(call.content(b"\0\0\0\0\x02a", 1_000, (&mut tally, None)), 0);
        assert_eq!(call.content(b"b\0\0\0\0\0\0\0\0\0\0", 2_000, (&mut tally, None)), 3);
        assert_eq!(call.content(b"\0\0\0\0\x01c", 5_000, (&mut tally, None)), 1);
        assert_eq!(call.status(), None);
        call.trailers(b"grpc-status: 0\n");
        assert_eq!(call.status(), Some(0));
        call.finish(ended(true), &mut tally);
        assert_eq!((tally.received, tally.received_bytes, tally.sent), (4, 3, 1));
        assert_eq!((tally.first_message.max(), tally.between.len(), tally.between.min()), (1_900, 3, 0));
        assert!(tally.details.sorted().is_empty());
    }

    #[test]
    fn another_status_is_told_with_its_words() {
        let (mut call, mut tally) = (Call::default(), GrpcTally::new());
        call.head(200, b"content-type: application/grpc\ngrpc-status: 5\ngrpc-message: no %C3%A4pfel\n", true);
        assert_eq!(call.status(), Some(5));
        call.finish(ended(false), &mut tally);
        let details = tally.details.sorted();
        assert_eq!((details[0].status, details[0].words.as_str(), details[0].count), (5, "no äpfel", 1));
        assert_eq!(tally.messages_per_call.len(), 0);
    }

    #[test]
    fn what_is_no_answer_to_a_call_has_no_status() {
        let fault = |fields: &[u8], content: &[u8], trailers: &[u8]| {
            let (mut call, mut tally) = (Call::default(), GrpcTally::new());
            call.head(200, fields, false);
            call.content(content, 1, (&mut tally, None));
            call.trailers(trailers);
            assert_eq!(call.status(), None);
            call.fault()
        };
        assert_eq!(fault(b"content-type: text/html\n", b"<html>", b"grpc-status: 0\n"), Fault::Http(200));
        assert_eq!(fault(HEAD, b"\x01\0\0\0\0", b"grpc-status: 0\n"), Fault::Compressed);
        assert_eq!(fault(HEAD, b"\x07\0\0\0\0", b"grpc-status: 0\n"), Fault::Flag(7));
        assert_eq!(fault(HEAD, b"\0\0\0\0", b"grpc-status: 0\n"), Fault::Cut);
        assert_eq!(fault(HEAD, b"", b"other: 0\n"), Fault::NoStatus);
        assert_eq!(fault(HEAD, b"", b"grpc-status: -1\n"), Fault::Code);
        assert_eq!(fault(HEAD, b"", b"grpc-status: 1000\n"), Fault::Code);
        let mut call = Call::default();
        call.head(503, HEAD, true);
        assert!(call.fault().to_string().contains("status 503"));
    }
}
