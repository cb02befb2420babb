//! TLS against OpenSSL's client and curl: names, tickets, versions, changed files, and bytes that are not TLS.

use crate::harness;

use harness::{Site, certificate};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_server::CertificateFiles;

/// What `openssl s_client` says while it asks for a file over HTTP/1.1.
fn s_client(site: &Site, arguments: &[&str]) -> String {
    let mut client = Command::new("timeout")
        .args(["60", "openssl", "s_client", "-connect", &site.addr.to_string()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl starts; `make deps` installs it");
    let mut input = client.stdin.take().expect("piped");
    input.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it reads");
    let output = client.wait_with_output().expect("it ends");
    drop(input);
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn site(change: impl FnOnce(&Path, &mut weir_server::Options)) -> (Site, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let large: Vec<u8> = (0..3_900_000_u32).map(|i| (i % 253) as u8).collect();
    let site = Site::start(&[("a.txt", b"hello"), ("large.bin", &large)], |options| change(directory.path(), options));
    (site, directory)
}

#[test]
fn each_name_has_its_certificate() {
    let (site, _directory) = site(|directory, options| {
        options.certificates = vec![
            certificate::make(directory, "first", &["first.example"]),
            certificate::make(directory, "second", &["second.example", "*.wild.example"]),
        ];
    });
    for (name, subject) in [
        ("first.example", "CN = first"),
        ("second.example", "CN = second"),
        ("SECOND.example", "CN = second"),
        ("a.wild.example", "CN = second"),
        ("a.b.wild.example", "CN = first"),
        ("wild.example", "CN = first"),
        ("other.example", "CN = first"),
    ] {
        let told = s_client(&site, &["-servername", name]);
        assert!(told.contains(&format!("subject={subject}\n")) && told.contains("\r\n\r\nhello"), "{name}: {told}");
    }
    assert!(s_client(&site, &["-noservername"]).contains("subject=CN = first\n"));
    assert_eq!(site.stop().tls_handshakes, 8);
}

#[test]
fn sessions_are_resumed_in_both_versions() {
    let (site, directory) = site(|directory, options| {
        // Tickets of one loop are read by the other.
        options.loops = 2;
        options.certificates = vec![certificate::make(directory, "a", &["a"])];
    });
    for version in ["-tls1_2", "-tls1_3"] {
        let session = directory.path().join(version);
        let session = session.to_str().expect("UTF-8");
        let told = s_client(&site, &[version, "-sess_out", session]);
        assert!(told.contains("New, TLSv1"), "{told}");
        for _ in 0..4 {
            let told = s_client(&site, &[version, "-sess_in", session]);
            assert!(told.contains("Reused, TLSv1"), "{told}");
        }
    }
    assert!(s_client(&site, &["-alpn", "http/1.1"]).contains("ALPN protocol: http/1.1"));
    assert!(s_client(&site, &["-alpn", "other"]).contains("no application protocol"));
    let counts = site.stop();
    assert_eq!((counts.tls_resumed, counts.tls_failed), (8, 1), "{counts:?}");
}

#[test]
fn large_files_arrive_whole_over_http_1() {
    let (site, _directory) = site(|directory, options| {
        options.certificates = vec![certificate::make(directory, "a", &["a"])];
    });
    let received = site.directory.path().join("received");
    for (file, times) in [("a.txt", 3), ("large.bin", 1), ("large.bin", 3)] {
        let url = format!("https://{}/{file}", site.addr);
        let output = Command::new("curl")
            .args(["-sSfk", "--http1.1", "-m", "60", "-o"])
            .arg(&received)
            .args(vec![url; times])
            .output()
            .expect("curl runs");
        assert!(output.status.success(), "{output:?}");
        let sent = std::fs::read(site.directory.path().join(file)).expect("reads");
        let whole = std::fs::read(&received).expect("reads");
        assert!(whole.starts_with(&sent), "{file}");
    }
}

#[test]
fn changed_certificates_are_used_and_broken_ones_are_not() {
    let (site, directory) = site(|directory, options| {
        options.certificates = vec![certificate::make(directory, "site", &["site.example"])];
    });
    assert!(s_client(&site, &[]).contains("subject=CN = site\n"));
    let [certificate, key] = ["site.pem", "site.key"].map(|file| directory.path().join(file));
    let kept = [&certificate, &key].map(|path| std::fs::read(path).expect("reads"));
    std::fs::write(&certificate, "no certificate").expect("writes");
    // Longer than until the next look at the files.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(s_client(&site, &[]).contains("subject=CN = site\n"));
    let fresh = certificate::make(directory.path(), "fresh", &["site.example"]);
    std::fs::rename(fresh.key, &key).expect("renames");
    std::fs::rename(fresh.certificate, &certificate).expect("renames");
    harness::wait_until(|| s_client(&site, &[]).contains("subject=CN = fresh\n"));
    std::fs::write(&key, &kept[1]).expect("writes");
    std::fs::write(&certificate, &kept[0]).expect("writes");
    harness::wait_until(|| s_client(&site, &[]).contains("subject=CN = site\n"));
}

/// Says its last words over HTTP/1.1 or HTTP/2 and, in the same segment, that nothing follows; keeps its socket open
/// and waits for the server's end.
const LAST_WORDS: &str = r#"
import socket, ssl, sys, time
host, port = sys.argv[1].split(":")
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols([sys.argv[2]])
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
session = context.wrap_bio(incoming, outgoing, server_hostname="a")
peer = socket.create_connection((host, int(port)), timeout=20)
while True:
    try:
        session.do_handshake()
        break
    except ssl.SSLWantReadError:
        peer.sendall(outgoing.read())
        incoming.write(peer.recv(65536))
settings, farewell = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), bytes([0, 0, 8, 7]) + bytes(13)
request = b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"
first, last = {
    "http/1.1": (request, request),
    "h2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings, farewell),
}[sys.argv[2]]
session.write(first)
peer.sendall(outgoing.read())
# What it answers, so that it is at rest when the last words come.
peer.recv(65536)
time.sleep(0.3)
session.write(last)
try:
    session.unwrap()
except ssl.SSLWantReadError:
    pass
peer.sendall(outgoing.read())
while peer.recv(65536):
    pass
print(session.selected_alpn_protocol())
"#;

#[test]
fn a_client_that_says_with_its_last_words_that_nothing_follows_is_not_waited_for() {
    let (site, _directory) = site(|directory, options| {
        options.certificates = vec![certificate::make(directory, "a", &["a"])];
    });
    for protocol in ["http/1.1", "h2"] {
        let addr = site.addr.to_string();
        let output = Command::new("/usr/bin/python3").args(["-c", LAST_WORDS, &addr, protocol]).output();
        let output = output.expect("Python starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said.trim(), protocol, "{}", String::from_utf8_lossy(&output.stderr));
    }
    let counts = site.stop();
    assert_eq!((counts.timeouts, counts.connections_broken), (0, 0), "{counts:?}");
}

#[test]
fn what_is_no_tls_is_told_or_cut_off() {
    let (site, _directory) = site(|directory, options| {
        options.certificates = vec![certificate::make(directory, "a", &["a"])];
        options.timeouts.head = Duration::from_millis(300);
    });
    let reply = site.exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (reply, rest) = harness::Reply::parse(&reply);
    assert_eq!((reply.status, rest), (400, &b""[..]));
    assert!(reply.text().contains("https://"));
    // An alert, and the end.
    assert_eq!(site.exchange(b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00").first(), Some(&0x15));
    // A client that says nothing, and one that stops in the middle of its hello.
    for begin in [&b""[..], b"\x16\x03\x01\x02"] {
        let mut stream = site.connect();
        stream.write_all(begin).expect("sends");
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).expect("ends"), 0);
    }
    let counts = site.stop();
    assert_eq!((counts.tls_failed, counts.tls_handshakes), (2, 0), "{counts:?}");
    assert!(counts.timeouts >= 1, "{counts:?}");
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = certificate::make(directory.path(), "good", &["a"]);
    let other = certificate::make(directory.path(), "other", &["a"]);
    let none = directory.path().join("none.pem");
    let text = directory.path().join("text.pem");
    std::fs::write(&text, "text").expect("writes");
    for (certificate, key, part) in [
        (&none, &good.key, "none.pem"),
        (&text, &good.key, "text.pem holds no certificate"),
        (&good.certificate, &text, "text.pem"),
        (&good.certificate, &other.key, "give the key that the certificate was made for"),
    ] {
        let mut options = weir_server::Options::new(directory.path());
        options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
        let (certificate, key) = (certificate.clone(), key.clone());
        options.certificates = vec![CertificateFiles::new(certificate, key)];
        let error = weir_server::Server::bind(options).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn what_the_authority_says_is_sent_along_while_it_holds() {
    let mut answer = None;
    let (site, _directory) = site(|directory, options| {
        let files = certificate::make_answered(directory, "site", true);
        answer.clone_from(&files.ocsp);
        options.certificates = vec![files];
    });
    let answer = answer.expect("a file");
    for version in ["-tls1_2", "-tls1_3"] {
        let told = s_client(&site, &["-status", version]);
        assert!(told.contains("OCSP Response Status: successful (0x0)"), "{version}: {told}");
        assert!(told.contains("Cert Status: good"), "{version}: {told}");
        assert!(!s_client(&site, &[version]).contains("OCSP"), "only to whom asks");
    }
    // The same answer, of which the time from when on it is out of date was made the next seconds: the server leaves it
    // to clients to look at the signature.
    let good = std::fs::read(&answer).expect("reads");
    let unix_s = || std::time::UNIX_EPOCH.elapsed().expect("later").as_secs();
    let until = unix_s() + 4;
    let date = Command::new("date").args(["-u", "-d", &format!("@{until}"), "+%Y%m%d%H%M%SZ"]).output();
    let date = String::from_utf8(date.expect("date runs").stdout).expect("digits");
    let date = date.trim().as_bytes();
    // [0] of 17 bytes, and in it the time of 15.
    let at =
        good.windows(4).position(|bytes| bytes == [0xa0, 0x11, 0x18, 0x0f]).expect("it says until when it holds") + 4;
    let mut short = good.clone();
    short[at..at + date.len()].copy_from_slice(date);
    std::fs::write(&answer, &short).expect("writes");
    let has_it = || s_client(&site, &["-status"]).contains("Cert Status: good");
    harness::wait_until(|| !has_it());
    assert!(unix_s() >= until, "not before its time");
    // A newer one is taken up, one that is none is not.
    std::fs::write(&answer, &good).expect("writes");
    harness::wait_until(has_it);
    std::fs::write(&answer, "no answer").expect("writes");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(has_it());
}

#[test]
fn an_answer_of_another_certificate_or_of_a_revoked_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let other = certificate::make_answered(directory.path(), "other", true);
    let revoked = certificate::make_answered(directory.path(), "revoked", false);
    let mixed = {
        let mut files = certificate::make(directory.path(), "mixed", &["mixed.example"]);
        files.ocsp.clone_from(&other.ocsp);
        files
    };
    let mut text = other.clone();
    text.ocsp = Some(other.key.clone());
    for (files, part) in [
        (mixed, "it is of another certificate"),
        (revoked, "it does not say that the certificate is good"),
        (text, "it is no OCSP response"),
    ] {
        let mut options = weir_server::Options::new(directory.path());
        options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
        options.certificates = vec![files];
        let error = weir_server::Server::bind(options).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_host_is_refused_until_its_certificate_is_there() {
    let (site, directory) = site(|directory, options| {
        options.certificates = vec![
            certificate::make(directory, "given", &["given.example"]),
            CertificateFiles::obtained("wanted.example".to_owned(), directory.join("wanted/certificate.pem")),
        ];
    });
    for version in ["-tls1_2", "-tls1_3"] {
        let told = s_client(&site, &["-servername", "wanted.example", version]);
        assert!(told.contains("SSL alert number 112"), "{told}");
        assert!(s_client(&site, &["-servername", "other.example", version]).contains("\r\n\r\nhello"));
    }
    // It comes as one file, from another process.
    let made = certificate::make(directory.path(), "made", &["wanted.example"]);
    let both = [made.certificate, made.key].map(|file| std::fs::read(file).expect("readable")).concat();
    std::fs::create_dir(directory.path().join("wanted")).expect("creates");
    let file = directory.path().join("wanted/certificate.pem");
    std::fs::write(&file, both).expect("writes");
    let is_served = || s_client(&site, &["-servername", "wanted.example"]).contains("subject=CN = made\n");
    harness::wait_until(is_served);
    // What is damaged later is no reason to give up what is used.
    std::fs::write(&file, "damaged").expect("writes");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(is_served());
}

#[test]
fn a_challenge_is_a_handshake_and_nothing_more() {
    let challenges = weir_server::Challenges::default();
    let (site, directory) = site(|directory, options| {
        options.challenges = challenges.clone();
        let wanted = CertificateFiles::obtained("wanted.example".to_owned(), directory.join("none.pem"));
        options.certificates = vec![certificate::make(directory, "given", &["given.example"]), wanted];
    });
    let challenge = ["-servername", "wanted.example", "-alpn", "acme-tls/1"];
    assert!(s_client(&site, &challenge).contains("SSL alert number 112"));
    // With the critical extension of ACME, which no library of TLS knows (RFC 8737 section 3).
    let [leaf, key] = ["leaf.pem", "leaf.key"].map(|name| directory.path().join(name));
    let extension = format!("1.3.6.1.5.5.7.1.31=critical,DER:0420{}", "07".repeat(32));
    let status = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=challenge", "-addext", "subjectAltName=DNS:wanted.example", "-addext", &extension])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&leaf)
        .stderr(Stdio::null())
        .status();
    assert!(status.expect("openssl runs").success());
    let der = |command: &str, file: &Path| {
        let arguments: &[&str] = if command == "pkcs8" { &["-topk8", "-nocrypt"] } else { &[] };
        let output =
            Command::new("openssl").arg(command).args(arguments).args(["-outform", "DER", "-in"]).arg(file).output();
        output.expect("openssl runs").stdout
    };
    let (leaf, key) = (der("x509", &leaf), der("pkcs8", &key));
    challenges.answer_tls_alpn01("wanted.example", leaf, key).expect("it is usable");
    for version in ["-tls1_2", "-tls1_3"] {
        let told = s_client(&site, &[&challenge[..], &[version]].concat());
        assert!(told.contains("subject=CN = challenge\n") && told.contains("ALPN protocol: acme-tls/1"), "{told}");
        assert!(!told.contains("HTTP/1.1"), "nothing is answered over it: {told}");
    }
    // Others are served as before, and a name without a challenge is refused.
    assert!(s_client(&site, &["-servername", "given.example"]).contains("\r\n\r\nhello"));
    let other = s_client(&site, &["-servername", "given.example", "-alpn", "acme-tls/1"]);
    assert!(other.contains("SSL alert number 112"), "{other}");
    challenges.remove_tls_alpn01("wanted.example");
    assert!(s_client(&site, &challenge).contains("SSL alert number 112"));
}
