//! Applications: request bodies that stream in, responses that become ready later, over every version of HTTP.

use crate::harness;

use harness::{Reply as Received, Site, certificate, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_server::{
    Aborted, Application, Handler, Options, Reply, RequestBody, RequestHead, Timeouts, Wake, parse_configuration,
};

/// Streams a request's body back, with its trailers; says in the head what it was asked.
#[derive(Debug)]
struct Echo;

#[derive(Debug)]
struct Echoing {
    fields: Vec<(String, String)>,
    length_bytes: Option<u64>,
    is_over: bool,
}

impl Application for Echo {
    fn begin(&self, head: &RequestHead<'_>, _wake: Wake) -> Box<dyn Handler> {
        let names: Vec<&str> = head.fields().map(|(name, _)| name).filter(|name| name.starts_with("x-")).collect();
        let asked = format!("{} {} {} {}", head.method(), head.target(), head.version(), names.join(","));
        let fields = vec![("x-asked".to_owned(), asked), ("content-type".to_owned(), "text/plain".to_owned())];
        Box::new(Echoing {
            fields,
            length_bytes: head.body_bytes().filter(|_| head.target().ends_with("?length")),
            is_over: false,
        })
    }
}

impl Handler for Echoing {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        if !reply.has_begun() {
            let fields: Vec<(&str, &str)> = self.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
            reply.begin(200, &fields, self.length_bytes).map_err(|_| Aborted)?;
        }
        assert!(body.bytes().len() <= weir_server::HELD_BYTES_MAX && !self.is_over);
        let taken = reply.write(body.bytes());
        body.take(taken);
        if body.is_ended() {
            let trailers: Vec<(String, String)> =
                body.trailers().map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into())).collect();
            let trailers: Vec<(&str, &str)> = trailers.iter().map(|(name, value)| (&**name, &**value)).collect();
            reply.end(&trailers).map_err(|_| Aborted)?;
            self.is_over = true;
        }
        Ok(())
    }
}

/// Gives as many bytes as `/pour/BYTES` says, as fast as they are taken, and is never woken.
#[derive(Debug)]
struct Pour;

#[derive(Debug)]
struct Pouring {
    left: usize,
}

impl Application for Pour {
    fn begin(&self, head: &RequestHead<'_>, _wake: Wake) -> Box<dyn Handler> {
        Box::new(Pouring { left: head.target().rsplit('/').next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0) })
    }
}

impl Handler for Pouring {
    fn go_on(&mut self, _body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        if !reply.has_begun() {
            reply.begin(200, &[], None).map_err(|_| Aborted)?;
        }
        while self.left > 0 && reply.room() > 0 {
            self.left -= reply.write(&vec![b'p'; self.left.min(10_000)]);
        }
        if self.left == 0 { reply.end(&[]).map_err(|_| Aborted) } else { Ok(()) }
    }
}

/// Takes nothing of a body for two seconds and a half, then sends it back.
#[derive(Debug)]
struct Ponder;

#[derive(Debug)]
struct Pondering {
    until: Instant,
    echoing: Echoing,
}

impl Application for Ponder {
    fn begin(&self, _head: &RequestHead<'_>, wake: Wake) -> Box<dyn Handler> {
        let until = Instant::now() + Duration::from_millis(2500);
        std::thread::spawn(move || {
            while Instant::now() < until {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
            wake.wake();
        });
        Box::new(Pondering { until, echoing: Echoing { fields: Vec::new(), length_bytes: None, is_over: false } })
    }
}

impl Handler for Pondering {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        if Instant::now() < self.until { Ok(()) } else { self.echoing.go_on(body, reply) }
    }
}

