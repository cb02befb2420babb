//! Copies of live connections, with which another server goes on where the client has what the first one has sent.

use crate::harness::{Site, certificate, connect};
use crate::sessions::{begun, ends_whole, narrow, noise, pair};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_server::{Options, SessionCopies, SessionCopy, TlsKeys, place_session};

const PATIENCE: Duration = Duration::from_secs(20);

/// Looks as a node process does, until something is found.
fn look(site: &Site, found: impl Fn(&SessionCopies) -> bool) -> SessionCopies {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let copies = site.control.copy_sessions(TlsKeys::Copied);
        if found(&copies) {
            return copies;
        }
        assert!(Instant::now() < deadline, "{copies:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn copy_of(site: &Site, client: &TcpStream) -> SessionCopy {
    let mut copies = look(site, |found| !found.copies.is_empty()).copies;
    assert_eq!(copies.len(), 1);
    let copy = copies.remove(0);
    assert_eq!((copy.peer, copy.local), (client.local_addr().expect("one"), client.peer_addr().expect("one")));
    copy
}

#[test]
fn a_long_response_is_copied_once_and_goes_on_elsewhere_at_any_byte() {
    let content = noise(24 << 20);
    let sites = pair(&[("x.bin", &content)], |options: &mut Options| options.moves_sessions = true);
    let mut client = begun(&sites[0]);
    let copy = copy_of(&sites[0], &client);
    let head_bytes = copy.response_bytes - content.len() as u64;
    // The response is the first one of the connection.
    assert_eq!((copy.facts.written, copy.facts.has_unread), (copy.offset, false));
    assert!(copy.facts.acknowledged <= copy.facts.written && copy.offset < copy.response_bytes);
    assert!(copy.facts.received > 30, "the request's bytes: {}", copy.facts.received);
    let again = sites[0].control.copy_sessions(TlsKeys::Copied);
    assert!(again.copies.is_empty() && again.ended.is_empty(), "{again:?}");
    // What is lost is copied once more, from where the response has come to.
    let anew = sites[0].control.copy_all_sessions(TlsKeys::Copied);
    assert_eq!((anew.copies.len(), anew.copies[0].facts.cookie), (1, copy.facts.cookie));
    assert!(anew.copies[0].offset >= copy.offset && sites[0].control.copy_sessions(TlsKeys::Copied).copies.is_empty());
    // Another server makes the same bytes, from before the place of the copy and behind it.
    for offset in [0, 7, head_bytes + 5, copy.offset, copy.response_bytes - 3] {
        let placed = place_session(&copy.session, offset).expect("lies in the response");
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let mut other = TcpStream::connect(listener.local_addr().expect("one")).expect("connects");
        let (served, peer) = listener.accept().expect("accepts");
        sites[1].control.adopt_session(&placed, served.into(), Vec::new(), peer).expect("is taken in");
        other.set_read_timeout(Some(PATIENCE)).expect("sets");
        let mut rest = vec![0; (copy.response_bytes - offset) as usize];
        other.read_exact(&mut rest).expect("goes on");
        let body = rest.len().min(content.len());
        assert!(rest[rest.len() - body..] == content[content.len() - body..], "from byte {offset} on");
        if offset == 0 {
            assert!(rest.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
    }
    assert!(place_session(&copy.session, copy.response_bytes).is_none(), "nothing is left there");
    // At its own server it was never stopped; its end is told once the client has all of it.
    ends_whole(&mut client, &content);
    let ended = look(&sites[0], |found| !found.ended.is_empty()).ended;
    assert_eq!(ended, [(copy.peer, copy.local)]);
    assert!(sites[0].control.copy_sessions(TlsKeys::Copied).copies.is_empty());
}

#[test]
fn a_next_response_over_the_same_connection_is_copied_anew() {
    let (content, other) = (noise(24 << 20), noise(23 << 20));
    let sites = pair(&[("x.bin", &content), ("y.bin", &other)], |options| options.moves_sessions = true);
    let mut client = begun(&sites[0]);
    let first = copy_of(&sites[0], &client);
    ends_whole(&mut client, &content);
    client.write_all(b"GET /y.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    client.read_exact(&mut [0]).expect("it has begun");
    let found = look(&sites[0], |found| !found.copies.is_empty());
    let second = &found.copies[0];
    assert_eq!(second.facts.written - second.offset, first.response_bytes, "behind the first one");
    assert!(second.facts.cookie == first.facts.cookie && second.facts.received > first.facts.received);
    ends_whole(&mut client, &other);
}

/// Another process has a descriptor of each copied connection, and a client is told of its end all the same.
#[test]
fn a_copied_connection_is_ended_while_another_process_has_its_socket() {
    let content = noise(24 << 20);
    let site = Site::start(&[("x.bin", &content)], |options| options.moves_sessions = true);
    let mut client = narrow(site.addr);
    client.write_all(b"GET /x.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    client.read_exact(&mut [0]).expect("it has begun");
    let copy = copy_of(&site, &client);
    let held = copy.socket.expect("another descriptor");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("the end is not held back");
    assert!(rest.ends_with(&content) && !rest.is_empty());
    // Nor does the other descriptor keep it open.
    let mut held = TcpStream::from(held);
    held.set_read_timeout(Some(PATIENCE)).expect("sets");
    assert_eq!(held.read(&mut [0]).expect("it was shut down"), 0);
}

/// An eventfd(2), by which the loops tell that there are copies to be asked for.
fn eventfd() -> OwnedFd {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new and has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Whether it is told within this time; that is taken then.
fn is_told(eventfd: &OwnedFd, within: Duration) -> bool {
    let mut polled = libc::pollfd { fd: eventfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut count = [0; 8];
    // SAFETY: the structure and the buffer live over the calls.
    unsafe {
        libc::poll(&raw mut polled, 1, within.as_millis() as i32);
        libc::read(eventfd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) == 8
    }
}

#[test]
fn loops_tell_of_copies_and_of_nothing_else() {
    const QUIET: Duration = Duration::from_millis(60);
    let content = noise(24 << 20);
    let site = Site::start(&[("x.bin", &content), ("short.txt", b"hello")], |options| options.moves_sessions = true);
    let told = eventfd();
    site.control.tell_of_copies_by(told.try_clone().expect("a descriptor"));
    assert!(is_told(&told, PATIENCE), "of what was before");
    let mut short = connect(site.addr);
    for _ in 0..200 {
        short.write_all(b"GET /short.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") {
            let mut byte = [0];
            short.read_exact(&mut byte).expect("answers");
            answer.extend_from_slice(&byte);
        }
    }
    assert!(!is_told(&told, QUIET), "none of these takes long");
    let mut client = begun(&site);
    assert!(is_told(&told, PATIENCE), "one takes long");
    let copy = copy_of(&site, &client);
    is_told(&told, Duration::ZERO);
    assert!(!is_told(&told, QUIET), "it is copied, and goes on");
    ends_whole(&mut client, &content);
    assert!(is_told(&told, PATIENCE), "it has ended");
    assert_eq!(look(&site, |found| !found.ended.is_empty()).ended, [(copy.peer, copy.local)]);
    is_told(&told, Duration::ZERO);
    assert!(!is_told(&told, QUIET), "nothing is under way");
}

#[test]
fn what_cannot_be_copied_is_counted_by_its_reason() {
    let content = noise(24 << 20);
    let site = Site::start(&[("x.bin", &content)], |options| options.moves_sessions = true);
    let mut pipelined = connect(site.addr);
    let request = b"GET /x.bin HTTP/1.1\r\nHost: a\r\n\r\n";
    pipelined.write_all(&[&request[..], request].concat()).expect("sends");
    pipelined.read_exact(&mut [0]).expect("it has begun");
    let found = look(&site, |found| !found.left_out.is_empty());
    let reasons: Vec<_> = found.left_out.iter().map(|(why, count)| (*why, *count)).collect();
    assert_eq!(reasons, [("further requests wait behind the response", 1)]);
    assert!(found.copies.is_empty());
    drop(pipelined);
    let mut http2 = connect(site.addr);
    let window = [&b"\0\0\x06\x04\0\0\0\0\0"[..], b"\0\x04", &(1_u32 << 24).to_be_bytes()].concat();
    // RFC 7541, appendix A: GET, the path by its name, an authority, http.
    let block = [&b"\x82\x86\x04\x06/x.bin\x41\x01a"[..]].concat();
    let head = [&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1][..], &block].concat();
    let all = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &window, &head].concat();
    http2.write_all(&all).expect("sends");
    http2.read_exact(&mut [0]).expect("it has begun");
    look(&site, |found| found.left_out.contains_key("HTTP/2"));
}

pub(crate) const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];

/// A socket that keeps what has come.
pub(crate) struct Tapped {
    pub(crate) socket: TcpStream,
    pub(crate) received: Vec<u8>,
}

impl Read for Tapped {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.socket.read(buffer)?;
        self.received.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

impl Write for Tapped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

/// A client with little room, which asks for a file.
pub(crate) fn begun_secure(
    site: &Site,
    certificate: &Path,
    version: &'static SupportedProtocolVersion,
    fields: &str,
) -> StreamOwned<ClientConnection, Tapped> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).expect("a certificate")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider())).with_protocol_versions(&[version]);
    let config = config.expect("a version").with_root_certificates(roots).with_no_client_auth();
    let tls = ClientConnection::new(Arc::new(config), "a".try_into().expect("a name")).expect("a client");
    let mut client = StreamOwned::new(tls, Tapped { socket: narrow(site.addr), received: Vec::new() });
    write!(client, "GET /x.bin HTTP/1.1\r\nHost: a\r\n{fields}\r\n").expect("sends");
    client.read_exact(&mut [0]).expect("it has begun");
    client
}

/// The rest of the response is whole; the head's first byte was read already.
pub(crate) fn ends_whole_secure(client: &mut impl Read, content: &[u8]) {
    let mut head = vec![0];
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let mut body = vec![0; content.len()];
    client.read_exact(&mut body).expect("a body");
    assert!(body == content);
}

#[test]
fn a_response_over_tls_goes_on_elsewhere_in_the_same_records() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    let content = noise(8 << 20);
    // Files in memory go out with their head, others behind it.
    for in_memory in [true, false] {
        let sites = pair(&[("x.bin", &content)], |options| {
            options.moves_sessions = true;
            options.certificates = vec![files.clone()];
            options.cached_file_bytes_max = if in_memory { 32 << 20 } else { 0 };
        });
        for version in VERSIONS {
            let mut client = begun_secure(&sites[0], &files.certificate, version, "");
            let copy = copy_of(&sites[0], &client.sock.socket);
            assert!(copy.response_bytes > content.len() as u64 && copy.offset < copy.response_bytes);
            ends_whole_secure(&mut client, &content);
            // What the first server has sealed, of this response alone.
            let start = (copy.facts.written - copy.offset) as usize;
            let sealed = &client.sock.received[start..];
            assert_eq!(sealed.len() as u64, copy.response_bytes, "{version:?}, in memory: {in_memory}");
            let unacknowledged = copy.facts.written - copy.facts.acknowledged;
            for offset in [7, 16_500, copy.offset - unacknowledged, copy.response_bytes - 3] {
                let placed = place_session(&copy.session, offset).expect("lies in its records");
                let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
                let mut other = TcpStream::connect(listener.local_addr().expect("one")).expect("connects");
                let (served, peer) = listener.accept().expect("accepts");
                sites[1].control.adopt_session(&placed, served.into(), Vec::new(), peer).expect("is taken in");
                other.set_read_timeout(Some(PATIENCE)).expect("sets");
                let mut rest = vec![0; (copy.response_bytes - offset) as usize];
                other.read_exact(&mut rest).expect("goes on");
                assert!(rest == sealed[offset as usize..], "other records from byte {offset} on, {version:?}");
            }
            // The first one goes on with the connection.
            write!(client, "GET /x.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4\r\n\r\n").expect("sends");
            client.read_exact(&mut [0]).expect("it has begun");
            ends_whole_secure(&mut client, &content[..5]);
        }
    }
}

