//! For whose request a server asked another one: what `weir` says against what the other server knows.
//!
//! Each request has a number in its path, which the application hands on in its question. The back end keeps numbers,
//! connections and times, and is not recorded: `weir` reads none of it, and tells parents by sockets and wake-ups alone.

use crate::support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::output;
use support::planted::{Beside, undisturbed, wait_for};
use weir_testkit::seeded::Choice;
use weir_testkit::{Nginx, PhpFpm, Site, require};
use weir_timeline::{Bounds, Joiner, Question, Response};
use weir_trace::RunReader;
use weir_wire::client::ClientRequest;

/// Questions that a request asks, one after the other.
const QUESTIONS: usize = 2;

/// One request at a time and thread, on a connection of the thread's own.
const WSGI: &str = "
import os, socket, threading
own = threading.local()
def app(environ, start):
    if not hasattr(own, 'store'):
        own.store = socket.create_connection(('127.0.0.1', int(os.environ['STORE'])))
        own.store.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(2):
        own.store.sendall(environ['PATH_INFO'].rsplit('/', 1)[1].encode() + b'\\n')
        own.store.recv(100)
    start('200 OK', [('Content-Length', '2')])
    return [b'ok']
";

/// Connections of a pool, taken and given back by goroutines.
const GO: &str = r#"package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"strings"
)

type store struct {
	conn   net.Conn
	reader *bufio.Reader
}

