//! What RFC 9110 and RFC 9112 ask of a server of files.

use crate::harness;

use harness::{Reply, Site, read_reply, read_to_end};
use std::io::Write;
use std::time::Duration;

fn site() -> Site {
    let files: &[(&str, &[u8])] = &[
        ("index.html", b"<p>top"),
        ("empty.bin", b""),
        ("a.txt", b"hello, world"),
        ("sub/index.html", b"<p>sub"),
        ("list/b.txt", b"b"),
        ("list/<&'\">.txt", b"x"),
        ("list/inner/c.txt", b"c"),
        ("list/.hidden", b"h"),
        (".secret", b"s"),
        (".well-known/x.txt", b"known"),
        ("with space.txt", b"space"),
    ];
    Site::start(files, |_| {})
}

#[test]
fn a_file_comes_with_everything_that_describes_it() {
    let site = site();
    let reply = site.get("/a.txt?query=1");
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello, world"));
    assert_eq!(reply.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(reply.field("content-length"), Some("12"));
    assert_eq!(reply.field("accept-ranges"), Some("bytes"));
    assert_eq!(reply.field("server"), Some("weir"));
    assert_eq!(reply.field("connection"), Some("close"));
    assert!(reply.field("date").is_some_and(|date| date.ends_with(" GMT") && date.len() == 29));
    assert!(reply.field("last-modified").is_some_and(|date| date.ends_with(" GMT")));
    assert!(reply.field("etag").is_some_and(|etag| etag.starts_with('"') && etag.ends_with('"')));
    let head = site.ask("HEAD", "/a.txt", "");
    assert!(head.body.is_empty());
    for (name, value) in reply.fields.iter().filter(|field| field.0 != "date") {
        assert_eq!(head.field(name), Some(value.as_str()), "HEAD differs from GET");
    }
    assert_eq!(site.get("/empty.bin").field("content-length"), Some("0"));
    assert_eq!(site.get("/with%20space.txt").text(), "space");
    assert_eq!(site.get("http://anywhere/a.txt").text(), "hello, world");
    assert_eq!(site.get("/.well-known/x.txt").text(), "known");
}

#[test]
fn directories_have_an_index_a_redirect_or_a_listing() {
    let site = site();
    assert_eq!(site.get("/").text(), "<p>top");
    let sub = site.get("/sub/");
    assert_eq!((sub.text().as_str(), sub.field("content-type")), ("<p>sub", Some("text/html; charset=utf-8")));
    let redirect = site.get("/sub?q=1");
    assert_eq!((redirect.status, redirect.field("location")), (301, Some("/sub/?q=1")));
    assert_eq!(site.get("//sub").field("location"), Some("/sub/"), "never another host");
    let listing = site.get("/list/");
    let page = listing.text();
    assert_eq!((listing.status, listing.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.contains("href=\"./b.txt\"") && page.contains("href=\"./inner/\"") && page.contains("href=\"../\""));
    assert!(page.contains("href=\"./%3C%26%27%22%3E.txt\">&lt;&amp;&#39;&quot;&gt;.txt<"), "{page}");
    assert!(page.find("inner/") < page.find("b.txt"), "directories come first");
    assert!(!page.contains("hidden"));
    let style = site.get("/list/?weir-listing.css");
    assert_eq!((style.status, style.field("content-type")), (200, Some("text/css; charset=utf-8")));
    assert!(page.contains("href=\"?weir-listing.css\"") && style.text().contains("color-scheme"));
    let turned = site.get("/list/?sort=name&order=desc").text();
    assert!(
        turned.find("inner/") < turned.find("b.txt") && turned.find("b.txt") < turned.find("&lt;&amp;"),
        "{turned}"
    );
    assert_eq!(site.ask("HEAD", "/list/", "").field("content-length"), listing.field("content-length"));
    let closed = Site::start(&[("list/b.txt", b"b")], |options| options.listing = false);
    assert_eq!(closed.get("/list/").status, 403);
}

#[test]
fn a_long_listing_says_that_it_is_not_complete() {
    let names: Vec<String> = (0..30).map(|i| format!("{i:02}.txt")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), b"x".as_slice())).collect();
    let site = Site::start(&files, |options| options.limits.listing_entries_max = 10);
    let page = site.get("/").text();
    assert!(page.contains("09.txt") && !page.contains("10.txt") && page.contains("20 more are not shown"));
}

