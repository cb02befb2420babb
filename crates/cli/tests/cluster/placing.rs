//! Nodes keep a part of what is published each, and serve all of it.

use crate::stand::{PATIENCE, SERVICE, Stand, weir};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const FILES: usize = 30;
const FILE_BYTES: usize = 40 << 10;
const LARGE_BYTES: usize = 2 << 20;
/// Two copies of all fit into three such budgets, and all does not fit into one.
const KEEPS_BYTES: u64 = 2_900 << 10;

fn text(path: &Path) -> &str {
    path.to_str().expect("is text")
}

fn bytes_of(seed: usize, length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_add(seed as u32).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// The files of the site; in one of them others than in the first version.
fn site(seed: usize) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> =
        (0..FILES).map(|at| (format!("d/f{at:02}.bin"), bytes_of(at * 7_919, FILE_BYTES + at))).collect();
    files.insert("d/f00.bin".to_owned(), bytes_of(seed, FILE_BYTES));
    files.insert("large.bin".to_owned(), bytes_of(1, LARGE_BYTES));
    files.insert("index.html".to_owned(), b"<p>index".to_vec());
    files
}

fn publish(stand: &Stand, files: &BTreeMap<String, Vec<u8>>, options: &[&str]) -> Value {
    let build = stand.path("build");
    for (name, bytes) in files {
        let path = build.join(name);
        fs::create_dir_all(path.parent().expect("has one")).expect("makes");
        fs::write(path, bytes).expect("writes");
    }
    let folder = stand.path("n1");
    let told = weir(&[&["cluster", "publish", text(&folder), text(&build), "--json"], options].concat(), None);
    serde_json::from_str(&told).expect("is JSON")
}

/// Runs curl at a node.
fn curl(stand: &Stand, node: usize, options: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20"]).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = stand.nodes[node - 1].within(move || command.spawn().expect("curl starts"));
    child.wait_with_output().expect("is ours")
}

/// Asks a node for all files, over one connection; all are right.
fn check_all(stand: &Stand, node: usize, files: &BTreeMap<String, Vec<u8>>) {
    let got = stand.path(&format!("got{node}"));
    fs::create_dir_all(&got).expect("makes");
    let mut options = vec!["--fail-early".to_owned(), "--fail".to_owned()];
    for (at, name) in files.keys().enumerate() {
        let to = text(&got.join(at.to_string())).to_owned();
        options.extend(["-o".to_owned(), to, format!("http://{SERVICE}/{name}")]);
    }
    let output = curl(stand, node, &options.iter().map(String::as_str).collect::<Vec<_>>());
    let why = || {
        let events = weir(&["cluster", "events", text(&stand.path(&format!("n{node}")))], None);
        format!("node {node}: {}\n{events}", String::from_utf8_lossy(&output.stderr))
    };
    assert!(output.status.success(), "{}", why());
    for (at, (name, bytes)) in files.iter().enumerate() {
        let found = fs::read(got.join(at.to_string())).expect("is there");
        assert!(found == *bytes, "{name}: {} bytes of {}, {}", found.len(), bytes.len(), why());
    }
}

/// Bytes of content that a node has.
fn kept_bytes(stand: &Stand, node: usize) -> u64 {
    let Ok(parts) = fs::read_dir(stand.path(&format!("n{node}/atoms/sha256"))) else { return 0 };
    let files = parts.flat_map(|part| fs::read_dir(part.expect("is read").path()).into_iter().flatten());
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}

/// Whether a node has the content of a file itself.
fn has(stand: &Stand, node: usize, name: &str) -> bool {
    let path = stand.path(&format!("n{node}/sites/www/current/{name}"));
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn figure(stand: &Stand, node: usize, name: &str) -> u64 {
    let metrics = stand.metrics(node);
    let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {metrics}"));
    line.rsplit(' ').next().expect("has a value").parse().expect("is a number")
}

#[test]
fn nodes_that_keep_a_part_each_serve_all_of_it() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::published_within(3, KEEPS_BYTES);
    let mut files = site(0);
    let total: u64 = files.values().map(|bytes| bytes.len() as u64).sum();
    assert!(total > KEEPS_BYTES && 2 * total < 3 * KEEPS_BYTES);
    publish(&stand, &files, &["--wait"]);
    // All is right while content moves, until each node is within its budget.
    wait("each node keeps to its budget", || {
        (1..=3).for_each(|node| check_all(&stand, node, &files));
        (1..=3).all(|node| kept_bytes(&stand, node) <= KEEPS_BYTES)
    });
    for name in files.keys() {
        assert!((1..=3).filter(|node| has(&stand, *node, name)).count() >= 2, "{name} has two copies");
    }
    // A node counts what it has removed once all of it is gone from its disk.
    wait("what was removed is counted", || figure(&stand, 1, "weir_cluster_contents_total{result=\"evicted\"}") > 0);
    let absent = |stand: &Stand, node: usize| files.keys().find(|name| !has(stand, node, name)).cloned();
    let node = (1..=3).find(|node| absent(&stand, *node).is_some()).expect("one does not have all");
    let name = absent(&stand, node).expect("is elsewhere");
    ranges_and_conditions_are_right(&stand, node, &name, &files[&name]);
    what_is_hot_comes_to_stay(&stand, node, &name);
    atoms_are_shown(&stand, node, &name);
    // The next version, of which one file is new, is served by all once the publisher hears so.
    files = site(99);
    let told = publish(&stand, &files, &["--wait"]);
    assert_eq!((&told["version"], &told["not_serving"]), (&2.into(), &Value::Array(Vec::new())), "{told}");
    (1..=3).for_each(|node| check_all(&stand, node, &files));
    // A node that dies takes no content with it.
    wait("all have two copies", || {
        files.keys().all(|name| (1..=3).filter(|node| has(&stand, *node, name)).count() >= 2)
    });
    stand.power_off_node(3);
    (1..=2).for_each(|node| check_all(&stand, node, &files));
    what_no_node_has_is_refused_in_words(&mut stand, &files);
}

