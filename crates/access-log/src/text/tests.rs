use super::*;

/// 10 October 2000, 20:55:36 UTC.
const AT: i64 = 971_211_336;

fn read(line: &str) -> Entry<'static> {
    Entry::parse(line.as_bytes()).unwrap_or_else(|reason| panic!("{line}: {reason:?}")).into_owned()
}

#[test]
fn a_line_is_read_wherever_time_and_request_stand() {
    for line in [
        // Common and Combined, with a virtual host in front, and as lighttpd has them.
        r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7"#,
        r#"h:443 ::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7 "-" "x""#,
        r#"::1 h - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7 "-" "x""#,
        r#"h [2001:db8::1] - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7"#,
        r#"::1 - a [b] c [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7"#,
        // Fields between.
        r#"::1 - - [10/Oct/2000:13:55:36 -0700] [0.003] [PORT 80] "GET /a HTTP/1.1" 200 7"#,
        r#"::1 - - [10/Oct/2000:13:55:36 -0700] h "h2" "GET /a HTTP/1.1" 200 7"#,
        r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/2.0" to: 192.0.2.9:80 200 7 "-" "x""#,
        r#"::1 "GET /a HTTP/1.1" [10/Oct/2000:13:55:36 -0700] 200 7"#,
        // Other times.
        r#"::1 - - [2000-10-10T13:55:36-07:00] "GET /a HTTP/1.1" 200 7"#,
        r#"::1 - - [971211336] "GET /a HTTP/1.1" 200 7"#,
        r#"2000-10-10T20:55:36Z ::1 "GET /a HTTP/1.1" 200 7"#,
        r#"2000-10-10 20:55:36 ::1 "GET /a HTTP/1.1" 200 7"#,
        r#"::1 - - "2000-10-10T20:55:36Z" "GET /a HTTP/1.1" 200 7"#,
        // Behind what syslog, journald, kubectl and docker compose put in front.
        r#"<190>Mar 12 12:00:00 h nginx: ::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7"#,
        r#"<190>1 2026-03-12T12:00:00.5Z h nginx 1 - - ::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7"#,
        r#"2026-03-12T12:00:00.123456789Z ::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7"#,
        r#"[pod/web-1/nginx] ::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7"#,
        r#"web-1  | ::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 7"#,
        // Traefik's Common Log Format, whose time is the begin.
        r#"::1 - - [10/Oct/2000:20:55:36 +0000] "GET /a HTTP/1.1" 200 7 "-" "-" 1 "web@docker" "http://10.0.0.2:80" 4000ms"#,
        // Amazon S3: the size of the object is not that of the response.
        r#"79a5 bucket [10/Oct/2000:20:55:36 +0000] 192.0.2.3 79a5 3E57 REST.GET.OBJECT a "GET /a HTTP/1.1" 200 - 7 9 41 28 "-" "S3Console/0.4" -"#,
    ] {
        let entry = read(line);
        assert_eq!((entry.second, entry.nanosecond, &*entry.method, &*entry.target), (AT, None, "GET", "/a"), "{line}");
        assert_eq!((entry.status, entry.bytes, entry.is_size_unread), (Some(200), Some(7), false), "{line}");
    }
}

