//! Upstreams that are named: another address of the name is asked soon, and the last one as long as there is none.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_testkit::client::Connection;
use weir_testkit::{free_port, require};

/// A server, ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Answers each connection by this word.
fn answering(listener: TcpListener, word: &'static str) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let length = word.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{word}");
        }
    });
}

/// Waits until the site answers so.
fn wait_for(port: u16, word: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let reply = Connection::open(port).and_then(|mut connection| connection.get("/")).ok();
        let said = reply.map(|reply| String::from_utf8_lossy(&reply.body).into_owned());
        if said.as_deref() == Some(word) {
            return;
        }
        assert!(Instant::now() < deadline, "{said:?} in place of {word}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_reload_keeps_what_is_known_of_an_upstream() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("binds");
    let to = upstream.local_addr().expect("an address");
    answering(upstream, "one");
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("weir.toml"), format!("[[host]]\nproxy = \"http://{to}\"\n")).expect("writes");
    let listen = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["serve", "--admin", "unix:admin", "--listen", &format!("127.0.0.1:{listen}"), "weir.toml"]);
    command.current_dir(folder.path()).process_group(0);
    let said = fs::File::create(folder.path().join("said")).expect("creates");
    let server = Server(command.stdout(Stdio::null()).stderr(said).spawn().expect("it starts"));
    wait_for(listen, "one");
    let requests = || {
        let mut curl = Command::new("curl");
        curl.args(["-s", "--unix-socket", "admin", "http://a/metrics"]).current_dir(folder.path());
        let said = String::from_utf8_lossy(&curl.output().expect("curl starts").stdout).into_owned();
        let line = said.lines().find(|line| line.starts_with("weir_upstream_requests_total"));
        let line = line.unwrap_or_else(|| panic!("no requests of upstreams in {said}"));
        line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok()).expect("a count")
    };
    let before = requests();
    assert!(before >= 1);
    // SAFETY: only a signal is sent.
    assert_eq!(unsafe { libc::kill(server.0.id() as i32, libc::SIGHUP) }, 0);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !fs::read_to_string(folder.path().join("said")).expect("is text").contains("was read again and holds") {
        assert!(Instant::now() < deadline, "the configuration is not read again");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(requests() >= before, "counts begin anew");
}

#[test]
fn a_name_that_gets_another_address_is_asked_there_and_keeps_it_while_it_has_none() {
    let may_mount = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    let may_mount = may_mount.is_ok_and(|status| status.success());
    if require::or_skip(may_mount, "no namespace of mounts can be made").is_none() {
        return;
    }
    let one = TcpListener::bind("127.0.0.2:0").expect("binds");
    let port = one.local_addr().expect("an address").port();
    let two = TcpListener::bind(("127.0.0.3", port)).expect("binds");
    answering(one, "one");
    answering(two, "two");
    let folder = tempfile::tempdir().expect("a directory");
    let text = format!("[[host]]\nproxy = {{ to = \"http://app.test:{port}\", resolve = \"1 s\", keep = 0 }}\n");
    fs::write(folder.path().join("weir.toml"), text).expect("writes");
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "127.0.0.2 app.test\n").expect("writes");
    let listen = free_port();
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" /etc/hosts && exec \"$2\" serve --listen \"127.0.0.1:$3\" weir.toml";
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(&hosts).arg(env!("CARGO_BIN_EXE_weir"));
    command.arg(listen.to_string()).current_dir(folder.path()).process_group(0);
    let said = fs::File::create(folder.path().join("said")).expect("creates");
    let _server = Server(command.stdout(Stdio::null()).stderr(said).spawn().expect("it starts"));
    wait_for(listen, "one");
    // Written in place: the mount is of this file.
    fs::write(&hosts, "127.0.0.3 app.test\n").expect("writes");
    wait_for(listen, "two");
    fs::write(&hosts, "127.0.0.9 other.test\n").expect("writes");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !fs::read_to_string(folder.path().join("said")).expect("is text").contains("its last addresses stay") {
        wait_for(listen, "two");
        assert!(Instant::now() < deadline, "the operator is not told");
        std::thread::sleep(Duration::from_millis(50));
    }
    wait_for(listen, "two");
}
