//! Scripts that this server runs: what of a site is run, what is sent, and what a script is told and may answer. A test
//! stands for the process that runs them.

use super::scripted::{Client, Peer, Seen, unix};
use crate::harness::{Site, wait_until};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_server::parse_configuration;

const SECRET: &[u8] = b"#!/bin/sh\n# secret\n";

/// Lines that servers of these tests have told.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn told() -> MutexGuard<'static, Vec<String>> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(line: &str) {
    told().push(line.to_owned());
}

/// The variables of a request, which was read with its body (FastCGI sections 3.3 and 3.4).
pub(super) fn variables(peer: &mut Peer) -> Option<(BTreeMap<String, String>, Vec<u8>)> {
    let (mut pairs, mut body) = (Vec::new(), Vec::new());
    loop {
        let head = peer.exactly(8);
        let [_, kind, _, _, high, low, padding, _] = *head.as_slice() else { return None };
        let length = usize::from(high) << 8 | usize::from(low);
        let mut content = peer.exactly(length + usize::from(padding));
        content.truncate(length);
        match kind {
            4 => pairs.extend_from_slice(&content),
            5 if length == 0 => break,
            5 => body.extend_from_slice(&content),
            _ => {}
        }
    }
    let (mut variables, mut rest) = (BTreeMap::new(), pairs.as_slice());
    while !rest.is_empty() {
        let mut length = || {
            let bytes = if rest[0] < 128 { 1 } else { 4 };
            let (length, behind) = rest.split_at(bytes);
            rest = behind;
            length.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)) & 0x7fff_ffff
        };
        let (name, value) = (length(), length());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (pair, behind) = rest.split_at(name + value);
        let before = variables.insert(text(&pair[..name]), text(&pair[name..]));
        assert_eq!(before, None, "{} twice", text(&pair[..name]));
        rest = behind;
    }
    Some((variables, body))
}

/// A record of FastCGI.
pub(super) fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}

/// Answers as the name of the script says, in place of the process that would run it.
fn run(_: usize, mut peer: Peer) {
    while let Some((variables, body)) = variables(&mut peer) {
        let file = variables["SCRIPT_FILENAME"].clone();
        let log = record(7, format!("word of {file}").as_bytes());
        let output: &[u8] = match file.rsplit('/').next().unwrap_or_default() {
            "half" => b"Content-Type: text/plain\r\nX-Ha",
            "none" => b"",
            "garbage" => b"what is no field\r\n\r\nbody",
            "return" => b"Content-Type: a/b\rSet-Cookie: evil=1\r\n\r\nbody",
            "folded" => b"Content-Type: a/b\r\n Set-Cookie: evil=1\r\n\r\nbody",
            "short" => b"Content-Length: 9\r\n\r\nbody",
            "status" => b"Status: 42\r\n\r\nbody",
            "gone" => {
                peer.say(&[log, record(6, b"Content-Type: a/b\r\n")].concat());
                return peer.end();
            }
            "nph-own" => b"HTTP/1.1 203 Own\r\nX-Own: 1\r\n\r\nown",
            _ => b"",
        };
        let neighbour = file.replace("/send-file", "/echo").replace("/send-path", "/echo");
        let handed = match file.rsplit('/').next().unwrap_or_default() {
            "send-file" => format!("X-Sendfile: {neighbour}\n\n"),
            "send-path" => "X-Accel-Redirect: /cgi-bin/echo/info\n\n".to_owned(),
            _ => String::new(),
        };
        let text: String = variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        let answer = format!("Content-Type: text/plain\r\n\r\n{text}BODY={}\n", body.len());
        let is_echo = file.ends_with("/echo") || file.ends_with(".cgi");
        let output = match (is_echo, handed.is_empty()) {
            (true, _) => answer.as_bytes(),
            (_, false) => handed.as_bytes(),
            _ => output,
        };
        let output = if output.is_empty() { Vec::new() } else { record(6, output) };
        if !peer.say(&[log, output, record(3, &[0; 8])].concat()) {
            return;
        }
    }
}

/// A site with scripts, and the process that runs them.
fn scripts(host: &str, files: &[&str]) -> (Site, Seen) {
    let mut seen = None;
    let files: Vec<(&str, &[u8])> = files.iter().map(|name| (*name, SECRET)).chain([("a.txt", &b"file"[..])]).collect();
    let text = format!("[[host]]\nroot = \".\"\n{host}");
    let site = Site::start(&files, |options| {
        let (folder, listen, io) = (options.root.clone(), options.listen.clone(), options.io);
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops, options.io, options.notice) = (listen, 1, io, note);
        options.place_scripts(&folder);
        seen = options.script_pools().first().map(|pool| unix(&pool.socket(&folder), run));
    });
    (site, seen.expect("a pool"))
}

