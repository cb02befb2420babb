//! What is asked behind, told on the wire without packs: the databases and caches are real, and are not recorded.

use crate::support;

use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use support::planted::{Beside, explained, first, said, share, undisturbed, wait_for};
use support::{number, output};
use weir_testkit::{MariaDb, Nginx, PhpFpm, Postgres, Site, require};

/// The rows of the report for a protocol: question, how often for each response, its share, statuses.
fn asked<'a>(report: &'a Value, protocol: &str) -> Vec<(&'a str, f64, f64, &'a Value)> {
    let all = report["asked"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = all.iter().filter(|one| one["protocol"] == protocol);
    let row = |one: &'a Value| {
        let question = one["question"].as_str().unwrap_or_default();
        (question, number(one, "/per_response"), number(one, "/share"), &one["status"])
    };
    ours.map(row).collect()
}

/// The row of a question; it must have been asked about once for each response.
fn once<'a>(report: &'a Value, protocol: &str, question: &str) -> (f64, &'a Value) {
    let rows = asked(report, protocol);
    let found = rows.iter().find(|row| row.0 == question);
    let (_, per_response, share, status) = found.unwrap_or_else(|| panic!("no {question} among {rows:?}"));
    assert!((0.97..1.05).contains(per_response), "{question} {per_response} times a response: {rows:?}");
    (*share, status)
}

/// No file of a run holds a text.
fn holds_nothing_of(run: &Path, text: &[u8]) {
    let mut files = 0;
    let mut folders = vec![run.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the run").flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => folders.push(entry.path()),
                false => {
                    let bytes = std::fs::read(entry.path()).expect("a file of the run");
                    files += 1;
                    let found = bytes.windows(text.len()).any(|window| window == text);
                    assert!(!found, "{} holds {}", entry.path().display(), String::from_utf8_lossy(text));
                }
            }
        }
    }
    assert!(files > 1, "a run has files");
}

