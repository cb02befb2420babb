//! Loads over HTTP/3, against a server of the tests' own: what it does and says is what the report must tell.
// scripts/test: loads

mod faults;
mod handshakes;
mod loads;
mod options;
mod peers;
mod quic_server;
#[path = "../server/mod.rs"]
mod server;

use quic_server::QuicServer;
use std::time::Duration;
use weir_load::{Control, LoadReport, Options, Protocol, StopRule, Trust, Url};

/// So many requests over HTTP/3.
pub(crate) fn options(server: &QuicServer, requests: u64, connections: u32, streams: u32) -> Options {
    let mut options = Options::new(Url::parse(&server.url("/p?q")).expect("a URL"));
    options.protocol = Protocol::Http3 { streams, early_data: false, migrate_every: None };
    options.stop = StopRule::Requests(requests);
    options.connections = connections;
    options.timeout = Duration::from_secs(10);
    options.trust = Trust::Anything;
    options
}

pub(crate) fn load(options: Options) -> LoadReport {
    weir_load::run(options, &Control::default()).expect("the run is made")
}

/// All requests succeeded.
pub(crate) fn assert_clean(report: &LoadReport, requests: u64) {
    let bad = (report.failures(), report.dropped, report.abandoned);
    assert_eq!((report.requests, bad), (requests, (0, 0, 0)), "{:?} {:?}", report.errors, report.reasons);
    assert_eq!(report.status, [(200, requests)]);
}

/// Why requests failed, in words.
pub(crate) fn reasons(report: &LoadReport) -> String {
    report.reasons.iter().map(|reason| format!("{}: {}; ", reason.outcome.name(), reason.words)).collect()
}
