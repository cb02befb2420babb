//! Users over HTTP/2: each over a connection of its own, the requests of a burst on streams side by side.

use crate::server;

use server::http2::{GOAWAY, HEADERS, RST_STREAM, answer, frame};
use server::{Peer, Server, load, load_with_events};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::SessionReport;
use weir_load::sessions::{Session, Sessions, Think, parse_sessions};
use weir_load::{LoadReport, Options, Protocol, Request, Schedule, StopRule, Trust, Url};
use weir_testkit::{Certificate, Nghttpd, Nginx, free_port, require};

/// A page, what belongs to it, and after a pause the next.
const TEXT: &str = "/page think=0.05\n/next\n  /one\n  /two\n  /three\n";
const PAUSE_NS: u64 = 50_000_000;

fn options(base: &str, text: &str, sessions: u64, streams: u32) -> Options {
    let url = Url::parse(base).expect("a URL");
    let mut options = Options::new(url.clone());
    let (requests, list) = parse_sessions(text, Some(&url), &Request::default(), Think::None).expect("a good file");
    options.requests.list = requests;
    options.requests.sessions = Some(Sessions { list, seed: 1 });
    options.requests.cookie_jar = true;
    options.stop = StopRule::Requests(sessions);
    options.connections = 4;
    options.protocol = Protocol::Http2 { streams };
    options.timeout = Duration::from_secs(10);
    options.trust = Trust::Anything;
    options
}

fn of(report: &LoadReport) -> &SessionReport {
    report.sessions.as_ref().expect("sessions were run")
}

/// Runs sessions of [`TEXT`]: their order and pauses, as the generator itself tells them.
fn check(base: &str, streams: u32) {
    let mut options = options(base, TEXT, 12, streams);
    options.requests.cookies = vec![("user".to_owned(), "one".to_owned())];
    let (report, connections, mut told) = load_with_events(options);
    let (sessions, what) = (of(&report), format!("{base} with {streams} streams"));
    assert_eq!((report.requests, report.failures(), connections.len()), (60, 0, 12), "{what}: {:?}", report.errors);
    assert_eq!((sessions.completed, sessions.failed, sessions.connections), (12, 0, 12), "{what}");
    assert_eq!(sessions.answers, [(5, 12)], "{what}");
    assert!(sessions.lifetime.min() >= PAUSE_NS, "{what}");
    told.sort_by_key(|request| (request.connection, request.sent_ns));
    for session in told.chunks(5) {
        // Each burst begins when all of the one before is answered, or so much later as the user thinks.
        assert_eq!(session[1].intended_ns - session[0].done_ns, PAUSE_NS, "{what}");
        assert!(session[1].sent_ns >= session[1].intended_ns, "{what}");
        assert!(session[2..].iter().all(|request| request.sent_ns >= session[1].done_ns), "{what}");
        let together = session[2..].iter().filter(|request| request.sent_ns == session[2].sent_ns).count();
        assert_eq!(together, streams.min(3) as usize, "{what}");
    }
}