#[test]
fn methods_other_than_the_three_are_refused_with_allow() {
    let site = site();
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "get", "FOO"] {
        let reply = site.ask(method, "/a.txt", "");
        assert_eq!((reply.status, reply.field("allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
    }
    for target in ["*", "/a.txt", "/none"] {
        let reply = site.ask("OPTIONS", target, "");
        assert_eq!((reply.status, reply.field("allow")), (204, Some("GET, HEAD, OPTIONS")), "{target}");
        assert_eq!(reply.field("content-length"), None);
    }
}

#[test]
fn what_is_not_there_or_closed_is_not_found() {
    let site = site();
    for target in ["/none", "/a.txt/", "/a.txt/b", "/.secret", "/list/.hidden", "/sub/none"] {
        let reply = site.get(target);
        assert_eq!(reply.status, 404, "{target}");
        assert!(reply.text().contains("404 Not Found"));
        assert_eq!(reply.field("content-length"), Some(reply.body.len().to_string().as_str()));
    }
    assert_eq!(site.get(&format!("/{}", "n".repeat(300))).status, 404);
    let open = Site::start(&[(".secret", b"s")], |options| options.dot_files = true);
    assert_eq!(open.get("/.secret").text(), "s");
}

#[test]
fn bad_heads_get_their_status_and_a_close() {
    let site = site();
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000));
    let endless_target = format!("GET /{}", "a".repeat(10_000));
    let large_field = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(20_000));
    let endless_field = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(20_000));
    let many_fields = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(200));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        ("GET /\r\n\r\n", 400),
        ("\0\0\0\0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: something\r\n\r\n", 417),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        (&long_target, 414),
        (&endless_target, 414),
        (&large_field, 431),
        (&endless_field, 431),
        (&many_fields, 431),
    ] {
        let (reply, rest) = (Reply::parse(&site.exchange(request.as_bytes())).0, request.get(..60).unwrap_or(request));
        assert_eq!(reply.status, status, "{rest}");
        assert_eq!(reply.field("connection"), Some("close"), "{rest}");
    }
}

#[test]
fn persistence_follows_the_version_and_the_client() {
    let site = site();
    let old = site.exchange(b"GET /a.txt HTTP/1.0\r\n\r\n");
    assert_eq!(Reply::parse(&old).0.field("connection"), Some("close"));
    let mut stream = site.connect();
    stream.write_all(b"GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut stream, false).field("connection"), Some("keep-alive"));
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut stream, false).field("connection"), None);
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut stream, false).field("connection"), Some("close"));
    assert!(read_to_end(&mut stream).is_empty());
}

#[test]
fn bodies_are_read_past_or_end_the_connection() {
    let site = site();
    let after = "GET /sub/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for body in [
        "Content-Length: 5\r\n\r\nGET /".to_owned(),
        "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nGET /\r\n0\r\nTrailer: z\r\n\r\n".to_owned(),
        format!("Content-Length: 60000\r\n\r\n{}", "G".repeat(60_000)),
        "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nGET /".to_owned(),
    ] {
        for method in ["GET", "POST"] {
            let request = format!("{method} /a.txt HTTP/1.1\r\nHost: a\r\n{body}{after}");
            let bytes = site.exchange(request.as_bytes());
            let (first, rest) = Reply::parse(&bytes);
            assert_eq!(first.status, if method == "GET" { 200 } else { 405 });
            assert_eq!(Reply::parse(rest).0.text(), "<p>sub", "{}", &request[..80]);
        }
    }
    let large =
        format!("POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n{}{after}", "x".repeat(300_000));
    let bytes = site.exchange(large.as_bytes());
    let (first, rest) = Reply::parse(&bytes);
    assert_eq!((first.status, first.field("connection"), rest.len()), (405, Some("close"), 0));
    // The client waits for a word and then goes away with its body: the final response is that word.
    let mut stream = site.connect();
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        .expect("sends");
    assert_eq!(read_reply(&mut stream, false).field("connection"), Some("close"));
    let broken = site
        .exchange(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nGET / HTTP/1.1\r\n\r\n");
    assert!(Reply::parse(&broken).1.is_empty(), "nothing after a malformed body is a request");
}

