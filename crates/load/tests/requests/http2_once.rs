//! HTTP/2 with a connection for each request: as many are accepted as were asked, never more at a time than wanted, and
//! whose the port is that stays busy.

use crate::server;

use server::http2::{GOAWAY, RST_STREAM, answer, frame};
use server::{Server, load, load_with_events};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::{Control, LoadError, LoadReport, Options, Protocol, Request, Schedule, StopRule, Trust, Url};
use weir_testkit::{Apache, Certificate, Nghttpd, Nginx, free_port, require};

/// Requests of a load, and how many may be under way.
const REQUESTS: u64 = 500;
const AT_A_TIME: u32 = 5;
/// Connections that may still wait for their end when the load is over, and are closed from here then: as many as there is
/// room for at so many at a time.
const OPEN_AT_THE_END: usize = 64;

fn once(mut options: Options) -> Options {
    options.stop = StopRule::Requests(REQUESTS);
    options.connections = AT_A_TIME;
    options.protocol = Protocol::Http2 { streams: 1 };
    options.keep_alive = false;
    options
}

fn options(url: &str) -> Options {
    let mut options = once(Options::new(Url::parse(url).expect("a URL")));
    options.timeout = Duration::from_secs(10);
    options.trust = Trust::Anything;
    options
}

fn assert_clean(report: &LoadReport, what: &str) {
    let bad = (report.failures(), report.dropped, report.abandoned);
    assert_eq!((report.requests, bad), (REQUESTS, (0, 0, 0)), "{what}: {:?} {:?}", report.errors, report.reasons);
    assert_eq!((report.status.as_slice(), report.connect.len()), (&[(200, REQUESTS)][..], REQUESTS), "{what}");
    assert!(report.reasons.is_empty(), "{what}: {:?}", report.reasons);
}

/// How a connection went, as its server saw it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    requests: u64,
    farewells: u64,
    reset: bool,
}

/// What a server of the test's own says before it answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Nothing,
    /// That it takes no more streams, as nginx does where a connection may carry one request.
    Farewell,
    /// On one connection in four, by chance, that it did not look at the request.
    Refusal,
}

/// Loads a server in the clear; gives what became of the connections and how many requests were under way at most.
fn seen(first: First, change: impl FnOnce(&mut Options)) -> (LoadReport, Vec<Seen>, u64) {
    let all: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let (told, under_way) = (Arc::clone(&all), Arc::clone(&counts));
    let server = Server::start(move |peer| {
        if !peer.greet(&[]) {
            return;
        }
        let mut seen = Seen::default();
        while let Some(came) = peer.frame() {
            if came.kind == GOAWAY {
                // No stream of ours, and no error.
                assert_eq!(came.payload, [0; 8]);
                seen.farewells += 1;
                break;
            }
            if !came.ends() {
                continue;
            }
            seen.requests += 1;
            let now = under_way[0].fetch_add(1, Ordering::SeqCst) + 1;
            under_way[1].fetch_max(now, Ordering::SeqCst);
            let stream = came.stream.to_be_bytes();
            if first == First::Farewell && !peer.send(&frame(GOAWAY, 0, 0, &[&stream[..], &[0; 4]].concat())) {
                return;
            }
            // Long enough for a connection that is opened too early to be seen.
            std::thread::sleep(Duration::from_millis(2));
            under_way[0].fetch_sub(1, Ordering::SeqCst);
            let refuses = first == First::Refusal && (peer.number as u32).wrapping_mul(2_654_435_769) >> 30 == 0;
            let reply =
                if refuses { frame(RST_STREAM, 0, came.stream, &[0, 0, 0, 7]) } else { answer(came.stream, b"hello") };
            if !peer.send(&reply) {
                return;
            }
        }
        match peer.stream.read(&mut [0; 1]) {
            Ok(count) => assert_eq!(count, 0, "something follows the farewell"),
            Err(error) => seen.reset = error.kind() == std::io::ErrorKind::ConnectionReset,
        }
        told.lock().expect("no panic").push(seen);
    });
    let mut options = once(server.options(1));
    change(&mut options);
    let report = load(options);
    let expected = server.connections();
    let deadline = Instant::now() + Duration::from_secs(10);
    while all.lock().expect("no panic").len() < expected && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let seen = std::mem::take(&mut *all.lock().expect("no panic"));
    assert_eq!(seen.len(), expected, "each was asked on and has ended");
    (report, seen, counts[1].load(Ordering::SeqCst))
}