/// Answers later, from another thread: `/wait/MS` so many milliseconds; counts the handlers that were dropped.
#[derive(Debug, Default)]
struct Wait {
    dropped: Arc<AtomicU64>,
    begun: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Waiting {
    until: Instant,
    dropped: Arc<AtomicU64>,
}

impl Application for Wait {
    fn begin(&self, head: &RequestHead<'_>, wake: Wake) -> Box<dyn Handler> {
        let wait = Duration::from_millis(head.target().rsplit('/').next().and_then(|ms| ms.parse().ok()).unwrap_or(0));
        self.begun.fetch_add(1, Ordering::Relaxed);
        let until = Instant::now() + wait;
        std::thread::spawn(move || {
            while Instant::now() < until {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
            wake.wake();
        });
        Box::new(Waiting { until, dropped: Arc::clone(&self.dropped) })
    }
}

impl Handler for Waiting {
    fn go_on(&mut self, _body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        if Instant::now() >= self.until && !reply.has_begun() {
            reply.begin(200, &[], Some(6)).map_err(|_| Aborted)?;
            reply.write(b"waited");
            reply.end(&[]).map_err(|_| Aborted)?;
        }
        Ok(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes no more than a little of a body at a time, and says then how many bytes it took and what they add up to.
#[derive(Debug)]
struct Sip;

#[derive(Debug)]
struct Sipping {
    taken: u64,
    sum: u64,
    is_over: Arc<AtomicBool>,
}

impl Application for Sip {
    fn begin(&self, _head: &RequestHead<'_>, wake: Wake) -> Box<dyn Handler> {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
                wake.wake();
            }
        });
        Box::new(Sipping { taken: 0, sum: 0, is_over })
    }
}

impl Handler for Sipping {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        let bytes = body.bytes();
        let bytes = &bytes[..bytes.len().min(3000)];
        self.sum += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        self.taken += bytes.len() as u64;
        let taken = bytes.len();
        body.take(taken);
        if body.is_ended() {
            reply.begin(200, &[], None).map_err(|_| Aborted)?;
            reply.write(format!("{} {}", self.taken, self.sum).as_bytes());
            reply.end(&[]).map_err(|_| Aborted)?;
        }
        Ok(())
    }
}

impl Drop for Sipping {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Breaks its word: `/break/early` before its head, `/break/late` within its body, `/break/short` by a body that lacks
/// some, `/break/never` by not answering, `/break/own` by an error of its own.
#[derive(Debug)]
struct Break;

#[derive(Debug)]
struct Breaking(String);

impl Application for Break {
    fn begin(&self, head: &RequestHead<'_>, _wake: Wake) -> Box<dyn Handler> {
        Box::new(Breaking(head.target().to_owned()))
    }
}

impl Handler for Breaking {
    fn go_on(&mut self, _body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        match &*self.0 {
            "/break/never" => return Ok(()),
            "/break/early" => return Err(Aborted),
            "/break/late" | "/break/open" if reply.has_begun() => return Err(Aborted),
            "/break/own" => {
                reply.begin(404, &[], Some(3)).map_err(|_| Aborted)?;
                reply.write(b"own");
                return reply.end(&[]).map_err(|_| Aborted);
            }
            _ => {}
        }
        if !reply.has_begun() {
            let length_bytes = if self.0 == "/break/open" { None } else { Some(1000) };
            reply.begin(200, &[], length_bytes).map_err(|_| Aborted)?;
            reply.write(b"some");
        }
        if self.0 == "/break/short" { reply.end(&[]).map_err(|_| Aborted) } else { Ok(()) }
    }
}

const TEXT: &str = r#"
    [[host]]
    root = "site"
    error_pages = { other = "page.html" }
    set_headers = { X-Host = "its own" }
    [[host.path]]
    prefix = "/closed/"
    allow = ["10.0.0.0/8"]
"#;
const FILES: &[(&str, &[u8])] = &[("page.html", b"own page"), ("site/a.txt", b"hello")];

/// A site with these applications, and what counts the waits.
pub(crate) fn serve(change: impl FnOnce(&mut Options)) -> (Site, Arc<AtomicU64>, Arc<AtomicU64>) {
    let wait = Wait::default();
    let (dropped, begun) = (Arc::clone(&wait.dropped), Arc::clone(&wait.begun));
    let site = Site::start(FILES, |options| {
        let (folder, listen, io) = (options.root.clone(), options.listen.clone(), options.io);
        *options = parse_configuration(TEXT, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops, options.io, options.root) = (listen, 1, io, folder);
        let rules = options.hosts.take().expect("hosts");
        let rules = rules.with_application("/echo**", Arc::new(Echo)).expect("fits");
        let rules = rules.with_application("/closed/**", Arc::new(Echo)).expect("fits");
        let rules = rules.with_application("/wait/**", Arc::new(wait)).expect("fits");
        let rules = rules.with_application("/pour/**", Arc::new(Pour)).expect("fits");
        let rules = rules.with_application("/ponder", Arc::new(Ponder)).expect("fits");
        let rules = rules.with_application("/sip", Arc::new(Sip)).expect("fits");
        options.hosts = Some(rules.with_application("/break/**", Arc::new(Break)).expect("fits"));
        change(options);
    });
    (site, dropped, begun)
}

/// Which address is in the clear, where the first is encrypted.
pub(crate) const CLEAR: usize = 1;

/// Serves encrypted and by HTTP/3 at the first address, and in the clear at the second.
pub(crate) fn secure(options: &mut Options) {
    let keys = options.root.with_extension("certificates");
    std::fs::create_dir_all(&keys).expect("creates");
    options.certificates = vec![certificate::make(&keys, "localhost", &["localhost"])];
    options.listen_clear = vec!["127.0.0.1:0".parse().expect("an address")];
    options.http3 = true;
}

fn chunked(parts: &[&[u8]], trailers: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        body.extend_from_slice(format!("{:x};ext=1\r\n", part.len()).as_bytes());
        body.extend_from_slice(part);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
    body
}

#[test]
fn a_body_comes_back_in_any_framing_and_the_next_request_is_answered() {
    let (site, ..) = serve(|_| {});
    let large: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    for body in [&b""[..], b"x", b"hello", &large] {
        let length =
            format!("POST /echo?length HTTP/1.1\r\nHost: a\r\nx-one: 1\r\nContent-Length: {}\r\n\r\n", body.len());
        let with_length = [length.as_bytes(), body].concat();
        let unframed = [length.replace("?length", "?none").as_bytes(), body].concat();
        let chunks: Vec<&[u8]> = body.chunks(7000).collect();
        let in_chunks = [
            &b"PUT /echo?chunks HTTP/1.1\r\nHost: a\r\nx-two: 2\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
            &chunked(&chunks, "X-Sum: 5\r\n"),
        ]
        .concat();
        let next = b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let all = [&with_length[..], &unframed, &in_chunks, next].concat();
        // In one piece, and in small ones while the client reads.
        for piece in [usize::MAX, 999] {
            let stream = site.connect();
            let mut writer = stream.try_clone().expect("a second handle");
            let sent = all.clone();
            let thread = std::thread::spawn(move || {
                for piece in sent.chunks(piece.min(sent.len())) {
                    writer.write_all(piece).expect("sends");
                }
            });
            let mut reader = stream;
            let received = harness::read_to_end(&mut reader);
            thread.join().expect("no panic");
            let text = String::from_utf8_lossy(&received);
            let (first, rest) = Received::parse(&received);
            assert_eq!((first.status, &first.body[..]), (200, body), "{text}");
            assert_eq!(first.field("x-asked"), Some("POST /echo?length 11 x-one"));
            assert_eq!(first.field("x-host"), Some("its own"));
            assert_eq!(first.field("content-length").map(str::to_owned), Some(body.len().to_string()));
            let rest = String::from_utf8_lossy(rest);
            assert!(rest.contains("Transfer-Encoding: chunked\r\n"), "{rest}");
            assert!(rest.contains("0\r\nX-Sum: 5\r\n\r\n"), "trailers come back");
            assert!(rest.ends_with("\r\n\r\nhello"), "the next request is answered");
        }
    }
    let counts = site.stop();
    assert_eq!((counts.applications, counts.applications_failed, counts.applications_cancelled), (24, 0, 0));
    assert_eq!((counts.requests, counts.connections_broken), (32, 0), "{counts:?}");
}

#[test]
fn old_clients_read_to_the_end_and_head_has_no_body() {
    let (site, ..) = serve(|_| {});
    let received = site.exchange(b"POST /echo HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello");
    let text = String::from_utf8_lossy(&received);
    assert!(text.ends_with("\r\n\r\nhello") && text.contains("Connection: close\r\n"), "{text}");
    assert!(!text.contains("chunked"), "{text}");
    let reply = site.ask("HEAD", "/echo", "");
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    // Tables hold for applications as well.
    assert_eq!(site.get("/closed/x").status, 403);
    let counts = site.stop();
    assert_eq!((counts.applications, counts.client_errors), (2, 1));
}

#[test]
fn a_client_that_waits_for_a_word_gets_it() {
    let (site, ..) = serve(|_| {});
    let mut stream = site.connect();
    let head = "POST /echo?length HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sends");
    let mut word = [0; 25];
    stream.read_exact(&mut word).expect("a word");
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").expect("sends");
    let (reply, _) = Received::parse(&harness::read_to_end(&mut stream));
    assert_eq!((reply.status, &reply.body[..]), (200, &b"hello"[..]));
}

#[test]
fn bodies_that_are_none_are_refused_and_their_handlers_dropped() {
    let (site, dropped, _) = serve(|_| {});
    let refused = site.exchange(b"POST /wait/60000 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    assert!(refused.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&refused));
    wait_until(|| dropped.load(Ordering::Relaxed) == 1);
    // Behind the head there is nothing to say but the end.
    let broken = site.exchange(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nx\r\n");
    let text = String::from_utf8_lossy(&broken);
    assert!(text.starts_with("HTTP/1.1 ") && !text.ends_with("0\r\n\r\n"), "{text}");
    let large = format!("{}\r\n", "x".repeat(20_000));
    let trailers = site.exchange(
        format!("POST /wait/60000 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: {large}\r\n")
            .as_bytes(),
    );
    assert!(trailers.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&trailers));
    let counts = site.stop();
    assert_eq!((counts.applications_cancelled, counts.applications_failed), (3, 0), "{counts:?}");
    // Each request is counted once, by the status that was sent.
    assert_eq!((counts.requests, counts.client_errors), (3, 2), "{counts:?}");
}

#[test]
fn an_answer_that_comes_later_from_another_thread_holds_nobody_else_up() {
    let (site, dropped, begun) = serve(|_| {});
    let begin = Instant::now();
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let addr = site.addr;
            std::thread::spawn(move || {
                let mut stream = harness::connect(addr);
                let ask = "GET /wait/300 HTTP/1.1\r\nHost: a\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                stream.write_all(ask.as_bytes()).expect("sends");
                harness::read_to_end(&mut stream)
            })
        })
        .collect();
    wait_until(|| begun.load(Ordering::Relaxed) == 20);
    // One loop serves them all.
    assert_eq!(site.get("/a.txt").status, 200);
    assert!(begin.elapsed() < Duration::from_millis(300) || dropped.load(Ordering::Relaxed) > 0);
    for thread in threads {
        let received = thread.join().expect("no panic");
        let (first, rest) = Received::parse(&received);
        assert_eq!((first.status, &first.body[..]), (200, &b"waited"[..]));
        assert_eq!(&Received::parse(rest).0.body[..], b"hello");
    }
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!(dropped.load(Ordering::Relaxed), 20);
}

