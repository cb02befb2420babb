//! How a command line becomes a load, and a load a report.

use super::figures::summary;
use super::gate::Gate;
use super::heading::Heading;
use super::json::as_json;
use super::{Args, Usage, screen};
use clap::Parser;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::Duration;
use weir_load::{Control, Options, Protocol, Schedule, StopRule, Trust};

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn options(arguments: &[&str]) -> Result<Options, String> {
    let cli = Cli::try_parse_from([&["load"], arguments].concat()).map_err(|error| error.to_string())?;
    cli.args.load.options(cli.args.url.as_deref()).map_err(|Usage(error)| format!("{error:#}"))
}

#[test]
fn arguments_become_options() {
    let plain = options(&["http://h/"]).expect("the least that is needed");
    assert_eq!((plain.connections, plain.stop), (10, StopRule::Duration(Duration::from_secs(10))));
    assert_eq!(plain.schedule, Schedule::Closed);
    let line =
        "-c 3 -n 7 --rate 2.5 --poisson --seed 9 -m POST -H X:y --body text --no-keepalive --insecure https://h:1/p";
    let full = options(&line.split(' ').collect::<Vec<_>>()).expect("all that there is");
    assert_eq!((full.connections, full.stop, full.keep_alive), (3, StopRule::Requests(7), false));
    assert_eq!(full.schedule, Schedule::Poisson { rate_per_s: 2.5, seed: 9 });
    assert_eq!((full.request.body.as_slice(), full.trust), (&b"text"[..], Trust::Anything));
    let both = options(&["-n", "7", "-d", "1m30s", "--cookie", "a=b; c=d;", "http://h/"]).expect("both ends of a run");
    assert_eq!(both.stop, StopRule::Either { requests: 7, time: Duration::from_secs(90) });
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(both.requests.cookies, [pair("a", "b"), pair("c", "d")]);
    let line = "--http3 --streams 4 --resume --early-data --migrate-every 2s https://h/";
    let http3 = options(&line.split(' ').collect::<Vec<_>>()).expect("all that HTTP/3 has");
    let migrate_every = Some(Duration::from_secs(2));
    assert_eq!(http3.protocol, Protocol::Http3 { streams: 4, early_data: true, migrate_every });
}

#[test]
fn mistakes_are_explained() {
    let mistake = |line: &str| options(&line.split(' ').collect::<Vec<_>>()).expect_err(line);
    assert!(mistake("localhost:80/x").contains("did you mean http://localhost:80/x?"));
    assert!(mistake("--cookie sid http://h/").contains("NAME=VALUE"));
    assert!(mistake("-m 10 http://h/").contains("a method is a word"));
    assert!(mistake("--poisson http://h/").contains("--rate"));
    assert!(mistake("--pipeline 2 --rate 1 http://h/").contains("closed loop"));
    assert!(mistake("-H nothing http://h/").contains("Name: value"));
    assert!(mistake("--streams 2 http://h/").contains("--http3"));
    assert!(mistake("--http3 --http2 https://h/").contains("--http2"));
    assert!(mistake("--early-data --resume https://h/").contains("--http3"));
    assert!(mistake("--http3 --early-data https://h/").contains("--resume"));
    assert!(mistake("--migrate-every 1s https://h/").contains("--http3"));
    assert!(mistake("--body @/no/such/file http://h/").contains("/no/such/file"));
}

/// The keys of the JSON.
const KEYS: [&str; 59] = [
    "workers",
    "ok",
    "success_rate",
    "successes",
    "successes_per_s",
    "successes_in_time",
    "unexpected",
    "objective",
    "requests_in_time",
    "abandoned",
    "interrupted",
    "took_s",
    "bytes_in_time",
    "bytes_per_s",
    "latency_unexpected_ns",
    "latency_failed_ns",
    "resent",
    "requests",
    "dropped",
    "errors",
    "stopped",
    "duration_s",
    "rate_per_s",
    "bytes",
    "status",
    "latency_ns",
    "latency_curve_ns",
    "latency_uncorrected_ns",
    "first_byte_ns",
    "connect_ns",
    "generator",
    "fairness",
    "slow_traces",
    "reconnects",
    "series",
    "sessions",
    "handshakes",
    "reasons",
    "tolerated",
    "goaways",
    "http3",
    "streamed",
    "websocket",
    "grpc",
    "mix",
    "warnings",
    "url",
    "objectives",
    "checks",
    "compared",
    "passed",
    "missed",
    "failed_checks",
    "scopes",
    "connections",
    "http_version",
    "streams",
    "rate_wanted_per_s",
    "version",
    "schema",
];

#[test]
fn the_json_has_its_keys() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("its address"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("one connection");
        assert!(stream.read(&mut [0; 1000]).expect("a request") > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("an answer");
        // Until the generator has gone, so that the second request is never an error of the connection.
        stream.read_to_end(&mut Vec::new()).expect("the end");
    });
    let mut options = options(&["-c", "1", "-n", "2", "--timeout", "200ms", &url]).expect("valid");
    options.timeout = Duration::from_millis(200);
    let heading = Heading::of(&options);
    let report = weir_load::run(options, &Control::default()).expect("a run");
    server.join().expect("no panic");
    let value = as_json(&report, &heading, Gate::default().json(&report));
    let keys: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = KEYS.to_vec();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(
        (&value["requests"], &value["errors"], &value["status"]),
        (&json!(1), &json!({"timeout": 1}), &json!({"200": 1}))
    );
    let latency = value["latency_ns"].as_object().expect("an object");
    assert_eq!(latency.len(), 8);
    assert_eq!(value["latency_curve_ns"][0], json!([0.0, latency["min"]]));
    assert!(latency["p99_9"].is_u64() && latency["mean"].is_number());
    assert_eq!(summary(&weir_load::Histogram::new(3).expect("three digits")), Value::Null);
    let screen = screen::text(&report, &heading, &Gate::default(), true, screen::Colours::of_stdout());
    assert!(screen.contains("errors     timeout: 1") && screen.contains("closed loop"), "{screen}");
}
