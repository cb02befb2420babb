//! A server asks one on another host: two recordings, each by its own host's clock, explained as one.
//!
//! The hosts are network namespaces with a link between them on which frames are under way for a while; the other
//! host's clock is set by moving all times of its recording.

use crate::support;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use support::planted::{Beside, first, said, wait_for};
use support::recording::attached;
use support::{alone, number, weir};
use weir_testkit::namespace::{Namespace, ip};
use weir_testkit::slow_link::{Conditions, SlowLink};
use weir_testkit::{Site, require};
use weir_trace::{SegmentReader, encode};
use weir_wire::Kind;

pub(super) const WEB: &str = "10.78.30.1";
pub(super) const STORE: &str = "10.78.30.2";
/// A frame is under way for so long.
const DELAY_NS: f64 = 4e6;
/// The store thinks for so long.
const THINKS_NS: f64 = 15e6;

/// A store on one host: to any question it thinks and answers by HTTP.
const STORE_PROGRAM: &str = "#!/usr/bin/python3
import socket, sys, threading, time
server = socket.create_server((sys.argv[1], 7300), backlog=64)
def one(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while client.recv(4096):
        time.sleep(0.015)
        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
while True:
    client, _ = server.accept()
    threading.Thread(target=one, args=(client,), daemon=True).start()
";

/// A web server on the other one, which asks the store for each request.
const WEB_PROGRAM: &str = "#!/usr/bin/python3
import socket, sys, threading
server = socket.create_server((sys.argv[1], 8300), backlog=64)
def one(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    store = socket.create_connection((sys.argv[2], 7300))
    store.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while client.recv(4096):
        store.sendall(b'find\\n')
        store.recv(4096)
        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
while True:
    client, _ = server.accept()
    threading.Thread(target=one, args=(client,), daemon=True).start()
";

/// Two hosts, the servers on them, and the link between.
pub(super) struct Stand {
    pub(super) web: Namespace,
    web_pid: u32,
    store_pid: u32,
    _servers: [Beside; 2],
    _link: SlowLink,
    pub(super) store: Namespace,
    _programs: Site,
}

/// `None` where the tests' needs are not met.
pub(super) fn stand() -> Option<Stand> {
    require::root_and_bpf()?;
    require::program("ip")?;
    require::program("python3")?;
    let (web, store) = (Namespace::new("web"), Namespace::new("store"));
    let conditions = Conditions { delay: Duration::from_nanos(DELAY_NS as u64), loses_one_in: 0, seed: 1 };
    let link = SlowLink::new(&web, "02:00:00:00:30:01", (&store, "e0"), conditions);
    for (host, address) in [(&web, WEB), (&store, STORE)] {
        ip(&["-n", host.name(), "addr", "add", &format!("{address}/24"), "dev", "e0"]);
        ip(&["-n", host.name(), "link", "set", "e0", "up"]);
    }
    let programs = Site::empty().expect("a directory");
    programs.write_program("store-server", STORE_PROGRAM.as_bytes()).expect("the store");
    programs.write_program("web-server", WEB_PROGRAM.as_bytes()).expect("the web server");
    let on = |host: &Namespace, name: &str, addresses: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", host.name()]).arg(programs.path().join(name)).args(addresses);
        Beside::spawn(command)
    };
    let store_server = on(&store, "store-server", &[STORE]);
    listens(&store, STORE, 7300);
    let web_server = on(&web, "web-server", &[WEB, STORE]);
    listens(&web, WEB, 8300);
    let (web_pid, store_pid) = (web_server.pid(), store_server.pid());
    let _servers = [web_server, store_server];
    Some(Stand { web, web_pid, store_pid, _servers, _link: link, store, _programs: programs })
}

pub(super) fn listens(host: &Namespace, address: &str, port: u16) {
    wait_for(|| host.within(|| std::net::TcpStream::connect((address, port)).ok()));
}

impl Stand {
    /// Loads a URL from the web server's host; the client's events go to the run.
    pub(super) fn load(&self, run: &Path, url: &str) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.web.name()]).arg(weir().get_program());
        command.args(["load", "-c", "2", "-d", "1s", "--run"]).arg(run).arg(url);
        let output = command.stdout(Stdio::null()).output().expect("the load starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The report of these runs.
pub(super) fn explained(runs: &[&Path]) -> Value {
    let mut arguments = vec!["explain", "--json"];
    arguments.extend(runs.iter().map(|run| run.to_str().expect("a readable path")));
    let output = support::output(&arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "weir {} failed: {stderr}", arguments.join(" "));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    eprintln!("{}\n{:#}", said(&report), report["hosts"]);
    report
}

/// A copy of a run as a host would have made it whose clock is this much ahead.
fn moved(run: &Path, to: &Path, by_ns: i64) {
    fs::create_dir_all(to.join("segments")).expect("a directory");
    let at = |ns: u64| ns.checked_add_signed(by_ns).expect("a time after the boot");
    for file in fs::read_dir(run.join("segments")).expect("segments") {
        let path = file.expect("a segment").path();
        let mut reader = SegmentReader::new(fs::File::open(&path).expect("opens"), &path);
        let mut bytes = Vec::new();
        while let Some(block) = reader.next_block().expect("a block") {
            let mut slots = Vec::new();
            for (record, payload) in block.iter() {
                assert!(record.kind < Kind::ClientConnection as u16, "a load's events hold more times");
                let b = if record.kind == Kind::Window as u16 { at(record.b) } else { record.b };
                slots.push(weir_wire::Record { time_ns: at(record.time_ns), b, ..record }.to_slot());
                slots.extend_from_slice(payload);
            }
            let mut header = block.header.clone();
            (header.base_ns, header.end_ns) = (at(header.base_ns), at(header.end_ns));
            let names: Vec<(u32, Arc<str>)> =
                block.dictionary.iter().map(|(id, name)| (*id, Arc::clone(name))).collect();
            bytes.extend(encode(&header, block.records, &names, &slots));
        }
        fs::write(to.join("segments").join(path.file_name().expect("a name")), bytes).expect("written");
    }
    let manifest = fs::read_to_string(run.join("manifest.jsonl")).expect("a manifest");
    let lines = manifest.lines().map(|line| {
        let mut entry: Value = serde_json::from_str(line).expect("an entry");
        for key in ["monotonic_ns", "first_ns", "last_ns"] {
            if let Some(ns) = entry[key].as_u64() {
                entry[key] = at(ns).into();
            }
        }
        format!("{entry}\n")
    });
    fs::write(to.join("manifest.jsonl"), lines.collect::<String>()).expect("written");
}

/// The difference of the clocks is found within the error that is told, and the parts are the whole response.
fn check(report: &Value, by_ns: i64) {
    for end in ["min", "mean", "max"] {
        let sum = number(report, &format!("/sum_of_parts_over_response/{end}"));
        assert!((sum - 1.0).abs() < 1e-9, "the parts are {sum} of the response");
    }
    assert!(number(report, "/joined_fraction") > 0.99, "{}", report["unjoinable"]);
    let offset_ns = report.pointer("/hosts/1/clock_offset_ns").and_then(Value::as_i64).expect("an offset");
    let error_ns = number(report, "/hosts/1/clock_error_ns");
    let wrong_ns = (offset_ns + by_ns).unsigned_abs() as f64;
    assert!(wrong_ns <= error_ns, "wrong by {wrong_ns} ns, not by {error_ns} ns at most");
    // No message tells more than both ways do, which take twice the delay.
    assert!(error_ns < 2.0 * DELAY_NS, "the clocks are known to {error_ns} ns only");
    assert_eq!(number(report, "/hosts/1/contradicting"), 0.0, "{}", report["hosts"]);
}

#[test]
fn a_store_on_another_host() {
    let _turn = alone();
    let Some(stand) = stand() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let [web, store] = ["web", "store"].map(|name| folder.path().join(name));
    let recordings = [(stand.web_pid, &web), (stand.store_pid, &store)].map(|(pid, run)| {
        let (pid, run) = (pid.to_string(), run.to_str().expect("a readable path").to_owned());
        attached(&["--pid", &pid, "-d", "2s", "--run", &run])
    });
    stand.load(&web, &format!("http://{WEB}:8300/"));
    for recording in recordings {
        let (status, said) = recording.end();
        assert!(status.success(), "{said}");
    }
    // Alone, the web server waits for another host.
    let (part, who) = (explained(&[&web]), format!("{STORE}:7300"));
    assert_eq!(first(&part), ("wait_network", who.as_str()), "{}", said(&part));
    for (number_of, by_ns) in [-77_000_000_001, 123_456_789_012].into_iter().enumerate() {
        let there = folder.path().join(format!("store-{number_of}"));
        moved(&store, &there, by_ns);
        // In any order: the requests are those that the client's run tells of.
        let runs = if number_of == 1 { [there.as_path(), &web] } else { [web.as_path(), &there] };
        let report = explained(&runs);
        check(&report, by_ns);
        let (part, who) = first(&report);
        assert_eq!(part, "wait_timer", "{}", said(&report));
        assert_eq!(who, format!("store-server on store-{number_of}"), "{}", said(&report));
        // A busy machine makes all of it longer, nothing shorter. The error moves time between the two ways alone.
        let part = |name: &str| number(&report, &format!("/parts_ns/{name}"));
        // Of requests that went on when a recording ended, what is not known is not told.
        let untold_ns = part("unattributed");
        assert!(untold_ns < 0.05 * number(&report, "/response_ns/mean"), "{}", said(&report));
        assert!(part("wait_timer") + untold_ns >= THINKS_NS, "{}", said(&report));
        assert!(part("wait_network") >= 1.9 * DELAY_NS, "{}", said(&report));
        assert!(part("wait_timer") + part("wait_network") > 0.7 * number(&report, "/response_ns/mean"));
        let way = format!("the network to {STORE}:7300 and back");
        let causes = report["causes"].as_array().expect("causes");
        let network = causes.iter().find(|cause| cause["part"] == "wait_network").expect("the network");
        assert_eq!(network.pointer("/who/0/0").and_then(Value::as_str), Some(way.as_str()), "{}", said(&report));
    }
    asked_in_sql(&web, &folder.path().join("store-0"));
    // From the servers' side there is one request at the web server for each, and what the store does is part of it.
    let output = support::output(&[
        "explain",
        "--json",
        "--server-side",
        web.to_str().expect("a readable path"),
        store.to_str().expect("a readable path"),
    ]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let names: Vec<&str> =
        report["transactions"].as_array().expect("classes").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [":8300"], "{}", said(&report));
    assert!(report.pointer("/exchanges/inner_requests").and_then(Value::as_u64) > Some(10), "{}", report["exchanges"]);
    assert_eq!(first(&report).0, "wait_timer", "{}", said(&report));
}

/// Questions to both hosts: each row says of which it is, and what the store did is on the common clock.
fn asked_in_sql(web: &Path, store: &Path) {
    let rows = |arguments: &[&str], question: &str| -> Vec<Value> {
        let web = web.to_str().expect("a readable path");
        let output = support::output(&[&["sql", "--json", web], arguments, &[question]].concat());
        assert!(output.status.success(), "{question}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("rows")
    };
    let both = ["--with", store.to_str().expect("a readable path")];
    let hosts = "SELECT host_name, events, clock_error_ns FROM run ORDER BY clock_error_ns";
    let hosts = rows(&both, hosts);
    let name = |at: usize| hosts[at]["host_name"].as_str().expect("a name");
    assert_eq!((hosts.len(), name(0), name(1)), (2, "web", "store-0"), "{hosts:?}");
    assert!(hosts[1]["clock_error_ns"].as_f64().is_some_and(|ns| ns > 0.0 && ns < 2.0 * DELAY_NS), "{hosts:?}");
    let tasks =
        rows(&both, "SELECT DISTINCT host_name, process FROM tasks WHERE traced = 1 AND process LIKE '%-server%'");
    let of = |host: &str, process: &str| {
        let is_it =
            |row: &&Value| row["host_name"] == host && row["process"].as_str().is_some_and(|own| own.contains(process));
        assert!(tasks.iter().any(|row| is_it(&row)), "{process} on {host}: {tasks:?}");
    };
    of("web", "web-server");
    of("store-0", "store-server");
    // What a request waits for at the store is a part of it on the store, within the request's time.
    let parts = rows(
        &both,
        "SELECT parts.host_name, count(*) AS parts, min(parts.at_ns - requests.at_ns) AS first_ns,
                max(parts.at_ns + parts.duration_ns - requests.at_ns - requests.response_ns) AS late_ns
         FROM parts JOIN requests ON requests.id = request_id WHERE part = 'wait_timer' AND requests.host_name = 'web'
         GROUP BY 1",
    );
    let store = parts.iter().find(|row| row["host_name"] == "store-0").expect("parts at the store");
    assert!(store["parts"].as_i64() > Some(5), "{parts:?}");
    assert!(store["first_ns"].as_i64() >= Some(0) && store["late_ns"].as_i64() <= Some(0), "{parts:?}");
    // Asked again it is joined no more, and alone it is one host.
    let joined = || {
        fs::read_dir(web.join("derived"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                entry.file_name().to_str().filter(|name| name.starts_with("joined-")).map(str::to_owned)
            })
            .collect::<Vec<_>>()
    };
    let before = joined();
    assert_eq!((rows(&both, "SELECT 1 AS one").len(), before.len(), joined() == before), (1, 1, true), "{before:?}");
    assert_eq!(rows(&[], "SELECT DISTINCT host_name FROM events").len(), 1);
}

/// The client is `weir load` on another host than the server: its requests are found at the server by byte position.
#[test]
fn a_load_from_another_host() {
    let _turn = alone();
    let Some(stand) = stand() else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let [load, store, there] = ["load", "store", "there"].map(|name| folder.path().join(name));
    let (pid, run) = (stand.store_pid.to_string(), store.to_str().expect("a readable path"));
    let recording = attached(&["--pid", &pid, "-d", "2s", "--keep-addresses", "--run", run]);
    stand.load(&load, &format!("http://{STORE}:7300/"));
    let (status, said) = recording.end();
    assert!(status.success(), "{said}");
    let by_ns = 3_600_000_000_001;
    moved(&store, &there, by_ns);
    let report = explained(&[&there, &load]);
    check(&report, by_ns);
    let error_ns = number(&report, "/hosts/1/clock_error_ns");
    let ways = [("request_transit", 1.0), ("response_transit", 1.0)];
    for (part, ways) in ways {
        let ns = number(&report, &format!("/parts_ns/{part}"));
        assert!(ns > ways * DELAY_NS - error_ns, "{part} {ns}: {}", support::planted::said(&report));
    }
    assert_eq!(first(&report).0, "wait_timer", "{}", support::planted::said(&report));
}
