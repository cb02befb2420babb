//! A relay between the proxy and a real server, which keeps the bytes of both directions, and a reader of these that
//! takes nothing but what RFC 9112 has senders write.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The field by which an upstream tells what it has seen of a request: method, target, bytes of the body.
pub(super) const SEEN: &str = "X-Seen";

/// What went over one connection with the upstream.
#[derive(Debug, Default, Clone)]
pub(super) struct Conversation {
    pub(super) sent: Vec<u8>,
    pub(super) received: Vec<u8>,
}

type Shared = Arc<Mutex<Conversation>>;
type Workers = Vec<(Shared, JoinHandle<()>)>;

/// A port whose connections lead to an upstream.
pub(super) struct Relay {
    pub(super) addr: SocketAddr,
    all: Arc<Mutex<Workers>>,
}

impl Relay {
    pub(super) fn to(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let addr = listener.local_addr().expect("an address");
        let all = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&all);
        // It ends with the process.
        std::thread::spawn(move || {
            while let Ok((proxy, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(upstream) else { continue };
                let shared = Shared::default();
                let worker = pass(proxy, server, &shared);
                kept.lock().unwrap_or_else(PoisonError::into_inner).push((shared, worker));
            }
        });
        Self { addr, all }
    }

    /// All conversations, once they have ended: the proxy must have been stopped.
    pub(super) fn conversations(&self) -> Vec<Conversation> {
        let all = std::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = all.into_iter().map(|(shared, worker)| {
            worker.join().expect("no panic");
            shared.lock().unwrap_or_else(PoisonError::into_inner).clone()
        });
        ended.collect()
    }
}

/// Passes bytes in both directions until both sides have ended.
fn pass(proxy: TcpStream, server: TcpStream, shared: &Shared) -> JoinHandle<()> {
    for socket in [&proxy, &server] {
        socket.set_nodelay(true).expect("sets");
    }
    let copy = |socket: &TcpStream| socket.try_clone().expect("another descriptor");
    let (mut from_proxy, mut to_server) = (copy(&proxy), copy(&server));
    let (mut from_server, mut to_proxy) = (server, proxy);
    let (out, back) = (Arc::clone(shared), Arc::clone(shared));
    std::thread::spawn(move || {
        let sending = std::thread::spawn(move || {
            carry(&mut from_proxy, &mut to_server, |bytes| keep(&out, |all| all.sent.extend_from_slice(bytes)));
            // What the upstream still has to say comes soon; one that waits for more is not waited for.
            to_server.set_read_timeout(Some(Duration::from_secs(2))).expect("sets");
        });
        carry(&mut from_server, &mut to_proxy, |bytes| keep(&back, |all| all.received.extend_from_slice(bytes)));
        sending.join().expect("no panic");
        // After the proxy has ended: what was on its way.
        let mut rest = Vec::new();
        let _ = from_server.read_to_end(&mut rest);
        keep(&back, |all| all.received.extend_from_slice(&rest));
    })
}

fn keep(shared: &Shared, change: impl FnOnce(&mut Conversation)) {
    change(&mut shared.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Carries bytes from one side to the other until an end, and ends the other then.
fn carry(from: &mut TcpStream, to: &mut TcpStream, mut keep: impl FnMut(&[u8])) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match from.read(&mut bytes) {
            Ok(count) if count > 0 => {
                keep(&bytes[..count]);
                // The side that has gone is noticed by its own end.
                let _ = to.write_all(&bytes[..count]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// A message as its bytes have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The first line.
    pub(super) line: String,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Message {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(super) fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    pub(super) fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    /// A request as an upstream has to see it.
    pub(super) fn told(&self) -> String {
        let words: Vec<&str> = self.line.split(' ').collect();
        assert!(words.len() == 3 && words[2].starts_with("HTTP/1."), "no request line: {:?}", self.line);
        format!("{} {} {}", words[0], words[1], self.body.len())
    }
}

/// All whole requests among the bytes, and the line of one that was begun.
pub(super) fn requests(bytes: &[u8]) -> (Vec<Message>, Option<String>) {
    let (mut all, mut rest) = (Vec::new(), bytes);
    while let Some((message, after)) = message(rest, |_| Some(Length::None)) {
        all.push(message);
        rest = after;
    }
    let line = rest.split(|byte| *byte == b'\r').next().filter(|_| !rest.is_empty());
    (all, line.map(|line| String::from_utf8_lossy(line).into_owned()))
}

/// All final responses to requests with these methods, and what is behind them. The last one may end with the bytes.
pub(super) fn responses<'b>(bytes: &'b [u8], methods: &[&str]) -> (Vec<Message>, &'b [u8]) {
    let (mut all, mut rest) = (Vec::<Message>::new(), bytes);
    loop {
        let method = methods.get(all.len()).copied().unwrap_or("GET");
        let of_status = |head: &Message| match head.status() {
            100..=199 | 204 | 304 => None,
            _ if method == "HEAD" => None,
            _ => Some(Length::ToTheEnd),
        };
        let Some((message, after)) = message(rest, of_status) else { return (all, rest) };
        rest = after;
        if message.status() >= 200 {
            all.push(message);
        }
    }
}

/// What a body is where no field says it.
enum Length {
    None,
    ToTheEnd,
}

/// The first message of the bytes, if it is whole; `default` is none if no body follows, even where fields say so.
fn message(bytes: &[u8], default: impl Fn(&Message) -> Option<Length>) -> Option<(Message, &[u8])> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let mut message = head(&bytes[..end]);
    let rest = &bytes[end + 4..];
    let Some(length) = default(&message) else { return Some((message, rest)) };
    let count = |name: &str| message.fields.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name)).count();
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    assert!(lengths + codings <= 1, "two lengths: {message:?}");
    if let Some(coding) = message.field("transfer-encoding") {
        assert!(coding.eq_ignore_ascii_case("chunked"), "{message:?}");
        let (body, rest) = chunks(rest)?;
        message.body = body;
        return Some((message, rest));
    }
    let length = match message.field("content-length") {
        Some(text) => {
            assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()), "{message:?}");
            text.parse().expect("a length")
        }
        None if matches!(length, Length::ToTheEnd) => rest.len(),
        None => 0,
    };
    message.body = rest.get(..length)?.to_vec();
    Some((message, &rest[length..]))
}

