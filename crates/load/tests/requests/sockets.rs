//! Sockets: Unix ones with and without a path, IPv6, source addresses, names that are told instead of resolved.

use crate::server;

use server::{Server, load, load_with_events};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_load::reach::{Family, Place, Resolved};
use weir_load::{Control, LoadError, Options, Schedule, StopRule, Url};
use weir_testkit::Nginx;
use weir_wire::client::Outcome;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn options(url: &str, requests: u64, connections: u32) -> Options {
    let mut options = Options::new(Url::parse(url).expect("a URL"));
    options.connections = connections;
    options.stop = StopRule::Requests(requests);
    options.timeout = Duration::from_secs(10);
    options
}

fn error(options: Options) -> String {
    weir_load::run(options, &Control::default()).expect_err("no run").to_string()
}

#[test]
fn nginx_on_a_unix_socket() {
    if weir_testkit::require::nginx().is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("nginx.sock");
    let listen = format!("listen unix:{};\nif ($host != \"named.test\") {{ return 403; }}", path.display());
    let _nginx = Nginx::new().directive(&listen).start().expect("nginx starts");
    let mut options = options("http://named.test/1k.txt", 500, 5);
    options.reach.unix = Some(path.clone());
    let (report, connections, requests) = load_with_events(options);
    assert_eq!((report.status.as_slice(), report.failures()), (&[(200, 500)][..], 0), "{:?}", report.errors);
    // What has no addresses says so in its events, and nothing else of them changes.
    assert_eq!((connections.len(), requests.len()), (5, 500));
    assert!(connections.iter().all(|connection| !connection.failed && connection.remote.port() == 0));
    assert!(requests.iter().all(|request| request.response_bytes > 1000));
    drop(_nginx);
    let mut gone = self::options("http://named.test/", 1, 1);
    gone.reach.unix = Some(path);
    let words = error(gone);
    assert!(words.contains("nginx.sock") && words.contains("ss -lxn"), "{words}");
}

#[test]
fn a_unix_socket_without_a_path() {
    let name = format!("weir-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("the name is free");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) && stream.write_all(OK.as_bytes()).is_ok() {
                }
            });
        }
    });
    let mut options = options("http://localhost/", 100, 2);
    options.reach.unix = Some(format!("@{name}").into());
    let report = load(options);
    assert_eq!((report.requests, report.failures()), (100, 0), "{:?}", report.errors);
}

#[test]
fn a_full_queue_of_a_unix_socket_is_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("slow.sock");
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&socket2::SockAddr::unix(&path).expect("a path")).expect("a free path");
    socket.listen(1).expect("it listens");
    let listener = UnixListener::from(std::os::fd::OwnedFd::from(socket));
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        for stream in listener.incoming().take(20) {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) && stream.write_all(OK.as_bytes()).is_ok() {
                }
            });
        }
    });
    let mut options = options("http://localhost/", 20, 20);
    options.reach.unix = Some(path);
    let begin = Instant::now();
    let report = load(options);
    assert_eq!((report.requests, report.failures()), (20, 0), "{:?}", report.errors);
    assert!(begin.elapsed() > Duration::from_millis(190));
    // Asked again every 10 ms, not in a tight loop: each try takes five calls at most.
    assert!(report.calls.total() < 20 * 5 * 60, "{:?}", report.calls);
}

#[test]
fn ipv6_and_families() {
    let listener = TcpListener::bind("[::1]:0");
    if weir_testkit::require::or_skip(listener.is_ok(), "this host has no ::1").is_none() {
        return;
    }
    let listener = listener.expect("it was asked for just now");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) && stream.write_all(OK.as_bytes()).is_ok() {
                }
            });
        }
    });
    let (report, connections, _) = load_with_events(options(&format!("http://[::1]:{port}/"), 10, 2));
    assert_eq!((report.requests, report.failures()), (10, 0));
    assert!(connections.iter().all(|connection| connection.remote.is_ipv6() && connection.local.is_ipv6()));
    let said = |text: &str| text.parse::<Resolved>().expect("addresses");
    let mut named = options(&format!("http://named.test:{port}/"), 10, 1);
    named.reach.resolve = vec![said(&format!("named.test:{port}:127.0.0.1,::1"))];
    named.reach.family = Family::V6;
    assert_eq!(load(named).requests, 10);
    // The first address refuses, so the second is taken.
    let mut both = options(&format!("http://named.test:{port}/"), 10, 1);
    both.reach.resolve = vec![said(&format!("named.test:{port}:127.0.0.1,::1"))];
    assert_eq!(load(both).requests, 10);
    let mut none = options(&format!("http://[::1]:{port}/"), 10, 1);
    none.reach.family = Family::V4;
    assert!(error(none).contains("no IPv4 address"));
}

