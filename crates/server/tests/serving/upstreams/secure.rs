//! Upstreams that are asked over TLS, and those that TLS cannot be spoken with.

use super::scripted::{site, tcp};
use crate::applications::CLEAR;
use crate::harness::{Site, wait_until};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use weir_server::CertificateFiles;
use weir_testkit::require;

/// What the servers of these tests have told; each test looks for lines with the address of its own upstream.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn told(line: &str) {
    TOLD.lock().expect("no panic").push(line.to_owned());
}

/// Makes an authority, and certificates of it: `good` for localhost and 127.0.0.1, `other` for another name, `expired`
/// for localhost, and `client`.
pub(super) fn certificates(folder: &Path) {
    const SCRIPT: &str = r#"
        exec >/dev/null 2>&1
        new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
        for authority in authority stranger; do
            $new -x509 -days 2 -subj "/CN=$authority" -keyout $authority.key -out $authority.pem || exit 1
        done
        : > index.txt
        printf '[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\n' > ca.cnf
        printf 'policy=p\nunique_subject=no\nx509_extensions=e\n[p]\ncommonName=supplied\n[e]\n' >> ca.cnf
        printf 'basicConstraints=CA:FALSE\nsubjectAltName=${ENV::NAMES}\n' >> ca.cnf
        sign() {
            $new -subj "/CN=$1" -keyout $1.key -out $1.csr || exit 1
            NAMES="$2" openssl ca -batch -config ca.cnf -cert authority.pem -keyfile authority.key -notext -in $1.csr \
                -out $1.pem -startdate $3 -enddate $4 || exit 1
        }
        now=20200101000000Z later=20491231000000Z
        sign good DNS:localhost,IP:127.0.0.1 $now $later
        sign other DNS:other.example $now $later
        sign expired DNS:localhost,IP:127.0.0.1 $now 20200201000000Z
        sign early DNS:localhost,IP:127.0.0.1 20490101000000Z $later
        sign client DNS:client $now $later
    "#;
    let made = Command::new("sh").args(["-c", SCRIPT]).current_dir(folder).stdin(Stdio::null()).status();
    assert!(made.expect("sh starts").success(), "openssl makes certificates; `make deps` installs it");
}

/// A server of this certificate that answers with a file.
fn server(folder: &Path, certificate: &str) -> Site {
    Site::start(&[("a.txt", b"hello")], |options| {
        let [certificate, key] = ["pem", "key"].map(|end| folder.join(format!("{certificate}.{end}")));
        options.certificates = vec![CertificateFiles::new(certificate, key)];
        options.listen_clear = vec!["127.0.0.1:0".parse().expect("an address")];
    })
}

/// A site that asks the server with these settings, and believes the authority.
pub(super) fn asking(folder: &Path, port: u16, settings: &str) -> Site {
    let ca = folder.join("authority.pem");
    let text = format!("proxy = {{ to = \"https://127.0.0.1:{port}\", ca = \"{}\"{settings} }}", ca.display());
    site(&text, |options| options.notice = told)
}

