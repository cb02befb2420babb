//! Fields of responses that a configuration sets or removes.

use super::rewrite::{remove, shift};
use crate::exchange::life::Exchange;

/// Fields to take out of a head, and fields to add to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Names in any case.
    removed: Vec<String>,
    /// Whole lines.
    added: Vec<u8>,
    /// Names and values of those that the server has a say in as well.
    shared: Vec<(Rule, String, String)>,
}

/// How a configured field goes together with the server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// It takes the place of the server's.
    Replace,
    /// Both are lists, of which all members count.
    Merge,
    /// It takes the place of the server's, save where that one forbids to keep the response at all.
    Keeping,
    /// It is of the file's content, and of no page or wrapping that the server makes itself.
    Type,
    /// The server knows better where it says something.
    Default,
    /// It is for connections that are encrypted (RFC 6797 section 7.2).
    Secure,
}

impl Rule {
    fn of(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "vary" | "accept-ch" => Self::Merge,
            "cache-control" => Self::Keeping,
            "content-type" => Self::Type,
            "retry-after" => Self::Default,
            "strict-transport-security" => Self::Secure,
            _ => Self::Replace,
        }
    }
}

/// Whether a field is about the content of a response, or about how long it may be kept: an error has another content,
/// and another life.
pub(crate) fn is_of_content(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if name.ends_with("cache-control") {
        // What forbids to keep a response, or has it asked for again, does no harm to an error.
        let value = value.to_ascii_lowercase();
        let gives_life = value.split(',').any(|directive| {
            let (name, seconds) = directive.trim().split_once('=').unwrap_or((directive.trim(), ""));
            match name {
                "max-age" | "s-maxage" => seconds.trim_matches('"').parse() != Ok(0_u64),
                "immutable" | "public" | "stale-while-revalidate" | "stale-if-error" => true,
                _ => false,
            }
        });
        return gives_life && !value.split(',').any(|directive| matches!(directive.trim(), "no-store" | "no-cache"));
    }
    let is_policy = name.starts_with("content-security-policy");
    name.starts_with("content-") && !is_policy
        || matches!(
            name.as_str(),
            "expires"
                | "surrogate-control"
                | "edge-control"
                | "x-accel-expires"
                | "link"
                | "digest"
                | "repr-digest"
                | "sourcemap"
                | "x-sourcemap"
        )
}

impl Fields {
    /// Of what is set, and what is taken out. Of what is set twice the later one was left.
    pub(crate) fn new(set: &[&(String, String)], removed: &[&String]) -> Self {
        let mut fields = Self { removed: removed.iter().copied().cloned().collect(), ..Self::default() };
        for (name, value) in set {
            match Rule::of(name) {
                Rule::Replace => {
                    fields.removed.push(name.clone());
                    fields.added.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                }
                rule => fields.shared.push((rule, name.clone(), value.clone())),
            }
        }
        fields
    }

    /// A line that is added, with its end.
    pub(crate) fn line(line: String) -> Self {
        Self { added: line.into_bytes(), ..Self::default() }
    }

    /// What is set, `NAME: VALUE`, and what is taken out, `-NAME`.
    pub(crate) fn told(&self) -> Vec<String> {
        let added = String::from_utf8_lossy(&self.added);
        let mut told: Vec<String> = added.lines().map(str::to_owned).collect();
        told.extend(self.shared.iter().map(|(_, name, value)| format!("{name}: {value}")));
        let is_set = |name: &str| {
            told.iter().any(|line| line.split(':').next().is_some_and(|own| own.eq_ignore_ascii_case(name)))
        };
        let removed: Vec<String> =
            self.removed.iter().filter(|name| !is_set(name)).map(|name| format!("-{name}")).collect();
        told.extend(removed);
        told
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.shared.is_empty()
    }

    /// Changes the head of a response of which nothing was sent yet.
    pub(crate) fn apply(&self, out: &mut Exchange, is_secure: bool) {
        let status = out.status;
        let head = &mut out.response.head;
        let before = head.len();
        let mut end = usize::try_from(out.head_bytes).unwrap_or(usize::MAX).min(before);
        if !self.removed.is_empty() {
            end = remove(head, end, |name| {
                self.removed.iter().any(|removed| name.eq_ignore_ascii_case(removed.as_bytes()))
            });
        }
        let mut end = insert(head, end, &self.added);
        for (rule, name, value) in &self.shared {
            end = share(head, end, *rule, (name, value), (status, is_secure));
        }
        shift(out, before);
    }

