//! The admin endpoint of `weir serve`: who may read it, its bounds, and that its figures are true.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::planted::wait_for;
use weir_testkit::browser::Browser;
use weir_testkit::client::Connection;
use weir_testkit::{RunningServer, WeirServe, free_port, require};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn start(args: &[&str]) -> RunningServer {
    WeirServe::new(env!("CARGO_BIN_EXE_weir")).args(args.iter().copied()).start().expect("it starts")
}

/// A whole answer: its head and its body.
fn ask(mut stream: impl Read + Write, path: &str, fields: &str) -> (String, String) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: weir\r\n{fields}\r\n").expect("sends");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("reads");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    stream
}

fn status(path: &Path) -> Value {
    let (head, body) = ask(unix(path), "/status.json", "");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("application/json"), "{head}");
    serde_json::from_str(&body).expect("JSON")
}

fn number(of: &Value, at: &str) -> u64 {
    of.pointer(at).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {at} in {of:#}"))
}

fn token_file(folder: &Path) -> String {
    let path = folder.join("token");
    fs::write(&path, format!("{TOKEN}\n")).expect("writes");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    path.display().to_string()
}

#[test]
fn a_unix_socket_is_for_its_owner_and_tells_the_truth() {
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("admin.sock");
    let log = folder.path().join("access.log");
    let server = start(&["--admin", &format!("unix:{}", socket.display()), "--access-log", &log.display().to_string()]);
    assert_eq!(fs::symlink_metadata(&socket).expect("it is there").mode() & 0o777, 0o600);
    let before = status(&socket);
    let mut connection = Connection::open(server.port).expect("connects");
    for (path, count) in [("/1k.txt", 30), ("/nothing", 7)] {
        (0..count).for_each(|_| drop(connection.get(path).expect("an answer")));
    }
    let after = status(&socket);
    let grown = |at: &str| number(&after, at) - number(&before, at);
    assert_eq!(grown("/requests/count"), 37);
    assert_eq!(grown("/requests/by_class/2xx"), 30);
    assert_eq!(grown("/requests/by_class/4xx"), 7);
    assert_eq!(grown("/connections/accepted"), 1);
    assert!(grown("/requests/sent_bytes") > 30 * 1024);
    assert!(grown("/cache/hits") >= 29, "{after:#}");
    wait_for(|| (number(&status(&socket), "/connections/open") == 1).then_some(()));
    // What is open is counted again and again, and once more before the server sleeps.
    wait_for(|| (number(&status(&socket), "/connections/by_state/idle") == 1).then_some(()));
    wait_for(|| (number(&status(&socket), "/cache/entries") >= 1).then_some(()));
    wait_for(|| (number(&status(&socket), "/log/lines") >= 37).then_some(()));
    drop(connection);
    wait_for(|| (number(&status(&socket), "/connections/by_state/idle") == 0).then_some(()));
    wait_for(|| (number(&status(&socket), "/connections/open") == 0).then_some(()));
    assert!(number(&after, "/process/resident_bytes") > 1 << 20, "{after:#}");
    // The history has a sample for each second.
    let list = wait_for(|| {
        let (_, body) = ask(unix(&socket), "/history.json", "");
        let list: Vec<[u64; 8]> = serde_json::from_str(&body).expect("JSON");
        (list.len() >= 3).then_some(list)
    });
    assert!(list.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1]), "{list:?}");
}

#[test]
fn over_tcp_nothing_is_told_without_the_token() {
    let folder = tempfile::tempdir().expect("a directory");
    let port = free_port();
    let addr = format!("127.0.0.1:{port}");
    let server = start(&["--admin", &addr, "--admin-token", &token_file(folder.path())]);
    let ask = |path: &str, fields: &str| {
        let stream = TcpStream::connect(&addr).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        ask(stream, path, fields)
    };
    for path in ["/status.json", "/metrics", "/history.json", "/nothing"] {
        for fields in ["", "Authorization: Bearer 0123456789abcdef\r\n", &format!("Authorization: Basic {TOKEN}\r\n")] {
            let (head, body) = ask(path, fields);
            assert!(head.starts_with("HTTP/1.1 401 ") && head.contains("WWW-Authenticate: Bearer"), "{path}: {head}");
            assert!(!body.contains("weir_"), "{body}");
        }
    }
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    assert!(ask("/status.json", &right).0.starts_with("HTTP/1.1 200 "));
    assert!(ask("/nothing", &right).0.starts_with("HTTP/1.1 404 "));
    // The page has no figures in it.
    let (head, page) = ask("/", "");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Security-Policy: default-src 'none'"),
        "{head}"
    );
    assert!(page.contains("<title>weir serve</title>") && !page.contains(&server.pid().to_string()));
}

