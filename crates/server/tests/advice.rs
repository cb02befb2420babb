//! The server asks the adviser about the paths that its rules govern, obeys it, and reports the end of every response.
// scripts/test: waits

mod harness;

use harness::{Reply, Site, read_reply, wait_until};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use weir_server::{Advice, Adviser, Lease, LeaseClock, Link, Question, Throttle};

/// Says what it was told to say, and remembers what it was asked.
#[derive(Debug, Default)]
struct Told {
    advice: Mutex<Advice>,
    begun: Mutex<Vec<(String, IpAddr, u64, Link)>>,
    ended: Mutex<Vec<(u64, u64, bool)>>,
    waited: Mutex<Vec<(u64, u64)>>,
    tickets: Mutex<Vec<u64>>,
    remembered: Mutex<Vec<(String, u64)>>,
    asked_of: Mutex<HashMap<String, u32>>,
    /// From the second edition on there are rules for all paths but those below `/v/`, from the third on none of them
    /// looks at links.
    edition: AtomicU64,
    /// What it says is leased.
    lends: AtomicBool,
    clock: Arc<LeaseClock>,
    leases: Mutex<Vec<Arc<Lease>>>,
}

impl Told {
    fn say(&self, advice: Advice) {
        *self.advice.lock().expect("no panic") = advice;
    }

    fn choose(&self, variant: &str) {
        self.say(Advice { variant: Some(variant.into()), ticket: TICKET, ..Advice::default() });
    }

    fn ended(&self) -> Vec<(u64, u64, bool)> {
        self.ended.lock().expect("no panic").clone()
    }

    /// How often it was asked, and what was answered by leases: requests, those that are over, and that have failed.
    fn asked_and_leased(&self) -> (usize, [u32; 3]) {
        let counts = self.leases.lock().expect("no panic").iter().map(|lease| lease.counts()).collect::<Vec<_>>();
        let sum = |of: fn(&weir_server::LeaseCounts) -> u32| counts.iter().map(of).sum();
        (self.begun.lock().expect("no panic").len(), [sum(|one| one.begun), sum(|one| one.over), sum(|one| one.failed)])
    }
}

impl Adviser for Told {
    fn governs(&self, path: &str) -> bool {
        *self.asked_of.lock().expect("no panic").entry(path.to_owned()).or_default() += 1;
        path.starts_with("/v/") == (self.edition() == 0)
    }

    fn asks_hints(&self, _path: &str) -> bool {
        self.edition() < 2
    }

    fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    fn begin(&self, question: &Question<'_>) -> Advice {
        let Question { path, client, connection, link, remembered, .. } = *question;
        self.begun.lock().expect("no panic").push((path.to_owned(), client, connection, link));
        self.remembered.lock().expect("no panic").push((path.to_owned(), remembered));
        let lends = question.takes_lease && self.lends.load(Ordering::Acquire);
        let lease = lends.then(|| Arc::new(Lease::new(&self.clock, self.clock.now(), false)));
        self.leases.lock().expect("no panic").extend(lease.clone());
        Advice { remember: remembered + path.len() as u64, lease, ..self.advice.lock().expect("no panic").clone() }
    }

    fn waited(&self, ticket: u64, waited_ns: u64) {
        self.waited.lock().expect("no panic").push((ticket, waited_ns));
    }

    fn during(&self, _connection: u64, _link: Link) -> Option<Arc<str>> {
        None
    }

    fn end(&self, connection: u64, ticket: u64, bytes: u64, failed: bool) {
        self.tickets.lock().expect("no panic").push(ticket);
        self.ended.lock().expect("no panic").push((connection, bytes, failed));
    }
}

/// Of all that is advised but for the default.
const TICKET: u64 = u64::MAX - 1;
const FULL: [u8; 9000] = [b'f'; 9000];
const HALF: [u8; 4000] = [b'h'; 4000];
const SMALL: [u8; 4000] = [b's'; 4000];

