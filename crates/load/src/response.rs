//! The response parser: tells where a response ends, and nothing that is not needed for that.

use crate::chunked::Chunked;
use memchr::memchr;
use std::mem::MaybeUninit;

/// The longest head that is read, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The longest head that is remembered, in bytes.
const REMEMBERED_BYTES_MAX: usize = 1024;
/// The most header lines of one response.
pub const HEADERS_MAX: usize = 128;

/// What came is not a response of HTTP/1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an HTTP/1 response: {0}")]
pub struct Malformed(pub &'static str);

/// How far a response has got with the bytes that were fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to this response; all of those fed, unless it is complete.
    pub consumed: usize,
    /// Whether the response is whole.
    pub complete: bool,
}

/// What of a head decides about its body and its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    length: usize,
    body: Body,
    keep_alive: bool,
}

/// What is still to come of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Exactly so many bytes.
    Bytes(u64),
    Chunked(Chunked),
    /// All until the connection ends; so many bytes have come.
    UntilClose(u64),
}

impl Body {
    /// Its length, as a head that was just read tells it.
    fn told_bytes(self) -> Option<u64> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// One response after the other, fed in whatever pieces they come.
#[derive(Debug, Default)]
pub struct Parser {
    /// Whether responses answer HEAD requests.
    head_only: bool,
    status: u16,
    keep_alive: bool,
    /// How long the body is by the head that was read last, if that says so, and else how long it was.
    told_bytes: Option<u64>,
    counted_bytes: u64,
    /// `None` while the head is awaited.
    body: Option<Body>,
    /// The part of a head that has come, when it comes in several pieces.
    partial: Vec<u8>,
    /// The head that was read last, if it is short, and what it meant.
    ///
    /// Servers repeat it byte for byte until the second of their Date header changes, and comparing is ten times
    /// cheaper than reading.
    last: Option<Head>,
    last_bytes: Vec<u8>,
    /// Whether Set-Cookie headers are kept, and their values, each with a line's end behind it.
    keeps_cookies: bool,
    cookies: Vec<u8>,
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

    /// Keeps the Set-Cookie headers of responses, for [`Parser::take_cookies`].
    pub fn keep_cookies(&mut self) {
        self.keeps_cookies = true;
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
        let mut at = 0;
        while self.body.is_none() {
            let Some(head) = self.take_head(&bytes[at..])? else {
                return Ok(Progress { consumed: bytes.len(), complete: false });
            };
            at += head.length;
            if head.status < 200 {
                if head.status == 101 {
                    return Err(Malformed("it switches to a protocol that nobody asked for"));
                }
                continue;
            }
            (self.status, self.keep_alive, self.body) = (head.status, head.keep_alive, Some(head.body));
        }
        let rest = &bytes[at..];
        let (taken, complete) = match &mut self.body {
            Some(Body::Bytes(left)) => {
                let taken = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                (taken, *left == 0)
            }
            Some(Body::Chunked(chunked)) => {
                let progress = chunked.feed(rest)?;
                self.counted_bytes = chunked.bytes();
                progress
            }
            Some(Body::UntilClose(bytes)) => {
                *bytes += rest.len() as u64;
                (rest.len(), false)
            }
            None => (rest.len(), false),
        };
        if complete {
            self.body = None;
        }
        Ok(Progress { consumed: at + taken, complete })
    }

    /// The connection ended: whether that completes the response (it had no other mark of its end).
    pub fn end(&mut self) -> bool {
        let counted = if let Some(Body::UntilClose(bytes)) = self.body { Some(bytes) } else { None };
        self.reset();
        self.counted_bytes = counted.unwrap_or(0);
        counted.is_some()
    }

