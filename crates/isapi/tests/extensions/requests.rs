//! What an extension gets and gives, function by function.

use crate::support::Host;
use std::fs;
use std::path::Path;
use std::process::Command;

const PLAIN: &str = "Status: 200 OK\r\nContent-Type: text/plain";

#[test]
fn the_example_greets_and_sends_bodies_back() {
    let mut host = Host::start();
    let hello = host.build("hello.c", "hello.so", &["-std=c99", "-pedantic"]);
    let variables = [("QUERY_STRING", "a=b"), ("PATH_INFO", "/x")];
    let greeting = host.ask(&hello, &variables, b"").expect("an answer");
    greeting.expect(
        PLAIN,
        "Hello from ISAPI\nREQUEST_METHOD: GET\nURL: /bin/a.so/x\nQUERY_STRING: a=b\nHTTP_HOST: example.org:8080\n",
    );
    for bytes in [1, 48 << 10, (48 << 10) + 1, 300_000] {
        let body: Vec<u8> = (0..bytes).map(|at: u32| u8::try_from(at % 251).expect("a byte")).collect();
        let echo = host.ask(&hello, &[], &body).expect("an answer");
        assert!(echo.head == PLAIN && echo.body == body, "{bytes} bytes: {}", echo.head);
    }
    assert!(host.end().success());
    assert_eq!(host.log(), "");
}

#[test]
fn a_short_request_is_one_read_and_one_write() {
    let mut host = Host::start();
    let hello = host.build("hello.c", "hello.so", &[]);
    host.get(&hello, "");
    let before = host.calls();
    for _ in 0..100 {
        host.get(&hello, "");
    }
    let after = host.calls();
    assert_eq!((after.0 - before.0, after.1 - before.1), (100, 100));
}

#[test]
fn the_block_has_what_the_request_has() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    let variables = [
        ("QUERY_STRING", "fields"),
        ("PATH_INFO", "/info"),
        ("PATH_TRANSLATED", "/srv/www/info"),
        ("CONTENT_TYPE", "text/x-body"),
    ];
    let answer = host.ask(&functions, &variables, &[b'x'; 60_000]).expect("an answer");
    let folder = host.folder.path().canonicalize().expect("a path");
    answer.expect(
        PLAIN,
        &format!(
            "size=1\nversion=1\nstatus=200\ntotal=60000\navailable=49152\n\
             POST|fields|/info|/srv/www/info|text/x-body\nno sentinel\n{}",
            folder.display()
        ),
    );
    // What of the body was not read is not the beginning of the next one.
    let answer = host.ask(&functions, &[("QUERY_STRING", "fields")], b"abc").expect("an answer");
    answer.has("total=3\navailable=3\nPOST|fields|||\n");
}

#[test]
fn variables_say_their_sizes() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    host.get(&functions, "variables").expect(
        PLAIN,
        "small=0\nerror=122\nneeded=12\nexact=1\nsize=12\nexample.org\nunknown=0\nerror=1413\nunicode=0\nerror=1413\n\
         null=0\nerror=87\nother=0\nerror=87\nContent-Length: 0\r\nHost: example.org:8080\r\n",
    );
}

#[test]
fn heads_come_in_many_ways() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    for (query, head, body) in [
        ("redirect", "Status: 302 Found\r\nLocation: /there?a=b", ""),
        ("url", "Location: /other.html", ""),
        ("url-elsewhere", "Status: 302 Found\r\nLocation: http://example.org/", ""),
        ("split", PLAIN, "url=0\n"),
        ("bad-status", "Status: 200 OK\r\nContent-Type: text/html", "status=0\n"),
        ("status", "Status: 404 Not Found\r\nContent-Type: text/html", "nothing here"),
        ("raw", "Status: 410 Gone\r\nX-Raw: 1", "raw body"),
        ("parts", "Status: 202 Accepted\r\nX-One: 1\r\nX-Two: 2", "body"),
        ("unended", "Status: 200 OK\r\nX-One: 1", ""),
        ("silent", "Status: 200 OK\r\nContent-Type: text/html", ""),
        ("ends", PLAIN, "twice=0\nerror=87\nkeeps=1\nconnected=1\nsspi=0\nerror=87\nsspi=0\n"),
    ] {
        host.get(&functions, query).expect(head, body);
    }
    assert_eq!(host.log().matches("ServerSupportFunction 1002 is not supported").count(), 1, "{}", host.log());
}

