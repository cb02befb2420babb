//! `weir serve` obtains certificates from Pebble, the test server of Let's Encrypt: `make test-acme` brings it.
// scripts/test: waits

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_testkit::{Certificate, require};

/// How long anything may take that the authority is asked for.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process, ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ports that are free at the moment.
fn free_ports<const N: usize>() -> [u16; N] {
    let held: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    held.map(|socket| socket.local_addr().expect("bound").port())
}

/// An authority that asks for names at 127.0.0.1.
struct Pebble {
    _folder: Folder,
    _processes: [Running; 2],
    certificate: Certificate,
    directory: String,
}

/// A directory, removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-acme-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("creates");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Pebble {
    /// Issues certificates of so many seconds. A third of all nonces is refused.
    fn start(name: &str, validity_s: u32, (http, tls): (u16, u16)) -> Self {
        let folder = Folder::new(&format!("{name}-pebble"));
        let certificate = Certificate::self_signed().expect("openssl makes one");
        let [port, management, dns, dns_management] = free_ports();
        let (path, key) = (certificate.certificate(), certificate.key());
        let configuration = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
                "certificate": "{}", "privateKey": "{}", "httpPort": {http}, "tlsPort": {tls}, "ocspResponderURL": "",
                "externalAccountBindingRequired": false, "domainBlocklist": ["blocked.example.test"],
                "retryAfter": {{"authz": 1, "order": 1}}, "keyAlgorithm": "ecdsa",
                "profiles": {{"default": {{"description": "-", "validityPeriod": {validity_s}}}}}}}}}"#,
            path.display(),
            key.display()
        );
        let file = folder.0.join("pebble.json");
        fs::write(&file, configuration).expect("writes");
        let spawn = |command: &mut Command| {
            Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
        };
        let names = spawn(
            Command::new("pebble-challtestsrv")
                .args(["-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
                .args([
                    "-dnsserver",
                    &format!("127.0.0.1:{dns}"),
                    "-management",
                    &format!("127.0.0.1:{dns_management}"),
                ]),
        );
        let authority = spawn(
            Command::new("pebble")
                .arg("-config")
                .arg(&file)
                .args(["-dnsserver", &format!("127.0.0.1:{dns}")])
                .env("PEBBLE_VA_NOSLEEP", "1")
                .env("PEBBLE_WFE_NONCEREJECT", "33")
                .env("PEBBLE_AUTHZREUSE", "0"),
        );
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "Pebble does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let directory = format!("https://localhost:{port}/dir");
        Self { _folder: folder, _processes: [authority, names], certificate, directory }
    }
}

/// A site whose certificate is to be obtained.
struct Site {
    folder: Folder,
    http: u16,
    tls: u16,
}

impl Site {
    fn new(name: &str) -> Self {
        let [http, tls] = free_ports();
        let folder = Folder::new(name);
        fs::create_dir(folder.0.join("site")).expect("creates");
        fs::write(folder.0.join("site/index.html"), "hello").expect("writes");
        Self { folder, http, tls }
    }

    fn configure(&self, pebble: &Pebble, host: &str, more: &str) {
        let (http, tls, directory) = (self.http, self.tls, &pebble.directory);
        let text = format!(
            "listen = [\"127.0.0.1:{tls}\"]\nloops = 1\n[tls]\nlisten_clear = [\"127.0.0.1:{http}\"]\n[acme]\ndirectory = \
             \"{directory}\"\ncontact = \"admin@example.test\"\nagree_to_terms = true\nstorage = \"state/acme\"\nca = \
             \"{}\"\n{more}\n[admin]\nlisten = \"unix:admin.sock\"\n[[host]]\nnames = [\"{host}\"]\nroot = \
             \"site\"\ncertificate = \"acme\"\n[[host.path]]\nprefix = \"/\"\nset_headers = {{ X-Seen = \"1\" }}\n",
            pebble.certificate.certificate().display()
        );
        fs::write(self.folder.0.join("weir.toml"), text).expect("writes");
    }

