//! Spans as JSON. An export at a time is in memory.

use super::span::{CLOCK, HOST_KEY, KIND_CONSUMER, KIND_SERVER, STATUS_ERROR, STATUS_KEYS, Span};
use crate::json::{Fault, Json, Text, whole};
use crate::{Counts, Event, ReadError};
use std::borrow::Cow;
use std::io::BufRead;

/// Bytes of one export: of a file that is one JSON text, all of it.
const EXPORT_MAX: usize = 64 << 20;

/// Hands out the requests of a file, in its order.
///
/// # Errors
/// [`ReadError`], with the byte at which an export is damaged or cut.
pub fn read_otlp_json(mut input: impl BufRead, mut take: impl FnMut(Event<'_>)) -> Result<Counts, ReadError> {
    let mut counts = Counts { clock: Some(CLOCK.to_owned()), ..Counts::default() };
    let (mut text, mut at) = (Vec::new(), 0u64);
    loop {
        text.clear();
        pass_blanks(&mut input, &mut at)?;
        let begin = at;
        // An export is a line, or is laid out over several. It ends at the end of a line where another one begins: within
        // an export no bracket opens behind one that closes, without a comma between them.
        let is_last = loop {
            read_line(&mut input, &mut text, &mut at)?;
            if text.len() > EXPORT_MAX {
                let what = format!(
                    "an export has more than {EXPORT_MAX} bytes; write one a line (the collector's file exporter does)"
                );
                return Err(ReadError::wrong(begin, what));
            }
            let next = pass_blanks(&mut input, &mut at)?;
            if next.is_none() || next == Some(b'{') && text.trim_ascii_end().ends_with(b"}") {
                break next.is_none();
            }
        };
        if text.is_empty() {
            return Ok(counts.told());
        }
        let mut json = Json::new(&text);
        let outcome = export(&mut json, &mut counts, &mut take).and_then(|()| json.end());
        outcome.map_err(|fault| match fault {
            Fault::Cut => ReadError::Cut { at: begin, within: "an export" },
            Fault::Wrong(place, what) => {
                ReadError::wrong(begin + place as u64, format!("an export is none of OTLP's: {what}"))
            }
        })?;
        if is_last {
            return Ok(counts.told());
        }
    }
}

/// What is there to be read, at least a byte; none at the end.
fn chunk(input: &mut impl BufRead, at: u64) -> Result<&[u8], ReadError> {
    loop {
        match input.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(ReadError::Io { at, source }),
            Ok(_) => break,
        }
    }
    input.fill_buf().map_err(|source| ReadError::Io { at, source })
}

/// Appends a line to a text, or the part of it that makes the text too long.
fn read_line(input: &mut impl BufRead, text: &mut Vec<u8>, at: &mut u64) -> Result<(), ReadError> {
    while text.len() <= EXPORT_MAX {
        let chunk = chunk(input, *at)?;
        let end = memchr::memchr(b'\n', chunk).map(|found| found + 1);
        let line = &chunk[..end.unwrap_or(chunk.len())];
        text.extend_from_slice(line);
        let (used, is_whole) = (line.len(), end.is_some() || chunk.is_empty());
        input.consume(used);
        *at += used as u64;
        if is_whole {
            break;
        }
    }
    Ok(())
}

/// The next byte that is no blank, which stays; none at the end.
fn pass_blanks(input: &mut impl BufRead, at: &mut u64) -> Result<Option<u8>, ReadError> {
    loop {
        let chunk = chunk(input, *at)?;
        let blanks = chunk.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (next, is_end) = (chunk.get(blanks).copied(), chunk.is_empty());
        input.consume(blanks);
        *at += blanks as u64;
        if next.is_some() || is_end {
            return Ok(next);
        }
    }
}

fn export(json: &mut Json<'_>, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
    json.object(|json, name| match name {
        b"resourceSpans" | b"resource_spans" => json.array(|json| resource_spans(json, counts, take)),
        _ => json.skip(),
    })
}

fn resource_spans(json: &mut Json<'_>, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
    json.object(|json, name| match name {
        b"resource" if counts.host.is_none() => json.object(|json, name| match name {
            b"attributes" => json.array(|json| host(json, counts)),
            _ => json.skip(),
        }),
        // The last name is that of exporters before 2022.
        b"scopeSpans" | b"scope_spans" | b"instrumentationLibrarySpans" => json.array(|json| {
            json.object(|json, name| match name {
                b"spans" => json.array(|json| span(json, counts, take)),
                _ => json.skip(),
            })
        }),
        _ => json.skip(),
    })
}

fn host(json: &mut Json<'_>, counts: &mut Counts) -> Result<(), Fault> {
    let (key, value) = attribute(json)?;
    if let (Some(key), Some(text)) = (key, value.text)
        && counts.host.is_none()
        && key.plain() == HOST_KEY.as_bytes()
    {
        counts.host = Some(text.text()?.into_owned());
    }
    Ok(())
}

