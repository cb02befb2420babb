//! How a request goes to an upstream of FastCGI.

use super::record::{CONTENT_BYTES_MAX, HEAD_BYTES, RecordHead, kind, pad, push};
use crate::upstream::gateway::script::{Scratch, Unsendable, find};
use crate::upstream::gateway::settings::Gateway;
use crate::upstream::gateway::variables::{self, Variables};
use crate::upstream::http1::digits;
use crate::upstream::message::{BodyFraming, Outgoing};

/// The role of a program that answers requests (section 6.2).
const RESPONDER: u8 = 1;
/// The flag by which the connection is kept behind the request.
const KEEP_CONNECTION: u8 = 1;
/// A length below this takes one byte, any other one four.
const LONG_LENGTH: usize = 128;
/// Content of a record among several that is a multiple of the padding.
const PIECE_BYTES: usize = CONTENT_BYTES_MAX - 7;

/// Appends the head of a request. `spooled` is the length of a body that was held, for a client that did not say it.
///
/// With [`BodyFraming::None`] the request is whole; with [`BodyFraming::Framed`] the body follows by [`write_body`] and
/// [`end_body`]; with [`BodyFraming::Unknown`] nothing was written, and the body has to be held first.
///
/// # Errors
///
/// [`Unsendable`] if the request goes to no program; nothing was written then.
pub(crate) fn render(
    outgoing: &Outgoing<'_>,
    gateway: &Gateway,
    spooled: Option<u64>,
    exists: &mut impl FnMut(&[u8]) -> bool,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<BodyFraming, Unsendable> {
    let Some(length) = spooled.or(outgoing.head.body_bytes()) else { return Ok(BodyFraming::Unknown) };
    let script = find(outgoing.target, gateway, exists, scratch)?;
    let start = out.len();
    push(kind::BEGIN_REQUEST, &[0, RESPONDER, KEEP_CONNECTION, 0, 0, 0, 0, 0], out);
    let head_at = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let mut params = Params { out, name_at: 0, value_at: 0 };
    if let Err(error) = variables::write(outgoing, gateway, &script, &mut params) {
        out.truncate(start);
        return Err(error);
    }
    if length > 0 {
        params.begin();
        params.out.extend_from_slice(b"CONTENT_LENGTH");
        params.value();
        digits::decimal(length, params.out);
        params.end();
    }
    frame_params(head_at, out);
    push(kind::PARAMS, b"", out);
    if length > 0 {
        return Ok(BodyFraming::Framed);
    }
    end_body(out);
    Ok(BodyFraming::None)
}

/// Appends a piece of the body.
pub(crate) fn write_body(mut bytes: &[u8], out: &mut Vec<u8>) {
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES));
        push(kind::STDIN, piece, out);
        bytes = rest;
    }
}

/// Appends the end of the body.
pub(crate) fn end_body(out: &mut Vec<u8>) {
    push(kind::STDIN, b"", out);
}

/// Appends what has the upstream give up the request. It answers with the end of the response, if it listens.
#[cfg(test)]
pub(crate) fn abort(out: &mut Vec<u8>) {
    push(kind::ABORT_REQUEST, b"", out);
}

/// Makes the variables behind the head that was left free a record, or several.
fn frame_params(head_at: usize, out: &mut Vec<u8>) {
    let content_at = head_at + HEAD_BYTES;
    let length = out.len() - content_at;
    if length <= CONTENT_BYTES_MAX {
        let head = RecordHead::ours(kind::PARAMS, length);
        out[head_at..content_at].copy_from_slice(&head.bytes());
        pad(head, out);
        return;
    }
    let content = out.split_off(content_at);
    out.truncate(head_at);
    content.chunks(PIECE_BYTES).for_each(|piece| push(kind::PARAMS, piece, out));
}

/// Writes variables as pairs of names and values (section 3.4).
struct Params<'o> {
    out: &'o mut Vec<u8>,
    /// Where the two lengths of the variable are that is written, one byte each for now.
    name_at: usize,
    value_at: usize,
}

