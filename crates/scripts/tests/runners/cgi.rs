//! CGI: a process for each request.

use super::client::{Stand, begin, record};
use std::io::{Read, Write};
use weir_scripts::Way;

#[test]
fn a_script_has_its_variables_its_directory_and_its_body() {
    let stand = Stand::new(Way::Cgi, |pool| pool.env.push(("OWN".to_owned(), "1".to_owned())));
    stand.script(
        "hello.sh",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'; pwd; echo \"$OWN $QUERY_STRING $# ${HOME-none}\"; cat; echo oops >&2; exit 3\n",
    );
    let mut conn = stand.connect();
    let path = stand.pool.root.join("hello.sh");
    for body in [&b"a body"[..], b"", &[b'x'; 300_000]] {
        let response = conn.ask(&path, &[("QUERY_STRING", "a+b"), ("OWN", "2")], body);
        let head = format!("Content-Type: text/plain\r\n\r\n{}\n1 a+b 0 none\n", stand.pool.root.display());
        assert!(response.output.starts_with(head.as_bytes()), "{response:?}");
        assert_eq!(&response.output[head.len()..], body);
        assert_eq!((response.log.as_str(), response.end), ("oops\n", Some(3)));
    }
    stand.is_alone();
}

#[test]
fn body_and_response_go_both_ways_as_they_come() {
    let stand = Stand::new(Way::Cgi, |_| {});
    let path = stand.script("echo.sh", "#!/bin/sh\nprintf 'A: b\\n\\n'; while read line; do echo \"<$line>\"; done\n");
    let conn = stand.connect();
    (&conn.0).write_all(&begin(&path, &[], 4)).expect("is sent");
    let read = |until: &str| {
        let (mut text, mut piece) = (Vec::new(), [0; 512]);
        while !String::from_utf8_lossy(&text).contains(until) {
            let bytes = (&conn.0).read(&mut piece).expect("more");
            assert!(bytes > 0);
            text.extend_from_slice(&piece[..bytes]);
        }
    };
    read("A: b");
    for line in ["1\n", "2\n"] {
        let mut records = Vec::new();
        record(5, line.as_bytes(), &mut records);
        (&conn.0).write_all(&records).expect("is sent");
        read(&format!("<{}>", line.trim()));
    }
}

#[test]
fn what_cannot_be_run_is_told_with_its_status() {
    let stand = Stand::new(Way::Cgi, |pool| pool.interpreters.push((".pl".to_owned(), "/usr/bin/perl".into())));
    let plain = stand.script("plain.sh", "#!/bin/sh\necho\n");
    std::fs::set_permissions(&plain, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("is set");
    stand.script("none.sh", "#!/nonexistent/sh\n");
    stand.script("text.sh", "hello");
    let perl = stand.script("a.pl", "print qq(A: b\\n\\n$0 @ARGV);");
    std::fs::set_permissions(&perl, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("is set");
    for (name, status, words) in [
        ("plain.sh", 403, "may not be executed"),
        ("none.sh", 500, "in its first line"),
        ("text.sh", 500, "#!"),
        ("missing.sh", 404, "is no file"),
        ("../pool.sock", 404, "is not below"),
    ] {
        let response = stand.ask(name, &[], b"body");
        response.is_refusal(status);
        assert!(response.log.contains(words), "{response:?}");
    }
    let response = stand.ask("a.pl", &[], b"");
    assert_eq!(response.text(), format!("A: b\n\n{} ", perl.display()));
}

#[test]
fn limits_hold_for_scripts() {
    let stand = Stand::new(Way::Cgi, |pool| {
        (pool.cpu, pool.memory, pool.files) = (std::time::Duration::from_secs(1), 256 << 20, 1 << 20);
        pool.output = 100_000;
    });
    stand.script("limits.sh", "#!/bin/sh\nprintf 'A: b\\n\\n'; ulimit -t; ulimit -v; ulimit -f; ulimit -c\n");
    assert_eq!(stand.ask("limits.sh", &[], b"").text(), "A: b\n\n1\n262144\n2048\n0\n");
    stand.script("burn.sh", "#!/bin/sh\nwhile :; do :; done\n");
    let burnt = stand.ask("burn.sh", &[], b"");
    burnt.is_refusal(502);
    assert!(burnt.log.contains("burn.sh was killed by SIG"), "{burnt:?}");
    stand.script(
        "flood.sh",
        "#!/bin/sh\nprintf 'A: b\\n\\n'; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done\n",
    );
    let flood = stand.ask("flood.sh", &[], b"");
    assert!(flood.log.contains("longer than `output` allows"), "{flood:?}");
    stand.is_alone();
}