#[test]
fn each_connection_carries_one_request_and_ends_with_a_farewell_and_a_reset() {
    for first in [First::Nothing, First::Farewell] {
        let (report, seen, most) = seen(first, |_| {});
        assert_clean(&report, "in the clear");
        assert_eq!(seen.len() as u64, REQUESTS);
        let expected = Seen { requests: 1, farewells: 1, reset: true };
        let other: Vec<_> = seen.iter().filter(|one| **one != expected).collect();
        assert!(other.is_empty(), "{other:?}");
        assert!((2..=u64::from(AT_A_TIME)).contains(&most), "{most} under way");
        assert_eq!((report.resent, report.reconnects), (0, 0));
    }
    // With `hang_up` a connection ends in order, without a reset.
    let (report, seen, _) = seen(First::Nothing, |options| options.hang_up = true);
    assert_clean(&report, "hanging up");
    assert!(seen.iter().all(|one| one.farewells == 1 && !one.reset), "{seen:?}");
}

#[test]
fn a_request_that_was_refused_goes_to_another_connection() {
    let (report, seen, most) = seen(First::Refusal, |_| {});
    assert_eq!((report.requests, report.failures()), (REQUESTS, 0), "{:?}", report.errors);
    assert!(report.resent > REQUESTS / 8, "{}", report.resent);
    assert_eq!(seen.len() as u64, REQUESTS + report.resent);
    assert!(seen.iter().all(|one| one.requests == 1) && most <= u64::from(AT_A_TIME), "{most} under way: {seen:?}");
}

#[test]
fn an_open_loop_has_a_connection_for_each_arrival() {
    let (report, seen, most) = seen(First::Nothing, |options| {
        options.schedule = Schedule::Poisson { rate_per_s: 1000.0, seed: 3 };
    });
    assert_clean(&report, "open loop");
    assert_eq!(seen.len() as u64, REQUESTS);
    assert!(seen.iter().all(|one| one.requests == 1) && most <= u64::from(AT_A_TIME), "{most} under way");
    assert_eq!(report.schedule_lag.len(), REQUESTS);
}

#[test]
fn several_streams_are_refused() {
    let mut options = options("http://127.0.0.1:1/");
    options.protocol = Protocol::Http2 { streams: 2 };
    let refused = weir_load::run(options, &Control::default()).expect_err("two streams");
    assert!(matches!(&refused, LoadError::Options(words) if words.contains("has one stream")), "{refused}");
}

/// Ports that are busy with connections to or from a port that have ended: those of clients, and of the server.
fn busy(port: u16) -> (usize, usize) {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of sockets");
    let (mut ours, mut theirs) = (0, 0);
    for line in table.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_of = |place: usize| words.get(place).is_some_and(|word| word.ends_with(&format!(":{port:04X}")));
        if words.get(3) == Some(&"06") {
            ours += usize::from(is_of(2));
            theirs += usize::from(is_of(1));
        }
    }
    (ours, theirs)
}

