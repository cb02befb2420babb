//! HTTP/2 against nginx, Apache and nghttpd: counts and sizes are what the servers themselves say, or what was asked for.

use crate::server;

use server::{load, load_with_events};
use std::time::{Duration, Instant};
use weir_load::{LoadReport, Options, Protocol, Request, Schedule, StopRule, Trust, Url};
use weir_testkit::{Apache, Certificate, Nghttpd, Nginx, free_port, require};

/// What is served, and how long each is.
const FILES: [(&str, usize); 4] = [("empty", 0), ("1k", 1000), ("64k", 65_536), ("2m", 2_000_000)];

fn site() -> tempfile::TempDir {
    let site = tempfile::tempdir().expect("a directory");
    for (name, bytes) in FILES {
        std::fs::write(site.path().join(name), vec![b'x'; bytes]).expect("a file");
    }
    // The server's user is another than ours.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(site.path(), std::fs::Permissions::from_mode(0o755)).expect("our own directory");
    site
}

fn options(url: &str, requests: u64, connections: u32, streams: u32) -> Options {
    let mut options = Options::new(Url::parse(url).expect("a URL"));
    options.stop = StopRule::Requests(requests);
    options.connections = connections;
    options.protocol = Protocol::Http2 { streams };
    options.timeout = Duration::from_secs(10);
    options.trust = Trust::Anything;
    options
}

fn assert_clean(report: &LoadReport, requests: u64, what: &str) {
    let bad = (report.failures(), report.dropped, report.abandoned);
    assert_eq!((report.requests, bad), (requests, (0, 0, 0)), "{what}: {:?} {:?}", report.errors, report.reasons);
    let recorded = (report.latency.len(), report.unexpected_latency.len());
    assert_eq!(recorded, (report.successes, requests - report.successes), "{what}: every sample is recorded");
}

/// The same loads on any server; `base` is its address without a path, `post` what takes a body.
fn check(base: &str, post: Option<&str>) {
    for (path, bytes) in FILES {
        for (connections, streams) in [(1, 1), (1, 100), (4, 25)] {
            let requests = if bytes > 100_000 { 60 } else { 1000 };
            let what = format!("{base}/{path} over {connections} x {streams}");
            let (report, _, told) =
                load_with_events(options(&format!("{base}/{path}"), requests, connections, streams));
            assert_clean(&report, requests, &what);
            assert_eq!(report.status, [(200, requests)], "{what}");
            // The length that each response announces is checked against its content; frames have heads of 9 bytes.
            assert!(told.len() as u64 == requests, "{what}");
            for request in told {
                let most = bytes + 600 + bytes / 500 * 9;
                assert!((bytes..most).contains(&(request.response_bytes as usize)), "{what}: {request:?}");
                assert_eq!(request.http_version, 2);
            }
        }
    }
    let missing = load(options(&format!("{base}/none"), 200, 2, 10));
    assert_clean(&missing, 200, "missing");
    assert_eq!(missing.status, [(404, 200)]);

    let mut head = options(&format!("{base}/2m"), 300, 2, 10);
    head.request = Request { method: "HEAD".into(), ..Request::default() };
    let head = load(head);
    assert_clean(&head, 300, "HEAD");
    assert!(head.bytes < 300 * 1000, "{}", head.bytes);

    let mut open = options(&format!("{base}/1k"), 400, 5, 20);
    open.schedule = Schedule::Poisson { rate_per_s: 1000.0, seed: 5 };
    assert_clean(&load(open), 400, "open loop");

    if let Some(path) = post {
        for bytes in [10, 100_000, 3_000_000] {
            let requests = if bytes > 1_000_000 { 10 } else { 200 };
            let mut post = options(&format!("{base}{path}"), requests, 2, 10);
            post.request = Request { method: "POST".into(), body: vec![b'p'; bytes], ..Request::default() };
            let (report, _, told) = load_with_events(post);
            assert_clean(&report, requests, &format!("POST of {bytes} bytes"));
            assert!(told.iter().all(|request| request.request_bytes as usize > bytes), "{:?}", told[0]);
        }
    }
}

