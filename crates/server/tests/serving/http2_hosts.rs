//! A configuration as clients of HTTP/2 see it: hosts, paths, passwords, certificates.

use crate::harness;

use base64::Engine;
use harness::{Site, certificate};
use std::io::{Read, Write};
use std::process::Command;
use std::time::{Duration, Instant};
use weir_server::parse_configuration;

/// Of "secret".
const USERS: &[u8] = b"anna:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

const TEXT: &str = r#"
[log]
file = "log"
format = "%u %U %s %H"
[[host]]
root = "site"
set_headers = { X-Own = "yes" }
error_pages = { 404 = "404.html" }
[[host.path]]
prefix = "/private"
auth = { realm = "r", users = "users" }
[[host.path]]
exact = "/old"
redirect = "/a.txt"
[[host]]
names = ["other.example"]
status = 410
"#;

fn serve(users: &[u8], text: &str) -> Site {
    let files: &[(&str, &[u8])] =
        &[("site/a.txt", b"open"), ("site/private/a.txt", b"private"), ("404.html", b"not here"), ("users", users)];
    Site::start(files, |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        for name in ["first", "second"] {
            certificate::make(&folder, name, &["localhost"]);
        }
        *options = parse_configuration(text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        options.listen = listen;
        options.loops = 1;
    })
}

/// What curl receives: status, version, the field x-own and the body.
fn curl(site: &Site, host: &str, target: &str, more: &[&str]) -> String {
    let output = Command::new("timeout")
        .args(["60", "curl", "-sS", "--http2-prior-knowledge", "-H", &format!("Host: {host}")])
        .args(["-w", "|%{http_code} %{http_version} %header{x-own} %{redirect_url}"])
        .args(more)
        .arg(format!("http://{}{target}", site.addr))
        .output()
        .expect("curl starts; `make deps` installs it");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn hosts_paths_and_passwords_hold_for_streams() {
    let site = serve(USERS, TEXT);
    assert_eq!(curl(&site, "a", "/a.txt", &[]), "open|200 2 yes ");
    assert_eq!(curl(&site, "a", "/none", &[]), "not here|404 2 yes ");
    assert_eq!(curl(&site, "a", "/old", &["-o", "/dev/null"]), format!("|301 2 yes http://{}/a.txt", site.addr));
    assert!(curl(&site, "other.example", "/a.txt", &[]).contains("|410 2"));
    assert!(curl(&site, "a", "/private/a.txt", &[]).contains("|401 2 yes"));
    assert_eq!(curl(&site, "a", "/private/a.txt", &["-u", "anna:secret"]), "private|200 2 yes ");
    assert!(curl(&site, "a", "/private/a.txt", &["-u", "anna:wrong"]).contains("|401 2 yes"));
    let path = site.directory.path().join("log");
    harness::wait_until(|| {
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        log.contains("anna /private/a.txt 200 HTTP/2.0\n")
    });
    assert_eq!(site.stop().auth_busy, 0);
}

/// A frame HEADERS that ends its stream: GET of this path, with a field Authorization if there are credentials.
fn get(stream: u32, path: &str, credentials: Option<&str>) -> Vec<u8> {
    // GET and http of the static table; then literals, of which the last has a name of its own.
    let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(b"\x01\x01a");
    if let Some(credentials) = credentials {
        let value = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials));
        block.extend_from_slice(b"\x00\x0dauthorization");
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    frame(1, 5, stream, &block)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// The heads of responses in their order: the stream and the first byte of its block, which is the status.
fn heads(stream: &mut std::net::TcpStream, count: usize) -> Vec<(u32, u8)> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("sets");
    let mut heads = Vec::new();
    while heads.len() < count {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).expect("its payload");
        if head[3] == 1 {
            heads.push((u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload[0]));
        }
    }
    heads
}

