//! Live connections that move while an upstream answers: the server that has asked it goes on receiving, and the other one
//! sends.

use crate::harness;
use crate::sessions::{noise, shift, take};
use crate::sessions_http2::{Client, wire};
use crate::sessions_secure::secured;
use harness::{Site, certificate, connect, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weir_server::{AdoptError, SessionSummary, TakeError, parse_configuration};

/// Events of a stream, and how long lies between two.
const EVENTS: usize = 400;
const PAUSE: Duration = Duration::from_millis(1);
/// Moves within one response.
const MOVES: usize = 12;

fn event(number: usize) -> String {
    format!("id: {number}\ndata: event {number} of {EVENTS}\n\n")
}

fn events() -> Vec<u8> {
    (0..EVENTS).map(event).collect::<String>().into_bytes()
}

/// An upstream, and how often it was asked.
struct Upstream {
    addr: SocketAddr,
    asked: Arc<AtomicUsize>,
    /// Connections that it was left with before its response was over.
    left: Arc<AtomicUsize>,
}

impl Upstream {
    fn start(content: &[u8]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        let addr = listener.local_addr().expect("an address");
        let (asked, left) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let (counts, content) = ((Arc::clone(&asked), Arc::clone(&left)), content.to_vec());
        // It ends with the process.
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let ((asked, left), content) = (counts.clone(), content.clone());
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(socket);
                    while let Some(path) = request(&mut reader) {
                        asked.fetch_add(1, Ordering::SeqCst);
                        if answer(reader.get_mut(), &path, &content).is_err() {
                            left.fetch_add(1, Ordering::SeqCst);
                            return;
                        }
                        if path.ends_with("/close") {
                            return;
                        }
                    }
                });
            }
        });
        Self { addr, asked, left }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// The path of the next request, whose head is read.
fn request(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line);
    }
    Some(lines.first()?.split(' ').nth(1)?.to_owned())
}

fn answer(socket: &mut TcpStream, path: &str, content: &[u8]) -> std::io::Result<()> {
    match path.rsplit('/').next().unwrap_or_default() {
        "events" | "broken" => {
            socket.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            for number in 0..EVENTS {
                let event = event(number);
                socket.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
                std::thread::sleep(PAUSE);
                if path.ends_with("broken") && number == EVENTS / 2 {
                    return Err(std::io::ErrorKind::ConnectionAborted.into());
                }
            }
            socket.write_all(b"0\r\n\r\n")
        }
        "length" => {
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len())?;
            socket.write_all(content)
        }
        "close" => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            socket.write_all(content)
        }
        // Until the client has gone.
        "endless" => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                socket.write_all(b"5\r\ntick\n\r\n")?;
                std::thread::sleep(PAUSE);
            }
        }
        "late" => {
            std::thread::sleep(Duration::from_millis(600));
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
        }
        _ => socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    }
}

fn pair(upstream: &Upstream, files: &[(&str, &[u8])]) -> ([Site; 2], tempfile::TempDir, PathBuf) {
    servers(upstream, files)
}

/// Servers that ask this upstream for paths below `/up`, and have a file; their first addresses have TLS.
fn servers<const N: usize>(upstream: &Upstream, files: &[(&str, &[u8])]) -> ([Site; N], tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let made = certificate::make(folder.path(), "a", &["a"]);
    let shown = made.certificate.clone();
    let text = format!(
        "[[host]]\nroot = \".\"\n[[host.path]]\nprefix = \"/up\"\nproxy = \"http://{}\"\n\
         [[host.path]]\nprefix = \"/kept\"\nproxy = \"http://{}\"\n\
         cache = {{ default_ttl = \"1 min\", largest = \"16 MiB\" }}",
        upstream.addr, upstream.addr
    );
    let sites = [(); N].map(|()| {
        Site::start(files, |options| {
            let (folder, io) = (options.root.clone(), options.io);
            *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
            let any = || vec!["127.0.0.1:0".parse().expect("an address")];
            (options.io, options.loops, options.listen, options.listen_clear) = (io, 2, any(), any());
            (options.certificates, options.moves_sessions) = (vec![made.clone()], true);
        })
    });
    (sites, folder, shown)
}

