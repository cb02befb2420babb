//! `weir watch` tells the business transaction that a request is, by the name and the identity that the agent has.

use super::{Place, Running};
use crate::support::{alone, planted::wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use weir_testkit::client::Connection;
use weir_testkit::free_port;

const SEEN: usize = 20;
/// The trace of the client that asks, by W3C Trace Context.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// The values that a command has printed as JSON, which has ended by itself.
fn values(mut child: Running) -> Vec<Value> {
    let output = child.0.stdout.take().map(std::io::read_to_string).expect("a pipe").expect("text");
    assert!(child.0.wait().expect("it is ours").success());
    serde_json::Deserializer::from_str(&output).into_iter().map(|value| value.expect("JSON")).collect()
}

#[test]
fn a_watched_request_has_the_name_and_the_identity_of_its_transaction() {
    let _turn = alone();
    let place = Place::new();
    let agent = place.agent();
    let at = |name: &str| place.folder.path().join(name);
    fs::write(at("rules"), "Arm On\nArmApplication shop\nArmMatch ^/a page\n").expect("writes");
    fs::create_dir(at("site")).expect("a directory");
    fs::write(at("site/a.txt"), "a").expect("writes");
    let (port, admin) = (free_port(), format!("unix:{}", at("admin.sock").display()));
    let mut command = place.command(&["serve", "--listen", &format!("127.0.0.1:{port}"), "--admin", &admin, "--arm"]);
    command.args([at("rules"), at("site")]).stderr(Stdio::null());
    let server = Running(command.spawn().expect("it starts"));
    let mut connection = wait_for(|| Connection::open(port).ok());
    wait_for(|| at("admin.sock").exists().then_some(()));
    let start = |args: &[&str]| {
        let mut command = place.command(args);
        Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts"))
    };
    let number = SEEN.to_string();
    let mut watch = start(&["watch", "--admin", &admin, "--json", "--show", "arm,head", "-n", &number, "path=/a.txt"]);
    let mut tail = start(&["arm", "tail", "--json", "-n", &number, "--transaction", "page"]);
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: a\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n\r\n");
    wait_for(|| {
        assert_eq!(connection.exchange(request.as_bytes()).expect("an answer").status, 200);
        let mut ended = [&mut watch, &mut tail].into_iter().map(|one| one.0.try_wait().expect("asks").is_some());
        ended.all(|ended| ended).then_some(())
    });
    let known: BTreeSet<String> =
        values(tail).iter().filter_map(|line| Some(line["id"].as_str()?.replace('-', ""))).collect();
    let seen: Vec<Value> = values(watch).into_iter().filter(|line| line["type"] == "request").collect();
    assert_eq!((seen.len(), known.len()), (SEEN, SEEN));
    let told: Vec<&str> = seen
        .iter()
        .map(|one| {
            assert_eq!((&one["arm"]["told"], &one["arm"]["transaction"]), (&true.into(), &"page".into()), "{one:#}");
            // Length, format and flags stand before the trace and the transaction: recorded.
            let digits = one["arm"]["correlator"].as_str().expect("a correlator");
            let identity = digits.strip_prefix("001cd740").unwrap_or_else(|| panic!("{digits}"));
            assert!(identity.starts_with(TRACE) && identity.len() == 48, "{digits}");
            identity
        })
        .collect();
    assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), SEEN, "each has its own");
    assert!(told.iter().any(|identity| known.contains(*identity)), "{told:?} {known:?}");
    drop(connection);
    server.end();
    agent.end();
}
