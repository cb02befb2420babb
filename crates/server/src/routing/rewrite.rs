//! Changes to a response that was made already: the page of an error, and how long caches may keep it. Fields that a
//! configuration sets are in [`super::fields`].

use crate::exchange::life::Exchange;
use crate::http::client_hints;

/// A page that stands for errors, read when the configuration was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) content_type: String,
    pub(crate) text: Vec<u8>,
}

/// Puts a page in the place of an error's body.
pub(crate) fn replace_body(out: &mut Exchange, page: &Page, head_only: bool) {
    let head = &mut out.response.head;
    let end = usize::try_from(out.head_bytes).unwrap_or(usize::MAX).min(head.len());
    head.truncate(end);
    let end = remove(head, end, |name| {
        name.eq_ignore_ascii_case(b"content-type") || name.eq_ignore_ascii_case(b"content-length")
    });
    let at = end.saturating_sub(2);
    let fields = format!("Content-Type: {}\r\nContent-Length: {}\r\n", page.content_type, page.text.len());
    head.splice(at..at, fields.bytes());
    out.head_bytes = head.len() as u64;
    if !head_only {
        head.extend_from_slice(&page.text);
    }
}

/// Puts a path before the address of a redirect within the host.
pub(crate) fn insert_into_location(out: &mut Exchange, path: &[u8]) {
    let head = &mut out.response.head;
    let before = head.len();
    let field = b"\r\nLocation: /";
    if let Some(at) = memchr::memmem::find(head, field) {
        let at = at + field.len() - 1;
        head.splice(at..at, path.iter().copied());
        shift(out, before);
    }
}

/// What a head says of keeping the response, one directive after the other, and of what it varies by, line by line.
fn of_keeping(head: &[u8]) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut varies) = (Vec::new(), Vec::new());
    for line in head.split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.iter().position(|byte| *byte == b':').map(|at| line.split_at(at)) else {
            continue;
        };
        let value = String::from_utf8_lossy(&value[1..]).trim().to_owned();
        if name.eq_ignore_ascii_case(b"cache-control") {
            kept.extend(value.split(',').map(|directive| directive.trim().to_owned()));
        } else if name.eq_ignore_ascii_case(b"vary") {
            varies.push(value);
        }
    }
    (kept, varies)
}

/// Whether a directive is one of these, with or without a value.
fn is_any(directive: &str, names: &[&str]) -> bool {
    names.iter().any(|name| {
        directive.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
            && !directive[name.len()..].starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '-')
    })
}

/// Makes caches revalidate a stale response here before they use it again. This overrides what a configuration says of
/// caching.
pub(crate) fn keep_for_nobody(out: &mut Exchange) {
    let head = &mut out.response.head;
    let before = head.len();
    let end = usize::try_from(out.head_bytes).unwrap_or(usize::MAX).min(before);
    let (mut kept, _) = of_keeping(&head[..end]);
    // With names of fields it is of these only.
    if kept.iter().any(|directive| is_any(directive, &["no-store"]) || directive.eq_ignore_ascii_case("no-cache")) {
        return;
    }
    kept.retain(|directive| !directive.is_empty());
    kept.insert(0, "no-cache".to_owned());
    let end = remove(head, end, |name| name.eq_ignore_ascii_case(b"cache-control"));
    let at = end.saturating_sub(2);
    head.splice(at..at, format!("Cache-Control: {}\r\n", kept.join(", ")).bytes());
    shift(out, before);
}

/// Makes a response private to the client that it was chosen for. This overrides what a configuration says of caching,
/// unless that is stricter. What the response varies by is said as well.
pub(crate) fn keep_private(out: &mut Exchange) {
    let head = &mut out.response.head;
    let before = head.len();
    let end = usize::try_from(out.head_bytes).unwrap_or(usize::MAX).min(before);
    let (mut kept, mut varies) = of_keeping(&head[..end]);
    if !kept.iter().any(|directive| is_any(directive, &["private", "no-store", "no-cache"])) {
        kept.retain(|directive| !is_any(directive, &["public", "s-maxage"]) && !directive.is_empty());
        kept.insert(0, "private".to_owned());
    }
    let names = client_hints::NAMES;
    if !varies.iter().any(|value| value == "*" || value.contains(names)) {
        varies.push(names.to_owned());
    }
    let end =
        remove(head, end, |name| name.eq_ignore_ascii_case(b"cache-control") || name.eq_ignore_ascii_case(b"vary"));
    let at = end.saturating_sub(2);
    let fields = format!("Cache-Control: {}\r\nVary: {}\r\n", kept.join(", "), varies.join(", "));
    head.splice(at..at, fields.bytes());
    shift(out, before);
}

