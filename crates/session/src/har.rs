//! The HTTP Archive format, HAR 1.2: read as browsers and proxies write it, and written.

mod body;
mod entry;
mod value;

use crate::content::base64;
use crate::recording::{Body, Entry, Recording, header, written_time};
use entry::RawEntry;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;

/// Why a file is no archive.
#[derive(Debug, thiserror::Error)]
pub enum HarError {
    /// It is no JSON, or not of this form.
    #[error("it is not an HTTP Archive (HAR 1.2): {0}")]
    Form(serde_json::Error),
    /// It has no list of entries.
    #[error("it is not an HTTP Archive (HAR 1.2): there is no list log.entries in it")]
    NoEntries,
    /// It ends before its end.
    #[error("it is cut off {} entry {entry} ({cause}); save or record it again", if *.is_within { "within" } else { "behind" })]
    Cut {
        /// The entry, from 1.
        entry: usize,
        /// Whether it ends within that entry, or behind it.
        is_within: bool,
        /// Where it ends.
        cause: serde_json::Error,
    },
    /// An entry is no JSON.
    #[error("entry {entry} is no JSON ({cause}); save or record it again")]
    Json {
        /// The entry, from 1.
        entry: usize,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
}

/// An archive that was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Archive {
    /// The entries that could be read, in the order of their times.
    pub recording: Recording,
    /// The entries that could not.
    pub unread: Vec<Unread>,
    /// Halves of surrogate pairs, which are no text; each is read as U+FFFD.
    pub replaced: usize,
}

/// An entry that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Its number in the file, from 1.
    pub entry: usize,
    /// What it lacks.
    pub why: String,
}

/// Reads an archive. An entry that cannot be read is told in [`Archive::unread`] and keeps no other from being read.
///
/// # Errors
/// A text that is no archive, or is cut off.
pub fn read(text: &str) -> Result<Archive, HarError> {
    // Some tools write a byte order mark.
    let (text, replaced) = whole_letters(text.trim_start_matches('\u{feff}'));
    let mut reader = Reader::default();
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let read = deserializer.deserialize_any(Log { reader: &mut reader, depth: 0 }).and_then(|()| deserializer.end());
    if let Err(cause) = read {
        return Err(match (reader.list, cause.classify()) {
            (EntryList::Open, Category::Eof) => HarError::Cut { entry: reader.count + 1, is_within: true, cause },
            (_, Category::Eof) if reader.count > 0 => HarError::Cut { entry: reader.count, is_within: false, cause },
            (EntryList::Open, Category::Syntax) => HarError::Json { entry: reader.count + 1, cause },
            _ => HarError::Form(cause),
        });
    }
    if reader.list == EntryList::Absent {
        return Err(HarError::NoEntries);
    }
    let Reader { mut entries, unread, .. } = reader;
    // Stable: what began in one microsecond stays in the order of the file.
    entries.sort_by_key(|entry| entry.started_us);
    Ok(Archive { recording: Recording { entries }, unread, replaced })
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    entries: Vec<Entry>,
    unread: Vec<Unread>,
    /// Entries of the file that were read to their end.
    count: usize,
    list: EntryList,
}

/// How far the list of entries was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EntryList {
    /// It was not met.
    #[default]
    Absent,
    /// It was begun.
    Open,
    /// It was read to its end, or is `null`.
    Ended,
}

impl Reader {
    fn add(&mut self, raw: RawEntry) {
        self.count += 1;
        let before_us = self.entries.last().map_or(0, |entry| entry.started_us);
        match raw.read(before_us) {
            Ok(entry) => self.entries.push(entry),
            Err(why) => self.unread.push(Unread { entry: self.count, why: why.to_string() }),
        }
    }
}

/// The way to the list of entries: the object, `log` in it, `entries` in that.
struct Log<'r> {
    reader: &'r mut Reader,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Log<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Log<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str(["an object with log", "log as an object with entries", "entries as a list"][self.depth.min(2)])
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let wanted = match self.depth {
            0 => "log",
            1 => "entries",
            _ => return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self)),
        };
        while let Some(key) = map.next_key::<String>()? {
            if key == wanted {
                map.next_value_seed(Log { reader: &mut *self.reader, depth: self.depth + 1 })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.depth < 2 {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        self.reader.list = EntryList::Open;
        while let Some(raw) = list.next_element()? {
            self.reader.add(raw);
        }
        self.reader.list = EntryList::Ended;
        Ok(())
    }

    // `null` where nothing was recorded.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if self.depth < 2 {
            return Err(E::invalid_type(serde::de::Unexpected::Unit, &self));
        }
        self.reader.list = EntryList::Ended;
        Ok(())
    }
}

