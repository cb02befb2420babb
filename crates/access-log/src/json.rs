//! A line that is an object of JSON, as `weir serve`, Caddy, Traefik, Envoy, and nginx and Apache by their formats write
//! them, or as Docker, journald and what gathers logs put a line into one.
//!
//! There is no standard: each field is looked for by the names that are in use ([`fields`]).

mod fields;
mod time;

use crate::entry::{checked_method, checked_target, request_line};
use crate::escape::{self, Escapes};
use crate::{Entry, Reason};
use fields::Fields;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// How many objects may hold the line of a server, one within the other.
const LAYERS_MAX: u32 = 3;
/// What is asked for, as the client wrote it.
const AS_ASKED: &[&str] =
    &["request_uri", "RequestPath", "ClientRequestURI", "requestUrl", "url.original", "original_uri", "cs-uri"];
/// The whole first line.
const REQUEST_LINE: &[&str] = &["request", "request_line", "requestLine", "http_request"];
/// What may be the path after rewriting, or without its query.
const PATH: &[&str] =
    &["target", "uri", "url", "http.target", "http.url", "url.path", "url.full", "cs-uri-stem", "request_path", "path"];
/// The query beside a path.
const QUERY: &[&str] = &["args", "query_string", "url.query", "cs-uri-query", "query"];
const METHOD: &[&str] = &[
    "request_method",
    "method",
    "RequestMethod",
    "requestMethod",
    "ClientRequestMethod",
    "http.request.method",
    "http_method",
    "httpMethod",
    "http.method",
    "cs-method",
    "verb",
];
const STATUS: &[&str] = &[
    "status",
    "DownstreamStatus",
    "EdgeResponseStatus",
    "http.response.status_code",
    "status_code",
    "statusCode",
    "response_code",
    "responseCode",
    "sc-status",
    "http_status",
    "response",
    "code",
    "OriginStatus",
];
const BYTES: &[&str] = &[
    "body_bytes_sent",
    "bytes",
    "size",
    "DownstreamContentSize",
    "EdgeResponseBytes",
    "http.response.body.bytes",
    "response_size",
    "responseSize",
    "responseLength",
    "bytes_sent",
    "bytesSent",
    "sc-content-len",
    "sc-bytes",
    "http.response.bytes",
    "length",
];
/// The header that tells of which whole a response was a part.
const RANGE: &[&str] =
    &["sent_http_content_range", "content_range", "resp_headers.Content-Range", "downstream_Content-Range"];
/// Where the line of a server stands that something else put into an object.
const LINE: &[&str] = &["log", "message", "MESSAGE", "msg", "line", "textPayload", "event.original", "_raw"];

pub(crate) fn parse(line: &[u8], layer: u32) -> Result<Entry<'static>, Reason> {
    let (object, escapes) = object(line)?;
    let fields = Fields::of(&object);
    let (method, target) = match request(&fields, escapes) {
        Err(Reason::JsonRequest) if layer < LAYERS_MAX => return within(&fields, layer),
        request => request?,
    };
    let (logged, took_ns) = time::of(&fields).ok_or(Reason::JsonTime)?;
    let mut entry = Entry::new(logged, took_ns, ("", target));
    entry.method = Cow::Owned(method);
    let status = fields.number(STATUS);
    entry.status = status.and_then(|status| u16::try_from(status).ok()).filter(|status| (100..=599).contains(status));
    entry.bytes = fields.number(BYTES);
    entry.is_size_unread = entry.bytes.is_none() && !fields.is_none(BYTES);
    entry.whole_bytes = fields.text(RANGE).and_then(|range| range.rsplit_once('/')?.1.parse().ok());
    Ok(entry)
}

/// The object, and which escapes its texts have still.
fn object(line: &[u8]) -> Result<(Map<String, Value>, Escapes), Reason> {
    // A line of a list.
    let line = line.trim_ascii_end();
    let line = line.strip_suffix(b",").or_else(|| line.strip_suffix(b"]")).unwrap_or(line);
    let mut refused = match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => return Ok((object, Escapes::None)),
        Ok(_) => return Err(Reason::NotJson),
        Err(error) => error,
    };
    // nginx without `escape=json` writes \xHH, and with it bytes that are no UTF-8.
    let text = String::from_utf8(line.to_vec()).unwrap_or_else(|_| escape::with_escapes(line));
    if text.contains("\\x") {
        match serde_json::from_str(&text.replace("\\x", "\\\\x")) {
            Ok(Value::Object(object)) => return Ok((object, Escapes::Backslash)),
            Ok(_) => return Err(Reason::NotJson),
            Err(error) => refused = error,
        }
    }
    Err(match text.trim() {
        "{" => Reason::JsonOverLines,
        _ if refused.to_string().starts_with("trailing characters") => Reason::JsonSeveral,
        _ => Reason::NotJson,
    })
}

/// Method and target.
fn request(fields: &Fields<'_>, escapes: Escapes) -> Result<(String, Cow<'static, str>), Reason> {
    let owned = |target: Cow<'_, str>| Cow::Owned(target.into_owned());
    let text = fields.text(REQUEST_LINE);
    // Logstash calls the path `request`.
    let (as_path, as_line) = match text {
        Some(text) if text.starts_with('/') && !text.contains(' ') => (Some(text), None),
        text => (None, text),
    };
    let from_line = as_line.map(|text| request_line(text, escapes));
    let method = fields.text(METHOD).map(str::to_owned);
    if method.as_deref() == Some("CONNECT") {
        return Err(Reason::Tunnel);
    }
    let as_asked = fields.text(AS_ASKED).or(as_path);
    let (method, target) = match (method, as_asked, from_line) {
        (Some(method), Some(target), _) => (method, owned(checked_target(target, escapes)?)),
        (None, Some(target), Some(Ok((method, _)))) => (method.to_owned(), owned(checked_target(target, escapes)?)),
        (_, _, Some(Ok((method, target)))) => (method.to_owned(), owned(target)),
        (method, _, from_line) => match (method, fields.text(PATH), from_line) {
            (Some(method), Some(path), _) => {
                let path = checked_target(path, escapes)?;
                let query = fields.text(QUERY).filter(|_| !path.contains('?'));
                let query = query.map(|query| escape::target(query.trim_start_matches('?'), escapes));
                (method, Cow::Owned(query.map_or_else(|| path.to_string(), |query| format!("{path}?{query}"))))
            }
            (_, _, Some(Err(reason))) => return Err(reason),
            // An empty request is written as such.
            _ if fields.is_none(REQUEST_LINE) || fields.is_none(METHOD) => return Err(Reason::NoRequest),
            _ => return Err(Reason::JsonRequest),
        },
    };
    // The Elastic Common Schema once had methods in lower case.
    let method = if method.bytes().all(|byte| byte.is_ascii_lowercase()) { method.to_uppercase() } else { method };
    Ok((checked_method(&method)?.to_owned(), target))
}

/// The line that an object holds as a text.
fn within(fields: &Fields<'_>, layer: u32) -> Result<Entry<'static>, Reason> {
    let mut refused = Reason::JsonRequest;
    for line in LINE.iter().filter_map(|name| fields.text(&[name])) {
        let line = line.trim();
        let said = if line.starts_with('{') {
            parse(line.as_bytes(), layer + 1)
        } else {
            crate::text::parse(line).map(Entry::into_owned)
        };
        match said {
            Ok(entry) => return Ok(entry),
            // A message of the server itself.
            Err(Reason::Form) => {}
            Err(reason) => refused = reason,
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests;
