//! Threads and event loops: a pool's work is named as its own, a lock of the interpreter with its holder, and a client is
//! never blamed for the wait for its own answer.

use crate::support;

use std::path::Path;
use std::process::Command;
use support::planted::{Beside, explained, first, held_by, names_first, said, share, undisturbed, wait_for};
use weir_testkit::{Site, require};

/// A server whose loop hands each request to a pool of threads, while it takes others in: the pool sleeps for 30 ms.
const LOOP: &str = "#!/usr/bin/python3
import asyncio, concurrent.futures, sys, time
pool = concurrent.futures.ThreadPoolExecutor(8)
async def serve(reader, writer):
    try:
        while await reader.readuntil(b'\\r\\n\\r\\n'):
            await asyncio.get_running_loop().run_in_executor(pool, time.sleep, 0.030)
            writer.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
    except asyncio.IncompleteReadError:
        writer.close()
async def main():
    server = await asyncio.start_server(serve, '127.0.0.1', 0)
    print(server.sockets[0].getsockname()[1], file=open(sys.argv[1], 'w'), flush=True)
    await server.serve_forever()
asyncio.run(main())
";

/// Threads that each take a connection, and hand what they ask another server to a pool; that server sleeps for 15 ms.
const THREADS: &str = "#!/usr/bin/python3
import concurrent.futures, socket, sys, threading, time
pool = concurrent.futures.ThreadPoolExecutor(4)
def ask():
    with socket.create_connection(('127.0.0.1', int(sys.argv[2]))) as behind:
        behind.sendall(b'?')
        return behind.recv(100)
def serve(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while client.recv(4096):
        pool.submit(ask).result()
        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], file=open(sys.argv[1], 'w'), flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

const BEHIND: &str = "#!/usr/bin/python3
import socket, sys, threading, time
def answer(client):
    client.recv(100)
    time.sleep(0.015)
    client.sendall(b'!')
    client.close()
server = socket.create_server(('127.0.0.1', 0), backlog=64)
print(server.getsockname()[1], file=open(sys.argv[1], 'w'), flush=True)
while True:
    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
";

/// A loop beside a thread that computes, and has the interpreter's lock nearly all the time.
const INTERPRETER: &str = "#!/usr/bin/python3
import ctypes, selectors, socket, sys, threading
def compute():
    ctypes.CDLL(None).prctl(15, b'bookkeeper', 0, 0, 0)
    while True:
        sum(number * number for number in range(1000))
threading.Thread(target=compute, daemon=True).start()
server = socket.create_server(('127.0.0.1', 0), backlog=64)
print(server.getsockname()[1], file=open(sys.argv[1], 'w'), flush=True)
ready = selectors.DefaultSelector()
ready.register(server, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fileobj is server:
            ready.register(server.accept()[0], selectors.EVENT_READ)
        elif key.fileobj.recv(4096):
            key.fileobj.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
        else:
            ready.unregister(key.fileobj)
            key.fileobj.close()
";

/// Threads that hand each request to a pool whose workers look for work every 3 ms, and that sleeps for 20 ms where it
/// would be woken for something.
const POLLING: &str = "#!/usr/bin/python3
import queue, socket, sys, threading
jobs = queue.SimpleQueue()
def work():
    while True:
        try:
            done = jobs.get(timeout=0.003)
        except queue.Empty:
            continue
        threading.Event().wait(0.020)
        done.set()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
def serve(client):
    while client.recv(4096):
        done = threading.Event()
        jobs.put(done)
        done.wait()
        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], file=open(sys.argv[1], 'w'), flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

/// Goroutines that share a lock, under which each sleeps 10 ms.
const GOROUTINES: &str = r#"package main

import (
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

func main() {
	var stock sync.Mutex
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		stock.Lock()
		time.Sleep(10 * time.Millisecond)
		stock.Unlock()
		w.Write([]byte("ok"))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	os.WriteFile(os.Args[1], []byte(port), 0o644)
	http.Serve(listener, nil)
}
"#;

/// The head of a response and its body in writes of their own, without TCP_NODELAY.
const PIECES: &str = "#!/usr/bin/python3
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'o')
        self.wfile.write(b'k')
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, file=open(sys.argv[1], 'w'), flush=True)
server.serve_forever()
";

