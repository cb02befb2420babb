//! A client, a director and two nodes on one segment, each in a network namespace of its own.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_keeper::{FlowTable, KeeperClient, KeeperOptions, KeeperProcess, NodePlace};
use weir_testkit::namespace::{Namespace, ip};

/// Names the options of a keeper, for a child of the tests.
pub(crate) const KEEPER_VARIABLE: &str = "WEIR_TEST_KEEPER";
/// Of the services. A keeper needs a capability more to restore connections of it.
pub(crate) const PORT: u16 = 80;
/// Port of a listener at node 1 that is no service.
pub(crate) const OTHER_PORT: u16 = 81;
/// For states that are waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The service's address.
pub(crate) fn service(family: Family) -> SocketAddr {
    SocketAddr::new(family.host(0x80), PORT)
}

/// The addresses that a test uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// An address of the segment.
    pub(crate) fn host(self, number: u8) -> IpAddr {
        match self {
            Self::V4 => IpAddr::from([10, 77, 0, number]),
            Self::V6 => IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, u16::from(number)]),
        }
    }
}

/// How a keeper differs from the usual one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeeperTimes {
    pub(crate) hold_ms: u64,
    pub(crate) tombstone_ms: u64,
    pub(crate) allowed_uid: u32,
    pub(crate) run_as: u32,
}

impl Default for KeeperTimes {
    fn default() -> Self {
        Self { hold_ms: 5000, tombstone_ms: 2000, allowed_uid: 0, run_as: 0 }
    }
}

/// A running keeper, which ends with the value, and with the test.
#[derive(Debug)]
pub(crate) struct RunningKeeper {
    child: Child,
    socket: PathBuf,
}

impl RunningKeeper {
    /// A new connection to it.
    pub(crate) fn client(&self) -> KeeperClient {
        KeeperClient::connect(&self.socket).expect("it answers")
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// A line of the status (proc(5)) of a thread that serves: the harness has others, which keep their privileges.
    pub(crate) fn status(&self, field: &str) -> String {
        let begun = Instant::now();
        let status = loop {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it lives");
            let mut texts = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
            if let Some(text) = texts.find(|text| text.starts_with("Name:\tkeeper-sweep\n")) {
                break text;
            }
            assert!(begun.elapsed() < PATIENCE, "no thread serves");
            std::thread::sleep(Duration::from_millis(5));
        };
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
        line.trim_start_matches(':').trim().to_owned()
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it was not waited for");
    }
}

impl Drop for RunningKeeper {
    fn drop(&mut self) {
        // One that is gone already cannot be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The segment with all that is on it.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) client: Namespace,
    pub(crate) director: Namespace,
    pub(crate) nodes: [Namespace; 2],
    // Behind those whose interfaces lead to it.
    _segment: Namespace,
    pub(crate) folder: tempfile::TempDir,
    family: Family,
}

impl Network {
    /// Makes one whose namespaces have this in their names.
    pub(crate) fn new(name: &str, family: Family) -> Self {
        let segment = Namespace::new(&format!("{name}-s"));
        ip(&["-n", segment.name(), "link", "add", "br0", "type", "bridge", "forward_delay", "0"]);
        ip(&["-n", segment.name(), "link", "set", "br0", "up"]);
        let host = |short: &str, number: u8| {
            let namespace = Namespace::new(&format!("{name}-{short}"));
            let (port, mac) = (format!("p{short}"), text(mac(number)));
            let veth = ["-n", segment.name(), "link", "add", &port, "type", "veth", "peer", "name", "e0"];
            ip(&[&veth[..], &["address", &mac, "netns", namespace.name()]].concat());
            ip(&["-n", segment.name(), "link", "set", &port, "master", "br0", "up"]);
            add(&namespace, family, number, "e0", if family == Family::V4 { 24 } else { 64 });
            ip(&["-n", namespace.name(), "link", "set", "e0", "up"]);
            namespace
        };
        let client = host("c", 2);
        let director = host("d", 1);
        let nodes = [host("1", 0x11), host("2", 0x12)];
        let whole = if family == Family::V4 { 32 } else { 128 };
        add(&director, family, 0x80, "e0", whole);
        for node in &nodes {
            node.within(|| {
                for interface in ["all", "e0"] {
                    let conf = format!("/proc/sys/net/ipv4/conf/{interface}");
                    std::fs::write(format!("{conf}/arp_ignore"), "1").expect("root");
                    std::fs::write(format!("{conf}/arp_announce"), "2").expect("root");
                }
            });
            add(node, family, 0x80, "lo", whole);
        }
        for (namespace, interface) in [(&client, "e0"), (&director, "e0"), (&nodes[0], "e0"), (&nodes[1], "e0")]
            .into_iter()
            .chain(["pc", "pd", "p1", "p2", "br0"].map(|port| (&segment, port)))
        {
            wait_until_up(namespace, interface);
        }
        let folder = tempfile::tempdir().expect("a directory");
        // Keepers that are no root reach their socket's place by it only when they start, which they do as root.
        Self { client, director, nodes, _segment: segment, folder, family }
    }

