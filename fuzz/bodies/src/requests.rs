//! Everything that reads what came from the network, and URLs.

use crate::Choices;
use crate::certificates::distinguished_name;
use crate::certificates::staple::Staple;
use crate::certificates::validity;
use crate::exchange::drain::Drain;
use crate::http::basic_user;
use crate::http::coding::{Accepted, LastAccepted};
use crate::http::limits::Limits;
use crate::http::parse;
use crate::http::range::{self, Ranges};
use crate::http::request::Head;
use crate::http::target;
use crate::pages::template::{self, Step, Template};
use weir_load::http2::frames::{Event, Reader};
use weir_load::http2::hpack::Decoder;
use weir_load::response::Parser;
use weir_load::{Request, Url};

/// Reads any bytes as a certificate, and every beginning of one that can be read as none.
pub fn certificate_validity(input: &[u8]) {
    // Until the end of the year 9999, from the year 0 on: what both forms of times can say.
    const RANGE: std::ops::Range<i64> = -62_167_219_200..253_402_300_800 + 3 * 86_400;
    if let Some(until) = validity::not_after_unix_s(input) {
        assert!(RANGE.contains(&until), "{until}");
        // Bytes behind a certificate do not change the result.
        assert_eq!(validity::not_after_unix_s(&[input, b"x"].concat()), Some(until));
    }
}

/// Reads any bytes as what an authority says of a certificate: the length of that in two bytes, it, and the certificate.
pub fn certificate_staple(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk() else { return };
    let (answer, certificate) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
    if let Ok(staple) = Staple::read(answer, certificate) {
        // It is of a certificate with a number, and of none without.
        assert!(validity::serial_number(certificate).is_some());
        assert!(Staple::read(answer, b"").is_err() && Staple::read(b"", certificate).is_err());
        assert!(staple.holds(i64::MIN));
    }
}

/// Reads any bytes as responses, in one piece and in many: the pieces make no difference.
pub fn http_response(input: &[u8]) {
    let mut choices = Choices(input);
    let (head_only, mut splits) = (choices.byte() & 1 == 1, choices.word());
    let input = choices.0;
    let (whole, whole_is_well, whole_completes) = responses(input, head_only, || usize::MAX);
    let (pieces, pieces_are_well, pieces_complete) = responses(input, head_only, || {
        splits = splits.rotate_left(5);
        1 + (splits % 16) as usize
    });
    assert_eq!(whole, pieces);
    assert_eq!((whole_is_well, whole_completes), (pieces_are_well, pieces_complete));
}

/// The responses (status, end, whether the connection stays), whether all was well, and whether the end completes one.
fn responses(input: &[u8], head_only: bool, mut piece: impl FnMut() -> usize) -> (Vec<(u16, usize, bool)>, bool, bool) {
    let mut parser = Parser::new(head_only);
    let (mut out, mut at) = (Vec::new(), 0);
    while at < input.len() {
        let end = at + piece().min(input.len() - at);
        let Ok(progress) = parser.feed(&input[at..end]) else { return (out, false, false) };
        assert!(progress.consumed <= end - at);
        assert!(progress.complete || progress.consumed == end - at);
        assert!(progress.complete || progress.consumed > 0, "no way forward");
        at += progress.consumed;
        if progress.complete {
            out.push((parser.status(), at, parser.keep_alive()));
        }
    }
    let complete = parser.end();
    (out, true, complete)
}

/// Reads any bytes as a server's side of HTTP/2, in one piece and in many: the pieces make no difference.
pub fn http2_frames(input: &[u8]) {
    let mut choices = Choices(input);
    let mut splits = choices.word();
    let input = choices.0;
    let whole = frames(input, || usize::MAX);
    let pieces = frames(input, || {
        splits = splits.rotate_left(5);
        1 + (splits % 16) as usize
    });
    assert_eq!(whole, pieces);
}