/// One process for all: most of its time it is at the page that sleeps for 40 ms.
const ALONE: &str = "#!/usr/bin/python3
import socket, sys, time
server = socket.create_server(('127.0.0.1', 0), backlog=64)
print(server.getsockname()[1], file=open(sys.argv[1], 'w'), flush=True)
while True:
    client, _ = server.accept()
    if b'/slow' in client.recv(4096):
        time.sleep(0.040)
    client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok')
    client.close()
";

/// Processes that share a file lock: the page that exports has it for 20 ms, the others for as long as they take.
const LOCKED: &str = "#!/usr/bin/python3
import ctypes, fcntl, os, signal, socket, sys, time
server = socket.create_server(('127.0.0.1', 0), backlog=64)
for _ in range(4):
    if os.fork() == 0:
        # PR_SET_PDEATHSIG: it ends with the one that made it.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        while True:
            client, _ = server.accept()
            request = client.recv(4096)
            with open(sys.argv[1] + '.lock', 'a') as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if b'/export' in request:
                    time.sleep(0.020)
            client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok')
            client.close()
print(server.getsockname()[1], file=open(sys.argv[1], 'w'), flush=True)
os.wait()
";

/// A server of a script, and the port that it says.
fn started(site: &Site, name: &str, script: &str, more: &[&str]) -> (Beside, String) {
    site.write_program(name, script.as_bytes()).expect("a script");
    let said_port = site.path().join(format!("{name}.port"));
    let mut arguments = vec![path(&said_port)];
    arguments.extend(more);
    let server = Beside::start(&site.path().join(name), &arguments);
    let port = wait_for(|| std::fs::read_to_string(&said_port).ok()?.trim().parse::<u16>().ok());
    (server, port.to_string())
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

fn ready() -> Option<Site> {
    require::root_and_bpf()?;
    require::program("python3")?;
    Some(Site::empty().expect("a directory"))
}

#[test]
fn a_pool_beside_an_event_loop() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    let (_server, port) = started(&site, "shop-loop", LOOP, &[]);
    let url = format!("http://127.0.0.1:{port}/");
    let report = explained(&url, &["--port", &port, "--rate", "80", "-d", "3s"]);
    names_first(&report, "wait_timer", "shop-loop");
    // A client's wake-up of the loop ends no wait for an answer.
    assert!(share(&report, "wait_process") < 0.05, "{}", said(&report));
    assert!(share(&report, "unattributed") < 0.05, "{}", said(&report));
}

/// Each of four has the lock for a quarter of the time: three quarters of a response are waits for it, the rest is a sleep.
#[test]
fn goroutines_that_share_a_lock() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    if require::program("go").is_none() {
        return;
    }
    site.write("main.go", GOROUTINES.as_bytes()).expect("a program");
    site.write("go.mod", b"module shop\n\ngo 1.19\n").expect("a module");
    let program = site.path().join("shop-go");
    let mut build = Command::new("go");
    build
        .args(["build", "-ldflags=-s -w", "-o", path(&program), "."])
        .current_dir(site.path())
        .env_remove("GO111MODULE");
    assert!(build.status().expect("go runs").success(), "the program is built");
    let said_port = site.path().join("go.port");
    let _server = Beside::start(&program, &[path(&said_port)]);
    let port = wait_for(|| std::fs::read_to_string(&said_port).ok()?.trim().parse::<u16>().ok()).to_string();
    let url = format!("http://127.0.0.1:{port}/");
    let report = explained(&url, &["--port", &port, "-c", "4", "-d", "1s", "--watch", "locks,timers"]);
    names_first(&report, "wait_lock", "a lock of Go held by shop-go");
    let [lock, sleep] = ["wait_lock", "wait_timer"].map(|part| share(&report, part));
    assert!((0.6..0.85).contains(&lock) && (0.15..0.4).contains(&sleep), "{}", said(&report));
}