impl Variables for Params<'_> {
    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    #[inline]
    fn begin(&mut self) {
        self.name_at = self.out.len();
        self.out.extend_from_slice(&[0; 2]);
    }

    #[inline]
    fn value(&mut self) {
        self.value_at = self.out.len();
    }

    #[inline]
    fn end(&mut self) {
        let text_at = self.name_at + 2;
        let (name, value) = (self.value_at - text_at, self.out.len() - self.value_at);
        if name < LONG_LENGTH && value < LONG_LENGTH {
            // Both are below 128.
            self.out[self.name_at] = name as u8;
            self.out[self.name_at + 1] = value as u8;
        } else {
            self.end_long(name, value);
        }
    }

    fn cancel(&mut self) {
        self.out.truncate(self.name_at);
    }

    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) {
        if name.len() < LONG_LENGTH && value.len() < LONG_LENGTH {
            self.name_at = self.out.len();
            self.out.reserve(2 + name.len() + value.len());
            // Both are below 128.
            self.out.extend_from_slice(&[name.len() as u8, value.len() as u8]);
            self.out.extend_from_slice(name);
            self.out.extend_from_slice(value);
        } else {
            self.begin();
            self.out.extend_from_slice(name);
            self.value();
            self.out.extend_from_slice(value);
            self.end();
        }
    }
}

