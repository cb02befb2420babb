//! Live connections of HTTP/2 that move between two servers: all their streams go on, in the clear and over TLS.

use crate::harness;
use crate::sessions::{adopt, noise, pair, take};
use crate::sessions_secure::{secured, with_buffer};
use harness::{Site, certificate, wait_until};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_server::{SessionSummary, TakeError, TakenSession};

/// Kinds and flags of frames (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// What frames go through: a socket, or TLS over one.
pub(crate) trait Wire: Read + Write {
    fn socket(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Wire for rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

/// What came on a stream.
#[derive(Debug, Default)]
pub(crate) struct Came {
    /// The first byte of its block of fields, which is the status for those of the static table.
    pub(crate) status: u8,
    pub(crate) body: Vec<u8>,
    pub(crate) is_ended: bool,
}

/// A client that puts every field into the table of the connection, and gives windows back as it reads.
pub(crate) struct Client {
    wire: Box<dyn Wire>,
    /// The newest first.
    table: Vec<(String, String)>,
    pub(crate) streams: BTreeMap<u32, Came>,
    last_streams: Vec<u32>,
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

impl Client {
    /// One with windows of this size.
    pub(crate) fn begin(wire: Box<dyn Wire>, window: u32) -> Self {
        let mut client = Self { wire, table: Vec::new(), streams: BTreeMap::new(), last_streams: Vec::new() };
        let settings = [&[0, 4], &window.to_be_bytes()[..]].concat();
        let mut start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        start.extend(frame(SETTINGS, 0, 0, &settings));
        if window > 65_535 {
            start.extend(frame(WINDOW_UPDATE, 0, 0, &(window - 65_535).to_be_bytes()));
        }
        client.send(&start);
        client
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.wire.socket()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.wire.write_all(bytes).expect("sends");
        self.wire.flush().expect("sends");
    }

    /// A block of fields; those that were said before are told by their place in the table.
    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            match self.table.iter().position(|(of, is)| (of.as_str(), is.as_str()) == (*name, *value)) {
                // The static table has 61 entries (RFC 7541 appendix A), and no number here needs a second byte.
                Some(place) => block.push(0x80 | u8::try_from(place + 62).expect("a small table")),
                None => {
                    block.extend_from_slice(&[0x40, name.len() as u8]);
                    block.extend_from_slice(name.as_bytes());
                    block.push(value.len() as u8);
                    block.extend_from_slice(value.as_bytes());
                    self.table.insert(0, ((*name).to_owned(), (*value).to_owned()));
                }
            }
        }
        block
    }

    /// The block of a request.
    fn request(&mut self, method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let fields = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)];
        self.block(&[&fields[..], &[("user-agent", "one of many words")], more].concat())
    }

    pub(crate) fn get(&mut self, id: u32, path: &str, more: &[(&str, &str)]) {
        let block = self.request("GET", path, more);
        self.send(&frame(HEADERS, END_STREAM | END_HEADERS, id, &block));
    }

    /// Begins a request whose body follows.
    pub(crate) fn post(&mut self, id: u32, path: &str, body: &[u8]) {
        let block = self.request("POST", path, &[]);
        self.send(&[frame(HEADERS, END_HEADERS, id, &block), frame(DATA, 0, id, body)].concat());
    }

    /// Reads one frame; none at the end.
    fn read(&mut self) -> Option<(u8, u8, u32)> {
        let mut head = [0; 9];
        let first = self.wire.read(&mut head[..1]).expect("goes on");
        if first == 0 {
            return None;
        }
        self.wire.read_exact(&mut head[1..]).expect("a whole frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.wire.read_exact(&mut payload).expect("a whole frame");
        let (kind, flags, id) = (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        self.take_up(kind, flags, id, &payload);
        Some((kind, flags, id))
    }

    fn take_up(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        match kind {
            HEADERS | DATA => {
                let came = self.streams.entry(id).or_default();
                assert!(!came.is_ended, "more on stream {id}");
                came.is_ended = flags & END_STREAM != 0;
                if kind == HEADERS {
                    came.status = payload[0];
                    return;
                }
                came.body.extend_from_slice(payload);
                if !payload.is_empty() {
                    let more = (payload.len() as u32).to_be_bytes();
                    self.send(&[frame(WINDOW_UPDATE, 0, 0, &more), frame(WINDOW_UPDATE, 0, id, &more)].concat());
                }
            }
            SETTINGS if flags & ACK == 0 => self.send(&frame(SETTINGS, ACK, 0, &[])),
            PING if flags & ACK == 0 => self.send(&frame(PING, ACK, 0, payload)),
            GOAWAY => {
                assert_eq!(payload[4..8], [0; 4], "no error");
                self.last_streams.push(u32::from_be_bytes(payload[..4].try_into().expect("a number")));
            }
            RST_STREAM => panic!("stream {id} was ended with {payload:?}"),
            _ => {}
        }
    }

    fn body_bytes(&self) -> usize {
        self.streams.values().map(|came| came.body.len()).sum()
    }

    /// Reads until so many bytes of bodies have come.
    pub(crate) fn read_to(&mut self, bytes: usize) {
        while self.body_bytes() < bytes {
            self.read().expect("it goes on");
        }
    }

    /// Reads until a stream has ended: the status of the static table, and the body.
    pub(crate) fn ends(&mut self, id: u32) -> (u8, &[u8]) {
        while !self.streams.get(&id).is_some_and(|came| came.is_ended) {
            self.read().expect("it goes on");
        }
        let came = &self.streams[&id];
        (came.status, &came.body)
    }

    /// Has the server have taken up what was sent.
    fn is_heard(&mut self) {
        self.send(&frame(PING, 0, 0, b"any data"));
        while !matches!(self.read().expect("it goes on"), (PING, ACK, _)) {}
    }
}

/// A connection with little room for what is not read.
pub(crate) fn wire(addr: SocketAddr, certificate: Option<&std::path::Path>) -> Box<dyn Wire> {
    match certificate {
        Some(certificate) => Box::new(secured(addr, certificate, b"h2")),
        None => Box::new(with_buffer(addr)),
    }
}

/// Gives a connection away that holds these bytes by then.
fn take_holding(from: &Site, client: &Client, bytes: &[u8]) -> TakenSession {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "they did not come");
        let taken = take(from, client.socket()).expect("is given away");
        if taken.session.windows(bytes.len()).any(|window| window == bytes) {
            return taken;
        }
        from.control.give_session_back(taken);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Several downloads at once over a connection that moves, with requests in between.
fn download_moved(sites: &[Site; 2], certificate: Option<&std::path::Path>, window: u32, content: &[u8]) {
    const MOVES: usize = 20;
    let mut client = Client::begin(wire(sites[0].addr, certificate), window);
    client.get(1, "/large.bin", &[]);
    client.get(3, "/large.bin", &[("range", "bytes=1000-2000000")]);
    client.get(5, "/text.txt", &[("accept-encoding", "gzip")]);
    client.get(7, "/large.bin", &[]);
    // Of 8 MB: up to a window more comes with each answer in between.
    let step = content.len() * 3 / 4 / (MOVES + 1);
    for number in 0..MOVES {
        client.read_to((number + 1) * step);
        // A frame that is cut by the move: its head at every second time, and some of what it has.
        let id = 9 + 2 * number as u32;
        let block = client.request("GET", "/a.txt", &[]);
        let asked = frame(HEADERS, END_STREAM | END_HEADERS, id, &block);
        let (before, after) = asked.split_at(if number % 2 == 0 { 4 } else { 11 });
        client.send(before);
        let (from, to) = (&sites[number % 2], &sites[(number + 1) % 2]);
        let taken = take(from, client.socket()).expect("is given away");
        let summary = SessionSummary::read(&taken.session).expect("is read");
        assert_eq!((taken.known_bytes, summary.known_bytes), (0, 0), "of frames nothing is known");
        assert!(summary.responses >= 2, "{summary:?}");
        adopt(to, taken, client.socket());
        client.send(after);
        assert_eq!(client.ends(id), (0x88, &b"hello"[..]));
    }
    for (id, wanted) in [(1, content), (7, content)] {
        let (status, body) = client.ends(id);
        assert!(status == 0x88 && body == wanted, "stream {id}: {status}, {} bytes", body.len());
    }
    let (status, body) = client.ends(3);
    assert!(status == 0x8a && body == &content[1000..=2_000_000], "{status}, {} bytes", body.len());
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(client.ends(5).1).read_to_end(&mut text).expect("is gzip");
    assert!(text == TEXT.repeat(TEXTS));
    // Idle it moves as well; its table and its windows do not forget.
    let taken = take(&sites[0], client.socket()).expect("is given away");
    adopt(&sites[1], taken, client.socket());
    client.get(1001, "/text.txt", &[]);
    assert!(client.ends(1001) == (0x88, &TEXT.repeat(TEXTS)[..]));
}

const TEXT: &[u8] = b"a line that is there often\n";
const TEXTS: usize = 20_000;

#[test]
fn streams_move_twenty_times_in_the_clear_and_over_tls() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    let (content, text) = (noise(3_000_000), TEXT.repeat(TEXTS));
    for is_secure in [false, true] {
        let sites = pair(&[("large.bin", &content), ("text.txt", &text), ("a.txt", b"hello")], |options| {
            if is_secure {
                (options.certificates, options.moves_sessions) = (vec![files.clone()], true);
            }
        });
        // The form is made once it was asked for.
        let certificate = is_secure.then_some(files.certificate.as_path());
        let mut client = Client::begin(wire(sites[0].addr, certificate), 1 << 20);
        let mut id = 1;
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            client.get(id, "/text.txt", &[("accept-encoding", "gzip")]);
            if client.ends(id).1.len() < text.len() / 2 {
                break;
            }
            assert!(Instant::now() < deadline, "no form is made");
            std::thread::sleep(Duration::from_millis(20));
            id += 2;
        }
        for window in [65_535, 200_000] {
            download_moved(&sites, certificate, window, &content);
        }
        let counts = sites.map(Site::stop);
        assert_eq!(counts.map(|counts| (counts.connections_broken, counts.http2_errors)), [(0, 0), (0, 0)]);
        assert_eq!(counts.map(|counts| counts.sessions_given), [22, 20]);
        assert_eq!((counts[0].http2_connections, counts[1].http2_connections), (3, 0));
        assert!(counts[1].http2_streams > 20, "{counts:?}");
    }
}

