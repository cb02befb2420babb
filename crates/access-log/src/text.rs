//! Lines with a time in brackets and a request in quotes, wherever they stand: the Common and the Combined Log Format with
//! what servers put in front, between and behind (virtual hosts, the Kubernetes ingress, lighttpd, Traefik), and the formats
//! of HAProxy, Envoy and Amazon S3.

use crate::entry::{is_version, request_line, status};
use crate::escape::Escapes;
use crate::time::{Moment, calendar, since_1970};
use crate::{Entry, Reason};

/// Brackets and quotes that are looked at in a line.
const PARTS_MAX: usize = 64;
/// No time in brackets is longer, bytes.
const TIME_BYTES_MAX: usize = 40;

pub(crate) fn parse(line: &str) -> Result<Entry<'_>, Reason> {
    if line.starts_with('#') {
        return Err(Reason::Comment);
    }
    if let Some(entry) = crate::elb::parse(line).or_else(|| crate::squid::parse(line)) {
        return entry;
    }
    match time_in_brackets(line) {
        Some(time) => with_brackets(line, time),
        None => without_brackets(line),
    }
}

/// A time, and where the bracket behind it ends.
#[derive(Debug, Clone, Copy)]
struct Placed {
    time: Moment,
    end: usize,
}

/// What stands in quotes, without them.
#[derive(Debug, Clone, Copy)]
struct Quoted<'a> {
    text: &'a str,
    begin: usize,
    /// Behind the second quote.
    end: usize,
}

fn with_brackets(line: &str, time: Placed) -> Result<Entry<'_>, Reason> {
    let behind = &line[time.end..];
    let words: Vec<&str> = behind.split_ascii_whitespace().take(8).collect();
    if let Some(timers) = words.iter().position(|word| is_timers(word)) {
        return haproxy(line, time, &words[timers..]);
    }
    let Some(request) = request_in(line, time.end) else {
        return Err(if behind.trim_start().starts_with('"') { Reason::Cut } else { Reason::Form });
    };
    let (method, target) = request_line(request.text, Escapes::Backslash)?;
    let mut entry = Entry::new(time.time, None, (method, target));
    let tail = &line[request.end..];
    let is_s3 = line.get(time.end..request.begin).is_some_and(|between| {
        between
            .split(' ')
            .any(|word| ["REST.", "WEBSITE.", "SOAP.", "BATCH."].iter().any(|name| word.starts_with(name)))
    });
    if is_s3 {
        amazon_s3(&mut entry, tail);
        return Ok(entry);
    }
    let between = line.get(time.end..request.begin).unwrap_or_default();
    let tail = Tail::of(tail).or_in_front(line, between);
    if is_glued(line, request.end) {
        return Err(Reason::TwoRequests);
    }
    entry.status = tail.status;
    (entry.bytes, entry.is_size_unread) = match tail.envoy_bytes {
        Some(bytes) if line.trim_start().starts_with('[') => (Some(bytes), false),
        _ => (tail.bytes, !tail.has_size),
    };
    if let Some(took_ns) = ingress_took_ns(&line[request.end..]) {
        let shifted = Entry::new(time.time, Some(took_ns), ("", "".into()));
        (entry.second, entry.nanosecond) = (shifted.second, shifted.nanosecond);
    }
    Ok(entry)
}

/// A line whose time has no brackets, such as `2026-03-12T12:00:00Z 192.0.2.1 "GET / HTTP/1.1" 200 5`.
fn without_brackets(line: &str) -> Result<Entry<'_>, Reason> {
    let Some(request) = request_in(line, 0).filter(|request| has_version(request.text)) else {
        let is_other_time = line.contains(" [") && request_in(line, 0).is_some();
        return Err(if is_other_time { Reason::Time } else { Reason::Form });
    };
    let front = line.get(..request.begin).unwrap_or_default();
    let tail = Tail::of(&line[request.end..]).or_in_front(line, "");
    let refused = if line.contains(" [") { Reason::Time } else { Reason::Form };
    let words: Vec<&str> = front.split([' ', '"', '\t']).filter(|word| !word.is_empty()).take(PARTS_MAX).collect();
    let alone = words.iter().rev().find_map(|word| word.contains('-').then(|| calendar(word)).flatten());
    let pair = || words.windows(2).rev().find_map(|pair| calendar(&format!("{} {}", pair[0], pair[1])));
    // Without a status it may be a line of an error log, whose request is in the access log, too.
    let time = alone.or_else(pair).filter(|_| tail.status.is_some()).ok_or(refused)?;
    let (method, target) = request_line(request.text, Escapes::Backslash)?;
    let mut entry = Entry::new(time, None, (method, target));
    (entry.status, entry.bytes, entry.is_size_unread) = (tail.status, tail.bytes, !tail.has_size);
    Ok(entry)
}

