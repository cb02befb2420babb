//! Against nginx and Apache: what the generator counts is what the server's own log says.

use crate::server;

use server::{load, load_with_events};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_load::{LoadReport, Options, Request, Schedule, StopRule, Trust, Url};

/// A server with an access log of one line a request: status, bytes sent, connection.
struct Logging {
    child: Child,
    directory: tempfile::TempDir,
    port: u16,
}

/// What a log says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Logged {
    status: BTreeMap<u16, u64>,
    bytes: u64,
    connections: BTreeSet<String>,
}

impl Logging {
    fn start(program: &str, arguments: &[&str], configuration: impl Fn(&Path, u16) -> String) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("root")).expect("a directory");
        for (name, bytes) in [("empty", 0), ("1k", 1000), ("64k", 65_536), ("2m", 2_000_000)] {
            std::fs::write(directory.path().join("root").join(name), vec![b'x'; bytes]).expect("a file");
        }
        open_to_all(directory.path());
        let port = weir_testkit::free_port();
        let file = directory.path().join("server.conf");
        std::fs::write(&file, configuration(directory.path(), port)).expect("a file");
        let child =
            Command::new(program).args(arguments).arg(&file).stderr(Stdio::null()).spawn().expect("it is installed");
        let server = Self { child, directory, port };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn options(&self, path: &str, requests: u64, connections: u32) -> Options {
        let mut options = Options::new(Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).expect("a URL"));
        options.stop = StopRule::Requests(requests);
        options.connections = connections;
        options.timeout = Duration::from_secs(10);
        options
    }

    /// What was logged since the last look, waiting for `requests` lines: a server logs after it has answered.
    fn logged(&self, requests: u64) -> Logged {
        let file = self.directory.path().join("access.log");
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.lines().count() as u64 >= requests && text.ends_with('\n') {
                // Truncated, not removed: the server appends to the file that it has open.
                std::fs::File::create(&file).expect("the log");
                return parse(&text);
            }
            assert!(Instant::now() < deadline, "{requests} requests, in the log {}", text.lines().count());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn parse(text: &str) -> Logged {
    let mut logged = Logged::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three words a line");
        *logged.status.entry(word().parse().expect("a status")).or_default() += 1;
        logged.bytes += word().parse::<u64>().expect("bytes");
        logged.connections.insert(word().to_owned());
    }
    logged
}

/// The server's user is another than ours.
fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).expect("our own directory");
}

