//! What one node is asked for is seen at another, by gossip.

use crate::stand::{PATIENCE, Stand, weir};
use serde_json::Value;
use std::time::{Duration, Instant};

const REQUESTS_AT_ONCE: usize = 20;
const FILES_LOOKED_FOR: usize = 5;

fn top(stand: &Stand, member: &str) -> Value {
    let folder = stand.path(member);
    let told = weir(&["cluster", "top", folder.to_str().expect("is text"), "--once", "--json"], None);
    serde_json::from_str(&told).expect("is JSON")
}

fn member<'t>(top: &'t Value, name: &str) -> &'t Value {
    let members = top["top"]["members"].as_array().expect("a list");
    members.iter().find(|member| member["name"] == name).expect("it is a member")
}

/// Asks the first node until this is so at another member.
fn until(stand: &Stand, at: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    for round in 0.. {
        for _ in 0..REQUESTS_AT_ONCE {
            assert!(stand.ask_node(1, "a.txt").stdout.ends_with(b"hello"));
        }
        // The server looks at the disk for these, which is a wait.
        (0..FILES_LOOKED_FOR).for_each(|file| drop(stand.ask_node(1, &format!("none-{round}-{file}"))));
        let top = top(stand, at);
        if is_so(&top) {
            return top;
        }
        assert!(Instant::now() < deadline, "{what}: {top:#}\n{}", stand.said("serve1"));
        std::thread::sleep(Duration::from_millis(50));
    }
    unreachable!("the rounds do not end by themselves")
}

#[test]
fn a_node_sees_what_another_is_asked_for() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::new(2, &[("a.txt", b"hello")]);
    let is_busy = |top: &Value| {
        let reading = &member(top, "n1")["reading"];
        let waits = reading["strain"]["wait_s"].as_f64().is_some_and(|wait_s| wait_s > 0.0 && wait_s < 1.0);
        reading["requests_per_s"].as_f64().is_some_and(|rate| rate >= 1.0) && waits && !top["top"]["paths"][0].is_null()
    };
    let seen = until(&stand, "n2", "node 2 sees the requests of node 1", is_busy);
    assert!(seen["version"].is_string(), "{seen:#}");
    let first = &seen["top"]["paths"][0];
    assert_eq!((&first["path"], &first["nodes"]), (&"/a.txt".into(), &serde_json::json!(["n1"])), "{seen:#}");
    assert!(first["share"].as_f64().is_some_and(|share| share > 0.1 && share <= 1.0), "{seen:#}");
    assert_eq!(member(&seen, "front")["role"], "director");
    let strain = &member(&seen, "n1")["reading"]["strain"];
    assert!(strain["mem_share"].as_f64().is_some_and(|share| share > 0.0 && share < 1.0), "{strain:#}");
    assert!(strain["mem_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{strain:#}");
    assert_eq!((&strain["errors_per_s"], strain["queue"].is_f64()), (&0.0.into(), true), "{strain:#}");
    // The director has heard it too, and the tables and the figures show it.
    until(&stand, "front", "the director sees it", is_busy);
    let figures = stand.director_metrics("127.0.0.1:9100");
    for name in ["wait_seconds", "queue", "memory_bytes", "error_share", "reading_age_seconds"] {
        let begin = format!("weir_cluster_node_{name}{{member=\"n1\"}} ");
        assert!(figures.lines().any(|line| line.starts_with(&begin)), "{begin}: {figures}");
    }
    let folder = stand.path("n2");
    let folder = folder.to_str().expect("is text");
    let shown = weir(&["cluster", "top", folder, "--once"], None);
    assert!(shown.contains("of 2 nodes there") && shown.contains("/a.txt"), "{shown}");
    assert!(shown.contains("QUEUE") && shown.contains("ERRORS/S"), "{shown}");
    let shown = weir(&["cluster", "nodes", folder], None);
    assert!(shown.contains("n1") && shown.contains("alive"), "{shown}");

    // Neither the director nor the directory is needed.
    stand.end("director");
    let number = |top: &Value| member(top, "n1")["reading"]["requests_per_s"].as_f64().unwrap_or_default();
    let before = number(&top(&stand, "n2"));
    until(&stand, "n2", "readings come without the director", |top| number(top) != before);
    // What is stale says so.
    stand.end("serve1");
    let deadline = Instant::now() + PATIENCE;
    while member(&top(&stand, "n2"), "n1")["state"] != "silent" {
        assert!(Instant::now() < deadline, "{:#}", top(&stand, "n2"));
        std::thread::sleep(Duration::from_millis(100));
    }
    let shown = weir(&["cluster", "top", folder, "--once"], None);
    assert!(shown.contains("1 of 2 nodes there") && shown.contains("silent for"), "{shown}");
    assert_eq!(top(&stand, "n2")["top"]["paths"], serde_json::json!([]), "a silent node counts no more");
}
