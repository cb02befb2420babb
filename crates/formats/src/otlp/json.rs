//! Spans as JSON. A line at a time is in memory.

use super::span::{CLOCK, HOST_KEY, KIND_CONSUMER, KIND_SERVER, STATUS_ERROR, STATUS_KEYS, Span};
use crate::{Counts, Event, ReadError};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::io::{BufRead, Read};

/// Bytes of one export: of a file that is one JSON text, all of it.
const EXPORT_MAX: u64 = 64 << 20;
/// Lines at which an export may seem to end; behind these it ends with the file.
const TRIED_MAX: usize = 16;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Export<'a> {
    #[serde(borrow, default, alias = "resource_spans")]
    resource_spans: Vec<ResourceSpans<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    #[serde(borrow, default)]
    resource: Option<Resource<'a>>,
    // The name in brackets is that of exporters before 2022.
    #[serde(borrow, default, alias = "scope_spans", alias = "instrumentationLibrarySpans")]
    scope_spans: Vec<ScopeSpans<'a>>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(borrow, default)]
    attributes: Vec<Attribute<'a>>,
}

#[derive(Deserialize)]
struct ScopeSpans<'a> {
    #[serde(borrow, default)]
    spans: Vec<Told<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    kind: Whole,
    #[serde(borrow, default, alias = "parent_span_id")]
    parent_span_id: Cow<'a, str>,
    #[serde(default, alias = "start_time_unix_nano")]
    start_time_unix_nano: Whole,
    #[serde(default, alias = "end_time_unix_nano")]
    end_time_unix_nano: Whole,
    #[serde(borrow, default)]
    attributes: Vec<Attribute<'a>>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: Whole,
}

#[derive(Deserialize)]
struct Attribute<'a> {
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Option<AnyValue<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyValue<'a> {
    #[serde(borrow, default)]
    string_value: Option<Cow<'a, str>>,
    #[serde(default)]
    int_value: Whole,
}

/// A whole number, as one or as a text; the names of kinds and states as well.
#[derive(Debug, Clone, Copy, Default)]
struct Whole(Option<u64>);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Whole;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a whole number")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(Some(number)))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
                Ok(Whole(u64::try_from(number).ok()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Whole, E> {
                Ok(Whole(match text {
                    "SPAN_KIND_SERVER" => Some(KIND_SERVER),
                    "SPAN_KIND_CONSUMER" => Some(KIND_CONSUMER),
                    "STATUS_CODE_ERROR" => Some(STATUS_ERROR),
                    other => other.parse().ok(),
                }))
            }

            fn visit_unit<E: Error>(self) -> Result<Whole, E> {
                Ok(Whole(None))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

/// Hands out the requests of a file, in its order.
///
/// # Errors
/// [`ReadError`], with the byte at which an export is damaged or cut.
pub fn read_otlp_json(mut input: impl BufRead, mut take: impl FnMut(Event<'_>)) -> Result<Counts, ReadError> {
    let mut counts = Counts { clock: Some(CLOCK.to_owned()), ..Counts::default() };
    let (mut text, mut at) = (Vec::new(), 0u64);
    loop {
        let (begin, mut tried) = (at, 0);
        text.clear();
        // An export ends at the end of a line; one that is laid out over several ends at a line that completes it.
        let export = loop {
            let room = (EXPORT_MAX + 1).saturating_sub(text.len() as u64);
            let read = input.by_ref().take(room).read_until(b'\n', &mut text);
            let read = read.map_err(|source| ReadError::Io { at, source })?;
            at += read as u64;
            if text.len() as u64 > EXPORT_MAX {
                let what = format!(
                    "an export has more than {EXPORT_MAX} bytes; write one a line (the collector's file exporter does)"
                );
                return Err(ReadError::wrong(begin, what));
            }
            let is_blank = text.trim_ascii().is_empty();
            if read == 0 && is_blank {
                return Ok(counts.told());
            }
            // Only a line that ends with a bracket may end an export; one that begins in the first column does.
            let last = text.rsplit(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
            let may_end = last.is_some_and(|line| line.trim_ascii_end().ends_with(b"}") && !line.starts_with(b" "));
            if is_blank || read > 0 && (!may_end || tried >= TRIED_MAX) {
                continue;
            }
            tried += 1;
            match serde_json::from_slice::<Export<'_>>(&text) {
                Ok(export) => break export,
                Err(error) if error.is_eof() && read > 0 => {}
                Err(error) if error.is_eof() => return Err(ReadError::Cut { at: begin, within: "an export" }),
                Err(error) => return Err(ReadError::wrong(begin, format!("an export is none of OTLP's: {error}"))),
            }
        };
        tell(&export, &mut counts, &mut take);
    }
}

fn tell(export: &Export<'_>, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) {
    for resource in &export.resource_spans {
        let mut attributes = resource.resource.iter().flat_map(|resource| &resource.attributes);
        if counts.host.is_none() {
            let host = attributes.find(|attribute| attribute.key == HOST_KEY);
            counts.host = host.and_then(|host| Some(host.value.as_ref()?.string_value.as_ref()?.to_string()));
        }
        for told in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
            let status = told.attributes.iter().find(|attribute| STATUS_KEYS.contains(&&*attribute.key));
            let status = status.and_then(|status| status.value.as_ref());
            let text = |value: &AnyValue<'_>| value.string_value.as_ref().and_then(|text| text.parse().ok());
            let span = Span {
                name: &told.name,
                kind: told.kind.0.unwrap_or(0),
                has_parent: !told.parent_span_id.is_empty(),
                begun_ns: told.start_time_unix_nano.0,
                ended_ns: told.end_time_unix_nano.0,
                status: status.and_then(|value| value.int_value.0.or(text(value))?.try_into().ok()),
                has_failed: told.status.as_ref().and_then(|status| status.code.0) == Some(STATUS_ERROR),
            };
            span.tell(counts, take);
        }
    }
}
