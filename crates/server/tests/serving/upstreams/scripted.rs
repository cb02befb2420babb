//! Upstreams that do what a test says, byte by byte, and sites that ask them.

use crate::applications::secure;
use crate::harness::{Reply, Site, connect};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_server::{Options, parse_configuration};

/// How long something may take on a busy machine that comes at once.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// What an upstream listens to, and how many connections it has seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    accepted: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Seen {
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Connections whose script has ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    /// Connections whose script goes on.
    pub(crate) fn open(&self) -> usize {
        self.accepted() - self.ended()
    }
}

/// One connection of an upstream.
pub(crate) struct Peer {
    socket: Socket,
    received: Vec<u8>,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn read(&mut self, bytes: &mut [u8]) -> usize {
        match self {
            Self::Tcp(socket) => socket.read(bytes).unwrap_or(0),
            Self::Unix(socket) => socket.read(bytes).unwrap_or(0),
        }
    }
}

/// A request as an upstream got it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: String,
}

impl Asked {
    pub(crate) fn line(&self) -> &str {
        self.head.split("\r\n").next().unwrap_or_default()
    }

    pub(crate) fn target(&self) -> &str {
        self.line().split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
    lines.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

impl Peer {
    /// Bytes as they come; none are the end.
    pub(crate) fn some(&mut self) -> Vec<u8> {
        if !self.received.is_empty() {
            return std::mem::take(&mut self.received);
        }
        let mut bytes = vec![0; 64 << 10];
        let count = self.socket.read(&mut bytes);
        bytes.truncate(count);
        bytes
    }

    /// So many bytes; fewer at the end.
    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            let more = {
                let mut bytes = vec![0; 64 << 10];
                let count = self.socket.read(&mut bytes);
                bytes.truncate(count);
                bytes
            };
            if more.is_empty() {
                break;
            }
            self.received.extend_from_slice(&more);
        }
        let rest = self.received.split_off(count.min(self.received.len()));
        std::mem::replace(&mut self.received, rest)
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.received.windows(end.len()).position(|window| window == end) {
                return Some(self.exactly(at + end.len()));
            }
            let before = self.received.len();
            let held = self.exactly(before + 1);
            if held.len() == before {
                return None;
            }
            self.received.splice(..0, held);
        }
    }

    /// The head of the next request.
    pub(crate) fn head(&mut self) -> Option<String> {
        self.until(b"\r\n\r\n").map(|head| String::from_utf8_lossy(&head).into_owned())
    }

    /// The next request with its body.
    pub(crate) fn request(&mut self) -> Option<Asked> {
        let head = self.head()?;
        let (mut body, mut trailers) = (Vec::new(), String::new());
        if field(&head, "transfer-encoding") == Some("chunked") {
            loop {
                let line = String::from_utf8(self.until(b"\r\n")?).expect("text");
                let size = usize::from_str_radix(line.trim(), 16).expect("a size");
                if size == 0 {
                    break;
                }
                let chunk = self.exactly(size + 2);
                body.extend_from_slice(&chunk[..chunk.len().min(size)]);
            }
            while let Some(line) = self.until(b"\r\n").filter(|line| line != b"\r\n") {
                trailers.push_str(&String::from_utf8(line).expect("text"));
            }
        } else if let Some(length) = field(&head, "content-length") {
            body = self.exactly(length.parse().expect("a length"));
        }
        Some(Asked { head, body, trailers })
    }

    /// Sends bytes; whether they were taken.
    pub(crate) fn say(&mut self, bytes: &[u8]) -> bool {
        match &mut self.socket {
            Socket::Tcp(socket) => socket.write_all(bytes).is_ok(),
            Socket::Unix(socket) => socket.write_all(bytes).is_ok(),
        }
    }

    pub(crate) fn answer(&mut self, body: &str) -> bool {
        self.say(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
    }

    /// Takes a request that asks for a tunnel, and says this; then what comes and what is said have a handle each.
    pub(super) fn both_ways_of_a_tunnel(mut self, switch: &[u8]) -> (TcpStream, TcpStream) {
        self.head().expect("a request");
        self.say(switch);
        assert!(self.received.is_empty(), "nothing comes with the head");
        let Socket::Tcp(socket) = self.socket else { panic!("a socket of TCP") };
        let other = socket.try_clone().expect("a second handle");
        (socket, other)
    }

    /// Ends its own side.
    pub(crate) fn end(&mut self) {
        // A connection that has ended already ends as well.
        let _ = match &self.socket {
            Socket::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Socket::Unix(socket) => socket.shutdown(Shutdown::Write),
        };
    }

    /// Waits until the server has closed; the bytes that came before.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let some = self.some();
            if some.is_empty() {
                return all;
            }
            all.extend_from_slice(&some);
        }
    }

    /// How long it takes until all that was sent is acknowledged; at most a second.
    pub(crate) fn time_to_acknowledgement(&self) -> Duration {
        let Socket::Tcp(socket) = &self.socket else { panic!("a socket of TCP") };
        let begun = Instant::now();
        let mut open: libc::c_int = 1;
        while open > 0 && begun.elapsed() < Duration::from_secs(1) {
            // SAFETY: the call writes one int, which lives over it (tcp(7), SIOCOUTQ).
            assert_eq!(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut open) }, 0);
            std::thread::sleep(Duration::from_micros(100));
        }
        begun.elapsed()
    }

    /// Has the connection reset when it is dropped.
    pub(crate) fn reset(self) {
        let Socket::Tcp(socket) = &self.socket else { return };
        socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO)).expect("sets");
    }
}