/// What the frames mean, content of a frame added up, and what is wrong with them, if anything.
fn frames(input: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<Event>, Option<weir_load::http2::Malformed>) {
    let (mut reader, mut decoder) = (Reader::default(), Decoder::default());
    let (mut events, mut at, mut within) = (Vec::new(), 0, false);
    while at < input.len() {
        let end = at + piece().min(input.len() - at);
        while at < end {
            let (used, event) = match reader.next(&mut decoder, &input[at..end]) {
                Ok(next) => next,
                Err(malformed) => return (events, Some(malformed)),
            };
            assert!(used > 0 && used <= end - at, "no way forward, or too far");
            at += used;
            match (event, events.last_mut()) {
                (
                    Some(Event::Data { content, flow, bytes, end, .. }),
                    Some(Event::Data { content: c, flow: f, bytes: b, end: e, .. }),
                ) if within => (*c, *f, *b, *e) = (*c + content, *f + flow, *b + bytes, end),
                (Some(event), _) => events.push(event),
                (None, _) => {}
            }
            within = reader.is_within_content();
        }
    }
    // Of content that is cut off one piece may tell what was not looked at in another.
    if within {
        events.pop();
    }
    (events, None)
}

/// Reads any bytes as a request: its head, its target, its range, and past its body.
pub fn http_request(input: &[u8]) {
    let limits = Limits::default();
    let Head::Complete(request, head_bytes) = parse::parse(input, &limits) else { return };
    assert!(head_bytes <= input.len() && head_bytes <= limits.head_bytes_max);
    let again = parse::parse(&input[..head_bytes], &limits);
    assert!(matches!(again, Head::Complete(_, bytes) if bytes == head_bytes), "the rest of the input plays a part");
    let before = parse::parse(&input[..head_bytes - 1], &limits);
    assert!(matches!(before, Head::Partial), "a head without its end: {before:?}");
    let link = request.hints.link();
    assert!([link.bandwidth_bps, link.rtt_s].iter().flatten().all(|told| told.is_finite() && *told >= 0.0));
    resolve(request.target);
    if let Some(field) = request.range {
        one_range(field, head_bytes as u64);
    }
    basic_user::of(request.authorization, |name| {
        let name = std::str::from_utf8(name).expect("a name is text");
        assert!((1..=127).contains(&name.len()) && !name.contains(|c: char| c == ':' || c.is_ascii_control()));
    });
    let body = &input[head_bytes..];
    let past = |piece: usize| {
        let mut drain = Drain::begin(request.framing, limits.body_bytes_max).ok()?;
        let mut at = 0;
        while at < body.len() && !drain.is_done() {
            let end = at + piece.min(body.len() - at);
            let taken = drain.advance(&body[at..end]).ok()?;
            assert!(taken <= end - at);
            assert!(drain.is_done() || taken == end - at, "no way forward");
            at += taken;
        }
        Some((at, drain.is_done()))
    };
    let whole = past(usize::MAX);
    for piece in [1, 3, 16] {
        assert_eq!(past(piece), whole, "the pieces make a difference");
    }
}

