//! Downloads go on while their connection moves.

use crate::network::{Family, KeeperTimes, Network, PATIENCE, RunningKeeper};
use crate::session::{MoveTimes, Order, Session, bytes_at, read_paced, serve};
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_testkit::namespace::tc;
use weir_testkit::require;

/// A flow is not moved more often.
const BETWEEN_MOVES: Duration = Duration::from_millis(500);

/// A download of a test.
struct Download {
    name: &'static str,
    family: Family,
    length: u64,
    moves: usize,
    /// At which the client reads.
    read_bytes_per_s: f64,
    /// At which the server writes; as fast as the kernel takes it without.
    write_bytes_per_s: Option<f64>,
    /// Of the nodes' links, as tc-tbf(8) has it.
    link_rate: Option<&'static str>,
}

#[test]
fn a_download_moves_back_and_forth_and_no_byte_is_wrong() {
    // The client is slow: its window is often closed, and megabytes lie unsent.
    download(&Download {
        name: "kmove",
        family: Family::V4,
        length: 50_000_000,
        moves: 10,
        read_bytes_per_s: 8e6,
        write_bytes_per_s: None,
        link_rate: None,
    });
}

#[test]
fn a_download_over_ipv6_moves_as_well() {
    // The server is slow: the window is open, and nothing lies unsent.
    download(&Download {
        name: "kmove6",
        family: Family::V6,
        length: 24_000_000,
        moves: 6,
        read_bytes_per_s: 1e9,
        write_bytes_per_s: Some(7e6),
        link_rate: None,
    });
}

#[test]
fn a_download_over_slow_links_moves_with_bytes_in_flight() {
    // What the old node has sent lies in its queue when the new one begins, and comes later.
    download(&Download {
        name: "kmovel",
        family: Family::V4,
        length: 24_000_000,
        moves: 5,
        read_bytes_per_s: 1e9,
        write_bytes_per_s: None,
        link_rate: Some("60mbit"),
    });
}

fn download(asked: &Download) {
    if require::root_and_bpf().is_none() {
        return;
    }
    let &Download { name, family, length, moves, .. } = asked;
    let network = Network::new(name, family);
    let unprivileged = KeeperTimes { run_as: 65534, ..KeeperTimes::default() };
    if let Some(rate) = asked.link_rate {
        for node in &network.nodes {
            let queue = ["-n", node.name(), "qdisc", "add", "dev", "e0", "root", "tbf"];
            tc(&[&queue[..], &["rate", rate, "burst", "64kb", "limit", "1mb"]].concat());
        }
    }
    let keepers = [network.keeper(1, unprivileged), network.keeper(2, KeeperTimes::default())];
    let places = Network::places();
    // New connections come to node 1.
    let table = network.table(&places);
    table.set_nodes(&places[..1]).expect("node 2 stays known");
    let listener = network.listener(1);
    let (mut client, served) = network.connect(&listener);
    let session = Mutex::new(Session::new(served, length, 1));
    let segment_bytes = session.lock().expect("no panic").segment_bytes();
    let clients = keepers.each_ref().map(RunningKeeper::client);
    let mut times = Vec::new();
    let moves_are_over = AtomicBool::new(false);
    let gap = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_paced(&mut client, length, asked.read_bytes_per_s));
        let writer = scope.spawn(|| serve(&session, asked.write_bytes_per_s, &moves_are_over));
        for turn in 0..moves {
            std::thread::sleep(BETWEEN_MOVES);
            let epoch = turn as u64 + 1;
            if turn % 4 == 1 {
                // A move that does not happen.
                let session = session.lock().expect("no panic");
                session.stand(&clients[usize::from(session.node) - 1], epoch, Duration::from_millis(5));
                drop(session);
                std::thread::sleep(BETWEEN_MOVES);
            }
            let mut session = session.lock().expect("no panic");
            let (from, to) = if session.node == 1 { (0, 1) } else { (1, 0) };
            // Each other move carries also what was written and never sent.
            let order = Order { node: places[to].number, epoch, carries_unsent: turn % 2 == 1 };
            times.push(session.fly(&clients[from], &clients[to], &table, order));
            assert_eq!(session.segment_bytes(), segment_bytes);
        }
        moves_are_over.store(true, Ordering::Release);
        writer.join().expect("it is written");
        reader.join().expect("each byte is right")
    });
    assert_eq!(times.len(), moves);
    tell(name, &mut times, gap);
    goes_on_as_a_connection(&mut client, session.into_inner().expect("no panic"));
    let counts = clients.each_ref().map(|client| client.counts().expect("it answers"));
    let thawed = counts[0].thawed + counts[1].thawed;
    assert_eq!(counts[0].frozen + counts[1].frozen, moves as u64 + thawed, "{counts:?}");
    assert_eq!(counts[0].activated + counts[1].activated, moves as u64, "{counts:?}");
    assert_eq!(counts[0].discarded + counts[1].discarded, moves as u64, "{counts:?}");
    assert_eq!(counts[0].expired + counts[1].expired + counts[0].refused + counts[1].refused, 0, "{counts:?}");
    let counted = table.counts().expect("it can be read");
    assert_eq!((counted.table_full, counted.no_node), (0, 0), "{counted:?}");
    assert!(counted.packets > 0 && counted.new_flows >= 1, "{counted:?}");
}

