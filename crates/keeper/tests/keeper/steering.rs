//! The director's filter: where new connections go, and that those that exist stay.

use crate::network::{Family, Network, PATIENCE};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_keeper::{FilterError, Flow, FlowTable, IdleTimes, maglev};
use weir_testkit::namespace::ip;
use weir_testkit::require;

fn flow(client: &TcpStream) -> Flow {
    Flow { client: client.local_addr().expect("bound"), service: client.peer_addr().expect("connected") }
}

/// Opens a connection to the service.
fn connect(network: &Network, service: SocketAddr) -> TcpStream {
    network.client.within(|| TcpStream::connect_timeout(&service, PATIENCE)).expect("a node answers")
}

/// Waits until the table has seen an acknowledgement of the client.
fn seen(table: &FlowTable, flow: &Flow) -> weir_keeper::Seen {
    let begun = Instant::now();
    loop {
        if let Some(seen) = table.seen(flow).expect("it can be read") {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is seen of {flow}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn threads_share_a_table_and_a_client() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<FlowTable>();
    is_shared::<weir_keeper::KeeperClient>();
    is_shared::<weir_keeper::HoldFilter>();
}

#[test]
fn new_connections_are_spread_and_old_ones_stay() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("ksteer", Family::V4);
    let places = Network::places();
    let table = network.table(&places);
    let listeners = [network.listener(1), network.listener(2)];
    let service = listeners[0].local_addr().expect("bound");
    let entries = maglev::table(&[1, 2]);
    let clients: Vec<TcpStream> = (0..24).map(|_| connect(&network, service)).collect();
    for client in &clients {
        let flow = flow(client);
        let seen = seen(&table, &flow);
        let birth = table.birth(&flow).expect("it can be read").expect("its beginning was seen");
        assert_eq!((birth.send, birth.receive), (seen.ack, seen.sequence_end), "nothing was sent yet");
        // Another director says the same.
        assert_eq!(table.node(&flow).expect("it can be read"), Some(entries[maglev::entry(flow.client)]), "{flow}");
    }
    let of = |node| clients.iter().filter(|client| table.node(&flow(client)).expect("read") == Some(node)).count();
    let at_node_1 = of(1);
    assert_eq!(at_node_1 + of(2), clients.len());
    // Node 1 gets no new connections; it keeps those that it has.
    table.set_nodes(&places[1..]).expect("valid");
    assert_eq!(of(1), at_node_1);
    let later: Vec<TcpStream> = (0..8).map(|_| connect(&network, service)).collect();
    for client in &later {
        seen(&table, &flow(client));
        assert_eq!(table.node(&flow(client)).expect("it can be read"), Some(2));
    }
    // The socket at the node of a connection that was steered may be another one than that of its beginning.
    let (steered, node) = (flow(&later[0]), 2);
    table.steer(&steered, node, 1).expect("the node is known");
    assert_eq!(table.birth(&steered).expect("it can be read"), None);
    echo_all(&listeners, clients.into_iter().chain(later).collect());
}

/// A client that begins as its node dies sends its SYN again: that goes to a node which lives.
#[test]
fn a_syn_that_a_dead_node_did_not_answer_goes_to_another_one() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("ksyn", Family::V4);
    let places = Network::places();
    let table = network.table(&places[..1]);
    let listener = network.listener(2);
    let service = listener.local_addr().expect("bound");
    // As of a machine that has lost its power: its kernel would refuse the connection.
    ip(&["-n", network.nodes[0].name(), "link", "set", "e0", "down"]);
    let connecting = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| network.client.within(|| TcpStream::connect_timeout(&service, PATIENCE)));
        let begun = Instant::now();
        while table.counts().expect("read").packets == 0 {
            assert!(begun.elapsed() < PATIENCE, "no SYN came");
            std::thread::sleep(Duration::from_millis(1));
        }
        table.set_nodes(&places[1..]).expect("valid");
        table.set_down(&places[0], true).expect("valid");
        connecting.join().expect("no panic")
    });
    let client = connecting.expect("the other node answers the second SYN");
    let flow = flow(&client);
    seen(&table, &flow);
    assert_eq!(table.node(&flow).expect("read"), Some(2));
}