const CGI_BIN: &str = "[[host.path]]\nprefix = \"/cgi-bin/\"\ncgi = { name = \"bin\", workers = 2 }\n";

#[test]
fn files_below_a_prefix_are_run_and_none_is_sent() {
    let (site, _) = scripts(CGI_BIN, &["cgi-bin/echo", "cgi-bin/sub/echo", "cgi-bin/.hidden", "cgi-bin/page.html"]);
    let mut client = Client::new(site.addr);
    for (target, name, info, query) in [
        ("/cgi-bin/echo", "/cgi-bin/echo", "", ""),
        ("/cgi-bin/echo/", "/cgi-bin/echo", "/", ""),
        ("/cgi-bin/echo/a/echo?b=c+d", "/cgi-bin/echo", "/a/echo", "b=c+d"),
        ("/cgi-bin//echo//.x/%2e", "/cgi-bin/echo", "/.x", ""),
        ("/cgi-bin/sub/echo/a%20b", "/cgi-bin/sub/echo", "/a b", ""),
        ("/cgi-bin/%65cho", "/cgi-bin/echo", "", ""),
    ] {
        let text = client.get(target).text();
        let has = |name: &str, value: &str| text.lines().any(|line| line == format!("{name}={value}"));
        assert!(has("SCRIPT_NAME", name) && has("PATH_INFO", info) && has("QUERY_STRING", query), "{target}\n{text}");
        assert!(has("GATEWAY_INTERFACE", "CGI/1.1") && !text.contains("secret"), "{target}\n{text}");
    }
    for target in [
        "/cgi-bin/",
        "/cgi-bin/none",
        "/cgi-bin/sub",
        "/cgi-bin/sub/",
        "/cgi-bin/.hidden",
        "/cgi-bin/none/echo",
        "/cgi-bin/sub/.x/echo",
    ] {
        let reply = client.get(target);
        assert!(reply.status == 404 && !reply.text().contains("secret"), "{target} {}", reply.status);
    }
    for target in ["/cgi-bin/../cgi-bin/echo", "/cgi-bin/%2e%2e/a.txt", "/cgi-bin/..%2fecho", "/cgi-bin/echo%00"] {
        let mut client = Client::new(site.addr);
        client.ask(&format!("GET {target}"), "Connection: close\r\n", b"");
        let text = String::from_utf8_lossy(&client.rest().0).into_owned();
        assert!(text.starts_with("HTTP/1.1 40") && !text.contains("secret"), "{target}\n{text}");
    }
    assert_eq!(client.get("/a.txt").text(), "file");
    client.ask("POST /cgi-bin/echo", "Content-Length: 70000\r\n", &[b'x'; 70_000]);
    let text = client.reply().text();
    assert!(text.contains("CONTENT_LENGTH=70000\n") && text.contains("BODY=70000\n"), "{text}");
    // As it is, a page among scripts is one that cannot answer.
    let reply = client.get("/cgi-bin/page.html");
    assert!(reply.status == 502 && !reply.text().contains("secret"), "{}", reply.status);
}

#[test]
fn no_field_of_a_client_reaches_another_variable_of_a_script() {
    let (site, _) = scripts(CGI_BIN, &["cgi-bin/echo"]);
    let mut client = Client::new(site.addr);
    let fields = "Proxy: http://evil/\r\nX_Under: 1\r\nX-Under: 2\r\nCONTENT_LENGTH: 9\r\nHTTPS: on\r\n\
        Remote-User: root\r\nRemote_User: root\r\nScript-Filename: /etc/passwd\r\nX.Dot: 3\r\nPath: /evil\r\n\
        Ld-Preload: /evil.so\r\nHttp-Proxy: x\r\nContent-Length: 2\r\n";
    client.ask("POST /cgi-bin/echo?-x+--y", fields, b"ab");
    let text = client.reply().text();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")).map(str::to_owned));
    for (name, expected) in [
        ("HTTP_PROXY", None),
        ("HTTP_HTTP_PROXY", Some("x")),
        ("HTTP_X_UNDER", Some("2")),
        ("HTTP_X_DOT", None),
        ("HTTPS", None),
        ("HTTP_HTTPS", Some("on")),
        ("REMOTE_USER", None),
        ("HTTP_REMOTE_USER", Some("root")),
        ("CONTENT_LENGTH", Some("2")),
        ("HTTP_CONTENT_LENGTH", None),
        ("PATH", None),
        ("LD_PRELOAD", None),
        ("QUERY_STRING", Some("-x+--y")),
    ] {
        assert_eq!(value(name).as_deref(), expected, "{name} in\n{text}");
    }
    assert!(value("SCRIPT_FILENAME").is_some_and(|file| file.ends_with("/cgi-bin/echo")), "{text}");
    // Names of clients stand behind HTTP_; what is left is the server's own, and as much as without any field.
    let own = |text: &str| {
        let names = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.to_owned());
        names.filter(|name| !name.starts_with("HTTP_")).collect::<Vec<_>>()
    };
    client.ask("POST /cgi-bin/echo?-x+--y", "Content-Length: 2\r\n", b"ab");
    assert_eq!(own(&text), own(&client.reply().text()));
}

