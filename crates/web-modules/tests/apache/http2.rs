//! HTTP/2: each stream is a request, on any internal connection of the server.

use crate::{armed, required, site};
use std::collections::BTreeSet;
use std::process::Command;
use weir_agent::transaction::Status;
use weir_testkit::{Apache, Cgi, require};
use weir_web_modules::{Told, arm_directory, context, metric};

const PARENT: &str = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

#[test]
fn each_stream_is_a_transaction() {
    if required().is_none() || require::apache_module("http2").is_none() || require::program("nghttp").is_none() {
        return;
    }
    let large = "x".repeat(300_000);
    let site = site(&[("a.txt", "a"), ("large.txt", &large)]);
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let apache = Apache::event().workers(8).processes(1).root(site.path()).module("http2");
    let directives = "Protocols h2c http/1.1\nArm On\nArmApplication streams";
    let server = armed(apache, arm.path()).directive(directives).start().expect("it starts");
    told.next(1);
    let mut command = Command::new("timeout");
    // All of them over one connection.
    command.args(["20", "nghttp", "--header"]).arg(format!("traceparent: 00-{PARENT}-01"));
    command.args(["a.txt", "large.txt", "none"].map(|path| server.url(&format!("/{path}"))));
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let all = told.next(3);
    let find = |name: &str| all.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no {name}: {all:#?}"));
    let expected = [("/a.txt", 200, 1), ("/large.txt", 200, 300_000), ("(other)", 404, -1)];
    for (name, status, bytes) in expected {
        let one = find(name);
        assert_eq!((one.status, metric(one, "status")), (Status::Good, Some(status)), "{name}");
        assert!(bytes < 0 || metric(one, "bytes") == Some(bytes), "{name}: {one:?}");
        assert_eq!((context(one, "method"), context(one, "host")), (Some("GET"), Some("127.0.0.1")));
        assert_eq!(one.parent.map(|parent| parent.to_string()).as_deref(), Some(PARENT), "{name}");
        let (first, last) = (metric(one, "first byte"), metric(one, "last byte"));
        assert!(first.is_some() && first <= last, "{name}: {first:?} {last:?}");
    }
    let clients: BTreeSet<_> = all.iter().filter_map(|one| one.details.address.clone()).collect();
    assert!(clients.len() == 1 && clients.iter().all(|one| one.starts_with("127.0.0.1:")), "{clients:?}");
    assert!(told.rest().is_empty());
}

/// A stream whose client has all of it is over for the server, while it still waits for the script's end.
#[test]
fn a_script_that_ends_behind_its_response_is_not_aborted() {
    let programs = [require::program("nghttp"), require::apache_module("http2"), require::apache_module("cgid")];
    if required().is_none() || programs.iter().any(Option::is_none) {
        return;
    }
    let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nwhole'\nexec >&-\nsleep 0.2\n";
    let site = site(&[("late.cgi", script), ("1k.txt", "x")]);
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let apache = Apache::event().workers(16).processes(1).root(site.path()).module("http2").cgi(Cgi::Daemon);
    let directives = "Protocols h2c http/1.1\nArm On\nArmApplication streams";
    let server = armed(apache, arm.path()).directive(directives).start().expect("it starts");
    told.next(1);
    const STREAMS: usize = 24;
    let mut command = Command::new("timeout");
    // All of them over one connection.
    command.args(["20", "nghttp"]).args((0..STREAMS).map(|number| server.url(&format!("/late.cgi?{number}"))));
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = told.next(STREAMS);
    let told_as: BTreeSet<_> = all.iter().map(|one| (one.status, metric(one, "status"))).collect();
    assert_eq!(Vec::from_iter(told_as), [(Status::Good, Some(200))], "{all:#?}");
}
