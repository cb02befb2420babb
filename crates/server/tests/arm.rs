//! Requests as business transactions, as an agent receives them. It is one test, because it sets environment variables.
// scripts/test: serves

mod harness;

use harness::{Site, read_reply};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use weir_agent::protocol::{Answer, Ask, Filter, Switch};
use weir_agent::transaction::{MetricValue, Status, Transaction};
use weir_agent::{Agent, Settings, Subscription};
use weir_server::ArmRules;

const RULES: &str = r#"
Arm On
ArmApplication shop
ArmUser example.com
ArmTransactionInfo "a shop's pages"
ArmMatch ^/order/ order
ArmMatch '^/item/([a-z]+)' 'item $1'
ArmMatch '[?]color=red$|\?colour=red$' red
<Location /private>
    Arm Off
</Location>
<Location /private/but>
    Arm On
    ArmApplication cellar houses
    ArmUser *
</Location>
<Location /tenth>
    ArmSample 10%
    ArmTransaction tenth
</Location>
<Location /far>
    ArmClient 192.0.2.0/24
</Location>
"#;

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "{what}: it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What comes next; more of it than was expected is seen by the next call.
fn next(all: &Subscription, count: usize) -> Vec<Transaction> {
    let mut found = Vec::new();
    wait_for("transactions", || {
        found.extend(all.take(Duration::from_millis(20)).iter().map(|it| Transaction::clone(it)));
        found.len() >= count
    });
    assert_eq!(found.len(), count, "{found:#?}");
    found.sort_by_key(|transaction| transaction.start_ns);
    found
}

fn metric(transaction: &Transaction, name: &str) -> Option<i64> {
    let metric = transaction.details.metrics.iter().find(|metric| metric.name == name)?;
    let MetricValue::Integer(value) = metric.value else { panic!("{metric:?}") };
    Some(value)
}

fn agent(directory: &std::path::Path) -> Agent {
    let settings = Settings {
        directory: directory.to_owned(),
        beat: Duration::from_millis(10),
        batch: Duration::from_millis(100),
        ..Settings::default()
    };
    Agent::start(settings, None, None).expect("it starts")
}

#[test]
fn requests_are_told_as_the_directives_say() {
    let folder = tempfile::tempdir().expect("a folder");
    // SAFETY: no other thread of this process runs anything but the test's harness, which reads no environment.
    unsafe { std::env::set_var("WEIR_ARM_DIR", folder.path()) };
    let rules: ArmRules = RULES.parse().expect("directives");
    let big = vec![b'x'; 30 << 20];
    let files: &[(&str, &[u8])] = &[
        ("a.txt", b"hello"),
        ("order/1.html", b"one"),
        ("item/cap/2.html", b"two"),
        ("private/x.txt", b"x"),
        ("private/but/y.txt", b"y"),
        ("tenth/t.txt", b"t"),
        ("far/f.txt", b"f"),
        ("big.bin", &big),
    ];
    let site = Site::start(files, |options| options.arm = Some(rules));
    assert_eq!(site.get("/a.txt").status, 200, "without an agent everything is served");

    let agent = agent(folder.path());
    let all = agent.subscribe(Filter::default(), 1000).expect("it runs");
    wait_for("the agent", weir_arm::listening);
    names_and_what_is_told(&site, &all);
    parents(&site, &all);
    spellings(&site, &all);
    lengths(&site, &all);
    places_clients_and_samples(&site, &all);
    times(&site, &all);
    outcomes(&site, &all);
    moved(&site, &all);
    by_the_ring(&site, &all);

    let switch = |to| Ask::Switch { application: "shop".to_owned(), transaction: Some("order".to_owned()), to };
    assert!(matches!(agent.ask(switch(Some(Switch::Off))), Answer::Switched { .. }));
    site.get("/order/1.html");
    site.get("/a.txt");
    assert_eq!(next(&all, 1)[0].name, "/a.txt", "the agent's switch holds at once");
    drop(agent);
    assert_eq!(site.get("/order/1.html").status, 200, "the agent is gone");
}

