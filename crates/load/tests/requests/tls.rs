//! TLS: certificates believed and not, and requests over both versions of the protocol.

use crate::server;

use server::{load, load_with_events};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_load::{Control, LoadError, Options, Request, StopRule, Trust, Url};

/// `openssl s_server` with a certificate of its own making.
struct TlsServer {
    child: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl TlsServer {
    /// `None` where there is no openssl; the reason is printed.
    fn start(arguments: &[&str]) -> Option<Self> {
        weir_testkit::require::program("openssl")?;
        let directory = tempfile::tempdir().expect("a directory");
        let (key, certificate) = (directory.path().join("key.pem"), directory.path().join("cert.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .args([Path::new("-keyout"), &key, Path::new("-out"), &certificate])
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("openssl runs").success());
        let port = weir_testkit::free_port();
        let child = Command::new("openssl")
            .args(["s_server", "-quiet", "-4", "-accept", &port.to_string()])
            .args([Path::new("-key"), &key, Path::new("-cert"), &certificate])
            .args(arguments)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        let server = Self { child, directory, port };
        let deadline = Instant::now() + Duration::from_secs(10);
        // Looked for in the kernel's table: a connection to try it would be one that the server answers.
        while !listening(port) {
            assert!(Instant::now() < deadline, "openssl s_server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    fn options(&self, requests: u64, trust: Trust) -> Options {
        let mut options = Options::new(Url::parse(&format!("https://localhost:{}/", self.port)).expect("a URL"));
        options.trust = trust;
        options.connections = 1;
        options.stop = StopRule::Requests(requests);
        options.timeout = Duration::from_secs(10);
        options
    }

    fn certificate(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of sockets");
    table.lines().any(|line| line.contains(&format!(":{port:04X} 00000000:0000 0A")))
}

#[test]
fn a_certificate_is_believed_only_where_that_was_asked_for() {
    let Some(server) = TlsServer::start(&["-www"]) else { return };
    let error = weir_load::run(server.options(3, Trust::System), &Control::default()).expect_err("an unknown issuer");
    assert!(matches!(error, LoadError::Tls { .. }), "{error}");
    assert!(error.to_string().contains("--ca FILE") && error.to_string().contains("--insecure"), "{error}");
    for trust in [Trust::Anything, Trust::File(server.certificate())] {
        let report = load(server.options(3, trust));
        assert_eq!((report.requests, report.failures(), report.connect.len()), (3, 0, 3), "{:?}", report.errors);
        assert_eq!(report.status, [(200, 3)]);
    }
    // The name must be that of the certificate even when its issuer is trusted.
    let mut options = server.options(3, Trust::File(server.certificate()));
    options.url.host = "127.0.0.1".to_owned();
    let error = weir_load::run(options, &Control::default()).expect_err("another name");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn both_versions_carry_requests() {
    for version in ["-tls1_2", "-tls1_3"] {
        let Some(server) = TlsServer::start(&["-WWW", version]) else { return };
        std::fs::write(server.directory.path().join("big"), vec![b'x'; 500_000]).expect("a file");
        let mut options = server.options(5, Trust::Anything);
        options.url.target = "/big".to_owned();
        let (report, connections, requests) = load_with_events(options);
        assert_eq!(
            (report.requests, report.failures(), connections.len()),
            (5, 0, 5),
            "{version}: {:?}",
            report.errors
        );
        for request in requests {
            assert!(request.encrypted && request.request_offset > 100 && request.response_offset > 100);
            assert!(request.response_bytes > 500_000, "{request:?}");
        }
    }
}

#[test]
fn files_without_certificates_and_servers_without_tls_are_named() {
    let plain = server::Server::answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let mut options = plain.options(1);
    options.url.encrypted = true;
    options.url.host = "localhost".to_owned();
    options.trust = Trust::File("/dev/null".into());
    let error = weir_load::run(options, &Control::default()).expect_err("no certificate");
    assert!(error.to_string().contains("/dev/null"), "{error}");
    let garbage = server::Server::start(|peer| {
        peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        std::thread::sleep(Duration::from_millis(200));
    });
    let mut options = garbage.options(1);
    options.url.encrypted = true;
    options.trust = Trust::Anything;
    options.request = Request::default();
    let error = weir_load::run(options, &Control::default()).expect_err("no TLS there");
    assert!(error.to_string().contains("this port speaks HTTP, not TLS"), "{error}");
    let silent = server::Server::start(|_| std::thread::sleep(Duration::from_secs(2)));
    let mut options = silent.options(1);
    options.url.encrypted = true;
    options.trust = Trust::Anything;
    options.timeout = Duration::from_millis(300);
    let error = weir_load::run(options, &Control::default()).expect_err("no answer");
    assert!(error.to_string().contains("did not answer the handshake"), "{error}");
}