/// Of content that lies on another node.
fn ranges_and_conditions_are_right(stand: &Stand, node: usize, name: &str, bytes: &[u8]) {
    let before = figure(stand, node, "weir_cluster_contents_total{result=\"proxied\"}");
    let url = format!("http://{SERVICE}/{name}");
    let ask = |options: &[&str]| {
        let output = curl(stand, node, &[&["-i", &url], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let split = |answer: &[u8]| {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("has a head") + 4;
        (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end..].to_vec())
    };
    let (head, body) = split(&ask(&[]));
    assert!(head.starts_with("HTTP/1.1 200 ") && body == bytes, "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", bytes.len())), "{head}");
    assert!(head.contains("Accept-Ranges: bytes\r\n") && head.contains("Last-Modified: "), "{head}");
    let etag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("has a tag").to_owned();
    let (head, body) = split(&ask(&["-H", "Range: bytes=1000-40000"]));
    assert!(head.starts_with("HTTP/1.1 206 ") && body == bytes[1000..=40_000], "{head}");
    assert!(head.contains(&format!("Content-Range: bytes 1000-40000/{}\r\n", bytes.len())), "{head}");
    let (head, body) = split(&ask(&["-H", "Range: bytes=0-9,20-29"]));
    let has_part = |part: &[u8]| body.windows(part.len()).any(|found| found == part);
    assert!(head.starts_with("HTTP/1.1 206 ") && head.contains("multipart/byteranges"), "{head}");
    assert!(has_part(&bytes[..10]) && has_part(&bytes[20..30]));
    let (head, _) = split(&ask(&["-H", "Range: bytes=99999999-"]));
    assert!(head.starts_with("HTTP/1.1 416 "), "{head}");
    let (head, body) = split(&ask(&["-H", &format!("If-None-Match: {etag}")]));
    assert!(head.starts_with("HTTP/1.1 304 ") && body.is_empty(), "{head}");
    let (head, _) = split(&ask(&["-H", "If-Match: \"other\""]));
    assert!(head.starts_with("HTTP/1.1 412 "), "{head}");
    let (head, body) = split(&ask(&["-H", &format!("If-Range: {etag}"), "-H", "Range: bytes=-7"]));
    assert!(head.starts_with("HTTP/1.1 206 ") && body == bytes[bytes.len() - 7..], "{head}");
    let (head, body) = split(&ask(&["-I"]));
    assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head}");
    // Over HTTP/2 and TLS as well.
    let secure = format!("https://{SERVICE}/{name}");
    let output = curl(stand, node, &["-k", "--http2", "-H", "Range: bytes=5-30004", &secure]);
    assert!(output.stdout == bytes[5..=30_004], "{}", String::from_utf8_lossy(&output.stderr));
    wait("what was passed on is counted", || {
        figure(stand, node, "weir_cluster_contents_total{result=\"proxied\"}") >= before + 5
    });
    let events = weir(&["cluster", "events", text(&stand.path(&format!("n{node}"))), "--json"], None);
    assert!(events.contains("\"proxied\"") && events.contains(name), "{events}");
}

/// `weir cluster atoms` says who has what is asked for.
fn atoms_are_shown(stand: &Stand, node: usize, name: &str) {
    let told = weir(&["cluster", "atoms", text(&stand.path(&format!("n{node}"))), "--most", "100", "--json"], None);
    let told: Value = serde_json::from_str(&told).expect("is JSON");
    let files = told["atoms"]["files"].as_array().unwrap_or_else(|| panic!("{told}"));
    let file = files.iter().find(|file| file["path"] == format!("/{name}")).expect("is told");
    let has = |list: &str| file[list].as_array().expect("a list").len();
    assert!(has("placed") >= 2 && has("has") >= 2 && told["atoms"]["keeps_bytes"] == KEEPS_BYTES, "{told}");
    assert!(weir(&["cluster", "atoms", text(&stand.path(&format!("n{node}")))], None).contains("PLACED"));
}

/// A file that a node is asked for often comes to it.
fn what_is_hot_comes_to_stay(stand: &Stand, node: usize, name: &str) {
    let url = format!("http://{SERVICE}/{name}");
    wait("the file comes to the node that is asked for it", || {
        let asked: Vec<&str> = (0..20).flat_map(|_| ["-o", "/dev/null", url.as_str()]).collect();
        assert!(curl(stand, node, &asked).status.success());
        has(stand, node, name)
    });
}

/// Where the nodes that have it are gone.
fn what_no_node_has_is_refused_in_words(stand: &mut Stand, files: &BTreeMap<String, Vec<u8>>) {
    let lacking = |node: usize| files.keys().find(|name| !has(stand, node, name)).cloned();
    let found = (1..=2).find_map(|node| Some((node, lacking(node)?)));
    let Some((node, name)) = found else { panic!("two nodes have room for everything") };
    stand.power_off_node(3 - node);
    let output = curl(stand, node, &["-i", &format!("http://{SERVICE}/{name}")]);
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("lies on other machines"), "{answer}");
    let events = weir(&["cluster", "events", text(&stand.path(&format!("n{node}"))), "--json"], None);
    assert!(events.contains("\"away\""), "{events}");
}
