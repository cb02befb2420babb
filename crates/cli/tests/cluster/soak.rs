//! Moves of downloads whose clients are far away: with a round trip, and with loss. A few in each run of the tests;
//! `make soak-moves` makes as many as it is asked for.

use crate::stand::{PATIENCE, SERVICE, Stand};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_testkit::browser::Browser;
use weir_testkit::slow_link::Conditions;

/// Moves over all conditions together, in place of a few.
const MOVES: &str = "WEIR_SOAK_MOVES";
/// Names of clients, the port of the service that they ask, and their options.
const CLIENTS: [(&str, u16, &[&str]); 5] = [
    ("curl, HTTP/1.1", 80, &["--http1.1"]),
    ("curl, HTTP/1.1 over TLS", 443, &["--http1.1"]),
    ("curl, HTTP/2 over TLS", 443, &["--http2"]),
    ("curl, HTTP/2 in the clear", 80, &["--http2-prior-knowledge"]),
    ("Python, HTTP/1.1 over TLS", 443, &[]),
];
/// What a client in Python does: it reads at a rate, from a port.
const PYTHON: &str = "
import http.client, socket, ssl, sys, time
port, host, name, got, rate = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
client = http.client.HTTPSConnection(host, source_address=('', port), context=context, timeout=60)
client.request('GET', name)
answer, begun, read = client.getresponse(), time.monotonic(), 0
with open(got, 'wb') as file:
    while piece := answer.read(16384):
        file.write(piece)
        read += len(piece)
        time.sleep(max(0, read / rate - (time.monotonic() - begun)))
";
/// What a page in a browser does: it reads at a rate, looks at each byte, and counts those that are wrong.
const PAGE: &str = "<!doctype html><title>A download</title><script>
window.read = 0;
window.outcome = null;
async function download(name, rate) {
    const reader = (await fetch(name, {cache: 'no-store'})).body.getReader();
    const begun = performance.now();
    let at = 0, wrong = 0;
    for (;;) {
        const {done, value} = await reader.read();
        if (done) break;
        for (const byte of value) {
            if (byte !== Math.imul(at, 2654435761) >>> 24) wrong++;
            at++;
        }
        const early = at / rate * 1000 - (performance.now() - begun);
        if (early > 0) await new Promise(go => setTimeout(go, early));
    }
    window.outcome = {at, wrong};
}
</script>";

/// What came of all moves.
#[derive(Default)]
struct Outcome {
    moves: AtomicU64,
    downloads: AtomicU64,
    ports: AtomicU64,
    refusals: Mutex<BTreeMap<String, u64>>,
    /// How long each session stood still, in milliseconds.
    freezes: Mutex<Vec<f64>>,
}

/// How long the session stood still, as `weir cluster move` says it.
pub(crate) fn freeze_ms(told: &str) -> f64 {
    let (_, rest) = told.split_once("stood still for ").expect("it says so");
    rest.split_whitespace().next().expect("a number").parse().expect("a number")
}

/// The value that so many of a hundred are not above.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

