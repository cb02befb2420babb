//! Connections that are made, resumed, or not made at all.

use crate::quic_server::{QuicServer, Setup, ok};
use crate::{assert_clean, load, options};
use std::time::Duration;
use weir_load::{Control, LoadError, Options, Protocol, Trust, Url};

fn refusal(options: Options) -> LoadError {
    weir_load::run(options, &Control::default()).expect_err("no connection can be made")
}

#[test]
fn a_certificate_is_believed_or_not_as_over_tcp() {
    let server = QuicServer::start(Setup::default(), |_| ok(b""));
    let mut trusting = options(&server, 3, 1, 1);
    trusting.trust = Trust::File(server.certificate.certificate());
    assert_clean(&load(trusting), 3);
    let mut strict = options(&server, 3, 1, 1);
    strict.trust = Trust::System;
    let words = refusal(strict).to_string();
    // Which of its faults is told depends on the authorities that this host trusts.
    assert!(words.contains("the server's certificate") && words.contains("--ca FILE"), "{words}");
    let mut other = options(&server, 3, 1, 1);
    other.trust = Trust::File(server.certificate.certificate());
    other.reach.tls.name = Some("other.test".to_owned());
    let words = refusal(other).to_string();
    assert!(words.contains("not for the name") && words.contains("--sni"), "{words}");
}

#[test]
fn where_nothing_listens_the_run_is_not_made() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let mut wanted = Options::new(Url::parse(&format!("https://{free}/")).expect("a URL"));
    wanted.protocol = Protocol::Http3 { streams: 1, early_data: false, migrate_every: None };
    wanted.trust = Trust::Anything;
    let error = refusal(wanted);
    assert_eq!(error.name(), "refused", "{error}");
    assert!(error.to_string().contains("ss -lun"), "{error}");
}

#[test]
fn a_silent_server_is_waited_for_only_so_long() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    let mut wanted = Options::new(Url::parse(&format!("https://{address}/")).expect("a URL"));
    wanted.protocol = Protocol::Http3 { streams: 1, early_data: false, migrate_every: None };
    wanted.timeout = Duration::from_millis(300);
    wanted.trust = Trust::Anything;
    assert_eq!(refusal(wanted).name(), "connect_timeout");
}

#[test]
fn what_speaks_no_http3_is_told_so() {
    let other = QuicServer::start(Setup { alpn: b"hq-interop".to_vec(), ..Setup::default() }, |_| ok(b""));
    let error = refusal(options(&other, 1, 1, 1));
    assert!(matches!(error, LoadError::NotHttp3 { .. }), "{error}");
    let closed = QuicServer::start(Setup { refuses: true, ..Setup::default() }, |_| ok(b""));
    let error = refusal(options(&closed, 1, 1, 1));
    assert!(error.to_string().contains("CONNECTION_REFUSED"), "{error}");
}

#[test]
fn one_of_several_addresses_is_enough() {
    let server = QuicServer::start(Setup::default(), |_| ok(b""));
    let mut wanted = options(&server, 10, 2, 1);
    // Nothing listens at the first.
    let resolved = format!("h.test:{}:127.0.0.9,127.0.0.1", server.address.port());
    wanted.url = Url::parse(&format!("https://h.test:{}/", server.address.port())).expect("a URL");
    wanted.reach.resolve = vec![resolved.parse().expect("addresses of a name")];
    let report = load(wanted);
    assert_clean(&report, 10);
    assert!(report.warnings.iter().any(|warning| warning.contains("127.0.0.9")), "{:?}", report.warnings);
}

/// Connections one after the other, whose sessions are resumed.
fn resuming(server: &QuicServer, early_data: bool) -> Options {
    let mut wanted = options(server, 10, 1, 1);
    wanted.keep_alive = false;
    wanted.reach.tls.resume = true;
    wanted.protocol = Protocol::Http3 { streams: 1, early_data, migrate_every: None };
    wanted
}

#[test]
fn sessions_are_resumed() {
    let server = QuicServer::start(Setup::default(), |_| ok(b""));
    let report = load(resuming(&server, false));
    assert_clean(&report, 10);
    assert_eq!(report.handshakes.full + report.handshakes.resumed, 10);
    assert!(report.handshakes.resumed >= 8, "{:?}", report.handshakes);
    assert!(report.http3.is_some_and(|counts| counts.early_accepted + counts.early_refused == 0));
}

#[test]
fn early_data_is_accepted_or_refused_and_counted() {
    let server = QuicServer::start(Setup { takes_early: |_| true, ..Setup::default() }, |_| ok(b"hello"));
    let report = load(resuming(&server, true));
    assert_clean(&report, 10);
    let counts = report.http3.expect("counts of HTTP/3");
    assert!(counts.early_accepted >= 8 && counts.early_refused == 0, "{counts:?} {:?}", report.handshakes);
    // The third connection and those behind it refuse, and the requests are answered all the same.
    let server = QuicServer::start(Setup { takes_early: |number| number < 2, ..Setup::default() }, |_| ok(b"hello"));
    let report = load(resuming(&server, true));
    assert_clean(&report, 10);
    let counts = report.http3.expect("counts of HTTP/3");
    assert!(counts.early_accepted == 1 && counts.early_refused >= 1, "{counts:?}");
    assert_eq!(server.seen.lock().expect("no panic").requests, 10, "none was answered twice");
}

#[test]
fn only_safe_methods_go_out_early() {
    let server = QuicServer::start(Setup { takes_early: |_| true, ..Setup::default() }, |_| ok(b""));
    let mut wanted = resuming(&server, true);
    wanted.request.method = "PUT".to_owned();
    let report = load(wanted);
    assert_clean(&report, 10);
    assert!(report.http3.is_some_and(|counts| counts.early_accepted == 0), "{:?}", report.http3);
    assert!(report.handshakes.resumed >= 8, "{:?}", report.handshakes);
}