/// Reads a response that is framed by chunks, and moves within it; the body.
fn chunked_moved<W: Read + Write>(
    sites: &[Site; 2],
    client: &mut BufReader<W>,
    socket: impl Fn(&W) -> &TcpStream,
) -> Vec<u8> {
    let (mut body, mut at) = (Vec::new(), 0);
    let step = events().len() / (MOVES + 1);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        client.read_line(&mut line).expect("a head");
    }
    loop {
        let mut size = String::new();
        client.read_line(&mut size).expect("a chunk");
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_else(|_| panic!("{size:?} is no size of a chunk"));
        let mut chunk = vec![0; size + 2];
        client.read_exact(&mut chunk).expect("a chunk");
        assert!(chunk.ends_with(b"\r\n"));
        if size == 0 {
            assert_eq!(at, MOVES);
            return body;
        }
        body.extend_from_slice(&chunk[..size]);
        if at < MOVES && body.len() >= (at + 1) * step {
            shift(&sites[at % 2], &sites[(at + 1) % 2], socket(client.get_ref()));
            at += 1;
        }
    }
}

#[test]
fn a_stream_of_events_goes_on_at_another_server_and_its_upstream_is_asked_once() {
    let upstream = Upstream::start(b"");
    let (sites, _folder, certificate) = pair(&upstream, &[("a.txt", b"hello")]);
    let ask = b"GET /up/events HTTP/1.1\r\nHost: a\r\n\r\n";
    let next = b"GET /up/hello HTTP/1.1\r\nHost: a\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut clear = BufReader::new(connect(sites[0].addrs[1]));
    clear.get_mut().write_all(ask).expect("sends");
    assert!(chunked_moved(&sites, &mut clear, |socket| socket) == events());
    assert_eq!(upstream.asked(), 1);
    // The connection stays, where it is now.
    clear.get_mut().write_all(next).expect("sends");
    for _ in 0..2 {
        assert_eq!(reply_of(&mut clear), b"hello");
    }
    let mut secure = BufReader::new(secured(sites[0].addr, &certificate, b"http/1.1"));
    secure.get_mut().write_all(ask).expect("sends");
    assert!(chunked_moved(&sites, &mut secure, |secure| &secure.sock) == events());
    secure.get_mut().write_all(next).expect("sends");
    for _ in 0..2 {
        assert_eq!(reply_of(&mut secure), b"hello");
    }
    assert_eq!(upstream.asked(), 4);
    let counts = sites.map(Site::stop);
    let sum = |of: fn(&weir_server::Counts) -> u64| counts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|counts| counts.relays_begun), 2, "a server that gives on what another one makes makes nothing");
    let broken = sum(|counts| counts.relays_broken + counts.connections_broken);
    assert_eq!((broken, sum(|counts| counts.sessions_adopted)), (0, 2 * MOVES as u64));
}

/// The body of a response with a length.
fn reply_of(client: &mut impl BufRead) -> Vec<u8> {
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        client.read_line(&mut line).expect("a head");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).expect("a body");
    body
}

