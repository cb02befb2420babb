//! `weir watch --show bodies`: what requests and responses carry is told by a right of the server, and only then.

use super::watch::watch;
use crate::support::served::Served;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What is kept of a body.
const KEPT_BYTES: usize = 4096;
const LARGE_BYTES: usize = 3 << 20;
/// Answers with what it was sent, twice.
const ECHO: &str =
    "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nbody=$(cat)\nprintf '%s' \"$body$body\"\n";

fn stand(may: &[&str]) -> (tempfile::TempDir, Served) {
    let folder = tempfile::tempdir().expect("a directory");
    let mode = |path: &str, mode| {
        fs::set_permissions(folder.path().join(path), fs::Permissions::from_mode(mode)).expect("sets");
    };
    mode("", 0o755);
    fs::create_dir_all(folder.path().join("site/cgi-bin")).expect("creates");
    fs::write(folder.path().join("site/a.txt"), "hello\nworld\n").expect("writes");
    fs::write(folder.path().join("site/large.bin"), vec![0xff; LARGE_BYTES]).expect("writes");
    fs::write(folder.path().join("site/cgi-bin/echo.sh"), ECHO).expect("writes");
    mode("site/cgi-bin/echo.sh", 0o755);
    let rules = "[[host]]\nroot = \"site\"\n[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = true\n";
    fs::write(folder.path().join("weir.toml"), rules).expect("writes");
    let served = Served::start(folder.path(), &[&["--admin", "unix:admin.sock"], may].concat(), "weir.toml");
    (folder, served)
}

/// What a watch prints of requests that curl makes until two are seen: one may have begun before the watch.
fn seen(folder: &tempfile::TempDir, served: &Served, watched: &[&str], curl: &[&str], path: &str) -> String {
    let filter = format!("path={path}");
    let mut child = watch(folder.path(), &[watched, &["-n", "2", &filter]].concat());
    for _ in 0..200 {
        let url = format!("http://127.0.0.1:{}{path}", served.port);
        let mut asked = Command::new("curl");
        asked.args(["--silent", "--max-time", "10", "--output", "/dev/null"]).args(curl).arg(url);
        assert!(asked.stdout(Stdio::null()).status().expect("curl runs").success());
        std::thread::sleep(Duration::from_millis(50));
        if child.try_wait().expect("asks").is_some() {
            break;
        }
    }
    // One that has seen nothing ends with an error.
    let _ended = child.kill();
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn bodies(told: &str) -> Value {
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut requests = lines.filter(|line| line["type"] == "request" && line["begun_before"].is_null());
    requests.next().expect("a request")["bodies"].clone()
}

#[test]
fn bodies_are_told_by_right_of_files_and_scripts_over_both_versions() {
    let (folder, served) = stand(&["--admin-may", "bodies"]);
    let json = |curl: &[&str], path: &str| bodies(&seen(&folder, &served, &["--json", "--show", "bodies"], curl, path));
    let text = |bytes: usize, text: &str| serde_json::json!({ "bytes": bytes, "kept_bytes": text.len(), "text": text });
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let told = json(&[version], "/a.txt");
        assert_eq!((&told["request"], &told["response"]), (&text(0, ""), &text(12, "hello\nworld\n")), "{version}");
        assert_eq!(json(&[version, "--head"], "/a.txt")["response"], text(0, ""), "{version}: there is no body");
        let part = json(&[version, "--range", "6-8"], "/a.txt");
        assert_eq!(part["response"], text(3, "wor"), "{version}: of a range, its bytes");
        let told = json(&[version, "--data-binary", "word=\u{e4}"], "/cgi-bin/echo.sh");
        assert_eq!(
            (&told["request"], &told["response"]),
            (&text(7, "word=\u{e4}"), &text(14, "word=\u{e4}word=\u{e4}"))
        );
        let long = "x".repeat(10_000);
        let told = json(&[version, "--data-binary", &long], "/cgi-bin/echo.sh");
        assert_eq!(told["request"], text(10_000, &long[..KEPT_BYTES]), "{version}");
        assert_eq!(told["response"], text(20_000, &long[..KEPT_BYTES]), "{version}");
        let told = json(&[version], "/large.bin");
        assert_eq!(told["response"]["hex"], "ff".repeat(KEPT_BYTES), "{version}: read from the file");
        assert_eq!(told["response"]["bytes"], LARGE_BYTES, "{version}");
    }
    let words =
        seen(&folder, &served, &["--show", "bodies"], &["--data-binary", "\u{1b}[2Jpin=1\nend"], "/cgi-bin/echo.sh");
    let lines = ["bodies    of the request: 13 bytes", "| \u{fffd}[2Jpin=1", "| end", "of the response: 26 bytes"];
    assert!(lines.iter().all(|line| words.contains(line)) && !words.contains('\u{1b}'), "{words}");
    // Also for one who may: all is all but bodies.
    let all = seen(&folder, &served, &["--json", "--show", "all"], &["--data-binary", "pin=1"], "/cgi-bin/echo.sh");
    assert!(!all.contains("pin=1") && bodies(&all).is_null(), "{all}");
}

#[test]
fn without_the_right_no_body_is_told() {
    let (folder, _served) = stand(&["--admin-may", "stop"]);
    let output = watch(folder.path(), &["--show", "head,bodies"]).wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("--admin-may bodies") && output.stdout.is_empty(),
        "{said}"
    );
}
