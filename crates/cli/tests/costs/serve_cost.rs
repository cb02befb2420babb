//! What a request costs `weir serve`, counted by other programs and independent of the machine's load: instructions by
//! callgrind, system calls by strace. Allocations are counted in the server's own tests.

use crate::support;

use std::fs;
use std::process::{Child, Command, Stdio};
use support::{alone, planted::wait_for};
use weir_testkit::counts::{settled, total, within};
use weir_testkit::{Certificate, free_port, require};

/// Requests of the shorter run, and how many more the longer one has.
const MANY: (u64, u64) = (200, 2_000);
/// The same where each of them begins a session of TLS, which takes as long as hundreds of others.
const SESSIONS: (u64, u64) = (50, 300);

/// A way to ask: what `weir load` is told, and how much a request may take.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) requests: (u64, u64),
    pub(crate) options: &'static [&'static str],
    /// How the server's bytes come and go.
    pub(crate) io: &'static str,
    /// Instructions of the whole process, by callgrind.
    pub(crate) instructions: f64,
    /// System calls, by strace.
    pub(crate) calls: f64,
}

/// What is asked for often, and how often.
pub(crate) const SMALL: Way =
    Way { name: "", file: "a.txt", requests: MANY, options: &[], io: "auto", instructions: 0.0, calls: 0.0 };

/// Bounds of instructions lie at most 3 % above the least of several counts with Rust 1.95 on 2026-11-25: 2,776, 3,346,
/// 3,485, 9,681, 3,783, 8,237, 1,243,137, 1,091,273 and 11,363; on the day after they were 2,827, 3,388, 3,532, 9,772,
/// 3,835, 8,261, 1,242,605, 1,090,843 and 11,331; on 2026-11-28, with upstreams on the ring, 2,833, 3,433, 3,582, 9,799,
/// 3,893, 8,339, 1,242,565, 1,091,686 and 11,604 (9,762 since blocks of fields have their memory at once), and 20 to 30 more or fewer as the compiler lays the loop out. Bounds of system calls allow for a few that timing adds.
const WAYS: [Way; 9] = [
    // It waits, receives and sends.
    Way { name: "kept, by epoll", io: "epoll", instructions: 2_920.0, calls: 3.0, ..SMALL },
    // All three in one call.
    Way { name: "kept", instructions: 3_450.0, calls: 1.0, ..SMALL },
    // What is too large for the ring's own memory is sent by a call of its own.
    Way { name: "64 KiB, kept", file: "64k.bin", instructions: 3_690.0, calls: 2.0, ..SMALL },
    Way { name: "a page of parts, kept", file: "page.shtml", instructions: 9_980.0, calls: 1.0, ..SMALL },
    // It accepts, receives, sends, closes, tries to accept another connection, and waits as there is none.
    Way { name: "new", options: &["--no-keepalive"], instructions: 4_010.0, calls: 6.0, ..SMALL },
    Way { name: "TLS, kept", options: &["--insecure"], instructions: 8_490.0, calls: 3.0, ..SMALL },
    // Twice it waits and receives, three times where the client's last message of the handshake has come before its
    // request, as the CPUs will have it (one in seven to one in three, measured); it accepts, looks for others, registers
    // and closes; it sends its part of the handshake, tickets, the answer and a farewell; and it asks the kernel for
    // randomness nine times, once less where it resumes.
    Way {
        name: "TLS, new",
        options: &["--insecure", "--no-keepalive"],
        requests: SESSIONS,
        instructions: 1_281_000.0,
        calls: 23.0,
        ..SMALL
    },
    Way {
        name: "TLS, resumed",
        options: &["--insecure", "--no-keepalive", "--resume"],
        requests: SESSIONS,
        instructions: 1_124_000.0,
        calls: 22.0,
        ..SMALL
    },
    Way { name: "HTTP/2", options: &["--http2"], instructions: 10_050.0, calls: 3.0, ..SMALL },
];

/// System calls for a response of 3.9 MB: eight pieces, a look at the file before each, a turn of the loop for each, two
/// changes of what is waited for, the request and the head.
const LARGE_CALLS_MAX: f64 = 29.0;

#[test]
fn a_request_takes_no_more_instructions_than_before() {
    let _turn = alone();
    if require::program("valgrind").and_then(|()| require::program("openssl")).is_none() {
        return;
    }
    for way in WAYS {
        settled(|least| {
            let each = least.each("callgrind", way.requests, |requests| {
                let by = ["valgrind", "--tool=callgrind", "-q", "--callgrind-out-file={}"];
                total(&through(&by, &way, &Asked { file: way.file, connections: 1, requests }))
            });
            eprintln!("{}: {each:.0} instructions a request", way.name);
            within(way.name, each, 500.0, way.instructions)
        });
    }
}

#[test]
fn a_request_takes_no_more_system_calls_than_it_must() {
    let _turn = alone();
    if require::program("strace").and_then(|()| require::program("openssl")).is_none() {
        return;
    }
    for way in WAYS {
        settled(|least| {
            let each = least.each("strace", way.requests, |requests| {
                calls_of(&way, &Asked { file: way.file, connections: 1, requests }, "total")
            });
            eprintln!("{}: {each:.3} system calls a request", way.name);
            within(way.name, each, 0.8 * way.calls, way.calls + 0.1)
        });
    }
}

