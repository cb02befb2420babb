//! The response parser: tells where a response ends, and nothing that is not needed for that.
//!
//! One verdict for the same bytes, in any pieces they come: a strict parser looks first at what came in one piece, and
//! what it refuses or cannot yet read is looked at again, tolerantly, once its head is whole (`weir_client::head`).

use crate::http1::framing;
use crate::http1::framing::{Body, Head};
use std::mem::MaybeUninit;
use weir_client::{Oddities, Oddity, judge, rewrite};

pub use crate::http1::malformed::Malformed;
pub use weir_client::{EndOfHead, HEAD_BYTES_MAX, status_line};

/// The longest head that is remembered, in bytes.
const REMEMBERED_BYTES_MAX: usize = 1024;
/// Header lines of a response that are read without another look.
const HEADERS_AT_ONCE: usize = 128;

/// How far a response has come when its connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of it has come.
    Nothing,
    /// A part of its head.
    Head,
    /// Its head, and not so many bytes of the body as that says.
    Length,
    /// Its head, and not the last chunk.
    Chunks,
    /// Its head, and a body that ends with the connection.
    UntilClose,
}

/// How far a response has got with the bytes that were fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to this response; all of those fed, unless it is complete.
    pub consumed: usize,
    /// Whether the response is whole.
    pub complete: bool,
}

/// One response after the other, fed in any pieces they come.
#[derive(Debug, Default)]
pub struct Parser {
    /// Whether responses answer HEAD requests.
    head_only: bool,
    /// Whether the next response may switch protocols, as its request asked for.
    may_switch: bool,
    status: u16,
    keep_alive: bool,
    /// How long the body is by the head that was read last, if that says so, and else how long it was.
    told_bytes: Option<u64>,
    counted_bytes: u64,
    /// `None` while the head is awaited.
    body: Option<Body>,
    /// The part of a head that has come, when it comes in several pieces or has to be looked at again.
    partial: Vec<u8>,
    end_of_partial: EndOfHead,
    /// What is odd about the response that is awaited, and in how many responses each oddity was.
    oddities: Oddities,
    odd_responses: Option<Box<[u64; Oddity::ALL.len()]>>,
    /// The head that was read last, if it is short, and what it meant.
    ///
    /// Servers repeat it byte for byte until the second of their Date header changes, and comparing is ten times
    /// cheaper than reading.
    last: Option<Head>,
    last_bytes: Vec<u8>,
    /// Whether Set-Cookie headers are kept, and their values, each with a line's end behind it.
    keeps_cookies: bool,
    cookies: Vec<u8>,
    /// Whether the lines of heads are kept, and those of the last one.
    keeps_heads: bool,
    head: Vec<u8>,
}

impl Parser {
    /// A parser; `head_only` if the requests are HEAD.
    #[must_use]
    pub fn new(head_only: bool) -> Self {
        Self { head_only, ..Self::default() }
    }

    /// Says whether the next response answers a HEAD request.
    #[inline]
    pub fn expect_head_only(&mut self, head_only: bool) {
        if self.head_only != head_only {
            self.head_only = head_only;
            // The same head means something else now.
            self.last = None;
        }
    }

    /// Says whether the next response may switch protocols (RFC 9110 15.2.2): it is whole with its head then, and what
    /// follows is of the other protocol.
    pub fn expect_switch(&mut self, may_switch: bool) {
        self.may_switch = may_switch;
    }

    /// Keeps the Set-Cookie headers of responses, for [`Parser::take_cookies`].
    pub fn keep_cookies(&mut self) {
        self.keeps_cookies = true;
    }

    /// Keeps the lines of heads, for [`Parser::head`].
    pub fn keep_heads(&mut self) {
        self.keeps_heads = true;
    }

    /// The lines of the head that was read last, where heads are kept.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Takes the values of the Set-Cookie headers of the response that was completed last.
    pub fn take_cookies(&mut self, mut take: impl FnMut(&[u8])) {
        // Values hold no line's end.
        for value in self.cookies.split(|byte| *byte == b'\n').filter(|value| !value.is_empty()) {
            take(value);
        }
        self.cookies.clear();
    }

    /// Forgets an unfinished response.
    pub fn reset(&mut self) {
        self.body = None;
        self.partial.clear();
        self.cookies.clear();
        self.oddities = Oddities::default();
    }

