use super::*;

/// 10 October 2000, 20:55:36 UTC.
const AT: i64 = 971_211_336;

fn of(line: &str) -> Result<Entry<'static>, Reason> {
    Entry::parse(line.as_bytes()).map(Entry::into_owned)
}

fn read(line: &str) -> Entry<'static> {
    of(line).unwrap_or_else(|reason| panic!("{line}: {reason:?}"))
}

#[test]
fn servers_are_understood() {
    for line in [
        r#"{"time":"2000-10-10T20:55:36.250Z","client":"::1","method":"GET","target":"/a","status":200,"bytes":7,"duration_us":4000000}"#,
        r#"{"ts":971211336.25,"request":{"method":"GET","host":"h","uri":"/a"},"status":200,"size":7}"#,
        r#"{"msec":"971211336.25","request":"GET /a HTTP/1.1","status":"200","body_bytes_sent":"7"}"#,
        r#"{"StartUTC":"2000-10-10T20:55:36.25Z","RequestMethod":"GET","RequestPath":"/a","DownstreamStatus":200,"DownstreamContentSize":7}"#,
        r#"{"timestamp":971211336250,"method":"GET","url":"http://h/a","code":200,"length":7}"#,
        // Envoy's start_time is the begin, and its duration is in milliseconds.
        r#"{"start_time":"2000-10-10T20:55:36.250Z","method":"GET","path":"/a","protocol":"HTTP/2","response_code":200,"bytes_received":154,"bytes_sent":7,"duration":4000}"#,
        // The Elastic Common Schema, nested and with dots, and what Logstash makes of a Combined line.
        r#"{"@timestamp":"2000-10-10T20:55:36.250Z","http":{"request":{"method":"get"},"response":{"status_code":200,"body":{"bytes":7}}},"url":{"original":"/a"}}"#,
        r#"{"@timestamp":"2000-10-10T20:55:36.250Z","http.request.method":"GET","http.response.status_code":200,"http.response.body.bytes":7,"url.path":"/a"}"#,
        r#"{"@timestamp":"2000-10-10T20:55:36.250Z","path":"/var/log/access.log","verb":"GET","request":"/a","response":"200","bytes":"7","httpversion":"1.1"}"#,
        // Cloudflare and Google Cloud.
        r#"{"ClientRequestMethod":"GET","ClientRequestURI":"/a","EdgeResponseStatus":200,"EdgeResponseBytes":7,"EdgeStartTimestamp":971211336250000000}"#,
        r#"{"timestamp":"2000-10-10T20:55:36.250Z","httpRequest":{"requestMethod":"GET","requestUrl":"https://h/a","status":200,"responseSize":"7","latency":"0.1s"}}"#,
        // A line of a list.
        r#"[{"ts":971211336.25,"method":"GET","uri":"/a","status":200,"size":7},"#,
    ] {
        let entry = read(line);
        assert_eq!((entry.second, entry.nanosecond), (AT, Some(250_000_000)), "{line}");
        assert_eq!((&*entry.method, &*entry.target), ("GET", "/a"), "{line}");
        assert_eq!((entry.status, entry.bytes, entry.is_size_unread), (Some(200), Some(7), false), "{line}");
    }
}

