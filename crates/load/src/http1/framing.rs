//! What a response's head says of its body and its connection (RFC 9112 6.3 and 9.3).

use crate::http1::chunked::Chunked;
use crate::http1::malformed::Malformed;
use weir_client::head::of_lines;
use weir_client::{Oddities, Oddity};

/// What of a head decides about its body and its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) length: usize,
    pub(crate) body: Body,
    pub(crate) keep_alive: bool,
    pub(crate) oddities: Oddities,
}

/// What is still to come of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// Exactly so many bytes.
    Bytes(u64),
    Chunked(Chunked),
    /// All until the connection ends; so many bytes have come.
    UntilClose(u64),
}

impl Body {
    /// Its length, as a head that was just read tells it.
    pub(crate) fn told_bytes(self) -> Option<u64> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// The headers that decide, taken together.
#[derive(Debug, Default)]
struct Lines {
    length: Option<u64>,
    /// Why the lengths cannot be used.
    wrong_length: Option<Malformed>,
    /// Whether a coding was named, how often chunks, and whether they were the last.
    coded: bool,
    chunks: u32,
    chunked_last: bool,
    close: bool,
    keep: bool,
    oddities: Oddities,
}

/// What a head means; `head` are its bytes.
pub(crate) fn read(response: &httparse::Response<'_, '_>, head: &[u8], head_only: bool) -> Result<Head, Malformed> {
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Err(Malformed::new("its head cannot be read"));
    };
    let mut lines = Lines { oddities: of_lines(head), ..Lines::default() };
    for header in response.headers.iter() {
        // The length tells most names apart, so that few are compared.
        match header.name.len() {
            10 if header.name.eq_ignore_ascii_case("connection") => lines.connection(header.value),
            14 if header.name.eq_ignore_ascii_case("content-length") => lines.content_length(header.value),
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => lines.transfer_encoding(header.value)?,
            _ => {}
        }
    }
    let bodyless = head_only || status < 200 || status == 204 || status == 304;
    let wrong_length = lines.wrong_length.is_some();
    if let Some(wrong) = lines.wrong_length.take()
        && !bodyless
    {
        return Err(wrong);
    }
    let mut oddities = lines.oddities;
    oddities.note_if(lines.coded && lines.length.is_some(), Oddity::LengthAndChunks);
    oddities.note_if(lines.coded && minor == 0, Oddity::ChunksOfOld);
    let body = match lines.length {
        _ if bodyless => Body::Bytes(0),
        _ if lines.chunked_last => Body::Chunked(Chunked::default()),
        Some(length) if !lines.coded => Body::Bytes(length),
        _ => Body::UntilClose(0),
    };
    // Both framings at once, or chunks in HTTP/1.0: the end may not be where we think, so nothing may follow it.
    let ambiguous = lines.coded && (lines.length.is_some() || minor == 0) || wrong_length;
    let keep_alive = !lines.close && !ambiguous && !matches!(body, Body::UntilClose(_)) && (minor == 1 || lines.keep);
    Ok(Head { status, length: head.len(), body, keep_alive, oddities })
}

impl Lines {
    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn content_length(&mut self, value: &[u8]) {
        for digits in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let Some(length) = decimal(digits) else {
                let shown = weir_client::other::shown(&digits[..digits.len().min(40)]);
                let words = format!("its Content-Length is not a number of bytes: `{shown}`");
                self.wrong_length.get_or_insert_with(|| Malformed::new(words));
                continue;
            };
            match self.length.replace(length) {
                None => {}
                Some(other) if other == length => self.oddities.note(Oddity::RepeatedLength),
                Some(other) => {
                    let words = format!("it gives two lengths, {other} and {length}");
                    self.wrong_length.get_or_insert_with(|| Malformed::new(words));
                }
            }
        }
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Malformed> {
        let codings = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut any = false;
        // RFC 9110 5.6.1: empty elements of a list say nothing; `identity` is no coding (RFC 9112 7).
        for coding in codings.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")) {
            any = true;
            self.chunked_last = coding.eq_ignore_ascii_case(b"chunked");
            self.chunks += u32::from(self.chunked_last);
        }
        self.coded |= any;
        self.oddities.note_if(!any, Oddity::NoCoding);
        // RFC 9112 6.1: chunks within chunks are no coding, and clients disagree about where they end.
        if self.chunks > 1 { Err(Malformed::new("its Transfer-Encoding names chunked twice")) } else { Ok(()) }
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
