//! Sessions move between two nodes and a director over real links; keeper and server are stand-ins within the test.

use crate::{PATIENCE, cluster, name, node, patient, trust, wait_for};
use std::collections::HashMap;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_cluster::{
    Authority, Control, Counts, Director, DirectorAnswers, Event, Keeper, KeeperFault, LinkClient, LinkServer, Member,
    Members, MoveError, Mover, MoverSettings, NodeAnswers, NodeNumber, Numbers, Registry, RemoteDirector, RemoteNodes,
    Role, SessionError, Sessions, Span, Steering, TableFault, Taken,
};
use weir_keeper::{Flow, Frozen, Seen, TcpState};
use zeroize::Zeroizing;

const SEND_NEXT: u32 = 5_000;
/// The client has acknowledged this much more when the director steers.
const ACKNOWLEDGED_MEANWHILE: u32 = 300;

fn flow() -> Flow {
    Flow { client: SocketAddr::from(([10, 0, 0, 9], 999)), service: SocketAddr::from(([10, 0, 0, 1], 80)) }
}

/// The content of a node: the byte at each place.
fn content(from: u64, len: u64) -> Vec<u8> {
    (from..from + len).map(|at| (at % 251) as u8).collect()
}

/// What a node does with its sockets, in order.
#[derive(Default)]
struct Hands {
    calls: Mutex<Vec<&'static str>>,
    restored: Mutex<Option<(TcpState, Vec<u8>)>>,
    states: Mutex<HashMap<i32, TcpState>>,
    restore_fails: Mutex<bool>,
    /// The keeper is another one than that which has restored the socket.
    is_new_keeper: Mutex<bool>,
}

