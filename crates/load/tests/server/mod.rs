//! A server of the test's own: a thread for each connection, answering as the test says.
// Each test binary uses its own part of this.
#![allow(dead_code)]

pub(crate) mod http2;
pub(crate) mod websocket;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use weir_load::{Control, Io, LoadReport, Options, StopRule, Url};
use weir_wire::client::{ClientConnection, ClientRequest};
use weir_wire::{Consumer, Kind};

/// No read of a test's server takes longer.
const READ_LIMIT: Duration = Duration::from_secs(20);

/// A running server; it ends with the value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

/// A connection as the server sees it.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    /// 0 for the first connection that the server accepted.
    pub(crate) number: usize,
    /// Bytes received that belong to requests not read yet.
    pending: Vec<u8>,
    /// Bytes of requests read so far.
    pub(crate) taken: u64,
    /// Bytes sent so far.
    pub(crate) given: u64,
}

impl Server {
    /// Serves each connection by `serve`, which returns when it is done with it.
    pub(crate) fn start(serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (connections, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (serve, count, end) = (Arc::new(serve), Arc::clone(&connections), Arc::clone(&over));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                if end.load(Ordering::Relaxed) {
                    break;
                }
                let number = count.fetch_add(1, Ordering::Relaxed);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(READ_LIMIT)).expect("a time above 0");
                    stream.set_nodelay(true).expect("a TCP socket");
                    serve(&mut Peer { stream, number, pending: Vec::new(), taken: 0, given: 0 });
                });
            }
        });
        Self { address, connections, over }
    }

    /// A server that answers every request with the same bytes.
    pub(crate) fn answering(response: &'static str) -> Self {
        Self::start(move |peer| while peer.request().is_some() && peer.send(response.as_bytes()) {})
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("http://{}/path", self.address)).expect("a URL")
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Options for so many requests over one connection.
    pub(crate) fn options(&self, requests: u64) -> Options {
        let mut options = Options::new(self.url());
        options.io = io();
        options.connections = 1;
        options.stop = StopRule::Requests(requests);
        options.timeout = Duration::from_secs(10);
        options
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread so that it sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

impl Peer {
    /// The next request, head and body; `None` at the end of the stream.
    pub(crate) fn request(&mut self) -> Option<String> {
        loop {
            if let Some(length) = request_length(&self.pending) {
                let request = self.pending.drain(..length).collect();
                self.taken += length as u64;
                return Some(String::from_utf8(request).expect("tests send text"));
            }
            let mut buffer = [0; 65536];
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
            }
        }
    }

    /// Whether the bytes could be given away.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        self.given += bytes.len() as u64;
        self.stream.write_all(bytes).is_ok()
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(&self) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let fd = std::os::fd::AsRawFd::as_raw_fd(&self.stream);
        // SAFETY: `linger` outlives the call and its size is given.
        let result = unsafe {
            let value = (&raw const linger).cast();
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, value, size_of_val(&linger) as u32)
        };
        assert_eq!(result, 0);
    }
}

fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).expect("tests send text");
    let body = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok()).unwrap_or(0);
    (bytes.len() >= head + body).then_some(head + body)
}

/// Runs a load to its end.
pub(crate) fn load(options: Options) -> LoadReport {
    weir_load::run(options, &Control::default()).expect("the run is made")
}

/// Runs a load with a ring for its events.
pub(crate) fn load_with_events(mut options: Options) -> (LoadReport, Vec<ClientConnection>, Vec<ClientRequest>) {
    let (producer, mut consumer) = weir_wire::ring(1 << 16);
    options.events = vec![producer];
    let report = load(options);
    let (connections, requests) = events(&mut consumer);
    (report, connections, requests)
}

/// The connections and requests that a ring holds.
pub(crate) fn events(consumer: &mut Consumer) -> (Vec<ClientConnection>, Vec<ClientRequest>) {
    let (mut connections, mut requests, mut lanes) = (Vec::new(), Vec::new(), 0);
    consumer.drain(usize::MAX, |record, slots| {
        connections.extend(ClientConnection::read(&record, slots));
        requests.extend(ClientRequest::read(&record, slots));
        lanes += usize::from(record.kind == Kind::ClientLane as u16);
    });
    assert_eq!(lanes, 1, "the lane says first who it is");
    (connections, requests)
}

/// How bytes come and go in this process: by io_uring, as a rule, or by epoll where a test runs all others again so.
fn io() -> Io {
    if std::env::var_os("WEIR_TEST_EPOLL").is_some() { Io::Epoll } else { Io::Auto }
}

/// Runs all other tests of a module of this program again through epoll: what a kernel without io_uring does must be the
/// same.
pub(crate) fn again_through_epoll(module: &str, own_name: &str) {
    let program = std::env::current_exe().expect("this program");
    let (_, tests) = module.split_once("::").expect("a module of a test program");
    let words = [&format!("{tests}::"), "--skip", own_name];
    let run = Command::new(program).args(words).env("WEIR_TEST_EPOLL", "1").output().expect("it starts");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && !said.contains(" 0 passed"), "through epoll:\n{said}");
}
