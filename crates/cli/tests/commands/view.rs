//! `weir view` and the report in a real browser: no errors, nothing asked of others, and the keys do what they say.

use crate::support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use support::served::Served;
use support::{alone, number, output, weir};
use tempfile::TempDir;
use weir_testkit::browser::Browser;
use weir_testkit::{Apache, require};
use weir_tiles::RunTiles;

/// A run of Apache under load with its report, made once for all tests here.
fn recorded() -> Option<&'static Path> {
    static RUN: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let made = RUN.get_or_init(|| {
        require::socket_tracepoints()?;
        require::apache()?;
        let _turn = alone();
        let server = Apache::prefork().workers(8).start().expect("Apache starts");
        let directory = TempDir::new().expect("a directory");
        let run = directory.path().join("run");
        let (url, port) = (server.url("/1k.txt"), server.port.to_string());
        let path = run.to_str().expect("a readable path").to_owned();
        let said = output(&["explain", "--load", &url, "--port", &port, "-c", "8", "-d", "1500ms", "--run", &path]);
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        Some((directory, run))
    });
    made.as_ref().map(|(_, run)| run.as_path())
}

/// A running `weir view`.
struct Viewing {
    child: Child,
    address: String,
}

impl Viewing {
    fn of(run: &Path) -> Self {
        Self::with(run, &[])
    }

    fn with(run: &Path, options: &[&str]) -> Self {
        let mut child =
            weir().arg("view").arg(run).args(options).stdout(Stdio::piped()).spawn().expect("the command starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("a line");
        let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap_or_default().to_owned();
        assert!(address.starts_with("http://127.0.0.1:") && address.ends_with('/'), "{line:?}");
        Self { child, address }
    }

    fn port(&self) -> u16 {
        let authority = self.address.split('/').nth(2).expect("an authority");
        authority.split(':').nth(1).and_then(|port| port.parse().ok()).expect("a port")
    }

    fn path(&self) -> String {
        format!("/{}/", self.address.split('/').nth(3).expect("a path"))
    }

    /// The whole answer to a request with this Host header.
    fn get(&self, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Pictures for people who change the pages: written where WEIR_SHOTS says, and only then.
fn shoot(browser: &mut Browser, name: &str, whole: bool) {
    let Some(folder) = std::env::var_os("WEIR_SHOTS") else { return };
    std::fs::write(Path::new(&folder).join(format!("{name}.png")), browser.picture(whole))
        .expect("a picture is written");
}

fn span(browser: &mut Browser) -> f64 {
    browser.value("(([a, b]) => b - a)(location.hash.match(/[0-9]+/g).map(Number))").as_f64().expect("a span")
}

#[test]
fn the_viewer_zooms_from_the_whole_run_to_single_events() {
    let (Some(run), Some(())) = (recorded(), require::browser()) else { return };
    let viewing = Viewing::of(run);
    let mut browser = Browser::start();
    browser.screen(1280, 800, false);
    browser.open(&viewing.address);
    browser.wait_for("document.body.dataset.ready === 'true'");
    shoot(&mut browser, "view-1280-light", false);
    let whole = span(&mut browser);
    for _ in 0..4 {
        browser.press("+");
    }
    assert!((span(&mut browser) * 16.0 - whole).abs() < 100.0);
    browser.press("ArrowRight");
    browser.press("n");
    browser.wait_for("document.body.dataset.ready === 'true' && !document.querySelector('#panel').hidden");
    assert!(browser.value("document.querySelectorAll('#panel tbody tr').length").as_u64() > Some(2));
    shoot(&mut browser, "view-1280-slowest", false);
    browser.press("?");
    assert_eq!(browser.value("document.querySelector('#keys').open"), true);
    shoot(&mut browser, "view-keys", false);
    browser.press("Escape");
    browser.value("document.querySelector('#keys').close()");
    browser.press("Escape");
    browser.press("/");
    browser.type_in("apache");
    browser.wait_for("document.querySelectorAll('#found button').length > 0");
    browser.press("Escape");
    browser.press("0");
    assert_eq!(span(&mut browser), whole);
    for (width, dark) in [(1280, true), (400, false), (400, true)] {
        browser.screen(width, 800, dark);
        browser.press("n");
        browser.press("+");
        browser.wait_for("document.body.dataset.ready === 'true'");
        let broad = browser.value("document.documentElement.scrollWidth").as_u64();
        assert!(broad <= Some(u64::from(width)), "{broad:?} pixels on a screen of {width}");
        shoot(&mut browser, &format!("view-{width}-{}", if dark { "dark" } else { "light" }), false);
    }
    assert_eq!(browser.errors(), &[] as &[String]);
}

/// What is said of the rows of objects, each once, looked at this many pixels apart.
fn said_of_objects(browser: &mut Browser, apart: u32) -> String {
    let script = format!(
        "(() => {{
        const lanes = document.querySelector('#lanes');
        const box = lanes.getBoundingClientRect();
        const said = new Set();
        for (let x = 160; x < box.width; x += {apart}) for (let y = 26; y < box.height; y += 6) {{
            lanes.dispatchEvent(new PointerEvent('pointermove', {{ clientX: box.x + x, clientY: box.y + y, pointerId: 7 }}));
            const hint = document.querySelector('#hint');
            if (!hint.hidden) said.add(hint.textContent.split(', ')[0]);
        }}
        return [...said].join('\\n');
    }})()"
    );
    browser.value(&script).as_str().expect("a text").to_owned()
}

