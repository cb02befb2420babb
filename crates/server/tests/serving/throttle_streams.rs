//! Throttled streams of HTTP/2 and HTTP/3, by other projects' clients: they wait in one queue with requests of HTTP/1,
//! while the other streams of their connections go on.

use crate::harness;

use harness::{Site, certificate, connect, read_reply, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use weir_server::{Admin, Counts, Options, Throttle, parse_configuration};

const LARGE: usize = 64 << 20;
const PYTHON: &str = "/usr/bin/python3";
/// In the clear, over TLS, over QUIC.
const VERSIONS: [&str; 3] = ["h2", "h2s", "h3"];
/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn bound(running: usize, queue: usize, wait_ms: u64) -> Throttle {
    Throttle::new("/t/**", running, queue, wait_ms).expect("small enough")
}

/// Speaks TLS and HTTP/3 at its first address, and in the clear at its second.
fn start(throttle: Throttle, change: impl FnOnce(&mut Options)) -> Site {
    let site = Site::start(&[("a.txt", b"free"), ("t/small.txt", b"small")], |options| {
        options.loops = 2;
        options.throttles = vec![throttle];
        let directory = options.root.with_extension("beside");
        std::fs::create_dir_all(&directory).expect("creates");
        options.certificates = vec![certificate::make(&directory, "localhost", &["localhost"])];
        options.http3 = true;
        options.listen_clear = vec!["127.0.0.1:0".parse().expect("an address")];
        options.admin = Some(Admin::Unix { path: directory.join("admin"), token: None });
        change(options);
    });
    site.write("t/large.bin", &vec![1; LARGE]);
    site
}

fn admin(site: &Site) -> PathBuf {
    site.directory.path().with_extension("beside").join("admin")
}

/// How many are answered, and how many wait.
fn fill(site: &Site) -> (u64, u64) {
    let mut stream = std::os::unix::net::UnixStream::connect(admin(site)).expect("connects");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sends");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("receives");
    let number = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {told}"));
        line.trim().parse().expect("a number")
    };
    (number("weir_throttle_running "), number("weir_throttle_waiting "))
}

fn until(site: &Site, is_so: impl Fn(&Counts) -> bool) {
    wait_until(|| is_so(&site.counters.read()));
}

/// Waits until no request runs and none waits.
fn until_empty(site: &Site) {
    wait_until(|| fill(site) == (0, 0));
}

