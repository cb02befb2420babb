//! CGIplus: processes that answer one request after the other.

use super::client::Stand;
use std::time::Duration;
use weir_scripts::Way;

/// A persistent script of the shell, which counts its requests.
const SHELL: &str = "#!/bin/sh\ncount=0\nwhile read -r line <&3; do\n  name=; body=; length=0\n  while read -r line <&3 && [ -n \"$line\" ]; do case $line in QUERY_STRING=*) name=${line#*=};; CONTENT_LENGTH=*) length=${line#*=};; esac; done\n  count=$((count + 1))\n  [ $length = 0 ] || body=$(head -c $length)\n  printf 'Content-Type: text/plain\\n\\n%s %s %s\\n' \"$count\" \"$name\" \"$body\"\n  echo \"$CGIPLUSEOF\"\ndone\n";

#[test]
fn one_process_answers_many_requests() {
    let stand = Stand::new(Way::Cgiplus, |pool| pool.workers = 1);
    let path = stand.script("count.sh", SHELL);
    let mut conn = stand.connect();
    for number in 1..=20 {
        let name = format!("q{number}");
        let body = if number % 2 == 0 { "a body" } else { "" };
        let response = conn.ask(&path, &[("QUERY_STRING", &name)], body.as_bytes());
        assert_eq!(response.text(), format!("Content-Type: text/plain\n\n{number} {name} {body}\n"));
        assert_eq!(response.end, Some(0));
    }
    // A changed script is another process.
    stand.script("count.sh", &SHELL.replace("count=0", "count=100"));
    assert_eq!(conn.ask(&path, &[], b"").text(), "Content-Type: text/plain\n\n101  \n");
    drop(conn);
    assert_eq!(stand.ask("count.sh", &[], b"").text(), "Content-Type: text/plain\n\n102  \n");
}

#[test]
fn no_value_of_a_request_becomes_another_variable() {
    let stand = Stand::new(Way::Cgiplus, |pool| pool.workers = 1);
    let path = stand.script("count.sh", SHELL);
    let mut conn = stand.connect();
    let response = conn.ask(&path, &[("PATH_INFO", "/a\nQUERY_STRING=evil")], b"");
    response.is_refusal(400);
    assert!(response.log.contains("bytes that scripts cannot be told"), "{response:?}");
    assert_eq!(conn.ask(&path, &[("QUERY_STRING", "good")], b"").text(), "Content-Type: text/plain\n\n1 good \n");
}

#[test]
fn a_process_is_renewed_and_ends_when_it_is_idle() {
    let stand = Stand::new(Way::Cgiplus, |pool| {
        (pool.workers, pool.renew, pool.idle) = (1, 3, Duration::from_millis(300));
    });
    let path = stand.script("count.sh", SHELL);
    let mut conn = stand.connect();
    let mut counts = || -> Vec<String> {
        let texts = (0..4).map(|_| conn.ask(&path, &[], b"").text());
        texts.map(|text| text.split_whitespace().nth(2).unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(counts(), ["1", "2", "3", "1"]);
    stand.is_alone();
    assert_eq!(counts(), ["1", "2", "3", "1"]);
}

#[test]
fn a_body_that_is_left_unread_reaches_no_other_request() {
    let stand = Stand::new(Way::Cgiplus, |pool| pool.workers = 1);
    let path = stand.script("lazy.sh", &SHELL.replace("[ $length = 0 ] ||", "[ $length != 7 ] ||"));
    let mut conn = stand.connect();
    assert_eq!(conn.ask(&path, &[], b"secret").text(), "Content-Type: text/plain\n\n1  \n");
    assert_eq!(conn.ask(&path, &[], b"another").text(), "Content-Type: text/plain\n\n1  another\n");
}

#[test]
fn a_process_that_dies_costs_one_request() {
    let stand = Stand::new(Way::Cgiplus, |pool| pool.workers = 1);
    let text = SHELL
        .replace("  count=", "  [ \"$name\" != die ] || kill -KILL $$\n  [ \"$name\" != leave ] || exit 0\n  count=");
    let path = stand.script("count.sh", &text);
    let mut conn = stand.connect();
    let mut ask = |query: &str| conn.ask(&path, &[("QUERY_STRING", query)], b"");
    assert_eq!(ask("a").text(), "Content-Type: text/plain\n\n1 a \n");
    let died = ask("die");
    died.is_refusal(502);
    assert!(died.log.contains("count.sh was killed by SIGKILL"), "{died:?}");
    assert_eq!(ask("b").text(), "Content-Type: text/plain\n\n1 b \n");
    // One that ends by itself is taken for one whose time was over, and another one is asked, once.
    let left = ask("leave");
    left.is_refusal(502);
    assert!(left.log.contains("ended with status 0 and wrote no response"), "{left:?}");
}

#[test]
fn a_mark_in_the_output_of_another_process_is_output() {
    let stand = Stand::new(Way::Cgiplus, |pool| pool.workers = 1);
    let text = SHELL.replace("  printf '", "  echo X-Mark: \"$(echo \"$CGIPLUSEOF\" | tr 0-9 1-90)\"; printf '");
    let path = stand.script("mark.sh", &text);
    let response = stand.connect().ask(&path, &[], b"");
    assert!(response.text().starts_with("X-Mark: $CGIPLUS-") && response.text().ends_with("\n\n1  \n"), "{response:?}");
}

#[test]
fn a_process_that_was_killed_while_it_waited_costs_no_request() {
    let stand = Stand::new(Way::Cgiplus, |pool| pool.workers = 1);
    let path = stand.script("count.sh", SHELL);
    let mut conn = stand.connect();
    for _ in 0..5 {
        let response = conn.ask(&path, &[], b"");
        assert_eq!(response.text(), "Content-Type: text/plain\n\n1  \n", "{response:?}");
        let pid = stand.process_of(&path).expect("it waits");
        // SAFETY: it is a process of this test's runner.
        assert_eq!(unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) }, 0);
    }
}
