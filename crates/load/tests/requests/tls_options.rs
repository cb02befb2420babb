//! TLS as nginx and OpenSSL see it: client certificates, names, pins, versions, suites, resumed sessions, and the words
//! for what fails.

use crate::server;

use server::load;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_load::reach::{Pin, TlsVersion};
use weir_load::{Control, LoadError, LoadReport, Options, StopRule, TlsSetupError, Trust, Url};
use weir_testkit::{Certificate, Nginx, RunningServer};
use weir_wire::client::Outcome;

const BOTH: &str = "ssl_protocols TLSv1.2 TLSv1.3;";
const OLDER: &str = "ssl_protocols TLSv1.2;";

/// nginx that answers with a status of its own to what a variable says; `None` where there is none.
fn nginx(certificate: &Certificate, statuses: &[(&str, &str, u16)], more: &str) -> Option<RunningServer> {
    weir_testkit::require::nginx()?;
    let conditions: String = statuses
        .iter()
        .map(|(variable, value, status)| format!("if (${variable} = \"{value}\") {{ return {status}; }}\n"))
        .collect();
    let server = Nginx::new().tls(certificate).directive(more).directive(&conditions).start();
    Some(server.expect("nginx starts"))
}

fn certificate() -> Option<Certificate> {
    weir_testkit::require::program("openssl")?;
    Some(Certificate::self_signed().expect("openssl makes one"))
}

fn options(port: u16, requests: u64) -> Options {
    let mut options = Options::new(Url::parse(&format!("https://localhost:{port}/1k.txt")).expect("a URL"));
    options.trust = Trust::Anything;
    options.connections = 1;
    options.stop = StopRule::Requests(requests);
    options.timeout = Duration::from_secs(10);
    options
}

fn statuses(options: Options) -> Vec<(u16, u64)> {
    let report = load(options);
    assert_eq!(report.failures(), 0, "{:?} {:?}", report.errors, report.reasons);
    report.status
}

fn error(options: Options) -> String {
    weir_load::run(options, &Control::default()).expect_err("no session").to_string()
}

#[test]
fn a_client_certificate_is_shown() {
    let (Some(own), Some(client)) = (certificate(), certificate()) else { return };
    let verify = format!("{BOTH}\nssl_client_certificate {};\nssl_verify_client on;", client.certificate().display());
    let Some(server) = nginx(&own, &[("ssl_client_verify", "SUCCESS", 201)], &verify) else { return };
    // nginx lets those without in and answers that they must not.
    assert_eq!(statuses(options(server.port, 3)), [(400, 3)]);
    let with = |file: PathBuf, key: Option<PathBuf>| {
        let mut options = options(server.port, 3);
        options.reach.tls.certificate = Some(file);
        options.reach.tls.key = key;
        options
    };
    let directory = tempfile::tempdir().expect("a directory");
    let both = directory.path().join("both.pem");
    let text = |file: PathBuf| std::fs::read_to_string(file).expect("a PEM file");
    std::fs::write(&both, text(client.certificate()) + &text(client.key())).expect("a file");
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for (file, key) in [(client.certificate(), Some(client.key())), (both.clone(), None)] {
            let mut options = with(file, key);
            options.reach.tls.version = Some(version);
            assert_eq!(statuses(options), [(201, 3)], "{version:?}");
        }
    }
    // The server refuses a certificate of another authority.
    assert_eq!(statuses(with(own.certificate(), Some(own.key()))), [(400, 3)]);
    let setup = |options| match weir_load::run(options, &Control::default()) {
        Err(LoadError::TlsSetup(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(setup(with(client.certificate(), Some(own.key()))), TlsSetupError::OtherKey));
    let no_key = setup(with(client.certificate(), None)).to_string();
    assert!(no_key.contains("no PEM private key") && no_key.contains("cert.pem"), "{no_key}");
    let nothing = setup(with("/dev/null".into(), None)).to_string();
    assert!(nothing.contains("no PEM certificate") && nothing.contains("/dev/null"), "{nothing}");
}

#[test]
fn the_name_that_is_sent_is_that_which_was_asked_for() {
    let Some(own) = certificate() else { return };
    let names =
        [("ssl_server_name", "localhost", 201), ("ssl_server_name", "other.test", 202), ("ssl_server_name", "", 203)];
    let Some(server) = nginx(&own, &names, BOTH) else { return };
    assert_eq!(statuses(options(server.port, 2)), [(201, 2)]);
    let mut other = options(server.port, 2);
    other.reach.tls.name = Some("other.test".to_owned());
    assert_eq!(statuses(other), [(202, 2)]);
    let mut silent = options(server.port, 2);
    silent.reach.tls.send_name = false;
    assert_eq!(statuses(silent), [(203, 2)]);
    // The certificate must be for the name that was asked for, also where the URL says another or an address.
    let mut named = options(server.port, 2);
    named.url.host = "127.0.0.1".to_owned();
    named.trust = Trust::File(own.certificate());
    named.reach.tls.name = Some("localhost".to_owned());
    assert_eq!(statuses(named), [(201, 2)]);
    let mut wrong = options(server.port, 2);
    wrong.trust = Trust::File(own.certificate());
    wrong.reach.tls.name = Some("other.test".to_owned());
    let error = error(wrong);
    assert!(error.contains("is not for the name other.test") && error.contains("localhost"), "{error}");
}

#[test]
fn sessions_are_resumed_where_that_was_asked_for() {
    let Some(own) = certificate() else { return };
    let Some(server) = nginx(&own, &[("ssl_session_reused", "r", 201)], BOTH) else { return };
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for trust in [Trust::Anything, Trust::File(own.certificate())] {
            let run = |resume| -> LoadReport {
                let mut options = options(server.port, 40);
                options.connections = 4;
                options.keep_alive = false;
                options.trust = trust.clone();
                options.reach.tls.resume = resume;
                options.reach.tls.version = Some(version);
                let report = load(options);
                assert_eq!(report.failures(), 0, "{:?}", report.errors);
                report
            };
            let whole = run(false);
            assert_eq!((whole.handshakes.full, whole.handshakes.resumed), (40, 0));
            assert_eq!(whole.status, [(200, 40)]);
            let resumed = run(true);
            let (full, again) = (resumed.handshakes.full, resumed.handshakes.resumed);
            assert_eq!(full + again, 40);
            assert!((1..=8).contains(&full), "{version:?} {trust:?}: {full} whole handshakes");
            // The server counts the same.
            assert_eq!(resumed.status, [(200, full), (201, again)]);
        }
    }
}

