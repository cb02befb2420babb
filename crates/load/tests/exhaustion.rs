//! When this host or the server's queue has run out of something: each under its own name, and no tight loop.
// scripts/test: loads

mod server;

use server::load;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Mutex;
use std::time::Duration;
use weir_load::{Control, LoadReport, Options, StopRule, Url};
use weir_testkit::Nginx;
use weir_testkit::require::or_skip;
use weir_wire::client::Outcome;

/// One at a time: the limit on descriptors is everybody's.
static TURN: Mutex<()> = Mutex::new(());

fn options(url: &str, connections: u32) -> Options {
    let mut options = Options::new(Url::parse(url).expect("a URL"));
    options.connections = connections;
    options.timeout = Duration::from_secs(5);
    options
}

fn count(report: &LoadReport, outcome: Outcome) -> u64 {
    report.errors.iter().find(|(kind, _)| *kind == outcome).map_or(0, |(_, count)| *count)
}

/// Sets how many descriptors there may be, and returns how many there could be before.
fn limit_descriptors(most: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the result.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    let before = std::mem::replace(&mut limit.rlim_cur, most);
    // SAFETY: `limit` outlives the call, and stays within the hard limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    before
}

#[test]
fn descriptors_that_run_out_are_waited_for() {
    let _turn = TURN.lock();
    if weir_testkit::require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().start().expect("nginx starts");
    let mut options = options(&server.url("/1k.txt"), 20);
    options.keep_alive = false;
    options.stop = StopRule::Duration(Duration::from_millis(1200));
    let control = Control::default();
    let (report, before, meanwhile) = std::thread::scope(|scope| {
        let run = scope.spawn(|| weir_load::run(options, &control).expect("a run"));
        std::thread::sleep(Duration::from_millis(400));
        // Open descriptors stay open, but no new one can be had.
        let most = limit_descriptors(3);
        std::thread::sleep(Duration::from_millis(300));
        let meanwhile = control.requests();
        limit_descriptors(most);
        let report = run.join().expect("no panic");
        (report, most, meanwhile)
    });
    assert!(before > 3);
    let lacking = count(&report, Outcome::NoDescriptors);
    assert_eq!(report.failures(), lacking, "{:?}", report.errors);
    // Tried each 10 ms, by one connection for all.
    assert!((5..=60).contains(&lacking), "{lacking}");
    assert!(report.requests > meanwhile, "it goes on when there are some again");
    assert!(report.warnings.iter().any(|warning| warning.contains("ulimit -n")), "{:?}", report.warnings);
    assert!(report.reasons.iter().any(|reason| reason.words.contains("Too many open files")), "{:?}", report.reasons);
}

#[test]
fn ports_that_run_out_are_named() {
    let _turn = TURN.lock();
    // A network of this thread's own, and of those that it makes.
    // SAFETY: the call takes a number only.
    let own = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    if or_skip(own, "needs root, to make a network namespace").is_none() {
        return;
    }
    let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    if or_skip(up.is_ok_and(|status| status.success()), "iproute2 is not installed (make deps)").is_none() {
        return;
    }
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40003").expect("the range of this network");
    let listener = TcpListener::bind("127.0.0.1:8080").expect("the port is free in this network");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let (mut buffer, answer) = ([0; 4096], b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) && stream.write_all(answer).is_ok() {}
            });
        }
    });
    let mut options = options("http://127.0.0.1:8080/", 10);
    options.stop = StopRule::Duration(Duration::from_millis(400));
    let report = load(options);
    let lacking = count(&report, Outcome::NoPorts);
    assert!(report.requests > 0, "four ports carry requests");
    assert_eq!(report.failures(), lacking, "{:?}", report.errors);
    assert!((5..=80).contains(&lacking), "{lacking}");
    assert!(report.warnings.iter().any(|warning| warning.contains("--source")), "{:?}", report.warnings);
    // Two sources have twice as many ports, and a port serves one connection to each address.
    let mut sources = self::options("http://127.0.0.1:8080/", 8);
    sources.stop = StopRule::Duration(Duration::from_millis(200));
    sources.reach.sources = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().expect("an address")).to_vec();
    let report = load(sources);
    assert_eq!((report.failures(), report.connect.len()), (0, 8), "{:?}", report.errors);
}

#[test]
fn a_connection_that_is_not_accepted_in_time_is_no_late_response() {
    let _turn = TURN.lock();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&any.into()).expect("a free port");
    // A queue of one, from which no connection is accepted: what comes behind it is dropped.
    socket.listen(0).expect("it listens");
    let port = socket.local_addr().ok().and_then(|address| address.as_socket()).expect("its address").port();
    let mut options = options(&format!("http://127.0.0.1:{port}/"), 6);
    options.stop = StopRule::Requests(6);
    options.timeout = Duration::from_millis(400);
    let report = load(options);
    let (late, never) = (count(&report, Outcome::TimedOut), count(&report, Outcome::ConnectTimedOut));
    assert_eq!((report.requests, late + never), (0, 6), "{:?}", report.errors);
    assert!(late >= 1 && never >= 3, "{:?}", report.errors);
}
