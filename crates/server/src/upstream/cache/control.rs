//! The fields that steer a cache: Cache-Control, its targeted form, Age, dates, Vary.

use crate::http::field_lines::lines;
use std::time::UNIX_EPOCH;

/// What a number of seconds counts as that is too large (RFC 9111 section 1.2.2).
pub(crate) const SECONDS_MAX: u64 = 1 << 31;

/// A number of seconds in a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Seconds {
    #[default]
    Absent,
    Some(u64),
    /// It is no number, or there are two that differ: what it steers is stale (RFC 9111 section 4.2.1).
    Invalid,
}

impl Seconds {
    /// With one more value of the same directive.
    fn and(self, value: Option<&[u8]>) -> Self {
        match (self, value.and_then(delta_seconds)) {
            (Self::Absent, Some(seconds)) => Self::Some(seconds),
            (Self::Some(before), Some(seconds)) if before == seconds => self,
            _ => Self::Invalid,
        }
    }

    /// The number; zero for an invalid one.
    pub(crate) fn get(self) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Some(seconds) => Some(seconds),
            Self::Invalid => Some(0),
        }
    }
}

/// A set of directives without an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u16);

impl Flags {
    pub(crate) const NO_STORE: Self = Self(1);
    /// With a list of fields as well: a cache may take the form with a list for the one without (section 5.2.2.4).
    pub(crate) const NO_CACHE: Self = Self(1 << 1);
    /// The same holds here (section 5.2.2.7).
    pub(crate) const PRIVATE: Self = Self(1 << 2);
    pub(crate) const PUBLIC: Self = Self(1 << 3);
    pub(crate) const MUST_REVALIDATE: Self = Self(1 << 4);
    pub(crate) const PROXY_REVALIDATE: Self = Self(1 << 5);
    pub(crate) const MUST_UNDERSTAND: Self = Self(1 << 6);
    /// RFC 8246.
    pub(crate) const IMMUTABLE: Self = Self(1 << 7);
    pub(crate) const ONLY_IF_CACHED: Self = Self(1 << 8);
    /// A quoted string does not end, so that what stands behind it cannot be told.
    pub(crate) const GARBLED: Self = Self(1 << 9);

    pub(crate) fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// How stale a response a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MaxStale {
    #[default]
    None,
    Any,
    Seconds(u64),
}

/// All directives of a message that are known (RFC 9111 section 5.2, RFC 5861, RFC 8246); others are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Control {
    pub(crate) flags: Flags,
    pub(crate) max_age: Seconds,
    pub(crate) s_maxage: Seconds,
    pub(crate) stale_while_revalidate: Seconds,
    pub(crate) stale_if_error: Seconds,
    pub(crate) min_fresh: Seconds,
    pub(crate) max_stale: MaxStale,
}

impl Control {
    /// Adds a line of the field; all lines are one list (RFC 9110 section 5.3).
    pub(crate) fn add(&mut self, line: &[u8]) {
        let mut rest = line;
        while let Some((name, argument)) = self.next(&mut rest) {
            self.set(name, argument.as_ref().map(Argument::bytes));
        }
    }