#[test]
fn a_client_that_leaves_cancels_and_one_that_trickles_is_cut_off() {
    let (site, dropped, begun) = serve(|options| {
        options.timeouts = Timeouts { body: Duration::from_millis(1200), ..Timeouts::default() };
    });
    let mut gone = site.connect();
    gone.write_all(b"GET /wait/60000 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    wait_until(|| begun.load(Ordering::Relaxed) == 1);
    gone.shutdown(Shutdown::Both).expect("closes");
    drop(gone);
    wait_until(|| dropped.load(Ordering::Relaxed) == 1);
    // A body that stops early is a client that has gone.
    let mut short = site.connect();
    short.write_all(b"POST /wait/60000 HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc").expect("sends");
    wait_until(|| begun.load(Ordering::Relaxed) == 2);
    drop(short);
    wait_until(|| dropped.load(Ordering::Relaxed) == 2);
    // A byte now and then, each of which comes back, is no progress.
    let mut slow = site.connect();
    slow.write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n").expect("sends");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(15) && slow.write_all(b"x").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "a trickle extends no time");
    let counts = site.stop();
    assert_eq!((counts.applications_cancelled, counts.timeouts), (3, 1), "{counts:?}");
}

#[test]
fn applications_that_break_their_word_are_told_apart_from_good_ones() {
    let (site, ..) = serve(|options| {
        options.timeouts = Timeouts { application: Duration::from_millis(700), ..Timeouts::default() };
    });
    let early = site.get("/break/early");
    assert_eq!((early.status, &early.body[..]), (502, &b"own page"[..]), "the host's page for it");
    let own = site.get("/break/own");
    assert_eq!((own.status, &own.body[..]), (404, &b"own"[..]));
    assert_eq!(site.get("/break/never").status, 504);
    // Nothing of it was sent yet.
    assert_eq!(site.get("/break/short").status, 502);
    let received = site.exchange(b"GET /break/late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let text = String::from_utf8_lossy(&received);
    // The client misses bytes of the length that it was told.
    assert!(text.contains("Content-Length: 1000\r\n") && text.ends_with("some"), "{text}");
    let counts = site.stop();
    assert_eq!((counts.applications, counts.applications_failed), (5, 4), "{counts:?}");
    assert_eq!((counts.server_errors, counts.client_errors), (3, 1), "{counts:?}");
}

#[test]
fn the_log_has_the_status_and_the_size_that_are_known_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("access.log");
    let (site, dropped, begun) = serve(|options| {
        options.access_log = Some(weir_server::AccessLog::new(weir_server::LogTarget::File(log.clone())));
    });
    assert_eq!(site.get("/wait/20").status, 200);
    assert_eq!(site.get("/break/early").status, 502);
    let _ = site.exchange(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    let mut gone = site.connect();
    gone.write_all(b"GET /wait/60000 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    wait_until(|| begun.load(Ordering::Relaxed) == 2);
    drop(gone);
    wait_until(|| dropped.load(Ordering::Relaxed) == 2);
    site.stop();
    let text = std::fs::read_to_string(&log).expect("a log");
    let ends: Vec<&str> = text.lines().map(|line| line.split_once("\" ").expect("a status").1).collect();
    let ends: Vec<&str> = ends.iter().map(|end| end.split(" \"").next().unwrap_or(end)).collect();
    assert_eq!(ends, ["200 6", "502 8", "200 5", "499 -"], "{text}");
}

/// Runs curl with a body out of a file, and compares what comes back.
fn curl_echo(version: &[&str], url: &str, body: &Path, to: &Path) {
    let output = Command::new("timeout")
        .args(["120", "curl", "-sSfk", "-T"])
        .arg(body)
        .args(version)
        .args(["-H", "Expect:", "-o"])
        .arg(to)
        .arg(url)
        .output()
        .expect("curl");
    assert!(
        output.status.success(),
        "{version:?} {url} {:?}: {}",
        std::fs::metadata(body),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(std::fs::read(body).expect("the body") == std::fs::read(to).expect("the answer"), "{version:?}");
}

fn body_file(directory: &Path, bytes: usize) -> PathBuf {
    let path = directory.join("body");
    let content: Vec<u8> = (0..bytes as u32).map(|i| (i % 251) as u8 ^ (i >> 13) as u8).collect();
    std::fs::write(&path, content).expect("writes");
    path
}

#[test]
fn bodies_come_back_over_every_version_in_the_clear_and_encrypted() {
    let directory = tempfile::tempdir().expect("a directory");
    let (site, ..) = serve(secure);
    let (secure, clear) = (format!("https://{}/echo", site.addr), format!("http://{}/echo", site.addrs[1]));
    let to = directory.path().join("to");
    for bytes in [0, 1, 20_000, 5_000_000] {
        let body = body_file(directory.path(), bytes);
        for (version, url) in [
            (&["--http1.1"][..], &clear),
            (&["--http1.1"], &secure),
            (&["--http2-prior-knowledge"], &clear),
            (&["--http2"], &secure),
        ] {
            curl_echo(version, url, &body, &to);
            curl_echo(version, &format!("{url}?length"), &body, &to);
        }
    }
    let python = weir_testkit::require::aioquic();
    let taken_back = u64::from(python.is_some());
    for bytes in [0, 100_000, 3_000_000] {
        for (version, base) in [
            ("--http1.0", &site.addrs[1]),
            ("--http1.1", &site.addrs[1]),
            ("--http1.1", &site.addr),
            ("--http2-prior-knowledge", &site.addrs[1]),
            ("--http2", &site.addr),
        ] {
            let scheme = if *base == site.addr { "https" } else { "http" };
            let url = format!("{scheme}://{base}/pour/{bytes}");
            let output = Command::new("timeout").args(["20", "curl", "-sSfk", version, &url]).output().expect("curl");
            assert!(output.status.success(), "{version} {url}: {}", String::from_utf8_lossy(&output.stderr));
            assert!(output.stdout.len() == bytes && output.stdout.iter().all(|byte| *byte == b'p'), "{version} {url}");
        }
    }
    if let Some(python) = python {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http3_cases/echo.py");
        let port = site.quic[0].port().to_string();
        let output = Command::new("timeout").arg("200").arg(python).arg(script).arg(port).output().expect("python");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
    let counts = site.stop();
    assert_eq!((counts.applications_failed, counts.applications_cancelled), (0, taken_back), "{counts:?}");
    assert_eq!((counts.http2_errors, counts.http2_abuses, counts.http3_errors), (0, 0, 0), "{counts:?}");
}

#[test]
fn slow_applications_and_slow_uploads_are_no_faults_of_the_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let (site, ..) = serve(|options| {
        options.timeouts =
            // curl sends 64 KiB at a time, a second and a bit apart.
            Timeouts { body: Duration::from_secs(2), head: Duration::from_secs(1), ..Timeouts::default() };
    });
    let (body, to) = (body_file(directory.path(), 300_000), directory.path().join("to"));
    // The client has sent all that it may, long before anything of it is taken.
    for version in ["--http2-prior-knowledge", "--http1.1"] {
        curl_echo(&[version], &format!("http://{}/ponder", site.addr), &body, &to);
    }
    // A link of 60 kB/s takes five seconds, and each reception ends within a frame.
    for version in ["--http2-prior-knowledge", "--http1.1"] {
        curl_echo(&[version, "--limit-rate", "60k"], &format!("http://{}/echo", site.addr), &body, &to);
    }
    let counts = site.stop();
    assert_eq!((counts.timeouts, counts.applications_failed, counts.applications_cancelled), (0, 0, 0), "{counts:?}");
}

#[test]
fn a_response_that_is_broken_off_looks_like_none_that_is_whole() {
    let (site, ..) = serve(|options| {
        options.timeouts = Timeouts { application: Duration::from_millis(700), ..Timeouts::default() };
    });
    // Over HTTP/1.0 without a length only the end of the connection would say where the body ends.
    let mut stream = site.connect();
    stream.write_all(b"GET /break/open HTTP/1.0\r\n\r\n").expect("sends");
    let mut received = Vec::new();
    let ended = stream.read_to_end(&mut received);
    assert!(received.ends_with(b"some"), "{}", String::from_utf8_lossy(&received));
    assert_eq!(ended.expect_err("a reset").kind(), std::io::ErrorKind::ConnectionReset);
    // An application behind a response that is still under way does not break that.
    let both = b"GET /pour/3000000 HTTP/1.1\r\nHost: a\r\n\r\nGET /break/early HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let received = site.exchange(both);
    assert!(received.len() > 3_000_000 && received.ends_with(b"own page"), "{} bytes", received.len());
    assert_eq!(site.stop().applications_failed, 2);
}

/// Has a test of this file run in a process of its own, as what other tests take meanwhile would be counted as well; false
/// within that process.
fn is_done_alone(test: &str) -> bool {
    const ALONE: &str = "WEIR_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let name = format!("applications::{test}");
    let status = command.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").status().expect("it starts");
    assert!(status.success(), "{name} failed");
    true
}

/// The memory of this process that is in use.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
    status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

#[test]
fn a_gigabyte_comes_back_in_bounded_memory() {
    if is_done_alone("a_gigabyte_comes_back_in_bounded_memory") {
        return;
    }
    const BYTES: u64 = 1 << 30;
    let (site, ..) = serve(|_| {});
    let before = resident_bytes();
    let mut stream = site.connect();
    stream
        .write_all(format!("POST /echo?length HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes())
        .expect("sends");
    let mut writer = stream.try_clone().expect("a second handle");
    let thread = std::thread::spawn(move || {
        let block: Vec<u8> = (0..1 << 20_u32).map(|i| (i % 251) as u8).collect();
        for _ in 0..BYTES >> 20 {
            writer.write_all(&block).expect("sends");
        }
    });
    let most = read_gigabyte(&mut stream, BYTES);
    thread.join().expect("no panic");
    // The two blocks of this test are in it.
    assert!(most.saturating_sub(before) < 8 << 20, "{} KiB more than before", (most - before) >> 10);
}

/// How many bytes go over HTTP/2 and HTTP/3 there and back: `make soak-bodies` asks for a gigabyte.
fn many_bytes() -> u64 {
    std::env::var("WEIR_TEST_BODY_BYTES").map_or(64 << 20, |bytes| bytes.parse().expect("a number of bytes"))
}

#[test]
fn many_bytes_come_back_over_http2_and_http3_in_bounded_memory() {
    if is_done_alone("many_bytes_come_back_over_http2_and_http3_in_bounded_memory") {
        return;
    }
    let (site, ..) = serve(secure);
    let before = resident_bytes();
    let bytes = many_bytes();
    let pattern = format!("yes 'a body that goes there and back' | head -c {bytes}");
    let curl = format!("curl -sSfk --http2 -H Expect: -T - https://{}/echo", site.addr);
    let http2 = format!("{pattern} | {curl} | cmp - <({pattern})");
    let mut clients = vec![Command::new("bash").args(["-c", &http2]).spawn().expect("bash")];
    if let Some(python) = weir_testkit::require::aioquic() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http3_cases/echo.py");
        let (port, bytes) = (site.quic[0].port().to_string(), bytes.to_string());
        clients.push(Command::new(python).arg(script).args([port, bytes]).spawn().expect("python"));
    }
    let mut most = 0;
    while clients.iter_mut().any(|client| client.try_wait().expect("a child").is_none()) {
        most = most.max(resident_bytes());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(clients.iter_mut().all(|client| client.wait().expect("ended").success()));
    // A connection of QUIC has up to a megabyte on its way to the client.
    assert!(most.saturating_sub(before) < 12 << 20, "{} KiB more than before", (most - before) >> 10);
    assert_eq!(site.stop().applications_cancelled, 0);
}

/// Reads a response, checks its body, and returns the most memory that was in use meanwhile.
fn read_gigabyte(stream: &mut TcpStream, bytes: u64) -> u64 {
    let expected: Vec<u8> = (0..1 << 20_u32).map(|i| (i % 251) as u8).collect();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let (mut block, mut most) = (vec![0; 1 << 20], 0);
    for _ in 0..bytes >> 20 {
        stream.read_exact(&mut block).expect("a body");
        assert!(block == expected);
        most = most.max(resident_bytes());
    }
    most
}
