//! Requests that an upstream hands over to a file or to another script.

use super::scripted::{Client, site, tcp};
use crate::harness::{Reply, Site};
use std::path::Path;
use tempfile::TempDir;
use weir_testkit::PhpFpm;

const TOLD: &str =
    "Content-Type: x/y\r\nSet-Cookie: a=b\r\nETag: \"own\"\r\nX-Accel-Buffering: no\r\nContent-Length: 4\r\n";

/// A site whose upstream hands over to what its target says behind a question mark.
fn handing(settings: &str) -> (Site, TempDir) {
    let (addr, _) = tcp(|_, mut peer| {
        while let Some(asked) = peer.request() {
            let (_, to) = asked.target().split_once('?').unwrap_or_default();
            let body = if asked.line().starts_with("HEAD") { "" } else { "body" };
            if !peer.say(format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\n{TOLD}\r\n{body}").as_bytes()) {
                return;
            }
        }
    });
    let text = format!(
        "root = \"www\"\n[[host.path]]\nprefix = \"/inside/\"\nroot = \"inside\"\ninternal = true\n[[host.path]]\n\
         prefix = \"/app\"\nproxy = {{ to = \"http://{addr}\"{settings} }}"
    );
    site_with(&text)
}

/// A site with directories for the host and for what clients cannot ask for.
fn site_with(text: &str) -> (Site, TempDir) {
    let folder = tempfile::tempdir().expect("a directory");
    for (name, content) in [("www/page.txt", "page"), ("inside/file.bin", "0123456789"), ("inside/.dot", "dot")] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("creates");
        std::fs::write(path, content).expect("writes");
    }
    let at = |name: &str| format!("\"{}\"", folder.path().join(name).display());
    let text = text.replace("\"www\"", &at("www")).replace("\"inside\"", &at("inside"));
    (site(&text, |_| {}), folder)
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

