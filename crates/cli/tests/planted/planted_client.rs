//! A client that takes its response slowly, seen from the server's side.

use crate::support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::planted::{Beside, first, said, share};
use support::{alone, number, weir};
use weir_testkit::{Apache, Site, require};

/// A client that takes 400 ms for a file that is there at once, and that is larger than all socket buffers: the server
/// waits for it in the middle of the response.
#[test]
fn a_client_that_reads_slowly() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() || require::program("curl").is_none() {
        return;
    }
    let site = Site::empty().expect("a site");
    site.write("large.bin", &vec![b'x'; 40 << 20]).expect("a file");
    let server = Apache::prefork().workers(4).root(site.path()).start().expect("Apache starts");
    let mut client = Command::new("curl");
    client.args(["-s", "--limit-rate", "100M"]);
    for _ in 0..30 {
        client.args(["-o", "/dev/null", &server.url("/large.bin")]);
    }
    let _client = Beside::spawn(client);
    let run = tempfile::tempdir().expect("a temporary directory");
    let (run, port) = (run.path().to_str().expect("a readable path"), server.port.to_string());
    // From the server's side: what the client does between its reads is known only to the client.
    let output = support::output(&["explain", "--json", "--port", &port, "-d", "4s", "--run", run]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    eprintln!("{}", said(&report));
    let (part, who) = first(&report);
    assert_eq!(part, "wait_network", "{}", said(&report));
    assert!(who.starts_with("a client that reads slowly: curl ("), "`{who}` is blamed: {}", said(&report));
    assert!(share(&report, "wait_network") > 0.5 && number(&report, "/response_ns/mean") > 100e6, "{}", said(&report));
}

/// The same from another host, as far as the server can tell: the client has a network namespace of its own.
fn from_another_address(recorded: &[&str]) -> Option<String> {
    require::root_and_bpf()?;
    require::program("ip")?;
    require::program("curl")?;
    let site = Site::empty().expect("a site");
    site.write("large.bin", &vec![b'x'; 40 << 20]).expect("a file");
    let port = weir_testkit::free_port().to_string();
    let namespace = Namespace::new(&format!("weir{port}"));
    let listen = format!("10.201.8.1:{port}");
    let mut server = weir();
    server.args(["serve", "--listen", &listen]).arg(site.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Beside::spawn(server);
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(&listen).is_err() {
        assert!(Instant::now() < deadline, "the server does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    let url = format!("http://{listen}/large.bin");
    let mut client = Command::new("ip");
    client.args(["netns", "exec", &namespace.name, "curl", "-s", "--limit-rate", "100M"]);
    for _ in 0..30 {
        client.args(["-o", "/dev/null", &url]);
    }
    let _client = Beside::spawn(client);
    let run = tempfile::tempdir().expect("a temporary directory");
    let run = run.path().to_str().expect("a readable path");
    let options = ["record", "--port", &port, "-d", "2s", "--run", run];
    let output = support::output(&[&options, recorded].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = support::output(&["explain", "--json", run]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    eprintln!("{}", said(&report));
    // On a busy machine both may wait for a CPU for longer than for each other.
    assert!(share(&report, "wait_network") > 0.1, "{}", said(&report));
    let causes = report["causes"].as_array().expect("causes");
    let cause = causes.iter().find(|cause| cause["part"] == "wait_network").expect("a wait for the client");
    cause.pointer("/who/0/0").and_then(serde_json::Value::as_str).map(str::to_owned)
}

#[test]
fn a_client_of_another_address_is_told_by_a_hash() {
    let _turn = alone();
    let Some(who) = from_another_address(&[]) else { return };
    let hash = who
        .strip_prefix("a client that reads slowly: ")
        .and_then(|rest| rest.strip_suffix("… (address hashed; weir record --keep-addresses names it)"));
    let is_hash = hash.is_some_and(|hash| hash.len() == 8 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert!(is_hash, "`{who}` is blamed");
}

#[test]
fn its_address_is_told_if_it_is_kept() {
    let _turn = alone();
    let Some(who) = from_another_address(&["--keep-addresses"]) else { return };
    assert_eq!(who, "a client that reads slowly: 10.201.8.2");
}

/// A network namespace of the test's own, with a pair of devices to it.
struct Namespace {
    name: String,
}

impl Namespace {
    fn new(name: &str) -> Self {
        let made = Self { name: name.to_owned() };
        for command in [
            format!("netns add {name}"),
            format!("link add {name}a type veth peer name {name}b netns {name}"),
            format!("addr add 10.201.8.1/24 dev {name}a"),
            format!("link set {name}a up"),
            format!("-n {name} addr add 10.201.8.2/24 dev {name}b"),
            format!("-n {name} link set {name}b up"),
        ] {
            let done = Command::new("ip").args(command.split(' ')).output().expect("ip starts");
            assert!(done.status.success(), "ip {command}: {}", String::from_utf8_lossy(&done.stderr));
        }
        made
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It fails only when it was never made.
        let _ = Command::new("ip").args(["link", "del", &format!("{}a", self.name)]).output();
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}