/// An upstream at a port of its own.
pub(crate) fn tcp(script: impl Fn(usize, Peer) + Send + Sync + 'static) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let addr = listener.local_addr().expect("an address");
    (addr, run(move || listener.accept().ok().map(|(socket, _)| Socket::Tcp(socket)), script))
}

/// An upstream at a Unix socket.
pub(crate) fn unix(path: &Path, script: impl Fn(usize, Peer) + Send + Sync + 'static) -> Seen {
    let listener = UnixListener::bind(path).expect("binds");
    run(move || listener.accept().ok().map(|(socket, _)| Socket::Unix(socket)), script)
}

fn run(
    accept: impl Fn() -> Option<Socket> + Send + 'static,
    script: impl Fn(usize, Peer) + Send + Sync + 'static,
) -> Seen {
    let seen = Seen::default();
    let (counts, script) = (seen.clone(), Arc::new(script));
    // It ends with the process.
    std::thread::spawn(move || {
        while let Some(socket) = accept() {
            if let Socket::Tcp(socket) = &socket {
                socket.set_nodelay(true).expect("sets");
            }
            let number = counts.accepted.fetch_add(1, Ordering::SeqCst);
            let (counts, script) = (counts.clone(), Arc::clone(&script));
            std::thread::spawn(move || {
                script(number, Peer { socket, received: Vec::new() });
                counts.ended.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    seen
}

/// An upstream that answers each request by what it was asked.
pub(crate) fn telling() -> (SocketAddr, Seen) {
    tcp(|number, mut peer| {
        while let Some(asked) = peer.request() {
            let text = format!("{number} {} {}", asked.line(), asked.body.len());
            if !peer.answer(&text) {
                return;
            }
        }
    })
}

/// A site whose host has this in its table.
pub(crate) fn site(host: &str, change: impl FnOnce(&mut Options)) -> Site {
    let text = format!("[[host]]\n{host}\n");
    Site::start(&[("a.txt", b"file")], |options| {
        let (folder, listen, io) = (options.root.clone(), options.listen.clone(), options.io);
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops, options.io, options.root) = (listen, 1, io, folder);
        change(options);
    })
}

/// A site whose host asks this upstream, with these settings of it.
pub(crate) fn proxy(addr: SocketAddr, settings: &str) -> Site {
    site(&format!("proxy = {{ to = \"http://{addr}\"{settings} }}"), |_| {})
}

/// The same, encrypted and over HTTP/3 as well; the second address is in the clear.
pub(crate) fn secure_proxy(addr: SocketAddr, settings: &str) -> Site {
    site(&format!("proxy = {{ to = \"http://{addr}\"{settings} }}"), secure)
}

/// A client of HTTP/1.1 that keeps its connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    pub(crate) fn new(addr: SocketAddr) -> Self {
        Self { stream: connect(addr) }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sends");
    }

    pub(crate) fn ask(&mut self, line: &str, fields: &str, body: &[u8]) {
        self.send([format!("{line} HTTP/1.1\r\nHost: a.org\r\n{fields}\r\n").as_bytes(), body].concat());
    }

    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.ask(&format!("GET {target}"), "", b"");
        self.reply()
    }

    /// A response whose body has a length.
    pub(crate) fn reply(&mut self) -> Reply {
        crate::harness::read_reply(&mut self.stream, false)
    }

    /// So many bytes.
    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).expect("receives");
        bytes
    }

    /// Bytes up to and with this end.
    pub(crate) fn until(&mut self, end: &str) -> String {
        let (mut all, mut byte) = (Vec::new(), [0]);
        while !all.ends_with(end.as_bytes()) {
            if let Err(error) = self.stream.read_exact(&mut byte) {
                panic!("{error} behind {:?}", String::from_utf8_lossy(&all));
            }
            all.push(byte[0]);
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    /// What comes until the end, and whether that is a reset.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut all = Vec::new();
        let ended = self.stream.read_to_end(&mut all);
        (all, ended.is_err())
    }
}

/// Bytes of which each place has another one.
pub(crate) fn pattern(count: usize) -> Vec<u8> {
    (0..count as u32).map(|i| (i % 251) as u8 ^ (i >> 13) as u8).collect()
}

/// The bytes of a long body: those behind a place, at most 64 KiB. No more of it is held, as other tests of the
/// program count memory.
pub(crate) fn piece(place: usize) -> Vec<u8> {
    (0..64 << 10).map(|i| ((place + i) % 251) as u8).collect()
}

/// Sends so many bytes of it.
pub(crate) fn send_long(stream: &mut TcpStream, count: usize) {
    let mut at = 0;
    while at < count {
        let piece = piece(at);
        let bytes = piece.len().min(count - at);
        stream.write_all(&piece[..bytes]).expect("sends");
        at += bytes;
    }
}

/// Receives so many bytes of it, and rests now and then.
pub(crate) fn receive_long(stream: &mut TcpStream, count: usize, pause_every: usize) {
    let (mut block, mut at) = (vec![0; 64 << 10], 0);
    while at < count {
        let room = block.len().min(count - at);
        let received = stream.read(&mut block[..room]).expect("a body");
        assert!(received > 0 && block[..received] == piece(at)[..received], "at {at}");
        if (at + received) / pause_every > at / pause_every {
            std::thread::sleep(Duration::from_millis(20));
        }
        at += received;
    }
}

/// Does something, and says how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed())
}
