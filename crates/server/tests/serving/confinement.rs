//! No path and no link makes the server serve a file outside the root.

use crate::harness;

use harness::{Reply, Site};
use std::os::unix::fs::symlink;

#[test]
fn no_spelling_of_a_path_leaves_the_root() {
    let site = Site::start(&[("www/a.txt", b"inside"), ("secret.txt", b"SECRET")], |options| {
        options.root = options.root.join("www");
    });
    for target in [
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/secret.txt",
        "/.%2e/secret.txt",
        "/%2E%2E%2Fsecret.txt",
        "/a/../../secret.txt",
        "/./../secret.txt",
        "//../secret.txt",
        "/..//secret.txt",
        "/..\\secret.txt",
        "/..%5csecret.txt",
        "/..%00/secret.txt",
        "/a.txt%00.html",
        "/%252e%252e/secret.txt",
        "/..;/secret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "http://a/../secret.txt",
        "http://a/%2e%2e/secret.txt",
        "/proc/self/environ",
        "../secret.txt",
        "secret.txt",
        "file:///etc/passwd",
    ] {
        let bytes = site.exchange(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
        let reply = Reply::parse(&bytes).0;
        assert!(matches!(reply.status, 400 | 404), "{target}: {}", reply.status);
        assert!(!reply.text().contains("SECRET"), "{target}");
    }
    assert_eq!(site.get("/a.txt").text(), "inside");
}

#[test]
fn links_are_followed_inside_the_root_only() {
    let site = Site::start(
        &[("www/a.txt", b"inside"), ("www/d/b.txt", b"b"), ("secret.txt", b"SECRET"), ("out/x.txt", b"SECRET")],
        |options| options.root = options.root.join("www"),
    );
    let www = site.directory.path().join("www");
    symlink("a.txt", www.join("good")).expect("links");
    symlink("d", www.join("good-dir")).expect("links");
    symlink("../a.txt", www.join("d/up-but-inside")).expect("links");
    symlink("../secret.txt", www.join("up")).expect("links");
    symlink("../out", www.join("out")).expect("links");
    symlink(site.directory.path().join("secret.txt"), www.join("absolute")).expect("links");
    symlink("/proc/self/root/etc/passwd", www.join("magic")).expect("links");
    symlink("loop", www.join("loop")).expect("links");
    for good in ["/good", "/d/up-but-inside"] {
        assert_eq!(site.get(good).text(), "inside", "{good}");
    }
    assert_eq!(site.get("/good-dir/b.txt").text(), "b");
    for bad in ["/up", "/out/x.txt", "/out/", "/absolute", "/magic", "/loop"] {
        assert_eq!(site.get(bad).status, 404, "{bad}");
    }
    let page = site.get("/").text();
    assert!(page.contains("./good\"") && page.contains("./good-dir/\""), "{page}");
    assert!(!page.contains("./up\"") && !page.contains("absolute") && !page.contains("loop"), "{page}");
}

#[test]
fn a_link_that_is_turned_outward_later_is_refused_within_a_second() {
    let site = Site::start(&[("www/a.txt", b"inside"), ("secret.txt", b"SECRET")], |options| {
        options.root = options.root.join("www");
    });
    let link = site.directory.path().join("www/link.txt");
    symlink("a.txt", &link).expect("links");
    assert_eq!(site.get("/link.txt").text(), "inside");
    std::fs::remove_file(&link).expect("removes");
    symlink("../secret.txt", &link).expect("links");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(site.get("/link.txt").status, 404);
}

#[test]
fn what_is_neither_file_nor_directory_is_not_opened_for_long() {
    let site = Site::start(&[("a.txt", b"a")], |_| {});
    let path = std::ffi::CString::new(site.directory.path().join("pipe").into_os_string().into_encoded_bytes());
    // SAFETY: the path is terminated and lives over the call.
    let made = unsafe { libc::mkfifo(path.expect("no zero byte").as_ptr(), 0o600) };
    assert_eq!(made, 0);
    assert_eq!(site.get("/pipe").status, 404);
    assert_eq!(site.get("/a.txt").text(), "a", "the loop is not held up");
}
