//! Pages of PHP by php-fpm, beside files.

use super::scripted::{Client, site};
use std::path::Path;
use weir_testkit::PhpFpm;

const PAGE: &str = r#"<?php header('X-Page: yes'); error_log('a word for the operator');
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?: '-', ' ',
 $_SERVER['QUERY_STRING'], ' ', strlen(file_get_contents('php://input')), ' ', $_SERVER['HTTP_PROXY'] ?? '-', ' ',
 $_SERVER['REMOTE_ADDR'];"#;

fn has_php() -> bool {
    let has = Path::new("/usr/sbin").read_dir().is_ok_and(|mut all| {
        all.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("php-fpm")))
    });
    if !has {
        println!("skipped: php-fpm is not installed; `make deps` installs it");
    }
    has
}

fn php(fpm: &weir_testkit::RunningBackend) -> String {
    let to =
        format!("fastcgi = {{ to = \"unix:{}\", connections = 4 }}", fpm.socket.as_ref().expect("a socket").display());
    format!(
        "root = \".\"\nindex = [\"index.php\"]\n[[host.path]]\nglob = \"**.php\"\n{to}\n[[host.path]]\nglob = \"**.php/**\"\n{to}"
    )
}

#[test]
fn pages_are_made_and_files_are_sent() {
    if !has_php() {
        return;
    }
    let fpm = PhpFpm::new().start().expect("php-fpm starts");
    let site = site(&php(&fpm), |options| {
        std::fs::write(options.root.join("index.php"), PAGE).expect("writes");
        std::fs::write(options.root.join("upload.jpg"), PAGE).expect("writes");
    });
    let mut client = Client::new(site.addr);
    let text = |reply: &crate::harness::Reply| String::from_utf8_lossy(&reply.body).into_owned();
    for (target, expected) in [
        ("/", "GET /index.php -  0 - 127.0.0.1"),
        ("/?a=b", "GET /index.php - a=b 0 - 127.0.0.1"),
        ("/index.php", "GET /index.php -  0 - 127.0.0.1"),
        ("/index.php/more/of%20it?q", "GET /index.php /more/of it q 0 - 127.0.0.1"),
    ] {
        client.ask(&format!("GET {target}"), "Proxy: http://evil\r\n", b"");
        let reply = chunked(&mut client);
        assert_eq!((reply.1.as_str(), reply.0.contains("X-Page: yes")), (expected, true), "{target}");
    }
    client.ask("POST /", "Content-Length: 100000\r\n", &[b'x'; 100_000]);
    assert_eq!(chunked(&mut client).1, "POST /index.php -  100000 - 127.0.0.1");
    assert_eq!(text(&client.get("/a.txt")), "file");
    for target in ["/none.php", "/upload.jpg/x.php", "/.hidden.php"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    client.ask("HEAD /", "", b"");
    assert!(client.until("\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert_eq!(text(&client.get("/a.txt")), "file");
}

#[test]
fn more_clients_than_workers_are_all_served_without_a_bound_in_the_configuration() {
    if !has_php() {
        return;
    }
    let fpm = PhpFpm::new().processes(2).start().expect("php-fpm starts");
    let to = format!("unix:{}", fpm.socket.as_ref().expect("a socket").display());
    let site = site(&format!("root = \".\"\n[[host.path]]\nglob = \"**.php\"\nfastcgi = \"{to}\""), |options| {
        std::fs::write(options.root.join("index.php"), "<?php usleep(20000); echo 'made';").expect("writes");
    });
    // A connection that is kept with a worker would hold up the clients that have none, until a time is over.
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client = Client::new(site.addr);
                for _ in 0..4 {
                    client.ask("GET /index.php", "", b"");
                    assert_eq!(chunked(&mut client).1, "made");
                }
            });
        }
    });
}