/// Content of so many bytes.
fn content(bytes: u32) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Starts a client, which takes some six seconds.
fn start(stand: &Stand, (client, port): (usize, u16), bytes: u32) -> Child {
    let (name, service_port, options) = CLIENTS[client];
    let (got, rate) = (stand.path(&format!("got-{port}")), bytes / 6);
    let got = got.to_str().expect("is text");
    if name.starts_with("curl") {
        let scheme = if service_port == 443 { "https" } else { "http" };
        let (rate, url) = (rate.to_string(), format!("{scheme}://{SERVICE}/large.bin"));
        return stand.curl(port, &[options, &["--limit-rate", &rate, "-o", got, &url]].concat());
    }
    let mut command = Command::new("python3");
    command.args(["-c", PYTHON, &port.to_string(), SERVICE, "/large.bin", got, &rate.to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    stand.client.within(move || command.spawn().expect("Python starts"))
}

/// One download, which moves until it is over.
fn download(stand: &Stand, client: usize, content: &[u8], outcome: &Outcome) {
    // Each port once: the one before may still be known somewhere.
    let port = 20_000 + u16::try_from(outcome.ports.fetch_add(1, Ordering::Relaxed) % 40_000).expect("a port");
    let (name, service_port, _) = CLIENTS[client];
    let mut child = start(stand, (client, port), content.len() as u32);
    let (mut at, deadline) = (stand.holder(port, service_port), Instant::now() + 4 * PATIENCE);
    while child.try_wait().expect("is ours").is_none() {
        assert!(Instant::now() < deadline, "{name}: the client does not end");
        let to = at % stand.nodes.len() + 1;
        let output = stand.shift(at, to, port, service_port);
        if output.status.success() {
            at = to;
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            outcome.freezes.lock().expect("whole").push(freeze_ms(&told));
            outcome.moves.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(500));
        } else {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            let why = why.replace(&port.to_string(), "PORT");
            *outcome.refusals.lock().expect("whole").entry(why).or_default() += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let output = child.wait_with_output().expect("is ours");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let got = stand.path(&format!("got-{port}"));
    assert!(fs::read(&got).expect("is there") == content, "{name}: other bytes");
    fs::remove_file(got).expect("is ours");
    outcome.downloads.fetch_add(1, Ordering::Relaxed);
}

/// Moves under these conditions, with so many downloads at once.
fn moves_under(delay_ms: u64, loses_one_in: u64, wanted: u64, at_once: usize) {
    let conditions = Conditions { delay: Duration::from_millis(delay_ms), loses_one_in, seed: 7 };
    // What TCP brings through with a loss of one in a hundred: some 0.2 MB/s at 160 ms, ten times as much at 20 ms.
    let bytes = if loses_one_in > 0 && delay_ms > 0 { 600_000 } else { 6_000_000 };
    let content = content(bytes);
    let stand = Stand::far(3, &[("large.bin", &content)], conditions);
    let (outcome, begun) = (Outcome::default(), Instant::now());
    std::thread::scope(|scope| {
        for lane in 0..at_once {
            let (stand, content, outcome) = (&stand, &content, &outcome);
            scope.spawn(move || {
                for turn in lane.. {
                    download(stand, turn % CLIENTS.len(), content, outcome);
                    if outcome.moves.load(Ordering::Relaxed) >= wanted {
                        return;
                    }
                }
            });
        }
    });
    let frames = stand.link.as_ref().expect("is far away").frames();
    let (moves, downloads) = (outcome.moves.load(Ordering::Relaxed), outcome.downloads.load(Ordering::Relaxed));
    eprintln!(
        "round trip {} ms, one in {loses_one_in} lost: {moves} moves of {downloads} downloads in {:.0?}, all bytes right; \
         {} frames passed, {} lost, {} dropped",
        2 * delay_ms,
        begun.elapsed(),
        frames.passed.load(Ordering::Relaxed),
        frames.lost.load(Ordering::Relaxed),
        frames.dropped.load(Ordering::Relaxed)
    );
    let mut freezes = outcome.freezes.into_inner().expect("whole");
    freezes.sort_by(f64::total_cmp);
    let [half, most, all] = [50, 99, 100].map(|percent| percentile(&freezes, percent));
    eprintln!(
        "  stood still for {half:.2} ms (p50), {most:.2} ms (p99), {all:.2} ms at most, on this machine as it was"
    );
    for (why, times) in outcome.refusals.into_inner().expect("whole") {
        eprintln!("  {times} times: {}", why.trim_end());
    }
    assert!(moves >= wanted, "{moves} moves");
}

#[test]
fn downloads_move_while_their_clients_are_far_away_and_packets_are_lost() {
    if weir_testkit::require::root_and_bpf().is_none() || weir_testkit::require::program("python3").is_none() {
        return;
    }
    let Some(moves) = std::env::var(MOVES).ok() else {
        return moves_under(10, 100, 10, CLIENTS.len());
    };
    let moves: u64 = moves.parse().expect("WEIR_SOAK_MOVES is a number of moves");
    let conditions = [(0, 0), (0, 100), (10, 0), (10, 100), (40, 0), (40, 100)];
    for (delay_ms, loses_one_in) in conditions {
        moves_under(delay_ms, loses_one_in, moves.div_ceil(conditions.len() as u64), 4 * CLIENTS.len());
    }
}

/// Moves the connections of a browser with this service while it downloads once, and says how often.
fn browser_moves(stand: &Stand, browser: &mut Browser, (scheme, service_port): (&str, u16), bytes: usize) -> u64 {
    browser.open(&format!("{scheme}://{SERVICE}/page.html"));
    browser.value(&format!("void download('/large.bin', {})", bytes / 6));
    let (mut moves, deadline) = (0, Instant::now() + 4 * PATIENCE);
    while browser.value("window.outcome").is_null() {
        assert!(Instant::now() < deadline, "{scheme}: the download does not end");
        // A browser keeps connections that it does not use; they move as well.
        for (node, port) in stand.holders(service_port) {
            let to = node % stand.nodes.len() + 1;
            moves += u64::from(stand.shift(node, to, port, service_port).status.success());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(browser.value("window.outcome.at"), bytes, "{scheme}");
    assert_eq!(browser.value("window.outcome.wrong"), 0, "{scheme}: wrong bytes");
    moves
}

#[test]
#[ignore = "make soak-moves runs it: it takes minutes"]
fn a_browsers_downloads_move() {
    if weir_testkit::require::root_and_bpf().is_none() || weir_testkit::require::browser().is_none() {
        return;
    }
    let wanted: u64 = std::env::var(MOVES).map_or(40, |moves| moves.parse().expect("a number of moves")) / 20;
    let content = content(6_000_000);
    for (delay_ms, loses_one_in) in [(0, 0), (10, 0), (40, 0)] {
        let conditions = Conditions { delay: Duration::from_millis(delay_ms), loses_one_in, seed: 7 };
        let stand = Stand::far(3, &[("large.bin", &content), ("page.html", PAGE.as_bytes())], conditions);
        for way in [("http", 80), ("https", 443)] {
            let mut browser = stand.client.within(Browser::start);
            browser.take_any_certificate();
            let (mut moves, mut downloads) = (0, 0);
            while moves < wanted.div_ceil(6) {
                moves += browser_moves(&stand, &mut browser, way, content.len());
                downloads += 1;
            }
            eprintln!(
                "Chromium, {}, round trip {} ms: {moves} moves of {downloads} downloads, all bytes right",
                way.0,
                2 * delay_ms
            );
        }
    }
}
