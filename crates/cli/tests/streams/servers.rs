//! Streams of HTTP/2 at other servers than nginx, in the clear and over each TLS library of which weir knows the edge.

use crate::support::{alone, number, recording_begins};
use crate::{check, explained_with, report_of, with_a_client};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_testkit::{Apache, Certificate, Nginx, Place, Program, RunningServer, WeirServe, require};

const REQUESTS: u32 = 2000;
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

/// The report on a server while `load` runs.
pub(crate) fn watched(port: u16, load: &mut Command) -> serde_json::Value {
    watched_with(port, &[], load)
}

fn watched_with(port: u16, more: &[&str], load: &mut Command) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = folder.path().join("run");
    let child = explained_with(port, &run, AT_MOST, more);
    recording_begins(&run);
    let loaded = load.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(loaded.is_ok_and(|status| status.success()), "the client runs");
    std::thread::sleep(std::time::Duration::from_millis(300));
    // SAFETY: the process is our own child, which was not waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    report_of(child)
}

/// A strange client's streams are told apart, and each has its name.
fn are_told_apart(server: &RunningServer, what: &str) {
    let mut load = Command::new("h2load");
    load.args(["-c", "4", "-m", "16", "-n", &REQUESTS.to_string(), &server.url("/1k.txt?token=secret")]);
    let report = watched(server.port, &mut load);
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

/// Node has OpenSSL within its program.
#[test]
fn nodes_streams_are_told_apart() {
    let _turn = alone();
    let version = Command::new("node").args(["-p", "process.versions.openssl"]).output();
    let is_known = version.is_ok_and(|told| told.stdout.starts_with(b"3.0."));
    if !may_run("node") || require::or_skip(is_known, "this Node does not hold OpenSSL 3.0").is_none() {
        return;
    }
    let node = || {
        let mut command = Command::new("node");
        command.arg(cases().join("served.js"));
        command
    };
    are_told_apart(&told(node, &certificate()), "Node over TLS");
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
    let mut load = Command::new("h2load");
    load.args(["--h1", "-c", "4", "-n", &REQUESTS.to_string(), &server.url("/1k.txt?token=secret")]);
    let report = watched(server.port, &mut load);
    let classes = report["transactions"].as_array().expect("classes");
    let named: f64 =
        classes.iter().filter(|one| one["name"] == "GET /1k.txt").map(|class| number(class, "/count")).sum();
    assert!(named >= 0.998 * f64::from(REQUESTS), "{named}: {classes:#?} {:#}", report["exchanges"]);
}

/// Our own server tells of its TLS by marks.
#[test]
fn our_own_servers_streams_are_told_apart() {
    let _turn = alone();
    if !may_run("openssl") {
        return;
    }
    let made = certificate();
    let serve = WeirServe::new(env!("CARGO_BIN_EXE_weir"));
    let (file, key) = (made.certificate().display().to_string(), made.key().display().to_string());
    let server = serve.tls(&made).args(["--tls-cert", &file, "--tls-key", &key]).start().expect("weir serve starts");
    are_told_apart(&server, "our own server over TLS");
    with_a_client(&server, &["--insecure"]);
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
    let report = watched_with(server.port, &["--no-tls-probes"], &mut load);
    assert_eq!(report.pointer("/exchanges/streams"), None, "{:#}", report["exchanges"]);
    let words = report["warnings"].to_string();
    assert!(words.contains("over TLS as whole exchanges") && words.contains("--no-tls-probes"), "{words}");
}
