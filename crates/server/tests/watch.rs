//! Requests that are watched at the admin address: what is told of them, what is not, and what watchers can cost.
// scripts/test: serves

mod harness;

use harness::{Site, read_reply, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_server::{Admin, Options, parse_configuration};

/// Stands for a secret wherever one may be.
const SECRET: &str = "s3cr3tW0rd";

fn start(files: &[(&str, &[u8])], change: impl FnOnce(&mut Options)) -> (Site, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory").keep();
    let socket = folder.join("admin.sock");
    let admin = Admin::new(&format!("unix:{}", socket.display()), None).expect("an address");
    let site = Site::start(files, |options| {
        options.admin = Some(admin);
        change(options);
    });
    (site, socket)
}

/// The lines of a watch; the first, which says what is watched, is there already.
struct Lines(BufReader<UnixStream>);

fn ask(socket: &Path, target: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: weir\r\n\r\n").expect("sends");
    stream
}

impl Lines {
    fn open(socket: &Path, query: &str) -> Self {
        let mut head = String::new();
        let mut lines = loop {
            let mut lines = Self(BufReader::new(ask(socket, &format!("/watch?{query}"))));
            head.clear();
            while !head.ends_with("\r\n\r\n") {
                assert!(lines.0.read_line(&mut head).expect("reads") > 0, "{head}");
            }
            // Those that have gone may hold their places for a moment.
            if !head.starts_with("HTTP/1.1 503 ") {
                break lines;
            }
        };
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("application/x-ndjson"), "{head}");
        let begin = lines.next().expect("a first line");
        assert_eq!((begin["type"].as_str(), begin["version"].as_u64()), (Some("begin"), Some(1)));
        lines
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).expect("reads");
        (read > 0).then(|| serde_json::from_str(&line).expect("JSON"))
    }

    /// The next request. It is asked for until it is seen, as loops learn of a watcher a moment later.
    fn request(&mut self, site: &Site, request: &str) -> Value {
        self.0.get_ref().set_read_timeout(Some(Duration::from_millis(400))).expect("sets");
        let until = Instant::now() + Duration::from_secs(20);
        let mut line = String::new();
        while Instant::now() < until {
            site.exchange(request.as_bytes());
            match self.0.read_line(&mut line) {
                Ok(_) if line.ends_with('\n') => return serde_json::from_str(&line).expect("JSON"),
                Ok(_) => {}
                Err(error) => assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}"),
            }
        }
        panic!("nothing was seen of {request:?}: {line:?}");
    }
}

fn text<'v>(of: &'v Value, at: &str) -> &'v str {
    of.pointer(at).and_then(Value::as_str).unwrap_or_else(|| panic!("no {at} in {of:#}"))
}

#[test]
fn a_request_over_a_connection_from_before_is_seen_without_its_secrets() {
    let (site, socket) = start(&[("a.txt", b"hello")], |_| {});
    let mut before = site.connect();
    before.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut before, false).status, 200);
    let mut lines = Lines::open(&socket, "filter=path%3D/a.txt&requests=1");
    // Loops learn of it a moment later; a request that they do not see is no request of this watch.
    lines.0.get_ref().set_read_timeout(Some(Duration::from_millis(400))).expect("sets");
    let mut line = String::new();
    let request = format!(
        "GET /a.txt?token={SECRET} HTTP/1.1\r\nHost: a\r\naUTHorization: Bearer {SECRET}\r\nCookie: a={SECRET}\r\n\
         cookie: b={SECRET}\r\nX-Api-Key: {SECRET}\r\nReferer: http://me:{SECRET}@b/c?d={SECRET}\r\nUser-Agent: x\u{9b}2J\u{202e}\r\n\r\n"
    );
    for _ in 0..50 {
        before.write_all(request.as_bytes()).expect("sends");
        assert_eq!(read_reply(&mut before, false).status, 200);
        match lines.0.read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => break,
            _ => {}
        }
    }
    assert!(!line.contains(SECRET) && !line.contains('\u{9b}') && !line.contains('\u{202e}'), "{line}");
    let seen: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!((text(&seen, "/method"), text(&seen, "/target")), ("GET", "/a.txt?(hidden)"));
    assert_eq!((text(&seen, "/network/protocol"), text(&seen, "/network/client")), ("HTTP/1.1", "127.0.0.1"));
    assert_eq!(seen["network"]["port"].as_u64(), before.local_addr().ok().map(|addr| u64::from(addr.port())));
    let fields = seen["head"]["fields"].to_string();
    assert!(
        fields.contains("[\"aUTHorization\",\"(17 bytes hidden)\"]") && fields.contains("http://b/c?(hidden)"),
        "{fields}"
    );
    assert!(fields.contains("x\\\\x9b2J\\\\u{202e}"), "{fields}");
    assert_eq!(seen["cache"]["hits"].as_u64(), Some(1), "{seen:#}");
    assert_eq!((text(&seen, "/file/path"), seen["file"]["bytes"].as_u64()), ("/a.txt", Some(5)));
    assert_eq!((seen["status"].as_u64(), seen["response"]["body_bytes"].as_u64()), (Some(200), Some(5)));
    assert_eq!(seen["response"]["is_complete"].as_bool(), Some(true));
    assert!(seen["response"]["fields"].to_string().contains("Content-Length"), "{seen:#}");
    assert!(seen["timing"]["whole_us"].as_u64() >= seen["timing"]["answer_us"].as_u64());
    assert_eq!(seen["rules"]["asked"].as_bool(), Some(false));
    assert_eq!(seen["arm"]["told"].as_bool(), Some(false));
    let end = lines.next().expect("a last line");
    assert_eq!((text(&end, "/type"), text(&end, "/why"), end["shown"].as_u64()), ("end", "requests", Some(1)));
    assert_eq!(lines.next(), None);
}

