//! What is recorded of HTTP/2 at a real server, in the clear and over TLS: each stream with its times and its name, from a
//! client that is no part of weir. What stays open is told with its messages.
// scripts/test: serves

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_capture::http2::{HeadTraces, Streams};
use weir_capture::user_probes::Programs;
use weir_capture::{EventSource, Probes, Recorder, Target, tree};
use weir_testkit::{Certificate, Nginx, Place, Program, RunningServer, require};
use weir_timeline::{Bounds, Exchanges, Joiner, LongKind, LongLived, Response, Statistics};
use weir_trace::{Limits, Run, RunReader};
use weir_wire::Kind;

const REQUESTS: u64 = 3000;

/// Records a server while `load` runs; how many responses had this name and status, and what was counted.
fn recorded(server: &RunningServer, load: &mut Command) -> (u64, Exchanges) {
    let (names, statistics) = explained(server, load);
    let named = names.iter().filter(|name| *name == "200 GET /1k.txt").count() as u64;
    (named, statistics.exchanges)
}

/// The same; status and name of each response, and what was counted.
fn explained(server: &RunningServer, load: &mut Command) -> (Vec<String>, Statistics) {
    let (names, statistics, _) = with_parts(server, load);
    (names, statistics)
}

/// The same; and what all responses had of each part, nanoseconds.
fn with_parts(server: &RunningServer, load: &mut Command) -> (Vec<String>, Statistics, BTreeMap<&'static str, u64>) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = Run::create(folder.path()).expect("a run");
    let mut probes = Probes::load().expect("probes");
    let target = Target::of_pid(server.pid()).expect("it runs");
    let streams = Streams::load(&mut probes, &Programs::of(tree(server.pid())), false, HeadTraces::Left)
        .expect("the source of streams");
    eprintln!("{:?}", streams.notes());
    let sources: Vec<Box<dyn EventSource>> = vec![Box::new(streams)];
    let recorder = Recorder::start_with(probes, sources, &target, &run, Limits::default()).expect("a recording");
    std::thread::sleep(Duration::from_millis(100));
    assert!(load.stdout(Stdio::null()).status().expect("the client runs").success());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(recorder.finish(Vec::new()).expect("a whole run").lost, 0);
    let (mut names, mut parts) = (Vec::new(), BTreeMap::new());
    let mut take = |_: &Joiner, one: &Response<'_>| {
        if one.unjoinable.is_none() && one.request.stream != 0 {
            let sum: u64 = one.steps.iter().map(|step| step.to_ns - step.from_ns).sum();
            assert_eq!(sum, one.time_ns());
        }
        for step in one.steps {
            *parts.entry(step.part.name()).or_insert(0) += step.to_ns - step.from_ns;
        }
        names.push(format!("{} {}", one.request.status, one.name));
    };
    let mut joiner = Joiner::of_server(Bounds::default(), &[]);
    RunReader::open(folder.path()).expect("the run").merge().each(|sourced| {
        let probed = [Kind::ProbeHit as u16, Kind::ProbeText as u16].contains(&sourced.record.kind);
        let name = sourced.name(sourced.record.b as u32).filter(|_| probed);
        joiner.push(&sourced.record, sourced.payload, name, &mut take);
        true
    });
    joiner.finish(&mut take);
    let statistics = joiner.statistics();
    eprintln!("{} responses, {:?}, {:?}", names.len(), statistics.exchanges, statistics.unjoinable);
    (names, statistics, parts)
}