#[test]
fn nginx_sees_each_user_in_order_with_its_own_cookies() {
    if require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("a certificate");
    let (plain, encrypted, logs) = (free_port(), free_port(), tempfile::tempdir().expect("a directory"));
    let log = logs.path().display();
    let _server = Nginx::new()
        .directive(&format!("listen 127.0.0.1:{plain} http2; listen 127.0.0.1:{encrypted} ssl http2;"))
        .directive(&format!("ssl_certificate \"{}\";", certificate.certificate().display()))
        .directive(&format!("ssl_certificate_key \"{}\";", certificate.key().display()))
        // Which connection a user has, and with the page another cookie.
        .directive("add_header Set-Cookie \"at=$connection\"; location / { return 200 $uri; }")
        .directive("location = /page { add_header Set-Cookie \"at=$connection\"; add_header Set-Cookie \"page=1\"; return 200 p; }")
        // A file for each connection, and one for what it was asked with the same cookies.
        .directive(&format!("access_log \"{log}/order.$connection\" combined;"))
        .directive(&format!("access_log \"{log}/$connection.$cookie_at.$cookie_page.$cookie_user\" combined;"))
        .start()
        .expect("nginx starts");
    for (base, streams) in [(format!("http://127.0.0.1:{plain}/"), 8), (format!("https://localhost:{encrypted}/"), 2)] {
        check(&base, streams);
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    let files = || {
        let entries = std::fs::read_dir(logs.path()).expect("our own directory").flatten();
        let text = |path| std::fs::read_to_string(path).expect("a log").lines().map(path_of).collect::<Vec<_>>();
        let all = entries.map(|one| (one.file_name().into_string().expect("text"), text(one.path())));
        // Whether the server was up was asked before.
        all.filter(|(_, asked)| asked != &["/"]).collect::<HashMap<_, _>>()
    };
    while files().iter().filter(|(name, _)| name.starts_with("order")).map(|(_, asked)| asked.len()).sum::<usize>()
        < 120
    {
        assert!(Instant::now() < deadline, "{:?}", files());
        std::thread::sleep(Duration::from_millis(20));
    }
    let files = files();
    let users: Vec<_> = files.iter().filter_map(|(name, asked)| Some((name.strip_prefix("order.")?, asked))).collect();
    // Each user has one connection, and two sets of cookies: the given one, and with the server's two.
    assert_eq!((users.len(), files.len()), (24, 72));
    for (user, asked) in users {
        assert_eq!(asked[..2], ["/page", "/next"], "{user}");
        let mut together = asked[2..].to_vec();
        together.sort_unstable();
        assert_eq!(together, ["/one", "/three", "/two"], "{user}");
        assert_eq!(files[&format!("{user}...one")], ["/page"]);
        assert_eq!(files[&format!("{user}.{user}.1.one")], asked[1..]);
    }
}

/// What a line of nginx's log says that was asked for.
fn path_of(line: &str) -> String {
    line.split(' ').nth(6).expect("a request").to_owned()
}

#[test]
fn nghttpd_agrees() {
    if require::program("nghttpd").is_none() || require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (tempfile::tempdir().expect("a directory"), Certificate::self_signed().expect("one"));
    for name in ["page", "next", "one", "two", "three"] {
        std::fs::write(site.path().join(name), name).expect("a file");
    }
    let plain = Nghttpd::new().root(site.path()).start().expect("nghttpd starts");
    check(&format!("http://127.0.0.1:{}/", plain.port), 8);
    let encrypted = Nghttpd::new().root(site.path()).tls(&certificate).start().expect("nghttpd starts");
    check(&format!("https://localhost:{}/", encrypted.port), 8);
}

/// Answers every request with a cookie of its connection, and notes which cookies came: an own one, or none.
fn with_cookies(peer: &mut Peer, seen: &Mutex<Vec<(usize, String)>>, requests: usize) {
    for _ in 0..requests {
        let Some(frame) = std::iter::from_fn(|| peer.frame()).find(|frame| frame.kind == HEADERS) else { return };
        let text = String::from_utf8_lossy(&frame.payload).into_owned();
        // The value stands at the end of the block, plain.
        let cookie = text.rfind("u=").map_or("none", |at| &text[at..]).to_owned();
        seen.lock().expect("no panic").push((peer.number, cookie));
        let head = [&b"\x88\x0f\x28\x03u="[..], peer.number.to_string().as_bytes()].concat();
        if !peer.send(&self::frame(HEADERS, 5, frame.stream, &head)) {
            return;
        }
    }
}

#[test]
fn a_user_keeps_its_cookies_when_its_connection_ends() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&seen);
    // Each connection is good for one request.
    let server = Server::start(move |peer| {
        if peer.greet(&[]) {
            with_cookies(peer, &own, 1);
        }
    });
    let mut options = options(&server.url().to_string(), "/a\n/b think=0.02\n/c\n", 2, 4);
    options.connections = 1;
    let report = load(options);
    let sessions = of(&report);
    assert_eq!((sessions.completed, sessions.failed, sessions.connections), (2, 0, 6), "{:?}", report.errors);
    let seen = seen.lock().expect("no panic");
    let cookies: Vec<_> = seen.iter().map(|(_, cookie)| cookie.as_str()).collect();
    assert_eq!(cookies, ["none", "u=0", "u=1", "none", "u=3", "u=4"]);
}

#[test]
fn without_sessions_each_connection_is_a_user() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&seen);
    let server = Server::start(move |peer| {
        if peer.greet(&[]) {
            with_cookies(peer, &own, usize::MAX);
        }
    });
    let mut options = server.options(300);
    options.protocol = Protocol::Http2 { streams: 5 };
    options.requests.cookie_jar = true;
    options.connections = 3;
    let report = load(options);
    assert_eq!((report.requests, report.failures()), (300, 0), "{:?}", report.errors);
    let seen = seen.lock().expect("no panic");
    for (connection, cookie) in seen.iter() {
        assert!(*cookie == "none" || *cookie == format!("u={connection}"), "{connection}: {cookie}");
    }
    // Those that went out before the first response had none.
    let without = seen.iter().filter(|(_, cookie)| cookie == "none").count();
    assert!((3..=15).contains(&without), "{without}");
}

