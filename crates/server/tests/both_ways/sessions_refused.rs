//! Connections that do not move: each goes on where it was, and says why.

use crate::harness;
use crate::sessions::{adopt, begun, ends_whole, noise, pair, take};
use crate::sessions_http2::{Client, frame};

use harness::{Site, certificate, connect, read_reply, wait_until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_server::{
    Aborted, AdoptError, Application, Handler, Options, Reply, RequestBody, RequestHead, TakeError, Throttle, Wake,
    parse_configuration,
};

/// Answers once a body has come to its end.
#[derive(Debug)]
struct Patient;

impl Application for Patient {
    fn begin(&self, _head: &RequestHead<'_>, _wake: Wake) -> Box<dyn Handler> {
        Box::new(Self)
    }
}

impl Handler for Patient {
    fn go_on(&mut self, body: &mut RequestBody, reply: &mut Reply) -> Result<(), Aborted> {
        let bytes = body.bytes().len();
        body.take(bytes);
        if !body.is_ended() {
            return Ok(());
        }
        reply.begin(200, &[], Some(4)).map_err(|_| Aborted)?;
        assert_eq!(reply.write(b"done"), 4);
        reply.end(&[]).map_err(|_| Aborted)
    }
}

/// The reason why a connection is not given away, once the server has taken up what the client has said.
fn refusal(site: &Site, client: &TcpStream) -> TakeError {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "it was given away");
        match take(site, client) {
            Ok(taken) => site.control.give_session_back(taken),
            Err(TakeError::NoConnection { .. }) => {}
            Err(error) => return error,
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A server with a file, with TLS at its second address, and with an application.
fn site() -> (Site, tempfile::TempDir) {
    site_with(|_| {})
}

/// The same with something else.
fn site_with(change: impl FnOnce(&mut Options)) -> (Site, tempfile::TempDir) {
    let certificates = tempfile::tempdir().expect("a directory");
    let site = Site::start(&[("site/a.txt", b"hello"), ("users", USERS)], |options| {
        let (folder, io) = (options.root.clone(), options.io);
        let text = "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/private\"\n\
            auth = { realm = \"x\", users = \"users\" }";
        *options = parse_configuration(text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        let hosts = options.hosts.take().expect("hosts");
        options.hosts = Some(hosts.with_application("/patient", Arc::new(Patient)).expect("a small glob"));
        let any = || vec!["127.0.0.1:0".parse().expect("an address")];
        (options.io, options.loops, options.listen, options.listen_clear) = (io, 1, any(), any());
        options.certificates = vec![certificate::make(certificates.path(), "a", &["a"])];
        change(options);
    });
    (site, certificates)
}

/// A password that takes a while to be checked (bcrypt of 2^12 rounds).
const USERS: &[u8] = b"anna:$2y$12$abcdefghijklmnopqrstuu5Wz8Hi2JYQv6cQ5nK0f0cWn6a2pP9mS\n";

#[test]
fn what_does_not_move_goes_on_where_it_was() {
    let (site, _certificates) = site();
    let clear = site.addrs[1];
    // No such connection.
    let other = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    assert!(
        matches!(site.control.take_session(other, clear), Err(TakeError::NoConnection { peer, .. }) if peer == other)
    );
    // TLS, of which the handshake is not even begun.
    let secure = connect(site.addr);
    assert!(matches!(refusal(&site, &secure), TakeError::Tls { .. }));
    // A stream of HTTP/2 that an application answers.
    let mut http2 = Client::begin(Box::new(connect(clear)), 65_535);
    http2.post(1, "/patient", b"hel");
    assert!(matches!(refusal(&site, http2.socket()), TakeError::Application));
    http2.send(&frame(0, 1, 1, b"lo"));
    assert_eq!(http2.ends(1), (0x88, &b"done"[..]));
    // Bodies: in chunks, as their end is not known, and those of applications.
    let mut chunked = connect(clear);
    chunked.write_all(b"POST /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe").expect("sends");
    assert_eq!(read_reply(&mut chunked, false).status, 405);
    assert!(matches!(refusal(&site, &chunked), TakeError::Body));
    chunked.write_all(b"llo\r\n0\r\n\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut chunked, false).text(), "hello");
    let mut patient = connect(clear);
    patient.write_all(b"POST /patient HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel").expect("sends");
    assert!(matches!(refusal(&site, &patient), TakeError::Application));
    patient.write_all(b"lo").expect("sends");
    assert_eq!(read_reply(&mut patient, false).text(), "done");
    // One that ends, and waits for the client to end.
    let mut ending = connect(clear);
    ending.write_all(b"nonsense\r\n\r\n").expect("sends");
    assert!(matches!(refusal(&site, &ending), TakeError::Ending));
    assert!(harness::read_to_end(&mut ending).starts_with(b"HTTP/1.1 400 "));
    assert_eq!(site.counters.read().sessions_adopted, 0);
}

#[test]
fn a_body_larger_than_the_bound_stays() {
    let sites = pair(&[("a.txt", b"hello")], |options| options.limits.body_bytes_max = 1 << 20);
    let mut client = connect(sites[0].addr);
    client.write_all(b"POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut client, false).status, 405);
    assert!(matches!(refusal(&sites[0], &client), TakeError::Body));
    client.write_all(&vec![b'x'; 100_000]).expect("sends");
    client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut client, false).text(), "hello");
    assert!(take(&sites[0], &client).is_ok(), "and moves once that is over");
}

#[test]
fn a_password_that_is_checked_is_waited_for() {
    let (site, _certificates) = site();
    use base64::Engine;
    let credentials = base64::engine::general_purpose::STANDARD.encode("anna:secret");
    let mut client = connect(site.addrs[1]);
    let request = format!("GET /private/ HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n");
    client.write_all(request.as_bytes()).expect("sends");
    // It may be over before it is seen: then there is nothing to be refused.
    let mut seen = None;
    while seen.is_none() && site.counters.read().client_errors == 0 {
        match take(&site, &client) {
            Ok(taken) => site.control.give_session_back(taken),
            Err(TakeError::NoConnection { .. }) => {}
            Err(error) => seen = Some(error),
        }
    }
    assert!(matches!(seen, None | Some(TakeError::Password)), "{seen:?}");
    assert_eq!(read_reply(&mut client, false).status, 401);
}

#[test]
fn another_file_at_the_other_server_is_never_mixed_in() {
    let content = noise(6_000_000);
    let mut changed = content.clone();
    changed[5_999_999] ^= 1;
    let sites = [&content, &changed].map(|bytes| Site::start(&[("x.bin", bytes)], |_| {}));
    let mut client = begun(&sites[0]);
    // Both can know it before the connection is stopped.
    let ends = (client.local_addr().expect("an address"), client.peer_addr().expect("an address"));
    let preview = sites[0].control.session_preview(ends.0, ends.1).expect("is open");
    assert_eq!(sites[0].control.session_bytes(&preview, 0, 0).expect("it has the same file"), b"");
    let refused = sites[1].control.session_bytes(&preview, 0, 0);
    assert!(matches!(&refused, Err(AdoptError::OtherContent { path, site: 0 }) if path == "/x.bin"), "{refused:?}");
    let taken = take(&sites[0], &client).expect("is given away");
    let refused = sites[1].control.session_bytes(&taken.session, 0, 0);
    assert!(matches!(&refused, Err(AdoptError::OtherContent { path, site: 0 }) if path == "/x.bin"), "{refused:?}");
    let peer = client.local_addr().expect("an address");
    let again = taken.fd.try_clone().expect("a descriptor");
    let refused = sites[1].control.adopt_session(&taken.session, again, Vec::new(), peer);
    assert!(matches!(refused, Err(AdoptError::OtherContent { .. })), "{refused:?}");
    std::fs::remove_file(sites[1].directory.path().join("x.bin")).expect("removes");
    let refused = sites[1].control.session_bytes(&taken.session, 0, 0);
    assert!(matches!(refused, Err(AdoptError::NoContent { .. })), "{refused:?}");
    sites[0].control.give_session_back(taken);
    ends_whole(&mut client, &content);
    let counts = sites.map(Site::stop);
    assert_eq!(counts.map(|counts| (counts.sessions_given, counts.sessions_given_back)), [(1, 1), (0, 0)]);
    assert_eq!(counts[0].connections_broken + counts[1].sessions_adopted, 0);
}

#[test]
fn a_file_that_is_replaced_meanwhile_ends_where_it_was_begun() {
    let content = noise(6_000_000);
    let sites = pair(&[("x.bin", &content)], |_| {});
    let mut client = begun(&sites[0]);
    sites[0].write("new", b"another one");
    let root = sites[0].directory.path();
    std::fs::rename(root.join("new"), root.join("x.bin")).expect("renames");
    assert!(matches!(take(&sites[0], &client), Err(TakeError::Content)));
    ends_whole(&mut client, &content);
    // What was given away before comes back with the file that it has.
    sites[0].write("x.bin", &content);
    let mut client = begun(&sites[0]);
    let taken = take(&sites[0], &client).expect("is given away");
    std::fs::remove_file(root.join("x.bin")).expect("removes");
    sites[0].control.give_session_back(taken);
    ends_whole(&mut client, &content);
}

#[test]
fn a_server_without_a_place_refuses_and_the_connection_goes_on_where_it_was() {
    let content = noise(6_000_000);
    let sites = pair(&[("x.bin", &content)], |options| options.limits.connections_per_address_max = Some(1));
    let (mut client, mut other) = (begun(&sites[0]), begun(&sites[1]));
    let taken = take(&sites[0], &client).expect("is given away");
    let peer = client.local_addr().expect("an address");
    let again = taken.fd.try_clone().expect("a descriptor");
    let refused = sites[1].control.adopt_session(&taken.session, again, Vec::new(), peer);
    assert!(matches!(refused, Err(AdoptError::Full)), "{refused:?}");
    sites[0].control.give_session_back(taken);
    ends_whole(&mut client, &content);
    ends_whole(&mut other, &content);
    // A place that was left is another's.
    let taken = take(&sites[0], &client).expect("is given away");
    drop(other);
    wait_until(|| {
        let again = taken.fd.try_clone().expect("a descriptor");
        sites[1].control.adopt_session(&taken.session, again, Vec::new(), peer).is_ok()
    });
    client.write_all(b"GET /x.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert!(read_reply(&mut client, false).body == content);
    assert!(sites[1].counters.read().connections_refused >= 1);
}

#[test]
fn what_is_no_session_is_refused_and_a_stopping_server_takes_none() {
    let content = noise(6_000_000);
    let mut sites = Vec::from(pair(&[("x.bin", &content)], |_| {}));
    let mut client = begun(&sites[0]);
    let taken = take(&sites[0], &client).expect("is given away");
    let peer = client.local_addr().expect("an address");
    let second = &sites[1].control;
    let adopt_bytes = |session: Vec<u8>| {
        let fd = taken.fd.try_clone().expect("a descriptor");
        second.adopt_session(&session, fd, Vec::new(), peer).expect_err("is refused")
    };
    let other = [&[9], &taken.session[1..]].concat();
    assert!(matches!(adopt_bytes(other), AdoptError::Version { version: 9, known: 3 }));
    let cut = taken.session[..taken.session.len() - 1].to_vec();
    assert!(matches!(adopt_bytes(cut), AdoptError::Malformed { .. }));
    // A path of the same length that leads out of the root.
    let at = taken.session.windows(6).position(|window| window == b"/x.bin").expect("its path");
    let mut outside = taken.session.to_vec();
    outside[at..at + 6].copy_from_slice(b"/../xx");
    assert!(matches!(adopt_bytes(outside), AdoptError::Path));
    let not_a_socket = std::fs::File::open("/dev/null").expect("opens");
    let refused = second.adopt_session(&taken.session, not_a_socket.into(), Vec::new(), peer);
    assert!(matches!(refused, Err(AdoptError::Socket { .. })), "{refused:?}");
    let stopped = sites.pop().expect("two");
    let control = stopped.control.clone();
    stopped.stop();
    let fd = taken.fd.try_clone().expect("a descriptor");
    let refused = control.adopt_session(&taken.session, fd, Vec::new(), peer);
    assert!(matches!(refused, Err(AdoptError::NoAnswer | AdoptError::Stopping)), "{refused:?}");
    assert!(matches!(control.take_session(peer, peer), Err(TakeError::NoConnection { .. } | TakeError::NoAnswer)));
    adopt(&sites[0], taken, &client);
    ends_whole(&mut client, &content);
}

#[test]
fn a_tunnel_stays_and_goes_on() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
    let upstream = listener.local_addr().expect("an address");
    // It ends with the process.
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        socket.write_all(switch).expect("takes");
        let mut bytes = [0; 5];
        while socket.read_exact(&mut bytes).is_ok() {
            socket.write_all(&bytes).expect("takes");
        }
    });
    let site = Site::start(&[], |options| {
        let (folder, io, listen) = (options.root.clone(), options.io, options.listen.clone());
        let text = format!("[[host]]\nproxy = \"http://{upstream}\"\n");
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.io, options.listen, options.loops) = (io, listen, 1);
    });
    let mut client = connect(site.addr);
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n").expect("sends");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    for _ in 0..3 {
        let refused = refusal(&site, &client);
        assert!(matches!(refused, TakeError::Tunnel), "{refused:?}");
        assert!(refused.to_string().contains("a tunnel, both ends of which this server does not know"), "{refused}");
        client.write_all(b"hello").expect("sends");
        let mut back = [0; 5];
        client.read_exact(&mut back).expect("it goes on");
        assert_eq!(&back, b"hello");
    }
}

