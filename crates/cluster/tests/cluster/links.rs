//! Links with real TLS on loopback: refused without a certificate, thousands of messages, peers that die or are silent.

use crate::{PATIENCE, cluster, identity, name, node, patient, trust, wait_for};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use weir_cluster::{
    Answering, Authority, HandshakeError, LinkClient, LinkCounts, LinkError, LinkServer, LinkSettings, Member, Members,
    Message, Role,
};

/// Sends back what it gets, with the sender's name in front.
struct Echo;

impl Answering for Echo {
    fn answer(&self, peer: &Member, request: Message) -> Message {
        match request {
            Message::Failed { why } => Message::Failed { why: format!("{} {why}", peer.name) },
            other => other,
        }
    }
}

struct Setting {
    _directory: tempfile::TempDir,
    authority: Authority,
    members: Arc<Members>,
    server: Option<LinkServer>,
    address: SocketAddr,
    counts: Arc<LinkCounts>,
}

impl Setting {
    fn new(answering: Arc<dyn Answering>, settings: LinkSettings) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (authority, _) = cluster(directory.path());
        let (members, counts) = (Arc::new(Members::default()), Arc::new(LinkCounts::default()));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let own = trust(&authority, node("two"), &members);
        let server = LinkServer::start(listener, own, settings, Arc::clone(&counts), answering).expect("a server");
        Self { _directory: directory, authority, members, server: Some(server), address, counts }
    }

    fn client_of(&self, authority: &Authority, member: Member, wanted: Member) -> LinkClient {
        let own = trust(authority, member, &Arc::new(Members::default()));
        LinkClient::new(wanted, self.address, own, patient(), Arc::default())
    }

    fn client(&self, member: &str) -> LinkClient {
        self.client_of(&self.authority, node(member), node("two"))
    }
}

fn text(why: impl Into<String>) -> Message {
    Message::Failed { why: why.into() }
}

#[test]
fn a_thousand_messages_of_four_threads_come_back() {
    let setting = Setting::new(Arc::new(Echo), patient());
    let client = setting.client("one");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = &client;
            scope.spawn(move || {
                for number in 0..250 {
                    let answer = client.ask(&text(format!("{thread} {number}")), PATIENCE).expect("an answer");
                    assert_eq!(answer, text(format!("one {thread} {number}")));
                }
            });
        }
    });
    let counts = setting.counts.now();
    assert_eq!((counts.accepted, counts.requests, counts.requests_busy), (1, 1_000, 0));
}

#[test]
fn large_records_pass_both_ways_at_the_same_time() {
    let setting = Setting::new(Arc::new(Echo), patient());
    let client = setting.client("one");
    let record = Message::Record(Arc::new(crate::encoding::record(6 << 20)));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!(client.ask(&record, PATIENCE).expect("an answer") == record));
        }
    });
    let too_large = Message::Record(Arc::new(crate::encoding::record(17 << 20)));
    assert!(matches!(client.ask(&too_large, PATIENCE), Err(LinkError::TooLarge(bytes)) if bytes > 17 << 20));
    assert!(client.ask(&text("still there"), PATIENCE).is_ok());
}

/// A client without a certificate of its own, which believes the cluster's authority.
fn stranger(authority: &CertificateDer<'static>, address: SocketAddr) -> std::io::Result<usize> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "two.cluster.weir".try_into().expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("TLS");
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = StreamOwned::new(tls, socket);
    stream.write_all(&[0; 64])?;
    stream.read(&mut [0; 64])
}