/// An attribute's value, as far as it is a text or a whole number.
#[derive(Debug, Default, Clone, Copy)]
struct Value<'a> {
    text: Option<Text<'a>>,
    number: Option<u64>,
}

fn attribute<'a>(json: &mut Json<'a>) -> Result<(Option<Text<'a>>, Value<'a>), Fault> {
    let (mut key, mut value) = (None, Value::default());
    json.object(|json, name| match name {
        b"key" => json.text().map(|text| key = text),
        b"value" => json.object(|json, name| match name {
            b"stringValue" | b"string_value" => json.text().map(|text| value.text = text),
            b"intValue" | b"int_value" => json.scalar().map(|digits| value.number = digits.and_then(whole)),
            _ => json.skip(),
        }),
        _ => json.skip(),
    })?;
    Ok((key, value))
}

fn span(json: &mut Json<'_>, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) -> Result<(), Fault> {
    let (mut called, mut is_told, mut told) = (Cow::Borrowed(""), false, Span::default());
    json.object(|json, name| {
        match name {
            b"name" => called = json.text()?.map_or(Ok(Cow::Borrowed("")), Text::text)?,
            b"kind" => told.kind = json.scalar()?.and_then(kind).unwrap_or(0),
            b"parentSpanId" | b"parent_span_id" => {
                told.has_parent = json.text()?.is_some_and(|parent| !parent.is_empty());
            }
            b"startTimeUnixNano" | b"start_time_unix_nano" => told.begun_ns = json.scalar()?.and_then(whole),
            b"endTimeUnixNano" | b"end_time_unix_nano" => told.ended_ns = json.scalar()?.and_then(whole),
            b"attributes" => json.array(|json| {
                let (key, value) = attribute(json)?;
                let key = key.map_or(&[][..], Text::plain);
                if !is_told && STATUS_KEYS.iter().any(|known| known.as_bytes() == key) {
                    let number = value.number.or_else(|| whole(value.text?.plain()));
                    (is_told, told.status) = (true, number.and_then(|number| u16::try_from(number).ok()));
                }
                Ok(())
            })?,
            b"status" => json.object(|json, name| match name {
                b"code" => json.scalar().map(|code| told.has_failed = code.and_then(kind) == Some(STATUS_ERROR)),
                _ => json.skip(),
            })?,
            _ => json.skip()?,
        }
        Ok(())
    })?;
    Span { name: &called, ..told }.tell(counts, take);
    Ok(())
}

/// A whole number, or the name of a kind or a state.
fn kind(text: &[u8]) -> Option<u64> {
    match text {
        b"SPAN_KIND_SERVER" => Some(KIND_SERVER),
        b"SPAN_KIND_CONSUMER" => Some(KIND_CONSUMER),
        b"STATUS_CODE_ERROR" => Some(STATUS_ERROR),
        digits => whole(digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::What;

    /// The names of the requests that a text tells, and its end.
    fn told(text: &str) -> (Vec<String>, Result<Counts, ReadError>) {
        let mut names = Vec::new();
        let outcome = read_otlp_json(text.as_bytes(), |event| {
            if let What::Request(request) = event.what {
                names.push(request.name.to_owned());
            }
        });
        (names, outcome)
    }

    fn export(name: &str, between: &str) -> String {
        let span = format!(r#"{{"name":"{name}","startTimeUnixNano":"5","endTimeUnixNano":"9"}}"#);
        format!(r#"{{{between}"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]{between}}}]{between}}}"#)
    }

    #[test]
    fn an_export_ends_where_the_next_begins_however_it_is_laid_out() {
        for between in ["", "\n", "\n  ", "\r\n\r\n"] {
            let text = [export("a", between), "\n\n".to_owned(), export("b", between), "\n \n".to_owned()].concat();
            let (names, outcome) = told(&text);
            assert_eq!((&names[..], outcome.is_ok()), (&["a".to_owned(), "b".to_owned()][..], true), "{text}");
        }
        assert_eq!(told(&export("caf\\u00e9", "")).0, ["café"]);
        assert_eq!(told(" \n").0.len(), 0);
    }

    #[test]
    fn what_is_damaged_is_told_with_its_byte() {
        let first = export("a", "") + "\n";
        let (names, outcome) = told(&[&first, r#"{"resourceSpans":[{"scopeSpans":5}]}"#].concat());
        let error = outcome.expect_err("5 is no array").to_string();
        let byte = first.len() + r#"{"resourceSpans":[{"scopeSpans":"#.len();
        assert!(names == ["a"] && error.starts_with(&format!("byte {byte}: ")), "{names:?} {error}");
        let cut = export("a", "");
        let error = told(&cut[..cut.len() - 1]).1.expect_err("it is cut").to_string();
        assert!(error.contains("ends within an export"), "{error}");
    }
}
