//! `weir record --always`: windows, restarts of the server and of the recorder, alerts, and what it may not remove.
// scripts/test: loads

mod support;

use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::planted::Beside;
use support::recording::attached;
use support::{alone, number, output, weir};
use weir_testkit::{Faulty, free_port, require};

/// A server of ours at a port that it may be started at again.
fn serve(port: u16, site: &Path) -> Child {
    let server = weir()
        .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
        .arg(site)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("weir serve starts");
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "the server does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

fn stop(mut child: Child) -> String {
    // SAFETY: the process is our child and not yet waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
    let mut said = String::new();
    let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}: {said}");
    said
}

fn always(port: u16, runs: &Path, more: &[&str]) -> Command {
    let mut command = weir();
    let port = port.to_string();
    let often = ["--window", "300ms", "--cpu-share", "100", "--disk-per-hour", "100000"];
    command.args(["record", "--always", "--port", &port]).args(often).args(more).arg("--run").arg(runs);
    command.stderr(Stdio::piped());
    command
}

fn runs_in(directory: &Path) -> Vec<PathBuf> {
    let mut runs: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    runs.sort();
    runs
}

fn explained(run: &Path) -> Value {
    let explained = output(&["explain", "--json", run.to_str().expect("a readable path")]);
    let stderr = String::from_utf8_lossy(&explained.stderr);
    serde_json::from_slice(&explained.stdout).unwrap_or_else(|error| panic!("no JSON ({error}); stderr: {stderr}"))
}

/// The body of a request.
fn posted(reader: &mut impl BufRead) -> Vec<u8> {
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    body
}

/// Takes one request after the other, answers each, and hands over what was posted.
fn listen() -> (u16, std::sync::mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let (to, from) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for (index, stream) in listener.incoming().take(20).flatten().enumerate() {
            let mut reader = BufReader::new(stream);
            let body = posted(&mut reader);
            // The first try is refused: it comes again.
            let status = if index == 0 { "503 Not now" } else { "204 Taken" };
            let _ = write!(reader.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if index > 0 && to.send(serde_json::from_slice(&body).expect("JSON")).is_err() {
                return;
            }
        }
    });
    (port, from)
}

#[test]
fn windows_are_explained_and_objectives_alert() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("sleep").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (hook, alerts) = listen();
    let hook = format!("http://127.0.0.1:{hook}/alert");
    let slo = ["--slo", "p99<1ms", "--burn", "4s/2s/2", "--webhook", &hook];
    let recording = always(server.port, folder.path(), &slo).spawn().expect("it starts");
    let mut load = weir()
        .args(["load", &server.url("/"), "-c", "4", "-d", "60s", "-q"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the load starts");
    // On a busy machine the recording begins late, and so must the load's end come.
    let alert = alerts.recv_timeout(Duration::from_secs(50)).expect("an alert comes, at the second try");
    // As many windows as are asked for below.
    std::thread::sleep(Duration::from_secs(3));
    // SAFETY: the process is our child and not yet waited for.
    unsafe { libc::kill(load.id().cast_signed(), libc::SIGINT) };
    assert!(load.wait().expect("the load ends").success());
    let said = stop(recording);
    assert_eq!(alert["state"], "firing", "{alert:#}");
    assert_eq!(alert["objective"], "p99<1ms");
    // Every request sleeps: all are bad, a hundred times as many as allowed.
    assert!(number(&alert, "/burn_rate_short") > 90.0, "{alert:#}");
    assert!(said.contains("ALERT: p99<1ms"), "{said}");
    assert!(said.contains("windows in"), "{said}");
    let runs = runs_in(folder.path());
    assert_eq!(runs.len(), 1, "{runs:?}");
    let report = explained(&runs[0]);
    assert!(number(&report, "/exchanges/windows") >= 3.0, "{:#}", report["exchanges"]);
    assert!(number(&report, "/requests") > 10.0);
    assert_eq!(report["causes"][0]["part"], "wait_timer", "{:#}", report["causes"]);
    assert!(number(&report, "/sum_of_parts_over_response/mean") > 0.999_999);
    // The rate is that of the windows, not thinned by the pauses: four connections with a sleep each.
    let (rate, mean) = (number(&report, "/rate_per_s"), number(&report, "/response_ns/mean"));
    let expected = 4.0 / (mean / 1e9);
    assert!((0.4..1.3).contains(&(rate / expected)), "{rate} a second, of about {expected}");
}

/// Spans that were received, by their ids, and how many parts each has.
type Received = Arc<Mutex<HashMap<String, (Value, u64)>>>;

/// A receiver of spans (OTLP over HTTP, JSON); the spans of requests that came so far, and how many parts each has.
fn receiver() -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let spans = Received::default();
    let taken = Arc::clone(&spans);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let body = posted(&mut reader);
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            let told = body.pointer("/resourceSpans/0/scopeSpans/0/spans").and_then(Value::as_array).expect("spans");
            let mut spans = taken.lock().expect("not poisoned");
            for span in told {
                let id = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
                match span["kind"].as_u64() {
                    Some(2) => spans.entry(id("spanId")).or_default().0 = span.clone(),
                    _ => spans.entry(id("parentSpanId")).or_default().1 += 1,
                }
            }
            let _ = reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
        }
    });
    (url, spans)
}

