//! Two directors: when the active one is gone, the other goes on with its connections.

use crate::stand::{PATIENCE, SERVICE, Stand, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

const CLIENTS: u16 = 8;
const CONTENT_BYTES: u32 = 24 << 20;
/// A takeover takes 0.3 s on an idle machine; a busy one takes longer to run anything.
const TAKEOVER_MAX: Duration = Duration::from_secs(10);

fn content() -> Vec<u8> {
    (0..CONTENT_BYTES).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("is text")
}

/// What a director says of itself.
fn status(stand: &Stand, folder: &str) -> Value {
    let told = stand.seat_status(folder, &["--json"]);
    serde_json::from_str::<Value>(&told).expect("is JSON")["status"].clone()
}

/// Waits until a director says so.
fn wait_status(stand: &Stand, folder: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = status(stand, folder);
        if is_so(&told) {
            return told;
        }
        assert!(Instant::now() < deadline, "{folder}: {told}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asks for a small file, each time over a new connection, until it comes; how long that took.
fn time_until_served(stand: &Stand, first_port: u16) -> Duration {
    let begun = Instant::now();
    let url = format!("http://{SERVICE}/a.txt");
    for port in first_port.. {
        // A SYN that is lost is sent again after a second: a new connection shows sooner that the way is open.
        let client = stand.curl(port, &["--max-time", "0.25", &url]);
        let output = client.wait_with_output().expect("is ours");
        if output.stdout == b"hello" {
            break;
        }
        assert!(begun.elapsed() < TAKEOVER_MAX, "{}", String::from_utf8_lossy(&output.stderr));
    }
    begun.elapsed()
}

struct Download {
    client: Child,
    port: u16,
    service_port: u16,
}

fn start(stand: &Stand, number: u16) -> Download {
    let got = stand.path(&format!("got-{number}"));
    let (scheme, service_port) = if number.is_multiple_of(2) { ("http", 80) } else { ("https", 443) };
    let (port, url) = (46_000 + number, format!("{scheme}://{SERVICE}/large.bin"));
    let client = stand.curl(port, &["--http1.1", "--limit-rate", "2M", "-o", text(&got), &url]);
    Download { client, port, service_port }
}

/// A session moves with the director that is active now. One whose download ended first is not the director's fault.
fn moves_go_on(stand: &Stand) {
    for number in 100..105 {
        let Download { mut client, port, service_port } = start(stand, number);
        let at = stand.holder(port, service_port);
        let output = stand.shift(at, 3 - at, port, service_port);
        client.kill().expect("is ours");
        client.wait().expect("is ours");
        if output.status.success() {
            return;
        }
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(why.contains("no session") || why.contains("about to end"), "{why}");
    }
    panic!("no session moves");
}

#[test]
fn a_second_director_goes_on_with_the_connections_of_one_that_is_gone() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let content = content();
    let mut stand = Stand::pair(2, &[("large.bin", &content), ("a.txt", b"hello")], true);
    wait_for(&stand.path("director.log"), "front is active in epoch");
    wait_for(&stand.path("director2.log"), "front2 stands by, with the table of front");
    assert!(stand.has_address(1) && !stand.has_address(2));
    assert!(weir(&["cluster", "nodes", text(&stand.path("n1"))], None).contains("director front is active"));
    let mut downloads: Vec<Download> = (0..CLIENTS).map(|number| start(&stand, number)).collect();
    let mut moved = 0;
    for download in &downloads[..usize::from(CLIENTS) / 2] {
        let at = stand.holder(download.port, download.service_port);
        let output = stand.shift(at, 3 - at, download.port, download.service_port);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        moved += 1;
    }
    wait_status(&stand, "front2", |told| told["replicated"] == moved && told["active_in_epoch"].is_null());
    let are_under_way = downloads.iter_mut().all(|it| it.client.try_wait().expect("is ours").is_none());
    assert!(are_under_way, "a download has ended before the director is gone");
    stand.power_off(1, "director");
    let took = time_until_served(&stand, 47_000);
    eprintln!("the first new connection was served {} ms after the director was gone", took.as_millis());
    assert!(stand.has_address(2));
    assert_eq!(status(&stand, "front2")["active"], "front2");
    moves_go_on(&stand);
    assert!(weir(&["cluster", "status", text(&stand.path("n1"))], None).contains("director front2 is active"));
    // The first one comes back, and stands by with the table of the second.
    stand.power_on(1);
    stand.start_director(1, "director-again");
    wait_for(&stand.path("director-again.log"), "front stands by, with the table of front2");
    assert!(!stand.has_address(1));
    // The second one ends, and has the first one go on at once, whose heartbeats it has heard.
    wait_status(&stand, "front2", |told| told["other"][1] == true);
    stand.ask_to_end("director2");
    let took = time_until_served(&stand, 48_000);
    eprintln!("and {} ms after the other one has handed over", took.as_millis());
    assert!(stand.said("director2").contains("The other director is active"), "{}", stand.said("director2"));
    assert!(stand.has_address(1) && !stand.has_address(2));
    for (number, download) in downloads.into_iter().enumerate() {
        let output = download.client.wait_with_output().expect("is ours");
        assert!(output.status.success(), "{number}: {}", String::from_utf8_lossy(&output.stderr));
        let got = fs::read(stand.path(&format!("got-{number}"))).expect("is there");
        assert!(got == content, "client {number}: {} bytes", got.len());
    }
}

/// The first director's machine also has one of three members of etcd: both are gone at once.
#[test]
fn a_second_director_takes_over_by_an_etcd_that_loses_a_member_with_the_first() {
    if weir_testkit::require::root_and_bpf().is_none() || weir_testkit::require::program("etcd").is_none() {
        return;
    }
    let content = content();
    let mut stand = Stand::pair_in_etcd(&[("large.bin", &content), ("a.txt", b"hello")]);
    wait_for(&stand.path("director.log"), "front is active in epoch");
    wait_for(&stand.path("director2.log"), "front2 stands by, with the table of front");
    let mut download = start(&stand, 0);
    let at = stand.holder(download.port, download.service_port);
    let output = stand.shift(at, 3 - at, download.port, download.service_port);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    wait_status(&stand, "front2", |told| told["replicated"] == 1 && told["active_in_epoch"].is_null());
    assert!(download.client.try_wait().expect("is ours").is_none(), "the download ended before the director is gone");
    stand.power_off(1, "director");
    let took = time_until_served(&stand, 47_000);
    eprintln!("with etcd, the first new connection was served {} ms after the director was gone", took.as_millis());
    assert!(stand.has_address(2));
    assert_eq!(status(&stand, "front2")["active"], "front2");
    let told = stand.seat_status("front2", &[]);
    assert!(told.contains("front at https://10.79.0.1:2379") && told.contains("fault: "), "{told}");
    assert!(told.contains("directory etcd at") && told.contains(" answers\n"), "{told}");
    let output = download.client.wait_with_output().expect("is ours");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(stand.path("got-0")).expect("is there") == content, "other bytes came than were sent");
}

#[test]
fn without_a_directory_a_command_makes_a_director_active() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::pair(1, &[("a.txt", b"hello")], false);
    wait_for(&stand.path("director.log"), "front is active in epoch");
    wait_for(&stand.path("director2.log"), "front2 stands by, with the table of front");
    time_until_served(&stand, 46_000);
    stand.power_off(1, "director");
    wait_status(&stand, "front2", |told| told["other"][1] == false);
    assert!(!stand.has_address(2), "nothing but a command makes it active");
    let told = weir(&["cluster", "activate", text(&stand.path("front2"))], None);
    assert!(told.starts_with("the director of this machine is active in epoch"), "{told}");
    time_until_served(&stand, 47_000);
    // One that was active before does not begin by itself, and can be made active again.
    stand.power_on(1);
    stand.start_director(1, "director-again");
    wait_for(&stand.path("director-again.log"), "front stands by, with the table of front2");
    weir(&["cluster", "activate", text(&stand.path("front"))], None);
    wait_for(&stand.path("director2.log"), "front2 stands by; front has begun epoch");
    time_until_served(&stand, 48_000);
    assert!(stand.has_address(1) && !stand.has_address(2));
}