#[test]
fn tcp_without_a_token_and_tokens_that_are_none_are_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a directory");
    let refused = |args: &[&str], why: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("serve")
            .args(args)
            .arg(folder.path())
            .output()
            .expect("starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(why), "{text}");
    };
    refused(&["--admin", "127.0.0.1:0"], "--admin-token FILE");
    refused(&["--admin", "9100"], "write unix:/run/weir-admin.sock or 127.0.0.1:9100");
    let short = folder.path().join("short");
    fs::write(&short, "short\n").expect("writes");
    let short = short.display().to_string();
    refused(&["--admin", "127.0.0.1:0", "--admin-token", &short], "chmod 600");
    fs::set_permissions(&short, fs::Permissions::from_mode(0o600)).expect("ours");
    refused(&["--admin", "127.0.0.1:0", "--admin-token", &short], "openssl rand -hex 24");
}

#[test]
fn a_configuration_says_it_as_well_and_its_mistakes_have_places() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("weir.toml");
    fs::create_dir(folder.path().join("site")).expect("creates");
    let write =
        |admin: &str| fs::write(&path, format!("listen = \"127.0.0.1:0\"\n{admin}\n[[host]]\nroot = \"site\"\n"));
    let check = || {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("check").arg(&path).output().expect("starts");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    for (admin, mistake) in [
        ("[admin]\nlisten = \"127.0.0.1:9100\"", ":3:10: at 127.0.0.1:9100 every program"),
        ("[admin]\nlisten = \"9100\"", ":3:10: `9100` is neither unix:PATH nor"),
        ("[admin]", ":2:1: it does not say where to listen; add listen = "),
        ("[admin]\nlisten = \"unix:a\"\ntoken_file = \"none\"", ":4:14: cannot read the token in"),
        (
            "[admin]\nlisten = \"unix:a\"\ntoken_fil = \"none\"",
            ":4:1: `token_fil` is not known in [admin]; did you mean `token_file`?",
        ),
    ] {
        write(admin).expect("writes");
        assert!(check().contains(mistake), "{admin}: {}", check());
    }
    write("[admin]\nlisten = \"unix:admin.sock\"").expect("writes");
    let mut server = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("serve")
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let socket = folder.path().join("admin.sock");
    wait_for(|| socket.exists().then_some(()));
    assert_eq!(number(&status(&socket), "/reloads/done"), 0);
    // A refused reload is shown with its reason until a reload succeeds.
    let hang_up = || {
        // SAFETY: the call takes no pointers.
        assert_eq!(unsafe { libc::kill(server.id().cast_signed(), libc::SIGHUP) }, 0);
    };
    write("[admin]\nlisten = \"unix:admin.sock\"\nnonsense = 1").expect("writes");
    hang_up();
    let refused = wait_for(|| Some(status(&socket)).filter(|status| number(status, "/reloads/failed") == 1));
    assert!(refused["reloads"]["last_error"].as_str().expect("why").contains("nonsense"), "{refused:#}");
    write("[admin]\nlisten = \"unix:admin.sock\"").expect("writes");
    hang_up();
    let taken = wait_for(|| Some(status(&socket)).filter(|status| number(status, "/reloads/done") == 1));
    assert!(taken["reloads"]["last_error"].is_null(), "{taken:#}");
    assert_eq!(taken["hosts"][0]["name"], "*");
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn clients_that_say_nothing_or_too_much_do_not_hold_up_others() {
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("admin.sock");
    let _server = start(&["--admin", &format!("unix:{}", socket.display())]);
    // Fewer than the server handles at a time: others are answered meanwhile.
    let mut silent: Vec<UnixStream> = (0..10).map(|_| unix(&socket)).collect();
    let began = Instant::now();
    assert!(ask(unix(&socket), "/", "").0.starts_with("HTTP/1.1 200 "));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    // More than that: the server closes them, and answers the next one.
    silent.extend((0..30).map(|_| unix(&socket)));
    assert!(ask(unix(&socket), "/metrics", "").0.starts_with("HTTP/1.1 200 "));
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 10]).expect("the end"), 0);
    }
    // A head without an end.
    let mut long = unix(&socket);
    let line = format!("X: {}\r\n", "x".repeat(1000));
    let _ = long.write_all(b"GET / HTTP/1.1\r\nHost: weir\r\n");
    while long.write_all(line.as_bytes()).is_ok() {}
    let (head, _) = ask(unix(&socket), "/", "X: Y\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    // A page of another site whose name resolves to us (DNS rebinding) gets no answer.
    let mut stranger = unix(&socket);
    stranger.write_all(b"GET /status.json HTTP/1.1\r\nHost: evil.example:9100\r\n\r\n").expect("sends");
    let mut text = String::new();
    stranger.read_to_string(&mut text).expect("reads");
    assert!(text.starts_with("HTTP/1.1 421 "), "{text}");
}