/// Takes lines out of the first `end` bytes, the first line excepted, and returns where they end then.
pub(super) fn remove(head: &mut Vec<u8>, mut end: usize, is_wanted: impl Fn(&[u8]) -> bool) -> usize {
    let next_line = |head: &[u8], at: usize| memchr::memchr(b'\n', &head[at..]).map(|found| at + found + 1);
    let Some(mut at) = next_line(&head[..end], 0) else { return end };
    while let Some(next) = next_line(&head[..end], at) {
        let name_bytes = memchr::memchr(b':', &head[at..next]);
        if name_bytes.is_some_and(|bytes| is_wanted(&head[at..at + bytes])) {
            head.drain(at..next);
            end -= next - at;
        } else {
            at = next;
        }
    }
    end
}

/// Moves what counts from the head's beginning after the head has changed its length.
pub(super) fn shift(out: &mut Exchange, before: usize) {
    let after = out.response.head.len() as u64;
    let before = before as u64;
    let moved = |place: u64| (place + after).saturating_sub(before);
    out.head_bytes = moved(out.head_bytes);
    for part in &mut out.response.parts {
        part.head_end = moved(part.head_end);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Fields;
    use super::*;
    use crate::http::response::Part;

    fn outgoing() -> Exchange {
        let mut out = Exchange::default();
        let head = b"HTTP/1.1 200 OK\r\nServer: weir\r\nETag: \"1\"\r\nContent-Type: a\r\nContent-Length: 4\r\n\r\n";
        out.head_bytes = head.len() as u64;
        out.response.head = [head, b"bet1bet2".as_slice()].concat();
        for number in 1..=2 {
            out.response.parts.push(Part { head_end: out.head_bytes + 4 * number, start: 0, end: 3 });
        }
        out
    }

    #[test]
    fn no_cache_reuses_what_is_stale_under_any_configuration() {
        for (configured, expected) in [
            ("", "Cache-Control: no-cache\r\n"),
            ("Cache-Control: max-age=3600, public\r\n", "Cache-Control: no-cache, max-age=3600, public\r\n"),
            ("cache-control: No-Cache\r\n", "cache-control: No-Cache\r\n"),
            ("Cache-Control: no-cache=\"Set-Cookie\"\r\n", "Cache-Control: no-cache, no-cache=\"Set-Cookie\"\r\n"),
            ("Cache-Control: private, no-store\r\n", "Cache-Control: private, no-store\r\n"),
        ] {
            let mut out = outgoing();
            Fields::line(configured.to_owned()).apply(&mut out, false);
            keep_for_nobody(&mut out);
            let head = "HTTP/1.1 200 OK\r\nServer: weir\r\nETag: \"1\"\r\nContent-Type: a\r\nContent-Length: 4\r\n";
            let end = format!("{head}{expected}\r\n");
            assert_eq!(String::from_utf8_lossy(&out.response.head), format!("{end}bet1bet2"));
            assert_eq!(out.head_bytes, end.len() as u64);
        }
    }

    #[test]
    fn a_page_takes_the_place_of_a_body() {
        let page = Page { content_type: "text/html".to_owned(), text: b"<p>".to_vec() };
        for head_only in [false, true] {
            let mut out = outgoing();
            out.response.parts.clear();
            replace_body(&mut out, &page, head_only);
            let head = "HTTP/1.1 200 OK\r\nServer: weir\r\nETag: \"1\"\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n";
            assert_eq!(out.head_bytes, head.len() as u64);
            assert_eq!(
                String::from_utf8_lossy(&out.response.head),
                head.to_owned() + if head_only { "" } else { "<p>" }
            );
        }
    }
}
