//! Sessions that leave rustls in the middle, with every suite that the server offers.

use super::records::{APPLICATION_DATA, Direction, Suite};
use super::{Engine, Session, Stays, TlsSession, TrafficSecrets};
use crate::counters::{Counters, LoopCounters};
use crate::exchange::send::Sink;
use proptest::prelude::*;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConnection, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use weir_testkit::Certificate;
use zeroize::Zeroizing;

/// All suites, and with which kind of key.
const SUITES: [u16; 9] = [0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xcca9, 0xc02f, 0xc030, 0xcca8];
/// Turns of an exchange, at most.
const TURNS_MAX: usize = 10_000;

/// Both ends of one session.
struct Pair {
    client: ClientConnection,
    client_socket: UnixStream,
    session: Session,
    socket: UnixStream,
    counters: Counters,
    /// What the client has received of records.
    ciphertext: Vec<u8>,
    plaintext: Vec<u8>,
}

impl Pair {
    fn new(certificate: &Certificate, suite: u16, is_movable: bool) -> Self {
        let mut provider = default_provider();
        provider.cipher_suites.retain(|known| u16::from(known.suite()) == suite);
        let provider = Arc::new(provider);
        let chain = vec![CertificateDer::from_pem_file(certificate.certificate()).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(certificate.key()).expect("a key");
        let versions = rustls::ALL_VERSIONS.iter().copied();
        let is_1_3 = suite >> 8 == 0x13;
        let versions: Vec<_> =
            versions.filter(|known| (known.version == rustls::ProtocolVersion::TLSv1_3) == is_1_3).collect();
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&versions);
        let server = server.expect("versions").with_no_client_auth().with_single_cert(chain.clone(), key);
        let mut server = server.expect("a configuration");
        server.enable_secret_extraction = is_movable;
        server.key_log = Arc::new(TrafficSecrets);
        let mut roots = RootCertStore::empty();
        roots.add(chain[0].clone()).expect("a root");
        let client = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions);
        let client = client.expect("versions").with_root_certificates(roots).with_no_client_auth();
        let client =
            ClientConnection::new(Arc::new(client), "localhost".try_into().expect("a name")).expect("a client");
        let (client_socket, socket) = UnixStream::pair().expect("a pair");
        for one in [&client_socket, &socket] {
            one.set_nonblocking(true).expect("does not block");
        }
        let counters = Counters(Arc::from([LoopCounters::default()]));
        let session = Session::new(&Arc::new(server), &counters, 0).expect("a session");
        let mut pair =
            Self { client, client_socket, session, socket, counters, ciphertext: Vec::new(), plaintext: Vec::new() };
        pair.exchange(|pair| !pair.client.is_handshaking() && pair.session.leaves_handshake());
        pair
    }

    /// Has both ends work until something holds; what the server received meanwhile.
    fn exchange(&mut self, is_over: impl Fn(&Self) -> bool) -> Vec<u8> {
        let mut received = Vec::new();
        for _ in 0..TURNS_MAX {
            while self.client.wants_write() {
                match self.client.write_tls(&mut self.client_socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            let mut buffer = [0; 1000];
            match self.session.receive(self.socket.as_raw_fd(), &mut buffer) {
                Ok(got) => received.extend_from_slice(&buffer[..got]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            self.client_reads();
            if is_over(self) {
                return received;
            }
        }
        panic!("it does not come to an end; {} bytes were received", received.len());
    }

    fn client_reads(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(got) = self.client_socket.read(&mut buffer) {
            if got == 0 {
                break;
            }
            self.ciphertext.extend_from_slice(&buffer[..got]);
            let mut rest = &buffer[..got];
            while !rest.is_empty() {
                self.client.read_tls(&mut rest).expect("reads");
                self.client.process_new_packets().expect("opens");
                let _ = self.client.reader().read_to_end(&mut self.plaintext);
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let fd = self.socket.as_raw_fd();
        let mut copied = Vec::new();
        let mut sent = 0;
        while sent < bytes.len() {
            // In two pieces, which is what head and content are.
            let (one, other) = bytes[sent..].split_at((bytes.len() - sent) / 3);
            let pieces = [IoSlice::new(one), IoSlice::new(other)];
            sent += self.session.sealing(fd, &mut copied).send(&pieces, false).expect("seals");
            self.client_reads();
        }
        self.exchange(|pair| !pair.session.holds_output());
    }

    /// What the client has received of the application's bytes.
    fn read(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.plaintext)
    }

    fn write(&mut self, bytes: &[u8], is_there: usize) -> Vec<u8> {
        self.client.writer().write_all(bytes).expect("writes");
        let mut received = Vec::new();
        for _ in 0..TURNS_MAX {
            received.extend(self.exchange(|pair| !pair.client.wants_write()));
            if received.len() >= is_there {
                break;
            }
        }
        received
    }

    /// Has the session leave rustls, and go on as another process would.
    fn moves(&mut self) {
        self.session.leave_rustls().expect("leaves");
        let bytes = self.session.write_down().expect("has left");
        self.session = Session::read_back(&bytes, &self.counters, 0).expect("reads back");
    }
}

impl Session {
    fn leaves_handshake(&self) -> bool {
        self.state != super::State::Handshake
    }
}

fn each_suite(body: impl Fn(Pair)) {
    let elliptic = Certificate::self_signed().expect("openssl makes one");
    let rsa = Certificate::self_signed_by_rsa().expect("openssl makes one");
    for suite in SUITES {
        let is_rsa = matches!(suite, 0xc02f | 0xc030 | 0xcca8);
        println!("suite {suite:x}");
        body(Pair::new(if is_rsa { &rsa } else { &elliptic }, suite, true));
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn a_session_goes_on_in_both_directions_wherever_it_moves() {
    each_suite(|mut pair| {
        let content = bytes(100_000);
        assert_eq!(pair.write(b"first", 5), b"first");
        pair.send(&content[..50_000]);
        for part in content[50_000..].chunks(10_000) {
            pair.moves();
            pair.send(part);
            assert_eq!(pair.write(part, part.len()), part);
        }
        assert!(pair.read() == content, "the client has other bytes");
        let fd = pair.socket.as_raw_fd();
        pair.session.say_goodbye(fd);
        pair.client_reads();
        let mut rest = [0; 1];
        assert_eq!(pair.client.reader().read(&mut rest).expect("the end is meant"), 0);
    });
}

#[test]
fn keys_are_updated_before_and_after_it_moves() {
    each_suite(|mut pair| {
        if pair.client.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_3) {
            return;
        }
        for round in 0..6 {
            pair.client.refresh_traffic_keys().expect("has other keys");
            assert_eq!(pair.write(b"question", 8), b"question", "round {round}");
            if round % 2 == 1 {
                pair.moves();
            }
            pair.send(b"answer");
            assert_eq!(pair.read(), b"answer", "round {round}");
        }
    });
}

#[test]
fn an_answer_to_an_update_that_was_not_sent_yet_is_not_lost() {
    each_suite(|mut pair| {
        if pair.client.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_3) {
            return;
        }
        // It asks for other keys of ours as well: what our side owes is queued until something is sent.
        pair.client.refresh_traffic_keys().expect("has other keys");
        assert_eq!(pair.write(b"x", 1), b"x");
        pair.moves();
        pair.send(b"answer");
        assert_eq!(pair.read(), b"answer");
    });
}

#[test]
fn a_record_that_is_cut_by_the_move_is_opened_after_it() {
    each_suite(|mut pair| {
        let message = bytes(9000);
        pair.client.writer().write_all(&message).expect("writes");
        let mut record = Vec::new();
        while pair.client.wants_write() {
            pair.client.write_tls(&mut record).expect("writes");
        }
        let mut received = Vec::new();
        let mut buffer = [0; 20_000];
        // Cut in its header, in its middle and before its last byte.
        for (from, to) in [(0, 3), (3, 5), (5, 700), (700, record.len() - 1), (record.len() - 1, record.len())] {
            pair.client_socket.write_all(&record[from..to]).expect("sends");
            if let Ok(got) = pair.session.receive(pair.socket.as_raw_fd(), &mut buffer) {
                received.extend_from_slice(&buffer[..got]);
            }
            pair.moves();
        }
        if let Ok(got) = pair.session.receive(pair.socket.as_raw_fd(), &mut buffer) {
            received.extend_from_slice(&buffer[..got]);
        }
        assert!(received == message, "{} bytes were received", received.len());
    });
}

#[test]
fn plaintext_that_was_not_read_goes_along() {
    each_suite(|mut pair| {
        let message = bytes(3000);
        pair.client.writer().write_all(&message).expect("writes");
        while pair.client.wants_write() {
            pair.client.write_tls(&mut pair.client_socket).expect("writes");
        }
        let (mut received, mut buffer) = (Vec::new(), [0; 100]);
        for _ in 0..100 {
            match pair.session.receive(pair.socket.as_raw_fd(), &mut buffer) {
                Ok(got) => received.extend_from_slice(&buffer[..got]),
                Err(_) => break,
            }
            pair.moves();
        }
        assert!(received == message, "{} bytes were received", received.len());
    });
}

#[test]
fn records_are_those_that_rustls_makes() {
    each_suite(|mut pair| {
        let plain = bytes(1000);
        let before = pair.ciphertext.len();
        pair.send(&plain);
        let of_rustls = pair.ciphertext[before..].to_vec();
        pair.session.leave_rustls().expect("leaves");
        let Engine::Own(own) = &pair.session.engine else { panic!("it has left") };
        let (suite, transmit) = own.transmit();
        let mut again = Direction::new(suite, transmit.secret(), transmit.generation(), transmit.sequence() - 1)
            .expect("has the right length");
        let mut sealed = Vec::new();
        again.seal(APPLICATION_DATA, plain.len(), &mut sealed, |out| out.extend_from_slice(&plain));
        assert!(sealed == of_rustls, "{suite:?}: {} and {} bytes", sealed.len(), of_rustls.len());
    });
}

/// What of a response is sealed to a socket, whose other end this returns with what the session wrote.
fn sealed_elsewhere(pair: &Pair, session: &TlsSession, response: &[u8]) -> (Session, Vec<u8>) {
    let mut session = Session::read_back(session, &pair.counters, 0).expect("reads back");
    let (mut other, socket) = UnixStream::pair().expect("a pair");
    [&other, &socket].iter().for_each(|one| one.set_nonblocking(true).expect("does not block"));
    let (mut copied, mut sealed, mut sent) = (Vec::new(), Vec::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    while sent < response.len() || session.holds_output() {
        // Pieces of other sizes than those of the first process.
        let (one, two) = response[sent..].split_at((response.len() - sent) / 7);
        let pieces = [IoSlice::new(one), IoSlice::new(two)];
        sent += session.sealing(socket.as_raw_fd(), &mut copied).send(&pieces, false).expect("seals");
        while let Ok(got @ 1..) = other.read(&mut buffer) {
            sealed.extend_from_slice(&buffer[..got]);
        }
        let _ = session.push(socket.as_raw_fd());
    }
    (session, sealed)
}

#[test]
fn another_process_makes_the_same_records_from_any_byte_on() {
    each_suite(|mut pair| {
        let response = bytes(150_300);
        let end = response.len() as u64;
        pair.send(b"an earlier response");
        // Keys of a later generation, where there are any.
        if pair.client.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3) {
            pair.client.refresh_traffic_keys().expect("has other keys");
        }
        assert_eq!(pair.write(b"a request", 9), b"a request");
        pair.exchange(|pair| !pair.session.holds_output());
        pair.send(b"another one");
        let before = pair.ciphertext.len();
        // A head, and a file in records, of which none is cut where one of the other process would be.
        let fd = pair.socket.as_raw_fd();
        pair.session.sealing(fd, &mut Vec::new()).send(&[IoSlice::new(&response[..300])], true).expect("seals");
        pair.session.sealing(fd, &mut Vec::new()).send(&[IoSlice::new(&response[300..65_836])], false).expect("seals");
        let fixed = pair.session.fix_records(65_836, end, 0).expect("are fixed");
        pair.send(&response[65_836..90_001]);
        let again = pair.session.fix_records(90_001, end, 0).expect("for a third process");
        assert!(again.session == fixed.session && again.bytes == fixed.bytes && again.sent > fixed.sent);
        pair.send(&response[90_001..]);
        let sealed = pair.ciphertext[before..].to_vec();
        assert_eq!(sealed.len() as u64, fixed.bytes);
        assert!(pair.read().ends_with(&response), "the client has other bytes");
        let one = fixed.bytes - sealed_bytes_behind(&pair, 300);
        for offset in [0, 1, one - 1, one, one + 1, one + 20_000, fixed.sent, fixed.bytes - 70_000, fixed.bytes - 1] {
            let (placed, at) = fixed.session.placed(offset, end).expect("lies in its records");
            let (_, others) = sealed_elsewhere(&pair, &placed, &response[at as usize..]);
            assert!(others == sealed[offset as usize..], "from {offset} on: {} bytes", others.len());
        }
        assert!(fixed.session.placed(fixed.bytes, end).is_none(), "nothing is left there");
        assert!(fixed.session.placed(0, end + 1).is_none(), "of another response");
        let (placed, _) = fixed.session.placed(9, end).expect("lies in its records");
        assert!(placed.placed(0, end).is_none(), "it has its place");
    });
}

/// Bytes of the records of a response of 150,300 bytes behind its head.
fn sealed_bytes_behind(pair: &Pair, head: u64) -> u64 {
    let Engine::Own(own) = &pair.session.engine else { panic!("it has left") };
    let body = 150_300 - head;
    body + body.div_ceil(16 << 10) * own.transmit().0.expansion() as u64
}

#[test]
fn a_session_that_another_process_may_have_seals_nothing_else() {
    each_suite(|mut pair| {
        let response = bytes(40_000);
        pair.send(&response[..16 << 10]);
        pair.session.fix_records(16 << 10, 40_000, 0).expect("are fixed");
        let fd = pair.socket.as_raw_fd();
        let mut copied = Vec::new();
        let before = pair.ciphertext.len();
        // In the middle of the response: its end is not said, and nothing longer than it is taken.
        pair.session.say_goodbye(fd);
        pair.client_reads();
        assert_eq!(pair.ciphertext.len(), before, "an alert would have the number of a record of the response");
        let longer = [&response[16 << 10..], b"x"].concat();
        assert!(pair.session.sealing(fd, &mut copied).send(&[IoSlice::new(&longer)], false).is_err());
    });
    each_suite(|mut pair| {
        let response = bytes(40_000);
        pair.send(&response[..16 << 10]);
        pair.session.fix_records(16 << 10, 40_000, 0).expect("are fixed");
        let fd = pair.socket.as_raw_fd();
        let rest = [IoSlice::new(&response[16 << 10..])];
        pair.session.sealing(fd, &mut Vec::new()).send(&rest, false).expect("seals");
        // Behind it, while the client has not got all of it.
        pair.session.say_goodbye(fd);
        let moved = pair.session.write_down().expect("has left");
        pair.client_reads();
        assert!(pair.read() == response && !pair.session.stays().is_some_and(|stays| stays == Stays::Ended));
        let other = Session::read_back(&moved, &pair.counters, 0).expect("reads back");
        assert!(!other.may_seal(Some((0, 5))) && other.may_seal(None), "also where it moves");
        assert!(pair.session.sealing(fd, &mut Vec::new()).send(&[IoSlice::new(b"other")], false).is_err());
        // The client asks again, which another process would know of.
        assert_eq!(pair.write(b"question", 8), b"question");
        pair.send(b"answer");
        assert_eq!(pair.read(), b"answer");
        pair.session.say_goodbye(fd);
        pair.client_reads();
        assert_eq!(pair.client.reader().read(&mut [0]).expect("the end is meant"), 0);
    });
}

#[test]
fn the_end_is_said_once_the_client_has_all_of_the_response() {
    each_suite(|mut pair| {
        pair.send(b"begin");
        pair.session.fix_records(5, 8, 0).expect("are fixed");
        pair.send(b"end");
        assert_eq!(pair.read(), b"beginend");
        let fd = pair.socket.as_raw_fd();
        pair.session.say_goodbye(fd);
        pair.client_reads();
        assert_eq!(pair.client.reader().read(&mut [0]).expect("the end is meant"), 0);
    });
}

#[test]
fn records_are_not_fixed_where_another_process_could_not_make_them() {
    use super::NotFixed;
    each_suite(|mut pair| {
        // A part of a request behind the response.
        let fix = |pair: &mut Pair, taken, unacknowledged| {
            pair.session.fix_records(taken, 100_000, unacknowledged).map(|fixed| fixed.sent)
        };
        pair.send(b"three short");
        pair.send(b"records of");
        pair.send(b"a response");
        let known = fix(&mut pair, 31, 0).expect("are fixed");
        assert!(known > 20 && known < 80, "two of them are known: {known}");
        assert_eq!(fix(&mut pair, 31, known + 1), Err(NotFixed::Earlier), "the client lacks the first one");
        assert_eq!(fix(&mut pair, 30, 0), Err(NotFixed::Keys), "of another response");
        pair.client.writer().write_all(b"more").expect("writes");
        let mut record = Vec::new();
        pair.client.write_tls(&mut record).expect("writes");
        pair.client_socket.write_all(&record[..9]).expect("sends");
        let _ = pair.session.receive(pair.socket.as_raw_fd(), &mut [0; 100]);
        assert_eq!(fix(&mut pair, 31, 0), Err(NotFixed::Asked));
    });
    let elliptic = Certificate::self_signed().expect("openssl makes one");
    let mut pair = Pair::new(&elliptic, 0x1301, false);
    pair.send(b"begin");
    assert_eq!(pair.session.fix_records(5, 100, 0).map(drop), Err(NotFixed::Stays));
    pair.send(b"end");
    assert_eq!(pair.read(), b"beginend");
}

#[test]
fn a_session_that_may_not_move_goes_on() {
    let elliptic = Certificate::self_signed().expect("openssl makes one");
    let mut pair = Pair::new(&elliptic, 0x1301, false);
    assert_eq!(pair.session.leave_rustls(), Err(Stays::NotKept));
    pair.send(b"answer");
    assert_eq!(pair.read(), b"answer");
    assert!(pair.session.write_down().is_none());
}

#[test]
fn what_is_no_record_is_refused_with_an_alert() {
    each_suite(|mut pair| {
        pair.moves();
        pair.client_socket.write_all(&[23, 3, 3, 0, 40]).expect("sends");
        pair.client_socket.write_all(&[0; 40]).expect("sends");
        let refused = pair.session.receive(pair.socket.as_raw_fd(), &mut [0; 100]).expect_err("is refused");
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
        let mut record = [0; 100];
        let got = pair.client_socket.read(&mut record).expect("an alert came");
        let mut rest = &record[..got];
        pair.client.read_tls(&mut rest).expect("reads");
        let told = pair.client.process_new_packets().expect_err("is an alert");
        assert_eq!(told, rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac));
    });
}

#[test]
fn a_flood_of_empty_records_ends() {
    let elliptic = Certificate::self_signed().expect("openssl makes one");
    let mut pair = Pair::new(&elliptic, 0x1302, true);
    pair.moves();
    for _ in 0..40 {
        pair.client.refresh_traffic_keys().expect("has other keys");
        while pair.client.wants_write() {
            pair.client.write_tls(&mut pair.client_socket).expect("writes");
        }
    }
    let refused = pair.session.receive(pair.socket.as_raw_fd(), &mut [0; 100]).expect_err("is refused");
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
}

proptest! {
    #[test]
    fn no_bytes_bring_down_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let counters = Counters(Arc::from([LoopCounters::default()]));
        let written = TlsSession(Zeroizing::new(bytes));
        if let Some(session) = Session::read_back(&written, &counters, 0) {
            prop_assert_eq!(session.write_down(), Some(written));
        }
    }

    #[test]
    fn the_rest_of_a_record_is_what_is_behind_the_last_whole_one(
        lengths in proptest::collection::vec(0_u16..3000, 0..6),
        cut in 0_usize..20_000,
        steps in proptest::collection::vec(1_usize..2000, 1..40),
    ) {
        let mut stream = Vec::new();
        let mut starts = vec![0];
        for length in lengths {
            stream.extend_from_slice(&[23, 3, 3]);
            stream.extend_from_slice(&length.to_be_bytes());
            stream.resize(stream.len() + usize::from(length), 7);
            starts.push(stream.len());
        }
        stream.truncate(cut);
        let mut kept = super::Kept::default();
        let (mut rest, mut step) = (stream.as_slice(), steps.iter().cycle());
        while !rest.is_empty() {
            let (now, after) = rest.split_at(rest.len().min(*step.next().unwrap_or(&1)));
            kept.pass(now);
            rest = after;
        }
        let start = starts.iter().rfind(|start| **start <= stream.len()).copied().unwrap_or(0);
        prop_assert_eq!(kept.tail(), &stream[start..]);
    }
}

#[test]
fn a_suite_of_others_is_none() {
    assert!(Suite::of(0x002f).is_none() && Suite::of(0x1304).is_none());
    assert!(Direction::new(Suite::of(0x1301).expect("is known"), &[0; 31], 0, 0).is_none());
}
