//! Downloads outlive their node: one that is frozen and wakes again, and one that is powered off.

use crate::stand::{self, PATIENCE, SERVICE, Stand};
use std::fs;
use std::io::Read;
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_testkit::tap::{Segment, Tap};

const CLIENTS: u16 = 20;
const CONTENT_BYTES: usize = 16 << 20;
/// A client reads so much, and rests: its download is under way until it is told to read on without a rest.
const PIECE_BYTES: usize = 16 << 10;
const REST: Duration = Duration::from_millis(20);
const FIRST_PORT: u16 = 45_000;
/// How clients speak: in the clear, and by both versions of TLS.
const WAYS: [(&str, &[&str]); 3] =
    [("http", &[]), ("https", &["--http1.1", "--tls-max", "1.2"]), ("https", &["--http1.1", "--tlsv1.3"])];

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

/// What curl prints, read with rests until it is told otherwise; and the longest time for which nothing came.
fn read_slowly(mut from: ChildStdout, is_over: &AtomicBool) -> (Vec<u8>, Duration) {
    let (mut received, mut longest) = (Vec::new(), Duration::ZERO);
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let asked = Instant::now();
        let read = from.read(&mut buffer).expect("reads");
        if read == 0 {
            return (received, longest);
        }
        received.extend_from_slice(&buffer[..read]);
        if received.len() < CONTENT_BYTES {
            longest = longest.max(asked.elapsed());
        }
        if !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(REST);
        }
    }
}

/// All that are under way are at one of the nodes; where each is does not matter.
fn under_way(stand: &Stand, nodes: &[usize]) -> usize {
    nodes.iter().map(|node| stand.connected(*node)).sum()
}

/// Starts a client of one of the ways. Its second request goes over the same connection, at the node that has it then.
fn download(stand: &Stand, number: u16) -> Child {
    let (scheme, options) = WAYS[usize::from(number) % WAYS.len()];
    let [url, next] = ["large.bin", "a.txt"].map(|name| format!("{scheme}://{SERVICE}/{name}"));
    stand.curl(FIRST_PORT + number, &[options, &["--no-buffer", &url, &next]].concat())
}

#[test]
fn downloads_go_on_where_their_node_is_frozen_and_wakes_and_where_it_is_powered_off() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = stand_of_two();
    let clients = downloads_outlive(&mut stand, outlive);
    eprintln!("the longest time for which nothing came to a client: {clients:.0?}");
    assert_eq!(status(&stand, 1, "lost"), 0);
}

/// Servers are killed while their nodes, and the keepers there, live: one that stays away, one that is started again at
/// once, and one that has taken sessions over before.
#[test]
fn downloads_go_on_where_their_server_alone_is_killed() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = stand_of_two();
    let longest = downloads_outlive(&mut stand, outlive_servers);
    eprintln!("the longest time for which nothing came to a client: {longest:.0?}");
    for node in [1, 2] {
        assert_eq!((status(&stand, node, "lost"), status(&stand, node, "not_guarded")), (0, 0));
    }
}

fn stand_of_two() -> Stand {
    Stand::new(2, &[("large.bin", &content()), ("a.txt", b"hello")])
}

/// Begins downloads, has them outlive something, and looks whether each client has got all, and the answer to its next
/// request over the same connection; the longest time for which nothing came to one.
fn downloads_outlive(stand: &mut Stand, outlive: fn(&mut Stand)) -> Duration {
    let content = content();
    let mut clients: Vec<Child> = (0..CLIENTS).map(|number| download(stand, number)).collect();
    let outputs: Vec<ChildStdout> = clients.iter_mut().map(|client| client.stdout.take().expect("piped")).collect();
    let is_over = AtomicBool::new(false);
    let read = std::thread::scope(|scope| {
        let is_over = &is_over;
        let readers: Vec<_> =
            outputs.into_iter().map(|output| scope.spawn(move || read_slowly(output, is_over))).collect();
        // Also where this fails, the readers end.
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| outlive(stand)));
        is_over.store(true, Ordering::Relaxed);
        if lived.is_err() {
            clients.iter_mut().for_each(|client| drop(client.kill()));
        }
        let read: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
        lived.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        read
    });
    let longest = read.iter().map(|(_, longest)| *longest).max().unwrap_or_default();
    for (number, (client, (received, _))) in clients.into_iter().zip(read).enumerate() {
        let output = client.wait_with_output().expect("is ours");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "client {number}, {} bytes: {said}", received.len());
        let (body, next) = received.split_at(received.len().min(CONTENT_BYTES));
        assert!(body == content && next == b"hello", "client {number}: {} bytes, which are others", received.len());
    }
    longest
}

