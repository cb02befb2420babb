//! Spans of existing instrumentation, from a file of OTLP in JSON: what a collector's file exporter writes, a
//! request a line.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line that is read, bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Spans that are kept; a file with more is refused.
const MOST_SPANS: usize = 1_000_000;

/// Why spans cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SpansError {
    /// The file cannot be read.
    #[error("{}: {source}; name a file of OTLP in JSON, as the file exporter of a collector writes", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line is none of OTLP's.
    #[error("{}, line {line}: {why}; each line is a JSON object with resourceSpans, as the file exporter of a collector writes", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1 on.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// There are too many.
    #[error("{}: more than {MOST_SPANS} spans of servers; give those of the run's time alone", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
    },
    /// There is none of a server.
    #[error("{}: no span of kind server among {spans} spans: only those can be laid beside requests", path.display())]
    NoServer {
        /// The file.
        path: PathBuf,
        /// How many others there are.
        spans: usize,
    },
}

/// A server's span, as its instrumentation told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignSpan {
    /// The service, and the span's name.
    pub name: String,
    /// The request's path, where it is told.
    pub path: Option<String>,
    /// The client's port, if the span tells it.
    pub client_port: Option<u16>,
    /// Begin and end, nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Its end; never before its begin.
    pub end_unix_ns: u64,
}

/// Reads the spans of servers of a file, in the order of their begin.
///
/// # Errors
/// [`SpansError`].
pub fn read(path: &Path) -> Result<Vec<ForeignSpan>, SpansError> {
    let io = |source| SpansError::Io { path: path.to_owned(), source };
    let mut file = BufReader::new(std::fs::File::open(path).map_err(io)?);
    let (mut servers, mut others, mut number) = (Vec::new(), 0, 0);
    loop {
        let mut line = Vec::new();
        let read = file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(io)?;
        if read == 0 {
            break;
        }
        number += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let wrong = |why: String| SpansError::Line { path: path.to_owned(), line: number, why };
        let value: Value = serde_json::from_slice(&line).map_err(|error| wrong(error.to_string()))?;
        if value["resourceSpans"].as_array().is_none() {
            // A collector's file has logs and metrics beside, if it is told so.
            if value["resourceLogs"].is_array() || value["resourceMetrics"].is_array() {
                continue;
            }
            return Err(wrong("no resourceSpans".to_owned()));
        }
        others += spans_of(&value, &mut servers);
        if servers.len() > MOST_SPANS {
            return Err(SpansError::TooMany { path: path.to_owned() });
        }
    }
    if servers.is_empty() {
        return Err(SpansError::NoServer { path: path.to_owned(), spans: others });
    }
    servers.sort_by_key(|span| (span.start_unix_ns, span.end_unix_ns));
    Ok(servers)
}

/// Takes the servers' spans of a request to a receiver; gives the number of the others.
pub(super) fn spans_of(request: &Value, servers: &mut Vec<ForeignSpan>) -> usize {
    let mut others = 0;
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    for resource in list(request, "resourceSpans") {
        let service = attribute(&resource["resource"], &["service.name"]).unwrap_or_default();
        for scope in list(&resource, "scopeSpans") {
            for span in list(&scope, "spans") {
                match server(&span, &service) {
                    Some(span) => servers.push(span),
                    None => others += 1,
                }
            }
        }
    }
    others
}