/// A client of HTTP/1.1 that asks for something large, of which it takes only the beginning.
fn hold(site: &Site) -> TcpStream {
    let mut stream = connect(site.addrs[1]);
    stream.write_all(b"GET /t/large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    stream.read_exact(&mut [0; 1000]).expect("it is answered");
    stream
}

/// A client in a process of its own, which does as it is told.
struct Client {
    version: String,
    child: Child,
    orders: ChildStdin,
    lines: Receiver<String>,
    told: Vec<String>,
}

impl Client {
    /// None where there is no such client on this machine.
    fn start(version: &str, site: &Site) -> Option<Self> {
        let (python, port) = match version {
            "h3" => (weir_testkit::require::aioquic()?, site.quic[0].port()),
            "h2s" => (PYTHON.into(), site.addr.port()),
            _ => (PYTHON.into(), site.addrs[1].port()),
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/throttle_cases/client.py");
        let mut child = Command::new(python)
            .arg(script)
            .args([version, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts; `make deps` installs what the tests need");
        let (orders, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut client = Self { version: version.to_owned(), child, orders, lines, told: Vec::new() };
        client.hear("ready");
        Some(client)
    }

    /// Clients of every version that there is a client for.
    fn of_each_version(site: &Site) -> Vec<Self> {
        VERSIONS.iter().filter_map(|version| Self::start(version, site)).collect()
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("it takes orders");
    }

    /// Asks for something that has to wait, and waits until it does.
    fn queue(&mut self, name: &str, path: &str, site: &Site) {
        let queued = site.counters.read().throttle_queued;
        self.order(&format!("ask {name} {path}"));
        until(site, |counts| counts.throttle_queued == queued + 1);
    }

    /// Waits until it says this.
    fn hear(&mut self, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_said(wanted) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.told.push(line),
                Err(_) => panic!("{wanted} is not among what the client of {} says: {:?}", self.version, self.told),
            }
        }
    }

    /// Closes its connection. One of QUIC that is gone without a word would be waited for.
    fn leave(&mut self) {
        self.order("close");
        self.hear("closed");
    }

    fn has_said(&mut self, wanted: &str) -> bool {
        self.told.extend(self.lines.try_iter());
        self.told.iter().any(|line| line == wanted)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn all_versions_wait_in_one_order_and_their_connections_go_on() {
    let site = start(bound(1, 7, 60_000), |_| {});
    let held = hold(&site);
    let mut clients = Client::of_each_version(&site);
    // What each asks for is under way until it is taken back, so that it is seen who has its turn.
    for client in &mut clients {
        client.queue("first", "/t/large.bin", &site);
    }
    let mut of_http1 = connect(site.addrs[1]);
    let queued = site.counters.read().throttle_queued;
    of_http1.write_all(b"GET /t/large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    until(&site, |counts| counts.throttle_queued == queued + 1);
    for client in &mut clients {
        client.queue("second", "/t/large.bin", &site);
    }
    let count = clients.len();
    for _ in 2 * count + 1..7 {
        clients[0].queue("more", "/t/small.txt", &site);
    }
    assert_eq!(fill(&site), (1, 7));
    for client in &mut clients {
        client.order("ask full /t/small.txt");
        client.hear("full 503 60");
        client.order("ask free /a.txt");
        client.hear("free 200 -");
        client.hear("free end 4");
    }
    drop(held);
    for name in ["first", "second"] {
        for turn in 0..count {
            clients[turn].hear(&format!("{name} 200 -"));
            // No other client has an answer, and the one that ran before has given its place back.
            let answered =
                clients.iter_mut().map(|client| client.told.iter().filter(|line| line.ends_with("200 -")).count());
            assert_eq!(answered.sum::<usize>(), count + turn + 1 + if name == "second" { count } else { 0 });
            assert_eq!(fill(&site).0, 1);
            clients[turn].order(&format!("reset {name}"));
        }
        if name == "first" {
            of_http1.read_exact(&mut [0; 1000]).expect("it is answered");
            of_http1.shutdown(std::net::Shutdown::Both).expect("shuts down");
        }
    }
    until_empty(&site);
    drop(clients);
    let counts = site.stop();
    assert_eq!((counts.throttle_queued, counts.throttle_refused), (7, count as u64), "{counts:?}");
    assert_eq!((counts.throttle_gone, counts.http2_errors, counts.http3_errors), (0, 0, 0), "{counts:?}");
}

#[test]
fn who_is_reset_or_goes_away_loses_its_place_at_once() {
    let site = start(bound(1, 2, 60_000), |_| {});
    let held = hold(&site);
    let mut gone = 0;
    let mut clients = Client::of_each_version(&site);
    for client in &mut clients {
        client.queue("one", "/t/small.txt", &site);
        client.queue("two", "/t/small.txt", &site);
        client.order("ask three /t/small.txt");
        client.hear("three 503 60");
        client.order("reset one");
        gone += 1;
        until(&site, |counts| counts.throttle_gone == gone);
        assert_eq!(fill(&site), (1, 1));
        client.queue("four", "/t/small.txt", &site);
        // Both streams of a connection that closes.
        client.order("close");
        gone += 2;
        until(&site, |counts| counts.throttle_gone == gone);
        assert_eq!(fill(&site), (1, 0));
    }
    // A client that is killed says no word of QUIC; over TCP the kernel does.
    let mut killed = Client::start("h2", &site).expect("there is h2");
    killed.queue("one", "/t/small.txt", &site);
    drop(killed);
    until(&site, |counts| counts.throttle_gone == gone + 1);
    // Who waits behind one that went has its turn.
    let mut waiting = Client::of_each_version(&site);
    let mut first = Client::start("h2", &site).expect("there is h2");
    first.queue("first", "/t/small.txt", &site);
    let last = waiting.last_mut().expect("one");
    last.queue("last", "/t/small.txt", &site);
    first.order("reset first");
    until(&site, |counts| counts.throttle_gone == gone + 2);
    drop(held);
    last.hear("last 200 -");
    until_empty(&site);
    let counts = site.stop();
    assert_eq!((counts.throttle_gone, counts.connections_broken), (gone + 2, 1), "{counts:?}");
}

#[test]
fn who_is_under_way_gives_its_place_back_when_it_is_reset_or_its_connection_goes() {
    let site = start(bound(1, 2, 60_000), |_| {});
    for version in VERSIONS {
        let Some(mut running) = Client::start(version, &site) else { continue };
        let mut waiting = Client::start("h2", &site).expect("there is h2");
        running.order("ask one /t/large.bin");
        running.hear("one 200 -");
        waiting.queue("one", "/t/large.bin", &site);
        running.order("reset one");
        waiting.hear("one 200 -");
        running.queue("two", "/t/large.bin", &site);
        waiting.order("reset one");
        running.hear("two 200 -");
        waiting.queue("two", "/t/small.txt", &site);
        running.order("close");
        waiting.hear("two 200 -");
        until_empty(&site);
    }
}

/// Takes something large as slowly as it is under way until it is dropped, but never stalls.
struct Slow(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Slow {
    fn start(site: &Site) -> Self {
        let (mut stream, is_over) = (hold(site), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&is_over);
        let take = move || {
            while !seen.load(Ordering::Relaxed) && stream.read_exact(&mut [0; 64 << 10]).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        Self(is_over, Some(std::thread::spawn(take)))
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn no_stream_waits_longer_than_the_bound_and_no_connection_ends_before() {
    let site = start(bound(1, 9, 3000), |options| {
        options.timeouts.idle = Duration::from_millis(900);
        options.timeouts.stall = Duration::from_millis(900);
    });
    let slow = Slow::start(&site);
    let mut of_http1 = connect(site.addrs[1]);
    of_http1.write_all(b"GET /t/small.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    until(&site, |counts| counts.throttle_queued == 1);
    let mut began = Instant::now();
    let mut clients = Vec::new();
    for version in VERSIONS {
        // Before it has been idle for too long.
        let Some(mut client) = Client::start(version, &site) else { continue };
        began = Instant::now();
        client.queue("long", "/t/small.txt", &site);
        clients.push(client);
    }
    for client in &mut clients {
        client.hear("long 503 3");
    }
    assert!(began.elapsed() > Duration::from_millis(2500), "{:?}", began.elapsed());
    assert_eq!(read_reply(&mut of_http1, false).status, 503);
    // When nothing waits any more they are as idle as others.
    for client in &mut clients {
        client.hear("closed");
    }
    drop(slow);
    until_empty(&site);
    let counts = site.stop();
    assert_eq!((counts.throttle_refused, counts.throttle_gone), (clients.len() as u64 + 1, 0), "{counts:?}");
}

#[test]
fn many_streams_of_one_client_get_no_more_places_than_there_are_and_their_answers_in_turn() {
    for version in ["h2", "h3"] {
        let site = start(bound(1, 40, 60_000), |_| {});
        let held = hold(&site);
        let Some(mut client) = Client::start(version, &site) else { continue };
        for stream in 0..90 {
            client.order(&format!("ask s{stream} /t/small.txt"));
        }
        until(&site, |counts| counts.throttle_queued + counts.throttle_refused == 90);
        assert_eq!((site.counters.read().throttle_queued, fill(&site)), (40, (1, 40)));
        let began = Instant::now();
        drop(held);
        for stream in 0..40 {
            client.hear(&format!("s{stream} 200 -"));
        }
        (40..90).for_each(|stream| client.hear(&format!("s{stream} 503 60")));
        // Each end tells the next one, rather than the look now and then.
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let position = |line: &str| client.told.iter().position(|told| told == line);
        let order: Vec<_> = (0..40).map(|stream| position(&format!("s{stream} 200 -"))).collect();
        // Packets of QUIC may come in any order.
        assert!(order.is_sorted() || version == "h3", "{order:?}");
        until_empty(&site);
        client.leave();
    }
}

#[test]
fn other_bounds_hold_without_a_restart() {
    let site = start(bound(1, 9, 60_000), |_| {});
    let reload = |throttles: Vec<Throttle>| {
        let mut options = Options::new(site.directory.path());
        options.throttles = throttles;
        let restart = site.reloader.reload(options);
        assert!(!restart.contains(&"throttle"), "{restart:?}");
    };
    let held = hold(&site);
    let mut clients = Client::of_each_version(&site);
    for client in &mut clients {
        client.queue("one", "/t/large.bin", &site);
    }
    for client in &mut clients {
        client.queue("two", "/t/small.txt", &site);
    }
    let count = clients.len();
    // Just so many more run, in their order; who waits keeps its place although fewer may.
    reload(vec![bound(1 + count, 1, 60_000)]);
    for client in &mut clients {
        client.hear("one 200 -");
    }
    wait_until(|| fill(&site) == (1 + count as u64, count as u64));
    clients[0].order("ask three /t/small.txt");
    clients[0].hear("three 503 60");
    assert!(clients.iter_mut().all(|client| !client.has_said("two 200 -")));
    // When the bound is removed, waiting streams are answered.
    reload(Vec::new());
    for client in &mut clients {
        client.hear("two 200 -");
    }
    clients[0].order("ask four /t/small.txt");
    clients[0].hear("four 200 -");
    drop(held);
    clients.iter_mut().for_each(Client::leave);
}

#[test]
fn a_stop_lets_those_who_wait_have_their_turn_as_long_as_it_waits_itself() {
    let site = start(bound(1, 9, 60_000), |_| {});
    let held = hold(&site);
    let mut clients = Client::of_each_version(&site);
    for client in &mut clients {
        client.queue("one", "/t/small.txt", &site);
    }
    site.begin_stop();
    for client in &mut clients {
        client.hear("goaway");
        assert!(!client.has_said("one 200 -"));
    }
    drop(held);
    for client in &mut clients {
        client.hear("one 200 -");
        client.hear("one end 5");
    }
    let counts = site.stop();
    assert_eq!((counts.stop_aborted, counts.timeouts, counts.throttle_gone), (0, 0, 0), "{counts:?}");

    let site = start(bound(1, 9, 60_000), |options| options.timeouts.stop = Duration::from_millis(600));
    let _held = hold(&site);
    let mut clients = Client::of_each_version(&site);
    for client in &mut clients {
        client.queue("one", "/t/small.txt", &site);
    }
    let began = Instant::now();
    let counts = site.stop();
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    for client in &mut clients {
        client.hear("closed");
    }
    assert_eq!(counts.stop_aborted, 1, "{counts:?}");
}

/// Of "secret".
const USERS: &[u8] = b"anna:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
const PASSWORDS: &str = r#"
[[host]]
root = "site"
[[host.path]]
prefix = "/t/private"
auth = { realm = "r", users = "users" }
"#;

#[test]
fn who_waits_after_its_password_was_checked_does_so_again_where_it_has_to_be_checked_again() {
    let configuration =
        |folder: &Path| parse_configuration(PASSWORDS, folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
    let site = start(bound(1, 9, 60_000), |options| {
        std::fs::create_dir_all(options.root.join("site/t/private")).expect("creates");
        std::fs::write(options.root.join("users"), USERS).expect("writes");
        std::fs::write(options.root.join("site/t/private/small.txt"), b"small").expect("writes");
        std::fs::write(options.root.join("site/t/large.bin"), vec![1; LARGE]).expect("writes");
        options.hosts = configuration(&options.root).hosts;
    });
    let held = hold(&site);
    let mut clients = Client::of_each_version(&site);
    for client in &mut clients {
        client.queue("kept", "/t/private/small.txt anna:secret", &site);
        client.queue("taken_back", "/t/private/small.txt anna:secret", &site);
        client.queue("wrong", "/t/private/small.txt anna:wrong", &site);
        client.order("reset taken_back");
    }
    let count = clients.len() as u64;
    until(&site, |counts| counts.throttle_gone == count);
    let mut of_http1 = connect(site.addrs[1]);
    // anna:secret
    let request = b"GET /t/private/small.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uYTpzZWNyZXQ=\r\n\r\n";
    of_http1.write_all(request).expect("sends");
    until(&site, |counts| counts.throttle_queued == 3 * count + 1);
    assert_eq!(fill(&site), (1, 2 * count + 1));
    // No bound is left, and no password is known to be right.
    site.reloader.reload(configuration(site.directory.path()));
    for client in &mut clients {
        client.hear("kept 200 -");
        client.hear("wrong 401 -");
    }
    assert_eq!(read_reply(&mut of_http1, false).text(), "small");
    drop(held);
}