fn start(change: impl FnOnce(&mut weir_server::Options)) -> (Site, Arc<Told>) {
    let told = Arc::new(Told::default());
    let adviser: Arc<dyn Adviser> = told.clone();
    let files: [(&str, &[u8]); 6] = [
        ("v/film.mp4", &FULL),
        ("v/film.half.mp4", &HALF),
        ("v/film.small.mp4", &SMALL),
        ("v/page.shtml", b"<!--#echo var=\"DOCUMENT_NAME\" -->"),
        ("v/text.txt", &[b't'; 3000]),
        ("other.mp4", &FULL),
    ];
    let site = Site::start(&files, |options| {
        options.adviser = Some(adviser);
        change(options);
    });
    // One time and one size: nothing but the name tells two of them apart.
    let when = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    for name in ["film.mp4", "film.half.mp4", "film.small.mp4"] {
        let file =
            std::fs::File::options().write(true).open(site.directory.path().join("v").join(name)).expect("opens");
        file.set_modified(when).expect("sets");
    }
    (site, told)
}

#[test]
fn the_paths_that_rules_are_for_are_asked_about_and_no_others() {
    let (site, told) = start(|_| {});
    for _ in 0..3 {
        assert_eq!(site.get("/other.mp4").status, 200);
        assert_eq!(site.get("/v/none.mp4").status, 404);
        assert_eq!(site.get("/v/film.mp4?a=b").body, FULL);
    }
    let begun = told.begun.lock().expect("no panic").clone();
    assert_eq!(begun.len(), 3);
    assert!(begun.iter().all(|(path, client, ..)| path == "/v/film.mp4" && client.is_loopback()));
    assert_ne!(begun[0].2, begun[1].2, "each connection has a number of its own");
    assert!(begun.iter().all(|(.., link)| link.rtt_s.is_some_and(|rtt_s| rtt_s < 1.0)), "{begun:?}");
    assert_eq!(told.asked_of.lock().expect("no panic").get("/other.mp4"), Some(&1), "once for each that is loaded");
    wait_until(|| told.ended().len() == 3);
    assert!(told.ended().iter().all(|(_, bytes, failed)| *bytes > 9000 && !failed), "{:?}", told.ended());
    let reply = site.get("/v/film.mp4");
    assert_eq!(reply.field("accept-ch"), Some("Save-Data, Downlink, RTT, ECT"));
    assert_eq!((reply.field("vary"), reply.field("cache-control")), (None, None), "nothing was chosen");
    assert_eq!(site.get("/other.mp4").field("accept-ch"), None);
    assert_eq!(site.counters.read().advised, 4);
}

#[test]
fn other_rules_hold_for_what_is_in_memory_too() {
    let (site, told) = start(|_| {});
    let ask = || ["/other.mp4", "/v/film.mp4"].map(|path| site.get(path).field("accept-ch").is_some());
    assert_eq!((ask(), ask()), ([false, true], [false, true]));
    told.edition.store(1, Ordering::Release);
    wait_until(|| ask() == [true, false]);
    let begun = told.begun.lock().expect("no panic").len();
    assert_eq!(ask(), [true, false]);
    let begun = told.begun.lock().expect("no panic")[begun..].to_vec();
    assert!(matches!(&begun[..], [(path, ..)] if path == "/other.mp4"), "{begun:?}");
    let asked = told.asked_of.lock().expect("no panic").clone();
    assert!(asked.values().all(|times| *times <= 3), "once more for each edition, and as it is loaded: {asked:?}");
    // Where no rule looks at links, no client is asked for hints on its link.
    told.edition.store(2, Ordering::Release);
    wait_until(|| ask() == [false, false]);
    let advised = site.counters.read().advised;
    ask();
    assert_eq!(site.counters.read().advised, advised + 1, "the rules are there still");
}

#[test]
fn the_end_is_told_with_what_was_advised() {
    let (site, told) = start(|_| {});
    told.choose("small");
    assert_eq!(site.get("/v/film.mp4").body, SMALL);
    wait_until(|| told.ended().len() == 1);
    assert_eq!(*told.tickets.lock().expect("no panic"), [TICKET]);
}

