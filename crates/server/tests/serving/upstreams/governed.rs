//! Rules for paths that upstreams answer: a share is refused before the upstream is asked, stored answers may be stale, a
//! variant is chosen, and the end of each response is told.

use super::queues::{ask, told as releasing};
use super::scripted::{SOON, Seen, site, tcp};
use crate::harness::{Site, wait_until};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_server::{Advice, Adviser, Link, Question};

/// Governs what is below `/v/`, says what it was told to say, and remembers what it hears.
#[derive(Debug, Default)]
struct Told {
    advice: Mutex<Advice>,
    asked: Mutex<Vec<(String, u64)>>,
    waited: Mutex<Vec<(u64, u64)>>,
    ended: Mutex<Vec<(u64, bool)>>,
}

const TICKET: u64 = u64::MAX - 1;

impl Told {
    fn say(&self, advice: Advice) {
        *self.advice.lock().expect("no panic") = Advice { ticket: TICKET, remember: 7, ..advice };
    }

    fn asked(&self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.asked.lock().expect("no panic"))
    }

    fn ended(&self) -> Vec<(u64, bool)> {
        std::mem::take(&mut self.ended.lock().expect("no panic"))
    }
}

impl Adviser for Told {
    fn governs(&self, path: &str) -> bool {
        path.starts_with("/v/")
    }

    fn begin(&self, question: &Question<'_>) -> Advice {
        self.asked.lock().expect("no panic").push((question.path.to_owned(), question.remembered));
        self.advice.lock().expect("no panic").clone()
    }

    fn waited(&self, ticket: u64, waited_ns: u64) {
        self.waited.lock().expect("no panic").push((ticket, waited_ns));
    }

    fn during(&self, _connection: u64, _link: Link) -> Option<Arc<str>> {
        None
    }

    fn end(&self, _connection: u64, ticket: u64, _bytes: u64, failed: bool) {
        self.ended.lock().expect("no panic").push((ticket, failed));
    }
}

fn start(host: &str) -> (Site, Arc<Told>) {
    let told = Arc::new(Told::default());
    let adviser: Arc<dyn Adviser> = told.clone();
    (site(host, |options| options.adviser = Some(adviser)), told)
}

/// An upstream that tells the variant and the number of the request; what is `/v/bad` it fails.
fn telling() -> (SocketAddr, Seen) {
    tcp(|number, mut peer| {
        let mut count = 0;
        while let Some(asked) = peer.request() {
            count += 1;
            if asked.target() == "/v/bad" {
                peer.say(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            let text = format!("{number} {count} {}", asked.field("weir-variant").unwrap_or("none"));
            let strict = if asked.target() == "/v/strict" { ", must-revalidate" } else { "" };
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=1{strict}\r\nVary: Weir-Variant\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            if !peer.say(format!("{head}{text}").as_bytes()) {
                return;
            }
        }
    })
}

#[test]
fn a_share_is_refused_before_the_upstream_is_asked() {
    let (addr, seen) = telling();
    let (site, told) = start(&format!("proxy = \"http://{addr}\""));
    told.say(Advice { refuse_retry_after_s: Some(7), ..Advice::default() });
    let refused = site.get("/v/page?x");
    assert_eq!((refused.status, refused.field("retry-after"), seen.accepted()), (503, Some("7"), 0));
    assert_eq!(site.get("/other").status, 200, "no rule is for it");
    told.say(Advice::default());
    assert_eq!((site.get("/v/page").status, site.get("/v/bad").status), (200, 500));
    wait_until(|| told.ended.lock().expect("no panic").len() == 3);
    let asked = told.asked();
    assert_eq!(asked, [("/v/page", 0), ("/v/page", 7), ("/v/bad", 0)].map(|(path, known)| (path.to_owned(), known)));
    assert_eq!(
        told.ended().into_iter().map(|(ticket, failed)| (ticket == TICKET, failed)).collect::<Vec<_>>()[1..],
        [(true, false), (true, true)]
    );
    let counts = site.stop();
    assert_eq!((counts.advised, counts.advice_refused), (3, 1));
}

#[test]
fn the_wait_for_a_place_is_told_to_the_rules() {
    let (addr, _, asked, release) = releasing();
    let (site, told) = start(&format!("proxy = {{ to = \"http://{addr}\", connections = 1, queue_wait = false }}"));
    told.say(Advice::default());
    let mut clients = [ask(&site, site.addr, "/v/first"), ask(&site, site.addr, "/v/second")];
    assert_eq!(asked.recv_timeout(SOON).as_deref(), Ok("/v/first"));
    std::thread::sleep(Duration::from_millis(60));
    for client in &mut clients {
        release.send(()).expect("it waits");
        assert_eq!(client.reply().status, 200);
    }
    let waited = told.waited.lock().expect("no panic").clone();
    assert!(matches!(*waited, [(TICKET, 50_000_000..)]), "{waited:?}");
    site.stop();
}

#[test]
fn a_stored_answer_is_given_as_long_as_rules_allow_it_to_be_stale() {
    let (addr, _) = telling();
    let (site, told) = start(&format!("proxy = \"http://{addr}\"\ncache = true"));
    told.say(Advice::default());
    let first = site.get("/v/page").text();
    let strict = site.get("/v/strict").text();
    assert_eq!(site.get("/v/page").text(), first, "it is fresh");
    std::thread::sleep(Duration::from_millis(2100));
    told.say(Advice { stale_ms_max: Some(60_000), ..Advice::default() });
    let stale = site.get("/v/page");
    assert_eq!(stale.text(), first);
    assert!(stale.field("age").is_some_and(|age| age.parse::<u32>().is_ok_and(|age| age >= 2)), "{stale:?}");
    assert_ne!(site.get("/v/strict").text(), strict, "what the upstream prohibits no rule allows");
    told.say(Advice::default());
    assert_ne!(site.get("/v/page").text(), first, "the rule is over");
    site.stop();
}

#[test]
fn the_upstream_is_told_which_variant_was_chosen() {
    let (addr, _) = telling();
    for cache in ["", "\ncache = true"] {
        let (site, told) = start(&format!("proxy = \"http://{addr}\"{cache}"));
        let variant = || {
            let reply = site.exchange(b"GET /v/page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            String::from_utf8_lossy(&reply).rsplit(' ').next().map(str::to_owned).unwrap_or_default()
        };
        told.say(Advice::default());
        assert_eq!(variant(), "none");
        told.say(Advice { variant: Some("half full".into()), ..Advice::default() });
        assert_eq!((variant(), variant()), ("half".to_owned(), "half".to_owned()));
        told.say(Advice { variant: Some("full".into()), ..Advice::default() });
        assert_eq!(variant(), "none", "the best one is what the upstream gives by itself");
        let own = b"GET /v/page HTTP/1.1\r\nHost: a\r\nWeir-Variant: small\r\nConnection: close\r\n\r\n";
        told.say(Advice { variant: Some("half full".into()), ..Advice::default() });
        assert!(String::from_utf8_lossy(&site.exchange(own)).ends_with(" half"), "rules choose, not clients");
        site.stop();
    }
}