#[test]
fn frames_that_the_socket_had_no_room_for_move() {
    let content = noise(5_000_000);
    let sites = pair(&[("large.bin", &content)], |_| {});
    let mut longest = 0;
    for _ in 0..3 {
        let mut client = Client::begin(wire(sites[0].addr, None), 1 << 25);
        [1, 3].into_iter().for_each(|id| client.get(id, "/large.bin", &[]));
        client.read_to(1);
        for number in 0..4 {
            let (from, to) = (&sites[number % 2], &sites[(number + 1) % 2]);
            let taken = take(from, client.socket()).expect("is given away");
            longest = longest.max(taken.session.len());
            adopt(to, taken, client.socket());
        }
        for id in [1, 3] {
            assert!(client.ends(id).1 == content);
        }
    }
    // Two heads with their names and lines have some 1,500 bytes.
    assert!(longest > 4000, "{longest} bytes: no frame was cut");
}

#[test]
fn what_is_under_way_of_a_request_moves() {
    let sites = pair(&[("a.txt", b"hello")], |_| {});
    // The preface alone, and no settings.
    let mut client = Client::begin(wire(sites[0].addr, None), 65_535);
    client.is_heard();
    // A block of fields in three frames, with a move between each two: what the first ones have goes into the table.
    let block = client.request("GET", "/a.txt", &[("x-first", "a field of the block")]);
    let (first, rest) = block.split_at(block.len() - 8);
    let (second, third) = rest.split_at(3);
    client.send(&frame(HEADERS, END_STREAM, 1, first));
    adopt(&sites[1], take_holding(&sites[0], &client, first), client.socket());
    client.send(&frame(CONTINUATION, 0, 1, second));
    adopt(&sites[0], take_holding(&sites[1], &client, &[first, second].concat()), client.socket());
    client.send(&frame(CONTINUATION, END_HEADERS, 1, third));
    assert_eq!(client.ends(1), (0x88, &b"hello"[..]));
    client.get(3, "/a.txt", &[("x-first", "a field of the block")]);
    assert_eq!(client.ends(3), (0x88, &b"hello"[..]));
    // A body that is passed over, longer than a window.
    let block = client.request("POST", "/a.txt", &[("content-length", "60000")]);
    client.send(&frame(HEADERS, END_HEADERS, 5, &block));
    for number in 0..6 {
        client.send(&frame(DATA, if number == 5 { END_STREAM } else { 0 }, 5, &[b'x'; 10_000]));
        let (from, to) = (&sites[number % 2], &sites[(number + 1) % 2]);
        let taken = take(from, client.socket()).expect("is given away");
        adopt(to, taken, client.socket());
    }
    client.ends(5);
    let counts = sites.map(Site::stop);
    assert_eq!(counts.map(|counts| counts.client_errors).iter().sum::<u64>(), 1, "405");
    assert_eq!(counts.map(|counts| (counts.connections_broken, counts.http2_errors)), [(0, 0), (0, 0)]);
}

