//! `weir activity`, `weir requests` and `weir connections` on real servers: what is kept over restarts, kills and full
//! disks, what is found, and what is ended by right.
// scripts/test: waits

mod support;

use serde_json::{Value, json};
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
use weir_testkit::{Certificate, SmallDisk, require};

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
    // Of successes only; those of the killed server count if the minute has ended just then.
    assert!(sum("timed") >= 12, "times come with the end of a minute, or of the server");
}

#[test]
fn a_take_over_is_marked_and_both_servers_count() {
    let folder = folder();
    let file = folder.path().join("act");
    let mut former = Served::start(folder.path(), &ALL, "weir.toml");
    gets(former.port, "/a.txt", 5);
    let (pid, listen) = (former.child.id().to_string(), format!("127.0.0.1:{}", former.port));
    let mut next = support::weir()
        .args(["serve", "--listen", &listen, "--take-over", &pid])
        .args(ALL)
        .arg("weir.toml")
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    assert!(former.child.wait().expect("it ends").success());
    gets(former.port, "/a.txt", 7);
    // SAFETY: the call takes no pointers; the process is a child that was not waited for.
    unsafe { libc::kill(next.id().cast_signed(), libc::SIGTERM) };
    assert!(next.wait().expect("it ends").success());
    assert_eq!((kept(&file), marks(&file)), (12, ["start", "start", "followed", "stop"].map(str::to_owned).to_vec()));
    let shown = json(&["activity", "--json", file.to_str().expect("text")]);
    let words = shown["marks"][1]["words"].as_str().expect("words");
    assert!(words.ends_with(&format!(", took over from process {pid}")), "{words}");
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
    assert!(
        wrong.status.code() == Some(1) && said(&wrong).contains("`stauts` is no key of a filter"),
        "{}",
        said(&wrong)
    );
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

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// The only frame of a request: method, scheme and names from the static table (RFC 7541, appendix A), then literals.
fn get(stream: u32, path: &str) -> Vec<u8> {
    let literal = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
    let fields = [&[0x82, 0x86, 0x04][..], &literal(path), &[0x01], &literal("a")].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields)
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What comes next: the type of a frame, its stream, and what it carries.
fn next_frame(from: &mut TcpStream) -> (u8, u32, Vec<u8>) {
    let mut head = [0; 9];
    from.read_exact(&mut head).expect("a frame");
    let [a, b, c, kind, _, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    from.read_exact(&mut payload).expect("the whole of it");
    (kind, u32::from_be_bytes(stream), payload)
}

/// Not with curl: 7.88 counts what it had not read of the ended response as still in the connection's window.
#[test]
fn one_request_of_http2_is_ended_and_its_connection_goes_on() {
    let folder = folder();
    let admin = admin(folder.path());
    let served = Served::start(folder.path(), &["--admin", "unix:admin.sock", "--admin-may", "stop"], "site");
    let mut client = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("ours");
    // Windows beyond the file's size: only the buffers of sockets hold the server back.
    let window = (1_u32 << 30).to_be_bytes();
    let settings = [&[0, 4], &window[..]].concat();
    let begin = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &settings),
        frame(WINDOW_UPDATE, 0, 0, &window),
        get(1, "/large"),
    ];
    client.write_all(&begin.concat()).expect("writes");
    let (id, stream) = wait_for(|| {
        let listed = json(&["connections", "--json", &admin]);
        let connection = listed["connections"].get(0)?.clone();
        let stream = connection["under_way"].get(0)?["stream"].as_u64()?;
        (connection["protocol"] == "HTTP/2").then(|| (connection["id"].as_str().expect("an id").to_owned(), stream))
    });
    assert_eq!(stream, 1);
    let ended = output(&["connections", "--stop", &format!("{id}/{stream}"), &admin]);
    assert_eq!(said(&ended), "ended 1 request\n");
    let mut came = 0;
    let code = loop {
        match next_frame(&mut client) {
            (DATA, 1, payload) => came += payload.len(),
            (RESET, 1, code) => break code,
            (kind, stream, _) => assert!(matches!((kind, stream), (HEADERS, 1) | (SETTINGS, 0)), "{kind} {stream}"),
        }
    };
    // CANCEL (RFC 9113, section 7).
    assert_eq!(code, 8_u32.to_be_bytes());
    assert!(came < 64 << 20, "{came} bytes: it had ended by itself");
    client.write_all(&get(3, "/a.txt")).expect("writes");
    let body = loop {
        match next_frame(&mut client) {
            (DATA, 3, payload) => break payload,
            (kind, stream, _) => assert_eq!((kind, stream), (HEADERS, 3)),
        }
    };
    assert_eq!(body, b"hello");
}

#[test]
fn one_request_of_http3_is_ended_and_its_connection_goes_on() {
    let Ok(certificate) = Certificate::self_signed() else {
        require::or_skip(false, "openssl makes no certificate");
        return;
    };
    let folder = folder();
    let admin = admin(folder.path());
    let [pem, key] = [certificate.certificate(), certificate.key()].map(|path| path.display().to_string());
    let secure = ["--tls-cert", &pem, "--tls-key", &key, "--http3"];
    let may = ["--admin", "unix:admin.sock", "--admin-may", "stop"];
    let served = Served::start(folder.path(), &[&secure[..], &may].concat(), "site");
    let urls = folder.path().join("urls");
    let own = format!("https://127.0.0.1:{}", served.port);
    fs::write(&urls, format!("{own}/large\n{own}/a.txt\n")).expect("writes");
    // One connection with one request at a time; the first would take a minute.
    let client = support::weir()
        .args(["load", "--http3", "--insecure", "--json", "-q", "-n", "2", "-c", "1", "--streams", "1"])
        .args(["--limit-read", "1MB/s", "--urls"])
        .arg(&urls)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let meant = wait_for(|| {
        let listed = json(&["connections", "--json", &admin]);
        let connection = listed["connections"].get(0)?.clone();
        let stream = connection["under_way"].get(0)?["stream"].as_u64()?;
        (connection["protocol"] == "HTTP/3").then(|| format!("{}/{stream}", connection["id"].as_str().expect("an id")))
    });
    assert_eq!(said(&output(&["connections", "--stop", &meant, &admin])), "ended 1 request\n");
    let told: Value = serde_json::from_slice(&client.wait_with_output().expect("ends").stdout).expect("JSON");
    assert_eq!((&told["errors"], &told["successes"]), (&json!({ "stream_reset": 1 }), &json!(1)), "{told:#}");
    assert_eq!(told["connections"], 1, "the other request went over the same connection: {told:#}");
}
