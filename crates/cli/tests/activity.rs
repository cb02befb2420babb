//! `weir activity`, `weir requests` and `weir connections` on real servers: what is kept over restarts, kills and full
//! disks, what is found, and what is ended by right.
// scripts/test: waits

mod support;

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use support::output;
use support::planted::wait_for;
use support::served::Served;
use weir_testkit::client::Connection;
use weir_testkit::{SmallDisk, require};

/// The options of a server that tells all.
const ALL: [&str; 6] = ["--admin", "unix:admin.sock", "--admin-may", "stop,mark", "--activity", "act"];

/// A site, and a configuration of it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::create_dir(folder.path().join("site")).expect("creates");
    fs::write(folder.path().join("site/a.txt"), "hello").expect("writes");
    fs::write(folder.path().join("site/large"), vec![b'x'; 64 << 20]).expect("writes");
    fs::write(folder.path().join("weir.toml"), "[[host]]\nroot = \"site\"\n").expect("writes");
    folder
}

fn gets(port: u16, path: &str, count: usize) {
    let mut connection = Connection::open(port).expect("connects");
    for _ in 0..count {
        connection.get(path).expect("an answer");
    }
}

fn admin(folder: &Path) -> String {
    format!("unix:{}", folder.join("admin.sock").display())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json(arguments: &[&str]) -> Value {
    let output = output(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Requests that an activity file has.
fn kept(file: &Path) -> u64 {
    let shown = json(&["activity", "--json", file.to_str().expect("text")]);
    let steps = shown["steps"].as_array().expect("steps");
    steps.iter().map(|step| step["requests"].as_u64().expect("a number")).sum()
}

fn marks(file: &Path) -> Vec<String> {
    let shown = json(&["activity", "--json", file.to_str().expect("text")]);
    let marks = shown["marks"].as_array().expect("marks");
    marks.iter().map(|mark| mark["kind"].as_str().expect("a word").to_owned()).collect()
}

fn end(mut served: Served) {
    served.signal(libc::SIGTERM);
    assert!(served.child.wait().expect("it ends").success());
}

#[test]
fn activity_survives_kills_and_restarts_and_knows_what_was_done() {
    let folder = folder();
    let file = folder.path().join("act");
    let served = Served::start(folder.path(), &ALL, "weir.toml");
    gets(served.port, "/a.txt", 30);
    let marked = output(&["activity", "--mark", "release 1.4", &admin(folder.path())]);
    assert!(marked.status.success(), "{}", said(&marked));
    served.signal(libc::SIGHUP);
    served.says("was read again and holds");
    // As the thread sees each of both within a second.
    wait_for(|| marks(&file).contains(&"reload".to_owned()).then_some(()));
    fs::write(folder.path().join("weir.toml"), "[[host]]\nroot = 1\n").expect("writes");
    served.signal(libc::SIGHUP);
    served.says("was not taken up");
    wait_for(|| (kept(&file) == 30 && marks(&file).contains(&"reload_refused".to_owned())).then_some(()));
    // kill -9: nothing is written at the end.
    drop(served);
    let killed = ["start", "deploy", "reload", "reload_refused"];
    assert_eq!(marks(&file), killed);
    fs::write(folder.path().join("weir.toml"), "[[host]]\nroot = \"site\"\n").expect("writes");
    let served = Served::start(folder.path(), &ALL, "weir.toml");
    gets(served.port, "/a.txt", 12);
    gets(served.port, "/missing", 3);
    end(served);
    assert_eq!(kept(&file), 45);
    assert_eq!(marks(&file), [&killed[..], &["lost", "start", "stop"]].concat());
    let table = output(&["activity", file.to_str().expect("text")]);
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(table.contains("requests/min") && table.contains("deploy"), "{table}");
    let shown = json(&["activity", "--json", file.to_str().expect("text")]);
    assert_eq!(shown["marks"][1]["words"], "release 1.4");
    let steps = shown["steps"].as_array().expect("steps");
    let sum = |name: &str| steps.iter().map(|step| step[name].as_u64().expect("a number")).sum::<u64>();
    assert_eq!(sum("client_errors"), 3);
    assert!(sum("timed") >= 15, "times come with the end of a minute, or of the server");
}

#[test]
fn a_torn_record_is_counted_and_other_files_are_refused() {
    let folder = folder();
    let file = folder.path().join("act");
    let served = Served::start(folder.path(), &ALL, "site");
    // It takes connections before it handles signals, and answers afterwards.
    gets(served.port, "/a.txt", 1);
    end(served);
    let mut bytes = fs::read(&file).expect("reads");
    // The last record, of a mark that is far from the first ones.
    let last = bytes.len() - 100;
    bytes[last] = 1;
    fs::write(&file, &bytes).expect("writes");
    let shown = json(&["activity", "--json", file.to_str().expect("text")]);
    assert_eq!(shown["torn_records"], 1);
    fs::write(&file, "something else").expect("writes");
    let refused = output(&["activity", file.to_str().expect("text")]);
    assert!(!refused.status.success() && said(&refused).contains("it is no activity file"), "{}", said(&refused));
    let served = output(&["serve", "--listen", "127.0.0.1:0", "--activity", file.to_str().expect("text"), "."]);
    assert!(!served.status.success() && said(&served).contains("it is no activity file"), "{}", said(&served));
    assert_eq!(fs::read(&file).expect("reads"), b"something else");
}

#[test]
fn a_full_disk_loses_nothing_of_activity() {
    let Some(disk) = SmallDisk::mount(40) else { return };
    let folder = folder();
    let file = disk.path().join("act");
    let path = file.to_str().expect("text");
    let full = disk.path().join("full");
    let fill = || {
        let mut file = fs::File::create(&full).expect("creates");
        let block = vec![1; 64 << 10];
        while file.write_all(&block).is_ok() {}
    };
    fill();
    let refused = output(&["serve", "--listen", "127.0.0.1:0", "--activity", path, "."]);
    assert!(
        !refused.status.success() && said(&refused).contains("the disk has no room for its "),
        "{}",
        said(&refused)
    );
    assert_eq!(fs::metadata(&file).expect("it was begun").len(), 0);
    fs::remove_file(&full).expect("removes");
    let options = ["--admin", "unix:admin.sock", "--activity", path];
    let served = Served::start(folder.path(), &options, "site");
    fill();
    gets(served.port, "/a.txt", 7);
    wait_for(|| (kept(&file) == 7).then_some(()));
    end(served);
    fs::remove_file(&full).expect("removes");
    // A file with holes, as some programs copy it.
    let bytes = fs::metadata(&file).expect("it is there").len().to_string();
    let holes = ["--punch-hole", "--offset", "4096", "--length", &bytes];
    let status = Command::new("fallocate").args(holes).arg(&file).status().expect("of util-linux");
    assert!(status.success());
    fill();
    let served = Served::start(folder.path(), &options, "site");
    gets(served.port, "/a.txt", 9);
    served.says("activity cannot be written to");
    let told = output(&["activity", &admin(folder.path())]);
    assert!(said(&told).contains("the server cannot write its file"), "{}", said(&told));
    fs::remove_file(&full).expect("removes");
    served.says("is written to");
    assert_eq!(kept(&file), 9);
}

#[test]
fn the_last_requests_are_found_by_words_and_tell_no_secret() {
    let folder = folder();
    let served = Served::start(folder.path(), &["--admin", "unix:admin.sock", "--history", "50"], "site");
    gets(served.port, "/a.txt?token=sesame&page=2", 3);
    gets(served.port, "/missing\u{1b}", 1);
    gets(served.port, "/missing", 2);
    let admin = admin(folder.path());
    let found = wait_for(|| {
        let found =
            json(&["requests", "--json", &admin, "status=404", "path=/miss*", "client=127.0.0.0/8", "duration<1m"]);
        (found["matching"] == 2).then_some(found)
    });
    let latest = &found["requests"][0];
    assert_eq!((latest["path"].as_str(), latest["method"].as_str()), (Some("/missing"), Some("GET")));
    assert!(latest["duration_us"].is_u64() && latest["sent_bytes"].as_u64() > Some(0), "{latest}");
    let all = output(&["requests", &admin]);
    let words = said(&all);
    assert!(
        words.contains("/a.txt?token=-&page=-") && !words.contains("sesame") && !words.contains('\u{1b}'),
        "{words}"
    );
    gets(served.port, "/a.txt", 500);
    let last = wait_for(|| {
        let last = json(&["requests", "--json", "-n", "1000", &admin]);
        (last["requests"].as_array().map(Vec::len) == Some(50)).then_some(last)
    });
    assert_eq!(last["kept"], 50);
    let wrong = output(&["requests", &admin, "stauts=404"]);
    assert!(wrong.status.code() == Some(1) && said(&wrong).contains("there is no `stauts`"), "{}", said(&wrong));
}

/// A client that asks for much and reads only its beginning.
fn slow(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("ours");
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").expect("writes");
    stream.read_exact(&mut [0; 100]).expect("a beginning");
    stream
}

/// The end of a stream: how many bytes came, and whether it was one.
fn rest(mut stream: TcpStream) -> std::io::Result<u64> {
    std::io::copy(&mut stream, &mut std::io::sink())
}

#[test]
fn without_a_right_nothing_is_ended_and_with_one_only_what_is_meant() {
    let folder = folder();
    let admin = admin(folder.path());
    let served = Served::start(folder.path(), &["--admin", "unix:admin.sock"], "site");
    let stays = slow(served.port);
    let refused = output(&["connections", "--stop-client", "127.0.0.1", &admin]);
    assert!(refused.status.code() == Some(1) && said(&refused).contains("--admin-may stop"), "{}", said(&refused));
    let mut stays = stays;
    stays.read_exact(&mut [0; 1 << 20]).expect("it goes on");
    drop(served);
    let served = Served::start(folder.path(), &["--admin", "unix:admin.sock", "--admin-may", "stop"], "site");
    let (ends, stays) = (slow(served.port), slow(served.port));
    let address = ends.local_addr().expect("it has one").to_string();
    let listed = json(&["connections", "--json", &admin]);
    let all = listed["connections"].as_array().expect("connections").clone();
    let found = all.iter().find(|connection| connection["client"] == address.as_str()).expect("it is there");
    assert_eq!((found["state"].as_str(), found["requests"].as_u64()), (Some("sending"), Some(1)), "{found}");
    assert_eq!(found["under_way"][0]["request"], "GET /large");
    assert!(found["sent_bytes"].as_u64() > Some(0) && found["received_bytes"].as_u64() > Some(0), "{found}");
    let words = said(&output(&["connections", &admin]));
    assert!(words.contains("GET /large") && words.contains(&address), "{words}");
    // No change by GET, and none for a page.
    for (request, status) in [
        ("GET /stop?client=127.0.0.1 HTTP/1.1\r\nHost: w\r\n\r\n", "405"),
        ("POST /stop?client=127.0.0.1 HTTP/1.1\r\nHost: w\r\nOrigin: http://a\r\n\r\n", "403"),
        ("POST /stop?client=x HTTP/1.1\r\nHost: w\r\n\r\n", "400"),
    ] {
        let mut stream = UnixStream::connect(folder.path().join("admin.sock")).expect("connects");
        stream.write_all(request.as_bytes()).expect("writes");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert_eq!(answer.get(9..12), Some(status), "{answer}");
    }
    let ended = output(&["connections", "--stop", found["id"].as_str().expect("an id"), &admin]);
    assert_eq!(said(&ended), "ended 1 connection\n");
    assert!(rest(ends).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
    let again = output(&["connections", "--stop", found["id"].as_str().expect("an id"), &admin]);
    assert!(again.status.code() == Some(1) && said(&again).contains("any more"), "{}", said(&again));
    let mut stays = stays;
    stays.read_exact(&mut [0; 1 << 20]).expect("it goes on");
    let ended = output(&["connections", "--stop-client", "127.0.0.1", &admin]);
    assert_eq!(said(&ended), "ended 1 connection\n");
    assert!(rest(stays).is_err());
}

#[test]
fn one_request_of_http2_is_ended_and_its_connection_goes_on() {
    if require::program("curl").is_none() {
        return;
    }
    let folder = folder();
    let admin = admin(folder.path());
    let served = Served::start(folder.path(), &["--admin", "unix:admin.sock", "--admin-may", "stop"], "site");
    let url = format!("http://127.0.0.1:{}/large", served.port);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--http2-prior-knowledge", "--limit-rate", "4M", "--output", "/dev/null", "--next"]);
    curl.args(["--silent", "--http2-prior-knowledge", "--write-out", "%{http_code} %{num_connects}"]);
    curl.args(["--output", "/dev/null", &format!("http://127.0.0.1:{}/a.txt", served.port)]);
    // The first of both is what is ended.
    let mut arguments: Vec<_> = curl.get_args().map(std::ffi::OsStr::to_owned).collect();
    arguments.insert(6, url.into());
    let curl = Command::new("curl").args(arguments).stdout(Stdio::piped()).spawn().expect("starts");
    let (id, stream) = wait_for(|| {
        let listed = json(&["connections", "--json", &admin]);
        let connection = listed["connections"].get(0)?.clone();
        let stream = connection["under_way"].get(0)?["stream"].as_u64()?;
        (connection["protocol"] == "HTTP/2").then(|| (connection["id"].as_str().expect("an id").to_owned(), stream))
    });
    let ended = output(&["connections", "--stop", &format!("{id}/{stream}"), &admin]);
    assert_eq!(said(&ended), "ended 1 request\n");
    let told = curl.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&told.stdout), "200 0", "the second goes over the same connection");
}