#[test]
fn a_server_that_stops_says_so_to_a_connection_that_came() {
    let content = noise(2_000_000);
    let [first, second] = pair(&[("large.bin", &content)], |_| {});
    let mut client = Client::begin(wire(first.addr, None), 65_535);
    client.get(1, "/large.bin", &[]);
    client.read_to(100_000);
    let taken = take(&first, client.socket()).expect("is given away");
    adopt(&second, taken, client.socket());
    first.stop();
    second.begin_stop();
    while client.last_streams.is_empty() {
        client.read().expect("it goes on");
    }
    // What crosses with the announcement is answered.
    client.get(3, "/large.bin", &[("range", "bytes=0-9")]);
    assert!(client.ends(1).1 == content);
    assert_eq!(client.ends(3), (0x8a, &content[..10]));
    while client.read().is_some() {}
    assert_eq!(client.last_streams, [(1 << 31) - 1, 3]);
    let counts = second.stop();
    assert_eq!((counts.connections_broken, counts.stop_aborted, counts.http2_errors), (0, 0, 0), "{counts:?}");
}

#[test]
fn a_session_of_http_2_that_is_refused_goes_on_where_it_was() {
    let content = noise(2_000_000);
    let mut changed = content.clone();
    changed[1_999_999] ^= 1;
    let sites = [&content, &changed].map(|bytes| Site::start(&[("large.bin", bytes)], |_| {}));
    let mut client = Client::begin(wire(sites[0].addr, None), 65_535);
    [1, 3].into_iter().for_each(|id| client.get(id, "/large.bin", &[]));
    client.read_to(100_000);
    let taken = take(&sites[0], client.socket()).expect("is given away");
    assert!(sites[1].control.session_bytes(&taken.session, 0, 0).is_err(), "its file is another one");
    sites[0].control.give_session_back(taken);
    for id in [1, 3] {
        assert!(client.ends(id).1 == content);
    }
    let counts = sites.map(Site::stop);
    assert_eq!((counts[0].sessions_given_back, counts[0].connections_broken), (1, 0));
}