#[test]
fn a_server_that_favours_one_connection_is_told_as_unfair() {
    let first = AtomicBool::new(true);
    let server = Server::start(move |peer| {
        let favoured = first.swap(false, Ordering::Relaxed);
        while peer.request().is_some() {
            if !favoured {
                std::thread::sleep(Duration::from_millis(20));
            }
            if !peer.send(OK.as_bytes()) {
                return;
            }
        }
    });
    let mut options = server.options(400);
    options.connections = 4;
    let report = load(options);
    let found = report.fairness.expect("a closed loop");
    assert_eq!((report.requests, found.clients), (400, 4));
    assert!(found.least_requests > 0 && found.most_requests > 5 * found.least_requests, "{found:?}");
    assert_eq!(found.most_bytes, OK.len() as u64 * found.most_requests);
    assert!(found.jain_bytes < 0.5, "{found:?}");
    // In an open loop the generator chooses the connection.
    let mut open = server.options(4);
    open.schedule = Schedule::Fixed { rate_per_s: 1000.0 };
    assert_eq!(load(open).fairness, None);
}

#[test]
fn clients_are_places_of_connections_however_many_those_have_one_after_the_other() {
    let server = Server::start(|peer| {
        // As servers do after a number of requests.
        for _ in 0..2 {
            if peer.request().is_none() || !peer.send(OK.as_bytes()) {
                return;
            }
        }
        if peer.request().is_some() {
            peer.send(OK.replace("\r\nC", "\r\nConnection: close\r\nC").as_bytes());
        }
    });
    for keep_alive in [true, false] {
        // So many that a thread of the server which a busy machine holds up for milliseconds has its turn.
        let mut options = server.options(3000);
        (options.connections, options.keep_alive) = (3, keep_alive);
        let report = load(options);
        let found = report.fairness.expect("a closed loop");
        assert_eq!((report.requests, found.clients), (3000, 3), "{keep_alive}");
        assert!(found.least_requests >= 3 && found.most_requests < 3000, "{found:?}");
    }
}

#[test]
fn sources_are_taken_in_turn() {
    let seen: Arc<Mutex<BTreeMap<IpAddr, usize>>> = Arc::default();
    let told = Arc::clone(&seen);
    let server = Server::start(move |peer| {
        let from = peer.stream.peer_addr().expect("an address").ip();
        *told.lock().expect("no panic").entry(from).or_default() += 1;
        while peer.request().is_some() && peer.send(OK.as_bytes()) {}
    });
    let mut options = server.options(30);
    options.connections = 3;
    options.keep_alive = false;
    let sources: [IpAddr; 3] = ["127.0.0.2", "127.0.0.3", "127.0.0.4"].map(|text| text.parse().expect("an address"));
    options.reach.sources = sources.to_vec();
    let (report, connections, _) = load_with_events(options);
    assert_eq!((report.requests, report.failures()), (30, 0), "{:?}", report.errors);
    assert!(connections.iter().all(|connection| sources.contains(&connection.local.ip())));
    let found = report.fairness.expect("several sources");
    assert_eq!((found.clients, found.least_requests, found.most_requests, found.jain_bytes), (3, 10, 10, 1.0));
    let seen = seen.lock().expect("no panic").clone();
    assert_eq!(seen, sources.into_iter().map(|source| (source, 10)).collect());
    // One that is not this host's is told before anything is sent.
    let mut foreign = server.options(1);
    foreign.reach.sources = vec!["192.0.2.77".parse().expect("an address")];
    let words = error(foreign);
    assert!(words.contains("192.0.2.77") && words.contains("ip address"), "{words}");
    let mut other = server.options(1);
    other.reach.sources = vec!["::1".parse().expect("an address")];
    assert!(error(other).contains("--source"));
}

