//! One entry of an archive: only what is needed to ask again must be there, in the forms that tools write it.

use super::body;
use super::value::{number, size, text};
use crate::recording::{Answered, Asked, Body, Entry, header, read_time};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;

/// An entry as it stands in the file; keys that nothing here needs are skipped, however deep they are.
#[derive(Debug, Default)]
pub(super) struct RawEntry {
    /// Whether it is an object at all.
    is_object: bool,
    started: Value,
    time: Value,
    page: Value,
    request: Value,
    response: Value,
}

impl<'de> Deserialize<'de> for RawEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawEntryVisitor)
    }
}

struct RawEntryVisitor;

/// What is no object is read, too, so that the entries behind it can be.
impl<'de> Visitor<'de> for RawEntryVisitor {
    type Value = RawEntry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an entry")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawEntry, A::Error> {
        let mut entry = RawEntry { is_object: true, ..RawEntry::default() };
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "startedDateTime" => entry.started = map.next_value()?,
                "time" => entry.time = map.next_value()?,
                "pageref" => entry.page = map.next_value()?,
                "request" => entry.request = map.next_value()?,
                "response" => entry.response = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(entry)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<RawEntry, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(RawEntry::default())
    }

    fn visit_unit<E>(self) -> Result<RawEntry, E> {
        Ok(RawEntry::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<RawEntry, E> {
        Ok(RawEntry::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<RawEntry, E> {
        Ok(RawEntry::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<RawEntry, E> {
        Ok(RawEntry::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<RawEntry, E> {
        Ok(RawEntry::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<RawEntry, E> {
        Ok(RawEntry::default())
    }
}

/// What an entry lacks, so that it cannot be asked again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum EntryError {
    /// It is a list, a text or a number.
    #[error("it is no object")]
    NoObject,
    /// Its time is no time.
    #[error("startedDateTime is {0}, not a time such as 2026-11-21T18:00:00.000Z")]
    Time(Value),
    /// There is no request in it.
    #[error("it has no request")]
    NoRequest,
    /// The request does not say its method.
    #[error("its request has no method")]
    NoMethod,
    /// The request does not say its address.
    #[error("its request has no url")]
    NoUrl,
}

impl RawEntry {
    /// The entry; `before_us` is the time of the one before it in the file, which serves where it has none.
    ///
    /// # Errors
    /// [`EntryError`] says what it lacks.
    pub(super) fn read(self, before_us: i64) -> Result<Entry, EntryError> {
        if !self.is_object {
            return Err(EntryError::NoObject);
        }
        let started_us = match &self.started {
            Value::Null => before_us,
            started => {
                text(started).and_then(|text| read_time(&text)).ok_or_else(|| EntryError::Time(started.clone()))?
            }
        };
        let seconds = number(&self.time).filter(|time| *time > 0.0).unwrap_or(0.0) / 1000.0;
        Ok(Entry {
            started_us,
            seconds,
            page: text(&self.page),
            request: request(&self.request)?,
            response: response(&self.response),
        })
    }
}

/// Names and values: a list of objects, or one object as some tools write it.
fn pairs(value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Array(list) => list
            .iter()
            .filter_map(|pair| Some((text(&pair["name"])?, text(&pair["value"]).unwrap_or_default())))
            .collect(),
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), text(value).unwrap_or_default())).collect(),
        _ => Vec::new(),
    }
}

/// Header fields. Browsers write the lines of one name as one value with line ends in it; each is a field here.
fn fields(value: &Value) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    // The pseudo header fields of HTTP/2 (RFC 9113 8.3) are no fields of the request: the address says the same.
    for (name, value) in pairs(value).into_iter().filter(|(name, _)| !name.starts_with(':')) {
        let before = fields.len();
        for line in value.split(['\r', '\n']).filter(|line| !line.trim().is_empty()) {
            match fields[before..].last_mut() {
                // A line that begins with a blank goes on with the one before it (RFC 9112 5.2).
                Some((_, whole)) if line.starts_with([' ', '\t']) => {
                    whole.push(' ');
                    whole.push_str(line.trim());
                }
                _ if value.contains(['\r', '\n']) => fields.push((name.clone(), line.trim().to_owned())),
                _ => fields.push((name.clone(), line.to_owned())),
            }
        }
        if fields.len() == before {
            fields.push((name, value.replace(['\r', '\n'], "")));
        }
    }
    fields
}

/// What has no line ends, as a field has none.
fn in_one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn request(raw: &Value) -> Result<Asked, EntryError> {
    if !raw.is_object() {
        return Err(EntryError::NoRequest);
    }
    let method = text(&raw["method"]).filter(|method| !method.is_empty()).ok_or(EntryError::NoMethod)?;
    let url = text(&raw["url"]).filter(|url| !url.is_empty()).ok_or(EntryError::NoUrl)?;
    let mut headers = fields(&raw["headers"]);
    // Some tools tell cookies and the query beside the field and the address only.
    let cookies = pairs(&raw["cookies"]);
    if header(&headers, "cookie").is_none() && !cookies.is_empty() {
        let cookies: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        headers.push(("Cookie".to_owned(), in_one_line(&cookies.join("; "))));
    }
    let url = with_query(url, &pairs(&raw["queryString"]));
    let body = body::body(raw, &headers);
    Ok(Asked { method: method.to_ascii_uppercase(), url, headers, body })
}

/// The address with the query, if it has none of its own.
fn with_query(url: String, query: &[(String, String)]) -> String {
    if query.is_empty() || url.contains(['?', '#']) {
        return url;
    }
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    format!("{url}?{query}")
}

fn response(raw: &Value) -> Option<Answered> {
    // Browsers write 0 (or -1) where nothing came.
    let status = number(&raw["status"]).filter(|status| (100.0..1000.0).contains(status))? as u16;
    let mut headers = Vec::new();
    for (name, value) in fields(&raw["headers"]) {
        if name.eq_ignore_ascii_case("set-cookie") {
            headers.extend(cookies(&value).into_iter().map(|cookie| (name.clone(), cookie.to_owned())));
        } else {
            headers.push((name, value));
        }
    }
    if header(&headers, "set-cookie").is_none() {
        for (name, value) in pairs(&raw["cookies"]) {
            let set = in_one_line(&format!("{name}={value}"));
            headers.extend(cookies(&set).into_iter().map(|cookie| ("Set-Cookie".to_owned(), cookie.to_owned())));
        }
    }
    let redirect = text(&raw["redirectURL"]).filter(|address| !address.is_empty());
    if let (None, Some(address)) = (header(&headers, "location"), redirect) {
        headers.push(("Location".to_owned(), in_one_line(&address)));
    }
    let content = &raw["content"];
    let bytes = body::bytes(content).ok().flatten();
    let size = size(&content["size"]).unwrap_or_else(|| bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
    let kind = text(&content["mimeType"]).unwrap_or_default();
    Some(Answered { status, headers, body: Body { kind, size, bytes, note: text(&content["comment"]) } })
}

/// Cookies that a tool has put together with commas, each on its own.
///
/// A new one begins where a comma and a blank are followed by a token and `=`; the comma within a date is not.
fn cookies(value: &str) -> Vec<&str> {
    let token = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter);
    let (mut found, mut begin) = (Vec::new(), 0);
    for (at, _) in value.match_indices(", ") {
        let next = value[at + 1..].trim_start();
        let name = next.split('=').next().unwrap_or_default();
        if next.contains('=') && !name.is_empty() && name.chars().all(token) {
            found.push(value[begin..at].trim());
            begin = value.len() - next.len();
        }
    }
    found.push(&value[begin..]);
    found
}