    /// The status of the response that was completed last, or whose body is being read.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The length of the body of the response that was completed last, without the framing of chunks.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.told_bytes.unwrap_or(self.counted_bytes)
    }

    /// Whether the head of a response has come, but not all of its body.
    #[must_use]
    pub fn in_body(&self) -> bool {
        self.body.is_some()
    }

    /// How far the response that is awaited has come.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.body {
            Some(Body::Bytes(_)) => Stage::Length,
            Some(Body::Chunked(_)) => Stage::Chunks,
            Some(Body::UntilClose(_)) => Stage::UntilClose,
            None if self.partial.is_empty() || self.holds_empty_lines() => Stage::Nothing,
            None => Stage::Head,
        }
    }

    /// Whether empty lines have come, and nothing else of the response that is awaited.
    #[must_use]
    pub fn holds_empty_lines(&self) -> bool {
        !self.partial.is_empty() && self.partial.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
    }

    /// What is wrong with the part of a head that has come, if no more of it comes.
    ///
    /// # Errors
    /// [`Malformed`]: it begins no response.
    pub fn judge_part(&self) -> Result<(), Malformed> {
        if self.partial.is_empty() { Ok(()) } else { Ok(judge(&self.partial, true)?) }
    }

    /// Whether the part of a head that has come begins no response of HTTP/1.
    #[must_use]
    pub fn begins_other(&self) -> bool {
        let begin = self.partial.iter().skip_while(|byte| matches!(byte, b'\r' | b'\n'));
        begin.zip(b"HTTP/").any(|(byte, wanted)| !byte.eq_ignore_ascii_case(wanted))
    }

    /// In how many responses each oddity was, those that occurred.
    pub fn odd_responses(&self) -> impl Iterator<Item = (Oddity, u64)> {
        let counts = self.odd_responses.as_deref().copied().unwrap_or_default();
        Oddity::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    /// Counts an oddity that lies outside a response.
    #[cold]
    pub fn count_odd(&mut self, oddity: Oddity) {
        self.odd_responses.get_or_insert_default()[oddity as usize] += 1;
    }

    /// A response with oddities is whole.
    #[cold]
    fn count_oddities(&mut self) {
        for oddity in std::mem::take(&mut self.oddities).iter() {
            self.count_odd(oddity);
        }
    }

    /// Bytes of the response that are still to come, if its head has come and says so.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.body {
            Some(Body::Bytes(left)) => Some(left),
            _ => None,
        }
    }

    /// Whether the connection may carry another request after the response that was completed last.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Takes the next bytes of the connection; after `complete` the next call begins the next response.
    ///
    /// Interim responses (1xx) are passed over as part of the response that they announce.
    ///
    /// # Errors
    /// [`Malformed`]: the connection is of no further use.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Progress, Malformed> {
        self.feed_into(bytes, |_| {})
    }

    /// Takes bytes up to the end of the head, unless it has come; gives how many these are, or `None` where the head goes on
    /// behind them all.
    ///
    /// # Errors
    /// As [`Parser::feed`].
    #[inline]
    pub fn feed_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut at = 0;
        while self.body.is_none() {
            let Some(head) = self.take_head(&bytes[at..])? else { return Ok(None) };
            at += head.length;
            self.oddities.add(head.oddities);
            if head.status < 200 {
                if head.status == 101 && self.may_switch {
                    (self.status, self.keep_alive, self.body) = (101, true, Some(Body::Bytes(0)));
                    break;
                }
                if head.status == 101 {
                    return Err(Malformed::new("it switches protocols (101), which the request did not ask for"));
                }
                continue;
            }
            (self.status, self.keep_alive, self.body) = (head.status, head.keep_alive, Some(head.body));
        }
        Ok(Some(at))
    }

    /// As [`Parser::feed`], with each piece of the body given to `content`, without the framing of chunks.
    ///
    /// # Errors
    /// As [`Parser::feed`].
    #[inline]
    pub fn feed_into(&mut self, bytes: &[u8], mut content: impl FnMut(&[u8])) -> Result<Progress, Malformed> {
        let Some(at) = self.feed_head(bytes)? else {
            return Ok(Progress { consumed: bytes.len(), complete: false });
        };
        let rest = &bytes[at..];
        let (taken, complete) = match &mut self.body {
            Some(Body::Bytes(left)) => {
                let taken = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                content(&rest[..taken]);
                (taken, *left == 0)
            }
            Some(Body::Chunked(chunked)) => {
                let progress = chunked.feed_into(rest, content)?;
                self.counted_bytes = chunked.bytes();
                if progress.1 {
                    self.oddities.note_if(chunked.is_odd(), Oddity::ChunkLine);
                    self.oddities.note_if(chunked.is_bare(), Oddity::BareLineFeed);
                }
                progress
            }
            Some(Body::UntilClose(bytes)) => {
                *bytes += rest.len() as u64;
                content(rest);
                (rest.len(), false)
            }
            None => (rest.len(), false),
        };
        if complete {
            self.body = None;
            if !self.oddities.is_empty() {
                self.count_oddities();
            }
        }
        Ok(Progress { consumed: at + taken, complete })
    }

    /// The connection ended: whether that completes the response (it had no other mark of its end).
    pub fn end(&mut self) -> bool {
        let counted = if let Some(Body::UntilClose(bytes)) = self.body { Some(bytes) } else { None };
        if counted.is_some() && !self.oddities.is_empty() {
            self.count_oddities();
        }
        self.reset();
        self.counted_bytes = counted.unwrap_or(0);
        counted.is_some()
    }

    /// The head that these bytes complete; its `length` counts only bytes of this call.
    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<Head>, Malformed> {
        if !self.partial.is_empty() {
            return self.go_on_with_head(bytes);
        }
        // A head ends with its empty line, so what begins with the bytes of one has it as its head.
        if self.last.is_some() && bytes.starts_with(&self.last_bytes) {
            return Ok(self.last);
        }
        let head = match self.read_strictly(bytes)? {
            Some(head) => Some(head),
            // Not whole, or not strictly what it should be: either is found out as if it came in pieces.
            None => {
                self.end_of_partial = EndOfHead::default();
                self.go_on_with_head(bytes)?
            }
        };
        self.told_bytes = head.and_then(|head| head.body.told_bytes());
        // Unless it is remembered below, what was told is no longer what the remembered one tells.
        self.last = None;
        if let Some(head) = head {
            if self.keeps_cookies || self.keeps_heads {
                self.keep(&bytes[..head.length], head.oddities);
            } else if head.length <= REMEMBERED_BYTES_MAX {
                self.last = Some(head);
                self.last_bytes.clear();
                self.last_bytes.extend_from_slice(&bytes[..head.length]);
            }
        }
        Ok(head)
    }

    /// Adds to a head until it is whole.
    fn go_on_with_head(&mut self, bytes: &[u8]) -> Result<Option<Head>, Malformed> {
        let before = self.partial.len();
        let room = bytes.len().min(HEAD_BYTES_MAX + 1 - before.min(HEAD_BYTES_MAX));
        self.partial.extend_from_slice(&bytes[..room]);
        let end = self.end_of_partial.find(&self.partial).filter(|end| *end <= HEAD_BYTES_MAX);
        let Some(end) = end else {
            judge(&self.partial, false)?;
            if self.partial.len() > HEAD_BYTES_MAX {
                return Err(Malformed::new(TOO_LONG));
            }
            return Ok(None);
        };
        let partial = std::mem::take(&mut self.partial);
        let head = self.read_whole(&partial[..end]);
        if let Ok(head) = &head
            && before > 0
        {
            self.keep(&partial[..end], head.oddities);
        }
        // What was allocated stays, and of what is no head also its bytes, which tell what it is.
        self.partial = partial;
        let mut head = head?;
        self.partial.clear();
        head.length = end - before;
        self.told_bytes = head.body.told_bytes();
        Ok(Some(head))
    }

    /// Keeps what is wanted of a head.
    fn keep(&mut self, head: &[u8], oddities: Oddities) {
        if self.keeps_cookies {
            keep_cookies(head, oddities, &mut self.cookies);
        }
        if self.keeps_heads {
            self.head.clear();
            if oddities.is_empty() || rewrite(head, &mut self.head).is_err() {
                self.head.clear();
                self.head.extend_from_slice(head);
            }
        }
    }

    /// Reads a head at the begin of `bytes`, if it is whole and as the standard wants it.
    fn read_strictly(&self, bytes: &[u8]) -> Result<Option<Head>, Malformed> {
        let mut headers = [MaybeUninit::uninit(); HEADERS_AT_ONCE];
        let mut response = httparse::Response::new(&mut []);
        let parsed =
            httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
        let (Ok(httparse::Status::Complete(length)), Some(100..)) = (parsed, response.code) else { return Ok(None) };
        if length > HEAD_BYTES_MAX {
            return Err(Malformed::new(TOO_LONG));
        }
        framing::read(&response, &bytes[..length], self.head_only).map(Some)
    }

    /// Reads a head that is whole, strictly or else tolerantly.
    fn read_whole(&self, head: &[u8]) -> Result<Head, Malformed> {
        if let Some(read) = self.read_strictly(head)? {
            return Ok(read);
        }
        let mut out = Vec::with_capacity(head.len() + 16);
        let oddities = rewrite(head, &mut out)?;
        let lines = memchr::memchr_iter(b'\n', &out).count();
        let mut headers = vec![httparse::EMPTY_HEADER; lines];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&out) {
            Ok(httparse::Status::Complete(_)) => {}
            // What was rewritten is as the standard wants it.
            _ => return Err(Malformed::new("its head cannot be read")),
        }
        let mut read = framing::read(&response, &out, self.head_only)?;
        read.oddities.add(oddities);
        Ok(read)
    }
}

/// A head that has no end within its bound.
const TOO_LONG: &str = "its head is longer than 262144 bytes";

/// Puts the values of a head's Set-Cookie headers behind those that are there, as far as a head may be long.
fn keep_cookies(head: &[u8], oddities: Oddities, cookies: &mut Vec<u8>) {
    const NAME: &[u8] = b"set-cookie:";
    let mut rewritten = Vec::new();
    let head = match oddities.is_empty() || rewrite(head, &mut rewritten).is_err() {
        true => head,
        false => &rewritten,
    };
    for line in head.split(|byte| *byte == b'\n') {
        if line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
            && cookies.len() + line.len() <= HEAD_BYTES_MAX
        {
            cookies.extend_from_slice(line[NAME.len()..].trim_ascii());
            cookies.push(b'\n');
        }
    }
}