#[test]
fn a_server_in_between_gets_out_of_the_way() {
    let upstream = Upstream::start(b"");
    let ([first, second, third], _folder, certificate) = servers(&upstream, &[]);
    let mut clear = BufReader::new(connect(first.addrs[1]));
    clear.get_mut().write_all(b"GET /up/events HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mut all = vec![0; 600];
    clear.read_exact(&mut all).expect("it has begun");
    let mut http2 = Client::begin(wire(first.addrs[0], Some(&certificate)), 100_000);
    http2.get(1, "/up/events", &[]);
    http2.read_to(600);
    for sites in [[&first, &second], [&second, &third]] {
        shift(sites[0], sites[1], clear.get_ref());
        shift(sites[0], sites[1], http2.socket());
        let more = all.len() + 600;
        let mut some = vec![0; more - all.len()];
        clear.read_exact(&mut some).expect("goes on");
        all.extend(some);
    }
    let counts = second.stop();
    assert_eq!((counts.relays_begun, counts.relays_broken, counts.sessions_given), (0, 0, 2));
    while !all.ends_with(b"0\r\n\r\n") {
        let come = clear.fill_buf().expect("goes on");
        assert!(!come.is_empty(), "it ended after {} bytes", all.len());
        all.extend_from_slice(come);
        let come = come.len();
        clear.consume(come);
    }
    let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    assert!(unchunked(&all[head..]) == events());
    assert!(http2.ends(1) == (0x88, &events()[..]));
    assert_eq!((first.stop().relays_begun, third.stop().relays_begun, upstream.asked()), (2, 0, 2));
}

#[test]
fn streams_of_http2_go_on_beside_downloads_in_the_clear_and_over_tls() {
    let content = noise(3_000_000);
    let upstream = Upstream::start(&content);
    let (sites, _folder, certificate) = pair(&upstream, &[("x.bin", &content)]);
    for (place, certificate) in [(1, None), (0, Some(&*certificate))] {
        let mut client = Client::begin(wire(sites[0].addrs[place], certificate), 100_000);
        client.get(1, "/up/events", &[]);
        client.get(3, "/up/length", &[]);
        client.get(5, "/x.bin", &[]);
        // All have begun, and most of two is left.
        let (mut moves, mut begun) = (0, 0);
        while client.streams.values().filter(|came| came.status != 0).count() < 3 {
            begun += 1_000;
            client.read_to(begun);
        }
        for number in 0..MOVES {
            let come = begun + (number + 1) * 300_000;
            if come > 2 * content.len() - 500_000 {
                break;
            }
            client.read_to(come);
            shift(&sites[moves % 2], &sites[(moves + 1) % 2], client.socket());
            moves += 1;
        }
        assert!(moves >= MOVES / 2, "{moves} moves");
        assert!(client.ends(3) == (0x88, &content[..]));
        assert!(client.ends(5) == (0x88, &content[..]));
        assert!(client.ends(1) == (0x88, &events()[..]));
    }
    assert_eq!(upstream.asked(), 4);
}

#[test]
fn every_framing_of_an_upstream_goes_on() {
    let content = noise(12_000_000);
    let upstream = Upstream::start(&content);
    let (sites, _folder, _) = pair(&upstream, &[]);
    for (path, version) in [("/up/length", "1.1"), ("/up/close", "1.0"), ("/up/close", "1.1"), ("/kept/length", "1.1")]
    {
        // What is kept is in memory by its second time.
        for _ in 0..2 {
            let mut client = crate::sessions::narrow(sites[0].addrs[1]);
            write!(client, "GET {path} HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
            let mut all = vec![0; 20_000];
            client.read_exact(&mut all).expect("it has begun");
            shift(&sites[0], &sites[1], &client);
            let mut more = vec![0; 3_000_000];
            client.read_exact(&mut more).expect("goes on");
            all.extend(more);
            shift(&sites[1], &sites[0], &client);
            client.read_to_end(&mut all).expect("its end");
            let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            let is_chunked = String::from_utf8_lossy(&all[..head]).contains("chunked");
            let body = if is_chunked { unchunked(&all[head..]) } else { all[head..].to_vec() };
            assert!(body == content, "{path} HTTP/{version}: {} bytes", body.len());
        }
    }
    assert_eq!(upstream.asked(), 7, "what is kept is asked for once");
}

fn unchunked(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|two| two == b"\r\n").expect("a size");
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).expect("text"), 16).expect("a size");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[end + 2..][..size]);
        chunks = &chunks[end + 2 + size + 2..];
    }
}

