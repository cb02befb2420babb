//! What the server has counted, for people and for Prometheus: on an address of its own, by a thread of its own, closed
//! unless it was asked for. A Unix socket is open to whom its file's mode lets in; TCP asks for a token.

use crate::counters::{Counters, Counts};
use crate::error::BindError;
use crate::front::host_counts::HostTable;
use crate::options::Limits;
use crate::request::{self, Head, Method};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long one client is listened to; the others wait meanwhile.
const CLIENT_MAX: Duration = Duration::from_secs(2);
/// How often it is looked whether anybody has come, or the server ends.
const POLL: Duration = Duration::from_millis(50);
/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// The shortest token: what is guessed too easily is none.
const TOKEN_BYTES_MIN: usize = 16;

/// Where the counts are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// A Unix socket or an address.
    pub addr: AdminAddr,
    /// What a client must send as `Authorization: Bearer TOKEN`; TCP must have one, of at least 16 bytes.
    pub token: Option<String>,
}

/// An address for the counts: `unix:/run/weir-admin.sock` or `127.0.0.1:9180`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminAddr {
    /// A Unix socket, which only the server's user can use unless its mode is changed.
    Unix(PathBuf),
    /// An address of TCP.
    Tcp(SocketAddr),
}

impl FromStr for AdminAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("give a path behind unix:".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| format!("`{text}` is neither unix:PATH nor ADDRESS:PORT")),
        }
    }
}

impl Admin {
    /// What keeps it from being used; none if nothing does.
    pub fn problem(&self) -> Option<&'static str> {
        match (&self.addr, &self.token) {
            (AdminAddr::Tcp(_), None) => Some("over TCP the counts need a token; give one in a file, or use unix:PATH"),
            (_, Some(token)) if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| (b'!'..=b'~').contains(&byte)) => {
                Some("the token has less than 16 characters, or others than visible ones of ASCII")
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

/// Something that can be read from and written to, with a bound on the time.
trait Stream: Read + Write {
    fn limit(&self, left: Duration) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

impl Stream for std::net::TcpStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

/// The listening socket, with what it needs to answer.
#[derive(Debug)]
pub(crate) struct AdminServer {
    listener: Listener,
    token: Option<String>,
    counters: Counters,
    hosts: Arc<HostTable>,
    started: Instant,
}

impl AdminServer {
    pub(crate) fn bind(admin: &Admin, counters: Counters, hosts: Arc<HostTable>) -> Result<Self, BindError> {
        let failed = |source| BindError::Admin { source };
        if let Some(problem) = admin.problem() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        let listener = match &admin.addr {
            AdminAddr::Unix(path) => bind_unix(path).map(|listener| Listener::Unix(listener, path.clone())),
            AdminAddr::Tcp(addr) => TcpListener::bind(addr).map(Listener::Tcp),
        };
        let listener = listener.map_err(failed)?;
        match &listener {
            Listener::Unix(listener, _) => listener.set_nonblocking(true),
            Listener::Tcp(listener) => listener.set_nonblocking(true),
        }
        .map_err(failed)?;
        Ok(Self { listener, token: admin.token.clone(), counters, hosts, started: Instant::now() })
    }

    /// The address of TCP, with the port that the system chose for port 0.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    /// Answers one client after the other until `stop` is set.
    pub(crate) fn run(&self, open: &AtomicUsize, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let outcome = match &self.listener {
                Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| self.answer(stream, open)),
                Listener::Tcp(listener) => listener.accept().map(|(stream, _)| self.answer(stream, open)),
            };
            if outcome.is_err() {
                std::thread::park_timeout(POLL);
            }
        }
    }

    fn answer(&self, mut stream: impl Stream, open: &AtomicUsize) {
        let deadline = Instant::now() + CLIENT_MAX;
        let mut input = Vec::new();
        let mut piece = [0; 1024];
        // Whoever is slow or breaks off is not answered: nothing is lost but an answer that was not waited for.
        let reply = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || input.len() > REQUEST_BYTES_MAX || stream.limit(left).is_err() {
                return;
            }
            match stream.read(&mut piece) {
                Ok(count) if count > 0 => input.extend_from_slice(&piece[..count]),
                _ => return,
            }
            match request::parse(&input, &Limits::default()) {
                Head::Partial => {}
                Head::Rejected(status) => break reply(status, "text/plain", "this is no request\n", false),
                Head::Complete(request, _) => {
                    let counts = || (self.counters.read(), open.load(Ordering::Relaxed));
                    let head_only = request.method == Method::Head;
                    let path = request.target.split('?').next().unwrap_or_default();
                    break match path {
                        _ if !self.lets_in(request.authorization) => {
                            reply(401, "text/plain", "the token is missing: Authorization: Bearer TOKEN\n", head_only)
                        }
                        _ if !matches!(request.method, Method::Get | Method::Head) => {
                            reply(405, "text/plain", "only GET and HEAD\n", head_only)
                        }
                        "/metrics" => reply(200, "text/plain; version=0.0.4", &self.metrics(counts()), head_only),
                        "/" => reply(200, "text/html; charset=utf-8", &self.page(counts()), head_only),
                        _ => reply(404, "text/plain", "there are / and /metrics\n", head_only),
                    };
                }
            }
        };
        let _ = stream.write_all(reply.as_bytes());
    }