#[test]
fn keys_stay_where_they_are_by_choice() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    let content = noise(8 << 20);
    let site = Site::start(&[("x.bin", &content)], |options| {
        options.moves_sessions = true;
        options.certificates = vec![files.clone()];
    });
    let mut client = begun_secure(&site, &files.certificate, VERSIONS[0], "Connection: close\r\n");
    let deadline = Instant::now() + PATIENCE;
    let found = loop {
        let found = site.control.copy_sessions(TlsKeys::StayHere);
        if !found.left_out.is_empty() {
            break found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(found.copies.is_empty() && found.left_out.contains_key("TLS, whose keys are not given away"), "{found:?}");
    ends_whole_secure(&mut client, &content);
    assert_eq!(client.read(&mut [0]).expect("the end is meant"), 0);
}

#[test]
fn nothing_is_sealed_behind_a_response_that_may_go_on_elsewhere() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = certificate::make(folder.path(), "a", &["a"]);
    let content = noise(8 << 20);
    let site = Site::start(&[("x.bin", &content)], |options| {
        options.moves_sessions = true;
        options.certificates = vec![files.clone()];
    });
    for version in VERSIONS {
        // The server closes as soon as it has written all, when the client has not got it yet.
        let mut client = begun_secure(&site, &files.certificate, version, "Connection: close\r\n");
        let copy = copy_of(&site, &client.sock.socket);
        ends_whole_secure(&mut client, &content);
        let mut rest = Vec::new();
        let ended = client.read_to_end(&mut rest).expect_err("no alert says so");
        assert_eq!((ended.kind(), rest.len()), (std::io::ErrorKind::UnexpectedEof, 0));
        let start = copy.facts.written - copy.offset;
        assert_eq!(client.sock.received.len() as u64, start + copy.response_bytes, "an alert follows");
    }
}
