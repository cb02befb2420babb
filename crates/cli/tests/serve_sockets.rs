//! `weir serve` on a socket that somebody else opened, as systemd does: one server takes over from another under load, and
//! no client notices.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Starts a server as systemd does: the socket is its descriptor 3, and the environment says whose it is.
fn start(listener: &TcpListener, root: &std::path::Path) -> Child {
    let fd = listener.as_raw_fd();
    let mut command = Command::new("sh");
    command
        // The shell becomes the server, so its number is the server's.
        .args(["-c", "LISTEN_PID=$$ exec \"$0\" serve --loops 2 \"$1\"", env!("CARGO_BIN_EXE_weir")])
        .arg(root)
        .env("LISTEN_FDS", "1")
        .stdout(Stdio::piped());
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
    assert!(line.contains(&format!("http://{}/", listener.local_addr().expect("bound"))), "{line}");
    child
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
    let mut serving = start(&listener, site.path());
    let (stop, asked, kept) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let wait_for = |more: u64| {
        let (aim, deadline) = (asked.load(Ordering::Relaxed) + more, Instant::now() + Duration::from_secs(30));
        while asked.load(Ordering::Relaxed) < aim {
            assert!(Instant::now() < deadline, "nobody answers");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
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
            wait_for(200);
            let next = start(&listener, site.path());
            let mut former = std::mem::replace(&mut serving, next);
            // SAFETY: the call takes no pointers, and the process is our child, which nobody has waited for.
            unsafe { libc::kill(former.id().cast_signed(), libc::SIGTERM) };
            assert!(former.wait().expect("it ends").success());
        }
        wait_for(200);
        stop.store(true, Ordering::Relaxed);
    });
    assert!(kept.load(Ordering::Relaxed) > 100, "connections that stay are served as well");
    serving.kill().expect("is ours");
    serving.wait().expect("it ends");
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
