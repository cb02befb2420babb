//! A server that answers as the sites that k6's examples name: httpbin.org, quickpizza.grafana.com, api.github.com.

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Map, Value, json};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_testkit::websocket::Echo;

/// A server with a plain port and an encrypted one.
pub(crate) struct Site {
    pub(crate) plain: u16,
    pub(crate) encrypted: u16,
    /// WebSockets that send back what comes.
    pub(crate) echo: Echo,
    /// Requests that were answered.
    pub(crate) requests: Arc<AtomicU64>,
}

/// A request.
struct Request {
    method: String,
    path: String,
    query: Vec<(String, String)>,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Site {
    pub(crate) fn start() -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (plain, encrypted) = (listen(), listen());
        let ports = (plain.local_addr().unwrap().port(), encrypted.local_addr().unwrap().port());
        let count = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in plain.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || serve(stream, "http", &count));
            }
        });
        let (count, tls) = (Arc::clone(&requests), tls());
        std::thread::spawn(move || {
            for stream in encrypted.incoming().flatten() {
                let (count, tls) = (Arc::clone(&count), Arc::clone(&tls));
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(tls).unwrap();
                    serve(StreamOwned::new(connection, stream), "https", &count);
                });
            }
        });
        let echo = Echo::start(([127, 0, 0, 1], 0).into()).unwrap();
        Self { plain: ports.0, encrypted: ports.1, echo, requests }
    }
}

fn tls() -> Arc<ServerConfig> {
    let names = ["httpbin.org", "quickpizza.grafana.com", "api.github.com"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap())
}

fn serve<S: Read + Write>(stream: S, scheme: &str, count: &AtomicU64) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream) {
        count.fetch_add(1, Ordering::Relaxed);
        let answer = answer(&request, scheme);
        if stream.get_mut().write_all(&answer).and_then(|()| stream.get_mut().flush()).is_err() {
            return;
        }
    }
}

fn read<S: Read>(stream: &mut BufReader<S>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut request = Request { method, path: path.to_owned(), query: pairs(query), fields, body: Vec::new() };
    let length = request.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request.body.resize(length, 0);
    stream.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn pairs(text: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// Names with their values; several of a name are a list.
fn object(pairs: &[(String, String)]) -> Value {
    let mut all = Map::new();
    for (name, value) in pairs {
        match all.get_mut(name) {
            None => drop(all.insert(name.clone(), json!(value))),
            Some(Value::Array(list)) => list.push(json!(value)),
            Some(one) => *one = json!([one.clone(), value]),
        }
    }
    Value::Object(all)
}

fn answer(request: &Request, scheme: &str) -> Vec<u8> {
    let host = request.field("host").unwrap_or("httpbin.org");
    match host.split(':').next().unwrap_or_default() {
        "httpbin.org" => httpbin(request, scheme),
        "api.github.com" => reply(401, &[("Content-Type", "application/json")], "{\"message\":\"Bad credentials\"}"),
        _ => quickpizza(request),
    }
}

fn quickpizza(request: &Request) -> Vec<u8> {
    match request.path.as_str() {
        "/status/404" => reply(404, &[], ""),
        "/pi.php" => reply(200, &[("Content-Type", "text/html")], "3.14"),
        path if path.contains("/static/") => reply(200, &[("Content-Type", "text/plain")], "asset"),
        _ => reply(
            200,
            &[("Content-Type", "text/html; charset=utf-8")],
            "<!doctype html><title>test.k6.io</title><p class=\"description\">This is a replacement of the service </p>",
        ),
    }
}

fn httpbin(request: &Request, scheme: &str) -> Vec<u8> {
    let parts: Vec<&str> = request.path.split('/').skip(1).collect();
    let host = request.field("host").unwrap_or_default();
    match parts.as_slice() {
        ["redirect", "1"] => reply(302, &[("Location", "/get")], ""),
        ["redirect", left] => {
            let left: u32 = left.parse().unwrap_or(1);
            reply(302, &[("Location", &format!("/redirect/{}", left - 1))], "")
        }
        ["cookies"] => {
            let line = request.field("cookie").unwrap_or_default();
            let cookies: Vec<(String, String)> = line
                .split("; ")
                .filter_map(|one| one.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            of_json(&json!({ "cookies": object(&cookies) }))
        }
        ["cookies", "set"] => {
            let lines: Vec<String> =
                request.query.iter().map(|(name, value)| format!("{name}={value}; Path=/")).collect();
            let mut fields: Vec<(&str, &str)> = lines.iter().map(|line| ("Set-Cookie", line.as_str())).collect();
            fields.push(("Location", "/cookies"));
            reply(302, &fields, "")
        }
        ["basic-auth", user, _] if request.field("authorization") == Some("Basic dXNlcjpwYXNzd2Q=") => {
            of_json(&json!({ "authenticated": true, "user": user }))
        }
        ["basic-auth", ..] => reply(401, &[("WWW-Authenticate", "Basic realm=\"Fake Realm\"")], ""),
        ["digest-auth", _, user, _]
            if request.field("authorization").is_some_and(|field| field.starts_with("Digest ")) =>
        {
            of_json(&json!({ "authenticated": true, "user": user }))
        }
        ["digest-auth", ..] => {
            let challenge =
                "Digest realm=\"me@kennethreitz.com\", nonce=\"17a7\", qop=\"auth\", opaque=\"f0\", algorithm=MD5";
            reply(401, &[("WWW-Authenticate", challenge)], "")
        }
        ["get" | "post" | "put" | "patch" | "delete"] => {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            let is = |kind: &str| request.field("content-type").is_some_and(|own| own.starts_with(kind));
            let form = if is("application/x-www-form-urlencoded") { object(&pairs(&text)) } else { json!({}) };
            let json: Value =
                if is("application/json") { serde_json::from_str(&text).unwrap_or_default() } else { Value::Null };
            of_json(&json!({
                "args": object(&request.query),
                "headers": object(&request.fields),
                "url": format!("{scheme}://{host}{}", request.path),
                "form": form,
                "json": json,
                "data": text,
            }))
        }
        _ => reply(200, &[("Content-Type", "text/html; charset=utf-8")], "<html><body>httpbin</body></html>"),
    }
    .to_vec_for(&request.method)
}

/// An answer to HEAD has no body.
trait ToVecFor {
    fn to_vec_for(self, method: &str) -> Vec<u8>;
}

impl ToVecFor for Vec<u8> {
    fn to_vec_for(mut self, method: &str) -> Vec<u8> {
        if method == "HEAD"
            && let Some(at) = self.windows(4).position(|part| part == b"\r\n\r\n")
        {
            self.truncate(at + 4);
        }
        self
    }
}

fn of_json(value: &Value) -> Vec<u8> {
    reply(200, &[("Content-Type", "application/json")], &value.to_string())
}

fn reply(status: u16, fields: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}
