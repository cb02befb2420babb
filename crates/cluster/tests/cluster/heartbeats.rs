//! Heartbeats over UDP on loopback: two members find each other, one that ends is down, forged ones are counted.

use crate::wait_for;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use weir_cluster::{BeatIntake, ClusterSecret, DetectorSettings, Health, Heartbeats, NodeNumber};

fn secret() -> ClusterSecret {
    ClusterSecret::from_bytes(&[3; 32]).expect("32 bytes")
}

/// Slow enough for a machine under load.
fn settings() -> DetectorSettings {
    DetectorSettings { interval: Duration::from_millis(20), misses: 25, returns: 2, ..DetectorSettings::default() }
}

fn start(
    socket: UdpSocket,
    own: NodeNumber,
    peer: (NodeNumber, SocketAddr),
) -> (Heartbeats, Receiver<(NodeNumber, Health)>) {
    start_with(socket, own, peer, settings())
}

fn start_with(
    socket: UdpSocket,
    own: NodeNumber,
    peer: (NodeNumber, SocketAddr),
    settings: DetectorSettings,
) -> (Heartbeats, Receiver<(NodeNumber, Health)>) {
    let (sender, receiver) = channel();
    let changed = move |change: weir_cluster::Change| {
        // The test may be over.
        let _ = sender.send((change.node, change.health));
    };
    let peers = BTreeMap::from([peer]);
    (Heartbeats::start(socket, own, &secret(), peers, settings, changed).expect("heartbeats"), receiver)
}

#[test]
fn members_find_each_other_and_miss_one_that_ends() {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (at_one, at_two) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    find_and_miss((one, at_one), (two, at_two), BeatIntake::AtOnce);
}

#[test]
fn a_member_that_wakes_once_an_interval_does_so_too() {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (at_one, at_two) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    find_and_miss((one, at_one), (two, at_two), BeatIntake::WithOwn);
}

fn find_and_miss((one, at_one): (UdpSocket, SocketAddr), (two, at_two): (UdpSocket, SocketAddr), intake: BeatIntake) {
    let (first, seen) = start_with(one, 1, (2, at_two), DetectorSettings { intake, ..settings() });
    let patience = crate::PATIENCE;
    for round in 0..2 {
        // At the second round the peer has another start.
        let (second, _) = start(two.try_clone().unwrap(), 2, (1, at_one));
        assert_eq!(seen.recv_timeout(patience), Ok((2, Health::Up)), "round {round}");
        second.set_epoch(7 + round);
        wait_for("the epoch", || first.epoch() == 7 + round);
        drop(second);
        if round == 0 {
            // Forged: right in form, with another key.
            let mut forged = [0; 85];
            forged[..5].copy_from_slice(&[1, 0, 2, 0, 1]);
            wait_for("forged ones are counted", || {
                two.send_to(&forged, at_one).unwrap();
                two.send_to(b"hello", at_one).unwrap();
                first.counts().forged >= 10 && first.counts().other >= 1
            });
        }
        assert_eq!(seen.recv_timeout(patience), Ok((2, Health::Down)), "round {round}");
    }
    let counts = first.counts();
    assert!(counts.alive > 0 && counts.sent > 0, "{counts:?}");
}

#[test]
fn a_new_secret_costs_no_sign_of_life_and_leaves_out_who_has_it_not() {
    let [one, two, three] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let [at_one, at_two, at_three] = [&one, &two, &three].map(|socket| socket.local_addr().unwrap());
    let (first, seen) = start(one, 1, (2, at_two));
    first.set_peers(BTreeMap::from([(2, at_two), (3, at_three)]));
    let (second, _) = start(two, 2, (1, at_one));
    let (_third, _) = start(three, 3, (1, at_one));
    let mut up = [seen.recv_timeout(crate::PATIENCE).unwrap(), seen.recv_timeout(crate::PATIENCE).unwrap()];
    up.sort_by_key(|(node, _)| *node);
    assert_eq!(up, [(2, Health::Up), (3, Health::Up)]);
    let next = secret().next(&crate::name("n3")).expect("random bytes");
    first.turn(&next);
    let alive = first.counts().alive;
    wait_for("heartbeats under the secret of before", || first.counts().alive > alive + 20);
    assert_eq!(first.counts().forged, 0);
    second.turn(&next);
    // The third one has the old secret alone, and is refused once its time is over.
    assert_eq!(seen.recv_timeout(crate::PATIENCE), Ok((3, Health::Down)));
    assert!(first.counts().forged > 0);
    let (alive, silent) = (first.counts().alive, seen.try_recv());
    wait_for("heartbeats of the second", || first.counts().alive > alive + 20);
    assert!(silent.is_err(), "the second was never down: {silent:?}");
}

