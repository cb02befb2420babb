//! The program of all nodes is exchanged one by one under load: each is drained, ended, started anew, and takes new
//! connections again. Once in each run of the tests; `make soak-upgrade` does it as often as it is asked for.

use crate::stand::{self, SERVICE, Stand};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rounds over all nodes.
const ROUNDS: &str = "WEIR_SOAK_UPGRADE";

/// A load at the client until it is told to stop.
fn load(stand: &Stand, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["load", "--json", "-q", "-d", "10m"]).args(options).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    stand.client.within(move || command.spawn().expect("weir starts"))
}

/// Exchanges the server of a node; whether all of its sessions had moved.
fn exchange(stand: &mut Stand, node: usize) {
    let folder = stand.path(&format!("n{node}")).to_str().expect("is text").to_owned();
    let told = stand::weir(&["cluster", "drain", &folder, "--within", "20s"], None);
    assert!(told.contains(" 0 left"), "{told}");
    eprintln!("node {node}: {}", told.lines().next().unwrap_or_default());
    let name = format!("serve{node}");
    stand.ask_to_end(&name);
    stand.start_server(node);
    stand::wait_for(&stand.path(&format!("{name}.log")), "sessions move");
    stand::weir(&["cluster", "drain", &folder, "--undo"], None);
    stand::wait_for(&stand.path("director.log"), &format!("node n{node} takes new connections again"));
}

#[test]
fn all_nodes_are_exchanged_under_load_and_no_request_fails() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let rounds: u32 = std::env::var(ROUNDS).map_or(1, |rounds| rounds.parse().expect("WEIR_SOAK_UPGRADE is a number"));
    let large: Vec<u8> = (0..2_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut stand = Stand::new(2, &[("a.txt", b"hello"), ("large.bin", &large)]);
    let clear = |path: &str| format!("http://{SERVICE}/{path}");
    let secure = |path: &str| format!("https://{SERVICE}/{path}");
    let loads = [
        ("HTTP/1.1", vec![clear("a.txt"), "-c".into(), "8".into(), "--rate".into(), "200".into()]),
        ("HTTP/1.1, new connections", vec![clear("a.txt"), "--no-keepalive".into(), "--rate".into(), "50".into()]),
        (
            "HTTP/1.1 over TLS",
            vec![secure("a.txt"), "--insecure".into(), "-c".into(), "4".into(), "--rate".into(), "50".into()],
        ),
        (
            "HTTP/2 over TLS",
            vec![
                secure("a.txt"),
                "--insecure".into(),
                "--http2".into(),
                "-c".into(),
                "4".into(),
                "--rate".into(),
                "50".into(),
            ],
        ),
        (
            "HTTP/2, downloads",
            vec![clear("large.bin"), "--http2".into(), "-c".into(), "4".into(), "--rate".into(), "4".into()],
        ),
    ];
    let running: Vec<(&str, Child)> = loads
        .iter()
        .map(|(name, options)| {
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            (*name, load(&stand, &options))
        })
        .collect();
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    for _ in 0..rounds {
        (1..=2).for_each(|node| exchange(&mut stand, node));
    }
    eprintln!("{rounds} rounds over two nodes took {:.1?}", begun.elapsed());
    std::thread::sleep(Duration::from_millis(500));
    for (name, child) in running {
        // SAFETY: the call takes numbers only; the child is ours and was not waited for.
        assert_eq!(unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) }, 0);
        let output = child.wait_with_output().expect("is ours");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{name}: {error}: {}", String::from_utf8_lossy(&output.stderr));
        });
        let requests = told["requests"].as_u64().unwrap_or_default();
        eprintln!("{name}: {requests} requests, latency {}", told["latency_ns"]);
        assert!(told["errors"].as_object().is_some_and(serde_json::Map::is_empty), "{name}: {told}");
        assert_eq!((&told["dropped"], &told["latency_failed_ns"]), (&Value::from(0), &Value::Null), "{name}: {told}");
        assert!(requests > 0 && told["latency_unexpected_ns"].is_null(), "{name}: {told}");
    }
}
