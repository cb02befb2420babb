//! HTTP/3 against other implementations: aioquic for each frame, each error and whole files, Chromium as a browser.
// scripts/test: serves

mod harness;

use harness::{Site, certificate, wait_until};
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use weir_server::{Options, Server};
use weir_testkit::require;

fn run(program: &Path, arguments: &[&str]) -> Output {
    let output = Command::new("timeout").arg("240").arg(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{}: {error}; `make deps` installs what the tests need", program.display()))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn script(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http3_cases").join(name);
    path.into_os_string().into_string().expect("UTF-8")
}

/// A site that speaks HTTP/3 at its port, with files of every size.
fn site(change: impl FnOnce(&mut Options)) -> Site {
    let large: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    let huge: Vec<u8> = (0..700_000_u32).map(|i| (i % 253) as u8).collect();
    let files: &[(&str, &[u8])] = &[("a.txt", b"hello"), ("empty", b""), ("large.bin", &large), ("huge.bin", &huge)];
    Site::start(files, |options| {
        // Beside the directory that is served.
        let directory = options.root.with_extension("certificates");
        std::fs::create_dir_all(&directory).expect("creates");
        options.certificates = vec![certificate::make(&directory, "localhost", &["localhost"])];
        options.http3 = true;
        change(options);
    })
}