/// The first time in brackets; seconds since 1970 only where there is no date in any.
fn time_in_brackets(line: &str) -> Option<Placed> {
    let mut number = None;
    for (begin, _) in line.match_indices('[').take(PARTS_MAX) {
        let inside = &line.as_bytes()[begin + 1..];
        let Some(length) = inside.iter().take(TIME_BYTES_MAX).position(|byte| *byte == b']') else { continue };
        let Some(text) = line.get(begin + 1..begin + 1 + length) else { continue };
        let placed = |time| Placed { time, end: begin + length + 2 };
        if let Some(time) = calendar(text) {
            return Some(placed(time));
        }
        number = number.or_else(|| since_1970(text).map(placed));
    }
    number
}

/// The request: what is in quotes and has a version of HTTP, else the first that is in quotes; behind the time, or in front
/// of it where there is none.
fn request_in(line: &str, from: usize) -> Option<Quoted<'_>> {
    let behind = || Quotes { line, at: from }.take(PARTS_MAX);
    behind()
        .find(|quoted| has_version(quoted.text))
        .or_else(|| {
            Quotes { line, at: 0 }.take(PARTS_MAX).find(|quoted| quoted.end <= from && has_version(quoted.text))
        })
        .or_else(|| behind().find(|quoted| is_plain_request(quoted.text)))
        .or_else(|| behind().next())
}

fn has_version(text: &str) -> bool {
    text.rsplit_once(' ').is_some_and(|(_, last)| is_version(last))
}

/// Such as `GET /` of HTTP/0.9.
fn is_plain_request(text: &str) -> bool {
    text.split_once(' ')
        .is_some_and(|(method, target)| method.bytes().all(|byte| byte.is_ascii_uppercase()) && target.starts_with('/'))
}

/// What stands in quotes, one after the other; a quote within has a backslash in front.
struct Quotes<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Iterator for Quotes<'a> {
    type Item = Quoted<'a>;

    fn next(&mut self) -> Option<Quoted<'a>> {
        let begin = self.at + self.line.get(self.at..)?.find('"')? + 1;
        let mut escaped = false;
        let inside = &self.line.as_bytes()[begin..];
        let length = (0..inside.len()).find(|at| {
            // A quote within a word is one that its client sent, of a server that does not escape.
            let ends_word = inside.get(at + 1).is_none_or(|next| b" \t,;|)]}".contains(next));
            let closes = inside[*at] == b'"' && !escaped && ends_word;
            escaped = inside[*at] == b'\\' && !escaped;
            closes
        })?;
        self.at = begin + length + 1;
        Some(Quoted { text: &self.line[begin..begin + length], begin: begin - 1, end: self.at })
    }
}

/// What follows the request.
#[derive(Debug, Default)]
struct Tail {
    status: Option<u16>,
    bytes: Option<u64>,
    /// Whether there is a number of bytes, or `-`.
    has_size: bool,
    /// The number directly behind the request.
    first: Option<u64>,
    /// `BYTES_RECEIVED BYTES_SENT DURATION` behind the flags of Envoy's default format.
    envoy_bytes: Option<u64>,
}

