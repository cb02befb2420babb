//! What a keeper refuses, and in which words.

use crate::network::{Family, KeeperTimes, Network, OTHER_PORT, PATIENCE};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use weir_keeper::protocol::Refusal;
use weir_keeper::{Flow, KeeperError, RepairError};
use weir_testkit::require;

fn refusal<T: std::fmt::Debug>(answer: Result<T, KeeperError>) -> Refusal {
    match answer {
        Err(KeeperError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Asks and is answered: the connection goes on.
fn goes_on(client: &TcpStream, served: &TcpStream) {
    for (mut from, mut to) in [(client, served), (served, client)] {
        to.set_read_timeout(Some(PATIENCE)).expect("a socket");
        from.write_all(b"here").expect("it is open");
        let mut got = [0; 4];
        to.read_exact(&mut got).expect("it comes");
        assert_eq!(&got, b"here");
    }
}

#[test]
fn what_cannot_be_moved_is_refused_in_words_and_goes_on() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("krefuse", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let keeper = network.keeper(1, KeeperTimes::default());
    let asked = keeper.client();
    let listener = network.listener(1);
    let (client, served) = network.connect(&listener);
    let flow = Flow { client: client.local_addr().expect("bound"), service: client.peer_addr().expect("connected") };
    // An order of an older director.
    asked.hold(&Flow { client: "10.77.0.2:1".parse().expect("valid"), ..flow }, 5).expect("room");
    let error = refusal(asked.freeze(served.as_fd(), 4));
    assert_eq!(error, Refusal::OldEpoch { asked: 4, newest: 5 });
    assert!(error.to_string().contains("ask the director of the newest epoch"), "{error}");
    goes_on(&client, &served);
    // What does not stand still can be neither discarded, thawed nor activated.
    for answer in [asked.discard(served.as_fd()), asked.thaw(served.as_fd()), asked.activate(served.as_fd())] {
        assert_eq!(refusal(answer), Refusal::Repair(RepairError::NotFrozen));
    }
    assert_eq!(refusal(asked.send_queue(served.as_fd(), 1)), Refusal::Repair(RepairError::NotFrozen));
    goes_on(&client, &served);
    // What stands still is not frozen, held or restored a second time; thawed it goes on.
    let frozen = asked.freeze(served.as_fd(), 5).expect("it is established");
    assert_eq!(frozen.tcp.flow(), flow);
    assert_eq!(refusal(asked.freeze(served.as_fd(), 5)), Refusal::Busy(flow));
    assert_eq!(refusal(asked.hold(&flow, 5)), Refusal::Busy(flow));
    assert_eq!(refusal(asked.release(&flow)), Refusal::Busy(flow));
    assert_eq!(refusal(asked.restore(&frozen.tcp, &[], &[], 5)), Refusal::Busy(flow));
    assert_eq!(refusal(asked.activate(served.as_fd())), Refusal::HoldIsOver(flow));
    asked.thaw(served.as_fd()).expect("it is frozen");
    goes_on(&client, &served);
    closing(&network, &listener, &asked);
    other_sockets(&network, &asked);
    let counts = asked.counts().expect("it answers");
    assert_eq!((counts.frozen, counts.thawed, counts.discarded), (1, 1, 0), "{counts:?}");
    assert!(counts.refused >= 12, "{counts:?}");
}

/// A connection that its client has closed.
fn closing(network: &Network, listener: &TcpListener, asked: &weir_keeper::KeeperClient) {
    let (client, mut served) = network.connect(listener);
    client.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(served.read(&mut [0; 1]).expect("it ends"), 0);
    let begun = Instant::now();
    let error = loop {
        match asked.freeze(served.as_fd(), 5) {
            Err(KeeperError::Refused(refusal)) => break refusal,
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    };
    // linux/tcp.h: TCP_CLOSE_WAIT.
    assert_eq!(error, Refusal::Repair(RepairError::State(8)));
    assert!(error.to_string().contains("CLOSE_WAIT; only one in the state ESTABLISHED can be moved"), "{error}");
    served.write_all(b"bye").expect("it is half open");
    drop(served);
    let mut rest = Vec::new();
    (&client).read_to_end(&mut rest).expect("it ends in order");
    assert_eq!(rest, b"bye");
    let listens = refusal(asked.freeze(listener.as_fd(), 5));
    assert!(listens.to_string().contains("state LISTEN"), "{listens}");
}

/// Sockets that are none of a service's.
fn other_sockets(network: &Network, asked: &weir_keeper::KeeperClient) {
    let other = network.nodes[0].within(|| TcpListener::bind(("10.77.0.17", OTHER_PORT))).expect("a free port");
    let (_client, served) = network.connect(&other);
    let error = refusal(asked.freeze(served.as_fd(), 5));
    assert_eq!(error, Refusal::NotAService(other.local_addr().expect("bound")));
    let file = std::fs::File::open("/dev/null").expect("it is everywhere");
    assert!(refusal(asked.freeze(file.as_fd(), 5)).to_string().contains("pass a TCP socket"));
    let (unix, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
    assert!(matches!(refusal(asked.freeze(unix.as_fd(), 5)), Refusal::Repair(RepairError::System { .. })));
    let flow =
        Flow { client: "10.77.0.2:1000".parse().expect("valid"), service: "10.77.0.17:80".parse().expect("valid") };
    assert_eq!(refusal(asked.hold(&flow, 5)), Refusal::NotAService(flow.service));
}

#[test]
fn a_keeper_serves_one_user_and_has_few_privileges() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kuser", Family::V4);
    let keeper = network.keeper(1, KeeperTimes { run_as: 65534, ..KeeperTimes::default() });
    // CAP_NET_ADMIN, and CAP_NET_BIND_SERVICE for port 80.
    assert_eq!(u64::from_str_radix(&keeper.status("CapPrm"), 16), Ok(1 << 12 | 1 << 10));
    for none in ["CapBnd", "CapInh", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&keeper.status(none), 16), Ok(0), "{none}");
    }
    assert_eq!((keeper.status("NoNewPrivs"), keeper.status("Groups")), ("1".to_owned(), String::new()));
    assert_eq!(keeper.status("Uid").split_whitespace().collect::<Vec<_>>(), ["65534"; 4]);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(keeper.socket()).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    // One for another user turns this one away, although it may open the socket.
    let other = network.keeper(2, KeeperTimes { allowed_uid: 65534, ..KeeperTimes::default() });
    let begun = Instant::now();
    loop {
        match other.client().counts() {
            Err(KeeperError::Lost(_)) => break,
            answer => assert!(begun.elapsed() < PATIENCE, "{answer:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // The first one serves on.
    keeper.client().counts().expect("it answers");
}