/// Waits until a line about the upstream has these words.
fn is_told(port: u16, words: &str) {
    let of_port = format!("127.0.0.1:{port}");
    let is_there = || TOLD.lock().expect("no panic").iter().any(|line| line.contains(&of_port) && line.contains(words));
    for _ in 0..100 {
        if is_there() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("nothing with \"{words}\" of {of_port} in {:#?}", TOLD.lock().expect("no panic"));
}

#[test]
fn a_server_is_asked_over_tls_and_sessions_are_resumed() {
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    for (version, count) in [("1.1", 4), ("2", 4)] {
        let upstream = server(folder.path(), "good");
        let site = asking(folder.path(), upstream.addr.port(), &format!(", keep = 0, protocol = \"{version}\""));
        for _ in 0..count {
            let reply = site.get("/a.txt");
            assert_eq!((reply.status, reply.text().as_str()), (200, "hello"), "{version}");
        }
        let counts = upstream.stop();
        assert_eq!((counts.tls_handshakes, counts.tls_failed), (count, 0), "{version} {counts:?}");
        assert_eq!(counts.tls_resumed, count - 1, "{version} {counts:?}");
    }
}

#[test]
fn connections_over_tls_are_kept() {
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    for version in ["1.1", "2", "auto"] {
        let upstream = server(folder.path(), "good");
        let site = asking(folder.path(), upstream.addr.port(), &format!(", protocol = \"{version}\""));
        for _ in 0..10 {
            assert_eq!(site.get("/a.txt").text(), "hello");
        }
        assert_eq!(upstream.stop().tls_handshakes, 1, "{version}");
    }
}

#[test]
fn a_certificate_that_is_not_believed_is_told_with_its_reason() {
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    let stranger = format!(", ca = \"{}\"", folder.path().join("stranger.pem").display());
    for version in ["1.1", "auto"] {
        for (certificate, settings, words) in [
            ("good", "", None),
            ("good", ", server_name = \"localhost\"", None),
            ("other", "", Some("is not for the name 127.0.0.1")),
            ("other", ", server_name = \"other.example\"", None),
            ("good", ", server_name = \"else.example\"", Some("is not for the name else.example")),
            ("expired", "", Some("has expired")),
            ("early", "", Some("is not valid yet")),
            ("good", stranger.as_str(), Some("of an authority that is not trusted")),
        ] {
            let upstream = server(folder.path(), certificate);
            let port = upstream.addr.port();
            let protocol = format!(", protocol = \"{version}\"");
            let site = if settings.contains("ca = ") {
                let text = format!("proxy = {{ to = \"https://127.0.0.1:{port}\"{settings}{protocol} }}");
                site(&text, |options| options.notice = told)
            } else {
                asking(folder.path(), port, &format!("{settings}{protocol}"))
            };
            let reply = site.get("/a.txt");
            match words {
                None => assert_eq!((reply.status, reply.text().as_str()), (200, "hello"), "{certificate} {settings}"),
                Some(words) => {
                    assert_eq!(reply.status, 502, "{certificate} {settings}");
                    is_told(port, words);
                }
            }
        }
    }
}

#[test]
fn what_speaks_no_tls_is_told() {
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    // A server that speaks HTTP in the clear, one that speaks something else, and one that says nothing and leaves.
    let clear = server(folder.path(), "good");
    let (garbage, _) = tcp(|_, mut peer| {
        peer.some();
        peer.say(&[b'x'; 100]);
        peer.rest();
    });
    let (leaving, _) = tcp(|_, mut peer| drop(peer.some()));
    for (port, words) in [
        (clear.addrs[CLEAR].port(), "it speaks HTTP in the clear"),
        (garbage.port(), "what is no TLS"),
        (leaving.port(), "in the handshake"),
    ] {
        for version in ["1.1", "auto"] {
            let site = asking(folder.path(), port, &format!(", protocol = \"{version}\""));
            assert_eq!(site.get("/a.txt").status, 502, "{words}");
            is_told(port, words);
        }
    }
}

#[test]
fn a_handshake_that_does_not_end_has_the_time_of_connecting() {
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    let (addr, seen) = tcp(|_, mut peer| drop(peer.rest()));
    for version in ["1.1", "auto"] {
        let settings = format!(", protocol = \"{version}\", retries = false, timeouts = {{ connect = \"500 ms\" }}");
        let site = asking(folder.path(), addr.port(), &settings);
        assert_eq!(site.get("/a.txt").status, 504, "{version}");
        wait_until(|| seen.open() == 0);
    }
}

#[test]
fn a_server_of_nginx_sees_the_name_and_the_client_certificate() {
    if require::nginx().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    let nginx = Nginx::start(folder.path());
    let with =
        ", server_name = \"localhost\", client_certificate = \"{0}/client.pem\", client_key = \"{0}/client.key\"";
    let with = with.replace("{0}", &folder.path().display().to_string());
    for (version, expected) in [("1.1", "HTTP/1.1"), ("2", "HTTP/2.0"), ("auto", "HTTP/2.0")] {
        let protocol = format!(", protocol = \"{version}\"");
        let site = asking(folder.path(), nginx.port, &format!("{with}{protocol}"));
        for _ in 0..3 {
            let text = site.get("/").text();
            assert_eq!(text, format!("{expected} SUCCESS CN=client localhost"));
        }
        // It asks for a certificate, and answers without one by itself.
        let bare = asking(folder.path(), nginx.port, &protocol);
        assert_eq!(bare.get("/").text(), format!("{expected} NONE  "), "{version}");
    }
}

/// nginx over TLS, which tells what it sees.
struct Nginx {
    child: std::process::Child,
    port: u16,
}

impl Nginx {
    fn start(folder: &Path) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let at = folder.display();
        let text = format!(
            "daemon off;\nuser root root;\nworker_processes 1;\npid {at}/nginx.pid;\nerror_log {at}/error.log;\n\
             events {{ }}\nhttp {{\n  access_log off;\n  server {{\n    listen 127.0.0.1:{port} ssl http2;\n    \
             ssl_certificate {at}/good.pem;\n    ssl_certificate_key {at}/good.key;\n    \
             ssl_client_certificate {at}/authority.pem;\n    ssl_verify_client optional;\n    location / {{\n      \
             return 200 \"$server_protocol $ssl_client_verify $ssl_client_s_dn $ssl_server_name\";\n    }}\n  }}\n}}\n"
        );
        std::fs::write(folder.join("nginx.conf"), text).expect("writes");
        let child = Command::new("/usr/sbin/nginx")
            .args(["-p", &at.to_string(), "-c", &format!("{at}/nginx.conf"), "-e", &format!("{at}/error.log")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx starts");
        wait_until(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, port }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SAFETY: the process is our child and was not waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

#[test]
fn a_header_of_the_proxy_protocol_stands_before_all_else_and_its_connection_is_of_one_request() {
    for (version, begins) in [
        ("true", &b"PROXY TCP4 127.0.0.1 127.0.0.1 "[..]),
        ("2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01"),
    ] {
        let (addr, seen) = tcp(move |_, mut peer| {
            let mut header = peer.exactly(28);
            let ports = if begins[0] == b'P' {
                while !header.ends_with(b"\r\n") {
                    header.extend(peer.exactly(1));
                }
                let text = String::from_utf8(header.clone()).expect("a line");
                text.trim_end().rsplit(' ').take(2).map(|port| port.parse().expect("a port")).collect::<Vec<u16>>()
            } else {
                header[24..].chunks(2).map(|port| u16::from_be_bytes([port[0], port[1]])).collect()
            };
            assert!(header.starts_with(begins), "{}", header.escape_ascii());
            assert!(ports.len() == 2 && !ports.contains(&0), "{ports:?}");
            while peer.request().is_some() {
                peer.answer("good");
            }
        });
        let site = super::scripted::proxy(addr, &format!(", send_proxy_protocol = {version}"));
        for _ in 0..3 {
            assert_eq!(site.get("/").text(), "good", "{version}");
        }
        wait_until(|| seen.accepted() == 3 && seen.open() == 0);
    }
}

#[test]
fn changed_certificates_of_an_upstream_hold_after_a_reload() {
    let folder = tempfile::tempdir().expect("a directory");
    certificates(folder.path());
    let upstream = server(folder.path(), "good");
    let ca = folder.path().join("ca.pem");
    std::fs::copy(folder.path().join("stranger.pem"), &ca).expect("copies");
    let port = upstream.addr.port();
    let text = format!("[[host]]\nproxy = {{ to = \"https://127.0.0.1:{port}\", ca = \"{}\" }}\n", ca.display());
    let asking = site(&text["[[host]]\n".len()..], |_| {});
    assert_eq!(asking.get("/a.txt").status, 502);
    std::fs::copy(folder.path().join("authority.pem"), &ca).expect("copies");
    let mut options = weir_server::parse_configuration(&text, folder.path()).expect("no mistakes");
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    options.loops = 1;
    asking.reloader.reload(options);
    wait_until(|| asking.get("/a.txt").status == 200);
}