fn server(span: &Value, service: &str) -> Option<ForeignSpan> {
    let is_server = span["kind"].as_u64() == Some(2) || span["kind"].as_str() == Some("SPAN_KIND_SERVER");
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let start_unix_ns = number(&span["startTimeUnixNano"]).filter(|_| is_server)?;
    let end_unix_ns = number(&span["endTimeUnixNano"])?.max(start_unix_ns);
    let path = attribute(span, &["url.path", "http.target", "url.full", "http.url"]).map(|told| {
        let rest =
            told.split_once("://").map_or(told.as_str(), |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
        rest.split(['?', '#']).next().unwrap_or_default().to_owned()
    });
    let name = span["name"].as_str().unwrap_or("(unnamed)");
    let name = if service.is_empty() { name.to_owned() } else { format!("{service}: {name}") };
    let client_port = port(span).filter(|port| *port != 0);
    Some(ForeignSpan { name, path, client_port, start_unix_ns, end_unix_ns })
}

/// The client's port on the connection itself: `client.port` may be that of a client before a proxy.
fn port(span: &Value) -> Option<u16> {
    let value = find(span, &["network.peer.port", "net.peer.port"])?;
    let number = value["intValue"].as_u64().or_else(|| value["intValue"].as_str()?.parse().ok());
    u16::try_from(number.or_else(|| value["stringValue"].as_str()?.parse().ok())?).ok()
}

/// The first of these attributes that a span or a resource has, where it is a text.
fn attribute(value: &Value, keys: &[&str]) -> Option<String> {
    find(value, keys)?["stringValue"].as_str().map(str::to_owned)
}

/// The value of the first of these attributes that a span or a resource has.
fn find<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v Value> {
    let all = value["attributes"].as_array()?;
    let of = |key: &&str| all.iter().find(|one| one["key"].as_str() == Some(*key));
    keys.iter().find_map(of).map(|one| &one["value"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn servers_spans_are_read_and_what_is_none_is_refused_with_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("spans.jsonl");
        let span = |kind: Value, key: &str, value: &str| {
            json!({ "name": "GET", "kind": kind, "startTimeUnixNano": "100", "endTimeUnixNano": 300,
                    "attributes": [{ "key": key, "value": { "stringValue": value } }] })
        };
        let spans = [
            span(json!(2), "http.target", "/a?secret"),
            json!({ "name": "GET", "kind": "SPAN_KIND_SERVER", "startTimeUnixNano": "100", "endTimeUnixNano": "300",
                    "attributes": [{ "key": "url.full", "value": { "stringValue": "https://x/b#c" } },
                                   { "key": "net.peer.port", "value": { "intValue": "4711" } }] }),
            span(json!(3), "url.path", "/c"),
        ];
        let service = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "shop" } }] });
        let line = json!({ "resourceSpans": [{ "resource": service, "scopeSpans": [{ "spans": spans }] }] });
        std::fs::write(&file, format!("{line}\n\n{{\"resourceLogs\":[]}}\n")).expect("written");
        let read_back = read(&file).expect("spans");
        let paths: Vec<_> = read_back.iter().map(|span| span.path.as_deref().unwrap_or_default()).collect();
        assert_eq!((paths, read_back[0].name.as_str(), read_back[0].end_unix_ns), (vec!["/a", "/b"], "shop: GET", 300));
        assert_eq!((read_back[0].client_port, read_back[1].client_port), (None, Some(4711)));
        std::fs::write(&file, format!("{line}\n{{}}\n")).expect("written");
        assert!(read(&file).expect_err("a line of something else").to_string().contains("line 2: no resourceSpans"));
        std::fs::write(&file, "{\"resourceSpans\":[]}\n").expect("written");
        assert!(matches!(read(&file), Err(SpansError::NoServer { spans: 0, .. })));
    }

    proptest! {
        #[test]
        fn no_values_break_it(kind in any::<i64>(), start in "[0-9]{0,25}", text in ".{0,30}") {
            let span = json!({ "kind": kind, "startTimeUnixNano": start, "endTimeUnixNano": text,
                               "attributes": [{ "key": "url.full", "value": { "stringValue": text } }, text] });
            let request = json!({ "resourceSpans": [text, { "scopeSpans": [{ "spans": [span, text] }] }] });
            let mut servers = Vec::new();
            spans_of(&request, &mut servers);
            prop_assert!(servers.iter().all(|span| span.end_unix_ns >= span.start_unix_ns));
        }
    }
}