#[test]
fn a_request_that_waits_for_others_stays() {
    let (site, _certificates) = site_with(|options| {
        options.throttles = vec![Throttle::new("/patient", 1, 10, 60_000).expect("small enough")];
    });
    let clear = site.addrs[1];
    let ask = b"POST /patient HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel";
    let [mut first, mut waits] = [connect(clear), connect(clear)];
    first.write_all(ask).expect("sends");
    wait_until(|| site.counters.read().applications == 1 || matches!(take(&site, &first), Err(TakeError::Application)));
    waits.write_all(ask).expect("sends");
    wait_until(|| site.counters.read().throttle_queued == 1);
    let refused = refusal(&site, &waits);
    assert!(matches!(refused, TakeError::Waiting), "{refused:?}");
    assert!(refused.to_string().contains("waits for others"), "{refused}");
    // The same of HTTP/2.
    let mut http2 = Client::begin(Box::new(connect(clear)), 65_535);
    http2.post(1, "/patient", b"hel");
    wait_until(|| site.counters.read().throttle_queued == 2);
    assert!(matches!(refusal(&site, http2.socket()), TakeError::Waiting));
    for client in [&mut first, &mut waits] {
        client.write_all(b"lo").expect("sends");
        assert_eq!(read_reply(client, false).text(), "done");
    }
}