#[test]
fn what_is_to_be_remembered_of_a_path_comes_with_the_next_question_about_it() {
    let (site, told) = start(|_| {});
    for path in ["/v/film.mp4", "/v/text.txt", "/v/film.mp4", "/v/film.mp4"] {
        assert_eq!(site.get(path).status, 200);
    }
    let (film, text) = ("/v/film.mp4".to_owned(), "/v/text.txt".to_owned());
    let came = [(film.clone(), 0), (text, 0), (film.clone(), 11), (film, 22)];
    assert_eq!(*told.remembered.lock().expect("no panic"), came);
}

#[test]
fn a_refusal_says_when_to_come_again_and_the_connection_stays() {
    let (site, told) = start(|_| {});
    told.say(Advice { refuse_retry_after_s: Some(7), ..Advice::default() });
    let mut stream = site.connect();
    for path in ["/v/film.mp4", "/v/page.shtml", "/v/film.mp4"] {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).expect("sends");
        let reply = read_reply(&mut stream, false);
        assert_eq!((reply.status, reply.field("retry-after")), (503, Some("7")));
        assert_eq!(reply.field("cache-control"), Some("no-store"));
    }
    told.say(Advice::default());
    stream.write_all(b"GET /v/film.mp4 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    assert_eq!(read_reply(&mut stream, false).body, FULL);
    wait_until(|| told.ended().len() == 4);
    let connection = told.begun.lock().expect("no panic")[0].2;
    assert!(told.ended().iter().all(|(of, ..)| *of == connection));
    assert_eq!(site.counters.read().advice_refused, 3);
}

