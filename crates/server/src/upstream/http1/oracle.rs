//! A second reader of responses, which sees the whole input at once and is as plain as possible: what the reader says
//! in any pieces is compared with what this one says.

use super::response::{Expected, Reader};
use super::upgrade::Upgrade;
use crate::upstream::message::{FIELDS_MAX, Garbled, HEAD_BYTES_MAX, Said};

const INTERIMS_MAX: usize = 32;
const OVERHEAD_BYTES_MAX: usize = 16 << 10;
const TRAILERS_MAX: usize = 64;

type Fields = Vec<(String, Vec<u8>)>;

/// A part of a response; bytes of a body that follow each other are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Interim(u16, Fields),
    Head(u16, Fields, Option<u64>),
    Body(Vec<u8>),
    Trailers(Fields),
    End,
}

/// How the input ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With the response, or so many bytes behind it; and whether the connection could be used again without these.
    Whole {
        stray_bytes: usize,
        keeps: bool,
    },
    /// Before the end of the response, which an end of the connection would not be.
    Within,
    /// Before the end, which an end of the connection would be.
    UntilClose,
    Head,
    TooLarge,
    Body,
}

/// Adds what a reader has said.
pub(crate) fn note(said: Said<'_>, parts: &mut Vec<Part>) {
    let part = match said {
        Said::Interim { status, fields } => Part::Interim(status, pairs(fields)),
        Said::Head(head) => Part::Head(head.status, pairs(&head.fields), head.length),
        Said::Trailers(fields) => Part::Trailers(pairs(fields)),
        Said::End => Part::End,
        Said::Log(_) | Said::Instead(_) => unreachable!("only gateways say that"),
        Said::Body(bytes) => {
            assert!(!bytes.is_empty(), "a piece of nothing");
            if let Some(Part::Body(before)) = parts.last_mut() {
                before.extend_from_slice(bytes);
                return;
            }
            Part::Body(bytes.to_vec())
        }
    };
    parts.push(part);
}

/// The same for what is wrong with a response.
pub(crate) fn ends(garbled: Garbled) -> Ends {
    match garbled {
        Garbled::Head(_) => Ends::Head,
        Garbled::TooLarge => Ends::TooLarge,
        Garbled::Body(_) => Ends::Body,
        Garbled::Cut | Garbled::Stray | Garbled::Refused(_) => unreachable!("the reader was not asked for that"),
    }
}

