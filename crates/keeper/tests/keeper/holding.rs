//! Holds and tombstones: what they drop, when they end, and what happens if the keeper is gone.

use crate::network::{Family, KeeperTimes, Network, PATIENCE};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_keeper::{Flow, KeeperCounts};
use weir_testkit::require;

/// `ETH_P_ALL` of linux/if_ether.h.
const EVERYTHING: u16 = 3;
const FIN: u8 = 1;
const RST: u8 = 4;

fn flow(client: &TcpStream) -> Flow {
    Flow { client: client.local_addr().expect("bound"), service: client.peer_addr().expect("connected") }
}

/// Waits until what the keeper counts fulfils a condition.
fn wait(client: &weir_keeper::KeeperClient, what: &str, is_so: impl Fn(&KeeperCounts) -> bool) {
    let begun = Instant::now();
    loop {
        let counts = client.counts().expect("it answers");
        if is_so(&counts) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {counts:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Listens to all packets of a namespace: how many from the service carry FIN or RST, until it is told to end.
fn endings(tap: &mut Socket, ends: &AtomicBool) -> usize {
    let (mut frame, mut count) = ([0; 2048], 0);
    // What came before the end is counted: it ends once nothing more is there.
    loop {
        let Ok(length) = tap.read(&mut frame) else {
            if ends.load(Ordering::Acquire) {
                return count;
            }
            continue;
        };
        // Ethernet, IPv4 without options, TCP; from the service's port.
        let is_tcp = length >= 54 && frame[12..14] == [8, 0] && frame[23] == 6;
        let is_from_service = is_tcp && frame[34..36] == crate::network::PORT.to_be_bytes();
        count += usize::from(is_from_service && frame[47] & (FIN | RST) != 0);
    }
}

/// All that comes and goes in a namespace.
fn tap(network: &Network) -> Socket {
    network.nodes[0].within(|| {
        let everything = Protocol::from(i32::from(EVERYTHING.to_be()));
        let tap = Socket::new(Domain::PACKET, Type::RAW, Some(everything)).expect("root");
        tap.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
        tap
    })
}

#[test]
fn a_discarded_connection_says_nothing_to_its_client() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kquiet", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let times = KeeperTimes { tombstone_ms: 1500, ..KeeperTimes::default() };
    let keeper = network.keeper(1, times);
    let asked = keeper.client();
    let listener = network.listener(1);
    let (mut client, mut served) = network.connect(&listener);
    served.write_all(&[1; 1000]).expect("it is open");
    let mut got = [0; 1000];
    client.read_exact(&mut got).expect("it comes");
    let mut tap = tap(&network);
    let count = |during: &mut dyn FnMut(), tap: &mut Socket| {
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let counts = scope.spawn(|| endings(tap, &ends));
            during();
            ends.store(true, Ordering::Release);
            counts.join().expect("no panic")
        })
    };
    let mut served = Some(served);
    let quiet = count(
        &mut || {
            let socket = served.take().expect("once");
            asked.freeze(socket.as_fd(), 1).expect("it is established");
            asked.discard(socket.as_fd()).expect("it is frozen");
            drop(socket);
            // The client goes on as with a node that is slow; late packets come, as the director was told nothing.
            client.write_all(b"is there someone?").expect("it is open");
            wait(&asked, "the tombstone is over", |counts| counts.tombstones == 0);
        },
        &mut tap,
    );
    let counts = asked.counts().expect("it answers");
    assert!(counts.dropped_packets >= 1 && counts.discarded == 1, "{counts:?}");
    // Once the tombstone is over an answer may come: that shows that the tap would have seen one.
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut error = None;
    let loud = count(&mut || error = client.read(&mut [0; 1]).err().map(|error| error.kind()), &mut tap);
    assert_eq!(error, Some(std::io::ErrorKind::ConnectionReset));
    assert!(loud + quiet >= 1, "the tap sees nothing");
    // The last sweep looks up to a quarter of a second after the filter: in that time resets are in order.
    assert!(quiet <= 1 && loud <= 2, "{quiet} and {loud} packets with FIN or RST");
}

