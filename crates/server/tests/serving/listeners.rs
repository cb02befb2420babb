//! Where a server listens: Unix sockets, sockets that were open before, several addresses; and the bound on connections
//! of each client.

use crate::harness;

use harness::Site;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use weir_server::{ListenAddr, Options, Server};

const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn ask(mut stream: impl Read + Write) -> String {
    stream.write_all(REQUEST).expect("sends");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("reads");
    reply
}

fn ask_unix(path: &Path) -> String {
    ask(UnixStream::connect(path).expect("connects"))
}

#[test]
fn unix_sockets_and_addresses_are_served_side_by_side() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("weir.sock");
    // Left by a server that was killed.
    drop(UnixListener::bind(&path).expect("binds"));
    let inherited = TcpListener::bind("127.0.0.1:0").expect("binds");
    let addr = inherited.local_addr().expect("bound");
    let site = Site::start(&[("a.txt", b"hello")], |options| {
        options.loops = 2;
        let text =
            [format!("unix:{}", path.display()), format!("fd:{}", inherited.as_raw_fd()), "127.0.0.1:0".to_owned()];
        options.listen.extend(text.iter().map(|text| text.parse::<ListenAddr>().expect("an address")));
    });
    assert_eq!(site.addrs.len(), 3);
    // The giver of the socket may close its own copy.
    drop(inherited);
    for _ in 0..20 {
        assert!(ask_unix(&path).ends_with("\r\n\r\nhello"));
        for addr in site.addrs.iter().chain([&addr]) {
            assert!(ask(TcpStream::connect(addr).expect("connects")).ends_with("\r\n\r\nhello"));
        }
    }
    assert_eq!(site.stop().requests, 20 * 5);
}

#[test]
fn what_cannot_be_listened_on_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let taken = directory.path().join("taken.sock");
    let _other = UnixListener::bind(&taken).expect("binds");
    let file = directory.path().join("file");
    std::fs::write(&file, "kept").expect("writes");
    let opened = std::fs::File::open(&file).expect("opens");
    let connected = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        let stream = TcpStream::connect(listener.local_addr()?)?;
        Ok((listener, stream))
    });
    let (_listener, stream) = connected.expect("connects");
    for listen in [
        format!("unix:{}", taken.display()),
        format!("unix:{}", file.display()),
        format!("fd:{}", opened.as_raw_fd()),
        format!("fd:{}", stream.as_raw_fd()),
        "fd:999".to_owned(),
    ] {
        let mut options = Options::new(directory.path());
        options.listen = vec![listen.parse().expect("an address")];
        let error = Server::bind(options).expect_err(&listen).to_string();
        assert!(error.starts_with("cannot listen on "), "{error}");
    }
    assert_eq!(std::fs::read(&file).expect("is there"), b"kept");
    for bad in ["unix:", "fd:1", "fd:x"] {
        assert!(bad.parse::<ListenAddr>().is_err(), "{bad}");
    }
}

#[test]
fn an_address_has_only_so_many_connections() {
    let site = Site::start(&[("a.txt", b"hello")], |options| {
        options.loops = 2;
        options.limits.connections_per_address_max = Some(3);
    });
    let from = |last: u8| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, last], 0)).into()).expect("binds");
        socket.connect(&site.addr.into()).expect("connects");
        TcpStream::from(socket)
    };
    let mut held: Vec<TcpStream> = (0..3).map(|_| from(2)).collect();
    for stream in &mut held {
        stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(harness::read_reply(stream, false).status, 200);
    }
    assert!(ask(from(2)).starts_with("HTTP/1.1 503 "));
    // Others are not concerned.
    assert!(ask(from(3)).starts_with("HTTP/1.1 200 "));
    drop(held.pop());
    harness::wait_until(|| ask(from(2)).starts_with("HTTP/1.1 200 "));
}