impl Drop for Logging {
    fn drop(&mut self) {
        // SAFETY: the process is our child and not waited for yet, so its id is still its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

fn assert_agrees(report: &LoadReport, logged: &Logged) {
    assert_eq!((report.failures(), report.dropped, report.abandoned), (0, 0, 0), "{:?}", report.errors);
    assert_eq!(report.status.iter().copied().collect::<BTreeMap<_, _>>(), logged.status);
    assert_eq!(report.requests, logged.status.values().sum::<u64>());
    assert_eq!(report.bytes, logged.bytes);
}

/// The same loads on any server.
fn check(server: &Logging) {
    for (path, requests) in [("/empty", 2000), ("/1k", 2000), ("/64k", 500), ("/2m", 40), ("/none", 500)] {
        for connections in [1, 20] {
            let report = load(server.options(path, requests, connections));
            let logged = server.logged(requests);
            assert_agrees(&report, &logged);
            assert_eq!(report.connect.len(), logged.connections.len() as u64, "{path} over {connections}");
        }
    }
    let mut options = server.options("/1k", 300, 5);
    options.keep_alive = false;
    let report = load(options);
    assert_agrees(&report, &server.logged(300));
    assert_eq!(report.connect.len(), 300);

    for method in ["HEAD", "POST"] {
        let mut options = server.options("/1k", 300, 5);
        let body = if method == "POST" { vec![b'p'; 5000] } else { Vec::new() };
        options.request = Request { method: method.into(), body, ..Request::default() };
        assert_agrees(&load(options), &server.logged(300));
    }

    let mut options = server.options("/1k", 400, 5);
    options.schedule = Schedule::Poisson { rate_per_s: 1000.0, seed: 5 };
    assert_agrees(&load(options), &server.logged(400));

    let mut options = server.options("/1k", 800, 2);
    options.pipeline = 8;
    let (report, _, requests) = load_with_events(options);
    let logged = server.logged(800);
    assert_eq!((report.requests, report.failures()), (800, 0), "{:?}", report.errors);
    assert_eq!(report.requests, logged.status.values().sum::<u64>());
    assert_eq!(requests.iter().map(|request| request.response_bytes).sum::<u64>(), logged.bytes);
}

#[test]
fn nginx_agrees() {
    if weir_testkit::require::nginx().is_none() || weir_testkit::require::program("openssl").is_none() {
        return;
    }
    let certificate = tempfile::tempdir().expect("a directory");
    let (key, pem) = (certificate.path().join("key.pem"), certificate.path().join("cert.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost"])
        .args([Path::new("-keyout"), &key, Path::new("-out"), &pem])
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("openssl runs").success());
    let configure = |encrypted: bool| {
        let (key, pem) = (key.display().to_string(), pem.display().to_string());
        move |directory: &Path, port: u16| {
            let dir = directory.display();
            let tls = if encrypted {
                format!("ssl_certificate \"{pem}\"; ssl_certificate_key \"{key}\";")
            } else {
                String::new()
            };
            let ssl = if encrypted { " ssl" } else { "" };
            format!(
                r#"daemon off; master_process off; pid "{dir}/pid"; error_log "{dir}/error.log";
events {{ worker_connections 1024; }}
http {{
  log_format short '$status $bytes_sent $connection';
  access_log "{dir}/access.log" short;
  keepalive_requests 77; client_body_temp_path "{dir}/b"; proxy_temp_path "{dir}/p";
  fastcgi_temp_path "{dir}/f"; uwsgi_temp_path "{dir}/u"; scgi_temp_path "{dir}/s";
  {tls}
  server {{ listen 127.0.0.1:{port}{ssl}; root "{dir}/root"; }}
}}
"#
            )
        }
    };
    check(&Logging::start("/usr/sbin/nginx", &["-c"], configure(false)));

    let server = Logging::start("/usr/sbin/nginx", &["-c"], configure(true));
    for (path, requests) in [("/1k", 1000), ("/2m", 20)] {
        let mut options = server.options(path, requests, 5);
        options.url.encrypted = true;
        options.trust = Trust::Anything;
        let report = load(options);
        let logged = server.logged(requests);
        assert_agrees(&report, &logged);
        assert_eq!(report.connect.len(), logged.connections.len() as u64);
    }
}

#[test]
fn apache_agrees() {
    if weir_testkit::require::apache().is_none() {
        return;
    }
    for worker in ["event", "prefork"] {
        let configuration = |directory: &Path, port: u16| {
            let dir = directory.display();
            format!(
                r#"ServerRoot "{dir}"
ServerName localhost
Listen 127.0.0.1:{port}
PidFile "{dir}/pid"
DefaultRuntimeDir "{dir}"
LoadModule mpm_{worker}_module /usr/lib/apache2/modules/mod_mpm_{worker}.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
User #65534
Group #65534
ErrorLog "{dir}/error.log"
LogFormat "%>s %O %{{c}}a:%{{remote}}p" short
CustomLog "{dir}/access.log" short
DocumentRoot "{dir}/root"
<Directory "/">
  Require all granted
</Directory>
MaxKeepAliveRequests 77
StartServers 2
"#
            )
        };
        let server = Logging::start("/usr/sbin/apache2", &["-X", "-f"], configuration);
        if worker == "event" {
            check(&server);
        } else {
            // With -X one process serves one connection after the other.
            let report = load(server.options("/1k", 500, 1));
            assert_agrees(&report, &server.logged(500));
        }
    }
}