#[test]
fn objects_are_charted_with_who_asked_whom() {
    let (Some(run), Some(())) = (recorded(), require::browser()) else { return };
    let viewing = Viewing::of(run);
    let mut browser = Browser::start();
    browser.screen(1280, 800, false);
    browser.open(&viewing.address);
    browser.wait_for("document.body.dataset.ready === 'true'");
    browser.press("o");
    let ready = "document.body.dataset.chart === 'objects' && document.body.dataset.ready === 'true'";
    browser.wait_for(ready);
    shoot(&mut browser, "objects-1280-whole", false);
    let far = said_of_objects(&mut browser, 48);
    assert!(far.contains("apache2 (") && far.contains("cpu "), "{far}");
    // One of the slowest requests, until single interactions and their arrows are in sight.
    browser.press("n");
    let arrows = |browser: &mut Browser| {
        browser.wait_for(ready);
        let told = browser.value("document.body.dataset.arrows || '0'");
        told.as_str().and_then(|text| text.parse::<u32>().ok()).is_some_and(|arrows| (4..250).contains(&arrows))
    };
    let found = (0..12).any(|_| arrows(&mut browser) || (browser.press("+"), false).1);
    assert!(found, "no arrows");
    shoot(&mut browser, "objects-1280-close", false);
    let near = said_of_objects(&mut browser, 8);
    assert!(near.contains("conversation: client") && near.contains("asks apache2 ("), "{near}");
    assert!(near.contains("cpu: apache2 ("), "{near}");
    // An object that was not chosen gets a row, which the address keeps; a chosen one goes.
    let chosen = "location.hash.match(/objects=([0-9.]*)/)[1].split('.').length";
    let before = browser.value(chosen).as_u64().expect("a number");
    browser.press("c");
    browser.wait_for("document.querySelectorAll('#choice input').length > 4");
    shoot(&mut browser, "objects-1280-choice", false);
    browser.value("document.querySelector('#choice input:checked').click()");
    browser.wait_for(ready);
    assert_eq!(browser.value(chosen).as_u64(), Some(before - 1));
    browser.press("/");
    browser.type_in("cpu 0");
    browser.wait_for("document.querySelectorAll('#choice label').length === 1");
    browser.press("Escape");
    let kept = browser.value("location.hash").as_str().expect("an address").to_owned();
    for (width, dark) in [(1280, true), (400, false), (400, true)] {
        browser.screen(width, 800, dark);
        // Another question makes it another document, which knows what its address says alone.
        browser.open(&format!("{}?{width}{dark}{kept}", viewing.address));
        browser.wait_for(ready);
        assert_eq!(browser.value(chosen).as_u64(), Some(before - 1), "the address has lost the objects");
        let broad = browser.value("document.documentElement.scrollWidth").as_u64();
        assert!(broad <= Some(u64::from(width)), "{broad:?} pixels on a screen of {width}");
        shoot(&mut browser, &format!("objects-{width}-{}", if dark { "dark" } else { "light" }), false);
    }
    browser.press("o");
    browser.wait_for("document.body.dataset.chart === 'lanes' && document.body.dataset.ready === 'true'");
    assert_eq!(browser.errors(), &[] as &[String]);
}