/// Lines as they must be: each a name, a colon, a value without control bytes, CR LF.
fn pairs(mut lines: &[u8]) -> Fields {
    let mut fields = Vec::new();
    while !lines.is_empty() {
        let end = lines.windows(2).position(|two| two == b"\r\n").expect("a line has an end");
        fields.push(field(&lines[..end]).expect("a field"));
        lines = &lines[end + 2..];
    }
    fields
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

fn is_text(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}

fn trimmed(text: &[u8]) -> &[u8] {
    let is_ink = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let Some(begin) = text.iter().position(is_ink) else { return b"" };
    &text[begin..=text.iter().rposition(is_ink).expect("there is one")]
}

fn field(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    (is_token(name) && is_text(value))
        .then(|| (String::from_utf8(name.to_vec()).expect("a token is text"), trimmed(value).to_vec()))
}

/// Reads a response that the input begins with.
pub(crate) fn read(input: &[u8], expected: Expected) -> (Vec<Part>, Ends) {
    let mut parts = Vec::new();
    let ends = read_into(input, expected, &mut parts);
    (parts, ends)
}

fn read_into(mut input: &[u8], expected: Expected, parts: &mut Vec<Part>) -> Ends {
    let mut interims = 0;
    loop {
        if !b"HTTP/1.".starts_with(&input[..input.len().min(7)]) {
            return Ends::Head;
        }
        let end = (0..input.len()).find_map(|at| match &input[at..] {
            [b'\n', b'\n', ..] => Some(at + 2),
            [b'\n', b'\r', b'\n', ..] => Some(at + 3),
            _ => None,
        });
        if end.unwrap_or(input.len()) > HEAD_BYTES_MAX {
            return Ends::TooLarge;
        }
        let Some(end) = end else { return Ends::Within };
        let (head, rest) = input.split_at(end);
        let (status, minor, fields) = match head_of(head) {
            Ok(head) => head,
            Err(ends) => return ends,
        };
        let is_upgrade = matches!(expected, Expected::Upgrade(_));
        if (101..=101).contains(&status) && !is_upgrade {
            return Ends::Head;
        }
        let message = Message { status, minor, fields };
        if message.is_ambiguous() {
            return Ends::Head;
        }
        if !(100..200).contains(&status) || status == 101 {
            return message.body(rest, expected, parts);
        }
        interims += 1;
        if interims > INTERIMS_MAX {
            return Ends::Head;
        }
        if status != 100 {
            parts.push(Part::Interim(status, message.passed(None)));
        }
        input = rest;
        if input.is_empty() {
            return Ends::Within;
        }
    }
}

fn head_of(head: &[u8]) -> Result<(u16, u8, Fields), Ends> {
    let lines: Vec<&[u8]> = head
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take_while(|line| !line.is_empty())
        .collect();
    let status_line = lines.first().ok_or(Ends::Head)?;
    let (minor, status, reason) = match status_line {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b' ', a, b, c, reason @ ..] => {
            let digits = [*a, *b, *c];
            let status =
                std::str::from_utf8(&digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            (minor - b'0', status.and_then(|text| text.parse::<u16>().ok()).ok_or(Ends::Head)?, reason)
        }
        _ => return Err(Ends::Head),
    };
    if !matches!(reason, [] | [b' ', ..]) || !is_text(reason) {
        return Err(Ends::Head);
    }
    let fields: Vec<_> = lines[1..].iter().map(|line| field(line)).collect();
    // Fields are counted before the first that is none.
    if fields.iter().take_while(|field| field.is_some()).count() > FIELDS_MAX {
        return Err(Ends::TooLarge);
    }
    let fields = fields.into_iter().collect::<Option<Fields>>().ok_or(Ends::Head)?;
    if (100..600).contains(&status) { Ok((status, minor, fields)) } else { Err(Ends::Head) }
}

struct Message {
    status: u16,
    minor: u8,
    fields: Fields,
}

impl Message {
    fn members(&self, wanted: &str) -> Vec<String> {
        let lines = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let text = lines.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect::<Vec<_>>().join(",");
        let of_list = text.split(',').map(|member| String::from_utf8_lossy(trimmed(member.as_bytes())).to_lowercase());
        of_list.filter(|member| !member.is_empty()).collect()
    }

    fn lengths(&self) -> Vec<Option<u64>> {
        let lines = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let members = lines.flat_map(|(_, value)| value.split(|byte| *byte == b','));
        members
            .map(|member| {
                let text = std::str::from_utf8(trimmed(member)).ok()?;
                let is_number = (1..20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
                if is_number { text.parse().ok() } else { None }
            })
            .collect()
    }

    fn transfer(&self) -> Vec<&[u8]> {
        let lines = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
        lines.map(|(_, value)| &value[..]).collect()
    }

    /// What no reader may guess about.
    fn is_ambiguous(&self) -> bool {
        let lengths = self.lengths();
        let differ = lengths.iter().any(|length| length.is_none() || *length != lengths[0]);
        let names_of_fields = |option: &String| !matches!(option.as_str(), "close" | "keep-alive");
        let options = self.members("connection");
        differ || (options.len() > 32 && options.iter().any(names_of_fields))
    }

    fn passed(&self, switched: Option<Upgrade>) -> Fields {
        let own = [
            "connection",
            "keep-alive",
            "proxy",
            "proxy-connection",
            "proxy-authenticate",
            "proxy-authorization",
            "proxy-authentication-info",
            "te",
            "transfer-encoding",
            "content-length",
            "http2-settings",
        ];
        let nominated = self.members("connection");
        let mut upgrades = 0;
        let is_passed = |(name, _): &&(String, Vec<u8>)| {
            let name = name.to_lowercase();
            if name == "upgrade" {
                upgrades += 1;
                return switched == Some(Upgrade::Passed) && upgrades == 1;
            }
            if name == "sec-websocket-accept" && switched == Some(Upgrade::Extended) {
                return false;
            }
            let plain = name.replace('_', "-");
            let tells = plain.starts_with("x-forwarded") || plain == "x-real-ip";
            let is_lookalike =
                name.contains('_') && (tells || plain == "content-length" || plain == "transfer-encoding");
            let is_ours =
                nominated.contains(&name) && (name != "close" && name != "keep-alive" || has_names(&nominated));
            !own.contains(&name.as_str()) && !is_lookalike && !is_ours
        };
        self.fields.iter().filter(is_passed).cloned().collect()
    }

    fn body(&self, rest: &[u8], expected: Expected, parts: &mut Vec<Part>) -> Ends {
        let switched = match expected {
            Expected::Upgrade(upgrade) if self.status == 101 => Some(upgrade),
            _ => None,
        };
        let fields = self.passed(switched);
        if switched.is_some() {
            if self.fields.iter().all(|(name, _)| !name.eq_ignore_ascii_case("upgrade")) {
                return Ends::Head;
            }
            parts.push(Part::Head(101, fields, None));
            return until_close(rest, parts);
        }
        let transfer = self.transfer();
        let is_chunked = match transfer[..] {
            [] => false,
            [one] if one.eq_ignore_ascii_case(b"chunked") => true,
            _ => return Ends::Head,
        };
        let length = self.lengths().first().copied().flatten();
        let options = self.members("connection");
        let closes = options.iter().any(|option| option == "close");
        let stays = options.iter().any(|option| option == "keep-alive");
        let mut keeps = !closes && (self.minor == 1 || stays) && !(is_chunked && (length.is_some() || self.minor == 0));
        keeps &= !(self.status == 204 && (is_chunked || length.is_some_and(|bytes| bytes > 0)));
        let told = length.filter(|_| !is_chunked && self.status != 204);
        parts.push(Part::Head(self.status, fields, told));
        if expected == Expected::HeadOnly || [204, 304].contains(&self.status) {
            parts.push(Part::End);
            return Ends::Whole { stray_bytes: rest.len(), keeps };
        }
        if is_chunked {
            return chunks(rest, keeps, parts);
        }
        let Some(length) = length else { return until_close(rest, parts) };
        let taken = rest.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        if taken > 0 {
            parts.push(Part::Body(rest[..taken].to_vec()));
        }
        if (taken as u64) < length {
            return Ends::Within;
        }
        parts.push(Part::End);
        Ends::Whole { stray_bytes: rest.len() - taken, keeps }
    }
}

/// Whether Connection names more than what becomes of the connection.
fn has_names(options: &[String]) -> bool {
    options.iter().any(|option| option != "close" && option != "keep-alive")
}

fn until_close(rest: &[u8], parts: &mut Vec<Part>) -> Ends {
    if !rest.is_empty() {
        parts.push(Part::Body(rest.to_vec()));
    }
    Ends::UntilClose
}

type LineAndRest<'i> = (&'i [u8], &'i [u8]);

/// A line up to CR LF and the rest behind it; an error if what is there of it cannot become one.
fn line(input: &[u8]) -> Result<Option<LineAndRest<'_>>, Ends> {
    let Some(cr) = input.iter().position(|byte| *byte == b'\r') else {
        return if is_text(input) { Ok(None) } else { Err(Ends::Body) };
    };
    if !is_text(&input[..cr]) {
        return Err(Ends::Body);
    }
    match input.get(cr + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((&input[..cr], &input[cr + 2..]))),
        Some(_) => Err(Ends::Body),
    }
}

