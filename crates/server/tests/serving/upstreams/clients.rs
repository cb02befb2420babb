//! Whose request it is, where proxies stand before this server.

use super::scripted::{Client, site, tcp, telling};
use crate::harness::{certificate, connect, read_to_end};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use weir_server::{AccessLog, LogTarget};

/// An upstream that answers with the fields that tell of the client.
fn mirror() -> SocketAddr {
    let fields = ["x-forwarded-for", "x-real-ip", "x-forwarded-proto", "forwarded", "via"];
    let (addr, _) = tcp(move |_, mut peer| {
        while let Some(asked) = peer.request() {
            let told: Vec<&str> = fields.iter().map(|name| asked.field(name).unwrap_or("-")).collect();
            if !peer.answer(&told.join(" | ")) {
                return;
            }
        }
    });
    addr
}

fn body(reply: &crate::harness::Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

#[test]
fn a_client_is_believed_about_itself_only_where_it_is_a_trusted_proxy() {
    let told = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nForwarded: for=6.6.6.6\r\n";
    let proxy = format!("proxy = \"http://{}\"", mirror());
    let untrusting = site(&proxy, |_| {});
    let mut client = Client::new(untrusting.addr);
    client.ask("GET /", told, b"");
    assert_eq!(body(&client.reply()), "127.0.0.1 | 127.0.0.1 | http | - | 1.1 weir");
    let log = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "trusted_proxies = [\"127.0.0.0/8\"]\n[[host]]\n{proxy}\n[[host.path]]\nprefix = \"/closed\"\nallow = [\"203.0.113.0/24\"]\n"
    );
    let trusting = crate::harness::Site::start(&[], |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        *options = weir_server::parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops, options.root) = (listen, 1, folder);
        let mut own = AccessLog::new(LogTarget::File(log.path().to_owned()));
        own.addresses = true;
        options.access_log = Some(own);
    });
    let mut client = Client::new(trusting.addr);
    client.ask("GET /", told, b"");
    assert_eq!(body(&client.reply()), "203.0.113.9, 127.0.0.1 | 203.0.113.9 | https | - | 1.1 weir");
    client.ask("GET /closed", told, b"");
    assert_eq!(client.reply().status, 200, "access goes by the client's own address");
    client.ask("GET /closed", "", b"");
    assert_eq!(client.reply().status, 403);
    drop(client);
    trusting.stop();
    let lines = std::fs::read_to_string(log.path()).expect("a log");
    assert!(
        lines.starts_with("203.0.113.9 ") && lines.lines().nth(2).is_some_and(|line| line.starts_with("127.0.0.1 ")),
        "{lines}"
    );
}

/// A site whose connections begin with a header of the PROXY protocol.
fn passed_on(change: impl FnOnce(&std::path::Path, &mut weir_server::Options)) -> crate::harness::Site {
    let host = format!("proxy = \"http://{}\"", mirror());
    site(&host, |options| {
        options.proxy_protocol = options.listen.clone();
        let folder = options.root.clone();
        change(&folder, options);
    })
}

#[test]
fn a_header_of_the_proxy_protocol_says_whose_connection_it_is() {
    let site = passed_on(|_, _| {});
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let version_2 =
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &[203, 0, 113, 7, 192, 0, 2, 1, 0x30, 0x39, 0x01, 0xbb]].concat();
    for (header, client) in [
        (&b"PROXY TCP4 203.0.113.5 192.0.2.1 5000 80\r\n"[..], "203.0.113.5"),
        (b"PROXY TCP6 2001:db8::5 2001:db8::1 5000 80\r\n", "2001:db8::5"),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (&version_2, "203.0.113.7"),
    ] {
        for cut in [0, 1, header.len() / 2, header.len()] {
            let mut stream = connect(site.addr);
            stream.write_all(&header[..cut]).expect("sends");
            if cut > 0 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            stream.write_all(&[&header[cut..], request].concat()).expect("sends");
            let text = String::from_utf8_lossy(&read_to_end(&mut stream)).into_owned();
            assert!(text.contains(&format!("\r\n\r\n{client} | {client} | http")), "{header:?} {cut}: {text}");
        }
    }
    // What is no header gets no answer.
    for other in [&request[..], b"PROXY TCP4 1.2.3.4\r\n\r\n", b"\x16\x03\x01"] {
        let mut stream = connect(site.addr);
        stream.write_all(other).expect("sends");
        if other.len() > 10 {
            assert_eq!(read_to_end(&mut stream), b"", "{other:?}");
        }
    }
}

#[test]
fn the_header_comes_before_tls() {
    let (addr, _) = telling();
    let site = site(&format!("proxy = \"http://{addr}\""), |options| {
        options.proxy_protocol = options.listen.clone();
        options.certificates = vec![certificate::make(&options.root, "a", &["localhost"])];
    });
    let url = format!("https://localhost:{}/x", site.addr.port());
    let output = Command::new("curl").args(["-sk", "--haproxy-protocol", &url]).output().expect("curl starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 GET /x HTTP/1.1 0");
}

#[test]
fn connections_are_passed_on_by_trusted_proxies_alone() {
    let text = format!("trusted_proxies = [\"192.0.2.0/24\"]\n[[host]]\nproxy = \"http://{}\"\n", mirror());
    let refused = Arc::new(Mutex::new(Vec::new()));
    let site = crate::harness::Site::start(&[], |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        *options = weir_server::parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops, options.root) = (listen, 1, folder);
        options.proxy_protocol = options.listen.clone();
    });
    let mut stream = connect(site.addr);
    // It may be closed before all of it has gone.
    let _ = stream.write_all(b"PROXY TCP4 203.0.113.5 192.0.2.1 5000 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    refused.lock().expect("not poisoned").extend(read_to_end(&mut stream));
    assert!(refused.lock().expect("not poisoned").is_empty());
    drop(stream);
    assert_eq!(site.stop().connections_refused, 1);
}