#[test]
fn a_hold_ends_by_itself_when_the_keeper_is_killed() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kkill", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let mut keeper = network.keeper(1, KeeperTimes { hold_ms: 3000, ..KeeperTimes::default() });
    let asked = keeper.client();
    let listener = network.listener(1);
    let (mut client, mut served) = network.connect(&listener);
    let begun = Instant::now();
    asked.hold(&flow(&client), 1).expect("room");
    client.write_all(b"held").expect("it is open");
    keeper.kill();
    served.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut got = [0; 4];
    served.read_exact(&mut got).expect("it comes once the hold is over");
    assert_eq!(&got, b"held");
    // The filter's clock and ours are the same.
    assert!(begun.elapsed() >= Duration::from_secs(3), "it came after {:?}", begun.elapsed());
}

#[test]
fn a_successor_thaws_what_a_killed_keeper_froze() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kthaw", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let mut keeper = network.keeper(1, KeeperTimes::default());
    let asked = keeper.client();
    let listener = network.listener(1);
    let (mut client, mut served) = network.connect(&listener);
    asked.freeze(served.as_fd(), 1).expect("it is established");
    client.write_all(b"meanwhile").expect("it is open");
    keeper.kill();
    let _successor = network.keeper(1, KeeperTimes::default());
    // The same client finds the new one.
    asked.thaw(served.as_fd()).expect("it stands still");
    served.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut got = [0; 9];
    served.read_exact(&mut got).expect("it goes on");
    assert_eq!(&got, b"meanwhile");
    served.write_all(b"answer").expect("it goes on");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    client.read_exact(&mut got[..6]).expect("it comes");
    assert_eq!(&got[..6], b"answer");
    // The filter of the killed one was taken over with what it held: the input was dropped until the thaw.
    assert!(asked.counts().expect("it answers").dropped_packets >= 1);
}

