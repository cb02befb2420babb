//! A site is published once, and each node of a cluster serves it.

use crate::stand::{PATIENCE, SERVICE, Stand, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LARGE_BYTES: u32 = 24 << 20;

fn large(seed: u32) -> Vec<u8> {
    (0..LARGE_BYTES).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 24) as u8).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("is text")
}

/// Writes files of a site.
fn write(site: &Path, files: &[(&str, &[u8])]) {
    fs::create_dir_all(site).expect("makes");
    files.iter().for_each(|(name, bytes)| fs::write(site.join(name), bytes).expect("writes"));
}

/// Publishes at a node; what is told.
fn publish(stand: &Stand, node: &str, site: &Path, more: &[&str]) -> Value {
    let folder = stand.path(node);
    let told = weir(&[&["cluster", "publish", text(&folder), text(site), "--json"], more].concat(), None);
    serde_json::from_str(&told).expect("is JSON")
}

/// Waits until a node serves this.
fn wait_served(stand: &Stand, node: usize, path: &str, wanted: &[u8]) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = stand.ask_node(node, path).stdout;
        if answer.ends_with(wanted) {
            return answer;
        }
        let log = stand.said(&format!("serve{node}"));
        assert!(Instant::now() < deadline, "node {node}, {path}: {}\n{log}", String::from_utf8_lossy(&answer));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The content of a node, by digest.
fn contents(stand: &Stand, node: &str) -> Vec<PathBuf> {
    let Ok(parts) = fs::read_dir(stand.path(node).join("atoms/sha256")) else { return Vec::new() };
    let files = parts.flat_map(|part| fs::read_dir(part.expect("is read").path()).expect("is read"));
    files.map(|file| file.expect("is read").path()).collect()
}

#[test]
fn every_node_serves_what_is_published_once() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::published(2);
    let site = stand.path("build");
    let first = large(1);
    write(&site, &[("a.txt", b"one"), ("large.bin", &first), ("same.txt", b"stays")]);
    let told = publish(&stand, "n1", &site, &[]);
    assert_eq!((&told["version"], &told["files"], &told["has_node"]), (&1.into(), &3.into(), &true.into()), "{told}");
    // The publisher's own node has it now.
    let current = fs::read(stand.path("n1").join("sites/www/current/a.txt")).expect("is there");
    assert_eq!(current, b"one");
    let head = |answer: &[u8]| {
        let lines = String::from_utf8_lossy(answer).into_owned();
        let kept = |line: &&str| line.starts_with("ETag:") || line.starts_with("Last-Modified:");
        lines.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>()
    };
    let (one, two) = (wait_served(&stand, 1, "a.txt", b"one"), wait_served(&stand, 2, "a.txt", b"one"));
    assert_eq!((head(&one), head(&one).len()), (head(&two), 2), "caches take both nodes for one");

    // A download of the first version is under way while the second comes.
    let got = stand.path("got");
    let url = format!("http://{SERVICE}/large.bin");
    let client = stand.curl(45_001, &["--limit-rate", "4M", "-o", text(&got), &url]);
    stand.holder(45_001, 80);
    let before = contents(&stand, "n2").len();
    write(&site, &[("a.txt", b"two")]);
    let told = publish(&stand, "n2", &site, &["--expect", "1"]);
    assert_eq!((&told["version"], &told["new_bytes"]), (&2.into(), &3.into()), "{told}");
    wait_served(&stand, 1, "a.txt", b"two");
    wait_served(&stand, 2, "a.txt", b"two");
    wait_for(&stand.path("serve1.log"), "site www: version 2 is served, 3 files; 1 content of 3 bytes fetched");
    assert_eq!(contents(&stand, "n2").len(), before + 1);
    let output = client.wait_with_output().expect("is ours");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&got).expect("is there") == first, "the first version arrives whole");
    stale_expectations_publish_nothing(&stand, &site);

    weir(&["cluster", "rollback", text(&stand.path("n1")), "--to", "1"], None);
    wait_served(&stand, 1, "a.txt", b"one");
    wait_served(&stand, 2, "a.txt", b"one");
    damage_is_mended(&stand);
    one_that_was_away_catches_up(&mut stand, &site);
}