#[test]
fn streams_are_told_apart_and_named() {
    if require::socket_tracepoints().and_then(|()| require::nginx()).and_then(|()| require::program("h2load")).is_none()
    {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    for server in [Nginx::new().http2(), Nginx::new().tls(&certificate).http2()] {
        let server = server.start().expect("nginx starts");
        let mut load = Command::new("h2load");
        load.args(["-c", "4", "-m", "16", "-n", &REQUESTS.to_string(), &server.url("/1k.txt?token=secret")]);
        let (named, exchanges) = recorded(&server, &mut load);
        assert!(1000 * exchanges.streams >= 999 * REQUESTS && exchanges.streams <= REQUESTS, "{exchanges:?}");
        assert!(1000 * named >= 999 * REQUESTS, "{named}");
        assert_eq!(exchanges.http2, 0, "{exchanges:?}");
    }
}

/// Messages that a WebSocket carries each way: half of them of 20 bytes, half of 300.
const MESSAGES: u64 = 60;

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// A server whose responses stay open.
fn open_server(tls: Option<&Certificate>) -> RunningServer {
    let files = tls.map(|made| [made.certificate().to_owned(), made.key().to_owned()]);
    let program = Program::new(move |place: Place<'_>| {
        let mut command = Command::new("node");
        command.arg(case("messages.js")).arg(place.port.to_string()).args(files.iter().flatten());
        Ok(command)
    });
    match tls {
        Some(made) => program.tls(made).start().expect("the server starts"),
        None => program.start().expect("the server starts"),
    }
}

/// What is told of one kind, which is to be all.
fn only(statistics: &Statistics, kind: LongKind) -> &LongLived {
    let [one] = statistics.long_lived.as_slice() else { panic!("{:?}", statistics.long_lived) };
    assert_eq!((one.kind, one.count, one.open), (kind, 1, 0), "{one:?}");
    one
}

#[test]
fn messages_of_a_websocket_are_told_in_the_clear_and_over_tls() {
    let has = require::socket_tracepoints().and_then(|()| require::program("node"));
    if has.and_then(|()| require::program("python3")).is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    // By the first response of a connection, and by a later one.
    for (tls, earlier) in [(None, 0), (Some(&certificate), 0), (None, 3), (Some(&certificate), 3)] {
        let server = open_server(tls);
        let how = if tls.is_some() { "tls" } else { "clear" };
        let mut client = Command::new("python3");
        client.arg(case("messages.py")).args([&server.port.to_string(), how]);
        client.args([MESSAGES, earlier].map(|number| number.to_string()));
        let (responses, statistics) = explained(&server, &mut client);
        let told = only(&statistics, LongKind::WebSocket);
        eprintln!("{how}: {told:?} {responses:?}");
        for way in [told.received, told.sent] {
            assert_eq!(
                (way.count, way.bytes, way.betweens),
                (MESSAGES, MESSAGES * 160, MESSAGES - 1),
                "{how}: {way:?}"
            );
        }
        // Node answers each by itself, before it takes anything else.
        assert_eq!(told.answered, MESSAGES, "{how}: {told:?}");
        assert!(told.answer_ns > 0 && told.answer_ns < told.lasted_ns, "{how}: {told:?}");
        // The upgrade is a response, over TLS with its name; the messages are none.
        // A first request over TLS may be so short that it passes for the handshake's end.
        assert!((earlier.max(1)..=earlier + 2).contains(&(responses.len() as u64)), "{how}: {responses:?}");
        assert!(tls.is_none() || &*told.name == "GET /talk", "{how}: {told:?}");
    }
}

#[test]
fn events_are_told_beside_short_responses() {
    let has = require::socket_tracepoints().and_then(|()| require::program("node"));
    if has.and_then(|()| require::program("curl")).is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    let server = open_server(Some(&certificate));
    let mut client = Command::new("curl");
    client.args(["-s", "--http2", "--insecure", "-Z"]);
    for path in ["/short", "/events", "/short", "/short"] {
        client.args(["-o", "/dev/null"]).arg(server.url(path));
    }
    let (responses, statistics) = explained(&server, &mut client);
    let told = only(&statistics, LongKind::Events);
    assert_eq!((&*told.name, told.sent.count, told.received.count), ("GET /events", 10, 0), "{told:?}");
    let between_ms = told.sent.between_ns / told.sent.betweens / 1_000_000;
    assert!((15..200).contains(&between_ms), "{between_ms} ms between events that are 20 apart");
    assert_eq!(responses, ["200 GET /short"; 3]);
}

