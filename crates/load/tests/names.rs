//! Names that are resolved again while a run goes on: by a name server of the test's own, in a network namespace whose
//! resolv.conf names it.
// scripts/test: punctual

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::reach::{Again, Family, Select};
use weir_load::{Control, LoadError, LoadReport, Options, Outcome, Schedule, StopRule, Url};
use weir_testkit::namespace::{Namespace, ip};

const PORT: u16 = 8080;
const HOSTS: [Ipv4Addr; 3] = [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];

/// What the name server says, and what it was asked.
#[derive(Debug)]
struct Zone {
    /// `None`: it fails.
    answer: Mutex<Option<Vec<Ipv4Addr>>>,
    takes: Mutex<Duration>,
    questions: AtomicU64,
    /// Which of [`HOSTS`] each connection went to, and when.
    connections: Mutex<Vec<(Instant, usize)>>,
}

impl Zone {
    fn new(answer: &[Ipv4Addr]) -> Arc<Self> {
        Arc::new(Self {
            answer: Mutex::new(Some(answer.to_vec())),
            takes: Mutex::new(Duration::ZERO),
            questions: AtomicU64::new(0),
            connections: Mutex::default(),
        })
    }

    fn counts(&self) -> [usize; 3] {
        let connections = self.connections.lock().expect("no panic");
        std::array::from_fn(|host| connections.iter().filter(|(_, of)| *of == host).count())
    }
}

/// Answers questions for addresses of IPv4 (RFC 1035 4), and has none of IPv6.
fn serve_names(zone: &Arc<Zone>) {
    let socket = UdpSocket::bind("127.0.0.1:53").expect("a namespace of its own");
    let zone = Arc::clone(zone);
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((bytes, from)) = socket.recv_from(&mut question) {
            let question = &question[..bytes];
            let Some(end) = question[12..].iter().position(|byte| *byte == 0).map(|at| 12 + at + 5) else { continue };
            let is_v4 = question[end - 4..end - 2] == [0, 1];
            zone.questions.fetch_add(u64::from(is_v4), Ordering::Relaxed);
            std::thread::sleep(*zone.takes.lock().expect("no panic"));
            let answer = zone.answer.lock().expect("no panic").clone();
            let records: Vec<u8> = answer
                .iter()
                .flatten()
                .filter(|_| is_v4)
                .flat_map(|address| [&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4][..], &address.octets()].concat())
                .collect();
            let code = if answer.is_some() { 0x80 } else { 0x82 };
            let head = [&question[..2], &[0x81, code, 0, 1, 0, (records.len() / 16) as u8, 0, 0, 0, 0]].concat();
            let _ = socket.send_to(&[&head, &question[12..end], &records].concat(), from);
        }
    });
}

/// Serves HTTP at all addresses, a thread for each connection.
fn serve_sites(zone: &Arc<Zone>) {
    for (number, host) in HOSTS.into_iter().enumerate() {
        let listener = TcpListener::bind((host, PORT)).expect("an address of the loopback interface");
        let zone = Arc::clone(zone);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                zone.connections.lock().expect("no panic").push((Instant::now(), number));
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }
}

/// Runs a test in a network namespace of its own, with a resolv.conf of its own; `None` where that is not possible.
fn apart(zone: &Arc<Zone>, test: impl FnOnce() + Send) {
    // SAFETY: the call takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    let may = weir_testkit::require::or_skip(is_root, "needs root, to make network namespaces");
    if may.is_none() || weir_testkit::require::program("ip").is_none() {
        return;
    }
    let namespace = Namespace::new("names");
    ip(&["-n", namespace.name(), "link", "set", "lo", "up"]);
    let configuration = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(configuration.path(), "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n").expect("a file");
    namespace.within(|| {
        let from = std::ffi::CString::new(configuration.path().to_str().expect("a path")).expect("no NUL");
        // SAFETY: the thread gets a table of mounts of its own, and the paths outlive the calls.
        let results = unsafe {
            let none = std::ptr::null();
            [
                libc::unshare(libc::CLONE_NEWNS),
                libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()),
                libc::mount(from.as_ptr(), c"/etc/resolv.conf".as_ptr(), none, libc::MS_BIND, none.cast()),
            ]
        };
        assert_eq!(results, [0; 3], "{}", std::io::Error::last_os_error());
        serve_names(zone);
        serve_sites(zone);
        test();
    });
}

/// A connection for each request, at this rate.
fn options(again: Again, rate_per_s: f64, time: Duration) -> Options {
    let mut options = Options::new(Url::parse(&format!("http://site.test:{PORT}/")).expect("a URL"));
    options.reach.again = again;
    options.reach.family = Family::V4;
    options.keep_alive = false;
    options.connections = 50;
    options.schedule = Schedule::Fixed { rate_per_s };
    options.stop = StopRule::Duration(time);
    options.timeout = Duration::from_secs(5);
    options
}

fn load(options: Options) -> LoadReport {
    weir_load::run(options, &Control::default()).expect("the run is made")
}

