//! A transaction as a span of OpenTelemetry.
//!
//! Trace and span have the numbers that the transaction's correlator says, so that they fit `traceparent` headers both
//! ways: what came in by one is the parent here, what goes out by one is found there.

use super::protobuf::Writer;
use super::resource::{cut, integer, number, text, truth};
use crate::transaction::{MetricValue, Named, Status, Transaction};
use crate::waits::ThreadTime;

/// Where attributes stand in a `Span`, and in an `Event`.
const OF_SPAN: u32 = 9;
const OF_EVENT: u32 = 3;
/// A span's kind: it serves a remote caller, or it is internal work of its process.
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
/// A span's status.
const OK: u64 = 1;
const ERROR: u64 = 2;
/// Bits of a span's flags: it was sampled; whether its parent is elsewhere is known; it is.
const SAMPLED: u32 = 1;
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// Events of a span; more stretches than these are only in the sum.
const MOST_EVENTS: usize = 32;

/// Writes the transaction as a `Span` in field 2 of a `ScopeSpans`. `parent_here`: the parent ran in the same process.
pub(crate) fn write(writer: &mut Writer, transaction: &Transaction, parent_here: bool) {
    writer.message(2, |span| {
        let id = &transaction.id;
        let trace = |words: [u64; 2]| [words[0].to_be_bytes(), words[1].to_be_bytes()].concat();
        span.content(1, &trace(id.trace));
        span.content(2, &id.span.to_be_bytes());
        if let Some(parent) = &transaction.parent {
            span.content(4, &parent.span.to_be_bytes());
        }
        span.text(5, cut(&transaction.name));
        span.unsigned(6, if parent_here { INTERNAL } else { SERVER });
        span.fixed64(7, transaction.start_unix_ns);
        span.fixed64(8, transaction.end_unix_ns());
        attributes(span, transaction);
        for blocked in transaction.details.blocked.iter().take(MOST_EVENTS) {
            span.message(11, |event| {
                let after_ns = blocked.from_ns.saturating_sub(transaction.start_ns);
                event.fixed64(1, transaction.start_unix_ns.saturating_add(after_ns));
                event.text(2, "arm.blocked");
                let seconds = blocked.to_ns.saturating_sub(blocked.from_ns) as f64 / 1e9;
                number(event, OF_EVENT, "arm.blocked.duration", seconds);
                if let Some(cause) =
                    [None, Some("synchronous"), Some("asynchronous")][usize::from(blocked.cause.min(2))]
                {
                    text(event, OF_EVENT, "arm.blocked.cause", cause);
                }
            });
        }
        span.message(15, |status| match transaction.status {
            Status::Good => status.unsigned(3, OK),
            Status::Unknown => {}
            Status::Aborted | Status::Failed | Status::Unfinished => {
                let words = transaction.details.diagnosis.as_deref().unwrap_or(transaction.status.name());
                status.text(2, cut(words));
                status.unsigned(3, ERROR);
            }
        });
        let elsewhere = if transaction.parent.is_some() && !parent_here { IS_REMOTE } else { 0 };
        span.fixed32(16, SAMPLED | HAS_IS_REMOTE | elsewhere);
    });
}

/// The attribute of a URI by OpenTelemetry's semantic conventions (attributes-registry/url): `url.full` is an absolute URL
/// without credentials, `url.path` a path; what is neither has a name of its own. What stands after the path may be
/// secret.
fn of_uri(uri: &str) -> Option<(&'static str, String)> {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    if uri.is_empty() {
        return None;
    }
    let Some((scheme, rest)) = uri.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
        let key = if uri.starts_with('/') { "url.path" } else { "arm.uri" };
        return Some((key, uri.to_owned()));
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let whole = match authority.rsplit_once('@') {
        Some((credentials, host)) => {
            let hidden = if credentials.contains(':') { "REDACTED:REDACTED" } else { "REDACTED" };
            format!("{scheme}://{hidden}@{host}{path}")
        }
        None => uri.to_owned(),
    };
    Some(("url.full", whole))
}

/// Whether a text may be a URI's scheme (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    let rest = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(rest)
}