/// Waits until each node keeps the replicas of the other one's sessions, and its keeper guards its own.
fn all_are_replicated(stand: &Stand, of_first: usize, of_second: usize) {
    for (node, own, others) in [(1, of_first, of_second), (2, of_second, of_first)] {
        wait_until("each node keeps the other's replicas, and guards its own", || {
            (status(stand, node, "kept"), status(stand, node, "guarded")) == (others as u64, own as u64)
        });
    }
}

fn outlive_servers(stand: &mut Stand) {
    let all = usize::from(CLIENTS);
    wait_until("all are connected", || under_way(stand, &[1, 2]) == all);
    let (at_first, at_second) = (stand.connected(1), stand.connected(2));
    assert!(at_first > 0 && at_second > 0, "connections are spread by their hash: {at_first} and {at_second}");
    all_are_replicated(stand, at_first, at_second);
    // A keeper that is killed before does not change that: all is copied, and guarded, once more.
    stand.end("keeper1");
    stand.start_keeper(1);
    wait_until("all is given once more", || status(stand, 1, "sent") >= 2 * at_first as u64);
    all_are_replicated(stand, at_first, at_second);
    let begun = Instant::now();
    stand.end("serve1");
    wait_until("the other node goes on", || stand.connected(2) == all);
    eprintln!(
        "{at_first} sessions of a server that was killed go on elsewhere after {:.0?}; the longest was held for {} us",
        begun.elapsed(),
        status(stand, 2, "longest_us")
    );
    assert_eq!((status(stand, 2, "taken_over"), status(stand, 2, "lost")), (at_first as u64, 0));
    stand.start_server(1);
    stand::wait_for(&stand.path("serve1.log"), "sessions move");
    let answer = stand.ask_node(1, "a.txt");
    assert!(String::from_utf8_lossy(&answer.stdout).ends_with("hello"), "the node serves again");
    all_are_replicated(stand, 0, all);
    // So soon that the director does not take the node for dead: only what the keeper has told says what is lost.
    stand.end("serve2");
    stand.start_server(2);
    wait_until("the first node goes on with all", || stand.connected(1) == all);
    assert_eq!((status(stand, 1, "taken_over"), status(stand, 1, "lost")), (all as u64, 0));
    stand::wait_for(&stand.path("serve2.log"), "sessions move");
    all_are_replicated(stand, all, 0);
    stand.end("serve1");
    wait_until("the second node has them once more", || stand.connected(2) == all);
    assert_eq!(status(stand, 2, "lost"), 0);
    stand.start_server(1);
    stand::wait_for(&stand.path("serve1.log"), "sessions move");
}

fn outlive(stand: &mut Stand) {
    let all = usize::from(CLIENTS);
    wait_until("all are connected", || under_way(stand, &[1, 2]) == all);
    let (at_first, at_second) = (stand.connected(1), stand.connected(2));
    assert!(at_first > 0 && at_second > 0, "connections are spread by their hash: {at_first} and {at_second}");
    wait_until("each node keeps the other's replicas", || {
        status(stand, 2, "kept") == at_first as u64 && status(stand, 1, "kept") == at_second as u64
    });
    freeze_and_wake(stand, at_first, all);
    power_off(stand, all);
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
    what_was_taken_over_is_told(stand, at_first);
}

/// Each session is an event of both nodes, and figures count them.
fn what_was_taken_over_is_told(stand: &Stand, count: usize) {
    let events = |node: &str| stand::weir(&["cluster", "events", stand.path(node).to_str().expect("is text")], None);
    wait_until("all are written down", || {
        events("n2").lines().filter(|line| line.contains("  taken_over  ")).count() == count
    });
    let told = events("n2");
    let line = told.lines().find(|line| line.contains("  taken_over  ")).expect("is there");
    assert!(line.contains("  n1 to n2  stood still ") && line.contains(" ms  took "), "{line}");
    assert!(told.lines().any(|line| line.contains("  replicated ") && line.contains("  n2 to n1  ")), "{told}");
    wait_until("the other side is written down", || {
        events("n1").lines().filter(|line| line.contains("  discarded ")).count() == count
    });
    let has = |node: usize, figure: &str| stand.metrics(node).contains(&format!("{figure}}} {count}\n"));
    wait_until("figures count them", || has(2, "weir_cluster_takeovers_total{result=\"taken_over\""));
    wait_until("and the other ones", || has(1, "weir_cluster_takeovers_total{result=\"discarded\""));
}