impl Hands {
    fn did(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

fn connection() -> TcpState {
    TcpState {
        local: flow().service,
        peer: flow().client,
        options: 7,
        send_scale: 7,
        receive_scale: 7,
        mss: 1_460,
        receive_next: 5,
        unread_bytes: 3,
        send_next: SEND_NEXT,
        unacknowledged_bytes: 1_000,
        unsent_bytes: 100,
        window: [1, 2, 3, 4, 5],
        timestamp: 77,
    }
}

impl Keeper for Hands {
    fn freeze(&self, socket: BorrowedFd<'_>, _: u64) -> Result<Frozen, KeeperFault> {
        self.did("freeze");
        let tcp = self.states.lock().unwrap().get(&socket.as_raw_fd()).cloned().unwrap_or_else(connection);
        Ok(Frozen { tcp, unread: vec![1, 2, 3] })
    }

    fn send_queue(&self, _: BorrowedFd<'_>, bytes: u32) -> Result<Vec<u8>, KeeperFault> {
        self.did("send_queue");
        Ok(vec![b'r'; bytes as usize])
    }

    fn thaw(&self, _: BorrowedFd<'_>) -> Result<(), KeeperFault> {
        self.did("thaw");
        Ok(())
    }

    fn discard(&self, _: BorrowedFd<'_>) -> Result<(), KeeperFault> {
        self.did("discard");
        Ok(())
    }

    fn hold(&self, _: &Flow, _: u64) -> Result<(), KeeperFault> {
        self.did("hold");
        Ok(())
    }

    fn renew(&self, _: &Flow) -> Result<(), KeeperFault> {
        self.did("renew");
        Ok(())
    }

    fn release(&self, _: &Flow) -> Result<(), KeeperFault> {
        self.did("release");
        Ok(())
    }

    fn restore(&self, tcp: &TcpState, unread: &[u8], sent: &[u8], _: u64) -> Result<OwnedFd, KeeperFault> {
        self.did("restore");
        assert_eq!(unread, [1, 2, 3]);
        if *self.restore_fails.lock().unwrap() {
            return Err(KeeperFault::Refused("the address is in use".to_owned()));
        }
        *self.restored.lock().unwrap() = Some((tcp.clone(), sent.to_vec()));
        let socket = OwnedFd::from(File::open("/dev/null").expect("/dev/null"));
        self.states.lock().unwrap().insert(socket.as_raw_fd(), connection());
        Ok(socket)
    }

    fn activate(&self, _: BorrowedFd<'_>) -> Result<(), KeeperFault> {
        self.did("activate");
        if std::mem::take(&mut *self.is_new_keeper.lock().unwrap()) {
            return Err(KeeperFault::HoldIsOver("the hold is over".to_owned()));
        }
        Ok(())
    }
}

/// A server with at most one session.
struct Server {
    session: Mutex<Option<OwnedFd>>,
    rewinds: Mutex<bool>,
    has_other_content: Mutex<bool>,
}

impl Server {
    fn new(has_session: bool) -> Self {
        let socket = has_session.then(|| OwnedFd::from(File::open("/dev/null").expect("/dev/null")));
        Self { session: Mutex::new(socket), rewinds: Mutex::new(false), has_other_content: Mutex::new(false) }
    }

    fn has_session(&self) -> bool {
        self.session.lock().unwrap().is_some()
    }
}

impl Sessions for Server {
    fn take(&self, of: &Flow) -> Result<Taken, SessionError> {
        let socket = self.session.lock().unwrap().take().filter(|_| *of == flow());
        // The last 800 bytes are known, so that 200 of the unacknowledged ones are not.
        Ok(Taken {
            fd: socket.ok_or(SessionError::NoSession)?,
            session: b"GET /x".to_vec().into(),
            known_bytes: 800,
            relays: Vec::new(),
        })
    }

    fn give_back(&self, taken: Taken) {
        assert!(self.session.lock().unwrap().replace(taken.fd).is_none());
    }

    fn rewind(&self, session: &[u8], bytes: u64) -> Option<Vec<u8>> {
        assert_eq!(bytes, 100);
        self.rewinds.lock().unwrap().then(|| session.to_vec())
    }

    fn prepare(&self, session: &[u8], spans: &[Span]) -> Result<Vec<u8>, SessionError> {
        assert_eq!(session, b"GET /x");
        if *self.has_other_content.lock().unwrap() {
            return Err(SessionError::OtherContent);
        }
        let bytes = spans.iter().flat_map(|span| match span {
            Span::Raw(bytes) => bytes.clone(),
            Span::Session { from, len } => content(*from, *len),
        });
        Ok(bytes.collect())
    }

    fn adopt(
        &self,
        session: Zeroizing<Vec<u8>>,
        socket: OwnedFd,
        relays: Vec<OwnedFd>,
        peer: SocketAddr,
    ) -> Result<(), SessionError> {
        assert!(relays.is_empty());
        assert_eq!((session.as_slice(), peer), (b"GET /x".as_slice(), flow().client));
        assert!(self.session.lock().unwrap().replace(socket).is_none());
        Ok(())
    }
}

struct Table(Option<NodeNumber>);

impl Steering for Table {
    fn steer(&mut self, _: &Flow, to: NodeNumber, _: u64) -> Result<Option<Seen>, TableFault> {
        self.0 = Some(to);
        let ack = SEND_NEXT - 1_000 + ACKNOWLEDGED_MEANWHILE;
        Ok(Some(Seen { ack, sequence_end: 5, window: 10, ts_value: 1, ts_echo: 2, age: Duration::ZERO }))
    }

    fn owner(&self, _: &Flow) -> Option<NodeNumber> {
        self.0
    }
}

struct Node {
    mover: Arc<Mover>,
    hands: Arc<Hands>,
    server: Arc<Server>,
    nodes: Arc<RemoteNodes>,
    events: Mutex<Receiver<Event>>,
    _links: LinkServer,
    address: SocketAddr,
}

struct Cluster {
    _directory: tempfile::TempDir,
    authority: Authority,
    members: Arc<Members>,
    numbers: Arc<Numbers>,
    director: Arc<Director>,
    director_address: SocketAddr,
    director_links: Option<LinkServer>,
}

fn director() -> Member {
    Member { name: name("director"), role: Role::Director }
}

impl Cluster {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (authority, _) = cluster(directory.path());
        let (members, numbers) = (Arc::new(Members::default()), Arc::new(Numbers::default()));
        numbers.set(name("one"), 1);
        numbers.set(name("two"), 2);
        let decisions = Arc::new(Director::new(Control::new(4, [1, 2]), Box::new(Table(Some(1)))));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut this = Self {
            _directory: directory,
            authority,
            members,
            numbers,
            director: decisions,
            director_address: listener.local_addr().expect("an address"),
            director_links: None,
        };
        this.start_director(listener);
        this
    }

    fn start_director(&mut self, listener: TcpListener) {
        let answers = Arc::new(DirectorAnswers::new(Arc::clone(&self.director), Arc::clone(&self.numbers)));
        let own = trust(&self.authority, director(), &self.members);
        let links = LinkServer::start(listener, own, patient(), Arc::default(), answers);
        self.director_links = Some(links.expect("links"));
    }

    fn node(&self, number: NodeNumber, member: &str) -> Node {
        let own = trust(&self.authority, node(member), &self.members);
        let link = |peer, address| LinkClient::new(peer, address, own.clone(), patient(), Arc::default());
        let directing = RemoteDirector::new(link(director(), self.director_address), PATIENCE, 4);
        let (hands, server) = (Arc::new(Hands::default()), Arc::new(Server::new(number == 1)));
        let nodes = Arc::new(RemoteNodes::new(PATIENCE));
        let (registry, events) = Registry::new(1);
        let mover = Arc::new(Mover::new(
            MoverSettings { rest: Duration::from_millis(50), ..MoverSettings::new(number, 1) },
            Arc::clone(&hands) as _,
            Arc::clone(&server) as _,
            Arc::new(directing),
            Arc::clone(&nodes) as _,
            registry,
        ));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let answers = Arc::new(NodeAnswers::new(Arc::clone(&mover), Arc::clone(&self.numbers)));
        let links = LinkServer::start(listener, own.clone(), patient(), Arc::default(), answers);
        Node { mover, hands, server, nodes, events: Mutex::new(events), _links: links.expect("links"), address }
    }

    fn connect(&self, from: &Node, member: &str, to: &Node, (own, number): (&str, NodeNumber)) {
        let trust = trust(&self.authority, node(own), &self.members);
        let link = LinkClient::new(node(member), to.address, trust, patient(), Arc::default());
        from.nodes.set(number, link);
    }

    fn pair(&self) -> (Node, Node) {
        let (one, two) = (self.node(1, "one"), self.node(2, "two"));
        self.connect(&one, "two", &two, ("one", 2));
        self.connect(&two, "one", &one, ("two", 1));
        (one, two)
    }

    fn owner(&self) -> Option<NodeNumber> {
        self.director.with(|_, table| table.owner(&flow()))
    }
}

/// Moves as soon as the flow has rested.
fn give(node: &Node, to: NodeNumber) -> Result<Event, MoveError> {
    let mut given = Err(MoveError::UnderWay);
    wait_for("the flow has rested", || {
        given = node.mover.give(&flow(), to);
        !matches!(given, Err(MoveError::TooSoon(_)))
    });
    given
}

#[test]
fn a_session_moves_there_and_back() {
    let cluster = Cluster::new();
    let (one, two) = cluster.pair();
    let event = give(&one, 2).expect("moved");
    assert_eq!((event.flow, event.from, event.to, event.timings.remade_bytes), (flow(), 1, 2, 800));
    assert!(event.freeze <= event.total);
    assert_eq!(one.events.lock().unwrap().recv_timeout(PATIENCE), Ok(event));
    assert_eq!((one.server.has_session(), two.server.has_session(), cluster.owner()), (false, true, Some(2)));
    assert_eq!(one.hands.calls(), ["freeze", "send_queue", "discard"]);
    assert_eq!(two.hands.calls(), ["hold", "restore", "activate"]);
    let (tcp, sent) = two.hands.restored.lock().unwrap().take().expect("restored");
    // 200 raw bytes and 800 of the session, of which the client has acknowledged 300 meanwhile.
    assert_eq!(sent, content(100, 700));
    assert_eq!((tcp.unacknowledged_bytes, tcp.unsent_bytes, tcp.send_next), (700, 100, SEND_NEXT));
    assert_eq!(tcp.window[1], 10 << 7);
    assert!(give(&two, 1).is_ok());
    assert_eq!((one.server.has_session(), two.server.has_session(), cluster.owner()), (true, false, Some(1)));
    let counts = one.mover.registry().counts();
    assert_eq!((counts.given, counts.taken, counts.refused), (1, 1, 0));
    let (freeze, total) = one.mover.registry().durations_us();
    assert_eq!((freeze.len(), total.len()), (1, 1));
    // Nothing takes the events of node 1 any more, and its channel holds one: that it has the session again.
    for _ in 0..2 {
        give(&one, 2).expect("moved");
        give(&two, 1).expect("moved");
    }
    assert!(one.mover.registry().counts().events_dropped >= 4);
}

/// A keeper that is started again between the two steps has forgotten what is to be written: the socket is made once more.
#[test]
fn a_session_goes_on_where_the_keeper_was_started_anew() {
    let cluster = Cluster::new();
    let (one, two) = cluster.pair();
    *two.hands.is_new_keeper.lock().unwrap() = true;
    give(&one, 2).expect("moved");
    assert_eq!((one.server.has_session(), two.server.has_session(), cluster.owner()), (false, true, Some(2)));
    assert_eq!(two.hands.calls(), ["hold", "restore", "activate", "restore", "activate"]);
    let (tcp, sent) = two.hands.restored.lock().unwrap().take().expect("restored");
    assert_eq!((sent, tcp.unacknowledged_bytes), (content(100, 700), 700));
}

#[test]
fn what_was_never_sent_is_left_to_the_session_if_it_can_be() {
    let cluster = Cluster::new();
    let (one, two) = cluster.pair();
    *one.server.rewinds.lock().unwrap() = true;
    let event = give(&one, 2).expect("moved");
    assert_eq!(event.timings.remade_bytes, 700);
    let (tcp, sent) = two.hands.restored.lock().unwrap().take().expect("restored");
    assert_eq!((tcp.unacknowledged_bytes, tcp.unsent_bytes, tcp.send_next), (600, 0, SEND_NEXT - 100));
    assert_eq!(sent, content(100, 600));
}

#[test]
fn what_the_new_node_refuses_goes_on_at_the_old_one() {
    let cluster = Cluster::new();
    let (one, two) = cluster.pair();
    *two.server.has_other_content.lock().unwrap() = true;
    let refused = give(&one, 2).map(|_| ());
    let why = "this node has other content";
    assert!(matches!(&refused, Err(MoveError::CameBack(said)) if said.contains(why)), "{refused:?}");
    assert_eq!((one.hands.calls(), two.hands.calls()), (vec!["freeze", "send_queue", "thaw"], vec![]));
    assert_eq!((one.server.has_session(), cluster.owner()), (true, Some(1)));
    // Behind steering it is given back first.
    *two.server.has_other_content.lock().unwrap() = false;
    *two.hands.restore_fails.lock().unwrap() = true;
    let refused = give(&one, 2).map(|_| ());
    assert!(matches!(&refused, Err(MoveError::CameBack(why)) if why.contains("in use")), "{refused:?}");
    assert_eq!(one.hands.calls(), ["freeze", "send_queue", "thaw"]);
    assert_eq!(two.hands.calls(), ["hold", "restore", "release"]);
    assert_eq!((one.server.has_session(), cluster.owner()), (true, Some(1)));
    let Counts { refused, reasons, .. } = two.mover.registry().counts();
    assert_eq!((refused, reasons.len()), (2, 2));
    assert_eq!(one.mover.registry().counts().came_back, 2);
}

#[test]
fn moves_that_cannot_begin_say_why() {
    let cluster = Cluster::new();
    let (one, two) = cluster.pair();
    assert!(matches!(two.mover.give(&flow(), 1), Err(MoveError::Session(SessionError::NoSession))));
    assert!(matches!(one.mover.give(&flow(), 1), Err(MoveError::Itself(1))));
    let unknown = give(&one, 3).map(|_| ());
    assert!(matches!(&unknown, Err(MoveError::CameBack(why)) if why.contains("no address")), "{unknown:?}");
    assert!(one.server.has_session());
    // It has just been moved, in a way.
    assert!(matches!(one.mover.give(&flow(), 2), Err(MoveError::TooSoon(_)) | Ok(_)));
    // A node gives its own sessions only.
    let foreign =
        weir_cluster::Record { id: weir_cluster::MoveId { giver: 1, number: 99 }, ..crate::encoding::record(10) };
    cluster.connect(&two, "two", &two, ("two", 9));
    let answer = weir_cluster::Transport::send(&*two.nodes, 9, &Arc::new(foreign)).expect("an answer");
    let weir_cluster::Message::Refused { is_settled: true, why, .. } = answer else { panic!("{answer:?}") };
    assert!(why.contains("two is not node 1"), "{why}");
}

#[test]
fn without_a_director_the_session_stands_still_until_it_is_back() {
    let mut cluster = Cluster::new();
    let (one, two) = cluster.pair();
    drop(cluster.director_links.take());
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| give(&one, 2).map(|_| ()));
        // Node 2 is sure that it never steered, or not; node 1 asks the director, and does not go on by itself.
        wait_for("node 1 asks", || one.mover.registry().counts().asked >= 3);
        assert!(!one.server.has_session() && !two.server.has_session() && !moving.is_finished());
        let listener = TcpListener::bind(cluster.director_address).expect("the port again");
        cluster.start_director(listener);
        let came_back = moving.join().expect("no panic");
        assert!(matches!(came_back, Err(MoveError::CameBack(_))), "{came_back:?}");
    });
    let calls = one.hands.calls();
    let renewed = calls.iter().filter(|call| **call == "renew").count();
    assert!(renewed >= 2 && !calls.contains(&"hold"), "it is held for as long as it is asked: {calls:?}");
    assert_eq!((one.server.has_session(), two.server.has_session(), cluster.owner()), (true, false, Some(1)));
    assert!(give(&one, 2).is_ok());
    assert_eq!((one.server.has_session(), two.server.has_session(), cluster.owner()), (false, true, Some(2)));
}

#[test]
fn a_director_of_another_epoch_refuses_and_the_next_move_knows_it() {
    let cluster = Cluster::new();
    let (one, two) = cluster.pair();
    cluster.director.with(|control, _| *control = Control::new(9, [1, 2]));
    let refused = give(&one, 2).map(|_| ());
    assert!(matches!(&refused, Err(MoveError::CameBack(why)) if why.contains("epoch")), "{refused:?}");
    assert!(one.server.has_session() && !two.server.has_session());
    // Both have heard of the new epoch.
    assert!(give(&one, 2).is_ok());
    assert_eq!(cluster.owner(), Some(2));
}