/// The content of an answer, with its media type; `None` as long as no server answers.
fn get(port: u16, target: &str, accept: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, content) = answer.split_once("\r\n\r\n")?;
    let kind =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-type: ").map(str::to_owned));
    Some((kind.unwrap_or_default(), content.to_owned()))
}

/// What Prometheus answers to a question of its API.
fn prometheus(port: u16, path: &str, query: &[(&str, &str)]) -> Option<Value> {
    let mut url = path.to_owned();
    for (number, (name, value)) in query.iter().enumerate() {
        let escaped: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        url.push_str(&format!("{}{name}={escaped}", if number == 0 { '?' } else { '&' }));
    }
    let answer: Value = serde_json::from_str(&get(port, &url, "application/json")?.1).ok()?;
    (answer["status"] == "success").then(|| answer["data"].clone())
}

/// Prometheus, which keeps exemplars and asks one recorder twice a second.
fn prometheus_of(recorder: u16, folder: &Path) -> (Beside, u16) {
    let port = free_port();
    let recipe = format!(
        "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\nscrape_configs:\n- job_name: weir\n  static_configs: [{{ targets: ['127.0.0.1:{recorder}'] }}]\n"
    );
    fs::write(folder.join("prometheus.yml"), recipe).expect("written");
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .args(["--enable-feature=exemplar-storage", "--log.level=error"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    (Beside::spawn(command), port)
}

/// Every query of the dashboard, with its variables in place, by its panel's title.
fn queries() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/grafana/weir-record.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).expect("the dashboard")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        panel["targets"].as_array().expect("what it shows").iter().map(move |target| (title.clone(), target))
    });
    let query = |target: &Value| {
        let query = target["expr"].as_str().expect("a query").replace("$__rate_interval", "4s");
        let query = query.replace("$instance", ".*").replace("$class", ".*");
        assert!(!query.contains('$'), "an unknown variable in {query}");
        query
    };
    targets.map(|(title, target)| (title, query(target))).collect()
}