/// The second node is gone at once, with its link: the first one, which lives again, goes on with all, also with those
/// that were its own before.
fn power_off(stand: &mut Stand, all: usize) {
    wait_until("the first node keeps all replicas", || status(stand, 1, "kept") == all as u64);
    // What the clients say last is lost: the director knows less than they have.
    stand.lose_client(true);
    std::thread::sleep(Duration::from_millis(30));
    let begun = Instant::now();
    stand.power_off_node(2);
    stand.lose_client(false);
    wait_until("the first node goes on", || stand.connected(1) == all);
    eprintln!(
        "{all} sessions of a node that was powered off go on after {:.0?}; the longest was held for {} us, and {} began anew",
        begun.elapsed(),
        status(stand, 1, "longest_us"),
        status(stand, 1, "begun_anew")
    );
    assert_eq!((status(stand, 1, "taken_over"), status(stand, 1, "lost")), (all as u64, 0));
}

/// A client that reads as fast as a link of 16 MB/s lets it, and whose last acknowledgements are lost: what the director
/// has seen is far behind what it has.
#[test]
fn a_download_goes_on_whose_last_acknowledgements_were_lost() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let content: Vec<u8> = content().iter().cycle().take(3 * CONTENT_BYTES).copied().collect();
    let mut stand = Stand::new(2, &[("large.bin", &content)]);
    stand.slow_client("128mbit");
    let (got, url) = (stand.path("got"), format!("http://{SERVICE}/large.bin"));
    // One that hears nothing more would wait for hours.
    let options = ["--max-time", "60", "-o", got.to_str().expect("is text"), &url];
    let client = stand.curl(FIRST_PORT, &options);
    let node = stand.holder(FIRST_PORT, 80);
    let other = 3 - node;
    wait_until("the other node keeps a replica", || status(&stand, other, "kept") == 1);
    // In the middle of the stream, with many segments under way.
    wait_until("some megabytes have come", || fs::metadata(&got).is_ok_and(|file| file.len() > 4 << 20));
    stand.lose_client(true);
    std::thread::sleep(Duration::from_millis(80));
    stand.power_off_node(node);
    stand.lose_client(false);
    let output = client.wait_with_output().expect("is ours");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&got).expect("is there") == content, "other bytes came than were sent");
    let [taken_over, begun_anew, lost] = ["taken_over", "begun_anew", "lost"].map(|field| status(&stand, other, field));
    eprintln!("{taken_over} session was taken over, and {begun_anew} began anew");
    assert_eq!((taken_over, lost), (1, 0));
}

/// A response whose last bytes the kernel has taken is over for its server, and not for its client. It outlives its node all
/// the same: also where the node that kept its replica has died before, and where its successor dies as well, whose server
/// has written what was left within a moment.
#[test]
fn a_download_whose_last_bytes_are_in_the_kernel_outlives_two_nodes() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let content = &content()[..2 << 20];
    let mut stand = Stand::new(3, &[("large.bin", content)]);
    stand.slow_client("2mbit");
    let (got, url) = (stand.path("got"), format!("http://{SERVICE}/large.bin"));
    let client = stand.curl(FIRST_PORT, &["--max-time", "60", "-o", got.to_str().expect("is text"), &url]);
    let node = stand.holder(FIRST_PORT, 80);
    let others: Vec<usize> = (1..=3).filter(|other| *other != node).collect();
    let keeps = |stand: &Stand, other: usize| status(stand, other, "kept") == 1;
    wait_until("another node keeps a replica", || others.iter().any(|other| keeps(&stand, *other)));
    let first = *others.iter().find(|other| keeps(&stand, **other)).expect("keeps it");
    let second = others.into_iter().find(|other| *other != first).expect("are two");
    wait_until("all is written", || {
        let received = fs::metadata(&got).map_or(0, |file| file.len());
        received > 0 && received + stand.unacknowledged(node) >= content.len() as u64
    });
    stand.power_off_node(first);
    wait_until("the other one keeps it", || keeps(&stand, second));
    stand.power_off_node(node);
    wait_until("it goes on", || {
        let received = fs::metadata(&got).map_or(0, |file| file.len());
        assert!(received < content.len() as u64, "it ended before its node: this machine is too slow for the test");
        status(&stand, second, "taken_over") == 1
    });
    stand.power_on_node(first);
    wait_until("the first one keeps a replica again", || keeps(&stand, first));
    let left = content.len() as u64 - fs::metadata(&got).expect("is there").len();
    stand.power_off_node(second);
    let output = client.wait_with_output().expect("is ours");
    assert!(output.status.success(), "{left} bytes were left: {}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&got).expect("is there") == content, "other bytes came than were sent");
    assert!(left > 0, "it ended before its second node");
    assert_eq!((status(&stand, first, "taken_over"), status(&stand, first, "lost")), (1, 0));
}