/// After its moves the connection carries bytes both ways, and ends in order.
fn goes_on_as_a_connection(client: &mut std::net::TcpStream, session: Session) {
    let mut served = session.stream;
    served.set_nonblocking(false).expect("a socket");
    served.set_read_timeout(Some(PATIENCE)).expect("a socket");
    client.write_all(b"one more").expect("it is open");
    let mut got = [0; 8];
    served.read_exact(&mut got).expect("it comes");
    assert_eq!(&got, b"one more");
    served.write_all(b"here").expect("it is open");
    drop(served);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("it ends with FIN");
    assert_eq!(rest, b"here");
}

fn tell(name: &str, times: &mut [MoveTimes], gap: Duration) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut line = |what: &str, of: fn(&MoveTimes) -> Duration| {
        times.sort_by_key(of);
        let at = |part: usize| of(&times[(times.len() - 1) * part / 100]).as_micros();
        println!("{name}: {what}: p50 {} us, largest {} us", at(50), at(100));
    };
    line("freeze", |times| times.freeze);
    line("steer", |times| times.steer);
    line("restore", |times| times.restore);
    line("activate", |times| times.activate);
    line("whole, without the discard", |times| times.whole);
    let of = |of: fn(&MoveTimes) -> u32| times.iter().map(of).collect::<Vec<_>>();
    println!("{name}: unacknowledged {:?}", of(|times| times.unacknowledged));
    println!("{name}: of it unsent {:?}", of(|times| times.unsent));
    println!("{name}: acknowledged meanwhile {:?}", of(|times| times.acknowledged_meanwhile));
    println!("{name}: longest time without a byte at the client {} us; load {load}", gap.as_micros());
}

#[test]
fn unread_input_survives_a_move() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kinput", Family::V4);
    let keepers = [network.keeper(1, KeeperTimes::default()), network.keeper(2, KeeperTimes::default())];
    let places = Network::places();
    let table = network.table(&places);
    table.set_nodes(&places[..1]).expect("node 2 stays known");
    let listener = network.listener(1);
    let (mut client, served) = network.connect(&listener);
    const BEFORE: usize = 60_000;
    const AFTER: usize = 40_000;
    client.write_all(&bytes_at(0, BEFORE)).expect("it is open");
    // All of it lies at node 1, unread.
    let begun = Instant::now();
    while served.peek(&mut vec![0; BEFORE]).expect("it is open") < BEFORE {
        assert!(begun.elapsed() < PATIENCE, "the input does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    let clients = keepers.each_ref().map(RunningKeeper::client);
    let mut session = Session::new(served, 0, 1);
    session.fly(&clients[0], &clients[1], &table, Order { node: 2, epoch: 1, carries_unsent: true });
    client.write_all(&bytes_at(BEFORE as u64, AFTER)).expect("it is open");
    session.stream.set_nonblocking(false).expect("a socket");
    session.stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut got = vec![0; BEFORE + AFTER];
    session.stream.read_exact(&mut got).expect("all of it comes");
    assert!(got == bytes_at(0, BEFORE + AFTER), "the input is another one");
}
