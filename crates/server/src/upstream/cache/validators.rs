//! Validators: conditions of clients, conditions that a cache makes, and what a 304 changes (RFC 9111 section 4.3).

use super::control::{DateField, ResponseControl, date};
use crate::http::field_lines::lines;
use crate::http::list_fields::FURTHER_LINES_MAX;
use std::time::{Duration, UNIX_EPOCH};

/// The conditions of a request that a cache weighs, and the range that it asks for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Conditions<'c> {
    pub(crate) if_none_match: [Option<&'c [u8]>; FURTHER_LINES_MAX + 1],
    pub(crate) if_modified_since: Option<&'c [u8]>,
    pub(crate) range: Option<&'c [u8]>,
    pub(crate) if_range: Option<&'c [u8]>,
}

/// What a stored response is told from others by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Validators<'s> {
    pub(crate) etag: Option<&'s [u8]>,
    /// Last-Modified as it came.
    pub(crate) last_modified: Option<&'s [u8]>,
    /// Seconds since 1970 of Date, or of when it came.
    pub(crate) date_s: u64,
}

impl<'s> Validators<'s> {
    /// Those of a head's lines.
    pub(crate) fn of(fields: &'s [u8], date_s: u64) -> Self {
        let mut validators = Self { etag: None, last_modified: None, date_s };
        for (name, value) in lines(fields) {
            if name.eq_ignore_ascii_case(b"etag") {
                validators.etag = validators.etag.or(Some(value).filter(|value| is_etag(value)));
            } else if name.eq_ignore_ascii_case(b"last-modified") {
                validators.last_modified = validators.last_modified.or(Some(value));
            }
        }
        validators
    }

    fn modified_s(&self) -> Option<u64> {
        self.last_modified.and_then(date)
    }

    /// Whether the client has this response already (section 4.3.2). If-None-Match stands before If-Modified-Since;
    /// without Last-Modified the date of the response takes its place.
    pub(crate) fn are_known_to(&self, conditions: &Conditions<'_>) -> bool {
        if conditions.if_none_match[0].is_some() {
            return conditions.if_none_match.iter().flatten().any(|tags| self.is_listed(tags));
        }
        let Some(since) = conditions.if_modified_since.and_then(date) else { return false };
        self.modified_s().unwrap_or(self.date_s) <= since
    }

    fn is_listed(&self, tags: &[u8]) -> bool {
        tags.trim_ascii() == b"*" || self.etag.is_some_and(|own| each_etag(tags).any(|tag| is_same_weakly(tag, own)))
    }

    /// Whether a range of this response may be sent: If-Range has the same strong validator, or is absent.
    pub(crate) fn allow_range(&self, conditions: &Conditions<'_>) -> bool {
        let Some(condition) = conditions.if_range.map(<[u8]>::trim_ascii) else { return true };
        if condition.starts_with(b"W/") {
            return false;
        }
        if condition.starts_with(b"\"") {
            return self.etag == Some(condition);
        }
        // A date is strong if the response was made at least a second after the change (RFC 9110 section 8.8.2.2).
        date(condition).is_some_and(|date| self.modified_s() == Some(date) && date < self.date_s)
    }

    /// Lines that ask whether a stored response is still the right one (section 4.3.1).
    pub(crate) fn write_conditions(&self, into: &mut Vec<u8>) {
        if let Some(etag) = self.etag {
            into.extend_from_slice(b"If-None-Match: ");
            into.extend_from_slice(etag);
            into.extend_from_slice(b"\r\n");
        }
        if let Some(modified) = self.last_modified.filter(|text| date(text).is_some()) {
            into.extend_from_slice(b"If-Modified-Since: ");
            into.extend_from_slice(modified);
            into.extend_from_slice(b"\r\n");
        }
    }

    /// Whether a 304, or the head of a 200 to HEAD, speaks of the same response (sections 4.3.4 and 4.3.5): its
    /// validators do not differ from ours.
    pub(crate) fn agree_with(&self, update: &Validators<'_>) -> bool {
        match (update.etag, self.etag) {
            (Some(new), Some(own)) if new.starts_with(b"W/") || own.starts_with(b"W/") => is_same_weakly(new, own),
            (Some(new), Some(own)) => new == own,
            (Some(_), None) => false,
            (None, _) => update.modified_s().is_none_or(|new| self.modified_s() == Some(new)),
        }
    }
}