    /// Takes a directive off the list: its name, and its argument without quotes.
    fn next<'l>(&mut self, rest: &mut &'l [u8]) -> Option<(&'l [u8], Option<Argument<'l>>)> {
        while let [b',' | b' ' | b'\t', after @ ..] = *rest {
            *rest = after;
        }
        if rest.is_empty() {
            return None;
        }
        let end = rest.iter().position(|byte| matches!(byte, b',' | b'=')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let Some(argument) = after.strip_prefix(b"=") else {
            *rest = after;
            return Some((name.trim_ascii(), None));
        };
        // White space around the sign is not allowed: the argument is none that could be relied on.
        let is_spaced = name.ends_with(b" ") || name.ends_with(b"\t");
        let name = name.trim_ascii();
        let argument = if argument.trim_ascii_start().starts_with(b"\"") {
            let open = argument.trim_ascii_start();
            let Some(close) = closing_quote(open) else {
                self.flags = self.flags.or(Flags::GARBLED);
                *rest = b"";
                return Some((name, Some(Argument::Invalid)));
            };
            let behind = &open[close + 1..];
            let comma = memchr::memchr(b',', behind).unwrap_or(behind.len());
            *rest = &behind[comma..];
            let is_whole = open.len() == argument.len() && behind[..comma].trim_ascii().is_empty();
            if is_whole { Argument::Text(&open[1..close]) } else { Argument::Invalid }
        } else {
            let comma = memchr::memchr(b',', argument).unwrap_or(argument.len());
            *rest = &argument[comma..];
            Argument::Text(argument[..comma].trim_ascii_end())
        };
        Some((name, Some(if is_spaced { Argument::Invalid } else { argument })))
    }

    fn set(&mut self, name: &[u8], argument: Option<&[u8]>) {
        const FLAGS: [(&[u8], Flags); 9] = [
            (b"no-cache", Flags::NO_CACHE),
            (b"no-store", Flags::NO_STORE),
            (b"private", Flags::PRIVATE),
            (b"public", Flags::PUBLIC),
            (b"must-revalidate", Flags::MUST_REVALIDATE),
            (b"proxy-revalidate", Flags::PROXY_REVALIDATE),
            (b"must-understand", Flags::MUST_UNDERSTAND),
            (b"immutable", Flags::IMMUTABLE),
            (b"only-if-cached", Flags::ONLY_IF_CACHED),
        ];
        let is = |own: &[u8]| name.eq_ignore_ascii_case(own);
        if is(b"max-age") {
            self.max_age = self.max_age.and(argument);
        } else if is(b"s-maxage") {
            self.s_maxage = self.s_maxage.and(argument);
        } else if is(b"stale-while-revalidate") {
            self.stale_while_revalidate = self.stale_while_revalidate.and(argument);
        } else if is(b"stale-if-error") {
            self.stale_if_error = self.stale_if_error.and(argument);
        } else if is(b"min-fresh") {
            self.min_fresh = self.min_fresh.and(argument);
        } else if is(b"max-stale") {
            self.max_stale = match argument {
                None => MaxStale::Any,
                // An invalid number gives nothing.
                Some(argument) => delta_seconds(argument).map_or(MaxStale::None, MaxStale::Seconds),
            };
        } else if let Some((_, flag)) = FLAGS.iter().find(|(own, _)| is(own)) {
            self.flags = self.flags.or(*flag);
        }
    }
}

/// What stands behind the sign of equality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Argument<'l> {
    Text(&'l [u8]),
    Invalid,
}

impl<'l> Argument<'l> {
    fn bytes(&self) -> &'l [u8] {
        match self {
            Self::Text(text) => text,
            Self::Invalid => b"",
        }
    }
}

/// Where the quoted string ends that begins here.
fn closing_quote(open: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match open.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// A number of seconds (RFC 9111 section 1.2.2): only digits; a larger one counts as [`SECONDS_MAX`].
pub(crate) fn delta_seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |seconds: u64, digit: &u8| (seconds * 10 + u64::from(digit - b'0')).min(SECONDS_MAX);
    Some(text.iter().fold(0, add))
}

/// A date in any of the three forms of RFC 9110 section 5.6.7, in seconds since 1970.
pub(crate) fn date(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// A value of Age. Of a list the first member counts, and an invalid one is ignored (RFC 9111 section 5.1).
pub(crate) fn age(value: &[u8]) -> Option<u64> {
    delta_seconds(value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii())
}

/// What the value of a date field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DateField {
    #[default]
    Absent,
    /// Seconds since 1970.
    At(u64),
    /// No date, or two that differ.
    Invalid,
}

impl DateField {
    fn and(self, value: &[u8]) -> Self {
        match (self, date(value)) {
            (Self::Absent, Some(at)) => Self::At(at),
            (Self::At(before), Some(at)) if before == at => self,
            _ => Self::Invalid,
        }
    }

    /// The date, if it is one.
    pub(crate) fn get(self) -> Option<u64> {
        if let Self::At(at) = self { Some(at) } else { None }
    }
}

/// What Vary says (RFC 9110 section 12.5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Varies {
    #[default]
    No,
    /// By some fields.
    Fields,
    /// By something that no request shows: `*`.
    Any,
}

/// What the head of a response says to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ResponseControl {
    /// Cache-Control, or what takes its place: a CDN-Cache-Control that can be read (RFC 9213).
    pub(crate) control: Control,
    pub(crate) expires: DateField,
    pub(crate) date: DateField,
    pub(crate) last_modified: DateField,
    pub(crate) age: Option<u64>,
    pub(crate) varies: Varies,
    pub(crate) flags: ResponseFlags,
}

/// What else a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ResponseFlags {
    pub(crate) sets_cookie: bool,
    pub(crate) has_etag: bool,
    /// Content-Range, which a whole response has not.
    pub(crate) has_range: bool,
}