    /// Both nodes' places.
    pub(crate) fn places() -> [NodePlace; 2] {
        [NodePlace { number: 1, mac: mac(0x11) }, NodePlace { number: 2, mac: mac(0x12) }]
    }

    /// The director's filter, for new connections at these nodes.
    pub(crate) fn table(&self, nodes: &[NodePlace]) -> FlowTable {
        self.director.within(|| FlowTable::attach("e0", service(self.family), nodes)).expect("root")
    }

    /// A keeper at node 1 or 2.
    pub(crate) fn keeper(&self, node: usize, times: KeeperTimes) -> RunningKeeper {
        let socket = self.folder.path().join(format!("keeper-{node}"));
        let KeeperTimes { hold_ms, tombstone_ms, allowed_uid, run_as } = times;
        let service = service(self.family);
        let options = format!("{} {service} {hold_ms} {tombstone_ms} {allowed_uid} {run_as}", socket.display());
        let program = std::env::current_exe().expect("a program");
        let mut command = Command::new(program);
        command.args(["--exact", "as_a_keeper", "--nocapture"]);
        command.env(KEEPER_VARIABLE, options).stdin(Stdio::piped()).stdout(Stdio::null());
        let child = self.nodes[node - 1].within(|| command.spawn()).expect("it starts");
        let mut keeper = RunningKeeper { child, socket };
        let begun = Instant::now();
        while KeeperClient::connect(&keeper.socket).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the keeper does not answer");
            assert!(keeper.child.try_wait().expect("a child").is_none(), "the keeper ends at once");
            std::thread::sleep(Duration::from_millis(10));
        }
        keeper
    }

    /// A listener of the service at node 1 or 2.
    pub(crate) fn listener(&self, node: usize) -> std::net::TcpListener {
        self.nodes[node - 1].within(|| std::net::TcpListener::bind(service(self.family))).expect("a free port")
    }

    /// A connection of the client to the service, and the node's end of it.
    pub(crate) fn connect(&self, listener: &std::net::TcpListener) -> (std::net::TcpStream, std::net::TcpStream) {
        let address = listener.local_addr().expect("bound");
        let client = self.client.within(|| std::net::TcpStream::connect_timeout(&address, PATIENCE));
        let client = client.expect("the service answers");
        let (served, _) = listener.accept().expect("it came");
        (client, served)
    }
}

/// What a child of the tests does.
pub(crate) fn be_a_keeper(options: &str) {
    let words: Vec<&str> = options.split(' ').collect();
    let [socket, service, hold_ms, tombstone_ms, allowed_uid, run_as] = words[..] else { panic!("{options}") };
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let services = [service.parse().expect("an address")];
    let mut options =
        KeeperOptions::new(Path::new(socket), &["e0"], &services, u32::try_from(number(allowed_uid)).expect("a user"));
    options.hold_time = Duration::from_millis(number(hold_ms));
    options.tombstone_time = Duration::from_millis(number(tombstone_ms));
    let run_as = u32::try_from(number(run_as)).expect("a user");
    options.run_as = (run_as != 0).then_some((run_as, run_as));
    // The pipe ends with the test, also with one that is killed.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let keeper = KeeperProcess::start(&options).unwrap_or_else(|error| panic!("{error}"));
    keeper.serve().unwrap_or_else(|error| panic!("{error}"));
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0x77, 0, 0, 0, number]
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The kernel notices a link a while after it is there; what is sent before is lost.
fn wait_until_up(namespace: &Namespace, interface: &str) {
    let begun = Instant::now();
    let mut command = Command::new("ip");
    command.args(["-n", namespace.name(), "-oneline", "link", "show", "dev", interface]);
    loop {
        let output = command.output().expect("iproute2 is there");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains(" state UP ") {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{interface} does not come up: {text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn add(namespace: &Namespace, family: Family, number: u8, interface: &str, bits: u8) {
    let address = format!("{}/{bits}", family.host(number));
    let mut arguments = vec!["-n", namespace.name(), "address", "add", &address, "dev", interface];
    // Otherwise an address of IPv6 could not be used for a second.
    arguments.extend((family == Family::V6).then_some("nodad"));
    ip(&arguments);
}
