//! Faults planted in a load by several workers, whose records are explained with the server's: whose each percentile is.

use crate::support;

use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::planted::{Beside, undisturbed, wait_for};
use support::recording::attached;
use support::workers::{Listening, by_tls, certificates};
use support::{number, weir};
use weir_testkit::{Site, require};

/// A server that thinks for 20 ms.
const SLOW: &str = "#!/usr/bin/python3
import socket, sys, threading, time
server = socket.create_server(('127.0.0.1', int(sys.argv[1])), backlog=64)
def one(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while client.recv(4096):
        time.sleep(0.020)
        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
while True:
    client, _ = server.accept()
    threading.Thread(target=one, args=(client,), daemon=True).start()
";

/// The server and its port; `None` where the tests' needs are not met.
fn server(site: &Site) -> Option<(Beside, String)> {
    require::root_and_bpf()?;
    require::program("python3")?;
    site.write_program("slow-server", SLOW.as_bytes()).expect("the server");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let server = Beside::start(&site.path().join("slow-server"), &[&port.to_string()]);
    wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
    Some((server, port.to_string()))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

fn explained(runs: &[&Path]) -> Value {
    let mut command = weir();
    command.args(["explain", "--json"]).args(runs);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    eprintln!("{:#}\n{:#}\n{}", report["percentiles"], report["hosts"], report["unjoinable"]);
    assert!(number(&report, "/joined_fraction") > 0.95, "{}", report["unjoinable"]);
    report
}

/// The shares of the generator, the network and the server around a percentile; all four are the whole.
fn shares(report: &Value, percentile: f64) -> [f64; 3] {
    let all = report["percentiles"].as_array().expect("percentiles");
    let one = all.iter().find(|one| one["percentile"] == percentile).unwrap_or_else(|| panic!("p{percentile}"));
    let share = |name: &str| one[name].as_f64().expect("a share");
    let [generator, network, server, unknown] = ["generator", "network", "server", "unattributed"].map(share);
    assert!((generator + network + server + unknown - 1.0).abs() < 1e-9, "{one}");
    [generator, network, server]
}

/// The processes of the workers that a load started.
fn workers_of(load: &Child) -> Vec<u32> {
    let list = |task: &Path| std::fs::read_to_string(task.join("children")).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", load.id())).into_iter().flatten().flatten();
    tasks
        .flat_map(|task| list(&task.path()).split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill is there");
    assert!(status.success());
}

/// A slow server is the server's in every percentile; where a worker stands still for a while, the slowest are the
/// generator's. The record of both is one run with the kernel's.
#[test]
fn a_slow_server_and_a_late_worker_are_told_apart() {
    let _turn = undisturbed();
    let site = Site::empty().expect("a directory");
    let Some((_server, port)) = server(&site) else { return };
    let url = format!("http://127.0.0.1:{port}/");
    for is_late in [false, true] {
        let run = site.path().join(format!("run-{is_late}"));
        let recording = attached(&["--port", &port, "-d", "3s", "--run", text(&run)]);
        let mut command = weir();
        command.args(["load", "-q", "--workers", "local:2", "-c", "16", "--rate", "200", "-d", "1500ms", "--run"]);
        let mut load = command.arg(&run).arg(&url).stdout(Stdio::null()).spawn().expect("it starts");
        if is_late {
            let began = Instant::now();
            let is_loading = || site_is_loaded(&port).then_some(());
            wait_for(is_loading);
            std::thread::sleep(Duration::from_millis(300));
            let workers = workers_of(&load);
            assert_eq!(workers.len(), 2, "after {:?}", began.elapsed());
            signal(workers[0], "-STOP");
            std::thread::sleep(Duration::from_millis(300));
            signal(workers[0], "-CONT");
        }
        assert!(load.wait().expect("it ends").success());
        let (status, said) = recording.end();
        assert!(status.success(), "{said}");
        let report = explained(&[&run]);
        assert_eq!(number(&report, "/requests"), 300.0);
        let [generator, network, server] = shares(&report, 50.0);
        assert!(server > 0.8 && network < 0.1 && generator < 0.15, "{}", report["percentiles"]);
        let [generator, _, server] = shares(&report, 99.0);
        match is_late {
            // What had arrived when the worker was stopped may be told as the network's: not all of its stop is seen.
            true => assert!(generator > 0.3 && server < 0.3, "{}", report["percentiles"]),
            false => assert!(server > 0.5 && generator < 0.4, "{}", report["percentiles"]),
        }
        assert!(report["hosts"].is_null(), "one host has one clock");
    }
}

/// Whether a connection to the server's port is there that carries requests.
fn site_is_loaded(port: &str) -> bool {
    let hexadecimal = format!(":{:04X} ", port.parse::<u16>().expect("a port"));
    let established = |line: &str| line.contains(&hexadecimal) && line.split_whitespace().nth(3) == Some("01");
    std::fs::read_to_string("/proc/net/tcp")
        .is_ok_and(|text| text.lines().filter(|line| established(line)).count() >= 2)
}

/// Workers on hosts with clocks of their own have a run each, and the report says within what their clocks are known.
#[test]
fn workers_with_clocks_of_their_own_are_hosts_of_their_own() {
    let _turn = undisturbed();
    let site = Site::empty().expect("a directory");
    let Some((_server, port)) = server(&site) else { return };
    let may = Command::new("unshare").args(["--time", "--fork", "true"]).status().is_ok_and(|status| status.success());
    let Some(()) = require::or_skip(may, "no namespace of time can be made") else { return };
    let folder = site.path();
    certificates(folder);
    let workers = [None, Some(1_000)].map(|shift_s| Listening::start(folder, shift_s, &[]));
    let [run, there] = ["runs", "server"].map(|name| folder.join(name));
    let recording = attached(&["--port", &port, "-d", "3s", "--keep-addresses", "--run", text(&there)]);
    let url = format!("http://127.0.0.1:{port}/");
    let workers: Vec<&Listening> = workers.iter().collect();
    let more = ["-c", "16", "--rate", "200", "-d", "1500ms", "--run", text(&run), &url];
    let made = by_tls(folder, &workers, &more);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (status, said) = recording.end();
    assert!(status.success(), "{said}");
    let list = std::fs::read_to_string(run.join("hosts")).expect("a list of runs");
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(!run.join("incoming").exists());
    let report = explained(&[&run, &there]);
    assert_eq!(number(&report, "/requests"), 300.0);
    let [generator, network, server] = shares(&report, 50.0);
    assert!(server > 0.8 && network < 0.15 && generator < 0.15, "{}", report["percentiles"]);
    let hosts = report["hosts"].as_array().expect("hosts");
    assert_eq!(hosts.len(), 3, "{}", report["hosts"]);
    let shifted = |host: &&Value| host["clock_offset_ns"].as_f64().is_some_and(|ns| ns.abs() > 9e11);
    assert_eq!(hosts.iter().filter(shifted).count(), 1, "{}", report["hosts"]);
    assert!(hosts.iter().all(|host| host["clock_error_ns"].as_f64().is_some_and(|ns| ns < 5e6)), "{}", report["hosts"]);
}
