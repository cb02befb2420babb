//! Whose child a request is, and whose children are what it starts: by headers, by the environment, through a proxy.

use crate::{armed, ask, get, line_of, required, site};
use weir_agent::transaction::{Transaction, TransactionId};
use weir_testkit::{Apache, Cgi};
use weir_web_modules::{Told, arm_directory};

const PARENT: &str = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
const PRINTS_ITS_ENVIRONMENT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n";

/// A variable that a program printed.
fn variable<'a>(printed: &'a str, name: &str) -> Option<&'a str> {
    printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// The id that a correlator of ours in hex, or a `traceparent`, stands for.
fn id(text: &str) -> Option<String> {
    match text.strip_prefix("001cd7") {
        Some(rest) => Some(format!("{}-{}", rest.get(2..34)?, rest.get(34..50)?)),
        None => text.get(3..52).map(str::to_owned),
    }
}

fn text(of: &Transaction) -> String {
    of.id.to_string()
}

#[test]
fn a_request_is_part_of_its_callers_trace_and_what_it_starts_of_its_own() {
    if required().is_none() {
        return;
    }
    let site = site(&[("env.cgi", PRINTS_ITS_ENVIRONMENT), ("off/env.cgi", PRINTS_ITS_ENVIRONMENT), ("a.txt", "a")]);
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let behind = Apache::prefork().workers(1).root(site.path()).cgi(Cgi::Direct).start().expect("it starts");
    let log = site.path().join("access.log");
    let apache = Apache::event().workers(8).processes(1).root(site.path()).cgi(Cgi::Daemon);
    let server = armed(apache.proxy("/through/", &behind.url("/")), arm.path())
        .directive(&format!(
            r#"
LogFormat "%U %{{arm-id}}n %{{arm-first-byte}}n %{{arm-last-byte}}n %D" arm
CustomLog "{}" arm
Arm On
ArmApplication pages
<Location "/env.cgi">
  ArmTransaction environment
</Location>
<Location "/off">
  Arm Off
</Location>"#,
            log.display()
        ))
        .start()
        .expect("it starts");
    told.next(1);
    let port = server.port;
    let asked = |path: &str, field: &str| {
        let answer = ask(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{field}"));
        assert_eq!(answer.status, 200, "{path}");
        (answer.body, told.next(1).remove(0))
    };
    let parent: TransactionId = PARENT.parse().expect("an id");

    // From W3C's header, and on to the program.
    let (printed, one) = asked("/env.cgi", &format!("traceparent: 00-{PARENT}-01"));
    assert!(one.parent == Some(parent) && one.id.trace == parent.trace && !one.parent_foreign);
    assert_eq!(variable(&printed, "ARM_APPLICATION"), Some("pages"));
    assert_eq!(variable(&printed, "ARM_TRANSACTION"), Some("environment"));
    assert_eq!(variable(&printed, "ARM_CORRELATOR").and_then(id), Some(text(&one)));
    assert_eq!(variable(&printed, "HTTP_TRACEPARENT").and_then(id), Some(text(&one)));
    assert_eq!(variable(&printed, "HTTP_ARM_CORRELATOR"), None, "it came by the other header");

    // From ARM's header, which comes first; and one of another make.
    let arm_header =
        format!("ARM-Correlator: 001cd740{}\r\ntraceparent: 00-{}-01", PARENT.replace('-', ""), "1".repeat(32));
    let (printed, one) = asked("/env.cgi", &arm_header);
    assert_eq!(one.parent, Some(parent));
    assert_eq!(variable(&printed, "HTTP_ARM_CORRELATOR").and_then(id), Some(text(&one)));
    let (_, one) = asked("/env.cgi", "ARM-Correlator: 0008014000010203");
    assert!(one.parent.is_some() && one.parent_foreign);

    // An invalid correlator gives no parent.
    for field in ["ARM-Correlator: 00ff", "ARM-Correlator: xyz", "traceparent: 00-0-0-01", "traceparent: 01"] {
        let (_, one) = asked("/env.cgi", field);
        assert_eq!(one.parent, None, "{field}");
    }
    let padded = format!("traceparent: 00-{PARENT}-01-more");
    assert_eq!(asked("/env.cgi", &padded).1.parent, None, "version 00 has no more");
    assert_eq!(asked("/env.cgi", &padded.replace("00-0af", "01-0af")).1.parent, Some(parent), "a later one may");

    // Through a proxy: what is behind it is a child of the request here.
    let (printed, one) = asked("/through/env.cgi", &format!("traceparent: 00-{PARENT}-01"));
    assert_eq!(one.parent, Some(parent));
    assert_eq!(variable(&printed, "HTTP_TRACEPARENT").and_then(id), Some(text(&one)));
    assert_eq!(variable(&printed, "ARM_CORRELATOR"), None, "that server has no module");

    // Off: nothing is touched.
    let off = ask(port, &format!("GET /off/env.cgi HTTP/1.1\r\nHost: 127.0.0.1\r\ntraceparent: 00-{PARENT}-01"));
    assert_eq!(variable(&off.body, "ARM_APPLICATION"), None);
    assert_eq!(variable(&off.body, "HTTP_TRACEPARENT"), Some(format!("00-{PARENT}-01").as_str()));
    assert!(told.rest().is_empty());

    // The log has the id that leads to the transaction, and times.
    get(port, "/a.txt");
    let one = told.next(1).remove(0);
    let line = line_of(&log, "/a.txt");
    let words: Vec<&str> = line.split(' ').collect();
    let times: Vec<i64> = words[2..].iter().map(|word| word.parse().expect("a time")).collect();
    assert_eq!(words[1], text(&one));
    assert!(
        times[0] <= times[1] && times[1] <= times[2],
        "first byte, last byte, and when the log was written: {line}"
    );
}
