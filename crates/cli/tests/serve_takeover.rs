//! `weir serve --take-over`: one server follows another at the same addresses, and no client notices.
// scripts/test: waits

#[path = "serve_takeover/tunnels.rs"]
mod tunnels;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_testkit::Certificate;

/// A server, ended with the test.
struct Server(Child);

impl Server {
    fn start(root: &Path, options: &[&str]) -> (Self, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("serve")
            .args(options)
            .arg(root)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("weir starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it serves");
        if !line.starts_with("serving ") {
            let mut told = line;
            child.stderr.take().expect("piped").read_to_string(&mut told).expect("is text");
            panic!("it does not serve: {told}");
        }
        (Self(child), line)
    }

    /// Waits for an end that comes by itself, and what was said until then.
    fn ended(mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.0.try_wait().expect("is ours").is_none() {
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(self.0.wait().expect("ended").success());
        let mut told = String::new();
        self.0.stderr.take().expect("piped").read_to_string(&mut told).expect("is text");
        told
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn refused(root: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("serve").args(options).arg(root).output().expect("weir runs")
}

fn site() -> tempfile::TempDir {
    let site = tempfile::tempdir().expect("a directory");
    std::fs::write(site.path().join("a.txt"), "hello").expect("writes");
    site
}

fn addr_of(line: &str) -> SocketAddr {
    let rest = line.split("http://").nth(1).expect("an address");
    rest.split('/').next().expect("an address").parse().expect("an address")
}

/// Asks over a connection of its own.
fn ask(mut stream: impl Read + Write) -> std::io::Result<String> {
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

#[test]
fn servers_follow_each_other_at_all_their_addresses_and_no_client_is_refused() {
    let (site, folder) = (site(), tempfile::tempdir().expect("a directory"));
    let (unix, admin) = (folder.path().join("weir.sock"), folder.path().join("admin.sock"));
    let (unix_addr, admin_addr) = (format!("unix:{}", unix.display()), format!("unix:{}", admin.display()));
    let with = |listen: &str, more: &[&str], loops: &str| {
        let mut options = vec!["--listen", listen, "--listen", &unix_addr, "--admin", &admin_addr, "--loops", loops];
        options.extend(more);
        Server::start(site.path(), &options)
    };
    let (mut serving, line) = with("127.0.0.1:0", &[], "2");
    let addr = addr_of(&line);
    let listen = addr.to_string();
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let wait_for = |more: u64| {
        let (aim, deadline) = (asked.load(Ordering::Relaxed) + more, Instant::now() + Duration::from_secs(30));
        while asked.load(Ordering::Relaxed) < aim {
            assert!(Instant::now() < deadline, "no server answers");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    std::thread::scope(|scope| {
        // A client that fails ends the test at once instead of after a time-out.
        let client = |connect: &(dyn Fn() -> std::io::Result<String> + Sync)| {
            while !stop.load(Ordering::Relaxed) {
                let reply = connect().expect("a client noticed");
                assert!(reply.ends_with("\r\n\r\nhello"), "a client noticed: {reply:?}");
                asked.fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let unix = &unix;
                scope.spawn(move || match number {
                    2 => client(&|| ask(UnixStream::connect(unix)?)),
                    _ => client(&|| ask(TcpStream::connect(addr)?)),
                })
            })
            .collect();
        // More loops than sockets, fewer, and as many.
        for loops in ["3", "1", "2", "2", "4", "2"] {
            wait_for(100);
            let former = serving.0.id().to_string();
            let (next, _) = with(&listen, &["--take-over", &former], loops);
            let told = std::mem::replace(&mut serving, next).ended();
            assert!(told.contains("stopped after"), "{told}");
        }
        wait_for(100);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("no client noticed"));
    });
    let reply = {
        let mut stream = UnixStream::connect(&admin).expect("it tells of itself");
        stream.write_all(b"GET /status.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("writes");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("answers");
        reply
    };
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(unix.exists(), "the path is still there");
}

#[test]
fn a_response_that_is_under_way_is_finished_by_the_server_that_has_begun_it() {
    let site = site();
    let bytes = 64 << 20;
    std::fs::write(site.path().join("large"), vec![b'x'; bytes]).expect("writes");
    let (first, line) = Server::start(site.path(), &["--listen", "127.0.0.1:0"]);
    let addr = addr_of(&line);
    let mut slow = TcpStream::connect(addr).expect("connects");
    slow.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("writes");
    let mut begin = [0; 1024];
    slow.read_exact(&mut begin).expect("begins");
    let pid = first.0.id().to_string();
    let (_second, _) = Server::start(site.path(), &["--listen", &addr.to_string(), "--take-over", &pid]);
    // The new one answers at once, while the other one is still at the large response.
    let begun = Instant::now();
    assert!(ask(TcpStream::connect(addr).expect("connects")).expect("answers").ends_with("hello"));
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited for the other one");
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).expect("goes on");
    let head = begin.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    assert_eq!(begin.len() - head + rest.len(), bytes, "all of it has come");
    first.ended();
}

#[test]
fn what_cannot_be_taken_over_is_told_and_the_other_server_goes_on() {
    let site = site();
    let (serving, line) = Server::start(site.path(), &["--listen", "127.0.0.1:0"]);
    let (addr, pid) = (addr_of(&line), serving.0.id().to_string());
    let elsewhere = refused(site.path(), &["--listen", "127.0.0.1:0", "--take-over", &pid]);
    let told = String::from_utf8_lossy(&elsewhere.stderr);
    assert_eq!(elsewhere.status.code(), Some(2), "{told}");
    assert!(told.contains(&format!("process {pid} listens at {addr}")), "{told}");
    let missing = refused(site.path(), &["--listen", "127.0.0.1:0", "--take-over", "4194305"]);
    let told = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(1), "{told}");
    assert!(told.contains("from process 4194305: No such process"), "{told}");
    assert!(ask(TcpStream::connect(addr).expect("connects")).expect("answers").ends_with("hello"));
}

/// A site with what HTTP/3 needs: options that name a certificate beside it.
fn secure_site() -> (tempfile::TempDir, Certificate, Vec<String>) {
    let site = site();
    std::fs::write(site.path().join("huge.bin"), vec![b'x'; 2 << 20]).expect("writes");
    let certificate = Certificate::self_signed().expect("a certificate");
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let options =
        vec!["--tls-cert".into(), path(&certificate.certificate()), "--tls-key".into(), path(&certificate.key())];
    (site, certificate, options)
}

fn quic_port(line: &str) -> u16 {
    let before = line.split("/ (HTTP/3)").next().expect("HTTP/3");
    before.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {line:?}"))
}

/// Clients of HTTP/3 by another implementation, which end with an error if one of them notices a change.
struct Clients(Child, BufReader<std::process::ChildStdout>);

impl Clients {
    fn start(python: &Path, port: u16, site: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/http3_cases/successions.py");
        let mut child = Command::new(python)
            .arg(script)
            .args([&port.to_string(), site.to_str().expect("UTF-8")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self(child, stdout)
    }

    /// Waits until so many more answers have come.
    fn wait_for(&mut self, more: u32) {
        writeln!(self.0.stdin.as_mut().expect("piped"), "{more}").expect("it reads");
        let mut line = String::new();
        self.1.read_line(&mut line).expect("it says");
        assert_eq!(line, "so many\n", "a client noticed");
    }

    /// Ends them, and says what they have seen: numbers of answers, connections, and ends that they were told of.
    fn end(mut self) -> Vec<u32> {
        drop(self.0.stdin.take());
        let mut said = String::new();
        self.1.read_to_string(&mut said).expect("it says");
        assert!(self.0.wait().expect("it ends").success(), "a client noticed: {said}");
        said.split(' ').filter_map(|word| word.parse().ok()).collect()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_of_http3_stay_with_the_server_that_they_began_with() {
    let Some(python) = weir_testkit::require::aioquic() else { return };
    let (site, _certificate, secure) = secure_site();
    let with = |listen: &str, more: &[&str], loops: &str| {
        // A client's last datagram may be lost, as any of UDP; the server then does not learn that the client is gone.
        let options = [&["--listen", listen, "--http3", "--loops", loops, "--stop-timeout", "10"], more].concat();
        let secure: Vec<&str> = secure.iter().map(String::as_str).collect();
        Server::start(site.path(), &[secure, options].concat())
    };
    let (mut serving, line) = with("127.0.0.1:0", &[], "2");
    let port = quic_port(&line);
    let mut clients = Clients::start(&python, port, site.path());
    let mut handed_on = 0;
    // More loops than sockets, fewer, and as many.
    for loops in ["3", "1", "2", "2", "4", "2"] {
        clients.wait_for(60);
        let former = serving.0.id().to_string();
        let (next, line) = with(&format!("127.0.0.1:{port}"), &["--take-over", &former], loops);
        assert_eq!(quic_port(&line), port);
        std::mem::replace(&mut serving, next).ended();
        handed_on += 1;
    }
    clients.wait_for(60);
    // Its sockets for handing on lead to itself and to the server before it, not to those that are gone: two tags.
    let pid = serving.0.id();
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("a list");
    let held: std::collections::BTreeSet<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("it runs")
        .filter_map(|entry| Some(std::fs::read_link(entry.ok()?.path()).ok()?.to_string_lossy().into_owned()))
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let tags: std::collections::BTreeSet<&str> = sockets
        .lines()
        .filter(|line| line.split_whitespace().nth(6).is_some_and(|inode| held.contains(inode)))
        .filter_map(|line| line.split("@weir-quic/").nth(1)?.split('/').next())
        .collect();
    assert_eq!(tags.len(), 2, "{tags:?}");
    let [answers, connections, told] = clients.end()[..] else { panic!("three numbers") };
    assert!(answers >= 7 * 60 && connections > 60, "{answers} answers over {connections} connections");
    // Three clients stay, and each server tells them of its end.
    assert!(told >= 2 * handed_on, "{told} were told of an end");
}

#[test]
fn sockets_of_http3_that_the_next_server_does_not_use_are_free_again() {
    let (site, _certificate, secure) = secure_site();
    let secure: Vec<&str> = secure.iter().map(String::as_str).collect();
    let (first, line) = Server::start(site.path(), &[&secure[..], &["--listen", "127.0.0.1:0", "--http3"]].concat());
    let (port, pid) = (quic_port(&line), first.0.id().to_string());
    let listen = format!("127.0.0.1:{port}");
    let (second, line) =
        Server::start(site.path(), &[&secure[..], &["--listen", &listen, "--take-over", &pid]].concat());
    assert!(!line.contains("HTTP/3"), "{line}");
    first.ended();
    std::net::UdpSocket::bind(&listen).expect("it is free");
    // And a third one begins with it anew.
    let pid = second.0.id().to_string();
    let options = [&secure[..], &["--listen", &listen, "--http3", "--take-over", &pid]].concat();
    let (_third, line) = Server::start(site.path(), &options);
    assert_eq!(quic_port(&line), port);
    second.ended();
}

#[test]
fn http3_of_another_program_is_not_taken_over() {
    let (site, _certificate, secure) = secure_site();
    let foreign = std::net::UdpSocket::bind("127.0.0.1:0").expect("binds");
    let (listen, pid) = (foreign.local_addr().expect("bound").to_string(), std::process::id().to_string());
    let options = [&secure.iter().map(String::as_str).collect::<Vec<_>>()[..], &["--http3", "--take-over", &pid]];
    let refused = refused(site.path(), &[&options.concat()[..], &["--listen", &listen]].concat());
    let told = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains(&format!("HTTP/3 at {listen} cannot be taken over from process {pid}")), "{told}");
}
