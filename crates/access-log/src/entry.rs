//! A line of a log.

use crate::Reason;
use crate::escape::{self, Escapes};
use crate::time::Moment;
use std::borrow::Cow;

/// A logged request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When it came, seconds since 1970: the begin, also where the log has the end and how long it took.
    pub second: i64,
    /// The nanosecond within that second, where the log tells it.
    pub nanosecond: Option<u32>,
    /// The part of the second as it is written, before anything was taken from it.
    pub logged_ns: Option<u32>,
    /// Its method, a token in upper case.
    pub method: Cow<'a, str>,
    /// What it asked for: a path, mostly with its query. It begins with `/` and has visible ASCII only; other bytes that
    /// the log holds, escaped or not, are `%HH`.
    pub target: Cow<'a, str>,
    /// The status of the response; `None` where the line has none that can be read.
    pub status: Option<u16>,
    /// The bytes of the response's body, as the log has them; `None` where it has `-` or nothing.
    pub bytes: Option<u64>,
    /// Whether the line has no size at its place, and no `-` for none either.
    pub is_size_unread: bool,
    /// The bytes of the whole of which a response may have been a part, where the log tells it.
    pub whole_bytes: Option<u64>,
}

impl<'a> Entry<'a> {
    /// The same without the line that it was read from.
    #[must_use]
    pub fn into_owned(self) -> Entry<'static> {
        Entry {
            method: Cow::Owned(self.method.into_owned()),
            target: Cow::Owned(self.target.into_owned()),
            second: self.second,
            nanosecond: self.nanosecond,
            logged_ns: self.logged_ns,
            status: self.status,
            bytes: self.bytes,
            is_size_unread: self.is_size_unread,
            whole_bytes: self.whole_bytes,
        }
    }

    /// A request at a time that began so much before it.
    pub(crate) fn new(logged: Moment, took_ns: Option<i128>, request: (&'a str, Cow<'a, str>)) -> Self {
        let began = took_ns.map_or(logged, |took_ns| logged.before(took_ns));
        Self {
            second: began.second,
            nanosecond: began.nanosecond,
            logged_ns: logged.nanosecond,
            method: Cow::Borrowed(request.0),
            target: request.1,
            status: None,
            bytes: None,
            is_size_unread: false,
            whole_bytes: None,
        }
    }
}

/// A status as logs have it: three digits; others, such as nginx's `000` and HAProxy's `-1`, stand for none.
pub(crate) fn status(word: &str) -> Option<u16> {
    let is_number = word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|status| is_number && (100..=599).contains(status))
}

/// Method and target of `METHOD TARGET PROTOCOL`; a blank within the target belongs to it.
pub(crate) fn request_line(text: &str, escapes: Escapes) -> Result<(&str, Cow<'_, str>), Reason> {
    if text.starts_with("PRI * HTTP/2") {
        return Err(Reason::Preface);
    }
    if text.starts_with("<BADREQ>") {
        return Err(Reason::BadRequest);
    }
    if text.trim_matches([' ', '-']).is_empty() {
        return Err(Reason::NoRequest);
    }
    let has_bytes = text.contains("\\x") || text.bytes().any(|byte| !(b' '..0x7f).contains(&byte));
    let no_method = || if has_bytes { Reason::NoHttp } else { Reason::Method };
    let Some((method, rest)) = text.split_once(' ') else {
        return Err(if has_bytes { Reason::NoHttp } else { no_target(text) });
    };
    let method =
        checked_method(method).map_err(|reason| if reason == Reason::Tunnel { reason } else { no_method() })?;
    let target = match rest.rsplit_once(' ') {
        Some((target, protocol)) if is_version(protocol) => target,
        Some(_) => return Err(Reason::Version),
        // A request of HTTP/0.9 has no version.
        None => rest,
    };
    Ok((method, checked_target(target, escapes)?))
}

fn no_target(text: &str) -> Reason {
    if checked_method(text).is_ok() { Reason::NoRequest } else { Reason::Method }
}

/// Whether a word names a version of HTTP, as servers write it.
pub(crate) fn is_version(word: &str) -> bool {
    word.strip_prefix("HTTP/").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        || matches!(word, "h2" | "h2c" | "h3")
}

pub(crate) fn checked_method(method: &str) -> Result<&str, Reason> {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    if !method.starts_with(|first: char| first.is_ascii_uppercase()) || !method.bytes().all(fits) {
        return Err(Reason::Method);
    }
    if method == "CONNECT" { Err(Reason::Tunnel) } else { Ok(method) }
}

/// What is asked of the server itself: a proxy's log has whole URLs.
pub(crate) fn checked_target(target: &str, escapes: Escapes) -> Result<Cow<'_, str>, Reason> {
    if target == "*" {
        return Err(Reason::Server);
    }
    let is_url = !target.starts_with('/') && target.contains("://");
    let path = match target.split_once("://") {
        Some((_, rest)) if is_url => match rest.find(['/', '?']) {
            None => "/",
            Some(at) if rest[at..].starts_with('?') => {
                return Ok(Cow::Owned(format!("/{}", escape::target(&rest[at..], escapes))));
            }
            Some(at) => &rest[at..],
        },
        _ => target,
    };
    if path.starts_with('/') { Ok(escape::target(path, escapes)) } else { Err(Reason::Path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_or_refused_for_its_reason() {
        let read = |text| request_line(text, Escapes::Backslash).map(|(method, target)| format!("{method} {target}"));
        for (line, asked) in [
            ("GET /a HTTP/1.1", "GET /a"),
            ("GET /a HTTP/2.0", "GET /a"),
            ("GET /a HTTP/3", "GET /a"),
            ("GET /a h2", "GET /a"),
            ("GET /a", "GET /a"),
            ("GET /a b c HTTP/1.1", "GET /a%20b%20c"),
            ("PROPFIND /dav/ HTTP/1.1", "PROPFIND /dav/"),
            ("M-SEARCH /x HTTP/1.1", "M-SEARCH /x"),
            ("GET http://h:81/a?b HTTP/1.1", "GET /a?b"),
            ("GET http://h?b=/ HTTP/1.1", "GET /?b=/"),
            ("GET HTTPS://h HTTP/1.1", "GET /"),
            ("GET /to?u=http://h/b HTTP/1.1", "GET /to?u=http://h/b"),
        ] {
            assert_eq!(read(line), Ok(asked.to_owned()), "{line}");
        }
        for (line, reason) in [
            ("", Reason::NoRequest),
            ("-", Reason::NoRequest),
            (r"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03", Reason::NoHttp),
            (r"\x03\x00\x00/*\xE0\x00\x00\x00\x00\x00Cookie: mstshash=Administr", Reason::NoHttp),
            ("CONNECT h:443 HTTP/1.1", Reason::Tunnel),
            ("OPTIONS * HTTP/1.1", Reason::Server),
            ("PRI * HTTP/2.0", Reason::Preface),
            ("<BADREQ>", Reason::BadRequest),
            ("GET a HTTP/1.1", Reason::Path),
            ("GET /a FTP/1.1", Reason::Version),
            ("get /a HTTP/1.1", Reason::Method),
            ("QUIT", Reason::NoRequest),
        ] {
            assert_eq!(read(line), Err(reason), "{line}");
        }
    }
}
