//! What a request costs `weir serve` that a server over HTTP answers, a program over FastCGI, or the cache: instructions by
//! callgrind and system calls by strace, which do not depend on the machine's load. Allocations are counted in the
//! server's own tests.

use crate::support;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use support::{alone, planted::wait_for};
use weir_testkit::counts::{settled, total, within};
use weir_testkit::{free_port, require};

/// Requests of the shorter run, and how many more the longer one has.
const MANY: (u64, u64) = (200, 2_000);

/// A way to answer, and how much a request may take.
struct Way {
    name: &'static str,
    path: &'static str,
    io: &'static str,
    connections: u32,
    /// Instructions of the whole process.
    instructions: f64,
    calls: f64,
}

/// Bounds of instructions lie at most 3 % above those counted with Rust 1.95 on 2026-11-28: 17,016, 18,690, 17,120,
/// 18,624, 7,777 and 5,798. Bounds of system calls allow for a few that timing adds.
const WAYS: [Way; 6] = [
    // It waits and receives twice, and sends twice.
    Way {
        name: "proxied, by epoll",
        path: "proxied/1k.txt",
        io: "epoll",
        connections: 1,
        instructions: 17_500.0,
        calls: 6.0,
    },
    // Once it sends the request and waits for the response, once it sends that and waits for the next request.
    Way { name: "proxied", path: "proxied/1k.txt", io: "auto", connections: 1, instructions: 19_200.0, calls: 2.0 },
    Way { name: "FastCGI, by epoll", path: "a.php", io: "epoll", connections: 1, instructions: 17_600.0, calls: 6.0 },
    Way { name: "FastCGI", path: "a.php", io: "auto", connections: 1, instructions: 19_150.0, calls: 2.0 },
    Way { name: "cached", path: "cached/1k.txt", io: "auto", connections: 1, instructions: 8_000.0, calls: 1.0 },
    Way { name: "a file", path: "1k.txt", io: "auto", connections: 1, instructions: 5_970.0, calls: 1.0 },
];

#[test]
fn a_passed_on_request_takes_no_more_instructions_than_before() {
    let _turn = alone();
    if require::program("valgrind").is_none() {
        return;
    }
    for way in WAYS {
        settled(|least| {
            let each = least.each("callgrind", MANY, |requests| {
                total(&through(&["valgrind", "--tool=callgrind", "-q", "--callgrind-out-file={}"], &way, requests))
            });
            eprintln!("{}: {each:.0} instructions a request", way.name);
            within(way.name, each, 500.0, way.instructions)
        });
    }
}

#[test]
fn a_passed_on_request_takes_no_more_system_calls_than_it_must() {
    let _turn = alone();
    if require::program("strace").is_none() {
        return;
    }
    for way in WAYS {
        settled(|least| {
            let each = least.each("strace", MANY, |requests| calls_of(&way, requests));
            eprintln!("{}: {each:.3} system calls a request", way.name);
            within(way.name, each, 0.8 * way.calls, way.calls + 0.1)
        });
    }
}

