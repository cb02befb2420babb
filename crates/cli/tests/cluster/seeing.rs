//! What a cluster did is seen: in the figures of its members, in their events, and in an explanation of the client's run.

use crate::stand::{self, PATIENCE, SERVICE, Stand, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const DIRECTOR_METRICS: &str = "127.0.0.1:9100";

/// Asks again and again until the answer has all of this.
fn wait_for_all(what: &str, wanted: &[&str], mut ask: impl FnMut() -> String) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = ask();
        let missing: Vec<&&str> = wanted.iter().filter(|line| !told.contains(**line)).collect();
        if missing.is_empty() {
            return told;
        }
        assert!(Instant::now() < deadline, "{what} does not have {missing:?}: {told}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The events of a member, as programs get them.
fn events(stand: &Stand, member: &str) -> Vec<Value> {
    let told = weir(&["cluster", "events", stand.path(member).to_str().expect("is text"), "--json"], None);
    told.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect()
}

/// The client of the only connection that a node has.
fn only_client(stand: &Stand, node: usize) -> Option<String> {
    let folder = stand.path(&format!("n{node}"));
    let told = weir(&["cluster", "sessions", folder.to_str().expect("is text"), "--json"], None);
    let told: Value = serde_json::from_str(&told).expect("is JSON");
    Some(told["sessions"].as_array()?.first()?["client"].as_str()?.to_owned())
}

/// What a run is explained to, with the events of these files or directories.
fn explained(run: &Path, given: &[&Path]) -> (Value, String) {
    let run = run.to_str().expect("is text");
    let mut options = vec!["explain", run, "--html", "/dev/null"];
    for path in given {
        options.extend(["--cluster-events", path.to_str().expect("is text")]);
    }
    let text = weir(&options, None);
    options.push("--json");
    (serde_json::from_str(&weir(&options, None)).expect("is JSON"), text)
}

#[test]
fn a_move_is_seen_in_figures_in_events_and_in_the_explanation_of_the_request() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let stand = Stand::new(2, &[("large.bin", &vec![7; 24 << 20])]);
    let folders = ["n1", "n2", "front"].map(|member| stand.path(member));
    let followed = stand.path("followed.txt");
    let mut follower = stand.follow_events("n1", &followed);
    let run = stand.path("run");
    let url = format!("http://{SERVICE}/large.bin");
    let mut load = stand.load(&run, &[&url, "-n", "1", "-c", "1", "--limit-read", "6MB/s"]);
    let deadline = Instant::now() + PATIENCE;
    let (at, client) = loop {
        if let Some(found) = (1..=2).find_map(|node| Some((node, only_client(&stand, node)?))) {
            break found;
        }
        assert!(Instant::now() < deadline, "no node has the connection");
        std::thread::sleep(Duration::from_millis(20));
    };
    // The rest of the test knows one way only.
    let (from, to) = (at, 3 - at);
    let moved = stand.move_client(from, to, &client);
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    figures_have_it(&stand, (from, to));
    let id = events_have_it(&stand, (from, to), &client);
    if from == 1 {
        wait_for_all("what follows n1", &["given", "stood still"], || {
            fs::read_to_string(&followed).unwrap_or_default()
        });
    }
    follower.kill().expect("is ours");
    follower.wait().expect("is ours");
    assert!(load.wait().expect("is ours").success(), "{}", stand.said("load"));
    the_explanation_has_it(&stand, &run, (from, to), &folders.each_ref().map(|folder| &**folder), &id);
}

fn figures_have_it(stand: &Stand, (from, to): (usize, usize)) {
    let given = ["weir_cluster_moves_total{result=\"given\"} 1\n", "weir_cluster_move_freeze_seconds_count 1\n"];
    let told = wait_for_all("the old node", &given, || stand.metrics(from));
    assert!(told.contains("weir_responses_total") && told.contains("weir_cluster_node_process_up 1\n"), "{told}");
    let taken = ["weir_cluster_moves_total{result=\"taken\"} 1\n", "weir_cluster_member_up{member=\"front\"} 1\n"];
    wait_for_all("the new node", &taken, || stand.metrics(to));
    let decided = [
        "weir_cluster_decisions_total{decision=\"confirmed\"} 1\n",
        "weir_cluster_member_up{member=\"n1\"} 1\n",
        "weir_cluster_node_draining{member=\"n2\"} 0\n",
        "weir_cluster_connections_total{service=\"10.79.0.80:80\"} ",
    ];
    wait_for_all("the director", &decided, || stand.director_metrics(DIRECTOR_METRICS));
}

/// All three members tell of the move; its id.
fn events_have_it(stand: &Stand, (from, to): (usize, usize), client: &str) -> String {
    let [old, new] = [from, to].map(|node| format!("n{node}"));
    let find = |member: &str, what: &str| {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = events(stand, member).into_iter().find(|event| event["what"] == what) {
                return found;
            }
            assert!(Instant::now() < deadline, "{member} does not tell what was {what}: {:?}", events(stand, member));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let given = find(&old, "given");
    assert!(
        given["client"] == client && given["from"] == *old && given["to"] == *new && given["by"] == *old,
        "{given}"
    );
    assert!(given["freeze_us"].as_u64() > Some(0) && given["under_way"] == true, "{given}");
    for (member, what) in [(&*new, "taken"), ("front", "steered"), ("front", "confirmed")] {
        let event = find(member, what);
        assert!(event["move"] == given["move"] && event["client"] == client, "{event} {given}");
    }
    // All of them are on one machine, so that their clocks do not differ by more than is stated.
    for node in [&old, &new] {
        let clock = find(node, "clock");
        let (offset, error) = (clock["offset_us"].as_i64(), clock["error_us"].as_u64());
        let (offset, error) = (offset.expect("a number"), error.expect("a number"));
        assert!(clock["member"] == "front" && offset.unsigned_abs() <= error && error < 1_000_000, "{clock}");
    }
    given["move"].as_str().expect("is text").to_owned()
}

fn the_explanation_has_it(stand: &Stand, run: &Path, (from, to): (usize, usize), folders: &[&Path; 3], id: &str) {
    let (told, text) = explained(run, folders);
    let moves = &told["moves"];
    let (moved, number) = (&moves["moves"][0], |value: &Value| value.as_f64().expect("a number"));
    assert!(moves["requests"] == 1 && moves["moves"].as_array().map(Vec::len) == Some(1), "{moves}");
    assert!(moved["from"] == format!("n{from}") && moved["to"] == format!("n{to}"), "{moved}");
    assert!(moved["request"] == "GET /large.bin" && moved["requests"] == 1, "{moved}");
    let (at_s, still_s) = (number(&moved["at_s"]), number(&moved["stood_still_ns"]) / 1e9);
    // The director has let the new node go on while the session stood still: by the clock of the run, to 1 µs.
    let confirmed_s = number(&moved["confirmed_s"]);
    assert!(at_s > 0.0 && (at_s..at_s + still_s).contains(&confirmed_s) && moved["error_ns"] == 1_000.0, "{moved}");
    assert!(text.contains("1 of 1 requests moved between nodes"), "{text}");
    assert!(text.contains(&format!("GET /large.bin moved from n{from} to n{to}, stood still")), "{text}");
    assert!(explained(run, &[]).0.get("moves").is_none(), "without events nothing is said of moves");
    // As if the new node, which alone tells of it now, were another machine: the error of the clocks is stated.
    let [old, new] =
        [from, to].map(|node| fs::read_to_string(folders[node - 1].join("events.jsonl")).expect("is read"));
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("is read");
    let (elsewhere, without) = (stand.path("elsewhere.jsonl"), stand.path("without.jsonl"));
    fs::write(&elsewhere, new.replace(boot_id.trim(), "another")).expect("writes");
    let without_it: Vec<&str> = old.split_inclusive('\n').filter(|line| !line.contains(id)).collect();
    fs::write(&without, without_it.concat()).expect("writes");
    let (told, text) = explained(run, &[&elsewhere, &without]);
    let there = &told["moves"]["moves"][0];
    let error_s = number(&there["error_ns"]) / 1e9;
    assert!((2e-6..1.0).contains(&error_s) && told["moves"]["requests"] == 1, "{there}");
    // It is told when the session went on, so that it began to stand still within the move.
    let took_s = number(&moved["took_ns"]) / 1e9;
    assert!((number(&there["at_s"]) - at_s).abs() <= error_s + took_s, "{there} {moved}");
    assert!(text.contains("times are right within"), "{text}");
    let (told, _) = explained(run, &[&elsewhere]);
    assert!(told["moves"]["moves"][0]["error_ns"].is_null(), "{told}");
    assert!(told["warnings"].to_string().contains("by the time of day"), "{}", told["warnings"]);
}

#[test]
fn what_happens_to_a_node_is_told_by_the_director() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::new(2, &[("a.txt", b"hello")]);
    let n1 = stand.path("n1");
    weir(&["cluster", "drain", n1.to_str().expect("is text"), "--within", "5s"], None);
    weir(&["cluster", "drain", n1.to_str().expect("is text"), "--undo"], None);
    wait_for(&stand.path("director.log"), "node n1 takes new connections again");
    stand.end("serve2");
    let front = stand.path("front");
    let told = wait_for_all("the director", &["down       n2", "undrained  n1"], || {
        weir(&["cluster", "events", front.to_str().expect("is text"), "--since", "10m"], None)
    });
    let order: Vec<Option<usize>> =
        ["started", "draining   n1", "undrained  n1", "down       n2"].iter().map(|word| told.find(word)).collect();
    assert!(order.is_sorted() && order.iter().all(Option::is_some), "{told}");
    let told = weir(&["cluster", "events", n1.to_str().expect("is text")], None);
    assert!(told.contains("draining   n1") && told.contains("up         front"), "{told}");
    // A refusal is an event with its reason.
    let refused = stand.move_client(1, 2, "10.79.0.2:9");
    assert!(!refused.status.success());
    wait_for_all("n1", &["not_begun", "no session"], || {
        weir(&["cluster", "events", n1.to_str().expect("is text")], None)
    });
    wait_for_all("n1", &["weir_cluster_moves_failed_total{result=\"not_begun\",reason=\"no_session\"} 1\n"], || {
        stand.metrics(1)
    });
}

/// A node process that is killed is started again: its server goes on meanwhile, and sessions move afterwards.
#[test]
fn a_node_process_that_is_killed_is_started_again() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let content: Vec<u8> = (0..24_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let stand = Stand::new(2, &[("large.bin", &content)]);
    let (got, url) = (stand.path("got"), format!("http://{SERVICE}/large.bin"));
    let client = stand.curl(44_900, &["--limit-rate", "4M", "-o", got.to_str().expect("is text"), &url]);
    let at = stand.holder(44_900, 80);
    let before = stand.node_process(at);
    stand::signal(&[before], libc::SIGKILL);
    wait_for(&stand.path(&format!("serve{at}.log")), "it is started again: sessions that it had in hand are lost");
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Where it was away for long enough, the other node goes on with its sessions.
        let at = stand.holder(44_900, 80);
        let output = stand.shift(at, 3 - at, 44_900, 80);
        if output.status.success() {
            break;
        }
        assert!(Instant::now() < deadline, "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_ne!(stand.node_process(at), before);
    let output = client.wait_with_output().expect("is ours");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&got).expect("is there") == content, "other bytes came than were sent");
}

/// What follows events ends at Ctrl-C, without an error, and has shown all until then.
#[test]
fn events_are_followed_until_ctrl_c() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("events.jsonl");
    let event =
        |client: &str| format!("{{\"at_us\":1,\"monotonic_us\":1,\"what\":\"given\",\"client\":\"{client}\"}}\n");
    fs::write(&file, event("192.0.2.1:1")).expect("writes");
    let (shown, folder) = (folder.path().join("shown"), folder.path().to_str().expect("is text"));
    let mut following = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["cluster", "events", folder, "--follow"])
        .stdout(fs::File::create(&shown).expect("a file"))
        .spawn()
        .expect("weir starts");
    wait_for(&shown, "192.0.2.1:1");
    fs::write(&file, event("192.0.2.1:1") + &event("192.0.2.2:2")).expect("writes");
    wait_for(&shown, "192.0.2.2:2");
    stand::signal(&[following.id()], libc::SIGINT);
    let ended = following.wait().expect("is ours");
    assert!(ended.success(), "{ended}");
    assert_eq!(fs::read_to_string(&shown).expect("is there").lines().count(), 2);
}