fn attributes(span: &mut Writer, transaction: &Transaction) {
    let details = &transaction.details;
    text(span, OF_SPAN, "arm.status", transaction.status.name());
    if matches!(transaction.status, Status::Aborted | Status::Failed | Status::Unfinished) {
        text(span, OF_SPAN, "error.type", transaction.status.name());
    }
    if let Some(user) = &transaction.user {
        text(span, OF_SPAN, "user.name", user);
    }
    if let Some(id) = &details.user_id {
        text(span, OF_SPAN, "user.id", id);
    }
    if transaction.thread != 0 {
        integer(span, OF_SPAN, "thread.id", i64::from(transaction.thread));
    }
    if let Some((key, uri)) = details.uri.as_deref().and_then(of_uri) {
        text(span, OF_SPAN, key, &uri);
    }
    if let Some(address) = &details.address {
        text(span, OF_SPAN, "arm.system.address", address);
    }
    if transaction.queued_ns > 0 {
        number(span, OF_SPAN, "arm.queued", transaction.queued_ns as f64 / 1e9);
    }
    if transaction.blocked_ns > 0 {
        number(span, OF_SPAN, "arm.blocked", transaction.blocked_ns as f64 / 1e9);
    }
    // The thread that started it is told first.
    for (part, ns) in transaction.threads.first().map(ThreadTime::each).unwrap_or_default() {
        number(span, OF_SPAN, &format!("arm.{}", part.name()), ns as f64 / 1e9);
    }
    if let Some(preparation_ns) = details.preparation_ns {
        number(span, OF_SPAN, "arm.preparation", preparation_ns as f64 / 1e9);
    }
    if transaction.one_in > 1 {
        integer(span, OF_SPAN, "arm.one_in", i64::from(transaction.one_in));
    }
    for (name, is) in [("arm.traced", transaction.traced), ("arm.reported", transaction.reported)] {
        if is {
            truth(span, OF_SPAN, name, true);
        }
    }
    if transaction.parent_foreign {
        truth(span, OF_SPAN, "arm.parent.foreign", true);
    }
    if let Some(diagnosis) = &details.diagnosis {
        text(span, OF_SPAN, "arm.diagnosis", diagnosis);
    }
    if let Some(opaque) = &details.opaque {
        text(span, OF_SPAN, "arm.opaque", opaque);
    }
    named(span, "arm.property.", &transaction.properties);
    named(span, "arm.context.", &details.context);
    named(span, "arm.diagnosis.", &details.diagnosis_properties);
    for metric in &details.metrics {
        let key = match metric.name.as_str() {
            "" => format!("arm.metric.{}", metric.slot),
            name => format!("arm.metric.{}", cut(name)),
        };
        match &metric.value {
            MetricValue::Integer(value) => integer(span, OF_SPAN, &key, *value),
            MetricValue::Ratio(value) => number(span, OF_SPAN, &key, *value),
            MetricValue::Text(value) => text(span, OF_SPAN, &key, value),
        }
    }
}

fn named(span: &mut Writer, prefix: &str, values: &[Named]) {
    for one in values {
        text(span, OF_SPAN, &format!("{prefix}{}", cut(&one.name)), &one.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_goes_by_the_name_that_the_conventions_give_it() {
        for (uri, told) in [
            ("http://shop.example/buy?card=4711#top", Some(("url.full", "http://shop.example/buy"))),
            ("https://shop.example", Some(("url.full", "https://shop.example"))),
            ("https://ann:secret@shop.example/a@b", Some(("url.full", "https://REDACTED:REDACTED@shop.example/a@b"))),
            ("https://ann@shop.example/", Some(("url.full", "https://REDACTED@shop.example/"))),
            ("/a.html", Some(("url.path", "/a.html"))),
            ("/login?next=http://elsewhere/", Some(("url.path", "/login"))),
            ("/to/http://elsewhere", Some(("url.path", "/to/http://elsewhere"))),
            ("//shop.example/buy", Some(("url.path", "//shop.example/buy"))),
            ("shop.Orders/Find", Some(("arm.uri", "shop.Orders/Find"))),
            ("urn:isbn:0451450523", Some(("arm.uri", "urn:isbn:0451450523"))),
            ("?q=1", None),
            ("", None),
        ] {
            assert_eq!(of_uri(uri).as_ref().map(|(key, text)| (*key, text.as_str())), told, "{uri}");
        }
    }
}
