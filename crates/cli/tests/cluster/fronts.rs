//! A cluster without privileges: nodes and a front on the loopback interface, without a keeper or a filter.

use crate::stand::{PATIENCE, wait_for, weir};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const FRONTS: [&str; 2] = ["front", "front2"];

/// Where a front serves.
#[derive(Debug, Clone, Copy)]
struct Ports {
    redirects: u16,
    proxy: u16,
    dns: u16,
}

/// Two nodes and a front or two, ended with the value.
struct Fronted {
    folder: TempDir,
    /// Where node 1 and node 2 serve.
    nodes: [u16; 2],
    fronts: Vec<Ports>,
    processes: Vec<(String, Child)>,
}

impl Fronted {
    fn new(fronts: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = weir_testkit::free_port;
        let ports = |_| Ports { redirects: port(), proxy: port(), dns: port() };
        let fronts = (0..fronts).map(ports).collect();
        let mut this = Self { folder, nodes: [port(), port()], fronts, processes: Vec::new() };
        this.make_keys();
        for number in [1, 2] {
            fs::create_dir_all(this.path(&format!("site{number}"))).expect("makes");
            fs::write(this.path(&format!("site{number}/who.txt")), number.to_string()).expect("writes");
            fs::write(this.path(&format!("site{number}/same.txt")), "same").expect("writes");
            this.start_node(number);
        }
        (0..this.fronts.len()).for_each(|front| this.start_front(front));
        this
    }

    fn start_front(&mut self, number: usize) {
        let (Ports { redirects, proxy, dns }, this) = (self.fronts[number], self);
        let (front, redirects, proxy) = (this.at(FRONTS[number]), local(redirects), local(proxy));
        let options =
            ["--redirect", &redirects, "--proxy", &proxy, "--dns", &local(dns), "--dns-name", "www.example.org"]
                .map(str::to_owned);
        let options: Vec<&str> =
            ["cluster", "front", &front].into_iter().chain(options.iter().map(String::as_str)).collect();
        let name = format!("{}-process", FRONTS[number]);
        this.start(&name, &options);
        wait_for(&this.path(&format!("{name}.log")), "members ask at");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().expect("is text").to_owned()
    }

    fn make_keys(&self) {
        let n1 = self.at("n1");
        weir(&["cluster", "init", &n1, "--name", "n1"], None);
        let at = local(weir_testkit::free_port());
        let mut admit = Command::new(WEIR)
            .args(["cluster", "admit", &n1, "--listen", &at, "--count", &(1 + self.fronts.len()).to_string()])
            .stdout(Stdio::null())
            .stderr(File::create(self.path("admit.log")).expect("a file"))
            .spawn()
            .expect("weir starts");
        wait_for(&self.path("admit.log"), "can join at");
        let fronts = FRONTS.iter().take(self.fronts.len()).map(|name| (*name, &["--director"][..]));
        for (name, more) in [("n2", &[][..])].into_iter().chain(fronts) {
            let token = weir(&[&["cluster", "token", &n1], more].concat(), None);
            weir(&["cluster", "join", &self.at(name), "--name", name, "--at", &at], Some(&token));
        }
        assert!(admit.wait().expect("is ours").success());
        let mut members =
            format!("service = [\"127.0.0.1:80\"]\n[director]\nname = \"front\"\naddress = \"{}\"\n", member());
        for number in [1, 2] {
            members += &format!(
                "[[node]]\nname = \"n{number}\"\nnumber = {number}\naddress = \"{}\"\nmac = \"02:00:00:00:00:0{number}\"\n\
                 url = \"http://{}\"\n",
                member(),
                local(self.nodes[number - 1])
            );
        }
        if self.fronts.len() > 1 {
            members += &format!("[standby]\nname = \"front2\"\naddress = \"{}\"\n", member());
        }
        self.members().for_each(|name| fs::write(self.path(name).join("members.toml"), &members).expect("writes"));
    }

