//! gRPC at a real server, in the clear and over TLS: methods and statuses, and the messages of calls that stream.
//! `make test-grpc` builds the server and its client beside the tests (google.golang.org/grpc with its own services of
//! health and reflection).

use crate::check;
use crate::servers::{certificate, watched_whole};
use crate::support::{alone, number};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testkit::{Certificate, Place, Program, RunningServer, require};

const CALLS: u32 = 1600;
const METHOD: &str = "gRPC /grpc.health.v1.Health/Check";
/// Messages that the client of a call which streams waits for.
const MESSAGES: u32 = 40;

fn built() -> Option<PathBuf> {
    require::root_and_bpf()?;
    require::program("openssl")?;
    let tests = std::env::current_exe().ok()?;
    let built = tests.ancestors().nth(1)?.join("streams-grpc");
    require::or_skip(built.is_file(), "the server of gRPC is not built (make test-grpc)")?;
    Some(built)
}

fn served(built: &Path, tls: Option<&Certificate>) -> RunningServer {
    let (program, files) = (built.to_owned(), tls.map(|made| [made.certificate().to_owned(), made.key().to_owned()]));
    let server = Program::new(move |Place { port, .. }| {
        let mut command = Command::new(&program);
        command.arg("serve").arg(port.to_string()).args(files.iter().flatten());
        Ok(command)
    });
    server.start().expect("the server starts")
}

/// What is told of the server while its client does something so many times.
fn told(built: &Path, server: &RunningServer, tls: Option<&Certificate>, what: &str, count: u32) -> Value {
    watched_whole(server.port, || {
        let mut load = Command::new(built);
        load.arg(what).arg(server.port.to_string()).arg(count.to_string());
        load.args(tls.map(Certificate::certificate));
        load
    })
}

fn how(tls: Option<&Certificate>) -> &'static str {
    if tls.is_some() { "gRPC over TLS" } else { "gRPC in the clear" }
}

#[test]
fn methods_and_statuses_of_grpc_are_told() {
    let _turn = alone();
    let Some(built) = built() else { return };
    let made = certificate();
    for tls in [None, Some(&made)] {
        let (what, server) = (how(tls), served(&built, tls));
        let report = told(&built, &server, tls, "ask", CALLS);
        check(&report, f64::from(CALLS), &[METHOD], what);
        // Half of the calls are about a service that it does not know.
        let [calls, failed] = ["grpc", "grpc_failed"].map(|name| number(&report, &format!("/exchanges/{name}")));
        assert!(calls >= f64::from(CALLS) * 0.999, "{what}: {calls} calls");
        assert!((failed - calls / 2.0).abs() <= 2.0, "{what}: {failed} of {calls} failed");
    }
}

/// A call in which the server alone streams, and that its client gives up; and one in which both do, to its end.
#[test]
fn messages_of_streaming_calls_are_told() {
    let _turn = alone();
    let Some(built) = built() else { return };
    let made = certificate();
    for tls in [None, Some(&made)] {
        let server = served(&built, tls);
        for (what, method, asked, more) in [
            ("follow", "gRPC /grpc.health.v1.Health/Watch", 1, 5),
            ("talk", "gRPC /grpc.reflection.v1.ServerReflection/ServerReflectionInfo", MESSAGES, 0),
        ] {
            let report = told(&built, &server, tls, what, MESSAGES);
            let long = report["long_lived"].as_array().map_or(&[][..], Vec::as_slice);
            let [one] = long else { panic!("{} {what}: {long:#?} {:#}", how(tls), report["exchanges"]) };
            assert_eq!((&one["kind"], &one["name"]), (&"grpc".into(), &method.into()), "{}", how(tls));
            assert_eq!((number(one, "/count"), number(one, "/still_open")), (1.0, 0.0), "{one:#}");
            assert_eq!(number(one, "/received/messages"), f64::from(asked), "{} {what}: {one:#}", how(tls));
            // The server may have sent some more before it knew of the end.
            let sent = number(one, "/sent/messages");
            let expected = f64::from(MESSAGES)..=f64::from(MESSAGES + more);
            assert!(expected.contains(&sent), "{} {what}: {sent} messages: {one:#}", how(tls));
            // Neither is a response among the others.
            assert_eq!(number(&report, "/requests"), 0.0, "{} {what}: {:#}", how(tls), report["exchanges"]);
        }
    }
}
