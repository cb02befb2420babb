//! Content codings (RFC 9110 sections 8.4, 8.8.3.3, 12.5.3 and 14): what a client takes is what it gets, and each form
//! has validators and ranges of its own.

use crate::harness;

use harness::{Reply, Site};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

/// Text that gets smaller, but not to nothing.
fn text() -> String {
    (0..4000).map(|i| format!("<p>paragraph {} of {}</p>\n", i * 7919 % 4001, i)).collect()
}

fn decoded(reply: &Reply) -> Vec<u8> {
    let mut out = Vec::new();
    let body = reply.body.as_slice();
    let decoded = match reply.field("content-encoding") {
        None => return reply.body.clone(),
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut out),
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_end(&mut out),
        Some("zstd") => zstd::Decoder::new(body).and_then(|mut decoder| decoder.read_to_end(&mut out)),
        Some(other) => panic!("{other}"),
    };
    decoded.expect("decodes");
    out
}

/// Asks until the form is there.
fn coded(site: &Site, path: &str, accept: &str, coding: &str) -> Reply {
    let begin = Instant::now();
    loop {
        let reply = site.ask("GET", path, &format!("Accept-Encoding: {accept}\r\n"));
        assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
        if reply.field("content-encoding") == Some(coding) {
            return reply;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{coding} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn each_form_is_made_once_and_is_a_representation_of_its_own() {
    let text = text();
    let site = Site::start(&[("a.html", text.as_bytes())], |options| options.cached_file_bytes_max = 1 << 20);
    let plain = site.get("/a.html");
    assert_eq!((plain.text(), plain.field("content-encoding")), (text.clone(), None));
    assert_eq!(plain.field("vary"), Some("Accept-Encoding"), "caches must know, of the plain form too");
    let mut etags = vec![plain.field("etag").expect("a tag").to_owned()];
    for coding in ["gzip", "br", "zstd"] {
        let reply = coded(&site, "/a.html", coding, coding);
        assert_eq!(decoded(&reply), text.as_bytes(), "{coding}");
        assert!(reply.body.len() < text.len() / 3, "{coding}: {} of {}", reply.body.len(), text.len());
        assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(reply.field("last-modified"), plain.field("last-modified"));
        let etag = reply.field("etag").expect("a tag").to_owned();
        assert!(etag.starts_with('"') && !etags.contains(&etag), "{etag} of {etags:?}");
        let fields = format!("Accept-Encoding: {coding}\r\n");
        let again = site.ask("GET", "/a.html", &fields);
        assert_eq!((again.field("etag"), &again.body), (Some(etag.as_str()), &reply.body));
        // HEAD says what GET would.
        let head = site.ask("HEAD", "/a.html", &fields);
        assert!(head.body.is_empty());
        for (name, value) in reply.fields.iter().filter(|field| field.0 != "date") {
            assert_eq!(head.field(name), Some(value.as_str()), "HEAD differs from GET in {name}");
        }
        // A range is one of the form's bytes (section 14.2), and its validator that of the form.
        let range = site.ask("GET", "/a.html", &format!("{fields}Range: bytes=100-199\r\nIf-Range: {etag}\r\n"));
        assert_eq!((range.status, range.field("content-encoding")), (206, Some(coding)));
        assert_eq!(range.field("content-range"), Some(format!("bytes 100-199/{}", reply.body.len()).as_str()));
        assert_eq!((range.body.as_slice(), range.field("vary")), (&reply.body[100..200], Some("Accept-Encoding")));
        let several = site.ask("GET", "/a.html", &format!("{fields}Range: bytes=0-9,50-59\r\n"));
        assert_eq!((several.status, several.field("content-encoding")), (206, Some(coding)));
        let with_plain = format!("{fields}Range: bytes=100-199\r\nIf-Range: {}\r\n", etags[0]);
        assert_eq!(site.ask("GET", "/a.html", &with_plain).status, 200, "a tag of another form");
        let end = format!("{fields}Range: bytes={}-\r\n", reply.body.len());
        let beyond = site.ask("GET", "/a.html", &end);
        assert_eq!(beyond.status, 416);
        assert_eq!(beyond.field("content-range"), Some(format!("bytes */{}", reply.body.len()).as_str()));
        let same = site.ask("GET", "/a.html", &format!("{fields}If-None-Match: {etag}\r\n"));
        assert_eq!((same.status, same.field("etag")), (304, Some(etag.as_str())));
        assert_eq!((same.field("vary"), same.field("content-encoding")), (Some("Accept-Encoding"), None));
        let other = site.ask("GET", "/a.html", &format!("If-None-Match: {etag}\r\n"));
        assert_eq!((other.status, other.field("content-encoding")), (200, None), "the client takes no coding now");
        assert_eq!(site.ask("GET", "/a.html", &format!("If-Match: {etag}\r\n")).status, 412);
        assert_eq!(site.ask("GET", "/a.html", &format!("{fields}If-Match: {etag}\r\n")).status, 200);
        etags.push(etag);
    }
    let best = site.ask("GET", "/a.html", "Accept-Encoding: gzip, deflate, br, zstd\r\n");
    assert_eq!(best.field("content-encoding"), Some("br"));
    let weighed = site.ask("GET", "/a.html", "Accept-Encoding: br;q=0.5, gzip;q=0.8, zstd;q=0\r\n");
    assert_eq!(weighed.field("content-encoding"), Some("gzip"));
    for refused in ["identity", "gzip;q=0", "compress", ""] {
        let reply = site.ask("GET", "/a.html", &format!("Accept-Encoding: {refused}\r\n"));
        assert_eq!((reply.status, reply.field("content-encoding")), (200, None), "{refused}");
    }
    assert_eq!(site.counters.read().cache_fills, 1);
}

#[test]
fn what_is_small_or_compressed_already_is_sent_as_it_is() {
    let files: &[(&str, &[u8])] = &[("small.html", b"<p>small"), ("a.png", &[0; 5000]), ("empty.html", b"")];
    let site = Site::start(files, |_| {});
    for path in ["/small.html", "/a.png", "/empty.html"] {
        for _ in 0..20 {
            let reply = site.ask("GET", path, "Accept-Encoding: gzip, br, zstd\r\n");
            assert_eq!((reply.status, reply.field("content-encoding"), reply.field("vary")), (200, None, None));
        }
    }
    let text = text();
    let off = Site::start(&[("a.html", text.as_bytes()), ("a.html.gz", b"gz")], |options| {
        options.compression.on_the_fly = false;
        options.compression.neighbours = false;
    });
    let reply = off.ask("GET", "/a.html", "Accept-Encoding: gzip\r\n");
    assert_eq!((reply.field("content-encoding"), reply.field("vary")), (None, None));
}

#[test]
fn neighbours_that_were_compressed_beforehand_come_first() {
    let text = text();
    let site = Site::start(&[("a.css", text.as_bytes()), ("b.bin", b"plain")], |_| {});
    let at = |name: &str| site.directory.path().join(name);
    let ask = |path: &str, accept: &str| site.ask("GET", path, &format!("Accept-Encoding: {accept}\r\n"));
    assert_eq!(site.get("/b.bin").field("vary"), None);
    site.write("a.css.gz", b"as gzip");
    site.write("a.css.br", b"as brotli");
    site.write("b.bin.zst", b"as zstd");
    for (path, accept, coding, body) in [
        ("/a.css", "gzip", Some("gzip"), "as gzip"),
        ("/a.css", "gzip, br", Some("br"), "as brotli"),
        ("/a.css", "gzip, br;q=0.1", Some("gzip"), "as gzip"),
        ("/a.css", "zstd, gzip;q=0.1", Some("gzip"), "as gzip"),
        ("/b.bin", "zstd", Some("zstd"), "as zstd"),
        ("/b.bin", "gzip", None, "plain"),
        ("/b.bin", "", None, "plain"),
    ] {
        let reply = ask(path, accept);
        assert_eq!((reply.field("content-encoding"), reply.text().as_str()), (coding, body), "{path} {accept}");
        assert_eq!(reply.field("vary"), Some("Accept-Encoding"), "{path} {accept}");
    }
    assert_eq!(site.get("/a.css.gz").field("content-encoding"), None, "by its own name it is a file");
    site.write("a.css.gz", b"another gzip");
    assert_eq!(ask("/a.css", "gzip").text(), "another gzip");
    std::fs::remove_file(at("a.css.br")).expect("removes");
    assert_eq!(ask("/a.css", "gzip, br").text(), "another gzip");
    // A file newer than its neighbour: that was made of another one.
    std::thread::sleep(Duration::from_millis(20));
    site.write("a.css", b"changed");
    let reply = ask("/a.css", "gzip");
    assert_eq!((reply.field("content-encoding"), reply.text().as_str()), (None, "changed"));
    // Neither leads a neighbour out of the root.
    let outer = tempfile::tempdir().expect("a directory");
    std::fs::write(outer.path().join("secret"), "secret").expect("writes");
    symlink(outer.path().join("secret"), at("b.bin.gz")).expect("links");
    assert_eq!(ask("/b.bin", "gzip").text(), "plain");
}

#[test]
fn a_change_ends_all_forms() {
    let text = text();
    let site = Site::start(&[("a.html", text.as_bytes())], |_| {});
    let before = coded(&site, "/a.html", "gzip", "gzip");
    let changed = text.replace("paragraph", "PARAGRAPH");
    site.write("a.html", changed.as_bytes());
    let at_once = site.ask("GET", "/a.html", "Accept-Encoding: gzip\r\n");
    assert_eq!(decoded(&at_once), changed.as_bytes());
    let after = coded(&site, "/a.html", "gzip", "gzip");
    assert_eq!(decoded(&after), changed.as_bytes());
    assert_ne!(before.field("etag"), after.field("etag"));
}

#[test]
fn forms_stay_within_the_bound_of_the_cache() {
    let text = text();
    let names: Vec<String> = (0..40).map(|i| format!("{i}.html")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), text.as_bytes())).collect();
    let site = Site::start(&files, |options| {
        options.cache_bytes_max = 2 << 20;
        options.cached_file_bytes_max = 1 << 20;
    });
    for name in &names {
        coded(&site, &format!("/{name}"), "gzip", "gzip");
    }
    assert!(site.counters.read().cache_evictions > 0);
}

#[test]
fn what_is_not_held_in_memory_is_compressed_too() {
    // With the bound as it is: larger than what is held, and smaller than what is compressed.
    let text = text().repeat(2);
    assert!((100 << 10..1 << 20).contains(&text.len()), "{} bytes", text.len());
    let site = Site::start(&[("a.html", text.as_bytes())], |_| {});
    for coding in ["gzip", "br", "zstd"] {
        let reply = coded(&site, "/a.html", coding, coding);
        assert_eq!(decoded(&reply), text.as_bytes(), "{coding}");
        assert!(reply.body.len() < text.len() / 3);
    }
    assert_eq!(site.counters.read().cache_fills, 0, "no loop has read it");
    // Beyond what is compressed.
    let large = text.repeat(5);
    site.write("large.html", large.as_bytes());
    for _ in 0..5 {
        let reply = site.ask("GET", "/large.html", "Accept-Encoding: gzip\r\n");
        assert!(reply.field("content-encoding").is_none() && reply.text() == large);
    }
}

#[test]
fn a_file_that_changes_while_it_is_compressed_never_gives_another_ones_form() {
    let of = |version: usize| text().replace("paragraph", &format!("paragraph-{version:02}")).repeat(2);
    let site = Site::start(&[("a.html", of(0).as_bytes())], |_| {});
    let at = |name: &str| site.directory.path().join(name);
    let mut was_coded = 0;
    for version in 0..30 {
        if version % 2 == 0 {
            // Renamed over, and written in place while it is being read: of the same length.
            site.write("new", of(version).as_bytes());
            std::fs::rename(at("new"), at("a.html")).expect("renames");
        } else {
            site.write("a.html", of(version).as_bytes());
        }
        let expected = of(version);
        // Some versions stay until their other form is there; the others change before or while it is made.
        let stays = version % 5 == 4;
        for _ in 0..if stays { 2000 } else { 6 } {
            let reply = site.ask("GET", "/a.html", "Accept-Encoding: gzip\r\n");
            let is_coded = reply.field("content-encoding").is_some();
            was_coded += usize::from(is_coded);
            assert!(decoded(&reply) == expected.as_bytes(), "version {version}");
            if stays && is_coded {
                break;
            }
        }
    }
    let last = coded(&site, "/a.html", "gzip", "gzip");
    assert!(decoded(&last) == of(29).as_bytes() && was_coded > 0, "{was_coded} forms");
}