/// Asks for files by aioquic.
fn ask(python: &Path, site: &Site, more: &[&str]) -> String {
    let (client, port) = (script("client.py"), site.quic[0].port().to_string());
    let root = site.directory.path().to_str().expect("UTF-8");
    let output = run(python, &[&[client.as_str(), &port, root], more].concat());
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn every_frame_and_every_error_is_as_the_standard_has_it() {
    let Some(python) = require::aioquic() else { return };
    let site = site(|_| {});
    let output = run(&python, &[&script("frames.py"), &site.quic[0].port().to_string()]);
    assert!(output.status.success(), "{}", text(&output));
    let counts = site.stop();
    assert!(counts.http3_errors > 50 && counts.http3_abuses == 6, "{counts:?}");
    assert_eq!((counts.tls_failed, counts.stop_aborted), (0, 0), "{counts:?}");
}

#[test]
fn files_of_every_size_arrive_whole_in_every_loop() {
    let Some(python) = require::aioquic() else { return };
    let site = site(|options| {
        options.loops = 3;
        // So that one file is sent from memory and one from its descriptor.
        options.cached_file_bytes_max = 300_000;
    });
    for _ in 0..6 {
        let told = ask(&python, &site, &["a.txt", "empty", "large.bin", "huge.bin", "a.txt"]);
        assert_eq!(told, "5 answers\n");
    }
    assert_eq!(ask(&python, &site, &["a.txt", "large.bin", "--times", "50"]), "100 answers\n");
    let counts = site.stop();
    assert_eq!((counts.requests, counts.http3_connections, counts.connections), (130, 7, 7), "{counts:?}");
    assert_eq!((counts.http3_errors, counts.connections_broken, counts.quic_unsent), (0, 0, 0), "{counts:?}");
}

#[test]
fn clients_that_move_stay_with_their_loop() {
    let Some(python) = require::aioquic() else { return };
    let site = site(|options| options.loops = 4);
    // The script takes another port between requests, as a router would that has forgotten the client.
    let output = run(&python, &[&script("moves.py"), &site.quic[0].port().to_string()]);
    assert!(output.status.success(), "{}", text(&output));
    let counts = site.stop();
    assert_eq!((counts.http3_connections, counts.timeouts), (4, 0), "{counts:?}");
}

#[test]
fn addresses_are_shown_to_be_true_where_they_count() {
    let Some(python) = require::aioquic() else { return };
    let all = site(|options| options.limits.handshakes_max = 0);
    ask(&python, &all, &["a.txt"]);
    let counts = all.stop();
    assert_eq!((counts.quic_retries, counts.http3_connections), (1, 1), "{counts:?}");
    // With shares: no more than that, and no less.
    let shared = site(|options| options.limits.connections_per_address_max = Some(1));
    ask(&python, &shared, &["a.txt"]);
    // The client's close may still be on its way.
    wait_until(|| {
        let output = run(
            &python,
            &[
                &script("client.py"),
                &shared.quic[0].port().to_string(),
                shared.directory.path().to_str().expect("UTF-8"),
                "a.txt",
            ],
        );
        output.status.success()
    });
    let counts = shared.stop();
    assert_eq!(counts.quic_retries, counts.connections, "{counts:?}");
    assert_eq!(counts.http3_connections, counts.connections - counts.connections_refused, "{counts:?}");
}

#[test]
fn other_versions_say_that_it_is_there_and_logs_say_that_it_was_spoken() {
    let Some(python) = require::aioquic() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("access.log");
    let site = site(|options| {
        options.access_log = Some(weir_server::AccessLog::new(weir_server::LogTarget::File(log.clone())));
        options.listen_clear = vec!["127.0.0.1:0".parse().expect("an address")];
    });
    let alt_svc = format!("alt-svc: h3=\":{}\"; ma=86400", site.quic[0].port());
    for (version, scheme, addr, times) in [
        ("--http1.1", "https", site.addr, 1),
        ("--http2", "https", site.addr, 1),
        ("--http1.1", "http", site.addrs[1], 0),
    ] {
        let url = format!("{scheme}://{addr}/a.txt");
        let output = run(Path::new("curl"), &["-sSki", version, &url, &url]);
        // With the first response of a connection.
        assert_eq!(text(&output).to_lowercase().matches(&alt_svc).count(), times, "{}", text(&output));
        assert_eq!(text(&output).matches("\r\n\r\nhello").count(), 2, "{}", text(&output));
    }
    ask(&python, &site, &["a.txt", "huge.bin"]);
    site.stop();
    let lines = std::fs::read_to_string(&log).expect("a log");
    let of_http3: Vec<&str> = lines.lines().filter(|line| line.contains(" HTTP/3.0\" 200 ")).collect();
    assert_eq!(of_http3.len(), 2, "{lines}");
    assert!(of_http3.iter().any(|line| line.contains("\"GET /huge.bin HTTP/3.0\" 200 700000")), "{lines}");
}

#[test]
fn a_stop_lets_responses_end() {
    let Some(python) = require::aioquic() else { return };
    let site = site(|_| {});
    let arguments = [
        script("client.py"),
        site.quic[0].port().to_string(),
        site.directory.path().to_str().expect("UTF-8").to_owned(),
        "huge.bin".to_owned(),
        "--times".to_owned(),
        "4".to_owned(),
    ];
    let client = Command::new("timeout").arg("60").arg(python).args(arguments).spawn();
    let mut client = client.expect("it starts");
    wait_until(|| site.counters.read().bytes_sent > 100_000);
    let counts = site.stop();
    assert!(client.wait().expect("it ends").success());
    assert_eq!((counts.stop_aborted, counts.requests), (0, 4), "{counts:?}");
}

#[test]
fn a_stop_takes_no_request_from_anybody() {
    let Some(python) = require::aioquic() else { return };
    let site = site(|_| {});
    let client = Command::new("timeout")
        .arg("60")
        .arg(python)
        .args([script("farewell.py"), site.quic[0].port().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut client = client.expect("it starts");
    let (mut line, mut told) = (String::new(), String::new());
    BufReader::new(client.stdout.take().expect("piped")).read_line(&mut line).expect("it says so");
    let counts = site.stop();
    let is_well = client.wait().expect("it ends").success();
    client.stderr.take().expect("piped").read_to_string(&mut told).expect("reads");
    assert!(line == "ready\n" && is_well, "{line}{told}");
    assert_eq!((counts.stop_aborted, counts.connections_broken, counts.timeouts), (0, 0, 0), "{counts:?}");
}

#[test]
fn clients_that_go_silent_are_forgotten() {
    let Some(python) = require::aioquic() else { return };
    let site = site(|options| {
        options.timeouts.idle = Duration::from_millis(700);
        options.timeouts.stall = Duration::from_millis(700);
        options.timeouts.head = Duration::from_millis(700);
        options.timeouts.body = Duration::from_millis(700);
    });
    // One is idle, one sends half a head, one half a body, one reads nothing; one is killed.
    let output = run(&python, &[&script("silent.py"), &site.quic[0].port().to_string()]);
    assert!(output.status.success(), "{}", text(&output));
    wait_until(|| site.counters.read().timeouts == 5);
    let counts = site.stop();
    assert_eq!((counts.http3_connections, counts.http3_errors), (5, 0), "{counts:?}");
}

#[test]
fn what_is_no_quic_is_not_answered() {
    let site = site(|_| {});
    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    socket.connect(site.quic[0]).expect("connects");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("sets");
    for nonsense in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0x40; 20], &[0xc3; 5], &[0xff; 1200], &[0; 1200]] {
        socket.send(nonsense).expect("sends");
    }
    // A client of another version is told which there are, if it has said enough to deserve it.
    let mut unknown = vec![0xc0, 0xba, 0xba, 0xba, 0xba, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0];
    unknown.resize(1200, 0);
    socket.send(&unknown).expect("sends");
    let mut answer = [0; 2000];
    let mut told = 0;
    while let Ok(bytes) = socket.recv(&mut answer) {
        let is_negotiation = bytes > 5 && answer[0] & 0x80 != 0 && answer[1..5] == [0; 4];
        // What could be of a connection that is not known any more is told so, by less than was sent.
        let is_reset = bytes < 1200 && answer[0] & 0xc0 == 0x40;
        assert!(is_negotiation || is_reset, "{}", answer[..bytes].escape_ascii());
        told += u32::from(is_negotiation);
    }
    assert!((1..=2).contains(&told), "{told}");
    let counts = site.stop();
    assert_eq!((counts.connections, counts.requests), (0, 0), "{counts:?}");
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let bind = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::new(directory.path());
        options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
        options.certificates = vec![certificate::make(directory.path(), "a", &["a"])];
        change(&mut options);
        Server::bind(options)
    };
    let address = |text: &str| vec![text.parse().expect("an address")];
    let refused = |change: &dyn Fn(&mut Options)| bind(change).expect_err("refused").to_string();
    assert!(refused(&|options| options.listen_quic = address("unix:/a")).contains("no address of UDP"));
    let without = |options: &mut Options| {
        options.certificates.clear();
        options.http3 = true;
    };
    assert!(refused(&without).contains("certificate"));
    let socket = directory.path().join("socket");
    let only_unix = |options: &mut Options| {
        options.listen = address(&format!("unix:{}", socket.display()));
        options.http3 = true;
    };
    assert!(refused(&only_unix).contains("no address of UDP"));
    let other = bind(&|options| options.listen_quic = address("127.0.0.1:0")).expect("binds");
    let taken = other.quic_addrs()[0];
    assert!(refused(&|options| options.listen_quic = vec![taken.into()]).contains("is taken"));
}