#[test]
fn nginx_agrees() {
    if require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    let (plain, encrypted, short) = (free_port(), free_port(), free_port());
    let server = Nginx::new()
        .root(site.path())
        .directive(&format!("listen 127.0.0.1:{plain} http2; listen 127.0.0.1:{encrypted} ssl http2;"))
        .directive(&format!("ssl_certificate \"{}\";", certificate.certificate().display()))
        .directive(&format!("ssl_certificate_key \"{}\";", certificate.key().display()))
        // With sendfile nginx 1.22 takes several long responses at a time for a flood, from any client, and hangs up.
        .directive("sendfile off; client_max_body_size 10m; http2_max_concurrent_streams 64;")
        // It takes a body of any length before it answers.
        .directive(&format!("location /post {{ proxy_pass http://127.0.0.1:{short}/1k; }}"))
        .start()
        .expect("nginx starts");
    let receiver = Nginx::new()
        .root(site.path())
        .directive(&format!("listen 127.0.0.1:{short} backlog=1024; client_max_body_size 10m;"))
        .directive("error_page 405 =200 /1k; location /1k { if ($request_method = POST) { return 200 taken; } }")
        .start()
        .expect("nginx starts");
    check(&format!("http://127.0.0.1:{plain}"), Some("/post"));
    check(&format!("https://localhost:{encrypted}"), Some("/post"));
    // What the server allows is told, and kept to.
    let report = load(options(&format!("http://127.0.0.1:{plain}/1k"), 2000, 1, 100));
    assert_clean(&report, 2000, "limit");
    assert!(report.warnings.iter().any(|warning| warning.contains("allows 64 streams")), "{:?}", report.warnings);
    // HTTP/1 is all that it speaks there.
    let error = weir_load::run(options(&server.url("/1k"), 10, 1, 1), &weir_load::Control::default());
    assert!(matches!(error, Err(weir_load::LoadError::NotHttp2 { .. })), "{error:?}");
    drop(receiver);
}

#[test]
fn nginx_says_farewell_after_a_hundred_requests() {
    if require::nginx().is_none() {
        return;
    }
    let (site, port) = (site(), free_port());
    let log = site.path().join("access.log");
    let _server = Nginx::new()
        .root(site.path())
        .directive(&format!("listen 127.0.0.1:{port} http2; keepalive_requests 100;"))
        .directive(&format!("access_log \"{}\" combined;", log.display()))
        .start()
        .expect("nginx starts");
    for (connections, streams, requests) in [(1u32, 1, 1000), (1, 10, 3000), (5, 30, 10_000)] {
        let report = load(options(&format!("http://127.0.0.1:{port}/1k"), requests, connections, streams));
        assert_clean(&report, requests, "farewells");
        assert_eq!(report.status, [(200, requests)]);
        let made = report.connect.len();
        assert!((requests / 100..=requests / 100 + u64::from(connections)).contains(&made), "{made} for {requests}");
    }
    // Not one was answered twice.
    let deadline = Instant::now() + Duration::from_secs(10);
    let lines =
        || std::fs::read_to_string(&log).unwrap_or_default().lines().filter(|line| line.contains("GET /1k")).count();
    while lines() < 14_000 {
        assert!(Instant::now() < deadline, "{} of 14000", lines());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(lines(), 14_000);
}

#[test]
fn apache_agrees() {
    if require::apache().is_none() || require::apache_module("http2").is_none() || require::program("openssl").is_none()
    {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    for encrypted in [false, true] {
        let mut apache = Apache::event().root(site.path()).module("http2").directive("Protocols h2 h2c http/1.1");
        if encrypted {
            apache = apache.tls(&certificate);
        }
        let server = apache.start().expect("Apache starts");
        let url = server.url("");
        check(&url.replace("127.0.0.1", if encrypted { "localhost" } else { "127.0.0.1" }), None);
    }
}

#[test]
fn nghttpd_agrees() {
    if require::program("nghttpd").is_none() || require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    let nghttpd = || Nghttpd::new().root(site.path()).args(["--echo-upload"]);
    let plain = nghttpd().start().expect("nghttpd starts");
    check(&format!("http://127.0.0.1:{}", plain.port), Some("/1k"));
    let encrypted = nghttpd().tls(&certificate).start().expect("nghttpd starts");
    check(&format!("https://localhost:{}", encrypted.port), Some("/1k"));
    // One stream at a time: those that were sent before that was known are refused, and sent again.
    let single = Nghttpd::new().root(site.path()).args(["-m", "1"]).start().expect("nghttpd starts");
    let report = load(options(&format!("http://127.0.0.1:{}/1k", single.port), 500, 2, 20));
    assert_clean(&report, 500, "one stream");
    assert!(report.warnings.iter().any(|warning| warning.contains("allows 1 streams")), "{:?}", report.warnings);
}
