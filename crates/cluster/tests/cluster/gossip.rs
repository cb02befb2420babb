//! Gossip over UDP on loopback: members hear each other, one that ends is silent, a partition heals, forged datagrams
//! are counted, and what it costs stays within its bound.

use crate::{name, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_cluster::{
    Asked, ClusterSecret, Gossip, GossipPeer, GossipSettings, HeardMember, Introduction, NodeNumber, Reading, Role,
    Sites, Strain,
};

/// Quick, and unbounded.
const QUICK: GossipSettings = GossipSettings { interval: Duration::from_millis(100), bytes_per_s: 10_000_000 };

/// What lies between members: datagrams from one to another may be lost.
#[derive(Default)]
struct Network {
    cut: Mutex<BTreeSet<(NodeNumber, SocketAddr)>>,
    /// Some datagrams that were sent, with where to.
    tapped: Mutex<Vec<(SocketAddr, Vec<u8>)>>,
}

impl Network {
    fn set_cut(&self, one: &Place, other: &Place, is_cut: bool) {
        let mut cut = self.cut.lock().unwrap();
        for way in [(one.number, other.address), (other.number, one.address)] {
            if is_cut {
                cut.insert(way)
            } else {
                cut.remove(&way)
            };
        }
    }
}

/// Where a member is.
struct Place {
    number: NodeNumber,
    socket: UdpSocket,
    address: SocketAddr,
}

fn places(count: NodeNumber) -> Vec<Place> {
    let place = |number| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        Place { number, socket, address }
    };
    (1..=count).map(place).collect()
}

/// A member that gossips until it is dropped.
struct Member {
    gossip: Arc<Gossip>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    fn start(places: &[Place], at: usize, network: &Arc<Network>, settings: GossipSettings, since_unix_s: u64) -> Self {
        let member = |place: &Place| {
            (place.number, GossipPeer { name: name(&format!("n{}", place.number)), address: place.address })
        };
        let members: BTreeMap<NodeNumber, GossipPeer> = places.iter().map(member).collect();
        let secret = ClusterSecret::from_bytes(&[3; 32]).expect("32 bytes");
        let introduction = Introduction { role: Role::Node, version: "0.1.0".to_owned(), since_unix_s };
        let (number, socket) = (places[at].number, places[at].socket.try_clone().unwrap());
        let (out, network) = (socket.try_clone().unwrap(), Arc::clone(network));
        let send = move |to: SocketAddr, datagram: &[u8]| {
            let mut tapped = network.tapped.lock().unwrap();
            if tapped.len() < 50 {
                tapped.push((to, datagram.to_vec()));
            }
            let is_cut = network.cut.lock().unwrap().contains(&(number, to));
            if is_cut { Ok(()) } else { out.send_to(datagram, to).map(drop) }
        };
        let gossip = Gossip::start((number, members), &secret, &introduction, settings, send).expect("gossips");
        let (gossip, stops) = (Arc::new(gossip), Arc::<AtomicBool>::default());
        let (taker, until) = (Arc::clone(&gossip), Arc::clone(&stops));
        let take = move || {
            let mut datagram = [0; 2_000];
            while !until.load(Ordering::Relaxed) {
                if let Ok((bytes, _)) = socket.recv_from(&mut datagram) {
                    taker.take(&datagram[..bytes]);
                }
            }
        };
        Self { gossip, stops, thread: Some(std::thread::spawn(take)) }
    }

    /// What it has heard of another member.
    fn of(&self, number: NodeNumber) -> Option<HeardMember> {
        self.gossip.heard().into_iter().find(|heard| heard.name == name(&format!("n{number}")))
    }

