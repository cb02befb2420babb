//! Requests that two readers may take apart differently, through the server to real servers: there are never two
//! opinions about where a request ends. What goes over the wire between them is kept by a relay, read by the standard's
//! strictest grammar, and compared with what the real server says it has seen.

use super::real::{self, Real};
use super::relay::{self, Relay, SEEN};
use super::scripted::{Client, secure_proxy, site};
use super::vectors::{self, Seen, Vector};
use super::versions;
use crate::harness::{Site, connect, read_to_end};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use weir_server::Options;

/// One connection to the upstream at a time, so that what one request leaves behind meets the next.
const SETTINGS: &str = ", connections = 1, retries = false, health = false";

fn quick(options: &mut Options) {
    // Vectors that leave the server waiting for more are many.
    (options.timeouts.body, options.timeouts.head) = (Duration::from_millis(500), Duration::from_millis(500));
    options.timeouts.idle = Duration::from_millis(500);
}

/// The answer of a connection of its own to a plain request: what the vector before it has left, if anything, is in it.
fn hold_nothing_left(site: &Site, number: usize, name: &str) {
    let mut client = Client::new(site.addr);
    client.ask(&format!("GET /after{number}"), "Connection: close\r\n", b"");
    let received = client.rest().0;
    let (replies, rest) = relay::responses(&received, &["GET"]);
    assert!(replies.len() == 1 && rest.is_empty(), "behind {name:?}: {replies:?}");
    assert_eq!(replies[0].field(SEEN), Some(format!("GET /after{number} 0").as_str()), "behind {name:?}");
}

/// Sends one vector, and holds what the client gets.
fn try_one(site: &Site, number: usize, Vector { name, bytes, seen, is_head }: &Vector) {
    let mut stream = connect(site.addr);
    // A server that refuses the first bytes need not read the last ones.
    let _ = stream.write_all(bytes);
    let received = read_to_end(&mut stream);
    let methods = if *is_head { ["HEAD", "GET"] } else { ["GET", "GET"] };
    let (replies, rest) = relay::responses(&received, &methods);
    let context = || format!("{name}: {:?} got {}", String::from_utf8_lossy(bytes), String::from_utf8_lossy(&received));
    assert!(rest.is_empty(), "{}", context());
    let told: Vec<&str> = replies.iter().filter_map(|reply| reply.field(SEEN)).collect();
    // The upstream may refuse what the standard lets pass.
    let refused = replies.iter().position(|reply| reply.status() >= 400);
    let (least, most) = match seen {
        Seen::Nothing => (0, 0),
        Seen::Most(most) => (0, *most),
        Seen::Exactly(count) => (*count, *count),
    };
    let is_enough = told.len() >= least || refused.is_some_and(|at| at < least);
    assert!(is_enough && told.len() <= most, "{}", context());
    assert!(*seen != Seen::Nothing || refused == Some(0) || replies.is_empty(), "{}", context());
    // A request that was hidden is never answered in place of another, and each is answered once.
    let hidden = format!("GET /marked{number} 0");
    let place = replies.iter().position(|reply| reply.field(SEEN) == Some(&hidden));
    assert!(place.is_none_or(|place| place > 0 && place + 1 == replies.len()), "{}", context());
    // The last one may be a refusal of what is behind.
    assert!(replies.len() <= most.max(1) + 1, "{}", context());
}

/// Tries vectors against a real server.
fn hold(server: &str, is_meant: impl Fn(&Vector) -> bool) {
    let Some(Real { addr, .. }) = &real::start(server) else { return };
    let relay = Relay::to(*addr);
    let site = site(&format!("proxy = {{ to = \"http://{}\"{SETTINGS} }}", relay.addr), quick);
    let (mut count, mut failed) = (0, Vec::new());
    for (number, vector) in vectors::all().iter().enumerate().filter(|(_, vector)| is_meant(vector)) {
        let tried = AssertUnwindSafe(|| {
            try_one(&site, number, vector);
            hold_nothing_left(&site, number, &vector.name);
        });
        // All that fail are told together.
        failed.extend(catch_unwind(tried).is_err().then(|| vector.name.clone()));
        count += 1;
    }
    site.stop();
    assert!(failed.is_empty(), "{server}: {failed:#?}");
    let told = relay::hold_one_opinion(&relay.conversations());
    assert_eq!(told.iter().filter(|told| told.starts_with("GET /after")).count(), count, "{server}");
    println!("{server}: {count} vectors, {} requests, one opinion", told.len());
}

/// Requests that are refused at once: none waits for a time to pass.
#[test]
fn nginx_sees_nothing_of_what_is_in_doubt() {
    let chosen = ["CL.TE", "TE.CL", "two lengths", "TE.TE, a vertical tab", "TE.TE, folded", "a length with a plus"];
    let more = ["a bare carriage return in a value", "three requests", "a blank in the target", "two hosts"];
    hold("nginx", |vector| chosen.contains(&vector.name.as_str()) || more.contains(&vector.name.as_str()));
}

#[test]
#[ignore = "make test-upstreams runs it"]
fn there_is_one_opinion_with_nginx() {
    hold("nginx", |_| true);
}

#[test]
#[ignore = "make test-upstreams runs it"]
fn there_is_one_opinion_with_apache() {
    hold("apache", |_| true);
}

#[test]
#[ignore = "make test-upstreams runs it"]
fn there_is_one_opinion_with_gunicorn() {
    hold("gunicorn", |_| true);
}

#[test]
#[ignore = "make test-upstreams runs it"]
fn there_is_one_opinion_with_node() {
    hold("node", |_| true);
}

#[test]
#[ignore = "make test-upstreams runs it"]
fn there_is_one_opinion_with_go() {
    hold("go", |_| true);
}

/// Requests of HTTP/2 and HTTP/3 as they become ones of HTTP/1.1.
fn hold_from(version: &str, server: &str) {
    let Some(Real { addr, .. }) = &real::start(server) else { return };
    let relay = Relay::to(*addr);
    let site = secure_proxy(relay.addr, SETTINGS);
    if !versions::run_case("desync.py", version, &site, &[]) {
        return;
    }
    site.stop();
    let told = relay::hold_one_opinion(&relay.conversations());
    assert!(told.iter().any(|told| told.starts_with("GET /after")), "{server} {version}: {told:?}");
    assert!(!told.iter().any(|told| told.starts_with("GET /marked")), "{server} {version}: {told:?}");
    println!("{version} to {server}: {} requests, one opinion", told.len());
}

#[test]
fn http2_hides_nothing_from_nginx() {
    hold_from("h2", "nginx");
}

#[test]
#[ignore = "make test-upstreams runs it"]
fn http2_hides_nothing_from_others() {
    for server in ["apache", "gunicorn", "node", "go"] {
        hold_from("h2", server);
    }
}

#[test]
#[ignore = "make test-upstreams runs it"]
fn http3_hides_nothing() {
    for server in ["nginx", "apache", "gunicorn", "node", "go"] {
        hold_from("h3", server);
    }
}
