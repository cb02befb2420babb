//! What goes out, built once: the requests as frames, the settings, and how connections of QUIC are made.

use crate::http3::frames::{BLOCK_BYTES_MAX, kind};
use crate::http3::integers::put_number;
use crate::http3::qpack::{put_field, put_literal, put_prefix};
use crate::http3::transport;
use crate::plan::host::Hosts;
use crate::requests::traceparent::{self, TraceIds};
use crate::{LoadError, Options, Protocol, Request, RequestError, Url};
use bytes::Bytes;
use quinn_proto::ClientConfig;

/// The constant side of a run over HTTP/3.
#[derive(Debug)]
pub(crate) struct Wire {
    /// What the control stream begins with: its type, and our settings.
    pub(crate) settings: Bytes,
    /// The requests, in the order of the plan's.
    pub(crate) requests: Vec<PreparedRequest>,
    /// The most requests under way on a connection.
    pub(crate) streams: u32,
    /// Whether a connection carries more than one request.
    pub(crate) keep_alive: bool,
    /// Whether requests are put together as they go, with the cookies of their connection's jar.
    pub(crate) cookie_jar: bool,
    /// Whether connections resume the sessions of former ones.
    pub(crate) resumes: bool,
    /// Whether requests go out before the handshake is over, where the session allows it.
    pub(crate) early_data: bool,
    /// After how long a connection moves to another port, again and again; `u64::MAX` for never.
    pub(crate) migrate_ns: u64,
    /// How connections are made, and the name that the server is asked for.
    pub(crate) client: ClientConfig,
    pub(crate) server_name: String,
}

/// A request.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    /// Its frame of fields and, if it has a body, the head of the frame around that.
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
    /// Bytes of its fields as RFC 9114 4.2.2 counts them.
    pub(crate) fields_bytes: u64,
    /// Whether its method is safe (RFC 9110 9.2.1), so that it may go out in 0-RTT.
    pub(crate) is_safe: bool,
    /// Where in `head` the value begins by which it says of which trace it is, if it does.
    trace_at: Option<usize>,
    /// Its block of fields, where cookies are to be added, and where in it that value begins.
    block: Vec<u8>,
    trace_in_block: Option<usize>,
}

/// How a request is told apart from others as it goes out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Own<'a> {
    /// The value of its Cookie header, if it has one.
    pub(crate) cookies: &'a [u8],
    pub(crate) trace: Option<TraceIds>,
}

impl PreparedRequest {
    /// The request with these cookies; `None` = with those of a jar, when it goes out.
    fn new(
        url: &Url,
        request: &Request,
        cookies: Option<&[(String, String)]>,
        is_traced: bool,
    ) -> Result<Self, LoadError> {
        let (block, trace_in_block) = block(url, request, cookies.unwrap_or_default(), is_traced)?;
        let fields_bytes = section_bytes(url, request);
        let body = Bytes::from(request.body.clone());
        let mut head = Vec::new();
        let block_at = frames(&mut head, &block, &body);
        Ok(Self {
            head: head.into(),
            body,
            fields_bytes,
            is_safe: matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE"),
            trace_at: trace_in_block.map(|at| at + block_at),
            block: if cookies.is_none() { block } else { Vec::new() },
            trace_in_block,
        })
    }

    /// Puts its head together as `own` has it, in `out`.
    pub(crate) fn compose(&self, own: Own<'_>, out: &mut Vec<u8>) {
        out.clear();
        let mut trace_at = self.trace_at;
        if own.cookies.is_empty() {
            out.extend_from_slice(&self.head);
        } else {
            let mut block = self.block.clone();
            put_literal(&mut block, "cookie", own.cookies);
            let block_at = frames(out, &block, &self.body);
            trace_at = self.trace_in_block.map(|at| at + block_at);
        }
        if let (Some(at), Some(ids)) = (trace_at, own.trace) {
            let value = ids.value();
            out[at..at + value.len()].copy_from_slice(&value);
        }
    }
}