    #[cfg(test)]
    pub(crate) fn lines(&self) -> (String, Vec<String>) {
        (String::from_utf8_lossy(&self.added).into_owned(), self.removed.clone())
    }
}

/// Puts lines at the end of a head, before the empty line, and returns where the head ends then.
fn insert(head: &mut Vec<u8>, end: usize, lines: &[u8]) -> usize {
    let at = end.saturating_sub(2);
    head.splice(at..at, lines.iter().copied());
    end + lines.len()
}

/// Puts one of the fields that the server has a say in into a head, and returns where the head ends then.
fn share(
    head: &mut Vec<u8>,
    end: usize,
    rule: Rule,
    (name, value): (&str, &str),
    (status, is_secure): (u16, bool),
) -> usize {
    let own: Vec<String> = values(&head[..end], name);
    let value = match rule {
        Rule::Replace => value.to_owned(),
        Rule::Merge => merged(&own, value),
        Rule::Keeping if own.iter().any(|own| own.to_ascii_lowercase().contains("no-store")) => return end,
        Rule::Keeping => value.to_owned(),
        Rule::Type => {
            let is_wrapped = own.iter().any(|own| own.starts_with("multipart/byteranges"));
            if !matches!(status, 200 | 206) || is_wrapped {
                return end;
            }
            value.to_owned()
        }
        Rule::Default if !own.is_empty() => return end,
        Rule::Default => value.to_owned(),
        Rule::Secure if !is_secure => return end,
        Rule::Secure => value.to_owned(),
    };
    let end = remove(head, end, |own| own.eq_ignore_ascii_case(name.as_bytes()));
    insert(head, end, format!("{name}: {value}\r\n").as_bytes())
}

/// The values of a field in a head, line by line.
fn values(head: &[u8], name: &str) -> Vec<String> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    let fields = lines.filter_map(|line| {
        let (own, value) = line.split_at(memchr::memchr(b':', line)?);
        own.eq_ignore_ascii_case(name.as_bytes()).then(|| String::from_utf8_lossy(&value[1..]).trim().to_owned())
    });
    fields.collect()
}

