//! A server on a free port with a directory of its own, and a client that speaks bytes.
#![allow(dead_code)]

pub(crate) mod certificate;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_server::{Control, Counters, Counts, Io, Options, Reloader, RunError, Server};

/// A running server; it is stopped at the end of the test.
pub(crate) struct Site {
    pub(crate) directory: TempDir,
    pub(crate) addr: SocketAddr,
    pub(crate) addrs: Vec<SocketAddr>,
    /// Where HTTP/3 is spoken.
    pub(crate) quic: Vec<SocketAddr>,
    pub(crate) counters: Counters,
    pub(crate) reopen: Arc<AtomicBool>,
    pub(crate) reloader: Reloader,
    pub(crate) control: Control,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Counts, RunError>>>,
}

impl Site {
    /// One loop, and short timeouts, unless the test wants others.
    pub(crate) fn start(files: &[(&str, &[u8])], change: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, content) in files {
            write(directory.path(), name, content);
        }
        let mut options = Options::new(directory.path());
        options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
        options.loops = 1;
        // The same tests hold for both ways: WEIR_TEST_IO=epoll has them go the other one.
        options.io = std::env::var("WEIR_TEST_IO").map_or(Io::Auto, |io| io.parse().expect("auto, epoll or io_uring"));
        change(&mut options);
        let server = Server::bind(options).expect("binds");
        let addrs = server.local_addrs();
        let quic = server.quic_addrs();
        let addr = addrs[0];
        let counters = server.counters();
        let reopen = server.reopen_log_flag();
        let reloader = server.reloader();
        let control = server.control();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || server.run(&flag)));
        Self { directory, addr, addrs, quic, counters, reopen, reloader, control, stop, thread }
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        write(self.directory.path(), name, content);
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.addr)
    }

    /// Sends bytes and reads until the server closes.
    pub(crate) fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).expect("sends");
        read_to_end(&mut stream)
    }

    /// Asks with HTTP/1.1 and a close; `fields` have their line ends.
    pub(crate) fn ask(&self, method: &str, target: &str, fields: &str) -> Reply {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        Reply::parse(&self.exchange(request.as_bytes())).0
    }

    pub(crate) fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, "")
    }

    pub(crate) fn begin_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(crate) fn stop(mut self) -> Counts {
        self.begin_stop();
        self.thread.take().expect("still runs").join().expect("no panic").expect("ends well")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.begin_stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("no panic").expect("ends well");
            }
        }
    }
}

fn write(directory: &Path, name: &str, content: &[u8]) {
    let path = directory.join(name);
    std::fs::create_dir_all(path.parent().expect("has a parent")).expect("creates");
    std::fs::write(path, content).expect("writes");
}

/// Waits for something that comes soon; a machine that is busy is given its time.
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    stream.set_nodelay(true).expect("sets");
    stream
}

/// Reads until the end; a reset counts as an end.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&all)),
    }
    all
}

/// Reads one response from a connection that stays open.
pub(crate) fn read_reply(stream: &mut TcpStream, head_only: bool) -> Reply {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        bytes.push(byte[0]);
    }
    let mut reply = Reply::parse_head(&bytes).0;
    if !head_only {
        let len = reply.field("content-length").map_or(0, |len| len.parse().expect("a number"));
        reply.body = vec![0; len];
        stream.read_exact(&mut reply.body).expect("a body");
    }
    reply
}

/// A parsed response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Parses one response whose body has a length; returns the rest too.
    pub(crate) fn parse(bytes: &[u8]) -> (Self, &[u8]) {
        let (mut reply, rest) = Self::parse_head(bytes);
        let len = reply.field("content-length").map_or(0, |len| len.parse().expect("a number"));
        let len = len.min(rest.len());
        reply.body = rest[..len].to_vec();
        (reply, &rest[len..])
    }

    pub(crate) fn parse_head(bytes: &[u8]) -> (Self, &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head in {text:?}"));
        let head = std::str::from_utf8(&bytes[..end]).expect("heads are ASCII");
        let mut lines = head.split("\r\n");
        let status_line = lines.next().expect("a status line");
        let status = status_line.strip_prefix("HTTP/1.1 ").expect("a version")[..3].parse().expect("a status");
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_ascii_lowercase(), value.to_owned())
        };
        (Self { status, fields: lines.map(field).collect(), body: Vec::new() }, &bytes[end + 4..])
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|field| field.0 == name);
        let value = found.next().map(|field| field.1.as_str());
        assert!(found.next().is_none(), "{name} is there twice");
        value
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