/// The canvas tells where it has drawn marks of time, and how many names of requests.
#[test]
fn the_viewer_has_marks_of_time_and_a_whole_legend_at_every_width_and_names_requests() {
    let (Some(run), Some(())) = (recorded(), require::browser()) else { return };
    let viewing = Viewing::of(run);
    let mut browser = Browser::start();
    for width in [400, 500, 1280, 2560] {
        browser.screen(width, 800, false);
        browser.open(&viewing.address);
        browser.wait_for("document.body.dataset.ready === 'true'");
        let told = browser.value("document.body.dataset.marks");
        let marks: Vec<[f64; 2]> = serde_json::from_str(told.as_str().expect("a list")).expect("JSON");
        assert!(marks.len() >= 3, "{marks:?} on a screen of {width}");
        assert!(marks.windows(2).all(|pair| pair[0][1] < pair[1][0]), "{marks:?} on a screen of {width}");
        assert!(marks.iter().all(|mark| mark[0] >= 0.0 && mark[1] <= f64::from(width)), "{marks:?} of {width}");
        let cut = "(({scrollHeight, clientHeight}) => scrollHeight > clientHeight)(document.querySelector('#legend'))";
        assert_eq!(browser.value(cut), false, "the legend is cut on a screen of {width}");
        // One of the slowest requests takes most of the width; of a very slow one the middle is close enough for single
        // requests and their names.
        browser.press("n");
        // On a small screen the lane of requests may be above what is in sight, for the request's task is.
        browser.press("PageUp");
        browser.press("PageUp");
        let named = |browser: &mut Browser| {
            browser.wait_for("document.body.dataset.ready === 'true'");
            browser.value("Number(document.body.dataset.named)").as_f64().is_some_and(|names| names > 0.0)
        };
        let found = (0..12).any(|_| {
            named(&mut browser) || {
                browser.press("+");
                false
            }
        });
        assert!(found, "no request has its name on a screen of {width}");
        shoot(&mut browser, &format!("view-named-{width}"), false);
    }
    assert_eq!(browser.errors(), &[] as &[String]);
}

#[test]
fn the_report_of_a_real_run_is_without_errors() {
    let (Some(run), Some(())) = (recorded(), require::browser()) else { return };
    let mut browser = Browser::start();
    for (width, dark) in [(1280, false), (400, true)] {
        browser.screen(width, 800, dark);
        browser.open(&format!("file://{}", run.join("report.html").display()));
        let charts = browser.value("document.querySelectorAll('.chart').length").as_u64();
        assert!(charts > Some(3), "{charts:?} charts");
        shoot(&mut browser, &format!("report-{width}-{}", if dark { "dark" } else { "light" }), true);
    }
    assert_eq!(browser.errors(), &[] as &[String]);
}

/// Where no generator wrote to the run, its requests are those that the server's sockets tell.
#[test]
fn a_run_without_a_generator_has_its_requests_too() {
    if require::socket_tracepoints().is_none() || require::apache().is_none() {
        return;
    }
    let _turn = alone();
    let server = Apache::prefork().workers(4).start().expect("Apache starts");
    let folder = TempDir::new().expect("a directory");
    let run = folder.path().join("run");
    let (path, port) = (run.to_str().expect("a readable path"), server.port.to_string());
    let load = ["load", "-q", "--rate", "200", "-d", "3s", &server.url("/1k.txt")].map(str::to_owned);
    let mut load = weir().args(load).stdout(Stdio::null()).spawn().expect("the load starts");
    let recorded = output(&["record", "--port", &port, "-d", "1500ms", "--run", path]);
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    assert!(load.wait().expect("the load ends").success());
    let tiles = RunTiles::open(&run, |_| false, &mut |_| true).expect("the run is read");
    let whole: Value = serde_json::from_slice(tiles.whole_json()).expect("JSON");
    assert!(number(&whole, "/requests") > 100.0, "{:#}", whole["requests"]);
    assert_eq!(whole["slowest"][0]["name"], format!(":{port}"));
    assert!(whole["slowest"][0]["steps"].as_array().is_some_and(|steps| steps.len() > 1), "{:#}", whole["slowest"][0]);
}

