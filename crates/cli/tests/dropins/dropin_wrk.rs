//! `weir wrk` beside Debian's wrk on one kind of server: the scripts of wrk's package as they are, the same requests on
//! the wire, the same lines of the report; and what becomes of wrong scripts.

use crate::support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{alone, weir};
use weir_testkit::{Apache, Certificate, require};

/// Where Debian has the scripts of wrk's sources.
const SCRIPTS: &str = "/usr/share/doc/wrk/examples/scripts";

/// How long the server takes for what is slow.
const SLOW: Duration = Duration::from_millis(150);

/// What a server keeps of requests: each different one, and how many there were.
#[derive(Debug, Default)]
struct Asked {
    /// Request line, headers in the order of their names and body, with the port as `PORT`.
    different: BTreeSet<String>,
    count: usize,
}

/// A server that keeps what is asked: it answers with a token, and in chunks if the path says so.
struct Server {
    port: u16,
    asked: Arc<Mutex<Asked>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let asked = Arc::new(Mutex::new(Asked::default()));
        let shared = Arc::clone(&asked);
        std::thread::spawn(move || {
            for peer in listener.incoming().map_while(Result::ok) {
                let asked = Arc::clone(&shared);
                std::thread::spawn(move || serve(&peer, port, &asked));
            }
        });
        Self { port, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn different(&self) -> BTreeSet<String> {
        self.asked.lock().expect("no panic").different.clone()
    }

    fn count(&self) -> usize {
        self.asked.lock().expect("no panic").count
    }
}

/// Answers the requests of a connection until it ends.
fn serve(peer: &TcpStream, port: u16, asked: &Mutex<Asked>) {
    let mut reader = BufReader::new(peer);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().replace(&port.to_string(), "PORT"));
        }
        let length = lines.iter().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let first = lines.remove(0);
        lines.sort();
        let whole = format!("{first}|{}|{}", lines.join("|"), String::from_utf8_lossy(&body));
        {
            let mut asked = asked.lock().expect("no panic");
            asked.count += 1;
            if asked.different.len() < 1000 {
                asked.different.insert(whole);
            }
        }
        if first.contains("/slow") {
            std::thread::sleep(SLOW);
        }
        let answer = match first.contains("chunked") {
            true => "HTTP/1.1 200 OK\r\nX-Two: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            false => "HTTP/1.1 200 OK\r\nX-Token: secret\r\nContent-Length: 5\r\n\r\nhello",
        };
        if (&*peer).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Lines with every number and its unit as `9`; blanks are one.