#[test]
fn conditions_hold_in_their_order() {
    let site = site();
    let reply = site.get("/a.txt");
    let etag = reply.field("etag").expect("an entity tag").to_owned();
    let modified = reply.field("last-modified").expect("a date").to_owned();
    let (before, after) = ("Mon, 01 Jan 2001 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    for (fields, expected) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: \"x\", W/{etag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {after}\r\n"), 200),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        (format!("If-Modified-Since: {after}\r\n"), 304),
        (format!("If-Modified-Since: {before}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        (format!("If-Match: {etag}\r\n"), 200),
        ("If-Match: *\r\n".to_owned(), 200),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        (format!("If-Match: W/{etag}\r\n"), 412),
        (format!("If-Match: {etag}\r\nIf-Unmodified-Since: {before}\r\n"), 200),
        (format!("If-Unmodified-Since: {before}\r\n"), 412),
        (format!("If-Unmodified-Since: {modified}\r\n"), 200),
        (format!("If-Match: {etag}\r\nIf-None-Match: {etag}\r\n"), 304),
        (format!("If-Match: \"x\"\r\nIf-None-Match: {etag}\r\n"), 412),
        (format!("Range: bytes=0-1\r\nIf-Range: {etag}\r\n"), 206),
        (format!("Range: bytes=0-1\r\nIf-Range: W/{etag}\r\n"), 200),
        ("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n".to_owned(), 200),
        (format!("Range: bytes=0-1\r\nIf-Range: {before}\r\n"), 200),
        (format!("Range: bytes=0-1\r\nIf-None-Match: {etag}\r\n"), 304),
        (format!("Range: bytes=99-\r\nIf-Range: {etag}\r\n"), 416),
    ] {
        for method in ["GET", "HEAD"] {
            let reply = site.ask(method, "/a.txt", &fields);
            // Range is defined for GET only.
            let expected = if method == "HEAD" && matches!(expected, 206 | 416) { 200 } else { expected };
            assert_eq!(reply.status, expected, "{method} {fields}");
            if expected == 304 {
                assert_eq!(reply.field("etag"), Some(etag.as_str()));
                assert_eq!(reply.field("content-type"), None);
                assert!(reply.body.is_empty());
            }
        }
    }
    // A date is a strong validator only once its second is over.
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(site.ask("GET", "/a.txt", &format!("Range: bytes=0-1\r\nIf-Range: {modified}\r\n")).status, 206);
}

#[test]
fn a_connection_outlives_304s_and_errors() {
    let site = site();
    let etag = site.get("/a.txt").field("etag").expect("an entity tag").to_owned();
    let mut stream = site.connect();
    for _ in 0..3 {
        write!(stream, "GET /a.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: {etag}\r\n\r\n").expect("sends");
        assert_eq!(read_reply(&mut stream, true).status, 304);
        write!(stream, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(&mut stream, false).status, 404);
        write!(stream, "HEAD /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(&mut stream, true).status, 200);
        write!(stream, "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        assert_eq!(read_reply(&mut stream, false).text(), "hello, world");
    }
    assert_eq!(site.counters.read().connections, 2);
}