fn names_and_what_is_told(site: &Site, all: &Subscription) {
    let mut stream = site.connect();
    let own = stream.local_addr().expect("an address").to_string();
    stream.write_all(b"GET /order/1.html?n=7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    harness::read_to_end(&mut stream);
    let told = &next(all, 1)[0];
    assert_eq!((told.application.as_str(), told.name.as_str(), told.status), ("shop", "order", Status::Good));
    assert_eq!((told.user.as_deref(), told.details.address.as_deref()), (Some("example.com"), Some(own.as_str())));
    assert_eq!((told.properties[0].name.as_str(), told.properties[0].value.as_str()), ("info", "a shop's pages"));
    assert_eq!((told.details.context[0].name.as_str(), told.details.context[0].value.as_str()), ("method", "GET"));
    assert_eq!(told.details.uri.as_deref(), Some("/order/1.html"), "queries may hold secrets");
    assert_eq!((metric(told, "status"), metric(told, "bytes"), metric(told, "first-byte")), (Some(200), Some(3), None));
    assert!(told.duration_ns > 0 && told.duration_ns < 10_000_000_000 && told.queued_ns == 0, "{told:?}");

    for (target, name) in [
        ("/item/cap/2.html", "item cap"),
        ("/%61.txt", "/a.txt"),
        ("/a.txt?colour=red", "red"),
        ("/a.txt?colour=blue", "/a.txt"),
        ("/order/none", "order"),
        ("/item/none", "(error)"),
        ("/none", "(error)"),
        ("/order/../a.txt", "(error)"),
    ] {
        let status = site.get(target).status;
        let told = &next(all, 1)[0];
        assert_eq!((told.name.as_str(), told.status), (name, Status::Good), "{target}");
        assert_eq!(metric(told, "status"), Some(i64::from(status)), "{target}");
    }
}

fn parents(site: &Site, all: &Subscription) {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let traceparent = format!("traceparent: 00-{trace}-b7ad6b7169203331-01\r\n");
    site.ask("GET", "/a.txt", &traceparent);
    let told = &next(all, 1)[0];
    assert_eq!(told.parent.expect("a parent").to_string(), format!("{trace}-b7ad6b7169203331"));
    // The correlator comes first, and what is none is no harm.
    let correlator = "001cd7401111111111111111222222222222222233333333333333AA".to_ascii_lowercase();
    site.ask("GET", "/a.txt", &format!("{traceparent}ARM-Correlator: {correlator}\r\n"));
    assert_eq!(
        next(all, 1)[0].parent.expect("a parent").to_string(),
        "11111111111111112222222222222222-33333333333333aa"
    );
    for field in ["traceparent: 00-1-2-3", "ARM-Correlator: 001", "ARM-Correlator: zz", "ARM-Correlator: 0002"] {
        assert_eq!(site.ask("GET", "/a.txt", &format!("{field}\r\n")).status, 200);
        assert_eq!(next(all, 1)[0].parent, None, "{field}");
    }
}

/// A path that is remembered is not taken for one that is only written like it.
fn spellings(site: &Site, all: &Subscription) {
    for name in ["a?b.txt", "a%41.txt", "a#b.txt"] {
        site.write(name, b"odd");
    }
    let expected = [
        ("/a%3Fb.txt", "/a?b.txt", 200),
        ("/a?b.txt", "(error)", 404),
        ("/a%2541.txt", "/a%41.txt", 200),
        ("/a%41.txt", "(error)", 404),
        ("/a%23b.txt", "/a#b.txt", 200),
        ("/a#b.txt", "(error)", 400),
        ("//a.txt", "/a.txt", 200),
        ("http://a/a.txt", "/a.txt", 200),
    ];
    for (target, name, status) in expected.iter().chain(&expected) {
        assert_eq!(site.get(target).status, *status, "{target}");
        assert_eq!(next(all, 1)[0].name, *name, "{target}");
    }
}

/// However long what is told of a request is, all of it is told: behind its begin, or in records of its own.
fn lengths(site: &Site, all: &Subscription) {
    let trace = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
    for length in (1..=240).step_by(16).chain([194, 195, 196, 226, 227, 228, 240, 600]) {
        // Names of files have 255 bytes at most.
        let path = format!("{}{}", format!("{}/", "d".repeat(200)).repeat(length / 201), "x".repeat(length % 201));
        let path = format!("/order/{path}");
        site.write(&path[1..], b"there");
        for fields in ["".to_owned(), format!("traceparent: 00-{trace}-01\r\n")] {
            assert_eq!(site.ask("GET", &path, &fields).status, 200, "{path}");
            let told = &next(all, 1)[0];
            assert_eq!((told.name.as_str(), told.details.uri.as_deref()), ("order", Some(path.as_str())));
            assert_eq!((told.details.context[0].value.as_str(), metric(told, "bytes")), ("GET", Some(5)), "{path}");
            let parent = told.parent.map(|parent| parent.to_string());
            assert_eq!(parent.as_deref(), (!fields.is_empty()).then_some(trace), "{path}");
            assert!(
                told.details.address.as_deref().is_some_and(|address| address.starts_with("127.0.0.1:")),
                "{told:?}"
            );
        }
    }
}

fn places_clients_and_samples(site: &Site, all: &Subscription) {
    for target in ["/private/x.txt", "/far/f.txt", "/private/but/y.txt"] {
        assert_eq!(site.get(target).status, 200, "{target}");
    }
    let told = &next(all, 1)[0];
    assert_eq!((told.application.as_str(), told.name.as_str()), ("cellar", "/private/but/y.txt"));
    assert_eq!((told.group.as_deref(), told.user.as_deref()), (Some("houses"), None), "the client has given no name");
    // Aladdin:open sesame
    site.ask("GET", "/private/but/y.txt", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
    assert_eq!(next(all, 1)[0].user.as_deref(), Some("Aladdin"));
    site.ask("GET", "/a.txt", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
    let told = &next(all, 1)[0];
    assert_eq!((told.group.as_deref(), told.user.as_deref()), (None, Some("example.com")), "as the directive says");
    for _ in 0..21 {
        site.get("/tenth/t.txt");
    }
    for told in next(all, 3) {
        assert_eq!((told.name.as_str(), told.one_in), ("tenth", 10), "the first, and each tenth after it");
    }
}

fn times(site: &Site, all: &Subscription) {
    // A head in two pieces: what passed between them was before its begin.
    let mut stream = site.connect();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHo").expect("sends");
    std::thread::sleep(Duration::from_millis(30));
    stream.write_all(b"st: a\r\n\r\n").expect("sends");
    read_reply(&mut stream, false);
    let told = &next(all, 1)[0];
    assert!(told.queued_ns >= 25_000_000, "{told:?}");
    // Requests that come together begin together.
    stream.write_all("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3).as_bytes()).expect("sends");
    (0..3).for_each(|_| drop(read_reply(&mut stream, false)));
    let told = next(all, 3);
    assert!(told.iter().all(|one| one.start_ns == told[0].start_ns && one.queued_ns == 0), "{told:?}");
}

fn outcomes(site: &Site, all: &Subscription) {
    let begin = |site: &Site| -> TcpStream {
        let mut stream = site.connect();
        stream.write_all(b"GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
        stream.read_exact(&mut [0; 1000]).expect("reads");
        stream
    };
    let mut stream = begin(site);
    std::thread::sleep(Duration::from_millis(50));
    harness::read_to_end(&mut stream);
    let told = &next(all, 1)[0];
    assert_eq!((told.status, metric(told, "bytes")), (Status::Good, Some(30 << 20)));
    let first_byte_us = metric(told, "first-byte").expect("it did not go out at once");
    assert!(told.duration_ns >= 40_000_000 && first_byte_us * 2000 < told.duration_ns as i64, "{told:?}");

    let stream = begin(site);
    std::thread::sleep(Duration::from_millis(20));
    drop(stream);
    let told = &next(all, 1)[0];
    assert_eq!(told.status, Status::Aborted);
    assert!(metric(told, "bytes").expect("bytes") < 30 << 20, "{told:?}");
}

/// A response that moves is not told: neither server has all of it. The next request is, over the same connection.
fn moved(site: &Site, all: &Subscription) {
    let mut stream = site.connect();
    stream.write_all(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mut received = vec![0; 1000];
    stream.read_exact(&mut received).expect("reads");
    let [peer, local] = [stream.local_addr(), stream.peer_addr()].map(|address| address.expect("an address"));
    let taken = site.control.take_session(peer, local).expect("is given away");
    assert!(taken.known_bytes >= 1000, "{}", taken.known_bytes);
    site.control.give_session_back(taken);
    let head_bytes = received.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    stream.read_exact(&mut vec![0; head_bytes + (30 << 20) - received.len()]).expect("its end");
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    harness::read_to_end(&mut stream);
    let told = &next(all, 1)[0];
    assert_eq!((told.name.as_str(), told.status), ("/a.txt", Status::Good));
}

/// A transaction of a response by io_uring ends when the socket has taken the response, even if it had little room.
fn by_the_ring(site: &Site, all: &Subscription) {
    let ask = "GET /order/1.html HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut stream = with_little_room(site);
    for _ in 0..3 {
        let begun = Instant::now();
        stream.write_all(ask.as_bytes()).expect("sends");
        read_reply(&mut stream, false);
        let (told, took) = (next(all, 1), begun.elapsed());
        assert_eq!((told[0].status, metric(&told[0], "bytes")), (Status::Good, Some(3)));
        assert!(u128::from(told[0].duration_ns) < took.as_nanos(), "{told:?}");
    }
    let has_ring = site.counters.read().ring_joined > 0;
    if weir_testkit::require::or_skip(has_ring, "io_uring is refused here: what it sends is not told").is_none() {
        return;
    }
    // It reads nothing until the socket has refused some of what the ring was given.
    let (mut asked, mut told) = (0, Vec::new());
    let before = site.counters.read().requests;
    let take = |told: &mut Vec<Transaction>| {
        told.extend(all.take(Duration::from_millis(1)).iter().map(|one| Transaction::clone(one)));
    };
    while site.counters.read().ring_blocked == 0 {
        assert!(asked < 100_000, "nothing was refused");
        stream.write_all(ask.repeat(8).as_bytes()).expect("sends");
        asked += 8;
        wait_for("answers", || {
            let counts = site.counters.read();
            counts.requests == before + asked as u64 || counts.ring_blocked > 0
        });
        take(&mut told);
    }
    std::thread::sleep(Duration::from_millis(300));
    take(&mut told);
    let gone = told.len();
    assert!(gone < asked, "what was refused has not gone");
    let reading = std::thread::spawn(move || (0..asked).for_each(|_| drop(read_reply(&mut stream, false))));
    wait_for("all of them", || {
        take(&mut told);
        told.len() >= asked
    });
    reading.join().expect("no panic");
    assert_eq!(told.len(), asked, "each once");
    assert!(told.iter().all(|one| one.status == Status::Good && metric(one, "bytes") == Some(3)), "{told:?}");
    let late = told[gone..].iter().filter(|one| one.duration_ns > 200_000_000).count();
    assert!(late > 0, "of {gone} and then {} none took as long as its client did", asked - gone);

    // Of one whose client goes meanwhile the rest is aborted.
    let mut stream = with_little_room(site);
    let (blocked, mut told) = (site.counters.read().ring_blocked, Vec::new());
    while site.counters.read().ring_blocked == blocked {
        let before = site.counters.read();
        stream.write_all(ask.repeat(8).as_bytes()).expect("sends");
        wait_for("answers", || {
            let counts = site.counters.read();
            counts.requests >= before.requests + 8 || counts.ring_blocked > blocked
        });
        take(&mut told);
    }
    drop(stream);
    wait_for("the end of what never went", || {
        take(&mut told);
        told.iter().any(|one| one.status == Status::Aborted)
    });
}

/// A client whose socket takes few responses that it does not read.
fn with_little_room(site: &Site) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("sets");
    socket.connect(&site.addr.into()).expect("connects");
    socket.into()
}
