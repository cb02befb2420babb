use super::frames::*;
use super::*;
use crate::export::error::ExportError;
use crate::export::testing::transaction;
use crate::transaction::Transaction;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn key(word: &str) -> Key {
    Key::new(Some(word.repeat(4).as_bytes())).expect("long enough")
}

fn acceptor(word: &str) -> Acceptor {
    Acceptor::start("127.0.0.1:0".parse().expect("an address"), key(word)).expect("it listens")
}

fn peer(address: SocketAddr, word: &str) -> Peer {
    Peer::start(&address.to_string(), key(word)).expect("it starts")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_one_tells_the_other_hears_and_acknowledges() {
    let acceptor = acceptor("seven");
    let peer = peer(acceptor.address, "seven");
    let told: Vec<Transaction> = (0..1000).map(|number| transaction("shop", "buy", number)).collect();
    told.iter().for_each(|one| peer.push(frame(one).as_ref()));
    let mut heard = Vec::new();
    until("all are there", || {
        heard.extend(std::iter::from_fn(|| acceptor.next()));
        heard.len() == told.len()
    });
    assert_eq!(heard, told, "in their order, whole");
    until("all are acknowledged", || peer.counts.sent.load(Ordering::Relaxed) == 1000);
    peer.finish();
    assert_eq!([&peer.counts.dropped, &peer.counts.lost].map(|count| count.load(Ordering::Relaxed)), [0, 0]);
    until("it has gone", || acceptor.counts.connected.load(Ordering::Relaxed) == 0);
    assert_eq!(acceptor.counts.refused.load(Ordering::Relaxed), 0, "an end in order is no fault");
}

#[test]
fn who_has_another_key_is_told_nothing_and_tells_nothing() {
    let acceptor = acceptor("seven");
    let peer = peer(acceptor.address, "eight");
    peer.push(frame(&transaction("shop", "buy", 1)).as_ref());
    until("it says so", || peer.counts.error().is_some_and(|why| why.contains("same key")));
    assert!(acceptor.counts.refused.load(Ordering::Relaxed) > 0 && acceptor.next().is_none());
    peer.finish();
    assert_eq!(peer.counts.dropped.load(Ordering::Relaxed), 1, "what waits at the end is counted");
    assert!(matches!(Key::new(Some(b"short")), Err(ExportError::Key { .. })));
    assert!(matches!(Peer::start("nowhere", key("seven")), Err(ExportError::Peer { .. })));
    assert!(!format!("{:?}", key("seven")).contains("seven"));
}

/// A connection that has greeted with the right key, and the session.
fn greeted(acceptor: &Acceptor) -> (TcpStream, Session) {
    let stream = TcpStream::connect(acceptor.address).expect("it listens");
    let session = greet(&stream, &key("seven")).expect("the same key");
    (stream, session)
}

#[test]
fn what_was_changed_or_said_before_is_refused() {
    let acceptor = acceptor("seven");
    let json = frame(&transaction("shop", "buy", 1)).expect("it is small");
    let refused = |number: u64| until("it is refused", || acceptor.counts.refused.load(Ordering::Relaxed) == number);
    // Said twice.
    let (stream, session) = greeted(&acceptor);
    send(&stream, &session, 0, &json).expect("it takes it");
    assert_eq!(read_exactly::<8>(&stream).expect("it acknowledges"), 1u64.to_be_bytes());
    send(&stream, &session, 0, &json).expect("it takes it");
    refused(1);
    // Changed on the way.
    let (mut stream, session) = greeted(&acceptor);
    let proof = session.proof("frame", 0, &json);
    let changed = String::from_utf8_lossy(&json).replace("buy", "pay");
    let bytes = [&(changed.len() as u32).to_be_bytes()[..], &proof, changed.as_bytes()].concat();
    stream.write_all(&bytes).expect("it takes it");
    refused(2);
    // Too large, and no transaction.
    let (mut stream, _) = greeted(&acceptor);
    stream.write_all(&[&u32::MAX.to_be_bytes()[..], &[0; PROOF_BYTES]].concat()).expect("it takes it");
    refused(3);
    let (stream, session) = greeted(&acceptor);
    send(&stream, &session, 0, b"{}").expect("it takes it");
    refused(4);
    // No greeting at all.
    let mut stream = TcpStream::connect(acceptor.address).expect("it listens");
    stream.write_all(&[7; 64]).expect("it takes it");
    refused(5);
    assert_eq!(std::iter::from_fn(|| acceptor.next()).count(), 1);
}

#[test]
fn transactions_for_a_missing_peer_are_bounded_and_counted() {
    let missing = SocketAddr::from(([127, 0, 0, 1], weir_testkit::free_port()));
    let peer = peer(missing, "seven");
    let one = frame(&transaction("shop", "buy", 1));
    (0..10_000).for_each(|_| peer.push(one.as_ref()));
    peer.push(None);
    until("it says so", || peer.counts.error().is_some_and(|why| why.contains("no agent listens there")));
    let dropped = peer.counts.dropped.load(Ordering::Relaxed);
    assert!((5000..10_001).contains(&dropped), "{dropped}");
    let begin = Instant::now();
    peer.finish();
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    assert_eq!(peer.counts.dropped.load(Ordering::Relaxed), 10_001);
}
