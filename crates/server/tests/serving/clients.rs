//! Other projects' clients, all of them against one server: curl, nghttp, ab, wrk, h2load and Chromium, one after the
//! other and at once.

use crate::harness;

use harness::{Site, certificate};
use std::process::{Command, Output, Stdio};

struct Both {
    site: Site,
    _certificates: tempfile::TempDir,
}

impl Both {
    fn start() -> Self {
        let certificates = tempfile::tempdir().expect("a directory");
        let large: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        let files: &[(&str, &[u8])] =
            &[("a.txt", b"hello"), ("large.bin", &large), ("list/b & c.txt", b"b"), ("list/inner/d.txt", b"d")];
        let site = Site::start(files, |options| {
            options.loops = 2;
            options.certificates = vec![certificate::make(certificates.path(), "a", &["localhost"])];
            options.listen_clear = vec!["127.0.0.1:0".parse().expect("an address")];
        });
        Self { site, _certificates: certificates }
    }

    /// The server in the clear and over TLS.
    fn urls(&self) -> [String; 2] {
        [
            format!("http://127.0.0.1:{}", self.site.addrs[1].port()),
            format!("https://127.0.0.1:{}", self.site.addr.port()),
        ]
    }
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg("120").arg(program).args(arguments);
    command
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = command(program, arguments).output();
    let output: Output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?} ({}; `make deps` installs it): {told}", output.status);
    told
}

#[test]
fn each_client_gets_what_it_asks_for() {
    let both = Both::start();
    for url in both.urls() {
        let (small, large) = (format!("{url}/a.txt"), format!("{url}/large.bin"));
        for version in ["--http1.0", "--http1.1", "--http2"] {
            assert_eq!(run("curl", &["-sSfk", version, &small]), "hello", "{version}");
        }
        assert!(run("nghttp", &["-nv", "--no-verify-peer", &small]).contains(":status: 200"));
        for (url, more) in [(&small, &[][..]), (&large, &["-k"][..])] {
            let arguments = [&["-q", "-n", "400", "-c", "10"], more, &[url.as_str()]].concat();
            let told = run("ab", &arguments);
            assert!(told.contains("Complete requests:      400\nFailed requests:        0\n"), "{told}");
            assert!(!told.contains("Non-2xx"), "{told}");
        }
        let told = run("wrk", &["-t", "1", "-c", "10", "-d", "1s", &small]);
        assert!(told.contains("requests in") && !told.contains("Non-2xx") && !told.contains("Socket errors"), "{told}");
        for arguments in [&["-n", "2000", "-c", "10", "-m", "10"][..], &["-n", "500", "-c", "5", "--h1"]] {
            let told = run("h2load", &[arguments, &[&small, &large]].concat());
            assert!(told.contains(" 0 failed, 0 errored, 0 timeout"), "{told}");
        }
    }
    let counts = both.site.stop();
    // wrk goes away in the middle of its last responses.
    assert!(counts.connections_broken <= 20, "{counts:?}");
    assert_eq!((counts.server_errors, counts.client_errors, counts.http2_errors, counts.http2_abuses), (0, 0, 0, 0));
    assert!(counts.http2_connections > 20 && counts.tls_handshakes > 20, "{counts:?}");
}

#[test]
fn a_browser_shows_a_listing_over_http_2() {
    let both = Both::start();
    let profile = tempfile::tempdir().expect("a directory");
    let url = format!("{}/list/", both.urls()[1]);
    let data = format!("--user-data-dir={}", profile.path().display());
    let output = command("/usr/bin/chromium", &["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"])
        .args(["--ignore-certificate-errors", "--dump-dom", &data, &url])
        .stderr(Stdio::null())
        .output()
        .expect("chromium starts; `make deps` installs it");
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(page.contains("<h1>/list/</h1>") && page.contains("href=\"./inner/\""), "{page}");
    assert!(page.contains("href=\"./b%20%26%20c.txt\">b &amp; c.txt<"), "{page}");
    let counts = both.site.stop();
    assert!(counts.http2_connections >= 1, "{counts:?}");
    // The page, and its style.
    assert!(counts.requests >= 2, "{counts:?}");
    assert_eq!((counts.http2_errors, counts.http2_abuses), (0, 0), "{counts:?}");
}

#[test]
fn clients_of_every_kind_at_once() {
    let both = Both::start();
    let [clear, secure] = both.urls().map(|url| format!("{url}/large.bin"));
    let started: Vec<_> = [
        ("ab", &["-q", "-n", "500", "-c", "8", "-k", &clear][..], "Failed requests:        0\n"),
        ("ab", &["-q", "-n", "200", "-c", "8", &secure], "Failed requests:        0\n"),
        ("wrk", &["-t", "1", "-c", "8", "-d", "3s", &clear], "requests in"),
        ("wrk", &["-t", "1", "-c", "8", "-d", "3s", &secure], "requests in"),
        ("h2load", &["-n", "1000", "-c", "8", "-m", "8", &clear], "1000 succeeded, 0 failed, 0 errored, 0 timeout"),
        ("h2load", &["-n", "1000", "-c", "8", "-m", "8", &secure], "1000 succeeded, 0 failed, 0 errored, 0 timeout"),
    ]
    .into_iter()
    .map(|(program, arguments, expected)| {
        let child = command(program, arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        (program, child.expect("it starts"), expected)
    })
    .collect();
    for (program, child, expected) in started {
        let told = child.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&told.stdout);
        assert!(
            told.contains(expected) && !told.contains("Socket errors") && !told.contains("Non-2xx"),
            "{program}: {told}"
        );
    }
    let counts = both.site.stop();
    assert_eq!((counts.server_errors, counts.http2_errors, counts.http2_abuses), (0, 0, 0), "{counts:?}");
}
