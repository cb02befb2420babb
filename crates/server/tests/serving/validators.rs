//! Entity tags and dates: what a client has is told apart from what there is.

use crate::harness;

use harness::{Reply, Site, wait_until};
use std::fs::{File, FileTimes};
use std::time::{Duration, SystemTime};

/// As Nix, images of containers and `tar --mtime` have it for all their files.
const ALWAYS: Duration = Duration::from_secs(1);

/// Puts a file in the place of another one as a deployment does: beside it, with its time set, and renamed.
fn deploy(site: &Site, name: &str, content: &[u8]) {
    site.write("new", content);
    let at = |name: &str| site.directory.path().join(name);
    let file = File::options().write(true).open(at("new")).expect("opens");
    let then = SystemTime::UNIX_EPOCH + ALWAYS;
    file.set_times(FileTimes::new().set_modified(then)).expect("sets");
    std::fs::rename(at("new"), at(name)).expect("renames");
}

fn tag(reply: &Reply) -> String {
    reply.field("etag").expect("a tag").to_owned()
}

/// Both sizes: of a file that is held in memory, and of one that is sent from where it lies.
fn contents() -> [(&'static str, Vec<u8>, Vec<u8>); 2] {
    [("small.txt", b"AAAAAAAAAA".to_vec(), b"BBBBBBBBBB".to_vec()), ("large.bin", vec![1; 100_000], vec![2; 100_000])]
}

#[test]
fn other_content_of_the_same_time_and_size_has_another_tag() {
    // RFC 9110 sections 8.8.1, 8.8.3 and 13.1.5.
    let site = Site::start(&[], |_| {});
    for (name, one, other) in contents() {
        let path = format!("/{name}");
        deploy(&site, name, &one);
        let first = site.get(&path);
        let (before, date) = (tag(&first), first.field("last-modified").expect("a date").to_owned());
        assert!(!before.starts_with("W/"), "{before}");
        assert_eq!(site.ask("GET", &path, &format!("If-None-Match: {before}\r\n")).status, 304);
        assert_eq!(site.ask("GET", &path, &format!("If-Range: {before}\r\nRange: bytes=5-\r\n")).status, 206);
        deploy(&site, name, &other);
        wait_until(|| site.get(&path).body == other);
        assert_ne!(tag(&site.get(&path)), before, "{name}");
        assert_eq!(site.ask("GET", &path, &format!("If-None-Match: {before}\r\n")).status, 200, "{name}");
        assert_eq!(site.ask("GET", &path, &format!("If-Match: {before}\r\n")).status, 412, "{name}");
        for validator in [before.as_str(), date.as_str()] {
            let part = site.ask("GET", &path, &format!("If-Range: {validator}\r\nRange: bytes=5-\r\n"));
            assert_eq!((part.status, &part.body), (200, &other), "{name} {validator}");
        }
    }
}

#[test]
fn forms_of_other_content_have_other_tags() {
    let site = Site::start(&[], |_| {});
    let fields = "Accept-Encoding: gzip\r\n";
    // What lies beside a file, of the same size and time as the one before.
    let mut tags = Vec::new();
    for packed in [b"packed one", b"packed two"] {
        deploy(&site, "a.txt", b"plain");
        deploy(&site, "a.txt.gz", packed);
        wait_until(|| site.ask("GET", "/a.txt", fields).body == packed);
        tags.push(tag(&site.ask("GET", "/a.txt", fields)));
    }
    // What is made here.
    for letter in ["a", "b"] {
        deploy(&site, "b.txt", letter.repeat(5000).as_bytes());
        let has_it = |reply: &Reply| reply.field("content-encoding") == Some("gzip") && !tags.contains(&tag(reply));
        wait_until(|| has_it(&site.ask("GET", "/b.txt", fields)));
        tags.push(tag(&site.ask("GET", "/b.txt", fields)));
    }
    tags.push(tag(&site.get("/b.txt")));
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 5, "{tags:?}");
}

#[test]
fn copies_of_what_is_held_in_memory_have_one_tag_on_all_nodes() {
    let [one, other] = [0, 1].map(|_| Site::start(&[("a.txt", b"the same")], |_| {}));
    assert_eq!(tag(&one.get("/a.txt")), tag(&other.get("/a.txt")));
    one.write("b.txt", b"the same");
    assert_eq!(tag(&one.get("/a.txt")), tag(&one.get("/b.txt")), "the content is the same");
}

#[test]
fn lines_of_one_list_are_weighed_together() {
    // RFC 9110 section 5.3.
    let site = Site::start(&[("a.txt", b"content"), ("b.txt", b"plain"), ("b.txt.gz", b"packed")], |_| {});
    let tag = tag(&site.get("/a.txt"));
    for (fields, expected) in [
        (format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: \"x\"\r\nX: y\r\nIf-None-Match: \"z\", {tag}\r\n"), 304),
        ("If-None-Match: \"x\"\r\nIf-None-Match: \"y\"\r\n".to_owned(), 200),
        (format!("If-Match: \"x\"\r\nIf-Match: {tag}\r\n"), 200),
        ("If-Match: \"x\"\r\nIf-Match: \"y\"\r\n".to_owned(), 412),
        (format!("If-Range: {tag}\r\nIf-Range: {tag}\r\nRange: bytes=0-1\r\n"), 200),
    ] {
        assert_eq!(site.ask("GET", "/a.txt", &fields).status, expected, "{fields}");
    }
    for fields in
        ["Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n", "Accept-Encoding: x\r\nAccept-Encoding: y, gzip\r\n"]
    {
        assert_eq!(site.ask("GET", "/b.txt", fields).body, b"packed", "{fields}");
    }
    let refused = "Accept-Encoding: gzip;q=0\r\nAccept-Encoding: br\r\n";
    assert_eq!(site.ask("GET", "/b.txt", refused).body, b"plain");
}

#[test]
fn a_file_whose_ending_means_a_coding_says_so_and_gets_no_second_one() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all("<svg/>".repeat(1000).as_bytes()).expect("writes");
    let packed = encoder.finish().expect("ends");
    let files = [("a.svgz", packed.as_slice()), ("plain.svgz", b"<svg/>"), ("a.tar.gz", packed.as_slice())];
    let site = Site::start(&files, |_| {});
    let fields = "Accept-Encoding: gzip, br, zstd\r\n";
    let look = |path: &str| {
        let reply = site.ask("GET", path, fields);
        let field = |name| reply.field(name).map(str::to_owned);
        (field("content-type").expect("a type"), field("content-encoding"), reply.body)
    };
    for _ in 0..2 {
        assert_eq!(look("/a.svgz"), ("image/svg+xml".to_owned(), Some("gzip".to_owned()), packed.clone()));
        assert_eq!(look("/plain.svgz"), ("image/svg+xml".to_owned(), None, b"<svg/>".to_vec()), "no gzip in truth");
        assert_eq!(look("/a.tar.gz"), ("application/gzip".to_owned(), None, packed.clone()));
        std::thread::sleep(Duration::from_millis(100));
    }
    let part = site.ask("GET", "/a.svgz", &format!("{fields}Range: bytes=0-1\r\n"));
    assert_eq!((part.status, part.field("content-encoding"), part.body.as_slice()), (206, Some("gzip"), &packed[..2]));
}