#[test]
fn connections_go_where_they_are_told() {
    let server = Server::start(|peer| {
        while let Some(request) = peer.request() {
            let right = request.contains("Host: shop.test:8080\r\n");
            peer.send(if right { OK.as_bytes() } else { b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n" });
        }
    });
    let mut options = options("http://shop.test:8080/", 10, 1);
    options.reach.connect_to = Some(Place { host: "127.0.0.1".into(), port: server.address.port() });
    assert_eq!(load(options).status, [(200, 10)]);
}

#[test]
fn a_name_with_several_addresses_is_asked_at_all_of_them() {
    let first = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = first.local_addr().expect("its address").port();
    let second = TcpListener::bind(("127.0.0.2", port)).expect("the same port of another address");
    let counts = [first, second].map(|listener| {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while stream.read(&mut buffer).is_ok_and(|count| count > 0)
                        && stream.write_all(OK.as_bytes()).is_ok()
                    {}
                });
            }
        });
        count
    });
    let mut options = options(&format!("http://named.test:{port}/"), 60, 3);
    options.keep_alive = false;
    // The third takes no connection, and the other version of IP is not needed.
    options.reach.resolve =
        vec![format!("named.test:{port}:127.0.0.1,127.0.0.3,127.0.0.2,::1").parse().expect("addresses")];
    let report = load(options);
    assert_eq!((report.requests, report.failures()), (60, 0), "{:?}", report.reasons);
    let counts = counts.map(|count| count.load(Ordering::Relaxed));
    assert!(counts.iter().all(|count| (25..=35).contains(count)), "{counts:?}");
    let told: Vec<_> = report.warnings.iter().filter(|warning| warning.contains("cannot be reached")).collect();
    assert!(told.len() == 1 && told[0].contains(&format!("127.0.0.3:{port} of named.test")), "{told:?}");
}

#[test]
fn what_cannot_go_together_is_refused() {
    let refused = |url: &str, change: fn(&mut Options)| {
        let mut options = options(url, 1, 1);
        change(&mut options);
        matches!(options.check(), Err(LoadError::Options(_)))
    };
    assert!(!refused("http://h/", |_| {}));
    assert!(!refused("https://h/", |options| options.reach.tls.resume = true));
    assert!(refused("http://h/", |options| options.reach.tls.resume = true));
    assert!(refused("https://h/", |options| options.reach.tls.key = Some("k".into())));
    let unix = |options: &mut Options| options.reach.unix = Some("/s".into());
    assert!(!refused("http://h/", unix));
    assert!(refused("http://h/", |options| {
        options.reach.unix = Some("/s".into());
        options.reach.family = Family::V6;
    }));
    assert!(refused("http://h/", |options| {
        options.reach.unix = Some("/s".into());
        options.reach.proxy = Some("socks5://h".parse().expect("a proxy"));
    }));
    assert!(refused("http://h/", |options| {
        options.reach.connect_to = Some("h:1".parse().expect("a place"));
        options.reach.proxy = Some("http://h".parse().expect("a proxy"));
    }));
    assert!(!refused("https://h/", |options| {
        options.reach.connect_to = Some("h:1".parse().expect("a place"));
        options.reach.proxy = Some("http://h".parse().expect("a proxy"));
    }));
}

#[test]
fn a_server_that_has_gone_refuses() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("short.sock");
    let listener = UnixListener::bind(&path).expect("a free path");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("one connection");
        assert!(stream.read(&mut [0; 1000]).expect("a request") > 0);
        stream.write_all(OK.as_bytes()).expect("an answer");
    });
    let mut options = options("http://localhost/", 3, 1);
    options.reach.unix = Some(path);
    let report = load(options);
    server.join().expect("it answers");
    assert_eq!((report.requests, report.errors.as_slice()), (1, &[(Outcome::Refused, 2)][..]));
}
