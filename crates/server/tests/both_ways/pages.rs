//! Pages assembled from other files by the directives of mod_include and ESI.

use crate::harness;

use harness::Site;

const WRONG: &str = "[an error occurred while processing this directive]";

fn page(files: &[(&str, &str)], target: &str) -> String {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
    let reply = Site::start(&files, |_| {}).get(target);
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!((reply.field("etag"), reply.field("last-modified")), (None, None), "it is made for each request");
    reply.text()
}

#[test]
fn includes_lead_to_what_the_site_serves_and_nowhere_else() {
    let outer = tempfile::tempdir().expect("a directory");
    std::fs::write(outer.path().join("secret"), "secret").expect("writes");
    let files = [
        ("head.html", "<h1>head</h1>"),
        ("sub/part.html", "part"),
        ("sub/inner.shtml", "(<!--#include virtual=\"/head.html\" -->)"),
        ("sub/index.html", "index"),
        ("with space.txt", "space"),
        (".hidden", "hidden"),
    ];
    for (directive, expected) in [
        ("<!--#include virtual=\"/head.html\" -->", "<h1>head</h1>"),
        ("<!--#include virtual=\"head.html\" -->", "<h1>head</h1>"),
        ("<!--#include file=\"sub/part.html\" -->", "part"),
        ("<!--#include virtual=\"/sub/inner.shtml\" -->", "(<h1>head</h1>)"),
        ("<!--#include virtual=\"/sub/\" -->", "index"),
        ("<!--#include virtual=\"/with%20space.txt\" -->", "space"),
        ("<!--#set var=\"D\" value=\"sub\" --><!--#include virtual=\"/$D/part.html\" -->", "part"),
        ("<esi:include src=\"/sub/part.html\"/><esi:remove>old</esi:remove>", "part"),
        ("<!--#include virtual=\"/none\" -->", WRONG),
        ("<!--#include virtual=\"/sub\" -->", WRONG),
        ("<!--#include virtual=\"/.hidden\" -->", WRONG),
        ("<!--#include virtual=\"/%2e%2e/secret\" -->", WRONG),
        ("<!--#include virtual=\"../secret\" -->", WRONG),
        ("<!--#include file=\"../secret\" -->", WRONG),
        ("<!--#include file=\"/head.html\" -->", WRONG),
        ("<!--#exec cmd=\"id\" -->", WRONG),
    ] {
        let source = format!("a{directive}b");
        let with_page = [&files[..], &[("p.shtml", source.as_str())]].concat();
        assert_eq!(page(&with_page, "/p.shtml"), format!("a{expected}b"), "{directive}");
    }
}

#[test]
fn variables_and_conditions_follow_the_request() {
    let source = "<!--#set var=\"A\" value=\"<$QUERY_STRING>\" -->\
        <!--#echo var=\"A\" -->,<!--#echo encoding=\"none\" var=\"A\" -->,<!--#echo var=\"NONE\" -->,\
        <!--#echo var=\"DOCUMENT_NAME\" -->,<!--#echo var=\"DOCUMENT_URI\" -->,\
        <!--#if expr=\"$QUERY_STRING = x\" -->one<!--#if expr=\"$NONE\" -->no<!--#else -->two<!--#endif -->\
        <!--#elif expr=\"$QUERY_STRING = y\" -->three<!--#else -->four<!--#endif -->";
    let files = [("d/p.shtml", source)];
    let both = "(none),p.shtml,/d/p.shtml";
    assert_eq!(page(&files, "/d/p.shtml?x"), format!("&lt;x&gt;,<x>,{both},onetwo"));
    assert_eq!(page(&files, "/d/p.shtml?y"), format!("&lt;y&gt;,<y>,{both},three"));
    assert_eq!(page(&files, "/d/p.shtml"), format!("&lt;&gt;,<>,{both},four"));
    // What is set in a part is known after it, and parts know what was set before.
    let parts = [
        ("p.shtml", "<!--#set var=\"A\" value=\"1\" --><!--#include virtual=\"q.shtml\" --><!--#echo var=\"B\" -->"),
        ("q.shtml", "<!--#echo var=\"A\" --><!--#set var=\"B\" value=\"${A}2\" -->"),
    ];
    assert_eq!(page(&parts, "/p.shtml"), "112");
    assert_eq!(page(&[("p.shtml", "<!--#else --><!--#endif -->x")], "/p.shtml"), format!("{WRONG}{WRONG}x"));
}