const DATABASES: &str = "<?php
$pg = pg_pconnect(getenv('WEIR_POSTGRES'));
if (!pg_num_rows(pg_query($pg, \"SELECT 1 FROM pg_prepared_statements WHERE name = 'nap'\"))) {
    pg_prepare($pg, 'nap', 'SELECT pg_sleep($1), $2::text');
}
pg_execute($pg, 'nap', [0.012, 'verysecret']);
@pg_query($pg, \"SELECT 'verysecret' FROM missing_table\");
mysqli_report(MYSQLI_REPORT_OFF);
$my = mysqli_connect('p:localhost', 'root', '', 'weir', 0, getenv('WEIR_MARIADB'));
mysqli_query($my, \"SELECT 17 + 4, 'verysecret'\");
mysqli_query($my, \"SELECT 'verysecret' FROM nothing\");
$statement = mysqli_prepare($my, 'SELECT UPPER(?)');
$value = 'verysecret';
$statement->bind_param('s', $value);
$statement->execute();
$statement->close();
header('Content-Type: text/plain'); echo 'asked';";

/// Statements in one message and prepared ones, over TCP's loopback or a Unix socket, with their errors; the sleep is the
/// first cause, with the statement.
#[test]
fn statements_of_databases_that_are_not_recorded() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none()
        || require::nginx().is_none()
        || require::postgres().is_none()
        || require::mariadb().is_none()
        || require::php_extension("pgsql").is_none()
        || require::php_extension("mysqli").is_none()
    {
        return;
    }
    let postgres = Postgres::new().start().expect("PostgreSQL starts");
    let mariadb = MariaDb::new().start().expect("MariaDB starts");
    let php = PhpFpm::new().env("WEIR_POSTGRES", &postgres.address).env("WEIR_MARIADB", &mariadb.address);
    let php = php.start().expect("php-fpm starts");
    let site = Site::empty().expect("a site");
    site.write("asks.php", DATABASES.as_bytes()).expect("the page");
    let web = Nginx::new().root(site.path()).php_fpm(&php).start().expect("nginx starts");
    let [port, pool] = [u32::from(web.port), php.pid()].map(|n| n.to_string());
    let run = tempfile::tempdir().expect("a folder");
    let kept = run.path().join("run");
    let run = kept.to_str().expect("a readable path");
    let all = ["explain", "--json", "--load", &web.url("/asks.php"), "--port", &port, "--pid", &pool];
    let told = output(&[&all[..], &["--run", run, "-c", "2", "-d", "2s"]].concat());
    let report: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let words = format!("{} {:#}", said(&report), report["asked"]);
    let (sleeps, _) = once(&report, "postgresql", "SELECT pg_sleep(?), ?::text");
    assert!((0.3..1.05).contains(&sleeps), "{words}");
    let (_, status) = once(&report, "postgresql", "SELECT ? FROM missing_table");
    assert!(status["42P01"].as_u64() > Some(10), "{words}");
    once(&report, "mysql", "SELECT ? + ?");
    once(&report, "mysql", "PREPARE SELECT UPPER(?)");
    once(&report, "mysql", "SELECT UPPER(?)");
    let (_, status) = once(&report, "mysql", "SELECT ? FROM nothing");
    assert!(status["1146 (42S02)"].as_u64() > Some(10), "{words}");
    let (part, who) = first(&report);
    assert_eq!(part, "wait_process", "{words}");
    assert!(who.contains("SELECT pg_sleep(?), ?::text"), "{who} is blamed: {words}");
    holds_nothing_of(&kept, b"verysecret");
}

/// A service in Python that asks others for each request, in the way that its first argument says.
const SERVICE: &str = "#!/usr/bin/python3
import http.server, os, socket, struct, sys, time
kind, port, said = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def connect():
    one = socket.create_connection(('127.0.0.1', port))
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one
def command(*words):
    return b'*%d\\r\\n' % len(words) + b''.join(b'$%d\\r\\n%s\\r\\n' % (len(word), word) for word in words)
def receive(one, end, times):
    got = b''
    while got.count(end) < times:
        got += one.recv(4096)
    return got
def redis(one):
    one.sendall(command(b'SET', b'user:17', b'verysecret') + command(b'GET', b'user:17') + command(b'INCR', b'user:17'))
    receive(one, b'\\r\\n', 4)
    one.sendall(command(b'BLPOP', b'nothing', b'0.012'))
    receive(one, b'\\r\\n', 1)
def memcached(one):
    one.sendall(b'set user:17 0 60 10\\r\\nverysecret\\r\\n')
    receive(one, b'\\r\\n', 1)
    one.sendall(b'get user:17\\r\\n')
    receive(one, b'END\\r\\n', 1)
    one.sendall(b'incr user:17 1\\r\\n')
    receive(one, b'\\r\\n', 1)
def web(one):
    one.sendall(b'GET /orders/17?card=verysecret HTTP/1.1\\r\\nHost: behind\\r\\n\\r\\n')
    receive(one, b'\\r\\n\\r\\n', 1)
def names(one):
    name = b''.join(bytes([len(label)]) + label for label in (b'shop', b'example')) + b'\\0'
    one.send(struct.pack('>6H', 7, 256, 1, 0, 0, 0) + name + struct.pack('>2H', 1, 1))
    one.recv(512)
ask = {'redis': redis, 'memcached': memcached, 'http': web, 'dns': names}[kind]
if kind == 'dns':
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.connect(('127.0.0.1', port))
else:
    asked = connect()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1
    def do_GET(self):
        ask(asked)
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, file=open(said + '.new', 'w'), flush=True)
os.rename(said + '.new', said)
server.serve_forever()
";

/// What a service in front of a port says of what it asks.
fn in_front(kind: &str, behind: u16, more: &[&str]) -> Value {
    let files = Site::empty().expect("a directory");
    files.write_program("shop-service", SERVICE.as_bytes()).expect("the service");
    let said_port = files.path().join("port");
    let arguments = [kind, &behind.to_string(), said_port.to_str().expect("a readable path")];
    let service = Beside::start(&files.path().join("shop-service"), &arguments);
    let port = wait_for(|| std::fs::read_to_string(&said_port).ok()?.trim().parse::<u16>().ok()).to_string();
    let pid = service.pid().to_string();
    let options = ["--port", &port, "--pid", &pid, "-c", "1", "-d", "1500ms"];
    explained(&format!("http://127.0.0.1:{port}/"), &[&options, more].concat())
}

fn listens(port: u16) -> Option<()> {
    std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
}

#[test]
fn commands_of_redis_in_a_pipeline() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none()
        || require::program("python3").is_none()
        || require::program("redis-server").is_none()
    {
        return;
    }
    let port = weir_testkit::free_port();
    let mut redis = Command::new("redis-server");
    redis.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--hz", "100"]);
    redis.stdout(std::process::Stdio::null());
    let _redis = Beside::spawn(redis);
    wait_for(|| listens(port));
    let report = in_front("redis", port, &[]);
    for command in ["SET", "GET"] {
        once(&report, "redis", command);
    }
    let (_, status) = once(&report, "redis", "INCR");
    assert!(status["ERR"].as_u64() > Some(10), "{:#}", report["asked"]);
    let (waits, _) = once(&report, "redis", "BLPOP");
    assert!((0.7..1.01).contains(&waits), "{:#}", report["asked"]);
    let (part, who) = first(&report);
    assert!(part == "wait_process" && who.ends_with(": BLPOP"), "{who} is blamed: {}", said(&report));
}

#[test]
fn commands_of_memcached() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none()
        || require::program("python3").is_none()
        || require::program("memcached").is_none()
    {
        return;
    }
    let port = weir_testkit::free_port();
    let mut memcached = Command::new("memcached");
    memcached.args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-p", &port.to_string()]);
    let _memcached = Beside::spawn(memcached);
    wait_for(|| listens(port));
    let report = in_front("memcached", port, &[]);
    for command in ["SET", "GET"] {
        once(&report, "memcached", command);
    }
    let (_, status) = once(&report, "memcached", "INCR");
    assert!(status["CLIENT_ERROR"].as_u64() > Some(10), "{:#}", report["asked"]);
}

/// A receiver of spans: OTLP over HTTP, in JSON.
struct Receiver {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
        let taken = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut reader = BufReader::new(client.try_clone().expect("a second handle"));
                let (mut line, mut length) = (String::new(), 0);
                assert!(reader.read_line(&mut line).is_ok() && line.starts_with("POST /v1/traces "), "{line}");
                while line.trim() != "" {
                    line.clear();
                    if reader.read_line(&mut line).is_err() {
                        break;
                    }
                    let value =
                        line.to_ascii_lowercase().strip_prefix("content-length:").map(|text| text.trim().parse());
                    length = value.and_then(Result::ok).unwrap_or(length);
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("the body");
                taken.lock().expect("not poisoned").push(serde_json::from_slice(&body).expect("JSON"));
                let _ = client.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
            }
        });
        Self { url, bodies }
    }

    /// Each request came as a span, with its parts as children that add up to it; one of these has a culprit.
    fn holds(&self, report: &Value, culprit: &str) {
        // A collector hands on what it has taken a moment later.
        let count = || self.bodies.lock().expect("not poisoned").len();
        let wanted = (number(report, "/requests").min(2000.0) / 50.0).ceil();
        wait_for(|| (count() as f64 >= wanted).then_some(()));
        let bodies = self.bodies.lock().expect("not poisoned");
        let spans: Vec<&Value> = bodies
            .iter()
            .flat_map(|body| body["resourceSpans"].as_array().expect("resources"))
            .flat_map(|resource| resource["scopeSpans"].as_array().expect("scopes"))
            .flat_map(|scope| scope["spans"].as_array().expect("spans"))
            .collect();
        let parent = |span: &'_ Value| span["parentSpanId"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        let time = |span: &Value| {
            let at = |key: &str| span[key].as_str().and_then(|text| text.parse::<u64>().ok()).expect("a time");
            at("endTimeUnixNano") - at("startTimeUnixNano")
        };
        let mut sums: HashMap<String, u64> = HashMap::new();
        for child in &spans {
            if let Some(parent) = parent(child) {
                *sums.entry(parent).or_default() += time(child);
            }
        }
        let roots: Vec<_> = spans.iter().filter(|span| parent(span).is_none()).collect();
        assert_eq!(roots.len() as f64, number(report, "/requests").min(2000.0));
        for root in roots {
            assert_eq!(sums.get(root["spanId"].as_str().expect("a number")), Some(&time(root)), "{root:#}");
        }
        let wanted = serde_json::json!({ "key": "weir.culprit", "value": { "stringValue": culprit } });
        let has = |span: &&Value| span["attributes"].as_array().is_some_and(|all| all.contains(&wanted));
        assert!(spans.iter().any(has), "no span of {} names {culprit}", spans.len());
    }
}

