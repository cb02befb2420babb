//! `weir console --cluster` on a real cluster: the map of the commands' figures, what moved, and a member that is gone.

use crate::consoled::Consoled;
use crate::stand::{PATIENCE, SERVICE, Stand, weir};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

fn console(stand: &Stand, member: &str) -> Consoled {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["console", "--cluster"]).arg(stand.path(member)).arg(stand.folder.path());
    Consoled::start(command)
}

/// Asks again and again until it is so.
fn until(shown: &Consoled, call: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = shown.told(call);
        if is_so(&told) {
            return told;
        }
        assert!(Instant::now() < deadline, "{call}: {told:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn names(members: &Value) -> Vec<&str> {
    members.as_array().expect("a list").iter().filter_map(|member| member["name"].as_str()).collect()
}

#[test]
fn the_console_tells_which_node_is_hot_and_what_moved() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::new(2, &[("large.bin", &vec![7; 60 << 20])]);
    let (front, n1) = (console(&stand, "front"), console(&stand, "n1"));
    let url = format!("http://{SERVICE}/large.bin");
    let mut client = stand.curl(45_001, &["--limit-rate", "3M", "-o", "/dev/null", &url]);
    let at = stand.holder(45_001, 80);
    let moved = stand.shift(at, 3 - at, 45_001, 80);
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    let (from, to) = (format!("n{at}"), format!("n{}", 3 - at));
    let events = until(&front, &format!("events?node={to}"), |told| told["moved"][0]["sessions"] == 1);
    assert_eq!((&events["moved"][0]["from"], &events["moved"][0]["to"]), (&(*from).into(), &(*to).into()));
    assert!(events["is_of_director"] == true && events["by"][0] == "front", "{events:#}");
    let first = &events["events"][0];
    let flight = serde_json::json!({ "of": "session", "from": from, "to": to });
    assert!(first["what"] == "confirmed" && first["flight"] == flight, "{first:#}");
    // The nodes tell of the same move, so that it flies once.
    let own = until(&n1, "events", |told| told["moved"][0]["sessions"] == 1);
    let of_node = own["events"].as_array().expect("a list").iter().find(|event| event["flight"].is_object());
    assert!(of_node.is_some_and(|event| event["move"] == first["move"]) && own["is_of_director"] == false, "{own:#}");
    // It sends to this client alone, and the other one to none.
    let hot = until(&front, "cluster", |told| told["hottest"]["node"] == to);
    let words = hot["hottest"]["words"].as_str().expect("words");
    assert!(words.starts_with(&format!("{to} is the hottest node: ")), "{words}");
    let folder = stand.path("front");
    let command = weir(&["cluster", "top", folder.to_str().expect("is text"), "--json"], None);
    let command: Value = serde_json::from_str(&command).expect("JSON");
    assert_eq!(
        (&command["schema"], names(&command["top"]["members"])),
        (&hot["schema"], names(&hot["top"]["members"]))
    );
    assert!(hot["atoms"]["words"].as_str().is_some_and(|words| words.contains("console at a node")), "{hot:#}");
    refusals(&front);
    client.kill().expect("is ours");
    client.wait().expect("is ours");
    stand.end("director");
    front.refuses("cluster", 502, "no node answers at");
    assert_eq!(front.told("events?most=1")["events"].as_array().map(Vec::len), Some(1), "what was written stays");
}

fn refusals(front: &Consoled) {
    front.refuses("events?node=n9", 400, "the members are front, n1, n2");
    front.refuses("events?most=501", 400, "most: is out of its range");
    front.refuses("cluster?node=n1", 400, "is no parameter of this call");
    assert_eq!((front.asked("POST", "cluster").0, front.asked("POST", "events").0), (405, 405));
    front.refuses("transactions", 404, "start it with --arm");
}

#[test]
fn a_directory_without_members_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let refused = command.args(["console", "--cluster"]).arg(folder.path()).output().expect("weir starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("members.toml"), "{said}");
}
