//! The requests as bytes, built once.

use crate::connect::route::through_proxy;
use crate::plan::chooser::Chooser;
use crate::requests::alias::Alias;
use crate::requests::listed::Order;
use crate::requests::traceparent::{self, TraceIds};
use crate::workload::fileset::FileSet;
use crate::{LoadError, Options, Request, Url};
use std::sync::Arc;

/// The most bytes of all different requests: lengths and places fit 32 bits.
const WIRE_BYTES_MAX: usize = u32::MAX as usize;

/// All requests of a run.
#[derive(Debug)]
pub(crate) struct Table {
    /// One after the other; a single one as often as it is sent in one go.
    wire: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    /// Whether there is one request only, so that a batch is a piece of `wire`.
    pub(crate) is_constant: bool,
    /// Whether some requests are HEAD and others are not.
    pub(crate) is_mixed: bool,
    /// Whether what is sent depends on what came before.
    pub(crate) cookie_jar: bool,
    /// Whether requests are put together as they go.
    pub(crate) is_composed: bool,
    /// The files of a mix: a request is known by its file's number, and its entry is that of the file's kind.
    pub(crate) files: Option<FileSet>,
    /// What a request's number leaves of it for its entry's.
    entry_mask: u32,
    /// The cookies that a jar begins with.
    pub(crate) cookies: Vec<(String, String)>,
    /// Where the requests go, if there is a jar, which wants to know.
    urls: Vec<Url>,
    alias: Alias,
    listed: Arc<[u32]>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    start: usize,
    pub(crate) bytes: u32,
    /// Where in its bytes cookies may be put in, and whether a Cookie header ends there.
    cookies_at: u32,
    has_cookies: bool,
    /// Where in its bytes the value begins by which it says of which trace it is, if it does.
    trace_at: u32,
    /// Where in its bytes the path of its file begins, and how long it is, if it is one of a mix.
    path_at: u32,
    path_bytes: u32,
    /// Dictionary id of its name.
    pub(crate) name: u32,
    /// Which of the plan's hosts it goes to.
    pub(crate) host: u32,
    pub(crate) head_only: bool,
    pub(crate) idempotent: bool,
    /// Whether its connection may carry more.
    pub(crate) keep_alive: bool,
}

impl Table {
    pub(crate) fn new(options: &Options) -> Result<Self, LoadError> {
        let requests = &options.requests;
        let mut table = Self {
            wire: Vec::new(),
            entries: Vec::with_capacity(requests.list.len().max(1)),
            is_constant: requests.list.len() <= 1
                && !requests.cookie_jar
                && requests.sessions.is_none()
                && requests.mix.is_none()
                && requests.traces.is_none()
                && options.directed.is_none(),
            is_mixed: false,
            cookie_jar: requests.cookie_jar,
            is_composed: requests.cookie_jar || requests.mix.is_some() || requests.traces.is_some(),
            files: requests.mix.as_ref().map(|mix| mix.files.clone()),
            entry_mask: requests.mix.as_ref().map_or(u32::MAX, |mix| mix.files.kind_mask()),
            cookies: requests.cookies.clone(),
            urls: Vec::new(),
            alias: Alias::default(),
            listed: match &requests.order {
                Order::Listed(order) => Arc::clone(order),
                _ => Arc::default(),
            },
        };
        let fixed = if requests.cookie_jar { Vec::new() } else { crate::requests::cookies::line(&requests.cookies) };
        let given = requests.list.iter().map(|listed| (&listed.url, &listed.request));
        let one = requests.list.is_empty().then_some((&options.url, &options.request));
        if let Some(ways) = options.directed.as_ref().and_then(|directed| directed.ways.as_ref()) {
            table.push_ways(ways.most());
            return Ok(table);
        }
        let hosts = requests.hosts();
        for (url, request) in given.chain(one) {
            let host = hosts.iter().position(|host| host.is_same_host(url)).unwrap_or(0);
            let keep_alive = options.keep_alive && !request.asks_to_close();
            if requests.cookie_jar {
                table.urls.push(url.clone());
            }
            let bytes = match &options.verbatim {
                Some(bytes) => bytes.clone(),
                None if requests.traces.is_some() => {
                    through_proxy(traced(request).bytes(url, keep_alive)?, url, &options.reach)
                }
                None => through_proxy(request.bytes(url, keep_alive)?, url, &options.reach),
            };
            table.push(request, host, bytes, &fixed, keep_alive)?;
        }
        table.is_mixed = table.entries.iter().any(|entry| entry.head_only != table.entries[0].head_only);
        if table.is_constant {
            table.wire = table.wire.repeat(options.pipeline as usize);
        }
        if matches!(requests.order, Order::Weighted { .. }) {
            table.alias = Alias::new(&requests.list.iter().map(|listed| listed.weight).collect::<Vec<_>>());
        }
        Ok(table)
    }

    /// Two requests for each of so many servers: with and without a body in the answer. A director gives their bytes.
    fn push_ways(&mut self, servers: usize) {
        for number in 0..servers as u32 * 2 {
            self.entries.push(Entry {
                start: 0,
                bytes: 0,
                cookies_at: 0,
                has_cookies: false,
                trace_at: 0,
                path_at: 0,
                path_bytes: 0,
                name: 0,
                host: number / 2,
                head_only: number % 2 == 1,
                idempotent: false,
                keep_alive: true,
            });
        }
        self.is_mixed = true;
    }