#[test]
fn a_farewell_in_a_burst_loses_nothing() {
    let server = Server::start(|peer| {
        if !peer.greet(&[]) {
            return;
        }
        // Of each burst one is taken, one refused, and the rest told that it was not looked at.
        let Some(first) = peer.asked() else { return };
        peer.send(&answer(first, b"one"));
        let Some(second) = peer.asked() else { return };
        let mut bytes = frame(RST_STREAM, 0, second, &7u32.to_be_bytes());
        bytes.extend(frame(GOAWAY, 0, 0, &[&(first + 2).to_be_bytes()[..], &[0; 4]].concat()));
        peer.send(&bytes);
        while peer.frame().is_some() {}
    });
    let mut options = options(&server.url().to_string(), "/a\n/b\n/c\n/d\n", 5, 8);
    options.requests.sessions = Some(Sessions { list: vec![Session::new().burst(&[0, 1, 2, 3])], seed: 1 });
    let report = load(options);
    let sessions = of(&report);
    assert_eq!((sessions.completed, sessions.failed, report.requests), (5, 0, 20), "{:?}", report.errors);
    // Each connection brings one of the four.
    assert_eq!(sessions.connections, 20);
}

#[test]
fn a_failed_request_ends_its_session_when_its_burst_is_over() {
    let server = Server::start(|peer| {
        if !peer.greet(&[]) {
            return;
        }
        let mut number = 0;
        while let Some(stream) = peer.asked() {
            number += 1;
            let fails = peer.number == 1 && number == 2;
            let bytes = if fails { frame(RST_STREAM, 0, stream, &2u32.to_be_bytes()) } else { answer(stream, b"x") };
            peer.send(&bytes);
        }
    });
    let report = load(options(&server.url().to_string(), "/a\n  /b\n  /c\n/d\n", 4, 1));
    let sessions = of(&report);
    assert_eq!((sessions.completed, sessions.failed, sessions.connections), (3, 1, 4), "{:?}", report.errors);
    // The first and the third of its burst were answered; its next burst never went out.
    assert_eq!((report.requests, report.failures()), (14, 1), "{:?}", sessions.answers);
    assert_eq!(sessions.fail_time.len(), 1);
}

#[test]
fn sessions_arrive_at_their_rate_end_with_the_run_and_time_out() {
    let server = Server::start(|peer| {
        if peer.greet(&[]) {
            while let Some(stream) = peer.asked() {
                peer.send(&answer(stream, b"x"));
            }
        }
    });
    let mut rate = options(&server.url().to_string(), "/a think=0.2\n/b\n", 20, 2);
    rate.schedule = Schedule::Fixed { rate_per_s: 100.0 };
    (rate.connections, rate.threads) = (20, 2);
    let begin = Instant::now();
    let report = load(rate);
    assert_eq!((of(&report).completed, report.requests, report.dropped), (20, 40, 0), "{:?}", report.errors);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());

    let mut full = options(&server.url().to_string(), "/a think=0.1\n/b\n", 5, 2);
    full.schedule = Schedule::Bursts { size: 5, every: Duration::from_secs(1) };
    full.connections = 1;
    let report = load(full);
    assert_eq!((of(&report).completed, report.queued), (5, 4));
    assert!(of(&report).lifetime.max() >= 500_000_000, "{}", of(&report).lifetime.max());

    let mut cut = options(&server.url().to_string(), "/a think=3600\n/b\n", 1, 2);
    cut.stop = StopRule::Duration(Duration::from_millis(300));
    let report = load(cut);
    assert_eq!((report.requests, of(&report).completed, of(&report).unfinished), (4, 0, 4), "{:?}", report.errors);

    let silent = Server::start(|peer| {
        // It takes one request of a connection at a time, and answers none.
        if peer.greet(&[(3, 1)]) {
            while peer.frame().is_some() {}
        }
    });
    let mut late = options(&silent.url().to_string(), "/a\n  /b\n", 2, 2);
    late.timeout = Duration::from_millis(200);
    late.connections = 2;
    let report = load(late);
    assert_eq!((of(&report).completed, of(&report).failed), (0, 2), "{:?}", report.errors);
}
