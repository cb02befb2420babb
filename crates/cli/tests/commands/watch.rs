//! `weir watch`, beside a real `weir serve`: what it shows, how it ends, and how it finds the server.

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use support::output;
use support::served::Served;
use weir_testkit::client::Connection;

fn serve(folder: &Path) -> Served {
    fs::create_dir_all(folder.join("site")).expect("creates");
    fs::write(folder.join("site/a.txt"), "hello").expect("writes");
    Served::start(folder, &["--admin", "unix:admin.sock"], "site")
}

pub(super) fn watch(folder: &Path, args: &[&str]) -> Child {
    let socket = format!("unix:{}", folder.join("admin.sock").display());
    let mut command = support::weir();
    command.args(["watch", "--admin", &socket]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// Asks until the watch is over, or has shown a line.
fn ask_until(port: u16, is_over: &mut dyn FnMut() -> bool) {
    let mut connection = Connection::open(port).expect("connects");
    for _ in 0..200 {
        if is_over() {
            return;
        }
        assert_eq!(connection.get("/a.txt?token=s3cr3t").expect("an answer").status, 200);
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing was seen");
}

#[test]
fn a_request_is_shown_in_words_and_as_json() {
    let folder = tempfile::tempdir().expect("a directory");
    let served = serve(folder.path());
    for (args, word) in [
        (&["--show", "all", "-n", "1", "path=/a.txt"][..], "GET /a.txt?(hidden)  200"),
        (&["--json", "-n", "1", "status=2xx", "method=GET"][..], "\"target\":\"/a.txt?(hidden)\""),
    ] {
        let mut child = watch(folder.path(), args);
        ask_until(served.port, &mut || child.try_wait().expect("asks").is_some());
        let output = child.wait_with_output().expect("ends");
        let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains("1 request shown"), "{said}");
        assert!(shown.contains(word) && !shown.contains("s3cr3t") && !shown.contains('\x1b'), "{shown}");
    }
}

#[test]
fn a_request_that_is_under_way_is_shown_at_its_end() {
    const BYTES: usize = 32 << 20;
    let folder = tempfile::tempdir().expect("a directory");
    let served = serve(folder.path());
    fs::write(folder.path().join("site/large.bin"), vec![b'x'; BYTES]).expect("writes");
    let mut client = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
    client.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("writes");
    let mut first = [0; 1];
    client.read_exact(&mut first).expect("the response begins");
    let mut child = watch(folder.path(), &["--json", "-n", "1", "bytes>1MB"]);
    let mut json = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    json.read_line(&mut line).expect("reads");
    assert!(line.contains("\"type\":\"begin\""), "{line}");
    // Loops learn of the watcher a moment later.
    std::thread::sleep(Duration::from_millis(200));
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("reads");
    assert!(all.len() > BYTES);
    line.clear();
    json.read_line(&mut line).expect("reads");
    let seen: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((&seen["begun_before"], &seen["status"]), (&true.into(), &200.into()), "{seen:#}");
    assert_eq!((&seen["response"]["body_bytes"], &seen["response"]["is_complete"]), (&BYTES.into(), &true.into()));
    assert_eq!((&seen["file"]["path"], &seen["method"]), (&"/large.bin".into(), &"GET".into()), "{seen:#}");
    assert!(child.wait().expect("ends").success());
}

#[test]
fn ctrl_c_ends_it_with_a_summary_and_a_server_that_goes_is_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let served = serve(folder.path());
    let begun = |child: &mut Child| {
        let mut first = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(stdout);
        lines.read_line(&mut first).expect("reads");
        assert!(first.contains("\"type\":\"begin\""), "{first}");
        lines
    };
    let mut child = watch(folder.path(), &["--json"]);
    let _lines = begun(&mut child);
    // SAFETY: the call takes no pointers; the process is a child that was not waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("reads");
    assert!(child.wait().expect("ends").success() && said.contains("0 requests shown"), "{said}");

    let mut child = watch(folder.path(), &["--json"]);
    let _lines = begun(&mut child);
    served.signal(libc::SIGTERM);
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("reads");
    assert_eq!(child.wait().expect("ends").code(), Some(1), "{said}");
    assert!(said.contains("the server ends"), "{said}");
}

#[test]
fn the_server_of_this_host_is_found_or_those_that_there_are_are_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let served = serve(folder.path());
    let mut command = support::weir();
    let mut child =
        command.args(["watch", "-n", "1"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    ask_until(served.port, &mut || child.try_wait().expect("asks").is_some());
    let output = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Other servers may run on this host.
    let socket = format!("--admin unix:{}", folder.path().join("admin.sock").display());
    assert!(output.status.success() || said.contains("several servers") && said.contains(&socket), "{said}");
}

#[test]
fn what_cannot_be_watched_is_refused_in_words() {
    for (args, code, words) in [
        (&["watch", "stats=5xx"][..], 2, "`stats` is no key of a filter"),
        (&["watch", "--show", "body"][..], 2, "`body` is no category"),
        (&["watch", "--budget", "9"][..], 2, "1024"),
        (&["watch", "--admin", "unix:/nowhere/admin.sock"][..], 1, "no server answers there"),
        (&["watch", "--admin", "nowhere"][..], 1, "nowhere is no admin address; write unix:PATH or ADDRESS:PORT"),
    ] {
        let output = output(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(words), "{args:?}: {said}");
    }
}