/// What Prometheus keeps leads to requests: each exemplar is the span of a request that was handed on with its parts, and
/// that the run has, too. Each query of the dashboard has an answer.
#[test]
fn exemplars_lead_to_explained_requests() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::program("prometheus").is_none() {
        return;
    }
    let server = Faulty::new("sleep").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (otlp, spans) = receiver();
    let (listen, runs) = (free_port(), folder.path().join("runs"));
    let told = ["--prometheus-listen", &format!("127.0.0.1:{listen}"), "--otlp", &otlp];
    let recording = always(server.port, &runs, &told).spawn().expect("it starts");
    let (scraper, port) = prometheus_of(listen, folder.path());
    let mut load = weir();
    load.args(["load", &server.url("/"), "-c", "2", "--rate", "40", "-d", "60s", "-q"]).stdout(Stdio::null());
    let load = Beside::spawn(load);
    let deadline = Instant::now() + Duration::from_secs(50);
    let unanswered = |query: &str| {
        let data = prometheus(port, "/api/v1/query", &[("query", query)]).unwrap_or_default();
        let values = data["result"].as_array().map(Vec::as_slice).unwrap_or_default();
        values.is_empty() || values.iter().all(|value| value["value"][1] == "NaN")
    };
    let exemplars = || -> Vec<Value> {
        let name = "weir_record_response_seconds_bucket";
        let asked = [("query", name), ("start", "0"), ("end", "9999999999")];
        let series = prometheus(port, "/api/v1/query_exemplars", &asked).unwrap_or_default();
        let of = |one: &Value| one["exemplars"].as_array().cloned().unwrap_or_default();
        series.as_array().map(|all| all.iter().flat_map(of).collect()).unwrap_or_default()
    };
    let mut left = queries();
    assert!(left.len() > 8, "{left:?}");
    // A window has one for each bucket.
    while !left.is_empty() || exemplars().len() < 3 {
        assert!(Instant::now() < deadline, "no answer to {left:?}: {:?}", get(listen, "/metrics", ""));
        std::thread::sleep(Duration::from_millis(100));
        left.retain(|(_, query)| unanswered(query));
    }
    let kept = exemplars();
    let (plain, text) = get(listen, "/metrics", "text/plain").expect("it answers");
    assert!(plain.starts_with("text/plain") && !text.contains("trace_id"), "{plain}: {text}");
    let (open, text) = get(listen, "/metrics", "application/openmetrics-text; version=1.0.0").expect("it answers");
    assert!(open.starts_with("application/openmetrics-text") && text.ends_with("\n# EOF\n"), "{open}: {text}");
    drop((load, scraper));
    stop(recording);
    let spans = spans.lock().expect("not poisoned");
    let run = runs_in(&runs).pop().expect("a run");
    let file = folder.path().join("spans.jsonl");
    let paths = [&file, &run].map(|path| path.to_str().expect("a readable path"));
    assert!(output(&["explain", "--otlp", paths[0], paths[1]]).status.success());
    let explained = fs::read_to_string(&file).expect("spans");
    for exemplar in kept {
        let label = |name: &str| exemplar["labels"][name].as_str().unwrap_or_default();
        let (root, parts) = spans.get(label("span_id")).unwrap_or_else(|| panic!("{exemplar} leads nowhere"));
        assert_eq!(root["traceId"].as_str(), Some(label("trace_id")), "{exemplar}");
        assert!(*parts > 0, "{root:#}");
        let ns = |key: &str| root[key].as_str().and_then(|text| text.parse::<u64>().ok()).expect("a time");
        let value: f64 = exemplar["value"].as_str().and_then(|text| text.parse().ok()).expect("a value");
        let took = (ns("endTimeUnixNano") - ns("startTimeUnixNano")) as f64 / 1e9;
        assert!((value - took).abs() < 1e-6, "{exemplar}: {took} s");
        assert!(explained.contains(&format!("\"spanId\":\"{}\"", label("span_id"))), "{exemplar} is not in the run");
    }
}

#[test]
fn a_restarted_server_is_found_again() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (site, runs) = (folder.path().join("site"), folder.path().join("runs"));
    fs::create_dir(&site).and_then(|()| fs::write(site.join("index.html"), "hello")).expect("a site");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/");
    // It waits for a server that is not there yet.
    let recording = always(port, &runs, &[]).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..2 {
        let mut server = serve(port, &site);
        let load = output(&["load", &url, "-c", "2", "--rate", "300", "-d", "5s", "-q"]);
        assert!(load.status.success(), "{}", String::from_utf8_lossy(&load.stderr));
        server.kill().expect("it is killed");
        let _ = server.wait();
        std::thread::sleep(Duration::from_millis(2_500));
    }
    let said = stop(recording);
    assert!(said.contains("waiting for the server"), "{said}");
    // While it was away the run ended, or it was found again within the pause: each server's requests are in some run.
    let runs = runs_in(&runs);
    let requests: Vec<f64> = runs
        .iter()
        .map(|run| output(&["explain", "--json", run.to_str().expect("a readable path")]))
        .filter_map(|explained| serde_json::from_slice::<Value>(&explained.stdout).ok())
        .map(|report| number(&report, "/requests"))
        .collect();
    assert!(
        runs.len() >= 2 && requests.iter().filter(|requests| **requests > 50.0).count() >= 2,
        "{requests:?} {said}"
    );
}

#[test]
fn a_killed_recorder_leaves_what_it_wrote_and_the_next_tidies_its_own_only() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("plain").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut recording = always(server.port, folder.path(), &[]).spawn().expect("it starts");
    let load = output(&["load", &server.url("/"), "-c", "2", "--rate", "300", "-d", "4s", "-q"]);
    assert!(load.status.success());
    recording.kill().expect("it is killed");
    let _ = recording.wait();
    let killed = runs_in(folder.path()).pop().expect("its run");
    let report = explained(&killed);
    assert!(number(&report, "/requests") > 50.0, "{:#}", report["warnings"]);
    // A directory beside it that the recording did not make, older than anything.
    let others = folder.path().join("20200101T000000Z");
    fs::create_dir(&others).expect("a directory");
    std::thread::sleep(Duration::from_millis(1_200));
    let recording = always(server.port, folder.path(), &["--keep", "1s"]).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(3_000));
    stop(recording);
    assert!(!killed.exists(), "what is older than is kept is removed");
    assert!(others.exists(), "what it did not make stays");
}

