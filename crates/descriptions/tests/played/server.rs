//! A server of the tests' own: it keeps what it is asked, and answers as the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// A running server; it ends with the value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

/// Status line and headers in lines, an empty line, the body.
type Answer = dyn Fn(&Request) -> String + Send + Sync;

impl Server {
    /// A server that answers everything by an empty object of JSON.
    pub(crate) fn start() -> Self {
        Self::answering(|_| answer("200 OK", &["Content-Type: application/json"], "{}"))
    }

    pub(crate) fn answering(says: impl Fn(&Request) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (asked, over) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::new(AtomicBool::new(false)));
        let (seen, end, says): (_, _, Arc<Answer>) = (Arc::clone(&asked), Arc::clone(&over), Arc::new(says));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                if end.load(Ordering::Relaxed) {
                    break;
                }
                let (seen, says) = (Arc::clone(&seen), Arc::clone(&says));
                std::thread::spawn(move || serve(&stream, &seen, &*says));
            }
        });
        Self { address, asked, over }
    }

    /// What it was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<Request> {
        std::mem::take(&mut *self.asked.lock().expect("no panic"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread so that it sees the flag.
        let _ = TcpStream::connect(self.address);
    }
}

/// An answer with a body and headers.
pub(crate) fn answer(status: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn serve(stream: &TcpStream, seen: &Mutex<Vec<Request>>, says: &Answer) {
    stream.set_nodelay(true).expect("a TCP socket");
    let mut reader = BufReader::new(stream.try_clone().expect("another end"));
    let mut writer = stream;
    while let Some(request) = read(&mut reader) {
        let mut text = says(&request);
        if request.method == "HEAD" {
            text.truncate(text.find("\r\n\r\n").map_or(0, |end| end + 4));
        }
        seen.lock().expect("no panic").push(request);
        if writer.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end_matches(['\r', '\n']) {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let mut words = lines.first()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let header = |line: &String| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let headers = lines[1..].iter().filter_map(header).collect();
    let mut request = Request { method, target, headers, body: String::new() };
    let length: usize = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}
