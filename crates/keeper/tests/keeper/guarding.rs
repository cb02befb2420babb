//! Sockets that a keeper guards: their connections outlive their server without a word to the client, and end where the
//! server ends them itself.

use crate::network::{Family, KeeperTimes, Network, PATIENCE};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_keeper::protocol::{Orphans, Refusal};
use weir_keeper::{Flow, KeeperClient, KeeperError};
use weir_testkit::require;

/// What a client hears within this is from before: the network has no delay.
const QUIET: Duration = Duration::from_millis(300);

/// A process in the place of a server, whose sockets are this one's; it ends with the value.
struct Server {
    child: Child,
    process: OwnedFd,
}

impl Server {
    fn start() -> Self {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat is there");
        // SAFETY: the call takes numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the descriptor is new and has no other owner.
        Self { child, process: unsafe { OwnedFd::from_raw_fd(fd as i32) } }
    }

    fn kill(&mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it was not waited for");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn flow(client: &TcpStream) -> Flow {
    Flow { client: client.local_addr().expect("bound"), service: client.peer_addr().expect("connected") }
}

/// What the client hears within a moment: nothing, the end of the connection, or an error.
fn hears(client: &mut TcpStream) -> Result<usize, ErrorKind> {
    client.set_read_timeout(Some(QUIET)).expect("a socket");
    client.read(&mut [0; 64]).map_err(|error| error.kind())
}

fn wait_for_orphans(asked: &KeeperClient, what: &str, is_so: impl Fn(&Orphans) -> bool) -> Orphans {
    let begun = Instant::now();
    loop {
        let told = asked.orphans().expect("it answers");
        if is_so(&told) {
            return told;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {told:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A connection over which something went both ways.
fn used(network: &Network, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let (mut client, mut served) = network.connect(listener);
    client.write_all(b"request").expect("it is open");
    served.read_exact(&mut [0; 7]).expect("it comes");
    served.write_all(b"response").expect("it is open");
    client.read_exact(&mut [0; 8]).expect("it comes");
    (client, served)
}

#[test]
fn a_client_hears_nothing_of_the_end_of_a_guarded_server() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kguard", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let keeper = network.keeper(1, KeeperTimes::default());
    let asked = keeper.client();
    let listener = network.listener(1);
    let mut server = Server::start();
    let (mut guarded, of_guarded) = used(&network, &listener);
    let (mut other, of_other) = used(&network, &listener);
    let refused = asked.keep(of_guarded.as_fd(), 7).expect_err("it knows no server");
    assert!(matches!(refused, KeeperError::Refused(Refusal::UnknownServer(7))), "{refused}");
    asked.guard(server.process.as_fd(), 7).expect("room");
    asked.keep(of_guarded.as_fd(), 7).expect("room");
    assert_eq!(asked.orphans().expect("it answers"), Orphans { servers: vec![7], flows: Vec::new() });
    assert_eq!(asked.counts().expect("it answers").guarded, 1);
    // As the kernel does it where a process is killed.
    drop((of_guarded, of_other));
    assert_eq!(hears(&mut other), Ok(0), "the client of a socket that is not guarded hears of the end");
    server.kill();
    let told = wait_for_orphans(&asked, "the end is noticed", |told| told.servers.is_empty());
    assert_eq!(told.flows, [flow(&guarded)]);
    guarded.write_all(b"next").expect("it is open");
    assert_eq!(hears(&mut guarded), Err(ErrorKind::WouldBlock), "neither an end nor a reset");
    let counts = asked.counts().expect("it answers");
    assert_eq!((counts.orphaned, counts.guarded, counts.holds), (1, 0, 1), "{counts:?}");
    // Nothing of it is left: a new listener and a new connection of the service are there.
    drop(listener);
    let listener = network.listener(1);
    drop(used(&network, &listener));
    // Another node goes on with it.
    asked.adopted(&flow(&guarded)).expect("it answers");
    assert!(asked.orphans().expect("it answers").flows.is_empty());
    assert_eq!(hears(&mut guarded), Err(ErrorKind::WouldBlock), "late packets are dropped for a while");
    assert_eq!(asked.counts().expect("it answers").tombstones, 1);
}

#[test]
fn a_server_ends_its_connections_itself_while_it_lives() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kgoes", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let keeper = network.keeper(1, KeeperTimes::default());
    let asked = keeper.client();
    let listener = network.listener(1);
    let mut server = Server::start();
    asked.guard(server.process.as_fd(), 1).expect("room");
    let pairs: Vec<_> = (0..3).map(|_| used(&network, &listener)).collect();
    pairs.iter().for_each(|(_, served)| asked.keep(served.as_fd(), 1).expect("room"));
    let [(mut shut, of_shut), (mut let_go, of_let_go), (mut left, of_left)] =
        <[(TcpStream, TcpStream); 3]>::try_from(pairs).expect("three");
    of_shut.shutdown(Shutdown::Both).expect("it is open");
    drop(of_shut);
    assert_eq!(hears(&mut shut), Ok(0), "the end is not held back");
    asked.let_go(&[flow(&let_go)]).expect("it answers");
    drop(of_let_go);
    assert_eq!(hears(&mut let_go), Ok(0), "it is the server's alone again");
    // Another process has the socket, and the connection goes on.
    drop(of_left);
    assert_eq!(hears(&mut left), Err(ErrorKind::WouldBlock));
    server.kill();
    let told = wait_for_orphans(&asked, "the end is noticed", |told| told.servers.is_empty());
    assert_eq!(told.flows, [flow(&left)], "what the server had ended is no orphan");
}

/// A keeper that was killed has let go of all; its successor guards what it is told again.
#[test]
fn a_successor_guards_what_it_is_told_again() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let network = Network::new("kagain", Family::V4);
    let _table = network.table(&Network::places()[..1]);
    let mut keeper = network.keeper(1, KeeperTimes::default());
    let asked = keeper.client();
    let listener = network.listener(1);
    let mut server = Server::start();
    asked.guard(server.process.as_fd(), 1).expect("room");
    let (mut client, served) = used(&network, &listener);
    asked.keep(served.as_fd(), 1).expect("room");
    keeper.kill();
    let _successor = network.keeper(1, KeeperTimes::default());
    assert_eq!(hears(&mut client), Err(ErrorKind::WouldBlock), "the server has its socket still");
    // The first request after the end finds the connection to the keeper broken, and is made again by a new one.
    let told = asked.orphans().or_else(|_| asked.orphans()).expect("the successor answers");
    assert!(told.servers.is_empty(), "{told:?}");
    asked.guard(server.process.as_fd(), 1).expect("room");
    asked.keep(served.as_fd(), 1).expect("room");
    drop(served);
    server.kill();
    let told = wait_for_orphans(&asked, "the end is noticed", |told| told.servers.is_empty());
    assert_eq!(told.flows, [flow(&client)]);
    assert_eq!(hears(&mut client), Err(ErrorKind::WouldBlock));
}