#[test]
fn a_response_that_is_cut_off_ends_too_and_has_failed() {
    let (site, told) = start(|_| {});
    site.write("v/large.bin", &vec![1; 64 << 20]);
    let mut stream = site.connect();
    stream.write_all(b"GET /v/large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    stream.read_exact(&mut [0; 100_000]).expect("receives");
    drop(stream);
    wait_until(|| told.ended().len() == 1);
    let (_, bytes, failed) = told.ended()[0];
    assert!(failed && (100_000..64 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn what_is_leased_is_answered_without_asking_until_the_lease_ends() {
    let (site, told) = start(|_| {});
    told.choose("full");
    told.lends.store(true, Ordering::Release);
    let mut stream = site.connect();
    let mut get = |path: &str, fields: &str| {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).expect("sends");
        read_reply(&mut stream, false)
    };
    let first = get("/v/film.mp4", "");
    // After a look at the connection it is asked again, as it may be on a machine that is busy.
    let used = || told.asked_and_leased().1[0];
    for _ in 0..100 {
        let reply = get("/v/film.mp4", "");
        assert_eq!((reply.status, reply.body == FULL), (200, true));
        for field in ["etag", "cache-control", "vary", "last-modified", "accept-ch"] {
            assert_eq!(reply.field(field), first.field(field));
        }
    }
    assert_eq!(first.field("cache-control"), Some("private"));
    wait_until(|| told.asked_and_leased().1[1] == used());
    let (asked, leased) = told.asked_and_leased();
    assert_eq!((asked as u32 + leased[0], leased[2]), (101, 0));
    assert!(leased[0] > 10, "{asked} asked, {leased:?} leased");
    assert_eq!(site.counters.read().advised, 101);
    // A request that differs from the leased one is asked about.
    let mut is_asked = |path: &str, fields: &str| {
        let before = told.asked_and_leased();
        let status = get(path, fields).status;
        let after = told.asked_and_leased();
        assert_eq!(after.0 as u32 + after.1[0], before.0 as u32 + before.1[0] + 1, "{path} {fields}");
        (status, after.0 > before.0)
    };
    let tag = format!("If-None-Match: {}\r\n", first.field("etag").expect("a tag"));
    assert_eq!(is_asked("/v/film.mp4", &tag), (304, true));
    assert_eq!(is_asked("/v/film.mp4", "Range: bytes=1-2\r\n"), (200, true));
    assert_eq!(is_asked("/v/film.mp4", "Downlink: 9\r\n"), (200, true));
    assert_eq!(is_asked("/v/text.txt", ""), (200, true));
    assert_eq!(is_asked("/v/page.shtml", ""), (200, true));
    assert_eq!(is_asked("/v/page.shtml", ""), (200, true), "what is assembled is asked about each time");
    for _ in 0..3 {
        is_asked("/v/film.mp4", "");
        told.clock.move_on();
        assert_eq!(is_asked("/v/film.mp4", ""), (200, true), "it has ended");
    }
    site.write("v/film.mp4", b"another one");
    wait_until(|| site.get("/v/film.mp4").body == b"another one");
    assert_eq!(is_asked("/v/film.mp4", ""), (200, true));
    assert_eq!(site.get("/v/film.mp4").body, b"another one");
    // Other connections have their own.
    let before = told.asked_and_leased().0;
    (0..3).for_each(|_| assert_eq!(site.get("/v/text.txt").status, 200));
    assert_eq!(told.asked_and_leased().0, before + 3);
    assert!(told.waited.lock().expect("no panic").iter().all(|(ticket, _)| *ticket == TICKET));
}

#[test]
fn a_leased_response_that_is_cut_off_has_failed_and_one_that_takes_long_is_looked_at() {
    let (site, told) = start(|_| {});
    site.write("v/large.bin", &vec![1; 64 << 20]);
    told.choose("full");
    told.lends.store(true, Ordering::Release);
    for connections in 1.. {
        let mut stream = site.connect();
        stream.write_all(b"HEAD /v/large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        read_reply(&mut stream, true);
        stream.write_all(b"GET /v/large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        stream.read_exact(&mut [0; 100_000]).expect("receives");
        let looks = site.counters.read().link_looks;
        std::thread::sleep(std::time::Duration::from_millis(150));
        stream.read_exact(&mut vec![0; 16 << 20]).expect("receives");
        wait_until(|| site.counters.read().link_looks > looks);
        drop(stream);
        wait_until(|| told.ended().len() + told.asked_and_leased().1[1] as usize == 2 * connections);
        // Before the lease was used another look may have been due, on a machine that is busy.
        if told.asked_and_leased().1[0] > 0 {
            break;
        }
        assert!(connections < 100, "no lease is used");
    }
    let (_, leased) = told.asked_and_leased();
    assert_eq!(leased, [1, 1, 1]);
}

#[test]
fn a_lease_is_for_the_file_in_the_form_that_is_asked_for_and_until_another_look_is_due() {
    let (site, told) = start(|_| {});
    told.choose("full");
    told.lends.store(true, Ordering::Release);
    let mut stream = site.connect();
    let mut get = |fields: &str| {
        let before = told.asked_and_leased();
        stream.write_all(format!("GET /v/text.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).expect("sends");
        let reply = read_reply(&mut stream, false);
        let after = told.asked_and_leased();
        (reply, after.1[0] > before.1[0], after.0 > before.0)
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let packed = "Accept-Encoding: gzip\r\n";
    // The form is made beside the loop, and comes a while after it was asked for first.
    while get(packed).0.field("content-encoding").is_none() {
        assert!(std::time::Instant::now() < deadline, "no form was made");
    }
    let (mut leased, mut was_asked_again) = ([0, 0], false);
    while leased.iter().any(|count| *count < 20) || !was_asked_again {
        assert!(std::time::Instant::now() < deadline, "{leased:?} leased, asked again: {was_asked_again}");
        for (which, (fields, coding)) in [(packed, Some("gzip")), ("", None)].into_iter().enumerate() {
            let (reply, is_leased, is_asked) = get(fields);
            assert_eq!((reply.status, reply.field("content-encoding")), (200, coding), "leased: {is_leased}");
            let varies = |(name, value): &(String, String)| name == "vary" && value.contains("Accept-Encoding");
            assert!(reply.fields.iter().any(varies), "{:?}", reply.fields);
            assert_eq!(reply.field("cache-control"), Some("private"));
            leased[which] += usize::from(is_leased);
            // The clock of leases stands still: it is the connection that is looked at again.
            was_asked_again |= is_asked && leased[which] > 0;
        }
    }
}

#[test]
fn a_variant_stands_for_the_file_under_a_tag_of_its_own() {
    let (site, told) = start(|_| {});
    let mut tags = Vec::new();
    for (variant, body) in [("small", &SMALL[..]), ("half", &HALF), ("full", &FULL)] {
        told.choose(variant);
        let reply = site.get("/v/film.mp4");
        assert_eq!((reply.status, reply.body == body), (200, true), "{variant}");
        assert_eq!(reply.field("cache-control"), Some("private"));
        assert_eq!(reply.field("vary"), Some("Save-Data, Downlink, RTT, ECT"));
        assert_eq!(reply.field("last-modified"), None, "a date does not tell variants apart");
        tags.push(reply.field("etag").expect("a tag").to_owned());
        assert_eq!(site.ask("HEAD", "/v/film.mp4", "").field("content-length"), Some(&*body.len().to_string()));
    }
    assert!(tags.iter().all(|tag| tag.starts_with('"')) && tags[0] != tags[1] && tags[1] != tags[2], "{tags:?}");
    assert_eq!(site.get("/v/film.small.mp4").body, SMALL, "by its own name it is there, too");
    told.choose("tiny small");
    assert_eq!(site.get("/v/film.mp4").body, SMALL, "the next better one");
    told.choose("tiny");
    assert_eq!(site.get("/v/film.mp4").body, FULL);
    let counts = site.counters.read();
    assert_eq!(counts.variants_missing, 2);
    told.choose("../film.half");
    assert_eq!(site.get("/v/film.mp4").body, FULL, "that is no name");
    told.choose("small");
    let text = site.ask("GET", "/v/text.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!((text.status, text.field("cache-control")), (200, Some("private")));
}

#[test]
fn clients_are_asked_for_hints_only_where_a_rule_looks_at_links() {
    let (site, told) = start(|_| {});
    // There are rules for the other one then, and none of them reads a link.
    told.edition.store(2, Ordering::Release);
    for variant in ["full", "small"] {
        told.choose(variant);
        wait_until(|| site.get("/other.mp4").field("cache-control") == Some("private"));
        let reply = site.get("/other.mp4");
        assert_eq!((reply.field("vary"), reply.field("accept-ch")), (None, None), "{variant}");
    }
}

#[test]
fn a_page_that_is_assembled_has_variants_too() {
    let (site, told) = start(|_| {});
    site.write("v/page.static.shtml", b"made before");
    site.write("v/page.short.shtml", b"<!--#echo var=\"DOCUMENT_NAME\" --> in short");
    let page = |variant: &'static str| {
        told.choose(variant);
        let reply = site.get("/v/page.shtml");
        let private = (reply.field("cache-control"), reply.field("vary"));
        assert_eq!(private, (Some("private"), Some("Save-Data, Downlink, RTT, ECT")), "{variant}");
        String::from_utf8(reply.body).expect("text")
    };
    assert_eq!(page("full"), "page.shtml");
    assert_eq!(page("static full"), "made before");
    assert_eq!(page("short full"), "page.short.shtml in short", "it is assembled, too");
    let before = site.counters.read();
    assert_eq!((before.variants_served, before.variants_missing), (2, 0));
    assert_eq!(page("tiny static full"), "made before", "the next better one");
    assert_eq!(page("tiny full"), "page.shtml");
    let counts = site.counters.read();
    assert_eq!((counts.variants_served, counts.variants_missing), (3, 2));
    assert_eq!(site.get("/v/page.static.shtml").status, 200, "it is a page of its own, too");
}

#[test]
fn a_variant_that_is_not_there_is_looked_for_once_and_found_when_it_comes() {
    let (site, told) = start(|_| {});
    told.choose("tiny");
    for _ in 0..2 {
        assert_eq!(site.get("/v/film.mp4").body, FULL);
    }
    let looks = site.counters.read().cache_misses;
    for _ in 0..20 {
        assert_eq!(site.get("/v/film.mp4").body, FULL);
    }
    assert_eq!(site.counters.read().cache_misses, looks);
    site.write("v/film.tiny.mp4", b"tiny");
    wait_until(|| site.get("/v/film.mp4").body == b"tiny");
    std::fs::remove_file(site.directory.path().join("v/film.tiny.mp4")).expect("the file");
    wait_until(|| site.get("/v/film.mp4").body == FULL);
}

/// A range continues the variant whose tag the client has, or the client gets a whole one, even if the adviser has
/// chosen another variant since.
#[test]
fn ranges_of_two_variants_are_never_mixed() {
    let (site, told) = start(|_| {});
    let mut tags = HashMap::new();
    for variant in ["small", "half", "full"] {
        told.choose(variant);
        tags.insert(variant, site.get("/v/film.mp4").field("etag").expect("a tag").to_owned());
    }
    let ask = |fields: &str| -> Reply { site.ask("GET", "/v/film.mp4", fields) };
    for (had, byte) in [("small", b's'), ("half", b'h'), ("full", b'f')] {
        for now in ["small", "half", "full"] {
            told.choose(now);
            let reply = ask(&format!("Range: bytes=1000-\r\nIf-Range: {}\r\n", tags[had]));
            assert_eq!(reply.status, 206, "{had} {now}");
            assert!(reply.body.iter().all(|own| *own == byte) && reply.field("etag") == Some(&tags[had]));
            let reply = ask("Range: bytes=1000-1999\r\n");
            assert_eq!(reply.status, 200, "without a tag it is the whole");
            let reply = ask("Range: bytes=1000-1999\r\nIf-Range: Sun, 06 Nov 2039 08:49:37 GMT\r\n");
            assert_eq!(reply.status, 200);
            let status = ask(&format!("If-None-Match: {}\r\n", tags[had])).status;
            assert_eq!(status, if had == now { 304 } else { 200 }, "{had} {now}");
        }
    }
    // A changed file has another tag, so that its ranges are not of what the client has.
    site.write("v/film.small.mp4", &[b'S'; 4000]);
    told.choose("half");
    wait_until(|| {
        let reply = ask(&format!("Range: bytes=1000-\r\nIf-Range: {}\r\n", tags["small"]));
        assert!(reply.status == 200 || reply.body.iter().all(|byte| *byte == b's'), "mixed");
        reply.status == 200
    });
}

#[test]
fn a_tag_that_a_client_made_up_opens_nothing() {
    let (site, told) = start(|_| {});
    site.write("v/film.internal.mp4", b"internal");
    told.choose("small");
    for tag in ["\"x~internal\"", "\"~internal\"", "\"x~half\"", "\"x\""] {
        for fields in [format!("If-Range: {tag}\r\n"), format!("If-Range: {tag}\r\nRange: bytes=1-\r\n")] {
            let reply = site.ask("GET", "/v/film.mp4", &fields);
            assert_eq!((reply.status, reply.body == SMALL), (200, true), "{fields}");
        }
        let reply = site.ask("GET", "/v/film.mp4", &format!("If-Match: {tag}\r\n"));
        assert_eq!(reply.status, 412, "{tag}");
    }
    told.choose("half");
    let half = site.get("/v/film.mp4").field("etag").expect("a tag").to_owned();
    told.choose("small");
    for list in [half.clone(), format!("\"x~small\", {half}"), format!("{half}, \"x\"")] {
        let reply = site.ask("GET", "/v/film.mp4", &format!("If-Match: {list}\r\n"));
        assert_eq!((reply.status, reply.body == HALF), (200, true), "{list}");
    }
}

#[test]
fn a_configuration_cannot_have_others_keep_what_was_chosen() {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(folder.path().join("site/v")).expect("creates");
    std::fs::write(folder.path().join("site/v/a.mp4"), FULL).expect("writes");
    std::fs::write(folder.path().join("site/v/a.small.mp4"), SMALL).expect("writes");
    for (configured, expected) in [
        ("public, max-age=86400, s-maxage=9", "private, max-age=86400"),
        ("max-age=0, no-store", "max-age=0, no-store"),
        ("private", "private"),
    ] {
        let file = folder.path().join("weir.toml");
        let text = format!(
            "[[host]]\nroot = \"site\"\nset_headers = {{ Cache-Control = \"{configured}\", Vary = \"Cookie\" }}\n"
        );
        std::fs::write(&file, text).expect("writes");
        let mut options = weir_server::read_configuration(&file).expect("a configuration");
        let told = Arc::new(Told::default());
        let adviser: Arc<dyn Adviser> = told.clone();
        options.adviser = Some(adviser);
        let site = Site::start(&[], |to| *to = weir_server::Options { listen: to.listen.clone(), loops: 1, ..options });
        let plain = site.get("/v/a.mp4");
        assert_eq!(plain.field("cache-control"), Some(configured), "nothing was chosen");
        told.choose("small");
        let reply = site.get("/v/a.mp4");
        assert_eq!((&reply.body[..], reply.field("cache-control")), (&SMALL[..], Some(expected)));
        assert_eq!(reply.field("vary"), Some("Cookie, Save-Data, Downlink, RTT, ECT"));
    }
}

#[test]
fn hints_stand_in_for_what_was_not_measured() {
    let (site, told) = start(|_| {});
    let bps = |fields: &str| {
        site.ask("GET", "/v/text.txt", fields);
        told.begun.lock().expect("no panic").last().and_then(|(.., link)| link.bandwidth_bps)
    };
    assert_eq!(bps(""), None);
    assert_eq!(bps("Downlink: 0.4\r\n"), Some(400_000.0));
    assert_eq!(bps("Save-Data: on\r\n"), Some(50_000.0));
}

#[test]
fn what_a_request_waited_for_by_itself_is_told_and_of_what_waited_for_nothing_nothing() {
    let (site, told) = start(|options| {
        options.loops = 1;
        options.throttles = vec![Throttle::new("/v/large*", 1, 10, 60_000).expect("small enough")];
    });
    site.write("v/large.mp4", &vec![1; 64 << 20]);
    site.write("v/large.txt", b"small");
    told.say(Advice { ticket: TICKET, ..Advice::default() });
    let taken = || std::mem::take(&mut *told.waited.lock().expect("no panic"));
    assert_eq!(site.get("/other.mp4").status, 200);
    assert_eq!(taken(), [], "no rule is for it");
    // Its file is found and read once; what is looked at for others is none of its wait.
    assert_eq!(site.get("/v/film.mp4").status, 200);
    let first = taken();
    assert!(matches!(first[..], [(TICKET, 1..1_000_000_000)]), "{first:?}");
    assert_eq!(site.get("/other.mp4?again").status, 200);
    assert_eq!(site.get("/v/none.mp4").status, 404);
    assert_eq!(site.get("/v/film.mp4").status, 200);
    assert_eq!(taken(), []);
    // A variant is a file, too.
    told.choose("small full");
    assert_eq!(site.get("/v/film.mp4").body, SMALL);
    assert_eq!(taken().len(), 1);
    assert_eq!(site.get("/v/film.mp4").body, SMALL);
    assert_eq!(taken(), []);
    told.say(Advice { ticket: TICKET, ..Advice::default() });
    // Another request is under way until its client goes.
    assert_eq!(site.get("/v/large.txt").status, 200);
    taken();
    let mut held = site.connect();
    held.write_all(b"GET /v/large.mp4 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    held.read_exact(&mut [0; 1000]).expect("it is answered");
    let began = std::time::Instant::now();
    let mut waiting = site.connect();
    waiting.write_all(b"GET /v/large.txt HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
    wait_until(|| site.counters.read().throttle_queued == 1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    taken();
    drop(held);
    assert_eq!(read_reply(&mut waiting, false).text(), "small");
    let (took_ns, waited) = (began.elapsed().as_nanos() as u64, taken());
    assert!(matches!(waited[..], [(TICKET, 250_000_000..)]) && waited[0].1 < took_ns + 20_000_000, "{waited:?}");
}