/// What a server has called that has answered so many requests.
fn calls_of(way: &Way, requests: u64) -> u64 {
    // Calls between threads depend on time, not on requests.
    let text = through(&["strace", "-f", "-c", "-e", "trace=!futex", "-o", "{}"], way, requests);
    let row = text.lines().rev().find(|line| line.split_whitespace().last() == Some("total"));
    row.and_then(|row| row.split_whitespace().nth(3)?.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

/// Has a server that another program runs and looks at answer so many requests; what that program writes.
fn through(by: &[&str], way: &Way, requests: u64) -> String {
    let folder = tempfile::tempdir().expect("a directory");
    let found = folder.path().join("found");
    let site = folder.path().join("site");
    for name in ["1k.txt", "proxied/1k.txt", "cached/1k.txt", "a.php"] {
        let file = site.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a directory");
        fs::write(file, vec![b'x'; 1 << 10]).expect("a file");
    }
    let (port, asked) = (free_port(), free_port());
    let upstream = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--loops", "1", "--listen", &format!("127.0.0.1:{asked}")])
        .arg(&site)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let (upstream, program) = (Ended(upstream.expect("it starts")), Program::start());
    wait_for(|| TcpStream::connect(("127.0.0.1", asked)).ok());
    let configuration = folder.path().join("weir.toml");
    let text = format!(
        "listen = [\"127.0.0.1:{port}\"]\nloops = 1\nio = \"{}\"\nsandbox = false\n[[host]]\nroot = \"site\"\n\
         [[host.path]]\nprefix = \"/proxied/\"\nproxy = \"http://127.0.0.1:{asked}\"\n\
         [[host.path]]\nprefix = \"/cached/\"\nproxy = \"http://127.0.0.1:{asked}\"\ncache = {{ default_ttl = \"1 h\" }}\n\
         [[host.path]]\nglob = \"**.php\"\nfastcgi = {{ to = \"127.0.0.1:{}\", connections = 4 }}\n",
        way.io, program.port
    );
    fs::write(&configuration, text).expect("a file");
    let by = by.iter().map(|word| word.replace("{}", &found.display().to_string())).collect::<Vec<_>>();
    let server = Command::new(&by[0])
        .args(&by[1..])
        .args([env!("CARGO_BIN_EXE_weir"), "serve"])
        .arg(&configuration)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut server = Ended(server.expect("it starts"));
    wait_for(|| TcpStream::connect(("127.0.0.1", port)).ok());
    let url = format!("http://127.0.0.1:{port}/{}", way.path);
    let status = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["load", &url, "-q", "-c", &way.connections.to_string(), "-n", &requests.to_string()])
        .stdout(Stdio::null())
        .status()
        .expect("the command starts");
    assert!(status.success(), "{}: {status}", way.name);
    // valgrind takes a wait by io_uring for one that does not block, and runs no other thread meanwhile: as long as a
    // connection is kept on the ring, the server does not hear that it is to end.
    drop(upstream);
    program.close();
    server.end();
    fs::read_to_string(&found).expect("what was found")
}

/// A program that answers over FastCGI, over as many connections as it gets, until the tests end.
struct Program {
    port: u16,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Program {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("an address").port();
        let sockets = Arc::<Mutex<Vec<TcpStream>>>::default();
        let all = Arc::clone(&sockets);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                all.lock().expect("no panic").push(socket.try_clone().expect("a handle"));
                std::thread::spawn(move || answer(socket));
            }
        });
        Self { port, sockets }
    }

    /// Closes the connections that are kept.
    fn close(&self) {
        let sockets = self.sockets.lock().expect("no panic");
        // It fails only where the other side has closed it.
        sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
    }
}

/// Answers requests without a body: each ends with an empty record of its input (section 5.3 of the specification).
fn answer(mut socket: TcpStream) {
    const STDIN: u8 = 5;
    let output = b"Content-Type: text/plain\r\n\r\nhello\n\0\0";
    let mut response = vec![1, 6, 0, 1, 0, (output.len() - 2) as u8, 2, 0];
    response.extend_from_slice(output);
    response.extend_from_slice(&[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let (mut input, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = socket.read(&mut bytes) {
        input.extend_from_slice(&bytes[..count]);
        while let [_, kind, _, _, high, low, padding, _, ..] = input[..] {
            let content = usize::from(u16::from_be_bytes([high, low]));
            let end = 8 + content + usize::from(padding);
            if input.len() < end {
                break;
            }
            input.drain(..end);
            if kind == STDIN && content == 0 && socket.write_all(&response).is_err() {
                return;
            }
        }
    }
}

/// A program that is told to end, or killed where that comes too late.
struct Ended(Child);

impl Ended {
    fn end(&mut self) {
        let pid = self.0.id();
        // callgrind is the process itself; strace has it as its child.
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let server = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or(pid as i32);
        // SAFETY: the call takes no pointers.
        assert_eq!(unsafe { libc::kill(server, libc::SIGTERM) }, 0);
        assert!(self.0.wait().expect("it ends").success(), "it ended otherwise");
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