/// What the systemd unit grants is enough.
#[test]
fn the_units_capabilities_suffice() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::program("setpriv").is_none() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/weir-record.service");
    let text = fs::read_to_string(unit).expect("the unit");
    let granted = text.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).expect("its capabilities");
    let granted: Vec<String> =
        granted.split_whitespace().map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase())).collect();
    let granted = granted.join(",");
    // The unit's own command line, with a port in the place of its configuration.
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/weir ")).expect("its command");
    let server = Faulty::new("plain").start().expect("the server starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let state = folder.path().join("state");
    fs::create_dir(&state).expect("a directory");
    for (path, mode) in [(folder.path(), 0o755), (&state, 0o777)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    }
    let program = folder.path().join("weir");
    fs::copy(env!("CARGO_BIN_EXE_weir"), &program).expect("the command can be copied");
    let line = line.replace("${STATE_DIRECTORY}", state.to_str().expect("a readable path"));
    let line = line.replace("$WEIR_RECORD", &format!("--port {} --window 300ms --cpu-share 100", server.port));
    let mut recording = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"])
        .args(["--inh-caps", &format!("-all,{granted}"), "--ambient-caps", &format!("-all,{granted}")])
        .arg("--bounding-set")
        .arg(format!("-all,{granted}"))
        .arg(&program)
        .args(line.split_whitespace())
        .stderr(Stdio::piped())
        .spawn()
        .expect("setpriv starts");
    let load = output(&["load", &server.url("/"), "-c", "2", "--rate", "300", "-d", "4s", "-q"]);
    assert!(load.status.success());
    assert!(recording.try_wait().expect("it is ours").is_none(), "it has ended: {:?}", recording.wait_with_output());
    let said = stop(recording);
    let run = runs_in(&state.join("runs")).pop().unwrap_or_else(|| panic!("no run: {said}"));
    assert!(number(&explained(&run), "/requests") > 50.0, "{said}");
}

/// A server that is named by its control group, as by a systemd unit.
#[test]
fn a_unit_is_found_by_its_control_group() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let group = Group::new("weir-test-shop.service");
    if require::or_skip(group.is_some(), "needs control groups of version 2 that can be made").is_none() {
        return;
    }
    let group = group.expect("looked at above");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let site = folder.path().join("site");
    fs::create_dir(&site).and_then(|()| fs::write(site.join("index.html"), "hello")).expect("a site");
    let port = free_port();
    let mut server = serve(port, &site);
    fs::write(group.path.join("cgroup.procs"), server.id().to_string()).expect("it is moved");
    let (url, run) = (format!("http://127.0.0.1:{port}/"), folder.path().join("run"));
    let run = run.to_str().expect("a readable path");
    let found = output(&["explain", "--json", "--load", &url, "--unit", "weir-test-shop", "-d", "1s", "--run", run]);
    let _ = server.kill();
    let _ = server.wait();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let report: Value = serde_json::from_slice(&found.stdout).expect("a report");
    assert!(number(&report, "/joined_fraction") > 0.99, "{:#}", report["unjoinable"]);
    assert!(report.to_string().contains("in weir-test-shop.service"), "its processes are named with it");
    drop(group);
}

/// Answers as Kubernetes' API does, in the form of its reference (PodList v1 core), by two pages; what was asked.
fn api(listener: &TcpListener, id: &str) -> Vec<String> {
    let pod = |namespace: &str, name: &str, id: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},"spec":{{"nodeName":"n1"}},"status":{{"phase":"Running","containerStatuses":[{{"name":"nginx","ready":true,"containerID":"containerd://{id}"}}]}}}}"#
        )
    };
    let page = |next: &str, pod: String| {
        format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"continue":"{next}"}},"items":[{pod}]}}"#)
    };
    let pages = [page("token+1", pod("mail", "mx-0", &"0".repeat(64))), page("", pod("shop", "web-7", id))];
    let answered = pages.into_iter().map(|body| {
        let (mut stream, _) = listener.accept().expect("it is asked");
        let mut head = BufReader::new(stream.try_clone().expect("a second handle")).lines().map_while(Result::ok);
        let asked = head.next().unwrap_or_default();
        head.find(String::is_empty);
        let length = body.len();
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
        write!(stream, "{answer}Content-Length: {length}\r\n\r\n{body}").expect("answered");
        asked
    });
    answered.collect()
}

