//! While a rule allows stale answers, the server sends what is in memory, up to the allowed age and with `Age`; then it
//! sends what the files hold.

use crate::harness;

use harness::{Reply, Site, wait_until};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_server::{Advice, Adviser, Link, Names, Options, Question, parse_configuration};

/// Governs everything below `/v/`.
#[derive(Debug, Default)]
struct Told {
    /// 0 = nothing may be stale.
    stale_ms_max: AtomicU64,
    variant: Mutex<Option<Names>>,
}

impl Told {
    fn allow(&self, ms_max: u64) {
        self.stale_ms_max.store(ms_max, Ordering::Release);
    }
}

impl Adviser for Told {
    fn governs(&self, path: &str) -> bool {
        path.starts_with("/v/")
    }

    fn may_be_stale(&self) -> bool {
        self.stale_ms_max.load(Ordering::Acquire) > 0
    }

    fn begin(&self, _question: &Question<'_>) -> Advice {
        let stale_ms_max = Some(self.stale_ms_max.load(Ordering::Acquire)).filter(|ms_max| *ms_max > 0);
        Advice { stale_ms_max, variant: self.variant.lock().expect("no panic").clone(), ..Advice::default() }
    }

    fn during(&self, _connection: u64, _link: Link) -> Option<Arc<str>> {
        None
    }

    fn end(&self, _connection: u64, _ticket: u64, _bytes: u64, _failed: bool) {}
}

fn start(files: &[(&str, &[u8])], change: impl FnOnce(&mut Options)) -> (Site, Arc<Told>) {
    let told = Arc::new(Told::default());
    let adviser: Arc<dyn Adviser> = told.clone();
    let site = Site::start(files, |options| {
        change(options);
        options.adviser = Some(adviser);
        options.loops = 1;
    });
    // So that another content of the same size has another time.
    std::thread::sleep(Duration::from_millis(100));
    (site, told)
}

/// What a reply says of its age and of keeping it.
fn age(reply: &Reply) -> (Option<u64>, Option<&str>) {
    (reply.field("age").map(|age| age.parse().expect("seconds")), reply.field("cache-control"))
}

const STALE: Option<&str> = Some("no-cache");
/// How old content may be, in tests of the end of that time: what comes before the end has its place on a busy machine.
const ALLOWED_MS: u64 = 4000;

#[test]
fn what_has_changed_is_sent_as_it_was_while_it_may_be() {
    // With watches the kernel tells of the change; without, files are looked at once a second.
    for watches_max in [1000, 0] {
        let (site, told) = start(&[("v/text.txt", &[b't'; 3000])], |options| options.watches_max = watches_max);
        told.allow(60_000);
        let before = site.get("/v/text.txt");
        assert_eq!(age(&before), (None, None), "it is known to be the present one");
        let etag = before.field("etag").expect("a tag").to_owned();
        let read = site.counters.read().cache_fills;
        site.write("v/text.txt", &[b'n'; 3000]);
        std::thread::sleep(Duration::from_millis(1200));
        for _ in 0..10 {
            let reply = site.get("/v/text.txt");
            assert_eq!((reply.body[0], reply.field("etag")), (b't', Some(&*etag)), "{watches_max}");
            let (age_s, keeping) = age(&reply);
            assert!(age_s.is_some_and(|age_s| (1..20).contains(&age_s)) && keeping == STALE, "{age_s:?} {keeping:?}");
            assert_eq!(reply.field("warning"), None);
        }
        // A client that has it gets 304; ranges are of the stale content, too.
        let same = site.ask("GET", "/v/text.txt", &format!("If-None-Match: {etag}\r\n"));
        assert_eq!((same.status, age(&same).1), (304, STALE));
        let part = site.ask("GET", "/v/text.txt", "Range: bytes=0-9\r\n");
        assert_eq!((part.status, &part.body[..], age(&part).1), (206, &[b't'; 10][..], STALE));
        let counts = site.counters.read();
        assert_eq!((counts.stale_allowed, counts.cache_fills), (12, read), "no file was read");
        told.allow(0);
        let after = site.get("/v/text.txt");
        assert_eq!((after.body[0], age(&after)), (b'n', (None, None)));
    }
}

#[test]
fn nothing_is_older_than_it_may_be_and_what_is_gone_is_gone_then() {
    let (site, told) = start(&[("v/a.txt", b"before"), ("v/b.txt", b"b"), ("v/d/c.txt", b"c")], |_| {});
    told.allow(ALLOWED_MS);
    for path in ["/v/a.txt", "/v/b.txt", "/v/d/c.txt"] {
        assert_eq!(site.get(path).status, 200);
    }
    let changed = Instant::now();
    site.write("v/a.txt", b"after");
    std::fs::remove_file(site.directory.path().join("v/b.txt")).expect("removes");
    std::fs::remove_dir_all(site.directory.path().join("v/d")).expect("removes");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(site.get("/v/a.txt").text(), "before");
    assert_eq!((site.get("/v/b.txt").text(), site.get("/v/d/c.txt").text()), ("b".to_owned(), "c".to_owned()));
    // A change after the first does not make the old content any younger.
    std::thread::sleep((Duration::from_millis(ALLOWED_MS) / 2).saturating_sub(changed.elapsed()));
    site.write("v/a.txt", b"after that");
    std::thread::sleep(Duration::from_millis(ALLOWED_MS + 100).saturating_sub(changed.elapsed()));
    let reply = site.get("/v/a.txt");
    assert_eq!((reply.text(), age(&reply)), ("after that".to_owned(), (None, None)));
    assert_eq!((site.get("/v/b.txt").status, site.get("/v/d/c.txt").status), (404, 404));
}