#[test]
fn a_pinned_key_is_the_only_one_that_is_believed() {
    let (Some(own), Some(other)) = (certificate(), certificate()) else { return };
    let Some(server) = nginx(&own, &[], BOTH) else { return };
    let pin = |certificate: &Certificate| {
        let pipe = format!(
            "openssl x509 -in {} -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -r | cut -c-64",
            certificate.certificate().display()
        );
        let output = Command::new("sh").args(["-c", &pipe]).output().expect("openssl runs");
        let text = String::from_utf8(output.stdout).expect("hexadecimal digits");
        format!("sha256:{}", text.trim()).parse::<Pin>().expect("a pin")
    };
    let pinned = |pins: Vec<Pin>, trust| {
        let mut options = options(server.port, 2);
        options.reach.tls.pins = pins;
        options.trust = trust;
        options
    };
    assert_eq!(statuses(pinned(vec![pin(&other), pin(&own)], Trust::Anything)), [(200, 2)]);
    assert_eq!(statuses(pinned(vec![pin(&own)], Trust::File(own.certificate()))), [(200, 2)]);
    // A pin takes nothing away from what else is asked of a certificate.
    let unknown = error(pinned(vec![pin(&own)], Trust::File(other.certificate())));
    assert!(unknown.contains("the server's certificate"), "{unknown}");
    let wrong = error(pinned(vec![pin(&other)], Trust::Anything));
    assert!(wrong.contains("none of those that were pinned") && wrong.contains(&pin(&own).to_string()), "{wrong}");
}

#[test]
fn versions_and_suites_are_those_that_were_asked_for() {
    let Some(own) = certificate() else { return };
    let seen = [
        ("ssl_cipher", "ECDHE-ECDSA-CHACHA20-POLY1305", 201),
        ("ssl_cipher", "TLS_CHACHA20_POLY1305_SHA256", 202),
        ("ssl_protocol", "TLSv1.2", 203),
        ("ssl_protocol", "TLSv1.3", 204),
    ];
    let Some(server) = nginx(&own, &seen, BOTH) else { return };
    let with = |version, ciphers: &[&str]| {
        let mut options = options(server.port, 2);
        options.reach.tls.version = version;
        options.reach.tls.ciphers = ciphers.iter().map(|&name| name.to_owned()).collect();
        options
    };
    let only = |options| statuses(options)[0].0;
    assert_eq!(only(with(Some(TlsVersion::Tls12), &[])), 203);
    assert_eq!(only(with(Some(TlsVersion::Tls13), &[])), 204);
    assert_eq!(only(with(Some(TlsVersion::Tls12), &["ECDHE-ECDSA-CHACHA20-POLY1305"])), 201);
    assert_eq!(only(with(None, &["TLS_CHACHA20_POLY1305_SHA256"])), 202);
    let unknown = error(with(None, &["RC4-MD5"]));
    assert!(unknown.contains("there are TLS_AES_256_GCM_SHA384"), "{unknown}");
    let neither = error(with(Some(TlsVersion::Tls12), &["TLS_AES_128_GCM_SHA256"]));
    assert!(neither.contains("--tls"), "{neither}");
}