    fn members(&self) -> impl Iterator<Item = &'static str> {
        ["n1", "n2"].into_iter().chain(FRONTS.into_iter().take(self.fronts.len()))
    }

    /// Gives all members the same rules, or none.
    fn give_rules(&self, rules: Option<&str>) {
        for member in self.members() {
            let path = self.path(member).join("cluster.policy");
            match rules {
                Some(rules) => fs::write(path, rules).expect("writes"),
                None => fs::remove_file(path).expect("is there"),
            }
        }
    }

    fn start_node(&mut self, number: usize) {
        let (site, listen) = (self.at(&format!("site{number}")), local(self.nodes[number - 1]));
        let (folder, log) = (self.at(&format!("n{number}")), self.at(&format!("access{number}.log")));
        let keeper = self.at("no-keeper.sock");
        let options =
            ["serve", &site, "--listen", &listen, "--cluster", &folder, "--keeper", &keeper, "--access-log", &log];
        self.start(&format!("serve{number}"), &options);
        wait_for(&self.path(&format!("serve{number}.log")), "of the cluster");
    }

    fn start(&mut self, name: &str, options: &[&str]) {
        let log = File::create(self.path(&format!("{name}.log"))).expect("a file");
        let mut command = Command::new(WEIR);
        command.args(options).stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        self.processes.push((name.to_owned(), command.spawn().expect("weir starts")));
    }

    fn end(&mut self, name: &str) {
        let at = self.processes.iter().position(|(known, _)| known == name).expect("is started");
        let (_, mut child) = self.processes.remove(at);
        child.kill().expect("is ours");
        child.wait().expect("is ours");
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }
}

impl Drop for Fronted {
    fn drop(&mut self) {
        for (name, child) in &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                let log = fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default();
                eprintln!("--- {name}\n{log}");
            }
        }
    }
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// An address for links over TCP and heartbeats over UDP.
fn member() -> String {
    local(weir_testkit::free_port())
}

/// The answer to a request of its own connection, with its head.
fn ask(port: u16, method: &str, target: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let head = format!("{method} {target} HTTP/1.1\r\nHost: www.example.org\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("is text");
    answer
}

/// A question of DNS, byte by byte as RFC 1035 has it.
fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes
}

/// The code of the answer (0 is right, 5 refused), how many records it has, and the bytes of the last.
fn resolve(port: u16, name: &str, kind: u16) -> (u8, u16, [u8; 4]) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket.send_to(&question(name, kind), ("127.0.0.1", port)).expect("sends");
    let mut answer = [0; 512];
    let (length, _) = socket.recv_from(&mut answer).expect("an answer");
    assert_eq!((answer[..2].to_vec(), answer[2] & 0x80), (vec![0x12, 0x34], 0x80));
    let last = answer[length - 4..length].try_into().expect("four bytes");
    (answer[3] & 15, u16::from_be_bytes([answer[6], answer[7]]), last)
}

fn wait_until(what: &str, fronted: &Fronted, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}\n{}", fronted.said("front-process"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn clients_reach_living_nodes_without_privileges() {
    let mut fronted = Fronted::new(1);
    let Ports { redirects, proxy, dns } = fronted.fronts[0];
    let urls = fronted.nodes.map(|port| format!("Location: http://{}", local(port)));
    let said = fronted.said("front-process");
    assert!(said.contains("sessions do not move"), "what is lost is said: {said}");
    // 307: the same path leads to the same node, and different ones to both.
    let to = |path: &str| {
        let answer = ask(redirects, "POST", path);
        assert!(answer.starts_with("HTTP/1.1 307 "), "{answer}");
        let line = answer.lines().find(|line| line.starts_with("Location: ")).expect("a place").to_owned();
        let node = urls.iter().position(|url| line == format!("{url}{path}"));
        node.unwrap_or_else(|| panic!("{line} is none of {urls:?}"))
    };
    wait_until("node 2 is redirected to", &fronted, || (0..8).any(|path| to(&format!("/{path}?q=1")) == 1));
    assert!((0..8).any(|path| to(&format!("/{path}")) == 0));
    assert_eq!(to("/a/same"), to("/a/same"));
    // The proxy spreads requests over both.
    let body = |path: &str| ask(proxy, "GET", path).rsplit("\r\n\r\n").next().unwrap_or_default().to_owned();
    for node in ["1", "2"] {
        wait_until(&format!("node {node} is asked by the proxy"), &fronted, || body("/who.txt") == node);
    }
    assert_eq!(resolve(dns, "www.example.org", 1), (0, 2, [127, 0, 0, 1]));
    assert_eq!(resolve(dns, "www.EXAMPLE.org", 28).1, 0, "no node has an address of IPv6");
    assert_eq!(resolve(dns, "other.example.org", 1).0, 5);

    // A node dies: all three lead to the other one.
    fronted.end("serve2");
    wait_until("the front sees it", &fronted, || resolve(dns, "www.example.org", 1).1 == 1);
    assert!((0..8).all(|path| to(&format!("/{path}")) == 0));
    for _ in 0..8 {
        assert_eq!(body("/who.txt"), "1");
    }
    // One that drains gets none, but where it is the only one.
    fronted.start_node(2);
    wait_until("it comes back", &fronted, || resolve(dns, "www.example.org", 1).1 == 2);
    weir(&["cluster", "drain", &fronted.at("n1"), "--within", "1s"], None);
    wait_until("node 1 is left out", &fronted, || resolve(dns, "www.example.org", 1).1 == 1);
    assert!((0..8).all(|path| to(&format!("/{path}")) == 1));
    fronted.end("serve1");
    fronted.end("serve2");
    wait_until("no node is left", &fronted, || ask(redirects, "GET", "/x").starts_with("HTTP/1.1 503 "));
    assert_eq!(resolve(dns, "www.example.org", 1).1, 0);
    // A front that has heard of none since its start knows as much.
    fronted.end("front-process");
    fronted.start_front(0);
    wait_until("no node is heard", &fronted, || ask(redirects, "GET", "/x").starts_with("HTTP/1.1 503 "));
}

