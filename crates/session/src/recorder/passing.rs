//! One request: taken, passed on, its response passed back, both kept.

use super::kept::Shared;
use crate::forgiving::{HEADS_BYTES_MAX, Seen};
use crate::recording::{Answered, Asked, Body, Entry, header, now_us};
use crate::trust::{Trust, TrustError};
use std::io::{self, Cursor, Read};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::Url;
use weir_endpoint::{Answer, BodyError, Content, Limits, Request};

/// What it takes on: requests that are passed on at the same time are as many as handlers, more wait.
pub(super) const LIMITS: Limits =
    Limits { connections: 1024, handlers: 32, body_bytes: 64 << 20, head: Duration::from_secs(60), body_within: None };

/// How long the server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(300);

/// Fields that belong to one connection (RFC 9110, section 7.6.1).
const OF_ONE_CONNECTION: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
    "host",
    "accept-encoding",
    "proxy-authenticate",
    "proxy-authorization",
];

/// What the recorded server answers.
type Response = ureq::http::Response<ureq::Body>;

pub(super) fn agent(trust: &Trust) -> Result<ureq::Agent, TrustError> {
    use ureq::config::AutoHeaderValue;
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_response_header_size(HEADS_BYTES_MAX)
        .input_buffer_size(HEADS_BYTES_MAX)
        .allow_non_standard_methods(true)
        .proxy(None)
        .accept(AutoHeaderValue::None)
        .accept_encoding(AutoHeaderValue::None)
        .user_agent(AutoHeaderValue::None)
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_recv_response(Some(PATIENCE))
        .build();
    // What is odd about responses matters to those who test them, not to a recording.
    crate::forgiving::agent(config, trust, &Seen::default())
}

fn refuse(shared: &Shared, status: u16, why: &str) -> Answer {
    shared.refused.fetch_add(1, Ordering::Relaxed);
    answer(status, why)
}

fn answer(status: u16, why: &str) -> Answer {
    Answer::line(status, &format!("weir record-session: {why}"))
}

/// Passes a request on; its response goes back while it comes.
pub(super) fn pass(request: Request, shared: &Arc<Shared>) -> Answer {
    let Request { method, target: asked, headers: told, body: sent } = request;
    if let Some(protocol) = header(&told, "upgrade").filter(|protocol| !protocol.eq_ignore_ascii_case("h2c")) {
        let why =
            format!("a change of the protocol to {protocol} is not passed on: only HTTP/1.1 requests can be recorded");
        return refuse(shared, 501, &why);
    }
    let Some(url) = target(&shared.options.to, &asked) else {
        return refuse(shared, 400, "the request's target is not a path");
    };
    let sent = match sent {
        Ok(sent) => sent,
        Err(BodyError::BrokenOff) => return refuse(shared, 400, "the request's body broke off"),
        Err(BodyError::TooLarge) => {
            let why = format!("the request's body is larger than {} MiB", LIMITS.body_bytes >> 20);
            return refuse(shared, 413, &why);
        }
    };
    let headers = forwarded(&told, shared);
    let kind = header(&told, "content-type").unwrap_or_default().to_owned();
    let kept = shared.options.body_bytes_max;
    let request = Asked {
        method,
        url: url.to_string(),
        headers,
        body: (!sent.is_empty()).then(|| body(kind, sent.len() as u64, &sent, kept, None)),
    };
    let mut entry = Entry { started_us: now_us(), seconds: 0.0, page: None, request, response: None };
    let begin = Instant::now();
    match ask(&shared.agent, &entry.request, sent) {
        Ok(answered) => pass_back(answered, entry, begin, &told, shared),
        Err(error) => {
            shared.failed.fetch_add(1, Ordering::Relaxed);
            entry.seconds = begin.elapsed().as_secs_f64();
            shared.keep(entry);
            answer(502, &format!("{} gave no response: {error}", shared.options.to))
        }
    }
}

/// The header fields with which a request is passed on.
fn forwarded(told: &[(String, String)], shared: &Shared) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in told {
        let small = name.to_ascii_lowercase();
        if !OF_ONE_CONNECTION.contains(&small.as_str()) {
            // A server that compares these with its own name must find it.
            let here = ["origin", "referer"].contains(&small.as_str());
            headers.push((name.clone(), if here { elsewhere(value, shared, told) } else { value.clone() }));
        }
    }
    // What is compressed could not be read in the recording.
    headers.push(("Accept-Encoding".to_owned(), "identity".to_owned()));
    headers
}

/// Why the recorded server gave no response.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Request(#[from] ureq::http::Error),
    #[error(transparent)]
    Server(#[from] ureq::Error),
}

/// Asks the recorded server.
fn ask(agent: &ureq::Agent, asked: &Asked, sent: Vec<u8>) -> Result<Response, AskError> {
    let mut upstream = ureq::http::Request::builder().method(asked.method.as_str()).uri(asked.url.as_str());
    for (name, value) in &asked.headers {
        upstream = upstream.header(name, value);
    }
    let has_body = !sent.is_empty() || ["POST", "PUT", "PATCH"].contains(&asked.method.as_str());
    Ok(if has_body { agent.run(upstream.body(sent)?)? } else { agent.run(upstream.body(())?)? })
}