#[test]
fn paths_are_mapped_below_the_root_only() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    let answer = host.get(&functions, "map=/a%20b/c.txt");
    answer.expect(PLAIN, "mapped=1\n/srv/www/a b/c.txt\nlength=1\nex=1\nsame=1\nsmall=0\n");
    for out in ["map=/../etc/passwd", "map=/%2e%2e/x", "map=x"] {
        host.get(&functions, out).expect(PLAIN, "mapped=0\nsmall=0\n");
    }
}

#[test]
fn files_and_vectors_are_sent() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    let file = host.folder.path().join("file");
    fs::write(&file, "0123456789").expect("a file");
    host.get(&functions, &format!("file={}", file.display()))
        .expect("Status: 203 Other\r\nContent-Type: text/x-file", "head:23456789:tail");
    host.get(&functions, &format!("vector={}", file.display()))
        .expect("Status: 200 OK\r\nContent-Type: text/x-vector", "<memory123>");
    let large: Vec<u8> = (0..200_000_u32).map(|at| u8::try_from(at % 249).expect("a byte")).collect();
    fs::write(&file, &large).expect("a file");
    let answer = host.get(&functions, &format!("file={}", file.display()));
    assert!(answer.body == [b"head:", &large[2..], b":tail"].concat());
    let answer = host.get(&functions, "big");
    assert!(answer.body.len() == 2_000_005 && answer.body.starts_with(b"smallbb"), "{}", answer.body.len());
}

#[test]
fn threads_and_callbacks_end_requests() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    for _ in 0..20 {
        host.get(&functions, "pending").expect(PLAIN, "from a thread");
    }
    let answer = host.get(&functions, "write-async");
    assert!(answer.body.starts_with(b"firstppp"));
    answer.has(&format!("\nwritten={}\nelsewhere=1\n", 5 + 2000 * 7000));
    let body = vec![3; 200_000];
    let answer = host.ask(&functions, &[("QUERY_STRING", "read-async")], &body).expect("an answer");
    answer.expect(PLAIN, "sum=600000\nseveral=1\n");
}

#[test]
fn what_is_printed_is_in_the_log_only() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    host.get(&functions, "print").expect("Status: 200 OK\r\nContent-Type: text/html", "written text");
    let log = host.log();
    assert_eq!(log, "printed text\nisapi: /bin/a.so: appended text\nisapi: /bin/a.so: log data\n");
}

/// The extension of the page for users.
fn of_page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/isapi.md");
    let page = fs::read_to_string(page).expect("the page");
    let block = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    block.expect("a block of C").to_owned()
}

#[test]
fn the_installed_header_builds_the_examples() {
    let mut host = Host::start();
    let to = host.folder.path().join("usr");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = Command::new(repository.join("scripts/install-isapi"))
        .env("DESTDIR", host.folder.path())
        .env("PREFIX", "/usr")
        .output()
        .expect("bash");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let count = host.folder.path().join("count.c");
    fs::write(&count, of_page()).expect("a source");
    for (source, answers) in [
        (to.join("share/doc/weir/isapi/hello.c"), ["Hello from ISAPI\n"; 2]),
        (count, ["Requests so far: 1\n", "Requests so far: 2\n"]),
    ] {
        let library = source.with_extension("so");
        let built = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"])
            .arg(to.join("include/weir/isapi"))
            .arg("-o")
            .args([&library, &source])
            .output()
            .expect("cc (scripts/deps build)");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        for answer in answers {
            host.get(&library, "").has(answer);
        }
    }
}
