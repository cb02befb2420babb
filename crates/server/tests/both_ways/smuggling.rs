//! Requests that two readers may understand differently (request smuggling): each is refused, or means the one thing
//! that the standard says. By sections of RFC 9112, and of RFC 9110 where it is said.

use crate::harness;

use harness::{Reply, Site};

/// What a smuggled request would be answered with.
const SMUGGLED: &str = "GET /smuggled.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn site() -> Site {
    Site::start(&[("a.txt", b"a"), ("smuggled.txt", b"SMUGGLED")], |options| {
        options.timeouts.body = std::time::Duration::from_millis(300);
        options.timeouts.head = std::time::Duration::from_millis(300);
        options.timeouts.idle = std::time::Duration::from_millis(300);
    })
}

/// The statuses of all responses, and whether what was smuggled is among their bodies.
fn answers(site: &Site, bytes: &[u8]) -> (Vec<u16>, bool) {
    let received = site.exchange(bytes);
    let (mut rest, mut statuses, mut is_smuggled) = (received.as_slice(), Vec::new(), false);
    while !rest.is_empty() {
        let (reply, after) = Reply::parse(rest);
        statuses.push(reply.status);
        is_smuggled |= reply.text().contains("SMUGGLED");
        rest = after;
    }
    (statuses, is_smuggled)
}

