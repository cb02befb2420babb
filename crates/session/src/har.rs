//! The HTTP Archive format, HAR 1.2: read as browsers and proxies write it, and written.

use crate::content::{base64, from_base64};
use crate::recording::{Answered, Asked, Body, Entry, Recording, header, read_time, written_time};
use serde::Deserialize;
use serde_json::{Value, json};

/// Why a file is no archive.
#[derive(Debug, thiserror::Error)]
pub enum HarError {
    /// It is no JSON, or not of this form.
    #[error("it is not an HTTP Archive (HAR 1.2): {0}")]
    Form(#[from] serde_json::Error),
    /// An entry has a time that is none.
    #[error("entry {entry}: startedDateTime is `{text}`, not a time such as 2026-11-21T18:00:00.000Z")]
    Time {
        /// The entry, from 1.
        entry: usize,
        /// What it has.
        text: String,
    },
}

#[derive(Deserialize)]
struct RawHar {
    log: RawLog,
}

#[derive(Deserialize)]
struct RawLog {
    entries: Vec<RawEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry {
    started_date_time: String,
    #[serde(default)]
    time: Option<f64>,
    pageref: Option<String>,
    request: RawRequest,
    response: Option<RawResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<RawPair>,
    post_data: Option<RawPostData>,
    body_size: Option<i64>,
}

#[derive(Deserialize)]
struct RawPair {
    name: String,
    #[serde(default)]
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPostData {
    #[serde(default)]
    mime_type: String,
    text: Option<String>,
    encoding: Option<String>,
    #[serde(default)]
    params: Vec<RawPair>,
    comment: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawResponse {
    status: i64,
    #[serde(default)]
    headers: Vec<RawPair>,
    #[serde(default)]
    content: RawContent,
    #[serde(default, rename = "redirectURL")]
    redirect_url: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawContent {
    size: Option<i64>,
    #[serde(default)]
    mime_type: String,
    text: Option<String>,
    encoding: Option<String>,
    comment: Option<String>,
}

/// Reads an archive; entries are put in the order of their times.
///
/// # Errors
/// What is not of the form.
pub fn read(text: &str) -> Result<Recording, HarError> {
    // Some tools write a byte order mark.
    let har: RawHar = serde_json::from_str(text.trim_start_matches('\u{feff}'))?;
    let mut entries = Vec::with_capacity(har.log.entries.len());
    for (index, raw) in har.log.entries.into_iter().enumerate() {
        let started_us = read_time(&raw.started_date_time)
            .ok_or(HarError::Time { entry: index + 1, text: raw.started_date_time })?;
        let seconds = raw.time.filter(|time| time.is_finite() && *time > 0.0).unwrap_or(0.0) / 1000.0;
        entries.push(Entry {
            started_us,
            seconds,
            page: raw.pageref,
            request: request(raw.request),
            response: raw.response.and_then(response),
        });
    }
    // Stable: what began in one microsecond stays in the order of the file.
    entries.sort_by_key(|entry| entry.started_us);
    Ok(Recording { entries })
}

fn pairs(raw: Vec<RawPair>) -> Vec<(String, String)> {
    // HTTP/2's own fields, which browsers tell among the others.
    let named = raw.into_iter().filter(|pair| !pair.name.starts_with(':'));
    named.map(|pair| (pair.name, pair.value.unwrap_or_default())).collect()
}

fn bytes(text: Option<String>, encoding: Option<&str>) -> Option<Vec<u8>> {
    let text = text?;
    match encoding {
        Some(encoding) if encoding.eq_ignore_ascii_case("base64") => from_base64(&text),
        _ => Some(text.into_bytes()),
    }
}

fn request(raw: RawRequest) -> Asked {
    let told = raw.body_size.and_then(|size| u64::try_from(size).ok());
    let body = raw.post_data.map(|data| {
        let bytes = bytes(data.text, data.encoding.as_deref()).or_else(|| {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            for RawPair { name, value } in &data.params {
                form.append_pair(name, value.as_deref().unwrap_or_default());
            }
            (!data.params.is_empty()).then(|| form.finish().into_bytes())
        });
        let size = bytes.as_ref().map_or(told.unwrap_or(0), |bytes| bytes.len() as u64);
        Body { kind: data.mime_type, size, bytes, note: data.comment }
    });
    Asked { method: raw.method.to_ascii_uppercase(), url: raw.url, headers: pairs(raw.headers), body }
}

fn response(raw: RawResponse) -> Option<Answered> {
    // Browsers write 0 (or -1) where nothing came.
    let status = u16::try_from(raw.status).ok().filter(|status| (100..1000).contains(status))?;
    let mut headers = pairs(raw.headers);
    if header(&headers, "location").is_none() && !raw.redirect_url.is_empty() {
        headers.push(("Location".to_owned(), raw.redirect_url));
    }
    let content = raw.content;
    let bytes = bytes(content.text, content.encoding.as_deref());
    let told = content.size.and_then(|size| u64::try_from(size).ok());
    let size = told.unwrap_or_else(|| bytes.as_ref().map_or(0, |bytes| bytes.len() as u64));
    Some(Answered { status, headers, body: Body { kind: content.mime_type, size, bytes, note: content.comment } })
}

/// Writes an archive.
#[must_use]
pub fn write(recording: &Recording) -> String {
    let mut pages: Vec<Value> = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for entry in &recording.entries {
        if let Some(page) = entry.page.as_deref().filter(|page| !known.contains(page)) {
            known.push(page);
            pages.push(json!({
                "startedDateTime": written_time(entry.started_us), "id": page, "title": entry.request.url,
                "pageTimings": {}
            }));
        }
    }
    let entries: Vec<Value> = recording.entries.iter().map(written_entry).collect();
    let creator = json!({"name": "weir", "version": env!("CARGO_PKG_VERSION")});
    let har = json!({"log": {"version": "1.2", "creator": creator, "pages": pages, "entries": entries}});
    let mut text = serde_json::to_string_pretty(&har).unwrap_or_else(|error| unreachable!("plain data: {error}"));
    text.push('\n');
    text
}

fn written_pairs(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn written_cookies(headers: &[(String, String)], name: &str) -> Value {
    let fields = headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
    let pairs = fields.flat_map(|(_, field)| {
        let whole =
            if name == "cookie" { field.split(';').collect() } else { vec![field.split(';').next().unwrap_or("")] };
        whole.into_iter().filter_map(|pair| pair.split_once('='))
    });
    pairs.map(|(name, value)| json!({"name": name.trim(), "value": value.trim()})).collect()
}

/// Text as it stands, other bytes as base64.
fn put_text(target: &mut Value, body: &Body) {
    if let Some(bytes) = &body.bytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => target["text"] = json!(text),
            Err(_) => {
                target["text"] = json!(base64(bytes));
                target["encoding"] = json!("base64");
            }
        }
    }
    if let Some(note) = &body.note {
        target["comment"] = json!(note);
    }
}

fn written_entry(entry: &Entry) -> Value {
    let (asked, milliseconds) = (&entry.request, entry.seconds * 1000.0);
    let query: Vec<(String, String)> =
        url::Url::parse(&asked.url).map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default();
    let mut request = json!({
        "method": asked.method, "url": asked.url, "httpVersion": "HTTP/1.1",
        "cookies": written_cookies(&asked.headers, "cookie"), "headers": written_pairs(&asked.headers),
        "queryString": written_pairs(&query), "headersSize": -1,
        "bodySize": asked.body.as_ref().map_or(0, |body| body.size)
    });
    if let Some(body) = &asked.body {
        request["postData"] = json!({"mimeType": body.kind});
        put_text(&mut request["postData"], body);
    }
    let mut response = match &entry.response {
        Some(answered) => {
            let mut content = json!({"size": answered.body.size, "mimeType": answered.body.kind});
            put_text(&mut content, &answered.body);
            let status = ureq::http::StatusCode::from_u16(answered.status).ok();
            json!({
                "status": answered.status, "statusText": status.and_then(|s| s.canonical_reason()).unwrap_or_default(),
                "httpVersion": "HTTP/1.1", "cookies": written_cookies(&answered.headers, "set-cookie"),
                "headers": written_pairs(&answered.headers), "content": content,
                "redirectURL": header(&answered.headers, "location").unwrap_or_default(), "headersSize": -1
            })
        }
        None => json!({
            "status": 0, "statusText": "", "httpVersion": "", "cookies": [], "headers": [],
            "content": {"size": 0, "mimeType": ""}, "redirectURL": "", "headersSize": -1
        }),
    };
    response["bodySize"] = json!(entry.response.as_ref().map_or(0, |answered| answered.body.size));
    let mut written = json!({
        "startedDateTime": written_time(entry.started_us), "time": milliseconds, "request": request,
        "response": response, "cache": {}, "timings": {"send": 0, "wait": milliseconds, "receive": 0}
    });
    if let Some(page) = &entry.page {
        written["pageref"] = json!(page);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_archive_of_a_browser_is_read() {
        let text = r#"{"log": {"version": "1.2", "creator": {"name": "WebInspector", "version": "537.36"}, "pages": [],
          "entries": [
            {"startedDateTime": "2026-11-21T18:00:01.250Z", "time": 12.5, "pageref": "page_1", "_initiator": {},
             "request": {"method": "post", "url": "https://a.example/go?x=1", "httpVersion": "http/2.0",
               "headers": [{"name": ":authority", "value": "a.example"}, {"name": "accept", "value": "*/*"}],
               "queryString": [], "cookies": [], "headersSize": -1, "bodySize": 7,
               "postData": {"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "a", "value": "b c"}]}},
             "response": {"status": 302, "statusText": "", "headers": [], "cookies": [], "redirectURL": "/there",
               "content": {"size": 3, "mimeType": "image/png", "text": "AAEC", "encoding": "base64"}}},
            {"startedDateTime": "2026-11-21T18:00:01Z", "time": -1,
             "request": {"method": "GET", "url": "https://b.example/"}, "response": {"status": 0}}]}}"#;
        let read = read(text).unwrap();
        assert_eq!(read.entries[0].request.url, "https://b.example/");
        assert!(read.entries[0].response.is_none() && read.entries[0].seconds == 0.0);
        let second = &read.entries[1];
        assert_eq!(second.request.headers, [("accept".to_owned(), "*/*".to_owned())]);
        assert_eq!(second.request.body.as_ref().and_then(|body| body.bytes.as_deref()), Some(&b"a=b+c"[..]));
        assert_eq!(second.redirect().map(String::from).as_deref(), Some("https://a.example/there"));
        let body = second.response.as_ref().map(|response| &response.body);
        assert_eq!(body.and_then(|body| body.bytes.as_deref()), Some(&[0, 1, 2][..]));
        assert_eq!(second.ended_us() - second.started_us, 12_500);
    }

    #[test]
    fn what_is_no_archive_says_so() {
        assert!(read("[]").unwrap_err().to_string().contains("HAR 1.2"));
        let text = r#"{"log": {"entries": [{"startedDateTime": "today", "request": {"method": "GET", "url": "x"}}]}}"#;
        assert!(read(text).unwrap_err().to_string().contains("entry 1"));
    }

    fn bodies() -> impl Strategy<Value = Body> {
        let kept = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20));
        (kept, "[a-z/]{0,8}", proptest::option::of("[a-z ]{1,8}")).prop_map(|(bytes, kind, note)| {
            let size = bytes.as_ref().map_or(7, |bytes| bytes.len() as u64);
            Body { kind, size, bytes, note }
        })
    }

    fn headers() -> impl Strategy<Value = Vec<(String, String)>> {
        proptest::collection::vec(("[a-kA-K]{1,6}", "[ -~]{0,10}"), 0..3)
    }

    prop_compose! {
        fn entries()(
            started_us in 0..2_000_000_000_000_000_i64, milliseconds in 1..100_000_u32, page in proptest::option::of("[a-z]{1,3}"),
            headers in headers(), sent in proptest::option::of(bodies()), body in bodies(), answered in headers(),
            responded in any::<bool>(), status in 100_u16..600
        ) -> Entry {
            let request = Asked { method: "POST".to_owned(), url: "http://a/?b=c".to_owned(), headers, body: sent };
            let response = responded.then_some(Answered { status, headers: answered, body });
            Entry { started_us, seconds: f64::from(milliseconds) / 1000.0, page, request, response }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(mut entries in proptest::collection::vec(entries(), 0..4)) {
            entries.sort_by_key(|entry| entry.started_us);
            let recording = Recording { entries };
            let again = read(&write(&recording)).unwrap();
            prop_assert_eq!(again.entries.len(), recording.entries.len());
            for (again, entry) in again.entries.iter().zip(&recording.entries) {
                prop_assert!((again.seconds - entry.seconds).abs() < 1e-9);
                prop_assert_eq!(&Entry { seconds: entry.seconds, ..again.clone() }, entry);
            }
        }
    }
}