#[test]
fn peers_without_a_certificate_of_the_cluster_are_refused_and_counted() {
    let setting = Setting::new(Arc::new(Echo), patient());
    // Without a certificate.
    assert!(!matches!(stranger(setting.authority.certificate(), setting.address), Ok(1..)));
    wait_for("refused without a certificate", || setting.counts.now().refused_no_certificate == 1);
    // With one of another cluster that has the same names.
    let other = tempfile::tempdir().expect("a directory");
    let (foreign, _) = cluster(other.path());
    let refused = setting.client_of(&foreign, node("one"), node("two")).ask(&text("x"), PATIENCE);
    assert!(matches!(refused, Err(LinkError::Handshake(HandshakeError::Untrusted(_)))), "{refused:?}");
    // A client that believes the server, and shows a certificate of another authority.
    let mut mixed = identity(&foreign, node("one"));
    mixed.authority = setting.authority.certificate().clone();
    let own = weir_cluster::Trust::new(&mixed, Arc::new(Members::default())).expect("TLS");
    let mixed = LinkClient::new(node("two"), setting.address, own, patient(), Arc::default());
    assert!(mixed.ask(&text("x"), PATIENCE).is_err());
    wait_for("refused as untrusted", || setting.counts.now().refused_untrusted == 1);
    // No TLS at all.
    let mut plain = TcpStream::connect(setting.address).expect("a connection");
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("written");
    wait_for("no TLS", || setting.counts.now().handshake_failed >= 2);
    let counts = setting.counts.now();
    assert_eq!((counts.requests, counts.accepted), (0, 0), "{counts:?}");
}

/// Sends a request in one piece with the last part of its handshake, and reads the first bytes of the answer.
#[test]
fn a_request_may_come_with_the_end_of_the_handshake() {
    let setting = Setting::new(Arc::new(Echo), patient());
    let keys = tempfile::tempdir().expect("a directory");
    let own = identity(&setting.authority, node("one"));
    own.save(keys.path()).expect("kept");
    let key = PrivateKeyDer::from_pem_file(keys.path().join("member.key")).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(own.authority.clone()).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own.certificate.clone()], key)
        .expect("a key of the certificate");
    let name = "two.cluster.weir".try_into().expect("a name");
    let mut tls = ClientConnection::new(Arc::new(config), name).expect("TLS");
    let mut socket = TcpStream::connect(setting.address).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    while tls.is_handshaking() {
        while tls.wants_write() {
            tls.write_tls(&mut socket).expect("written");
        }
        assert_ne!(tls.read_tls(&mut socket).expect("read"), 0);
        tls.process_new_packets().expect("believed");
    }
    let mut message = Vec::new();
    text("early").encode(&mut message);
    let head = [&(message.len() as u32).to_be_bytes()[..], &7_u64.to_be_bytes(), &[0]].concat();
    tls.writer().write_all(&[head, message].concat()).expect("sealed");
    let mut piece = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut piece).expect("in memory");
    }
    socket.write_all(&piece).expect("written");
    let mut answer = [0; 13];
    StreamOwned::new(tls, socket).read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[4..], [0, 0, 0, 0, 0, 0, 0, 7, 1]);
}

#[test]
fn another_member_than_the_wanted_one_is_refused() {
    let setting = Setting::new(Arc::new(Echo), patient());
    let wanted = [node("three"), Member { name: name("two"), role: Role::Director }];
    for wanted in wanted {
        let refused = setting.client_of(&setting.authority, node("one"), wanted).ask(&text("x"), PATIENCE);
        assert!(matches!(&refused, Err(error @ LinkError::Handshake(_)) if error.is_unsent()), "{refused:?}");
    }
    assert_eq!(setting.counts.now().requests, 0);
}

#[test]
fn a_removed_member_is_refused_on_its_link_and_on_new_ones() {
    let setting = Setting::new(Arc::new(Echo), patient());
    let (removed, kept) = (setting.client("one"), setting.client("four"));
    assert!(removed.ask(&text("x"), PATIENCE).is_ok());
    setting.members.remove(name("one"));
    assert!(removed.ask(&text("x"), PATIENCE).is_err());
    assert!(removed.ask(&text("x"), PATIENCE).is_err());
    wait_for("both refused", || setting.counts.now().refused_removed >= 2);
    assert!(kept.ask(&text("x"), PATIENCE).is_ok());
    assert_eq!(setting.counts.now().requests, 2);
}