#[test]
fn the_begin_counts_where_the_end_is_logged() {
    for (line, second, nanosecond) in [
        // Traefik: the begin, or the end and nanoseconds.
        (
            r#"{"StartUTC":"2000-10-10T20:55:36.5Z","time":"2000-10-10T20:55:42Z","Duration":6000000000,"RequestMethod":"GET","RequestPath":"/"}"#,
            AT,
            Some(500_000_000),
        ),
        (r#"{"time":"2000-10-10T20:55:42Z","Duration":6000000000,"RequestMethod":"GET","RequestPath":"/"}"#, AT, None),
        // Caddy: seconds, or as Go writes them.
        (
            r#"{"level":"info","ts":971211342.75,"logger":"http.log.access","msg":"handled request","request":{"method":"GET","uri":"/"},"duration":6.25,"status":200}"#,
            AT,
            Some(500_000_000),
        ),
        (
            r#"{"level":"info","ts":"2000-10-10T20:55:42.750Z","request":{"method":"GET","uri":"/"},"duration":"6.25s","status":200}"#,
            AT,
            Some(500_000_000),
        ),
        // nginx: seconds.
        (r#"{"msec":"971211342.500","request_time":"6.000","request":"GET / HTTP/1.1"}"#, AT, Some(500_000_000)),
        (
            r#"{"time_local":"10/Oct/2000:13:55:42 -0700","msec":971211342.5,"request_time":6.0,"request":"GET / HTTP/1.1"}"#,
            AT,
            Some(500_000_000),
        ),
        (
            r#"{"time_iso8601":"2000-10-10T20:55:42+00:00","request_time":"6.102","request_uri":"/","request_method":"GET"}"#,
            AT,
            None,
        ),
        // CloudFront, pino.
        (
            r#"{"date":"2000-10-10","time":"20:55:42","cs-method":"GET","cs-uri-stem":"/","time-taken":"6.001"}"#,
            AT,
            None,
        ),
        (
            r#"{"time":971211342500,"req":{"method":"GET","url":"/"},"res":{"statusCode":200},"responseTime":6000,"msg":"request completed"}"#,
            AT,
            Some(500_000_000),
        ),
    ] {
        let entry = read(line);
        assert_eq!((entry.second, entry.nanosecond, &*entry.target), (second, nanosecond, "/"), "{line}");
    }
    // An integer of no known unit is not taken for seconds.
    let entry = read(r#"{"time":"2000-10-10T20:55:36Z","request_time":6,"method":"GET","uri":"/"}"#);
    assert_eq!(entry.second, AT);
}

#[test]
fn a_time_is_one_that_a_server_can_have_had() {
    let entry = read(r#"{"time":0.012,"@timestamp":"2000-10-10T20:55:36Z","method":"GET","uri":"/"}"#);
    assert_eq!((entry.second, entry.nanosecond), (AT, None));
    let entry = read(r#"{"time":"0.012","timestamp":"971211336","method":"GET","uri":"/"}"#);
    assert_eq!((entry.second, entry.nanosecond), (AT, None));
    let local = read(r#"{"time_local":"10/Oct/2000:13:55:36 -0700","request":"GET / HTTP/1.0"}"#);
    assert_eq!((local.second, local.nanosecond, local.bytes), (AT, None, None));
    assert_eq!(of(r#"{"time":0.012,"method":"GET","uri":"/"}"#), Err(Reason::JsonTime));
    assert_eq!(of(r#"{"ts":1e300,"method":"GET","uri":"/"}"#), Err(Reason::JsonTime));
}

#[test]
fn what_was_asked_goes_before_what_was_made_of_it() {
    for (fields, target) in [
        (r#""request_method":"GET","request_uri":"/shop?a=b","uri":"/index.php""#, "/shop?a=b"),
        (r#""request":"GET /shop?a=b HTTP/1.1","uri":"/index.php","request_method":"GET""#, "/shop?a=b"),
        (r#""method":"GET","uri":"/a","args":"b=c""#, "/a?b=c"),
        (r#""method":"GET","uri":"/a","args":"-""#, "/a"),
        (r#""method":"GET","uri":"/a?b","query_string":"b""#, "/a?b"),
        (r#""method":"GET","url":{"path":"/a","query":"b"}"#, "/a?b"),
        // JSON's own escapes, nginx's within JSON, and a blank.
        (r#""method":"GET","uri":"/\"\\\u00e9""#, "/%22%5C%C3%A9"),
        (r#""method":"GET","request_uri":"/q?x=\x22a\x5C""#, "/q?x=%22a%5C"),
        (r#""method":"GET","uri":"/\r\nX: y""#, "/%0D%0AX:%20y"),
    ] {
        let line = format!(r#"{{"ts":971211336,{fields}}}"#);
        assert_eq!(read(&line).target, target, "{line}");
    }
    let raw = [&br#"{"ts":971211336,"method":"GET","uri":"/caf"#[..], b"\xe9\"}"].concat();
    assert_eq!(Entry::parse(&raw).expect("a request").target, "/caf%E9");
}

#[test]
fn a_line_within_an_object_is_that_line() {
    let common = r#"::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 7"#;
    for line in [
        format!(r#"{{"log":"{common}\n","stream":"stdout","time":"2026-03-12T12:00:00.5Z"}}"#),
        format!(r#"{{"@timestamp":"2026-03-12T12:00:00.5Z","message":"{common}"}}"#),
        format!(r#"{{"__REALTIME_TIMESTAMP":"1773316800000000","MESSAGE":"{common}"}}"#),
        r#"{"log":"{\"ts\":971211336,\"method\":\"GET\",\"uri\":\"/a\",\"status\":200,\"size\":7}\n","stream":"stdout"}"#.to_owned(),
        r#"Mar 12 12:00:00 h caddy[1]: {"ts":971211336,"method":"GET","uri":"/a","status":200,"size":7}"#.to_owned(),
        r#"2026-03-12T12:00:00Z {"ts":971211336,"request":"GET /a HTTP/1.1","status":200,"size":7}"#.to_owned(),
    ] {
        let entry = read(&line);
        assert_eq!((entry.second, &*entry.target, entry.status, entry.bytes), (AT, "/a", Some(200), Some(7)), "{line}");
    }
    assert_eq!(
        of(r#"{"log":"starting\n","stream":"stdout","time":"2026-03-12T12:00:00.5Z"}"#),
        Err(Reason::JsonRequest)
    );
    let deep = (0..9).fold("x".to_owned(), |inner, _| serde_json::json!({ "log": inner }).to_string());
    assert!(of(&deep).is_err());
}

#[test]
fn other_objects_are_refused_for_their_reason() {
    for (line, reason) in [
        ("{", Reason::JsonOverLines),
        ("{x", Reason::NotJson),
        ("{}{}", Reason::JsonSeveral),
        (r#"{"method":"GET","uri":"/"}"#, Reason::JsonTime),
        (r#"{"ts":971211336,"uri":"/"}"#, Reason::JsonRequest),
        (r#"{"ts":971211336,"request":"-","status":400}"#, Reason::NoRequest),
        (r#"{"ts":971211336,"request_method":"","request_uri":"","status":400}"#, Reason::NoRequest),
        (r#"{"ts":971211336,"request":"\u0016\u0003\u0001","status":400}"#, Reason::NoHttp),
        (r#"{"ts":971211336,"method":"CONNECT","uri":"h:443"}"#, Reason::Tunnel),
    ] {
        assert_eq!(of(line), Err(reason), "{line}");
    }
}

#[test]
fn a_status_and_a_size_are_read_or_missing() {
    for (fields, status, bytes, is_unread) in [
        (r#""status":"404","size":"-""#, Some(404), None, false),
        (r#""status":200.0,"size":7.0"#, Some(200), Some(7), false),
        (r#""status":"OK","size":"7 kB""#, None, None, true),
        (r#""status":0"#, None, None, true),
        (r#""status":206,"size":7,"resp_headers":{"Content-Range":["bytes 0-6/9000"]}"#, Some(206), Some(7), false),
    ] {
        let entry = read(&format!(r#"{{"ts":971211336,"method":"GET","uri":"/",{fields}}}"#));
        assert_eq!((entry.status, entry.bytes, entry.is_size_unread), (status, bytes, is_unread), "{fields}");
        assert_eq!(entry.whole_bytes.is_some(), status == Some(206));
    }
}