/// Over HTTP/1.1 an event is known by its form, as the head is not read.
#[test]
fn events_over_http1_are_told_in_the_clear_and_over_tls() {
    let has = require::socket_tracepoints().and_then(|()| require::program("node"));
    if has.and_then(|()| require::program("curl")).is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    for tls in [None, Some(&certificate)] {
        let server = open_server(tls);
        let mut client = Command::new("curl");
        client.args(["-s", "--http1.1", "--insecure"]);
        for path in ["/short", "/events?token=secret", "/short"] {
            client.args(["-o", "/dev/null"]).arg(server.url(path));
        }
        let (responses, statistics) = explained(&server, &mut client);
        let told = only(&statistics, LongKind::Events);
        // The first one goes out with the head, in one piece.
        assert_eq!((told.sent.count, told.sent.betweens, told.received.count), (9, 8, 0), "{told:?}");
        let between_ms = told.sent.between_ns / told.sent.betweens / 1_000_000;
        assert!((15..200).contains(&between_ms), "{between_ms} ms between events that are 20 apart");
        assert_eq!(responses.len(), 2, "{responses:?}");
        assert!(tls.is_none() || &*told.name == "GET /events", "{told:?}");
    }
}

/// By extended CONNECT (RFC 8441): pings, pongs and the close are no messages, and a refusal is a response.
#[test]
fn messages_of_a_websocket_over_http2_are_told() {
    if require::socket_tracepoints().and_then(|()| require::program("node")).is_none() {
        return;
    }
    let certificate = Certificate::self_signed().expect("openssl makes a certificate");
    let server = open_server(Some(&certificate));
    let mut client = Command::new("node");
    client.arg(case("talk.js")).args([server.port.to_string(), MESSAGES.to_string()]);
    let (responses, statistics) = explained(&server, &mut client);
    let told = only(&statistics, LongKind::WebSocket);
    assert_eq!(&*told.name, "CONNECT /talk");
    assert_eq!([told.received.count, told.sent.count], [MESSAGES; 2], "{told:?}");
    // What came before the first stream is one more, where the client sent its preface with the handshake's end.
    let named: Vec<&String> = responses.iter().filter(|name| name.contains("CONNECT")).collect();
    assert_eq!(named, ["404 CONNECT /nothing"], "{responses:?}");
}

/// Requests over two connections of MPTCP, each answered after some milliseconds with more than one packet.
const MPTCP_REQUESTS: usize = 60;

/// Whether this kernel speaks MPTCP and tells how much of a connection a program has taken.
fn mptcp() -> Option<()> {
    require::socket_tracepoints()?;
    require::program("python3")?;
    let speaks = std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|text| text.trim() == "1");
    require::or_skip(speaks, "this kernel speaks no MPTCP")?;
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let told = types.windows(15).any(|window| window == b"\0bytes_consumed");
    require::or_skip(told, "this kernel does not tell what was taken of a connection of MPTCP")
}

/// A connection of MPTCP is counted by the numbers of its data, not of the connections that carry it.
#[test]
fn requests_over_mptcp_are_told_with_their_parts() {
    if mptcp().is_none() {
        return;
    }
    let program = Program::new(|place: Place<'_>| {
        let mut command = Command::new("python3");
        command.arg(case("mptcp.py")).args(["serve", &place.port.to_string()]);
        Ok(command)
    });
    let server = program.start().expect("the server starts");
    let mut client = Command::new("python3");
    client.arg(case("mptcp.py")).args(["ask", &server.port.to_string(), &MPTCP_REQUESTS.to_string()]);
    let (responses, statistics, parts) = with_parts(&server, &mut client);
    assert_eq!(responses.len(), MPTCP_REQUESTS, "{:?}", statistics.exchanges);
    assert_eq!((statistics.requests, statistics.joined), (MPTCP_REQUESTS as u64, MPTCP_REQUESTS as u64));
    let of = |part: &str| parts.get(part).copied().unwrap_or(0);
    assert!(of("wait_timer") / MPTCP_REQUESTS as u64 >= 3_000_000, "{parts:?}");
    assert!(20 * of("unattributed") < parts.values().sum::<u64>(), "{parts:?}");
}
