//! What a handler waits for over sockets: a name server, a downstream that sleeps or collects garbage.

use crate::support;

use support::number;
use support::planted::{Beside, explained, first, names_first, said, undisturbed, wait_for};
use support::resolver::{ADDRESS, slow_resolver};
use weir_testkit::{Apache, Cgi, Faulty, Nginx, RunningServer, Site, require};

/// The downstream is another process; where it is recorded, what it does takes the place of the wait for it.
#[test]
fn a_downstream_that_sleeps() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("downstream").start().expect("the server starts");
    let port = server.port.to_string();
    let options = ["--port", &port, "--comm", "weir-downstream", "-c", "2", "-d", "2s"];
    let report = explained(&server.url("/"), &options);
    names_first(&report, "wait_timer", "weir-downstream");
    assert!(number(&report, "/parts_ns/wait_timer") > 9.9e6, "{}", said(&report));
}

/// A service with a large heap, of which each request leaves garbage behind: collecting it takes nearly all the time.
const COLLECTOR: &str = "#!/usr/bin/python3
import gc, http.server, sys
heap = [[n] for n in range(200000)]
gc.disable()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1
    def do_GET(self):
        gc.collect()
        body = b'collected\\n'
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, file=open(sys.argv[1], 'w'), flush=True)
server.serve_forever()
";

#[test]
fn a_downstream_that_collects_garbage() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::program("python3").is_none() {
        return;
    }
    let files = Site::empty().expect("a directory");
    files.write_program("shop-service", COLLECTOR.as_bytes()).expect("the service");
    let said_port = files.path().join("port");
    let service = Beside::start(&files.path().join("shop-service"), &[said_port.to_str().expect("a readable path")]);
    let behind = wait_for(|| std::fs::read_to_string(&said_port).ok()?.trim().parse::<u16>().ok());
    let web = Nginx::new().proxy("/shop/", &format!("http://127.0.0.1:{behind}/")).start().expect("nginx starts");
    let (port, pid) = (web.port.to_string(), service.pid().to_string());
    let report = explained(&web.url("/shop/cart"), &["--port", &port, "--pid", &pid, "-c", "1", "-d", "2s"]);
    names_first(&report, "run", "shop-service");
}

/// A proxy that moves bytes from socket to socket by splice(2), as a thread for each direction, to a server that thinks.
const SPLICER: &str = "#!/usr/bin/python3
import os, socket, sys, threading
from time import sleep
front = socket.create_server(('127.0.0.1', 0), backlog=64)
back = socket.create_server(('127.0.0.1', 0), backlog=64)
def pump(taken, given):
    reads, writes = os.pipe()
    while moved := os.splice(taken.fileno(), writes, 65536):
        while moved:
            moved -= os.splice(reads, given.fileno(), moved)
def proxy():
    while True:
        client, _ = front.accept()
        server = socket.create_connection(back.getsockname())
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        threading.Thread(target=pump, args=(server, client), daemon=True).start()
def answers(client):
    while client.recv(4096):
        sleep(0.008)
        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
threading.Thread(target=proxy, daemon=True).start()
print(front.getsockname()[1], back.getsockname()[1], file=open(sys.argv[1], 'w'), flush=True)
while True:
    client, _ = back.accept()
    threading.Thread(target=answers, args=(client,), daemon=True).start()
";

#[test]
fn a_proxy_that_splices() {
    let _turn = undisturbed();
    if require::root_and_bpf().is_none() || require::program("python3").is_none() {
        return;
    }
    let files = Site::empty().expect("a directory");
    files.write_program("splicing-proxy", SPLICER.as_bytes()).expect("the proxy");
    let said_ports = files.path().join("ports");
    let proxy = Beside::start(&files.path().join("splicing-proxy"), &[said_ports.to_str().expect("a readable path")]);
    let ports = wait_for(|| {
        let text = std::fs::read_to_string(&said_ports).ok()?;
        let (front, back) = text.trim().split_once(' ')?;
        Some((front.to_owned(), back.to_owned()))
    });
    let pid = proxy.pid().to_string();
    let url = format!("http://127.0.0.1:{}/", ports.0);
    let report = explained(&url, &["--pid", &pid, "--port", &ports.0, "--port", &ports.1, "-c", "2", "-d", "2s"]);
    names_first(&report, "wait_timer", "splicing-proxy");
    // A few requests go by until the splicing is seen.
    assert!(number(&report, "/parts_ns/wait_timer") > 7e6, "{}", said(&report));
}

const LOOKUP: &str = r#"
#include <netdb.h>
#include <stdio.h>
int main(void) {
    struct hostent *found = gethostbyname("shop.example.");
    printf("Status: %d\r\nContent-Type: text/plain\r\n\r\n%s\n", found ? 200 : 500, found ? found->h_name : "not found");
    return 0;
}
"#;

/// A handler that looks up a name for each request, at a name server that takes 30 ms.
///
/// The program has a view of the file system in which /etc/resolv.conf names that server: nothing else is changed.
fn looking_up(captured: bool) {
    if require::root_and_bpf().is_none()
        || require::apache_module("cgi").is_none()
        || require::program("python3").is_none()
        || require::program("cc").is_none()
        || require::program("unshare").is_none()
    {
        return;
    }
    let site = Site::empty().expect("a site");
    site.write("resolv.conf", format!("nameserver {ADDRESS}\n").as_bytes()).expect("its address");
    site.compile("lookup.cgi", LOOKUP, &[]).expect("the CGI program is compiled");
    let resolver = slow_resolver(&site);
    let web = with_resolver(site.path());
    let (port, pid) = (web.port.to_string(), resolver.pid().to_string());
    let mut options = vec!["--port", &port, "-c", "1", "-d", "2s", "--no-keepalive"];
    if captured {
        options.extend(["--pid", &pid]);
    }
    let report = explained(&web.url("/lookup.cgi"), &options);
    assert_eq!(report["errors"], serde_json::json!({}), "the name is not found");
    if captured {
        names_first(&report, "wait_timer", "slow-resolver");
    } else {
        let (part, who) = first(&report);
        assert!(matches!(part, "wait_process" | "wait_network"), "{}", said(&report));
        assert!(who.contains("slow-resolver") || who.contains(ADDRESS), "{who}: {}", said(&report));
    }
}

#[test]
fn a_slow_name_server() {
    let _turn = undisturbed();
    looking_up(false);
}

#[test]
fn a_slow_name_server_that_is_recorded_too() {
    let _turn = undisturbed();
    looking_up(true);
}

fn with_resolver(root: &std::path::Path) -> RunningServer {
    let server = Apache::prefork().workers(2).root(root).cgi(Cgi::Direct).resolver(&root.join("resolv.conf"));
    server.start().expect("Apache starts")
}