fn form(text: &str) -> Vec<String> {
    // Of no sample wrk says `-nan%`.
    let word = |word: &str| match word == "-nan%" || word.starts_with(|letter: char| letter.is_ascii_digit()) {
        true => "9".to_owned(),
        false => word.replace(|letter: char| letter.is_ascii_digit(), "9"),
    };
    text.lines().map(|line| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaints(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a script with the options, while others run.
fn spawned(mut command: Command, arguments: &[&str], url: &str) -> std::thread::JoinHandle<Output> {
    command.args(arguments).arg(url);
    std::thread::spawn(move || command.output().expect("it starts"))
}

/// Runs a script of these lines for a second.
fn ours(directory: &Path, name: &str, script: &str, options: &[&str], url: &str) -> std::thread::JoinHandle<Output> {
    std::fs::write(directory.join(name), script).expect("a file");
    let mut command = weir();
    command.current_dir(directory).arg("wrk");
    spawned(command, &[options, &["-d1s", "-s", name]].concat(), url)
}

#[test]
fn scripts_of_the_package_run_as_by_wrk() {
    let _turn = alone();
    if require::program("wrk").is_none() || require::or_skip(Path::new(SCRIPTS).exists(), "wrk's scripts").is_none() {
        return;
    }
    let mut scripts: Vec<PathBuf> =
        std::fs::read_dir(SCRIPTS).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    scripts.sort();
    assert!(scripts.len() >= 9, "{scripts:?}");
    // All at once, as nothing is timed.
    let begin = |script: &PathBuf| {
        let pair = [Server::start(), Server::start()];
        let script = script.to_str().expect("a readable path").to_owned();
        let options = ["-t1", "-c2", "-d1s", "-H", "X-Given: a b", "-s", script.as_str()];
        let mut first = weir();
        first.arg("wrk");
        let ours = spawned(first, &options, &pair[0].url("/x?y=z"));
        let original = spawned(Command::new("wrk"), &options, &pair[1].url("/x?y=z"));
        (script.clone(), pair, ours, original)
    };
    let running: Vec<_> = scripts.iter().map(begin).collect();
    for (script, servers, ours, original) in running {
        let (ours, original) = (ours.join().expect("no panic"), original.join().expect("no panic"));
        assert_eq!(ours.status.code(), original.status.code(), "{script}: {}", complaints(&ours));
        let texts = [(&ours, &servers[0]), (&original, &servers[1])]
            .map(|(output, server)| text(output).replace(&server.port.to_string(), "PORT"));
        assert_eq!(form(&texts[0]), form(&texts[1]), "{script}: {}{}", texts[0], texts[1]);
        let [first, second] = servers.each_ref().map(Server::different);
        if script.ends_with("counter.lua") {
            // As many as there is time for; the first number goes to the look at what the script asks.
            let both = |all: &BTreeSet<String>| {
                (1..10).all(|number| all.iter().any(|one| one.starts_with(&format!("GET /{number} "))))
            };
            assert!(both(&first) && both(&second) && !first.iter().any(|one| one.starts_with("GET /0 ")), "{first:?}");
            assert!(first.iter().next().is_some_and(|one| second.contains(one)), "{first:?} {second:?}");
        } else {
            assert_eq!(first, second, "{script}");
        }
        let counts = servers.each_ref().map(Server::count);
        match script.rsplit('/').next() {
            Some("stop.lua") => assert!(counts.iter().all(|count| (100..110).contains(count)), "{counts:?}"),
            Some("delay.lua") => assert!(counts.iter().all(|count| (1..=202).contains(count)), "{counts:?}"),
            _ => assert!(counts.iter().all(|count| *count > 10), "{script}: {counts:?}"),
        }
    }
}

#[test]
fn a_script_sees_threads_responses_and_the_end() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start();
    let all = "local threads = {}
function setup(thread)
   thread:set('handed', { 'a', { b = true }, 3.5 })
   table.insert(threads, thread)
   assert(tostring(thread.addr):match('^127.0.0.1:%d+$'))
end
function init(args)
   seen, odd = 0, 0
   assert(handed[1] == 'a' and handed[2].b and handed[3] == 3.5)
   assert(args[0]:match('^http://') and args[1] == 'x' and args[2] == '-y' and #args == 2)
   assert(wrk.scheme == 'http' and wrk.host == '127.0.0.1' and tonumber(wrk.port) and wrk.path == '/chunked')
   assert(wrk.thread:get('seen') == 0)
end
function request()
   return wrk.format('PUT', nil, { ['X-One'] = 1 }, 'body')
end
function response(status, headers, body)
   seen = seen + 1
   if status ~= 200 or headers['X-Two'] ~= '2' or body ~= 'abcde' then odd = odd + 1 end
end
function done(summary, latency, requests)
   local seen = 0
   for _, thread in ipairs(threads) do
      seen = seen + thread:get('seen')
      assert(thread:get('odd') == 0)
   end
   local counted = 0
   for i = 1, #latency do
      local value, count = latency(i)
      assert(value >= latency.min and value <= latency.max)
      counted = counted + count
   end
   assert(latency:percentile(50) <= latency:percentile(100) and latency:percentile(100) == latency.max)
   assert(latency.mean > 0 and latency.stdev >= 0 and #requests > 0)
   print('done', seen == summary.requests, counted == summary.requests, summary.errors.connect, summary.duration)
end";
    let url = server.url("/chunked");
    std::fs::write(directory.path().join("all.lua"), all).expect("a file");
    let mut run = weir();
    run.current_dir(directory.path()).args(["wrk", "-t2", "-c6", "-d1s", "-s", "all.lua", &url, "--", "x", "-y"]);
    let output = run.output().expect("it starts");
    let (said, complaints) = (text(&output), complaints(&output));
    assert!(output.status.success(), "{said}{complaints}");
    let done = said.lines().last().unwrap_or_default().split('\t').collect::<Vec<_>>();
    assert_eq!(done[..4], ["done", "true", "true", "0"], "{said}");
    assert_eq!(done[4], "1000000", "{said}");
    assert!(complaints.contains("; none of it is in a latency"), "{complaints}");
    let asked = server.different();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked.iter().all(|one| one == "PUT /chunked HTTP/1.1|Content-Length: 4|Host: 127.0.0.1:PORT|X-One: 1|body")
    );
}

#[test]
fn time_in_scripts_is_in_no_latency() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start();
    // Six connections, whose responses all wait while the script takes 20 ms for each request.
    let script = "local ffi = require('ffi')
ffi.cdef('int usleep(unsigned microseconds);')
function request()
   ffi.C.usleep(20000)
   return wrk.format()
end
function done(summary, latency) print(latency:percentile(50)) end";
    let run = |name: &str, path: &str| ours(directory.path(), name, script, &["-t1", "-c6"], &server.url(path));
    let median_us = |output: &Output| -> f64 {
        text(output).lines().last().and_then(|line| line.parse().ok()).expect("a number at the end")
    };
    let (quick, slow) = (run("quick.lua", "/"), run("slow.lua", "/slow"));
    let [output, slow] = [quick, slow].map(|run| run.join().expect("no panic"));
    assert!(median_us(&output) < 20_000.0, "{}", text(&output));
    // What the server takes is in each, though scripts ran meanwhile.
    assert!(median_us(&slow) > 120_000.0, "{}{}", text(&slow), complaints(&slow));
    let told = complaints(&output);
    assert!(told.starts_with("weir: scripts took "), "{told}");
}

#[test]
fn wrong_scripts_are_named_with_file_and_line() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start();
    let limited = ["-t1", "-c2", "--script-limit", "1s"];
    let wrong = [
        ("syntax.lua", "x = 1\nfunction request(\n", "syntax.lua:", "correct the script there"),
        ("fails.lua", "\nfunction request()\n  return nothing.at_all\nend", "fails.lua:3: ", "correct the script"),
        (
            "later.lua",
            "n = 0\nfunction response()\n n = n + 1\n if n > 5 then error('no') end\nend",
            "later.lua:4: no",
            "",
        ),
        ("number.lua", "\nfunction request() return {} end", "number.lua:2: request() gave table; ", "wrk.format()"),
        ("none.lua", "function request() return 'hello\\r\\n' end", "none.lua:1: request() gave what is no ", "line 1"),
        ("stops.lua", "function setup(t)\n t:stop()\nend", "stops.lua:2: a thread can be stopped only while", ""),
        ("looks.lua", "wrk.lookup('127.0.0.1', 'nope')", "looks.lua:1: unable to resolve 127.0.0.1:nope ", ""),
        ("delay.lua", "function delay() return -1 end", "delay.lua:1: delay() gave -1; ", "milliseconds"),
        ("hands.lua", "function setup(t)\n t:set('x', print)\nend", "hands.lua:2: cannot transfer 'function'", ""),
        (
            "loop.lua",
            "local n = 0\nfunction request()\n while true do n = n + 1 end\nend",
            "loop.lua:2: request() has not returned for 1 s",
            "--script-limit",
        ),
        ("whole.lua", "while true do end", "whole.lua: the script itself has not returned for 1 s", ""),
    ];
    let url = server.url("/");
    let begin =
        |(name, script, ..): &(&'static str, &str, &str, &str)| ours(directory.path(), name, script, &limited, &url);
    let running: Vec<_> = wrong.iter().map(begin).collect();
    for ((name, _, place, remedy), output) in wrong.iter().zip(running) {
        let output = output.join().expect("no panic");
        let said = complaints(&output);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.starts_with(&format!("wrk: {place}")) && said.contains(remedy), "{name}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let run = |arguments: &[&str]| weir().arg("wrk").args(arguments).output().expect("it starts");
    for (arguments, status, words) in [
        (&["-s", "/no/such.lua", url.as_str()][..], 2, "wrk: /no/such.lua: cannot be read (No such file"),
        (&["-c1", "-t2", &url], 1, "wrk: number of connections must be >= threads\nUsage: wrk <options> <url>\n"),
        (&["--bogus", &url], 1, "wrk: --bogus: there is no such option"),
        (&["ftp://h/"], 1, "wrk: invalid URL: ftp://: only http"),
        (&["http://127.0.0.1:1/"], 1, "wrk: unable to connect to 127.0.0.1:1 Connection refused"),
    ] {
        let output = run(arguments);
        let said = complaints(&output);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.starts_with(words), "{said}");
    }
}

#[test]
fn a_constant_request_goes_over_tls_and_says_what_failed() {
    let _turn = alone();
    if require::apache().is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("a certificate");
    let server = Apache::event().tls(&certificate).start().expect("Apache starts");
    let url = server.url("/none");
    let output =
        weir().args(["wrk", "-t1", "-c2", "-d1", "--latency", "-s", "/dev/null", &url]).output().expect("starts");
    let said = text(&output);
    assert!(output.status.success(), "{said}{}", complaints(&output));
    let lines = form(&said);
    assert_eq!(lines[8..12], ["9 9", "9 9", "9 requests in 9 9 read", "Non-9xx or 9 responses: 9"], "{said}");
    assert_eq!(complaints(&output), "", "no script was called");
}