impl Tail {
    fn of(tail: &str) -> Self {
        let words: Vec<&str> = bare_words(tail).take(24).collect();
        let number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse::<u64>().ok())?;
        // A server that sent no response writes another number, or none.
        let is_none = |word: &str| matches!(word, "-" | "0" | "000" | "-1");
        let at = match words.first() {
            Some(first) if is_none(first) => Some(0),
            _ => words.iter().position(|word| status(word).is_some()),
        };
        let first = words.first().copied().filter(|word| !word.is_empty()).and_then(number);
        let Some(at) = at else { return Self { first, ..Self::default() } };
        let next = words.get(at + 1).copied().unwrap_or_default();
        let bytes = number(next).filter(|_| !next.is_empty());
        let envoy = (bytes.is_none() && !next.is_empty()).then(|| {
            words[at + 1..].windows(3).find_map(|three| {
                let [_, sent, _] = [number(three[0])?, number(three[1])?, number(three[2])?];
                Some(sent)
            })
        });
        Self {
            status: status(words[at]),
            bytes,
            has_size: bytes.is_some() || next == "-",
            envoy_bytes: envoy.flatten(),
            first,
        }
    }

    /// The same where the status stands in front of the request: between it and the time, or first in the line. A number
    /// behind the request that could be a status is then one of bytes, unless another number follows it.
    fn or_in_front(self, line: &str, between: &str) -> Self {
        if self.has_size {
            return self;
        }
        let of = |text: &str| {
            let mut words = bare_words(text);
            let status = words.next().and_then(status).filter(|status| is_registered(*status))?;
            Some((status, words.next().and_then(|word| word.parse().ok())))
        };
        let Some((status, next)) = of(between).or_else(|| Some((of(line)?.0, None))) else { return self };
        let bytes = next.or(self.first);
        Self { status: Some(status), bytes, has_size: bytes.is_some(), envoy_bytes: None, ..self }
    }
}

/// Whether a status has a meaning: those that are registered (RFC 9110 section 16.2.1), and those of proxies of their own.
fn is_registered(status: u16) -> bool {
    matches!(
        status,
        100..=103 | 200..=208 | 226 | 300..=305 | 307 | 308 | 400..=418 | 421..=426 | 428 | 429 | 431 | 444 | 451 | 499
            | 500..=508 | 510 | 511 | 520..=526
    )
}

/// Words that do not stand in quotes; in place of those is an empty one.
fn bare_words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.starts_with('"') {
            let end = Quotes { line: rest, at: 0 }.next().map_or(rest.len(), |quoted| quoted.end);
            rest = &rest[end..];
            return Some("");
        }
        let end = rest.find([' ', '\t']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

/// Whether another line begins within this one: two writers, of which one lost its line end.
fn is_glued(line: &str, from: usize) -> bool {
    let rest = &line[from..];
    rest.contains("] \"")
        && time_in_brackets(rest).is_some_and(|time| {
            let at = from + time.end;
            line[at..].starts_with(" \"") && Quotes { line, at }.next().is_some_and(|quoted| has_version(quoted.text))
        })
}

/// `REQUEST_LENGTH REQUEST_TIME [UPSTREAM_NAME]` behind the quotes: the Kubernetes ingress logs the end of a request, and
/// how many seconds it took.
fn ingress_took_ns(tail: &str) -> Option<i128> {
    let words: Vec<&str> = bare_words(tail).take(12).collect();
    let three = words.windows(4).find(|four| four[0].is_empty() && four[3].starts_with('['))?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(three[1]) {
        return None;
    }
    crate::duration::of_seconds(three[2])
}

/// `TR/Tw/Tc/Tr/Ta`, milliseconds.
fn is_timers(word: &str) -> bool {
    word.split('/').count() == 5
        && word.split('/').all(|part| {
            let digits = part.trim_start_matches(['-', '+']);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// HAProxy's HTTP log, which has the begin of a request, and status and bytes in front of it.
fn haproxy<'a>(line: &'a str, time: Placed, words: &[&str]) -> Result<Entry<'a>, Reason> {
    let request = request_in(line, time.end).ok_or(Reason::Cut)?;
    let (method, target) = request_line(request.text, Escapes::Hash)?;
    let mut entry = Entry::new(time.time, None, (method, target));
    entry.status = words.get(1).and_then(|word| status(word));
    entry.bytes = words.get(2).and_then(|word| word.trim_start_matches('+').parse().ok());
    entry.is_size_unread = entry.bytes.is_none();
    Ok(entry)
}

/// What follows the request in an access log of Amazon S3: status, error code, bytes sent, the object's size.
fn amazon_s3(entry: &mut Entry<'_>, tail: &str) {
    let words: Vec<&str> = bare_words(tail).take(4).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    entry.status = words.first().and_then(|word| status(word));
    entry.bytes = number(2);
    entry.whole_bytes = number(3);
    entry.is_size_unread = entry.bytes.is_none() && words.get(2) != Some(&"-");
}

#[cfg(test)]
mod tests;
