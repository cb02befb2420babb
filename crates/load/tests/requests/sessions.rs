//! Users: bursts of requests with pauses between them, each user over a connection of its own.

use crate::server;

use server::{Peer, Server, load, load_with_events};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::SessionReport;
use weir_load::sessions::{Session, Sessions, Think, parse_sessions};
use weir_load::{LoadReport, Options, Request, Schedule, StopRule};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Paths in the order in which a server was asked for them, with the number of their connection.
type Log = Arc<Mutex<Vec<(usize, String)>>>;

/// Takes a request and notes it.
fn noted(peer: &mut Peer, log: &Log) -> bool {
    let Some(request) = peer.request() else { return false };
    let path = request.split(' ').nth(1).expect("a target").to_owned();
    log.lock().expect("no panic").push((peer.number, path));
    true
}

fn noting() -> (Server, Log) {
    let log = Log::default();
    let own = Arc::clone(&log);
    (Server::start(move |peer| while noted(peer, &own) && peer.send(OK.as_bytes()) {}), log)
}

/// Options for so many sessions of a file, one at a time.
fn options(server: &Server, text: &str, sessions: u64) -> Options {
    let mut options = server.options(sessions);
    let (requests, list) =
        parse_sessions(text, Some(&server.url()), &Request::default(), Think::None).expect("a good file");
    options.requests.list = requests;
    options.requests.sessions = Some(Sessions { list, seed: 1 });
    options
}

fn of(report: &LoadReport) -> &SessionReport {
    report.sessions.as_ref().expect("sessions were run")
}

#[test]
fn a_session_goes_through_its_bursts_on_its_own_connection() {
    let (server, log) = noting();
    let text = "/1 think=0.05\n  /1a\n  /1b\n/2\n\n/other\n";
    let (report, connections, requests) = load_with_events(options(&server, text, 3));
    let sessions = of(&report);
    assert_eq!((report.requests, report.failures(), connections.len()), (9, 0, 3), "{:?}", report.errors);
    assert_eq!((sessions.completed, sessions.failed, sessions.unfinished, sessions.connections), (3, 0, 0, 3));
    assert_eq!(sessions.answers, [(1, 1), (4, 2)]);
    assert!(sessions.lifetime.max() >= 50_000_000 && sessions.lifetime.min() < 50_000_000);
    let log = log.lock().expect("no panic");
    let first = ["/1", "/1a", "/1b", "/2"];
    let expected: Vec<_> = [(0, &first[..]), (1, &["/other"]), (2, &first)]
        .iter()
        .flat_map(|(connection, paths)| paths.iter().map(|path| (*connection, (*path).to_owned())))
        .collect();
    assert_eq!(*log, expected);
    // The burst goes out together, when its first request is answered; the next one when the user has thought.
    assert!(requests[1].sent_ns >= requests[0].done_ns && requests[1].sent_ns == requests[2].sent_ns);
    let pause = requests[3].sent_ns - requests[2].done_ns;
    assert!((50_000_000..500_000_000).contains(&pause), "{pause}");
    assert_eq!(requests[3].intended_ns - requests[2].done_ns, 50_000_000);
}

#[test]
fn sessions_arrive_at_their_rate_and_overlap() {
    let (server, _) = noting();
    for threads in [1, 2] {
        let mut options = options(&server, "/a think=0.2\n/b\n", 20);
        options.schedule = Schedule::Fixed { rate_per_s: 100.0 };
        (options.connections, options.threads) = (20, threads);
        let begin = Instant::now();
        let report = load(options);
        assert_eq!((of(&report).completed, report.requests, report.dropped), (20, 40, 0), "{:?}", report.errors);
        // One after the other they would take 4 s.
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }
}

#[test]
fn sessions_without_room_wait_and_their_lifetime_counts_it() {
    let (server, _) = noting();
    let mut options = options(&server, "/a think=0.1\n/b\n", 5);
    options.schedule = Schedule::Bursts { size: 5, every: Duration::from_secs(1) };
    let report = load(options);
    assert_eq!((of(&report).completed, report.queued), (5, 4));
    assert!(of(&report).lifetime.max() >= 500_000_000, "{}", of(&report).lifetime.max());
}