#[test]
fn a_browser_speaks_it() {
    if require::browser().is_none() {
        return;
    }
    let site = site(|options| {
        let page = b"<!doctype html><title>t</title><img src=/large.bin><p id=a>from weir</p>";
        std::fs::write(options.root.join("page.html"), page).expect("writes");
    });
    let profile = tempfile::tempdir().expect("a directory");
    let origin = format!("localhost:{}", site.addr.port());
    let spki = Command::new("sh")
        .args(["-c", "openssl x509 -in \"$1\" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64", "-"])
        .arg(site.directory.path().with_extension("certificates").join("localhost.pem"))
        .output()
        .expect("openssl starts; `make deps` installs it");
    let mut child = Command::new("timeout")
        .args(["60", weir_testkit::browser::PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--enable-quic"])
        .arg(format!("--origin-to-force-quic-on={origin}"))
        .arg(format!("--ignore-certificate-errors-spki-list={}", String::from_utf8_lossy(&spki.stdout).trim()))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--host-resolver-rules=MAP localhost 127.0.0.1", "--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("https://{origin}/page.html"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut page = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut page).expect("reads");
    child.wait().expect("it ends");
    assert!(page.contains("from weir"), "{page:?}");
    let counts = site.stop();
    assert!(counts.http3_connections >= 1 && counts.requests >= 2, "{counts:?}");
    assert_eq!((counts.http2_connections, counts.http3_errors), (0, 0), "{counts:?}");
}

/// The same static probes fire in all versions of HTTP: where a request is read, where its response is sent, and where
/// it is done.
#[cfg(target_arch = "x86_64")]
#[test]
fn it_can_be_observed_where_the_others_can() {
    if require::program("readelf").and_then(|()| require::program("nm")).is_none() {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address");
    let symbols = text(&run(Path::new("nm"), &["-n", "--defined-only", program.to_str().expect("UTF-8")]));
    let symbols: Vec<(u64, &str)> = symbols
        .lines()
        .filter_map(|line| line.split_once(' ').map(|(at, rest)| (number(at), rest)))
        .filter(|(_, rest)| rest.starts_with(['t', 'T']))
        .collect();
    let notes = text(&run(Path::new("readelf"), &["-n", program.to_str().expect("UTF-8")]));
    let mut places = Vec::new();
    for note in notes.split("Provider: weir").skip(1) {
        let word = |field: &str| note.split(field).nth(1)?.split([',', '\n']).next().map(str::trim);
        let (Some(name), Some(at)) = (word("Name: "), word("Location: ").map(number)) else { continue };
        let behind = symbols.partition_point(|(start, _)| *start <= at);
        places.push((name, symbols[behind - 1].1));
    }
    // What makes datagrams of responses stands beside the protocol.
    for modules in [&["weir_server5http2"][..], &["weir_server5http3", "weir_server4quic"]] {
        for wanted in ["read", "send", "done"] {
            let is_there =
                |(name, symbol): &(&str, &str)| *name == wanted && modules.iter().any(|m| symbol.contains(m));
            assert!(places.iter().any(is_there), "{wanted} in {modules:?}: {places:?}");
        }
    }
}