/// A target leads to a path below the root, or nowhere.
fn resolve(text: &str) {
    for dot_files in [false, true] {
        let (mut decoded, mut encoded, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let Ok(found) = target::resolve(text, dot_files, &mut decoded) else { continue };
        assert_eq!(found.path.first(), Some(&b'/'));
        assert!(!found.path.contains(&0));
        let (path, last) = (&found.path[1..], found.path.ends_with(b"/"));
        let segments = if last { &path[..path.len().saturating_sub(1)] } else { path };
        for segment in segments.split(|byte| *byte == b'/').filter(|_| !segments.is_empty()) {
            assert!(!segment.is_empty() && segment != b"." && segment != b"..", "{text}");
            assert!(dot_files || segment[0] != b'.' || segment == b".well-known", "{text}");
        }
        target::encode(found.path, &mut encoded);
        let encoded = std::str::from_utf8(&encoded).expect("it encodes to ASCII");
        let back = target::resolve(encoded, dot_files, &mut again).expect("what it encodes leads back");
        assert_eq!(back.path, found.path);
    }
}

/// Reads any bytes as a URL: what was read means the same when it is written, and makes one request line.
pub fn url(input: &[u8]) {
    let Ok(url) = Url::parse(&String::from_utf8_lossy(input)) else { return };
    assert!(url.target.starts_with('/') && url.target.bytes().all(|byte| byte.is_ascii_graphic()));
    // A name in brackets is no address, which is left to the resolver to say; it is written without them.
    if url.host.contains(':') || !url.host.starts_with('[') {
        assert_eq!(Url::parse(&url.to_string()).as_ref(), Ok(&url));
    }
    let request = Request::default();
    if let Ok(bytes) = request.bytes(&url, true) {
        let text = String::from_utf8(bytes).expect("text");
        assert_eq!(text.lines().count(), 4, "{text:?}");
        assert_eq!(text.lines().next().map(|line| line.split(' ').count()), Some(3), "{text:?}");
    }
}

/// Reads any bytes as a page with includes: texts are bytes of the page in their order, and conditions can be asked.
pub fn page_template(input: &[u8]) {
    let mut at = 0;
    for step in &Template::parse(input).steps {
        match step {
            Step::Text(range) => {
                assert!(range.start >= at && range.start < range.end && range.end <= input.len());
                at = range.end;
            }
            Step::If(condition) | Step::ElseIf(condition) => {
                let fill = |text: &str| template::fill_in(text, |name| Some(format!("{name}$")));
                condition.holds(&fill);
            }
            _ => {}
        }
    }
}

/// Reads any bytes as an Accept-Encoding field: no coding comes twice, plain bytes are none, and it may be kept.
pub fn accept_encoding(input: &[u8]) {
    let accepted = Accepted::read(input);
    let codings: Vec<_> = accepted.iter().collect();
    assert!(codings.iter().all(|coding| coding.coding().is_some()));
    assert!((1..codings.len()).all(|i| !codings[..i].contains(&codings[i])));
    let mut last = LastAccepted::default();
    assert!(last.read(input) == accepted && last.read(input) == accepted);
}

/// Reads any bytes as a Range field of a file of any size.
pub fn ranges(input: &[u8]) {
    let mut choices = Choices(input);
    // No file is larger than a signed number can say.
    let size = (choices.word() >> 1) >> (choices.byte() & 63);
    one_range(choices.0, size);
    one_range(&[b"bytes=", choices.0].concat(), size);
}

fn one_range(field: &[u8], size: u64) {
    let most = Limits::default().ranges_max;
    if let Ranges::Some(ranges) = range::parse(field, size, most) {
        assert!(!ranges.is_empty() && ranges.len() <= most);
        assert!(ranges.iter().all(|(first, end)| first < end && *end <= size));
        let total: u128 = ranges.iter().map(|(first, end)| u128::from(end - first)).sum();
        assert!(total <= u128::from(size));
    }
}

/// Reads any bytes as http_load's file of URLs: there is one for each line, or the error names a line that is there.
pub fn url_file(input: &[u8]) {
    let lines = input.split(|byte| *byte == b'\n').count();
    match weir_load::parse_url_file(input) {
        Ok(urls) => {
            let ended = usize::from(input.ends_with(b"\n"));
            assert_eq!(urls.len(), lines - ended);
            assert!(urls.iter().all(|url| url.target.starts_with('/') && !url.host.is_empty()));
        }
        Err(error) => {
            let text = error.to_string();
            let number =
                text.strip_prefix("line ").and_then(|rest| rest.split([':', ' ']).next()?.parse::<usize>().ok());
            assert!(number.is_none_or(|line| (1..=lines).contains(&line)), "{text}");
            assert!(text.len() < 70_000, "an error is for reading");
        }
    }
}

/// The name of a client in its certificate, as programs and servers elsewhere are told it: always printable ASCII.
pub fn certificate_name(input: &[u8]) {
    let text = distinguished_name::text(input);
    assert!(text.iter().flat_map(|text| text.bytes()).all(|byte| (b' '..=b'~').contains(&byte)));
    if distinguished_name::common_name(input).is_some() {
        assert!(text.is_some());
    }
}
