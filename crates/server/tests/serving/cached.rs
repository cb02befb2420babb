//! A cache before an upstream, as clients and the upstream see it.

use crate::harness;

use harness::{Reply, Site, connect, read_reply, read_to_end, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_server::parse_configuration;

/// What an upstream does for a request.
enum Act {
    Send(Vec<u8>),
    Sleep(u64),
    /// Waits until this holds.
    Until(Arc<AtomicBool>),
    Close,
}

/// A program behind the server: what it was asked, in order.
struct Upstream {
    addr: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
}

impl Upstream {
    /// The script gets the head of a request, and how many came before it.
    fn start(script: impl Fn(&str, usize) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let addr = listener.local_addr().expect("an address");
        let (asked, stop, script) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::new(AtomicBool::new(false)), Arc::new(script));
        let (heads, is_stopped) = (Arc::clone(&asked), Arc::clone(&stop));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let (heads, script) = (Arc::clone(&heads), Arc::clone(&script));
                std::thread::spawn(move || serve(&stream.expect("accepts"), &heads, &*script));
            }
        });
        Self { addr, asked, stop }
    }

    /// One that gives each request a body of its own, with these fields.
    fn counting(fields: &'static str) -> Self {
        Self::start(move |_, number| vec![ok(fields, &format!("body {number}"))])
    }

    fn count(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }

    fn asked(&self, number: usize) -> String {
        self.asked.lock().expect("no panic")[number].clone()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.addr));
    }
}

fn serve(mut stream: &TcpStream, heads: &Mutex<Vec<String>>, script: &(impl Fn(&str, usize) -> Vec<Act> + ?Sized)) {
    loop {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let head = String::from_utf8(head).expect("text");
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).expect("a body");
        let number = {
            let mut heads = heads.lock().expect("no panic");
            heads.push(head.clone());
            heads.len() - 1
        };
        for act in script(&head, number) {
            match act {
                Act::Send(bytes) if stream.write_all(&bytes).is_err() => return,
                Act::Send(_) => {}
                Act::Sleep(ms) => std::thread::sleep(Duration::from_millis(ms)),
                Act::Until(holds) => wait_until(|| holds.load(Ordering::Relaxed)),
                Act::Close => {
                    let _ = stream.shutdown(Shutdown::Both);
                    return;
                }
            }
        }
    }
}