#[test]
fn circles_and_floods_come_to_an_end() {
    let files: &[(&str, &[u8])] = &[
        ("a.shtml", b"a<!--#include virtual=\"/b.shtml\" -->"),
        ("b.shtml", b"b<!--#include virtual=\"/a.shtml\" -->"),
        ("self.shtml", b"s<!--#include virtual=\"/self.shtml\" -->"),
    ];
    let site = Site::start(files, |_| {});
    assert_eq!(site.get("/a.shtml").text(), format!("ab{WRONG}"));
    assert_eq!(site.get("/self.shtml").text(), format!("s{WRONG}"));
    assert_eq!(site.counters.read().include_errors, 2);
    for i in 0..20 {
        site.write(&format!("d{i}.shtml"), format!("{i},<!--#include virtual=\"/d{}.shtml\" -->", i + 1).as_bytes());
    }
    assert!(site.get("/d0.shtml").text().ends_with(&format!("15,{WRONG}")));
    // Each level includes the next one ten times: ten to the twelfth parts.
    for i in 0..12 {
        let line = format!("<!--#include virtual=\"/e{}.shtml\" -->", i + 1);
        site.write(&format!("e{i}.shtml"), line.repeat(10).as_bytes());
    }
    site.write("e12.shtml", b"x");
    let flood = site.get("/e0.shtml");
    assert!(flood.status == 200 && flood.body.len() < 1 << 20);
    let doubling: String = (0..60).map(|_| "<!--#set var=\"A\" value=\"$A$A$A$A$A$A$A$A-\" -->").collect();
    site.write("f.shtml", format!("{doubling}<!--#echo var=\"A\" -->").as_bytes());
    assert_eq!(site.get("/f.shtml").body.len(), 64 << 10);
}

#[test]
fn a_changed_part_is_in_the_next_page() {
    let site = Site::start(&[("p.shtml", b"[<!--#include virtual=\"/part.txt\" -->]"), ("part.txt", b"1")], |_| {});
    for i in 0..50 {
        site.write("part.txt", format!("part {i}").as_bytes());
        assert_eq!(site.get("/p.shtml").text(), format!("[part {i}]"));
    }
    let head = site.ask("HEAD", "/p.shtml", "");
    assert_eq!((head.field("content-length"), head.body.len()), (Some("9"), 0));
    let off = Site::start(&[("p.shtml", b"<!--#echo var=\"A\" -->")], |options| options.includes = false);
    assert_eq!(off.get("/p.shtml").text(), "<!--#echo var=\"A\" -->");
}

#[test]
fn parts_and_pages_that_are_not_held_in_memory_are_read() {
    // Beyond the bound for files in memory, and beyond that for pages.
    let part = "part\n".repeat(20_000);
    let page = format!("[<!--#include virtual=\"/part.txt\" -->{}]", "x".repeat(50_000));
    let large = format!("[<!--#include virtual=\"/part.txt\" -->{}]", "x".repeat(2 << 20));
    let site = Site::start(
        &[("p.shtml", page.as_bytes()), ("l.shtml", large.as_bytes()), ("part.txt", part.as_bytes())],
        |_| {},
    );
    assert!(site.get("/p.shtml").text() == format!("[{part}{}]", "x".repeat(50_000)));
    assert!(site.get("/l.shtml").text() == format!("[{part}{}]", "x".repeat(2 << 20)));
    site.write("part.txt", b"other");
    assert!(site.get("/p.shtml").text() == format!("[other{}]", "x".repeat(50_000)));
    site.write("part.txt", &vec![b'y'; 16 << 20]);
    let beyond = site.get("/p.shtml").text();
    assert!(beyond.starts_with(&format!("[{WRONG}xxx")), "{} bytes", beyond.len());
}

#[test]
fn a_file_is_included_by_the_name_that_it_has() {
    let files = [("100%.txt", "percent"), ("a#b?c.txt", "signs"), ("%61.txt", "not decoded")];
    for (name, text) in files {
        let source = format!("<!--#include file=\"{name}\" -->");
        assert_eq!(page(&[&files[..], &[("p.shtml", source.as_str())]].concat(), "/p.shtml"), text, "{name}");
    }
}

#[test]
fn a_part_that_appears_behind_a_link_is_in_a_page_within_a_second() {
    let page = br#"<!--#include virtual="/link.txt" -->"#;
    let site = Site::start(&[("page.shtml", page), ("sub/other.txt", b"other")], |_| {});
    std::os::unix::fs::symlink("sub/later.txt", site.directory.path().join("link.txt")).expect("links");
    assert!(!site.get("/page.shtml").text().contains("here"));
    site.write("sub/later.txt", b"here");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(site.get("/page.shtml").text(), "here");
}