impl ResponseControl {
    /// Reads the lines of a head.
    pub(crate) fn read(fields: &[u8]) -> Self {
        let mut read = Self::default();
        let mut targeted: Option<Control> = None;
        for (name, value) in lines(fields) {
            let is = |own: &[u8]| name.eq_ignore_ascii_case(own);
            match name.len() {
                3 if is(b"age") => read.age = read.age.or_else(|| age(value)),
                4 if is(b"date") => read.date = read.date.and(value),
                4 if is(b"vary") => read.varies = varies(read.varies, value),
                4 if is(b"etag") => read.flags.has_etag = true,
                7 if is(b"expires") => read.expires = read.expires.and(value),
                10 if is(b"set-cookie") => read.flags.sets_cookie = true,
                13 if is(b"cache-control") => read.control.add(value),
                13 if is(b"content-range") => read.flags.has_range = true,
                13 if is(b"last-modified") => read.last_modified = read.last_modified.and(value),
                17 if is(b"cdn-cache-control") => targeted.get_or_insert_default().add(value),
                _ => {}
            }
        }
        if let Some(targeted) = targeted.filter(|control| *control != Control::default())
            && !targeted.flags.has(Flags::GARBLED)
        {
            // It replaces both (RFC 9213 section 2.2); one that is empty or cannot be read counts as absent.
            read.control = targeted;
            read.expires = DateField::Absent;
        }
        read
    }
}

fn varies(before: Varies, value: &[u8]) -> Varies {
    let has = |member: &[u8]| value.split(|byte| *byte == b',').any(|own| own.trim_ascii() == member);
    match before {
        Varies::Any => Varies::Any,
        _ if has(b"*") => Varies::Any,
        Varies::No if value.split(|byte| *byte == b',').all(|own| own.trim_ascii().is_empty()) => Varies::No,
        _ => Varies::Fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn control(lines: &[&str]) -> Control {
        let mut control = Control::default();
        lines.iter().for_each(|line| control.add(line.as_bytes()));
        control
    }

    #[test]
    fn directives_in_every_form() {
        for (line, expected) in [
            ("max-age=5", Seconds::Some(5)),
            ("MAX-AGE=5", Seconds::Some(5)),
            ("max-age=\"5\"", Seconds::Some(5)),
            ("max-age=005", Seconds::Some(5)),
            ("max-age=5, max-age=5", Seconds::Some(5)),
            ("max-age=5, max-age=6", Seconds::Invalid),
            ("max-age=5.5", Seconds::Invalid),
            ("max-age=-5", Seconds::Invalid),
            ("max-age='5'", Seconds::Invalid),
            ("max-age =5", Seconds::Invalid),
            ("max-age= 5", Seconds::Invalid),
            ("max-age", Seconds::Invalid),
            ("max-age=", Seconds::Invalid),
            ("max-age=99999999999999999999999", Seconds::Some(SECONDS_MAX)),
            ("a=\"b, max-age=1\", max-age=5", Seconds::Some(5)),
            ("a=\"b\\\", max-age=1\", max-age=5", Seconds::Some(5)),
            (",, ,max-age=5 ,", Seconds::Some(5)),
            ("max-age=5;no-store", Seconds::Invalid),
            ("x-max-age=5", Seconds::Absent),
            ("a=\"max-age=5", Seconds::Absent),
        ] {
            assert_eq!(control(&[line]).max_age, expected, "{line}");
        }
        assert!(control(&["private=\"Set-Cookie\""]).flags.has(Flags::PRIVATE));
        assert!(control(&["foo", "No-Store"]).flags.has(Flags::NO_STORE));
        assert!(control(&["a=\"b, no-store"]).flags.has(Flags::GARBLED));
        assert_eq!(control(&["max-stale"]).max_stale, MaxStale::Any);
        assert_eq!(control(&["max-stale=5"]).max_stale, MaxStale::Seconds(5));
        assert_eq!(control(&["max-stale=x"]).max_stale, MaxStale::None);
    }

    #[test]
    fn ages_and_variance() {
        for (value, expected) in [("5", Some(5)), ("5, 6", Some(5)), ("-5", None), ("5.0", None), ("", None)] {
            assert_eq!(age(value.as_bytes()), expected, "{value}");
        }
        for (lines, expected) in [
            ("", Varies::No),
            ("Vary: \r\n", Varies::No),
            ("Vary: a\r\nVary: ,\r\n", Varies::Fields),
            ("Vary: a, *\r\n", Varies::Any),
            ("Vary: *\r\nVary: a\r\n", Varies::Any),
        ] {
            assert_eq!(ResponseControl::read(lines.as_bytes()).varies, expected, "{lines}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(input in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ResponseControl::read(&input);
            let mut control = Control::default();
            control.add(&input);
        }

        /// The lines of a field are one list, so that it makes no difference at which comma it is cut.
        #[test]
        fn directives_are_the_same_in_one_line_and_in_many(
            parts in proptest::collection::vec("(no-store|max-age=[0-9]{1,3}|a=\"[a-z,]{0,5}\"|public|s-maxage=x|)", 0..8)
        ) {
            let many: Vec<&str> = parts.iter().map(String::as_str).collect();
            prop_assert_eq!(control(&many), control(&[&parts.join(",")]));
        }
    }
}