    fn push(
        &mut self,
        request: &Request,
        host: usize,
        mut bytes: Vec<u8>,
        cookies: &[u8],
        keep_alive: bool,
    ) -> Result<(), LoadError> {
        const EMPTY_LINE: &[u8] = b"\r\n\r\n";
        let head = bytes.windows(EMPTY_LINE.len()).position(|window| window == EMPTY_LINE);
        let head = head.map_or(bytes.len(), |at| at + EMPTY_LINE.len());
        let path = self.files.as_ref().map(|files| files.path(self.entries.len() as u32)).unwrap_or_default();
        let path_at = match path.is_empty() {
            true => 0,
            // The target ends with it, and the first line with the version.
            false => {
                bytes.windows(b" HTTP/".len()).position(|window| window == b" HTTP/").map_or(0, |end| end - path.len())
            }
        };
        let trace_at = trace_value_at(&bytes[..head]).unwrap_or(0);
        let (cookies_at, has_cookies) = match cookie_line_end(&bytes[..head]) {
            Some(end) => (end, true),
            None => (head.saturating_sub(2), false),
        };
        if !cookies.is_empty() {
            let rest = bytes.split_off(cookies_at);
            put_cookies(&mut bytes, cookies, has_cookies);
            bytes.extend_from_slice(&rest);
        }
        // Together they are copied for each depth of the pipeline only if there is one.
        if self.wire.len() + bytes.len() > WIRE_BYTES_MAX {
            return Err(LoadError::Options("all requests together are longer than 4 GB"));
        }
        self.entries.push(Entry {
            start: self.wire.len(),
            bytes: bytes.len() as u32,
            cookies_at: cookies_at as u32,
            has_cookies,
            trace_at: trace_at as u32,
            path_at: path_at as u32,
            path_bytes: path.len() as u32,
            name: request.name,
            host: host as u32,
            head_only: request.is_head(),
            idempotent: request.is_idempotent(),
            keep_alive,
        });
        self.wire.extend_from_slice(&bytes);
        Ok(())
    }

    /// Which request is next.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "one of its ways is taken for each request, and most have no draw")]
    pub(crate) fn choose(&self, chooser: &mut Chooser) -> u32 {
        match chooser {
            Chooser::One => 0,
            Chooser::InTurn { next, step } => {
                let place = *next % self.entries.len() as u64;
                *next += *step;
                place as u32
            }
            Chooser::Listed { next, step } => {
                let place = *next % self.listed.len() as u64;
                *next += *step;
                self.listed[place as usize]
            }
            Chooser::Weighted(random) => self.alias.place(random.u64(..)),
            Chooser::Mix(draw) => draw.next(),
        }
    }

    /// The place of a request's entry.
    pub(crate) fn place(&self, request: u32) -> usize {
        (request & self.entry_mask) as usize
    }

    #[inline]
    pub(crate) fn entry(&self, request: u32) -> &Entry {
        &self.entries[(request & self.entry_mask) as usize]
    }

    /// Where a request goes, if there is a cookie jar.
    pub(crate) fn url(&self, request: u32) -> Option<&Url> {
        self.urls.get(request as usize)
    }

    /// `bytes` bytes from the beginning of a request on.
    #[inline]
    pub(crate) fn wire(&self, request: u32, bytes: usize) -> &[u8] {
        let start = self.entry(request).start;
        &self.wire[start..start + bytes]
    }

    /// Puts a request behind others, with more cookies (`a=b; c=d`) and its trace in it, and returns its length.
    pub(crate) fn compose(&self, request: u32, cookies: &[u8], trace: Option<TraceIds>, into: &mut Vec<u8>) -> u32 {
        let entry = self.entry(request);
        let before = into.len();
        let (head, rest) = self.wire(request, entry.bytes as usize).split_at(entry.cookies_at as usize);
        into.extend_from_slice(head);
        if !cookies.is_empty() {
            put_cookies(into, cookies, entry.has_cookies);
        }
        into.extend_from_slice(rest);
        if let Some(files) = &self.files {
            let at = before + entry.path_at as usize;
            files.patch(request, &mut into[at..at + entry.path_bytes as usize]);
        }
        if let Some(ids) = trace {
            let at = before + entry.trace_at as usize;
            into[at..at + traceparent::PLACEHOLDER.len()].copy_from_slice(&ids.value());
        }
        (into.len() - before) as u32
    }
}

/// A request that says of which trace it is, with a value in the place of which each gets its own. It is the first of the
/// headers, so that cookies are put in behind it.
fn traced(request: &Request) -> Request {
    let mut request = request.clone();
    request.headers.insert(0, (traceparent::NAME.to_owned(), traceparent::PLACEHOLDER.to_owned()));
    request
}

/// Where the value begins by which a head says of which trace it is, if it does.
fn trace_value_at(head: &[u8]) -> Option<usize> {
    let line = [b"\r\n", traceparent::NAME.as_bytes(), b": ", traceparent::PLACEHOLDER.as_bytes(), b"\r\n"].concat();
    let at = head.windows(line.len()).position(|window| window == line)?;
    Some(at + line.len() - traceparent::PLACEHOLDER.len() - 2)
}

/// Adds cookies at the end of a head's Cookie header, or as one.
fn put_cookies(head: &mut Vec<u8>, cookies: &[u8], has_some: bool) {
    head.extend_from_slice(if has_some { b"; " } else { b"Cookie: " });
    head.extend_from_slice(cookies);
    if !has_some {
        head.extend_from_slice(b"\r\n");
    }
}

/// Where the value of a head's Cookie header ends, if it has one.
fn cookie_line_end(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\r\ncookie:";
    let at = head.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))? + NAME.len();
    head[at..].iter().position(|byte| *byte == b'\r').map(|length| at + length)
}