/// A real collector that passes on what it understands to a receiver, in JSON; the one that scripts/otelcol has built, or
/// one on the search path. Without one the receiver takes the spans itself.
struct Collector {
    url: String,
    _running: Beside,
    _recipe: tempfile::TempDir,
}

impl Collector {
    fn start(to: &Receiver) -> Option<Self> {
        let test = std::env::current_exe().ok()?;
        let built = test.ancestors().nth(3)?.join("otelcol/otelcol");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::iter::once(built)
            .chain(std::env::split_paths(&path).map(|folder| folder.join("otelcol")))
            .find(|file| file.is_file())?;
        let port = weir_testkit::free_port();
        let folder = tempfile::tempdir().expect("a folder");
        let recipe = format!(
            "receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: '127.0.0.1:{port}' }} }} }} }}\n\
             exporters: {{ otlphttp: {{ endpoint: '{}', encoding: json, compression: none }} }}\n\
             service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  pipelines: {{ traces: {{ receivers: [otlp], exporters: [otlphttp] }} }}\n",
            to.url
        );
        let file = folder.path().join("recipe.yaml");
        std::fs::write(&file, recipe).expect("the recipe");
        let mut command = Command::new(program);
        command.arg("--config").arg(&file).stderr(std::process::Stdio::null());
        let running = Beside::spawn(command);
        wait_for(|| listens(port));
        Some(Self { url: format!("http://127.0.0.1:{port}"), _running: running, _recipe: folder })
    }
}