#[test]
fn a_failed_request_ends_its_session() {
    let log = Log::default();
    let own = Arc::clone(&log);
    // The second connection ends in the middle of its second response.
    let server = Server::start(move |peer| {
        for number in 0.. {
            if !noted(peer, &own) {
                return;
            }
            if peer.number == 1 && number == 1 {
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx");
                return;
            }
            peer.send(OK.as_bytes());
        }
    });
    let report = load(options(&server, "/a\n/b\n/c\n", 4));
    let sessions = of(&report);
    assert_eq!((sessions.completed, sessions.failed, sessions.connections), (3, 1, 4), "{:?}", report.errors);
    assert_eq!((report.requests, report.failures()), (10, 1));
    assert_eq!((sessions.answers.as_slice(), sessions.fail_time.len()), (&[(1, 1), (3, 3)][..], 1));
}

#[test]
fn a_session_outlives_its_connection() {
    // Closes each connection after an answer, while the user thinks or at once.
    let server = Server::start(|peer| {
        if peer.request().is_some() {
            peer.send(OK.as_bytes());
        }
    });
    let report = load(options(&server, "/a think=0.05\n/b think=0.05\n/c\n", 2));
    let sessions = of(&report);
    assert_eq!((sessions.completed, sessions.failed, sessions.connections), (2, 0, 6), "{:?}", report.errors);
}

#[test]
fn the_end_of_the_run_cuts_sessions_that_think() {
    let (server, _) = noting();
    let mut options = options(&server, "/a think=3600\n/b\n", 1);
    options.stop = StopRule::Duration(Duration::from_millis(300));
    options.connections = 4;
    let begin = Instant::now();
    let report = load(options);
    assert!(begin.elapsed() < Duration::from_secs(5));
    let sessions = of(&report);
    assert_eq!((report.requests, sessions.completed, sessions.unfinished), (4, 0, 4), "{:?}", report.errors);
}

#[test]
fn each_session_begins_without_cookies_and_keeps_its_own() {
    let cookies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&cookies);
    // Each connection carries one request, so a session's cookies go over several.
    let server = Server::start(move |peer| {
        if let Some(request) = peer.request() {
            let cookie = request.lines().find_map(|line| line.strip_prefix("Cookie: ")).unwrap_or("none").to_owned();
            seen.lock().expect("no panic").push(cookie);
            let head = format!("HTTP/1.1 200 OK\r\nSet-Cookie: a={}; Path=/\r\n", peer.number);
            peer.send(format!("{head}Connection: close\r\nContent-Length: 0\r\n\r\n").as_bytes());
        }
    });
    let mut options = options(&server, "/a\n/b think=0.02\n/c\n", 2);
    options.requests.cookie_jar = true;
    assert_eq!(of(&load(options)).completed, 2);
    assert_eq!(*cookies.lock().expect("no panic"), ["none", "a=0", "a=1", "none", "a=3", "a=4"]);
}

#[test]
fn think_times_come_from_their_seed() {
    let (server, _) = noting();
    let run = |seed| {
        let mut options = server.options(1);
        let think = Think::Exponential(Duration::from_millis(3));
        let session = (0..20).fold(Session::new(), |session, _| session.burst(&[0]).think(think));
        options.requests.sessions = Some(Sessions { list: vec![session], seed });
        let (report, _, requests) = load_with_events(options);
        assert_eq!(of(&report).completed, 1);
        requests.windows(2).map(|pair| pair[1].intended_ns - pair[0].done_ns).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let (server, _) = noting();
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = options(&server, "/a\n  /b\n", 1);
        change(&mut options);
        options.check().expect_err("refused").to_string()
    };
    assert!(refused(&|options| options.keep_alive = false).contains("connections that are kept"));
    assert!(refused(&|options| options.pipeline = 2).contains("sessions say themselves"));
    assert!(refused(&|options| options.requests.list.truncate(1)).contains("not there"));
    let empty =
        |options: &mut Options| options.requests.sessions = Some(Sessions { list: vec![Session::new()], seed: 1 });
    assert!(refused(&empty).contains("without requests"));
    let elsewhere = weir_load::Url::parse("http://elsewhere/").expect("a URL");
    assert!(refused(&|options| options.requests.list[1].url = elsewhere.clone()).contains("one host"));
}