    fn hears(&self, number: NodeNumber) -> bool {
        self.of(number).is_some_and(|heard| heard.is_alive)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn reading(number: u64, requests_per_s: f64) -> Reading {
    Reading {
        number,
        requests_per_s,
        open: 7,
        sending: 2,
        sent_bytes_per_s: 5_000,
        cpu_share: 0.25,
        is_draining: false,
        strain: Some(Strain {
            queue: 12.5,
            wait_s: 0.001_234,
            mem_bytes: 14_321 << 20,
            mem_share: 0.456,
            errors_per_s: 1.5,
            error_share: 0.012,
        }),
    }
}

#[test]
fn members_hear_each_other_and_one_that_ends_is_silent() {
    let (network, places) = (Arc::<Network>::default(), places(3));
    let start = |at: usize, since| Member::start(&places, at, &network, QUICK, since);
    let (first, second, third) = (start(0, 10), start(1, 20), start(2, 30));
    first.gossip.set_reading(&reading(1, 123.4));
    first.gossip.set_sites(&Sites(BTreeMap::from([("www".to_owned(), 3)])));
    // More than fits into one datagram.
    let asked = |place: u32| Asked { path: format!("/{place}/{}", "x".repeat(200)), requests_per_s: f64::from(place) };
    first.gossip.set_popular(&(1..=100).map(asked).collect::<Vec<_>>());
    for member in [&second, &third] {
        wait_for("all of the first member", || {
            member.of(1).is_some_and(|heard| {
                heard.is_alive && heard.reading == Some(reading(1, 123.4)) && heard.popular.len() == 100
            })
        });
        let heard = member.of(1).expect("was heard");
        assert_eq!(heard.popular[0], asked(100));
        assert_eq!(heard.sites, BTreeMap::from([("www".to_owned(), 3)]));
        let introduction = heard.introduction.expect("was heard");
        assert_eq!((introduction.role, introduction.since_unix_s), (Role::Node, 10));
    }
    first.gossip.set_reading(&reading(2, 7.0));
    wait_for("a newer reading", || third.of(1).is_some_and(|heard| heard.reading == Some(reading(2, 7.0))));
    wait_for("the third member", || first.hears(3) && second.hears(3));
    drop(third);
    wait_for("the third member is silent", || !first.hears(3) && !second.hears(3));
    let silence = first.of(3).expect("is known").silence;
    wait_for("its silence is told", || first.of(3).is_some_and(|heard| heard.silence > silence));
    // It starts anew, and says so.
    let again = start(2, 40);
    let since = |heard: &HeardMember| heard.introduction.as_ref().map(|introduction| introduction.since_unix_s);
    for member in [&first, &second] {
        wait_for("the third member again", || {
            member.of(3).is_some_and(|heard| heard.is_alive && since(&heard) == Some(40))
        });
    }
    wait_for("one that comes later learns it all", || again.of(1).is_some_and(|heard| heard.popular.len() == 100));
}

#[test]
fn a_partition_heals_and_says_meanwhile_how_old_it_is() {
    let (network, places) = (Arc::<Network>::default(), places(3));
    let members: Vec<Member> = (0..3).map(|at| Member::start(&places, at, &network, QUICK, 1)).collect();
    members[0].gossip.set_reading(&reading(1, 1.0));
    wait_for("all hear all", || members.iter().all(|member| (1..=3).all(|number| member.hears(number))));
    wait_for("the reading", || members[1].of(1).is_some_and(|heard| heard.reading == Some(reading(1, 1.0))));
    (1..3).for_each(|other| network.set_cut(&places[0], &places[other], true));
    members[0].gossip.set_reading(&reading(2, 2.0));
    wait_for("both sides miss the other", || {
        !members[0].hears(2) && !members[0].hears(3) && !members[1].hears(1) && !members[2].hears(1)
    });
    assert!(members[1].hears(3) && members[2].hears(2), "within a side nothing changes");
    assert_eq!(members[1].of(1).expect("is known").reading, Some(reading(1, 1.0)));
    (1..3).for_each(|other| network.set_cut(&places[0], &places[other], false));
    wait_for("all hear all again", || members.iter().all(|member| (1..=3).all(|number| member.hears(number))));
    for member in &members[1..] {
        wait_for("the newer reading", || member.of(1).is_some_and(|heard| heard.reading == Some(reading(2, 2.0))));
    }
}

#[test]
fn forged_replayed_and_oversized_datagrams_are_refused_and_counted() {
    let (network, places) = (Arc::<Network>::default(), places(2));
    let members: Vec<Member> = (0..2).map(|at| Member::start(&places, at, &network, QUICK, 1)).collect();
    wait_for("both hear each other", || members[0].hears(2) && members[1].hears(1));
    let recorded = network.tapped.lock().unwrap().clone();
    let forged: Vec<u8> = [2, 0, 2, 0, 1].into_iter().chain([0; 120]).collect();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    wait_for("they are counted", || {
        let to = places[0].address;
        stranger.send_to(&forged, to).unwrap();
        stranger.send_to(b"hello", to).unwrap();
        stranger.send_to(&[2; 1_400], to).unwrap();
        for (to, datagram) in &recorded {
            stranger.send_to(datagram, to).unwrap();
        }
        let counts = members[0].gossip.counts();
        counts.forged >= 10 && counts.other >= 10 && counts.oversized >= 10 && counts.replayed >= 10
    });
    members[1].gossip.set_reading(&reading(9, 9.0));
    wait_for("the members go on", || members[0].of(2).is_some_and(|heard| heard.reading == Some(reading(9, 9.0))));
    assert_eq!(members[0].gossip.counts().broken, 0);
}

#[test]
fn what_it_costs_stays_within_a_kilobyte_a_second() {
    let (network, places) = (Arc::<Network>::default(), places(3));
    let start = |at| Member::start(&places, at, &network, GossipSettings::default(), 1);
    let members: Vec<Member> = (0..3).map(start).collect();
    let (begun, mut number) = (Instant::now(), 0);
    let mut say = || {
        number += 1;
        for (at, member) in members.iter().enumerate() {
            member.gossip.set_reading(&reading(number, 100.0 * number as f64 + at as f64));
        }
        std::thread::sleep(Duration::from_secs(1));
    };
    while !members.iter().all(|member| (1..=3).all(|number| member.hears(number))) {
        assert!(begun.elapsed() < crate::PATIENCE, "they do not hear each other");
        say();
    }
    let sent = || members.iter().map(|member| member.gossip.counts().sent_bytes).sum::<u64>();
    let (before, begun) = (sent(), Instant::now());
    (0..5).for_each(|_| say());
    let rate = (sent() - before) as f64 / begun.elapsed().as_secs_f64() / 3.0;
    eprintln!("{rate:.0} bytes a second and member");
    assert!(rate < 1_024.0, "{rate} bytes a second and member");
    for member in &members {
        let ages: Vec<_> = (1..=3).filter_map(|number| member.of(number)).map(|heard| heard.age).collect();
        eprintln!("ages {ages:.1?}, {:?}", member.gossip.counts());
        assert!(ages.iter().all(|age| *age < Duration::from_secs(10)), "{ages:?}");
    }
}