/// The same loads on any server; `port` speaks HTTP/2, encrypted or not.
fn check(port: u16, encrypted: bool) {
    let scheme = if encrypted { "https" } else { "http" };
    let url = format!("{scheme}://localhost:{port}/1k");
    let url = if encrypted { url } else { url.replace("localhost", "127.0.0.1") };
    let before = busy(port);
    let (report, connections, told) = load_with_events(options(&url));
    let busy_since = || {
        let after = busy(port);
        (after.0 - before.0.min(after.0), after.1 - before.1.min(after.1))
    };
    // The server has closed first, but for those that were open at the end; it may yet be at the last.
    let wanted = if encrypted { REQUESTS as usize - OPEN_AT_THE_END } else { 0 };
    let deadline = Instant::now() + Duration::from_secs(5);
    while busy_since().1 < wanted && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (ours, theirs) = busy_since();
    assert_clean(&report, &url);
    assert_eq!((connections.len() as u64, told.len() as u64), (REQUESTS, REQUESTS), "{url}");
    let mut numbers: Vec<_> = told.iter().map(|request| request.connection).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, REQUESTS, "{url}: no connection carried two");
    assert!(told.iter().all(|request| request.opened_connection && request.http_version == 2), "{url}");
    // Whole responses from the begin of the handshake, whose time is known.
    assert!(report.latency_uncorrected.min() > report.connect.min(), "{url}");
    assert!(ours <= OPEN_AT_THE_END, "{url}: {ours} ports are busy here");
    assert!(theirs >= wanted, "{url}: {theirs} there");
    assert_eq!((report.handshakes.full, report.handshakes.resumed), (if encrypted { REQUESTS } else { 0 }, 0), "{url}");

    if encrypted {
        let mut resuming = options(&url);
        resuming.reach.tls.resume = true;
        let report = load(resuming);
        assert_clean(&report, &url);
        let most = u64::from(AT_A_TIME);
        assert!(
            report.handshakes.full <= most && report.handshakes.resumed >= REQUESTS - most,
            "{:?}",
            report.handshakes
        );
    }
    let mut open = options(&url);
    open.schedule = Schedule::Poisson { rate_per_s: 1000.0, seed: 5 };
    assert_clean(&load(open), &url);
    let mut post = options(&url.replace("/1k", "/none"));
    post.request = Request { method: "POST".into(), body: vec![b'p'; 100_000], ..Request::default() };
    let report = load(post);
    assert_eq!((report.requests, report.connect.len()), (REQUESTS, REQUESTS), "{url}: {:?}", report.errors);
}

fn site() -> tempfile::TempDir {
    let site = tempfile::tempdir().expect("a directory");
    std::fs::write(site.path().join("1k"), [b'x'; 1000]).expect("a file");
    // The server's user is another than ours.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(site.path(), std::fs::Permissions::from_mode(0o755)).expect("our own directory");
    site
}

/// How many lines each file of a folder has.
fn lines(folder: &Path) -> Vec<usize> {
    let files = std::fs::read_dir(folder).expect("the folder").flatten();
    files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default().lines().count()).collect()
}

#[test]
fn nginx_agrees() {
    if require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    for encrypted in [false, true] {
        let (port, logs) = (free_port(), tempfile::tempdir().expect("a directory"));
        let tls = if encrypted { "ssl" } else { "" };
        let mut nginx = Nginx::new()
            .root(site.path())
            .directive(&format!("listen 127.0.0.1:{port} {tls} http2 backlog=1024; client_max_body_size 1m;"))
            // A file for each connection.
            .directive(&format!(
                "location /logged {{ alias {0}/1k; access_log {1}/$connection; }}",
                site.path().display(),
                logs.path().display()
            ));
        if encrypted {
            nginx = nginx.tls(&certificate);
        }
        let _server = nginx.start().expect("nginx starts");
        check(port, encrypted);
        let scheme = if encrypted { "https" } else { "http" };
        assert_clean(&load(options(&format!("{scheme}://127.0.0.1:{port}/logged"))), "logged");
        let deadline = Instant::now() + Duration::from_secs(10);
        while lines(logs.path()).iter().sum::<usize>() < REQUESTS as usize && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(lines(logs.path()), vec![1; REQUESTS as usize]);
    }
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
        check(apache.start().expect("Apache starts").port, encrypted);
    }
}

#[test]
fn nghttpd_agrees() {
    if require::program("nghttpd").is_none() || require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    let nghttpd = || Nghttpd::new().root(site.path());
    check(nghttpd().start().expect("nghttpd starts").port, false);
    check(nghttpd().tls(&certificate).start().expect("nghttpd starts").port, true);
}