#[test]
fn new_connections_go_where_the_name_leads_after_its_time() {
    let zone = Zone::new(&HOSTS[..1]);
    apart(&zone, || {
        let begin = Instant::now();
        let later = Arc::clone(&zone);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(700));
            *later.answer.lock().expect("no panic") = Some(vec![HOSTS[1]]);
        });
        let report = load(options(Again::After(Duration::from_millis(300)), 100.0, Duration::from_secs(2)));
        assert_eq!((report.requests, report.failures()), (200, 0), "{:?}", report.reasons);
        let connections = zone.connections.lock().expect("no panic").clone();
        let last_before = connections.iter().filter(|(_, host)| *host == 0).map(|(at, _)| *at - begin).max();
        let first_after = connections.iter().filter(|(_, host)| *host == 1).map(|(at, _)| *at - begin).min();
        let [last, first] = [last_before, first_after].map(|at| at.expect("some went there").as_secs_f64());
        // The answer of 0.7 s counts from the next question on, at most 0.3 s later.
        assert!(
            first >= 0.7 && last < 0.7 + 0.3 + 0.2,
            "the last went there after {last} s, the first after {first} s"
        );
        let questions = zone.questions.load(Ordering::Relaxed);
        assert!((5..=12).contains(&questions), "{questions} questions in 2 s, one each 0.3 s");
        let told = report.warnings.iter().find(|words| words.contains("site.test was resolved again"));
        assert!(told.is_some_and(|words| words.contains("changed 1 times, last to 127.0.0.2:8080")), "{told:?}");
    });
}

#[test]
fn each_connection_asks_and_all_addresses_have_their_share() {
    let zone = Zone::new(&HOSTS);
    apart(&zone, || {
        let report = load(options(Again::Each, 60.0, Duration::from_secs(1)));
        assert_eq!((report.requests, report.failures()), (60, 0), "{:?}", report.reasons);
        let (counts, questions) = (zone.counts(), zone.questions.load(Ordering::Relaxed));
        assert_eq!(counts, [20, 20, 20], "in turn");
        // Connections that are begun while one question is under way share the next.
        assert!((20..=61).contains(&questions), "{questions} questions for 60 connections");
        assert!(!report.warnings.iter().any(|words| words.contains("resolved again")), "{:?}", report.warnings);
        let mut first = options(Again::Never, 60.0, Duration::from_millis(500));
        first.reach.select = Select::First;
        let before = zone.questions.load(Ordering::Relaxed);
        assert_eq!(load(first).requests, 30);
        assert_eq!((zone.counts()[0] - counts[0], zone.questions.load(Ordering::Relaxed) - before), (30, 1));
    });
}

#[test]
fn names_that_fail_are_counted_apart_and_the_loop_goes_on_meanwhile() {
    let zone = Zone::new(&HOSTS[..1]);
    apart(&zone, || {
        let later = Arc::clone(&zone);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            *later.answer.lock().expect("no panic") = None;
            std::thread::sleep(Duration::from_millis(500));
            *later.answer.lock().expect("no panic") = Some(vec![HOSTS[2]]);
        });
        let report = load(options(Again::Each, 40.0, Duration::from_millis(1500)));
        let failed = report.errors.iter().find(|(outcome, _)| *outcome == Outcome::Unresolved).map_or(0, |(_, it)| *it);
        assert_eq!((report.requests + failed, report.failures()), (60, failed), "{:?}", report.reasons);
        assert!((8..=32).contains(&failed), "{failed} of those of half a second: {:?}", report.reasons);
        let told = report.warnings.iter().find(|words| words.contains("resolved again")).expect("it is told");
        assert!(told.contains("of these failed") && told.contains("last to 127.0.0.3:8080"), "{told}");
        // An answer that takes its time holds no other connection up: all are made, each after its answer.
        *zone.takes.lock().expect("no panic") = Duration::from_millis(150);
        let report = load(options(Again::Each, 40.0, Duration::from_secs(1)));
        assert_eq!((report.requests, report.failures(), report.dropped), (40, 0, 0), "{:?}", report.reasons);
        let (least, most) = (report.latency.min() as f64 / 1e6, report.latency.max() as f64 / 1e6);
        assert!(least >= 150.0 && most < 1500.0, "{least} to {most} ms");
    });
}

#[test]
fn what_has_no_name_cannot_be_asked_again() {
    let wrong = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::new(Url::parse("http://127.0.0.1:1/").expect("a URL"));
        options.reach.again = Again::Each;
        change(&mut options);
        match options.check() {
            Err(LoadError::Options(words)) => words,
            other => panic!("{other:?}"),
        }
    };
    assert!(wrong(&|_| {}).contains("there is no name"));
    let said = |options: &mut Options| {
        options.url = Url::parse("http://h.test:1/").expect("a URL");
        options.reach.resolve = vec!["h.test:1:127.0.0.1".parse().expect("an address")];
    };
    assert!(wrong(&said).contains("there is no name"));
    assert!(wrong(&|options| options.reach.unix = Some("/s".into())).contains("Unix socket"));
    let proxied = |options: &mut Options| {
        options.url = Url::parse("http://h.test:1/").expect("a URL");
        options.reach.proxy = Some("socks5://p.test:1".parse().expect("a proxy"));
    };
    assert!(wrong(&proxied).contains("socks5h://"));
}
