//! An upstream beside a stand's client: it answers each request by a stream of events, which takes a while.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weir_testkit::namespace::Namespace;

/// Where nodes reach it.
pub(crate) const UPSTREAM: &str = "10.79.0.2:8088";
/// Events of a stream, and how long lies between two.
const EVENTS: usize = 300;
const PAUSE: Duration = Duration::from_millis(10);

/// How often it was asked, and how often it was left before its answer was over.
#[derive(Clone, Default)]
pub(crate) struct Upstream {
    asked: Arc<AtomicUsize>,
    left: Arc<AtomicUsize>,
}

fn event(number: usize) -> String {
    format!("id: {number}\ndata: event {number} of {EVENTS}\n\n")
}

/// All events of a stream.
pub(crate) fn events() -> String {
    (0..EVENTS).map(event).collect()
}

/// Those of a stream of so many, which is asked for by their number in place of a name.
pub(crate) fn so_many_events(count: usize) -> String {
    (0..count).map(event).collect()
}

impl Upstream {
    /// Starts it in a namespace; it ends with the process.
    pub(crate) fn start(namespace: &Namespace) -> Self {
        let upstream = Self::default();
        let listener = namespace.within(|| TcpListener::bind(UPSTREAM).expect("binds"));
        let own = upstream.clone();
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let own = own.clone();
                std::thread::spawn(move || own.serve(socket));
            }
        });
        upstream
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    fn serve(&self, socket: TcpStream) {
        let mut reader = BufReader::new(socket);
        loop {
            let (mut line, mut count) = (String::new(), EVENTS);
            while line != "\r\n" {
                line.clear();
                if !matches!(reader.read_line(&mut line), Ok(1..)) {
                    return;
                }
                if let Some(path) = line.strip_prefix("GET /up/") {
                    count = path.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(count);
                }
            }
            self.asked.fetch_add(1, Ordering::SeqCst);
            if answer(reader.get_mut(), count).is_err() {
                self.left.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

fn answer(socket: &mut TcpStream, count: usize) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for number in 0..count {
        let event = event(number);
        socket.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
        std::thread::sleep(PAUSE);
    }
    socket.write_all(b"0\r\n\r\n")
}