    /// The head that these bytes complete; its `length` counts only bytes of this call.
    fn take_head(&mut self, bytes: &[u8]) -> Result<Option<Head>, Malformed> {
        if self.partial.is_empty() {
            // A head ends with its empty line, so whatever begins with the bytes of one has it as its head.
            if self.last.is_some() && bytes.starts_with(&self.last_bytes) {
                return Ok(self.last);
            }
            let head = parse_head(bytes, self.head_only)?;
            self.told_bytes = head.and_then(|head| head.body.told_bytes());
            // Unless it is remembered below, what was told is no longer what the remembered one tells.
            self.last = None;
            match head {
                None => self.keep_partial(bytes)?,
                Some(head) if self.keeps_cookies => keep_cookies(&bytes[..head.length], &mut self.cookies),
                Some(head) if head.length <= REMEMBERED_BYTES_MAX => {
                    self.last = Some(head);
                    self.last_bytes.clear();
                    self.last_bytes.extend_from_slice(&bytes[..head.length]);
                }
                Some(_) => {}
            }
            return Ok(head);
        }
        // A head ends with a line's end: without one in the new bytes there is no need to look at all of it again.
        let before = self.partial.len();
        let room = bytes.len().min(HEAD_BYTES_MAX + 1 - before.min(HEAD_BYTES_MAX));
        self.partial.extend_from_slice(&bytes[..room]);
        let head = match memchr(b'\n', bytes) {
            Some(_) => parse_head(&self.partial, self.head_only)?,
            None => None,
        };
        match head {
            Some(mut head) => {
                if self.keeps_cookies {
                    keep_cookies(&self.partial[..head.length], &mut self.cookies);
                }
                head.length -= before;
                self.told_bytes = head.body.told_bytes();
                self.partial.clear();
                Ok(Some(head))
            }
            None if self.partial.len() > HEAD_BYTES_MAX => Err(Malformed("its head is too long")),
            None => Ok(None),
        }
    }

    fn keep_partial(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(Malformed("its head is too long"));
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }
}

/// Reads a head, if it is whole, and what RFC 9112 6.3 and 9.3 make of it.
fn parse_head(bytes: &[u8], head_only: bool) -> Result<Option<Head>, Malformed> {
    let mut headers = [MaybeUninit::uninit(); HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("it has too many headers")),
        Err(_) => return Err(Malformed("its head cannot be read")),
    };
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Err(Malformed("its head cannot be read"));
    };
    let mut content_length = None;
    let (mut chunked, mut coded, mut close, mut keep) = (false, false, false, false);
    for header in response.headers.iter() {
        // The length tells most names apart, so that few are compared.
        match header.name.len() {
            10 if header.name.eq_ignore_ascii_case("connection") => {
                for option in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    close |= option.eq_ignore_ascii_case(b"close");
                    keep |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                for value in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    let value = decimal(value).ok_or(Malformed("its length is not a number"))?;
                    if content_length.replace(value).is_some_and(|other| other != value) {
                        return Err(Malformed("it gives two lengths"));
                    }
                }
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                coded = true;
                let last = header.value.split(|byte| *byte == b',').next_back().unwrap_or_default();
                chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
            }
            _ => {}
        }
    }
    let bodyless = head_only || status < 200 || status == 204 || status == 304;
    let body = match content_length {
        _ if bodyless => Body::Bytes(0),
        _ if chunked => Body::Chunked(Chunked::default()),
        Some(length) if !coded => Body::Bytes(length),
        _ => Body::UntilClose(0),
    };
    // Both framings at once, or chunks in HTTP/1.0: the end may not be where we think, so nothing may follow it.
    let ambiguous = coded && (content_length.is_some() || minor == 0);
    let keep_alive = !close && !ambiguous && !matches!(body, Body::UntilClose(_)) && (minor == 1 || keep);
    Ok(Some(Head { status, length, body, keep_alive }))
}

/// Puts the values of a head's Set-Cookie headers behind those that are there, as far as a head may be long.
fn keep_cookies(head: &[u8], cookies: &mut Vec<u8>) {
    const NAME: &[u8] = b"set-cookie:";
    for line in head.split(|byte| *byte == b'\n') {
        if line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME))
            && cookies.len() + line.len() <= HEAD_BYTES_MAX
        {
            cookies.extend_from_slice(line[NAME.len()..].trim_ascii());
            cookies.push(b'\n');
        }
    }
}

/// A number of digits only, as RFC 9110 8.6 wants it.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