#[test]
fn a_large_file_is_sent_in_few_large_pieces() {
    let _turn = alone();
    if require::program("strace").is_none() {
        return;
    }
    for (io, connections) in [("epoll", 1), ("auto", 10)] {
        let way = Way { io, ..WAYS[0] };
        settled(|least| {
            let mut each = |name: &str| {
                least.each(name, (50, 200), |requests| {
                    calls_of(&way, &Asked { file: "large.bin", connections, requests }, name)
                })
            };
            let (all, pieces) = (each("total"), each("sendfile"));
            eprintln!(
                "{io}, {connections} connections: {all:.2} system calls a response of 3.9 MB, {pieces:.2} of them pieces"
            );
            within("pieces of a response", pieces, 7.999, 8.5)?;
            within("system calls of a response", all, pieces, LARGE_CALLS_MAX)
        });
    }
}

/// Files of the directory that is listed.
const LISTED: u64 = 300;

/// The first listing takes one look at each of its files, the next ones take none.
#[test]
fn a_listing_takes_one_system_call_for_a_file_and_none_when_it_is_kept() {
    let _turn = alone();
    if require::program("strace").is_none() {
        return;
    }
    let way = &WAYS[0];
    let calls = |requests, name: &str| calls_of(way, &Asked { file: "listed/", connections: 1, requests }, name);
    settled(|least| {
        let each = least.each("total", (50, 200), |requests| calls(requests, "total"));
        eprintln!("{each:.3} system calls for a listing that is kept");
        within("a listing that is kept", each, 0.8 * way.calls, way.calls + 1.1)
    });
    let (looks, opened) = (calls(50, "statx"), calls(50, "openat2"));
    eprintln!("{LISTED} files: {looks} looks, {opened} opened");
    assert!((LISTED..LISTED + 100).contains(&looks) && opened < 20, "{looks} looks, {opened} opened");
}

/// How many calls of a name a server has made that has answered so many requests.
fn calls_of(way: &Way, asked: &Asked, name: &str) -> u64 {
    // Calls between threads depend on time, not on requests.
    let text = through(&["strace", "-f", "-c", "-e", "trace=!futex", "-o", "{}"], way, asked);
    let row = text.lines().rev().find(|line| line.split_whitespace().last() == Some(name));
    // % time, seconds, usecs/call, calls, errors if there were any, the name.
    row.and_then(|row| row.split_whitespace().nth(3)?.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

/// What a server is asked for.
pub(crate) struct Asked {
    pub(crate) file: &'static str,
    pub(crate) connections: u32,
    pub(crate) requests: u64,
}

/// Has a server that another program runs and looks at answer so many requests; what that program writes.
pub(crate) fn through(by: &[&str], way: &Way, asked: &Asked) -> String {
    let Asked { file, connections, requests } = asked;
    let folder = tempfile::tempdir().expect("a directory");
    let found = folder.path().join("found");
    fs::create_dir(folder.path().join("site")).expect("a directory");
    fs::create_dir(folder.path().join("site/listed")).expect("a directory");
    for number in 0..LISTED {
        fs::write(folder.path().join("site/listed").join(number.to_string()), "x").expect("a file");
    }
    fs::write(folder.path().join("site/a.txt"), "hello").expect("a file");
    fs::write(folder.path().join("site/64k.bin"), vec![7; 64 << 10]).expect("a file");
    let page = "<h1>A page</h1><!--#include virtual=\"/a.txt\" --><p><!--#echo var=\"QUERY_STRING\" -->";
    fs::write(folder.path().join("site/page.shtml"), page).expect("a file");
    fs::write(folder.path().join("site/large.bin"), vec![7; 3_900_000]).expect("a file");
    let certificate = Certificate::self_signed().expect("a certificate");
    let (secure, clear) = (free_port(), free_port());
    let by = by.iter().map(|word| word.replace("{}", &found.display().to_string())).collect::<Vec<_>>();
    let server = Command::new(&by[0])
        .args(&by[1..])
        .arg(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--loops", "1", "--io", way.io, "--listen", &format!("127.0.0.1:{secure}")])
        .args(["--listen-clear", &format!("127.0.0.1:{clear}")])
        .arg("--tls-cert")
        .arg(certificate.certificate())
        .arg("--tls-key")
        .arg(certificate.key())
        .arg(folder.path().join("site"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut server = Looked(server.expect("it starts"));
    wait_for(|| std::net::TcpStream::connect(("127.0.0.1", clear)).ok());
    let url = match way.options.contains(&"--insecure") {
        true => format!("https://localhost:{secure}/{file}"),
        false => format!("http://localhost:{clear}/{file}"),
    };
    let status = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["load", &url, "-q", "-c", &connections.to_string(), "-n", &requests.to_string()])
        .args(way.options)
        .stdout(Stdio::null())
        .status()
        .expect("the command starts");
    assert!(status.success(), "{}: {status}", way.name);
    server.stop();
    fs::read_to_string(&found).expect("what was found")
}

/// A server within the program that counts it.
struct Looked(Child);

impl Looked {
    /// Tells the server to end, and waits for both.
    fn stop(&mut self) {
        let pid = self.0.id();
        // callgrind is the process itself; strace has it as its child.
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let server = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or(pid as i32);
        // SAFETY: the call takes no pointers.
        assert_eq!(unsafe { libc::kill(server, libc::SIGTERM) }, 0);
        assert!(self.0.wait().expect("it ends").success(), "it ended otherwise");
    }
}

impl Drop for Looked {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