#[test]
fn the_head_of_a_script_is_judged_and_a_bad_one_is_told_by_pool() {
    let names = ["half", "none", "garbage", "return", "folded", "status", "gone", "short", "nph-own", "echo"];
    let files: Vec<String> = names.iter().map(|name| format!("cgi-bin/{name}")).collect();
    let bin = CGI_BIN.replace("\"bin\"", "\"judged\"");
    let (site, _) = scripts(&bin, &files.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names[..7] {
        let mut client = Client::new(site.addr);
        let reply = client.get(&format!("/cgi-bin/{name}"));
        assert_eq!((reply.status, reply.field("set-cookie")), (502, None), "{name}");
        // Others are unharmed.
        assert_eq!(client.get("/cgi-bin/echo").status, 200, "{name}");
    }
    for name in &names[..7] {
        let file = site.directory.path().join("cgi-bin").join(name);
        wait_until(|| told().iter().any(|line| line.ends_with(&format!("word of {}", file.display()))));
        let place = format!("upstream judged at GET /cgi-bin/{name}: ");
        wait_until(|| told().iter().any(|line| line.starts_with(&place)));
    }
    let received = site.exchange(b"GET /cgi-bin/short HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(!received.ends_with(b"\r\n\r\n") || received.starts_with(b"HTTP/1.1 502"), "{received:?}");
    let mut client = Client::new(site.addr);
    let reply = client.get("/cgi-bin/nph-own");
    assert_eq!((reply.status, reply.field("x-own"), reply.text().as_str()), (203, Some("1"), "own"));
}

#[test]
fn scripts_hand_no_source_over() {
    for bin in [CGI_BIN.to_owned(), CGI_BIN.replace("cgi = {", "cgi = { send_from = [\".\"], ")] {
        let (site, _) = scripts(&bin, &["cgi-bin/send-file", "cgi-bin/send-path", "cgi-bin/echo"]);
        let mut client = Client::new(site.addr);
        let reply = client.get("/cgi-bin/send-file");
        assert!(reply.status == 404 && !reply.text().contains("secret"), "{} {}", reply.status, reply.text());
        let text = client.get("/cgi-bin/send-path").text();
        assert!(text.contains("SCRIPT_NAME=/cgi-bin/echo\n") && text.contains("PATH_INFO=/info\n"), "{text}");
    }
}

#[test]
fn scripts_of_a_whole_host_are_known_by_their_endings() {
    let host = "cgi = { endings = [\".cgi\"], name = \"ends\" }\nindex = [\"index.cgi\", \"index.html\"]\n\
        [[host.path]]\nprefix = \"/off/\"\ncgi = false\n\
        [[host.path]]\nprefix = \"/own/\"\nroot = \"own\"\n";
    let (site, _) = scripts(host, &["x.cgi", "index.cgi", "off/x.cgi", "own/x.cgi", "x.cgi.gz", "off/b.txt"]);
    let mut client = Client::new(site.addr);
    for (target, name, info) in [("/x.cgi/a", "/x.cgi", "/a"), ("/", "/index.cgi", ""), ("/x.cgi", "/x.cgi", "")] {
        let text = client.get(target).text();
        let has = |name: &str, value: &str| text.lines().any(|line| line == format!("{name}={value}"));
        assert!(has("SCRIPT_NAME", name) && has("PATH_INFO", info), "{target}\n{text}");
    }
    for target in ["/off/x.cgi", "/own/x.cgi", "/none.cgi", "/x.cgi.gz", "/off/x.cgi/a"] {
        let reply = client.get(target);
        assert!(reply.status == 404 && !reply.text().contains("secret"), "{target} {}", reply.status);
    }
    assert_eq!((client.get("/a.txt").status, client.get("/off/b.txt").status), (200, 200));
}