impl Wire {
    /// What the options mean; `None` if another version of HTTP is asked for.
    pub(crate) fn new(options: &Options, hosts: &Hosts) -> Result<Option<Self>, LoadError> {
        let Protocol::Http3 { streams, early_data, migrate_every } = options.protocol else { return Ok(None) };
        let requests = &options.requests;
        let cookies = (!requests.cookie_jar).then_some(requests.cookies.as_slice());
        let one = [(&options.url, &options.request)];
        let is_traced = requests.traces.is_some();
        let list: Result<Vec<_>, _> = match requests.list.is_empty() {
            true => one.iter().map(|(url, request)| PreparedRequest::new(url, request, cookies, is_traced)).collect(),
            false => {
                let each = requests.list.iter();
                each.map(|listed| PreparedRequest::new(&listed.url, &listed.request, cookies, is_traced)).collect()
            }
        };
        // Options have been checked: there is one host, and it is spoken to by TLS.
        let tls = hosts.get(0).and_then(|host| host.route.tls.as_ref());
        let (tls, name) = tls.ok_or(LoadError::Options("HTTP/3 is always encrypted: give an https:// URL"))?;
        Ok(Some(Self {
            settings: settings().into(),
            requests: list?,
            streams,
            keep_alive: options.keep_alive,
            cookie_jar: requests.cookie_jar,
            resumes: options.reach.tls.resume,
            early_data,
            migrate_ns: migrate_every.map_or(u64::MAX, |every| u64::try_from(every.as_nanos()).unwrap_or(u64::MAX)),
            client: transport::client(tls, options.reach.tls.resume, options.slow.link.line_bytes())?,
            server_name: name.to_str().into_owned(),
        }))
    }
}

/// The least that a request's fields are, as RFC 9114 4.2.2 counts them: names and values, and 32 bytes for each field.
fn section_bytes(url: &Url, request: &Request) -> u64 {
    const EACH: usize = 32;
    let own = request.headers.iter().map(|(name, value)| name.len() + value.len() + EACH);
    (url.target.len() + url.authority().len() + 2 * EACH + own.sum::<usize>()) as u64
}

/// Appends a frame of fields and, if there is a body, the head of its frame; gives where the block begins.
fn frames(out: &mut Vec<u8>, block: &[u8], body: &[u8]) -> usize {
    put_number(out, kind::HEADERS);
    put_number(out, block.len() as u64);
    let block_at = out.len();
    out.extend_from_slice(block);
    if !body.is_empty() {
        put_number(out, kind::DATA);
        put_number(out, body.len() as u64);
    }
    block_at
}

/// The control stream's beginning: its type, and how long a section of fields may be. That there are no tables needs no
/// word (RFC 9204 5).
fn settings() -> Vec<u8> {
    const CONTROL: u64 = 0;
    const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    let mut payload = Vec::new();
    put_number(&mut payload, MAX_FIELD_SECTION_SIZE);
    put_number(&mut payload, BLOCK_BYTES_MAX as u64);
    let mut bytes = Vec::new();
    put_number(&mut bytes, CONTROL);
    put_number(&mut bytes, kind::SETTINGS);
    put_number(&mut bytes, payload.len() as u64);
    bytes.extend_from_slice(&payload);
    bytes
}

/// The request's block of fields, and where the value for its trace begins, if it has one.
fn block(
    url: &Url,
    request: &Request,
    cookies: &[(String, String)],
    is_traced: bool,
) -> Result<(Vec<u8>, Option<usize>), LoadError> {
    // What HTTP/1 cannot say, HTTP/3 must not: a gateway might pass it on.
    request.bytes(url, true)?;
    let own = |name: &str| request.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut block = Vec::new();
    put_prefix(&mut block);
    put_field(&mut block, ":method", &request.method);
    put_field(&mut block, ":scheme", "https");
    put_field(&mut block, ":path", &url.target);
    put_field(&mut block, ":authority", &own("Host").map_or_else(|| url.authority(), |(_, value)| value.clone()));
    let mut trace_at = None;
    if is_traced {
        put_literal(&mut block, traceparent::NAME, traceparent::PLACEHOLDER.as_bytes());
        trace_at = Some(block.len() - traceparent::PLACEHOLDER.len());
    }
    if own("User-Agent").is_none() {
        put_field(&mut block, "user-agent", concat!("weir/", env!("CARGO_PKG_VERSION")));
    }
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "host" => {}
            "connection" | "keep-alive" | "proxy-connection" | "upgrade" | "http2-settings" => {
                return Err(RequestError::OfConnection { name }.into());
            }
            "te" if !value.eq_ignore_ascii_case("trailers") => {
                return Err(RequestError::OfConnection { name }.into());
            }
            _ => put_field(&mut block, &name, value),
        }
    }
    for (name, value) in cookies {
        // RFC 9114 4.2.1: each may be a field of its own.
        put_literal(&mut block, "cookie", format!("{name}={value}").as_bytes());
    }
    // As in HTTP/1: a method that means a body says its length even when there is none.
    if !request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") {
        put_field(&mut block, "content-length", &request.body.len().to_string());
    }
    if block.len() > BLOCK_BYTES_MAX {
        return Err(LoadError::Options("the request's headers are longer than 65536 bytes"));
    }
    Ok((block, trace_at))
}
