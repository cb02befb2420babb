//! `weir load --http2` on the command line: real servers, what goes with it, what is refused in words, and what `weir
//! explain` says of it.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Output;
use std::time::Duration;
use support::planted::wait_for;
use support::served::Served;
use support::{alone, explain, number, output};
use weir_testkit::{Certificate, Nghttpd, Nginx, RunningServer, Site, require};

/// Bytes of the file that is asked for.
const BYTES: usize = 1000;

fn words(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Lines are broken where the terminal ends.
    (text(&output.stdout) + &text(&output.stderr)).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The report of a load over HTTP/2.
fn loaded(url: &str, more: &[&str]) -> Value {
    let output = output(&[&["load", url, "--http2", "--json", "-q"], more].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{more:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{more:?}: no JSON ({error}); {stderr}"))
}

fn site() -> Site {
    let site = Site::empty().expect("a site");
    site.write("1k.txt", &[b'x'; BYTES]).expect("a file");
    site.write("other.txt", b"other").expect("a file");
    site
}

/// nginx that speaks HTTP/2, with or without encryption; the address of a path of its.
fn nginx(site: &Site, certificate: Option<&Certificate>) -> (RunningServer, String) {
    let more = weir_testkit::free_port();
    let tls = if certificate.is_some() { "ssl" } else { "" };
    let mut nginx =
        Nginx::new().root(site.path()).directive(&format!("listen 127.0.0.1:{more} {tls} http2; sendfile off;"));
    if let Some(certificate) = certificate {
        nginx = nginx.tls(certificate);
    }
    let server = nginx.start().expect("nginx starts");
    let scheme = if certificate.is_some() { "https" } else { "http" };
    (server, format!("{scheme}://127.0.0.1:{more}"))
}

#[test]
fn nginx_and_nghttpd_are_loaded_in_the_clear_and_encrypted() {
    let _turn = alone();
    if require::nginx().is_none() || require::program("nghttpd").is_none() || require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    let ca = certificate.certificate().display().to_string();
    for encrypted in [None, Some(&certificate)] {
        let (_nginx, of_nginx) = nginx(&site, encrypted);
        let mut nghttpd = Nghttpd::new().root(site.path());
        if let Some(certificate) = encrypted {
            nghttpd = nghttpd.tls(certificate);
        }
        let nghttpd = nghttpd.start().expect("nghttpd starts");
        for base in [of_nginx, nghttpd.url("")] {
            let url = format!("{base}/1k.txt");
            for (connections, streams) in [(1u64, 1u64), (2, 20)] {
                let (c, m) = (connections.to_string(), streams.to_string());
                let report = loaded(&url, &["-n", "1000", "-c", &c, "--streams", &m, "--ca", &ca]);
                let what = format!("{url}, {connections} x {streams}: {report:#}");
                assert_eq!(report["requests"], 1000, "{what}");
                assert_eq!(report["status"], serde_json::json!({ "200": 1000 }), "{what}");
                assert_eq!(report["errors"], serde_json::json!({}), "{what}");
                assert_eq!((number(&report, "/http_version"), number(&report, "/streams")), (2.0, streams as f64));
                assert_eq!(report["connections"], connections, "{what}");
                let full = if encrypted.is_some() { connections } else { 0 };
                assert_eq!(report["handshakes"]["full"], full, "{what}");
                // Content, and heads of frames and responses that are shorter than it.
                let bytes = number(&report, "/bytes") as usize;
                assert!((1000 * BYTES..2000 * BYTES).contains(&bytes), "{what}");
            }
            // An open loop: no more than was asked for, each from its intended time.
            let open = loaded(&url, &["--rate", "500", "-d", "1s", "-c", "2", "--streams", "50", "--ca", &ca]);
            assert_eq!((number(&open, "/requests"), number(&open, "/dropped")), (500.0, 0.0), "{url}: {open:#}");
            assert!(number(&open, "/latency_ns/mean") >= number(&open, "/latency_uncorrected_ns/mean"), "{open:#}");
        }
    }
}

#[test]
fn what_else_says_how_to_load_goes_with_it() {
    let _turn = alone();
    if require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    let (_plain, plain) = nginx(&site, None);
    let (_encrypted, encrypted) = nginx(&site, Some(&certificate));
    let url = format!("{plain}/1k.txt");
    let files = tempfile::tempdir().expect("a directory");
    let named = |name: &str, text: &str| {
        fs::write(files.path().join(name), text).expect("a file");
        files.path().join(name).display().to_string()
    };
    let requests = |report: &Value| number(report, "/requests") as u64;
    // Several requests of one host, each as often as it should be.
    let list = named("list", "3 /1k.txt\n1 /missing\n");
    let mix = loaded(&url, &["--urls", &list, "-n", "400", "--streams", "10"]);
    assert_eq!(requests(&mix), 400);
    let missing = number(&mix, "/status/404");
    assert!((50.0..150.0).contains(&missing), "{mix:#}");
    // Rates that change, groups, and times out of a log.
    let ramp = loaded(&url, &["--ramp", "100..300/1s", "--streams", "10"]);
    assert_eq!(requests(&ramp), 200, "{ramp:#}");
    let bursts = loaded(&url, &["--bursts", "50/200ms", "-d", "900ms", "--streams", "50"]);
    assert_eq!(requests(&bursts), 250, "{bursts:#}");
    let line = |second: u32| format!("h - - [21/Nov/2026:10:00:0{second} +0000] \"GET /other.txt HTTP/1.1\" 200 5\n");
    let log = named("log", &[line(0), line(1), line(1)].concat());
    let replay = loaded(&url, &["--replay", &log, "--streams", "10"]);
    assert_eq!(replay["status"], serde_json::json!({ "200": 3 }), "{replay:#}");
    // Users who think, each over a connection and with cookies of its own.
    let users = named("users", "/1k.txt think=0.05\n  /missing\n/other.txt\n\n/1k.txt\n");
    let told = loaded(&url, &["--sessions", &users, "--cookie-jar", "-n", "10", "-c", "3", "--streams", "5"]);
    assert_eq!((requests(&told), number(&told, "/sessions/completed")), (20, 10.0), "{told:#}");
    assert_eq!(told["status"], serde_json::json!({ "200": 15, "404": 5 }), "{told:#}");
    // Two threads, constant cookies, and sessions of TLS that go on.
    let both = loaded(&url, &["-c", "4", "--threads", "2", "--cookie", "a=b", "-n", "100", "--streams", "5"]);
    assert_eq!((requests(&both), number(&both, "/connections")), (100, 4.0), "{both:#}");
    let (ca, encrypted) = (certificate.certificate().display().to_string(), format!("{encrypted}/1k.txt"));
    let tls = ["--ca", &ca, "--resume", "--tls", "1.2", "-n", "100", "-c", "2", "--streams", "5"];
    assert_eq!(requests(&loaded(&encrypted, &tls)), 100);
}

#[test]
fn a_unix_socket_and_a_client_certificate_go_with_it() {
    let _turn = alone();
    if require::nginx().is_none() || require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    let socket = site.path().join("nginx.sock").display().to_string();
    let server = Nginx::new().root(site.path()).directive(&format!("listen unix:{socket} http2; sendfile off;"));
    let _server = server.start().expect("nginx starts");
    let report = loaded("http://localhost/1k.txt", &["--unix", &socket, "-n", "200", "--streams", "10"]);
    assert_eq!(report["status"], serde_json::json!({ "200": 200 }), "{report:#}");
    // nginx refuses a client without a certificate by a response of HTTP.
    let port = weir_testkit::free_port();
    let asking = Nginx::new()
        .root(site.path())
        .tls(&certificate)
        .directive(&format!("listen 127.0.0.1:{port} ssl http2; ssl_verify_client optional_no_ca;"))
        .directive("if ($ssl_client_fingerprint = \"\") { return 403; }");
    let _asking = asking.start().expect("nginx starts");
    let (ca, key) = (certificate.certificate().display().to_string(), certificate.key().display().to_string());
    let url = format!("https://127.0.0.1:{port}/1k.txt");
    for (shown, status) in [(&["--ok", "403"][..], "403"), (&["--cert", &ca, "--key", &key], "200")] {
        let report = loaded(&url, &[&["--ca", &ca, "-n", "50", "-c", "1", "--streams", "5"], shown].concat());
        assert_eq!(report["status"], serde_json::json!({ status: 50 }), "{report:#}");
    }
}

/// What our own server says of itself: connections that it accepted, and handshakes, in all and those resumed.
fn accepted(socket: &Path) -> [f64; 3] {
    let mut stream = UnixStream::connect(socket).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    write!(stream, "GET /status.json HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n").expect("sends");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("reads");
    let status: Value = serde_json::from_str(text.split_once("\r\n\r\n").expect("a head").1).expect("JSON");
    // In the clear there are no handshakes to be told of.
    let figure = |at: &str| status.pointer(at).and_then(Value::as_f64).unwrap_or(0.0);
    ["/connections/accepted", "/tls/handshakes", "/tls/resumed"].map(figure)
}

/// Ports of this side that are busy with connections to a port that have ended.
fn busy(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").expect("the table of sockets");
    let ended = |line: &&str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.get(3) == Some(&"06") && words[2].ends_with(&format!(":{port:04X}"))
    };
    table.lines().filter(ended).count()
}

#[test]
fn our_own_server_accepts_a_connection_for_each_request_and_closes_it_first() {
    let _turn = alone();
    if require::program("openssl").is_none() {
        return;
    }
    let (site, certificate) = (site(), Certificate::self_signed().expect("a certificate"));
    let (ca, key) = (certificate.certificate().display().to_string(), certificate.key().display().to_string());
    for (scheme, more) in [("http", &[][..]), ("https", &["--tls-cert", &ca, "--tls-key", &key])] {
        let folder = tempfile::tempdir().expect("a directory");
        let socket = folder.path().join("admin.sock");
        let admin = format!("unix:{}", socket.display());
        let server = Served::start(folder.path(), &[&["--admin", &admin], more].concat(), site.path());
        let url = format!("{scheme}://127.0.0.1:{}/1k.txt", server.port);
        // The look whether it is there is counted first.
        wait_for(|| (accepted(&socket)[0] >= 1.0).then_some(()));
        for resumes in [false, true] {
            if resumes && scheme == "http" {
                continue;
            }
            let (before, busy_before) = (accepted(&socket), busy(server.port));
            let resume = if resumes { &["--resume"][..] } else { &[] };
            let report = loaded(&url, &[&["-n", "400", "-c", "4", "--no-keepalive", "--ca", &ca], resume].concat());
            let after = accepted(&socket);
            let what = format!("{url} {resumes}: {report:#}");
            assert_eq!(report["status"], serde_json::json!({ "200": 400 }), "{what}");
            assert_eq!(report["errors"], serde_json::json!({}), "{what}");
            let [connections, handshakes, resumed] = [0, 1, 2].map(|at| after[at] - before[at]);
            assert_eq!(connections, 400.0, "{what}");
            assert_eq!(handshakes, if scheme == "https" { 400.0 } else { 0.0 }, "{what}");
            assert!(if resumes { (396.0..400.0).contains(&resumed) } else { resumed == 0.0 }, "{resumed}: {what}");
            // But for those that were open at the end.
            let busy = busy(server.port);
            assert!(busy <= busy_before + 4, "{busy} ports, {busy_before} before: {what}");
        }
        let before = accepted(&socket)[0];
        let open = loaded(&url, &["--rate", "300", "-d", "1s", "-c", "4", "--no-keepalive", "--ca", &ca]);
        let connections = accepted(&socket)[0] - before;
        assert_eq!((number(&open, "/requests"), connections), (300.0, 300.0), "{url}: {open:#}");
    }
}

#[test]
fn what_does_not_go_with_it_is_refused_in_words() {
    let several = tempfile::NamedTempFile::new().expect("a file");
    fs::write(several.path(), "http://127.0.0.1:1/\nhttp://127.0.0.1:2/\n").expect("it is written");
    let name = |file: &tempfile::NamedTempFile| file.path().display().to_string();
    let several = name(&several);
    for (arguments, expected) in [
        (&["--pipeline", "4"][..], "cannot be used with"),
        (&["--no-keepalive", "--streams", "2"], "has one stream"),
        (&["--http1.0"], "HTTP/1.0, HTTP/2 or HTTP/3"),
        (&["--mix", "specweb96"], "cannot be used with"),
        (&["--urls", &several], "several hosts are made over HTTP/1.1 only"),
        (&["--io", "io_uring"], "HTTP/1.1 only"),
        (&["--proxy", "http://127.0.0.1:1"], "only if it is encrypted"),
        (&["--streams", "0"], "between 1 and 10000"),
    ] {
        let refused = output(&[&["load", "http://127.0.0.1:1/", "--http2", "-n", "1"], arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", words(&refused));
        assert!(words(&refused).contains(expected), "{arguments:?}: {}", words(&refused));
    }
    let alone = output(&["load", "http://127.0.0.1:1/", "--streams", "5"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(words(&alone).contains("--http2"), "{}", words(&alone));
}

#[test]
fn explain_joins_its_streams() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let (server, run) = (nginx(&site(), None), tempfile::tempdir().expect("a directory"));
    let (_server, base) = server;
    let port: u16 = base.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let more = ["--http2", "--streams", "10", "-c", "2", "-n", "300"];
    let report = explain(&format!("{base}/missing"), port, &run.path().join("run"), &more);
    assert_eq!(number(&report, "/requests"), 300.0, "{report:#}");
    assert!(number(&report, "/joined_fraction") >= 0.99, "{:#}", report["unjoinable"]);
    assert!(report["unjoinable"]["http2"].is_null(), "{:#}", report["unjoinable"]);
}