func main() {
	pool := make(chan *store, 64)
	http.HandleFunc("/ask/", func(w http.ResponseWriter, r *http.Request) {
		var one *store
		select {
		case one = <-pool:
		default:
			conn, err := net.Dial("tcp", "127.0.0.1:"+os.Getenv("STORE"))
			if err != nil {
				http.Error(w, err.Error(), 502)
				return
			}
			one = &store{conn, bufio.NewReader(conn)}
		}
		number := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		for i := 0; i < 2; i++ {
			one.conn.Write([]byte(number + "\n"))
			one.reader.ReadString('\n')
		}
		select {
		case pool <- one:
		default:
			one.conn.Close()
		}
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

/// One loop for all, with connections of a pool for which requests wait.
const NODE: &str = "
const http = require('http'), net = require('net'), fs = require('fs');
const idle = [], waiting = []; let made = 0;
const take = (use) => {
  if (idle.length) return use(idle.pop());
  if (made >= 16) return waiting.push(use);
  made += 1;
  const socket = net.connect(+process.env.STORE, '127.0.0.1', () => use(socket));
  socket.setNoDelay(true);
};
const give = (socket) => waiting.length ? waiting.shift()(socket) : idle.push(socket);
const ask = (socket, number, done) => { socket.once('data', done); socket.write(number + '\\n'); };
const server = http.createServer((request, response) => {
  const number = request.url.split('/').pop();
  take((socket) => ask(socket, number, () => ask(socket, number, () => { give(socket); response.end('ok'); })));
});
server.listen(0, '127.0.0.1', () => fs.writeFileSync(process.argv[2], String(server.address().port)));
";

/// One request at a time and thread, on a connection of the thread's own.
const JAVA: &str = r#"
import com.sun.net.httpserver.*;
import java.net.*;
import java.nio.file.*;
import java.util.concurrent.*;

public class Asks {
    record Store(Socket socket) {
        static Store open() {
            try {
                Socket socket = new Socket("127.0.0.1", Integer.parseInt(System.getenv("STORE")));
                socket.setTcpNoDelay(true);
                return new Store(socket);
            } catch (java.io.IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        ThreadLocal<Store> own = ThreadLocal.withInitial(Store::open);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 128);
        server.createContext("/ask/", exchange -> {
            String path = exchange.getRequestURI().getPath();
            byte[] number = (path.substring(path.lastIndexOf('/') + 1) + "\n").getBytes();
            Socket store = own.get().socket();
            for (int asked = 0; asked < 2; asked++) {
                store.getOutputStream().write(number);
                store.getInputStream().read(new byte[100]);
            }
            exchange.sendResponseHeaders(200, 2);
            exchange.getResponseBody().write("ok".getBytes());
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(64));
        server.start();
        Files.writeString(Path.of(arguments[0]), String.valueOf(server.getAddress().getPort()));
    }
}
"#;

/// One loop for all, whose handlers take connections of a pool.
const ASYNCIO: &str = "
import asyncio, os, socket, sys
idle, made = asyncio.LifoQueue(), 0
async def take():
    global made
    if idle.empty() and made < 16:
        made += 1
        reader, writer = await asyncio.open_connection('127.0.0.1', int(os.environ['STORE']))
        writer.get_extra_info('socket').setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return reader, writer
    return await idle.get()
async def serve(reader, writer):
    while head := await reader.readuntil(b'\\r\\n\\r\\n'):
        store = await take()
        for _ in range(2):
            store[1].write(head.split(b' ', 2)[1].rsplit(b'/', 1)[1] + b'\\n')
            await store[0].readline()
        idle.put_nowait(store)
        writer.write(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
async def serves(reader, writer):
    try:
        await serve(reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serves, '127.0.0.1', 0)
    open(sys.argv[1], 'w').write(str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()
asyncio.run(main())
";

/// A page for each number, as the name of a request has no query.
const PHP: &str = "<?php
$store = pfsockopen('127.0.0.1', (int) getenv('STORE'));
for ($i = 0; $i < 2; $i++) { fwrite($store, basename(__FILE__, '.php') . \"\\n\"); fgets($store); }
header('Content-Type: text/plain'); echo 'ok';";

/// A question as the back end saw it.
#[derive(Debug, Clone, Copy)]
struct Asked {
    port: u16,
    request: usize,
    answered_ns: u64,
}

/// The back end: to each line it thinks for 0.2 to 3 ms, and answers.
struct Store {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Store {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (port, asked) = (listener.local_addr().expect("an address").port(), Arc::default());
        let all: Arc<Mutex<Vec<Asked>>> = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let all = Arc::clone(&all);
                std::thread::spawn(move || answer(&stream, number as u64, &all));
            }
        });
        Self { port, asked }
    }
}

fn answer(stream: &TcpStream, number: u64, all: &Mutex<Vec<Asked>>) {
    let mut choice = Choice::from_seed(number);
    let port = stream.peer_addr().map_or(0, |address| address.port());
    // Without it the answer is late only.
    let _ = stream.set_nodelay(true);
    for line in BufReader::new(stream).lines() {
        let Ok(request) = line.unwrap_or_default().parse() else { return };
        std::thread::sleep(Duration::from_micros(200 + choice.below(2800)));
        all.lock().expect("no thread has panicked").push(Asked { port, request, answered_ns: now_ns() });
        if (&mut &*stream).write_all(b"ok\n").is_err() {
            return;
        }
    }
}

/// The clock of recordings.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure, which lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// How many questions there were, have a parent, and have the true one.
#[derive(Debug, Default, Clone, Copy)]
struct Shares {
    asked: u64,
    named: u64,
    right: u64,
}

impl Shares {
    fn named(self) -> f64 {
        self.named as f64 / self.asked.max(1) as f64
    }

    fn right(self) -> f64 {
        self.right as f64 / self.named.max(1) as f64
    }

    fn wrong(self) -> f64 {
        (self.named - self.right) as f64 / self.asked.max(1) as f64
    }
}

/// Loads a server that asks the store, and compares.
fn shares(store: &Store, url: &str, record: &[&str], in_flight: usize, requests: usize) -> Shares {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (run, list) = (directory.path().join("run"), directory.path().join("urls"));
    let paths: String = (0..requests).map(|number| url.replace("{number}", &number.to_string()) + "\n").collect();
    std::fs::write(&list, paths).expect("a list");
    let [run, list] = [&run, &list].map(|path| path.to_str().expect("a readable path"));
    let (in_flight, requests) = (in_flight.to_string(), requests.to_string());
    store.asked.lock().expect("no thread has panicked").clear();
    let more = ["--run", run, "--urls", list, "-c", &in_flight, "-n", &requests];
    let base = url.split('/').take(3).collect::<Vec<_>>().join("/") + "/";
    let said = output(&[&["explain", "--json", "--load", &base][..], &more, record].concat());
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    compared(&store.asked.lock().expect("no thread has panicked"), &told(Path::new(run)))
}

/// The questions that the recording tells of, with the number of the request that is said to be their parent.
fn told(run: &Path) -> Vec<(Question, usize)> {
    let run = RunReader::open(run).expect("a run");
    let mut all = Vec::new();
    let mut take = |joiner: &Joiner, response: &Response<'_>| {
        let digits = response.name.rsplit(|letter: char| !letter.is_ascii_digit()).find(|digits| !digits.is_empty());
        if let Some(number) = digits.and_then(|digits| digits.parse().ok()) {
            all.extend(joiner.questions(response).into_iter().map(|question| (question, number)));
        }
    };
    let mut joiner = Joiner::new(Bounds::default());
    run.merge().each(|sourced| {
        let request = ClientRequest::read(&sourced.record, sourced.payload);
        let name = request.and_then(|request| sourced.name(request.name));
        joiner.push(&sourced.record, sourced.payload, name, &mut take);
        true
    });
    joiner.finish(&mut take);
    all
}

/// A connection carries one question at a time: the one that was asked since the answer before is this one's.
fn compared(asked: &[Asked], told: &[(Question, usize)]) -> Shares {
    let mut by_port: BTreeMap<u16, Vec<(u64, usize)>> = BTreeMap::new();
    for (question, request) in told {
        by_port.entry(question.local.port()).or_default().push((question.asked_ns, *request));
    }
    by_port.values_mut().for_each(|of| of.sort_unstable());
    let (mut shares, mut before) = (Shares::default(), BTreeMap::new());
    for one in asked {
        let since_ns = before.insert(one.port, one.answered_ns).unwrap_or(0);
        let of = by_port.get(&one.port).map(Vec::as_slice).unwrap_or_default();
        let parent = of.iter().rfind(|(at_ns, _)| (since_ns..one.answered_ns).contains(at_ns));
        shares.asked += 1;
        shares.named += u64::from(parent.is_some());
        shares.right += u64::from(parent.is_some_and(|(_, request)| *request == one.request));
    }
    shares
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

/// A server that writes its port to a file, which is its last argument.
fn started(site: &Site, mut command: Command, store: &Store) -> (Beside, u16) {
    let told = site.path().join("port");
    // Of an earlier one.
    let _ = std::fs::remove_file(&told);
    command.arg(&told).env("STORE", store.port.to_string());
    let server = Beside::spawn(command);
    let port = wait_for(|| std::fs::read_to_string(&told).ok()?.trim().parse().ok());
    (server, port)
}

fn gunicorn(site: &Site, store: &Store, threads: u32) -> Option<(Beside, u16)> {
    require::program("gunicorn")?;
    site.write("app.py", WSGI.as_bytes()).expect("an application");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port").port();
    let mut command = Command::new("gunicorn");
    command.args(["--chdir", path(site.path()), "--workers", "4", "--bind", &format!("127.0.0.1:{free}")]);
    command.args(["--threads", &threads.to_string(), "--keep-alive", "75", "--log-level", "error", "app:app"]);
    command.env("STORE", store.port.to_string());
    let server = Beside::spawn(command);
    wait_for(|| TcpStream::connect(("127.0.0.1", free)).ok());
    Some((server, free))
}

fn go(site: &Site, store: &Store) -> Option<(Beside, u16)> {
    require::program("go")?;
    site.write("main.go", GO.as_bytes()).expect("a program");
    site.write("go.mod", b"module asks\n\ngo 1.19\n").expect("a module");
    let program = site.path().join("asks");
    let mut build = Command::new("go");
    build.args(["build", "-o", path(&program), "."]).current_dir(site.path()).env_remove("GO111MODULE");
    assert!(build.status().expect("go runs").success(), "the program is built");
    Some(started(site, Command::new(program), store))
}

fn node(site: &Site, store: &Store) -> Option<(Beside, u16)> {
    require::program("node")?;
    site.write("asks.js", NODE.as_bytes()).expect("a program");
    let mut command = Command::new("node");
    command.arg(site.path().join("asks.js"));
    Some(started(site, command, store))
}

fn java(site: &Site, store: &Store) -> Option<(Beside, u16)> {
    require::program("java")?;
    site.write("Asks.java", JAVA.as_bytes()).expect("a program");
    let mut command = Command::new("java");
    command.arg("-Xmx256m").arg(site.path().join("Asks.java"));
    Some(started(site, command, store))
}

fn asyncio(site: &Site, store: &Store) -> Option<(Beside, u16)> {
    require::program("python3")?;
    site.write("asks.py", ASYNCIO.as_bytes()).expect("a program");
    let mut command = Command::new("python3");
    command.arg(site.path().join("asks.py"));
    Some(started(site, command, store))
}

fn ready() -> Option<(Site, Store)> {
    require::root_and_bpf()?;
    Some((Site::empty().expect("a directory"), Store::start()))
}

/// What a sort of server is held to, as shares.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// Named at least, of all questions.
    named: f64,
    /// Right at least, of those that are named.
    right: f64,
    /// Wrong at most, of all questions.
    wrong: f64,
}

/// Processes and threads with one request each.
const GOAL: Wanted = Wanted { named: 0.99, right: 0.999, wrong: 0.001 };
/// Of a loop whose requests wait for each other's connections it is not known for which of them it asks.
const LOOP: Wanted = Wanted { named: 0.0, right: 0.999, wrong: 0.001 };
/// A loop that takes several requests before it asks for any is told by that: until then a question of it may be told wrongly.
const DEFERRING: Wanted = Wanted { named: 0.0, right: 0.0, wrong: 0.001 };
/// Threads of an interpreter that wait for its lock often are not known by their request.
const INTERPRETED: Wanted = Wanted { named: 0.9, right: 0.999, wrong: 0.001 };
/// A goroutine may go on upon a thread that has just taken another's request.
const GOROUTINES: Wanted = Wanted { named: 0.99, right: 0.99, wrong: 0.01 };

/// Prints the shares of a sort of server, and holds them to what is wanted: the share that is named, and that of these
/// which is right.
fn held(what: &str, loads: &[(usize, usize)], wanted: Wanted, mut load: impl FnMut(usize, usize) -> Shares) {
    for &(in_flight, requests) in loads {
        let shares = load(in_flight, requests);
        eprintln!(
            "parents: {what}, {in_flight} in flight: {} questions, {:.2} % named, {:.3} % of them right",
            shares.asked,
            100.0 * shares.named(),
            100.0 * shares.right()
        );
        assert!(shares.asked as usize >= requests * QUESTIONS * 9 / 10, "{what}: {shares:?}");
        assert!(shares.right() >= wanted.right, "{what}, {in_flight} in flight: {shares:?}");
        assert!(shares.wrong() <= wanted.wrong, "{what}, {in_flight} in flight: {shares:?}");
        assert!(shares.named() >= wanted.named, "{what}, {in_flight} in flight: {shares:?}");
    }
}

/// In flight, and how many requests: in the tests, and by `make check-parents`.
const SHORT: &[(usize, usize)] = &[(8, 250)];
const LONG: &[(usize, usize)] = &[(1, 1000), (8, 3000), (64, 6000)];

fn of_gunicorn(loads: &[(usize, usize)], threads: u32) {
    let _turn = undisturbed();
    let Some((site, store)) = ready() else { return };
    let Some((_server, port)) = gunicorn(&site, &store, threads) else { return };
    let (url, port) = (format!("http://127.0.0.1:{port}/ask/{{number}}"), port.to_string());
    let what = if threads == 1 { "gunicorn, processes" } else { "gunicorn, threads" };
    let wanted = if threads == 1 { GOAL } else { INTERPRETED };
    held(what, loads, wanted, |in_flight, requests| {
        // A process alone takes a connection for each request.
        let more: &[&str] = if threads == 1 { &["--no-keepalive"] } else { &[] };
        shares(&store, &url, &[&["--port", &port][..], more].concat(), in_flight, requests)
    });
}

/// A server that tells its port by a file, and is recorded by it.
fn of_one(
    what: &str,
    loads: &[(usize, usize)],
    wanted: Wanted,
    start: impl FnOnce(&Site, &Store) -> Option<(Beside, u16)>,
) {
    let _turn = undisturbed();
    let Some((site, store)) = ready() else { return };
    let Some((_server, port)) = start(&site, &store) else { return };
    let (url, port) = (format!("http://127.0.0.1:{port}/ask/{{number}}"), port.to_string());
    held(what, loads, wanted, |in_flight, requests| shares(&store, &url, &["--port", &port], in_flight, requests));
}

fn of_php(loads: &[(usize, usize)]) {
    let _turn = undisturbed();
    let Some((site, store)) = ready() else { return };
    if require::nginx().and_then(|()| require::php_fpm()).is_none() {
        return;
    }
    for number in 0..loads.iter().map(|(_, requests)| *requests).max().unwrap_or(0) {
        site.write(&format!("{number}.php"), PHP.as_bytes()).expect("a page");
    }
    let php = PhpFpm::new().processes(16).env("STORE", &store.port.to_string()).start().expect("php-fpm starts");
    let web = Nginx::new().root(site.path()).php_fpm(&php).start().expect("nginx starts");
    let (url, port, pid) = (web.url("/{number}.php"), web.port.to_string(), php.pid().to_string());
    held("nginx and php-fpm", loads, GOAL, |in_flight, requests| {
        shares(&store, &url, &["--port", &port, "--pid", &pid], in_flight, requests)
    });
}

#[test]
fn parents_of_what_threads_ask() {
    of_gunicorn(SHORT, 8);
}

/// While the pages are compiled, their processes wait for each other's lock of a file.
#[test]
fn parents_of_what_pages_ask() {
    of_php(SHORT);
}

#[test]
fn parents_of_what_a_loop_asks() {
    of_one("Node", SHORT, LOOP, node);
}

#[test]
#[ignore = "make check-parents"]
fn all_parents_of_gunicorns_processes() {
    of_gunicorn(LONG, 1);
}

#[test]
#[ignore = "make check-parents"]
fn all_parents_of_gunicorns_threads() {
    of_gunicorn(LONG, 16);
}

#[test]
#[ignore = "make check-parents"]
fn all_parents_of_php() {
    of_php(LONG);
}

#[test]
#[ignore = "make check-parents"]
fn all_parents_of_node() {
    of_one("Node", LONG, LOOP, node);
}

#[test]
#[ignore = "make check-parents"]
fn all_parents_of_asyncio() {
    of_one("asyncio", LONG, DEFERRING, asyncio);
}

#[test]
#[ignore = "make check-parents"]
fn all_parents_of_go() {
    of_one("Go", LONG, GOROUTINES, go);
}

#[test]
#[ignore = "make check-parents"]
fn all_parents_of_java() {
    of_one("Java, threads", LONG, GOAL, java);
}