    fn serve(&self) -> Running {
        let _ = fs::remove_file(self.folder.0.join("admin.sock"));
        let log = fs::File::create(self.folder.0.join("log")).expect("creates");
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("serve")
            .arg(self.folder.0.join("weir.toml"))
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("weir starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it serves");
        assert!(line.starts_with("serving "), "{line}{}", self.log());
        Running(child)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.0.join("log")).unwrap_or_default()
    }

    /// What openssl says of a handshake for a host.
    fn handshake(&self, host: &str, more: &[&str]) -> String {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &format!("127.0.0.1:{}", self.tls), "-servername", host])
            .args(more)
            .stdin(Stdio::null())
            .output()
            .expect("openssl runs");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    /// The certificate of a host once that is another one than `before`.
    fn certificate(&self, host: &str, before: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = self.handshake(host, &[]);
            let begin = said.find("-----BEGIN CERTIFICATE-----");
            let pem = begin.and_then(|at| said[at..].split_inclusive("-----END CERTIFICATE-----").next());
            match pem {
                Some(pem) if pem != before && said.contains("issuer=CN = Pebble") => return pem.to_owned(),
                _ => {}
            }
            assert!(Instant::now() < until, "no certificate: {said}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn get(&self, path: &str, host: &str) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.http)).expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("writes");
        let mut response = String::new();
        socket.read_to_string(&mut response).expect("reads");
        response
    }

    fn status(&self) -> String {
        let mut socket = UnixStream::connect(self.folder.0.join("admin.sock")).expect("connects");
        let request = b"GET /status.json HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n";
        socket.write_all(request).expect("writes");
        let mut response = String::new();
        socket.read_to_string(&mut response).expect("reads");
        response
    }

    /// The status once it has the words.
    fn status_with(&self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if status.contains(words) {
                return status;
            }
            assert!(Instant::now() < until, "not there: {words}: {status}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn state(&self, host: &str) -> String {
        fs::read_to_string(self.folder.0.join("state/acme/hosts").join(host).join("state.toml")).expect("a state")
    }
}

fn has_pebble() -> Option<()> {
    require::program("pebble")?;
    require::program("pebble-challtestsrv")
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn is_obtained_by(challenge: &str) {
    let site = Site::new(challenge);
    let pebble = Pebble::start(challenge, 7_776_000, (site.http, site.tls));
    let host = "shop.example.test";
    site.configure(&pebble, host, &format!("challenge = \"{challenge}\""));
    let running = site.serve();
    let pem = site.certificate(host, "");
    let status = site.status_with("\"state\":\"valid\"");
    assert!(status.contains(r#""failures":0"#), "{status}");
    assert!(site.log().contains("shop.example.test has a certificate of "), "{}", site.log());
    assert!(site.get("/", host).ends_with("hello"));
    // A challenge that is over is a path as any other one.
    assert!(site.get("/.well-known/acme-challenge/x", host).starts_with("HTTP/1.1 404"));
    let over = site.handshake(host, &["-alpn", "acme-tls/1"]);
    assert!(!over.contains("GET"), "{over}");
    let storage = site.folder.0.join("state/acme");
    for (path, wanted) in [("", 0o700), ("account.key", 0o600), ("hosts/shop.example.test/certificate.pem", 0o600)] {
        assert_eq!(mode(&storage.join(path)), wanted, "{path}");
    }
    drop(running);
    // What was obtained is used again at once: the authority is not asked.
    let account = fs::read(storage.join("account.key")).expect("a key");
    let _running = site.serve();
    assert_eq!(site.certificate(host, ""), pem);
    assert_eq!(fs::read(storage.join("account.key")).expect("a key"), account);
}

#[test]
fn a_certificate_is_obtained_by_http_01() {
    if has_pebble().is_some() {
        is_obtained_by("http-01");
    }
}

#[test]
fn a_certificate_is_obtained_by_tls_alpn_01() {
    if has_pebble().is_some() {
        is_obtained_by("tls-alpn-01");
    }
}

#[test]
fn a_certificate_is_renewed_when_it_is_due() {
    if has_pebble().is_none() {
        return;
    }
    let site = Site::new("renewed");
    let pebble = Pebble::start("renewed", 30, (site.http, site.tls));
    site.configure(&pebble, "shop.example.test", "");
    let _running = site.serve();
    let first = site.certificate("shop.example.test", "");
    site.certificate("shop.example.test", &first);
}

#[test]
fn an_order_that_fails_is_told_and_not_repeated_at_once() {
    if has_pebble().is_none() {
        return;
    }
    let site = Site::new("refused");
    let pebble = Pebble::start("refused", 7_776_000, (site.http, site.tls));
    let host = "blocked.example.test";
    site.configure(&pebble, host, "");
    let running = site.serve();
    let status = site.status_with("\"failures\":1");
    assert!(status.contains("rejectedIdentifier"), "{status}");
    let said = site.handshake(host, &[]);
    assert!(said.contains("alert number 112") || said.contains("unrecognized name"), "{said}");
    assert!(site.get("/", host).ends_with("hello"), "it is served in the clear meanwhile");
    drop(running);
    let state = site.state(host);
    assert!(state.contains("failures = 1"), "{state}");
    let _running = site.serve();
    let status = site.status_with("\"failures\":1");
    assert!(status.contains("rejectedIdentifier"), "{status}");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(site.state(host), state, "a restart is no reason to ask again");
}

#[test]
fn a_name_that_cannot_be_checked_is_tried_in_the_other_way_later() {
    if has_pebble().is_none() {
        return;
    }
    let site = Site::new("unproved");
    // The authority asks at ports where nothing listens.
    let [http, tls] = free_ports();
    let pebble = Pebble::start("unproved", 7_776_000, (http, tls));
    site.configure(&pebble, "shop.example.test", "");
    let _running = site.serve();
    let status = site.status_with("\"failures\":1");
    assert!(status.contains("could not check shop.example.test by http-01"), "{status}");
    assert!(site.log().contains("the next attempt is in 6"), "{}", site.log());
}