fn head(bytes: &[u8]) -> Message {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let is_clean = |line: &str| !line.contains(['\r', '\n', '\0']);
    assert!(is_clean(&line) && !line.starts_with([' ', '\t']), "{text:?}");
    let field = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon: {text:?}"));
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        assert!(!name.is_empty() && name.bytes().all(is_token) && is_clean(value), "{line:?} of {text:?}");
        (name.to_owned(), value.trim_matches([' ', '\t']).to_owned())
    };
    Message { line, fields: lines.map(field).collect(), body: Vec::new() }
}

/// A body in chunks and its trailers, if they are whole.
fn chunks(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut body = Vec::new();
    let line = |bytes: &mut &[u8]| {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
        *bytes = &bytes[end + 2..];
        Some(line)
    };
    loop {
        let size = line(&mut bytes)?;
        assert!(!size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit()), "a chunk of size {size:?}");
        let size = usize::from_str_radix(&size, 16).expect("a size");
        if size == 0 {
            break;
        }
        body.extend_from_slice(bytes.get(..size)?);
        assert_eq!(bytes.get(size..size + 2)?, b"\r\n", "behind a chunk");
        bytes = &bytes[size + 2..];
    }
    loop {
        let trailer = line(&mut bytes)?;
        if trailer.is_empty() {
            return Some((body, bytes));
        }
        head(format!("x\r\n{trailer}").as_bytes());
    }
}

/// What is said of a request without what a server may write otherwise for its own use: slashes and dots before the last
/// segment of the path, and small letters in a method and in what is encoded.
fn plain(told: &str) -> String {
    let words: Vec<&str> = told.split(' ').collect();
    let last = words[1].rsplit('/').next().unwrap_or_default().to_ascii_uppercase();
    format!("{} {last} {}", words[0].to_ascii_uppercase(), words[2])
}

/// Holds that the upstream has seen each request as the proxy has sent it, and no other. What it says of all of them.
pub(super) fn hold_one_opinion(conversations: &[Conversation]) -> Vec<String> {
    let mut all = Vec::new();
    for Conversation { sent, received } in conversations {
        let (requests, cut) = requests(sent);
        let methods: Vec<&str> = requests.iter().map(Message::method).collect();
        let (responses, rest) = responses(received, &methods);
        let context = || format!("{}\n--\n{}", String::from_utf8_lossy(sent), String::from_utf8_lossy(received));
        for (request, response) in requests.iter().zip(&responses) {
            let is_refusal = response.status() >= 400 && response.field(SEEN).is_none();
            let told = request.told();
            let is_same = response.field(SEEN).map(plain) == Some(plain(&told));
            assert!(is_refusal || is_same, "{told:?}: {response:?}\n{}", context());
            all.push(told);
        }
        // One whose body did not come to its end may be refused, or answered by a program that takes the end for one.
        let more = responses.get(requests.len()..).unwrap_or_default();
        let is_of_cut = |told: &str| {
            let told = told.rsplit_once(' ').map_or(told, |(told, _)| told);
            cut.as_ref().is_some_and(|line| line.starts_with(&format!("{told} ")))
        };
        let is_no_other = more.iter().all(|one| one.field(SEEN).is_none_or(is_of_cut));
        assert!(more.len() <= usize::from(cut.is_some()) && is_no_other, "{}", context());
        assert!(responses.len() >= requests.len() && rest.is_empty(), "{}", context());
    }
    all
}

#[test]
fn the_reader_takes_messages_apart() {
    let bytes = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: x\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /";
    let (all, cut) = requests(bytes);
    assert_eq!(all.iter().map(Message::told).collect::<Vec<_>>(), ["POST /a 2", "GET /b 0"]);
    assert_eq!(cut.as_deref(), Some("GET /"));
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\n\r\nrest";
    let (all, rest) = responses(bytes, &["HEAD", "GET"]);
    assert_eq!((all.len(), all[1].body.as_slice(), rest), (2, &b"rest"[..], &b""[..]));
}
