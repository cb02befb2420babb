//! `weir console --decisions`: another policy on what a real server recorded.

use super::{OWN, Shown, folder};
use crate::support::planted::wait_for;
use crate::support::served::Served;
use crate::support::weir;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;

/// Reads the rate of clients, and does nothing.
const AT_WORK: &str =
    "atom \"/**\" { rule quiet: during if rate@client > 1000000rps then shed 5% until rate@client < 1rps; }\n";
const ANOTHER: &str =
    "atom \"/**\" { rule busy: during if rate@client > 20rps then shed 50% until rate@client < 10rps; }\n";

/// Status and JSON of a call with a body.
fn posted(shown: &Shown, fields: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(("127.0.0.1", shown.port)).expect("connects");
    let host = format!("Host: 127.0.0.1:{}\r\n", shown.port);
    let length = format!("Content-Length: {}\r\n", body.len());
    let path = shown.call("replay");
    write!(stream, "POST {path} HTTP/1.1\r\n{host}{fields}{length}Connection: close\r\n\r\n{body}").expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    (answer[9..12].parse().expect("a status"), serde_json::from_str(body).expect("JSON"))
}

fn lines<'t>(told: &'t Value, of: &str) -> Vec<&'t str> {
    told[of].as_array().expect("lines").iter().filter_map(Value::as_str).collect()
}

#[test]
fn another_policy_is_replayed_on_what_a_server_recorded() {
    let folder = folder();
    fs::write(folder.path().join("work.policy"), AT_WORK).expect("writes");
    let rules = ["--policy", "work.policy", "--tick", "100ms", "--decisions", "log.jsonl"];
    let served = Served::start(folder.path(), &rules, "site");
    let url = format!("http://127.0.0.1:{}/a.txt", served.port);
    let load = weir().args(["load", "-q", "--rate", "100", "-d", "2s", &url]).output().expect("it starts");
    assert!(load.status.success());
    let recorded = || fs::read_to_string(folder.path().join("log.jsonl")).unwrap_or_default();
    wait_for(|| recorded().contains("\"rate\"").then_some(()));
    drop(served);

    let shown = Shown::start(folder.path(), &["--decisions", "log.jsonl"]);
    let (_, has) = shown.json("has");
    assert_eq!(has["replay"]["recording"], "log.jsonl", "{has}");
    assert!(has["rooms"].as_array().expect("rooms").contains(&"replay".into()), "{has}");
    let (status, told) = posted(&shown, OWN, ANOTHER);
    let done = lines(&told, "lines").join("\n");
    assert!(status == 200 && done.contains("busy") && done.contains("shed 50%"), "{told:#}");
    assert_eq!(told["is_cut"], false, "{told:#}");
    // What is wrong in a policy is said with its line, and nothing is replayed.
    let (status, told) = posted(&shown, OWN, "atom \"/**\" {\n    rule busy: sometimes; }\n");
    let said = lines(&told, "notes").join("\n");
    assert!(status == 200 && said.contains("policy:2:") && lines(&told, "lines").is_empty(), "{told:#}");
    // No page of others, and no link, has it work.
    assert_eq!(posted(&shown, "", ANOTHER).0, 403);
    shown.refused("replay", 405, "POST");
    let (status, _) = posted(&shown, OWN, &"#".repeat(70_000));
    assert_eq!(status, 400, "a policy has 64 KiB at most");

    let refused = weir().args(["console", "--decisions", "none.jsonl"]).current_dir(folder.path()).output();
    let refused = refused.expect("it starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("--decisions none.jsonl"), "{said}");
    let without = Shown::start(folder.path(), &["site"]);
    assert_eq!(posted(&without, OWN, ANOTHER).0, 404);
}
