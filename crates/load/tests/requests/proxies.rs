//! Through proxies: Apache (absolute URLs, tunnels, basic auth), microsocks, and small servers that refuse or misbehave.

use crate::server;

use server::{Peer, Server, load, load_with_events};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_load::{Control, LoadError, Options, StopRule, Trust, Url};
use weir_testkit::{Certificate, Nginx, RunningServer, free_port};
use weir_wire::client::Outcome;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A program of the test, ended with all its processes when the value is dropped.
struct Program {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        // Its children, too: Apache's would go on without their parent. The group has its number until it is waited for.
        let group = i32::try_from(self.child.id()).expect("a process");
        // SAFETY: kill touches no memory.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

fn started(command: &mut Command, port: u16, directory: tempfile::TempDir) -> Program {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().expect("it is installed");
    let program = Program { child, port, _directory: directory };
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(Instant::now() < deadline, "{command:?} does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    program
}

/// Apache as a forward proxy, which lets tunnels go to one port and wants `me:secret` where asked to.
fn apache(tunnel_to: u16, login: bool) -> Option<Program> {
    for module in ["proxy", "proxy_http", "proxy_connect", "auth_basic", "authn_file", "authz_user"] {
        weir_testkit::require::apache_module(module)?;
    }
    let modules = "/usr/lib/apache2/modules";
    let directory = tempfile::tempdir().expect("a directory");
    let dir = directory.path().display().to_string();
    let made = Command::new("openssl").args(["passwd", "-apr1", "secret"]).output().expect("openssl runs");
    let hash = String::from_utf8(made.stdout).expect("text");
    std::fs::write(directory.path().join("users"), format!("me:{}", hash.trim())).expect("a file");
    let load: String = [
        "mpm_event",
        "authz_core",
        "authn_core",
        "authz_user",
        "auth_basic",
        "authn_file",
        "proxy",
        "proxy_http",
        "proxy_connect",
    ]
    .map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n"))
    .concat();
    let who = match login {
        true => format!("AuthType Basic\nAuthName proxy\nAuthUserFile {dir}/users\nRequire valid-user"),
        false => "Require all granted".to_owned(),
    };
    let port = free_port();
    let configuration = format!(
        "{load}ServerName localhost\nServerRoot {dir}\nDocumentRoot {dir}\nPidFile {dir}/pid\nErrorLog {dir}/error.log\n\
         User nobody\nGroup nogroup\nListen 127.0.0.1:{port}\nKeepAlive On\nMaxKeepAliveRequests 0\n\
         ProxyRequests On\nAllowCONNECT {tunnel_to}\n<Proxy \"*\">\n{who}\n</Proxy>\n"
    );
    let file = directory.path().join("apache.conf");
    std::fs::write(&file, configuration).expect("a file");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let mut command = Command::new("/usr/sbin/apache2");
    command.args(["-D", "FOREGROUND", "-f"]).arg(file);
    Some(started(&mut command, port, directory))
}

fn microsocks(arguments: &[&str]) -> Option<Program> {
    weir_testkit::require::program("microsocks")?;
    let port = free_port();
    let mut command = Command::new("microsocks");
    command.args(["-i", "127.0.0.1", "-p", &port.to_string()]).args(arguments);
    Some(started(&mut command, port, tempfile::tempdir().expect("a directory")))
}

fn plain() -> Option<RunningServer> {
    weir_testkit::require::nginx()?;
    Some(Nginx::new().start().expect("nginx starts"))
}

fn encrypted() -> Option<RunningServer> {
    weir_testkit::require::nginx()?;
    weir_testkit::require::program("openssl")?;
    let certificate = Certificate::self_signed().expect("openssl makes one");
    Some(Nginx::new().tls(&certificate).directive("ssl_protocols TLSv1.2 TLSv1.3;").start().expect("nginx starts"))
}

fn through(proxy: &str, url: &str, requests: u64) -> Options {
    let mut options = Options::new(Url::parse(url).expect("a URL"));
    options.trust = Trust::Anything;
    options.connections = 2;
    options.stop = StopRule::Requests(requests);
    options.timeout = Duration::from_secs(10);
    options.reach.proxy = Some(proxy.parse().expect("a proxy"));
    options
}

fn succeeds(options: Options) {
    let requests = match options.stop {
        StopRule::Requests(requests) => requests,
        StopRule::Duration(_) | StopRule::Either { .. } => unreachable!("the tests count requests"),
    };
    let (report, connections, _) = load_with_events(options);
    assert_eq!((report.requests, report.failures()), (requests, 0), "{:?} {:?}", report.errors, report.reasons);
    assert_eq!(report.status, [(200, requests)]);
    assert!(connections.iter().all(|connection| !connection.failed));
}

fn error(options: Options) -> LoadError {
    weir_load::run(options, &Control::default()).expect_err("the proxy refuses")
}

#[test]
fn plain_requests_and_tunnels_through_apache() {
    let (Some(plain), Some(encrypted)) = (plain(), encrypted()) else { return };
    let Some(proxy) = apache(encrypted.port, false) else { return };
    let url = format!("http://127.0.0.1:{}", proxy.port);
    succeeds(through(&url, &format!("http://localhost:{}/1k.txt", plain.port), 200));
    succeeds(through(&url, &format!("https://localhost:{}/1k.txt", encrypted.port), 200));
    // One tunnel a connection, and each is a handshake of its own.
    let mut short = through(&url, &format!("https://localhost:{}/1k.txt", encrypted.port), 20);
    short.keep_alive = false;
    assert_eq!(load(short).handshakes.full, 20);
    // A port that the proxy opens no tunnels to.
    let refused = error(through(&url, &format!("https://localhost:{}/", plain.port), 2));
    assert!(matches!(refused, LoadError::Proxy { .. }), "{refused}");
    assert!(refused.to_string().contains("403 Proxy Error"), "{refused}");
}

#[test]
fn a_proxy_that_wants_to_know_who_asks() {
    let (Some(plain), Some(encrypted)) = (plain(), encrypted()) else { return };
    let Some(proxy) = apache(encrypted.port, true) else { return };
    let with = |who: &str| format!("http://{who}127.0.0.1:{}", proxy.port);
    let (http, https) =
        (format!("http://localhost:{}/1k.txt", plain.port), format!("https://localhost:{}/1k.txt", encrypted.port));
    succeeds(through(&with("me:secret@"), &http, 100));
    succeeds(through(&with("me:secret@"), &https, 100));
    for who in ["", "me:wrong@"] {
        // Without a tunnel the proxy's answer is an answer like any other.
        assert_eq!(load(through(&with(who), &http, 5)).status, [(407, 5)]);
        let refused = error(through(&with(who), &https, 2)).to_string();
        assert!(refused.contains("407 Proxy Authentication Required") && !refused.contains("wrong"), "{refused}");
    }
}

#[test]
fn socks5_with_and_without_a_login() {
    let (Some(plain), Some(encrypted)) = (plain(), encrypted()) else { return };
    let (Some(open), Some(closed)) = (microsocks(&[]), microsocks(&["-u", "me", "-P", "secret"])) else { return };
    let (http, https) =
        (format!("http://localhost:{}/1k.txt", plain.port), format!("https://localhost:{}/1k.txt", encrypted.port));
    for scheme in ["socks5", "socks5h"] {
        for url in [&http, &https] {
            let mut options = through(&format!("{scheme}://127.0.0.1:{}", open.port), url, 100);
            // Only IPv4 is listened on there.
            options.reach.family = weir_load::reach::Family::V4;
            succeeds(options);
        }
    }
    let login = |who: &str| {
        let mut options = through(&format!("socks5://{who}127.0.0.1:{}", closed.port), &https, 50);
        options.reach.family = weir_load::reach::Family::V4;
        options
    };
    succeeds(login("me:secret@"));
    let wrong = error(login("me:wrong@")).to_string();
    assert!(wrong.contains("user and password") && !wrong.contains("wrong"), "{wrong}");
    let none = error(login("")).to_string();
    assert!(none.contains("no way of login"), "{none}");
    // No server listens behind the proxy, which says so.
    let mut closed =
        through(&format!("socks5://127.0.0.1:{}", open.port), &format!("http://127.0.0.1:{}/", free_port()), 2);
    closed.reach.family = weir_load::reach::Family::V4;
    let refused = error(closed).to_string();
    assert!(refused.contains("connection refused"), "{refused}");
}

/// A SOCKS 4 proxy in a few lines: it joins both sides until one ends.
fn socks4(expected: &'static [u8]) -> Server {
    Server::start(move |peer: &mut Peer| {
        let mut head = [0; 8];
        if peer.stream.read_exact(&mut head).is_err() {
            return;
        }
        let mut rest = vec![0; expected.len()];
        peer.stream.read_exact(&mut rest).expect("user and name");
        assert_eq!((&head[..2], rest.as_slice()), (&[4, 1][..], expected));
        let port = u16::from_be_bytes([head[2], head[3]]);
        let server = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("it listens");
        peer.stream.write_all(&[0, 90, 0, 0, 0, 0, 0, 0]).expect("granted");
        let (mut from, mut to) = (server.try_clone().expect("a copy"), peer.stream.try_clone().expect("a copy"));
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut peer.stream, &mut &server);
        let _ = server.shutdown(std::net::Shutdown::Both);
    })
}

#[test]
fn socks4_with_an_address_and_with_a_name() {
    let server = Server::answering(OK);
    let url = format!("http://localhost:{}/", server.address.port());
    let by_address = socks4(b"me\0");
    let mut options = through(&format!("socks4://me@{}", by_address.address), &url, 20);
    options.reach.resolve = vec![format!("localhost:{}:::1,127.0.0.1", server.address.port()).parse().expect("told")];
    succeeds(options);
    let by_name = socks4(b"\0localhost\0");
    succeeds(through(&format!("socks4a://{}", by_name.address), &url, 20));
}

#[test]
fn a_refusal_later_on_is_counted_under_its_own_name() {
    let connections = AtomicUsize::new(0);
    let proxy = Server::start(move |peer| {
        let mut bytes = [0; 64];
        assert!(peer.stream.read(&mut bytes).expect("the methods") >= 3);
        peer.send(&[5, 0]);
        assert!(peer.stream.read(&mut bytes).expect("the place") >= 10);
        match connections.fetch_add(1, Ordering::Relaxed) {
            0 => {
                peer.send(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
                peer.request();
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            }
            1 => drop(peer.send(&[5, 4, 0, 1, 0, 0, 0, 0, 0, 0])),
            2 => {}
            3 => peer.reset(),
            4 => drop(peer.send(b"HTTP/1.1 200 OK")),
            _ => std::thread::sleep(Duration::from_millis(900)),
        }
    });
    let mut options = through(&format!("socks5h://{}", proxy.address), "http://behind.test/", 6);
    options.connections = 1;
    options.timeout = Duration::from_millis(500);
    let report = load(options);
    assert_eq!(report.requests, 1, "{:?} {:?}", report.errors, report.reasons);
    assert_eq!(report.errors, [(Outcome::ConnectTimedOut, 1), (Outcome::Proxy, 4)]);
    let words: Vec<_> = report.reasons.iter().map(|reason| reason.words.as_str()).collect();
    for expected in ["host unreachable", "closed the connection", "reset", "not SOCKS 5"] {
        assert!(words.iter().any(|words| words.contains(expected)), "{expected}: {words:?}");
    }
}

#[test]
fn a_proxy_that_is_not_there_or_says_nothing_ends_the_run() {
    let absent = error(through(&format!("http://127.0.0.1:{}", free_port()), "http://h.test/", 1));
    assert!(matches!(absent, LoadError::Proxy { .. }) && absent.to_string().contains("cannot be reached"), "{absent}");
    let silent = Server::start(|_| std::thread::sleep(Duration::from_secs(2)));
    let mut options = through(&format!("socks5h://{}", silent.address), "http://h.test/", 1);
    options.timeout = Duration::from_millis(300);
    let error = error(options).to_string();
    assert!(error.contains("the proxy did not answer in time"), "{error}");
}

#[test]
fn http2_goes_through_socks_and_through_tunnels() {
    let (Some(()), Some(())) = (weir_testkit::require::nginx(), weir_testkit::require::program("openssl")) else {
        return;
    };
    let (plain, encrypted) = (free_port(), free_port());
    let certificate = Certificate::self_signed().expect("openssl makes one");
    let _server = Nginx::new()
        .directive(&format!("listen 127.0.0.1:{plain} http2; listen 127.0.0.1:{encrypted} ssl http2; sendfile off;"))
        .directive(&format!("ssl_certificate \"{}\";", certificate.certificate().display()))
        .directive(&format!("ssl_certificate_key \"{}\";", certificate.key().display()))
        .start()
        .expect("nginx starts");
    let (Some(socks), Some(tunnels)) = (microsocks(&[]), apache(encrypted, false)) else { return };
    for (proxy, url) in [
        (format!("socks5://127.0.0.1:{}", socks.port), format!("http://127.0.0.1:{plain}/1k.txt")),
        (format!("http://127.0.0.1:{}", tunnels.port), format!("https://localhost:{encrypted}/1k.txt")),
    ] {
        let mut options = through(&proxy, &url, 200);
        options.protocol = weir_load::Protocol::Http2 { streams: 10 };
        succeeds(options);
    }
}
