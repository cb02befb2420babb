//! `weir mcp` by lines of JSON: what a client sends, what comes back, and what is refused.

use crate::support::schema::conforms_to_its_own;
use crate::support::served::Served;
use crate::support::weir;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with its client's end.
struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    next: i64,
}

impl Agent {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let mut command: Command = weir();
        command.arg("mcp").args(more).current_dir(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (to, lines) = channel();
        let from = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                let _ = to.send(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")));
            }
        });
        let stdin = child.stdin.take();
        let mut agent = Self { child, stdin, lines, next: 0 };
        let told = agent.ask("initialize", &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "0" } }));
        assert_eq!(told["result"]["protocolVersion"], "2025-06-18", "{told}");
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        agent
    }

    fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").expect("it reads");
    }

    fn begin(&mut self, method: &str, params: &Value) -> i64 {
        self.next += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.send(&message.to_string());
        self.next
    }

    fn line(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("an answer")
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        let told = self.line();
        assert_eq!(told["id"], id, "{told}");
        told
    }

    /// The result of a tool, which is as its schema says.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let told = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &told["result"];
        assert_eq!(result["isError"], false, "{told}");
        let structured = result["structuredContent"].clone();
        conforms_to_its_own(&structured);
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), structured);
        structured
    }

    /// Why a tool refuses.
    fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let told = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        assert_eq!(told["result"]["isError"], true, "{told}");
        told["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    assert!(status.success() || std::thread::panicking(), "{status}");
                    return;
                }
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        let _ = self.child.kill();
    }
}

/// Copies a run of the tables' own tests into a folder.
fn recorded(folder: &Path, name: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../query/tests/recorded");
    let run: PathBuf = folder.join(name);
    std::fs::create_dir_all(run.join("segments")).expect("a folder");
    std::fs::copy(from.join("manifest.jsonl"), run.join("manifest.jsonl")).expect("a copy");
    for segment in std::fs::read_dir(from.join("segments")).expect("segments").flatten() {
        std::fs::copy(segment.path(), run.join("segments").join(segment.file_name())).expect("a copy");
    }
}

#[test]
fn an_agent_reads_runs_and_asks_them() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded(folder.path(), "weir-runs/shop");
    let mut agent = Agent::start(folder.path(), &[]);
    let tools = agent.ask("tools/list", &json!({}));
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["explain", "compare", "load", "advise", "sql"]);
    let runs = agent.ask("resources/list", &json!({}));
    assert_eq!(runs["result"]["resources"][1]["uri"], "weir://run/weir-runs/shop", "{runs}");
    let run = agent.ask("resources/read", &json!({ "uri": "weir://run/weir-runs/shop" }));
    let summary: Value =
        serde_json::from_str(run["result"]["contents"][0]["text"].as_str().expect("a text")).expect("JSON");
    conforms_to_its_own(&summary);
    let tables = agent.ask("resources/read", &json!({ "uri": "weir://sql/tables" }));
    assert!(
        tables["result"]["contents"][0]["text"].as_str().is_some_and(|text| text.contains("requests:")),
        "{tables}"
    );

    let told = agent.call("explain", &json!({ "run": "weir-runs/shop" }));
    assert!(told["uncertainty"]["joined_fraction"].as_f64().is_some_and(|share| share > 0.5), "{told:#}");
    let told = agent.call(
        "sql",
        &json!({ "run": "weir-runs/shop", "sql": "SELECT name, response_ns FROM requests", "rows_max": 3 }),
    );
    assert_eq!(
        (told["rows"].as_array().map(Vec::len), &told["uncertainty"]["is_cut"]),
        (Some(3), &json!(true)),
        "{told:#}"
    );
    agent.call("advise", &json!({ "run": "weir-runs/shop" }));
    let told = agent.call("compare", &json!({ "run_a": "weir-runs/shop", "run_b": "weir-runs/shop" }));
    assert_ne!(told["figures"][0]["verdict"], "worse", "{told:#}");

    for question in [
        "DELETE FROM requests",
        "ATTACH '/tmp/x' AS x",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "PRAGMA database_list",
    ] {
        let why = agent.refused("sql", &json!({ "run": "weir-runs/shop", "sql": question }));
        assert!(why.contains("weir sql:"), "{question}: {why}");
    }
    assert!(agent.refused("explain", &json!({ "run": "../.." })).contains("outside the folder"));
    assert!(agent.refused("explain", &json!({ "run": "none" })).contains("no run here"));
    assert!(agent.refused("explain", &json!({ "run": "/" })).contains("outside the folder"));
}