#[test]
fn what_no_rule_is_for_is_never_stale() {
    let (site, told) = start(&[("v/a.txt", b"a"), ("other.txt", b"before")], |_| {});
    told.allow(60_000);
    assert_eq!(site.get("/other.txt").text(), "before");
    site.write("other.txt", b"after");
    wait_until(|| site.counters.read().watch_events > 0);
    let reply = site.get("/other.txt");
    assert_eq!((reply.text(), age(&reply)), ("after".to_owned(), (None, None)));
}

#[test]
fn a_file_that_is_not_in_memory_and_was_written_to_is_sent_as_it_is() {
    let (site, told) = start(&[("v/large.bin", &[b'o'; 200_000])], |options| options.cached_file_bytes_max = 1000);
    told.allow(60_000);
    assert_eq!(site.get("/v/large.bin").body[0], b'o');
    // In its place, so that the open file has the new bytes, too.
    let path = site.directory.path().join("v/large.bin");
    std::fs::File::options().write(true).open(&path).expect("opens").write_at(&[b'n'; 200_000], 0).expect("writes");
    wait_until(|| site.counters.read().watch_events > 0);
    let reply = site.get("/v/large.bin");
    assert_eq!((&reply.body[..], age(&reply)), (&[b'n'; 200_000][..], (None, None)));
    // Another file by its name leaves the open one as it was.
    site.write("v/new", &[b'l'; 200_000]);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(site.get("/v/large.bin").body[0], b'n');
    std::fs::rename(site.directory.path().join("v/new"), &path).expect("renames");
    wait_until(|| age(&site.get("/v/large.bin")).1 == STALE);
    let reply = site.get("/v/large.bin");
    assert_eq!((&reply.body[..], age(&reply).1), (&[b'n'; 200_000][..], STALE));
}

#[test]
fn variants_and_forms_are_those_that_were_there() {
    let text = "a line of text\n".repeat(200);
    let files: &[(&str, &[u8])] =
        &[("v/t.txt", text.as_bytes()), ("v/t.small.txt", b"small"), ("v/u.txt", text.as_bytes())];
    let (site, told) = start(files, |_| {});
    told.allow(60_000);
    let coded = |path: &str| site.ask("GET", path, "Accept-Encoding: gzip\r\n");
    wait_until(|| coded("/v/t.txt").field("content-encoding") == Some("gzip"));
    assert_eq!(site.get("/v/u.txt").text(), text);
    *told.variant.lock().expect("no panic") = Some("small".into());
    assert_eq!(site.get("/v/t.txt").text(), "small");
    for name in ["v/t.txt", "v/t.small.txt", "v/u.txt"] {
        site.write(name, "another text\n".repeat(200).as_bytes());
    }
    wait_until(|| ["/v/t.txt", "/v/u.txt"].iter().all(|path| age(&site.get(path)).0.is_some()));
    let small = site.get("/v/t.txt");
    assert_eq!((small.text(), age(&small).1), ("small".to_owned(), Some("private, no-cache")));
    assert!(small.field("etag").is_some_and(|etag| etag.ends_with("~small\"")), "{:?}", small.field("etag"));
    assert_eq!(small.field("vary"), Some("Save-Data, Downlink, RTT, ECT"));
    *told.variant.lock().expect("no panic") = None;
    let (was_there, was_not) = (coded("/v/t.txt"), coded("/v/u.txt"));
    assert_eq!((was_there.field("content-encoding"), age(&was_there).1), (Some("gzip"), STALE));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((was_not.field("content-encoding"), age(&was_not).1), (None, STALE));
    assert_eq!(coded("/v/u.txt").field("content-encoding"), None, "none is made of what is stale");
    told.allow(0);
    wait_until(|| coded("/v/u.txt").field("content-encoding") == Some("gzip"));
}

