//! `weir load` of calls of gRPC: its screen, its report, its exit status, and what it refuses. Servers in Go and Python
//! come by `make test-grpc`.

use crate::support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use support::weir;
use weir_testkit::{Certificate, require};

/// The service of gRPC's interoperability tests.
const TEST: &str = "grpc.testing.TestService";

fn load(arguments: &[&str]) -> Output {
    weir().args(["load", "-q"]).args(arguments).output().expect("it runs")
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The report of a load, and its exit status.
fn json_of(arguments: &[&str]) -> (Value, Option<i32>) {
    let output = load(&[&["--json"], arguments].concat());
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (report, output.status.code())
}

/// Whether a load is refused as wrong usage, with these words.
fn refused(arguments: &[&str], words: &str) {
    let output = load(arguments);
    let told = text_of(&output);
    assert!(output.status.code() == Some(2) && told.contains(words), "{arguments:?}: {words}: {told}");
}

/// A server that ends with the value.
struct Peer {
    child: Child,
    place: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// One that prints where it listens.
    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its place");
        let place = line.trim();
        let place = if place.contains(':') { place.to_owned() } else { format!("127.0.0.1:{place}") };
        Self { child, place }
    }

    fn url(&self, method: &str) -> String {
        format!("grpc://{}/{method}", self.place)
    }
}

/// Where the servers of Go and Python are, if this run has them.
fn peers() -> Option<PathBuf> {
    let named = std::env::var_os("WEIR_GRPC_PEERS").map(PathBuf::from);
    require::or_skip(named.is_some(), "servers of gRPC are not there (make test-grpc)")?;
    named
}

fn go(change: impl FnOnce(&mut Command)) -> Option<Peer> {
    let mut command = Command::new(peers()?.join("go"));
    change(&mut command);
    Some(Peer::of(command))
}

fn python(word: &str) -> Option<Peer> {
    let mut command = Command::new(peers()?.join("venv/bin/python"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loads/peers/grpc_server.py")).arg(word);
    Some(Peer::of(command))
}

#[test]
fn mistakes_are_told_with_file_line_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        file.to_str().expect("text").to_owned()
    };
    let good = file(
        "good.proto",
        "syntax = \"proto3\";\npackage t;\nmessage M { int32 n = 1; }\nservice S { rpc One(M) returns (M); rpc Up(stream M) \
         returns (M); }\n",
    );
    let wrong = file("wrong.proto", "syntax = \"proto3\";\nmessage M {\n  int n = 1;\n}\n");
    let away = file("away.proto", "syntax = \"proto3\";\nimport \"nowhere/x.proto\";\n");
    let messages = file("m.json", "{\"n\": 1}\n{\"n\": \"x\"}\n");
    let (one, up) = ("grpc://127.0.0.1:9/t.S/One", "grpc://127.0.0.1:9/t.S/Up");
    let of_file = format!("@{messages}");
    refused(&["--proto", &wrong, one], "wrong.proto:3:3: name 'int' is not defined");
    refused(&["--proto", &away, one], "--proto-path DIR");
    refused(&["--proto", "none.proto", one], "none.proto: cannot be read");
    refused(&["--descriptor", &good, one], "protoc --include_imports");
    refused(&["--proto", &good, "grpc://127.0.0.1:9/"], "its methods: /t.S/One, /t.S/Up");
    refused(&["--proto", &good, "grpc://127.0.0.1:9/t.S/Two"], "t.S has no method Two; its methods: One, Up");
    refused(&["--proto", &good, "--message", "{\"m\": 1}", one], "--message, line 1, column 4");
    refused(&["--proto", &good, "--message", &of_file, up], "m.json, line 2");
    refused(&["--proto", &good, "--message", "[{}, {}]", one], "a unary method sends one");
    refused(&["--proto", &good, "--ok", "404", one], "write OK,NOT_FOUND");
    refused(&["--proto", &good, "--ok", "GONE", one], "no status of gRPC");
    refused(&["--ok", "NOT_FOUND", "http://127.0.0.1:9/"], "statuses of gRPC");
    refused(&["--proto", &good, "-H", "te: x", one], "a call of gRPC says this itself");
    refused(&["--proto", &good, "-m", "GET", one], "calls of gRPC");
    refused(&["--proto", &good, "--workers", "local:2", one], "it is of one generator");
    refused(&["--proto", &good, "http://127.0.0.1:9/"], "needs a grpc:// or grpcs:// URL");
    refused(&["--message", "{}", "http://127.0.0.1:9/"], "a message needs the URL");
    refused(&["--binary", one], "needs the URL of a WebSocket");
    refused(&["--message", "a", "--message", "b", "ws://127.0.0.1:9/"], "give it once");
    // A server that cannot be reached is no wrong usage.
    let output = load(&["--proto", &good, one]);
    assert!(output.status.code() == Some(1) && text_of(&output).contains("cannot be reached"), "{output:?}");
    let output = load(&["--json", one]);
    assert!(output.status.code() == Some(1) && text_of(&output).contains("\"refused\""), "{output:?}");
}

