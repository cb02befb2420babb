//! WebSockets through servers that follow each other: they stay with the server that they began with until they end.

use super::{Server, ask};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_testkit::websocket::{Clients, Echo, Plan};

/// A site whose paths below `/ws/` an upstream answers, with these times.
fn site(upstream: SocketAddr, timeouts: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("site")).expect("creates");
    fs::write(folder.path().join("site/a.txt"), "hello").expect("writes");
    let text = format!(
        "[timeouts]\n{timeouts}\n[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/ws/\"\nproxy = \"http://{upstream}\"\n\
         [[host.path]]\nprefix = \"/kept/\"\nproxy = \"http://{upstream}\"\ncache = {{ default_ttl = \"1 h\" }}\n"
    );
    fs::write(folder.path().join("weir.toml"), text).expect("writes");
    folder
}

fn serve(folder: &Path, listen: &str, more: &[&str]) -> (Server, SocketAddr) {
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    let options = [&["--listen", listen, "--admin", &admin, "--loops", "2"], more].concat();
    let (server, line) = Server::start(&folder.join("weir.toml"), &options);
    let addr = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
    (server, addr.parse().expect("an address"))
}

fn ask_admin(folder: &Path, head: &str) -> String {
    let asked = UnixStream::connect(folder.join("admin.sock")).and_then(|mut stream| {
        write!(stream, "{head} HTTP/1.1\r\nHost: a\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).map(|_| reply)
    });
    asked.unwrap_or_default()
}

fn status(folder: &Path) -> serde_json::Value {
    let reply = ask_admin(folder, "GET /status.json");
    reply.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).unwrap_or_default()
}