impl Params<'_> {
    /// Writes lengths of which one takes four bytes at least: the texts move on by what these take besides.
    fn end_long(&mut self, name: usize, value: usize) {
        let (mut lengths, mut bytes) = ([0; 8], 0);
        for length in [name, value] {
            if length < LONG_LENGTH {
                lengths[bytes] = length as u8;
                bytes += 1;
            } else {
                // A head is bounded far below this type's 31 bits; the highest bit says that there are four bytes.
                lengths[bytes..bytes + 4].copy_from_slice(&(length as u32 | 1 << 31).to_be_bytes());
                bytes += 4;
            }
        }
        let (text_at, end) = (self.name_at + 2, self.out.len());
        self.out.resize(end + bytes - 2, 0);
        self.out.copy_within(text_at..end, self.name_at + bytes);
        self.out[self.name_at..self.name_at + bytes].copy_from_slice(&lengths[..bytes]);
    }

    #[cfg(test)]
    pub(super) fn on(out: &mut Vec<u8>) -> Params<'_> {
        Params { out, name_at: 0, value_at: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::gateway::variables::samples::{outgoing, request};
    use proptest::prelude::*;

    /// The pairs of a stream of variables, as section 3.4 has them.
    fn pairs(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let mut length = || {
                let first = *bytes.first().expect("a length");
                let size = if first < 128 { 1 } else { 4 };
                let (length, rest) = bytes.split_at(size);
                bytes = rest;
                length.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)) & 0x7fff_ffff
            };
            let (name, value) = (length(), length());
            found.push((bytes[..name].to_vec(), bytes[name..name + value].to_vec()));
            bytes = &bytes[name + value..];
        }
        found
    }

    /// The kinds of records, and the content of all of a kind.
    fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let head = RecordHead::read(bytes[..8].try_into().expect("a head")).expect("our version");
            let end = 8 + usize::from(head.content);
            found.push((head.kind, bytes[8..end].to_vec()));
            bytes = &bytes[end + usize::from(head.padding)..];
        }
        found
    }

    fn rendered(head: &str, spooled: Option<u64>) -> (Result<BodyFraming, Unsendable>, Vec<u8>) {
        let request = request(head.as_bytes());
        let (gateway, mut scratch) = (Gateway::php("/srv".into()), Scratch::default());
        let mut out = Vec::new();
        let exists = &mut |path: &[u8]| path == b"a.php";
        let framing = render(&outgoing(&request), &gateway, spooled, exists, &mut scratch, &mut out);
        (framing, out)
    }

    #[test]
    fn a_request_is_records() {
        let (framing, out) = rendered("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n", None);
        assert_eq!(framing, Ok(BodyFraming::None));
        let records = records(&out);
        let kinds: Vec<u8> = records.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [kind::BEGIN_REQUEST, kind::PARAMS, kind::PARAMS, kind::STDIN]);
        assert_eq!(records[0].1, [0, 1, 1, 0, 0, 0, 0, 0]);
        let pairs = pairs(&records[1].1);
        assert!(pairs.contains(&(b"SCRIPT_FILENAME".to_vec(), b"/srv/a.php".to_vec())));
        assert!(pairs.iter().all(|(name, _)| name != b"CONTENT_LENGTH"));
        assert!(records[2].1.is_empty() && records[3].1.is_empty());
    }

    #[test]
    fn a_body_needs_its_length() {
        let head = "POST /a.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(rendered(head, None), (Ok(BodyFraming::Unknown), Vec::new()));
        let (framing, out) = rendered(head, Some(7));
        assert_eq!(framing, Ok(BodyFraming::Framed));
        let records = records(&out);
        assert_eq!(records.len(), 3);
        assert!(pairs(&records[1].1).contains(&(b"CONTENT_LENGTH".to_vec(), b"7".to_vec())));
        assert_eq!(rendered(head, Some(0)).0, Ok(BodyFraming::None));
        let (framing, _) = rendered("POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", None);
        assert_eq!(framing, Ok(BodyFraming::Framed));
    }

    #[test]
    fn what_is_refused_leaves_nothing_behind() {
        assert_eq!(rendered("GET /b.php HTTP/1.1\r\nHost: a\r\n\r\n", None), (Err(Unsendable::Missing), Vec::new()));
    }

    #[test]
    fn large_variables_are_several_records() {
        let long = "x".repeat(70_000);
        let mut out = vec![1; 3];
        out.extend_from_slice(&[0; HEAD_BYTES]);
        let mut params = Params::on(&mut out);
        params.add(b"LONG", long.as_bytes());
        params.add(b"SHORT", b"y");
        frame_params(3, &mut out);
        let records = records(&out[3..]);
        assert_eq!(records.len(), 2);
        let content: Vec<u8> = records.into_iter().flat_map(|(_, content)| content).collect();
        let expected = [(b"LONG".to_vec(), long.into_bytes()), (b"SHORT".to_vec(), b"y".to_vec())];
        assert_eq!(pairs(&content), expected);
    }

    #[test]
    fn a_kept_buffer_is_not_allocated_again() {
        let head = "GET /a.php/%20?q HTTP/1.1\r\nHost: a\r\nAccept: b\r\nAccept: c\r\nUser-Agent: d\r\n\r\n";
        let request = request(head.as_bytes());
        let (gateway, mut scratch) = (Gateway::php("/srv".into()), Scratch::default());
        let mut out = Vec::new();
        let mut at = Vec::new();
        for _ in 0..3 {
            out.clear();
            render(&outgoing(&request), &gateway, None, &mut |_| true, &mut scratch, &mut out).expect("is sent");
            at.push((out.as_ptr(), out.capacity(), out.len()));
        }
        assert_eq!(at[1], at[2]);
    }

    proptest! {
        #[test]
        fn pairs_are_read_back(
            written in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..300), proptest::collection::vec(any::<u8>(), 0..300)), 0..6),
        ) {
            let mut out = Vec::new();
            let mut params = Params::on(&mut out);
            for (name, value) in &written {
                params.add(b"cancelled", b"");
                params.cancel();
                params.add(name, value);
            }
            prop_assert_eq!(pairs(&out), written);
        }

        #[test]
        fn a_body_is_the_content_of_its_records(body in proptest::collection::vec(any::<u8>(), 0..200), times in 1_usize..900) {
            let body = body.repeat(times);
            let mut out = Vec::new();
            write_body(&body, &mut out);
            end_body(&mut out);
            let records = records(&out);
            prop_assert!(records.iter().all(|(kind, _)| *kind == kind::STDIN));
            prop_assert_eq!(records.iter().filter(|(_, content)| content.is_empty()).count(), 1);
            prop_assert_eq!(records.into_iter().flat_map(|(_, content)| content).collect::<Vec<u8>>(), body);
        }
    }
}