/// Moves all connections back and forth while a client works; returns how often.
fn move_while(sites: &[Site; 2], client: &mut Child) -> usize {
    let (mut moves, deadline) = (0, Instant::now() + Duration::from_secs(150));
    while client.try_wait().expect("is asked").is_none() {
        assert!(Instant::now() < deadline, "the client does not end");
        for (from, to) in [(&sites[0], &sites[1]), (&sites[1], &sites[0])] {
            for session in from.control.sessions() {
                let taken = match from.control.take_session(session.peer, session.local) {
                    Ok(taken) => taken,
                    // It begins, or has ended; or the machine is busy.
                    Err(
                        TakeError::NoAnswer
                        | TakeError::NoConnection { .. }
                        | TakeError::Tls { .. }
                        | TakeError::Protocol { .. },
                    ) => {
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                to.control.adopt_session(&taken.session, taken.fd, taken.relays, session.peer).expect("is taken in");
                moves += 1;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    moves
}

#[test]
fn clients_of_others_notice_nothing() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    let content = noise(1_500_000);
    let sites = pair(&[("large.bin", &content), ("small.bin", &content[..30_000])], |options| {
        let any = || vec!["127.0.0.1:0".parse().expect("an address")];
        (options.listen, options.listen_clear) = (any(), any());
        (options.certificates, options.moves_sessions) = (vec![files.clone()], true);
    });
    for (scheme, how, addr) in
        [("https", "--http2", sites[0].addr), ("http", "--http2-prior-knowledge", sites[0].addrs[1])]
    {
        // By prior knowledge curl 7.88 begins no second stream in a connection.
        let streams = if scheme == "https" { 3 } else { 1 };
        let outputs = ["first", "second", "third"].map(|name| folder.path().join(name));
        let outputs = &outputs[..streams];
        let download = || {
            let mut curl = Command::new("curl");
            curl.args(["-sSk", "--parallel", "--no-progress-meter", "--max-time", "120", "--limit-rate", "2M", how]);
            for output in outputs {
                curl.arg("-o").arg(output).arg(format!("{scheme}://{addr}/large.bin"));
            }
            let mut curl = curl.spawn().expect("curl starts; `make deps` installs it");
            let moves = move_while(&sites, &mut curl);
            let counts = sites.each_ref().map(|site| site.counters.read());
            assert!(curl.wait().expect("ends").success(), "{scheme}, {moves} moves: {counts:?}");
            for output in outputs {
                assert!(std::fs::read(output).expect("reads") == content);
                std::fs::remove_file(output).expect("removes");
            }
            moves
        };
        // On a busy machine one may be over before it was moved.
        assert!((0..20).any(|_| download() > 0), "{scheme}: none of 20 downloads was moved");
        let load = || {
            let mut load = Command::new("h2load")
                .args(["-n", "500", "-c", "2", "-m", "20", "-w", "16", "-W", "16"])
                .arg(format!("{scheme}://{addr}/small.bin"))
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("h2load starts; `make deps` installs it");
            let moves = move_while(&sites, &mut load);
            let told = load.wait_with_output().expect("ends");
            let told = String::from_utf8_lossy(&told.stdout);
            assert!(told.contains("500 succeeded, 0 failed, 0 errored"), "{moves} moves: {told}");
            moves
        };
        assert!((0..20).any(|_| load() > 0), "{scheme}: none of 20 loads was moved");
    }
    wait_until(|| sites.iter().all(|site| site.control.sessions().is_empty()));
    let counts = sites.map(Site::stop);
    assert_eq!(counts.map(|counts| (counts.connections_broken, counts.http2_errors)), [(0, 0), (0, 0)], "{counts:?}");
    assert!(counts[1].http2_streams > 0);
}