/// What a keeper has begun, another one goes on with: holds, the newest epoch, and what had left.
#[test]
fn a_successor_renews_the_holds_of_a_killed_keeper_and_knows_its_epoch() {
    if require::root_and_bpf().is_none() {
        return;
    }
    const HOLD_MS: u64 = 1_500;
    let network = Network::new("kheir", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let times = KeeperTimes { hold_ms: HOLD_MS, tombstone_ms: 60_000, ..KeeperTimes::default() };
    let mut keeper = network.keeper(1, times);
    let asked = keeper.client();
    let listener = network.listener(1);
    let ((mut frozen, mut of_frozen), (mut gone, of_gone)) = (network.connect(&listener), network.connect(&listener));
    let expected = Flow { client: "10.77.0.9:9".parse().expect("valid"), ..flow(&frozen) };
    asked.freeze(of_frozen.as_fd(), 7).expect("it is established");
    asked.hold(&expected, 7).expect("room");
    asked.freeze(of_gone.as_fd(), 7).expect("it is established");
    asked.discard(of_gone.as_fd()).expect("it is frozen");
    drop(of_gone);
    frozen.write_all(b"meanwhile").expect("it is open");
    keeper.kill();
    let _successor = network.keeper(1, times);
    let begun = Instant::now();
    let counts = asked.counts().or_else(|_| asked.counts()).expect("the successor answers");
    assert_eq!(counts.holds, 3, "{counts:?}");
    while begun.elapsed() < Duration::from_millis(2 * HOLD_MS) {
        [flow(&frozen), expected].iter().for_each(|held| asked.renew(held).expect("it is held"));
        std::thread::sleep(Duration::from_millis(HOLD_MS / 5));
    }
    let refused = asked.hold(&expected, 6).expect_err("epoch 7 has begun");
    assert!(refused.to_string().contains("epoch 7 has begun"), "{refused}");
    asked.release(&expected).expect("it is held");
    gone.write_all(b"is there someone?").expect("it is open");
    gone.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
    let quiet = gone.read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(quiet, Err(std::io::ErrorKind::WouldBlock), "what has left says nothing");
    // It was held to the end: nothing came in before.
    of_frozen.set_read_timeout(Some(PATIENCE)).expect("a socket");
    asked.thaw(of_frozen.as_fd()).expect("it stands still");
    let mut got = [0; 9];
    of_frozen.read_exact(&mut got).expect("it goes on");
    assert_eq!(&got, b"meanwhile");
}

#[test]
fn a_connection_stands_still_for_as_long_as_it_is_renewed_at_both_nodes() {
    if require::root_and_bpf().is_none() {
        return;
    }
    const HOLD_MS: u64 = 600;
    let network = Network::new("krenew", Family::V4);
    let table = network.table(&Network::places());
    table.set_nodes(&Network::places()[..1]).expect("node 2 stays known");
    let keepers = [1, 2].map(|node| network.keeper(node, KeeperTimes { hold_ms: HOLD_MS, ..KeeperTimes::default() }));
    let [old, new] = [keepers[0].client(), keepers[1].client()];
    let listener = network.listener(1);
    let (mut client, mut served) = network.connect(&listener);
    let flow = flow(&client);
    served.write_all(b"begun").expect("it is open");
    let mut got = [0; 5];
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    client.read_exact(&mut got).expect("it comes");
    let frozen = old.freeze(served.as_fd(), 1).expect("it is established");
    new.hold(&flow, 1).expect("room");
    table.steer(&flow, 2, 1).expect("the node is known");
    let sent = vec![0; frozen.tcp.unacknowledged_bytes as usize];
    let restored = new.restore(&frozen.tcp, &frozen.unread, &sent, 1).expect("it can be restored");
    // The director says nothing for much longer than a hold lasts; meanwhile one of a newer epoch has begun.
    client.write_all(b"question").expect("it is open");
    new.hold(&Flow { client: "10.77.0.9:9".parse().expect("valid"), ..flow }, 7).expect("room");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(HOLD_MS / 3));
        [&old, &new].into_iter().for_each(|keeper| keeper.renew(&flow).expect("it is held"));
    }
    assert_eq!(old.counts().expect("it answers").expired, 0);
    // It stands still without being renewed by now.
    let held = new.counts().expect("it answers");
    new.activate(restored.as_fd()).expect("the hold lasts");
    old.discard(served.as_fd()).expect("the hold lasts");
    drop(served);
    let mut moved = TcpStream::from(restored);
    moved.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut question = [0; 8];
    moved.read_exact(&mut question).expect("the client says it again");
    moved.write_all(b"reply").expect("it goes on");
    client.read_exact(&mut got).expect("it comes");
    assert_eq!((&question, &got), (b"question", b"reply"));
    // The client has said it again and again, and nothing of that was taken in.
    let dropped = new.counts().expect("it answers").dropped_packets - held.dropped_packets;
    assert!(dropped >= 4, "{dropped} packets in 2 s: the filter has held it to the end");
    let over = new.renew(&flow).expect_err("it is held no more");
    assert!(over.to_string().contains("is over"), "{over}");
}

#[test]
fn a_hold_that_is_not_released_is_dropped_and_counted() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kexpire", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let keeper = network.keeper(1, KeeperTimes { hold_ms: 300, ..KeeperTimes::default() });
    let asked = keeper.client();
    let listener = network.listener(1);
    let (mut client, mut served) = network.connect(&listener);
    asked.hold(&flow(&client), 1).expect("room");
    client.write_all(b"late").expect("it is open");
    wait(&asked, "the hold is over", |counts| counts.expired == 1 && counts.holds == 0);
    served.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut got = [0; 4];
    served.read_exact(&mut got).expect("it comes");
    // A frozen connection whose hold is over can still be thawed.
    asked.freeze(served.as_fd(), 1).expect("it is established");
    wait(&asked, "the second hold is over", |counts| counts.expired == 2);
    asked.thaw(served.as_fd()).expect("it stands still");
    served.write_all(b"on").expect("it goes on");
    client.set_read_timeout(Some(PATIENCE)).expect("a socket");
    client.read_exact(&mut got[..2]).expect("it comes");
    assert_eq!(&got[..2], b"on");
}