#[test]
fn a_response_of_http2_that_was_cut_off_is_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("admin.sock");
    let site = folder.path().join("site");
    fs::create_dir(&site).expect("creates");
    fs::write(site.join("large.bin"), vec![b'o'; 64 << 20]).expect("writes");
    let server =
        WeirServe::new(env!("CARGO_BIN_EXE_weir")).root(&site).args(["--admin", &format!("unix:{}", socket.display())]);
    let server = server.start().expect("it starts");
    let mut curl = Command::new("curl")
        .args([
            "-sS",
            "--http2-prior-knowledge",
            "--limit-rate",
            "4M",
            "-m",
            "60",
            "-o",
            "/dev/null",
            &server.url("/large.bin"),
        ])
        .stderr(Stdio::null())
        .spawn()
        .expect("curl starts");
    wait_for(|| (number(&status(&socket), "/http2/streams_open") == 1).then_some(()));
    let file = fs::File::options().write(true).open(site.join("large.bin")).expect("opens");
    file.set_len(1 << 20).expect("truncates");
    // The stream was reset.
    assert_eq!(curl.wait().expect("curl ends").code(), Some(92));
    wait_for(|| (number(&status(&socket), "/http2/streams_broken") == 1).then_some(()));
    let (_, metrics) = ask(unix(&socket), "/metrics", "");
    for told in ["weir_http2_streams_broken_total 1", "weir_http3_streams_broken_total 0"] {
        assert!(metrics.lines().any(|line| line == told), "{metrics}");
    }
}