#[test]
fn a_stream_waits_for_its_password_and_the_others_go_on() {
    // 2^12 rounds take a while on any machine.
    let slow = String::from_utf8_lossy(USERS).replace("$2y$04$", "$2y$12$");
    let site = serve(slow.as_bytes(), TEXT);
    let mut stream = site.connect();
    let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    input.extend(frame(4, 0, 0, b""));
    // One that waits, one that is taken back while it waits, and two that need not wait.
    input.extend(get(1, "/private/a.txt", Some("anna:wrong")));
    input.extend(get(3, "/private/a.txt", Some("anna:secret")));
    input.extend(frame(3, 0, 3, &[0, 0, 0, 8]));
    input.extend(get(5, "/a.txt", None));
    input.extend(get(7, "/a.txt", Some("anna:wrong")));
    stream.write_all(&input).expect("sends");
    // 0x88 is 200 in the static table; 401 stands there as a text behind its name.
    assert_eq!(heads(&mut stream, 3), [(5, 0x88), (7, 0x88), (1, 0x08)]);
    let path = site.directory.path().join("log");
    let deadline = Instant::now() + Duration::from_secs(20);
    let log = loop {
        let log = std::fs::read_to_string(&path).expect("the log");
        if log.lines().count() >= 3 {
            break log;
        }
        assert!(Instant::now() < deadline, "{log}");
        std::thread::sleep(Duration::from_millis(20));
    };
    // Of the stream that was taken back nothing was answered, and nothing is logged.
    assert_eq!(log, "- /a.txt 200 HTTP/2.0\n- /a.txt 200 HTTP/2.0\n- /private/a.txt 401 HTTP/2.0\n");
    // A connection that ends while a stream waits leaves nothing behind.
    stream.write_all(&get(9, "/private/a.txt", Some("anna:other"))).expect("sends");
    harness::wait_until(|| site.counters.read().requests == 3);
    drop(stream);
    let counts = site.stop();
    assert_eq!((counts.requests, counts.server_errors, counts.auth_busy), (3, 0, 0), "{counts:?}");
}

#[test]
fn a_configuration_brings_its_certificates_and_others_when_it_is_changed() {
    let tls = |name: &str| {
        let one = format!("{{ certificate = \"{name}.pem\", key = \"{name}.key\" }}");
        format!("[tls]\ncertificates = [{one}]\nlisten_clear = [\"127.0.0.1:0\"]\n{TEXT}")
    };
    let site = serve(USERS, &tls("first"));
    let folder = site.directory.path().to_owned();
    let is_served = |name: &str| {
        let output = Command::new("timeout")
            .args(["60", "curl", "-sS", "--cacert"])
            .arg(folder.join(format!("{name}.pem")))
            .args(["-w", "|%{http_version}"])
            .arg(format!("https://localhost:{}/a.txt", site.addr.port()))
            .output();
        String::from_utf8_lossy(&output.expect("curl starts").stdout) == "open|2"
    };
    assert!(is_served("first") && !is_served("second"));
    let clear = format!("http://{}/a.txt", site.addrs[1]);
    let output = Command::new("curl").args(["-sS", "-m", "60", "-w", "|%{http_version}", &clear]).output();
    assert_eq!(String::from_utf8_lossy(&output.expect("curl starts").stdout), "open|1.1");
    let mut options = parse_configuration(&tls("second"), &folder).expect("well-formed");
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    options.loops = 1;
    assert_eq!(site.reloader.reload(options), Vec::<&str>::new());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_served("second") {
        assert!(Instant::now() < deadline, "the other certificate is not in use");
    }
    assert!(!is_served("first"));
    let mut options = parse_configuration(TEXT, &folder).expect("well-formed");
    options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
    options.loops = 1;
    options.limits.connections_per_address_max = Some(9);
    assert_eq!(
        site.reloader.reload(options),
        ["tls (whether there is any)", "tls.listen_clear", "limits.connections_per_address"]
    );
    assert!(is_served("second"));
}
