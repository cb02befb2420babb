//! What the operator learns of an upstream that fails, and a pool whose processes die.

use super::scripted::{Client, proxy, site, tcp};
use crate::harness::{Site, wait_until};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_testkit::{PhpFpm, require};

/// Lines that servers of these tests have told.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn told() -> MutexGuard<'static, Vec<String>> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(line: &str) {
    told().push(line.to_owned());
}

/// Waits for a line with both.
fn is_told(of: &str, why: &str) {
    wait_until(|| told().iter().any(|line| line.contains(of) && line.contains(why)));
}

fn site_of(addr: SocketAddr, settings: &str) -> Site {
    let text = format!("proxy = {{ to = \"http://{addr}\", retries = false, health = false{settings} }}");
    site(&text, |options| options.notice = note)
}

#[test]
fn each_fault_is_told_with_its_reason() {
    // What breaks off before the head has gone to the client is 502, else a cut response.
    let cases: [(&'static [u8], &[u16], &str); 4] = [
        (b"", &[502], "closed the connection before it had answered"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", &[502], ""),
        (b"garbage\r\n\r\n", &[502], ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome", &[200, 502], ""),
    ];
    for (said, statuses, why) in cases {
        let (addr, seen) = tcp(move |_, mut peer| {
            peer.head();
            peer.say(said);
            peer.end();
            peer.rest();
        });
        let site = site_of(addr, "");
        let received = site.exchange(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let is_one = |status: &u16| received.starts_with(format!("HTTP/1.1 {status} ").as_bytes());
        assert!(statuses.iter().any(is_one), "{}", String::from_utf8_lossy(&received));
        is_told(&addr.to_string(), why);
        assert_eq!(site.stop().applications_failed, 1);
        wait_until(|| seen.open() == 0);
    }
    let refusing = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address");
    let site = site_of(refusing, "");
    assert_eq!(site.get("/").status, 502);
    is_told(&refusing.to_string(), "it cannot be connected: Connection refused");
    let (silent, _) = tcp(|_, mut peer| drop(peer.rest()));
    let site = site_of(silent, ", timeouts = { head = \"1 s\" }");
    assert_eq!(site.get("/").status, 504);
    is_told(&silent.to_string(), "the head of its response did not come in time");
}

#[test]
fn an_upstream_that_is_killed_and_comes_back_is_asked_again() {
    let (addr, _) = tcp(|number, mut peer| {
        while let Some(head) = peer.head() {
            if head.contains(" /die ") {
                return peer.reset();
            }
            peer.answer(&number.to_string());
        }
    });
    let site = proxy(addr, ", connections = 2, queue = 0, retries = false, health = false");
    let mut other = Client::new(site.addr);
    assert_eq!(other.get("/").text(), "0");
    // The kept connection dies under a request, and each time a new one is made.
    for number in 1..4 {
        let mut client = Client::new(site.addr);
        client.ask("POST /die", "Content-Length: 0\r\n", b"");
        assert_eq!(client.reply().status, 502);
        assert_eq!(other.get("/").text(), number.to_string());
    }
}

#[test]
fn a_pool_whose_process_dies_within_a_page_answers_the_next_request() {
    if require::php_fpm().is_none() {
        return;
    }
    let fpm = PhpFpm::new().processes(2).start().expect("php-fpm starts");
    let to = format!("fastcgi = {{ to = \"unix:{}\" }}", fpm.socket.as_ref().expect("a socket").display());
    let text = format!("root = \".\"\n[[host.path]]\nglob = \"**.php\"\n{to}");
    let site = site(&text, |options| {
        let (slow, quick) = ("<?php touch(__DIR__ . '/begun'); sleep(20); echo 'late';", "<?php echo 'quick';");
        std::fs::write(options.root.join("slow.php"), slow).expect("writes");
        std::fs::write(options.root.join("quick.php"), quick).expect("writes");
        std::fs::set_permissions(&options.root, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("sets");
    });
    assert_eq!(site.get("/quick.php").status, 200);
    let mut hit = Client::new(site.addr);
    hit.ask("GET /slow.php", "", b"");
    wait_until(|| site.directory.path().join("begun").exists());
    let begin = Instant::now();
    for pid in fpm.pids().into_iter().filter(|pid| *pid != fpm.pid()) {
        // SAFETY: the call takes no pointers.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
    }
    assert_eq!(hit.reply().status, 502);
    assert!(begin.elapsed() < Duration::from_secs(15), "it was told at once and not by a time-out");
    // The master starts others, and files were there all the time.
    assert_eq!(site.get("/a.txt").text(), "file");
    wait_until(|| site.get("/quick.php").status == 200);
}