/// The records that a node has sent are those that its successor sends: under no number of a record two contents are on the
/// wire, also once the first one wakes.
#[test]
fn a_node_that_wakes_has_sent_over_tls_what_its_successor_sends() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let content = content();
    let stand = Stand::new(2, &[("large.bin", &content), ("a.txt", b"hello")]);
    stand.slow_client("48mbit");
    for number in [1, 2] {
        let (port, (_, options)) = (FIRST_PORT + number, WAYS[usize::from(number)]);
        let got = stand.path(&format!("got-{number}"));
        let [url, next] = ["large.bin", "a.txt"].map(|name| format!("https://{SERVICE}/{name}"));
        let more = ["--max-time", "60", "-o", got.to_str().expect("is text"), &url, &next];
        let client = stand.curl(port, &[options, &more].concat());
        let node = stand.holder(port, 443);
        let other = 3 - node;
        let taps = [stand.tap(node), stand.tap(other)];
        let taken_over = status(&stand, other, "taken_over");
        wait_until("the other node keeps a replica", || status(&stand, other, "kept") == 1);
        wait_until("a megabyte has come", || fs::metadata(&got).is_ok_and(|file| file.len() > 1 << 20));
        // What is acknowledged last is lost, so that the successor sends again what the client has.
        stand.lose_client(true);
        std::thread::sleep(Duration::from_millis(80));
        let frozen = stand.processes_of(node);
        stand::signal(&frozen, libc::SIGSTOP);
        // As with a whole machine that stands still, its kernel says nothing meanwhile.
        stand.link_node(node, "down");
        wait_until("the other node goes on", || {
            let told =
                stand::weir(&["cluster", "status", stand.path(&format!("n{other}")).to_str().expect("is text")], None);
            assert!(told.contains("       0  sessions of nodes that were down lost"), "{told}");
            status(&stand, other, "taken_over") == taken_over + 1
        });
        // Not before: the successor would go on behind all that the client has.
        stand.lose_client(false);
        // It wakes when the client has had an answer to its next request as well.
        let output = client.wait_with_output().expect("is ours");
        stand.link_node(node, "up");
        stand::signal(&frozen, libc::SIGCONT);
        // It is told, or its kernel hears of the client that the connection is over.
        wait_until("it has discarded what it has lost", || stand.connected(node) == 0);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let received = fs::read(&got).expect("is there");
        assert!(received == content && output.stdout == b"hello", "{} bytes, which are others", received.len());
        let [first, second] = taps.map(Tap::finish);
        let (both, differ) = compared(&first, &second, port);
        let all = [&first, &second].map(|of| of.iter().map(|segment| segment.bytes.len()).sum::<usize>());
        assert!(both > 0 && differ == 0, "{differ} of {both} bytes differ that both have sent, of {all:?} in all");
        eprintln!("both nodes have sent the same {both} bytes");
    }
}

/// How many bytes to a port two nodes have both sent, and how many of these differ.
fn compared(first: &[Segment], second: &[Segment], port: u16) -> (usize, usize) {
    let is_own = |segment: &&Segment| segment.to == port && segment.from == 443;
    let seen_first = first.iter().find(is_own).expect("the first one has sent something").sequence;
    // One that comes later may be an earlier one.
    let base = seen_first.wrapping_sub(CONTENT_BYTES as u32 / 2);
    let place = |segment: &Segment| segment.sequence.wrapping_sub(base) as usize;
    // A byte, or none.
    let mut sent = vec![u16::MAX; 2 * CONTENT_BYTES];
    for segment in first.iter().filter(is_own) {
        sent[place(segment)..].iter_mut().zip(&segment.bytes).for_each(|(at, byte)| *at = u16::from(*byte));
    }
    let pairs = second.iter().filter(is_own).flat_map(|segment| sent[place(segment)..].iter().zip(&segment.bytes));
    pairs
        .filter(|(one, _)| **one != u16::MAX)
        .fold((0, 0), |(both, differ), (one, other)| (both + 1, differ + usize::from(*one != u16::from(*other))))
}