/// Gives the response to the client while it comes; the entry is kept when all has passed.
fn pass_back(
    answered: Response,
    mut entry: Entry,
    begin: Instant,
    told: &[(String, String)],
    shared: &Arc<Shared>,
) -> Answer {
    let status = answered.status().as_u16();
    let received: Vec<(String, String)> = answered
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let length = header(&received, "content-length").and_then(|length| length.parse().ok());
    let fields = received.iter().filter_map(|(name, value)| back(name, value, shared, told)).collect();
    let kept = shared.options.body_bytes_max;
    let tee = Arc::new(Mutex::new(Tee { bytes: Vec::new(), size: 0, most: kept }));
    let reader: Box<dyn Read + Send> = if entry.request.method == "HEAD" || status == 204 || status == 304 {
        Box::new(Cursor::new(Vec::new()))
    } else {
        let from = answered.into_body().into_with_config().limit(u64::MAX).reader();
        Box::new(Copying { from, tee: Arc::clone(&tee) })
    };
    let shared = Arc::clone(shared);
    let done = move |passed: io::Result<()>| {
        entry.seconds = begin.elapsed().as_secs_f64();
        let tee = tee.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = header(&received, "content-type").unwrap_or_default().to_owned();
        let encoding = header(&received, "content-encoding").map(str::to_owned);
        let mut content = body(kind, tee.size, &tee.bytes, kept, encoding);
        content.note = passed.err().map(|error| error.to_string()).or(content.note);
        entry.response = Some(Answered { status, headers: received, body: content });
        shared.keep(entry);
    };
    Answer { status, headers: fields, content: Content::Stream { reader, length, done: Box::new(done) } }
}

/// The address at the recorded server of a request's target.
fn target(to: &Url, target: &str) -> Option<Url> {
    // A target with a scheme is for a forward proxy, which this is not.
    if !target.starts_with('/') {
        return None;
    }
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut url = to.clone();
    url.set_path(path);
    url.set_query(query);
    url.set_fragment(None);
    Some(url)
}

/// The origins by which a browser knows us.
fn ours(shared: &Shared, told: &[(String, String)]) -> impl Iterator<Item = String> {
    let named = header(told, "host").map(|host| format!("http://{host}"));
    named.into_iter().chain(shared.own.get().cloned())
}

/// An address of ours as the recorded server's.
fn elsewhere(value: &str, shared: &Shared, told: &[(String, String)]) -> String {
    let origin = shared.options.to.origin().ascii_serialization();
    for ours in ours(shared, told) {
        if let Some(rest) = value.strip_prefix(ours.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            return format!("{origin}{rest}");
        }
    }
    value.to_owned()
}

/// A header field of the response as the browser shall see it.
fn back(name: &str, value: &str, shared: &Shared, told: &[(String, String)]) -> Option<(String, String)> {
    let value = match name {
        "connection" | "keep-alive" | "transfer-encoding" | "upgrade" | "trailer" => return None,
        // The browser stays with us when the server names itself.
        "location" | "content-location" => {
            let origin = shared.options.to.origin().ascii_serialization();
            match value.strip_prefix(origin.as_str()).filter(|rest| rest.is_empty() || rest.starts_with(['/', '?'])) {
                Some(rest) => {
                    let ours = ours(shared, told).next().unwrap_or_default();
                    format!("{ours}{rest}")
                }
                None => value.to_owned(),
            }
        }
        // We have another name, and no TLS.
        "set-cookie" => {
            let parts = value.split(';').enumerate().filter(|(index, part)| {
                let name = part.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
                *index == 0 || !["domain", "secure", "partitioned"].contains(&name.as_str())
            });
            // Browsers take SameSite=None over TLS only.
            let parts = parts.filter(|(_, part)| !part.trim().eq_ignore_ascii_case("samesite=none"));
            parts.map(|(_, part)| part).collect::<Vec<_>>().join(";")
        }
        // It would send the browser to an address of ours that has no TLS.
        "strict-transport-security" => return None,
        _ => value.to_owned(),
    };
    Some((name.to_owned(), value))
}

/// What is kept of a body.
fn body(kind: String, size: u64, bytes: &[u8], most: usize, encoding: Option<String>) -> Body {
    let small = kind.to_ascii_lowercase();
    let texts = ["text/", "json", "xml", "javascript", "x-www-form-urlencoded", "multipart/form-data", "graphql"];
    let text =
        texts.iter().any(|part| small.contains(part)) || (small.is_empty() && std::str::from_utf8(bytes).is_ok());
    let note = match encoding.filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        Some(encoding) => Some(format!("not kept: it is compressed ({encoding})")),
        None if size > most as u64 => Some(format!("not kept: {size} bytes are more than {most}")),
        None if !text && size > 0 => Some("not kept: it is not text".to_owned()),
        None => None,
    };
    let bytes = (note.is_none() && size > 0).then(|| bytes.to_vec());
    Body { kind, size, bytes, note }
}

/// The begin of what has passed, and how much it was.
#[derive(Debug)]
struct Tee {
    bytes: Vec<u8>,
    size: u64,
    most: usize,
}

/// A reader that notes what it passes.
struct Copying<R> {
    from: R,
    tee: Arc<Mutex<Tee>>,
}

impl<R: Read> Read for Copying<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        let mut tee = self.tee.lock().unwrap_or_else(PoisonError::into_inner);
        tee.size += count as u64;
        let left = tee.most.saturating_sub(tee.bytes.len()).min(count);
        tee.bytes.extend_from_slice(&buffer[..left]);
        Ok(count)
    }
}
