//! OpenTelemetry's spans as requests: JSON, one export a line or one in all, and protobuf
//! (opentelemetry-proto 1, `trace.proto`; "JSON Protobuf Encoding" of the OTLP specification).
//!
//! A span of the kind SERVER or CONSUMER is a request, and so is one without a parent; others are parts of these.

mod json;
mod span;

use crate::packets::Packets;
use crate::protobuf::{Field, Message};
use crate::{Counts, Event, ReadError};
pub use json::read_otlp_json;
use span::{CLOCK, HOST_KEY, STATUS_ERROR, STATUS_KEYS, Span};
use std::io::Read;

/// Hands out the requests of a file, in its order.
///
/// # Errors
/// [`ReadError`], with the byte at which a message is damaged or cut.
pub fn read_otlp_protobuf(input: impl Read, mut take: impl FnMut(Event<'_>)) -> Result<Counts, ReadError> {
    const RESOURCE: u32 = 1;
    const SCOPE_SPANS: u32 = 2;
    const SPANS: u32 = 2;
    const ATTRIBUTES: u32 = 1;
    let mut counts = Counts { clock: Some(CLOCK.to_owned()), ..Counts::default() };
    let mut packets = Packets::new(input, "a resource's spans");
    while let Some((at, resource)) = packets.next()? {
        let mut fields = Message::new(resource);
        for (number, field) in fields.by_ref() {
            let inner = Message::new(field.bytes().unwrap_or_default());
            match number {
                RESOURCE if counts.host.is_none() => {
                    let attributes = inner.filter(|(number, _)| *number == ATTRIBUTES);
                    counts.host = attributes
                        .filter_map(|(_, field)| attribute(field, &[HOST_KEY])?.text().map(str::to_owned))
                        .next();
                }
                SCOPE_SPANS => {
                    for (_, span) in inner.filter(|(number, _)| *number == SPANS) {
                        span_of(span.bytes().unwrap_or_default()).tell(&mut counts, &mut take);
                    }
                }
                _ => {}
            }
        }
        if fields.is_cut {
            return Err(ReadError::wrong(at, "a resource's spans are damaged: they end within a field"));
        }
    }
    Ok(counts.told())
}

fn span_of(bytes: &[u8]) -> Span<'_> {
    let mut span = Span::default();
    for (number, field) in Message::new(bytes) {
        match (number, field) {
            (4, Field::Bytes(parent)) => span.has_parent = !parent.is_empty(),
            (5, field) => span.name = field.text().unwrap_or_default(),
            (6, Field::Number(kind)) => span.kind = kind,
            (7, Field::Number(at_ns)) => span.begun_ns = Some(at_ns),
            (8, Field::Number(at_ns)) => span.ended_ns = Some(at_ns),
            (9, field) => {
                let told = attribute(field, &STATUS_KEYS).and_then(|value| match value {
                    Field::Number(number) => u16::try_from(number).ok(),
                    text => text.text()?.parse().ok(),
                });
                span.status = told.or(span.status);
            }
            (15, Field::Bytes(status)) => {
                let code = Message::new(status).find(|(number, _)| *number == 3);
                span.has_failed = code.and_then(|(_, field)| field.number()) == Some(STATUS_ERROR);
            }
            _ => {}
        }
    }
    span
}

/// The value of an attribute, a text or a number, if it has one of these keys.
fn attribute<'a>(field: Field<'a>, keys: &[&str]) -> Option<Field<'a>> {
    let (mut is_it, mut value) = (false, None);
    for (number, field) in Message::new(field.bytes()?) {
        match number {
            1 => is_it = field.text().is_some_and(|key| keys.contains(&key)),
            // A text (1) or a whole number (3).
            2 => {
                let told = Message::new(field.bytes()?).find(|(number, _)| [1, 3].contains(number));
                value = told.map(|(_, field)| field);
            }
            _ => {}
        }
    }
    value.filter(|_| is_it)
}
