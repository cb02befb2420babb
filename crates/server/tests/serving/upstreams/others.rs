//! Servers of other implementations as upstreams of HTTP/2: nghttpd, h2o and Caddy, where they are installed.

use super::scripted::{Client, pattern, site};
use crate::harness::wait_until;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_testkit::require;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program that serves the folder at a port, in the clear, and waits until it answers.
fn start(name: &str, folder: &Path, port: u16) -> Running {
    let at = folder.display();
    let mut command = Command::new(name);
    match name {
        "nghttpd" => {
            command.args(["--no-tls", "-a", "127.0.0.1", "--trailer", "x-behind: 1", "-d"]).arg(folder);
            command.arg(port.to_string());
        }
        "h2o" => {
            let text = format!(
                "listen:\n  host: 127.0.0.1\n  port: {port}\nuser: root\nhosts:\n  default:\n    paths:\n      /:\n        \
                 file.dir: {at}\n"
            );
            std::fs::write(folder.join("h2o.conf"), text).expect("writes");
            command.arg("-c").arg(folder.join("h2o.conf"));
        }
        _ => {
            let text = format!(
                "{{\n  admin off\n  auto_https off\n  servers {{\n    protocols h1 h2c\n  }}\n}}\nhttp://:{port} {{\n  \
                 bind 127.0.0.1\n  root * {at}\n  file_server\n}}\n"
            );
            std::fs::write(folder.join("Caddyfile"), text).expect("writes");
            command.args(["run", "--adapter", "caddyfile", "--config"]).arg(folder.join("Caddyfile"));
            command.env("HOME", folder);
        }
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let running = Running(child.expect("it starts"));
    wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
    running
}

#[test]
fn files_come_whole_from_servers_of_other_implementations() {
    let large = pattern(1 << 20);
    for name in ["nghttpd", "h2o", "caddy"] {
        if require::program(name).is_none() {
            continue;
        }
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::write(folder.path().join("small.txt"), "hello").expect("writes");
        std::fs::write(folder.path().join("large.bin"), &large).expect("writes");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let _running = start(name, folder.path(), port);
        let site = site(&format!("proxy = \"h2c://127.0.0.1:{port}\""), |_| {});
        let clients: Vec<_> = (0..6).map(|_| Client::new(site.addr)).collect();
        for (number, mut client) in clients.into_iter().enumerate() {
            for _ in 0..3 {
                client.ask(if number % 2 == 0 { "GET /large.bin" } else { "GET /small.txt" }, "", b"");
                let head = client.until("\r\n\r\n");
                assert!(head.starts_with("HTTP/1.1 200 "), "{name} {head}");
                let expected = if number % 2 == 0 { &large[..] } else { b"hello" };
                assert!(client.exactly(expected.len()) == expected, "{name}");
                assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "{name} says no length: {head}");
            }
        }
        assert_eq!(site.ask("HEAD", "/large.bin", "").status, 200, "{name}");
        assert_eq!(site.get("/none").status, 404, "{name}");
    }
}
