//! Which of several servers is asked, and what a server that fails does to the next requests.

use super::scripted::{Client, SOON, Seen, site, tcp};
use crate::harness::{Site, wait_until};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A server that answers with its name, or with 503 while the switch is on.
fn named(name: &'static str) -> (SocketAddr, Seen, Arc<AtomicBool>) {
    let (is_ill, seen_ill) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let ill = Arc::clone(&is_ill);
    drop(seen_ill);
    let (addr, seen) = tcp(move |_, mut peer| {
        while peer.request().is_some() {
            let said = if ill.load(Ordering::SeqCst) {
                peer.say(b"HTTP/1.1 503 Ill\r\nContent-Length: 3\r\n\r\nill")
            } else {
                peer.answer(name)
            };
            if !said {
                return;
            }
        }
    });
    (addr, seen, is_ill)
}

fn balanced(servers: &[SocketAddr], settings: &str) -> Site {
    let to: Vec<String> = servers.iter().map(|addr| format!("\"http://{addr}\"")).collect();
    site(&format!("proxy = {{ to = [{}]{settings} }}", to.join(", ")), |_| {})
}

/// How often each server has answered so many requests.
fn tally(site: &Site, requests: usize, fields: &str) -> BTreeMap<String, usize> {
    let mut client = Client::new(site.addr);
    let mut tally = BTreeMap::new();
    for _ in 0..requests {
        client.ask("GET /", fields, b"");
        *tally.entry(String::from_utf8_lossy(&client.reply().body).into_owned()).or_default() += 1;
    }
    tally
}

#[test]
fn servers_are_asked_in_turn_by_their_weights() {
    let ((a, ..), (b, ..)) = (named("a"), named("b"));
    let to = format!("{{ to = \"http://{a}\", weight = 3 }}, \"http://{b}\"");
    let site = site(&format!("proxy = {{ to = [{to}], balance = \"round robin\" }}"), |_| {});
    assert_eq!(tally(&site, 40, ""), BTreeMap::from([("a".to_owned(), 30), ("b".to_owned(), 10)]));
}

#[test]
fn the_same_value_leads_to_the_same_server_and_a_cookie_keeps_a_client_there() {
    let ((a, ..), (b, ..), (c, ..)) = (named("a"), named("b"), named("c"));
    let hashed = balanced(&[a, b, c], ", balance = \"hash of header X-User\"");
    let mut all = BTreeMap::new();
    for user in 0..30 {
        let of_user = tally(&hashed, 3, &format!("X-User: {user}\r\n"));
        assert_eq!(of_user.len(), 1, "{of_user:?}");
        all.extend(of_user);
    }
    assert_eq!(all.len(), 3, "thirty users are not all of one server");
    let sticky = balanced(&[a, b, c], ", balance = \"sticky place\"");
    for _ in 0..6 {
        let mut client = Client::new(sticky.addr);
        let first = client.get("/");
        let cookie = first.field("set-cookie").expect("a cookie").split(';').next().expect("a pair").to_owned();
        assert!(cookie.starts_with("place=") && !cookie.contains("127.0.0.1"), "{cookie}");
        for _ in 0..5 {
            client.ask("GET /", &format!("Cookie: x=y; {cookie}\r\n"), b"");
            let again = client.reply();
            assert_eq!((&again.body, again.field("set-cookie")), (&first.body, None));
        }
    }
}

#[test]
fn a_server_that_fails_is_left_out_and_comes_back() {
    let ((a, _, _), (b, seen_b, is_ill)) = (named("a"), named("b"));
    let health = "health = { failures = 2, out = \"300 ms\" }, balance = \"round robin\"";
    let site = balanced(&[a, b], &format!(", {health}, retries = {{ again = 0 }}"));
    is_ill.store(true, Ordering::SeqCst);
    let during = tally(&site, 40, "");
    assert!(during["ill"] <= 4 && during["a"] >= 36, "{during:?}");
    is_ill.store(false, Ordering::SeqCst);
    let begin = Instant::now();
    wait_until(|| tally(&site, 4, "").contains_key("b") || begin.elapsed() > SOON);
    assert!(tally(&site, 20, "")["b"] >= 8 && seen_b.accepted() >= 1);
}

#[test]
fn an_answer_that_says_unable_has_another_server_asked_if_the_rules_say_so() {
    let ((a, ..), (b, seen_b, is_ill)) = (named("a"), named("b"));
    is_ill.store(true, Ordering::SeqCst);
    let settings = ", balance = \"round robin\", health = false, retries = { statuses = [503], percent = 100 }";
    let site = balanced(&[a, b], settings);
    assert_eq!(tally(&site, 20, ""), BTreeMap::from([("a".to_owned(), 20)]));
    assert!(seen_b.accepted() >= 1, "it was asked");
    let mut client = Client::new(site.addr);
    let statuses: Vec<u16> = (0..4)
        .map(|_| {
            client.ask("POST /", "Content-Length: 2\r\n", b"ab");
            client.reply().status
        })
        .collect();
    assert!(statuses.contains(&503), "what may have been carried out is not sent twice: {statuses:?}");
}

#[test]
fn probes_find_a_server_that_is_ill_before_clients_do() {
    let ((a, ..), (b, seen_b, is_ill)) = (named("a"), named("b"));
    is_ill.store(true, Ordering::SeqCst);
    let probe = "health = { path = \"/alive\", every = \"100 ms\", fall = 1, rise = 1, status = \"200-299\", failures = 0, percent = 0 }";
    let site = balanced(&[a, b], &format!(", balance = \"round robin\", {probe}"));
    wait_until(|| seen_b.ended() >= 2);
    assert_eq!(tally(&site, 10, ""), BTreeMap::from([("a".to_owned(), 10)]));
    is_ill.store(false, Ordering::SeqCst);
    wait_until(|| tally(&site, 4, "").contains_key("b"));
}