/// Answers when it is told to.
struct Slow {
    asked: AtomicBool,
    may_answer: AtomicBool,
}

impl Answering for Slow {
    fn answer(&self, _: &Member, request: Message) -> Message {
        self.asked.store(true, Ordering::Release);
        let end = Instant::now() + PATIENCE;
        while !self.may_answer.load(Ordering::Acquire) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        request
    }
}

fn slow() -> Arc<Slow> {
    Arc::new(Slow { asked: AtomicBool::new(false), may_answer: AtomicBool::new(false) })
}

#[test]
fn a_peer_that_dies_ends_the_waiting_and_is_found_again() {
    let slow = slow();
    let mut setting = Setting::new(Arc::clone(&slow) as Arc<dyn Answering>, patient());
    let client = setting.client("one");
    let refused = std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.ask(&text("x"), PATIENCE));
        wait_for("the request", || slow.asked.load(Ordering::Acquire));
        drop(setting.server.take());
        asking.join().expect("no panic")
    });
    assert!(matches!(&refused, Err(error @ LinkError::Closed(_)) if !error.is_unsent()), "{refused:?}");
    let refused = client.ask(&text("x"), PATIENCE);
    assert!(matches!(refused, Err(LinkError::Unreachable { .. })), "{refused:?}");
    assert!(matches!(client.ask(&text("x"), PATIENCE), Err(LinkError::Pausing(_) | LinkError::Unreachable { .. })));
    slow.may_answer.store(true, Ordering::Release);
    let listener = TcpListener::bind(setting.address).expect("the port again");
    let own = trust(&setting.authority, node("two"), &setting.members);
    let _again = LinkServer::start(listener, own, patient(), Arc::default(), slow).expect("a server again");
    wait_for("the peer again", || client.ask(&text("x"), PATIENCE).is_ok());
}

#[test]
fn silent_peers_cost_a_bounded_time() {
    let slow = slow();
    let setting = Setting::new(Arc::clone(&slow) as Arc<dyn Answering>, patient());
    let client = setting.client("one");
    let late = client.ask(&text("x"), Duration::from_millis(50));
    assert!(matches!(&late, Err(error @ LinkError::Late(_)) if !error.is_unsent()), "{late:?}");
    slow.may_answer.store(true, Ordering::Release);
    assert!(client.ask(&text("y"), PATIENCE).is_ok());
    // One that takes the connection and says nothing.
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = trust(&setting.authority, node("one"), &Arc::new(Members::default()));
    let settings = LinkSettings { handshake_ms: 50, ..patient() };
    let address = deaf.local_addr().expect("an address");
    let client = LinkClient::new(node("two"), address, own, settings, Arc::default());
    let refused = client.ask(&text("x"), PATIENCE);
    assert!(matches!(refused, Err(LinkError::Handshake(HandshakeError::Late))), "{refused:?}");
}

#[test]
fn requests_and_links_above_the_bound_are_refused() {
    let slow = slow();
    let bounds = LinkSettings { requests_max: 2, links_max: 2, ..patient() };
    let setting = Setting::new(Arc::clone(&slow) as Arc<dyn Answering>, bounds);
    let client = setting.client("one");
    let begin = Barrier::new(4);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = || {
            begin.wait();
            client.ask(&text("x"), PATIENCE).expect("an answer")
        };
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        wait_for("two refused", || setting.counts.now().requests_busy == 2);
        slow.may_answer.store(true, Ordering::Release);
        asking.into_iter().map(|asking| asking.join().expect("no panic")).collect()
    });
    assert_eq!(answers.iter().filter(|answer| **answer == text("x")).count(), 2, "{answers:?}");
    let second = setting.client("three");
    assert!(second.ask(&text("x"), PATIENCE).is_ok());
    assert!(setting.client("four").ask(&text("x"), PATIENCE).is_err());
    assert_eq!(setting.counts.now().refused_too_many, 1);
}
