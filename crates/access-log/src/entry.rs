//! A line of a log.

use crate::time::log_time;
use std::borrow::Cow;

/// A logged request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When it came, seconds since 1970.
    pub second: i64,
    /// The nanosecond within that second, where the log tells it.
    pub nanosecond: Option<u32>,
    /// Its method, of upper-case letters.
    pub method: Cow<'a, str>,
    /// What it asked for: a path, mostly with its query. It begins with `/`.
    pub target: Cow<'a, str>,
    /// The status of the response, where the line has one.
    pub status: Option<u16>,
    /// The bytes of the response's body, as the log has them; `None` where it has `-` or nothing.
    pub bytes: Option<u64>,
}

impl<'a> Entry<'a> {
    /// Reads a line of Common or Combined Log Format, or one that is an object of JSON.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence about the line.
    pub fn parse(line: &'a [u8]) -> Result<Self, &'static str> {
        if line.first() == Some(&b'{') { crate::json::parse(line) } else { parse_common(line) }
    }
}

fn parse_common(line: &[u8]) -> Result<Entry<'_>, &'static str> {
    const FORM: &str = "it is not HOST IDENT USER [TIME] \"METHOD PATH PROTOCOL\" STATUS BYTES";
    let line = std::str::from_utf8(line).map_err(|_| "it is no text")?;
    let (_, rest) = line.split_once(" [").ok_or(FORM)?;
    let (time, rest) = rest.split_once(']').ok_or(FORM)?;
    let second = log_time(time).ok_or("its time is not like 10/Oct/2000:13:55:36 -0700")?;
    let request = rest.strip_prefix(" \"").ok_or(FORM)?;
    let end = closing_quote(request).ok_or(FORM)?;
    let (method, target) = request_line(&request[..end])?;
    let mut words = request[end + 1..].split_ascii_whitespace();
    let status = words.next().and_then(|word| word.parse().ok());
    let bytes = words.next().and_then(|word| word.parse().ok());
    let target =
        if target.contains("\\\"") { Cow::Owned(target.replace("\\\"", "%22")) } else { Cow::Borrowed(target) };
    Ok(Entry { second, nanosecond: None, method: Cow::Borrowed(method), target, status, bytes })
}

/// Method and path of `METHOD TARGET PROTOCOL`.
pub(crate) fn request_line(text: &str) -> Result<(&str, &str), &'static str> {
    let mut words = text.split(' ');
    let (Some(method), Some(target), protocol, None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err("it holds no request, as of a connection that was closed without one");
    };
    if protocol.is_some_and(|protocol| !protocol.starts_with("HTTP/")) {
        return Err("its request has no HTTP version");
    }
    Ok((checked_method(method)?, path_of(target)?))
}

pub(crate) fn checked_method(method: &str) -> Result<&str, &'static str> {
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) || method == "CONNECT" {
        return Err("its method cannot be asked");
    }
    Ok(method)
}

/// What is asked of the server itself: a proxy's log has whole URLs.
pub(crate) fn path_of(target: &str) -> Result<&str, &'static str> {
    let target = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |slash| &rest[slash..]),
        _ => target,
    };
    if target.starts_with('/') { Ok(target) } else { Err("its path does not begin with /") }
}

/// Where a quoted text ends whose own quotes have a backslash in front.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COMBINED: &str =
        r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?x=\"y\" HTTP/1.1" 200 2326 "http://a/" "Agent \"1\"""#;

    #[test]
    fn a_line_is_a_request() {
        let entry = Entry::parse(COMBINED.as_bytes()).expect("a request");
        assert_eq!((entry.second, entry.nanosecond), (971_211_336, None));
        assert_eq!((&*entry.method, &*entry.target), ("GET", "/a?x=%22y%22"));
        assert_eq!((entry.status, entry.bytes), (Some(200), Some(2326)));
        let bare = COMBINED.replace("200 2326", "304 -");
        let bare = Entry::parse(bare.as_bytes()).expect("a request");
        assert_eq!((bare.status, bare.bytes), (Some(304), None));
        for (from, to, problem) in [
            ("GET /a", "-", "method"),
            ("GET /a?x=\\\"y\\\" HTTP/1.1", "-", "no request"),
            ("GET", "get", "method"),
            ("/a?", "a?", "begin with /"),
            ("Oct", "Okt", "its time"),
            ("[", "", "HOST IDENT"),
        ] {
            let line = COMBINED.replacen(from, to, 1);
            let said = Entry::parse(line.as_bytes()).expect_err(from);
            assert!(said.contains(problem), "{line}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(mut line in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..120, object: bool) {
            if object {
                line.insert(0, b'{');
            }
            let _ = Entry::parse(&line);
            let known = [&COMBINED.as_bytes()[..cut.min(COMBINED.len())], &line].concat();
            if let Ok(entry) = Entry::parse(&known) {
                prop_assert!(entry.target.starts_with('/'));
                prop_assert!(entry.method.bytes().all(|byte| byte.is_ascii_uppercase()));
            }
        }
    }
}