#[test]
fn prometheus_finds_nothing_wrong_with_the_metrics() {
    if require::program("promtool").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let (socket, config) = (folder.path().join("admin.sock"), folder.path().join("weir.toml"));
    fs::create_dir(folder.path().join("site")).expect("creates");
    fs::write(folder.path().join("site/a.txt"), "a").expect("writes");
    let port = free_port();
    let hosts = "[[host]]\nroot = \"site\"\n[[host]]\nnames = [\"a.example\"]\nroot = \"site\"\n";
    let admin = format!("[admin]\nlisten = \"unix:{}\"\n[log]\nfile = \"access.log\"\n", socket.display());
    let rules =
        "atom \"/**\" { rule flood: during if rate@here predicted in 1s > 90000rps then alert \"x\" hold 1s; }\n";
    fs::write(folder.path().join("flood.policy"), rules).expect("writes");
    let policy = "policy = \"flood.policy\"\n";
    fs::write(&config, format!("listen = \"127.0.0.1:{port}\"\n{policy}{admin}{hosts}")).expect("writes");
    let mut server = Command::new(env!("CARGO_BIN_EXE_weir")).arg("serve").arg(&config).spawn().expect("starts");
    let mut connection = wait_for(|| Connection::open(port).ok());
    for _ in 0..5 {
        assert_eq!(connection.get("/a.txt").expect("an answer").status, 200);
    }
    // A response is counted when it has been sent, which its client may see earlier.
    let text = wait_for(|| {
        let (head, text) = ask(unix(&socket), "/metrics", "");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        let is_counted = text.contains("\nweir_host_responses_total{host=\"*\",class=\"2xx\"} 5\n");
        (is_counted && text.contains("\nweir_atom_requests_per_second{path=\"/a.txt\"}")).then_some(text)
    });
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
    assert!(text.contains("\nweir_responses_total{class=\"2xx\"} 5\n"), "{text}");
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn the_page_shows_the_figures_and_asks_for_the_token() {
    if require::browser().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let addr = format!("127.0.0.1:{}", free_port());
    let server = start(&["--admin", &addr, "--admin-token", &token_file(folder.path())]);
    let mut connection = Connection::open(server.port).expect("connects");
    (0..500).for_each(|_| drop(connection.get("/1k.txt").expect("an answer")));
    let mut browser = Browser::start();
    browser.screen(1280, 900, false);
    browser.open(&format!("http://{addr}/"));
    browser.wait_for("document.querySelector('dialog').open");
    browser.type_in(TOKEN);
    browser.value("document.querySelector('dialog button').click()");
    browser.wait_for("document.getElementById('live').textContent === 'live'");
    // A response is counted when it has been sent, which its client may see earlier; connections twice a second.
    browser.wait_for("status.requests.count >= 500");
    browser.wait_for("document.getElementById('cards').innerText.includes('idle 1')");
    let count = browser.value("status.requests.count");
    let shown = browser.value("document.getElementById('tiles').innerText").to_string();
    assert!(shown.contains("Requests a second") && shown.contains(&format!("{count} since the start")), "{shown}");
    let cards = browser.value("document.getElementById('cards').innerText").to_string();
    assert!(cards.contains("idle 1") && cards.contains("Configuration"), "{cards}");
    // It goes on by itself.
    (0..500).for_each(|_| drop(connection.get("/1k.txt").expect("an answer")));
    browser.wait_for("document.getElementById('tiles').innerText.includes('1.00 k since the start')");
    browser.wait_for("document.querySelectorAll('#requests path').length > 0");
    assert!(browser.value("document.documentElement.scrollWidth <= innerWidth").as_bool().expect("a truth"));
    let errors: Vec<&String> = browser.errors().iter().filter(|error| !error.contains("401")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    if let Ok(folder) = std::env::var("WEIR_TEST_PICTURES") {
        fs::write(Path::new(&folder).join("serve-status.png"), browser.picture(true)).expect("writes");
    }
}

/// Each figure of the dashboard for Grafana is one that a server tells, with the labels by which the dashboard divides it.
#[test]
fn the_dashboard_shows_figures_that_exist() {
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("admin.sock");
    let server = start(&["--admin", &format!("unix:{}", socket.display())]);
    let mut connection = Connection::open(server.port).expect("connects");
    drop(connection.get("/1k.txt").expect("an answer"));
    let (_, told) = ask(unix(&socket), "/metrics", "Connection: close\r\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/grafana/weir-serve.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).expect("the dashboard")).expect("JSON");
    let mut figures = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("what it shows") {
            let query = target["expr"].as_str().expect("a query");
            let begin = query.find("weir_").unwrap_or_else(|| panic!("{query}"));
            let rest = &query[begin..];
            let name = &rest[..rest.find('{').expect("its labels")];
            let by = query.split_once("by (").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(label, _)| label);
            let is_it = |line: &str| {
                let after = line.strip_prefix(name);
                after.is_some_and(|after| after.starts_with(['{', ' ']) && after.contains(by))
            };
            assert!(told.lines().any(is_it), "{query}: no {name} by {by:?} in\n{told}");
            figures += 1;
        }
    }
    assert!(figures > 10, "{figures}");
}