/// The members of lists, each once; of `*` nothing else is to be said.
fn merged(own: &[String], value: &str) -> String {
    let mut members: Vec<&str> = Vec::new();
    for member in
        std::iter::once(value).chain(own.iter().map(String::as_str)).flat_map(|list| list.split(',')).map(str::trim)
    {
        if !member.is_empty() && !members.iter().any(|known| known.eq_ignore_ascii_case(member)) {
            members.push(member);
        }
    }
    if members.contains(&"*") { "*".to_owned() } else { members.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::response::Part;

    fn outgoing(status: u16, fields: &str) -> Exchange {
        let mut out = Exchange { status, ..Exchange::default() };
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        out.head_bytes = head.len() as u64;
        out.response.head = [head.as_bytes(), b"bet1bet2"].concat();
        for number in 1..=2 {
            out.response.parts.push(Part { head_end: out.head_bytes + 4 * number, start: 0, end: 3 });
        }
        out
    }

    fn fields(set: &[(&str, &str)], removed: &[&str]) -> Fields {
        let set: Vec<_> = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let removed: Vec<_> = removed.iter().map(|name| (*name).to_owned()).collect();
        Fields::new(&set.iter().collect::<Vec<_>>(), &removed.iter().collect::<Vec<_>>())
    }

    #[test]
    fn fields_come_and_go_and_the_parts_move_along() {
        let mut out = outgoing(200, "Server: weir\r\nETag: \"1\"\r\nContent-Type: a\r\nContent-Length: 4\r\n");
        fields(&[("X", "y"), ("Z", "1"), ("server", "w")], &["etag", "none"]).apply(&mut out, false);
        let head = b"HTTP/1.1 200 OK\r\nContent-Type: a\r\nContent-Length: 4\r\nX: y\r\nZ: 1\r\nserver: w\r\n\r\n";
        assert_eq!(out.response.head, [head, b"bet1bet2".as_slice()].concat());
        assert_eq!(out.head_bytes, head.len() as u64);
        let ends: Vec<u64> = out.response.parts.iter().map(|part| part.head_end).collect();
        assert_eq!(ends, [head.len() as u64 + 4, head.len() as u64 + 8]);
    }

    /// RFC 9110 section 12.5.5: each name of Vary counts, the server's as well as the configuration's.
    #[test]
    fn what_the_server_says_is_neither_lost_nor_said_twice() {
        for (status, own, set, expected) in [
            (200, "Vary: Accept-Encoding\r\n", ("Vary", "Origin"), "Vary: Origin, Accept-Encoding\r\n"),
            (200, "Vary: a\r\nvary: b\r\n", ("vary", "A, Origin , c"), "vary: A, Origin, c, b\r\n"),
            (200, "Vary: a\r\n", ("Vary", "*"), "Vary: *\r\n"),
            (200, "", ("Vary", "Origin"), "Vary: Origin\r\n"),
            (304, "Vary: Accept-Encoding\r\n", ("Vary", "Origin"), "Vary: Origin, Accept-Encoding\r\n"),
            (200, "Accept-CH: ECT\r\n", ("Accept-CH", "Width"), "Accept-CH: Width, ECT\r\n"),
            (200, "Cache-Control: no-store\r\n", ("Cache-Control", "max-age=9"), "Cache-Control: no-store\r\n"),
            (200, "Cache-Control: max-age=1\r\n", ("Cache-Control", "max-age=9"), "Cache-Control: max-age=9\r\n"),
            (200, "Content-Type: a/b\r\n", ("Content-Type", "c/d"), "Content-Type: c/d\r\n"),
            (301, "Content-Type: a/b\r\n", ("Content-Type", "c/d"), "Content-Type: a/b\r\n"),
            (
                206,
                "Content-Type: multipart/byteranges; boundary=1\r\n",
                ("Content-Type", "c/d"),
                "Content-Type: multipart/byteranges; boundary=1\r\n",
            ),
            (429, "Retry-After: 7\r\n", ("Retry-After", "600"), "Retry-After: 7\r\n"),
            (503, "", ("Retry-After", "600"), "Retry-After: 600\r\n"),
            (200, "", ("Strict-Transport-Security", "max-age=1"), ""),
        ] {
            let mut out = outgoing(status, own);
            fields(&[set], &[]).apply(&mut out, false);
            let expected = format!("HTTP/1.1 200 OK\r\n{expected}\r\n");
            assert_eq!(String::from_utf8_lossy(&out.response.head), format!("{expected}bet1bet2"));
            assert_eq!(out.head_bytes, expected.len() as u64);
        }
        let mut out = outgoing(200, "");
        fields(&[("Strict-Transport-Security", "max-age=1")], &[]).apply(&mut out, true);
        assert!(String::from_utf8_lossy(&out.response.head).contains("\r\nStrict-Transport-Security: max-age=1\r\n"));
    }

    #[test]
    fn a_life_and_a_content_are_no_errors_own() {
        for (name, value, expected) in [
            ("Cache-Control", "public, max-age=31536000, immutable", true),
            ("cache-control", "max-age=60", true),
            ("CDN-Cache-Control", "max-age=60", true),
            ("Cache-Control", "s-maxage=\"5\"", true),
            ("Cache-Control", "no-store", false),
            ("Cache-Control", "no-cache, max-age=60", false),
            ("Cache-Control", "max-age=0, must-revalidate", false),
            ("Cache-Control", "private", false),
            ("Cache-Control", "private, Max-Age=60", true),
            ("Expires", "Thu, 31 Dec 2037 23:55:55 GMT", true),
            ("Surrogate-Control", "max-age=60", true),
            ("Content-Disposition", "attachment", true),
            ("Content-Type", "text/plain", true),
            ("Link", "</a.css>; rel=preload", true),
            ("Content-Security-Policy", "default-src 'self'", false),
            ("Content-Security-Policy-Report-Only", "default-src 'self'", false),
            ("Strict-Transport-Security", "max-age=31536000", false),
            ("X-Frame-Options", "DENY", false),
            ("Access-Control-Allow-Origin", "*", false),
            ("X-Mine", "1", false),
        ] {
            assert_eq!(is_of_content(name, value), expected, "{name}: {value}");
        }
    }
}