#[test]
fn a_status_in_front_of_the_request_is_told_from_its_size() {
    let time = "[10/Oct/2000:13:55:36 -0700]";
    for (line, status, bytes) in [
        (format!(r#"200 ::1 {time} "GET /a HTTP/1.1" 404 0.003"#), 200, Some(404)),
        (format!(r#"200 ::1 {time} "GET /a HTTP/1.1" 1200"#), 200, Some(1200)),
        (format!(r#"::1 - - {time} 200 "GET /a HTTP/1.1" 404 "-" "curl""#), 200, Some(404)),
        (format!(r#"::1 {time} 404 532 "GET /a HTTP/1.1" "-" "curl""#), 404, Some(532)),
        (r#"304 2000-10-10T20:55:36Z ::1 "GET /a HTTP/1.1" 500"#.to_owned(), 304, Some(500)),
        // A port, a pid or a duration stands there, too: then the usual place counts.
        (format!(r#"443 ::1 {time} "GET /a HTTP/1.1" 200 0.003"#), 200, None),
        (format!(r#"::1 {time} 308 "GET /a HTTP/1.1" 200 7"#), 200, Some(7)),
        (format!(r#"::1 {time} 308 "GET /a HTTP/1.1" 200 - "-""#), 200, None),
        (format!(r#"::1 {time} "GET /a HTTP/1.1" 200 "-""#), 200, None),
    ] {
        let entry = read(&line);
        assert_eq!((entry.status, entry.bytes), (Some(status), bytes), "{line}");
    }
}

#[test]
fn parts_of_seconds_are_read_in_every_form() {
    for line in [
        r#"::1 - - [10/Oct/2000:13:55:36.250 -0700] "GET /a HTTP/1.1" 200 7"#,
        r#"::1 - - [971211336.250] "GET /a HTTP/1.1" 200 7"#,
        // Envoy's default, and Istio's.
        r#"[2000-10-10T20:55:36.250Z] "GET /a HTTP/2" 200 - 154 7 226 100 "10.0.35.28" "nsq2http" "cc21d9b0" "h" "tcp://10.0.2.1:80""#,
        r#"[2000-10-10T20:55:36.250Z] "GET /a HTTP/1.1" 200 - via_upstream - "-" 0 7 3 1 "-" "curl/7.73.0" "x" "h" "127.0.0.1:80" a b c"#,
        // HAProxy, with its status in front of the request.
        r#"Oct 10 20:55:36 h haproxy[14389]: 10.0.1.2:33317 [10/Oct/2000:20:55:36.250] http-in static/srv1 10/0/30/69/109 200 7 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /a HTTP/1.1""#,
    ] {
        let entry = read(line);
        assert_eq!((entry.second, entry.nanosecond), (AT, Some(250_000_000)), "{line}");
        assert_eq!((&*entry.target, entry.status, entry.bytes), ("/a", Some(200), Some(7)), "{line}");
    }
}

#[test]
fn the_ingress_logs_ends_and_how_long_they_took() {
    let line = |took: &str| {
        format!(
            r#"192.0.2.1 - - [10/Oct/2000:20:55:40 +0000] "GET /a HTTP/2.0" 200 7 "-" "x" 563 {took} [shop-web-80] [] 10.0.0.4:8080 39 {took} 200 abc"#
        )
    };
    assert_eq!(read(&line("4.102")).second, AT);
    assert_eq!(read(&line("0.102")).second, AT + 4);
    let address = line("4.000").replacen("- -", "- [192.0.2.1] - -", 1);
    assert_eq!((read(&address).second, read(&address).bytes), (AT, Some(7)));
}

#[test]
fn escapes_are_those_of_the_server() {
    for (asked, target) in [
        (r"/q?x=\x22a\x22", "/q?x=%22a%22"),
        (r"/caf\xC3\xA9", "/caf%C3%A9"),
        (r#"/a\"b"#, "/a%22b"),
        (r"/a\\b", "/a%5Cb"),
        ("/a b", "/a%20b"),
        ("/a\"b\"c", "/a%22b%22c"),
    ] {
        let line = format!(r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET {asked} HTTP/1.1" 200 7 "-" "x""#);
        assert_eq!(read(&line).target, target);
    }
    let raw = [&b"::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /caf"[..], b"\xe9 HTTP/1.1\" 200 7"].concat();
    assert_eq!(Entry::parse(&raw).expect("a request").target, "/caf%E9");
    let haproxy =
        r#"h: ::1:3 [10/Oct/2000:20:55:36.250] f b/s 1/0/3/6/10 404 9 - - ---- 1/1/1/1/0 0/0 "GET /#22a#23 HTTP/1.1""#;
    assert_eq!((&*read(haproxy).target, read(haproxy).status), ("/%22a%23", Some(404)));
}

#[test]
fn a_status_and_a_size_are_read_or_missing() {
    let of = |tail: &str| {
        let entry = read(&format!(r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1"{tail}"#));
        (entry.status, entry.bytes, entry.is_size_unread)
    };
    for (tail, status, bytes, is_unread) in [
        (" 200 7", Some(200), Some(7), false),
        (" 304 -", Some(304), None, false),
        (" 499 0", Some(499), Some(0), false),
        (" 000 0", None, Some(0), false),
        (" - -", None, None, false),
        (" 200", Some(200), None, true),
        (r#" 200 "-" "x""#, Some(200), None, true),
        (r#" "h" 200 7"#, Some(200), Some(7), false),
        ("", None, None, true),
    ] {
        assert_eq!(of(tail), (status, bytes, is_unread), "{tail}");
    }
    // The part that was sent, and the whole.
    let s3 = r#"79a5 bucket [10/Oct/2000:20:55:36 +0000] 192.0.2.3 79a5 3E57 REST.GET.OBJECT a "GET /a HTTP/1.1" 206 - 7 9000 41 28 "-" "x" -"#;
    assert_eq!((read(s3).bytes, read(s3).whole_bytes), (Some(7), Some(9000)));
}

#[test]
fn other_lines_are_refused_for_their_reason() {
    for (line, reason) in [
        ("nonsense", Reason::Form),
        ("# comment", Reason::Comment),
        (r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET /a"#, Reason::Cut),
        (r#"::1 - - [10/Oct/2000:13:55:36 -0700] "-" 408 -"#, Reason::NoRequest),
        (r#"::1 - - [10/Oct/2000:13:55:36 -0700] "" 400 0 "-" "-""#, Reason::NoRequest),
        (r#"::1 - - [10/Oct/2000:13:55:36 -0700] "\x16\x03\x01\x02" 400 150 "-" "-""#, Reason::NoHttp),
        (r#"::1 - - [10/Okt/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 5"#, Reason::Time),
        (
            r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 1::1 - - [10/Oct/2000:13:55:37 -0700] "GET / HTTP/1.1" 200 1"#,
            Reason::TwoRequests,
        ),
        (
            r#"h: ::1:3 [10/Oct/2000:20:55:36.250] f f/<NOSRV> -1/-1/-1/-1/10 400 9 - - PR-- 1/1/1/1/0 0/0 "<BADREQ>""#,
            Reason::BadRequest,
        ),
        // Lines of error logs, whose requests are in the access log, too.
        (
            r#"2000/10/10 20:55:36 [error] 1#1: *1 open() "/x" failed, client: ::1, request: "GET /x HTTP/1.1", host: "h""#,
            Reason::Time,
        ),
    ] {
        assert_eq!(Entry::parse(line.as_bytes()), Err(reason), "{line}");
    }
    // Many brackets and quotes are no way to make it slow.
    let _ = Entry::parse(&b"[".repeat(60_000));
    let _ = Entry::parse(&b"[\" \" [10/Oct/2000:20:55:36] \"".repeat(2000));
}
