//! `weir serve` on a socket that another process opened, as systemd does: one server takes over from another under
//! load, and no client notices.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_testkit::{Certificate, require};

/// Starts a server as systemd does: the socket is its descriptor 3, and the environment says whose it is. With a
/// certificate it speaks TLS there.
fn start(listener: &TcpListener, root: &Path, certificate: Option<&Certificate>) -> Child {
    let fd = listener.as_raw_fd();
    let mut command = Command::new("sh");
    command
        // The shell becomes the server, so its number is the server's.
        .args(["-c", "LISTEN_PID=$$ exec \"$0\" serve --loops 2 \"$@\"", env!("CARGO_BIN_EXE_weir")])
        .arg(root)
        .env("LISTEN_FDS", "1")
        .stdout(Stdio::piped());
    if let Some(certificate) = certificate {
        command.arg("--tls-cert").arg(certificate.certificate()).arg("--tls-key").arg(certificate.key());
    }
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            let copied = if fd == 3 { libc::fcntl(3, libc::F_SETFD, 0) } else { libc::dup2(fd, 3) };
            if copied < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        });
    }
    let mut child = command.spawn().expect("a shell starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it serves");
    let scheme = scheme(certificate);
    assert!(line.contains(&format!("{scheme}://{}/", listener.local_addr().expect("bound"))), "{line}");
    child
}

fn scheme(certificate: Option<&Certificate>) -> &'static str {
    if certificate.is_some() { "https" } else { "http" }
}

/// Has one server take the socket over from another, which ends well.
fn take_over(serving: &mut Child, next: Child) {
    let mut former = std::mem::replace(serving, next);
    // SAFETY: the call takes no pointers, and the process is our child, which we have not waited for.
    unsafe { libc::kill(former.id().cast_signed(), libc::SIGTERM) };
    assert!(former.wait().expect("it ends").success());
}

/// Waits until so much more was asked.
fn wait_for(asked: &AtomicU64, more: u64) {
    let (aim, deadline) = (asked.load(Ordering::Relaxed) + more, Instant::now() + Duration::from_secs(30));
    while asked.load(Ordering::Relaxed) < aim {
        assert!(Instant::now() < deadline, "no server answers");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ask(addr: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

/// Asks over one connection until the server ends it, which it may do between two responses only.
fn ask_on(addr: SocketAddr, stop: &AtomicBool, asked: &AtomicU64) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    while !stop.load(Ordering::Relaxed) {
        // A server that has just ended an idle connection may not take the next request, which then goes elsewhere.
        if stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").is_err() {
            return Ok(());
        }
        let mut reply = Vec::new();
        let mut piece = [0; 4096];
        while !reply.ends_with(b"\r\n\r\nhello") {
            match stream.read(&mut piece) {
                Ok(0) | Err(_) if reply.is_empty() => return Ok(()),
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => reply.extend_from_slice(&piece[..read]),
                Err(error) => return Err(error),
            }
        }
        asked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[test]
fn one_server_takes_over_from_another_and_no_client_notices() {
    let site = tempfile::tempdir().expect("a directory");
    std::fs::write(site.path().join("a.txt"), "hello").expect("writes");
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let addr = listener.local_addr().expect("bound");
    let mut serving = start(&listener, site.path(), None);
    let (stop, asked, kept) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let reply = ask(addr).expect("a client noticed");
                    assert!(reply.ends_with("\r\n\r\nhello"), "a client noticed: {reply:?}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    ask_on(addr, &stop, &kept).expect("a client noticed");
                }
            });
        }
        for _ in 0..3 {
            wait_for(&asked, 200);
            take_over(&mut serving, start(&listener, site.path(), None));
        }
        wait_for(&asked, 200);
        stop.store(true, Ordering::Relaxed);
    });
    assert!(kept.load(Ordering::Relaxed) > 100, "connections that stay are served as well");
    serving.kill().expect("is ours");
    serving.wait().expect("it ends");
}

/// A client that opens a connection for each request has its first one on its way whenever a server ends.
#[test]
fn no_client_of_http_2_notices_either() {
    if require::program("curl").and_then(|()| require::program("openssl")).is_none() {
        return;
    }
    let site = tempfile::tempdir().expect("a directory");
    std::fs::write(site.path().join("a.txt"), "hello").expect("writes");
    let certificate = Certificate::self_signed().expect("a certificate");
    for certificate in [Some(&certificate), None] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let url = format!("{}://{}/a.txt", scheme(certificate), listener.local_addr().expect("bound"));
        let how = if certificate.is_some() { "--http2" } else { "--http2-prior-knowledge" };
        let mut serving = start(&listener, site.path(), certificate);
        let (stop, asked, failures) = (AtomicBool::new(false), AtomicU64::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let arguments = ["-sSk", how, "--max-time", "20", "-w", " %{http_version} %{http_code}", &url];
                        let output = Command::new("curl").args(arguments).output().expect("curl starts");
                        if !output.status.success() || output.stdout != b"hello 2 200" {
                            failures.lock().expect("no panic").push(format!("{output:?}"));
                        }
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..20 {
                wait_for(&asked, 40);
                take_over(&mut serving, start(&listener, site.path(), certificate));
            }
            wait_for(&asked, 40);
            stop.store(true, Ordering::Relaxed);
        });
        serving.kill().expect("is ours");
        serving.wait().expect("it ends");
        let (asked, failures) = (asked.into_inner(), failures.into_inner().expect("no panic"));
        eprintln!("{how}: {} of {asked} failed", failures.len());
        assert!(failures.is_empty(), "{how}: {} of {asked}: {}", failures.len(), failures.join("\n"));
    }
}

#[test]
fn sockets_that_are_meant_for_another_process_are_left_alone() {
    let site = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .arg(site.path())
        .env("LISTEN_FDS", "1")
        .env("LISTEN_PID", "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("weir starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it serves");
    child.kill().expect("is ours");
    child.wait().expect("it ends");
    assert_eq!(line.matches("http://").count(), 1, "{line}");
}
