//! Downloads outlive their node: one that is frozen and wakes again, and one that is powered off.

use crate::stand::{self, PATIENCE, SERVICE, Stand};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

const CLIENTS: u16 = 20;
/// Each is under way for some ten seconds, if no node takes it away.
const CONTENT_BYTES: usize = 24 << 20;
const RATE: &str = "3M";
const FIRST_PORT: u16 = 45_000;

fn content() -> Vec<u8> {
    (0..CONTENT_BYTES as u32).map(|i| (i.wrapping_mul(2_246_822_519) >> 23) as u8).collect()
}

/// A field of a node's status.
fn status(stand: &Stand, node: usize, field: &str) -> u64 {
    let folder = stand.path(&format!("n{node}"));
    let json = stand::weir(&["cluster", "status", folder.to_str().expect("is text"), "--json"], None);
    let json: serde_json::Value = serde_json::from_str(&json).expect("is JSON");
    json["status"]["replicas"][field].as_u64().unwrap_or_else(|| panic!("{field} in {json}"))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads a download to its end at some 3 MB/s; the longest time for which nothing came, and whether all bytes are right.
fn watch(mut server: TcpStream, content: &[u8]) -> (Duration, Result<(), String>) {
    server.set_read_timeout(Some(PATIENCE)).expect("sets");
    server.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("writes");
    let (mut received, mut longest) = (Vec::new(), Duration::ZERO);
    let mut buffer = vec![0; 32 << 10];
    loop {
        let asked = Instant::now();
        match server.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => received.extend_from_slice(&buffer[..read]),
            Err(error) => return (longest, Err(format!("after {} bytes: {error}", received.len()))),
        }
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    let head = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(0, |at| at + 4);
    let body = &received[head..];
    let is_whole = body == content;
    (longest, if is_whole { Ok(()) } else { Err(format!("{} bytes came, others than sent", body.len())) })
}

/// All that are under way are at one of the nodes; where each is does not matter.
fn under_way(stand: &Stand, nodes: &[usize]) -> usize {
    nodes.iter().map(|node| stand.connected(*node)).sum()
}

#[test]
fn downloads_go_on_where_their_node_is_frozen_and_wakes_and_where_it_is_powered_off() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let content = content();
    let mut stand = Stand::new(2, &[("large.bin", &content), ("a.txt", b"hello")]);
    let clients: Vec<(u16, Child)> = (0..CLIENTS)
        .map(|number| {
            let got = stand.path(&format!("got-{number}"));
            let (url, next) = (format!("http://{SERVICE}/large.bin"), format!("http://{SERVICE}/a.txt"));
            // The second request goes over the same connection, at the node that has it then.
            let options = ["--limit-rate", RATE, "-o", got.to_str().expect("is text"), &url, &next];
            (number, stand.curl(FIRST_PORT + number, &options))
        })
        .collect();
    let watched = stand.client.within(|| TcpStream::connect((SERVICE, 80)).expect("connects"));
    let watching = std::thread::spawn({
        let content = content.clone();
        move || watch(watched, &content)
    });
    let all = usize::from(CLIENTS) + 1;
    wait_until("all are connected", || under_way(&stand, &[1, 2]) == all);
    let (at_first, at_second) = (stand.connected(1), stand.connected(2));
    assert!(at_first > 0 && at_second > 0, "connections are spread by their hash: {at_first} and {at_second}");
    wait_until("each node keeps the other's replicas", || {
        status(&stand, 2, "kept") == at_first as u64 && status(&stand, 1, "kept") == at_second as u64
    });
    freeze_and_wake(&stand, at_first, all);
    power_off(&mut stand, all);
    for (number, client) in clients {
        let output = client.wait_with_output().expect("is ours");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "client {number}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "client {number}");
        let received = fs::read(stand.path(&format!("got-{number}"))).expect("is there");
        assert!(received == content, "client {number}: {} bytes, which are others", received.len());
    }
    let (longest, is_whole) = watching.join().expect("no panic");
    assert_eq!(is_whole, Ok(()));
    eprintln!("the longest time for which nothing came: {longest:.0?}");
    assert_eq!(status(&stand, 1, "lost"), 0);
}

/// The first node stands still, as with a frozen virtual machine, and goes on once the other one has its sessions.
fn freeze_and_wake(stand: &Stand, at_first: usize, all: usize) {
    let frozen = stand.processes_of(1);
    assert!(frozen.len() >= 3, "the server, its node process and the keeper: {frozen:?}");
    stand::signal(&frozen, libc::SIGSTOP);
    let begun = Instant::now();
    wait_until("the other node goes on", || stand.connected(2) == all);
    eprintln!(
        "a frozen node's {at_first} sessions go on elsewhere after {:.0?}; the longest was held for {} us",
        begun.elapsed(),
        status(stand, 2, "longest_us")
    );
    assert_eq!((status(stand, 2, "taken_over"), status(stand, 2, "lost")), (at_first as u64, 0));
    stand::signal(&frozen, libc::SIGCONT);
    wait_until("it discards what it has lost", || status(stand, 1, "discarded") == at_first as u64);
    assert_eq!(stand.connected(1), 0);
    assert_eq!(stand.connected(2), all, "the others go on");
}

/// The second node is gone at once, with its link: the first one, which lives again, goes on with all, also with those
/// that were its own before.
fn power_off(stand: &mut Stand, all: usize) {
    wait_until("the first node keeps all replicas", || status(stand, 1, "kept") == all as u64);
    let begun = Instant::now();
    stand.power_off(2);
    wait_until("the first node goes on", || stand.connected(1) == all);
    eprintln!(
        "{all} sessions of a node that was powered off go on after {:.0?}; the longest was held for {} us",
        begun.elapsed(),
        status(stand, 1, "longest_us")
    );
    assert_eq!((status(stand, 1, "taken_over"), status(stand, 1, "lost")), (all as u64, 0));
}