fn stale_expectations_publish_nothing(stand: &Stand, site: &Path) {
    write(site, &[("a.txt", b"three")]);
    let (folder, program) = (stand.path("n1"), env!("CARGO_BIN_EXE_weir"));
    let options = ["cluster", "publish", text(&folder), text(site), "--expect", "1"];
    let output = Command::new(program).args(options).output().expect("weir starts");
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && why.contains("is at version 2, not 1"), "{why}");
    // A publisher that is killed at any moment has published all or nothing.
    for ms in [5, 40] {
        let mut child = Command::new(program)
            .args(&options[..4])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("weir starts");
        std::thread::sleep(Duration::from_millis(ms));
        child.kill().expect("is ours");
        child.wait().expect("is ours");
        let told: Value = serde_json::from_str(&weir(&["cluster", "versions", text(&folder), "--json"], None))
            .expect("versions are JSON");
        let versions = told.as_array().expect("a list");
        let current = versions.iter().find(|version| version["is_current"] == true).expect("one is current");
        assert_eq!(current["files"], 3, "{told}");
    }
}

/// Content that another program has written to is fetched again.
fn damage_is_mended(stand: &Stand) {
    let content = contents(stand, "n2").into_iter().find(|path| fs::read(path).expect("is read") == b"stays");
    let content = content.expect("is there");
    fs::set_permissions(&content, fs::Permissions::from_mode(0o644)).expect("set");
    fs::write(&content, b"wrong").expect("writes");
    wait_for(&stand.path("serve2.log"), "the content of same.txt is damaged on the disk; it is fetched again");
    wait_served(stand, 2, "same.txt", b"stays");
    assert_eq!(fs::read(&content).expect("is there"), b"stays");
}