/// Another web server that takes its time and fails, and a name server that knows nothing: both of the test's own.
#[test]
fn another_web_server_and_a_name_server() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::program("python3").is_none() {
        return;
    }
    let web = TcpListener::bind("127.0.0.1:0").expect("a port");
    let behind = web.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for mut client in web.incoming().flatten() {
            std::thread::spawn(move || {
                while client.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                    std::thread::sleep(std::time::Duration::from_millis(8));
                    let _ = client.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
                }
            });
        }
    });
    let receiver = Receiver::start();
    let collector = Collector::start(&receiver);
    let to = collector.as_ref().map_or(&receiver.url, |collector| &collector.url);
    let report = in_front("http", behind, &["--otlp", to]);
    receiver.holds(&report, &format!("127.0.0.1:{behind}: GET /orders/:id"));
    let (waits, status) = once(&report, "http", "GET /orders/:id");
    assert!((0.7..1.01).contains(&waits) && status["503"].as_u64() > Some(10), "{:#}", report["asked"]);
    let (part, who) = first(&report);
    assert_eq!((part, who), ("wait_process", &*format!("127.0.0.1:{behind}: GET /orders/:id")), "{}", said(&report));
    assert!(share(&report, "wait_process") > 0.7, "{}", said(&report));
    let names = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let behind = names.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((length, client)) = names.recv_from(&mut message) {
            // It is an answer: the name does not exist.
            (message[2], message[3]) = (0x81, 0x83);
            let _ = names.send_to(&message[..length], client);
        }
    });
    let report = in_front("dns", behind, &[]);
    let (_, status) = once(&report, "dns", "A shop.example");
    assert!(status["NXDOMAIN"].as_u64() > Some(10), "{:#}", report["asked"]);
}