#[test]
fn framing_that_is_in_doubt_is_refused_and_ends_the_connection() {
    let site = site();
    let chunks = format!("0\r\n\r\n{SMUGGLED}");
    let long = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    for (section, fields, body, status) in [
        ("6.3: a length and chunks", "Content-Length: 4\r\nTransfer-Encoding: chunked", &chunks, 400),
        ("6.3: chunks and a length", "Transfer-Encoding: chunked\r\nContent-Length: 4", &long, 400),
        ("6.3: chunks and no length", "Transfer-Encoding: chunked\r\nContent-Length: 0", &chunks, 400),
        ("6.3: lengths that differ", "Content-Length: 0\r\nContent-Length: 40", &chunks, 400),
        ("6.3: lengths in a list", "Content-Length: 0, 40", &chunks, 400),
        ("6.3: the same length in a list", "Content-Length: 0, 0", &chunks, 400),
        ("9110 8.6: a sign", "Content-Length: +0", &chunks, 400),
        ("9110 8.6: a negative length", "Content-Length: -1", &chunks, 400),
        ("9110 8.6: hexadecimal digits", "Content-Length: 0x28", &chunks, 400),
        ("9110 8.6: an exponent", "Content-Length: 1e1", &chunks, 400),
        ("9110 8.6: a fraction", "Content-Length: 0.0", &chunks, 400),
        ("9110 8.6: no digits", "Content-Length:", &chunks, 400),
        ("9110 8.6: space within", "Content-Length: 1 0", &chunks, 400),
        ("9110 8.6: more than 64 bits", "Content-Length: 18446744073709551616", &chunks, 400),
        ("9110 8.6: other digits", "Content-Length: \u{664}\u{660}", &chunks, 400),
        ("6.1: chunked twice", "Transfer-Encoding: chunked, chunked", &chunks, 501),
        ("6.1: chunked twice, in lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", &chunks, 400),
        ("6.1: chunked is not the last", "Transfer-Encoding: chunked, gzip", &chunks, 400),
        ("6.1: two lines, one unknown", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x", &chunks, 400),
        ("6.1: an unknown coding", "Transfer-Encoding: xchunked", &chunks, 501),
        ("6.1: identity is gone", "Transfer-Encoding: identity", &chunks, 400),
        ("6.1: quoted", "Transfer-Encoding: \"chunked\"", &chunks, 400),
        ("6.1: with a parameter", "Transfer-Encoding: chunked;q=1", &chunks, 400),
        ("6.1: an empty member", "Transfer-Encoding: ,chunked", &chunks, 501),
        ("6.1: nothing", "Transfer-Encoding:", &chunks, 400),
        ("6.1: a vertical tab", "Transfer-Encoding: \x0bchunked", &chunks, 400),
        ("6.1: a form feed", "Transfer-Encoding: chunked\x0c", &chunks, 400),
        ("5: a null in a value", "Transfer-Encoding: chunked\0", &chunks, 400),
        ("5: a null in a name", "Transfer\0Encoding: chunked", &chunks, 400),
        ("5.1: space before the colon", "Transfer-Encoding : chunked", &chunks, 400),
        ("5.1: a tab before the colon", "Content-Length\t: 40", &chunks, 400),
        ("5.1: no name", ": chunked", &chunks, 400),
        ("5.1: a line without a colon", "Transfer-Encoding", &chunks, 400),
        ("5.1: space before the name", " Transfer-Encoding: chunked", &chunks, 400),
        ("5.2: a folded line", "Transfer-Encoding:\r\n chunked", &chunks, 400),
        ("5.2: a folded line after another field", "X: y\r\n Transfer-Encoding: chunked", &chunks, 400),
        ("5.2: folded by a tab", "X: y\r\n\tContent-Length: 40", &chunks, 400),
        ("2.2: a bare carriage return", "X: y\rTransfer-Encoding: chunked", &chunks, 400),
        ("2.2: a carriage return before the end", "X: y\r\r\nContent-Length: 40", &chunks, 400),
        ("3.2: no second host", "Host: b", &chunks, 400),
        ("9110 7.2: a host with a path", "X-A: b\r\nhost: b/c", &chunks, 400),
    ] {
        let request = format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
        assert_eq!(answers(&site, request.as_bytes()), (vec![status], false), "{section}");
    }
    // Chunks came later than HTTP/1.0 (6.1), and its clients close.
    let old = format!("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    assert_eq!(answers(&site, old.as_bytes()), (vec![400], false));
}

#[test]
fn a_body_whose_chunks_are_in_doubt_hides_nothing() {
    let site = site();
    for (section, body) in [
        ("7.1: no size", "\r\n\r\n"),
        ("7.1: a size with a sign", "+0\r\n\r\n"),
        ("7.1: a size with a prefix", "0x0\r\n\r\n"),
        ("7.1: a size that overflows", "10000000000000000\r\n\r\n"),
        ("7.1: a size with an underscore", "1_0\r\n0123456789abcdef\r\n0\r\n\r\n"),
        ("7.1: more data than said", "1\r\nab\r\n0\r\n\r\n"),
        ("7.1: a size line that ends with a line feed", "0\n\r\n"),
        ("7.1: data that end with a line feed", "1\r\na\n0\r\n\r\n"),
        ("7.1: a bare carriage return", "0\r\r\n\r\n"),
        ("7.1: two sizes", "0 5\r\n\r\n"),
        ("7.1.1: an extension with a line feed", "0;a\nb\r\n\r\n"),
        ("7.1.1: an extension with a carriage return", "0;a\rb\r\n\r\n"),
        ("7.1.1: an extension with a null", "0;a\0\r\n\r\n"),
        ("7.1.2: trailers that end with a line feed", "0\r\nA: b\n\n"),
        ("7.1.2: no empty line but a line feed", "0\r\n\n"),
        ("7.1.2: a trailer with a carriage return", "0\r\nA: b\r\r\n\r\n"),
    ] {
        let request = format!("POST /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}{SMUGGLED}");
        // The answer does not wait for the body, and nothing comes after it.
        assert_eq!(answers(&site, request.as_bytes()), (vec![405], false), "{section}");
    }
    for (section, body) in [
        ("7.1: chunks", format!("{:X}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len())),
        ("7.1: zeros before the size", format!("{:08x}\r\n{SMUGGLED}\r\n000\r\n\r\n", SMUGGLED.len())),
        ("7.1.1: extensions", format!("{:x};a=\"b;c\";d\r\n{SMUGGLED}\r\n0 ;e\r\n\r\n", SMUGGLED.len())),
        (
            "7.1.2: trailers that look like framing",
            "0\r\nContent-Length: 40\r\nTransfer-Encoding: x\r\n\r\n".to_owned(),
        ),
    ] {
        let next = "GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let request = format!("POST /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}{next}");
        assert_eq!(answers(&site, request.as_bytes()), (vec![405, 200], false), "{section}");
    }
}

#[test]
fn request_lines_mean_one_thing() {
    let site = site();
    for (section, line, statuses) in [
        ("3: two spaces", "GET  /a.txt HTTP/1.1", &[400][..]),
        ("3: a tab", "GET\t/a.txt HTTP/1.1", &[400]),
        ("3: space at the end", "GET /a.txt HTTP/1.1 ", &[400, 505]),
        ("3: space in the target", "GET /a.txt b HTTP/1.1", &[400, 505]),
        ("3: a bare carriage return", "GET /a.txt\rX HTTP/1.1", &[400]),
        ("3: a null", "GET /a.txt\0 HTTP/1.1", &[400]),
        ("3: no version", "GET /a.txt", &[400]),
        ("2.3: a version in small letters", "GET /a.txt http/1.1", &[400, 505]),
        ("2.3: a version of more digits", "GET /a.txt HTTP/1.10", &[400, 505]),
        // 9110 2.5: a higher minor version is processed as the highest that the server knows.
        ("2.3: a higher minor version", "GET /a.txt HTTP/1.2", &[200]),
        ("2.3: another major version", "GET /a.txt HTTP/2.0", &[505]),
        ("3.1: a method with a colon", "GET: /a.txt HTTP/1.1", &[400]),
        ("3.1: a method of controls", "G\x7fT /a.txt HTTP/1.1", &[400]),
        ("3.2.1: no slash", "GET a.txt HTTP/1.1", &[400]),
        ("3.2.2: an unknown scheme", "GET ftp://a/a.txt HTTP/1.1", &[400]),
        ("3.2.3: an authority", "GET a:80 HTTP/1.1", &[400]),
        ("3.2.4: an asterisk", "GET * HTTP/1.1", &[400]),
        ("3.2.1: a fragment", "GET /a.txt#b HTTP/1.1", &[400]),
    ] {
        let request = format!("{line}\r\nHost: a\r\nConnection: close\r\n\r\n");
        let (answered, is_smuggled) = answers(&site, request.as_bytes());
        assert!(answered.len() == 1 && statuses.contains(&answered[0]) && !is_smuggled, "{section}: {answered:?}");
    }
    // 2.2: at least one empty line before a request line is passed over; a line feed may be a line's end.
    for request in [
        "\r\nGET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /a.txt HTTP/1.1\nHost: a\nConnection: close\n\n",
    ] {
        assert_eq!(answers(&site, request.as_bytes()), (vec![200], false), "{request:?}");
    }
}

#[test]
fn the_host_of_an_absolute_target_counts_and_not_the_field() {
    let files: &[(&str, &[u8])] = &[("a/x.txt", b"of a"), ("b/x.txt", b"of b")];
    let site = Site::start(files, |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        let text = "[[host]]\nnames = [\"a.org\"]\nroot = \"a\"\n[[host]]\nnames = [\"b.org\"]\nroot = \"b\"\n";
        *options = weir_server::parse_configuration(text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        options.listen = listen;
        options.loops = 1;
    });
    // 3.2.2, and 9110 7.2.
    for (target, host, status, text) in [
        ("/x.txt", "a.org", 200, "of a"),
        ("/x.txt", "A.ORG:80", 200, "of a"),
        ("http://b.org/x.txt", "a.org", 200, "of b"),
        ("http://b.org:8080/x.txt", "a.org", 200, "of b"),
        ("HTTP://B.org/x.txt", "a.org", 200, "of b"),
        // 9110 4.2.4: a user in an address that came from elsewhere is an error.
        ("http://a.org@b.org/x.txt", "a.org", 400, ""),
        ("http://none.org/x.txt", "a.org", 421, ""),
        ("/http://b.org/x.txt", "a.org", 404, ""),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let reply = Reply::parse(&site.exchange(request.as_bytes())).0;
        assert_eq!(reply.status, status, "{target} {host}");
        assert!(status != 200 || reply.text() == text, "{target} {host}");
    }
}
