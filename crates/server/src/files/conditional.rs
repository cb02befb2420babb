//! Conditional requests, in the order of RFC 9110 section 13.2.2.

use crate::http::request::{Method, Request};
use std::time::{SystemTime, UNIX_EPOCH};

/// What the conditions of a request come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send the whole content.
    Whole,
    /// Send the ranges that were asked for.
    Ranges,
    /// The client has it already: 304.
    NotModified,
    /// A condition of the client does not hold: 412.
    Failed,
}

/// What conditions are compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validators<'v> {
    /// The entity tag with its quotes; it is a strong one.
    pub(crate) etag: &'v str,
    /// Seconds since 1970.
    pub(crate) modified_s: Option<u64>,
    /// Whether the content came into its place after that time, so that it is no strong validator.
    pub(crate) is_backdated: bool,
}

/// Weighs the conditions of a GET or HEAD request for content that exists.
pub(crate) fn judge(request: &Request<'_>, of: Validators<'_>, now_s: u64) -> Verdict {
    if let Some(lines) = request.if_match_lines() {
        if !lines.iter().any(|tags| lists(tags, of.etag, true)) {
            return Verdict::Failed;
        }
    } else if let (Some(since), Some(modified_s)) = (seconds(request.if_unmodified_since), of.modified_s)
        && modified_s > since
    {
        return Verdict::Failed;
    }
    if let Some(lines) = request.if_none_match_lines() {
        if lines.iter().any(|tags| lists(tags, of.etag, false)) {
            return Verdict::NotModified;
        }
    } else if let (Some(since), Some(modified_s)) = (seconds(request.if_modified_since), of.modified_s)
        && modified_s <= since
    {
        return Verdict::NotModified;
    }
    let wants_range = request.range.is_some() && request.method == Method::Get;
    if wants_range && request.if_range.is_none_or(|validator| is_same(validator, of, now_s)) {
        Verdict::Ranges
    } else {
        Verdict::Whole
    }
}

/// Whether an If-Range validator names exactly this content (RFC 9110 section 13.1.5).
fn is_same(validator: &[u8], of: Validators<'_>, now_s: u64) -> bool {
    if validator.starts_with(b"\"") || validator.starts_with(b"W/") {
        return validator == of.etag.as_bytes();
    }
    // A date tells versions apart only if the content cannot have changed again within its second, and if no content of
    // an older date was put in its place.
    seconds(Some(validator)).is_some_and(|date| of.modified_s == Some(date) && date < now_s && !of.is_backdated)
}

/// Whether a list of entity tags, or `*`, has `etag`. Ours is strong; `strongly` refuses the client's weak ones.
fn lists(list: &[u8], etag: &str, strongly: bool) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    // A comma may be part of a tag, so tags are taken off one after the other instead of splitting the list.
    loop {
        rest = rest.trim_ascii_start();
        while let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
        }
        let (weak, quoted) = rest.strip_prefix(b"W/").map_or((false, rest), |after| (true, after));
        if quoted.first() != Some(&b'"') {
            return false;
        }
        let Some(close) = memchr::memchr(b'"', &quoted[1..]) else { return false };
        let (tag, after) = quoted.split_at(close + 2);
        if tag == etag.as_bytes() && !(weak && strongly) {
            return true;
        }
        rest = after;
    }
}

/// A date in any of the three forms as seconds since 1970; an invalid one counts as absent.
fn seconds(date: Option<&[u8]>) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(std::str::from_utf8(date?).ok()?.trim()).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_tags_compare_strongly_or_weakly() {
        for (list, strongly, weakly) in [
            ("*", true, true),
            ("\"a\"", true, true),
            ("W/\"a\"", false, true),
            ("\"b\", \"a\"", true, true),
            (" , \"x,\\y\",\"a\"", true, true),
            ("\"b\"", false, false),
            ("a", false, false),
            ("\"a", false, false),
            ("", false, false),
            ("\"b\" \"a\"", true, true),
        ] {
            assert_eq!(lists(list.as_bytes(), "\"a\"", true), strongly, "{list}");
            assert_eq!(lists(list.as_bytes(), "\"a\"", false), weakly, "{list}");
        }
    }

    #[test]
    fn dates_in_all_three_forms_are_the_same() {
        for date in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(seconds(Some(date.as_bytes())), Some(784_111_777), "{date}");
        }
        assert_eq!(seconds(Some(b"yesterday")), None);
    }
}
