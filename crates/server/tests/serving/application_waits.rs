//! Requests of applications that wait for a place, or whose clients leave or are held back, over HTTP/2 and HTTP/3.

use crate::applications::{CLEAR, secure, serve};
use crate::harness;

use harness::{Site, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_server::Throttle;

/// How long something may take on a busy machine that comes at once.
const SOON: Duration = Duration::from_secs(10);
/// The most that the server keeps of a request's trailers.
const TRAILER_BYTES_MAX: usize = 8 << 10;

/// The client of a version with its port, where there is one.
fn client_of(version: &str, site: &Site) -> Option<(PathBuf, u16)> {
    match version {
        "h3" => Some((weir_testkit::require::aioquic()?, site.quic[0].port())),
        _ => Some((PathBuf::from("/usr/bin/python3"), site.addrs[CLEAR].port())),
    }
}

/// Starts a client of this version with these words, where there is one.
fn ask(version: &str, site: &Site, words: &[&str]) -> Option<Child> {
    let (python, port) = client_of(version, site)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/application_cases/ask.py");
    let mut command = Command::new("timeout");
    command.arg("60").arg(python).arg(script).args([version, &port.to_string()]).args(words);
    Some(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
}

fn ends_well(client: Child) {
    let output = client.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A request that is under way until the rest of its body is sent.
fn hold(site: &Site) -> TcpStream {
    let mut stream = harness::connect(site.addrs[CLEAR]);
    stream.write_all(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel").expect("sends");
    // Its response begins at once.
    let mut byte = [0];
    std::io::Read::read_exact(&mut stream, &mut byte).expect("it is answered");
    stream
}

/// Serves with one place for all requests of these paths.
fn one_at_a_time(paths: &'static str) -> (Site, impl Fn() -> u64) {
    let (site, _, begun) = serve(|options| {
        secure(options);
        options.throttles = vec![Throttle::new(paths, 1, 5, 60_000).expect("small enough")];
    });
    (site, move || begun.load(Ordering::Relaxed))
}

#[test]
fn trailers_of_a_request_that_waits_for_a_place_reach_its_application() {
    for version in ["h2", "h3"] {
        let (site, _) = one_at_a_time("/echo**");
        let mut held = hold(&site);
        let Some(client) = ask(version, &site, &["echo"]) else { continue };
        wait_until(|| site.counters.read().throttle_queued == 1);
        // What is behind the head has come as well.
        std::thread::sleep(Duration::from_millis(100));
        held.write_all(b"lo").expect("sends");
        ends_well(client);
        let counts = site.stop();
        assert_eq!((counts.applications, counts.applications_cancelled), (2, 0), "{version}: {counts:?}");
        assert_eq!((counts.throttle_queued, counts.throttle_refused, counts.throttle_gone), (1, 0, 0), "{version}");
    }
}

#[test]
fn a_request_that_waits_with_too_large_trailers_is_reset_and_gives_its_place_back() {
    // ENHANCE_YOUR_CALM, H3_EXCESSIVE_LOAD.
    for (version, code) in [("h2", "11"), ("h3", "263")] {
        let (site, _) = one_at_a_time("/echo**");
        let mut held = hold(&site);
        let bytes = TRAILER_BYTES_MAX.to_string();
        // Over HTTP/3 what does not come with the head is not read before the request has its turn.
        let Some(client) = ask(version, &site, &["large", &bytes, code]) else { continue };
        wait_until(|| site.counters.read().throttle_queued == 1);
        if version == "h2" {
            wait_until(|| site.counters.read().throttle_gone == 1);
        }
        held.write_all(b"lo").expect("sends");
        ends_well(client);
        assert_eq!(site.stop().throttle_refused, 0);
    }
}

#[test]
fn a_wake_reaches_a_request_that_has_waited_for_a_place() {
    for version in ["h2", "h3"] {
        let (site, begun) = one_at_a_time("/**");
        let mut held = hold(&site);
        let Some(client) = ask(version, &site, &["wait"]) else { continue };
        wait_until(|| site.counters.read().throttle_queued == 1);
        assert_eq!(begun(), 0, "the application begins with the place");
        held.write_all(b"lo").expect("sends");
        let freed = Instant::now();
        ends_well(client);
        let waited = freed.elapsed();
        assert!(waited >= Duration::from_millis(300) && waited < SOON, "{version}: {waited:?}");
        assert_eq!((begun(), site.stop().applications_cancelled), (1, 0));
    }
}

#[test]
fn the_window_of_http3_opens_again_as_an_application_takes_a_body_slowly() {
    let (site, ..) = serve(secure);
    let Some(client) = ask("h3", &site, &["sip", "400000"]) else { return };
    ends_well(client);
    let counts = site.stop();
    assert_eq!((counts.applications, counts.applications_failed, counts.applications_cancelled), (1, 0, 0));
    assert_eq!((counts.http3_errors, counts.timeouts), (0, 0), "{counts:?}");
}

#[test]
fn a_client_of_http3_that_leaves_while_its_body_is_not_taken_cancels_at_once() {
    for how in ["reset", "stop"] {
        let (site, dropped, begun) = serve(secure);
        let Some(mut client) = ask("h3", &site, &[how, "500000"]) else { return };
        let mut line = String::new();
        BufReader::new(client.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
        let left = Instant::now();
        assert_eq!((&*line, begun.load(Ordering::Relaxed)), ("taken back\n", 1), "{how}");
        wait_until(|| dropped.load(Ordering::Relaxed) == 1);
        assert!(left.elapsed() < Duration::from_secs(2), "{how}: {:?}", left.elapsed());
        assert_eq!(site.counters.read().applications_cancelled, 1);
        drop(client.stdin.take());
        ends_well(client);
    }
}

#[test]
fn the_first_response_over_http2_names_http3_also_if_an_application_gives_it() {
    let (site, ..) = serve(secure);
    for (first, second) in [("wait/20", "a.txt"), ("break/early", "wait/0"), ("a.txt", "wait/0")] {
        let url = |path: &str| format!("https://{}/{path}", site.addr);
        let output = Command::new("timeout")
            .args(["30", "curl", "-sSk", "--http2", "-D", "-", "-o", "/dev/null", &url(first), "-o", "/dev/null"])
            .arg(url(second))
            .output()
            .expect("curl");
        let told = String::from_utf8_lossy(&output.stdout);
        let heads: Vec<&str> = told.split("\r\n\r\n").collect();
        assert!(heads.len() == 3 && heads[1].starts_with("HTTP/2 200"), "{told}");
        assert!(heads[0].contains("\r\nalt-svc: h3=\":"), "{first}: {told}");
        assert!(!heads[1].contains("alt-svc"), "{second}: {told}");
    }
}
