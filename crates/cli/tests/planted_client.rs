//! A client that takes its response slowly, seen from the server's side.

mod support;

use std::process::Command;
use support::planted::{Beside, first, said, share};
use support::{alone, number};
use weir_testkit::{Apache, Site, require};

/// A client that takes 400 ms for a file that is there at once, and that is larger than all socket buffers: the server
/// waits for it in the middle of the response.
#[test]
fn a_client_that_reads_slowly() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::apache().is_none() || require::program("curl").is_none() {
        return;
    }
    let site = Site::empty().expect("a site");
    site.write("large.bin", &vec![b'x'; 40 << 20]).expect("a file");
    let server = Apache::prefork().workers(4).root(site.path()).start().expect("Apache starts");
    let mut client = Command::new("curl");
    client.args(["-s", "--limit-rate", "100M"]);
    for _ in 0..30 {
        client.args(["-o", "/dev/null", &server.url("/large.bin")]);
    }
    let _client = Beside::spawn(client);
    let run = tempfile::tempdir().expect("a temporary directory");
    let (run, port) = (run.path().to_str().expect("a readable path"), server.port.to_string());
    // From the server's side: what the client does between its reads, nobody else knows.
    let output = support::output(&["explain", "--json", "--port", &port, "-d", "4s", "--run", run]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    eprintln!("{}", said(&report));
    let (part, who) = first(&report);
    assert_eq!(part, "wait_network", "{}", said(&report));
    assert!(who.starts_with("a client that reads slowly: curl ("), "`{who}` is blamed: {}", said(&report));
    assert!(share(&report, "wait_network") > 0.5 && number(&report, "/response_ns/mean") > 100e6, "{}", said(&report));
}