/// Waits until the status is so.
fn wait_for(folder: &Path, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let told = status(folder);
        if is_so(&told) {
            return told;
        }
        assert!(Instant::now() < deadline, "{what} is not so: {told}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Tunnels of all former servers.
fn former_tunnels(told: &serde_json::Value) -> u64 {
    let servers = told["former_servers"].as_array().map_or(&[][..], Vec::as_slice);
    servers.iter().filter_map(|server| server["tunnels"].as_u64()).sum()
}

fn clients(addr: SocketAddr, count: usize, life: u64) -> Clients {
    let every = Duration::from_millis(20);
    let clients = Clients::start(Plan { addr, path: "/ws/a".to_owned(), count, every, life, bytes: 100 });
    let clients = clients.expect("a thread");
    let deadline = Instant::now() + Duration::from_secs(60);
    while clients.counts().open < count {
        assert!(Instant::now() < deadline, "{}", clients.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
    clients
}

fn signal(server: &Server, signal: i32) {
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(server.0.id().cast_signed(), signal) }, 0);
}

#[test]
fn websockets_stay_over_reloads_and_take_overs_and_the_newest_server_tells_of_all() {
    const STAYING: usize = 10;
    let echo = Echo::start(([127, 0, 0, 1], 0).into()).expect("listens");
    let folder = site(echo.addr(), "");
    let (mut serving, addr) = serve(folder.path(), "127.0.0.1:0", &[]);
    let (staying, changing) = (clients(addr, STAYING, 0), clients(addr, 10, 5));
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut former = Vec::new();
    std::thread::scope(|scope| {
        let requests = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let reply = TcpStream::connect(addr).and_then(ask).expect("a client noticed");
                assert!(reply.ends_with("\r\n\r\nhello"), "a client noticed: {reply:?}");
                asked.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for round in 1..=3_usize {
            for reload in 1..=7_u64 {
                signal(&serving, libc::SIGHUP);
                wait_for(folder.path(), "the reload", |told| told["reloads"]["done"].as_u64() >= Some(reload));
            }
            assert!(!requests.is_finished(), "a client noticed");
            let pid = serving.0.id();
            let (next, _) = serve(folder.path(), &addr.to_string(), &["--take-over", &pid.to_string()]);
            former.push(std::mem::replace(&mut serving, next));
            let told = wait_for(folder.path(), "the former server", |told| {
                told["pid"].as_u64() == Some(serving.0.id().into()) && former_tunnels(told) >= STAYING as u64
            });
            let pids = told["former_servers"].as_array().expect("a list").iter().map(|one| one["pid"].as_u64());
            // Those without tunnels have ended by now, or are about to.
            assert!(pids.clone().any(|pid| pid == Some(former[0].0.id().into())) && pids.count() <= round, "{told}");
        }
        stop.store(true, Ordering::Relaxed);
        requests.join().expect("no client noticed");
    });
    assert!(asked.load(Ordering::Relaxed) > 20);
    let metrics = ask_admin(folder.path(), "GET /metrics");
    assert!(
        metrics.contains(&format!("weir_former_server_tunnels{{pid=\"{}\"}} {STAYING}", former[0].0.id())),
        "{metrics}"
    );
    let before = staying.counts().echoes;
    let deadline = Instant::now() + Duration::from_secs(30);
    while staying.counts().echoes < before + 50 {
        assert!(Instant::now() < deadline, "nothing passes any more: {}", staying.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
    for clients in [staying, changing] {
        let counts = clients.stop();
        assert_eq!(counts.broken, 0, "{counts}");
        assert!(counts.closed >= 10, "{counts}");
    }
    // Each ends with its last tunnel.
    former.into_iter().for_each(|server| drop(server.ended()));
    let told =
        wait_for(folder.path(), "the end of all", |told| told["former_servers"].as_array().is_some_and(Vec::is_empty));
    assert_eq!(told["connections"]["tunnels"], 0, "{told}");
}

#[test]
fn what_the_newest_server_is_told_reaches_the_former_ones() {
    let echo = Echo::start(([127, 0, 0, 1], 0).into()).expect("listens");
    let folder = site(echo.addr(), "stop = \"1 s\"");
    let (first, addr) = serve(folder.path(), "127.0.0.1:0", &[]);
    let held = clients(addr, 3, 0);
    let get = |path: &str| {
        let mut stream = TcpStream::connect(addr).expect("connects");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("writes");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("answers");
        reply
    };
    assert!(get("/kept/a").ends_with("hello") && get("/kept/b").ends_with("hello"));
    let pid = first.0.id().to_string();
    let (second, _) = serve(folder.path(), &addr.to_string(), &["--take-over", &pid]);
    wait_for(folder.path(), "the former server", |told| former_tunnels(told) == 3);
    // The former one has two responses in its cache.
    let purged = ask_admin(folder.path(), "POST /purge?prefix=http://a/kept/");
    let expected = "{\"purged\":0,\"former_servers\":1,\"former_purged\":2,\"former_silent\":0}";
    assert!(purged.contains(expected), "{purged}");
    // The end of the newest one is that of all.
    signal(&second, libc::SIGTERM);
    let told = second.ended();
    assert!(told.contains("1 former server is asked to end, and waited for 1 s at most"), "{told}");
    assert!(first.ended().contains("3 responses cut off"));
    drop(held);
}

#[test]
fn tunnels_have_a_bound_that_the_next_server_tells() {
    let echo = Echo::start(([127, 0, 0, 1], 0).into()).expect("listens");
    let folder = site(echo.addr(), "stop = \"1 s\"\ntunnels_kept = \"3 s\"");
    let (first, addr) = serve(folder.path(), "127.0.0.1:0", &[]);
    let held = clients(addr, 2, 0);
    let (pid, begin) = (first.0.id().to_string(), Instant::now());
    let (second, _) = serve(folder.path(), &addr.to_string(), &["--take-over", &pid]);
    first.ended();
    let time = begin.elapsed();
    assert!(time > Duration::from_millis(2500), "{time:?}");
    signal(&second, libc::SIGTERM);
    let told = second.ended();
    assert!(told.contains("; it keeps its tunnels for 3 s at most"), "{told}");
    drop(held);
}

/// A stream of HTTP/2 that is a tunnel (RFC 8441), over a connection of its own.
struct Http2(TcpStream);

impl Http2 {
    fn open(addr: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(addr).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("sets");
        let fields = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/ws/h2"),
            ("sec-websocket-version", "13"),
        ];
        // Literals without indexing (RFC 7541 section 6.2.2).
        let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        let block: Vec<u8> =
            fields.iter().flat_map(|(name, value)| [vec![0], literal(name), literal(value)].concat()).collect();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("sends");
        let mut own = Self(stream);
        own.send(1, 4, &block);
        own
    }

    fn send(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        let head = [0, 0, payload.len() as u8, kind, flags, 0, 0, 0, 1];
        self.0.write_all(&[&head[..], payload].concat()).expect("sends");
    }

    /// Receives until this many bytes of the tunnel have come; whether the end of the connection was announced.
    fn receive(&mut self, bytes: usize) -> (Vec<u8>, bool) {
        let (mut data, mut is_announced) = (Vec::new(), false);
        while data.len() < bytes {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).expect("a frame");
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.0.read_exact(&mut payload).expect("its payload");
            match head[3] {
                0 => data.extend(payload),
                3 => panic!("the stream is reset: {payload:?}"),
                7 => is_announced = true,
                _ => {}
            }
        }
        (data, is_announced)
    }
}

#[test]
fn a_websocket_of_http2_outlives_the_time_of_responses_after_a_take_over() {
    /// A frame of WebSocket.
    const FRAME: &[u8] = b"\x82\x05hello";
    let echo = Echo::start(([127, 0, 0, 1], 0).into()).expect("listens");
    let folder = site(echo.addr(), "stop = \"1 s\"");
    let (first, addr) = serve(folder.path(), "127.0.0.1:0", &[]);
    let mut client = Http2::open(addr);
    client.send(0, 0, FRAME);
    assert_eq!(client.receive(FRAME.len()), (FRAME.to_vec(), false));
    let pid = first.0.id().to_string();
    let (_second, _) = serve(folder.path(), &addr.to_string(), &["--take-over", &pid]);
    let told = wait_for(folder.path(), "the former server", |told| former_tunnels(told) == 1);
    assert_eq!(told["former_servers"][0]["responses"], 0, "{told}");
    std::thread::sleep(Duration::from_millis(2500));
    client.send(0, 0, FRAME);
    assert_eq!(client.receive(FRAME.len()), (FRAME.to_vec(), true));
    drop(client);
    first.ended();
}