#[test]
fn the_viewer_answers_only_this_host_and_only_who_knows_the_word() {
    let Some(run) = recorded() else { return };
    let viewing = Viewing::of(run);
    let (path, own) = (viewing.path(), format!("127.0.0.1:{}", viewing.port()));
    assert!(viewing.get(&path, &own).starts_with("HTTP/1.1 200"));
    assert!(viewing.get(&path, &own).contains("frame-ancestors 'none'"));
    for host in ["rebound.example", "rebound.example:80", "127.0.0.1"] {
        let answer = viewing.get(&path, host);
        assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
    }
    assert!(viewing.get("/", &own).starts_with("HTTP/1.1 404"));
    assert!(viewing.get("/whole.json", &own).starts_with("HTTP/1.1 404"));
}

/// Browsers open several connections at the same moment, keep them, and open more that they may need later.
#[test]
fn each_of_many_connections_that_stay_is_answered() {
    let Some(run) = recorded() else { return };
    let viewing = Viewing::of(run);
    let request = format!("GET {}page.css HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", viewing.path(), viewing.port());
    let connect = || TcpStream::connect(("127.0.0.1", viewing.port())).expect("it listens");
    let _unused: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
    let mut kept: Vec<TcpStream> = (0..16).map(|_| connect()).collect();
    for round in 0..3 {
        for (place, stream) in kept.iter_mut().enumerate() {
            stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a connection");
            stream.write_all(request.as_bytes()).expect("a request");
            let mut rest = BufReader::new(stream);
            let mut status = String::new();
            rest.read_line(&mut status).unwrap_or_else(|error| panic!("round {round}, {place}: {error}"));
            assert_eq!(status, "HTTP/1.1 200 OK\r\n");
            let mut length = 0;
            loop {
                let mut line = String::new();
                rest.read_line(&mut line).expect("a line");
                if let Some(told) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = told.trim().parse().expect("a length");
                }
                if line == "\r\n" {
                    break;
                }
            }
            rest.read_exact(&mut vec![0; length]).expect("the whole body");
        }
    }
}

#[test]
fn what_is_kept_of_a_run_is_used_again() {
    let Some(run) = recorded() else { return };
    let kept = || {
        let names = std::fs::read_dir(run.join("derived")).expect("it is kept").flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        // Another test may be at the same run.
        names.filter(|name| !name.starts_with("view-part-")).collect::<Vec<String>>()
    };
    drop(Viewing::of(run));
    let first = kept();
    assert_eq!(first.len(), 1, "{first:?}");
    let marker = run.join("derived").join(&first[0]).join("marker");
    std::fs::write(&marker, "").expect("a file is written");
    drop(Viewing::of(run));
    assert!(marker.exists(), "the second view made it anew");
}