/// The server is in a control group as containerd makes one for a pod's container, whose name Kubernetes' API tells.
#[test]
fn a_container_has_its_pods_name() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let id = "c0ffee".repeat(11)[..64].to_owned();
    let group = Group::new(&format!("cri-containerd-{id}.scope"));
    if require::or_skip(group.is_some(), "needs control groups of version 2 that can be made").is_none() {
        return;
    }
    let group = group.expect("looked at above");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let site = folder.path().join("site");
    fs::create_dir(&site).and_then(|()| fs::write(site.join("index.html"), "hello")).expect("a site");
    let port = free_port();
    let mut server = serve(port, &site);
    fs::write(group.path.join("cgroup.procs"), server.id().to_string()).expect("it is moved");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("its address"));
    let asked = std::thread::spawn(move || api(&listener, &id));
    let run = folder.path().join("run");
    let run = run.to_str().expect("a readable path");
    // The container is named as the API names it, which no runtime's file does here.
    let recording = attached(&["--container", "shop/web-7", "--kubernetes", &address, "-d", "1500ms", "--run", run]);
    let loaded = output(&["load", "-c", "2", "-d", "500ms", &format!("http://127.0.0.1:{port}/")]);
    let (status, told) = recording.end();
    let _ = server.kill();
    let _ = server.wait();
    assert!(loaded.status.success() && status.success(), "{told}");
    let asked = asked.join().expect("it was asked");
    assert_eq!(
        asked,
        ["GET /api/v1/pods?limit=500 HTTP/1.1", "GET /api/v1/pods?limit=500&continue=token%2B1 HTTP/1.1"]
    );
    let report = explained(Path::new(run));
    assert!(report.to_string().contains("in pod shop/web-7/nginx"), "its processes are named with it: {report:#}");
    // An API that is not there, or refuses, is told of before anything is recorded.
    let refused = output(&["record", "--port", "1", "--kubernetes", &address]);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("Kubernetes' API at http://127.0.0.1:"), "{told}");
    drop(group);
}

#[test]
fn a_server_in_another_network_namespace_is_found_by_its_port() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::program("ip").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let site = folder.path().join("site");
    fs::create_dir(&site).and_then(|()| fs::write(site.join("index.html"), "hello")).expect("a site");
    let port = free_port();
    let namespace = Namespace::new(&format!("weir{port}"));
    let mut command = Command::new("ip");
    let listen = format!("10.201.7.2:{port}");
    command.args(["netns", "exec", &namespace.name, env!("CARGO_BIN_EXE_weir"), "serve", "--listen", &listen]);
    let mut server = command.arg(&site).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let url = format!("http://{listen}/");
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(&listen).is_err() {
        assert!(Instant::now() < deadline, "the server in the namespace does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    let port = port.to_string();
    let run = folder.path().join("other");
    let run = run.to_str().expect("a readable path");
    let found = output(&["explain", "--json", "--load", &url, "--port", &port, "-d", "1s", "--run", run]);
    let _ = server.kill();
    let _ = server.wait();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let report: Value = serde_json::from_slice(&found.stdout).expect("a report");
    assert!(number(&report, "/joined_fraction") > 0.99, "{:#}", report["unjoinable"]);
}

/// A control group of the test's own, removed at its end.
struct Group {
    path: PathBuf,
}

impl Group {
    fn new(name: &str) -> Option<Self> {
        let slice = weir_capture::cgroup::root().join("weir-test.slice");
        fs::create_dir_all(slice.join(name)).ok()?;
        let path = slice.join(name);
        path.join("cgroup.procs").exists().then_some(Self { path })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for path in [Some(self.path.as_path()), self.path.parent()].into_iter().flatten() {
            // A process that has just ended may still be leaving.
            for _ in 0..50 {
                if fs::remove_dir(path).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A network namespace of the test's own, with a pair of devices to it.
struct Namespace {
    name: String,
}

impl Namespace {
    fn new(name: &str) -> Self {
        let made = Self { name: name.to_owned() };
        for command in [
            format!("netns add {name}"),
            format!("link add {name}a type veth peer name {name}b netns {name}"),
            format!("addr add 10.201.7.1/24 dev {name}a"),
            format!("link set {name}a up"),
            format!("-n {name} addr add 10.201.7.2/24 dev {name}b"),
            format!("-n {name} link set {name}b up"),
            format!("-n {name} link set lo up"),
        ] {
            let done = Command::new("ip").args(command.split(' ')).output().expect("ip starts");
            assert!(done.status.success(), "ip {command}: {}", String::from_utf8_lossy(&done.stderr));
        }
        made
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", &format!("{}a", self.name)]).output();
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}