#[test]
fn unary_calls_of_go_by_reflection_in_the_clear_and_over_tls() {
    let made = Certificate::self_signed().expect("a certificate");
    let (certificate, key) = (made.certificate(), made.key());
    let Some(plain) = go(|_| {}) else { return };
    let Some(secure) = go(|command| {
        command.args([&certificate, &key]);
    }) else {
        return;
    };
    let secure_url = secure.url(&format!("{TEST}/UnaryCall")).replace("grpc://127.0.0.1", "grpcs://localhost");
    let ca = certificate.to_str().expect("text");
    for url in [plain.url(&format!("{TEST}/UnaryCall")), secure_url] {
        let arguments =
            ["-n", "500", "-c", "2", "--streams", "10", "--ca", ca, "--message", "{\"responseSize\": 100}", &url];
        let (report, code) = json_of(&arguments);
        assert_eq!((code, &report["status"], &report["ok"]), (Some(0), &json!({"OK": 500}), &json!("OK")), "{report}");
        // A payload of 100 bytes has 2 bytes before it, and so has what it is in.
        let expected = (&json!(500), &json!(500), &json!(500 * 104));
        let grpc = &report["grpc"];
        assert_eq!((&grpc["sent"], &grpc["received"], &grpc["received_bytes"]), expected, "{report}");
    }
    let output = load(&["-n", "10", &plain.url(&format!("{TEST}/EmptyCall"))]);
    let text = text_of(&output);
    for word in ["unary calls of gRPC", "status     OK: 10", "messages             10   sent, 10 came", "1st message"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    // The server has the deadline that the call says.
    let page = tempfile::NamedTempFile::new().expect("a file");
    let file = page.path().to_str().expect("text");
    let url = plain.url(&format!("{TEST}/UnaryCall"));
    let (report, _) =
        json_of(&["-n", "3", "--rate", "100", "--html", file, "--message", "{\"fillUsername\": true}", &url]);
    assert_eq!(report["grpc"]["received_bytes"], json!(3 * (2 + "true true".len())), "{report}");
    assert!(std::fs::read_to_string(file).expect("a page").contains("first message p50"));
}

#[test]
fn statuses_of_go() {
    let Some(server) = go(|_| {}) else { return };
    let url = server.url(&format!("{TEST}/UnaryCall"));
    let message = "{\"responseStatus\": {\"code\": 5, \"message\": \"no such thing\"}}";
    let (report, code) = json_of(&["-n", "20", "--message", message, &url]);
    assert_eq!((code, &report["status"], &report["unexpected"]), (Some(1), &json!({"NOT_FOUND": 20}), &json!(20)));
    let detail = json!([{"status": "NOT_FOUND", "words": "no such thing", "count": 20}]);
    assert_eq!(report["grpc"]["details"], detail);
    let (report, code) = json_of(&["-n", "20", "--ok", "not_found", "--slo", "p99<10s", "--message", message, &url]);
    assert_eq!((code, &report["successes"], &report["ok"]), (Some(0), &json!(20), &json!("NOT_FOUND")));
    let (report, _) = json_of(&["-n", "2", &server.url(&format!("{TEST}/UnimplementedCall"))]);
    assert_eq!(report["status"], json!({"UNIMPLEMENTED": 2}));
    let output = load(&["-n", "1", &server.url("grpc.testing.Nothing/X")]);
    let told = text_of(&output);
    assert!(output.status.code() == Some(2) && told.contains("its services: grpc.reflection"), "{told}");
    let Some(silent) = go(|command| {
        command.env("REFLECTION", "no");
    }) else {
        return;
    };
    refused(&["-n", "1", &silent.url(&format!("{TEST}/UnaryCall"))], "give --proto FILE or --descriptor FILE");
}

#[test]
fn streams_of_go() {
    let Some(server) = go(|_| {}) else { return };
    let url = |method: &str| server.url(&format!("{TEST}/{method}"));
    let two = "{\"responseParameters\": [{\"size\": 10}, {\"size\": 20, \"intervalUs\": 20000}]}";
    let (report, code) = json_of(&["-n", "20", "-c", "2", "--message", two, &url("StreamingOutputCall")]);
    let grpc = &report["grpc"];
    assert_eq!(
        (code, &grpc["received"], &grpc["messages_per_call"]["max"]),
        (Some(0), &json!(40), &json!(2)),
        "{report}"
    );
    assert!(grpc["between_ns"]["min"].as_u64() >= Some(19_000_000), "{report}");
    // More than the windows that a stream and a connection begin with.
    let large = format!("{{\"payload\": {{\"body\": \"{}\"}}}}", "AAAA".repeat(30_000));
    let (report, code) = json_of(&[
        "-n",
        "10",
        "--message",
        &large,
        "--message",
        "[{}, {}]",
        "--message",
        &large,
        &url("StreamingInputCall"),
    ]);
    assert_eq!((code, &report["grpc"]["sent"]), (Some(0), &json!(40)), "{report}");
    let one = "{\"responseParameters\": [{\"size\": 5}]}";
    let arguments =
        ["-n", "40", "-c", "2", "--streams", "4", "--slo", "between p99<5s", "--message", one, "--message", one];
    let (report, code) = json_of(&[&arguments[..], &["--message", one, &url("FullDuplexCall")]].concat());
    let grpc = &report["grpc"];
    assert_eq!((code, &grpc["sent"], &grpc["received"]), (Some(0), &json!(120), &json!(120)), "{report}");
    // A message that is not answered holds the next one, until the call times out.
    let (report, _) =
        json_of(&["-n", "1", "--timeout", "500ms", "--message", "{}", "--message", one, &url("FullDuplexCall")]);
    assert_eq!(report["successes"], json!(0), "{report}");
}

#[test]
fn each_kind_of_call_of_python() {
    let Some(server) = python("plain") else { return };
    let message = "{\"text\": \"abc\", \"count\": 3}";
    for (method, messages, came) in [("Unary", 1, 1), ("Down", 1, 3), ("Up", 3, 1), ("Both", 3, 3)] {
        let url = server.url(&format!("echo.Echo/{method}"));
        let given: Vec<&str> = std::iter::repeat_n(["--message", message], messages).flatten().collect();
        let (report, code) =
            json_of(&[&["-n", "40", "-c", "2", "--streams", "2"], &given[..], &[url.as_str()]].concat());
        let (sent, received) = (&report["grpc"]["sent"], &report["grpc"]["received"]);
        assert_eq!((code, sent, received), (Some(0), &json!(40 * messages), &json!(40 * came)), "{method}: {report}");
    }
    let (report, code) = json_of(&["-n", "4", "--message", message, &server.url("echo.Echo/Fail")]);
    let words = &report["grpc"]["details"][0]["words"];
    assert_eq!((code, words), (Some(1), &json!("nothing is called abc")), "{report}");
    // Where nothing but identity is accepted, it does not compress either.
    let Some(server) = python("gzip") else { return };
    let (report, code) = json_of(&["-n", "4", "--message", message, &server.url("echo.Echo/Unary")]);
    assert_eq!((code, &report["successes"]), (Some(0), &json!(4)), "{report}");
}