/// Whether this is an entity tag (RFC 9110 section 8.8.3). An origin that leaves the quotes away still gets its tag back
/// by nothing: it would not be one in If-None-Match.
fn is_etag(value: &[u8]) -> bool {
    let opaque = value.strip_prefix(b"W/").unwrap_or(value);
    opaque.len() >= 2
        && opaque.starts_with(b"\"")
        && opaque.ends_with(b"\"")
        && !opaque[1..opaque.len() - 1].contains(&b'"')
}

fn is_same_weakly(one: &[u8], other: &[u8]) -> bool {
    one.strip_prefix(b"W/").unwrap_or(one) == other.strip_prefix(b"W/").unwrap_or(other)
}

/// The entity tags of a list, up to where it stops being one.
fn each_etag(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while let [b',' | b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        let quote = if rest.starts_with(b"W/") { 2 } else { 0 };
        if rest.get(quote) != Some(&b'"') {
            return None;
        }
        let close = memchr::memchr(b'"', &rest[quote + 1..])?;
        let (tag, after) = rest.split_at(quote + close + 2);
        rest = after;
        Some(tag)
    })
}

/// The lines of a head as they are stored (section 3.1): without Age, which each answer says anew, and without the
/// fields of a proxy between; with Date, which a response without one gets (RFC 9110 section 6.6.1).
pub(crate) fn stored_fields(fields: &[u8], received_s: u64) -> Vec<u8> {
    const LEFT_AWAY: [&[u8]; 4] = [b"age", b"proxy-authenticate", b"proxy-authentication-info", b"proxy-authorization"];
    let mut kept = Vec::with_capacity(fields.len() + 40);
    let mut has_date = false;
    for (name, value) in lines(fields) {
        if LEFT_AWAY.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            continue;
        }
        if name.eq_ignore_ascii_case(b"date") {
            // A second one, or one that is no date, would mislead the next cache.
            if has_date || date(value).is_none() {
                continue;
            }
            has_date = true;
        }
        push_line(&mut kept, name, value);
    }
    if !has_date {
        let at = UNIX_EPOCH + Duration::from_secs(received_s.min(LAST_DATE_S));
        push_line(&mut kept, b"Date", httpdate::fmt_http_date(at).as_bytes());
    }
    kept
}

/// The last second that a date of HTTP can say: the end of the year 9999.
const LAST_DATE_S: u64 = 253_402_300_799;

pub(crate) fn push_line(into: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    into.extend_from_slice(name);
    into.extend_from_slice(b": ");
    into.extend_from_slice(value);
    into.extend_from_slice(b"\r\n");
}

/// The lines of a stored head, freshened by those of a newer one (section 3.2): each field of the newer one replaces all
/// lines of its name. What says how the stored body is made stays: its length, range and coding, and its type.
pub(crate) fn freshened(stored: &[u8], update: &[u8]) -> Vec<u8> {
    const OF_THE_BODY: [&[u8]; 5] =
        [b"content-length", b"content-range", b"content-encoding", b"content-type", b"transfer-encoding"];
    let stays = |name: &[u8]| OF_THE_BODY.iter().any(|own| name.eq_ignore_ascii_case(own));
    let mut fields = Vec::with_capacity(stored.len() + update.len());
    for (name, value) in lines(stored) {
        if stays(name) || !lines(update).any(|(new, _)| new.eq_ignore_ascii_case(name)) {
            push_line(&mut fields, name, value);
        }
    }
    for (name, value) in lines(update).filter(|(name, _)| !stays(name)) {
        push_line(&mut fields, name, value);
    }
    fields
}

/// When a response was made, in seconds since 1970.
pub(crate) fn date_s(control: &ResponseControl, received_s: u64) -> u64 {
    if let DateField::At(at) = control.date { at } else { received_s }
}
