//! Relayed responses between two nodes, with messages that are lost, doubled and late.

use crate::wait_for;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weir_cluster::{
    Carrier, Carrying, Message, MoveId, NodeNumber, RelayId, RelaySettings, RelayState, RelayWord, Relaying,
    TransportError, WINDOW_BYTES,
};

/// The way from a node to the other one, which loses and doubles as a seed says.
#[derive(Default)]
struct Way {
    own: NodeNumber,
    other: OnceLock<std::sync::Weak<Carrier>>,
    faults: AtomicU64,
    is_cut: AtomicBool,
}

impl Carrying for Way {
    fn carry(&self, to: NodeNumber, word: RelayWord) -> Result<Message, TransportError> {
        let lost = || TransportError::NoAnswer { node: to, why: "a test".to_owned() };
        let state = self.faults.load(Ordering::Relaxed);
        let next = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(if state == 0 { 0 } else { 1 });
        self.faults.store(next, Ordering::Relaxed);
        let other = self.other.get().and_then(std::sync::Weak::upgrade).ok_or_else(lost)?;
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(lost());
        }
        match (next >> 60) % 6 {
            // It never arrives, its answer is lost, or it arrives twice.
            1 => Err(lost()),
            2 => {
                other.answer(self.own, &word);
                Err(lost())
            }
            3 => {
                other.answer(self.own, &word);
                Ok(other.answer(self.own, &word))
            }
            _ => Ok(other.answer(self.own, &word)),
        }
    }
}

const QUICK: RelaySettings = RelaySettings { silence: Duration::from_secs(2), unknown: Duration::from_millis(500) };

/// Two nodes, 1 and 2, and the ways from each.
fn nodes(seed: u64) -> ([Arc<Carrier>; 2], [Arc<Way>; 2]) {
    let way = |own| Arc::new(Way { own, faults: AtomicU64::new(seed), ..Way::default() });
    let ways = [way(1), way(2)];
    let nodes = ways.clone().map(|way| Arc::new(Carrier::start(way, QUICK).expect("threads")));
    for (way, other) in ways.iter().zip([1, 0]) {
        let _ = way.other.set(Arc::downgrade(&nodes[other]));
    }
    (nodes, ways)
}

const MOVE: MoveId = MoveId { giver: 1, number: 9 };

/// A response of node 1 that node 2 sends: the end of the server that makes it, and that of the one that sends it.
fn relay(nodes: &[Arc<Carrier>; 2], id: MoveId) -> (UnixStream, UnixStream) {
    let (server, node) = UnixStream::pair().expect("a pair");
    node.set_nonblocking(true).expect("sets");
    let mut taken = nodes[1].take_in(id, 1).expect("sockets");
    nodes[0].give(id, 2, vec![node.into()]);
    let sends = UnixStream::from(taken.remove(0));
    sends.set_nonblocking(false).expect("sets");
    (server, sends)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_byte_comes_once_and_in_order_whatever_is_lost(seed in 1_u64.., bytes in 0_usize..600_000) {
        let (nodes, _ways) = nodes(seed);
        let (mut server, mut sends) = relay(&nodes, MOVE);
        let content: Vec<u8> = (0..bytes as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let given = content.clone();
        let gives = std::thread::spawn(move || given.chunks(5_000).for_each(|piece| server.write_all(piece).expect("takes")));
        let mut come = Vec::new();
        sends.read_to_end(&mut come).expect("comes");
        gives.join().expect("gives");
        prop_assert!(come == content, "{} of {} bytes", come.len(), content.len());
        wait_for("the end is known to both", || nodes[0].under_way().0 + nodes[1].under_way().1 == 0);
        prop_assert_eq!((nodes[0].counts().ended, nodes[0].counts().broken), (1, 0));
    }
}

#[test]
fn a_client_that_does_not_read_holds_the_response_back() {
    let (nodes, _ways) = nodes(0);
    let (mut server, mut sends) = relay(&nodes, MOVE);
    server.set_nonblocking(true).expect("sets");
    let mut given = 0_usize;
    let mut give = || loop {
        match server.write(&[7; 16 << 10]) {
            Ok(bytes) => given += bytes,
            Err(_) => return given,
        }
    };
    let mut before = 0;
    wait_for("it is held back", || {
        let now = give();
        std::thread::sleep(Duration::from_millis(60));
        std::mem::replace(&mut before, now) == now
    });
    // Two sockets, whose buffers the kernel bounds, and a window at either side.
    assert!((WINDOW_BYTES..4 << 20).contains(&before), "{before}");
    let mut come = vec![0; before];
    sends.read_exact(&mut come).expect("comes");
    wait_for("it goes on", || give() > before);
}

#[test]
fn the_end_of_either_side_is_that_of_the_other() {
    let (nodes, ways) = nodes(0);
    // The client has gone: the server that makes the response hears it.
    let (mut server, sends) = relay(&nodes, MOVE);
    drop(sends);
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    assert_eq!(server.read(&mut [0]).expect("an end"), 0);
    // A node that was never told of the session; and one that is not the giver says nothing of its responses.
    let (mut server, node) = UnixStream::pair().expect("a pair");
    node.set_nonblocking(true).expect("sets");
    nodes[0].give(MoveId { number: 10, ..MOVE }, 2, vec![node.into()]);
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    server.write_all(b"x").expect("takes");
    assert_eq!(server.read(&mut [0]).expect("an end"), 0);
    let (mut server, _sends) = relay(&nodes, MoveId { number: 11, ..MOVE });
    let of = RelayId { id: MoveId { number: 11, ..MOVE }, place: 0 };
    let forged = weir_cluster::PieceOf { of, from: 0, bytes: b"forged".to_vec(), is_last: true };
    let Message::Relay(answer) = nodes[1].answer(3, &RelayWord::Pieces(vec![forged])) else { panic!("no credits") };
    let RelayWord::Credits(credits) = &*answer else { panic!("no credits") };
    assert_eq!(credits[0].state, RelayState::Unknown);
    assert_eq!(nodes[1].under_way().1, 1, "the response goes on");
    // Neither hears the other any more: both break it off.
    ways.iter().for_each(|way| way.is_cut.store(true, Ordering::Relaxed));
    server.write_all(b"x").expect("takes");
    wait_for("both break it off", || nodes[0].under_way().0 + nodes[1].under_way().1 == 0);
    assert_eq!(nodes[0].counts().broken, 2);
    assert_eq!(nodes[1].counts().broken, 1);
}
