//! Listings of directories: kept in memory, and still up to date.
// scripts/test: waits

mod harness;

use harness::Site;
use std::os::unix::fs::symlink;
use std::time::Duration;

/// The names on a page, in its order.
fn names(page: &str) -> Vec<&str> {
    page.split("<a href=\"./").skip(1).map(|rest| rest.split('"').next().unwrap_or_default()).collect()
}

#[test]
fn a_change_shows_at_once() {
    let site = Site::start(&[("list/a.txt", b"a"), ("list/b.txt", b"b")], |_| {});
    let at = |name: &str| site.directory.path().join("list").join(name);
    for query in ["", "?sort=size", "?sort=modified&order=desc"] {
        let target = format!("/list/{query}");
        let page = || site.get(&target).text();
        // Twice: the second is the one that was kept.
        assert_eq!(page(), page());
        std::fs::write(at("c.txt"), "new").expect("writes");
        assert!(names(&page()).contains(&"c.txt"), "{query}");
        std::fs::write(at("c.txt"), vec![0; 3000]).expect("writes");
        assert!(page().contains(">c.txt</a><td>2.9 KiB<"), "{query}: {}", page());
        std::fs::rename(at("c.txt"), at("d.txt")).expect("renames");
        assert!(names(&page()).contains(&"d.txt") && !names(&page()).contains(&"c.txt"), "{query}");
        std::fs::remove_file(at("d.txt")).expect("removes");
        assert!(!names(&page()).contains(&"d.txt"), "{query}");
        std::fs::write(at("index.html"), "an index").expect("writes");
        assert_eq!(page(), "an index");
        std::fs::remove_file(at("index.html")).expect("removes");
        assert_eq!(names(&page()).len(), 2);
    }
    // The way to it may change as well.
    std::fs::rename(site.directory.path().join("list"), site.directory.path().join("other")).expect("renames");
    assert_eq!((site.get("/list/").status, names(&site.get("/other/").text()).len()), (404, 2));
}

#[test]
fn what_the_kernel_does_not_tell_shows_within_a_second() {
    let files: [(&str, &[u8]); 3] = [("list/a.txt", b"a"), ("list/sub/b.txt", b"b"), ("far.txt", b"far")];
    let site = Site::start(&files, |_| {});
    symlink("../far.txt", site.directory.path().join("list/link.txt")).expect("links");
    let page = || site.get("/list/").text();
    assert!(page().contains(">link.txt</a><td>3 B<"));
    std::fs::write(site.directory.path().join("far.txt"), vec![0; 3000]).expect("writes");
    std::thread::sleep(Duration::from_millis(1100));
    assert!(page().contains(">link.txt</a><td>2.9 KiB<"), "{}", page());
}

#[test]
fn the_largest_of_many_is_shown() {
    let site = Site::start(&[("list/a.txt", b"a")], |_| {});
    let list = site.directory.path().join("list");
    for number in 0..5000 {
        std::fs::write(list.join(format!("{number:04}")), b"x").expect("writes");
    }
    std::fs::write(list.join("zz-largest"), vec![0; 100]).expect("writes");
    let page = site.get("/list/?sort=size&order=desc").text();
    assert_eq!(names(&page)[0], "zz-largest");
    assert!(page.contains("906 more are not shown"), "{}", &page[page.len() - 100..]);
    let by_name = site.get("/list/").text();
    assert_eq!((names(&by_name)[0], names(&by_name).len()), ("0000", 4096));
}

#[test]
fn pages_are_part_of_the_cache_and_go_where_others_want_the_room() {
    let files: Vec<(String, Vec<u8>)> = (0..40).map(|number| (format!("{number}/file"), vec![7; 1000])).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    let site = Site::start(&files, |options| options.cache_bytes_max = 30_000);
    for round in 0..3 {
        for number in 0..40 {
            assert_eq!(names(&site.get(&format!("/{number}/")).text()), ["file"], "{round}");
            assert_eq!(site.get(&format!("/{number}/file")).body.len(), 1000, "{round}");
        }
    }
    let counts = site.counters.read();
    assert!(counts.cache_evictions > 0, "{counts:?}");
}
