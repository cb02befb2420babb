//! Live connections over TLS that move between two servers, with a client that notices nothing.

use crate::harness;
use crate::sessions::{adopt, noise, pair, take};
use harness::{Reply, certificate};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_server::TakeError;

const MOVES: usize = 20;
const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];

pub(crate) type Client = StreamOwned<ClientConnection, TcpStream>;

/// A client of TLS 1.3 that asks for this protocol.
pub(crate) fn secured(addr: std::net::SocketAddr, certificate: &Path, protocol: &[u8]) -> Client {
    connect_to(addr, certificate, VERSIONS[0], &[protocol])
}

fn connect(addr: std::net::SocketAddr, certificate: &Path, version: &'static SupportedProtocolVersion) -> Client {
    connect_to(addr, certificate, version, &[])
}

fn connect_to(
    addr: std::net::SocketAddr,
    certificate: &Path,
    version: &'static SupportedProtocolVersion,
    protocols: &[&[u8]],
) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).expect("a certificate")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider())).with_protocol_versions(&[version]);
    let mut config = config.expect("a version").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let tls = ClientConnection::new(Arc::new(config), "a".try_into().expect("a name")).expect("a client");
    StreamOwned::new(tls, with_buffer(addr))
}

/// A socket whose buffer is far smaller than a download.
pub(crate) fn with_buffer(addr: std::net::SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    // The server has something left to send at each move.
    socket.set_recv_buffer_size(64 << 10).expect("sets");
    socket.connect(&addr.into()).expect("connects");
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    socket
}

/// Reads until so many bytes are there.
fn read_to(client: &mut Client, all: &mut Vec<u8>, bytes: usize) {
    let mut buffer = [0; 16 << 10];
    while all.len() < bytes {
        let room = buffer.len().min(bytes - all.len());
        let read = client.read(&mut buffer[..room]).expect("goes on");
        assert!(read > 0, "the connection ended after {} bytes", all.len());
        all.extend_from_slice(&buffer[..read]);
    }
}

/// Sends a request and reads its response, whose content has this size.
fn fetch(client: &mut Client, path: &str, content: usize) -> Reply {
    write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    let mut all = Vec::new();
    while !all.windows(4).any(|four| four == b"\r\n\r\n") {
        let next = all.len() + 1;
        read_to(client, &mut all, next);
    }
    let whole = all.len() + content;
    read_to(client, &mut all, whole);
    Reply::parse(&all).0
}

#[test]
fn a_download_over_tls_moves_twenty_times_and_the_connection_stays() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    let content = noise(20 << 20);
    let sites = pair(&[("large.bin", &content), ("a.txt", b"hello")], |options| {
        options.certificates = vec![files.clone()];
        options.moves_sessions = true;
    });
    for version in VERSIONS {
        let mut client = connect(sites[0].addr, &files.certificate, version);
        write!(client, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        let (mut all, step) = (Vec::new(), content.len() / (MOVES + 1));
        for number in 0..MOVES {
            read_to(&mut client, &mut all, (number + 1) * step);
            if number % 5 == 1 && version.version == rustls::ProtocolVersion::TLSv1_3 {
                client.conn.refresh_traffic_keys().expect("has other keys");
                client.flush().expect("sends");
            }
            let taken = take(&sites[number % 2], &client.sock).expect("is given away");
            // Later all of the response may lie in the kernel.
            assert!(taken.known_bytes > 0 || number > MOVES / 2, "the records of the response are known");
            adopt(&sites[(number + 1) % 2], taken, &client.sock);
        }
        let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        read_to(&mut client, &mut all, head + content.len());
        assert!(all[head..] == content, "other bytes, {version:?}");
        // It stays, and moves between two requests as well.
        let taken = take(&sites[0], &client.sock).expect("is given away");
        adopt(&sites[1], taken, &client.sock);
        assert_eq!(fetch(&mut client, "/a.txt", 5).text(), "hello");
        // A request that is cut by the move.
        client.write_all(b"GET /a.txt HT").expect("sends");
        let taken = take(&sites[1], &client.sock).expect("is given away");
        adopt(&sites[0], taken, &client.sock);
        client.write_all(b"TP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
        let mut rest = Vec::new();
        // The end is said, or this would be an error.
        client.read_to_end(&mut rest).expect("the end is meant");
        assert_eq!(Reply::parse(&rest).0.text(), "hello");
    }
}

#[test]
fn sessions_of_tls_stay_where_the_server_was_not_started_to_move_them() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    let sites = pair(&[("a.txt", b"hello")], |options| options.certificates = vec![files.clone()]);
    let mut client = connect(sites[0].addr, &files.certificate, VERSIONS[0]);
    assert_eq!(fetch(&mut client, "/a.txt", 5).text(), "hello");
    let refused = take(&sites[0], &client.sock).expect_err("stays");
    assert!(matches!(refused, TakeError::Tls { .. }) && refused.to_string().contains("moves_sessions"), "{refused}");
    assert_eq!(fetch(&mut client, "/a.txt", 5).text(), "hello");
}

/// A server whose sockets take little at once, with a response that is longer than that.
fn with_small_sockets(
    content: &[u8],
    certificate: Option<&weir_server::CertificateFiles>,
    in_memory: bool,
) -> harness::Site {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_send_buffer_size(8 << 10).expect("sets");
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("binds");
    socket.listen(16).expect("listens");
    let fd = std::os::fd::IntoRawFd::into_raw_fd(socket);
    harness::Site::start(&[("x.bin", content)], |options| {
        options.listen = vec![format!("fd:{fd}").parse().expect("a descriptor")];
        options.certificates = certificate.cloned().into_iter().collect();
        options.moves_sessions = true;
        options.cached_file_bytes_max = if in_memory { 32 << 20 } else { 0 };
    })
}

#[test]
fn a_connection_that_closes_ends_behind_all_records_also_where_the_socket_is_full() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    // More than one turn of the loop has, so that the end is sent when the socket has room again: of that end, nearly as much
    // as is sealed at once, the socket takes a part.
    let content = noise((1 << 20) + 60_000);
    for in_memory in [true, false] {
        let site = with_small_sockets(&content, Some(&files), in_memory);
        for version in VERSIONS {
            let mut client = connect(site.addr, &files.certificate, version);
            write!(client, "GET /x.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
            let mut all = Vec::new();
            client.read_to_end(&mut all).expect("the end is said behind the response");
            let reply = Reply::parse(&all).0;
            assert!(reply.body == content, "{} of {} bytes, {version:?}", reply.body.len(), content.len());
        }
    }
}
