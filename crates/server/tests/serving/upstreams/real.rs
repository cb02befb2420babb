//! Real servers that tell of each request what they have seen of it.

use super::relay::SEEN;
use super::scripted::tcp;
use std::any::Any;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_testkit::{Apache, Nginx, free_port, require};

/// A server, with what ends it.
pub(super) struct Real {
    pub(super) addr: SocketAddr,
    _running: Box<dyn Any>,
}

/// A process, ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What stands behind Apache and nginx, and tells what these pass on.
fn telling() -> SocketAddr {
    let (addr, _) = tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            let (line, length) = (asked.line().rsplit_once(' ').map_or("", |(line, _)| line), asked.body.len());
            let head = format!("HTTP/1.1 200 OK\r\n{SEEN}: {line} {length}\r\nContent-Length: 0\r\n\r\n");
            if !peer.say(head.as_bytes()) {
                return;
            }
        }
    });
    addr
}

/// Starts a server by its name; none if it is not installed.
pub(super) fn start(name: &str) -> Option<Real> {
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    match name {
        "nginx" => {
            require::nginx()?;
            // It keeps the target as it came, and says what it has read of the body.
            let lines = format!("location / {{ proxy_pass http://{}; proxy_http_version 1.1; }}", telling());
            let running = Nginx::new().directive(&lines).start().expect("nginx starts");
            Some(Real { addr: at(running.port), _running: Box::new(running) })
        }
        "apache" => {
            require::apache()?;
            let to = format!("http://{}/", telling());
            let running = Apache::event().workers(16).proxy("/", &to).start().expect("Apache starts");
            Some(Real { addr: at(running.port), _running: Box::new(running) })
        }
        "gunicorn" => {
            let mut command = Command::new("gunicorn");
            command.args(["--workers", "1", "--worker-class", "gthread", "--threads", "8", "--keep-alive", "60"]);
            program("gunicorn", command, |command, port| {
                command
                    .arg("--chdir")
                    .arg(cases())
                    .arg("--bind")
                    .arg(format!("127.0.0.1:{port}"))
                    .arg("seen:application");
            })
        }
        "node" => program("node", Command::new("node"), |command, port| {
            command.arg(cases().join("seen.js")).arg(port.to_string());
        }),
        "go" => {
            let built = built_by_go()?;
            program("go", Command::new(built), |command, port| {
                command.arg(port.to_string());
            })
        }
        other => panic!("{other}"),
    }
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream_cases")
}

/// Starts a program at a port that is free, and waits until it takes connections.
fn program(name: &str, mut command: Command, with: impl FnOnce(&mut Command, u16)) -> Option<Real> {
    let port = free_port();
    with(&mut command, port);
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    require::or_skip(started.is_ok(), &format!("{name} is not installed; make test-upstreams installs it"))?;
    let running = Process(started.ok()?);
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(addr).is_err() {
        assert!(Instant::now() < deadline, "{name} takes no connection");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(Real { addr, _running: Box::new(running) })
}

/// The server in Go, built beside the tests.
fn built_by_go() -> Option<PathBuf> {
    let tests = std::env::current_exe().ok()?;
    let built = tests.ancestors().nth(1)?.join("upstream-seen-go");
    let go = ["go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go"].into_iter().find(|go| {
        let asked = Command::new(go).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    });
    require::or_skip(go.is_some(), "Go is not installed; apt-get install golang")?;
    let built_well = Command::new(go?).args(["build", "-o"]).arg(&built).arg(cases().join("seen.go")).status();
    assert!(built_well.is_ok_and(|status| status.success()), "Go builds the server");
    Some(built)
}