#[test]
fn a_page_whose_length_is_said_ends_with_its_last_byte_although_its_script_goes_on() {
    if !has_php() {
        return;
    }
    let fpm = PhpFpm::new().start().expect("php-fpm starts");
    let site = site(&php(&fpm), |options| {
        let page = "<?php $n = (int)$_GET['n']; header(\"Content-Length: $n\"); echo str_repeat('x', $n); flush(); usleep(20000);";
        std::fs::write(options.root.join("index.php"), page).expect("writes");
    });
    // What ends the request at the gateway comes later; the next request of the connection must not wait in vain for it.
    let mut client = Client::new(site.addr);
    for bytes in [2, 27_895, 65_536, 108_896, 413_661, 5] {
        let reply = client.get(&format!("/index.php?n={bytes}"));
        assert_eq!((reply.status, reply.body.len()), (200, bytes));
    }
}

#[test]
fn a_body_whose_length_is_not_said_is_held_within_a_bound() {
    if !has_php() {
        return;
    }
    let fpm = PhpFpm::new().start().expect("php-fpm starts");
    let site = site(&php(&fpm), |options| {
        std::fs::write(options.root.join("index.php"), PAGE).expect("writes");
    });
    let mut client = Client::new(site.addr);
    client.ask("POST /", "Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n");
    assert_eq!(chunked(&mut client).1, "POST /index.php -  11 - 127.0.0.1");
    let chunk = [b"11170\r\n".as_slice(), &[b'x'; 70_000], b"\r\n0\r\n\r\n"].concat();
    client.ask("POST /", "Transfer-Encoding: chunked\r\n", &chunk);
    assert_eq!(client.reply().status, 411);
}

/// A response whose length the program does not say: its head and its body. Where all of it came at once the server says
/// its length, else it has chunks.
fn chunked(client: &mut Client) -> (String, String) {
    let head = client.until("\r\n\r\n");
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")) {
        let body = client.exactly(length.parse().expect("a length"));
        return (head.clone(), String::from_utf8(body).expect("text"));
    }
    assert!(head.contains("Transfer-Encoding: chunked\r\n"), "{head}");
    let mut body = String::new();
    loop {
        let size = usize::from_str_radix(client.until("\r\n").trim(), 16).expect("a size");
        let piece = client.exactly(size);
        assert_eq!(client.exactly(2), b"\r\n");
        if size == 0 {
            return (head, body);
        }
        body.push_str(&String::from_utf8(piece).expect("text"));
    }
}

/// A root of its own below the path of a program sends no source, by none of its names.
#[test]
fn no_root_sends_what_a_program_of_the_host_runs() {
    let text = "root = \".\"\nindex = [\"index.php\", \"index.html\"]\n\
        [[host.path]]\nglob = \"**.php\"\nfastcgi = \"127.0.0.1:9\"\n\
        [[host.path]]\nprefix = \"/own\"\nroot = \"other\"\n\
        [[host.route]]\nprefix = \"/tried\"\ntry_files = [\"/own$rest\", \"=404\"]\n";
    let source: &[u8] = b"<?php secret";
    let files: &[(&str, &[u8])] = &[
        ("other/a.php", source),
        ("other/index.php", source),
        ("other/a.php.gz", source),
        ("other/c.php", source),
        ("other/b.txt", b"text"),
        ("other/page.shtml", b"[<!--#include virtual=\"/own/a.php\" -->]"),
    ];
    let site = crate::harness::Site::start(files, |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        std::os::unix::fs::symlink("c.php", folder.join("other/d.php")).expect("links");
        let text = format!("[[host]]\n{text}");
        *options = weir_server::parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops) = (listen, 1);
    });
    let mut client = Client::new(site.addr);
    for target in
        ["/own/a.php", "/own/", "/own/index.php", "/own/a.php.gz", "/tried/a.php", "/own/d.php", "/own/%61.php"]
    {
        let reply = client.get(target);
        assert!(reply.status == 404 && !reply.text().contains("secret"), "{target} {}", reply.status);
    }
    let page = client.get("/own/page.shtml");
    assert!(page.status == 200 && !page.text().contains("secret"), "{}", page.text());
    assert_eq!(client.get("/own/b.txt").status, 200);
}