#[test]
fn a_file_is_sent_in_place_of_a_proxied_response() {
    let (site, _folder) = handing(", accel = true");
    let mut client = Client::new(site.addr);
    for target in ["/inside/file.bin", "/inside/", "/inside/.dot"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    let whole = client.get("/app?/inside/file.bin");
    assert_eq!((whole.status, text(&whole).as_str()), (200, "0123456789"));
    let field = |name: &str| whole.field(name).map(str::to_owned);
    assert_eq!((field("content-type").as_deref(), field("set-cookie").as_deref()), (Some("x/y"), Some("a=b")));
    let etag = field("etag").expect("an entity tag");
    assert!(etag != "\"own\"" && field("x-accel-redirect").is_none() && field("x-accel-buffering").is_none());
    for (fields, status, body, range) in [
        ("Range: bytes=2-4\r\n".to_owned(), 206, "234", Some("bytes 2-4/10")),
        ("Range: bytes=90-\r\n".to_owned(), 416, "", Some("bytes */10")),
        (format!("Range: bytes=2-4\r\nIf-Range: {etag}\r\n"), 206, "234", Some("bytes 2-4/10")),
        ("Range: bytes=2-4\r\nIf-Range: \"own\"\r\n".to_owned(), 200, "0123456789", None),
        ("If-Match: \"own\"\r\n".to_owned(), 412, "", None),
    ] {
        client.ask("GET /app?/inside/file.bin", &fields, b"");
        let reply = client.reply();
        assert_eq!((reply.status, reply.field("content-range")), (status, range), "{fields}");
        assert!(status == 412 || text(&reply) == body, "{fields} {}", text(&reply));
    }
    client.ask("GET /app?/inside/file.bin", &format!("If-None-Match: {etag}\r\n"), b"");
    assert!(client.until("\r\n\r\n").starts_with("HTTP/1.1 304"));
    client.ask("HEAD /app?/inside/file.bin", "", b"");
    assert!(client.until("\r\n\r\n").contains("Content-Length: 10\r\n"));
    // A path of the same upstream, which then names none; a path that all clients may ask for; paths that lead nowhere.
    assert_eq!(text(&client.get("/app?/app")), "body");
    assert_eq!(text(&client.get("/app?/page.txt")), "page");
    for to in ["/inside/none", "/inside/.dot", "/inside/../page.txt/x"] {
        assert_eq!(client.get(&format!("/app?{to}")).status, 404, "{to}");
    }
}

#[test]
fn nothing_is_handed_over_unless_the_configuration_says_so() {
    let (site, _folder) = handing("");
    let mut client = Client::new(site.addr);
    let reply = client.get("/app?/inside/file.bin");
    assert_eq!((reply.status, text(&reply).as_str()), (200, "body"));
    assert_eq!(reply.field("x-accel-redirect"), Some("/inside/file.bin"));
}

const SCRIPT: &str = r#"<?php
[$name, $value] = explode('=', $_SERVER['QUERY_STRING'], 2) + ['', ''];
if ($name === 'said') { header('Content-Type: x/y'); echo $value, ' ', $_SERVER['REQUEST_METHOD']; exit; }
header_remove('Content-Type');
header($name . ': ' . $value);
"#;

#[test]
fn scripts_name_files_and_other_scripts() {
    let is_fpm = |name: std::ffi::OsString| name.to_string_lossy().starts_with("php-fpm");
    let mut programs = Path::new("/usr/sbin").read_dir().into_iter().flatten().flatten();
    if !programs.any(|entry| is_fpm(entry.file_name())) {
        println!("skipped: php-fpm is not installed; `make deps` installs it");
        return;
    }
    let fpm = PhpFpm::new().start().expect("php-fpm starts");
    let to = format!(
        "fastcgi = {{ to = \"unix:{}\", connections = 2, accel = true, send_from = [\"inside\"] }}",
        fpm.socket.as_ref().expect("a socket").display()
    );
    let (site, folder) = site_with(&format!(
        "root = \"www\"\n[[host.path]]\nprefix = \"/inside/\"\nroot = \"inside\"\ninternal = true\n[[host.path]]\n\
         glob = \"**.php\"\n{to}"
    ));
    // php-fpm runs as another user than the test if that is root.
    let is_open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), is_open).expect("sets");
    std::fs::write(folder.path().join("www/to.php"), SCRIPT).expect("writes");
    let mut client = Client::new(site.addr);
    let named = |name: &str| folder.path().join(name).display().to_string();
    for (target, status, body) in [
        ("X-Accel-Redirect=/inside/file.bin".to_owned(), 200, "0123456789"),
        (format!("X-Sendfile={}", named("inside/file.bin")), 200, "0123456789"),
        (format!("X-Sendfile={}", named("www/page.txt")), 200, "page"),
        // The source of a script, and what lies in none of the directories.
        (format!("X-Sendfile={}", named("www/to.php")), 404, ""),
        ("X-Sendfile=/etc/hostname".to_owned(), 404, ""),
        (format!("X-Sendfile={}", named("inside/../../etc/hostname")), 404, ""),
        // A script answers for another one.
        ("X-Accel-Redirect=/to.php?said=hello".to_owned(), 200, "hello GET"),
        // In a circle.
        ("X-Accel-Redirect=/to.php?X-Accel-Redirect=/none".to_owned(), 404, ""),
    ] {
        client.ask(&format!("GET /to.php?{target}"), "", b"");
        let head = client.until("\r\n\r\n");
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {head}");
        if head.contains("chunked") {
            let chunks = client.until("0\r\n\r\n");
            assert!(chunks.contains(body), "{target} {chunks}");
        } else {
            let length = head.to_ascii_lowercase();
            let (_, length) = length.split_once("content-length: ").expect("a length");
            let length = length.split("\r\n").next().and_then(|text| text.parse().ok()).expect("a number");
            let said = String::from_utf8(client.exactly(length)).expect("text");
            assert!(status != 200 || said == body, "{target} {said}");
        }
    }
}