/// The users' own rules hold in the chart, and what is kept of the run is not touched by them.
#[test]
fn objects_are_charted_by_the_users_own_rules() {
    let folder = TempDir::new().expect("a directory");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../timeline/tests/golden/nginx_keep_alive");
    let run = folder.path().join("run");
    std::fs::create_dir_all(run.join("segments")).expect("a directory");
    for entry in std::fs::read_dir(from.join("segments")).expect("segments").flatten() {
        std::fs::copy(entry.path(), run.join("segments").join(entry.file_name())).expect("a copy");
    }
    std::fs::copy(from.join("manifest.jsonl"), run.join("manifest.jsonl")).expect("a copy");
    let file = folder.path().join("mine.toml");
    let rules = "[[interaction]]\nname = \"sleep\"\npattern = \"detached\"\nby = \"object\"\n[[rule]]\n\
                 event = \"sched_switch\"\nwhen = \"prev_pid != 0 && prev_state != 0\"\ndo = \"accept\"\n\
                 interaction = \"sleep\"\nrequester = \"task:prev_pid\"\nobject = \"bed:prev_pid\"\n";
    std::fs::write(&file, rules).expect("a file");
    let choice = |options: &[&str]| {
        let viewing = Viewing::with(&run, options);
        let host = format!("127.0.0.1:{}", viewing.port());
        viewing.get(&format!("{}objects.json", viewing.path()), &host)
    };
    let ours = choice(&[]);
    let mine = choice(&["--objects", file.to_str().expect("a readable path")]);
    assert!(ours.starts_with("HTTP/1.1 200") && ours.contains("\"conversation\""), "{ours}");
    assert!(!ours.contains("\"bed\"") && mine.contains("\"bed\"") && mine.contains("\"conversation\""), "{mine}");
    assert!(!choice(&[]).contains("\"bed\""), "the rules of one view hold in the next one");
}

/// What the rules of our own server decide while it is recorded is marked on the time line, and stands in the report.
#[test]
fn decisions_of_rules_stand_in_the_run_with_their_readings() {
    if require::socket_tracepoints().is_none() {
        return;
    }
    let _turn = alone();
    let folder = TempDir::new().expect("a directory");
    std::fs::create_dir_all(folder.path().join("site/news")).expect("a directory");
    std::fs::write(folder.path().join("site/news/a.html"), "news").expect("a file");
    let rule = "atom \"/news/*\" { rule flash: during if rate@atom > 5rps then shed 25% until rate@atom < 1rps hold 500ms; }\n";
    std::fs::write(folder.path().join("flood.policy"), rule).expect("a file");
    let served = Served::start(folder.path(), &["--tick", "50ms", "--policy", "flood.policy"], "site");
    let url = format!("http://127.0.0.1:{}/news/a.html", served.port);
    let run = folder.path().join("run");
    let (path, port) = (run.to_str().expect("a readable path"), served.port.to_string());
    let told = ["explain", "--json", "--load", &url, "--port", &port, "-c", "2", "-d", "2s", "--run", path];
    let told = output(&told);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let report: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let decisions = report["decisions"].as_array().expect("decisions");
    let begin = "flash (flood.policy:1) for /news/a.html fired: shed 25%; rate@atom > 5rps: ";
    let fired = decisions.iter().find(|one| one["text"].as_str().is_some_and(|text| text.starts_with(begin)));
    let at_s = number(fired.unwrap_or_else(|| panic!("{decisions:#?}")), "/at_s");
    assert!((0.0..2.0).contains(&at_s), "{at_s}");
    let page = std::fs::read_to_string(run.join("report.html")).expect("the report");
    assert!(page.contains("flash (flood.policy:1) for /news/a.html fired: shed 25%; rate@atom &gt; 5rps: "));
    let tiles = RunTiles::open(&run, |_| false, &mut |_| true).expect("the run is read");
    let whole: Value = serde_json::from_slice(tiles.whole_json()).expect("JSON");
    let remarks = whole["remarks"].as_array().expect("remarks");
    assert_eq!(remarks.len(), decisions.len());
    let texts = |all: &[Value]| all.iter().map(|one| one["text"].clone()).collect::<Vec<_>>();
    assert_eq!(texts(remarks), texts(decisions));
    assert!(remarks.iter().all(|one| number(one, "/at_ns") < number(&whole, "/duration_ns")));
    if require::browser().is_none() {
        return;
    }
    let viewing = Viewing::of(&run);
    let mut browser = Browser::start();
    browser.screen(1280, 800, false);
    browser.open(&viewing.address);
    browser.wait_for("document.body.dataset.ready === 'true'");
    assert!(browser.value("document.querySelector('#legend').textContent.includes('rules decided')") == true);
    shoot(&mut browser, "view-decisions", false);
    browser.press("/");
    browser.type_in("flash");
    browser.wait_for(
        "[...document.querySelectorAll('#found button')].some((one) => one.textContent.includes('shed 25%'))",
    );
    assert_eq!(browser.errors(), &[] as &[String]);
}