#[test]
fn what_is_no_request_and_a_file_that_is_not_there_are_seen() {
    let (site, socket) = start(&[("a.txt", b"hello")], |_| {});
    let mut lines = Lines::open(&socket, "filter=status%3D4xx+method%3DGET");
    let seen = lines.request(&site, "GET /none%1b%5b2J.txt HTTP/1.0\r\n\r\n");
    assert_eq!((text(&seen, "/network/protocol"), seen["status"].as_u64()), ("HTTP/1.0", Some(404)));
    assert_eq!(text(&seen, "/target"), "/none%1b%5b2J.txt");
    let mut lines = Lines::open(&socket, "filter=status%3D400");
    let unfit = lines.request(&site, "GET / HTTP/1.1\r\nno field\r\n\r\n");
    assert_eq!((text(&unfit, "/method"), unfit["status"].as_u64()), ("", Some(400)));
    // The filter is for errors only.
    let mut lines = Lines::open(&socket, "filter=status%3D405");
    site.exchange(b"GET /a.txt HTTP/1.0\r\n\r\n");
    let next = lines.request(&site, "DELETE /a.txt HTTP/1.0\r\n\r\n");
    assert_eq!((text(&next, "/method"), next["status"].as_u64()), ("DELETE", Some(405)));
}

/// A server that answers each connection's requests.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut input = [0; 4096];
                while stream.read(&mut input).is_ok_and(|read| read > 0) {
                    let answer = b"HTTP/1.1 201 Created\r\nSet-Cookie: a=s3cr3tW0rd\r\nContent-Length: 2\r\n\r\nok";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

#[test]
fn routes_tables_and_the_steps_with_an_upstream_are_seen() {
    let (good, bad) =
        (upstream(), TcpListener::bind("127.0.0.1:0").and_then(|closed| closed.local_addr()).expect("one"));
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("b.txt"), "b").expect("writes");
    let text_of = format!(
        "[[host]]\nnames = [\"a\"]\nroot = \"{}\"\n[[host.route]]\nheader = {{ X-Secret = \"x\" }}\nfail = 410\n\
         [[host.route]]\nglob = \"/old/**\"\nmap = \"/$1\"\n\
         [[host.path]]\nprefix = \"/api/\"\nproxy = {{ to = [\"http://{bad}\", \"http://{good}\"], balance = \"round robin\" }}\n",
        folder.path().display()
    );
    let options = parse_configuration(&text_of, folder.path()).unwrap_or_else(|error| panic!("{error:?}"));
    let (site, socket) = start(&[], |before| before.hosts = options.hosts);
    let mut lines = Lines::open(&socket, "");
    let request =
        format!("GET /old/b.txt?x={SECRET} HTTP/1.1\r\nHost: a\r\nX-Secret: {SECRET}\r\nConnection: close\r\n\r\n");
    let seen = lines.request(&site, &request);
    assert!(!seen.to_string().contains(SECRET), "{seen:#}");
    let routes = seen["routes"]["routes"].to_string();
    assert!(routes.contains("route 1 (fail") && routes.contains("and it is (hidden)"), "{routes}");
    assert!(routes.contains("route 2 (map") && routes.contains("the path becomes"), "{routes}");
    assert_eq!(seen["rules"]["names"].to_string(), "[\"route:2\"]");
    assert!(text(&seen, "/routes/host").starts_with("a found by"), "{seen:#}");

    let mut lines = Lines::open(&socket, "filter=rule%3D/api/+status%3D201&show=upstream,response,rules,routes");
    let seen = lines.request(&site, "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(!seen.to_string().contains(SECRET) && seen.get("head").is_none(), "{seen:#}");
    assert!(seen["response"]["fields"].to_string().contains("[\"Set-Cookie\",\"(12 bytes hidden)\"]"), "{seen:#}");
    let mut steps = seen["upstream"]["steps"].to_string();
    // Either server may be asked first, and one that has failed is not asked for a while.
    for _ in 0..200 {
        if steps.contains(&format!("attempt 1 with {bad}")) && steps.contains(&format!("with {good} over a")) {
            break;
        }
        steps +=
            &lines.request(&site, "GET /api/y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")["upstream"]["steps"]
                .to_string();
    }
    for word in [format!("with {good} over a").as_str(), "the head of the response has come", "the response is whole"] {
        assert!(steps.contains(word), "no {word:?}: {steps}");
    }
    assert!(steps.contains(&format!("attempt 1 with {bad}: it cannot be connected")), "{steps}");
    assert!(steps.contains(&format!("attempt 2 with {good}")), "{steps}");

    let mut none = Lines::open(&socket, "filter=upstream%3Dother");
    site.exchange(b"GET /api/z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    none.0.get_ref().set_read_timeout(Some(Duration::from_millis(400))).expect("sets");
    assert!(none.0.read_line(&mut String::new()).is_err(), "the filter is for another upstream");
}

#[test]
fn fifty_watchers_who_do_not_read_cost_their_budgets() {
    const BUDGET: usize = 8192;
    let (site, socket) = start(&[("a.txt", b"hello")], |_| {});
    let watchers: Vec<UnixStream> = (0..50)
        .map(|number| ask(&socket, &format!("/watch?budget={BUDGET}&filter=path%3D/a.txt+host!%3Dh{number}")))
        .collect();
    // A small buffer, so that the server keeps what they do not read.
    let mut client = site.connect();
    let before = resident_bytes();
    for _ in 0..4_000 {
        client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(&mut client, false).status, 200);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 24 << 20, "the memory has grown by {grown} bytes");
    // The admin address answers others.
    let mut status = String::new();
    ask(&socket, "/status.json").read_to_string(&mut status).expect("reads");
    assert!(status.contains("\"requests\""), "{status}");
    let begun = Instant::now();
    drop(site);
    for mut watcher in watchers {
        let mut all = Vec::new();
        watcher.read_to_end(&mut all).expect("reads");
        // What the kernel holds for the socket comes to what the server does.
        let most = 1024 + BUDGET * (2 + usize::try_from(begun.elapsed().as_secs()).unwrap_or(0) + 60);
        assert!(all.len() < most, "{} bytes", all.len());
        let text = String::from_utf8_lossy(&all).into_owned();
        let last = text.lines().rfind(|line| line.contains("\"type\":\"end\"")).unwrap_or_else(|| panic!("{text}"));
        let last: Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(last["why"].as_str(), Some("server"));
        let count = |key: &str| last[key].as_u64().unwrap_or(0);
        assert!(count("left_out") + count("dropped") > 0, "{last}");
        assert!(count("shown") + count("left_out") + count("dropped") <= 4_000 + count("dropped"), "{last}");
    }
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("reads");
    4096 * text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number")
}

#[test]
fn watchers_that_vanish_leave_nothing_and_one_too_many_is_refused() {
    let (site, socket) = start(&[("a.txt", b"hello")], |_| {});
    for _ in 0..3 {
        // Each round fills all places, and leaves without a word.
        let all: Vec<Lines> = (0..64).map(|_| Lines::open(&socket, "budget=1024")).collect();
        let mut refused = String::new();
        ask(&socket, "/watch").read_to_string(&mut refused).expect("reads");
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.ends_with("or ask for less\n"), "{refused}");
        let (head, body) = refused.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{refused}");
        assert_eq!(site.get("/a.txt").status, 200);
        drop(all);
        wait_until(|| {
            let mut answer = [0; 12];
            let is_read = ask(&socket, "/watch?requests=1").read_exact(&mut answer).is_ok();
            is_read && answer == *b"HTTP/1.1 200"
        });
    }
    let mut lines = Lines::open(&socket, "requests=1");
    assert_eq!(lines.request(&site, "GET /a.txt HTTP/1.0\r\n\r\n")["status"].as_u64(), Some(200));
}

#[test]
fn what_cannot_be_watched_is_refused_in_words() {
    let (_site, socket) = start(&[], |_| {});
    for (query, status, words) in [
        ("filter=stats%3D5xx", 400, "`stats` is no key of a filter"),
        ("filter=status%3E5", 400, "`5` is no status; write status=404"),
        ("show=bodies", 403, "--admin-may bodies"),
        ("budget=9", 400, "give 1024 to 1048576 bytes a second"),
        ("bodies=1", 400, "there are filter, show, budget and requests"),
    ] {
        let mut answer = String::new();
        ask(&socket, &format!("/watch?{query}")).read_to_string(&mut answer).expect("reads");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(words), "{query}: {answer}");
    }
}