#[test]
fn peers_come_and_go() {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (at_one, at_two) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    let (first, seen) = start(one, 1, (3, at_two));
    let (_second, _) = start(two, 2, (1, at_one));
    // Node 2 is no peer of node 1 yet.
    wait_for("a heartbeat of another", || first.counts().other > 0);
    for _ in 0..2 {
        first.set_peers(BTreeMap::from([(2, at_two)]));
        assert_eq!(seen.recv_timeout(crate::PATIENCE), Ok((2, Health::Up)));
        first.set_peers(BTreeMap::new());
        let other = first.counts().other;
        wait_for("it is a peer no more", || first.counts().other > other + 1);
    }
    assert_eq!((first.counts().forged, first.counts().replayed), (0, 0));
}

/// How long the study observes, seconds; without it nothing is done.
const STUDY: &str = "WEIR_HEARTBEAT_SECONDS";
const INTERVALS_MS: [u64; 8] = [1, 2, 3, 5, 10, 20, 50, 100];
/// So many that miss one after the other mean down, in the study.
const STUDY_MISSES: u32 = 3;

/// Two members for each interval while all CPUs are busy: how often either takes the other, which lives, for dead
/// (`make study-heartbeat`).
#[test]
fn false_detections_under_full_load_are_counted() {
    let Some(seconds) = std::env::var(STUDY).ok().and_then(|text| text.parse().ok()) else { return };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        // Twice as many as there are CPUs, so that each heartbeat has to wait for one.
        for _ in 0..2 * cpus {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let pairs: Vec<_> = INTERVALS_MS.into_iter().map(|ms| (ms, observed_pair(ms))).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        println!("{seconds} s with {} busy threads on {cpus} CPUs, {STUDY_MISSES} misses mean down", 2 * cpus);
        let mut shortest = None;
        for (ms, (members, seen)) in pairs {
            let pauses: u64 = members.iter().map(|member| member.counts().pauses).sum();
            let downs = seen.try_iter().filter(|health| *health == Health::Down).count();
            assert!(members.iter().all(|member| member.counts().alive > 0), "no heartbeat came at {ms} ms");
            println!("{ms:>4} ms: {downs} false detections, {pauses} pauses of a member itself");
            shortest = if downs > 0 { None } else { shortest.or(Some(ms)) };
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        match shortest {
            Some(ms) => println!("the shortest interval without any, and none at longer ones: {ms} ms"),
            None => println!("each interval had some"),
        }
    });
}

/// Two members that hear each other at this interval, and what each comes to think of the other.
fn observed_pair(ms: u64) -> ([Heartbeats; 2], Receiver<Health>) {
    let settings =
        DetectorSettings { interval: Duration::from_millis(ms), misses: STUDY_MISSES, ..DetectorSettings::default() };
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let addresses = [0, 1].map(|at: usize| sockets[at].local_addr().unwrap());
    let (sender, seen) = channel();
    let mut number = 0;
    let members = sockets.map(|socket| {
        let sender = sender.clone();
        number += 1;
        let other: NodeNumber = 3 - number;
        let peers = BTreeMap::from([(other, addresses[usize::from(other) - 1])]);
        let changed = move |change: weir_cluster::Change| {
            // The study may be over.
            let _ = sender.send(change.health);
        };
        Heartbeats::start(socket, number, &secret(), peers, settings, changed).expect("heartbeats")
    });
    (members, seen)
}
