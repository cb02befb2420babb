//! Bounds by WASD's numbers: how many run depends on how many there are in all, on their users, and on how long they wait.

use crate::harness;

use harness::{Site, read_reply, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use weir_server::{Counts, parse_configuration};

const LARGE: usize = 64 << 20;
/// Of anna, with "secret".
const ANNA: &str = "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n";
const USERS: &[u8] = b"anna:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

fn start(throttle: &str, auth: &str) -> Site {
    let text = format!("[[throttle]]\npath = \"/t/**\"\nthrottle = \"{throttle}\"\n[[host]]\nroot = \"site\"\n{auth}");
    let site = Site::start(&[("users", USERS), ("site/a.txt", b"free")], |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        *options = parse_configuration(&text, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        (options.listen, options.loops) = (listen, 2);
    });
    site.write("site/t/large.bin", &vec![1; LARGE]);
    site.write("site/t/small.txt", b"small");
    site
}

/// Asks for something that is under way until the client takes it, or closes.
fn hold(site: &Site, fields: &str) -> TcpStream {
    let mut stream = site.connect();
    let request = format!("GET /t/large.bin HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sends");
    stream.read_exact(&mut [0; 1000]).expect("it is answered");
    stream
}

fn ask(site: &Site) -> TcpStream {
    let mut stream = site.connect();
    stream.write_all(b"GET /t/small.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    stream
}

fn until(site: &Site, is_so: impl Fn(&Counts) -> bool) {
    wait_until(|| is_so(&site.counters.read()));
}

#[test]
fn beyond_a_number_in_all_each_one_has_another_one_run_and_beyond_the_last_they_are_refused() {
    let site = start("1,2,3,4", "");
    let held = hold(&site, "");
    let mut second = ask(&site);
    until(&site, |counts| counts.throttle_queued == 1);
    // The third one waits, and has the second one run.
    let mut third = ask(&site);
    assert_eq!(read_reply(&mut second, false).text(), "small");
    until(&site, |counts| counts.throttle_queued == 2);
    // That is over, and two are left: so the third one waits on until there are three again.
    let mut fourth = site.connect();
    fourth.write_all(b"GET /t/large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut third, false).text(), "small");
    drop(held);
    fourth.read_exact(&mut [0; 1000]).expect("it is answered");
    drop(fourth);
    assert_eq!(site.stop().throttle_queued, 3);
}

#[test]
fn beyond_the_largest_number_in_all_requests_are_refused() {
    let site = start("1,,,3", "");
    let held = hold(&site, "");
    let mut waiting = [ask(&site), ask(&site)];
    until(&site, |counts| counts.throttle_queued == 2);
    let refused = read_reply(&mut ask(&site), false);
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    assert_eq!(site.get("/a.txt").text(), "free", "other paths know nothing of it");
    drop(held);
    waiting.iter_mut().for_each(|stream| assert_eq!(read_reply(stream, false).text(), "small"));
    assert_eq!(site.stop().throttle_refused, 1);
}

#[test]
fn of_one_user_no_more_run_than_may_and_others_pass_by() {
    let site = start("5/1", "auth = { users = \"users\" }");
    let held = hold(&site, ANNA);
    let mut waiting = site.connect();
    waiting.write_all(format!("GET /t/small.txt HTTP/1.1\r\nHost: a\r\n{ANNA}\r\n").as_bytes()).expect("sends");
    until(&site, |counts| counts.throttle_queued == 1);
    // Its password is wrong, so that it is the client's address that asks; that has room.
    assert_eq!(read_reply(&mut ask(&site), false).status, 401);
    drop(held);
    assert_eq!(read_reply(&mut waiting, false).text(), "small");
    site.stop();
}

#[test]
fn one_that_has_waited_long_enough_runs_unless_too_many_are_there() {
    let site = start("1,2,2,9,00:00:01", "");
    let held = hold(&site, "");
    let begun = Instant::now();
    let mut second = ask(&site);
    assert_eq!(read_reply(&mut second, false).text(), "small", "two are there, and two may be");
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    let queued = site.counters.read().throttle_queued;
    let (mut third, _fourth) = (ask(&site), ask(&site));
    until(&site, |counts| counts.throttle_queued == queued + 2);
    // Three are there when their time comes.
    third.set_read_timeout(Some(Duration::from_millis(2500))).expect("sets");
    assert!(third.read(&mut [0]).is_err(), "they wait on");
    drop(held);
    site.stop();
}

#[test]
fn one_that_has_waited_for_too_long_is_refused() {
    let site = start("1,,,,,00:00:01", "");
    let held = hold(&site, "");
    let refused = read_reply(&mut ask(&site), false);
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("1")));
    drop(held);
    assert_eq!(site.stop().throttle_refused, 1);
}