#[test]
fn a_page_is_assembled_once_while_it_may_be_stale() {
    let files: &[(&str, &[u8])] = &[
        ("v/p.shtml", b"[<!--#include virtual=\"/part.txt\" -->]"),
        ("v/esi.shtml", b"{<esi:include src=\"/part.txt\"/>}"),
        ("v/own.shtml", b"<!--#echo var=\"QUERY_STRING\" -->,<!--#include virtual=\"/part.txt\" -->"),
        ("v/wrong.shtml", b"<!--#include virtual=\"/none\" -->,<!--#include virtual=\"/part.txt\" -->"),
        ("part.txt", b"1"),
    ];
    let (site, told) = start(files, |_| {});
    let assembled = || site.counters.read().pages_assembled;
    let is_fresh = |path: &str, expected: &str| {
        let reply = site.get(path);
        assert_eq!((&*reply.text(), age(&reply)), (expected, (None, None)));
    };
    is_fresh("/v/p.shtml", "[1]");
    is_fresh("/v/p.shtml", "[1]");
    assert_eq!(assembled(), 2, "each for itself without a rule");
    told.allow(60_000);
    is_fresh("/v/p.shtml", "[1]");
    is_fresh("/v/esi.shtml", "{1}");
    site.write("part.txt", b"2");
    std::thread::sleep(Duration::from_millis(1200));
    for (path, expected) in [("/v/p.shtml", "[1]"), ("/v/p.shtml?any", "[1]"), ("/v/esi.shtml", "{1}")] {
        let reply = site.get(path);
        assert_eq!((&*reply.text(), age(&reply).1), (expected, STALE));
        assert!(age(&reply).0 >= Some(1), "{:?}", age(&reply));
    }
    let head = site.ask("HEAD", "/v/p.shtml", "");
    assert_eq!((head.field("content-length"), age(&head).1), (Some("3"), STALE));
    assert_eq!(assembled(), 4);
    // What shows something of the request, or lacks a part, is made for each.
    for query in ["a", "b"] {
        is_fresh(&format!("/v/own.shtml?{query}"), &format!("{query},2"));
    }
    assert!(site.get("/v/wrong.shtml").text().ends_with("],2"));
    assert!(site.get("/v/wrong.shtml").text().ends_with("],2"));
    assert_eq!(assembled(), 8);
    // A page whose own file has changed is stale from the first on.
    site.write("v/p.shtml", b"other");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(site.get("/v/p.shtml").text(), "[1]");
    told.allow(0);
    is_fresh("/v/p.shtml", "other");
    is_fresh("/v/esi.shtml", "{2}");
    // What was kept before is forgotten: it is assembled anew when it may be stale again.
    told.allow(60_000);
    is_fresh("/v/esi.shtml", "{2}");
}

#[test]
fn a_page_is_not_older_than_it_may_be() {
    let (site, told) = start(&[("v/p.shtml", b"[<!--#include virtual=\"/part.txt\" -->]"), ("part.txt", b"1")], |_| {});
    told.allow(ALLOWED_MS);
    assert_eq!(site.get("/v/p.shtml").text(), "[1]");
    site.write("part.txt", b"2");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(site.get("/v/p.shtml").text(), "[1]");
    std::thread::sleep(Duration::from_millis(ALLOWED_MS));
    assert_eq!(site.get("/v/p.shtml").text(), "[2]");
}

const HOSTS: &str = r#"
[[host]]
root = "site"
set_headers = { Cache-Control = "max-age=3600" }
[[host.path]]
prefix = "/inner/"
allow = ["192.0.2.0/24", "127.0.0.1"]
[[host]]
names = ["other.example"]
root = "site"
[[host.path]]
prefix = "/parts/"
root = "other"
"#;

#[test]
fn no_page_goes_to_whom_it_is_not_for() {
    let files: &[(&str, &[u8])] = &[
        ("site/v/p.shtml", b"[<!--#include virtual=\"/parts/a.txt\" -->]"),
        ("site/v/inner.shtml", b"[<!--#include virtual=\"/inner/a.txt\" -->]"),
        ("site/v/a.txt", b"a"),
        ("site/parts/a.txt", b"one"),
        ("site/inner/a.txt", b"inner"),
        ("other/a.txt", b"two"),
    ];
    let (site, told) = start(files, |options| {
        let (folder, listen) = (options.root.clone(), options.listen.clone());
        *options = parse_configuration(HOSTS, &folder).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        options.listen = listen;
    });
    told.allow(60_000);
    let of_other = || {
        let request = b"GET /v/p.shtml HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n";
        Reply::parse(&site.exchange(request)).0.text()
    };
    for _ in 0..2 {
        // The same file of the same site is another page for another host.
        assert_eq!((site.get("/v/p.shtml").text(), of_other()), ("[one]".to_owned(), "[two]".to_owned()));
    }
    let assembled = site.counters.read().pages_assembled;
    assert_eq!(assembled, 2, "one for each host");
    assert_eq!(site.get("/v/inner.shtml").text(), "[inner]");
    assert_eq!(site.get("/v/inner.shtml").text(), "[inner]");
    assert_eq!(site.counters.read().pages_assembled - assembled, 2, "not every client may have its part");
    // What a configuration says of keeping is not said of what is stale alone.
    let fresh = site.get("/v/a.txt");
    assert_eq!(age(&fresh), (None, Some("max-age=3600")));
    site.write("site/v/a.txt", b"b");
    wait_until(|| age(&site.get("/v/a.txt")).0.is_some());
    let stale = site.get("/v/a.txt");
    assert_eq!((stale.text(), age(&stale).1), ("a".to_owned(), Some("no-cache, max-age=3600")));
    assert_eq!(age(&site.get("/v/p.shtml")).1, Some("no-cache, max-age=3600"));
}