/// The size that a line says, whose end may be missing.
fn size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let behind = trimmed(&line[digits..]);
    let is_good = (1..16).contains(&digits) && (behind.is_empty() || behind[0] == b';');
    is_good.then(|| u64::from_str_radix(std::str::from_utf8(&line[..digits]).ok()?, 16).ok()).flatten()
}

fn chunks(mut rest: &[u8], keeps: bool, parts: &mut Vec<Part>) -> Ends {
    let mut overhead = 0;
    let mut content = Vec::new();
    let ends = loop {
        let (size, behind) = match line(rest) {
            Err(ends) => break ends,
            Ok(None) => {
                let begun = rest.strip_suffix(b"\r").unwrap_or(rest);
                let is_good = rest.is_empty() || size(begun).is_some();
                let is_too_long = overhead + rest.len() > OVERHEAD_BYTES_MAX;
                break if is_good && !is_too_long { Ends::Within } else { Ends::Body };
            }
            Ok(Some((size_line, behind))) => {
                overhead += size_line.len() + 2;
                let Some(size) = size(size_line).filter(|_| overhead <= OVERHEAD_BYTES_MAX) else { break Ends::Body };
                (size, behind)
            }
        };
        if size == 0 {
            if !content.is_empty() {
                parts.push(Part::Body(content));
            }
            return trailers(behind, overhead, keeps, parts);
        }
        let taken = behind.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        content.extend_from_slice(&behind[..taken]);
        rest = &behind[taken..];
        if (taken as u64) < size {
            break Ends::Within;
        }
        overhead = 2;
        match rest {
            [b'\r', b'\n', after @ ..] => rest = after,
            [] | [b'\r'] => break Ends::Within,
            _ => break Ends::Body,
        }
    };
    if !content.is_empty() {
        parts.push(Part::Body(content));
    }
    ends
}