/// To which of the nodes a front leads, in each of its ways: by redirects, as a proxy, and by DNS, which says how many.
fn leads_to(fronted: &Fronted, front: usize) -> ([bool; 2], [bool; 2], u16) {
    let Ports { redirects, proxy, dns } = fronted.fronts[front];
    let (mut redirected, mut passed_on) = ([false; 2], [false; 2]);
    for number in 0..16 {
        let told = ask(redirects, "GET", &format!("/{number}"));
        let body = ask(proxy, "GET", "/who.txt").rsplit("\r\n\r\n").next().unwrap_or_default().to_owned();
        for (at, port) in fronted.nodes.iter().enumerate() {
            redirected[at] |= told.contains(&format!("Location: http://{}/", local(*port)));
            passed_on[at] |= body == (at + 1).to_string();
        }
    }
    (redirected, passed_on, resolve(dns, "www.example.org", 1).1)
}

#[test]
fn two_fronts_follow_rules_and_either_serves_alone() {
    let mut fronted = Fronted::new(2);
    let (both, first) = (([true; 2], [true; 2], 2), ([true, false], [true, false], 1));
    let second = ([false, true], [false, true], 1);
    let all_lead_to = |fronted: &Fronted, what: &str, wanted| {
        for front in [0, 1] {
            wait_until(&format!("{what}, front {front}"), fronted, || leads_to(fronted, front) == wanted);
        }
    };
    all_lead_to(&fronted, "all nodes are there", both);
    // What a rule names gets new requests, and no other node.
    fronted.give_rules(Some("pool main = { n1 };\natom \"/**\" { rule pick: select best by active (any of main); }"));
    all_lead_to(&fronted, "only node 1 is named", first);
    // A node of the reserve sleeps until a rule wakes it.
    let reserve = "pool main = { n1 }; pool reserve = { n2 };\n\
                   atom \"/**\" { rule more: every 1s if active@main > 9999jobs then grow reserve by 1 cooldown 2s; }";
    fronted.give_rules(Some(reserve));
    wait_for(&fronted.path("front-process.log"), "node n2 sleeps");
    all_lead_to(&fronted, "node 2 sleeps", first);
    fronted.give_rules(None);
    all_lead_to(&fronted, "there are no rules any more", both);
    weir(&["cluster", "drain", &fronted.at("n1"), "--within", "1s"], None);
    all_lead_to(&fronted, "node 1 drains", second);
    weir(&["cluster", "drain", &fronted.at("n1"), "--undo"], None);
    all_lead_to(&fronted, "node 1 is back", both);
    // The second front goes on without the first one, and sees a node that dies.
    fronted.end("front-process");
    wait_until("the second front goes on", &fronted, || leads_to(&fronted, 1) == both);
    fronted.end("serve2");
    wait_until("node 2 is left out", &fronted, || leads_to(&fronted, 1) == first);
}

#[test]
fn a_front_says_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |options: &[&str]| {
        let output = Command::new(WEIR).args(options).output().expect("weir starts");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let at = folder.path().to_str().expect("is text");
    assert!(refused(&["cluster", "front", at]).contains("--proxy"), "one of the ways is needed");
    assert!(refused(&["cluster", "front", at, "--dns", "127.0.0.1:53"]).contains("--dns-name"));
    assert!(Path::new(at).exists());
}
