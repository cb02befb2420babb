//! What `weir advise` says of real servers whose connections are dear: handshakes, turns at accepting, look-ups of
//! names, slow clients. Each with the wrong setting and with the right one.

use crate::support;

use serde_json::Value;
use support::advice::{advised_once, assert_absent, check_effect, finding, json, line_of};
use support::planted::{Beside, undisturbed};
use support::resolver::{ADDRESS, slow_resolver};
use support::{alone, number};
use weir_testkit::{Apache, Cgi, Nginx, RunningServer, Site, require};

/// A new connection for each request, as of clients that come once.
const CLOSING: [&str; 6] = ["-c", "4", "-d", "2s", "--no-keepalive", "--insecure"];

#[test]
fn tls_without_sessions_in_nginx() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let certificate = weir_testkit::Certificate::self_signed().expect("a certificate");
    let server = Nginx::new().tls_without_sessions(&certificate).start().expect("nginx starts");
    let advice = advised_once(&server, "/1k.txt", &CLOSING);
    let found = finding(&advice, "tls_without_resumption");
    check_effect(found);
    assert_eq!(line_of(&found["settings"][0]), "ssl_session_cache off;");
    let right = Nginx::new().tls(&certificate).start().expect("nginx starts");
    assert_absent(&advised_once(&right, "/1k.txt", &CLOSING), "tls_without_resumption");
}

#[test]
fn tls_without_sessions_in_apache() {
    let _turn = alone();
    if require::root_and_bpf().is_none()
        || require::apache_module("ssl").is_none()
        || require::program("openssl").is_none()
    {
        return;
    }
    let certificate = weir_testkit::Certificate::self_signed().expect("a certificate");
    let server = Apache::event().tls_without_sessions(&certificate).start().expect("Apache starts");
    let advice = advised_once(&server, "/1k.txt", &CLOSING);
    let found = finding(&advice, "tls_without_resumption");
    check_effect(found);
    assert_eq!(line_of(&found["settings"][0]), "SSLSessionCache none");
    let right = Apache::event().tls(&certificate).start().expect("Apache starts");
    assert_absent(&advised_once(&right, "/1k.txt", &CLOSING), "tls_without_resumption");
}

/// Holds a lock 20 of each 25 ms.
const HOLDER: &str = "#!/usr/bin/python3
import fcntl, sys, time
file = open(sys.argv[1], 'r+')
for _ in range(4000):
    fcntl.flock(file, fcntl.LOCK_EX)
    time.sleep(0.020)
    fcntl.flock(file, fcntl.LOCK_UN)
    time.sleep(0.005)
";

/// Apache's processes hand the mutex on within microseconds; what makes it dear is that it is a file, which others can
/// lock, too. With the mutex in shared memory no other program can.
#[test]
fn turns_at_accepting_by_a_file_that_others_lock() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::apache().is_none() || require::program("python3").is_none() {
        return;
    }
    let locks = Site::empty().expect("a directory");
    locks.write_program("lock-hoarder", HOLDER.as_bytes()).expect("the holder");
    let seen = |mutex: &str| {
        let server = Apache::prefork().workers(8).more_ports(1).directive(mutex).start().expect("Apache starts");
        let files = std::fs::read_dir(locks.path()).expect("the directory of locks").flatten();
        let lock = files.map(|file| file.path()).find(|path| path.to_string_lossy().contains("mpm-accept"));
        let program = locks.path().join("lock-hoarder");
        let _holder = lock.map(|file| Beside::start(&program, &[file.to_str().expect("a readable path")]));
        let load = ["-c", "4", "-d", "2s", "--no-keepalive", "--watch", "locks"];
        let advice = advised_once(&server, "/1k.txt", &load);
        let settings = advice["findings"].as_array().expect("findings").iter();
        let settings = settings.filter(|finding| finding["rule"] == "accept_mutex");
        let lines: Vec<String> = settings.map(|finding| line_of(&finding["settings"][0])).collect();
        (advice, lines)
    };
    let by_file = format!("Mutex flock:{} mpm-accept", locks.path().display());
    let (advice, lines) = seen(&by_file);
    let found = finding(&advice, "accept_mutex");
    check_effect(found);
    assert_eq!((lines, &found["settings"][0]["proposed"]), (vec![by_file], &Value::from("pthread mpm-accept")));
    let facts = found["facts"].to_string();
    assert!(facts.contains("held by lock-hoarder") && facts.contains("no process of Apache's"), "{facts}");
    let (right, _) = seen("Mutex pthread mpm-accept");
    assert_absent(&right, "accept_mutex");
    // The proposed setting helps: with it, no request waits for that lock.
    assert!(number(&right, "/response_ns") < 0.5 * number(&advice, "/response_ns"), "{right:#}");
}