#[test]
fn a_connection_whose_proxy_header_has_not_come_stays() {
    let site = Site::start(&[("a.txt", b"hello")], |options| {
        let (folder, io, listen) = (options.root.clone(), options.io, options.listen.clone());
        let text = "trusted_proxies = [\"127.0.0.1\"]\n[[host]]\nroot = \".\"\n";
        *options = parse_configuration(text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        options.proxy_protocol = listen.clone();
        (options.io, options.listen, options.loops) = (io, listen, 1);
    });
    let mut client = connect(site.addr);
    let refused = refusal(&site, &client);
    assert!(matches!(refused, TakeError::Beginning), "{refused:?}");
    assert!(refused.to_string().contains("the PROXY header of the connection has not come"), "{refused}");
    client.write_all(b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut client, false).text(), "hello");
    assert!(take(&site, &client).is_ok(), "and moves then");
}

#[test]
fn a_connection_with_too_many_streams_stays() {
    let content = noise(1_000);
    let site = Site::start(&[("x.bin", &content)], |options| options.limits.streams_max = 1_100);
    // No window: all responses wait.
    let mut client = Client::begin(Box::new(connect(site.addr)), 0);
    for number in 0..1_025 {
        client.get(2 * number + 1, "/x.bin", &[]);
    }
    let refused = refusal(&site, client.socket());
    assert!(matches!(refused, TakeError::TooLarge), "{refused:?}");
    assert!(refused.to_string().contains("more than 4194304 bytes"), "{refused}");
}

#[test]
fn a_connection_that_has_agreed_on_http2_and_said_nothing_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = certificate::make(folder.path(), "a", &["a"]);
    let shown = made.certificate.clone();
    let site = Site::start(&[("a.txt", b"hello")], |options| {
        (options.certificates, options.moves_sessions) = (vec![made], true);
    });
    let mut client = crate::sessions_secure::secured(site.addr, &shown, b"h2");
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock).expect("shakes hands");
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    let refused = loop {
        let refused = refusal(&site, &client.sock);
        // Until the server has the end of the handshake.
        if !matches!(refused, TakeError::Tls { .. }) || Instant::now() > deadline {
            break refused;
        }
    };
    assert!(matches!(refused, TakeError::Protocol { protocol: "HTTP/2" }), "{refused:?}");
}