fn trailers(mut rest: &[u8], mut overhead: usize, keeps: bool, parts: &mut Vec<Part>) -> Ends {
    let mut fields = Some(Vec::new());
    loop {
        match line(rest) {
            Err(ends) => return ends,
            Ok(None) if overhead + rest.len() > OVERHEAD_BYTES_MAX => return Ends::Body,
            Ok(None) => return Ends::Within,
            Ok(Some((text, behind))) => {
                overhead += text.len() + 2;
                rest = behind;
                if overhead > OVERHEAD_BYTES_MAX {
                    return Ends::Body;
                }
                if text.is_empty() {
                    break;
                }
                fields = fields.zip(field(text)).map(|(mut fields, field)| {
                    fields.push(field);
                    fields
                });
            }
        }
    }
    let Some(fields) = fields.filter(|fields| fields.len() <= TRAILERS_MAX) else { return Ends::Body };
    let fields: Fields = fields.into_iter().filter(|(name, _)| super::names::may_trail(name.as_bytes())).collect();
    if !fields.is_empty() {
        parts.push(Part::Trailers(fields));
    }
    parts.push(Part::End);
    Ends::Whole { stray_bytes: rest.len(), keeps }
}

/// What the reader says of the input in pieces, how it ends, and whether the connection is kept.
pub(crate) fn in_pieces(input: &[u8], expected: Expected, piece: &mut dyn FnMut() -> usize) -> (Vec<Part>, Ends, bool) {
    let mut reader = Reader::default();
    reader.begin(expected);
    let (mut parts, mut at) = (Vec::new(), 0);
    while at < input.len() && !reader.is_ended() {
        let end = at + piece().min(input.len() - at);
        match reader.read(&input[at..end], &mut |said| note(said, &mut parts)) {
            Ok(taken) => {
                assert!(taken <= end - at && (reader.is_ended() || taken == end - at), "the rest was not taken");
                at += taken;
            }
            Err(garbled) => {
                assert_eq!(reader.read(b"x", &mut |_| panic!("it goes on")), Err(garbled));
                assert!(!reader.keeps());
                return (parts, ends(garbled), false);
            }
        }
    }
    if reader.is_ended() {
        let (keeps, stray_bytes) = (reader.keeps(), input.len() - at);
        if stray_bytes > 0 {
            assert_eq!(reader.read(&input[at..], &mut |_| panic!("it goes on")), Err(Garbled::Stray));
        }
        return (parts, Ends::Whole { stray_bytes, keeps: true }, keeps && stray_bytes == 0);
    }
    let mut ended = Vec::new();
    let ends = match reader.end_of_input(&mut |said| note(said, &mut ended)) {
        Ok(()) => {
            assert_eq!(ended, [Part::End]);
            Ends::UntilClose
        }
        Err(garbled) => {
            assert_eq!((garbled, ended.len()), (Garbled::Cut, 0));
            Ends::Within
        }
    };
    (parts, ends, false)
}

/// Compares the reader, in one piece and in many, with the plain reader; panics where they differ.
pub(crate) fn compared(input: &[u8], expected: Expected, cuts: &[usize]) -> (Vec<Part>, Ends) {
    let (parts, ends) = read(input, expected);
    let keeps_whole = matches!(ends, Ends::Whole { stray_bytes: 0, keeps: true });
    let plain = match ends {
        Ends::Whole { stray_bytes, .. } => Ends::Whole { stray_bytes, keeps: true },
        ends => ends,
    };
    let mut cut = cuts.iter().copied().cycle();
    let pieces: [&mut dyn FnMut() -> usize; 3] =
        [&mut || usize::MAX, &mut || 1, &mut || cut.next().unwrap_or(usize::MAX).max(1)];
    for piece in pieces {
        let read = in_pieces(input, expected, piece);
        assert_eq!(read, (parts.clone(), plain, keeps_whole), "{}", input.escape_ascii());
    }
    (parts, ends)
}