/// The text with U+FFFD in the place of each half of a surrogate pair, which browsers write for content that is no
/// text, and how many there were.
fn whole_letters(text: &str) -> (Cow<'_, str>, usize) {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut copied, mut replaced, mut at) = (String::new(), 0, 0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                replaced += 1;
                at += 6;
                copied = at;
            }
            // The letter behind a backslash, which may be another one.
            _ => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    if replaced == 0 {
        return (Cow::Borrowed(text), 0);
    }
    out.push_str(&text[copied..]);
    (Cow::Owned(out), replaced)
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
    use crate::recording::{Answered, Asked};
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
        let read = read(text).unwrap().recording;
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
        for text in ["[]", "{}", "null", "{\"log\": {}}", "{\"log\": []}", "{\"log\": {\"entries\": {}}}", "x"] {
            assert!(read(text).unwrap_err().to_string().contains("HAR 1.2"), "{text}");
        }
        assert!(read(r#"{"log": {"entries": null}}"#).unwrap().recording.entries.is_empty());
    }

    /// An archive of these entries.
    fn archive(entries: &[&str]) -> String {
        format!(r#"{{"log": {{"entries": [{}]}}}}"#, entries.join(",\n"))
    }

    const GOOD: &str =
        r#"{"startedDateTime": "2026-11-21T18:00:01Z", "request": {"method": "GET", "url": "http://a/"}}"#;

    #[test]
    fn an_entry_that_cannot_be_read_is_named_and_the_others_are_read() {
        let bad = [
            (
                r#"{"startedDateTime": "today", "request": {"method": "GET", "url": "x"}}"#,
                "startedDateTime is \"today\"",
            ),
            (r#"{"startedDateTime": "2026-11-21T18:00:01Z"}"#, "no request"),
            (r#"{"request": {"url": "x"}}"#, "no method"),
            (r#"{"request": {"method": "GET", "url": null}}"#, "no url"),
            ("null", "no object"),
            ("[1, [2]]", "no object"),
            ("7.5", "no object"),
        ];
        for (entry, why) in bad {
            let read = read(&archive(&[GOOD, entry, GOOD])).expect(entry);
            assert_eq!(read.recording.entries.len(), 2, "{entry}");
            assert!(read.unread[0].entry == 2 && read.unread[0].why.contains(why), "{:?}", read.unread);
        }
    }

    #[test]
    fn a_file_that_is_cut_off_says_within_which_entry() {
        let whole = archive(&[GOOD, GOOD]);
        let error = read(&whole[..whole.len() - 20]).unwrap_err().to_string();
        assert!(error.starts_with("it is cut off within entry 2") && error.contains("line 2"), "{error}");
        let behind = read(&whole[..whole.len() - 1]).unwrap_err().to_string();
        assert!(behind.starts_with("it is cut off behind entry 2"), "{behind}");
        let broken = read(&archive(&[GOOD, "{x}"])).unwrap_err().to_string();
        assert!(broken.starts_with("entry 2 is no JSON"), "{broken}");
    }

    #[test]
    fn what_is_not_needed_may_be_null_or_of_another_form() {
        let text =
            archive(&[r#"{"startedDateTime": null, "time": "12.5", "pageref": null, "cache": null, "_initiator": 1,
            "request": {"method": "POST", "url": "http://a/", "httpVersion": null, "headers": {"X": 1}, "cookies": null,
              "queryString": null, "headersSize": null, "bodySize": 3.0,
              "postData": {"mimeType": null, "text": "a=1", "params": null, "comment": {}}},
            "response": {"status": 200.0, "headers": null, "content": null, "redirectURL": null, "bodySize": -1.0}}"#]);
        let entry = read(&text).unwrap().recording.entries.remove(0);
        assert_eq!((entry.seconds, entry.request.headers), (0.0125, vec![("X".to_owned(), "1".to_owned())]));
        assert_eq!(entry.request.body.and_then(|body| body.bytes).as_deref(), Some(&b"a=1"[..]));
        assert_eq!(entry.response.map(|response| response.status), Some(200));
        // What browsers tell of who began a request is deeper than any reader goes.
        let deep = format!(r#"{{"_initiator": {}0{}, {}"#, "[".repeat(500), "]".repeat(500), &GOOD[1..]);
        assert_eq!(read(&archive(&[&deep])).unwrap().recording.entries.len(), 1);
    }

    /// The body of a request with this `postData` and these header fields.
    fn body_of(data: &str, headers: &str) -> Option<Body> {
        let entry = format!(
            r#"{{"request": {{"method": "POST", "url": "http://a/", "headers": [{headers}], "postData": {data}}}}}"#
        );
        read(&archive(&[&entry])).unwrap().recording.entries.remove(0).request.body
    }

    #[test]
    fn a_body_is_what_its_content_type_announces() {
        let fields = r#"[{"name": "a", "value": "1"}, {"name": "b c", "value": null}]"#;
        let text = |body: Option<Body>| body.and_then(|body| String::from_utf8(body.bytes?).ok());
        let form = format!(r#"{{"mimeType": "application/x-www-form-urlencoded", "text": "", "params": {fields}}}"#);
        assert_eq!(text(body_of(&form, "")).as_deref(), Some("a=1&b+c="));
        let parts = format!(r#"{{"mimeType": "multipart/form-data; boundary=\"x y\"", "params": {fields}}}"#);
        let body = body_of(&parts, "").unwrap();
        assert_eq!(body.kind, "multipart/form-data; boundary=\"x y\"");
        assert!(
            text(Some(body)).unwrap().starts_with("--x y\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n")
        );
        // Nothing says how JSON holds parameters, what a file held, or what bytes that are no base64 were.
        for lost in [
            format!(r#"{{"mimeType": "application/json", "params": {fields}}}"#),
            r#"{"mimeType": "multipart/form-data; boundary=x", "params": [{"name": "f", "fileName": "a.txt"}]}"#
                .to_owned(),
            r#"{"mimeType": "image/png", "text": "???", "encoding": "base64"}"#.to_owned(),
        ] {
            let body = body_of(&lost, "").unwrap();
            assert!(body.bytes.is_none() && body.size > 0, "{lost}: {body:?}");
        }
        let cut = r#"{"mimeType": "multipart/form-data; boundary=x", "text": "--x\r\n"}"#;
        let body = body_of(cut, r#"{"name": "Content-Length", "value": "900"}"#).unwrap();
        assert_eq!((body.size, body.bytes), (900, None));
        let own = r#"{"name": "content-type", "value": "application/json"}"#;
        assert_eq!(body_of("{\"text\": \"{}\"}", own).unwrap().kind, "application/json");
        assert_eq!(
            text(body_of(r#"{"mimeType": "a/b", "text": "AAEC", "_encoding": "base64"}"#, "")).as_deref(),
            Some("\0\u{1}\u{2}")
        );
    }

    #[test]
    fn each_line_of_a_field_is_a_field() {
        let entry = r#"{"request": {"method": "GET", "url": "http://a/", "headers": [
              {"name": ":path", "value": "/"}, {"name": "X-Multi", "value": "1\n2"}, {"name": "X_Api_Key", "value": "k"}]},
            "response": {"status": 200, "headers": [
              {"name": "set-cookie", "value": "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT, b=2; Path=/\nc=3"}]}}"#;
        let entry = read(&archive(&[entry])).unwrap().recording.entries.remove(0);
        let told = |headers: &[(String, String)]| headers.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        assert_eq!(told(&entry.request.headers), ["1", "2", "k"]);
        let cookies = told(&entry.response.unwrap().headers);
        assert_eq!(cookies, ["a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "b=2; Path=/", "c=3"]);
    }

    #[test]
    fn cookies_and_the_query_may_be_told_apart_from_field_and_address() {
        let entry = r#"{"request": {"method": "GET", "url": "http://a/x", "headers": [],
              "cookies": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}],
              "queryString": [{"name": "q", "value": "x y"}]},
            "response": {"status": 200, "headers": [], "cookies": [{"name": "sid", "value": "3"}]}}"#;
        let entry = read(&archive(&[entry])).unwrap().recording.entries.remove(0);
        assert_eq!(entry.request.url, "http://a/x?q=x+y");
        assert_eq!(entry.request.headers, [("Cookie".to_owned(), "a=1; b=2".to_owned())]);
        assert_eq!(entry.response.unwrap().headers, [("Set-Cookie".to_owned(), "sid=3".to_owned())]);
    }

    #[test]
    fn halves_of_letters_do_not_keep_a_file_from_being_read() {
        let entry = r#"{"request": {"method": "GET", "url": "http://a/\ud83d\ude00"}, "response": {"status": 200,
            "content": {"text": "\ud83d x \\ud83d \udead"}}}"#;
        let read = read(&archive(&[entry])).unwrap();
        assert_eq!(read.replaced, 2);
        let entry = &read.recording.entries[0];
        assert_eq!(entry.request.url, "http://a/\u{1f600}");
        let bytes = entry.response.as_ref().and_then(|response| response.body.bytes.clone()).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "\u{fffd} x \\ud83d \u{fffd}");
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
            let again = read(&write(&recording)).unwrap().recording;
            prop_assert_eq!(again.entries.len(), recording.entries.len());
            for (again, entry) in again.entries.iter().zip(&recording.entries) {
                prop_assert!((again.seconds - entry.seconds).abs() < 1e-9);
                prop_assert_eq!(&Entry { seconds: entry.seconds, ..again.clone() }, entry);
            }
        }
    }
}