    /// Compares every byte of the token, so that the time tells nothing of how many were right.
    fn lets_in(&self, authorization: Option<&[u8]>) -> bool {
        let Some(token) = &self.token else { return true };
        let Some((scheme, given)) = authorization.and_then(|field| field.split_at_checked(7)) else { return false };
        let differing = token.bytes().zip(given).fold(0, |found, (own, given)| found | (own ^ given));
        scheme.eq_ignore_ascii_case(b"bearer ") && token.len() == given.len() && differing == 0
    }

    fn metrics(&self, (counts, open): (Counts, usize)) -> String {
        let mut text = String::new();
        for (name, count) in counts.entries() {
            // Writing to memory does not fail.
            let _ = writeln!(text, "# TYPE weir_{name}_total counter\nweir_{name}_total {count}");
        }
        let uptime_s = self.started.elapsed().as_secs();
        let _ = writeln!(text, "# TYPE weir_connections_open gauge\nweir_connections_open {open}");
        let _ = writeln!(text, "# TYPE weir_uptime_seconds gauge\nweir_uptime_seconds {uptime_s}");
        let hosts = self.hosts.read();
        if !hosts.is_empty() {
            text.push_str("# TYPE weir_host_requests_total counter\n");
        }
        for (host, sum) in &hosts {
            for (class, count) in (1..=5).zip(sum.by_class) {
                let _ = writeln!(text, "weir_host_requests_total{{host=\"{host}\",status=\"{class}xx\"}} {count}");
            }
        }
        if !hosts.is_empty() {
            text.push_str("# TYPE weir_host_bytes_sent_total counter\n");
        }
        for (host, sum) in &hosts {
            let _ = writeln!(text, "weir_host_bytes_sent_total{{host=\"{host}\"}} {}", sum.bytes);
        }
        text
    }

    fn page(&self, (counts, open): (Counts, usize)) -> String {
        let mut rows = String::new();
        let mut row = |name: &str, value: String| {
            let _ = write!(rows, "<tr><td>{}<td>{value}\n", name.replace('_', " "));
        };
        row("seconds since the start", self.started.elapsed().as_secs().to_string());
        row("connections that are open", open.to_string());
        for (name, count) in counts.entries() {
            row(name, count.to_string());
        }
        let mut hosts = String::new();
        for (host, sum) in self.hosts.read() {
            let cells: String = sum.by_class.iter().map(|count| format!("<td>{count}")).collect();
            let _ = write!(hosts, "<tr><td>{host}{cells}<td>{}\n", sum.bytes);
        }
        let hosts = if hosts.is_empty() {
            hosts
        } else {
            format!("<table>\n<tr><th>Host<th>1xx<th>2xx<th>3xx<th>4xx<th>5xx<th>Bytes\n{hosts}</table>\n")
        };
        format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <meta http-equiv=\"refresh\" content=\"5\"><title>weir serve</title>\n<style>body{{font:16px/1.5 system-ui,sans-serif;\
             max-width:48em;margin:2em auto;padding:0 1em;color-scheme:light dark}}table{{border-collapse:collapse;width:100%;\
             margin-bottom:2em}}td,th{{padding:.1em .5em;border-bottom:1px solid #8883;text-align:left}}td+td,th+th{{text-align:right;\
             font-variant-numeric:tabular-nums}}</style>\n<h1>weir serve</h1>\n{hosts}<table>\n{rows}</table>\n\
             <p><a href=\"/metrics\">The same for Prometheus</a></p>\n</html>\n"
        )
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = &self.listener {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Binds a socket that only its owner can use; what a server that is gone left behind is removed.
fn bind_unix(path: &PathBuf) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn reply(status: u16, content_type: &str, text: &str, head_only: bool) -> String {
    let reason = crate::head::reason(status);
    let challenge = if status == 401 { "WWW-Authenticate: Bearer\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\n{challenge}Content-Type: {content_type}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        text.len()
    );
    if head_only { head } else { head + text }
}