/// A certificate that was over before it began, with its key in the same directory.
fn expired(directory: &Path, name: &str) {
    let openssl = |line: &str| {
        let words = line.split(' ');
        let made = Command::new("openssl").args(words).current_dir(directory).stderr(Stdio::null()).status();
        assert!(made.expect("openssl runs").success(), "{line}");
    };
    openssl(&format!(
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout key.pem -out request.pem \
         -addext subjectAltName=DNS:{name} -addext basicConstraints=critical,CA:FALSE"
    ));
    openssl("x509 -req -in request.pem -signkey key.pem -days -1 -copy_extensions copy -out cert.pem");
}

#[test]
fn failures_have_their_reason_in_words() {
    let (Some(own), Some(other)) = (certificate(), certificate()) else { return };
    let Some(server) = nginx(&own, &[], OLDER) else { return };
    let stranger = tempfile::tempdir().expect("a directory");
    expired(stranger.path(), "stranger");
    let mut unknown = options(server.port, 2);
    unknown.trust = Trust::File(stranger.path().join("cert.pem"));
    let words = error(unknown);
    assert!(words.contains("authority that is not trusted") && words.contains("--ca"), "{words}");
    // An authority of the same name, but of another key.
    let mut namesake = options(server.port, 2);
    namesake.trust = Trust::File(other.certificate());
    let words = error(namesake);
    assert!(words.contains("not signed by") && words.contains("--ca"), "{words}");
    let mut newer = options(server.port, 2);
    newer.reach.tls.version = Some(TlsVersion::Tls13);
    let words = error(newer);
    assert!(words.contains("alert ProtocolVersion: it does not speak the version"), "{words}");
    let directory = tempfile::tempdir().expect("a directory");
    expired(directory.path(), "localhost");
    let Some(over) = openssl_server(directory.path(), &["-www"]) else { return };
    let mut options = options(over.port, 2);
    options.trust = Trust::File(directory.path().join("cert.pem"));
    let words = error(options);
    assert!(words.contains("has expired"), "{words}");
}

#[test]
fn a_failure_behind_the_handshake_is_one_of_tls_with_words() {
    let (Some(_own), Some(client)) = (certificate(), certificate()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    expired(directory.path(), "localhost");
    // With TLS 1.3 the client is done before the server has seen that its certificate is missing.
    let Some(server) = openssl_server(directory.path(), &["-www", "-Verify", "1", "-tls1_3"]) else { return };
    let report = load(options(server.port, 3));
    assert_eq!((report.requests, report.errors.as_slice()), (0, &[(Outcome::Tls, 3)][..]));
    assert_eq!((report.reasons.len(), report.reasons[0].count, report.reasons[0].outcome), (1, 3, Outcome::Tls));
    assert!(report.reasons[0].words.contains("it wants a client certificate"), "{:?}", report.reasons);
    let mut shown = options(server.port, 3);
    shown.reach.tls.certificate = Some(client.certificate());
    shown.reach.tls.key = Some(client.key());
    assert_eq!(statuses(shown), [(200, 3)]);
}

#[test]
fn a_protocol_that_this_loop_does_not_speak_is_not_taken() {
    if certificate().is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    expired(directory.path(), "localhost");
    let Some(server) = openssl_server(directory.path(), &["-www", "-alpn", "h2"]) else { return };
    let mut options = options(server.port, 3);
    options.reach.tls.alpn = vec![b"h2".to_vec()];
    assert!(error(options).contains("agreed on the protocol h2"));
    let words = error(self::options(server.port, 3));
    assert!(words.contains("none of the protocols that were offered"), "{words}");
}

/// `openssl s_server`, which ends with the value.
struct OpensslServer {
    child: std::process::Child,
    port: u16,
}

fn openssl_server(directory: &Path, arguments: &[&str]) -> Option<OpensslServer> {
    weir_testkit::require::program("openssl")?;
    let port = weir_testkit::free_port();
    let child = Command::new("openssl")
        .args(["s_server", "-quiet", "-4", "-accept", &port.to_string(), "-key", "key.pem", "-cert", "cert.pem"])
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl runs");
    let server = OpensslServer { child, port };
    for _ in 0..500 {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of sockets");
        if table.lines().any(|line| line.contains(&format!(":{port:04X} 00000000:0000 0A"))) {
            return Some(server);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("openssl s_server does not listen")
}

impl Drop for OpensslServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