/// A response; fields have `|` between them.
fn response(status: &str, fields: &str, body: &str) -> Act {
    let fields: String = fields.split('|').filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect();
    Act::Send(format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn ok(fields: &str, body: &str) -> Act {
    response("200 OK", fields, body)
}

const FRESH: &str = "Cache-Control: max-age=60";

fn site_with(upstream: &Upstream, cache: &str, loops: usize) -> Site {
    let text = format!(
        "[admin]\nlisten = \"unix:admin.sock\"\n[[host]]\nproxy = \"http://{}\"\ncache = {cache}\n",
        upstream.addr
    );
    Site::start(&[], |options| {
        let (folder, listen, io) = (options.root.clone(), options.listen.clone(), options.io);
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.io, options.loops) = (listen, io, loops);
    })
}

fn site(upstream: &Upstream) -> Site {
    site_with(upstream, "true", 1)
}

fn status_of(reply: &Reply) -> &str {
    reply.field("cache-status").expect("Cache-Status")
}

/// What the admin address answers.
fn admin(site: &Site, method: &str, target: &str) -> String {
    let mut stream = UnixStream::connect(site.directory.path().join("admin.sock")).expect("connects");
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sends");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("reads");
    text
}

/// A count of the metrics.
fn metric(site: &Site, name: &str) -> u64 {
    let text = admin(site, "GET", "/metrics");
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_stored_response_answers_without_the_upstream() {
    let upstream =
        Upstream::counting("Cache-Control: max-age=60|Content-Type: text/plain|Date: Sun, 06 Nov 1994 08:49:37 GMT");
    let site = site(&upstream);
    let first = site.get("/a");
    assert_eq!((first.status, first.text().as_str(), status_of(&first)), (200, "body 0", "weir; fwd=uri-miss"));
    // The upstream says that it is old, so that it is not stored; `field` fails if there are two dates.
    assert_eq!(first.field("date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    let upstream_now = Upstream::counting("Cache-Control: max-age=60|Content-Type: text/plain|Server: own");
    let site = site_with(&upstream_now, "true", 1);
    let first = site.get("/a");
    assert_eq!((first.field("age"), first.field("server")), (None, Some("own")));
    let mut kept = site.connect();
    for _ in 0..3 {
        kept.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        let hit = read_reply(&mut kept, false);
        assert_eq!((hit.status, hit.text().as_str(), hit.field("content-type")), (200, "body 0", Some("text/plain")));
        assert!(status_of(&hit).starts_with("weir; hit; ttl="), "{hit:?}");
        assert!(hit.field("age").is_some() && hit.field("date").is_some() && hit.field("server") == Some("own"));
    }
    kept.write_all(b"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("sends");
    let head = read_reply(&mut kept, true);
    assert_eq!((head.status, head.field("content-length")), (200, Some("6")));
    assert_eq!(read_reply(&mut kept, false).text(), "body 0");
    assert_eq!(read_to_end(&mut kept), b"");
    assert_eq!(upstream_now.count(), 1);
    assert_eq!(site.get("/b").text(), "body 1");
    assert_eq!(site.get("/a?x").text(), "body 2");
    assert_eq!(metric(&site, "weir_response_cache_requests_total{result=\"hit\"}"), 5);
    assert_eq!(metric(&site, "weir_response_cache_requests_total{result=\"miss\"}"), 3);
    assert_eq!(metric(&site, "weir_response_cache_entries"), 3);
}

#[test]
fn bodies_of_any_size_are_the_same_from_the_cache() {
    let upstream = Upstream::start(|head, _| {
        let bytes: usize = head.split(['/', ' ']).find_map(|part| part.parse().ok()).expect("a size");
        let body: String = (0..bytes).map(|at| char::from(b'a' + (at / 7 % 26) as u8)).collect();
        vec![ok(FRESH, &body)]
    });
    let site = site_with(&upstream, "{ disk = \"store\", memory = \"16 MiB\", largest = \"8 MiB\" }", 1);
    for bytes in [0_usize, 1, 3000, 65_536, 65_537, 400_000, 3_000_000] {
        let target = format!("/{bytes}");
        let first = site.get(&target);
        let second = site.get(&target);
        assert_eq!(first.body.len(), bytes);
        assert!(first.body == second.body, "{bytes}");
        assert!(status_of(&second).starts_with("weir; hit"), "{bytes} {second:?}");
        let part = site.ask("GET", &target, "Range: bytes=-9\r\n");
        if bytes > 9 {
            assert_eq!((part.status, part.body.as_slice()), (206, &first.body[bytes - 9..]));
        }
    }
    assert_eq!(upstream.count(), 7);
    assert!(metric(&site, "weir_response_cache_bytes{place=\"disk\"}") >= 3_000_000);
}

#[test]
fn what_is_stale_is_validated() {
    let upstream = Upstream::start(|head, number| match head.contains("If-None-Match: \"v1\"") {
        true => vec![Act::Send(b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nX-New: 1\r\n\r\n".to_vec())],
        false => vec![ok("Cache-Control: no-cache|ETag: \"v1\"", &format!("body {number}"))],
    });
    let site = site(&upstream);
    site.get("/a");
    let again = site.get("/a");
    assert_eq!((again.status, again.text().as_str(), again.field("x-new")), (200, "body 0", Some("1")));
    assert!(status_of(&again).starts_with("weir; fwd=stale; fwd-status=304"), "{again:?}");
    assert!(upstream.asked(1).contains("If-None-Match: \"v1\"") && upstream.count() == 2);
}

#[test]
fn conditions_are_weighed_by_the_cache() {
    let upstream =
        Upstream::counting("Cache-Control: max-age=60|ETag: \"v1\"|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT");
    let site = site(&upstream);
    // What is not stored yet is fetched whole, though the client has it.
    let known = site.ask("GET", "/a", "If-None-Match: \"v1\"\r\n");
    assert_eq!((known.status, known.body.len(), known.field("etag")), (304, 0, Some("\"v1\"")));
    assert!(!upstream.asked(0).to_ascii_lowercase().contains("if-none-match"));
    for (fields, status, body) in [
        ("If-None-Match: \"v1\"\r\n", 304, ""),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304, ""),
        ("If-None-Match: \"v2\"\r\n", 200, "body 0"),
        ("Range: bytes=2-3\r\n", 206, "dy"),
        ("Range: bytes=2-3\r\nIf-Range: \"v2\"\r\n", 200, "body 0"),
        ("Range: bytes=9-\r\n", 416, ""),
    ] {
        let reply = site.ask("GET", "/a", fields);
        assert_eq!((reply.status, reply.text().as_str()), (status, body), "{fields}");
    }
    let several = site.ask("GET", "/a", "Range: bytes=0-0,5-5\r\n");
    assert!(several.status == 206 && several.text().contains("Content-Range: bytes 5-5/6\r\n\r\n0"), "{several:?}");
    assert_eq!(upstream.count(), 1);
    // A range of what is not stored is the upstream's to give.
    assert_eq!(status_of(&site.ask("GET", "/b", "Range: bytes=0-0\r\n")), "weir; fwd=bypass");
    assert!(upstream.asked(1).contains("bytes=0-0"));
}

#[test]
fn requests_select_among_what_varies() {
    let upstream = Upstream::counting("Cache-Control: max-age=60|Vary: Accept-Language");
    let site = site(&upstream);
    let get = |language: &str| site.ask("GET", "/a", &format!("Accept-Language: {language}\r\n"));
    assert_eq!(get("de").text(), "body 0");
    let other = get("en");
    assert_eq!((other.text().as_str(), status_of(&other)), ("body 1", "weir; fwd=vary-miss; stored"));
    assert_eq!((get("de").text().as_str(), get("en").text().as_str(), upstream.count()), ("body 0", "body 1", 2));
}

#[test]
fn a_stale_response_answers_while_it_is_fetched_anew() {
    let may_answer = Arc::new(AtomicBool::new(true));
    let may = Arc::clone(&may_answer);
    let upstream = Upstream::start(move |_, number| {
        let fields = "Cache-Control: max-age=1, stale-while-revalidate=60";
        vec![Act::Until(Arc::clone(&may)), ok(fields, &format!("body {number}"))]
    });
    let site = site(&upstream);
    assert_eq!(site.get("/a").text(), "body 0");
    may_answer.store(false, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(1300));
    for _ in 0..3 {
        let stale = site.get("/a");
        assert_eq!(stale.text(), "body 0");
        assert!(status_of(&stale).starts_with("weir; hit; ttl="), "{stale:?}");
    }
    may_answer.store(true, Ordering::Relaxed);
    wait_until(|| metric(&site, "weir_response_cache_stored_total") == 2);
    assert_eq!((site.get("/a").text().as_str(), upstream.count()), ("body 1", 2));
    assert_eq!(metric(&site, "weir_response_cache_requests_total{result=\"stale\"}"), 3);
}

#[test]
fn a_refresh_in_the_background_ends_although_no_client_is_there() {
    let large = "x".repeat(1_000_000);
    let upstream = Upstream::start(move |_, number| {
        vec![
            Act::Sleep(400 * u64::from(number > 0)),
            ok("Cache-Control: max-age=1, stale-while-revalidate=60", &format!("{number}{large}")),
        ]
    });
    let site = site(&upstream);
    site.get("/a");
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(site.get("/a").body[0], b'0');
    wait_until(|| metric(&site, "weir_response_cache_stored_total") == 2);
    assert_eq!((site.get("/a").body[0], upstream.count()), (b'1', 2));
}

#[test]
fn a_stale_response_answers_while_the_upstream_fails() {
    let upstream = Upstream::start(|head, number| match number {
        0 => vec![ok("Cache-Control: max-age=1, stale-if-error=60", "good")],
        1 => vec![response("503 Service Unavailable", "", "bad")],
        _ if head.starts_with("GET /b") => vec![response("503 Service Unavailable", "", "bad")],
        _ => vec![Act::Close],
    });
    let site = site(&upstream);
    site.get("/a");
    std::thread::sleep(Duration::from_millis(1300));
    let stale = site.get("/a");
    assert_eq!((stale.status, stale.text().as_str()), (200, "good"));
    assert!(status_of(&stale).starts_with("weir; fwd=stale; fwd-status=503"), "{stale:?}");
    let stale = site.get("/a");
    assert_eq!((stale.status, stale.text().as_str()), (200, "good"));
    assert!(status_of(&stale).starts_with("weir; fwd=stale; detail=unreachable"), "{stale:?}");
    // Of what was never stored there is nothing to give.
    assert_eq!((site.get("/b").status, site.get("/c").status), (503, 502));
}

#[test]
fn what_may_not_be_stored_is_not() {
    for (fields, request) in [
        ("Cache-Control: no-store", ""),
        ("Cache-Control: private, max-age=60", ""),
        ("Cache-Control: max-age=60|Set-Cookie: a=b", ""),
        ("Cache-Control: max-age=60|Vary: *", ""),
        ("", ""),
        (FRESH, "Authorization: Basic eDp5\r\n"),
        (FRESH, "Cache-Control: no-store\r\n"),
    ] {
        let upstream = Upstream::counting(fields);
        let site = site(&upstream);
        for number in 0..3 {
            let reply = site.ask("GET", "/a", request);
            assert_eq!(reply.text(), format!("body {number}"), "{fields} {request}");
            assert!(!status_of(&reply).contains("stored"), "{reply:?}");
        }
        assert_eq!(metric(&site, "weir_response_cache_entries"), 0, "{fields} {request}");
    }
}

#[test]
fn a_client_may_want_nothing_but_what_is_stored() {
    let upstream = Upstream::counting(FRESH);
    let site = site(&upstream);
    let only = || site.ask("GET", "/a", "Cache-Control: only-if-cached\r\n");
    assert_eq!((only().status, upstream.count()), (504, 0));
    site.get("/a");
    assert_eq!((only().status, only().text().as_str(), upstream.count()), (200, "body 0", 1));
}

#[test]
fn many_clients_make_one_request_to_the_upstream() {
    let upstream = Upstream::start(|_, number| vec![Act::Sleep(500), ok(FRESH, &format!("body {number}"))]);
    let site = site_with(&upstream, "true", 2);
    let addr = site.addr;
    let ask = move || {
        let mut stream = connect(addr);
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
        Reply::parse(&read_to_end(&mut stream)).0
    };
    let clients: Vec<_> = (0..50).map(|_| std::thread::spawn(ask)).collect();
    for client in clients {
        let reply = client.join().expect("no panic");
        assert_eq!((reply.status, reply.text().as_str()), (200, "body 0"));
    }
    assert_eq!(upstream.count(), 1);
    assert!(metric(&site, "weir_response_cache_collapsed_total") > 30);
}

#[test]
fn a_client_that_leaves_leaves_its_place_to_another() {
    let has_left = Arc::new(AtomicBool::new(false));
    let left = Arc::clone(&has_left);
    let upstream =
        Upstream::start(move |_, number| vec![Act::Until(Arc::clone(&left)), ok(FRESH, &format!("body {number}"))]);
    let site = site(&upstream);
    let mut leader = site.connect();
    leader.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    wait_until(|| upstream.count() == 1);
    let addr = site.addr;
    let others: Vec<_> = (0..5)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = connect(addr);
                stream.write_all(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
                Reply::parse(&read_to_end(&mut stream)).0
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(150));
    drop(leader);
    wait_until(|| upstream.count() == 2);
    has_left.store(true, Ordering::Relaxed);
    for other in others {
        let reply = other.join().expect("no panic");
        assert_eq!((reply.status, reply.text().as_str()), (200, "body 1"));
    }
    assert_eq!(upstream.count(), 2);
}

#[test]
fn a_response_that_is_cut_off_is_not_stored() {
    let upstream = Upstream::start(|_, number| match number {
        0 => vec![
            Act::Send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nhalf".to_vec()),
            Act::Sleep(50),
            Act::Close,
        ],
        1 => vec![
            Act::Send(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"
                    .to_vec(),
            ),
            Act::Close,
        ],
        _ => vec![ok(FRESH, "whole")],
    });
    let site = site(&upstream);
    let cut = site.get("/a");
    assert_eq!((cut.status, cut.text().as_str(), cut.field("content-length")), (200, "half", Some("10")));
    let bytes = site.exchange(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(
        (site.get("/a").text().as_str(), site.get("/a").text().as_str(), upstream.count()),
        ("whole", "whole", 3)
    );
}

#[test]
fn an_unsafe_method_makes_what_is_stored_invalid() {
    let upstream = Upstream::start(|head, number| match head.starts_with("GET") {
        true => vec![ok(FRESH, &format!("body {number}"))],
        false if head.contains("/bad") => vec![response("500 Oh", "", "")],
        false => vec![response("201 Created", "Location: /b", "made")],
    });
    let site = site(&upstream);
    for target in ["/a", "/b", "/bad"] {
        site.get(target);
    }
    let made = site.ask("POST", "/a", "Content-Length: 0\r\n");
    assert_eq!((made.status, made.text().as_str(), status_of(&made)), (201, "made", "weir; fwd=method"));
    assert_eq!(site.ask("POST", "/bad", "Content-Length: 0\r\n").status, 500);
    assert_eq!((site.get("/a").text().as_str(), site.get("/b").text().as_str()), ("body 5", "body 6"));
    assert_eq!(site.get("/bad").text(), "body 2");
}

#[test]
fn the_admin_address_has_responses_forgotten() {
    let upstream = Upstream::start(|head, number| {
        let tag = if head.contains("/x/") { "Cache-Tag: news, sport" } else { "X: y" };
        vec![ok(&format!("{FRESH}|{tag}"), &format!("body {number}"))]
    });
    let site = site(&upstream);
    let all = || ["/x/1", "/x/2", "/y"].map(|target| site.get(target).text());
    let (before, purge) = (all(), |what: &str| admin(&site, "POST", &format!("/purge?{what}")));
    assert!(purge("url=http://a/y").ends_with("{\"purged\":1}\n"));
    assert_eq!(all()[..2], before[..2]);
    assert!(purge("prefix=http://a/x/").ends_with("{\"purged\":2}\n"));
    assert!(all()[0] != before[0] && purge("tag=sport").ends_with("{\"purged\":2}\n"));
    assert!(purge("tag=none").ends_with("{\"purged\":0}\n"));
    assert!(
        purge("url=/y").starts_with("HTTP/1.1 400 ")
            && admin(&site, "GET", "/purge?tag=x").starts_with("HTTP/1.1 405 ")
    );
    let mut foreign = UnixStream::connect(site.directory.path().join("admin.sock")).expect("connects");
    let request = "POST /purge?tag=news HTTP/1.1\r\nHost: localhost:9100\r\nOrigin: http://evil.example\r\n\r\n";
    foreign.write_all(request.as_bytes()).expect("sends");
    let mut answer = String::new();
    foreign.read_to_string(&mut answer).expect("reads");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(admin(&site, "GET", "/status.json").contains("\"response_cache\":{\"caches\":1,"));
}

#[test]
fn settings_of_a_path_count() {
    let upstream = Upstream::counting("Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT");
    let text = format!(
        "[[host]]\nproxy = \"http://{}\"\ncache = {{ default_ttl = \"1 min\", query = \"ignored\", bypass_cookies = [\"session\"] }}\n\
         [[host.path]]\nprefix = \"/live\"\ncache = false\n",
        upstream.addr
    );
    let site = Site::start(&[], |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops) = (listen, 1);
    });
    assert_eq!((site.get("/a?1").text().as_str(), site.get("/a?2").text().as_str()), ("body 0", "body 0"));
    assert_eq!(site.ask("GET", "/a", "Cookie: x=y; session=1\r\n").text(), "body 1");
    assert_eq!(site.ask("GET", "/a", "Cookie: x=y\r\n").text(), "body 0");
    for body in ["body 2", "body 3"] {
        let live = site.get("/live");
        assert_eq!((live.text().as_str(), live.field("cache-status")), (body, None));
    }
    // What is stored stays where the settings do.
    let folder = site.directory.path().to_owned();
    let mut options = parse_configuration(&text.replace("/live", "/other"), &folder).expect("no mistakes");
    (options.listen, options.loops) = (vec!["127.0.0.1:0".parse().expect("an address")], 1);
    site.reloader.reload(options);
    wait_until(|| site.get("/other").field("cache-status").is_none());
    assert_eq!(site.get("/a").text(), "body 0");
}

#[test]
fn clients_of_http2_share_what_is_stored() {
    let upstream = Upstream::start(|head, number| {
        let body = if head.contains("/large") { "x".repeat(300_000) } else { format!("body {number}") };
        vec![ok("Cache-Control: max-age=60|ETag: \"v1\"", &body)]
    });
    let site = site_with(&upstream, "true", 2);
    let curl = |target: &str, more: &[&str]| {
        let output = Command::new("timeout")
            .args(["60", "curl", "-sS", "--http2-prior-knowledge", "-H", "Host: a"])
            .args(["-w", "|%{http_code} %{http_version} %header{cache-status}"])
            .args(more)
            .arg(format!("http://{}{target}", site.addr))
            .output()
            .expect("curl starts; `make deps` installs it");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    assert_eq!(curl("/a", &[]), "body 0|200 2 weir; fwd=uri-miss; stored");
    assert!(curl("/a", &[]).starts_with("body 0|200 2 weir; hit; ttl="));
    assert!(curl("/a", &["-H", "If-None-Match: \"v1\""]).starts_with("|304 2 weir; hit"));
    assert!(curl("/a", &["-H", "Range: bytes=0-1"]).starts_with("bo|206 2 weir; hit"));
    assert!(status_of(&site.get("/a")).starts_with("weir; hit"));
    for expected in ["fwd=uri-miss; stored", "hit; ttl="] {
        let large = curl("/large", &[]);
        assert!(large.len() > 300_000 && large.contains(expected), "{}", large.trim_start_matches('x'));
    }
    assert!(curl("/a", &["-X", "DELETE"]).contains("200 2 weir; fwd=method"));
    assert!(curl("/a", &[]).contains("fwd=uri-miss; stored"));
}

#[test]
fn responses_go_on_where_the_disk_is_full() {
    let large = "x".repeat(600_000);
    let upstream = Upstream::start(move |_, _| vec![ok(FRESH, &large)]);
    let folder = tempfile::tempdir().expect("a directory");
    let mount = |arguments: &[&str]| {
        let done = Command::new(arguments[0]).args(&arguments[1..]).arg(folder.path()).output();
        done.is_ok_and(|output| output.status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=1m", "none"]) {
        println!("skipped: a small file system cannot be mounted (root may)");
        return;
    }
    let cache = format!("{{ disk = \"{}\", memory = \"1 MiB\", disk_max = \"64 MiB\" }}", folder.path().display());
    let outcome = std::panic::catch_unwind(|| {
        let site = site_with(&upstream, &cache, 1);
        for target in ["/1", "/2", "/3"] {
            assert_eq!(site.get(target).body.len(), 600_000, "{target}");
        }
        assert!(status_of(&site.get("/1")).starts_with("weir; hit"));
        assert!(metric(&site, "weir_response_cache_disk_errors_total") >= 2);
    });
    assert!(mount(&["umount", "-l"]));
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn a_confined_server_keeps_bodies_on_the_disk() {
    let large = "x".repeat(2_000_000);
    let upstream = Upstream::start(move |_, _| vec![ok(FRESH, &large)]);
    let left_over = tempfile::tempdir().expect("a directory");
    let old = left_over.path().join("weir-cache-1-0");
    std::fs::create_dir(&old).and_then(|()| std::fs::write(old.join("lock"), "")).expect("writes");
    let text = format!(
        "sandbox = true\n[[host]]\nproxy = \"http://{}\"\ncache = {{ disk = \"{}\" }}\n",
        upstream.addr,
        left_over.path().display()
    );
    // The confinement holds for the thread that runs the server, and those that it starts.
    let site = Site::start(&[], |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops) = (listen, 1);
    });
    assert!(status_of(&site.get("/a")).ends_with("stored"));
    let hit = site.get("/a");
    assert!(status_of(&hit).starts_with("weir; hit") && hit.body.len() == 2_000_000, "{:?}", hit.fields);
    wait_until(|| !old.exists());
    drop(site);
    assert_eq!(std::fs::read_dir(left_over.path()).expect("reads").count(), 0);
}
