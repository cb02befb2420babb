//! Servers of others: quic-go and aioquic, which `scripts/test-http3` fetches and builds.

use crate::{assert_clean, load};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_load::{Options, Protocol, Request, Schedule, StopRule, Trust, Url};
use weir_testkit::{Certificate, require};

/// A server that runs as long as this value, and the port that it printed.
struct Running {
    child: Child,
    port: u16,
    certificate: Certificate,
}

impl Running {
    /// Starts a command to which `arguments` are given, `CERT` and `KEY` among them for the certificate's files.
    fn start(program: &PathBuf, arguments: &[&str]) -> Self {
        let certificate = Certificate::self_signed().expect("a certificate");
        let mut command = Command::new(program);
        for argument in arguments {
            match *argument {
                "CERT" => command.arg(certificate.certificate()),
                "KEY" => command.arg(certificate.key()),
                other => command.arg(other),
            };
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("a line");
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        Self { child, port, certificate }
    }

    fn options(&self, requests: u64, connections: u32, streams: u32) -> Options {
        let mut options = Options::new(Url::parse(&format!("https://127.0.0.1:{}/", self.port)).expect("a URL"));
        options.protocol = Protocol::Http3 { streams, early_data: false, migrate_every: None };
        options.stop = StopRule::Requests(requests);
        options.connections = connections;
        options.timeout = Duration::from_secs(10);
        options.trust = Trust::File(self.certificate.certificate());
        options
    }

    /// The loads that every server must take; each of its responses to GET has so many bytes of content.
    fn check(&self, content: u64) {
        for (connections, streams) in [(1, 1), (2, 20)] {
            let report = load(self.options(1000, connections, streams));
            assert_clean(&report, 1000);
            assert!(report.bytes > 1000 * content, "{} bytes", report.bytes);
        }
        let mut posting = self.options(50, 1, 5);
        let body = vec![b'b'; 100_000];
        posting.checks = vec!["size=100000B".parse().expect("a check")];
        posting.request = Request { method: "POST".to_owned(), body, ..Request::default() };
        assert_clean(&load(posting), 50);
        let mut once = self.options(30, 3, 1);
        once.keep_alive = false;
        assert_clean(&load(once), 30);
        let mut paced = self.options(1, 4, 10);
        paced.schedule = Schedule::Fixed { rate_per_s: 200.0 };
        paced.stop = StopRule::Duration(Duration::from_secs(1));
        assert_clean(&load(paced), 200);
        let mut resumed = self.options(20, 1, 1);
        resumed.keep_alive = false;
        resumed.reach.tls.resume = true;
        let report = load(resumed);
        assert_clean(&report, 20);
        assert!(report.handshakes.resumed >= 15, "{:?}", report.handshakes);
        let mut moving = self.options(1, 1, 1);
        let migrate_every = Some(Duration::from_millis(300));
        moving.protocol = Protocol::Http3 { streams: 1, early_data: false, migrate_every };
        moving.schedule = Schedule::Fixed { rate_per_s: 50.0 };
        moving.stop = StopRule::Duration(Duration::from_secs(1));
        let report = load(moving);
        assert_clean(&report, 50);
        assert!(report.http3.is_some_and(|counts| counts.moves >= 2 && counts.moves_lost == 0), "{:?}", report.http3);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "scripts/test-http3 builds the server"]
fn quic_go_is_loaded() {
    let target = std::env::current_exe().expect("a path").ancestors().nth(3).map(|folder| folder.join("http3-peers"));
    let server = Running::start(&target.expect("a target folder"), &["serve", "127.0.0.1:0", "CERT", "KEY", "2000"]);
    server.check(2000);
    // It takes 0-RTT.
    let mut early = server.options(20, 1, 1);
    early.keep_alive = false;
    early.reach.tls.resume = true;
    early.protocol = Protocol::Http3 { streams: 1, early_data: true, migrate_every: None };
    let report = load(early);
    assert_clean(&report, 20);
    assert!(report.http3.is_some_and(|counts| counts.early_accepted >= 15), "{:?}", report.http3);
}

#[test]
#[ignore = "scripts/test-http3 fetches the server"]
fn aioquic_is_loaded() {
    let Some(python) = require::aioquic() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http3/aioquic_server.py");
    Running::start(&python, &[script, "CERT", "KEY"]).check(2000);
}