#[test]
fn a_response_that_breaks_off_is_broken_at_the_other_server_and_a_client_that_leaves_ends_it() {
    let upstream = Upstream::start(b"");
    let (sites, _folder, _) = pair(&upstream, &[]);
    let begin = |path: &str| {
        let mut client = connect(sites[0].addrs[1]);
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        client.read_exact(&mut [0; 300]).expect("it has begun");
        shift(&sites[0], &sites[1], &client);
        client
    };
    // The upstream breaks off: no last chunk comes.
    let mut all = Vec::new();
    let ended = begin("/up/broken").read_to_end(&mut all);
    assert!(ended.is_err() || !all.ends_with(b"0\r\n\r\n"));
    assert!(!all.is_empty() && sites[0].counters.read().relays_broken == 1);
    // The client leaves: the upstream hears of it.
    let left = || upstream.left.load(Ordering::SeqCst);
    assert_eq!(left(), 1, "the one that broke off");
    drop(begin("/up/endless"));
    wait_until(|| left() == 2);
    // What goes on making it ends: the other server's client can tell.
    let mut client = connect(sites[0].addrs[1]);
    client.write_all(b"GET /up/endless HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    client.read_exact(&mut [0; 300]).expect("it has begun");
    let mut taken = take(&sites[0], &client).expect("is given away");
    assert_eq!(SessionSummary::read(&taken.session).expect("is read").version, 2, "no older server takes it in");
    let (peer, fd) = (client.local_addr().expect("an address"), taken.fd.try_clone().expect("a descriptor"));
    let refused = sites[1].control.adopt_session(&taken.session, fd, Vec::new(), peer);
    assert!(matches!(refused, Err(AdoptError::Malformed { .. })), "{refused:?}");
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    taken.relays = vec![std::os::fd::OwnedFd::from(theirs).into()];
    crate::sessions::adopt(&sites[1], taken, &client);
    wait_until(|| left() == 3);
    drop(ours);
    let mut all = Vec::new();
    let ended = client.read_to_end(&mut all);
    assert!(ended.is_err() || !all.ends_with(b"0\r\n\r\n"));
    assert_eq!(sites[1].counters.read().applications_failed, 2);
}

#[test]
fn a_response_that_has_not_begun_stays_and_comes_back_to_its_server() {
    let upstream = Upstream::start(b"");
    let (sites, _folder, _) = pair(&upstream, &[("a.txt", b"hello")]);
    let mut client = BufReader::new(connect(sites[0].addrs[1]));
    client.get_mut().write_all(b"GET /up/late HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    wait_until(|| upstream.asked() == 1);
    assert!(matches!(take(&sites[0], client.get_ref()), Err(TakeError::Application)));
    assert_eq!(reply_of(&mut client), b"late");
    // One that was taken and not moved goes on where it was.
    client.get_mut().write_all(b"GET /up/events HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    client.fill_buf().expect("it has begun");
    let taken = take(&sites[0], client.get_ref()).expect("is given away");
    assert_eq!((taken.relays.len(), sites[0].control.sessions().len()), (1, 0));
    sites[0].control.give_session_back(taken);
    let mut rest = String::new();
    while !rest.ends_with("\r\n0\r\n\r\n") {
        client.read_line(&mut rest).expect("goes on");
    }
    assert!(rest.contains(&event(EVENTS - 1)));
    client.get_mut().write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(reply_of(&mut client), b"hello");
}

/// A script's server over SCGI: it answers in pieces, and ends its connection behind them.
fn scgi(content: &[u8]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
    let addr = listener.local_addr().expect("an address");
    let content = content.to_vec();
    // It ends with the process.
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let mut head = Vec::new();
            while !head.ends_with(b",") {
                let mut byte = [0];
                socket.read_exact(&mut byte).expect("a request");
                head.push(byte[0]);
            }
            socket.write_all(b"Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n").expect("takes");
            content.chunks(100_000).for_each(|piece| socket.write_all(piece).expect("takes"));
        }
    });
    addr
}

#[test]
fn what_a_script_answers_and_an_assembled_page_go_on_as_well() {
    let content = noise(6_000_000);
    let part = "a part of a page\n".repeat(20_000);
    let page = "<!--#include virtual=\"/part.txt\" -->".repeat(10);
    let text = format!(
        "[[host]]\nroot = \".\"\nincludes = true\n[[host.path]]\nprefix = \"/script\"\nscgi = \"{}\"\n",
        scgi(&content)
    );
    let files: [(&str, &[u8]); 2] = [("part.txt", part.as_bytes()), ("page.shtml", page.as_bytes())];
    let sites = [(); 2].map(|()| {
        Site::start(&files, |options| {
            let (folder, io, listen) = (options.root.clone(), options.io, options.listen.clone());
            *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
            (options.io, options.listen, options.loops) = (io, listen, 1);
        })
    });
    let pages = part.repeat(10).into_bytes();
    for (path, wanted, relays) in [("/script/one", &content, 1), ("/page.shtml", &pages, 0)] {
        let mut client = crate::sessions::narrow(sites[0].addr);
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
        let mut all = vec![0; 5_000];
        client.read_exact(&mut all).expect("it has begun");
        let taken = take(&sites[0], &client).expect("is given away");
        let summary = SessionSummary::read(&taken.session).expect("is read");
        assert_eq!((summary.responses, summary.relays, taken.relays.len()), (1, relays, relays), "{path}");
        crate::sessions::adopt(&sites[1], taken, &client);
        client.read_to_end(&mut all).expect("its end");
        let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let is_chunked = String::from_utf8_lossy(&all[..head]).contains("chunked");
        let body = if is_chunked { unchunked(&all[head..]) } else { all[head..].to_vec() };
        assert!(&body == wanted, "{path}: {} bytes", body.len());
    }
}
