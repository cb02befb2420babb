//! What comes over connections, as the observer of the loop sees it.

use crate::behaviour::Fields;
use flate2::read::{GzDecoder, ZlibDecoder};
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_load::response::Parser;
use weir_load::{ClientRequest, Observer};

/// The most of an answer that is kept, head, body and the framing of chunks, in bytes.
pub(crate) const ANSWER_KEPT_MAX: usize = 16 << 20;
/// What stays allocated for the next answer, in bytes.
const SPARE_BYTES: usize = 64 << 10;
/// Buffers that are kept for the next answers.
const SPARES_MAX: usize = 256;

/// An answer's bytes.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_cut: bool,
}

/// A request that is over, with what came.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) request: ClientRequest,
    pub(crate) raw: Raw,
    /// When its connection was begun, when the other end took it, and when it could carry requests, if it was made for it.
    pub(crate) made: Option<Made>,
}

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) begin_ns: u64,
    pub(crate) reached_ns: u64,
    pub(crate) ready_ns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    coming: HashMap<u64, Raw>,
    made: HashMap<u64, Made>,
    spare: Vec<Vec<u8>>,
    /// The request that was over last, until the director takes it.
    pub(crate) last: Option<Over>,
    pub(crate) begin_ns: u64,
}

/// The observer, shared with the director.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch(Arc<Mutex<Inner>>);

impl Watch {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Gives a buffer back.
    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARES_MAX {
            bytes.clear();
            bytes.shrink_to(SPARE_BYTES);
            self.spare.push(bytes);
        }
    }
}

impl Observer for Watch {
    fn begins(&mut self, at_ns: u64) {
        self.lock().begin_ns = at_ns;
    }

    fn reached(&mut self, connection: u64, at_ns: u64) {
        self.lock().made.entry(connection).or_default().reached_ns = at_ns;
    }

    fn connected(&mut self, connection: u64, begin_ns: u64, ready_ns: u64) {
        let mut inner = self.lock();
        let made = inner.made.entry(connection).or_default();
        (made.begin_ns, made.ready_ns) = (begin_ns, ready_ns);
    }

    fn closes(&mut self, connection: u64) {
        let mut inner = self.lock();
        inner.coming.remove(&connection);
        inner.made.remove(&connection);
    }

    fn received(&mut self, connection: u64, bytes: &[u8]) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let spare = &mut inner.spare;
        let raw = inner
            .coming
            .entry(connection)
            .or_insert_with(|| Raw { bytes: spare.pop().unwrap_or_default(), is_cut: false });
        let room = ANSWER_KEPT_MAX - raw.bytes.len();
        raw.is_cut |= bytes.len() > room;
        raw.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn request(&mut self, request: &ClientRequest) {
        let mut inner = self.lock();
        let raw = inner.coming.remove(&request.connection).unwrap_or_default();
        let made = inner.made.remove(&request.connection);
        inner.last = Some(Over { request: *request, raw, made });
    }
}

/// An answer, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) headers: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) is_cut: bool,
}

/// Takes an answer apart; the body only if it is wanted.
pub(crate) fn parts(raw: &Raw, is_head: bool, with_body: bool) -> Parts {
    let mut parser = Parser::new(is_head);
    parser.keep_heads();
    // The engine has taken it as the answer to a request that asks for it, or refused it.
    parser.expect_switch(true);
    let mut body = Vec::new();
    // The engine has read the same bytes: they are an answer, or the begin of one that is cut.
    let fed = parser.feed_into(&raw.bytes, |piece| {
        if with_body {
            body.extend_from_slice(piece);
        }
    });
    let headers = Fields::of_head(parser.head());
    let mut parts = Parts { headers, body, is_cut: raw.is_cut || fed.is_err() };
    if with_body && !parts.is_cut {
        decode(&mut parts);
    }
    parts
}

/// Undoes the codings of a body, the last one first (RFC 9110 8.4).
fn decode(parts: &mut Parts) {
    let named = parts.headers.values("content-encoding");
    let codings: Vec<String> =
        named.flat_map(|value| value.split(',')).map(|coding| coding.trim().to_ascii_lowercase()).collect();
    for coding in codings.iter().rev() {
        if parts.body.is_empty() {
            return;
        }
        let mut out = Vec::new();
        let reader: Box<dyn Read + '_> = match coding.as_str() {
            "gzip" | "x-gzip" => Box::new(GzDecoder::new(&parts.body[..])),
            "deflate" => Box::new(ZlibDecoder::new(&parts.body[..])),
            "br" => Box::new(brotli::Decompressor::new(&parts.body[..], 4096)),
            "zstd" => match zstd::Decoder::new(&parts.body[..]) {
                Ok(decoder) => Box::new(decoder),
                Err(_) => {
                    parts.is_cut = true;
                    return;
                }
            },
            _ => continue,
        };
        let read = reader.take(ANSWER_KEPT_MAX as u64 + 1).read_to_end(&mut out);
        if read.is_err() || out.len() > ANSWER_KEPT_MAX {
            parts.is_cut = true;
            return;
        }
        parts.body = out;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let bytes =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nTransfer-Encoding: chunked\r\n\
            set-cookie: b=2\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let parts = parts(&Raw { bytes: bytes.to_vec(), is_cut: false }, false, true);
        assert_eq!((parts.body.as_slice(), parts.is_cut), (&b"abcde"[..], false));
        let cookies: Vec<_> = parts.headers.values("set-cookie").collect();
        assert_eq!(cookies, ["a=1", "b=2"]);
    }

    #[test]
    fn codings_are_undone_within_the_bound() {
        use std::io::Write;
        let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        coder.write_all(&vec![b'x'; ANSWER_KEPT_MAX + 10]).expect("in memory");
        let bomb = coder.finish().expect("in memory");
        let mut bytes =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", bomb.len()).into_bytes();
        bytes.extend_from_slice(&bomb);
        let parts = parts(&Raw { bytes, is_cut: false }, false, true);
        assert!(parts.is_cut && parts.body.len() <= ANSWER_KEPT_MAX);
    }
}