/// An Apache that knows no name of the client, and asks a name server of ours.
fn looking_up(files: &Site, directives: &str) -> RunningServer {
    files.write("resolv.conf", format!("nameserver {ADDRESS}\n").as_bytes()).expect("its address");
    files.write("hosts", b"# The client's name is not here.\n").expect("no names");
    let apache = Apache::prefork().workers(4).root(files.path()).cgi(Cgi::Direct).directive(directives);
    let apache = apache.custom_log(&files.path().join("access.log"));
    let (resolver, hosts) = (files.path().join("resolv.conf"), files.path().join("hosts"));
    apache.resolver(&resolver).hosts(&hosts).start().expect("Apache starts")
}

/// A page that is a program gets the client's name, so that the look-up stands before it; for a file only the log
/// wants the name, so that it stands behind the response, and the next one waits for a worker.
#[test]
fn names_of_clients_that_are_looked_up() {
    let _turn = alone();
    let needs = [
        require::root_and_bpf(),
        require::apache_module("cgi"),
        require::program("python3"),
        require::program("unshare"),
    ];
    if needs.iter().any(Option::is_none) {
        return;
    }
    let files = Site::empty().expect("a directory");
    files.write("1k.txt", &[b'x'; 1024]).expect("a file");
    let program = b"#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nhello'\n";
    files.write_program("hello.cgi", program).expect("a program");
    let _resolver = slow_resolver(&files);
    for path in ["/hello.cgi", "/1k.txt"] {
        let advised = |look_ups: &str| {
            let server = looking_up(&files, look_ups);
            let advice = advised_once(&server, path, &["-c", "2", "-d", "2s", "--no-keepalive"]);
            let found =
                advice["findings"].as_array().expect("findings").iter().find(|one| one["rule"] == "dns_look_up");
            let line = found.map(|found| line_of(&found["settings"][0]));
            (advice, line)
        };
        let (advice, line) = advised("HostnameLookups On");
        check_effect(finding(&advice, "dns_look_up"));
        assert_eq!(line.as_deref(), Some("HostnameLookups On"));
        let (right, _) = advised("HostnameLookups Off");
        assert_absent(&right, "dns_look_up");
        assert!(number(&right, "/response_ns") < 0.5 * number(&advice, "/response_ns"), "{right:#}");
    }
}

/// Takes 64 KiB of a response each 20 ms, one response after the other, for a minute at most.
const SLOW_READER: &str = "#!/usr/bin/python3
import socket, sys, time
end = time.monotonic() + 60
while time.monotonic() < end:
    client = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    client.sendall(b'GET /photo.bin HTTP/1.0\\r\\n\\r\\n')
    while client.recv(65536, socket.MSG_WAITALL):
        time.sleep(0.020)
    client.close()
";

#[test]
fn slow_clients_hold_workers() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() || require::program("python3").is_none() {
        return;
    }
    let site = Site::empty().expect("a site");
    site.write("photo.bin", &vec![b'x'; 1 << 20]).expect("a file");
    site.write_program("slow-reader", SLOW_READER.as_bytes()).expect("the client");
    let seen = |buffer: &str| {
        let apache = Apache::prefork().workers(8).root(site.path()).directive(buffer);
        let server = apache.start().expect("Apache starts");
        let _client = Beside::start(&site.path().join("slow-reader"), &[&server.port.to_string()]);
        let run = tempfile::tempdir().expect("a temporary directory");
        let (run, port) = (run.path().to_str().expect("a readable path"), server.port.to_string());
        // From the server's side: what a client does between its reads, only the client knows.
        let advice = json(&["advise", "--port", &port, "-d", "3s", "--run", run, "--json"]);
        let found = advice["findings"].as_array().expect("findings").iter().find(|one| one["rule"] == "slow_client");
        let line = found.map(|found| line_of(&found["settings"][0]));
        (advice, line)
    };
    let (advice, line) = seen("SendBufferSize 32768");
    let found = finding(&advice, "slow_client");
    check_effect(found);
    assert_eq!(line.as_deref(), Some("SendBufferSize 32768"));
    let proposed = found["settings"][0]["text"].as_str().expect("a line");
    let (right, _) = seen(proposed);
    assert_absent(&right, "slow_client");
    // The kernel takes the whole response at once, where it may.
    if found["commands"] == serde_json::json!([]) {
        assert!(number(&right, "/response_ns") < 0.5 * number(&advice, "/response_ns"), "{right:#}");
    }
}