fn one_that_was_away_catches_up(stand: &mut Stand, site: &Path) {
    stand.end("serve2");
    write(site, &[("a.txt", b"four"), ("new.txt", b"new")]);
    let told = publish(stand, "n1", site, &[]);
    assert_eq!(told["files"], 4, "{told}");
    let n1 = stand.path("n1");
    let state = |wanted: &str| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = weir(&["cluster", "nodes", text(&n1), "--json"], None);
            let told: Value = serde_json::from_str(&told).expect("is JSON");
            let nodes = &told["nodes"];
            if nodes[1]["state"] == wanted && nodes[1]["sites"] == nodes[0]["sites"] {
                return;
            }
            assert!(Instant::now() < deadline, "{told}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    stand.start_server(2);
    wait_served(stand, 2, "a.txt", b"four");
    wait_served(stand, 2, "new.txt", b"new");
    state("alive");
    assert!(weir(&["cluster", "status", text(&n1)], None).contains(") answers"));
}

/// The certificate of a member that was removed is refused by those that run, and by those that start later.
#[test]
fn a_removed_member_is_refused() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::published(2);
    let n1 = stand.path("n1");
    let told = stand.nodes[0].within(|| weir(&["cluster", "remove", text(&n1), "n2"], None));
    assert!(told.contains("heartbeats and gossip have a new secret, which all other members have"), "{told}");
    for log in ["serve1", "director"] {
        wait_for(&stand.path(&format!("{log}.log")), "n2 was removed from the cluster");
        wait_for(&stand.path(&format!("{log}.log")), "heartbeats and gossip have a new secret, number 1 after");
    }
    let secret = |member: &str| fs::read(stand.path(member).join("cluster.secret")).expect("is there");
    assert!(secret("n1") == secret("front") && secret("n1") != secret("n2"), "the removed one does not get it");
    let list = |member: &str| fs::read(stand.path(member).join("revoked.crl")).ok();
    assert!(list("n1").is_some() && list("n1") == list("front"), "what etcd is to refuse is told");
    // What the removed one seals is refused once the old secret has had its time; the others never miss each other.
    let forged = || {
        let told = stand.director_metrics("127.0.0.1:9100");
        let line = told.lines().find(|line| line.starts_with("weir_cluster_heartbeats_total{result=\"forged\"}"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or_else(|| panic!("{told}"))
    };
    let deadline = Instant::now() + PATIENCE;
    while forged() == 0 {
        assert!(Instant::now() < deadline, "heartbeats under the old secret are still taken");
        std::thread::sleep(Duration::from_millis(100));
    }
    let events = weir(&["cluster", "events", text(&stand.path("front"))], None);
    assert!(
        events.contains("n2") && !events.lines().any(|line| line.contains("n1") && line.contains("down")),
        "{events}"
    );
    let refused = |stand: &Stand| {
        let told = stand.metrics(1);
        let line = told.lines().find(|line| line.starts_with("weir_cluster_links_refused_total{reason=\"removed\"}"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    // What is published at the removed one does not come to the others from it: they refuse its links.
    let site = stand.path("build");
    write(&site, &[("a.txt", b"of n2")]);
    publish(&stand, "n2", &site, &[]);
    let deadline = Instant::now() + PATIENCE;
    while refused(&stand) == 0 {
        assert!(Instant::now() < deadline, "{}", stand.metrics(1));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!stand.ask_node(1, "a.txt").stdout.ends_with(b"of n2"));
    stand.end("serve1");
    assert_eq!(fs::read_to_string(n1.join("removed")).expect("is there"), "n2\n");
    let own = Command::new(env!("CARGO_BIN_EXE_weir")).args(["cluster", "remove", text(&n1), "n1"]).output();
    assert_eq!(own.expect("weir starts").status.code(), Some(1), "a member does not remove itself");
}

/// A disk that is full while a site is published: it is said, nothing is published, and room is made by the next one.
#[test]
fn nothing_is_published_on_a_full_disk() {
    let Some(disk) = weir_testkit::SmallDisk::mount(24) else { return };
    let (folder, site) = (disk.path().join("n1"), tempfile::tempdir().expect("a folder"));
    weir(&["cluster", "init", text(&folder), "--name", "n1"], None);
    fill_in(&folder);
    write(site.path(), &[("a.txt", b"one")]);
    weir(&["cluster", "publish", text(&folder), text(site.path())], None);
    write(site.path(), &[("a.txt", b"two"), ("large.bin", &large(1)), ("other.bin", &large(2))]);
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["cluster", "publish", text(&folder), text(site.path())])
        .output()
        .expect("weir starts");
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(why.contains("No space left on device"), "{why}");
    let versions = weir(&["cluster", "versions", text(&folder), "--json"], None);
    let versions: Value = serde_json::from_str(&versions).expect("is JSON");
    assert_eq!((versions.as_array().map(Vec::len), &versions[0]["is_current"]), (Some(1), &true.into()), "{versions}");
    // What came of the large ones is no hindrance to a smaller version.
    fs::remove_file(site.path().join("large.bin")).expect("is removed");
    fs::remove_file(site.path().join("other.bin")).expect("is removed");
    weir(&["cluster", "publish", text(&folder), text(site.path())], None);
    assert_eq!(fs::read(folder.join("sites/www/current/a.txt")).expect("is there"), b"two");
}

/// A disk that is full at a node that fetches: it says so, and serves what it has no room for from the others, whole.
#[test]
fn a_node_whose_disk_is_full_serves_the_whole_version() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let Some(stand) = Stand::published_on_a_small_disk(12) else { return };
    let site = stand.path("build");
    write(&site, &[("a.txt", b"one")]);
    publish(&stand, "n1", &site, &[]);
    wait_served(&stand, 2, "a.txt", b"one");
    write(&site, &[("a.txt", b"two"), ("large.bin", &large(1)), ("other.bin", &large(2))]);
    publish(&stand, "n1", &site, &[]);
    wait_served(&stand, 2, "a.txt", b"two");
    wait_for(&stand.path("serve2.log"), "No space left on device");
    for (name, seed) in [("large.bin", 1), ("other.bin", 2)] {
        wait_served(&stand, 2, name, &large(seed));
    }
    let status = || weir(&["cluster", "status", text(&stand.path("n2"))], None);
    assert!(status().contains("there is no room for") && status().contains("No space left on device"), "{}", status());
    // A smaller version fits, and the fault is over.
    for name in ["large.bin", "other.bin"] {
        fs::remove_file(site.join(name)).expect("is removed");
    }
    write(&site, &[("a.txt", b"three")]);
    publish(&stand, "n1", &site, &[]);
    wait_served(&stand, 2, "a.txt", b"three");
    let deadline = Instant::now() + PATIENCE;
    while status().contains("there is no room") {
        assert!(Instant::now() < deadline, "{}", status());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// members.toml as `weir cluster init` writes it can be read: there is nothing to change for one machine.
fn fill_in(folder: &Path) {
    let members = fs::read_to_string(folder.join("members.toml")).expect("is there");
    assert!(members.contains("sqlite = \"directory.sqlite\""), "{members}");
}