#[test]
fn an_agent_sends_fields_and_bodies_and_methods_that_the_user_has_named() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("sets");
    let script = folder.path().join("site/cgi-bin/told.sh");
    std::fs::create_dir_all(script.parent().expect("a folder")).expect("a folder");
    let said = "#!/bin/sh\nb=$(cat)\n[ \"$REQUEST_METHOD $CONTENT_TYPE $b\" = 'POST text/x-note note' ] || echo 'Status: 400'\n\
                echo 'Content-Type: text/plain'\necho\n";
    std::fs::write(&script, said).expect("a file");
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("sets");
    let rules = "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = true\n";
    std::fs::write(folder.path().join("weir.toml"), rules).expect("a file");
    let served = Served::start(folder.path(), &[], "weir.toml");
    let url = format!("http://127.0.0.1:{}/cgi-bin/told.sh", served.port);
    let sent = |body: &str| json!({ "url": url, "requests": 5, "connections": 1, "method": "POST", "fields": { "Content-Type": "text/x-note" }, "body": body });
    let mut agent = Agent::start(folder.path(), &[]);
    assert!(agent.refused("load", &sent("note")).contains("--allow-method METHOD"));
    let changes = |agent: &mut Agent| {
        let tools = agent.ask("tools/list", &json!({}));
        tools["result"]["tools"][2]["annotations"]["destructiveHint"].clone()
    };
    assert_eq!(changes(&mut agent), false);
    let mut agent = Agent::start(folder.path(), &["--allow-method", "POST"]);
    assert_eq!(changes(&mut agent), true);
    for (body, successes) in [("note", 5), ("other", 0)] {
        let told = agent.call("load", &sent(body));
        assert_eq!((&told["requests"], &told["successes"]), (&json!(5), &json!(successes)), "{body}: {told:#}");
    }
    assert!(agent.refused("load", &sent("@/etc/hostname")).contains("begins with @"));
}

#[test]
fn an_agent_loads_this_machine_within_bounds_and_hears_of_progress() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("index.html"), "hello").expect("a file");
    let served = Served::start(folder.path(), &[], ".");
    let url = format!("http://127.0.0.1:{}/", served.port);
    let mut agent = Agent::start(folder.path(), &["--max-duration", "3s", "--max-requests", "3000"]);
    let told =
        agent.call("load", &json!({ "url": url, "duration_s": 0.5, "rate_per_s": 200, "objectives": ["p99<10s"] }));
    assert!(told["uncertainty"]["p50_ns"]["slices"].as_u64().is_some_and(|slices| slices >= 5), "{told:#}");
    assert_eq!(told["objectives"][0]["met"], true, "{told:#}");
    let told = agent.call("load", &json!({ "url": url, "duration_s": 2, "requests": 20 }));
    assert_eq!(told["requests"], 20, "{told:#}");
    let told = agent.call("compare", &json!({ "url_a": url, "url_b": url, "blocks": 2, "block_s": 0.1 }));
    assert_eq!(
        (&told["figures"][0]["verdict"], &told["uncertainty"]["blocks"]),
        (&json!("cannot_tell"), &json!(2)),
        "{told:#}"
    );

    for (arguments, words) in [
        (json!({ "url": url, "duration_s": 4 }), "0.001 to 3"),
        (json!({ "url": url, "requests": 3001 }), "1 to 3000"),
        (json!({ "url": "http://192.0.2.1/" }), "--allow HOST"),
        (json!({ "url": "http://127.0.0.1:1/" }), "cannot be reached"),
        (json!({ "url": url, "objectives": ["nonsense"] }), "nonsense"),
    ] {
        let why = agent.refused("load", &arguments);
        assert!(why.contains(words), "{why}");
    }

    // Progress comes while a call runs, and a cancelled one has no answer.
    let long = json!({ "name": "load", "arguments": { "url": url, "duration_s": 3, "rate_per_s": 20 }, "_meta": { "progressToken": "t" } });
    let id = agent.begin("tools/call", &long);
    let heard = agent.line();
    assert_eq!(
        (&heard["method"], &heard["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("t")),
        "{heard}"
    );
    agent.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }).to_string(),
    );
    let begun = Instant::now();
    let after = agent.ask("ping", &json!({}));
    assert_eq!(after["result"], json!({}));
    let told = agent.call("load", &json!({ "url": url, "duration_s": 2, "requests": 5 }));
    assert_eq!(told["requests"], 5);
    assert!(begun.elapsed() < Duration::from_secs(20), "the cancelled call goes on");
}

#[test]
fn hostile_lines_are_refused_and_the_session_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = Agent::start(folder.path(), &[]);
    let nested =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}{}}}}}"#, "[".repeat(60), "]".repeat(60));
    for (line, code) in [
        ("{", -32700),
        ("\u{0}", -32700),
        (nested.as_str(), -32600),
        (&"[".repeat(200_000), -32700),
        (&"x".repeat(3 << 20), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sh"}}"#, -32602),
    ] {
        agent.send(line);
        let told = agent.line();
        let begin: String = line.chars().take(60).collect();
        assert_eq!(told["error"]["code"], code, "{begin}: {told}");
    }
    assert_eq!(agent.ask("ping", &json!({}))["result"], json!({}));
}