#[test]
fn a_pool_that_asks_another_server() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    let (_behind, behind) = started(&site, "price-service", BEHIND, &[]);
    let (_server, port) = started(&site, "shop-threads", THREADS, &[&behind]);
    let url = format!("http://127.0.0.1:{port}/");
    let report = explained(&url, &["--port", &port, "--rate", "40", "-c", "8", "-d", "3s"]);
    names_first(&report, "wait_process", &format!("127.0.0.1:{behind}"));
    let report = explained(&url, &["--port", &port, "--port", &behind, "--rate", "40", "-c", "8", "-d", "3s"]);
    names_first(&report, "wait_timer", "price-service");
}

#[test]
fn an_interpreters_lock_names_its_holder() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    let (_server, port) = started(&site, "shop-loop", INTERPRETER, &[]);
    let report = explained(&format!("http://127.0.0.1:{port}/"), &["--port", &port, "-c", "2", "-d", "3s"]);
    let causes = report["causes"].as_array().expect("causes");
    let lock = causes.iter().find(|cause| cause["part"] == "wait_lock").unwrap_or_else(|| panic!("{}", said(&report)));
    assert!(lock["who"][0][0].as_str().is_some_and(|who| who.contains("bookkeeper")), "{}", said(&report));
    // What the holder ran is no running of the request's.
    assert!(share(&report, "wait_lock") > 0.1 && share(&report, "run") < 0.1, "{}", said(&report));
}

/// A wait with a time-out is for a lock where a lock is.
#[test]
fn a_pool_that_polls_and_a_sleep_that_could_be_ended_are_no_locks() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    let (_server, port) = started(&site, "shop-polling", POLLING, &[]);
    let report = explained(&format!("http://127.0.0.1:{port}/"), &["--port", &port, "-c", "2", "-d", "3s"]);
    names_first(&report, "wait_timer", "shop-polling");
    // Python makes a lock for each wait of a condition, at an address that others have used: some pass for one lock.
    assert!(share(&report, "wait_lock") < 0.08, "{}", said(&report));
}

#[test]
fn a_response_in_pieces_is_held_back_by_nagles_algorithm() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    let (_server, port) = started(&site, "shop-pieces", PIECES, &[]);
    let report = explained(&format!("http://127.0.0.1:{port}/"), &["--port", &port, "-c", "1", "-d", "2s"]);
    let (part, who) = first(&report);
    assert!(part == "response_transit" && who.contains("Nagle"), "{}", said(&report));
}

#[test]
fn a_queue_in_front_of_one_process_names_it() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    let (_server, port) = started(&site, "shop-alone", ALONE, &[]);
    let url = format!("http://127.0.0.1:{port}/slow");
    let report = explained(&url, &["--port", &port, "-c", "4", "-d", "2s", "--no-keepalive"]);
    names_first(&report, "accept_queue", "shop-alone");
}

/// Half of the requests are for a page and half for another one: whose it is that keeps the others is told.
fn of_two_pages(site: &Site, port: &str, pages: [&str; 2], more: &[&str]) -> serde_json::Value {
    let (list, url) = (site.path().join("urls"), format!("http://127.0.0.1:{port}/"));
    std::fs::write(&list, pages.join("\n")).expect("a list");
    let options = ["--port", port, "--urls", path(&list), "-c", "4", "-d", "2s", "--no-keepalive"];
    explained(&url, &[&options, more].concat())
}

#[test]
fn a_queue_says_whose_request_keeps_the_process() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    let (_server, port) = started(&site, "shop-alone", ALONE, &[]);
    let report = of_two_pages(&site, &port, ["/slow", "/fast"], &[]);
    names_first(&report, "accept_queue", "shop-alone");
    assert_eq!(held_by(&report, "accept_queue"), ("GET /slow", "wait_timer"), "{}", said(&report));
}

#[test]
fn a_lock_says_whose_request_has_it() {
    let _turn = undisturbed();
    let Some(site) = ready() else { return };
    let (_server, port) = started(&site, "shop-locked", LOCKED, &[]);
    let report = of_two_pages(&site, &port, ["/export", "/view"], &["--watch", "locks"]);
    names_first(&report, "wait_lock", "shop-locked");
    assert_eq!(held_by(&report, "wait_lock"), ("GET /export", "wait_timer"), "{}", said(&report));
}
