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

/// Two nodes and a front, ended with the value.
struct Fronted {
    folder: TempDir,
    /// Where node 1 and node 2 serve.
    nodes: [u16; 2],
    redirects: u16,
    proxy: u16,
    dns: u16,
    processes: Vec<(String, Child)>,
}

impl Fronted {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = weir_testkit::free_port;
        let mut this = Self {
            folder,
            nodes: [port(), port()],
            redirects: port(),
            proxy: port(),
            dns: port(),
            processes: Vec::new(),
        };
        this.make_keys();
        for number in [1, 2] {
            fs::create_dir_all(this.path(&format!("site{number}"))).expect("makes");
            fs::write(this.path(&format!("site{number}/who.txt")), number.to_string()).expect("writes");
            fs::write(this.path(&format!("site{number}/same.txt")), "same").expect("writes");
            this.start_node(number);
        }
        this.start_front();
        this
    }

    fn start_front(&mut self) {
        let this = self;
        let (front, redirects, proxy) = (this.at("front"), local(this.redirects), local(this.proxy));
        let options =
            ["--redirect", &redirects, "--proxy", &proxy, "--dns", &local(this.dns), "--dns-name", "www.example.org"]
                .map(str::to_owned);
        let options: Vec<&str> =
            ["cluster", "front", &front].into_iter().chain(options.iter().map(String::as_str)).collect();
        this.start("front-process", &options);
        wait_for(&this.path("front-process.log"), "members ask at");
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
            .args(["cluster", "admit", &n1, "--listen", &at, "--count", "2"])
            .stdout(Stdio::null())
            .stderr(File::create(self.path("admit.log")).expect("a file"))
            .spawn()
            .expect("weir starts");
        wait_for(&self.path("admit.log"), "can join at");
        for (name, more) in [("n2", &[][..]), ("front", &["--director"][..])] {
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
        ["n1", "n2", "front"]
            .iter()
            .for_each(|name| fs::write(self.path(name).join("members.toml"), &members).expect("writes"));
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
    let mut fronted = Fronted::new();
    let (redirects, proxy, dns) = (fronted.redirects, fronted.proxy, fronted.dns);
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
    fronted.start_front();
    wait_until("no node is heard", &fronted, || ask(redirects, "GET", "/x").starts_with("HTTP/1.1 503 "));
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
