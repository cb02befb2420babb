//! Applications while something else fails: the server is killed, or the disk of its log is full; and what the admin
//! address tells of requests that end badly.

use crate::applications::serve;
use crate::harness;

use harness::{Reply as Received, wait_until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_server::{AccessLog, Admin, LogTarget};
use weir_testkit::SmallDisk;

/// Tells this program to be the server that is killed, and where to write its address.
const KILLED: &str = "WEIR_TEST_KILLED_SERVER";
const BODY_BYTES: usize = 1_000_000;

/// Serves for as long as the test needs at most, which kills it before.
fn serve_until_killed(ready: &Path) {
    let (site, ..) = serve(|_| {});
    let written = ready.with_extension("new");
    std::fs::write(&written, site.addr.to_string()).expect("writes");
    std::fs::rename(written, ready).expect("renames");
    std::thread::sleep(Duration::from_secs(60));
}

/// Another process, ended with the value.
struct Killed(Child);

impl Killed {
    fn start(ready: &Path) -> Self {
        let test = "application_faults::a_killed_server_cuts_its_streams_and_another_begins_at_its_address";
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", test]).env(KILLED, ready).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }

    /// SIGKILL.
    fn kill(&mut self) {
        self.0.kill().expect("kills");
        self.0.wait().expect("ended");
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It fails where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends the beginning of a body, and reads the beginning of what comes back.
fn begin_echo(addr: SocketAddr, target: &str) -> (TcpStream, Vec<u8>) {
    let mut stream = harness::connect(addr);
    let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sends");
    stream.write_all(&[b'x'; 50_000]).expect("sends");
    let mut received = vec![0; 20_000];
    stream.read_exact(&mut received).expect("it comes back");
    (stream, received)
}

#[test]
fn a_killed_server_cuts_its_streams_and_another_begins_at_its_address() {
    if let Some(ready) = std::env::var_os(KILLED) {
        return serve_until_killed(Path::new(&ready));
    }
    let directory = tempfile::tempdir().expect("a directory");
    let ready = directory.path().join("address");
    let mut killed = Killed::start(&ready);
    wait_until(|| ready.exists());
    let addr: SocketAddr = std::fs::read_to_string(&ready).expect("reads").parse().expect("an address");
    let (mut with_length, mut of_length) = begin_echo(addr, "/echo?length");
    let (mut in_chunks, mut of_chunks) = begin_echo(addr, "/echo");
    killed.kill();
    let begin = Instant::now();
    let (site, ..) = serve(|options| options.listen = vec![addr.into()]);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(site.addr, addr);
    let body = "y".repeat(1000);
    let head = "POST /echo?length HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n";
    let received = site.exchange([head, &body].concat().as_bytes());
    let next = Received::parse(&received).0;
    assert_eq!((next.status, next.text()), (200, body));
    // Both clients can tell that theirs is not whole.
    of_length.extend(harness::read_to_end(&mut with_length));
    let (reply, rest) = Received::parse(&of_length);
    assert_eq!(reply.field("content-length"), Some("1000000"));
    assert!(reply.body.len() < BODY_BYTES && rest.is_empty(), "{} bytes", reply.body.len());
    of_chunks.extend(harness::read_to_end(&mut in_chunks));
    assert!(of_chunks.starts_with(b"HTTP/1.1 200 ") && !of_chunks.ends_with(b"0\r\n\r\n"));
    let counts = site.stop();
    assert_eq!((counts.applications, counts.applications_failed), (1, 0), "{counts:?}");
}

#[test]
fn a_full_disk_of_the_log_costs_lines_while_an_application_streams_but_no_byte_of_it() {
    const BYTES: usize = 8_000_000;
    const OTHERS: u64 = 50;
    let Some(disk) = SmallDisk::mount(1) else { return };
    let log = disk.path().join("access.log");
    let (site, ..) = serve(|options| options.access_log = Some(AccessLog::new(LogTarget::File(log.clone()))));
    let mut stream = site.connect();
    let ask = format!("GET /pour/{BYTES} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).expect("sends");
    let mut received = vec![0; 64 << 10];
    stream.read_exact(&mut received).expect("it streams");
    let mut filler = std::fs::File::create(disk.path().join("filler")).expect("creates");
    while filler.write_all(&[0; 4096]).is_ok() {}
    for _ in 0..OTHERS {
        assert_eq!(site.ask("POST", "/echo?length", "Content-Length: 0\r\n").status, 200);
    }
    wait_until(|| site.counters.read().log_dropped == OTHERS);
    received.extend(harness::read_to_end(&mut stream));
    let head = received.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let content = received[head..].iter().filter(|&&byte| byte == b'p').count();
    assert!(content == BYTES && received.ends_with(b"\r\n0\r\n\r\n"), "{content} bytes");
    let counts = site.stop();
    assert_eq!((counts.applications, counts.applications_failed, counts.applications_cancelled), (OTHERS + 1, 0, 0));
    assert_eq!((counts.log_lines, counts.log_dropped), (0, OTHERS + 1), "{counts:?}");
    assert_eq!(std::fs::metadata(&log).expect("the log").len(), 0);
}

/// What the admin address answers.
fn told(path: &Path, target: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("connects");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("receives");
    answer
}

#[test]
fn the_admin_address_tells_how_requests_of_applications_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let admin = directory.path().join("admin");
    let (site, dropped, begun) = serve(|options| {
        options.admin = Some(Admin::Unix { path: admin.clone(), token: None });
    });
    let metrics = told(&admin, "/metrics");
    assert!(metrics.contains("weir_application_requests_total{result=\"done\"} 0\n"), "{metrics}");
    assert_eq!(site.get("/wait/0").status, 200);
    assert_eq!(site.get("/break/own").status, 404);
    assert_eq!(site.get("/break/early").status, 502);
    let mut gone = site.connect();
    gone.write_all(b"GET /wait/60000 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    wait_until(|| begun.load(Ordering::Relaxed) == 2);
    drop(gone);
    wait_until(|| dropped.load(Ordering::Relaxed) == 2);
    let metrics = told(&admin, "/metrics");
    for (result, count) in [("done", 2), ("failed", 1), ("cancelled", 1)] {
        let line = format!("weir_application_requests_total{{result=\"{result}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let status = told(&admin, "/status.json");
    assert!(status.contains(r#""applications":{"requests":4,"failed":1,"cancelled":1}"#), "{status}");
}
