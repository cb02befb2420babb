//! Relayed responses between two nodes, with messages that are lost, doubled and late.

use crate::wait_for;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weir_cluster::{
    Carrier, Carrying, Message, MoveId, NodeNumber, RelayId, RelaySettings, RelayState, RelayWord, Relaying, SameRelay,
    TakenRelay, TransportError, Turning, WINDOW_BYTES,
};
use weir_testkit::seeded::Choice;

/// The way from a node to the others, which loses and doubles as a seed says.
#[derive(Default)]
struct Way {
    own: NodeNumber,
    others: OnceLock<Vec<std::sync::Weak<Carrier>>>,
    faults: AtomicU64,
    is_cut: AtomicBool,
    /// The node that cannot be reached from here.
    lacks: AtomicU64,
}

impl Carrying for Way {
    fn carry(&self, to: NodeNumber, word: RelayWord) -> Result<Message, TransportError> {
        let lost = || TransportError::NoAnswer { node: to, why: "a test".to_owned() };
        let state = self.faults.load(Ordering::Relaxed);
        let next = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(if state == 0 { 0 } else { 1 });
        self.faults.store(next, Ordering::Relaxed);
        let other = self.others.get().and_then(|others| others.get(usize::from(to) - 1)?.upgrade()).ok_or_else(lost)?;
        if self.is_cut.load(Ordering::Relaxed) || self.lacks.load(Ordering::Relaxed) == u64::from(to) {
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
    some_nodes(seed)
}

/// So many nodes, numbered from 1, and the ways from each.
fn some_nodes<const N: usize>(seed: u64) -> ([Arc<Carrier>; N], [Arc<Way>; N]) {
    let way = |at| Arc::new(Way { own: at as NodeNumber + 1, faults: AtomicU64::new(seed), ..Way::default() });
    let ways: [Arc<Way>; N] = std::array::from_fn(way);
    let nodes = ways.clone().map(|way| Arc::new(Carrier::start(way, QUICK).expect("threads")));
    for way in &ways {
        let _ = way.others.set(nodes.iter().map(Arc::downgrade).collect());
    }
    (nodes, ways)
}

/// A response that stands still for so long has stopped: longer than nodes wait for each other.
const STANDING: Duration = Duration::from_secs(20);

const MOVE: MoveId = MoveId { giver: 1, number: 9 };

fn of_server(socket: UnixStream) -> TakenRelay {
    TakenRelay { socket: socket.into(), before: Vec::new() }
}

/// A response of node 1 that node 2 sends: the end of the server that makes it, and that of the one that sends it.
fn relay(nodes: &[Arc<Carrier>; 2], id: MoveId) -> (UnixStream, UnixStream) {
    let (server, node) = UnixStream::pair().expect("a pair");
    node.set_nonblocking(true).expect("sets");
    let mut taken = nodes[1].take_in(id, 1).expect("sockets");
    nodes[0].give(id, 2, vec![of_server(node)]);
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
    nodes[0].give(MoveId { number: 10, ..MOVE }, 2, vec![of_server(node)]);
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

/// What the server of a node that sends does when its session moves on: it gives its socket, with what it has read of it and
/// not sent. The socket of the next one.
fn pass_on(
    nodes: &[Arc<Carrier>],
    (from, to, number): (usize, usize, u64),
    (sends, before): (UnixStream, Vec<u8>),
) -> UnixStream {
    let id = MoveId { giver: from as NodeNumber + 1, number };
    let next = nodes[to].take_in(id, 1).expect("sockets").remove(0);
    sends.set_nonblocking(true).expect("sets");
    nodes[from].give(id, to as NodeNumber + 1, vec![TakenRelay { socket: sends.into(), before }]);
    let next = UnixStream::from(next);
    next.set_nonblocking(false).expect("sets");
    next
}

/// A response that goes on while its session moves: to which node each time, by steps from one to the next, and how much
/// its server has read by then, and has read and not sent. What is wrong with what comes, or with the end.
fn moved_about(seed: u64, moves: &[(usize, usize, usize)]) -> Result<(), String> {
    let (nodes, _ways) = some_nodes::<4>(seed);
    let (mut server, mut sends) = relay(&[Arc::clone(&nodes[0]), Arc::clone(&nodes[1])], MOVE);
    let content: Vec<u8> = (0..600_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let given = content.clone();
    server.set_write_timeout(Some(STANDING)).expect("sets");
    let gives = std::thread::spawn(move || -> Result<(), String> {
        for piece in given.chunks(5_000) {
            server.write_all(piece).map_err(|error| format!("it takes nothing more: {error}"))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    let (mut come, mut at) = (Vec::new(), 1);
    let read = |sends: &mut UnixStream, bytes: &mut [u8], come: usize| {
        sends.set_read_timeout(Some(STANDING)).expect("sets");
        sends.read_exact(bytes).map_err(|error| format!("nothing comes behind {come} bytes: {error}"))
    };
    for (number, &(step, sent, held)) in (100..).zip(moves) {
        let mut some = vec![0; sent + held];
        read(&mut sends, &mut some, come.len())?;
        let before = some.split_off(sent);
        come.extend(some);
        let to = (at + step) % 4;
        sends = pass_on(&nodes, (at, to, number), (sends, before));
        at = to;
    }
    let mut rest = vec![0; content.len() - come.len()];
    read(&mut sends, &mut rest, come.len())?;
    come.extend(rest);
    let more = sends.read(&mut [0]).map_err(|error| format!("no end comes: {error}"))?;
    gives.join().map_err(|_| "it panics".to_owned())??;
    if come != content || more > 0 {
        let same = come.iter().zip(&content).take_while(|(one, other)| one == other).count();
        return Err(format!("other bytes behind {same}, and {more} more"));
    }
    let deadline = std::time::Instant::now() + STANDING;
    while !nodes.iter().all(|node| node.under_way() == (0, 0)) {
        if std::time::Instant::now() > deadline {
            return Err(format!("the end is not known to all: {nodes:?}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nodes_in_between_get_out_of_the_way_and_no_byte_is_lost(
        // Without faults as well.
        seed in prop_oneof![Just(0), 1_u64..],
        moves in proptest::collection::vec((1_usize..4, 0_usize..40_000, 0_usize..3_000), 1..5),
    ) {
        prop_assert_eq!(moved_about(seed, &moves), Ok(()));
    }
}

/// The runs that [`nodes_in_between_get_out_of_the_way_and_no_byte_is_lost`] does by the dozen, by the hundred.
#[test]
#[ignore = "make soak-relays runs it"]
fn responses_move_about_while_a_third_of_the_messages_is_lost() {
    let asked = |name, usual| std::env::var(name).map_or(usual, |value| value.parse().expect("a number"));
    let (first, runs) = (asked("WEIR_RELAY_SEED", 1), asked("WEIR_RELAY_RUNS", 300));
    let (next, wrong) = (AtomicU64::new(first), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + runs {
                        return;
                    }
                    let mut choice = Choice::from_seed(seed);
                    let count = choice.below(5) as usize;
                    let mut drawn = |most: u64| choice.below(most) as usize;
                    let moves: Vec<_> = (0..=count).map(|_| (1 + drawn(3), drawn(40_000), drawn(3_000))).collect();
                    if let Err(error) = moved_about(seed, &moves) {
                        wrong.fetch_add(1, Ordering::Relaxed);
                        eprintln!("WEIR_RELAY_SEED={seed}: {error}; {moves:?}");
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner();
    eprintln!("{runs} responses that moved, {wrong} of them wrong");
    assert_eq!(wrong, 0);
}

#[test]
fn a_node_in_between_may_end_once_it_is_out_of_the_way() {
    let (nodes, ways) = some_nodes::<3>(0);
    let (mut server, mut sends) = relay(&[Arc::clone(&nodes[0]), Arc::clone(&nodes[1])], MOVE);
    server.write_all(b"one two ").expect("takes");
    let mut come = [0; 6];
    sends.read_exact(&mut come).expect("comes");
    let mut sends = pass_on(&nodes, (1, 2, 100), (sends, b"tw".to_vec()));
    let mut more = [0; 4];
    sends.read_exact(&mut more).expect("comes");
    assert_eq!(&more, b"two ", "what was read and not sent, then the rest");
    // Nothing more is given, and the node is out of the way all the same.
    wait_for("it is out of the way", || nodes[1].under_way() == (0, 0));
    assert_eq!(nodes[1].counts().shortened, 1);
    assert_eq!((nodes[0].under_way(), nodes[2].under_way()), ((1, 0), (0, 1)));
    ways[1].is_cut.store(true, Ordering::Relaxed);
    // Longer than a node may be silent.
    std::thread::sleep(QUICK.silence + Duration::from_millis(500));
    server.write_all(b"three").expect("takes");
    drop(server);
    let mut rest = Vec::new();
    sends.read_to_end(&mut rest).expect("comes");
    assert_eq!(rest, b"three");
    wait_for("the end is known to both", || nodes.iter().all(|node| node.under_way() == (0, 0)));
    assert_eq!((nodes[0].counts().ended, nodes[0].counts().broken), (1, 0));
}

#[test]
fn what_a_node_in_between_has_waits_for_a_client_that_does_not_read() {
    let (nodes, _ways) = some_nodes::<3>(0);
    let (mut server, sends) = relay(&[Arc::clone(&nodes[0]), Arc::clone(&nodes[1])], MOVE);
    let content: Vec<u8> = (0..2_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let given = content.clone();
    let gives = std::thread::spawn(move || server.write_all(&given).expect("takes"));
    // Both nodes are full.
    std::thread::sleep(Duration::from_millis(300));
    let mut sends = pass_on(&nodes, (1, 2, 100), (sends, Vec::new()));
    // Longer than a node may be silent: the first one says nothing to the second one any more.
    std::thread::sleep(QUICK.silence + Duration::from_millis(700));
    let mut come = Vec::new();
    sends.read_to_end(&mut come).expect("comes");
    gives.join().expect("gives");
    assert!(come == content, "{} bytes", come.len());
    wait_for("the end is known to all", || nodes.iter().all(|node| node.under_way() == (0, 0)));
    assert!(nodes.iter().all(|node| node.counts().broken == 0), "{nodes:?}");
    assert_eq!(nodes[1].counts().shortened, 1);
}

#[test]
fn a_node_that_cannot_be_reached_by_the_first_one_gets_the_response_through_the_second_one() {
    let (nodes, ways) = some_nodes::<3>(0);
    let (mut server, sends) = relay(&[Arc::clone(&nodes[0]), Arc::clone(&nodes[1])], MOVE);
    ways[0].lacks.store(3, Ordering::Relaxed);
    let mut sends = pass_on(&nodes, (1, 2, 100), (sends, Vec::new()));
    for number in 0..30_u8 {
        server.write_all(&[number]).expect("takes");
        std::thread::sleep(Duration::from_millis(30));
    }
    drop(server);
    let mut come = Vec::new();
    sends.read_to_end(&mut come).expect("comes");
    assert_eq!(come, (0..30).collect::<Vec<u8>>());
    wait_for("the end is known to all", || nodes.iter().all(|node| node.under_way() == (0, 0)));
    assert_eq!((nodes[1].counts().shortened, nodes[1].counts().broken), (0, 0));
    // A node that the response does not go to wishes nothing, and neither does a stranger.
    let (_server, _sends) = relay(&[Arc::clone(&nodes[0]), Arc::clone(&nodes[1])], MoveId { number: 11, ..MOVE });
    let of = RelayId { id: MoveId { number: 11, ..MOVE }, place: 0 };
    for _ in 0..2 {
        let answer = nodes[0].answer(3, &RelayWord::Turn { of, to: 3, by: of });
        let Message::Relay(word) = answer else { panic!("{answer:?}") };
        assert_eq!(*word, RelayWord::Turning { of, now: Turning::Waits });
    }
    let same = SameRelay { of, is: RelayId { place: 7, ..of }, ahead: 0 };
    assert!(matches!(nodes[1].answer(3, &RelayWord::Same(same)), Message::Failed { .. }));
    assert_eq!((nodes[0].under_way().0, nodes[1].under_way().1), (1, 1));
}
