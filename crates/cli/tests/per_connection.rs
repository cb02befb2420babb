//! Servers that make a thread or a process for each connection: what handles a request did not exist when it arrived.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use support::{alone, explain, number};
use weir_testkit::require;

/// HTTP/1.0: a connection for each request, and for each connection a thread or a process, as the mix-in says.
const SERVER: &str = "
import http.server, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'x' * 1024
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
class Threads(http.server.ThreadingHTTPServer):
    request_queue_size = 128
class Processes(socketserver.ForkingMixIn, http.server.HTTPServer):
    request_queue_size = 128
server = {'threads': Threads, 'processes': Processes}[sys.argv[1]](('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
";

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(model: &str) -> Self {
        let mut child = Command::new("python3")
            .args(["-B", "-c", SERVER, model])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("the server tells its port");
        Self { child, port: line.trim().parse().expect("a port") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn check(model: &str) {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::program("python3").is_none() {
        return;
    }
    let server = Server::start(model);
    let run = tempfile::tempdir().expect("a temporary directory");
    let url = format!("http://127.0.0.1:{}/", server.port);
    let report = explain(&url, server.port, run.path(), &["--no-keepalive", "-c", "2", "-d", "2s"]);
    let joined = number(&report, "/joined_fraction");
    let unattributed = number(&report, "/parts_ns/unattributed") / number(&report, "/response_ns/mean");
    eprintln!(
        "{model}: {} requests, joined {:.3} %, unattributed {:.2} %",
        number(&report, "/requests"),
        100.0 * joined,
        100.0 * unattributed
    );
    assert!(number(&report, "/requests") > 100.0, "{model}: {report:#}");
    assert!(joined >= 0.999, "{model}: joined {joined}, unjoinable {}", report["unjoinable"]);
    assert!(unattributed < 0.05, "{model}: unattributed {unattributed}: {:#}", report["parts_ns"]);
    let sum = number(&report, "/sum_of_parts_over_response/mean");
    assert!((sum - 1.0).abs() < 1e-9, "{model}: the parts are {sum} of the response");
}

#[test]
fn a_thread_for_each_connection() {
    check("threads");
}

#[test]
fn a_process_for_each_connection() {
    check("processes");
}
