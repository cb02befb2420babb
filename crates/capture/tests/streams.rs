//! What is recorded of HTTP/2 at a real server, in the clear and over TLS: each stream with its times and its name, from a
//! client that is no part of weir.
// scripts/test: serves

use std::process::{Command, Stdio};
use std::time::Duration;
use weir_capture::http2::Streams;
use weir_capture::user_probes::Programs;
use weir_capture::{EventSource, Probes, Recorder, Target, tree};
use weir_testkit::{Certificate, Nginx, RunningServer, require};
use weir_timeline::{Bounds, Exchanges, Joiner, Response};
use weir_trace::{Limits, Run, RunReader};
use weir_wire::Kind;

const REQUESTS: u64 = 3000;

/// Records a server while `load` runs; how many responses had this name and status, and what was counted.
fn recorded(server: &RunningServer, load: &mut Command) -> (u64, Exchanges) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let run = Run::create(folder.path()).expect("a run");
    let probes = Probes::load().expect("probes");
    let target = Target::of_pid(server.pid()).expect("it runs");
    let streams = Streams::load(&probes, &Programs::of(tree(server.pid())), false).expect("the source of streams");
    eprintln!("{:?}", streams.notes());
    let sources: Vec<Box<dyn EventSource>> = vec![Box::new(streams)];
    let recorder = Recorder::start_with(probes, sources, &target, &run, Limits::default()).expect("a recording");
    std::thread::sleep(Duration::from_millis(100));
    assert!(load.stdout(Stdio::null()).status().expect("the client runs").success());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(recorder.finish(Vec::new()).expect("a whole run").lost, 0);
    let mut named = 0;
    let mut take = |_: &Joiner, one: &Response<'_>| {
        if one.unjoinable.is_none() && one.request.stream != 0 {
            let sum: u64 = one.steps.iter().map(|step| step.to_ns - step.from_ns).sum();
            assert_eq!(sum, one.time_ns());
        }
        named += u64::from(one.name == "GET /1k.txt" && one.request.status == 200);
    };
    let mut joiner = Joiner::of_server(Bounds::default(), &[]);
    RunReader::open(folder.path()).expect("the run").merge().each(|sourced| {
        let probed = [Kind::ProbeHit as u16, Kind::ProbeText as u16].contains(&sourced.record.kind);
        let name = sourced.name(sourced.record.b as u32).filter(|_| probed);
        joiner.push(&sourced.record, sourced.payload, name, &mut take);
        true
    });
    joiner.finish(&mut take);
    let exchanges = joiner.statistics().exchanges;
    eprintln!("{named} named, {exchanges:?}, {:?}", joiner.statistics().unjoinable);
    (named, exchanges)
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