/// Each connection carries bytes both ways, at the node where it is.
fn echo_all(listeners: &[TcpListener; 2], clients: Vec<TcpStream>) {
    let mut served = Vec::new();
    let begun = Instant::now();
    for listener in listeners {
        listener.set_nonblocking(true).expect("a socket");
    }
    while served.len() < clients.len() {
        assert!(begun.elapsed() < PATIENCE, "{} of {} connections came", served.len(), clients.len());
        served.extend(listeners.iter().filter_map(|listener| listener.accept().ok()));
        std::thread::sleep(Duration::from_millis(1));
    }
    for mut client in clients {
        client.set_read_timeout(Some(PATIENCE)).expect("a socket");
        client.write_all(b"ask").expect("it is open");
        let address = client.local_addr().expect("bound");
        let (node, _) = served.iter_mut().find(|(_, peer)| *peer == address).expect("it was accepted");
        node.set_nonblocking(false).expect("a socket");
        node.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut asked = [0; 3];
        node.read_exact(&mut asked).expect("it comes");
        node.write_all(&asked).expect("it is open");
        let mut answer = [0; 3];
        client.read_exact(&mut answer).expect("it comes");
        assert_eq!(&answer, b"ask");
    }
}

#[test]
fn a_successor_takes_the_table_over() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("ksucc", Family::V4);
    let places = Network::places();
    let first = network.table(&places[..1]);
    let listener = network.listener(1);
    let (mut client, mut served) = network.connect(&listener);
    let flow = flow(&client);
    seen(&first, &flow);
    first.set_nodes(&places).expect("valid");
    let before = first.counts().expect("read");
    drop(first);
    // Only node 2 is named: the connection stays at node 1 as the table is the same.
    let second = network.table(&places[1..]);
    assert_eq!(second.node(&flow).expect("read"), Some(1));
    assert!(second.counts().expect("read").packets >= before.packets && before.packets > 0);
    client.write_all(b"still").expect("open");
    let mut got = [0; 5];
    served.set_read_timeout(Some(PATIENCE)).expect("a socket");
    served.read_exact(&mut got).expect("it comes to node 1");
    // What the client acknowledges is seen: the answer's bytes are added.
    let ack = seen(&second, &flow).ack;
    served.write_all(&[7; 100]).expect("open");
    let begun = Instant::now();
    while seen(&second, &flow).ack != ack.wrapping_add(100) {
        assert!(begun.elapsed() < PATIENCE, "the acknowledgement is not seen");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(seen(&second, &flow).ts_value != 0);
}

#[test]
fn the_table_refuses_old_epochs_and_unknown_nodes_and_forgets_what_is_over() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("ktable", Family::V4);
    let table = network.table(&Network::places());
    let service = crate::network::service(Family::V4);
    let flow = |port| Flow { client: (std::net::Ipv4Addr::new(10, 77, 0, 2), port).into(), service };
    // One that was never seen is entered.
    assert_eq!(table.steer(&flow(1000), 2, 7).expect("room"), None);
    assert_eq!(table.node(&flow(1000)).expect("read"), Some(2));
    let error = table.steer(&flow(1000), 1, 6).expect_err("an old epoch");
    assert!(matches!(error, FilterError::OldEpoch { asked: 6, newest: 7 }), "{error}");
    assert!(error.to_string().contains("ask the director of the newest epoch"), "{error}");
    assert!(matches!(table.steer(&flow(1000), 3, 7), Err(FilterError::UnknownNode(3))));
    assert!(matches!(table.steer(&flow(1000), 5000, 7), Err(FilterError::UnknownNode(5000))));
    let other = Flow { service: "10.77.0.1:80".parse().expect("valid"), ..flow(1000) };
    assert!(matches!(table.steer(&other, 1, 7), Err(FilterError::OtherService(_))));
    assert_eq!(table.node(&flow(1000)).expect("read"), Some(2));
    table.steer(&flow(1001), 1, 8).expect("room");
    let long = Duration::from_secs(3600);
    let kept = IdleTimes { finished: Duration::ZERO, idle: Duration::ZERO, steered: long };
    assert_eq!(table.sweep(&kept).expect("read"), 0);
    let none = IdleTimes { finished: long, idle: long, steered: Duration::ZERO };
    assert_eq!(table.sweep(&none).expect("read"), 2);
    assert_eq!(table.node(&flow(1000)).expect("read"), None);
    network.director.within(|| table.detach()).expect("it is attached");
}
